"""How far behind the start found a first promise lies, under each policy."""

from __future__ import annotations

import pytest

from task_manager.order import policy_registry
from task_manager.planning.pass_model import PassSettings, PromiseRule
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import a_node, a_task, gpus_of, tid


@pytest.mark.parametrize(("policy", "timeouts"), [("aging_sjf", 1), ("fifo", 1), ("log_aging", 2), ("hrrn", 1)])
def test_the_slack_is_so_many_timeouts(policy: str, timeouts: int) -> None:
    cluster = Cluster(
        [a_node("n1", gpus=gpus_of("n1", 1))],
        policy_registry.by_name(policy),
        PassSettings(promises=PromiseRule.LATE),
    )
    cluster.submit(a_task("runs", timeout=100.0, gpus=1), a_task("waits", at=1.0, timeout=300.0, gpus=1))
    cluster.run(until=2.0)
    place = cluster.reservations[tid("waits")]
    assert place.promised_s == place.start_s == 100.0 + timeouts * 300.0
