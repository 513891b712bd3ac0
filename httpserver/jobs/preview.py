"""When tasks that nobody has submitted would start: of a job file, or of variants to compare."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headway.errors import JobFileInvalid, Problem
from headway.jobfile import Priority, check_job
from headway.jobfile.fields import kind_of
from headway.jobfile.hints import nearest
from headway.jobfile.source import DocumentUnreadable, pointer_of, printable, quoted
from headway.jobfile.source_json import JsonSource
from headway.jobfile.task_fields import RESOURCE_KEYS
from headway.rpc import convert
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.rpc.v1 import task_manager_pb2 as tm

from .. import schemas as s
from .. import wire
from ..needs.pinning import Pins
from ..peers.clients import ACT_S, ServiceClients

_MOST_VARIANTS = 20
_MOST_BYTES = 64 * 1024  # of variants; a longer document is a job file
_SHOWN = 200
_KEYS = ("timeout", "priority", *RESOURCE_KEYS)  # of a variant
_OF_A_VARIANT = frozenset(_KEYS) - {"priority"}  # that a job file does not begin with
_OF_A_JOB = frozenset(("version", "name", "defaults", "tasks"))
_OF_TASK = re.compile(r"^task 'v\d+': ")


# -- variants ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variants:
    """The variants of a document, unchecked but for its shape. ``alone``: the document is one variant itself."""

    given: tuple[Any, ...]
    alone: bool = False
    problems: tuple[Problem, ...] = ()

    def at(self, index: int) -> str:
        """Where a variant stands."""
        return "" if self.alone else f"/variants/{index}"


def variants_of(data: bytes) -> Variants | None:
    """The variants in a document: a JSON list, an object with ``variants``, or one variant; None: it is a job file."""
    if len(data) > _MOST_BYTES:
        return None
    try:
        source = JsonSource(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, DocumentUnreadable):
        return None
    document, at, problems = source.value, "", []
    if isinstance(document, dict):
        if "variants" not in document or "tasks" in document:
            if _OF_A_VARIANT.isdisjoint(document) or not _OF_A_JOB.isdisjoint(document):
                return None
            return Variants((document,), alone=True, problems=tuple(_of_shape(source, "")))
        problems = [
            Problem(pointer_of((key,)), f"unknown key {quoted(key)}; nothing goes beside variants",
                    word=printable(key), allowed=("variants",))
            for key in document
            if key != "variants"
        ]  # fmt: skip
        document = document["variants"]
        if not isinstance(document, list):
            wanted = "a list such as [{timeout: 10m, gpus: 1}]"
            raise _invalid([*problems, Problem("/variants", f"variants is {kind_of(document)}; write {wanted}")])
    elif isinstance(document, list):
        at = "/variants"
    else:
        return None
    return Variants(tuple(document), problems=(*problems, *_of_shape(source, at)))


def _of_shape(source: JsonSource, at: str) -> Iterator[Problem]:
    """Keys that are written twice, and what is no JSON; nobody has typed lines."""
    for problem in source.problems:
        message = problem.message.removeprefix(f"line {problem.line}: ")
        yield Problem(f"{at}{problem.pointer}", message, word=problem.word)


def checked(variants: Variants, *, owner: str, high_priority: bool) -> list[tm.EnqueueTask]:
    """The variants as tasks. They are read as the tasks of a job file are, and refused in the same words.

    Raises:
        JobFileInvalid: with all that is wrong.
    """
    count = len(variants.given)
    if not 0 < count <= _MOST_VARIANTS:
        message = f"give 1 to {_MOST_VARIANTS} variants, not {count}"
        raise _invalid([*variants.problems, Problem("/variants", message)])
    problems, tasks, places, priorities = [*variants.problems], [], [], []
    for index, variant in enumerate(variants.given):
        at = variants.at(index)
        if not isinstance(variant, dict):
            kind = "null" if variant is None else kind_of(variant)
            message = f"a variant is an object such as {{timeout: 10m, gpus: 1}}, not {kind}"
            problems.append(Problem(at, message))
            continue
        rest = dict(variant)
        priority = rest.pop("priority", None)
        priority = Priority.NORMAL.value if priority is None else priority
        allowed = tuple(p.value for p in Priority if high_priority or p is not Priority.HIGH)
        if priority not in allowed:
            known = isinstance(priority, str) and priority == Priority.HIGH.value
            why = "needs a grant by an admin (may_use_high_priority)" if known else "is not known"
            problems.append(Problem(f"{at}/priority", f"priority {priority!r:.40} {why}", allowed=allowed))
        if "timeout" not in rest:
            problems.append(Problem(f"{at}/timeout", "timeout is missing: how long it may run, such as 10m"))
        priorities.append(priority)
        places.append(at)
        tasks.append(
            {
                "name": f"v{index}", "image": "any", "command": ["any"], "timeout": rest.pop("timeout", "1m"),
                "resources": rest,
            }
        )  # fmt: skip
    spec = None
    if tasks:
        result = check_job({"version": 1, "name": "preview", "tasks": tasks})
        told = {problem.pointer for problem in problems}
        found = [_of_variant(problem, places) for problem in result.problems]
        problems += [problem for problem in found if problem.pointer not in told]
        spec = result.spec
    if problems or spec is None:
        raise _invalid(problems)
    return [
        tm.EnqueueTask(
            owner=common.Account(name=owner),
            priority=convert.priority_to_pb(Priority(priority)),
            spec=_as_placed(convert.task_spec_to_pb(task)),
        )
        for task, priority in zip(spec.tasks, priorities, strict=True)
    ]


def _of_variant(problem: Problem, places: Sequence[str]) -> Problem:
    """It at its place among the variants; ``places``: of each that became a task. They have no lines."""
    pointer = problem.pointer
    if pointer.startswith("/tasks/"):
        index, *rest = pointer.split("/")[2:]
        pointer = "/".join([places[int(index)], *(rest[1:] if rest[:1] == ["resources"] else rest)])
    if problem.allowed == RESOURCE_KEYS:  # a key that is unknown there; a variant has more
        near = nearest(problem.word, _KEYS) or ""
        hint = f"did you mean {quoted(near)}?" if near else f"known are {', '.join(_KEYS)}"
        message = f"unknown key {quoted(problem.word)}; {hint}"
        return Problem(pointer, message, word=problem.word, allowed=_KEYS, suggestion=near)
    return Problem(
        pointer,
        _OF_TASK.sub("", problem.message),
        word=problem.word,
        allowed=problem.allowed,
        suggestion=problem.suggestion,
    )


def _invalid(problems: Sequence[Problem]) -> JobFileInvalid:
    rest = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return JobFileInvalid(f"The variants have problems: {problems[0].message}{rest}", problems=tuple(problems))


# -- a job ---------------------------------------------------------------------------------------------


async def of_job(
    services: ServiceClients,
    owner: str,
    priority: str,
    parts: Sequence[bytes],
    pins: Pins,
    order: Sequence[str],
    *,
    allow_unsatisfiable: bool,
) -> s.Preview:
    """For the tasks of a job, serialised SubmitJobParts, that would be queued at once; ``order``: their names in
    topological order. ``allow_unsatisfiable``: as its submission would say.

    Raises:
        HeadwayError: the queue can't be asked.
    """
    # In a thread: thousands of tasks would hold the others up for a moment.
    first, later = await asyncio.to_thread(_queued, owner, priority, parts, pins, order)
    request = tm.PreviewQueueRequest(
        sets=[tm.PreviewQueueRequest.Set(tasks=first)], most=_SHOWN, allow_unsatisfiable=allow_unsatisfiable
    )
    reply: tm.PreviewQueueReply = await services.tasks.call("PreviewQueue", request, deadline_s=ACT_S)
    asked = {task.task.name: task for task in first}
    starts = [_start(start, asked[start.task]) for start in reply.sets[0].starts]
    return _answer(reply, starts, len(first), later)


async def of_variants(services: ServiceClients, tasks: Sequence[tm.EnqueueTask]) -> s.Preview:
    """For each as if it alone were submitted.

    Raises:
        HeadwayError: the queue can't be asked.
    """
    sets = [tm.PreviewQueueRequest.Set(tasks=[task]) for task in tasks]
    reply: tm.PreviewQueueReply = await services.tasks.call(
        "PreviewQueue", tm.PreviewQueueRequest(sets=sets), deadline_s=ACT_S
    )
    starts = [_start(of_one.starts[0], task) for of_one, task in zip(reply.sets, tasks, strict=True)]
    return _answer(reply, starts, len(tasks), [])


def _queued(
    owner: str, priority: str, parts: Sequence[bytes], pins: Pins, order: Sequence[str]
) -> tuple[list[tm.EnqueueTask], list[str]]:
    """The tasks that need none, as JobManager would hand them over, and the names of the others."""
    tasks = {task.name: task for part in parts for task in jm.SubmitJobPart.FromString(part).tasks}
    tails = dict.fromkeys(tasks, 0.0)
    for name in reversed(order):
        through = tails[name] + tasks[name].timeout_s
        for need in tasks[name].needs:
            tails[need.task] = max(tails[need.task], through)
    first = []
    for name in order:
        if tasks[name].needs:
            continue
        pins.put_into(tasks[name])
        first.append(
            tm.EnqueueTask(
                task=common.Task(name=name),
                owner=common.Account(name=owner),
                priority=convert.priority_to_pb(Priority(priority)),
                tail_timeout_s=tails[name],
                spec=_as_placed(tasks[name]),
            )
        )
    return first, [name for name in order if tasks[name].needs]


def _as_placed(spec: common.TaskSpec) -> common.TaskSpec:
    """What of a task its start depends on."""
    return common.TaskSpec(
        resources=spec.resources,
        timeout_s=spec.timeout_s,
        retries=spec.retries,
        image_digest=spec.image_digest,
        image_source=spec.image_source,
        image_architecture=spec.image_architecture,
        image_require_cuda=spec.image_require_cuda,
        ulimits=spec.ulimits,
        grace_s=spec.grace_s,
    )


def _answer(reply: tm.PreviewQueueReply, starts: list[s.PreviewStart], queued: int, later: Sequence[str]) -> s.Preview:
    return s.Preview(
        at=reply.at,
        starts=starts,
        queued_count=queued,
        after_needs=list(later[:_SHOWN]),
        after_needs_count=len(later),
        total_waiting=reply.total_waiting,
        total_running=reply.total_running,
        policy=reply.policy,
        discipline=reply.discipline,
    )


def _start(start: tm.PreviewQueueReply.Start, asked: tm.EnqueueTask) -> s.PreviewStart:
    return s.PreviewStart(
        task=start.task or None,
        timeout_s=asked.spec.timeout_s,
        resources=wire.resources(asked.spec.resources),
        priority=s.Priority(convert.priority(asked.priority).value),
        at_once=start.at_once,
        position=start.position or None,
        estimated_start_at=start.estimated_start if start.HasField("estimated_start") else None,
        estimate_rough=start.estimate_rough,
        promised_start_at=start.promised_start if start.HasField("promised_start") else None,
        promise_from_at=start.promise_from if start.HasField("promise_from") else None,
        waits=wire.waits(start.reasons),
        refused=start.refused or None,
        sentence=start.sentence,
    )
