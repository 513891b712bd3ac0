"""`headway simulate`: real and generated traces, and the paper's set-up beside its figures."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from task_manager.simulate import cluster_spec, comparison, generate, workload
from task_manager.simulate.trace_records import TraceRecord

from .measure import Figure

_POLICIES = ("fifo", "sjf", "aging_sjf", "log_aging", "adaptive")
# Mean wait in seconds over 2,000 queues of 20 tasks on 2 GPUs, by an independent simulator (docs/scheduling.md).
_PAPER = {"fifo": 686.0, "sjf": 330.0, "aging_sjf": 362.0}
_QUEUES = 2_000


def simulate() -> Iterator[Figure]:
    """The time that simulations take, and whether the paper's figures come out."""
    trace = _data() / "traces" / "openb_dev.csv"
    if trace.is_file():
        contestants = comparison.parse_contestants(_POLICIES, ["conservative"])
        found = comparison.load([trace], [], cluster=cluster_spec.parse_cluster("1x8"), contestants=contestants)
        yield Figure("simulate: 1,685 real tasks on 1x8, five policies", _timed(found), "s", 20.0)
    records = generate.busy_cluster(1, tasks=100_000, gpus=32, load=0.7)
    found = _of(records, "4x8", ["aging_sjf"])
    yield Figure("simulate: 100,000 tasks on 4x8 at load 0.7, one policy", _timed(found), "s", 20.0)
    waits = dict.fromkeys(_PAPER, 0.0)
    for seed in range(_QUEUES):
        for result in _of(generate.paper_queue(seed), "1x2", list(_PAPER), promises=False).run():
            waits[result.contestant.policy] += result.measures.mean_wait_s / _QUEUES
    for policy, want in _PAPER.items():
        off = abs(waits[policy] / want - 1)
        note = f"mean wait {waits[policy]:.0f} s"
        yield Figure(f"simulate: paper's set-up, {policy}: off {want:g} s by", 100 * off, "%", 5.0, note=note)


def _of(
    records: Sequence[TraceRecord], nodes: str, policies: list[str], *, promises: bool = True
) -> comparison.Simulation:
    machines = cluster_spec.parse_cluster(nodes)
    items = workload.build(records, machines)
    contestants = comparison.parse_contestants(policies, ["conservative"])
    return comparison.Simulation(items, tuple(range(len(items))), machines, contestants, promises=promises)


def _timed(simulation: comparison.Simulation) -> float:
    began = time.perf_counter()
    simulation.run()
    return time.perf_counter() - began


def _data() -> Path:
    named = os.environ.get("HEADWAY_TESTS_DATA")
    return Path(named) if named else Path(__file__).resolve().parent.parent.parent / "shared" / "data"
