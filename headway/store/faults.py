"""What a database driver says, in Headway's words."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator

from sqlalchemy import exc

from ..errors import HeadwayError, StoreFull, StoreUnavailable

# Below this SQLite can't even grow its shared-memory index and reports a bare I/O error.
_NO_SPACE_BYTES = 1 << 20


class StoreDamaged(HeadwayError):
    """The database file is damaged or not a database; only a person can mend it."""

    code = "DATA_LOSS"
    slug = "store-damaged"
    title = "The database is damaged"


class StoreRefused(StoreUnavailable):
    """The server answers, but it will not have this user or lacks the database: waiting does not help."""

    slug = "store-refused"
    title = "The database refuses the connection"


class StoreInUse(StoreUnavailable):
    """Another process has the database."""


# While a connection is made, the driver passes on the server's words alone, without their code.
_REFUSED = re.compile(
    r"(password|peer|ident) authentication failed|no password supplied|no pg_hba\.conf entry|"
    r"permission denied for database|(role|database) \".*\" (does not exist|is not permitted to log in)",
    re.IGNORECASE,
)


@contextlib.contextmanager
def translated(place: str, folder: str | None) -> Iterator[None]:
    """Turns driver errors raised inside into HeadwayErrors; errors of the statements themselves pass as they are.

    `place` names the database in messages without credentials; `folder` is where its file lies, if it has one.
    """
    try:
        yield
    except exc.DBAPIError as error:
        mapped = _of_driver(error.orig, place, folder, disconnected=error.connection_invalidated)
        if mapped is None:
            raise
        raise mapped from error
    except exc.TimeoutError as error:
        raise StoreUnavailable(f"No connection to {place} came free in time.") from error


def _of_driver(
    orig: BaseException | None, place: str, folder: str | None, *, disconnected: bool
) -> HeadwayError | None:
    if isinstance(orig, sqlite3.Error):
        return _of_sqlite(orig, place, folder)
    state = getattr(orig, "sqlstate", None) or ""
    if state in ("53100", "53200"):
        return StoreFull(f"The disk or memory of {place} is full; nothing was stored.")
    if state[:2] in ("28", "3D") or (not state and _REFUSED.search(str(orig))):
        return StoreRefused(f"{place} refuses the connection: {_first_line(orig)}")
    # 08 connection, 53 resources, 57P shutdown, 40 serialisation and deadlock, 25006 a standby.
    if disconnected or state[:2] in ("08", "53", "40") or state[:3] == "57P" or state == "25006":
        return StoreUnavailable(f"{place} does not answer: {_first_line(orig)}")
    # By its ancestors, too: a server that hangs makes one of the driver's own kinds, such as ConnectionTimeout.
    if not state and {kind.__name__ for kind in type(orig).__mro__} & {"OperationalError", "InterfaceError"}:
        return StoreUnavailable(f"{place} does not answer: {_first_line(orig)}")
    return None


def _of_sqlite(error: sqlite3.Error, place: str, folder: str | None) -> HeadwayError | None:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"The disk under {place} is full; nothing was stored.")
    if code == sqlite3.SQLITE_IOERR:
        if folder is not None and _no_space(folder):
            return StoreFull(f"The disk under {place} is full; nothing was stored.")
        return StoreUnavailable(f"{place} can't be read or written: {error}")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnavailable(f"{place} is locked by another process.")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreUnavailable(f"{place} can't be opened for writing: {error}")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreDamaged(f"{place} is damaged ({error}): restore it from a backup.")
    return None


def _no_space(folder: str) -> bool:
    try:
        stat = os.statvfs(folder)
    except OSError:
        return False
    return stat.f_bavail * stat.f_frsize < _NO_SPACE_BYTES


def _first_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
