"""A real Worker process with the scripted runtime: launch, reports, logs, stops, restarts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from tests.support.worker_rig import WorkerRig, a_launch, an_attempt, scripted, worker_rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[WorkerRig]:
    async with worker_rig(tmp_path) as rig:
        yield rig


async def test_a_task_runs_is_reported_and_its_log_is_on_the_mount(rig: WorkerRig) -> None:
    incarnation = await rig.start()
    attempt = an_attempt()
    launch = a_launch(attempt, incarnation=incarnation, env=scripted(0.3, output="hello\rworld"))
    (verdict,) = await rig.launch(launch)
    assert verdict.accepted, verdict
    assert verdict.accepted_at > 0
    end = await rig.ended(attempt)
    assert end.kind == "SUCCEEDED"
    assert end.reason.word == "exited"
    assert end.reason.exit_code == 0
    assert end.run_s == pytest.approx(0.3, abs=0.001)
    assert end.stdout_bytes == 11
    assert "PROCESS_STARTED" in rig.task_manager.kinds(attempt)
    assert (rig.logs(attempt) / "stdout.log").read_bytes() == b"hello\rworld"
    platform = (rig.logs(attempt) / "platform.log").read_text()
    assert "scripted" in platform
    assert "exited with code 0" in platform
    assert await rig.read(attempt) == b"hello\rworld"
    assert await rig.read(attempt, tail=5) == b"world"
    assert (await rig.read(attempt, "platform")).decode() == platform


async def test_a_launch_said_twice_runs_once(rig: WorkerRig) -> None:
    incarnation = await rig.start()
    attempt = an_attempt()
    launch = a_launch(attempt, incarnation=incarnation, env=scripted(0.2))
    first, second = await rig.launch(launch, launch)
    (third,) = await rig.launch(launch)
    assert first.accepted
    assert second.accepted
    assert third.accepted
    assert first.accepted_at == second.accepted_at == third.accepted_at
    await rig.ended(attempt)
    await eventually(lambda: not rig.task_manager.beats[-1].live, what="nothing is live")
    (late,) = await rig.launch(launch)
    assert not late.accepted
    assert late.slug == "fenced"


async def test_an_old_incarnation_is_refused_for_now(rig: WorkerRig) -> None:
    incarnation = await rig.start()
    (verdict,) = await rig.launch(a_launch(an_attempt(), incarnation=incarnation - 1))
    assert not verdict.accepted
    assert verdict.again_later


async def test_a_stop_ends_it_and_a_stop_before_the_launch_is_remembered(rig: WorkerRig) -> None:
    incarnation = await rig.start()
    running, unborn = an_attempt("a"), an_attempt("b")
    await rig.launch(a_launch(running, incarnation=incarnation, env=scripted(100)))
    await eventually(lambda: "PROCESS_STARTED" in rig.task_manager.kinds(running))
    await rig.stop(running, unborn)
    end = await rig.ended(running)
    assert end.kind == "CANCELLED"
    assert end.reason.word == "cancelled"
    await rig.kill()
    incarnation = await rig.start()
    (verdict,) = await rig.launch(a_launch(unborn, incarnation=incarnation))
    assert not verdict.accepted
    assert verdict.slug == "fenced"
    assert not verdict.again_later


@pytest.mark.parametrize(
    ("env", "timeout_s", "want_kind", "want_word", "want_code", "want_signal"),
    [
        (scripted(0.1, exit=3), 60.0, "FAILED", "exited", 3, None),
        (scripted(100), 0.3, "TIMED_OUT", "timed_out", None, 15),
        (scripted(100, ignores_term=1), 0.3, "TIMED_OUT", "timed_out", None, 9),
        (scripted(0.1, oom=1), 60.0, "OUT_OF_MEMORY", "out_of_memory", None, 9),
        (scripted(0, start_fails="image_not_found"), 60.0, "FAILED", "image_not_found", None, None),
        (scripted(0, start_fails=1), 60.0, "FAILED", "start_failed", None, None),
    ],
)
async def test_every_end_has_its_own_word(
    rig: WorkerRig,
    env: dict[str, str],
    timeout_s: float,
    want_kind: str,
    want_word: str,
    want_code: int | None,
    want_signal: int | None,
) -> None:
    incarnation = await rig.start()
    attempt = an_attempt()
    launch = a_launch(attempt, incarnation=incarnation, env=env, timeout_s=timeout_s, grace_s=0.2)
    await rig.launch(launch)
    end = await rig.ended(attempt)
    assert (end.kind, end.reason.word) == (want_kind, want_word)
    assert (end.reason.exit_code if end.reason.HasField("exit_code") else None) == want_code
    assert (end.reason.signal if end.reason.HasField("signal") else None) == want_signal


@pytest.mark.slow
async def test_an_output_that_cannot_be_copied_is_told_and_copied_after_kill_9(rig: WorkerRig) -> None:
    """In a state folder that no account passes, where `output_path` never worked and nobody was told."""
    rig.mount.parent.chmod(0o700)
    incarnation = await rig.start()
    attempt = an_attempt("told")
    home = rig.mount / "homes" / "ann"
    env = scripted(0.5, output="precious")
    uid = 20_001 if os.geteuid() == 0 else 0
    await rig.launch(a_launch(attempt, incarnation=incarnation, env=env, uid=uid, output_path="results/told"))
    await eventually(lambda: home.is_dir(), what="the home is made")
    (home / "results").write_bytes(b"in the way")
    await eventually(lambda: bool(rig.task_manager.late.get(attempt)), what="a warning")
    assert "`results` is a file or a link, and not a folder" in rig.task_manager.late[attempt][0]
    await rig.kill()
    (home / "results").unlink()
    await rig.start()
    await eventually(lambda: rig.task_manager.late[attempt] == [], what="the warning goes")
    assert (home / "results" / "told" / "stdout.log").read_bytes() == b"precious"
    if uid:
        assert (home / "results" / "told" / "stdout.log").stat().st_uid == uid


async def test_kill_9_in_the_middle_loses_nothing_and_starts_nothing_twice(rig: WorkerRig) -> None:
    incarnation = await rig.start()
    before = [an_attempt(f"before{n}") for n in range(10)]
    during = [an_attempt(f"during{n}") for n in range(10)]
    after = [an_attempt(f"after{n}") for n in range(10)]
    rig.task_manager.deaf_to_reports = True
    await rig.launch(
        *(a_launch(a, incarnation=incarnation, env=scripted(0.1, output="b" * 100)) for a in before),
        *(a_launch(a, incarnation=incarnation, env=scripted(2, output="d" * 100)) for a in during),
        *(a_launch(a, incarnation=incarnation, env=scripted(4)) for a in after),
    )
    await eventually(lambda: all(rig.task_manager.end_of(a) for a in before), what="the short ones ended")
    starts = {
        str(a): next(r.process_started_at for r in rig.task_manager.reports if r.kind == "PROCESS_STARTED")
        for a in after
    }
    await rig.kill()
    rig.task_manager.reports.clear()
    rig.task_manager.deaf_to_reports = False
    await asyncio.sleep(2.5)
    again = await rig.start()
    assert again > incarnation
    for attempt in [*before, *during, *after]:
        end = await rig.ended(attempt)
        assert end.kind == "SUCCEEDED", end
    for attempt in before:
        assert (rig.logs(attempt) / "stdout.log").read_bytes() == b"b" * 100
    for attempt in during:
        # It ended while nobody looked, at its own time and not at the Worker's return.
        end = await rig.ended(attempt)
        assert end.run_s == pytest.approx(2.0, abs=0.001)
        assert (rig.logs(attempt) / "stdout.log").read_bytes() == b"d" * 100
    for attempt in after:
        end = await rig.ended(attempt)
        assert end.run_s == pytest.approx(4.0, abs=0.001)
        assert end.process_started_at == pytest.approx(starts[str(attempt)], abs=0.5)


async def test_a_timeout_holds_while_the_worker_is_dead(rig: WorkerRig) -> None:
    incarnation = await rig.start()
    attempt = an_attempt()
    await rig.launch(a_launch(attempt, incarnation=incarnation, env=scripted(100), timeout_s=1.0, grace_s=0.1))
    await eventually(lambda: "PROCESS_STARTED" in rig.task_manager.kinds(attempt))
    await rig.kill()
    await asyncio.sleep(2)
    await rig.start()
    end = await rig.ended(attempt)
    assert end.kind == "TIMED_OUT"
    assert end.run_s == pytest.approx(1.0, abs=0.01)
    ends = [kind for kind in rig.task_manager.kinds(attempt) if kind == "TIMED_OUT"]
    assert len(ends) == 1, "reported once, since it was answered"


async def test_a_planned_stop_tells_so_and_leaves_tasks_running(rig: WorkerRig) -> None:
    incarnation = await rig.start()
    attempt = an_attempt()
    await rig.launch(a_launch(attempt, incarnation=incarnation, env=scripted(3)))
    await eventually(lambda: "PROCESS_STARTED" in rig.task_manager.kinds(attempt))
    assert await rig.terminate() == 0
    assert rig.task_manager.beats[-1].stopping
    assert rig.task_manager.end_of(attempt) is None
    await rig.start()
    end = await rig.ended(attempt)
    assert end.kind == "SUCCEEDED"


async def test_discarded_attempts_end_and_are_never_reported(rig: WorkerRig) -> None:
    incarnation = await rig.start()
    attempt = an_attempt()
    await rig.launch(a_launch(attempt, incarnation=incarnation, env=scripted(100)))
    await eventually(lambda: "PROCESS_STARTED" in rig.task_manager.kinds(attempt))
    rig.task_manager.discard = [attempt]
    await eventually(lambda: not rig.task_manager.beats[-1].live, what="it is gone")
    assert rig.task_manager.end_of(attempt) is None


async def test_an_end_is_reported_until_it_is_answered(rig: WorkerRig) -> None:
    incarnation = await rig.start()
    attempt = an_attempt()
    rig.task_manager.down = True
    await rig.launch(a_launch(attempt, incarnation=incarnation, env=scripted(0.1)))
    await asyncio.sleep(0.7)
    rig.task_manager.down = False
    rig.task_manager.deaf_to_reports = True
    await rig.ended(attempt)
    # The newest heartbeat may be of before the launch: none came through while TaskManager was down.
    rig.task_manager.beats.clear()
    await eventually(lambda: rig.task_manager.beats, what="a heartbeat after the end")
    assert attempt.task.name in {a.task.name for a in rig.task_manager.beats[-1].live}
    rig.task_manager.deaf_to_reports = False
    await eventually(lambda: not rig.task_manager.beats[-1].live, what="answered, so it is live no more")


async def test_following_a_log_ends_shortly_after_the_attempt(rig: WorkerRig) -> None:
    incarnation = await rig.start()
    attempt = an_attempt()
    await rig.launch(a_launch(attempt, incarnation=incarnation, env=scripted(1, output="\x00\xff 10%\r 20%\r")))
    chunks = [chunk async for chunk in rig.chunks(attempt, follow=True)]
    assert b"".join(chunk.data for chunk in chunks) == "\x00\xff 10%\r 20%\r".encode()
    assert chunks[-1].ended
    assert any(chunk.marks for chunk in chunks)
    end = await rig.ended(attempt)
    assert end.kind == "SUCCEEDED"


async def test_the_node_tells_what_it_is(tmp_path: Path) -> None:
    async with worker_rig(tmp_path, worker__simulated_gpus=2) as rig:
        incarnation = await rig.start()
        status = await rig.status()
        assert status.incarnation == incarnation
        assert status.capacity.runtime == "scripted"
        assert status.capacity.cpu_centi == 6400
        assert [gpu.simulated for gpu in status.capacity.gpus] == [True, True]
        assert status.memory_total_bytes > 0
        assert status.disk_total_bytes > 0
        await eventually(lambda: rig.resource_manager.registered, what="it registered")
        assert rig.resource_manager.registered[0].incarnation == incarnation
        rig.resource_manager.known = False
        # A node that ResourceManager has forgotten registers again at the next change.
        (rig.mount / ".headway-mount").unlink()
        await eventually(lambda: len(rig.resource_manager.registered) > 1, within_s=20)


async def test_without_its_marker_the_mount_takes_no_work_and_no_byte(rig: WorkerRig) -> None:
    incarnation = await rig.start()
    (rig.mount / ".headway-mount").rename(rig.mount / "elsewhere")
    await eventually(lambda: "mount_unavailable" in rig.resource_manager.conditions(), within_s=20)
    attempt = an_attempt()
    launch = a_launch(attempt, incarnation=incarnation, env=scripted(0.1, output="x"))
    (verdict,) = await rig.launch(launch)
    assert not verdict.accepted
    assert verdict.again_later
    assert verdict.slug == "mount-unavailable"
    assert not (rig.mount / "jobs" / attempt.task.job_id).exists()
    assert not (rig.mount / "homes" / "ann").exists()
    (rig.mount / "elsewhere").rename(rig.mount / ".headway-mount")
    await eventually(lambda: "mount_unavailable" not in rig.resource_manager.conditions(), within_s=20)
    (verdict,) = await rig.launch(launch)
    assert verdict.accepted
    assert (await rig.ended(attempt)).kind == "SUCCEEDED"
