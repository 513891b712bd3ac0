"""What an `init` or `join` that was killed has left, so that the next run finishes it.

The note is written before the first change and removed after the last. While it lies there, all that it names was made
by Headway and may be made anew. Without it nothing is ever overwritten.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import ConfigInvalid
from ..trust.files import sync_folder, write_private

_NAME = ".unfinished"
_LOCK = ".setup-lock"


@dataclass(frozen=True, slots=True)
class Note:
    """``made``: files that the run may have written. ``mount``: a folder whose marker it may have written, else empty.

    ``token_id``: of a join, whose key lies beside the note.
    """

    what: str
    cluster: str
    made: tuple[str, ...] = ()
    mount: str = ""
    token_id: str = ""


def read(state: Path) -> Note | None:
    """The note of a run that was not finished; None: there is none."""
    try:
        data = json.loads((state / _NAME).read_bytes())
        return Note(**{**data, "made": tuple(data["made"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigInvalid(
            f"{state / _NAME} of an earlier run can't be read ({error}): look what is in {state}, then remove it."
        ) from error


def write(state: Path, note: Note) -> None:
    write_private(state / _NAME, json.dumps(asdict(note)).encode())


def remove(state: Path) -> None:
    """The run is finished."""
    (state / f".{_NAME}.new").unlink(missing_ok=True)  # what a kill left of a draft
    (state / _NAME).unlink(missing_ok=True)
    sync_folder(state)


@contextlib.contextmanager
def only_one(state: Path) -> Iterator[None]:
    """Keeps other runs on this folder away.

    Raises:
        ConfigInvalid: one runs now.
    """
    fd = os.open(state / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigInvalid(f"Another `headway init` or `headway join` works on {state} now: let it end.") from None
        yield
    finally:
        os.close(fd)


def make_private(folder: Path) -> None:
    """The folder, for root alone.

    Raises:
        ConfigInvalid: it can't be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as error:
        raise ConfigInvalid(
            f"{folder} can't be made ({error.strerror}): run this as root, or choose another folder with --state."
        ) from error
