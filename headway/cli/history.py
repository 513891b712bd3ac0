"""The scheduler's decisions while a task waited: `headway explain --history`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..client import Client
from ..units import counted
from .common import moment, print_json, safe

_TASKS_AT_MOST = 20
_STARTS_SHOWN = 10


def show_history(http: Client, job_id: str, tasks: Sequence[str], limit: int, output: str) -> None:
    """Prints, for each task, the scheduling passes that started something while it waited, latest first."""
    if len(tasks) > _TASKS_AT_MOST:
        raise click.UsageError(f"the job has {len(tasks)} tasks: name one of them, {job_id}/TASK")
    found = {task: http.decisions(job_id, task, limit=limit) for task in tasks}
    if output == "json":
        print_json([{"task": task, **answer} for task, answer in found.items()])
        return
    for task, answer in found.items():
        for line in _lines(task, answer):
            click.echo(line)


def _lines(task: str, answer: dict[str, Any]) -> list[str]:
    passes = answer["decisions"]
    if not passes:
        days = answer["kept_days"]
        kept = f"decisions are kept for {counted(days, 'day')}" if days else "decisions are not kept"
        return [f"{task}: the scheduler started nothing while it waited ({kept})"]
    lines = [f"{task}:"]
    for one in passes:
        lines += _of_pass(one)
    if answer["next_before"]:
        lines.append("  … and earlier ones (-n)")
    return lines


def _of_pass(one: dict[str, Any]) -> list[str]:
    lines = [f"  {moment(one['at'])}  policy {safe(one['policy'])}, overtaking {safe(one['discipline'])}"]
    for start in one["started"][:_STARTS_SHOWN]:
        gpus = f", {counted(len(start['gpu_uuids']), 'GPU')}" if start["gpu_uuids"] else ""
        name = f"{start['job_id']}/{start['task']}"
        lines.append(f"    started: {name} on {safe(start['node_id'])}{gpus}")
        if start["sentence"]:
            lines.append(f"      {safe(start['sentence'])}")
    more = one["started_in_all"] - min(len(one["started"]), _STARTS_SHOWN)
    if more > 0:
        lines.append(f"    … and {more} more")
    if one["started_itself"]:
        return lines
    if one["place"]:
        key = f", order number {one['key']:.10g}" if one["key"] is not None else ""
        lines.append(f"    it waited at place {one['place']} of the tasks that the scheduler looked at{key}")
    else:
        lines.append("    it did not start")
    lines += [f"      {wait['word']}: {safe(wait['sentence'])}" for wait in one["waits"]]
    if one["reserved_start_at"] is not None:
        lines.append(f"      a start was reserved for it at {moment(one['reserved_start_at'])}")
    return lines
