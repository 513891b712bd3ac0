"""The two rules of promises in simulations: `late` promises every task that waits, and misses none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from task_manager.planning.pass_model import PromiseRule
from task_manager.simulate import cluster_spec, comparison, workload
from task_manager.simulate.cli import simulate
from task_manager.simulate.generate import busy_cluster

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "table2_like.csv"


@pytest.mark.parametrize("policy", ["aging_sjf", "log_aging:c=600", "fair", "sjf"])
def test_late_promises_every_task_that_waits_and_misses_none(policy: str) -> None:
    machines = cluster_spec.parse_cluster("1x8,2x2")
    items = workload.build(busy_cluster(3, tasks=150, gpus=12, load=1.1), machines)
    contestants = comparison.parse_contestants([policy], ["conservative"])
    made = comparison.Simulation(items, tuple(range(len(items))), machines, contestants, rule=PromiseRule.LATE)
    (result,) = made.run()
    waited = sum(life.wait_s > 0 for life in result.outcome.lives)
    assert waited > 30
    assert (result.outcome.promised, result.outcome.missed) == (waited, 0)


def test_the_command_takes_the_rule_by_name() -> None:
    common = ["--trace", str(FIXTURE), "--nodes", "1x2", "-o", "json"]
    told = {}
    for rule in ("settled", "late"):
        result = CliRunner().invoke(simulate, [*common, "--promises", rule])
        assert result.exit_code == 0, result.output
        told[rule] = json.loads(result.stdout)[0]
    assert (told["settled"]["promised"], told["late"]["promises_missed"]) == (0, 0)
    assert told["late"]["promised"] > 10
    assert CliRunner().invoke(simulate, [*common, "--promises", "soon"]).exit_code == 2
    assert json.loads(CliRunner().invoke(simulate, [*common, "--no-promises"]).stdout)[0]["promised"] == 0
    assert json.loads(CliRunner().invoke(simulate, [*common, "--promises"]).stdout)[0] == told["settled"]
