"""What fails after an attempt's end: somebody is told, it is tried again, and the warning goes when it worked."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.unit.worker.attempt.executor_rig import DONE, One, one
from tests.unit.worker.fakes import a_rig
from worker.attempt import late_sentences
from worker.attempt.late_work import LateWork
from worker.attempt.task_controller import TaskController
from worker.model import AttemptStage, Owner
from worker.store import record_to_row

__all__ = ["one"]

UID = 20_001 if os.geteuid() == 0 else os.geteuid()
ANN = Owner("ann", UID, UID)
DAY_S = 86_400.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "mount" / "ann"
    home.mkdir(parents=True, mode=0o700)
    if os.geteuid() == 0:
        os.chown(home, UID, UID)
    return home


async def ended(one: One, **launch: object) -> None:
    one.begin(owner=ANN, **launch)
    await one.running()
    one.rig.runtime.end(one.attempt, DONE)
    await one.end()


async def until_told(one: One, wanted: str | None, *, within_s: float = 5.0) -> str:
    """The last warnings, once they hold ``wanted``; None: none is left."""
    for _ in range(200):
        last = one.rig.told.warnings[-1:] or [()]
        if (wanted is None and not last[0]) or (wanted is not None and any(wanted in text for text in last[0])):
            return "\n".join(last[0])
        await one.rig.clock.advance(within_s / 200)
        await asyncio.sleep(0.001)  # copies work in threads
    raise AssertionError(f"not told: {wanted}; {one.rig.told.warnings}")


async def test_an_output_that_cannot_be_copied_is_told_at_once_and_copied_at_last(one: One, home: Path) -> None:
    (home / "results").write_bytes(b"")
    await ended(one, output_path="results/digits")
    told = await until_told(one, "`results/digits`")
    assert told == (
        "Its output could not be copied to `results/digits` in the personal space of ann: `results` is a file or a "
        "link, and not a folder. ann has to move it away. Headway tries again for a day, with pauses of 10 minutes at "
        "most."
    )
    (home / "results").unlink()
    (home / "results").mkdir(mode=0o755)
    (home / "results" / "digits").symlink_to(home)
    if os.geteuid() == 0:
        os.chown(home / "results", UID, UID)
    await until_told(one, "`results/digits` is a file or a link", within_s=20)
    (home / "results" / "digits").unlink()
    await until_told(one, None, within_s=100)
    await one.life
    assert one.record.stage is AttemptStage.DONE
    assert (home / "results" / "digits").is_dir()


async def test_a_late_copy_gives_up_where_a_later_attempt_has_put_its_output(
    one: One, home: Path, tmp_path: Path
) -> None:
    """The first attempt's log replaced the second one's for good, and nobody was told."""
    (home / "r").write_bytes(b"")
    now = one.rig.clock.now()
    spools = one.rig.runtime.spools[one.attempt] = tmp_path / "spools"
    spools.mkdir()
    (spools / "stdout").write_bytes(b"FIRST")
    # This machine's clock is an hour ahead: TaskManager's counts.
    await ended(one, output_path="r", placed_at=now - 3_600)
    await until_told(one, "tries again")
    (home / "r").unlink()
    (home / "r").mkdir()
    (home / "r" / "stdout.log").write_bytes(b"SECOND")
    os.utime(home / "r" / "stdout.log", (now - 3_000, now // 1 - 3_000))
    if os.geteuid() == 0:
        os.chown(home / "r", UID, UID)
    told = await until_told(one, "ended later", within_s=20)
    await one.life
    assert told == (
        "Its output could not be copied to `r` in the personal space of ann: `r/stdout.log` is the output of a task "
        f"that ended later, and stays. `headway logs {one.attempt}` shows it."
    )
    assert (home / "r" / "stdout.log").read_bytes() == b"SECOND"


async def test_after_a_day_the_warning_stays_and_says_how_to_get_the_output(one: One, home: Path) -> None:
    (home / "results").write_bytes(b"")
    await ended(one, output_path="results")
    await until_told(one, "tries again")
    tries = len(one.rig.told.warnings)
    await one.rig.clock.advance(DAY_S + 700)
    await one.life
    told = await until_told(one, "does not try again")
    assert f"`headway logs {one.attempt.task.job_id}/train` shows it" in told
    assert len(one.rig.told.warnings) == tries + 1, "the same words are told once"


async def test_a_restarted_worker_goes_on_and_takes_the_warning_back(
    one: One, home: Path, clock: FakeClock, tmp_path: Path
) -> None:
    (home / "results").write_bytes(b"")
    await ended(one, output_path="results")
    await until_told(one, "tries again")
    one.life.cancel()
    await asyncio.gather(one.life, return_exceptions=True)
    (home / "results").unlink()

    again = a_rig(clock, tmp_path)
    try:
        (record,) = await one.rig.store.load()
        assert record.stage is AttemptStage.ACKED
        assert list(record.late) == ["output"]
        two = One(again, one.attempt)
        two.record = record
        two.begin(owner=ANN, output_path="results", adopted=True)
        two.executor.acked()
        await two.life
        await two.settle()
        assert again.told.warnings == [()]
        assert record.late == {}
    finally:
        await again.close()


async def test_what_taskmanager_was_not_told_is_told_after_the_next_start(one: One, home: Path) -> None:
    (home / "results").write_bytes(b"")
    await ended(one, output_path="results")
    one.rig.told.away = True
    (home / "results").unlink()
    while one.record.stage is not AttemptStage.DONE:
        await one.rig.clock.advance(1.0)
    assert one.record.late == {}
    one.record.late_told = ("an old one",)
    one.rig.store.rows[one.attempt] = record_to_row(one.record)
    one.rig.told.away = False
    one.rig.context.late.retry_now()
    await one.rig.clock.advance(10)
    one.rig.told.warnings.clear()
    await TaskController(one.rig.context, list).adopt()
    await one.settle()
    assert one.rig.told.warnings == [()]


async def test_a_log_that_cannot_be_copied_is_told_and_copied_at_last(one: One, tmp_path: Path) -> None:
    one.rig.mount.problem = f"{tmp_path}/mount is full: 3 MiB are left."
    one.begin(owner=ANN)
    await one.running()
    one.rig.runtime.end(one.attempt, DONE)
    await one.end()
    told = await until_told(one, "Its log could not be copied to", within_s=10)
    assert "is full: 3 MiB are left. An admin has to look at the shared folder of gpu-1." in told
    assert "Until then gpu-1 keeps the log. Headway tries again." in told
    one.rig.mount.problem = ""
    await until_told(one, None, within_s=60)


async def test_a_container_that_cannot_be_removed_is_told_within_seconds(one: One) -> None:
    one.begin(owner=ANN)
    await one.running()
    one.rig.runtime.unkillable = True
    one.rig.runtime.end(one.attempt, DONE)
    await one.end()
    told = await until_told(one, "container", within_s=10)
    assert told == (
        "Its container could not be removed on gpu-1: could not be removed. An admin has to look at the container "
        "engine there. Headway tries again."
    )
    one.rig.runtime.unkillable = False
    await until_told(one, None, within_s=30)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "r/stdout.log"),
            "ann has to delete files there, or an admin",
        ),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "r/stdout.log"), "ann has to delete files there"),
        (OSError(errno.EROFS, "Read-only file system", "r"), "An admin has to make it writable"),
        (OSError(errno.EISDIR, "Is a directory", "r/stdout.log"), "`r/stdout.log` is a folder. ann has to move it"),
        (OSError(errno.EACCES, "Permission denied", "r"), "ann has to change its mode or owner"),
        (
            OSError(errno.EACCES, "Permission denied", "/m/homes/ann"),
            "make it a folder of uid 7 and gid 8 with mode 700",
        ),
        (OSError(errno.ENOENT, "No such file", "/m/homes/ann"), "there is no folder /m/homes/ann"),
        (OSError(errno.EACCES, "Permission denied", "/m/jobs/x"), "perhaps the server squashes root"),
        (OSError(errno.EIO, "Input/output error", "r"), "An admin has to look at the shared folder"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "r" * 300), "choose another `output_path`"),
    ],
    ids=lambda value: errno.errorcode[value.errno] if isinstance(value, OSError) else "",
)
def test_who_has_to_do_what(error: OSError, words: str) -> None:
    owner = Owner("ann", 7, 8)
    assert words in late_sentences.output_not_copied(error, "r", Path("/m/homes/ann"), owner)


def test_files_that_only_the_server_can_give_are_told_with_the_command() -> None:
    error = PermissionError(errno.EPERM, "Operation not permitted")
    told = late_sentences.files_not_given(error, Path("/m/homes/ann"), Owner("ann", 7, 8))
    assert "`chown -hR 7:8 /m/homes/ann`" in told
    assert "without root_squash" in told


async def test_a_file_with_a_name_that_is_no_text_is_told(one: One) -> None:
    one.begin()
    await LateWork(one.rig.context, one.record, 1).warn("output", "`caf\udce9` is a folder.\n")
    assert one.record.late == {"output": "`caf\ufffd` is a folder.\ufffd"}
    assert record_to_row(one.record)
