"""What a box proves, line by line of the table in docs/box.md, and files that a task has tampered with."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from worker import box as boxes
from worker.box import Box, BoxEnd, BoxFacts, BoxStanding, EndRecord, Ticket, judge, protocol

READY = BoxFacts(True, Ticket.READY, True, True, False, False)


@pytest.mark.parametrize(
    ("facts", "want"),
    [
        (READY, BoxStanding.MAY_START),
        (replace(READY, laid_out=False), BoxStanding.UNUSED),
        (replace(READY, ticket=Ticket.TAKEN), BoxStanding.OVER),
        (replace(READY, has_started=True), BoxStanding.OVER),
        # The lock is held: nothing else is needed, and nothing but an end or a withdrawal says otherwise.
        (replace(READY, locked=True), BoxStanding.RUNS),
        (replace(READY, locked=True, ticket=Ticket.TAKEN), BoxStanding.RUNS),
        (replace(READY, locked=True, ticket=Ticket.MISSING), BoxStanding.RUNS),
        (replace(READY, locked=True, end_is_broken=True, has_end=True), BoxStanding.RUNS),
        # An end that makes sense counts over everything but another attempt's name.
        (replace(READY, has_end=True), BoxStanding.ENDED),
        (replace(READY, has_end=True, same_boot=False), BoxStanding.ENDED),
        (replace(READY, has_end=True, locked=True), BoxStanding.ENDED),
        (replace(READY, has_end=True, ticket=Ticket.MISSING, locked=None), BoxStanding.ENDED),
        (replace(READY, has_end=True, same_attempt=False), BoxStanding.UNKNOWN),
        (replace(READY, has_end=True, end_is_broken=True, ticket=Ticket.TAKEN), BoxStanding.OVER),
        (replace(READY, ticket=Ticket.WITHDRAWN), BoxStanding.NEVER_STARTED),
        (replace(READY, ticket=Ticket.WITHDRAWN, same_boot=False), BoxStanding.NEVER_STARTED),
        (replace(READY, ticket=Ticket.WITHDRAWN, locked=True), BoxStanding.NEVER_STARTED),
        (replace(READY, same_boot=False), BoxStanding.OTHER_BOOT),
        (replace(READY, same_boot=False, ticket=Ticket.TAKEN), BoxStanding.OTHER_BOOT),
        (replace(READY, locked=None), BoxStanding.UNKNOWN),
        (replace(READY, locked=None, ticket=Ticket.TAKEN), BoxStanding.UNKNOWN),
        (replace(READY, ticket=Ticket.MISSING), BoxStanding.UNKNOWN),
    ],
)
def test_every_line_of_the_table(facts: BoxFacts, want: BoxStanding) -> None:
    assert judge(facts) is want


@pytest.fixture
def box(tmp_path: Path) -> Box:
    made = boxes.create(tmp_path / "box")
    assert boxes.write_ticket(made, attempt="a", boot_id="boot-1")
    return made


def look(box: Box) -> BoxFacts:
    return boxes.look(box, attempt="a", boot_id="boot-1")


def test_an_end_between_two_looks_is_not_missed(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in another order, an attempt that ended well meanwhile would be over without a record."""
    box.ticket.rename(box.ticket_taken)
    real = protocol.is_locked

    def the_launcher_dies_just_before(box: Box) -> bool | None:
        boxes.write_end(box, EndRecord(BoxEnd.EXITED, exit_code=0))
        return real(box)

    monkeypatch.setattr(protocol, "is_locked", the_launcher_dies_just_before)
    assert judge(look(box)) is BoxStanding.ENDED


def test_a_ticket_is_made_once_wherever_it_is_now(box: Box) -> None:
    for place in (box.ticket, box.ticket_taken, box.ticket_withdrawn):
        if place != box.ticket:
            box.ticket.rename(place)
        assert not boxes.write_ticket(box, attempt="b", boot_id="boot-1")
        assert "attempt=a\n" in place.read_text()
        place.rename(box.ticket)


def test_of_two_that_make_the_ticket_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = boxes.create(tmp_path / "box")
    real = protocol.write_temporary

    def another_is_quicker(path: Path, data: bytes, **more: Any) -> Path:
        temporary = real(path, data, **more)
        path.write_text("attempt=other\nboot_id=boot-1\n")
        return temporary

    monkeypatch.setattr(protocol, "write_temporary", another_is_quicker)
    assert not boxes.write_ticket(box, attempt="a", boot_id="boot-1")
    assert "attempt=other\n" in box.ticket.read_text()


def test_a_ticket_that_was_taken_is_not_withdrawn(box: Box) -> None:
    box.ticket.rename(box.ticket_taken)
    assert not boxes.withdraw(box)
    assert judge(look(box)) is BoxStanding.OVER


def test_a_withdrawn_ticket_can_not_be_taken_any_more(box: Box) -> None:
    assert boxes.withdraw(box)
    assert not box.ticket.exists()
    assert boxes.withdraw(box)  # safe twice
    assert judge(look(box)) is BoxStanding.NEVER_STARTED


def test_a_ticket_that_is_nowhere_was_not_withdrawn(box: Box) -> None:
    box.ticket.unlink()
    assert not boxes.withdraw(box)


def test_looking_at_a_held_lock_does_not_wait(box: Box) -> None:
    descriptor = os.open(box.lock, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    found: list[bool | None] = []
    looker = threading.Thread(target=lambda: found.append(boxes.is_locked(box)), daemon=True)
    looker.start()
    looker.join(5)
    os.close(descriptor)
    assert found == [True]


def test_who_got_the_launchers_number_is_not_killed(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher died, and its number went to somebody else before it could be killed."""
    with subprocess.Popen(["sleep", "60"]) as bystander:
        answers: list[int | None] = [bystander.pid, None]
        monkeypatch.setattr(protocol, "holder", lambda box: answers.pop(0))
        assert boxes.kill_launcher(box, within_s=1)
        assert bystander.poll() is None
        bystander.kill()


def test_no_link_of_a_task_is_followed(box: Box, tmp_path: Path) -> None:
    """A task that is root in its container may put one there. The Worker is root on the machine."""
    secret = tmp_path / "shadow"
    secret.write_text("reason=exited\nexit_code=0\n")
    box.end.symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"):
        boxes.read_end(box)


def test_a_pipe_in_the_place_of_a_file_hangs_nobody(box: Box) -> None:
    os.mkfifo(box.end)
    found: list[str] = []

    def read() -> None:
        try:
            boxes.read_end(box)
        except OSError as error:
            found.append(type(error).__name__)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(5)
    assert found == ["OSError"]


def test_a_folder_in_the_place_of_a_file_is_refused(box: Box) -> None:
    box.end.mkdir()
    with pytest.raises(OSError, match="not a regular file"):
        boxes.open_regular(box.end)


class Disk:
    """Notes in which order files are synced and get their names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        fsync, replace_ = os.fsync, os.replace

        def note_fsync(descriptor: int) -> None:
            self.steps.append("fsync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "fsync file")
            fsync(descriptor)

        def note_replace(source: Path, target: Path) -> None:
            self.steps.append("rename")
            replace_(source, target)

        monkeypatch.setattr(os, "fsync", note_fsync)
        monkeypatch.setattr(os, "replace", note_replace)


def test_an_end_is_on_the_disk_before_it_has_its_name_and_its_name_before_the_answer(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    boxes.write_end(box, EndRecord(BoxEnd.EXITED, exit_code=0))
    assert disk.steps == ["fsync file", "rename", "fsync folder"]


def test_while_a_file_is_written_its_old_content_is_there(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher that reads half a lease would take it for another instant."""
    boxes.write_lease(box, 1)
    real = os.write
    seen: list[int | None] = []

    def write(descriptor: int, data: bytes) -> int:
        seen.append(boxes.read_lease(box))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    boxes.write_lease(box, 2)
    monkeypatch.undo()
    assert seen == [1]
    assert boxes.read_lease(box) == 2


def test_the_holder_is_found_where_the_kernel_lists_another_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """btrfs does: a launcher that did not react could be killed by the engine alone."""
    box = boxes.create(tmp_path / "box")
    descriptor = os.open(box.lock, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    real, seen = os.stat, list[int]()

    class Elsewhere:
        st_dev = os.makedev(0, 4242)
        st_ino = real(box.lock).st_ino

    monkeypatch.setattr(protocol.os, "stat", lambda *a, **k: Elsewhere if a[0] == box.lock else real(*a, **k))
    monkeypatch.setattr(protocol, "inhabitants", lambda box: seen)
    assert boxes.holder(box) is None, "a file of the same number elsewhere is not this lock"
    seen.append(os.getpid())
    assert boxes.holder(box) == os.getpid()
    os.close(descriptor)
    assert boxes.holder(box) is None


def test_a_ticket_that_lies_in_two_places_was_taken(tmp_path: Path) -> None:
    box = boxes.create(tmp_path / "a.1" / "box")
    boxes.write_ticket(box, attempt="a.1", boot_id="here")
    box.ticket_taken.write_bytes(box.ticket.read_bytes())
    assert judge(boxes.look(box, attempt="a.1", boot_id="here")) is BoxStanding.OVER
    assert not boxes.withdraw(box)
    assert box.ticket.exists()
