"""The two rules of promises in simulations: `late` promises every task that waits, and misses none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from task_manager.limits import AdmissionLimits
from task_manager.order.policy import AgingSjf
from task_manager.planning.pass_model import Discipline, PassSettings, PromiseRule
from task_manager.simulate import cluster_spec, comparison, workload
from task_manager.simulate.cli import simulate
from task_manager.simulate.generate import busy_cluster
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import a_node, a_task

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
    without = CliRunner().invoke(simulate, [*common, "--promises", "late", "--discipline", "greedy"])
    assert without.exit_code == 2
    assert "rule of --discipline conservative" in without.output
    assert json.loads(CliRunner().invoke(simulate, [*common, "--no-promises"]).stdout)[0]["promised"] == 0
    assert json.loads(CliRunner().invoke(simulate, [*common, "--promises"]).stdout)[0] == told["settled"]


def test_as_live_promises_by_the_rule_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toml = tmp_path / "headway.toml"
    monkeypatch.setenv("HEADWAY_CONFIG", str(toml))
    command = ["--trace", str(FIXTURE), "--nodes", "1x2", "-o", "json", "--as-live"]

    def promised(*more: str) -> int:
        result = CliRunner().invoke(simulate, [*command, *more])
        assert result.exit_code == 0, result.output
        return int(json.loads(result.stdout)[0]["promised"])

    late = promised("--promises", "late")
    assert promised() == late > promised("--promises", "settled")
    toml.write_text('[task_manager]\npromises = "settled"\n')
    assert promised() == promised("--promises", "settled")


def test_a_crowd_is_searched_less_so_that_a_pass_stays_quick() -> None:
    late = PassSettings(promises=PromiseRule.LATE)
    assert late.for_waiting(late.crowd) is late
    crowd = late.for_waiting(late.crowd + 1)
    assert (crowd.reserved, crowd.placed) == (60, 180)
    assert PassSettings(promises=PromiseRule.LATE, reserved=50).for_waiting(10_000).reserved == 50
    for other in (PassSettings(), PassSettings(promises=PromiseRule.LATE, discipline=Discipline.EASY)):
        assert other.for_waiting(10_000) is other


def test_what_was_promised_before_the_crowd_came_is_kept() -> None:
    settings = PassSettings(promises=PromiseRule.LATE, crowd=300, limits=AdmissionLimits(min_timeout_s=10.0))
    cluster = Cluster([a_node("n1", gpus=1)], AgingSjf(), settings)
    cluster.submit(a_task("runs", timeout=500.0, gpus=1))
    cluster.submit(*(a_task(f"t{i}", at=1.0, timeout=60.0 + i, gpus=1) for i in range(299)))
    cluster.run(until=2.0)
    before = {task_id: place.promised_s for task_id, place in cluster.reservations.items()}
    assert len(before) == 299
    cluster.submit(*(a_task(f"u{i}", at=3.0, timeout=5_000.0 + i, gpus=1) for i in range(100)))
    cluster.run(until=4.0)
    after = {task_id: place.promised_s for task_id, place in cluster.reservations.items()}
    assert before.keys() <= after.keys()
    assert all((after[task_id] or 0.0) <= (promised_s or 0.0) for task_id, promised_s in before.items())
    assert len(after) == 299  # who comes behind a crowd waits for a place


def test_a_task_of_about_the_same_length_can_still_go_ahead() -> None:
    """Slack counts the time for start and stop too, or it would be too short for whoever books them."""
    settings = PassSettings(
        promises=PromiseRule.LATE, start_limit_s=60.0, stop_limit_s=30.0, limits=AdmissionLimits(min_timeout_s=10.0)
    )
    cluster = Cluster([a_node("n1", gpus=2)], AgingSjf(), settings)
    cluster.submit(a_task("runs", timeout=500.0, gpus=2), a_task("wide", at=1.0, timeout=1_000.0, gpus=2))
    cluster.run(until=2.0)
    cluster.submit(a_task("narrow", at=3.0, timeout=950.0, gpus=1))
    cluster.run(until=4.0)
    assert cluster.last is not None
    starts = {task_id.name: estimate.start_s for task_id, estimate in cluster.last.estimates.items()}
    assert starts["narrow"] < starts["wide"]
