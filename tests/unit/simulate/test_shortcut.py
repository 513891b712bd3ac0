"""Most passes on a cluster that is not full start the only waiting task. The simulator knows where without a pass."""

import random
from dataclasses import replace

import pytest

from task_manager.simulate import cluster_spec, comparison, workload
from task_manager.simulate.generate import busy_cluster
from task_manager.simulate.simulated_cluster import SimulatedCluster


@pytest.mark.parametrize("nodes", ["1x8", "2x8,1x4", "3x4xA100,1x8", "1x4:cpus=9,1x0:cpus=4,2x2:cpus=6"])
@pytest.mark.parametrize("discipline", ["conservative", "easy", "strict", "greedy"])
def test_starts_and_promises_are_those_of_the_pass(monkeypatch, nodes, discipline):
    chance = random.Random(f"{nodes} {discipline}")
    machines = cluster_spec.parse_cluster(nodes)
    most = max(len(node.gpus) for node in machines.nodes)
    records = [
        replace(record, gpus=min(record.gpus, most) if chance.random() < 0.8 else 0, cpu_centi=100)
        for record in busy_cluster(chance.randrange(99), tasks=150, gpus=machines.gpus, load=chance.choice((0.5, 0.9)))
    ]
    items = workload.build(records, machines)
    contestants = comparison.parse_contestants(["aging_sjf", "fifo", "log_aging"], [discipline])
    simulation = comparison.Simulation(items, tuple(range(len(items))), machines, contestants, count_promises=True)
    asked = []
    shortcut = SimulatedCluster._started_alone
    monkeypatch.setattr(
        SimulatedCluster, "_started_alone", lambda self, now: asked.append(shortcut(self, now)) or asked[-1]
    )
    quick = [result.outcome for result in simulation.run()]
    assert asked.count(True) > 20, "it was taken"
    monkeypatch.setattr(SimulatedCluster, "_started_alone", lambda self, now: False)
    assert [result.outcome for result in simulation.run()] == quick
