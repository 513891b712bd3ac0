"""What is looked at before a job is accepted. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from headway.errors import Problem
from headway.ids import is_task_name
from headway.jobfile.spec import Ulimit
from headway.rpc import convert
from headway.rpc.v1 import common_pb2

from .graph.dag import MAX_PROBLEMS, Dag, DagTask, check
from .ports import ImageNeeds, ShapeRefusal, ShapeVerdicts, TaskShape


def check_specs(specs: Sequence[common_pb2.TaskSpec], *, graph_only: bool = False) -> tuple[Dag | None, list[Problem]]:
    """The graph of a job, or what is wrong with its names, needs and timeouts. Takes about a second for 200,000
    edges, so call it in a thread."""
    problems = [] if graph_only else _of_single_tasks(specs)
    dag, more = check(
        [
            DagTask(spec.name, tuple((need.task, need.on) for need in convert.needs(spec.needs)), spec.timeout_s)
            for spec in specs
        ]
    )
    problems.extend(more)
    return (dag, []) if not problems else (None, problems[:MAX_PROBLEMS])


def _of_single_tasks(specs: Sequence[common_pb2.TaskSpec]) -> list[Problem]:
    if not specs:
        return [Problem("/tasks", "A job has at least one task.")]
    problems = []
    for number, spec in enumerate(specs):
        # Names become folders on workers and on the shared mount: the last door before that is here.
        if not is_task_name(spec.name):
            problems.append(
                Problem(
                    f"/tasks/{number}/name",
                    f"{spec.name!r} can't name a task: letters, digits, '.', '_' and '-', starting with a letter "
                    "or digit, up to 63.",
                    word=spec.name,
                )
            )
        if not (spec.timeout_s > 0 and math.isfinite(spec.timeout_s)):
            problems.append(Problem(f"/tasks/{number}/timeout", "A task needs a timeout above zero."))
    return problems


def shapes_of(specs: Sequence[common_pb2.TaskSpec]) -> dict[TaskShape, list[int]]:
    """The distinct shapes of a job and the tasks that have each; ten thousand tasks usually have a handful."""
    by_bytes: dict[tuple[bytes, float, ImageNeeds, tuple[Ulimit, ...]], list[int]] = {}
    for number, spec in enumerate(specs):
        key = (
            spec.resources.SerializeToString(deterministic=True),
            spec.timeout_s,
            _image_needs(spec),
            convert.ulimits(spec.ulimits),
        )
        by_bytes.setdefault(key, []).append(number)
    return {
        TaskShape(convert.resources(specs[numbers[0]].resources), timeout_s, image, ulimits): numbers
        for (_, timeout_s, image, ulimits), numbers in by_bytes.items()
    }


def _image_needs(spec: common_pb2.TaskSpec) -> ImageNeeds:
    return ImageNeeds(spec.image_architecture, spec.image_require_cuda)


def waiting_warnings(
    specs: Sequence[common_pb2.TaskSpec], shapes: Mapping[TaskShape, list[int]], answer: ShapeVerdicts, *, most: int
) -> list[str]:
    """A warning for each kind of task that waits for what is broken, in the order of the tasks."""
    found = sorted(
        (numbers[0], len(numbers), why) for numbers, why in zip(shapes.values(), answer.waits, strict=False) if why
    )
    return [
        f"Task {specs[number].name!r}{f' and {count - 1} more' if count > 1 else ''}: {why}"
        for number, count, why in found[:most]
    ]


def refusal_problems(
    specs: Sequence[common_pb2.TaskSpec],
    shapes: Mapping[TaskShape, list[int]],
    answer: ShapeVerdicts,
    *,
    for_ever: bool = False,
) -> list[Problem]:
    """A problem for each refusal of each task, in the order of the tasks; ``for_ever``: those alone that no machine
    still to come could change."""
    found: list[tuple[int, ShapeRefusal]] = []
    for numbers, refusals in zip(shapes.values(), answer.refusals, strict=True):
        for refusal in refusals:
            if refusal.for_ever or not for_ever:
                found.extend((number, refusal) for number in numbers)
    return [
        Problem(
            f"/tasks/{number}{refusal.field}",
            f"Task {specs[number].name!r} could never run here: {refusal.sentence}",
            word=specs[number].name,
        )
        for number, refusal in sorted(found, key=lambda row: row[0])[:MAX_PROBLEMS]
    ]
