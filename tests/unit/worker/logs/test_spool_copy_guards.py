"""A spool gives its bytes back only once the mount has them for good."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest

from worker.logs import spool_copy
from worker.logs.spool_copy import SpoolCopy


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpoolCopy:
    monkeypatch.setattr(spool_copy, "PUNCH_BYTES", 64 << 10)
    return SpoolCopy(tmp_path / "stdout", tmp_path / "mount" / "stdout.log")


def test_nothing_counts_as_safe_nor_is_freed_before_an_fsync(copy: SpoolCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy without its fsync passed all tests: a power cut of the file server then lost the only bytes."""
    data = os.urandom(300_000)
    copy.source.write_bytes(data)

    def refuses(descriptor: int) -> None:
        raise OSError(errno.EIO, "the mount lost them")

    monkeypatch.setattr(os, "fsync", refuses)
    with pytest.raises(OSError, match="the mount lost them"):
        copy.step(final=True)
    assert copy.safe == 0
    assert copy.source.read_bytes() == data
    monkeypatch.undo()
    assert copy.step(final=True)
    assert copy.target.read_bytes() == data


def test_each_part_is_synced_before_its_blocks_are_freed(copy: SpoolCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: steps.append("fsync"))
    monkeypatch.setattr(spool_copy, "_punch_hole", lambda path, offset, length: steps.append("punch"))
    copy.source.write_bytes(b"x" * 300_000)
    copy.step(final=True)
    assert "punch" in steps
    assert all(before == "fsync" for before, step in pairwise(steps) if step == "punch")
    assert steps[0] == "fsync"


def test_a_copy_is_not_written_through_a_link(copy: SpoolCopy, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"theirs")
    copy.target.parent.mkdir()
    copy.target.symlink_to(elsewhere)
    copy.source.write_bytes(b"output")
    with pytest.raises(OSError, match="symbolic links"):
        copy.step(final=True)
    assert elsewhere.read_bytes() == b"theirs"


def test_a_reader_of_the_copy_sees_no_hole_where_the_mount_forgot_bytes(copy: SpoolCopy) -> None:
    """The file server was restarted while the program still ran: only the last step filled the hole."""
    copy.source.write_bytes(b"x" * 30_000)
    copy.step()
    os.truncate(copy.target, 20_000)
    with copy.source.open("ab") as spool:
        spool.write(b"y" * 1_000)
    copy.step()
    assert copy.target.read_bytes() == b"x" * 30_000 + b"y" * 1_000
