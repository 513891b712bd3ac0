"""ResourceManager's own numbers, as ``GET /metrics`` shows them: those of all machines and their GPUs among them.

The labels are machines, and indices and ids of cards, so the number of series grows with the hardware alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from headway.model.gpu_readings import READINGS, Reading, Unit
from headway.rpc.v1 import resource_manager_pb2
from headway.states import Admission, NodeHealth

from .inventory import Node

Status = resource_manager_pb2.NodeStatus

# The name of a reading ends with its unit, as is usual with Prometheus.
_ENDS = {
    Unit.SHARE: ("", "_ratio"),
    Unit.BYTES: ("", ""),
    Unit.CELSIUS: ("_c", "_celsius"),
    Unit.WATT: ("_w", "_watts"),
}


class NodeNumbers:
    """Nodes by health and by admission. Each machine and each GPU. The functions are asked at each scrape."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        health: Callable[[], Mapping[NodeHealth, int]],
        admission: Callable[[], Mapping[Admission, int]],
        nodes: Callable[[], Iterable[Node]],
    ) -> None:
        by_health = Gauge("headway_nodes", "Nodes by their health", ["health"], registry=registry)
        for one in NodeHealth:
            by_health.labels(one.value).set_function(lambda one=one: health().get(one, 0))  # type: ignore[misc]
        by_admission = Gauge(
            "headway_nodes_admission", "Nodes by whether they may take work", ["admission"], registry=registry
        )
        for word in Admission:
            by_admission.labels(word.value).set_function(
                lambda word=word: admission().get(word, 0)  # type: ignore[misc]
            )
        registry.register(_Machines(nodes))


def metric_of(reading: Reading) -> str:
    """The name of a GPU's reading."""
    ours, theirs = _ENDS[reading.unit]
    return f"headway_gpu_{reading.name.removesuffix(ours)}{theirs}"


_NODE_READINGS: dict[str, tuple[str, str]] = {
    "cpu_used": ("headway_node_cpus_used", "CPUs in use; 1.0 is one core"),
    "memory_used_bytes": ("headway_node_memory_used_bytes", "Memory in use"),
    "memory_total_bytes": ("headway_node_memory_total_bytes", "Memory of the machine"),
    "disk_free_bytes": ("headway_node_disk_free_bytes", "Free on the disk of containers"),
    "disk_total_bytes": ("headway_node_disk_total_bytes", "Size of the disk of containers"),
    "load1": ("headway_node_load1", "Load, as a mean of one minute"),
}


class _Machines(Collector):
    """Of a machine that is DOWN there are its health and its admission alone: nobody knows the rest."""

    def __init__(self, nodes: Callable[[], Iterable[Node]]) -> None:
        self._nodes = nodes

    def collect(self) -> Iterator[GaugeMetricFamily]:
        nodes = list(self._nodes())
        alive = [node for node in nodes if node.health_state.health is not NodeHealth.DOWN]
        yield from _of_nodes(nodes, alive)
        yield from _of_gpus(alive)


def _of_nodes(nodes: Iterable[Node], alive: Iterable[Node]) -> Iterator[GaugeMetricFamily]:
    health = _gauge("headway_node_health", "1 for the health that a machine has, 0 for the others", "node", "health")
    admission = _gauge("headway_node_admission", "1 for the admission that a machine has", "node", "admission")
    for node in nodes:
        for state in NodeHealth:
            health.add_metric([node.id, state.value], float(node.health_state.health is state))
        for may in Admission:
            admission.add_metric([node.id, may.value], float(node.admission is may))
    yield from (health, admission)
    cpus = _gauge("headway_node_cpus", "CPUs that a machine offers", "node")
    memory = _gauge("headway_node_memory_bytes", "Memory that a machine offers", "node")
    attempts = _gauge("headway_node_attempts_live", "Attempts that a machine has", "node")
    conditions = _gauge("headway_node_condition", "1 for each condition of a machine", "node", "word", "blocks_work")
    readings = {field: _gauge(name, what, "node") for field, (name, what) in _NODE_READINGS.items()}
    for node in alive:
        status = node.status
        cpus.add_metric([node.id], status.capacity.cpu_centi / 100)
        memory.add_metric([node.id], status.capacity.memory_bytes)
        attempts.add_metric([node.id], status.live_attempts)
        for word, blocks in {condition.word: condition.blocks_work for condition in status.conditions}.items():
            conditions.add_metric([node.id, word, "yes" if blocks else "no"], 1)
        for field, gauge in readings.items():
            if status.HasField(field):  # type: ignore[arg-type]
                gauge.add_metric([node.id], getattr(status, field))
    yield from (cpus, memory, attempts, conditions, *readings.values())


def _of_gpus(alive: Iterable[Node]) -> Iterator[GaugeMetricFamily]:
    card = ("node", "gpu", "uuid")
    about = _gauge("headway_gpu_info", "Always 1", *card, "model")
    memory = _gauge("headway_gpu_memory_bytes", "Memory of a GPU", *card)
    sick = _gauge("headway_gpu_sick", "1 if a GPU is not given out, since it is faulty", *card)
    quarantined = _gauge("headway_gpu_quarantined", "1 if a fault keeps a GPU out until it is clean again", *card)
    outside = _gauge("headway_gpu_busy_outside", "1 if a process that is not Headway's uses a GPU", *card)
    readings = {row.name: _gauge(metric_of(row), row.about or row.name, *card) for row in READINGS}
    for node in alive:
        for gpu in {gpu.uuid: gpu for gpu in node.status.capacity.gpus}.values():
            labels = [node.id, str(gpu.index), gpu.uuid]
            about.add_metric([*labels, gpu.model], 1)
            memory.add_metric(labels, gpu.memory_bytes)
            sick.add_metric(labels, float(gpu.sick))
            quarantined.add_metric(labels, float(gpu.quarantined_since > 0))
            outside.add_metric(labels, float(gpu.busy_outside))
            for name, gauge in readings.items():
                if gpu.HasField(name):  # type: ignore[arg-type]
                    gauge.add_metric(labels, getattr(gpu, name))
    yield from (about, memory, sick, quarantined, outside, *readings.values())


def _gauge(name: str, what: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, what, labels=labels)
