"""Waiting tasks as pages show them: all that is asked at one moment, found once for all of them."""

from __future__ import annotations

from headway.model.reasons import WaitReason
from headway.rpc import convert
from headway.rpc.v1 import common_pb2, task_manager_pb2

from .. import wire
from ..clocks import Reading
from ..engine import pass_input
from ..engine.state import Book
from ..model import Shape, Task
from ..planning import explain
from ..planning.admission import ruled_out
from ..planning.overtaking import OvertakingPromises
from ..planning.placement import FreeResources
from ..settings import Settings
from . import scheduling_view

_PRIORITIES = {rank: convert.priority_to_pb(name) for name, rank in convert.PRIORITY_RANK.items()}


class Entries:
    """Of the book at this moment, which must not change as long as entries are made.

    ``rooms``: what is left of every known node. ``overtaken``: of the book's plan. ``ahead_s``: the steady clock of the
    wall clock.
    """

    def __init__(
        self,
        book: Book,
        settings: Settings,
        rooms: list[FreeResources],
        overtaken: OvertakingPromises | None,
        here: Reading,
        ahead_s: float,
    ) -> None:
        self._book = book
        self._settings = settings
        self._now = here.now
        self._mono = here.mono
        self._ahead_s = ahead_s
        holdings = pass_input.holdings(book, settings.limits)
        self._sight = explain.ClusterSnapshot(rooms, settings.cpu_tasks, settings.limits, holdings)
        self._overtaken = overtaken
        self._resources: dict[Shape, common_pb2.Resources] = {}

    def entry(self, task: Task, position: int | None = None) -> task_manager_pb2.QueueEntry:
        """``position``: in the whole queue, from 1; None: to be looked up."""
        if not task.waiting:
            position = 0
        elif position is None:
            position = self._book.queue.position(task.id)
        resources = self._resources.get(task.shape)
        if resources is None:
            resources = self._resources[task.shape] = wire.resources(task.shape)
        entry = task_manager_pb2.QueueEntry(
            task=convert.task_to_pb(task.id),
            owner=task.owner,
            job_name=task.job_name,
            position=position,
            resources=resources,
            timeout_s=task.timeout_s,
            submitted_at=task.submitted_at - self._ahead_s,
            priority=_PRIORITIES[task.priority],
            terms=scheduling_view.terms(self._book, task, self._now + self._ahead_s),
            held=task.held,
            attempt=task.attempt + 1 if task.waiting else task.attempt,
            state=task.state.value,
        )
        if task.waiting:
            self._starts(entry, task, position)
            entry.reasons.extend([convert.wait_reason_to_pb(reason) for reason in self._reasons(task, position)])
        return entry

    def _reasons(self, task: Task, position: int) -> list[WaitReason]:
        book, plan, overtaken = self._book, self._book.plan, self._overtaken
        found = explain.wait_reasons(
            task,
            self._sight,
            ahead=max(0, position - 1),
            pause_s=book.pause_s(task, self._mono),
            wait=plan.wait_of(task) if plan is not None else None,
            promised=task.id in book.places,
            overtaken_by=overtaken.ahead_of(task, self._sight, since_at=book.ordered_at)
            if overtaken is not None
            else (),
        )
        moved = book.moved.get(task.id)
        if moved is not None:
            place = book.places.get(task.id) or (plan.reservations.get(task.id) if plan is not None else None)
            found.append(explain.moved_promise_reason(moved, None if place is None else place.start_s))
        return found

    def _starts(self, entry: task_manager_pb2.QueueEntry, task: Task, position: int) -> None:
        book, now, mono = self._book, self._now, self._mono
        estimate = pass_input.estimated_start(book, task, position, now=now, mono=mono)
        if estimate is not None and not ruled_out(
            self._settings.limits, task.shape, task.timeout_s, gpus=self._sight.gpus
        ):
            entry.estimated_start, entry.estimate_rough = estimate
        promised = pass_input.promised_start(book, task.id, now=now, mono=mono)
        if promised is not None:
            entry.promised_start = promised
