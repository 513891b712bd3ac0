"""A mount that fails in the middle of what is sent."""

from __future__ import annotations

import errno
import os

import pytest

from headway.errors import MountUnavailable
from httpserver.filesystem.reading import telling_breaks


@pytest.mark.parametrize(("code", "words"), [(errno.ESTALE, "on another machine"), (errno.EIO, os.strerror(errno.EIO))])
def test_it_is_told_as_the_shared_folders_fault(code: int, words: str) -> None:
    with pytest.raises(MountUnavailable, match=words), telling_breaks("The file"):
        raise OSError(code, os.strerror(code))


def test_other_faults_are_not_the_shared_folders() -> None:
    with pytest.raises(ValueError, match="ours"), telling_breaks("The file"):
        raise ValueError("ours")
