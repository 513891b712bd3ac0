"""What the facts of a chaos run prove. Pure: each check gives sentences, none where all is well."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from .facts import Attempt, Facts, Line, Task
from .workload import LINE_BYTES, SCRIPTED_LINES, JobPlan, TaskPlan

Plans = Sequence[JobPlan]

_MET = {
    "success": {"SUCCEEDED"},
    "failure": {"FAILED", "TIMED_OUT", "OUT_OF_MEMORY"},
    "any": {"SUCCEEDED", "FAILED", "TIMED_OUT", "OUT_OF_MEMORY", "CANCELLED", "SKIPPED"},
}
_ENDS = {"well": "SUCCEEDED", "fails": "FAILED", "late": "TIMED_OUT"}
_OWN_FAULTS = ("FAILED", "TIMED_OUT")


def findings(plans: Plans, facts: Facts, scripted: frozenset[str]) -> list[str]:
    """Everything that is not as it has to be. ``scripted`` are the nodes whose attempts run no program."""
    found: list[str] = []
    for check in _CHECKS:
        found += check(plans, facts, scripted)
    return found


def _submits(plans: Plans, facts: Facts, _: frozenset[str]) -> Iterator[str]:
    """Each submit with an answer made one job, each one without at most one."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for job in facts.jobs:
        by_name[job.name].append(job.id)
    for submit in facts.submits:
        ids = by_name[submit.name]
        if submit.refused:
            yield f"{submit.name}: its submit was refused: {submit.refused}"
        elif submit.job_id and ids != [submit.job_id]:
            yield f"{submit.name}: its submit was answered with {submit.job_id}, and there are {ids}"
        elif len(ids) > 1:
            yield f"{submit.name}: one submit without an answer made the jobs {ids}"
    for name in by_name.keys() - {plan.name for plan in plans}:
        yield f"{name}: nobody submitted it"


def _states(plans: Plans, facts: Facts, _: frozenset[str]) -> Iterator[str]:
    """Every task ended as its program and its needs say, and every job as its tasks say."""
    by_name = {plan.name: plan for plan in plans}
    cancels = {submit.name: submit.cancel for submit in facts.submits}
    for job in facts.jobs:
        if job.name not in by_name:
            continue
        tasks = {task.name: task for task in job.tasks}
        cancel = cancels.get(job.name, "none")
        planned = {task.name: task for task in by_name[job.name].tasks}
        if tasks.keys() != planned.keys():
            yield f"{job.name}: it has the tasks {sorted(tasks)}, and was submitted with {sorted(planned)}"
            continue
        for plan in planned.values():
            wanted = _wanted(plan, tasks, cancel)
            state = tasks[plan.name].state
            if state not in wanted:
                told = f"it is {state}, and has to be {' or '.join(sorted(wanted))}{_tries(tasks[plan.name])}"
                yield f"{job.name}/{plan.name}: {told}"
        wanted = _rolled_up([task.state for task in job.tasks], cancel)
        if job.state not in wanted:
            yield f"{job.name}: it is {job.state}, and has to be {' or '.join(sorted(wanted))}"


def _wanted(plan: TaskPlan, tasks: Mapping[str, Task], cancel: str) -> set[str]:
    met = all(tasks[name].state in _MET[need] for name, need in plan.needs.items())
    wanted = {_ENDS[plan.kind] if met else "SKIPPED"}
    return wanted if cancel == "none" else wanted | {"CANCELLED", "SKIPPED"}


def _rolled_up(states: Sequence[str], cancel: str) -> set[str]:
    own = "FAILED" if set(states) & _MET["failure"] else "SUCCEEDED"
    if cancel == "none":
        return {own}
    return {own, "CANCELLED"}


def _tries(task: Task) -> str:
    told = ", ".join(f"{a.number} on {a.node}: {a.state} {a.word}" for a in task.attempts)
    return f" ({told})" if told else ""


def _retries(plans: Plans, facts: Facts, _: frozenset[str]) -> Iterator[str]:
    """A program that fails runs once and once more for each retry; a fault of the platform uses none up."""
    for plan, task in _pairs(plans, facts):
        own = [attempt for attempt in task.attempts if attempt.state in _OWN_FAULTS and attempt.fault != "platform"]
        if plan.kind == "well" and own:
            yield f"{task.name}: its program does not fail, and its attempts do{_tries(task)}"
        if task.state in _OWN_FAULTS and plan.kind != "well" and len(own) != plan.retries + 1:
            yield f"{task.name}: it failed {len(own)} times with {plan.retries} retries{_tries(task)}"
        if len(own) > plan.retries + 1:
            yield f"{task.name}: it ran {len(own)} times with {plan.retries} retries{_tries(task)}"
        good = [attempt.number for attempt in task.attempts if attempt.state == "SUCCEEDED"]
        if len(good) > 1 or (good and good != [task.attempts[-1].number]):
            yield f"{task.name}: it went on after it had succeeded{_tries(task)}"


def _witness(plans: Plans, facts: Facts, scripted: frozenset[str]) -> Iterator[str]:
    """What the programs wrote is what the attempts say, and never did two of one task live at once."""
    for _, task in _pairs(plans, facts):
        lines = facts.witness.get(task.name, ())
        known = {attempt.number: attempt for attempt in task.attempts}
        yield from _at_once(task, lines)
        for number in _by_attempt(lines):
            if number not in known:
                yield f"{task.name}: attempt {number} ran, and nobody knows of it{_tries(task)}"
        for attempt in task.attempts:
            told = [line for line in lines if line.attempt == attempt.number]
            yield from _one_attempt(task, attempt, told, attempt.node in scripted)
    for name in facts.witness.keys() - {task.name for job in facts.jobs for task in job.tasks}:
        yield f"{name}: it ran, and is in no job"


def _at_once(task: Task, lines: Sequence[Line]) -> Iterator[str]:
    if any(line.what == "twice" for line in lines):
        yield f"{task.name}: two attempts lived at once: one found the other's lock{_tries(task)}"
    spans = [(of[0].at_ns, of[-1].at_ns, number) for number, of in _by_attempt(lines).items()]
    for (_, ended, before), (began, _, after) in itertools.pairwise(sorted(spans)):
        if began <= ended:
            late_s = (ended - began) / 1e9
            yield f"{task.name}: attempt {before} lived {late_s:.3f} s beside attempt {after}{_tries(task)}"
    good = {line.attempt: line.at_ns for line in lines if line.what == "end" and line.more == "0"}
    states = {attempt.number: attempt.state for attempt in task.attempts}
    for number, at in good.items():
        again = [line.attempt for line in lines if line.what == "begin" and line.at_ns > at]
        if again and states.get(number) == "SUCCEEDED":
            yield f"{task.name}: attempt {again[0]} began after attempt {number} had succeeded{_tries(task)}"


def _one_attempt(task: Task, attempt: Attempt, told: Sequence[Line], is_scripted: bool) -> Iterator[str]:
    began = sum(line.what == "begin" for line in told)
    ends = [line.more for line in told if line.what == "end"]
    who = f"{task.name}: attempt {attempt.number} on {attempt.node} ({attempt.state} {attempt.word})"
    if is_scripted:
        if told:
            yield f"{who} ran a program on a machine without an engine"
    elif began > 1:
        yield f"{who} began {began} times"
    elif attempt.word == "exited" and ends != [str(attempt.exit_code)]:
        yield f"{who} is told to have ended with {attempt.exit_code}, and its program says {ends}"
    elif attempt.state == "TIMED_OUT" and (began != 1 or ends):
        yield f"{who} began {began} times and ended with {ends}"


def _by_attempt(lines: Sequence[Line]) -> dict[int, list[Line]]:
    by: defaultdict[int, list[Line]] = defaultdict(list)
    for line in lines:
        by[line.attempt].append(line)
    return dict(by)


def _gpus(plans: Plans, facts: Facts, scripted: frozenset[str]) -> Iterator[str]:
    """No GPU had two programs at a time, each program had as many as it asked for, and none was booked twice."""
    spans: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    planned = {task.name: task for plan in plans for task in plan.tasks}
    for name, lines in facts.witness.items():
        for number, of in _by_attempt(lines).items():
            for begin in (line for line in of if line.what == "begin"):
                uuids = [uuid for uuid in begin.more.replace(",", " ").split() if uuid]
                if name in planned and len(set(uuids)) != planned[name].gpus:
                    yield f"{name}: attempt {number} asked for {planned[name].gpus} GPUs and had {uuids}"
                for uuid in uuids:
                    spans[uuid].append((begin.at_ns, of[-1].at_ns, f"{name}.{number}"))
    for uuid, held in spans.items():
        for (_, ended, before), (began, _, after) in itertools.pairwise(sorted(held)):
            if began <= ended:
                yield f"{uuid}: {before} and {after} had it at once, for {(ended - began) / 1e9:.3f} s"
    over = Counter(node for look in facts.booked for node, count in look.items() if count > facts.gpus.get(node, 0))
    for node, times in over.items():
        yield f"{node}: more GPUs were booked than there are, {times} times"


def _logs(plans: Plans, facts: Facts, scripted: frozenset[str]) -> Iterator[str]:
    """Each log holds what its program printed, byte by byte, and all of it where the program ended by itself."""
    for plan, task in _pairs(plans, facts):
        for attempt, stream in itertools.product(task.attempts, ("stdout", "stderr")):
            log = facts.logs.get((task.name, attempt.number, stream))
            who = (
                f"{task.name}: {stream} of attempt {attempt.number} on {attempt.node} ({attempt.state} {attempt.word})"
            )
            by_itself = attempt.word == "exited"
            if log is None or log.missing:
                if by_itself:
                    yield f"{who} can't be read: {log.missing if log else 'nobody asked'}"
                continue
            lines = plan.out_lines if stream == "stdout" else plan.err_lines
            whole = LINE_BYTES * (min(lines, SCRIPTED_LINES) if attempt.node in scripted else lines)
            if not log.good:
                yield f"{who} holds {log.length} bytes, and not those that were printed"
            elif by_itself and log.length != whole:
                yield f"{who} holds {log.length} of {whole} bytes ({attempt.dropped_bytes} told as dropped)"


def _homes(plans: Plans, facts: Facts, scripted: frozenset[str]) -> Iterator[str]:
    """What a program wrote into its home and synced is there, once."""
    for plan, task in _pairs(plans, facts):
        if "m" not in plan.flags:
            continue
        lines = facts.witness.get(task.name, ())
        home = Counter(facts.home.get(task.name, ()))
        for attempt in task.attempts:
            if attempt.node in scripted or attempt.word != "exited":
                continue
            if any(line.attempt == attempt.number and line.what == "mount" for line in lines):
                continue
            for what in ("begin", "end"):
                count = home[f"{what} {attempt.number}"]
                if count != 1:
                    yield f"{task.name}: its home holds {count} times that attempt {attempt.number} did {what}"


def _left(_: Plans, facts: Facts, __: frozenset[str]) -> Iterator[str]:
    """Nothing is left over, the databases agree, and no service met an error that it did not expect."""
    yield from facts.left
    yield from facts.differences
    yield from facts.tracebacks


def _pairs(plans: Plans, facts: Facts) -> Iterator[tuple[TaskPlan, Task]]:
    planned = {task.name: task for plan in plans for task in plan.tasks}
    for job in facts.jobs:
        for task in job.tasks:
            if task.name in planned:
                yield planned[task.name], task


_CHECKS: tuple[Callable[[Plans, Facts, frozenset[str]], Iterator[str]], ...] = (
    _submits,
    _states,
    _retries,
    _witness,
    _gpus,
    _logs,
    _homes,
    _left,
)
