"""Collects from outside what a chaos run left: the API, what programs wrote, engines, mounts, databases."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg

from headway.client import Client, NoService, Refused
from tests.support import cgroups, mounts
from tests.support.machines.lab import GPUS, SCRIPTED, WORKERS, Lab

from .conductor import Conductor
from .facts import Attempt, Facts, Job, Line, Log, Submit, Task
from .faults import ALL
from .workload import TaskPlan

_STREAMS = ("stdout", "stderr")


def collect(lab: Lab, conductor: Conductor, left: Sequence[str]) -> Facts:
    """All facts, once everything has ended."""
    client = lab.client
    planned = {task.name: task for plan in conductor.schedule.jobs for task in plan.tasks}
    jobs = [_job(client.job(one["id"])) for one in client.jobs() if one["name"].startswith("chaos-")]
    return Facts(
        jobs=jobs,
        submits=[
            Submit(name, sent.job_id, sent.plan.sure, sent.cancel, sent.refused)
            for name, sent in conductor.sent.items()
        ],
        witness={file.name: _lines(file) for file in sorted(lab.witness.glob("j*"))},
        home=_home(lab, planned),
        logs=dict(_logs(client, jobs, planned)),
        booked=conductor.booked,
        gpus=dict.fromkeys(WORKERS, GPUS),
        left=left,
        differences=list(differences(lab)),
        tracebacks=[f"{name}: {told}" for name in ALL for told in tracebacks(lab.log(name))],
    )


def tracebacks(log: str) -> list[str]:
    """The last line of each chain of tracebacks in a log, with the log's line before it."""
    found: list[str] = []
    before = last = ""
    inside = False
    for line in log.splitlines():
        logged = line[:4].isdecimal() and line[4:5] == "-"
        if line.startswith("Traceback "):
            inside = True
        elif inside and line and not line.startswith((" ", "The above exception", "During handling")):
            if logged:
                found.append(f"{before} | {last}")
                inside = False
            else:
                last = line[:300]
        if logged:
            before = line[:200]
    return [*found, f"{before} | {last}"] if inside else found


def not_ended(lab: Lab) -> list[str]:
    """Jobs that are not at their end, in words."""
    return [f"{job['name']} ({job['id']}) is {job['state']}" for job in lab.client.jobs() if job["ended_at"] is None]


def left_over(lab: Lab) -> list[str]:
    """What is still there of attempts that have ended, in words. Empty control groups are the engine's own: one that
    dies in a start leaves them."""
    left = [f"the container {name} is left on {node}" for node in lab.engines for name in _containers(lab, node)]
    for node, engine in lab.engines.items():
        count = len(cgroups.processes(engine.cgroup))
        if count:
            left.append(f"{count} processes are left in the control group of the engine of {node}")
    for node in WORKERS:
        folder = lab.machines[node].folder / "worker"
        inside = [path for path in mounts.mounted_below(folder) if path != folder]
        left += [f"{path} is still mounted on {node}" for path in inside]
    for shown in lab.client.nodes():
        booked = shown.get("booked") or {}
        if booked.get("tasks") or booked.get("gpus") or booked.get("cpus"):
            left.append(f"{shown['id']} is still booked: {booked}")
    queue = lab.client.queue()
    if queue["total_running"] or queue["entries"]:
        left.append(f"the queue still has {queue['total_running']} running and {len(queue['entries'])} waiting tasks")
    return left


def differences(lab: Lab) -> Iterator[str]:
    """How JobManager's and TaskManager's databases differ, in words."""
    jobs = _rows(lab, "job_manager", "SELECT job_id, name, state, attempt FROM task")
    tasks = {
        (job, name): rest for job, name, *rest in _rows(lab, "task_manager", "SELECT job_id, name, state FROM tasks")
    }
    for job, name, state, attempt in jobs:
        there = tasks.pop((job, name), None)
        if there is not None and there[0] != state:
            yield f"{name} of {job} is {state} for JobManager and {there[0]} for TaskManager"
        if there is None and attempt:
            yield f"{name} of {job} has had {attempt} attempts for JobManager, and TaskManager does not know it"
    for job, name in tasks:
        yield f"{name} of {job} is known to TaskManager alone"
    live = "SELECT job_id, name, number, state FROM attempts WHERE ended_at IS NULL"
    for job, name, number, state in _rows(lab, "task_manager", live):
        yield f"attempt {number} of {name} of {job} is still {state} for TaskManager"


def _rows(lab: Lab, service: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(lab.databases[service], options=f"-csearch_path={service}") as connection:
        return list(connection.execute(query.encode()))


def _containers(lab: Lab, node: str) -> list[str]:
    client = lab.engines[node].client()
    try:
        found = client.api.containers(all=True, filters={"label": "headway.attempt"})
        return [str(entry["Names"][0]).removeprefix("/") for entry in found]
    finally:
        client.close()


def _job(found: dict[str, Any]) -> Job:
    return Job(found["id"], found["name"], found["state"], tuple(_task(task) for task in found["tasks"]))


def _task(found: dict[str, Any]) -> Task:
    return Task(found["name"], found["state"], tuple(_attempt(attempt) for attempt in found["attempts"]))


def _attempt(found: dict[str, Any]) -> Attempt:
    reason = found["reason"] or {}
    return Attempt(
        found["number"],
        found["node_id"],
        found["state"],
        reason.get("word", ""),
        reason.get("fault", ""),
        reason.get("exit_code"),
        found["dropped_bytes"] or 0,
    )


def _lines(file: Path) -> list[Line]:
    return [Line.read(text) for text in file.read_text("utf-8").splitlines()]


def _home(lab: Lab, planned: dict[str, TaskPlan]) -> dict[str, list[str]]:
    folder = lab.mounts["httpserver"].at / "homes" / lab.client.profile.user
    there = set(os.listdir(folder)) & planned.keys() if folder.is_dir() else set()
    return {name: (folder / name).read_text("utf-8").splitlines() for name in sorted(there)}


def _logs(
    client: Client, jobs: Sequence[Job], planned: dict[str, TaskPlan]
) -> Iterator[tuple[tuple[str, int, str], Log]]:
    for job in jobs:
        for task in job.tasks:
            for attempt in task.attempts:
                for stream in _STREAMS:
                    printed = planned[task.name].printed(stream, scripted=attempt.node == SCRIPTED)
                    yield (
                        (task.name, attempt.number, stream),
                        _log(client, job.id, task.name, attempt.number, stream, printed),
                    )


def _log(client: Client, job: str, task: str, attempt: int, stream: str, printed: bytes) -> Log:
    try:
        found = client.log(job, task, attempt=attempt, stream=stream)
    except (NoService, Refused) as error:
        return Log(0, good=False, missing=str(error))
    return Log(len(found), good=printed.startswith(found))
