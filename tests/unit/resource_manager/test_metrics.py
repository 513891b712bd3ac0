"""What Prometheus is told of machines and GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry

from headway.model.gpu_readings import READINGS
from headway.rpc.v1 import resource_manager_pb2 as pb
from headway.states import Admission, NodeHealth
from resource_manager import health
from resource_manager.inventory import Node
from resource_manager.metrics import NodeNumbers, metric_of

CARD = {"node": "n1", "gpu": "0", "uuid": "GPU-a"}


def a_node(**more: Any) -> Node:
    gpus = [
        pb.Gpu(
            uuid="GPU-a", index=0, model="A100", memory_bytes=40, utilisation=0.5, memory_utilisation=0.25,
            memory_used_bytes=10, temperature_c=60.5, power_w=200.0, sick=True, quarantined_since=7.0,
            note="told by ann", processes=[pb.GpuProcess(pid=7, owner="ann", command="train.py")],
        ),
        pb.Gpu(uuid="GPU-b", index=1, model="A100", busy_outside=True),
    ]  # fmt: skip
    status = pb.NodeStatus(
        node_id="n1", capacity=pb.Capacity(cpu_centi=850, memory_bytes=64, gpus=gpus), cpu_used=1.5,
        memory_used_bytes=3, disk_free_bytes=5, disk_total_bytes=50, load1=0.5, live_attempts=2,
        conditions=[pb.Condition(word="disk_full", sentence="of ann", blocks_work=True)] * 2,
    )  # fmt: skip
    ready = replace(health.at_start(0.0), health=NodeHealth.READY)
    return replace(Node("n1", 1, "n1:1", status, ready, 0.0, 0.0, note="ann's word"), **more)


def a_registry(*nodes: Node) -> CollectorRegistry:
    registry = CollectorRegistry()
    NodeNumbers(registry, health=dict, admission=dict, nodes=lambda: nodes)
    return registry


def test_each_reading_of_each_gpu_has_its_series_and_no_person_has_one() -> None:
    registry = a_registry(a_node())
    assert {metric_of(row): registry.get_sample_value(metric_of(row), CARD) for row in READINGS} == {
        "headway_gpu_utilisation_ratio": 0.5,
        "headway_gpu_memory_utilisation_ratio": 0.25,
        "headway_gpu_memory_used_bytes": 10,
        "headway_gpu_temperature_celsius": 60.5,
        "headway_gpu_power_watts": 200.0,
    }
    other = {"node": "n1", "gpu": "1", "uuid": "GPU-b"}
    assert registry.get_sample_value("headway_gpu_power_watts", other) is None, "what is not told is not 0"
    for name, values in (("sick", (1, 0)), ("quarantined", (1, 0)), ("busy_outside", (0, 1))):
        assert tuple(registry.get_sample_value(f"headway_gpu_{name}", card) for card in (CARD, other)) == values
    assert registry.get_sample_value("headway_gpu_info", {**CARD, "model": "A100"}) == 1
    labels = {value for family in registry.collect() for sample in family.samples for value in sample.labels.values()}
    assert not [value for value in labels if "ann" in value or "train" in value]


def test_a_machine_tells_what_it_has_and_what_it_uses() -> None:
    registry = a_registry(a_node(admission=Admission.CORDONED))
    found = {name: registry.get_sample_value(f"headway_node_{name}", {"node": "n1"}) for name in (
        "cpus", "cpus_used", "memory_bytes", "memory_used_bytes", "memory_total_bytes", "disk_free_bytes", "load1",
        "attempts_live",
    )}  # fmt: skip
    assert found == {
        "cpus": 8.5, "cpus_used": 1.5, "memory_bytes": 64, "memory_used_bytes": 3, "memory_total_bytes": None,
        "disk_free_bytes": 5, "load1": 0.5, "attempts_live": 2,
    }  # fmt: skip
    condition = {"node": "n1", "word": "disk_full", "blocks_work": "yes"}
    assert registry.get_sample_value("headway_node_condition", condition) == 1
    assert registry.get_sample_value("headway_node_admission", {"node": "n1", "admission": "CORDONED"}) == 1
    assert registry.get_sample_value("headway_node_admission", {"node": "n1", "admission": "OPEN"}) == 0


def test_of_a_machine_that_is_down_its_last_readings_are_not_told() -> None:
    down = replace(health.at_start(0.0), health=NodeHealth.DOWN)
    registry = a_registry(a_node(health_state=down))
    assert registry.get_sample_value("headway_node_health", {"node": "n1", "health": "DOWN"}) == 1
    assert registry.get_sample_value("headway_node_cpus_used", {"node": "n1"}) is None
    assert registry.get_sample_value("headway_gpu_utilisation_ratio", CARD) is None
