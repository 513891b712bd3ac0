import pytest

from headway.errors import Problem
from headway.ids import AttemptId, JobId, TaskId
from headway.jobfile.spec import (
    Entrypoint,
    LogLimitAction,
    Need,
    NeedOn,
    Network,
    Priority,
    ResourceSpec,
    RunAs,
    Shell,
    TaskSpec,
)
from headway.model.reasons import EndReason, EndWord, WaitReason, WaitWord
from headway.rpc import convert
from headway.rpc.v1 import common_pb2 as pb

PLAIN = TaskSpec(name="a", image="base/python:1", command="echo hi\n", timeout_s=60.0)
FULL = TaskSpec(
    name="b",
    image="x@sha256:00",
    command=("python3", "train.py", ""),
    timeout_s=0.5,
    needs=(Need("a", NeedOn.FAILURE), Need("c", NeedOn.ANY), Need("d")),
    shell=None,
    entrypoint=Entrypoint.IMAGE,
    env=(("Z", "1"), ("A", "pa$word$$x"), ("EMPTY", "")),
    working_dir="/root/nfs",
    code="sha256:" + "0" * 64,
    datasets=("mnist", "cifar@2"),
    resources=ResourceSpec(4, 16, 8, 2, ("A100", "H100"), 24),
    grace_s=0.0,
    retries=3,
    user=RunAs.IMAGE,
    network=Network.NONE,
    output_path="results/b",
    log_limit_bytes=5,
    log_limit_action=LogLimitAction.KILL,
)
BASH = TaskSpec(name="s", image="i", command="", timeout_s=1.0, shell=Shell.BASH, network=Network.JOB)


@pytest.mark.parametrize("spec", [PLAIN, FULL, BASH], ids=lambda s: s.name)
def test_a_task_spec_survives_the_wire(spec):
    wire = convert.task_spec_to_pb(spec).SerializeToString()
    assert convert.task_spec(pb.TaskSpec.FromString(wire)) == spec


@pytest.mark.parametrize(
    "reason",
    [
        EndReason(EndWord.EXITED, exit_code=0),
        EndReason(EndWord.EXITED, exit_code=137),
        EndReason(EndWord.EXITED, signal=9),
        EndReason(EndWord.IMAGE_NOT_FOUND, detail="There is no image 'x'."),
    ],
)
def test_exit_code_zero_and_no_exit_code_stay_apart_on_the_wire(reason):
    wire = convert.end_reason_to_pb(reason).SerializeToString()
    assert convert.end_reason(pb.EndReason.FromString(wire)) == reason


def test_the_rest_survives_the_wire():
    attempt = AttemptId(TaskId(JobId("j1"), "a.b"), 3)
    assert convert.attempt_id(convert.attempt_to_pb(attempt)) == attempt
    wait = WaitReason(WaitWord.WAITING_FOR_GPU, "2 GPUs wanted, 1 free.")
    assert convert.wait_reason(convert.wait_reason_to_pb(wait)) == wait
    for problem in (
        Problem("/tasks/0", "no"),
        Problem("/x", "no", 1, 2, "y", ("a", "b"), "a"),
    ):
        assert convert.problem(convert.problem_to_pb(problem)) == problem
        assert Problem.from_json(problem.to_json()) == problem
    for priority in Priority:
        assert convert.priority(convert.priority_to_pb(priority)) is priority
