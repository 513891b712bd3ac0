"""A policy of another package in a running TaskManager: that of docs/policies.md as written, and one that fails."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from headway.rpc.v1 import task_manager_pb2 as pb
from task_manager.order import policy_registry
from tests.integration.test_task_manager_service import JOB, METADATA, enqueue, neighbours, task_manager
from tests.support.ports import free_port
from tests.support.task_manager_neighbours import Neighbours, enqueue_message
from tests.support.waiting import eventually

assert neighbours  # the fixture

PAGE = Path(__file__).resolve().parents[2] / "docs" / "policies.md"
MOODY = """
import math
from task_manager.policy import Policy

class Moody(Policy):
    name = "moody"

    def key(self, task, now, view):
        if task.id.name.startswith("raise"):
            raise RuntimeError("what a name")
        return math.nan if task.id.name.startswith("nan") else -task.submitted_at

    def terms(self, task, now):
        raise RuntimeError("no words")
"""

Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a module with its entry point where pip would have."""

    def put(module: str, code: str, entry_point: str) -> None:
        site = tmp_path / "site"
        info = site / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (site / f"{module}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[headway.policies]\n{entry_point}\n")
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, module, raising=False)

    return put


@pytest.fixture
def example() -> tuple[str, str]:
    """The page's module, and its entry point as a line."""
    code, project = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (line,) = re.findall(r'^(\w+) = "(small_first:\w+)"$', project, re.MULTILINE)
    return code, f"{line[0]} = {line[1]}"


def test_the_example_takes_twenty_lines(example: tuple[str, str]) -> None:
    code = [line for line in example[0].splitlines() if line.strip() and not line.startswith("#")]
    assert len(code) <= 20


async def queue(stub: object) -> tuple[list[str], pb.Scheduling]:
    reply = await stub.GetQueue(pb.GetQueueRequest(), metadata=METADATA)  # type: ignore[attr-defined]
    return [entry.task.name for entry in reply.entries], reply.scheduling


async def test_the_example_orders_a_running_queue(
    tmp_path: Path, neighbours: Neighbours, install: Install, example: tuple[str, str]
) -> None:
    install("small_first", *example)
    neighbours.machine.holding = True
    port = free_port()
    async with task_manager(tmp_path, neighbours, port) as stub:
        await enqueue(stub, enqueue_message(JOB, "run", 1, gpus=2, timeout_s=60))
        await eventually(lambda: len(neighbours.machine.live) == 1)
        await enqueue(
            stub,
            enqueue_message(JOB, "wide", 2, gpus=2, timeout_s=3_600),
            enqueue_message(JOB, "narrow", 3, gpus=1, timeout_s=5_000),
        )
        assert (await queue(stub))[0] == ["wide", "narrow"]
        set_to = pb.SetSchedulingRequest(policy="small_first:weight=8", by="root")
        told = await stub.SetScheduling(set_to, metadata=METADATA)
        assert (told.policy, told.policy_set_by) == ("small_first:weight=8", "root")
        assert (await queue(stub))[0] == ["narrow", "wide"]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.SetScheduling(pb.SetSchedulingRequest(policy="small_first:height=8"), metadata=METADATA)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "has no parameter 'height'; it has weight" in (refused.value.details() or "")
    async with task_manager(tmp_path, neighbours, port) as stub:
        names, told = await queue(stub)
        assert (names, told.policy) == (["narrow", "wide"], "small_first:weight=8")


@pytest.mark.parametrize("how", ["raise", "nan"])
async def test_one_that_fails_is_told_and_every_task_runs(
    tmp_path: Path, neighbours: Neighbours, install: Install, how: str
) -> None:
    install("moody", MOODY, "moody = moody:Moody")
    assert "moody" in policy_registry.known_names()
    neighbours.machine.holding = True
    async with task_manager(tmp_path, neighbours, free_port()) as stub:
        await stub.SetScheduling(pb.SetSchedulingRequest(policy="moody", by="root"), metadata=METADATA)
        await enqueue(stub, enqueue_message(JOB, "run", 1, gpus=2, timeout_s=60))
        await eventually(lambda: len(neighbours.machine.live) == 1)
        await enqueue(stub, *(enqueue_message(JOB, f"t{i}", 2 + i, gpus=2, timeout_s=900 - i) for i in range(6)))
        assert (await queue(stub))[1].failure == ""
        await enqueue(stub, enqueue_message(JOB, f"{how}s", 20, gpus=2, timeout_s=9_000))
        names, told = await queue(stub)
        assert names == ["t5", "t4", "t3", "t2", "t1", "t0", f"{how}s"], "aging_sjf stands in"
        assert f"moody failed for {JOB}/{how}s: " in told.failure
        neighbours.machine.holding = False
        for key in list(neighbours.machine.live):
            neighbours.machine.end(key)
        await eventually(lambda: len(neighbours.jobs.ended) == 8, within_s=60)
    assert set(neighbours.jobs.ended.values()) == {"SUCCEEDED"}
    assert set(neighbours.machine.runs.values()) == {1}
