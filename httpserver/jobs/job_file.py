"""Turns a job file into the messages that JobManager takes, or into all of its problems. Pure; may take a second."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from headway.errors import Problem
from headway.jobfile import JobSpec, ParseResult, Priority, RunAs, check_job, to_yaml
from headway.jobfile.parse import GraphTask, Media
from headway.rpc import convert
from headway.rpc.chunks import in_parts
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm

from ..needs.job_names import JobNames, UnknownName

_PART_BYTES = 500_000


@dataclass(frozen=True, slots=True)
class Grants:
    """What the account may ask for beyond the usual."""

    high_priority: bool
    image_user: bool


@dataclass(frozen=True, slots=True)
class ExaminedJobFile:
    """``parts`` are serialised SubmitJobParts without a header.

    They hold the job's tasks. With problems they hold only names and needs, as far as those make sense, so that
    JobManager can add what is wrong with the graph.
    """

    problems: tuple[Problem, ...]
    parts: tuple[bytes, ...]
    task_count: int
    name: str = ""
    priority: str = Priority.NORMAL
    spec_hash: str = ""
    wanted: JobNames = field(default_factory=JobNames)


def examine(
    data: bytes, media: Media, grants: Grants, code: str = "", changes: tuple[str, ...] = ()
) -> ExaminedJobFile:
    """Reads and checks everything but the graph. ``code`` is the snapshot of all tasks that name none; ``changes``: see
    headway/jobfile/changes.py."""
    result = check_job(data, media=media, changes=changes)
    if result.spec is not None:
        refused = _refused(result.spec, grants)
        if not refused:
            return _accepted(_with_code(result.spec, code) if code else result.spec)
        return _with_problems(result, result.merged(refused))
    return _with_problems(result, result.problems)


def all_problems(
    data: bytes,
    media: Media,
    grants: Grants,
    of_graph: tuple[Problem, ...],
    unknown: tuple[UnknownName, ...] = (),
    code: str = "",
    changes: tuple[str, ...] = (),
) -> tuple[Problem, ...]:
    """All problems of a file, each at its place in the file.

    ``of_graph`` are those that JobManager found in its graph; ``unknown`` are names in it that don't exist. JobManager
    counts the tasks that it was sent, and names needs by the task needed. Here both become pointers into the file.
    """
    result = check_job(data, media=media, changes=changes)
    own = _refused(result.spec, grants) if result.spec is not None else []
    if result.spec is not None and unknown:
        own += _of_unknown(result.spec, unknown, code)
    return result.merged([*own, *(_placed(problem, result) for problem in of_graph)])


def _accepted(spec: JobSpec) -> ExaminedJobFile:
    messages = (convert.task_spec_to_pb(task) for task in spec.tasks)
    return ExaminedJobFile(
        problems=(),
        parts=_serialised(messages),
        task_count=len(spec.tasks),
        name=spec.name,
        priority=spec.priority.value,
        spec_hash=spec.spec_hash,
        wanted=JobNames(
            images=tuple(dict.fromkeys(task.image for task in spec.tasks)),
            datasets=tuple(dict.fromkeys(name for task in spec.tasks for name in task.datasets)),
            code=tuple(dict.fromkeys(task.code for task in spec.tasks if task.code)),
            secrets=tuple(dict.fromkeys(use.name for task in spec.tasks for use in task.secrets)),
            secret_variables=tuple(dict.fromkeys(use.name for task in spec.tasks for use in task.secrets if use.env)),
        ),
    )


def _with_code(spec: JobSpec, code: str) -> JobSpec:
    return replace(spec, tasks=tuple(replace(task, code=task.code or code) for task in spec.tasks))


def _with_problems(result: ParseResult, problems: tuple[Problem, ...]) -> ExaminedJobFile:
    # A name that UTF-8 can't say is a problem already; without it there is no whole graph to look at.
    graph = result.graph if all(map(_can_be_sent, result.graph)) else ()
    messages = (common.TaskSpec(name=task.name, needs=convert.needs_to_pb(task.needs), timeout_s=1) for task in graph)
    return ExaminedJobFile(problems=problems, parts=_serialised(messages), task_count=len(graph))


def _can_be_sent(task: GraphTask) -> bool:
    try:
        "".join((task.name, *(need.task for need in task.needs))).encode()
    except UnicodeEncodeError:
        return False
    return True


def _serialised(messages: Iterable[common.TaskSpec]) -> tuple[bytes, ...]:
    parts = in_parts(messages, max_bytes=_PART_BYTES)
    return tuple(jm.SubmitJobPart(tasks=part).SerializeToString() for part in parts)


def _refused(spec: JobSpec, grants: Grants) -> list[Problem]:
    problems = []
    if spec.priority is Priority.HIGH and not grants.high_priority:
        problems.append(
            Problem(
                "/priority",
                "priority high needs a grant by an admin (may_use_high_priority); write normal",
                word="high",
                allowed=("low", "normal"),
                suggestion="normal",
            )
        )
    if not grants.image_user:
        problems += [
            Problem(
                f"/tasks/{index}/user",
                "user: image needs a grant by an admin (may_use_image_user); leave it out",
                word="image",
                allowed=("account",),
                suggestion="account",
            )
            for index, task in enumerate(spec.tasks)
            if task.user is RunAs.IMAGE
        ]
    return problems


def _of_unknown(spec: JobSpec, unknown: Iterable[UnknownName], code: str) -> list[Problem]:
    by_word: dict[tuple[str, str], UnknownName] = {(name.field, name.word): name for name in unknown}
    problems = []
    for index, task in enumerate(spec.tasks):
        places = [("image", task.image, f"/tasks/{index}/image")]
        places += [("datasets", name, f"/tasks/{index}/datasets/{at}") for at, name in enumerate(task.datasets)]
        places += [("secrets", use.name, f"/tasks/{index}/secrets/{at}") for at, use in enumerate(task.secrets)]
        if task.code:
            places.append(("code", task.code, f"/tasks/{index}/code"))
        for kind, word, pointer in places:
            if (name := by_word.get((kind, word))) is not None:
                problems.append(Problem(pointer, name.message, word=word, suggestion=name.suggestion))
    from_outside = by_word.get(("code", code))
    if from_outside is not None and not all(task.code for task in spec.tasks):
        problems.append(Problem("", from_outside.message, word=code))
    return problems


def _placed(problem: Problem, result: ParseResult) -> Problem:
    steps = problem.pointer.split("/")
    if len(steps) < 3 or steps[1] != "tasks" or not steps[2].isdigit() or int(steps[2]) >= len(result.graph):
        return problem
    task = result.graph[int(steps[2])]
    pointer = "/".join([task.pointer, *steps[3:]])
    if len(steps) == 5 and steps[3] == "needs":
        needed = steps[4].replace("~1", "/").replace("~0", "~")
        for need, place in zip(task.needs, task.need_pointers, strict=True):
            if need.task == needed:
                pointer = place
    return replace(problem, pointer=pointer)


def as_text(parts: tuple[bytes, ...], name: str, priority: str, form: Literal["json", "yaml"]) -> str:
    """A stored job, as serialised SubmitJobParts, as the text of a job file that reads back equal."""
    tasks = tuple(convert.task_spec(task) for part in parts for task in jm.SubmitJobPart.FromString(part).tasks)
    spec = JobSpec(name=name, tasks=tasks, priority=Priority(priority))
    return to_yaml(spec) if form == "yaml" else json.dumps(spec.to_json(), ensure_ascii=False)


def request_id(account: str, key: str) -> str:
    """JobManager's request id for a user's Idempotency-Key, whatever characters that has."""
    return hashlib.sha256(f"{account}\n{key}".encode("utf-8", "surrogateescape")).hexdigest()[:40]
