"""Limits and the GPUs that there are, in the live queue: what contradicts itself is told, and held with its reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headway.rpc.v1 import common_pb2
from headway.rpc.v1 import task_manager_pb2 as pb
from task_manager.answers.scheduling_view import scheduling
from task_manager.engine import pass_input
from task_manager.limits import AdmissionLimits, ShortTaskReserve
from task_manager.planning.preview import PREVIEW_JOB, previewed_starts
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import SETTINGS, TaskManagerRig, a_node, a_task, a_task_manager, tid

LIMITS = AdmissionLimits(((0, 3_600.0), (4, 86_400.0)), 60.0, 4, ShortTaskReserve(2, 600.0))
LIMITED = replace(SETTINGS, limits=LIMITS)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    words = [record.getMessage() for record in caplog.records if record.getMessage().startswith("limits.")]
    caplog.clear()
    return words


def shown(rig: TaskManagerRig) -> list[str]:
    return list(scheduling(rig.engine.state, rig.engine.scheduling_choice).contradictions)


async def test_a_reserve_as_large_as_the_cluster_is_told_whenever_that_becomes_so(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with a_task_manager(tmp_path, clock, settings=LIMITED) as rig:
        assert (told(caplog), shown(rig)) == ([], [])  # nobody knows the GPUs yet
        await rig.nodes(a_node(gpus=2))
        assert told(caplog) == ["limits.contradict"]
        assert "(2 GPUs) leaves none of the cluster's 2 for tasks longer than 10m" in shown(rig)[0]
        await rig.nodes(a_node(gpus=2), a_node("cpu"))
        assert told(caplog) == []  # once is enough
        await rig.restart()
        assert told(caplog) == ["limits.contradict"]  # by the nodes that are stored
        assert shown(rig)
        await rig.nodes(a_node(gpus=2), a_node("n2", gpus=1))
        assert (told(caplog), shown(rig)) == (["limits.agree_again"], [])


async def test_what_waits_for_more_gpus_says_so_has_no_estimate_and_starts_once_they_are_there(
    tmp_path: Path, clock: FakeClock
) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=LIMITED) as rig:
        await rig.nodes(a_node(gpus=2))
        await rig.enqueue(
            a_task("kept", gpus=1, at=now, timeout=1_200), a_task("long", at=now, timeout=7_200),
            a_task("many", gpus=5, at=now, timeout=300), a_task("runs", gpus=2, at=now, timeout=300),
        )  # fmt: skip
        assert {attempt.task.name for attempt in rig.running()} == {"runs"}
        want = {
            "kept": [
                ("kept_for_short_tasks", "tasks longer than 10m may together hold 0 of 2 GPUs. It waits until that"),
                ("waiting_for_gpu", "n1, has no free GPU."),
                ("behind_higher_priority", "waiting task is ahead"),
            ],
            "long": [
                (
                    "no_such_node_yet",
                    "this cluster of 2 GPUs allows at most 1h. Such a timeout needs at least 4 GPUs.",
                )
            ],
            "many": [("user_limit", "one account may hold 4"), ("no_such_node_yet", "the largest has 2")],
        }
        for name, reasons in want.items():
            entry = await rig.queries.explain(tid(name))
            assert not entry.HasField("estimated_start")
            assert [reason.word for reason in entry.reasons] == [word for word, _ in reasons], name
            for reason, (_, part) in zip(entry.reasons, reasons, strict=True):
                assert part in reason.sentence
        await rig.nodes(a_node(gpus=2), a_node("n2", gpus=2))
        assert {attempt.task.name for attempt in rig.running()} == {"runs", "kept", "long"}


async def test_a_check_answers_what_limits_and_nodes_refuse_and_whether_machines_could_change_it(
    tmp_path: Path, clock: FakeClock
) -> None:
    request = pb.CheckResourcesRequest()
    for gpus, timeout_s in ((1, 60.0), (1, 7_200.0), (5, 86_401.0), (0, 59.0)):
        request.shapes.add(resources=common_pb2.Resources(cpu_centi=100, gpus=gpus), timeout_s=timeout_s)
    async with a_task_manager(tmp_path, clock, settings=LIMITED) as rig:
        none_yet = await rig.queries.check(request)
        await rig.nodes(a_node(gpus=2))
        with_two = await rig.queries.check(request)
    for_ever = [[], [], [("/timeout", True), ("/resources/gpus", True)], [("/timeout", True)]]
    assert [[(r.field, r.for_ever) for r in v.refusals] for v in none_yet.verdicts] == for_ever
    assert [[(r.field, r.for_ever) for r in v.refusals] for v in with_two.verdicts] == [
        [], [("/timeout", False), ("/resources/gpus", False)],
        [("/resources", False), ("/timeout", True), ("/resources/gpus", True), ("/resources/gpus", False)],
        [("/timeout", True)],
    ]  # fmt: skip


async def test_the_shortest_timeout_lets_starts_be_promised_sooner(tmp_path: Path, clock: FakeClock) -> None:
    now = clock.now()
    for min_timeout_s, sooner in ((0.1, False), (60.0, True)):
        settings = replace(SETTINGS, limits=AdmissionLimits(min_timeout_s=min_timeout_s))
        folder = tmp_path / str(sooner)
        folder.mkdir()
        async with a_task_manager(folder, clock, settings=settings) as rig:
            await rig.nodes(a_node(gpus=1))
            await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=600))
            await rig.enqueue(a_task("waits", gpus=1, at=now - 10, timeout=70))
            assert (await rig.queries.explain(tid("waits"))).HasField("promised_start") == sooner


async def test_a_limit_that_is_reached_is_told_beside_what_has_to_come_free(tmp_path: Path, clock: FakeClock) -> None:
    now = clock.now()
    settings = replace(
        SETTINGS, limits=AdmissionLimits(running_gpus_per_user=2, short_reserve=ShortTaskReserve(1, 600.0))
    )
    async with a_task_manager(tmp_path, clock, settings=settings) as rig:
        await rig.nodes(a_node(gpus=2), a_node("n2", gpus=2))
        await rig.enqueue(
            *(a_task(f"r{i}", gpus=1, at=now, timeout=1_200, owner=owner) for i, owner in enumerate("aab")),
            a_task("r3", gpus=1, at=now, timeout=300, owner="c"),
        )
        await rig.enqueue(
            a_task("mine", gpus=1, at=now, timeout=300, owner="a"), a_task("both", gpus=1, timeout=900, owner="a"),
            a_task("long", gpus=1, at=now, timeout=900, owner="b"), a_task("free", gpus=1, timeout=300, owner="b"),
            a_task("none", at=now, cpu=10_000, timeout=900, owner="a"),
        )  # fmt: skip
        assert len(rig.running()) == 4
        page = await rig.queries.queue(pb.GetQueueRequest())
        why = {e.task.name: {r.word: r.sentence for r in e.reasons} for e in page.entries}
        busy = "waiting_for_gpu"
        assert list(why["mine"])[:2] == ["user_limit", busy]
        assert why["mine"]["user_limit"] == (
            "a holds 2 of the 2 GPUs that one account may hold at a time; it asks for 1."
        )
        assert {"user_limit", busy, "kept_for_short_tasks"} <= set(why["both"])
        assert why["long"]["kept_for_short_tasks"] == (
            "Tasks longer than 10m may together hold 3 of the cluster's 4 GPUs, and they hold 3; it asks for 1."
        )
        assert not {"user_limit", "kept_for_short_tasks"} & (set(why["free"]) | set(why["none"]))
        for name, told in why.items():
            entry = await rig.queries.explain(tid(name))
            assert {r.word: r.sentence for r in entry.reasons} == told
        there = pass_input.current_pass_input(rig.engine.state, rig.engine.settings)
        asked = pass_input.detached_pass_input(there, rig.engine.read_clocks(), 0.0)()
        more = a_task("more", job=PREVIEW_JOB, gpus=1, at=now, timeout=900, owner="a")
        (start,) = previewed_starts(asked, [more], list(rig.engine.state.nodes.values()), most=1)
        assert {"user_limit", busy, "kept_for_short_tasks"} <= {reason.word for reason in start.reasons}
