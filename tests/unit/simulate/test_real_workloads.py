"""Real traces and workflows, where their folder is there."""

from pathlib import Path

import pytest

from task_manager.simulate import cluster_spec, comparison
from task_manager.simulate.errors import TraceInvalid


def simulation(traces, dags, nodes, policies, discipline="greedy"):
    contestants = comparison.parse_contestants(policies, [discipline])
    return comparison.load(traces, dags, cluster=cluster_spec.parse_cluster(nodes), contestants=contestants)


@pytest.mark.parametrize(
    ("name", "nodes", "rows"),
    [("openb_dev", "1x8", 1685), ("hpc2n_240_dev", "1x240", 419), ("hpc2n_scaled16_dev", "2x8", 419)],
)
def test_a_real_trace_is_read_and_run_to_its_end(shared_data: Path, name, nodes, rows):
    found = simulation([shared_data / "traces" / f"{name}.csv"], [], nodes, ["aging_sjf"])
    (result,) = found.run()
    assert result.measures.tasks == rows
    assert 0.2 < result.measures.utilisation <= 1.0
    assert (result.measures.timed_out > 0) == name.startswith("hpc2n")


def test_types_of_gpus_count_where_the_cluster_has_some(shared_data: Path):
    trace = shared_data / "traces" / "openb_dev.csv"
    with pytest.raises(
        TraceInvalid, match=r"openb_dev.csv, row 1 \(line 2\), column gpu_type: no node has 1 GPU of type T4"
    ):
        simulation([trace], [], "1x8xA100", ["fifo"])
    assert simulation([trace], [], "1x8xA100,1x8", ["fifo"]).total == 1685


def test_tasks_of_real_workflows_start_behind_all_that_they_need(shared_data: Path):
    flows = sorted((shared_data / "dags").glob("*.json"))
    assert len(flows) >= 8
    found = simulation([], [(path, 60.0 * i) for i, path in enumerate(flows)], "1x4", ["fifo", "aging_sjf"])
    for result in found.run():
        assert result.measures.jobs == len(flows)
        assert result.measures.tasks == len(found.tasks)
        assert len({item.label for item in found.tasks}) == len(found.tasks)
        for item, life in zip(found.tasks, result.outcome.lives, strict=True):
            assert all(result.outcome.lives[need].end_s <= life.start_s for need in item.needs)
