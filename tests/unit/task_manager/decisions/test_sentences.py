"""What the decision log says of each waiting task, also of those that a pass did not look at: all of it is true."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headway.ids import NodeId
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2 as pb
from task_manager.decisions import frame_codec, frames
from task_manager.decisions.sentences import describe_pass
from task_manager.limits import AdmissionLimits, ShortTaskReserve
from task_manager.model import Task
from task_manager.order import policy_registry
from task_manager.planning.bookings import Reservation, kind_of
from task_manager.planning.limit_checks import GpuHoldings, limits_reached, ruled_out
from task_manager.planning.pass_model import Discipline, PassInput, PassSettings, Plan
from task_manager.planning.reasons import explain
from task_manager.planning.scheduling_pass import plan_pass
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import a_node, a_task, gpus_of, tid

Said = pb.ListDecisionsReply.Pass
KIND = kind_of(gpus_of("n1", 1)[0])


class Log(Cluster):
    """Keeps what each pass that started something says of each task that waits."""

    policy_text = "fifo"

    def step(self) -> Plan:
        self.seen = self.snapshot()
        self.plan = plan_pass(self.seen)
        kept = frames.frame_of(self.seen, self.plan, self.policy_text)
        self.kept = frame_codec.decode(frame_codec.encode(kept, None), None)
        if self.plan.placements:
            self.said = {task.id: describe_pass(self.kept, 1, self.now, task) for task in self.tasks.values()}
            for task in self.tasks.values():
                self.look(task, self.said[task.id])
        return super().step()

    def look(self, task: Task, said: Said) -> None:
        """What a test asks of each."""

    def of(self, name: str) -> Said:
        """In the last pass that started something."""
        return self.said[tid(name)]


def words(said: Said) -> list[str]:
    return [reason.word for reason in said.reasons]


def sentences(said: Said) -> dict[str, str]:
    return {start.task.name: start.sentence for start in said.started}


def a_log(gpus: int, policy: str = "fifo", **settings: Any) -> Log:
    log = Log([a_node(gpus=gpus, cpu=10_000)], policy_registry.by_name(policy), PassSettings(**settings), checked=False)
    log.policy_text = policy
    return log


ONE_EACH = AdmissionLimits(running_gpus_per_user=1)


@pytest.mark.parametrize("discipline", list(Discipline))
def test_whom_a_cap_holds_is_told_so_and_that_it_blocks_nobody_else(discipline: Discipline) -> None:
    """They were told to be too far behind, in a pause or on hold, and not why others went before."""
    log = a_log(3, discipline=discipline, limits=ONE_EACH)
    names = ("one", "two", "three", "four")
    log.submit(*(a_task(name, gpus=1, at=float(i), timeout=600) for i, name in enumerate(names)))
    log.submit(a_task("other", gpus=1, at=10.0, timeout=600, owner="ben"))
    log.run(until=20)
    for name in names[1:]:
        said = log.of(name)
        assert [start.task.name for start in said.started] == ["other"]
        assert words(said)[0] == "user_limit"
        assert said.reasons[0].sentence.startswith("ann holds 1 of the 1 GPUs that one account may hold")
        assert sentences(said)["other"] == (
            f"{tid('other')} was behind {tid(name)} but started on n1: a limit held {tid(name)}, and a "
            "limit does not hold up other tasks."
        )
        assert not said.started[0].ahead


def test_a_cap_is_the_reason_also_where_the_start_behind_it_was_promised() -> None:
    """It was said that it came later than a promise; it had been there before."""
    log = a_log(2, limits=ONE_EACH)
    log.submit(
        a_task("runs", gpus=1, timeout=1_000),
        a_task("bens", gpus=1, timeout=100, owner="ben"),
        a_task("two", gpus=1, at=1.0, timeout=600),
        a_task("day", gpus=1, at=2.0, timeout=800, owner="ben"),
    )
    log.run(until=50)
    assert log.last is not None
    assert {tid("two"), tid("day")} <= set(log.last.promised)
    log.run(until=101)
    said = log.of("two")
    assert words(said)[0] == "user_limit"
    assert sentences(said)["day"].endswith(f"a limit held {tid('two')}, and a limit does not hold up other tasks.")


def test_a_promised_start_is_a_reason_for_those_that_came_later() -> None:
    log = a_log(2)
    log.submit(
        a_task("runs", gpus=1, timeout=1_000),
        a_task("ends", gpus=1, timeout=100),
        a_task("large", gpus=2, at=1.0, timeout=600),
        a_task("small", gpus=1, at=2.0, timeout=800),
    )
    log.run(until=101)
    what = f"{tid('small')} was behind {tid('large')} but started on n1: its start had been promised"
    assert (
        sentences(log.of("large"))["small"] == f"{what}, and a promise is kept even if another task is ahead by then."
    )
    assert log.kept.places[tid("small")].first_promised_at == 2.0
    later = describe_pass(log.kept, 1, log.now, log.tasks[tid("large")], came_at=3.0)
    assert sentences(later)["small"] == f"{what} before {tid('large')} came, and a later task can't delay it."


def test_hold_pause_and_what_was_beyond_are_told_apart() -> None:
    log = a_log(3, discipline=Discipline.EASY, filled=2)
    log.submit(a_task("runs", gpus=1, timeout=100), *(a_task(f"ends{i}", gpus=1, timeout=10) for i in range(2)))
    log.submit(a_task("large", gpus=3, at=1.0, timeout=100), a_task("small", gpus=1, at=1.5, timeout=50))
    log.submit(*(a_task(f"long{i}", gpus=1, at=2.0 + i, timeout=1_000) for i in range(4)))
    log.run(until=6)
    for name, is_held in (("pause", False), ("held", True)):
        log.tasks[tid(name)] = a_task(name, gpus=1, held=is_held)
    log.queue.add(log.tasks[tid("pause")], runnable=False)
    log.reservations[tid("pause")] = Reservation(NodeId("n1"), ((KIND, 1),), 500.0, 60.0, 500.0)  # of before its fault
    log.run(until=11)
    large, seen, beyond, held = (log.of(name) for name in ("large", "long1", "long3", "held"))
    assert [start.task.name for start in large.started] == ["small"]
    assert (seen.place, words(seen)) == (5, ["reserved_for_larger_task"])
    assert (beyond.place, words(beyond)) == (0, ["behind_higher_priority"])
    assert beyond.reasons[0].sentence.startswith("The scheduler looked at 4 tasks, the most that it may at a time")
    assert beyond.started[0].ahead
    assert "was ahead of" in sentences(beyond)["small"]
    assert [(r.word, r.sentence) for r in held.reasons] == [
        ("held", "It is on hold now; the log does not say since when.")
    ]
    assert "but started on" not in str(held), "nobody knows that it was in the line"
    pause = log.of("pause")
    assert [(r.word, r.sentence) for r in pause.reasons] == [("retry_pause", "It was in a pause before its next try.")]
    assert sentences(pause)["small"].endswith(f"but started on n1: {tid('pause')} was in a pause before its next try.")


def test_what_there_was_room_for_but_was_not_looked_at_is_told_so() -> None:
    log = a_log(4, reserved=1, starts=2)
    for i in range(4):
        log.enqueue(a_task(f"t{i}", gpus=1, timeout=100))
    log.step()
    said = log.of("t3")
    assert said.place == 0
    assert [r.sentence for r in said.reasons] == [
        "The scheduler had started 2 tasks, the most that it may start at a time."
    ]
    assert sentences(said)["t0"].startswith(f"{tid('t0')} was ahead of {tid('t3')}: their order numbers are equal, and")


class Truth(Log):
    """Compares with the queue itself, of which a frame has a part."""

    def look(self, task: Task, said: Said) -> None:
        seen = self.seen
        key = seen.queue.key_of(task.id)
        if said.started_itself:
            return
        assert said.reasons, f"{task.id} is told nothing"
        for start in said.started:
            other = seen.queue.key_of(convert.task_id(start.task))
            assert other is not None
            assert key is not None
            if start.ahead:
                assert other < key, start.sentence
            if " was behind " in start.sentence:
                assert other > key, start.sentence
            if "a limit held" in start.sentence:
                assert self.is_limited(seen, task), start.sentence
            if "no machine had room" in start.sentence:
                assert explain.ClusterSnapshot(seen.free_resources).node_reasons(task.shape), start.sentence
        runnable = seen.queue.is_runnable(task.id)
        for reason in said.reasons:
            if "looked at" in reason.sentence or "the most that one pass may start" in reason.sentence:
                assert task.id not in self.plan.waits, reason.sentence
                assert runnable, reason.sentence
            if reason.word == "retry_pause":
                assert not runnable, reason.sentence
            if reason.word == "behind_higher_priority" and reason.sentence[0].isdigit():
                ahead = [one for one in seen.queue.in_order() if (seen.queue.key_of(one) or ()) < (key or ())]
                left = set(ahead) - {placement.task_id for placement in self.plan.placements}
                assert reason.sentence.startswith(f"{len(left)} waiting"), reason.sentence

    def is_limited(self, seen: PassInput, task: Task) -> bool:
        limits, gpus = seen.settings.limits, seen.view.gpus
        wait = self.plan.waits.get(task.id)
        if wait is not None and wait.why in ("user_limit", "short_reserve", "not_admitted"):
            return True
        held = [(one.owner, one.shape, one.timeout_s) for one in seen.running]
        for placement in self.plan.placements:
            one = seen.tasks[placement.task_id]
            if (seen.queue.key_of(one.id) or ()) < (seen.queue.key_of(task.id) or ()):
                held.append((one.owner, one.shape, one.timeout_s))
        return bool(
            ruled_out(limits, task.shape, task.timeout_s, gpus=gpus)
            or limits_reached(limits, task, GpuHoldings.of(limits, held), gpus=gpus)
        )


@pytest.mark.parametrize("policy", ["fifo", "aging_sjf:beta=2", "adaptive", "hrrn"])
@pytest.mark.parametrize("discipline", list(Discipline))
def test_nothing_untrue_is_said_in_a_random_life(policy: str, discipline: Discipline) -> None:
    for seed in range(2):
        chance = random.Random(seed)
        limits = AdmissionLimits(
            running_gpus_per_user=chance.choice([None, 1, 2, 3]),
            short_reserve=chance.choice([None, ShortTaskReserve(1, 100.0)]),
        )
        settings = PassSettings(
            discipline=discipline, reserved=chance.choice([1, 3, 200]), filled=chance.choice([1, 4, 1_000]),
            starts=chance.choice([1, 2, 250]), limits=limits,
        )  # fmt: skip
        nodes = [a_node("n1", gpus=2), a_node("n2", gpus=2, cpu=200)]
        life = Truth(
            nodes, policy_registry.by_name(policy), settings, run_s=lambda task: task.timeout_s * 0.7, checked=False
        )
        life.policy_text = policy
        at = 0.0
        for i in range(30):
            at += chance.choice([0.0, 0.0, 20.0])
            life.submit(
                a_task(
                    f"t{i:02d}", at=at, timeout=float(chance.choice([20, 90, 300])), gpus=chance.choice([0, 1, 1, 2]),
                    owner=chance.choice(["ann", "ben"]), priority=chance.choice([0, 0, 0, 1]),
                )
            )  # fmt: skip
        life.run(until=3_000)
        assert life.passes > 15
