"""More time asked of the real pass: whose promised start it would move."""

from __future__ import annotations

from task_manager.engine.extension import PromiseDelay, delayed_promises
from task_manager.limits import AdmissionLimits
from task_manager.order.policy import AgingSjf
from task_manager.planning.pass_model import PassSettings
from task_manager.planning.scheduling_pass import plan_pass
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import a_node, a_task, tid


def a_cluster(nodes: int) -> Cluster:
    settings = PassSettings(limits=AdmissionLimits(min_timeout_s=10.0))
    return Cluster([a_node(f"n{i}", gpus=1) for i in range(1, nodes + 1)], AgingSjf(), settings)


def moved(cluster: Cluster, name: str, more_s: float) -> tuple[PromiseDelay, ...]:
    return delayed_promises(cluster.snapshot(), tid(name), more_s, plan_pass)


def test_those_behind_on_the_only_node_are_named_with_their_new_starts() -> None:
    cluster = a_cluster(1)
    cluster.submit(a_task("runs", timeout=500.0, gpus=1))
    cluster.submit(a_task("first", at=1.0, timeout=60.0, gpus=1), a_task("second", at=2.0, timeout=80.0, gpus=1))
    cluster.run(until=100.0)
    assert sorted(cluster.reservations) == [tid("first"), tid("second")]
    before = dict(cluster.reservations)
    assert moved(cluster, "runs", 120.0) == (
        PromiseDelay(tid("first"), 500.0, 620.0),
        PromiseDelay(tid("second"), 560.0, 680.0),
    )
    assert cluster.reservations == before, "asking changes nothing"
    assert [place.promised_s for _, place in sorted(cluster.reservations.items())] == [500.0, 560.0]


def test_a_node_that_nobody_is_promised_may_be_held_longer() -> None:
    cluster = a_cluster(2)
    cluster.submit(a_task("short", timeout=100.0, gpus=1), a_task("long", timeout=500.0, gpus=1))
    cluster.submit(a_task("waits", at=1.0, timeout=60.0, gpus=1))
    cluster.run(until=60.0)
    # Promised on the node that is free first; the other one may run longer, and this one may not.
    assert moved(cluster, "long", 10_000.0) == ()
    assert [one.task_id for one in moved(cluster, "short", 10.0)] == [tid("waits")]


def test_another_node_that_is_free_in_time_keeps_the_promise() -> None:
    cluster = a_cluster(2)
    cluster.submit(a_task("one", timeout=500.0, gpus=1), a_task("two", timeout=500.0, gpus=1))
    cluster.submit(a_task("waits", at=1.0, timeout=60.0, gpus=1))
    cluster.run(until=60.0)
    assert cluster.reservations[tid("waits")].promised_s == 500.0
    assert moved(cluster, "one", 1_000.0) == ()
    assert moved(cluster, "two", 1_000.0) == ()


def test_without_promises_nothing_moves() -> None:
    cluster = a_cluster(1)
    cluster.submit(a_task("runs", timeout=500.0, gpus=1), a_task("waits", at=1.0, timeout=400.0, gpus=1))
    cluster.run(until=10.0)
    assert not cluster.reservations
    assert moved(cluster, "runs", 10_000.0) == ()
