"""The copy of a spool to the mount."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from worker.logs import spool_copy
from worker.logs.spool_copy import SpoolCopy


@pytest.fixture
def copy(tmp_path: Path) -> SpoolCopy:
    return SpoolCopy(tmp_path / "stdout", tmp_path / "mount" / "job" / "stdout.log")


def test_copies_every_byte_as_it_comes(copy: SpoolCopy) -> None:
    data = bytes(range(256)) * 5 + b"\r10%\r20%" + b"no end of line"
    copy.source.write_bytes(data[:700])
    assert copy.step()
    assert copy.target.read_bytes() == data[:700]
    copy.source.write_bytes(data)
    assert copy.step(final=True)
    assert copy.target.read_bytes() == data
    assert copy.safe == len(data)


def test_a_spool_that_never_was_makes_no_file(copy: SpoolCopy) -> None:
    assert copy.step()
    assert copy.step(final=True)
    assert not copy.target.parent.exists()


def test_a_trailer_stands_after_the_last_byte_once(copy: SpoolCopy) -> None:
    copy.source.write_bytes(b"output")
    copy.step()
    assert copy.step(final=True, trailer=b"\n[dropped]\n")
    again = SpoolCopy(copy.source, copy.target)
    assert again.step(final=True, trailer=b"\n[dropped]\n")
    assert copy.target.read_bytes() == b"output\n[dropped]\n"


def test_a_restarted_worker_goes_on_after_the_hole(copy: SpoolCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_copy, "PUNCH_BYTES", 64 << 10)
    data = os.urandom(300_000)
    copy.source.write_bytes(data)
    copy.step()
    assert copy.safe >= 262_144
    # Its blocks are really given back, and really not needed any more.
    assert copy.source.stat().st_blocks * 512 < 100_000
    copy.source.open("ab").write(b"more")
    again = SpoolCopy(copy.source, copy.target)
    assert again.step(final=True)
    assert again.target.read_bytes() == data + b"more"


def test_without_a_hole_a_restarted_worker_copies_anew_to_the_same_place(copy: SpoolCopy) -> None:
    copy.source.write_bytes(b"a" * 10_000)
    copy.step()
    copy.source.open("ab").write(b"b")
    again = SpoolCopy(copy.source, copy.target)
    assert again.step(final=True)
    assert again.target.read_bytes() == b"a" * 10_000 + b"b"


def test_what_the_mount_forgot_before_its_fsync_is_written_again(copy: SpoolCopy) -> None:
    copy.source.write_bytes(b"x" * 50_000)
    copy.step()
    os.truncate(copy.target, 20_000)
    assert copy.step(final=True)
    assert copy.target.read_bytes() == b"x" * 50_000


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.EROFS])
def test_a_fault_of_the_mount_loses_nothing(copy: SpoolCopy, monkeypatch: pytest.MonkeyPatch, fault: int) -> None:
    real = os.pwrite
    data = os.urandom(3_000_000)
    copy.source.write_bytes(data)
    written = 0

    def pwrite(descriptor: int, view: memoryview, offset: int) -> int:
        nonlocal written
        if written > 1_200_000:
            raise OSError(fault, os.strerror(fault))
        # As a disk that fills up: a part is written.
        count = real(descriptor, view[:200_000], offset)
        written += count
        return count

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(OSError, match=os.strerror(fault)):
        copy.step(final=True)
    monkeypatch.setattr(os, "pwrite", real)
    assert copy.step(final=True)
    assert copy.target.read_bytes() == data


def test_nothing_is_written_where_the_mount_is_not_mounted(copy: SpoolCopy) -> None:
    copy.source.write_bytes(b"x")

    def forbid() -> Path:
        raise OSError(errno.ENOENT, "the mount's marker is missing")

    with pytest.raises(OSError, match="marker"):
        copy.step(reach=forbid)
    assert not copy.target.parent.exists()


def test_a_step_stops_at_its_budget(copy: SpoolCopy) -> None:
    copy.source.write_bytes(b"z" * 5_000_000)
    assert not copy.step(budget=2_000_000)
    assert copy.copied == 2_000_000
    while not copy.step(budget=2_000_000, final=True):
        pass
    assert copy.target.stat().st_size == 5_000_000


def test_what_an_earlier_descriptor_wrote_is_written_again_before_it_counts_as_safe(copy: SpoolCopy) -> None:
    """Used to: on a full GlusterFS mount, which flushes behind a close, a log of the right length was zeros from its
    second block on, for ever."""
    copy.source.write_bytes(b"y" * 7_000)
    assert copy.step()
    # The server had no room after all, and nobody was told.
    with copy.target.open("r+b") as target:
        target.seek(4096)
        target.write(b"\0" * 2_904)
    assert copy.step(final=True, trailer=b"end\n")
    assert copy.target.read_bytes() == b"y" * 7_000 + b"end\n"


def test_the_same_holds_each_time_that_a_part_is_made_safe(copy: SpoolCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.logs.spool_copy.PUNCH_BYTES", 10_000)
    copy.source.write_bytes(b"y" * 7_000)
    assert copy.step()
    copy.target.write_bytes(b"\0" * 7_000)
    with copy.source.open("ab") as source:
        source.write(b"z" * 7_000)
    assert copy.step()
    assert copy.target.read_bytes() == b"y" * 7_000 + b"z" * 7_000


def test_a_copy_is_never_made_longer_than_what_was_written(copy: SpoolCopy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers take a copy of the full length for whole."""
    copy.source.write_bytes(b"y" * 7_000)

    def refuse(*_: object) -> None:
        raise AssertionError("it was made longer")

    monkeypatch.setattr("worker.logs.spool_copy.os.ftruncate", refuse)
    assert copy.step(final=True)
