"""What other policies and constants would have given, and which are no worse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from task_manager.simulate import cluster_spec, comparison, tuning, workload
from task_manager.simulate.generate import busy_cluster


@pytest.fixture(scope="module")
def simulation():
    records = busy_cluster(3, tasks=120, gpus=8, load=1.2)
    machines = cluster_spec.parse_cluster("1x8")
    items = workload.build(records, machines)
    contestants = comparison.parse_contestants(["log_aging:means=12", "sjf"], ["conservative"])
    return comparison.Simulation(items, tuple(range(len(items))), machines, contestants)


def test_the_present_policy_comes_first_and_nothing_is_tried_twice(simulation):
    names = [one.name for one in tuning.to_tune(simulation).contestants]
    assert names[:2] == ["log_aging:means=12", "sjf"]
    assert len(names) == len(set(names))
    assert {"fifo", "aging_sjf:beta=1", "log_aging:means=8", "hrrn", "adaptive", "fair"} < set(names)
    assert "log_aging" not in names
    plain = replace(simulation, contestants=comparison.parse_contestants(["aging_sjf"], ["easy"]))
    tried = tuning.to_tune(plain).contestants
    assert "aging_sjf:beta=1" not in [one.policy for one in tried]
    assert {one.discipline.value for one in tried} == {"easy"}
    nameless = tuple(replace(item, task=replace(item.task, owner="")) for item in plain.tasks)
    assert "fair" not in [one.policy for one in tuning.to_tune(replace(plain, tasks=nameless)).contestants]


def test_no_worse_means_neither_in_the_mean_nor_in_the_maximum(simulation):
    few = comparison.parse_contestants(["aging_sjf", "fifo", "sjf", "aging_sjf:beta=1"], ["conservative"])
    rows = tuning.tuned(replace(simulation, contestants=few, count_promises=True).run())
    assert [row.present for row in rows] == [True, False, False, False]
    base = rows[0].result.measures
    for row in rows:
        mine = row.result.measures
        assert row.no_worse == (mine.mean_wait_s <= base.mean_wait_s and mine.max_wait_s <= base.max_wait_s)
    assert rows[3].no_worse, "the same policy by another name"
    assert not all(row.no_worse for row in rows)
    assert "aging_sjf:beta=1" in tuning.verdict(rows)
    assert 0 < rows[0].promised_share <= 1
    assert rows[2].promised_share == 0.0, "`sjf` never settles the order"
    assert rows[0].to_json()["no_worse_than_present"] is True
    failed = replace(rows[3].result, outcome=replace(rows[3].result.outcome, policy_failed="it raised"))
    assert not tuning.tuned([rows[0].result, failed])[1].no_worse
    assert tuning.verdict(rows[:1]) == (
        "None of the others is no worse than aging_sjf in both the mean and the longest wait."
    )
