"""When a disk is too full, whose doing it is, and what is counted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from headway.ids import AttemptId
from worker.machine.disk_watch import read_disks
from worker.machine.disks import (
    DiskReading,
    critical,
    ended_sentence,
    full_sentence,
    look_again_s,
    nearly_full,
    offender,
    tightest,
)
from worker.machine.file_usage import processes_with, stacked_at_home, tree_bytes, unlinked_bytes, written_bytes

from ..builders import an_attempt

GIB, MIB = 1 << 30, 1 << 20
LOW = 2 * GIB
A, B, C = (an_attempt(name) for name in "abc")


def a_disk(free: int, device: int = 1, place: str = "/var/lib/docker") -> DiskReading:
    return DiskReading(device, Path(place), "its container engine", free, 100 * GIB)


@pytest.mark.parametrize(
    ("free", "before", "want"),
    [
        (LOW, False, False),
        (LOW - 1, False, True),
        (LOW, True, True),
        (3 * GIB - 1, True, True),  # half as much again, so that it does not flicker
        (3 * GIB, True, False),
        (0, False, True),
    ],
)
def test_when_a_disk_is_nearly_full(free: int, before: bool, want: bool) -> None:
    assert (nearly_full([a_disk(90 * GIB, 2), a_disk(free)], LOW, before=before) is not None) is want


def test_no_disk_that_answers_is_no_full_disk() -> None:
    assert nearly_full([], LOW, before=True) is None
    assert tightest([]) is None


def test_the_tightest_of_several_disks_counts() -> None:
    tight = a_disk(GIB // 2, 2)
    disks = [a_disk(90 * GIB), tight, a_disk(GIB - 1, 3), a_disk(GIB, 4)]
    assert tightest(disks) == tight
    assert nearly_full(disks, LOW, before=False) == tight
    assert [disk.device for disk in critical(disks, LOW)] == [2, 3]


@pytest.mark.parametrize(
    ("uses", "want"),
    [
        ({A: 5 * GIB, B: 40 * GIB, C: 0}, B),
        ({A: GIB // 2}, A),
        ({A: GIB // 2 - 1, B: 3 * MIB}, None),  # little: somebody else has filled the disk
        ({A: 0}, None),
        ({}, None),
    ],
)
def test_whose_doing_it_is(uses: Mapping[AttemptId, int], want: AttemptId | None) -> None:
    assert offender(uses, LOW) == want


@pytest.mark.parametrize(
    ("free", "want"), [(500 * GIB, 15.0), (31 * GIB, 15.0), (9 * GIB, 4.0), (3 * GIB, 1.0), (GIB, 0.5), (0, 0.5)]
)
def test_it_looks_again_before_a_fast_task_could_have_filled_it(free: int, want: float) -> None:
    assert look_again_s([a_disk(900 * GIB, 2), a_disk(free)], LOW) == want


def test_disks_that_do_not_answer_are_asked_again_soon() -> None:
    assert look_again_s([], LOW) == 0.5


def test_the_sentences_name_machine_disk_and_sizes() -> None:
    assert full_sentence("gpu-1", a_disk(900 * MIB + 5), LOW) == (
        "The disk of gpu-1 that its container engine uses (/var/lib/docker) is nearly full: 900MiB are left, and 2GiB "
        "must stay free."
    )
    assert ended_sentence("gpu-1", a_disk(700 * 1024 + 1), 3 * GIB + GIB // 2) == (
        "It had written 3.5GiB to the disk of gpu-1, more than any other task there, and only 700KiB were left."
    )
    assert "12B were left" in ended_sentence("gpu-1", a_disk(12), 40 * GIB)


def test_folders_on_one_disk_are_one_disk_and_what_is_not_there_is_left_out(tmp_path: Path) -> None:
    places = [(tmp_path, "the worker"), (tmp_path / "gone", "nobody"), (tmp_path.parent, "its container engine")]
    (disk,) = read_disks(places)
    assert (disk.place, disk.holds, disk.device) == (tmp_path, "the worker", tmp_path.stat().st_dev)
    assert 0 < disk.free_bytes <= disk.total_bytes


# -- what is counted -------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


def size(tree: Path, **more: float) -> int:
    return tree_bytes(tree, tree.stat().st_dev, **more)  # type: ignore[arg-type]


def test_blocks_count_and_not_lengths(tree: Path) -> None:
    """The engine's own figure calls a sparse file of a terabyte a terabyte."""
    with (tree / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert size(tree) < MIB
    (tree / "real").write_bytes(b"x" * MIB)
    assert MIB <= size(tree) < 2 * MIB


def test_a_file_with_two_names_counts_once_and_links_are_not_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "big").write_bytes(b"x" * 4 * MIB)
    (tree / "one").write_bytes(b"x" * MIB)
    os.link(tree / "one", tree / "two")
    (tree / "out").symlink_to(tmp_path / "elsewhere")
    assert MIB <= size(tree) < 2 * MIB


def test_what_lies_on_another_disk_does_not_count(tree: Path) -> None:
    (tree / "one").write_bytes(b"x" * MIB)
    assert tree_bytes(tree, tree.stat().st_dev + 1) == 0
    assert tree_bytes(tree / "gone", tree.stat().st_dev) == 0


def test_folders_in_folders_without_end(tree: Path) -> None:
    """A walk that calls itself for each level would end with an error instead of an answer."""
    here = os.open(tree, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (tree / "real").write_bytes(b"x" * MIB)
    try:
        assert size(tree) >= MIB
    finally:
        # pytest's own way of removing it calls itself for each level, too.
        subprocess.run(["rm", "-rf", str(tree)], check=True)


def test_only_what_is_new(tree: Path) -> None:
    (tree / "old").write_bytes(b"x" * MIB)
    assert size(tree, changed_since=(tree / "old").stat().st_ctime + 60) == 0
    assert size(tree, changed_since=(tree / "old").stat().st_ctime - 60) >= MIB


def test_a_walk_without_end_tells_what_it_found(tree: Path) -> None:
    (tree / "real").write_bytes(b"x" * MIB)
    ticks = iter([0.0, 1.0, 99.0, 99.0])
    (tree / "deeper").mkdir()
    (tree / "deeper" / "never-seen").write_bytes(b"x" * MIB)
    assert MIB <= tree_bytes(tree, tree.stat().st_dev, now=lambda: next(ticks)) < 2 * MIB


def test_what_processes_write_and_hold_without_a_name(tmp_path: Path) -> None:
    script = "exec 3> held; rm held; head -c 3145728 /dev/zero >&3; head -c 1048576 /dev/zero > named; echo; read _"
    with subprocess.Popen(["sh", "-c", script], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        devices = {tmp_path.stat().st_dev}
        assert 3 * MIB <= unlinked_bytes([process.pid, process.pid], devices) < 4 * MIB
        assert unlinked_bytes([process.pid], {-1}) == 0, "a file on another disk"
        # Its root is this machine's own, which need not be the disk of the test's folder.
        if os.stat("/").st_dev == tmp_path.stat().st_dev:
            assert written_bytes([process.pid]) >= 4 * MIB, "its children's part, too"
        assert processes_with(process.pid) == [], "a process of this machine's own is no container"
        process.communicate(b"\n")
    assert unlinked_bytes([process.pid], devices) == 0
    assert written_bytes([process.pid]) == 0


def test_all_that_is_stacked_below_a_home_is_on_its_disk() -> None:
    """A full disk ended another task: files without a name in folders of the image's user weren't counted."""
    lines = [
        "1 0 0:10 / / rw - overlay overlay rw,lowerdir=/l",
        "2 1 0:11 / /root rw,nosuid shared:7 - overlay overlay rw",
        "3 2 0:12 / /root/app rw - overlay overlay rw",
        "4 2 0:13 / /root/nfs rw - overlay overlay rw",
        "5 2 0:14 / /root/data rw - nfs server:/x rw",
        "6 1 0:15 / /roots rw - overlay overlay rw",
    ]
    assert stacked_at_home(lines) == {os.makedev(0, 11), os.makedev(0, 12)}
