"""What may stand where, the defaults, and what is said about the rest."""

from __future__ import annotations

from headway.jobfile import (
    Entrypoint,
    LogLimitAction,
    Need,
    Network,
    Priority,
    ResourceSpec,
    RunAs,
    Shell,
    TaskSpec,
    parse_job,
)
from headway.units import GIB

from .build import EXAMPLE, a_job, spec_of, task_yaml, the_task


def test_the_example_of_the_contract() -> None:
    job = parse_job(EXAMPLE.encode())
    assert (job.version, job.name, job.priority) == (1, "digits", Priority.NORMAL)
    assert job.tasks == (
        TaskSpec(
            name="prepare",
            image="base/python:1",
            command="python3 /root/nfs/prepare.py\n",
            timeout_s=600,
            resources=ResourceSpec(cpus_centi=200, memory_bytes=4 * GIB, shm_bytes=2 * GIB),
        ),
        TaskSpec(
            name="train",
            needs=(Need("prepare"),),
            image="team/torch:2.4",
            command="python3 train.py\n",
            shell=Shell.BASH,
            env=(("LR", "0.01"),),
            working_dir="/root/nfs",
            datasets=("mnist",),
            resources=ResourceSpec(400, 16 * GIB, 8 * GIB, 1, ("A100", "H100"), 24 * GIB),
            timeout_s=1_800,
            grace_s=30,
            retries=2,
            output_path="results/digits",
        ),
    )


def test_the_defaults_of_the_schema() -> None:
    task = spec_of(a_job()).tasks[0]
    assert task.resources == ResourceSpec(
        cpus_centi=100, memory_bytes=2 * GIB, shm_bytes=GIB, gpus=0, gpu_models=(), gpu_memory_bytes=None
    )
    assert (task.grace_s, task.retries, task.network) == (10, 0, Network.OUTGOING)
    assert (task.shell, task.entrypoint, task.user) == (Shell.SH, Entrypoint.REPLACE, RunAs.ACCOUNT)
    assert (task.log_limit_bytes, task.log_limit_action) == (GIB, LogLimitAction.DROP)
    assert (task.env, task.needs, task.datasets, task.working_dir, task.output_path) == ((), (), (), None, None)


def test_a_job_without_version_or_priority_is_version_1_and_normal() -> None:
    job = a_job()
    del job["version"]
    assert spec_of(job) == spec_of(a_job(priority="normal"))


def test_a_tasks_own_fields_win_and_env_and_resources_merge_by_key() -> None:
    defaults = {
        "env": {"A": "1", "B": "2"},
        "resources": {"cpus": 2, "memory": "8GiB"},
        "datasets": ["mnist"],
        "retries": 3,
        "grace": "1m",
    }
    job = spec_of(
        a_job(
            {"env": {"B": "3"}, "resources": {"memory": "4GiB"}, "datasets": ["cifar"], "retries": 0},
            {},
            defaults=defaults,
        )
    )
    own, plain = job.tasks
    assert own.env == (("A", "1"), ("B", "3"))
    assert own.resources == ResourceSpec(cpus_centi=200, memory_bytes=4 * GIB, shm_bytes=2 * GIB)
    assert (own.datasets, own.retries, own.grace_s) == (("cifar",), 0, 60)
    assert plain.env == (("A", "1"), ("B", "2"))
    assert plain.resources.shm_bytes == 4 * GIB
    assert (plain.datasets, plain.retries) == (("mnist",), 3)


def test_the_order_of_names_makes_no_difference() -> None:
    one = a_job({}, {}, {"env": {"B": "1", "A": "2"}, "needs": {"t2": "any", "t1": "any"}})
    other = a_job({}, {}, {"env": {"A": "2", "B": "1"}, "needs": {"t1": "any", "t2": "any"}})
    assert spec_of(one) == spec_of(other)


def test_what_a_default_says_about_shell_or_gpus_only_counts_where_it_means_something() -> None:
    defaults = {"shell": "bash", "resources": {"gpu_model": "A100", "gpu_memory": "24GiB"}}
    text, words, gpu = spec_of(a_job({}, {"command": ["true"]}, {"resources": {"gpus": 1}}, defaults=defaults)).tasks
    assert (text.shell, words.shell) == (Shell.BASH, None)
    assert (text.resources.gpu_models, text.resources.gpu_memory_bytes) == ((), None)
    assert (gpu.resources.gpu_models, gpu.resources.gpu_memory_bytes) == (("A100",), 24 * GIB)


def test_empty_sections_are_as_good_as_none() -> None:
    text = task_yaml("needs:", "env:", "datasets:", "resources:").replace("version: 1\n", "")
    assert the_task(text) == the_task(task_yaml("needs: []", "env: {}", "datasets: []", "resources: {}"))
