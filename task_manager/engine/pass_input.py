"""The book as a pass sees it, and what a pass said as people and the disk see it.

A pass counts by the boot clock, so that a wall clock that is set moves no booking; what is stored or shown is by the
wall clock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace

from headway.ids import TaskId

from ..clocks import Reading
from ..limits import AdmissionLimits
from ..model import Attempt, Task
from ..order.policy import ClusterView
from ..planning.admission import GpuHoldings
from ..planning.bookings import Booking
from ..planning.pass_model import PassInput, PassSettings
from ..planning.placement import FreeResources
from ..planning.promises import shown_promise
from ..settings import Settings
from .state import Book, Flight

# In another life of the machine places are read by the wall clock, each by what it was when it was stored: set by the
# network's time while they stand, that is some milliseconds an hour away from the boot clock. Less than `PASS_S`.
_CLOCKS_APART_S = 0.25
# An attempt that must be over, of which its Worker has not been heard yet: it is taken to end so soon. A place that is
# due there moves along meanwhile, by less than `_CLOCKS_APART_S` from pass to pass.
_AWAITED_S = 0.2


def pass_settings(settings: Settings) -> PassSettings:
    """What a pass needs of the settings."""
    return PassSettings(
        discipline=settings.discipline,
        reserved=settings.reserved,
        start_limit_s=min(settings.start_limit_s, settings.booked_start_s),
        stop_limit_s=min(settings.stop_limit_s, settings.booked_stop_s),
        limits=settings.limits,
        cpu_tasks=settings.cpu_tasks,
        slack_s=_CLOCKS_APART_S,
    )


def pass_input(book: Book, settings: Settings, rooms: Iterable[FreeResources], at_s: float | None = None) -> PassInput:
    """The snapshot of this turn; ``at_s``: for that moment by the boot clock, which may be later."""
    wanted, at_s = pass_settings(settings), book.mono if at_s is None else at_s
    return PassInput(
        now_s=book.mono,
        wall_s=book.now,
        queue=book.queue,
        tasks=book.tasks,
        free_resources=list(rooms),
        running=[
            booking(attempt, book.flights[key], book.tasks[key], wanted, at_s, settings.leases.missing_grace_s)
            for key, attempt in book.attempts.items()
        ],
        reservations=book.places,
        policy=book.policy,
        view=ClusterView(book.gpus, book.queue.waiting_gpu_s),
        settings=wanted,
        last_used=book.gpu_last_used,
        ahead_s=book.ahead_s,
    )


def holdings(book: Book, limits: AdmissionLimits) -> GpuHoldings:
    """GPUs that live attempts hold, as these limits count them."""
    attempts = book.attempts.values()
    return GpuHoldings.of(limits, ((book.tasks[one.id.task].owner, one.shape.gpus, one.timeout_s) for one in attempts))


def apart(there: PassInput, here: Reading, ahead_s: float) -> Callable[[], PassInput]:
    """The snapshot at this moment as one of its own, which stays as it is while the book goes on, for one pass that
    starts all that can start. Taking note of it is quick; what takes longer is left to the call, in whatever thread."""
    settings = replace(there.settings, starts=sys.maxsize)
    make_queue, tasks, places = there.queue.copier(), dict(there.tasks), dict(there.reservations)

    def make() -> PassInput:
        queue = make_queue()
        return replace(
            there, now_s=here.mono, wall_s=here.now, ahead_s=ahead_s, queue=queue, tasks=tasks, reservations=places,
            policy=queue.policy, settings=settings, last_used=lambda uuid: 0.0,
        )  # fmt: skip

    return make


def booking(
    attempt: Attempt, flight: Flight, task: Task, settings: PassSettings, now_s: float, patience_s: float
) -> Booking:
    """What a live attempt holds, and until when at most: booked alike from its start, once that is known.

    One that must be over although its end is not known has outlived that only if its Worker says so: after a start of
    TaskManager, or where a machine that is back does not list it, the end may just be on its way. A Worker also lists
    what has ended until that is taken note of, so its first word is given ``patience_s``.
    """
    whole_s = settings.duration_s(task) + attempt.timeout_s - task.timeout_s  # it may have been given more time
    until_s = flight.booked_s + whole_s
    if flight.running_s is not None:
        until_s = min(until_s, flight.running_s + whole_s - settings.start_limit_s)
    confirmed_s = flight.confirmed_s
    is_open = flight.uncertain or flight.missing_since_s is not None
    awaited = until_s <= now_s and (is_open or (confirmed_s is not None and now_s - confirmed_s < patience_s))
    return Booking(
        attempt.id.task, task.owner, attempt.node_id, attempt.shape, attempt.gpu_uuids, attempt.timeout_s,
        now_s + _AWAITED_S if awaited else until_s, awaited,
    )  # fmt: skip


def estimated_start(book: Book, task: Task, position: int, *, now: float, mono: float) -> tuple[float, bool] | None:
    """When the waiting task at this position starts, as of the last pass, by the wall clock, and whether that is a
    rough figure; None where nothing can be told."""
    if book.plan is None or not book.queue.is_runnable(task.id):
        return None
    estimate = book.plan.estimate_of(task, position)
    if estimate is None:
        return None
    return now + max(0.0, estimate.start_s - mono), estimate.rough


def promised_start(book: Book, task_id: TaskId, *, now: float, mono: float) -> float | None:
    """No later than this it starts, by the wall clock, rounded up; None: nothing is promised."""
    place = book.places.get(task_id)
    return None if place is None else shown_promise(place, now=now, mono=mono)
