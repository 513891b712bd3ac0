"""The script of a task, and when it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headway.errors import InvalidInput
from headway.jobfile import Network
from headway.model.reasons import EndWord
from tests.support.clock import FakeClock
from tests.unit.worker.builders import an_attempt
from worker.box import BoxEnd, LaunchSpec, StopWord, Stream
from worker.ports import ContainerState, LocalImage, RuntimeRefused, StartOrder
from worker.runtime.scripted import ScriptedRuntime
from worker.runtime.scripted_plan import Script, ScriptedRun, ScriptedStop, ends_at

S = 10**9
RUN = ScriptedRun(
    Script(run_ns=10 * S), boot_ns=100 * S, wall_ns=5_000 * S, timeout_ms=60_000, grace_ms=2_000, lease_grace_ms=1_000
)
DEAF = replace(RUN, script=replace(RUN.script, ignores_term=True))


@pytest.mark.parametrize(
    ("run", "stop", "lease_s", "want_after_s", "want_reason", "want_code", "want_signal"),
    [
        (RUN, None, None, 10, BoxEnd.EXITED, 0, None),
        (replace(RUN, script=Script(10 * S, exit_code=3)), None, None, 10, BoxEnd.EXITED, 3, None),
        (replace(RUN, script=Script(10 * S, out_of_memory=True)), None, None, 10, BoxEnd.EXITED, None, 9),
        (replace(RUN, timeout_ms=4_000), None, None, 4, BoxEnd.TIMED_OUT, None, 15),
        (replace(DEAF, timeout_ms=4_000), None, None, 6, BoxEnd.TIMED_OUT, None, 9),
        # Its run time is over within its grace: it ends by itself, but the timeout had struck.
        (replace(DEAF, timeout_ms=9_000), None, None, 10, BoxEnd.TIMED_OUT, 0, None),
        (RUN, ScriptedStop(StopWord.CANCELLED, 103 * S), None, 3, BoxEnd.STOPPED, None, 15),
        (DEAF, ScriptedStop(StopWord.CANCELLED, 103 * S), None, 5, BoxEnd.STOPPED, None, 9),
        (DEAF, ScriptedStop(StopWord.CANCELLED, 103 * S, 0), None, 3, BoxEnd.STOPPED, None, 9),
        (RUN, ScriptedStop(StopWord.CANCELLED, 111 * S), None, 10, BoxEnd.EXITED, 0, None),
        (RUN, ScriptedStop(StopWord.CANCELLED, 1 * S), None, 0, BoxEnd.STOPPED, None, 15),
        (RUN, None, 107, 7, BoxEnd.LEASE_EXPIRED, None, 15),
        (DEAF, None, 107, 8, BoxEnd.LEASE_EXPIRED, None, 9),
        (RUN, ScriptedStop(StopWord.CANCELLED, 108 * S), 107, 7, BoxEnd.LEASE_EXPIRED, None, 15),
    ],
)
def test_what_comes_first_ends_it(
    run: ScriptedRun,
    stop: ScriptedStop | None,
    lease_s: int | None,
    want_after_s: int,
    want_reason: BoxEnd,
    want_code: int | None,
    want_signal: int | None,
) -> None:
    at, record = ends_at(run, stop, None if lease_s is None else lease_s * S)
    assert at == (100 + want_after_s) * S
    assert (record.reason, record.exit_code, record.signal) == (want_reason, want_code, want_signal)
    assert record.run_ns == want_after_s * S
    assert record.ended_wall_ns == (5_000 + want_after_s) * S


def test_a_script_is_read_from_the_environment() -> None:
    env = {
        f"HEADWAY_SCRIPTED_{name}": value
        for name, value in [("RUN_S", "1.5"), ("EXIT", "7"), ("OUTPUT", "a\rb"), ("IGNORES_TERM", "1"), ("OOM", "no")]
    }
    assert Script.from_env(env) == Script(1_500_000_000, 7, b"a\rb", None, True, False)
    assert Script.from_env({"HEADWAY_SCRIPTED_STDERR": "e"}) == Script(errors=b"e")
    assert Script.from_env({}) == Script()
    assert Script.from_env({"HEADWAY_SCRIPTED_START_FAILS": "image_bad"}).start_fails is EndWord.IMAGE_BAD
    assert Script.from_env({"HEADWAY_SCRIPTED_START_FAILS": "1"}).start_fails is EndWord.START_FAILED


@pytest.mark.parametrize(
    "bad", [{"RUN_S": "soon"}, {"RUN_S": "-1"}, {"RUN_S": "inf"}, {"RUN_S": "nan"}, {"EXIT": "256"}]
)
def test_a_script_without_sense_is_refused(bad: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        Script.from_env({f"HEADWAY_SCRIPTED_{name}": value for name, value in bad.items()})


class World:
    """A scripted runtime that can be restarted, also on a machine that booted anew."""

    def __init__(self, folder: Path, clock: FakeClock) -> None:
        self.folder = folder
        self.clock = clock
        self.nudged: list[object] = []

    async def open(self, boot: str = "boot-1") -> ScriptedRuntime:
        self.runtime = ScriptedRuntime(self.folder / "attempts", self.folder / "journal", self.clock, boot_id=boot)
        await self.runtime.open(self.nudged.append)
        return self.runtime

    def order(self, *, lease_s: float | None = None, **env: object) -> StartOrder:
        return StartOrder(
            attempt=an_attempt(),
            image=LocalImage("scripted"),
            spec=LaunchSpec(
                args=("true",),
                env={f"HEADWAY_SCRIPTED_{name.upper()}": str(value) for name, value in env.items()},
                user="0:0",
                timeout_ms=60_000,
                grace_ms=2_000,
            ),
            command=None,
            lease_until_boot_ns=None if lease_s is None else round((self.clock.monotonic() + lease_s) * S),
            cpus_centi=100,
            memory_bytes=1,
            shm_bytes=1,
            network=Network.OUTGOING,
        )


@pytest.fixture
def world(tmp_path: Path, clock: FakeClock) -> World:
    return World(tmp_path, clock)


async def test_time_brings_the_end_and_a_nudge(world: World, clock: FakeClock) -> None:
    runtime = await world.open()
    await runtime.start(world.order(run_s=10))
    await clock.advance(9.9)
    assert (await runtime.progress(an_attempt())).end is None
    assert not world.nudged
    await clock.advance(0.2)
    assert world.nudged == [an_attempt()]
    end = (await runtime.progress(an_attempt())).end
    assert end is not None
    assert end.exit_code == 0
    await runtime.close()


async def test_a_wall_clock_that_jumps_changes_no_run(world: World, clock: FakeClock) -> None:
    runtime = await world.open()
    await runtime.start(world.order(run_s=10))
    clock.step_wall(-3600)
    await clock.advance(10)
    end = (await runtime.progress(an_attempt())).end
    assert end is not None
    assert end.run_ns == 10 * S
    await runtime.close()


async def test_a_renewal_after_the_lease_resurrects_nothing(world: World, clock: FakeClock) -> None:
    runtime = await world.open()
    await runtime.start(world.order(run_s=100, lease_s=5))
    clock.tick(6)
    await runtime.renew({an_attempt(): None})
    end = (await runtime.progress(an_attempt())).end
    assert end is not None
    assert end.reason is BoxEnd.LEASE_EXPIRED
    await runtime.close()
    # Nor does it after a restart, which reads the same story from the journal.
    runtime = await world.open()
    assert (await runtime.progress(an_attempt())).end == end
    await runtime.close()


async def test_orders_survive_a_restart(world: World, clock: FakeClock) -> None:
    runtime = await world.open()
    await runtime.start(world.order(run_s=100, ignores_term=1, output="x"))
    await clock.advance(3)
    await runtime.stop(an_attempt(), StopWord.CANCELLED)
    await runtime.close()
    await clock.advance(10)
    runtime = await world.open()
    end = (await runtime.progress(an_attempt())).end
    assert end is not None
    assert (end.reason, end.stop_word, end.signal, end.run_ns) == (BoxEnd.STOPPED, StopWord.CANCELLED, 9, 5 * S)
    spool = runtime.spool(an_attempt(), Stream.STDOUT)
    assert spool is not None
    assert spool.read_bytes() == b"x"
    await runtime.close()


async def test_more_time_moves_the_end_and_survives_a_restart(world: World, clock: FakeClock) -> None:
    runtime = await world.open()
    await runtime.start(world.order(run_s=1_000))
    await runtime.extend(an_attempt(), 90_000)
    assert world.nudged == [an_attempt()]
    assert (await runtime.progress(an_attempt())).timeout_ms == 90_000
    await runtime.extend(an_attempt(), 70_000)
    await clock.advance(89)
    assert (await runtime.progress(an_attempt())).end is None
    await runtime.close()
    runtime = await world.open()
    await clock.advance(2)
    progress = await runtime.progress(an_attempt())
    assert progress.end is not None
    assert (progress.end.reason, progress.end.run_ns, progress.timeout_ms) == (BoxEnd.TIMED_OUT, 90 * S, 90_000)
    await runtime.close()


async def test_time_that_comes_in_the_grace_or_later_changes_nothing(world: World, clock: FakeClock) -> None:
    runtime = await world.open()
    await runtime.start(world.order(run_s=1_000, ignores_term=1))
    clock.tick(61)
    await runtime.extend(an_attempt(), 90_000)
    clock.tick(5)
    await runtime.extend(an_attempt(), 90_000)
    progress = await runtime.progress(an_attempt())
    assert progress.end is not None
    assert (progress.end.reason, progress.end.run_ns, progress.timeout_ms) == (BoxEnd.TIMED_OUT, 62 * S, None)
    assert progress.end.timeout_ms == 60_000
    await runtime.close()


async def test_a_reboot_leaves_what_engines_leave(world: World, clock: FakeClock) -> None:
    runtime = await world.open()
    await runtime.start(world.order(run_s=100))
    await runtime.close()
    for _ in range(2):
        runtime = await world.open("boot-2")
        facts = await runtime.inspect(an_attempt())
        assert (facts.state, facts.exit_code) == (ContainerState.EXITED, 0)
        assert (await runtime.progress(an_attempt())).end is None
        await runtime.close()


async def test_a_start_that_fails_leaves_nothing(world: World) -> None:
    runtime = await world.open()
    with pytest.raises(RuntimeRefused) as refused:
        await runtime.start(world.order(start_fails="image_pull_failed"))
    assert refused.value.word is EndWord.IMAGE_PULL_FAILED
    assert not await runtime.list()
    await runtime.close()


async def test_a_journal_that_was_cut_short_is_read_as_far_as_it_goes(world: World, clock: FakeClock) -> None:
    runtime = await world.open()
    await runtime.start(world.order(run_s=100))
    await runtime.close()
    with (world.folder / "journal").open("ab") as journal:
        journal.write(b'{"gone":"j01234')
    runtime = await world.open()
    assert (await runtime.inspect(an_attempt())).state is ContainerState.RUNNING
    await runtime.close()
