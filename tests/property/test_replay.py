"""A recorded day replays to identical decisions: every pass of random clusters and streams, through bytes and back."""

from __future__ import annotations

import json
import random
import zlib
from dataclasses import replace

import pytest

from headway.ids import TaskId
from task_manager.decisions import frame_codec, frames
from task_manager.decisions.frames import Frame
from task_manager.limits import AdmissionLimits, ShortTaskReserve
from task_manager.model import Task
from task_manager.order import policy_registry
from task_manager.order.policy import Policy, View
from task_manager.planning.pass_model import Discipline, PassInput, PassSettings, Plan, PromiseRule
from task_manager.planning.scheduling_pass import plan_pass
from tests.property.test_promises import Stream
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import a_node, a_task

_DAYS = 28


class Recorded(Cluster):
    """Records each pass as TaskManager does, and checks that it comes back the same."""

    before: Frame | None = None
    recorded = 0
    bytes = 0

    def snapshot(self) -> PassInput:
        # In no order that a replay could guess, as the live queue has it.
        seen = super().snapshot()
        running = sorted(seen.running, key=lambda booking: zlib.crc32(f"{self.recorded} {booking.task_id}".encode()))
        return replace(seen, running=running, last_used=lambda uuid: float(zlib.crc32(uuid.encode())))

    def step(self) -> Plan:
        seen = self.snapshot()
        said = plan_pass(seen)
        kept = frames.frame_of(seen, said, "any")
        blob = frame_codec.encode(kept, self.before)
        again = frame_codec.decode(blob, self.before)
        assert_same(again, kept)
        told = frames.replay(again)
        assert told.placements == said.placements
        assert told.waits == said.waits
        assert (told.promised, told.owed) == (said.promised, said.owed)
        assert told.reservations == said.reservations
        assert told.estimates == said.estimates
        assert told.dropped == said.dropped
        assert told.next_wake_s == said.next_wake_s
        # A whole one now and then, as a start of TaskManager makes it.
        self.before = None if self.recorded % 7 == 6 else again
        self.recorded += 1
        self.bytes += len(blob)
        return super().step()


class Moody(Policy):
    """Fails as long as certain tasks wait; then another rule stands in."""

    name = "moody"

    def key(self, task: Task, now: float, view: View | None) -> float:
        if task.id.name.endswith("7"):
            raise RuntimeError("seven")
        return -task.submitted_at


def assert_same(one: Frame, other: Frame) -> None:
    assert one.head == other.head
    for part in (
        "nodes",
        "left",
        "running",
        "places",
        "waits",
        "placements",
        "order",
        "numbers",
        "outlived",
        "changes",
    ):
        assert getattr(one, part) == getattr(other, part), part
    # What a pass does not look at is not kept of a task.
    assert {t: bare(s) for t, s in one.tasks.items()} == {t: bare(s) for t, s in other.tasks.items()}


def bare(seen: frames.FrameTask) -> frames.FrameTask:
    task = replace(seen.task, generation=1, job_name="", queued_at=0.0, not_before=0.0)
    return replace(seen, task=task)


@pytest.mark.parametrize("day", range(_DAYS))
def test_a_recorded_day_replays_to_identical_decisions(day: int) -> None:
    chance = random.Random(day)
    stream = Stream(1_000 + day, calm=False)
    name = ("aging_sjf", "log_aging:c=600", "fifo", "hrrn", "adaptive", "fair", "moody")[day % 7]
    limits = AdmissionLimits(
        running_gpus_per_user=chance.choice([None, None, 8]),
        short_reserve=chance.choice([None, ShortTaskReserve(1, 300.0)]),
    )
    settings = PassSettings(
        discipline=chance.choice(list(Discipline)),
        reserved=chance.choice([2, 5, 200]),
        filled=chance.choice([3, 20, 1_000]),
        limits=limits,
        start_limit_s=2.0,
        stop_limit_s=1.0,
        promises=list(PromiseRule)[day // 7 % 2],
    )
    # Some run longer than they may: then the order in which bookings are looked at matters to what is said.
    cluster = Recorded(
        stream.nodes(),
        Moody() if name == "moody" else policy_registry.by_name(name),
        settings,
        run_s=lambda task: task.timeout_s * chance.choice([0.2, 0.9, 1.0, 1.3]) + 0.125,
        checked=False,
        wall_offset_s=chance.choice([0.0, 1.6e9]),
    )
    largest = max((len(node.gpus) for node in cluster.nodes.values()), default=0)
    at = cluster.wall_offset_s
    for i in range(30):
        at += chance.expovariate(1 / 30)
        task = stream.task(i, at, largest)
        grace_s = chance.choice([0.0, 0.0, 90.0])
        cluster.submit(replace(task, timeout_s=round(chance.uniform(10, 900), 3), grace_s=grace_s))
    cluster.run(until=1_500.0)
    assert cluster.recorded > 20


def test_a_pass_costs_few_bytes_beside_the_one_before() -> None:
    stream = Stream(7, calm=True)
    cluster = Recorded(stream.nodes(), policy_registry.by_name("aging_sjf"), checked=False)
    for i in range(80):
        cluster.submit(stream.task(i, float(i), 2))
    cluster.run(until=200.0)
    assert cluster.recorded > 80
    assert cluster.bytes / cluster.recorded < 2_000


def test_what_is_too_much_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MOST_TASKS", 3)
    stream = Stream(3, calm=True)
    cluster = Cluster(stream.nodes(), policy_registry.by_name("fifo"))
    tasks: list[Task] = [stream.task(i, 0.0, 2) for i in range(20)]
    for task in tasks:
        cluster.enqueue(task)
    seen = cluster.snapshot()
    said = plan_pass(seen)
    kept = frame_codec.decode(frame_codec.encode(frames.frame_of(seen, said, "fifo"), None), None)
    assert not kept.head.whole
    assert len(kept.tasks) == 3
    assert kept.placements == said.placements
    ids: list[TaskId] = [placement.task_id for placement in said.placements]
    assert ids


def test_what_an_older_version_kept_is_read() -> None:
    cluster = Cluster([a_node()], policy_registry.by_name("fifo"))
    cluster.enqueue(a_task("t", grace_s=600.0))
    seen = cluster.snapshot()
    said = json.loads(zlib.decompress(frame_codec.encode(frames.frame_of(seen, plan_pass(seen), "fifo"), None)))
    assert said["tasks"][0].pop() == 600.0
    said["settings"]["limits"]["queued_tasks_per_user"] = None  # JobManager's to count since
    old = frame_codec.decode(zlib.compress(json.dumps(said).encode()), None)
    assert [seen.task.grace_s for seen in old.tasks.values()] == [0.0]


def test_of_two_that_outlived_their_bookings_the_same_is_blamed() -> None:
    cluster = Cluster([a_node(gpus=2)], policy_registry.by_name("fifo"), checked=False)
    for name in ("x", "y"):
        cluster.enqueue(a_task(name, gpus=1, timeout=5.0))
    cluster.step()
    cluster.enqueue(a_task("t", gpus=2, timeout=5.0))
    cluster.now = 4.0
    cluster.step()
    (promised,) = cluster.reservations
    cluster.now = 10.0
    seen = cluster.snapshot()
    before = frames.frame_of(seen, plan_pass(seen), "fifo")
    blamed = set()
    for running in (list(seen.running), list(reversed(seen.running))):
        turned = replace(seen, running=running, changes=())  # after a restart no event is known
        said = plan_pass(turned)
        again = frame_codec.decode(frame_codec.encode(frames.frame_of(turned, said, "fifo"), before), before)
        assert [lost.task_id for lost in said.dropped] == [promised]
        assert frames.replay(again).dropped == said.dropped
        blamed.add(said.dropped[0].cause)
    assert len(blamed) == 2, "otherwise this tests nothing"
