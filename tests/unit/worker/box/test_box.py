"""The files of the attempt box: what is written is read back, whatever a user put into it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker import box as boxes
from worker.box import (
    BoxEnd,
    BoxError,
    BoxStopOrder,
    EndRecord,
    IndexRecord,
    LaunchSpec,
    LogLimitAction,
    SpoolWriter,
    StartedRecord,
    StartStage,
    StopWord,
    Stream,
)

no_nul = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=40)
names = st.text(st.characters(blacklist_characters="\0=", blacklist_categories=("Cs",)), min_size=1, max_size=9)


@given(args=st.lists(no_nul, min_size=1, max_size=4), env=st.dictionaries(names, no_nul, max_size=4))
def test_a_spec_comes_back_as_it_was_written(args: list[str], env: dict[str, str]) -> None:
    spec = LaunchSpec(
        args=tuple(args),
        env=env,
        user="20001:20001",
        timeout_ms=1500,
        log_limit_action=LogLimitAction.KILL,
        passwd_line="ada:x:20001:20001::/root:/bin/sh",
    )
    rendered = boxes.render_spec(spec)
    assert boxes.parse_spec(rendered) == spec
    assert all(0x20 <= byte < 0x7F or byte == 0x0A for byte in rendered)


def test_bytes_that_are_no_utf8_reach_the_spec_unchanged() -> None:
    argument = os.fsdecode(b"caf\xe9 \xff")
    spec = LaunchSpec(args=("x", argument), env={}, user="0:0", timeout_ms=1)
    assert b"arg=caf%E9 %FF\n" in boxes.render_spec(spec)
    assert boxes.parse_spec(boxes.render_spec(spec)).args[1] == argument


@pytest.mark.parametrize(
    "spec",
    [
        LaunchSpec(args=(), env={}, user="0:0", timeout_ms=1),
        LaunchSpec(args=("a\0b",), env={}, user="0:0", timeout_ms=1),
        LaunchSpec(args=("a",), env={"A": "x\0y"}, user="0:0", timeout_ms=1),
        LaunchSpec(args=("a",), env={"A=B": "x"}, user="0:0", timeout_ms=1),
        LaunchSpec(args=("a",), env={"": "x"}, user="0:0", timeout_ms=1),
    ],
)
def test_what_no_process_could_be_given_is_refused(spec: LaunchSpec) -> None:
    with pytest.raises(ValueError, match=r"NUL|name|argument"):
        boxes.render_spec(spec)


@pytest.mark.parametrize("data", [b"arg\n", b"arg=a\n", b"arg=%zz\n", b"arg=%1"])
def test_a_broken_spec_is_told(data: bytes) -> None:
    with pytest.raises(BoxError):
        boxes.parse_spec(data)


def test_a_box_keeps_the_user_out_of_its_run_folder(tmp_path: Path) -> None:
    launcher = tmp_path / "built"
    launcher.write_bytes(b"\x7fELF")
    box = boxes.create(tmp_path / "state" / "box", launcher=launcher, command="echo 'grüße'\n")
    assert boxes.create(box.root, launcher=launcher, command="echo 'grüße'\n") == box
    modes = {p.name: p.stat().st_mode & 0o777 for p in (box.root, box.attempt, box.run, box.launcher, box.command)}
    assert modes == {"box": 0o755, "attempt": 0o755, "run": 0o700, "launcher": 0o755, "command": 0o555}
    assert box.command.read_text() == "echo 'grüße'\n"
    assert launcher.stat().st_ino != box.launcher.stat().st_ino


def test_orders_come_back_and_are_absent_before(tmp_path: Path) -> None:
    box = boxes.create(tmp_path / "box")
    assert (boxes.read_lease(box), boxes.read_limits(box), boxes.read_stop(box)) == (None, None, None)
    assert (boxes.read_started(box), boxes.read_end(box), boxes.read_deadline(box)) == (None, None, None)
    assert boxes.read_taken(box) is None
    boxes.write_lease(box, 12345678901)
    boxes.write_limits(box, timeout_ms=90_000)
    boxes.write_stop(box, StopWord.CANCELLED, grace_ms=0)
    boxes.write_started(box, StartedRecord(1, 2, 3))
    boxes.write_deadline(box, 1_800_000_000.9)
    assert boxes.read_lease(box) == 12345678901
    assert boxes.read_limits(box) == 90_000
    assert boxes.read_stop(box) == BoxStopOrder(StopWord.CANCELLED, 0)
    assert boxes.read_started(box) == StartedRecord(1, 2, 3)
    assert boxes.read_deadline(box) == 1_800_000_000
    boxes.write_lease(box, None)
    assert boxes.read_lease(box) is None
    assert [p.name for p in box.run.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize(
    "record",
    [
        EndRecord(BoxEnd.EXITED, exit_code=0, started_wall_ns=5, ended_wall_ns=9, run_ns=4, peak_memory_bytes=1),
        EndRecord(BoxEnd.STOPPED, signal=15, stop_word=StopWord.SHUTDOWN, oom_kills=2, dropped_bytes=7),
        EndRecord(BoxEnd.TIMED_OUT, signal=9, started_wall_ns=5, timeout_ms=90_000),
        EndRecord(
            BoxEnd.START_FAILED,
            errno="ENOENT",
            error="no such file: a=b\nc%",
            stage=StartStage.EXEC,
            ended_wall_ns=3,
        ),
    ],
)
def test_an_end_record_comes_back(tmp_path: Path, record: EndRecord) -> None:
    box = boxes.create(tmp_path / "box")
    boxes.write_end(box, record)
    assert boxes.read_end(box) == record


@pytest.mark.parametrize(
    "text", ["", "reason=bored\n", "reason=exited\nexit_code=x\n", "reason=stopped\nstop_word=q\n"]
)
def test_an_end_record_without_sense_is_told(tmp_path: Path, text: str) -> None:
    box = boxes.create(tmp_path / "box")
    box.end.write_text(text)
    with pytest.raises(BoxError):
        boxes.read_end(box)


def test_the_index_leaves_out_a_record_that_is_only_half_written(tmp_path: Path) -> None:
    box = boxes.create(tmp_path / "box")
    writer = SpoolWriter(box)
    writer.append(Stream.STDOUT, b"one\n", wall_ns=10)
    writer.append(Stream.STDERR, b"oh", wall_ns=11)
    writer.close()
    again = SpoolWriter(box)
    again.append(Stream.STDOUT, b"two\n", wall_ns=12)
    again.close()
    again.close()
    with box.index.open("ab") as file:
        file.write(b"\x01" * 23)
    want = [
        IndexRecord(10, 0, 4, Stream.STDOUT),
        IndexRecord(11, 0, 2, Stream.STDERR),
        IndexRecord(12, 4, 4, Stream.STDOUT),
    ]
    assert boxes.read_index(box) == want
    assert boxes.read_index(box, from_record=2) == want[2:]
    assert box.stdout.read_bytes() == b"one\ntwo\n"


def test_a_failed_write_leaves_the_old_content_and_no_litter(tmp_path: Path) -> None:
    place = tmp_path / "folder"
    place.mkdir()
    with pytest.raises(OSError, match="directory"):
        boxes.write_atomic(place, b"x")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("content", [b"", b"attempt=j0123456789abcdef.train.1\n", b"boot_id=this-boot\n"])
def test_a_ticket_that_a_power_cut_left_empty_or_cut_off_proves_nothing(tmp_path: Path, content: bytes) -> None:
    box = boxes.create(tmp_path / "box")
    for place in (box.ticket, box.ticket_taken, box.ticket_withdrawn):
        place.write_bytes(content)
        facts = boxes.look(box, attempt="j0123456789abcdef.train.1", boot_id="this-boot")
        assert boxes.judge(facts) is boxes.BoxStanding.UNKNOWN
        box.lock.rename(tmp_path / "lock")
        facts = boxes.look(box, attempt="j0123456789abcdef.train.1", boot_id="this-boot")
        assert boxes.judge(facts) is boxes.BoxStanding.UNKNOWN
        (tmp_path / "lock").rename(box.lock)
        place.unlink()


def test_names_of_programs_in_an_end_record_are_one_line_of_text(tmp_path: Path) -> None:
    """The kernel cuts a name inside a letter, and a program may name itself with any bytes."""
    box = boxes.create(tmp_path / "box")
    names = "\u043e\u0431\u0443\udcd0/x\ny"
    boxes.write_end(box, EndRecord(BoxEnd.EXITED, exit_code=0, left=2, left_names=names, error="caf\udce9\n"))
    end = boxes.read_end(box)
    assert end is not None
    assert (end.left_names, end.error) == ("\u043e\u0431\u0443\ufffd/x\ufffdy", "caf\ufffd\n")
