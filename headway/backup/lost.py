"""What the shared mount has of the time after a backup, which the restored databases do not know."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from sqlalchemy import create_engine, inspect, text

from ..ids import is_job_id
from ..mount import Layout
from ..store.database import parse_url
from .parts import DatabasePlace

_TOLD = 5


def jobs_that_came_later(place: DatabasePlace, layout: Layout) -> list[str]:
    """Ids of jobs that have a folder on the mount and that JobManager does not know. ``place``: of JobManager."""
    try:
        folders = {name for name in os.listdir(layout.root / "jobs") if is_job_id(name)}
    except OSError:
        return []
    known = {row[0] for row in _rows(place, "SELECT id FROM {}job UNION SELECT job_id FROM {}removal")}
    return sorted(folders - known)


def homes_of_others(place: DatabasePlace, layout: Layout) -> list[str]:
    """Sentences about homes on the mount that belong to another uid than their account. ``place``: of HttpServer."""
    found = []
    for name, uid in _rows(place, "SELECT name, uid FROM {}accounts WHERE removed_at IS NULL ORDER BY name"):
        try:
            owner = layout.home(name).stat().st_uid
        except OSError:
            continue
        if owner != uid and os.geteuid() == 0:
            found.append(
                f"The home of {name} on the mount belongs to uid {owner}, and the account has {uid}: the account was "
                f"made anew since the backup, or the mount is of another time. See to whom its files belong."
            )
    more = [f"{len(found) - _TOLD} more homes belong to other uids."] if len(found) > _TOLD else []
    return found[:_TOLD] + more


def end_open_tokens(place: DatabasePlace) -> int:
    """Deletes tokens to join with that are unused in the backup, since they may have been used after it.

    ``place``: of ResourceManager. Returns how many.
    """
    engine = create_engine(parse_url(place.url))
    schema = None if place.path is not None else place.service
    try:
        if not inspect(engine).has_table("invitation", schema=schema):
            return 0  # a version that knew none
        with engine.begin() as conn:
            table = "invitation" if schema is None else f'"{schema}".invitation'
            return conn.execute(text(f"DELETE FROM {table} WHERE used_at IS NULL")).rowcount
    finally:
        engine.dispose()


def _rows(place: DatabasePlace, query: str) -> Iterable[Any]:
    engine = create_engine(parse_url(place.url))
    schema = "" if place.path is not None else f'"{place.service}".'
    try:
        with engine.connect() as conn:
            return conn.execute(text(query.replace("{}", schema))).all()
    finally:
        engine.dispose()
