"""Which changes of a node are worth telling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.errors import Fenced
from headway.rpc.v1 import resource_manager_pb2 as pb
from headway.states import Admission
from resource_manager import identity, inventory
from resource_manager.inventory import Node

NOW = 1_800_000_000.0


def a_status(**fields: object) -> pb.NodeStatus:
    status = pb.NodeStatus(node_id="a", incarnation=5, at=NOW, live_attempts=1, cpu_used=0.5)
    status.capacity.CopyFrom(pb.Capacity(cpu_centi=800, gpus=[pb.Gpu(uuid="GPU-1", utilisation=0.5)]))
    status.MergeFrom(pb.NodeStatus(**fields))  # type: ignore[arg-type]
    return status


def a_node(**fields: object) -> Node:
    request = pb.RegisterNodeRequest(node_id="a", incarnation=5, address="a:7004", status=a_status(**fields))
    return inventory.registered(None, request, now=NOW, monotonic=100)


def answered(node: Node, status: pb.NodeStatus) -> Node:
    after = inventory.answered(node, status, now=NOW + 10, monotonic=110)
    assert after is not None
    return after


def test_readings_alone_are_not_told() -> None:
    node = a_node()
    status = a_status(cpu_used=7.0, memory_used_bytes=9, disk_free_bytes=1, load1=3.0, live_attempts=4)
    status.capacity.gpus[0].utilisation = 0.9
    status.capacity.gpus[0].temperature_c = 80
    status.capacity.gpus[0].note = "80 degrees"
    assert inventory.watched_facts(answered(node, status)) == inventory.watched_facts(node)


@pytest.mark.parametrize(
    "what", ["cpu", "gpu", "sick", "whose", "condition", "no gpus", "image", "incarnation", "ulimits"]
)
def test_what_others_plan_with_is_told(what: str) -> None:
    node = a_node()
    status = a_status()
    match what:
        case "cpu":
            status.capacity.cpu_centi = 400
        case "gpu":
            status.capacity.gpus.add(uuid="GPU-2")
        case "sick":
            status.capacity.gpus[0].sick = True
        case "whose":
            status.capacity.gpus[0].busy_outside = True
            node = answered(node, status)
            status = a_status()
            status.capacity.gpus[0].busy_outside, status.capacity.gpus[0].note = True, "in use by ann's python"
        case "condition":
            status.conditions.add(word="disk_full", blocks_work=True)
        case "no gpus":
            node = answered(node, a_status(conditions=[pb.Condition(word="gpu_unavailable", sentence="No toolkit.")]))
            status.conditions.add(word="gpu_unavailable", sentence="No driver.")
        case "image":
            status.images.append("base/python:1")
        case "incarnation":
            status.incarnation = 6
        case "ulimits":
            status.capacity.most_ulimits.add(name="nofile", hard=1024)
    assert inventory.watched_facts(answered(node, status)) != inventory.watched_facts(node)


def test_what_blocks_a_live_node_is_its_sentence() -> None:
    node = answered(a_node(), a_status(conditions=[pb.Condition(word="disk_full", sentence="Full.", blocks_work=True)]))
    assert inventory.to_pb(node, 111).health_sentence == "Full."
    assert inventory.to_pb(node, 111).health == "READY"


def test_a_clock_that_is_off_is_told_and_believed_in_nothing() -> None:
    node = answered(a_node(), a_status(at=NOW + 3_600))
    assert [(c.word, c.blocks_work) for c in node.status.conditions] == [("clock_skew", False)]
    assert "3590 s ahead" in node.status.conditions[0].sentence
    assert node.status.at == node.seen_at == NOW + 10
    assert not a_node().status.conditions


def test_a_worker_that_starts_again_keeps_what_operators_said() -> None:
    node = replace(a_node(), admission=Admission.DRAINED, note="new disk")
    request = pb.RegisterNodeRequest(node_id="a", incarnation=6, address="b:1", status=a_status())
    after = inventory.registered(node, request, now=NOW, monotonic=100)
    assert (after.admission, after.note, after.address, after.incarnation) == (Admission.DRAINED, "new disk", "b:1", 6)
    older = identity.claim(pb.RegisterNodeRequest(node_id="a", incarnation=4), [a_node()])
    with pytest.raises(Fenced, match="a:7004"):
        identity.check(older, old_answers=False)


def test_an_answer_of_an_older_start_is_no_answer() -> None:
    status = a_status()
    status.incarnation = 4
    assert inventory.answered(a_node(), status, now=NOW, monotonic=100) is None
