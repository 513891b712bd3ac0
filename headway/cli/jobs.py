"""show, explain, wait, cancel, retry, clone, hold, release."""

from __future__ import annotations

import json
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..client import Client
from ..client.names import path_part
from ..client.samples import SampleClient
from ..errors import NotFound
from . import metrics
from .common import (
    Reference,
    ReferenceType,
    ago,
    between,
    client,
    job_exit_status,
    moment,
    output_option,
    print_json,
    safe,
    size,
    span,
    table,
    tone,
)
from .history import show_history
from .priority import priority_lines
from .ps import ran
from .retention import kept_line
from .spec import end_fact, spec_lines
from .start_times import place_line


def _task_ran(task: dict[str, Any]) -> float | None:
    # The launcher's clock knows the end of the process. The task's own end includes the time until the news of it came,
    # which is long when a service was away.
    measured = [a["phases"].get("running_s") for a in task["attempts"] if a["number"] == task["attempt"]]
    if task["ended_at"] is not None and measured and measured[0] is not None:
        return float(measured[0])
    return ran(task)


@click.command()
@click.argument("reference", type=ReferenceType(2))
@click.option(
    "--plots",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write plots of the task's GPUs, CPU and memory to this file, as SVG.",
)
@output_option
def show(reference: Reference, plots: Path | None, output: str) -> None:
    """Show one job, or one task of it, with attempts, reasons, where time went, and what it used."""
    if plots is not None and plots.suffix.lower() not in ("", ".svg"):
        raise click.UsageError(f"plots are SVG: give them a name such as {plots.stem}.svg")
    with client() as http:
        job = http.job(reference.job)
        tasks = _chosen(job, reference.task)
        # An older server sends none.
        spec = http.task_detail(job["id"], reference.task).get("spec") if reference.task else None
        started = reference.task and tasks[0].get("attempt")
        used = metrics.seen(http, job["id"], reference.task) if started else None
        if plots is not None:
            name = metrics.only_task(job, reference.task)
            metrics.write_file(SampleClient(http, job["id"], name), "svg", plots)
    if output == "json":
        more = {"spec": spec, "efficiency": used.get("efficiency") if used else None, "missing": job["missing"]}
        print_json({**tasks[0], **more} if reference.task else job)
        return
    click.echo(f"{job['id']}  {safe(job['name'])}")
    line = f"{tone(job['state'])}{' (held)' if job['held'] else ''}, by {job['owner']}, {ago(job['submitted_at'])}"
    if job["ended_at"]:
        line += f", took {span(between(job['submitted_at'], job['ended_at']))}"
    click.echo(line)
    if kept := kept_line(job):
        click.echo(kept)
    if job["reason"]:
        # Of a job that was ended as a whole no single task is the reason.
        led_by = f"{job['reason_task']}: " if job["reason_task"] else ""
        click.echo(led_by + safe(job["reason"]["sentence"]))
    _tell_missing(job)
    click.echo()
    rows = []
    for task in tasks:
        tries = _tries(task["attempt"], task["retries"] + 1) if task["attempt"] else "-"
        rows.append(
            [task["name"], tone(task["state"]), tries, span(_task_ran(task)), task["node_id"] or "-", _why(task)]
        )
    table(["task", "state", "attempt", "ran", "node", ""], rows)
    if reference.task and tasks[0].get("place") and (starts := place_line(tasks[0]["place"], time.time())):
        click.echo(f"\nIt {starts}.")
    if any(attempt.get("gpus_simulated") for task in tasks for attempt in task["attempts"]):
        click.echo("\nIts GPUs are only simulated: its tasks get no device.")
    for line in _pinned(tasks):
        click.echo(line)
    if reference.task:
        for line in spec_lines(spec) if spec else ():
            click.echo(line)
        for attempt in tasks[0]["attempts"]:
            _print_attempt(attempt)
        if used:
            if used["samples"]:
                click.echo()
                for line in metrics.plot_lines(used):
                    click.echo(line)
            for line in metrics.card_lines(used):
                click.echo(line)


def _tell_missing(job: dict[str, Any]) -> None:
    for missing in job["missing"]:
        click.echo(f"(not complete: {safe(missing['sentence'])})", err=True)
    for notice in job.get("notices", ()):
        click.echo(safe(notice), err=True)


def _pinned(tasks: list[dict[str, Any]]) -> list[str]:
    """What the job's names meant when it was submitted, each once."""
    found: dict[str, None] = {}
    for task in tasks:
        if task["image_digest"]:
            found[f"image {safe(task['image'])} is {task['image_digest']}"] = None
        for name in task["datasets"]:
            found[f"dataset {safe(name)}"] = None
        if task["code"]:
            found[f"code {task['code']}"] = None
    return ["", *found] if found else []


def _tries(number: int, of_runs: int) -> str:
    # Attempts that the platform spoiled are repeated beyond those that the user allowed.
    return f"{number} of {of_runs}" if number <= of_runs else str(number)


def _why(task: dict[str, Any]) -> str:
    if task["reason"] and task["state"] != "SUCCEEDED":
        return safe(task["reason"]["sentence"])
    if task["waits"]:
        return safe(task["waits"][0]["sentence"])
    if task["waits_for"]:
        return "waits for " + ", ".join(task["waits_for"][:5])
    return ""


def _share(share: dict[str, Any], node: str) -> str:
    """With whom it shares its GPU: `shares GPU 2 of gpu-1 with bob's train/serve (10GiB); it has 6GiB`."""
    index = share["gpu_index"]
    if index is None:
        return f"had a share of a GPU: {size(share['share_bytes'])}"
    others = [
        f"{safe(one['owner'])}'s {safe(one['job_name'])}/{one['task']} ({size(one['share_bytes'])})"
        for one in share["others"]
    ]
    with_whom = " and ".join(others) if others else "nobody now"
    return f"shares GPU {index} of {node} with {with_whom}; it has {size(share['share_bytes'])}"


def _print_attempt(attempt: dict[str, Any]) -> None:
    click.echo(
        f"\nattempt {_tries(attempt['number'], attempt['of_runs'])}: {tone(attempt['state'])} on {attempt['node_id']}"
    )
    phases = {k.removesuffix("_s"): v for k, v in attempt["phases"].items() if v is not None}
    if phases:
        click.echo("  " + ", ".join(f"{name} {span(value)}" for name, value in phases.items()))
    if attempt["gpu_uuids"]:
        simulated = " (only simulated)" if attempt.get("gpus_simulated") else ""
        click.echo("  GPUs " + ", ".join(attempt["gpu_uuids"]) + simulated)
    if share := attempt.get("sharing"):
        click.echo("  " + _share(share, attempt["node_id"]))
    if attempt["peak_memory_bytes"]:
        click.echo(f"  peak memory {size(attempt['peak_memory_bytes'])}")
    if attempt["reason"]:
        click.echo("  " + safe(attempt["reason"]["sentence"]))
        if fact := end_fact(attempt["reason"]):
            click.echo("  " + fact)
    for given in attempt["extensions"]:
        forced = ", although others had it promised or it was kept for short tasks" if given["forced"] else ""
        click.echo(f"  {safe(given['by'])} gave it {span(given['seconds'])} more at {moment(given['at'])}{forced}")
    if attempt["ended_at"] is None and attempt["deadline_at"] is not None:
        pending = " (its machine has not confirmed it yet)" if attempt["extension_pending"] else ""
        click.echo(f"  it is stopped at {moment(attempt['deadline_at'])} at the latest{pending}")
    for warning in attempt["warnings"]:
        click.echo("  warning: " + safe(warning))


def _chosen(job: dict[str, Any], name: str) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = job["tasks"]
    if not name:
        return tasks
    chosen = [t for t in tasks if t["name"] == name]
    if not chosen:
        names = ", ".join(t["name"] for t in tasks[:10])
        raise NotFound(f"Job {job['id']} has no task {name!r}; its tasks are {names}{' …' if len(tasks) > 10 else ''}.")
    return chosen


@click.command()
@click.argument("reference", type=ReferenceType(2))
@click.option("--history", is_flag=True, help="Show which tasks started while it waited, and why it did not.")
@click.option(
    "-n",
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(1, 200),
    help="How many decisions to show.",
)
@output_option
def explain(reference: Reference, history: bool, limit: int, output: str) -> None:
    """Say why a task, or each task of a job that has not started, waits."""
    with client() as http:
        job = http.job(reference.job)
        if history:
            show_history(http, job["id"], [t["name"] for t in _chosen(job, reference.task)], limit, output)
            return
    tasks = _chosen(job, reference.task)
    if output == "json":
        keys = ("name", "state", "waits", "waits_for", "place", "reason")
        print_json([{**{k: t[k] for k in keys}, "missing": job["missing"]} for t in tasks])
        return
    _tell_missing(job)
    for task in tasks if reference.task else [t for t in tasks if t["state"] in ("BLOCKED", "QUEUED")] or tasks:
        click.echo(f"{task['name']}: {tone(task['state'])}")
        if task["place"]:
            now = time.time()
            if task["place"]["position"]:
                click.echo(f"  place {task['place']['position']} in the queue, because of:")
                for line in priority_lines(task["place"]["terms"], now):
                    click.echo(f"    {line}")
            if starts := place_line(task["place"], now):
                click.echo(f"  {starts}")
        for wait in task["waits"]:
            click.echo(f"  {wait['word']}: {safe(wait['sentence'])}")
        if task["waits_for"] and not task["waits"]:
            click.echo("  dependency: waits for " + ", ".join(task["waits_for"]))
        if task["reason"]:
            click.echo("  " + safe(task["reason"]["sentence"]))


@click.command()
@click.argument("reference", type=ReferenceType(1))
@click.option("--timeout", "timeout_s", type=float, help="Give up waiting after so many seconds (exit status 3).")
@output_option
def wait(reference: Reference, timeout_s: float | None, output: str) -> None:
    """Wait until a job has ended. The exit status says how it ended."""
    sys.exit(wait_for(reference.job, timeout_s=timeout_s, output=output))


def wait_for(job_id: str, *, timeout_s: float | None = None, output: str = "table") -> int:
    """Waits, prints the end, returns the exit status; Ctrl-C leaves the job running and says how to come back."""
    with client() as http:
        try:
            job = http.wait(job_id, timeout_s=timeout_s)
        except TimeoutError as late:
            click.echo(f"headway: {late}; it goes on.", err=True)
            return 3
        except KeyboardInterrupt:
            come_back(job_id)
            return 130
    if output == "json":
        print_json(job)
    else:
        click.echo(f"{job['id']} {tone(job['state'])} after {span(between(job['submitted_at'], job['ended_at']))}")
        for task in job["tasks"]:
            if task["state"] not in ("SUCCEEDED", "SKIPPED") and task["reason"]:
                click.echo(f"  {task['name']}: {tone(task['state'])}: {safe(task['reason']['sentence'])}")
    return job_exit_status(job)


def come_back(job_id: str) -> None:
    """Ctrl-C is for the command, not for the job."""
    click.echo(
        f"\nJob {job_id} goes on. `headway wait {job_id}` waits again, `headway logs -f {job_id}` shows its log, "
        f"`headway cancel {job_id}` ends it.",
        err=True,
    )


def _act(action: str, done: str, references: tuple[Reference, ...], output: str) -> None:
    answers = []
    with client() as http:
        for reference in references:
            answer = http.act(action, reference.job, reference.task)
            answers.append(answer)
            if output != "json":
                count = answer.get("tasks_changed")
                told = f"{count} task{'' if count == 1 else 's'} {done}" if count else "nothing to do"
                what = done if count is None else told
                click.echo(f"{answer['job']['id']} {tone(answer['job']['state'])}: {what}")
    if output == "json":
        print_json(answers)


def _action(name: str, done: str, text: str) -> click.Command:
    @click.command(name, help=text)
    @click.argument("references", nargs=-1, required=True, type=ReferenceType(2), metavar="ID[/TASK]…")
    @output_option
    def command(references: tuple[Reference, ...], output: str) -> None:
        _act(name, done, references, output)

    return command


cancel = _action("cancel", "told to end", "Cancel jobs or tasks, in any state; what has ended stays as it is.")
retry = _action(
    "retry",
    "to run again",
    "Run the failed, cancelled and skipped tasks of a job again. Their waiting time starts again.",
)
hold = _action(
    "hold", "held", "Keep waiting tasks from starting; what runs goes on. Time on hold does not count as waiting."
)
release = _action("release", "released", "Let held tasks wait for their turn again.")


@click.command()
@click.argument("reference", type=ReferenceType(2), metavar="ID[/TASK]")
@click.argument("by", metavar="TIME")
@click.option(
    "--force", is_flag=True, help="Give it even if the time is promised to others or kept for short tasks (admins)."
)
@output_option
def extend(reference: Reference, by: str, force: bool, output: str) -> None:
    """Give a running task more TIME, such as 30m or 1h30m.

    It is granted at once if no promised start gets later and the reserve for short tasks stays whole. Of a job with a
    single task the job's ID is enough.
    """
    with client() as http:
        reference = replace(reference, job=http.meant(reference.job))
        task = reference.task or _only_task(http, reference.job)
        answer = http.ask(
            "POST",
            f"/jobs/{path_part(reference.job, 'job')}/tasks/{path_part(task, 'task')}/extend",
            json={"by": by, "force": force},
            # The same for all tries of this call: an answer that got lost gives no time twice.
            headers={"Idempotency-Key": uuid.uuid4().hex},
        )
    if output == "json":
        print_json(answer)
        return
    click.echo(answer["sentence"])
    deadline = answer.part("attempt")["deadline_at"]
    if deadline is not None:
        click.echo(f"It is stopped at {moment(deadline)} at the latest.")


def _only_task(http: Client, job_id: str) -> str:
    names = [task["name"] for task in http.job(job_id, attempts=False)["tasks"]]
    if len(names) != 1:
        shown = f"{', '.join(names[:10])}{' …' if len(names) > 10 else ''}"
        raise click.UsageError(f"The job has {len(names)} tasks; say which: {job_id}/TASK, one of {shown}.")
    return str(names[0])


@click.command()
@click.argument("reference", type=ReferenceType(1))
@output_option
def clone(reference: Reference, output: str) -> None:
    """Submit the same job once more, as a new one."""
    with client() as http:
        spec = http.spec(reference.job)
        answer = http.submit(json.dumps(spec).encode(), media="application/json")
    if output == "json":
        print_json(answer)
    else:
        click.echo(answer["id"])
