"""Measures against numbers worked out by hand."""

import pytest

from task_manager.simulate.measures import TaskLife, bounded_slowdown, longest_decile_max_wait_s, measure, percentile


def a_life(queued, start, end, **more):
    return TaskLife(
        queued, start, end, **{"gpus": 1, "cpu_centi": 0, "job": f"{queued}/{start}", "submit_s": queued, **more}
    )


def test_waits_finishes_and_use_of_three_tasks():
    # Two GPUs from 0 to 40 are 80 GPU-seconds; 10 + 2 * 20 + 10 of them were held.
    lives = [a_life(0.0, 0.0, 10.0), a_life(0.0, 10.0, 30.0, gpus=2), a_life(10.0, 30.0, 40.0, timed_out=True)]
    found = measure(lives, gpus=2)
    assert (found.tasks, found.timed_out, found.jobs) == (3, 1, 3)
    assert found.mean_wait_s == 10.0
    assert (found.median_wait_s, found.max_wait_s) == (10.0, 20.0)
    assert found.p95_wait_s == pytest.approx(19.0)
    assert found.mean_finished_s == pytest.approx((10 + 30 + 30) / 3)
    assert (found.median_finished_s, found.max_finished_s) == (30.0, 30.0)
    assert found.makespan_s == 40.0
    assert found.utilisation == pytest.approx(60 / 80)
    assert found.mean_bounded_slowdown == pytest.approx((1 + 1.5 + 3) / 3)


def test_percentiles_lie_between_neighbours():
    assert percentile([1.0], 95) == 1.0
    assert percentile([0.0, 10.0], 50) == 5.0
    assert percentile([float(i) for i in range(101)], 95) == 95.0


def test_a_short_run_counts_as_ten_seconds_for_its_slowdown():
    assert bounded_slowdown(a_life(0.0, 59.0, 60.0)) == 6.0
    assert bounded_slowdown(a_life(0.0, 0.0, 0.1)) == 1.0


def test_the_longest_decile_is_the_tenth_that_ran_longest():
    lives = [a_life(0.0, 100.0 - i, 100.0 - i + 10 * (i + 1)) for i in range(20)]
    # The two longest, the last two, waited 82 and 81 s; the first, which waited 100 s, is the shortest.
    assert longest_decile_max_wait_s(lives) == 82.0
    assert longest_decile_max_wait_s(lives[:3]) == 98.0


def test_a_job_has_finished_when_its_last_task_has():
    lives = [
        a_life(0.0, 0.0, 5.0, job="a", submit_s=0.0),
        a_life(5.0, 8.0, 9.0, job="a", submit_s=0.0),
        a_life(2.0, 2.0, 4.0, job="b", submit_s=2.0),
    ]
    found = measure(lives, gpus=1)
    assert (found.jobs, found.mean_job_finished_s) == (2, (9 + 2) / 2)


def test_without_gpus_the_use_is_that_of_cpus():
    lives = [a_life(0.0, 0.0, 10.0, gpus=0, cpu_centi=100), a_life(0.0, 0.0, 5.0, gpus=0, cpu_centi=100)]
    assert measure(lives, gpus=0, cpu_centi=200).utilisation == pytest.approx(0.75)
    assert measure(lives, gpus=0).utilisation == 0.0
