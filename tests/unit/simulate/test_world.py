"""Clusters, workloads and the run: what counts on which machines, and when what happens."""

from dataclasses import replace
from pathlib import Path

import pytest

from headway.units import BadValue
from task_manager.simulate import cluster_spec, comparison, workload
from task_manager.simulate.errors import TraceInvalid
from task_manager.simulate.generate import busy_cluster, paper_queue
from task_manager.simulate.trace_records import TraceRecord


def a_record(number=0, *, at=0.0, run=10.0, timeout=None, gpus=1, **more):
    facts = {"label": str(number), "where": f"t.csv, row {number + 1} (line {number + 2})", "row": number}
    return TraceRecord(submit_s=at, runtime_s=run, timeout_s=timeout, gpus=gpus, **{**facts, **more})


def simulated(records, nodes="1x1", policy="fifo", discipline="greedy", factor=1.0):
    machines = cluster_spec.parse_cluster(nodes)
    items = workload.build(records, machines, timeout_factor=factor)
    contestants = comparison.parse_contestants([policy], [discipline])
    (result,) = comparison.Simulation(items, tuple(range(len(items))), machines, contestants).run()
    return result


def starts(*args, **options):
    return [life.start_s for life in simulated(*args, **options).outcome.lives]


@pytest.mark.parametrize(
    ("factor", "want"),
    [
        (1e-6, "t.csv, row 2 (line 3), column timeout_s: 100 s times 1e-06 is not between 0.001 and 1e+09 s."),
        (1e9, "t.csv, row 1 (line 2), column timeout_s: 1e+06 s times 1e+09 is not between 0.001 and 1e+09 s."),
    ],
)
def test_a_factor_that_leaves_no_timeout_is_refused(factor, want):
    with pytest.raises(TraceInvalid) as refused:
        simulated([a_record(run=1e6), a_record(1, timeout=100.0)], factor=factor)
    assert refused.value.message == want


def test_nodes_are_read_in_their_order_with_models_cpus_and_memory():
    found = cluster_spec.parse_cluster("2x8xA100, 1x4:cpus=32:memory=64GiB ,1x0:cpus=2.5")
    assert [len(node.gpus) for node in found.nodes] == [8, 8, 4, 0]
    assert {gpu.model for gpu in found.nodes[0].gpus} == {"A100"}
    assert (found.nodes[2].cpu_centi, found.nodes[2].memory_bytes) == (3200, 64 << 30)
    assert (found.gpus, found.models_stated, found.cpus_stated, found.memory_stated) == (20, True, True, True)
    assert found.cpu_centi == 3450
    plain = cluster_spec.parse_cluster("1X2")
    assert (plain.models_stated, plain.cpus_stated, plain.memory_stated) == (False, False, False)
    assert cluster_spec.parse_cluster("1x8xRTX 3090").nodes[0].gpus[7].model == "RTX 3090"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "'' is not a group of nodes: the form is NODESxGPUS"),
        ("8", "'8' is not a group"),
        ("2x8,", "'' is not a group"),
        ("x8", "'x8' is not a group"),
        ("-1x8", "'-1x8' is not a group"),
        ("2x8.5", "'2x8.5' is not a group"),
        ("1e3x8", "'1e3x8' is not a group"),
        ("0x8", "has no nodes"),
        ("1x8x", "'' is not the name of a GPU model"),
        ("1x8xA|B", "'A|B' is not the name of a GPU model"),
        ("1x0xA100", "names a GPU model for nodes without GPUs"),
        ("99999x1", "more than 10,000 nodes"),
        ("1x5000", "5,000 GPUs a node; at most 1,024"),
        ("10000x1024", "more than 100,000 GPUs"),
        ("1x8:cpu=3", "'cpu=3' is neither cpus=N nor memory=SIZE"),
        ("1x8:cpus", "'cpus' is neither"),
        ("1x8:cpus=many", "cpus 'many' is not a number of CPUs"),
        ("1x8:memory=64", "memory '64' has no unit"),
        ("1x8:cpus=1:cpus=2", "states cpus twice"),
    ],
)
def test_nonsense_for_nodes_is_refused_with_the_part_that_is_wrong(text, want):
    with pytest.raises(BadValue) as caught:
        cluster_spec.parse_cluster(text)
    assert want in str(caught.value)


def test_types_cpus_and_memory_count_only_where_the_cluster_states_them():
    picky = a_record(gpu_types=("T4",), cpu_centi=10**7, memory_bytes=1 << 60)
    assert starts([picky], "1x1") == [0.0]
    for nodes, column in [("1x1xA100", "gpu_type"), ("1x1:cpus=8", "cpus"), ("1x1:memory=1GiB", "mem_mib")]:
        with pytest.raises(TraceInvalid) as caught:
            starts([a_record(), picky], nodes)
        assert caught.value.message.startswith(f"t.csv, row 1 (line 2), column {column}: ")
        assert caught.value.message.endswith("no node could ever run the task.")


def test_a_node_without_a_stated_model_takes_every_type():
    picky = [a_record(i, gpu_types=("T4", "V100")) for i in range(2)]
    assert starts(picky, "1x2xA100,1x1") == [0.0, 10.0]
    assert starts(picky, "1x2xA100,1x1,1x1xV100") == [0.0, 0.0]


@pytest.mark.parametrize(
    ("record", "nodes", "want"),
    [
        (a_record(gpus=3), "5x2", "column gpus: 3 GPUs wanted on one node, the largest has 2 in 5x2"),
        (a_record(gpus=2, gpu_types=("T4",)), "1x1xT4,1x8xA100", "column gpu_type: no node has 2 GPUs of type T4"),
        (a_record(cpu_centi=901), "1x1:cpus=9", "column cpus: 9.01 CPUs are wanted, the largest node has 9"),
        (a_record(gpus=1, cpu_centi=500), "1x1:cpus=2,1x0:cpus=8", "not all of them on one node"),
    ],
)
def test_a_task_larger_than_the_cluster_is_refused_with_row_and_column(record, nodes, want):
    with pytest.raises(TraceInvalid) as caught:
        starts([record], nodes)
    assert want in caught.value.message


def test_cpus_and_memory_are_taken_and_given_back():
    tasks = [a_record(i, gpus=0, cpu_centi=150, memory_bytes=1 << 30, run=10.0) for i in range(3)]
    assert starts(tasks, "1x0:cpus=4") == [0.0, 0.0, 10.0]
    assert starts(tasks, "1x0:memory=1GiB") == [0.0, 10.0, 20.0]


def test_a_blank_timeout_is_the_run_time_and_at_least_a_second():
    (short, long, limited) = workload.build(
        [a_record(0, run=0.2), a_record(1, run=30.0), a_record(2, run=5.0, timeout=60.0)],
        cluster_spec.parse_cluster("1x1"),
    )
    assert [item.task.timeout_s for item in (short, long, limited)] == [1.0, 30.0, 60.0]


def test_a_task_is_killed_at_its_timeout_and_the_factor_moves_that():
    tasks = [a_record(0, run=50.0, timeout=20.0), a_record(1)]
    found = simulated(tasks)
    assert [life.end_s for life in found.outcome.lives] == [20.0, 30.0]
    assert (found.measures.timed_out, found.measures.mean_finished_s) == (1, 25.0)
    found = simulated(tasks, factor=2.5)
    assert [life.end_s for life in found.outcome.lives] == [50.0, 60.0]
    assert found.measures.timed_out == 0


def test_of_one_instant_ends_come_first_then_arrivals_then_one_pass():
    # At 10 the first ends while the second waits and a shorter one comes: the shorter one starts.
    tasks = [a_record(0, run=10.0), a_record(1, at=5.0, run=100.0), a_record(2, at=10.0, run=2.0)]
    found = simulated(tasks, policy="sjf")
    assert [life.start_s for life in found.outcome.lives] == [0.0, 12.0, 10.0]
    # One at 0, at 5, at 10, and at 12; the end of the last one leaves nothing to decide.
    assert found.outcome.passes == 4


def test_a_run_of_no_seconds_gives_its_gpu_back_at_once():
    assert starts([a_record(0, run=0.0), a_record(1, run=0.0), a_record(2)]) == [0.0, 0.0, 0.0]


def test_a_task_of_a_workflow_starts_behind_all_that_it_needs_and_ages_from_its_jobs_submission():
    # a, then b; c is submitted after the workflow and with an equal timeout, so b goes first.
    flow = [a_record(0, run=10.0, job=0), a_record(1, run=20.0, job=0, needs=(0,))]
    other = a_record(2, at=5.0, run=20.0)
    found = simulated([*flow, other], policy="aging_sjf")
    assert [life.start_s for life in found.outcome.lives] == [0.0, 10.0, 30.0]
    # b waits from the moment at which it could have started, not from the job's submission.
    assert [life.wait_s for life in found.outcome.lives] == [0.0, 0.0, 25.0]
    assert (found.measures.jobs, found.measures.mean_job_finished_s) == (2, (30.0 + 45.0) / 2)


def test_inside_a_workflow_ties_go_to_the_longer_path_below():
    flow = [
        a_record(0, run=10.0, job=0),
        a_record(1, run=10.0, job=0),
        a_record(2, run=1.0, job=0, needs=(1,)),
    ]
    assert starts(flow, policy="fifo") == [10.0, 0.0, 20.0]


def test_files_are_laid_over_each_other_and_starts_are_in_their_order(tmp_path):
    trace = tmp_path / "late.csv"
    trace.write_text("submit_s,runtime_s,gpus\n100,5,1\n0,5,1\n")
    flow = tmp_path / "flow.json"
    flow.write_text('{"tasks": [{"name": "b", "runtime_s": 2, "depends_on": ["a"]}, {"name": "a", "runtime_s": 3}]}')
    simulation = comparison.load(
        [trace],
        [(flow, 1.0), (flow, 50.0)],
        cluster=cluster_spec.parse_cluster("1x1"),
        contestants=comparison.parse_contestants(["fifo"], ["greedy"]),
    )
    lines = simulation.starts_csv(simulation.run()).splitlines()
    assert lines == [
        "id,fifo",
        "late.csv/0,100.000000",
        "late.csv/1,0.000000",
        "flow/b,8.000000",
        "flow/a,5.000000",
        "flow#2/b,53.000000",
        "flow#2/a,50.000000",
    ]
    assert simulation.notes == ("late.csv was not in the order of submit_s; its rows were sorted.",)


def test_tasks_of_a_workflow_take_no_gpu_where_there_is_none(tmp_path):
    flow = [a_record(i, gpus=None, cpu_centi=100, job=0) for i in range(2)]
    assert starts(flow, "1x0:cpus=1") == [0.0, 10.0]
    assert starts(flow, "1x1:cpus=2") == [0.0, 10.0]


@pytest.mark.parametrize(
    ("policy", "discipline"), [("adaptive", "conservative"), ("fair", "easy"), ("fifo", "strict"), ("sjf", "greedy")]
)
def test_where_nothing_is_promised_a_pass_that_ends_early_starts_the_same(monkeypatch, policy, discipline):
    records = busy_cluster(7, tasks=80, gpus=12, load=1.5)
    early = simulated(records, "1x8,2x2", policy, discipline)
    monkeypatch.setattr(comparison, "_promises", lambda contestant, policy: True)
    full = simulated(records, "1x8,2x2", policy, discipline)
    assert early.outcome.promised == full.outcome.promised == 0
    assert early.outcome.lives == full.outcome.lives


@pytest.mark.parametrize("discipline", ["conservative", "easy"])
@pytest.mark.parametrize("policy", ["aging_sjf", "fifo", "log_aging"])
def test_where_all_run_to_their_timeouts_on_one_machine_promises_move_no_start(monkeypatch, policy, discipline):
    # Whole seconds, so that ends fall together.
    records = [
        replace(record, submit_s=round(record.submit_s), runtime_s=max(1.0, round(record.runtime_s)), timeout_s=None)
        for record in busy_cluster(11, tasks=100, gpus=8, load=1.3)
    ]
    without = simulated(records, "1x8", policy, discipline)
    monkeypatch.setattr(comparison, "promises_matter", lambda items, machines: True)
    kept = simulated(records, "1x8", policy, discipline)
    assert (without.outcome.promised, kept.outcome.promised > 0) == (0, True)
    assert without.outcome.lives == kept.outcome.lives


def test_promises_are_given_and_kept_and_can_be_left_out():
    records = busy_cluster(9, tasks=150, gpus=12, load=1.3)
    machines = cluster_spec.parse_cluster("1x8,2x2")
    items = workload.build(records, machines)
    contestants = comparison.parse_contestants(["aging_sjf"], ["conservative"])
    (kept,) = comparison.Simulation(items, tuple(range(len(items))), machines, contestants).run()
    assert (kept.outcome.promised > 10, kept.outcome.missed) == (True, 0)
    (without,) = comparison.Simulation(items, tuple(range(len(items))), machines, contestants, promises=False).run()
    assert without.outcome.promised == 0


@pytest.mark.parametrize("policy", ["aging_sjf", "fair", "hrrn"])
def test_the_same_workload_gives_the_same_starts(policy):
    records = busy_cluster(3, tasks=120, gpus=12, load=1.2)
    assert records == busy_cluster(3, tasks=120, gpus=12, load=1.2)
    first, second = (simulated(records, "1x8,2x2", policy, "conservative") for _ in range(2))
    assert first.outcome == second.outcome
    assert max(life.wait_s for life in first.outcome.lives) > 0


def test_no_gpu_is_held_twice_and_all_tasks_run_their_time():
    records = busy_cluster(5, tasks=300, gpus=12, load=1.5)
    lives = simulated(records, "1x8,2x2", "aging_sjf").outcome.lives
    changes = sorted((at, by) for life in lives for at, by in ((life.start_s, life.gpus), (life.end_s, -life.gpus)))
    held = 0
    for _, by in changes:
        held += by
        assert 0 <= held <= 12
    assert all(life.start_s >= life.submit_s for life in lives)
    assert all(
        round(1e6 * life.run_s) == round(1e6 * min(record.runtime_s, record.timeout_s))  # whole ticks
        for life, record in zip(lives, records, strict=True)
    )


def test_policies_are_parted_by_commas_and_their_parameters_stay_with_them():
    found = comparison.parse_contestants(["fifo,aging_sjf:beta=2,gamma=3", "sjf", "fifo"], ["greedy"])
    assert [contestant.name for contestant in found] == ["fifo", "aging_sjf:beta=2,gamma=3", "sjf"]


@pytest.mark.parametrize(
    "text", ["lifo", "aging_sjf:zeta=1", "aging_sjf:beta", "aging_sjf:beta=x", "aging_sjf:beta=-1", ""]
)
def test_an_unknown_policy_or_parameter_is_refused(text):
    with pytest.raises(BadValue):
        comparison.parse_contestants([text], ["greedy"])


@pytest.mark.parametrize("discipline", ["conservative", "easy"])
def test_starts_equal_those_of_the_independent_simulator(repository: Path, discipline):
    import csv
    import io

    fixtures = repository / "tests" / "fixtures"
    with (fixtures / "table2_like_starts.csv").open() as file:
        want = list(csv.DictReader(file))
    names = [name for name in want[0] if name != "id"]
    simulation = comparison.load(
        [fixtures / "table2_like.csv"],
        [],
        cluster=cluster_spec.parse_cluster("1x2"),
        contestants=comparison.parse_contestants(names, [discipline]),
    )
    found = list(csv.DictReader(io.StringIO(simulation.starts_csv(simulation.run()))))
    for name in names:
        for mine, theirs in zip(found, want, strict=True):
            assert mine["id"] == theirs["id"]
            assert float(mine[name]) == pytest.approx(float(theirs[name]), abs=1e-6), f"task {mine['id']} under {name}"


def test_the_papers_set_up_gives_about_the_papers_means():
    # 2,000 queues come within 5 % (benchmarks/simulation.py); the first 60 are not that many.
    waits = {"fifo": 0.0, "sjf": 0.0, "aging_sjf": 0.0}
    for seed in range(60):
        for policy in waits:
            waits[policy] += simulated(paper_queue(seed), "1x2", policy, "conservative").measures.mean_wait_s / 60
    assert waits == {
        "fifo": pytest.approx(686, rel=0.15),
        "sjf": pytest.approx(330, rel=0.15),
        "aging_sjf": pytest.approx(362, rel=0.15),
    }
    assert waits["sjf"] < waits["aging_sjf"] < waits["fifo"]


def test_of_400_tasks_the_longest_wait_is_shortest_by_age_and_longest_without():
    longest = {
        policy: simulated(paper_queue(1, tasks=400), "1x9", policy).measures.max_wait_s
        for policy in ("fifo", "aging_sjf", "sjf")
    }
    assert longest["fifo"] < longest["aging_sjf"] < longest["sjf"]


def test_tenths_of_a_second_fit_exactly():
    """0.1 + 0.2 is more than 0.3 to a float: the last task used to wait for the large one behind a hole of its size."""
    tasks = [
        a_record(0, run=0.3),
        a_record(1, run=0.1),
        a_record(2, at=0.05, gpus=2, run=1.0),
        a_record(3, at=0.06, run=0.2),
    ]
    assert starts([replace(t, timeout_s=t.runtime_s) for t in tasks], "1x2", "fifo", "conservative") == [0, 0, 0.3, 0.1]


def test_equal_keys_of_tenths_go_by_the_submission():
    # Exactly 0.3 both; the first came earlier, though 0.1 + 0.2 is more as floats.
    tasks = [a_record(0, run=1.0), a_record(1, at=0.1, run=0.2, timeout=0.2), a_record(2, at=0.2, run=0.1, timeout=0.1)]
    assert starts(tasks, "1x1", "aging_sjf") == [0.0, 1.0, 1.2]


@pytest.mark.parametrize("at", [0.0, 1_709_294_400.25])
def test_starts_are_told_by_the_clock_of_the_trace(at):
    tasks = [a_record(0, at=at, run=0.75, timeout=0.75), a_record(1, at=at + 0.5, run=0.25)]
    assert starts(tasks, "1x1") == [at, at + 0.75]


def test_as_live_books_more_than_the_timeout():
    """A gap of the timeout alone is too small for what the live plan would book."""
    tasks = [a_record(0, run=100), a_record(1, at=1, gpus=2, run=5), a_record(2, at=2, run=60, timeout=60)]
    machines = cluster_spec.parse_cluster("1x2")
    items = workload.build(tasks, machines)
    contestants = comparison.parse_contestants(["fifo"], ["conservative"])
    plain = comparison.Simulation(items, (0, 1, 2), machines, contestants)
    assert [life.start_s for life in plain.run()[0].outcome.lives] == [0, 100, 2]
    live = replace(plain, booked_start_s=60.0, booked_stop_s=30.0)
    assert [life.start_s for life in live.run()[0].outcome.lives] == [0, 100, 2]  # 152 s until 190
    longer = replace(tasks[2], runtime_s=99, timeout_s=99)
    live = replace(live, tasks=workload.build([*tasks[:2], longer], machines))
    assert [life.start_s for life in live.run()[0].outcome.lives] == [0, 100, 105]  # 191 s are after 190
