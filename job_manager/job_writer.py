"""Everything that changes a job: one inbox, one transaction for all that has piled up in it, then the answers.

`JobWriter._run` is the place where a change, a job's end too, is known to be on disk.

Operations run one after another in the database's writer thread, where the live jobs are kept in memory. If a
transaction fails, the jobs it touched are thrown out of memory and read again when next needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sqlalchemy import Connection

from headway.clock import Clock
from headway.errors import Conflict, HeadwayError, IdempotencyMismatch, InvalidInput, NotFound, Problem
from headway.ids import JobId, new_job_id
from headway.logs import get_logger
from headway.model.job_events import JobEventWord
from headway.model.reasons import EndReason, EndWord
from headway.model.retention import EndedJob, RetentionRules
from headway.rpc import convert
from headway.rpc.v1 import common_pb2, job_manager_pb2, task_manager_pb2
from headway.states import JOB_ENDED, JobState, TaskEventKind
from headway.steady import Anchor
from headway.store import Batcher, Database

from . import account_holds, job_validation, mending, removal_store, store, wire
from .aging import Aging
from .cache import JobCache
from .graph.dag import Dag
from .hub import JobChange, JobEventHub
from .job import JobRecord, LiveJob, TaskRecord, TaskReport, check_removable
from .outgoing_events import OutgoingEvents
from .ports import TaskManagerPort
from .tables import outbox
from .transaction import JobTransaction
from .waiting_counter import WaitingCounter

if TYPE_CHECKING:
    from .metrics import JobNumbers

log = get_logger(__name__)
R = TypeVar("R")

ActionName = Literal["cancel", "retry", "hold", "release", "pin", "unpin", "delete"]
OF_WHOLE_JOBS = frozenset({"pin", "unpin", "delete"})

# Tasks of live jobs kept in memory, at about a kilobyte each.
_TASKS_IN_MEMORY = 60_000
_WARNINGS_SHOWN = 10
_FEW_TASKS = 20  # looked at in about a millisecond
_NO_NODES = "No machine is connected yet; it waits until one is that can run it."
_UNCHECKED = "Whether a machine can run it could not be checked now; it waits until one is that can."


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """The answer to a submission; ``job_id`` is empty when there is no job."""

    job_id: str = ""
    problems: tuple[Problem, ...] = ()
    order: tuple[str, ...] = ()
    already_known: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionResult:
    record: job_manager_pb2.Job
    tasks_changed: int


Operation = Callable[[JobTransaction], Any]


class JobWriter:
    """The only writer of jobs: submit, cancel, retry, hold, and what TaskManager reports."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        hub: JobEventHub,
        task_manager: TaskManagerPort,
        *,
        max_tasks_per_job: int = 10_000,
        queued_tasks_per_user: int = 0,
        rules: RetentionRules | None = None,
        events: OutgoingEvents | None = None,
        tasks_in_memory: int = _TASKS_IN_MEMORY,
    ) -> None:
        self._db = db
        self._clock = clock
        self._hub = hub
        self._task_manager = task_manager
        self._max_tasks = max_tasks_per_job
        self.rules = rules or RetentionRules()
        self.aging = Aging(clock, self.rules)
        self.removal_asked = asyncio.Event()  # set whenever jobs are to be removed
        self._cache = JobCache(tasks_in_memory)
        self._waiting_counter = WaitingCounter(queued_tasks_per_user)
        self._events = events or OutgoingEvents(told=False)
        self._steady: Anchor | None = None  # of the clock by which tasks age; None: not read yet
        self.numbers: JobNumbers | None = None
        self._inbox: Batcher[Operation, Any] = Batcher(self._run, name="jobs")

    @property
    def inbox(self) -> Batcher[Operation, Any]:
        """Where operations wait for their transaction."""
        return self._inbox

    async def close(self) -> None:
        """Finish what was accepted; take no more."""
        await self._inbox.close()

    async def recheck_waiting(self) -> None:
        """At start: read the clock by which tasks age, and look at every job with a waiting task again.

        Each change was stored together with what follows from it, so there should be nothing to do. Without this look a
        task whose change got lost would wait for ever.
        """
        await self._inbox.submit(lambda tx: None)
        for job_id in await self._db.read(store.waiting_job_ids):
            moved = await self._inbox.submit(partial(_recheck, job_id=job_id))
            if moved:
                log.warning("job.settled", job=job_id, tasks=moved)

    def steady(self) -> tuple[str, float] | None:
        """The life of the machine and the instant by the clock by which tasks age; None before it was read."""
        anchor = self._steady
        return None if anchor is None else (anchor.boot_id, anchor.now(self._clock))

    # -- submission -----------------------------------------------------------------------------

    async def submit(self, header: job_manager_pb2.JobHeader, specs: Sequence[common_pb2.TaskSpec]) -> SubmitResult:
        """Check a job and store it whole, or say all that is wrong with it.

        Raises:
            IdempotencyMismatch: the owner's request id was used for another job.
            InvalidInput: header and tasks don't belong together.
            TooManyWaiting: the owner would have more waiting tasks than one account may; nothing is stored.
        """
        if header.known_only:
            return await self._made_before(header) or SubmitResult()
        storing = not (header.dry_run or header.graph_only)
        if not storing or self.numbers is None:
            return await self._submit(header, specs)
        try:
            result = await self._submit(header, specs)
        except HeadwayError as error:
            if error.http_status < 500:
                self.numbers.submitted("refused")
            raise
        self.numbers.submitted("known" if result.already_known else "stored" if result.job_id else "refused")
        return result

    async def _submit(self, header: job_manager_pb2.JobHeader, specs: Sequence[common_pb2.TaskSpec]) -> SubmitResult:
        _check_header(header, specs)
        dag, problems, warnings = await self._check(header, specs)
        if header.dry_run or header.graph_only:
            if not problems and header.dry_run:
                await self.check_waiting(header.owner.name, len(specs))
            order = () if problems or dag is None else tuple(dag.names[number] for number in dag.order)
            return SubmitResult(problems=tuple(problems), order=order, warnings=tuple(warnings))
        if problems or dag is None:
            # It may have been taken when the machines were others.
            return await self._made_before(header) or SubmitResult(problems=tuple(problems), warnings=tuple(warnings))
        packed = await _computed(len(specs), lambda: [spec.SerializeToString() for spec in specs])
        return await self._store(header, dag, packed, tuple(warnings))

    async def _check(
        self, header: job_manager_pb2.JobHeader, specs: Sequence[common_pb2.TaskSpec]
    ) -> tuple[Dag | None, list[Problem], list[str]]:
        """The job's graph, what is wrong with the job, and what its owner should know."""
        if len(specs) > self._max_tasks:
            problem = Problem("/tasks", f"The job has {len(specs)} tasks; at most {self._max_tasks} are allowed.")
            return None, [problem], []
        check = partial(job_validation.check_specs, specs, graph_only=header.graph_only)
        # A graph is for a thread, however small: its library is loaded with the first one.
        dag, problems = await (asyncio.to_thread(check) if _has_needs(specs) else _computed(len(specs), check))
        if dag is None or header.graph_only:
            return dag, problems, []
        return dag, *await self._check_resources(header, specs)

    async def check_waiting(self, owner: str, more: int) -> None:
        """Checks that an account may have so many more waiting tasks at this moment.

        Raises:
            TooManyWaiting: it may not.
        """
        if self._waiting_counter.most:
            await self._db.read(lambda conn: self._waiting_counter.check(conn, owner, more))

    async def _made_before(self, header: job_manager_pb2.JobHeader) -> SubmitResult | None:
        """What this request has been answered already."""
        if not header.request_id:
            return None
        known = await self._db.read(lambda conn: store.find_request(conn, header.owner.name, header.request_id))
        return _known(known, header) if known is not None else None

    async def _check_resources(
        self, header: job_manager_pb2.JobHeader, specs: Sequence[common_pb2.TaskSpec]
    ) -> tuple[list[Problem], list[str]]:
        shapes = await _computed(len(specs), partial(job_validation.shapes_of, specs))
        try:
            answer = await self._task_manager.check(list(shapes))
        except HeadwayError as error:
            # Refusing would make TaskManager's absence everybody's: the job waits for it as for any machine.
            log.warning("submit.resources_unchecked", reason=str(error))
            return [], [_UNCHECKED]
        problems = job_validation.refusal_problems(specs, shapes, answer)
        warnings = [] if answer.nodes_known else [_NO_NODES]
        if problems and header.allow_unsatisfiable:
            warnings += [f"{problem.message} It waits until that changes." for problem in problems[:_WARNINGS_SHOWN]]
            problems = job_validation.refusal_problems(specs, shapes, answer, for_ever=True)
        if not problems:
            warnings += job_validation.waiting_warnings(specs, shapes, answer, most=_WARNINGS_SHOWN)
        return problems, warnings

    async def _store(
        self, header: job_manager_pb2.JobHeader, dag: Dag, packed: list[bytes], warnings: tuple[str, ...]
    ) -> SubmitResult:
        def operation(tx: JobTransaction) -> SubmitResult:
            if header.request_id:
                # Again, now that nobody else writes: two of the same request may be under way at once.
                known = store.find_request(tx.conn, header.owner.name, header.request_id)
                if known is not None:
                    return _known(known, header)
            tx.admit(header.owner.name, len(dag.names))
            held = account_holds.is_held(tx.conn, header.owner.name)
            live = _new_job(header, dag, tx.now, tx.steady, account_held=held)
            store.insert_job(tx.conn, live, dag, packed, tx.now)
            live.clean()
            tx.add(live)
            return SubmitResult(job_id=live.record.id, warnings=warnings)

        result: SubmitResult = await self._inbox.submit(operation)
        if not result.already_known:
            log.info(
                "job.submitted", job=result.job_id, owner=header.owner.name, name=header.name, tasks=len(dag.names)
            )
        return result

    # -- reports and wishes ---------------------------------------------------------------------

    async def report(self, events: Sequence[tuple[JobId, TaskReport]]) -> None:
        """Take reports of TaskManager, in order; stored when this returns. Late and repeated ones do nothing."""
        if events:
            await self._inbox.submit(lambda tx: _take_events(tx, events))

    async def act(
        self, job_id: str, task: str, action: ActionName, *, request_id: str = "", by: str = ""
    ) -> ActionResult:
        """Cancel, retry, hold or release a job, or one task of it. The same request id changes nothing twice.

        Raises:
            NotFound: no such job or task.
            Conflict: a retry that can't be.
            Conflict: a job is to be deleted that has not ended, or is pinned.
            TooManyWaiting: a retry of more tasks than may wait beside those that do.
            IdempotencyMismatch: the request id was used for another wish.
        """
        asked = f"{action} {task}".strip()
        if task and action in OF_WHOLE_JOBS:
            raise InvalidInput(f"Only a whole job can be asked to {action}, not one task of it.")

        def operation(tx: JobTransaction) -> ActionResult:
            live = tx.job(job_id)
            known = store.find_action(tx.conn, job_id, request_id) if request_id else None
            if known is not None and known[0] != asked:
                raise IdempotencyMismatch
            if live is None:
                record = store.load_record(tx.conn, job_id) if known is not None else None
                if record is None or known is None:
                    raise NotFound(not_there(tx.conn, job_id, self.rules))
                return ActionResult(self.aging.shown(record), known[1])
            if known is not None:
                return ActionResult(self.aging.shown(live.record), known[1])
            changed = _told(tx, live, task, action, by)
            if request_id:
                store.remember_action(tx.conn, job_id, request_id, asked, changed, tx.aging)
            return ActionResult(self.aging.shown(live.record), changed)

        acted: ActionResult = await self._inbox.submit(operation)
        log.info("job.acted_on", job=job_id, task=task, action=action, by=by, tasks=acted.tasks_changed)
        return acted

    async def hold_accounts(self, accounts: Collection[str]) -> int:
        """Hold the work of exactly these accounts, which are disabled; how many tasks changed by it."""
        changed: int = await self._inbox.submit(lambda tx: account_holds.hold_accounts(tx, accounts))
        if changed:
            log.info("job.accounts_held", accounts=sorted(accounts), tasks=changed)
        return changed

    async def refused(self, job_id: JobId, task: str, generation: int, why: str) -> None:
        """TaskManager will never take this task: it ends, so that its job does."""

        def operation(tx: JobTransaction) -> None:
            live = tx.job(job_id)
            number = live.numbers.get(task) if live is not None else None
            if live is None or number is None:
                return
            record = live.tasks[number]
            reason = EndReason(EndWord.PLATFORM_ERROR, detail=f"It could not be queued: {why}")
            ending = TaskReport(task, generation, record.seq + 1, TaskEventKind.FAILED, record.attempt, tx.now, reason)
            live.on_event(ending, tx.now)

        await self._inbox.submit(operation)

    # -- what a comparison with TaskManager found ------------------------------------------------

    async def mend(self, differences: Sequence[task_manager_pb2.CompareTasksReply.Difference]) -> None:
        """Do what is JobManager's part about tasks that differ at TaskManager."""
        if differences:
            await self._inbox.submit(lambda tx: mending.mend(tx, differences))

    # -- removal --------------------------------------------------------------------------------

    async def remove(self, jobs: Sequence[EndedJob], why: str = "", *, by: str = "", older_s: float = 0.0) -> list[str]:
        """Lets those of the jobs go that are still as they were when they were chosen; their ids. A job that was
        retried, pinned or deleted meanwhile is left alone, and so is one that is not as old as ``older_s``."""

        def operation(tx: JobTransaction) -> list[str]:
            before = tx.aging - older_s
            chosen = [job.id for job in jobs if _still_removable(tx.record(job.id), job, before)]
            tx.remove(chosen, why or f"by {by}", by)
            return chosen

        removed: list[str] = await self._inbox.submit(operation) if jobs else []
        if removed:
            log.info("jobs.removed", jobs=len(removed), first=removed[0], reason=why or f"by {by}")
        return removed

    async def go_on_after(self, seq: int) -> None:
        """Number commands above this one: TaskManager has heard of it, so a restored database would use it again."""
        await self._db.write(lambda conn: outbox.go_on_after(conn, seq))

    # -- the transaction ------------------------------------------------------------------------

    async def _run(self, operations: list[Operation]) -> list[Any]:
        touched: set[str] = set()
        ended: list[tuple[str, JobState, bool]] = []
        anchors: list[Anchor] = []
        removed: list[str] = []

        def work(conn: Connection) -> tuple[list[Any], list[JobChange]]:
            anchor = self._steady or store.steady_anchor(conn, self._clock)
            anchors.append(anchor)
            aging = self.aging.begin(conn)
            now, steady = self._clock.now(), anchor.now(self._clock)
            tx = JobTransaction(conn, self._cache, self._waiting_counter, now=now, steady=steady, aging=aging)
            try:
                results = [_guarded(operation, tx) for operation in operations]
                for job_id, live in tx.touched.items():
                    if live.record.state in JOB_ENDED:
                        ended.append((job_id, live.record.state, live.just_ended))
                removed[:] = tx.removed
                return results, self._save(tx)
            finally:
                touched.update(tx.touched)

        try:
            results, changes = await self._db.write(work)
        except BaseException:
            for job_id in touched:
                self._cache.drop(job_id)
            self._waiting_counter.rollback()
            raise
        self._steady = anchors[-1]
        self.aging.committed()
        self._waiting_counter.commit()
        self._cache.shrink()
        if self.numbers is not None:
            self.numbers.ended([state for _, state, now in ended if now])
        for job_id, state, now in ended:
            self._cache.drop(job_id)
            if now:
                log.info("job.ended", job=job_id, state=state)
        self._hub.publish(changes)
        if removed:
            self._hub.publish_removed(removed)
            self.removal_asked.set()
        return results

    def _save(self, tx: JobTransaction) -> list[JobChange]:
        changes = []
        self._events.store(tx.conn, tx.touched.values(), tx.removed, tx.now)
        for job_id, live in tx.touched.items():
            numbers = sorted(live.dirty)
            changed = bool(numbers) or live.dirty_job
            if live.record.ended_at is not None and live.record.ages_from is None:
                live.record.ages_from = tx.aging
            store.save(tx.conn, live, tx.now)
            live.clean()
            if self._hub.watched and (changed or job_id in tx.new):
                changes.append(_change(tx.conn, live, numbers, self.aging))
        return changes


def _has_needs(specs: Sequence[common_pb2.TaskSpec]) -> bool:
    return any(spec.needs for spec in specs)


async def _computed(tasks: int, call: Callable[[], R]) -> R:
    """What a pure function of a job answers. For few tasks it costs less than the way to a thread and back."""
    return call() if tasks <= _FEW_TASKS else await asyncio.to_thread(call)


def _guarded(operation: Operation, tx: JobTransaction) -> Any:
    try:
        return operation(tx)
    except HeadwayError as error:
        # A refusal, raised before anything was changed: only its sender is concerned.
        return error


def _change(conn: Connection, live: LiveJob, numbers: Sequence[int], aging: Aging) -> JobChange:
    specs = store.load_specs(conn, live.record.id, numbers) if numbers else {}
    tasks = {}
    for number in numbers:
        view = wire.task_to_pb(
            common_pb2.TaskSpec.FromString(specs[number]),
            live.states[number],
            live.tasks[number],
            wire.waiting_names(live.names, live.progress.waits_for(number)),
        )
        tasks[view.name] = view
    return JobChange(aging.shown(live.record), tasks)


def not_there(conn: Connection, job_id: str, rules: RetentionRules) -> str:
    """The sentence for whoever asks for a job that can't be shown."""
    if store.load_record(conn, job_id) is not None:
        return f"The job {job_id} is being deleted; nothing can be done with it any more."
    if (fate := removal_store.fate(conn, job_id)) is not None:
        at, why = fate
        return f"The job {job_id} was deleted on {datetime.fromtimestamp(at, UTC).date()} (UTC) {why}".rstrip() + "."
    return f"There is no job {job_id!r}. {rules.sentence}".strip()


def _still_removable(record: JobRecord | None, chosen: EndedJob, before: float) -> bool:
    # A job that was retried has no end, or another one by now.
    if record is None or record.pinned or record.ages_from is None:
        return False
    return record.ages_from == chosen.ages_from and record.ages_from <= before


def _recheck(tx: JobTransaction, job_id: str) -> int:
    live = tx.job(job_id)
    if live is None:
        return 0
    live.decide_waiting(tx.now)
    return len(live.dirty)


def _take_events(tx: JobTransaction, events: Sequence[tuple[JobId, TaskReport]]) -> None:
    for job_id, event in events:
        live = tx.job(job_id)
        if live is None:
            tell = log.debug if removal_store.is_marked(tx.conn, job_id) else log.warning
            tell("task.event_of_unknown_job", job=job_id, task=event.task, kind=event.kind)
            continue
        if not live.on_event(event, tx.now):
            log.debug("task.event_dropped", job=job_id, task=event.task, kind=event.kind, seq=event.seq)


_TOLD = {
    "cancel": JobEventWord.CANCEL_ASKED,
    "retry": JobEventWord.RETRIED,
    "hold": JobEventWord.HELD,
    "release": JobEventWord.RELEASED,
}


def _told(tx: JobTransaction, live: LiveJob, task: str, action: ActionName, by: str) -> int:
    """Does it, and notes that somebody asked for it, before what follows from it."""
    place, held, state = len(live.events), live.record.held, live.record.state
    changed = _act(tx, live, task, action, by)
    word = _TOLD.get(action)
    if word is not None and (changed or live.record.held is not held or live.record.state is not state):
        live.tell(word, tx.now, task=task, by=by, tasks=changed)
        live.events.insert(place, live.events.pop())
    return changed


def _act(tx: JobTransaction, live: LiveJob, task: str, action: ActionName, by: str) -> int:
    match action:
        case "cancel":
            return live.cancel(task, by, tx.now)
        case "retry":
            held = account_holds.is_held(tx.conn, live.record.owner)
            return live.retry(task, tx.now, tx.steady, partial(tx.admit, live.record.owner), account_held=held)
        case "hold":
            return live.hold(task, tx.steady)
        case "release":
            if by == live.record.owner and account_holds.is_held(tx.conn, by):
                # It was on its way while the account was disabled.
                raise Conflict("Your account is disabled: its work is held until an admin enables it.")
            return live.release(task, tx.steady)
        case "pin" | "unpin":
            live.pin(action == "pin")
        case "delete":
            check_removable(live.record)
            tx.remove([live.record.id], f"by {by}" if by else "", by)
    return 0


def _new_job(header: job_manager_pb2.JobHeader, dag: Dag, now: float, steady: float, *, account_held: bool) -> LiveJob:
    record = JobRecord(
        id=new_job_id(steady),  # so that ids sort as jobs came
        owner=header.owner.name,
        account=header.owner.SerializeToString(),
        request_id=header.request_id or None,
        spec_hash=header.spec_hash,
        name=header.name,
        priority=convert.priority(header.priority),
        submitted_at=now,
        task_count=len(dag.names),
    )
    live = LiveJob(record, dag.names, dag.needs, dag.tail_timeout_s, [TaskRecord(ages_from=steady) for _ in dag.names])
    live.tell(JobEventWord.SUBMITTED, now, by=record.owner, tasks=record.task_count)
    if account_held:
        # It was on its way while its account was disabled.
        live.hold_for_account(steady)
    live.decide_waiting(now)
    return live


def _known(known: tuple[JobId, str], header: job_manager_pb2.JobHeader) -> SubmitResult:
    job_id, spec_hash = known
    if spec_hash != header.spec_hash and (header.spec_hash or not header.known_only):
        raise IdempotencyMismatch(f"Request id {header.request_id!r} was used for another job, {job_id}.")
    return SubmitResult(job_id=job_id, already_known=True)


def _check_header(header: job_manager_pb2.JobHeader, specs: Sequence[common_pb2.TaskSpec]) -> None:
    if not header.owner.name and not header.graph_only:
        raise InvalidInput("A job needs an owner.")
    if len(specs) != header.task_count:
        raise InvalidInput(f"The header says {header.task_count} tasks, but {len(specs)} came.")
