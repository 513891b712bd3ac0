"""Whether a service of the cluster lives: it holds its database, or answers at its address. Both are looked at."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import create_engine, text

from ..config import HeadwayConfig
from ..config.values import is_wildcard, split_address
from ..store.database import parse_url
from ..store.faults import translated
from .manifest import RestoreRefused
from .parts import DatabasePlace

_LOOK_S = 2.0


def refuse_answering(config: HeadwayConfig, services: Sequence[str]) -> None:
    """Passes if nobody listens where these services would.

    Raises:
        RestoreRefused: somebody does, on this machine or where the others look for the service.
    """
    for service in services:
        bind = config.httpserver.grpc_bind if service == "httpserver" else getattr(config, service).bind
        peer = config.peers.http_server if service == "httpserver" else getattr(config.peers, service)
        for address in dict.fromkeys((bind, peer)):
            if _answers(address):
                raise RestoreRefused(
                    f"Something answers at {address}, which is the address of {service}: stop the services of the "
                    "cluster first. Nothing was changed."
                )


@contextlib.contextmanager
def held(places: Sequence[DatabasePlace], state: Path, *, make: bool) -> Iterator[None]:
    """Holds these databases, and the state folder of `headway up`, so that no service starts on them meanwhile.

    With ``make`` False no file is made: what is not there nobody holds.

    Raises:
        RestoreRefused: a service holds one of them.
        StoreUnavailable: PostgreSQL does not answer.
    """
    with ExitStack() as stack:
        _hold_file(stack, state / "lock", "`headway up`", make=False)
        for place in places:
            if place.path is not None:
                _hold_file(stack, place.path.with_name(f"{place.path.name}.lock"), place.service, make=make)
            else:
                _hold_postgres(stack, place)
        yield


def _hold_file(stack: ExitStack, path: Path, who: str, *, make: bool) -> None:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o600)
    except FileNotFoundError:
        return
    stack.callback(os.close, fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RestoreRefused(f"{who} runs on {path.parent}: stop it first. Nothing was changed.") from None


def _hold_postgres(stack: ExitStack, place: DatabasePlace) -> None:
    engine = create_engine(parse_url(place.url), connect_args={"connect_timeout": 5})
    stack.callback(engine.dispose)
    with translated(place.shown, None):
        conn = stack.enter_context(engine.connect().execution_options(isolation_level="AUTOCOMMIT"))
        # The same lock as that of a service (headway/store/database.py).
        name = {"name": f"headway.{place.service}"}
        got = conn.execute(text("SELECT pg_try_advisory_lock(hashtext(:name))"), name).scalar()
    if not got:
        raise RestoreRefused(f"{place.service} uses {place.shown}: stop it first. Nothing was changed.")


def _answers(address: str) -> bool:
    host, port = split_address(address)
    if not port:
        return False
    try:
        with socket.create_connection(("127.0.0.1" if is_wildcard(host) else host, port), timeout=_LOOK_S):
            return True
    except OSError:
        return False
