"""What is said when the shared mount fails in the middle of a file that is sent."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from headway.errors import MountUnavailable


@contextmanager
def telling_breaks(what: str) -> Iterator[None]:
    """Around reading ``what`` ("The file"), which is open already. No words are for the sender alone.

    Raises:
        MountUnavailable: the mount refused to go on. Another machine may have removed the file (a stale handle).
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.ESTALE:
            raise MountUnavailable(f"{what} was removed or replaced on another machine while it was sent.") from error
        raise MountUnavailable(f"{what} can't be read from the shared folder any more: {error.strerror}.") from error
