"""A real JobManager behind real gRPC, with a TaskManager that does as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headway.errors import Conflict, IdempotencyMismatch, NotFound
from headway.jobfile.spec import NeedOn
from headway.lifecycle import Service
from headway.rpc import convert
from headway.rpc.channel import Peer
from headway.rpc.chunks import in_parts
from headway.rpc.v1 import common_pb2, job_manager_pb2
from headway.rpc.v1.job_manager_pb2_grpc import JobManagerStub
from job_manager.app import build
from tests.support.clock import FakeClock
from tests.support.fake_task_manager import FakeTaskManager
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.running import running
from tests.support.steps import counted
from tests.support.waiting import eventually

TOKEN = "cluster-token-of-the-test"
ACT = job_manager_pb2.ActOnJobRequest


def a_task(
    name: str, *needs: str | tuple[str, NeedOn], cpus: int = 1, timeout_s: float = 60.0, script: str = "true"
) -> common_pb2.TaskSpec:
    spec = common_pb2.TaskSpec(
        name=name,
        image="base/python:1",
        script=script,
        timeout_s=timeout_s,
        resources=common_pb2.Resources(cpu_centi=100 * cpus, memory_bytes=2**30),
    )
    for need in needs:
        task, on = need if isinstance(need, tuple) else (need, NeedOn.SUCCESS)
        spec.needs.add(task=task, on=convert._NEED_TO_PB[on])
    return spec


@dataclass
class Rig:
    """A JobManager and what a test does with it."""

    peer: Peer
    task_manager: FakeTaskManager
    clock: FakeClock
    stub: Any = field(init=False)

    def __post_init__(self) -> None:
        self.stub = JobManagerStub(self.peer.channel)  # type: ignore[no-untyped-call]

    async def submit(
        self, tasks: Sequence[common_pb2.TaskSpec], *, owner: str = "ann", spec_hash: str = "", **header: Any
    ) -> job_manager_pb2.SubmitJobReply:
        head = job_manager_pb2.JobHeader(
            owner=common_pb2.Account(name=owner, uid=20_001, gid=20_001),
            name=header.pop("name", "digits"),
            spec_hash=spec_hash or "hash",
            task_count=len(tasks),
            **header,
        )

        def parts() -> list[job_manager_pb2.SubmitJobPart]:
            return [
                job_manager_pb2.SubmitJobPart(header=head),
                *(job_manager_pb2.SubmitJobPart(tasks=part) for part in in_parts(tasks)),
            ]

        reply: job_manager_pb2.SubmitJobReply = await self.peer.upload(self.stub.SubmitJob, parts, deadline_s=30)
        return reply

    async def job(self, job_id: str, *names: str) -> tuple[job_manager_pb2.Job, dict[str, job_manager_pb2.TaskView]]:
        request = job_manager_pb2.GetJobRequest(job_id=job_id, with_tasks=True, task_names=names)
        parts = [part async for part in self.peer.stream(self.stub.GetJob, request, deadline_s=30)]
        return parts[0].job, {task.name: task for part in parts for task in part.tasks}

    async def states(self, job_id: str) -> dict[str, str]:
        job, tasks = await self.job(job_id)
        return {"": job.state, **{name: task.state for name, task in tasks.items()}}

    async def report(self, *events: job_manager_pb2.TaskEvent) -> None:
        request = job_manager_pb2.ReportTaskEventsRequest(events=events)
        await self.peer.call(self.stub.ReportTaskEvents, request, deadline_s=30)

    async def ends(self, job_id: str, task: str, kind: str = "SUCCEEDED", **event: Any) -> None:
        """The task starts and ends so."""
        await self.report(
            self.task_manager.event(job_id, task, "ATTEMPT_STARTED", **event),
            self.task_manager.event(job_id, task, kind, **event),
        )

    async def act(
        self, job_id: str, action: int, task: str = "", request_id: str = ""
    ) -> job_manager_pb2.ActOnJobReply:
        request = ACT(job_id=job_id, task=task, action=action, request_id=request_id, by="ann")
        reply: job_manager_pb2.ActOnJobReply = await self.peer.call(self.stub.ActOnJob, request, deadline_s=30)
        return reply

    async def told(self, *names: str) -> None:
        """TaskManager has been told to enqueue these and no others, in any order."""
        await eventually(
            lambda: sorted(self.task_manager.enqueued) == sorted(names),
            what=f"enqueued {names}, has {self.task_manager.enqueued}",
        )


@asynccontextmanager
async def a_rig(database: Path | str, clock: FakeClock) -> AsyncIterator[Rig]:
    """``database``: a folder for one, or a URL."""
    task_manager = FakeTaskManager()
    async with AsyncExitStack() as stack:
        other = Service("task-manager")
        tm_port = free_port()
        await task_manager.serve(other, f"127.0.0.1:{tm_port}", TOKEN)
        await stack.enter_async_context(running(other))
        service = Service("job-manager")
        server = await build(
            service,
            database=database if isinstance(database, str) else str(database / "jobs.db"),
            bind="127.0.0.1:0",
            token=TOKEN,
            task_manager=f"127.0.0.1:{tm_port}",
            clock=clock,
        )
        await stack.enter_async_context(running(service))
        peer = Peer("JobManager", f"127.0.0.1:{server.port}", token=TOKEN)
        stack.push_async_callback(peer.close)
        yield Rig(peer, task_manager, clock)


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path, clock) as one:
        yield one


DIAMOND = [a_task("prepare"), a_task("left", "prepare"), a_task("right", "prepare"), a_task("compare", "left", "right")]


async def test_a_diamond_runs_from_submission_to_its_end(rig: Rig) -> None:
    job_id = (await rig.submit(DIAMOND)).job_id
    await rig.told("prepare")
    first = rig.task_manager.of("enqueue")[0]
    assert (first.owner.name, first.job_name, first.generation) == ("ann", "digits", 1)
    assert first.spec.script == "true"
    assert first.tail_timeout_s == 120.0
    assert first.submitted_at == rig.clock.now()
    assert (await rig.states(job_id))[""] == "PENDING"

    await rig.ends(job_id, "prepare")
    await rig.told("prepare", "left", "right")
    await rig.ends(job_id, "left")
    assert (await rig.states(job_id))[""] == "RUNNING"
    _, tasks = await rig.job(job_id)
    assert list(tasks["compare"].waits_for) == ["right"]
    _, named = await rig.job(job_id, "compare", "left")
    assert named == {name: tasks[name] for name in ("left", "compare")}, "the same where only some are asked for"
    with pytest.raises(NotFound, match=r"no task 'centre'\. There are prepare, left, right, compare\."):
        await rig.job(job_id, "left", "centre")
    with pytest.raises(NotFound, match=r"no task 'rihgt'\. Did you mean 'right'\?"):
        await rig.job(job_id, "rihgt")
    with pytest.raises(NotFound, match=r"no task 'rihgt'\. Did you mean 'right'\?"):
        await rig.act(job_id, ACT.ACTION_CANCEL, "rihgt")
    await rig.ends(job_id, "right")
    await rig.told("prepare", "left", "right", "compare")
    await rig.ends(job_id, "compare")
    job, tasks = await rig.job(job_id)
    assert job.state == "SUCCEEDED"
    assert dict(job.tasks_by_state) == {"SUCCEEDED": 4}
    assert job.ended_at >= job.submitted_at
    assert {task.state for task in tasks.values()} == {"SUCCEEDED"}
    assert tasks["left"].reason.exit_code == 0


async def test_what_depends_on_a_failed_task_is_skipped_and_the_rest_runs_on(rig: Rig) -> None:
    # The dependents used to wait for ever and the job never ended.
    job_id = (
        await rig.submit(
            [a_task("a"), a_task("b", "a"), a_task("c", "b"), a_task("d"), a_task("tidy", ("c", NeedOn.ANY))]
        )
    ).job_id
    reason = common_pb2.EndReason(word="exited", exit_code=3)
    await rig.ends(job_id, "a", "FAILED", reason=reason)
    job, tasks = await rig.job(job_id)
    assert [tasks[name].state for name in "abcd"] == ["FAILED", "SKIPPED", "SKIPPED", "QUEUED"]
    assert "'a'" in tasks["b"].sentence
    assert "'a'" in tasks["c"].sentence
    assert "'b'" in tasks["c"].sentence
    await rig.told("a", "d", "tidy")
    await rig.ends(job_id, "d")
    await rig.ends(job_id, "tidy")
    job, _ = await rig.job(job_id)
    assert (job.state, job.reason_task, job.reason.exit_code) == ("FAILED", "a", 3)


async def test_problems_of_the_graph_refuse_the_job_whole(rig: Rig) -> None:
    reply = await rig.submit([a_task("prepare"), a_task("train", "prepar"), a_task("alone", "alone")])
    assert reply.job_id == ""
    assert [problem.pointer for problem in reply.problems] == ["/tasks/1/needs/prepar", "/tasks/2/needs/alone"]
    assert reply.problems[0].suggestion == "prepare"
    listed = await rig.peer.call(rig.stub.ListJobs, job_manager_pb2.ListJobsRequest(), deadline_s=5)
    assert not listed.jobs
    assert not rig.task_manager.commands


async def test_a_repeated_submission_is_one_job_also_after_a_restart(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock) as rig:
        both = await asyncio.gather(*(rig.submit(DIAMOND, request_id="r1") for _ in range(4)))
        assert len({reply.job_id for reply in both}) == 1
        assert sorted(reply.already_known for reply in both) == [False, True, True, True]
        with pytest.raises(IdempotencyMismatch):
            await rig.submit([a_task("other")], request_id="r1", spec_hash="another")
        assert (await rig.submit(DIAMOND, request_id="r1", owner="bob")).job_id != both[0].job_id
    async with a_rig(tmp_path, clock) as rig:
        again = await rig.submit(DIAMOND, request_id="r1")
        assert (again.job_id, again.already_known) == (both[0].job_id, True)


async def test_whether_a_submission_is_known_can_be_asked_without_making_a_job(rig: Rig) -> None:
    asked = {"request_id": "twice", "known_only": True}
    assert (await rig.submit([], **asked)).job_id == ""
    first = await rig.submit([a_task("a")], request_id="twice")
    again = await rig.submit([], **asked)
    assert (again.job_id, again.already_known) == (first.job_id, True)
    with pytest.raises(IdempotencyMismatch):
        await rig.submit([], spec_hash="another", **asked)
    whatever = job_manager_pb2.JobHeader(owner=common_pb2.Account(name="ann"), **asked)
    part = job_manager_pb2.SubmitJobPart(header=whatever)
    assert (await rig.peer.upload(rig.stub.SubmitJob, lambda: [part], deadline_s=30)).job_id == first.job_id
    assert (await rig.submit([], **asked, owner="bob")).job_id == ""


async def test_pins_are_shown_and_machines_are_checked_for_the_image(rig: Rig) -> None:
    fixed, anywhere, plain = a_task("fixed"), a_task("anywhere"), a_task("plain")
    fixed.image_digest, fixed.image_source = "sha256:" + "1" * 64, common_pb2.IMAGE_SOURCE_ENGINE
    anywhere.image_digest, anywhere.image_source = "sha256:" + "2" * 64, common_pb2.IMAGE_SOURCE_MARKET
    anywhere.image_architecture, anywhere.image_require_cuda = "arm64", "cuda>=12.4"
    fixed.datasets.append("mnist")
    fixed.dataset_pins.add(name="mnist", version="2")
    plain.datasets.append("iris")
    plain.code = "sha256:" + "3" * 64
    reply = await rig.submit([fixed, anywhere, plain])
    shapes = {(shape.image_architecture, shape.image_require_cuda) for shape in rig.task_manager.shapes}
    assert shapes == {("", ""), ("arm64", "cuda>=12.4")}
    assert len(rig.task_manager.shapes) == 2  # what can't be told apart is asked once
    _, tasks = await rig.job(reply.job_id)
    assert (tasks["fixed"].image_digest, tasks["fixed"].image_source) == (fixed.image_digest, fixed.image_source)
    assert list(tasks["fixed"].datasets) == [common_pb2.DatasetPin(name="mnist", version="2")]
    assert list(tasks["plain"].datasets) == [common_pb2.DatasetPin(name="iris")]
    assert tasks["plain"].code == plain.code
    # A retry sends what was pinned then.
    await rig.ends(reply.job_id, "fixed", "FAILED")
    await rig.act(reply.job_id, ACT.ACTION_RETRY, "fixed")
    await rig.told("fixed", "anywhere", "plain", "fixed")
    assert rig.task_manager.of("enqueue")[-1].spec.image_digest == fixed.image_digest


async def test_what_no_machine_can_run_is_refused_unless_asked_for(rig: Rig) -> None:
    tasks = [a_task("small"), a_task("huge", cpus=64)]
    reply = await rig.submit(tasks)
    assert [problem.pointer for problem in reply.problems] == ["/tasks/1/resources"]
    assert "largest machine has 8" in reply.problems[0].message
    allowed = await rig.submit(tasks, allow_unsatisfiable=True)
    assert allowed.job_id
    assert "largest machine has 8" in allowed.warnings[0]


async def test_without_task_manager_or_machines_jobs_are_accepted_with_a_warning(rig: Rig) -> None:
    rig.task_manager.largest = None
    assert "No machine" in (await rig.submit([a_task("huge", cpus=64)])).warnings[0]
    rig.task_manager.away = True
    reply = await rig.submit([a_task("huge", cpus=64)])
    assert reply.job_id
    assert "could not be checked" in reply.warnings[0]


async def test_a_dry_run_answers_the_order_and_stores_nothing(rig: Rig) -> None:
    reply = await rig.submit(DIAMOND[::-1], dry_run=True, request_id="r1")
    assert list(reply.order) == ["prepare", "right", "left", "compare"]
    assert reply.job_id == ""
    graph = await rig.submit([a_task("x", "y"), a_task("y", "x")], graph_only=True, owner="")
    assert "x → y → x" in graph.problems[0].message
    listed = await rig.peer.call(rig.stub.ListJobs, job_manager_pb2.ListJobsRequest(), deadline_s=5)
    assert not listed.jobs


async def test_commands_reach_a_task_manager_that_was_away_or_lost_its_answer(rig: Rig) -> None:
    rig.task_manager.away = True
    job_id = (await rig.submit([a_task("a"), a_task("b")])).job_id
    await rig.act(job_id, ACT.ACTION_CANCEL, "a")
    await eventually(lambda: rig.task_manager.calls)
    rig.task_manager.away = False
    rig.task_manager.drop_answers = 2

    async def all_there() -> bool:
        await rig.clock.advance(6)
        return len(rig.task_manager.commands) == 3 and not rig.task_manager.drop_answers

    await eventually(all_there)
    assert rig.task_manager.enqueued == ["a", "b"]
    assert rig.task_manager.of("cancel")[0].by == "ann"


async def test_a_cancelled_job_ends_cancelled_whatever_its_tasks_made_of_it(rig: Rig) -> None:
    job_id = (await rig.submit([*DIAMOND, a_task("after", ("compare", NeedOn.ANY))])).job_id
    await rig.report(rig.task_manager.event(job_id, "prepare", "ATTEMPT_STARTED"))
    assert (await rig.act(job_id, ACT.ACTION_CANCEL, request_id="c1")).tasks_changed == 5
    states = await rig.states(job_id)
    assert (states[""], states["prepare"], states["compare"], states["after"]) == (
        "STOPPING",
        "STOPPING",
        "CANCELLED",
        "CANCELLED",
    )
    with pytest.raises(Conflict):
        await rig.act(job_id, ACT.ACTION_RETRY)
    await rig.report(rig.task_manager.event(job_id, "prepare", "SUCCEEDED"))
    assert (await rig.states(job_id))[""] == "CANCELLED"
    assert (await rig.act(job_id, ACT.ACTION_CANCEL)).tasks_changed == 0
    assert (await rig.act(job_id, ACT.ACTION_CANCEL, request_id="c1")).tasks_changed == 5
    await rig.told("prepare")


async def test_a_retry_runs_again_what_failed_and_what_was_skipped_for_it(rig: Rig) -> None:
    job_id = (await rig.submit(DIAMOND)).job_id
    await rig.ends(job_id, "prepare")
    await rig.ends(job_id, "left", "TIMED_OUT", reason=common_pb2.EndReason(word="timed_out"))
    await rig.ends(job_id, "right")
    assert (await rig.states(job_id))[""] == "FAILED"
    await rig.clock.advance(100)
    assert (await rig.act(job_id, ACT.ACTION_RETRY, request_id="again")).tasks_changed == 2
    states = await rig.states(job_id)
    assert states == {
        "": "PENDING",
        "prepare": "SUCCEEDED",
        "left": "QUEUED",
        "right": "SUCCEEDED",
        "compare": "BLOCKED",
    }
    await rig.told("prepare", "left", "right", "left")
    again = rig.task_manager.of("enqueue")[-1]
    assert (again.generation, again.submitted_at) == (2, rig.clock.now())
    # A late report of the first run changes nothing.
    await rig.ends(job_id, "left", "FAILED", generation=1)
    assert (await rig.states(job_id))["left"] == "QUEUED"
    # Nor does the same wish once more, even after that run failed too.
    await rig.ends(job_id, "left", "FAILED", generation=2)
    await rig.act(job_id, ACT.ACTION_RETRY, request_id="again")
    assert (await rig.states(job_id))["left"] == "FAILED"
    await rig.act(job_id, ACT.ACTION_RETRY, "left")
    await rig.ends(job_id, "left", generation=3, attempt=3)
    await rig.ends(job_id, "compare", generation=3, attempt=1)
    job, tasks = await rig.job(job_id)
    assert tasks["compare"].generation == 3
    assert (job.state, job.reason.word, job.reason_task) == ("SUCCEEDED", "", "")
    assert (await rig.act(job_id, ACT.ACTION_RETRY)).tasks_changed == 0


async def test_a_hold_keeps_its_mark_and_its_time_does_not_age(rig: Rig) -> None:
    job_id = (await rig.submit([a_task("a"), a_task("b", "a")])).job_id
    submitted_at = rig.clock.now()
    assert (await rig.act(job_id, ACT.ACTION_HOLD)).job.held
    await rig.clock.advance(50)
    await rig.ends(job_id, "a")
    await rig.told("a", "b")
    assert rig.task_manager.of("enqueue")[-1].held
    assert len(rig.task_manager.of("hold")) == 1
    await rig.clock.advance(50)
    reply = await rig.act(job_id, ACT.ACTION_RELEASE)
    assert (reply.job.held, reply.tasks_changed) == (False, 1)
    await eventually(lambda: rig.task_manager.of("release"))
    released = rig.task_manager.of("release")[0]
    assert (released.task.name, released.submitted_at) == ("b", submitted_at + 100)


async def test_repeated_and_reordered_reports_do_no_harm(rig: Rig) -> None:
    job_id = (await rig.submit([a_task("a"), a_task("b", "a")])).job_id
    started = rig.task_manager.event(job_id, "a", "ATTEMPT_STARTED", seq=1)
    ended = rig.task_manager.event(job_id, "a", "SUCCEEDED", seq=2)
    unknown = rig.task_manager.event(job_id, "nobody", "SUCCEEDED", seq=3)
    elsewhere = rig.task_manager.event("j0000000000000000", "a", "SUCCEEDED", seq=3)
    await rig.report(ended, started, ended, unknown, elsewhere)
    await rig.report(ended)
    states = await rig.states(job_id)
    assert (states[""], states["a"], states["b"]) == ("RUNNING", "SUCCEEDED", "QUEUED")
    await rig.told("a", "b")


async def test_a_requeue_told_twice_does_not_undo_the_next_start(rig: Rig) -> None:
    job_id = (await rig.submit([a_task("a")])).job_id
    told = [
        rig.task_manager.event(job_id, "a", "ATTEMPT_STARTED"),
        rig.task_manager.event(job_id, "a", "REQUEUED"),
        rig.task_manager.event(job_id, "a", "ATTEMPT_STARTED", attempt=2),
    ]
    await rig.report(*told)
    await rig.report(*told[:2])
    _, tasks = await rig.job(job_id)
    assert (tasks["a"].state, tasks["a"].attempt, tasks["a"].node_id) == ("RUNNING", 2, "node-1")


async def test_watchers_see_committed_changes_merged(rig: Rig) -> None:
    request = job_manager_pb2.WatchJobsRequest()
    async with aclosing(rig.peer.stream(rig.stub.WatchJobs, request, deadline_s=30)) as changes:
        assert not (await anext(changes)).changes
        job_id = (await rig.submit([a_task("a"), a_task("b", "a")])).job_id
        first = await anext(changes)
        assert first.changes[0].job.id == job_id
        await rig.ends(job_id, "a")
        seen: dict[str, str] = {}
        while seen != {"a": "SUCCEEDED", "b": "QUEUED"}:
            for change in (await anext(changes)).changes:
                seen.update((task.name, task.state) for task in change.tasks)


async def test_a_job_is_found_by_the_start_of_its_id(rig: Rig) -> None:
    job_id = (await rig.submit([a_task("a")])).job_id
    await rig.clock.advance(3600)
    await rig.submit([a_task("a")], owner="bob")
    request = job_manager_pb2.ResolveJobRequest(prefix=job_id[:9].upper(), owner="ann")
    assert (await rig.peer.call(rig.stub.ResolveJob, request, deadline_s=5)).job_ids == [job_id]
    request = job_manager_pb2.ResolveJobRequest(prefix="j")
    assert len((await rig.peer.call(rig.stub.ResolveJob, request, deadline_s=5)).job_ids) == 2
    with pytest.raises(NotFound):
        await rig.job("j0000000000000000")


async def test_a_young_job_is_found_by_the_end_of_its_id(rig: Rig) -> None:
    async def found(end: str, owner: str = "") -> list[str]:
        request = job_manager_pb2.ResolveJobRequest(prefix=end, owner=owner)
        return list((await rig.peer.call(rig.stub.ResolveJob, request, deadline_s=5)).job_ids)

    job_id = (await rig.submit([a_task("a")])).job_id
    await rig.submit([a_task("a")], owner="bob")
    for owner in ("ann", "bob", ""):
        assert await found(job_id[-5:].upper(), owner) == [job_id], "one's own first, then anybody's"
    assert await found(job_id[-9:]) == [job_id]
    assert await found(job_id[-4:]) == [], "too few tell nothing apart"
    assert await found("%%%%%") == await found("_____") == []
    await rig.clock.advance(6 * 86_400)
    assert await found(job_id[-5:]) == [job_id]
    await rig.clock.advance(2 * 86_400)
    assert await found(job_id[-5:]) == []
    assert await found(job_id[:16]) == [job_id]


async def test_the_spec_comes_back_as_it_was_submitted(rig: Rig) -> None:
    tasks = [a_task("a", script="echo '$HOME'\n"), a_task("b", ("a", NeedOn.FAILURE))]
    job_id = (await rig.submit(tasks, name="ünïcode 日本")).job_id
    request = job_manager_pb2.GetJobRequest(job_id=job_id)
    parts = [part async for part in rig.peer.stream(rig.stub.GetJobSpec, request, deadline_s=5)]
    assert parts[0].header.name == "ünïcode 日本"
    assert [task for part in parts for task in part.tasks] == tasks
    request.task_names.append("b")
    parts = [part async for part in rig.peer.stream(rig.stub.GetJobSpec, request, deadline_s=5)]
    assert [task for part in parts for task in part.tasks] == tasks[1:]
    request.task_names.append("c")
    with pytest.raises(NotFound, match="no task 'c'"):
        [part async for part in rig.peer.stream(rig.stub.GetJobSpec, request, deadline_s=5)]


async def test_a_task_that_can_never_be_queued_ends_and_holds_up_nobody(rig: Rig) -> None:
    rig.task_manager.refuses = "poison"
    job_id = (await rig.submit([a_task("a"), a_task("poison"), a_task("b"), a_task("c", "poison")])).job_id
    await rig.told("a", "b")
    await rig.ends(job_id, "a")
    await rig.ends(job_id, "b")
    job, tasks = await rig.job(job_id)
    assert (job.state, job.reason_task) == ("FAILED", "poison")
    assert "beyond me" in tasks["poison"].sentence
    assert tasks["c"].state == "SKIPPED"


async def test_one_cancelled_task_ends_a_job_that_did_not_fail_as_cancelled(rig: Rig) -> None:
    job_id = (await rig.submit([a_task("a"), a_task("b", "a"), a_task("c", "b")])).job_id
    assert (await rig.act(job_id, ACT.ACTION_CANCEL, "b")).tasks_changed == 2
    await rig.ends(job_id, "a")
    job, tasks = await rig.job(job_id)
    assert (job.state, job.reason.word, job.reason_task) == ("CANCELLED", "cancelled", "b")
    assert "by ann" in tasks["b"].sentence
    assert tasks["c"].state == "SKIPPED"
    with pytest.raises(Conflict, match="'b'"):
        await rig.act(job_id, ACT.ACTION_RETRY, "c")
    assert (await rig.act(job_id, ACT.ACTION_RETRY)).tasks_changed == 2
    await rig.told("a", "b")


async def test_a_chain_of_three_thousand_is_submitted_fetched_and_cancelled(rig: Rig) -> None:
    # A recursive walk once broke on such a chain.
    chain = [a_task(f"t{n}", *([f"t{n - 1}"] if n else [])) for n in range(3_000)]
    job_id = (await rig.submit(chain)).job_id
    await rig.ends(job_id, "t0", "FAILED", reason=common_pb2.EndReason(word="exited", exit_code=1))
    job, tasks = await rig.job(job_id)
    assert job.state == "FAILED"
    assert len(tasks) == 3_000
    assert "'t0'" in tasks["t2999"].sentence
    assert (await rig.act(job_id, ACT.ACTION_RETRY)).tasks_changed == 3_000
    assert (await rig.act(job_id, ACT.ACTION_CANCEL)).tasks_changed == 3_000
    await rig.ends(job_id, "t0", "CANCELLED", generation=2)
    job, _ = await rig.job(job_id)
    assert (job.state, dict(job.tasks_by_state)) == ("CANCELLED", {"CANCELLED": 3_000})


async def test_the_work_of_accepting_grows_with_the_number_of_tasks(rig: Rig) -> None:
    tasks = [a_task(f"t{n}", *([f"t{n // 2}"] if n else []), script="echo hello\n" * 8) for n in range(1, 10_000)]
    tasks.insert(0, a_task("t0"))
    # Client, JobManager and TaskManager of this test share one process.
    with counted() as steps:
        reply = await rig.submit(tasks)
    assert steps.taken < 20 * 10_000
    assert reply.job_id
    await rig.told("t0")


@pytest.mark.postgres
async def test_the_same_on_postgresql(clock: FakeClock, postgres: Postgres) -> None:
    url = postgres.tcp_url(postgres.new_database())
    async with a_rig(url, clock) as rig:
        job_id = (await rig.submit(DIAMOND, request_id="r1")).job_id
        await rig.told("prepare")
        await rig.ends(job_id, "prepare")
        await rig.ends(job_id, "left", "FAILED", reason=common_pb2.EndReason(word="exited", exit_code=2))
    async with a_rig(url, clock) as rig:
        assert (await rig.submit(DIAMOND, request_id="r1")).already_known
        with pytest.raises(IdempotencyMismatch):
            await rig.submit(DIAMOND, request_id="r1", spec_hash="another")
        await rig.report(rig.task_manager.event(job_id, "right", "SUCCEEDED"))
        states = await rig.states(job_id)
        assert (states[""], states["compare"]) == ("FAILED", "SKIPPED")
        assert (await rig.act(job_id, ACT.ACTION_RETRY, request_id="w")).tasks_changed == 2
        for number in range(3):
            await rig.clock.advance(1)
            await rig.submit([a_task("a")], name=f"Nächste {number}")
        listed = await rig.peer.call(
            rig.stub.ListJobs, job_manager_pb2.ListJobsRequest(query="nächste", limit=2), deadline_s=5
        )
        assert [job.name for job in listed.jobs] == ["Nächste 2", "Nächste 1"]
        request = job_manager_pb2.ResolveJobRequest(prefix=job_id[:10])
        assert job_id in (await rig.peer.call(rig.stub.ResolveJob, request, deadline_s=5)).job_ids
