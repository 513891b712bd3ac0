"""A chaos run is drawn from a seed, and replayed from a file."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from headway.jobfile import parse_job
from tests.chaos.faults import KINDS, Fault
from tests.chaos.schedule import AT_ONCE, Schedule, draw, read

SEEDS = range(40)


def test_the_same_seed_makes_the_same_run_and_another_one_another() -> None:
    assert draw(7, 180) == draw(7, 180)
    assert draw(7, 180).faults != draw(8, 180).faults
    assert draw(7, 180).jobs != draw(8, 180).jobs


@pytest.mark.parametrize("seed", SEEDS)
def test_every_fault_ends_within_the_run_and_no_part_is_struck_twice_at_once(seed: int) -> None:
    faults = draw(seed, 180).faults
    assert len(faults) > 12
    for fault in faults:
        kind = KINDS[fault.kind]
        assert fault.where in kind.places
        assert kind.lasts_s[0] <= fault.lasts_s <= kind.lasts_s[1]
        assert kind.detail[0] <= fault.detail <= kind.detail[1]
        assert fault.ends_s <= 180
        during = [other for other in faults if other.begins_s <= fault.begins_s < other.ends_s]
        assert len(during) <= AT_ONCE
    for one, other in itertools.combinations(faults, 2):
        if one.begins_s < other.ends_s and other.begins_s < one.ends_s:
            assert not one.parts & other.parts, (one, other)


def test_over_some_seeds_each_kind_of_fault_is_drawn() -> None:
    assert {fault.kind for seed in SEEDS for fault in draw(seed, 180).faults} == set(KINDS)


def test_a_machine_without_power_is_left_alone_by_all_other_faults() -> None:
    off = Fault("power lost", "n1", 10, 30)
    for kind, where in (("service killed", "n1"), ("line cut", "n1"), ("mount stale", "n1"), ("engine hangs", "n1")):
        assert off.parts & Fault(kind, where, 12, 5).parts, kind
    assert off.parts & Fault("service killed", "task_manager", 12, 5).parts, "it gives the leases"
    assert not off.parts & Fault("service killed", "n2", 12, 5).parts


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_its_jobs_are_taken_as_job_files_and_their_tasks_have_names_of_their_own(seed: int) -> None:
    jobs = draw(seed, 900).jobs
    names = [task.name for job in jobs for task in job.tasks]
    assert len(set(names)) == len(names)
    assert {task.kind for job in jobs for task in job.tasks} == {"well", "fails", "late"}
    assert any(job.cancel_at_s is not None for job in jobs)
    assert {job.sure for job in jobs} == {True, False}
    for job in jobs:
        assert len(parse_job(job.file("headway-test/told:1")).tasks) == len(job.tasks)


def test_a_kept_run_is_read_as_it_was(tmp_path: Path) -> None:
    schedule = draw(3, 120)
    schedule.write(tmp_path / "schedule.json")
    assert read(tmp_path / "schedule.json") == schedule


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"seed": 1, "seconds": 2, "jobs": [], "faults": [{"kind": 3}]}'])
def test_what_holds_no_run_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"broken\.json holds no schedule"):
        read(path)


def test_a_fault_that_does_not_exist_is_named(tmp_path: Path) -> None:
    Schedule(1, 10.0, (), (Fault("earthquake", "n1", 1.0, 1.0),)).write(tmp_path / "s.json")
    with pytest.raises(ValueError, match="earthquake"):
        read(tmp_path / "s.json")
