"""The databases of the managers: are they there, can they be written, and does anything wait in them for delivery."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from ..model.findings import Check, ok, problem, warning
from ..trust.identity import Role
from .network import answers

_OLD_S = 300.0
_PATIENCE_S = 2.0
_POSTGRES_PORT = 5432


def database(role: Role, url: str, now: float) -> list[Check]:
    """``url`` as in headway.toml, ``now`` epoch seconds. It changes nothing, and takes no lock that a service needs."""
    name, parts = f"database of {role}", urlsplit(url)
    if parts.scheme.startswith("postgres"):
        host, port = parts.hostname or "localhost", parts.port or _POSTGRES_PORT
        why = answers(host, port)
        if why:
            return [
                problem(
                    name,
                    f"PostgreSQL at {host}:{port} can't be reached ({why}).",
                    "Start it, and open its port in the firewalls between.",
                )
            ]
        return [ok(name, f"PostgreSQL at {host}:{port} answers.")]
    # sqlite:///relative and sqlite:////absolute
    path = Path(unquote(parts.path[1:]) if parts.scheme == "sqlite" else url)
    if not path.exists():
        return [_before_the_first_start(name, path)]
    for one in (path.parent, path):
        if not os.access(one, os.W_OK):
            return [
                problem(
                    name,
                    f"{one} can't be written by uid {os.geteuid()}.",
                    f"Run this as the user of the services. If that was root: mount the disk of {path} for writing.",
                )
            ]
    try:
        # Only to read: what the service writes at this moment, and its files beside, stay as they are.
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=_PATIENCE_S)
        ) as connection:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            waiting = _waiting(connection) if "outbox" in tables else []
    except sqlite3.Error as error:
        return [
            problem(
                name,
                f"{path} can't be read: {error}.",
                "Stop the service, keep a copy of the file, and take back the last back-up.",
            )
        ]
    found = [ok(name, f"{path} can be read and written.")]
    return [*found, *(_backlog(role, target, count, now - oldest) for target, count, oldest in waiting)]


def _waiting(connection: sqlite3.Connection) -> list[tuple[str, int, float]]:
    rows = connection.execute("SELECT target, count(*), min(created_at) FROM outbox GROUP BY target").fetchall()
    return [(str(target), int(count), float(oldest)) for target, count, oldest in rows]


def _backlog(role: Role, target: str, count: int, age_s: float) -> Check:
    name, shown = f"events of {role} for {target}", f"{count} wait for delivery, the oldest for {max(age_s, 0):.0f} s"
    if age_s <= _OLD_S:
        return ok(name, f"{shown}.")
    return warning(
        name, f"{shown}.", f"{target} does not take them: see whether it runs, and what its log says. None is lost."
    )


def _before_the_first_start(name: str, path: Path) -> Check:
    folder = next((one for one in path.parents if one.exists()), Path("/"))
    if os.access(folder, os.W_OK):
        return ok(name, f"{path} is made at the first start.")
    return problem(name, f"{path} can't be made: {folder} can't be written.", "Run this as the user of the services.")
