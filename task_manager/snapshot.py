"""The book as a pass sees it, and what a pass said as people and the disk see it.

A pass counts by the boot clock, so that a wall clock that is set moves no booking; what is stored or shown is by the
wall clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from headway.ids import TaskId

from .book import Book, Flight
from .model import Attempt, Task
from .passes import PassInput, PassSettings
from .placement import Room
from .places import Booking, Place
from .policy import ClusterView
from .settings import Settings

_PASS_S = 1.0  # what a pass and the way to it may take, on top of a promised start


def pass_settings(settings: Settings) -> PassSettings:
    """What a pass needs of the settings."""
    return PassSettings(
        discipline=settings.discipline,
        reserved=settings.reserved,
        start_limit_s=settings.start_limit_s,
        stop_limit_s=settings.stop_limit_s,
        limits=settings.limits,
        cpu_tasks=settings.cpu_tasks,
    )


def pass_input(book: Book, settings: Settings, rooms: Iterable[Room]) -> PassInput:
    """The snapshot of this turn."""
    wanted = pass_settings(settings)
    return PassInput(
        now_s=book.mono,
        wall_s=book.now,
        queue=book.queue,
        tasks=book.tasks,
        rooms=list(rooms),
        running=[
            booking(attempt, book.flights[key], book.tasks[key], wanted) for key, attempt in book.attempts.items()
        ],
        places=book.places,
        policy=book.policy,
        view=ClusterView(book.gpus, book.queue.waiting_gpu_s),
        settings=wanted,
        last_used=book.gpu_last_used,
    )


def booking(attempt: Attempt, flight: Flight, task: Task, settings: PassSettings) -> Booking:
    """What a live attempt holds, and until when at most: booked alike from its start, once that is known."""
    whole_s = settings.duration_s(task) + attempt.timeout_s - task.timeout_s  # it may have been given more time
    until_s = flight.booked_s + whole_s
    if flight.running_s is not None:
        until_s = min(until_s, flight.running_s + whole_s - settings.start_limit_s)
    return Booking(
        attempt.id.task, task.owner, attempt.node_id, attempt.shape, attempt.gpu_uuids, attempt.timeout_s, until_s
    )


def to_wall(place: Place, *, now: float, mono: float) -> Place:
    """The place with its times by the wall clock: for the disk."""
    return _shifted(place, now - mono)


def from_wall(place: Place, *, now: float, mono: float) -> Place:
    """The reverse of ``to_wall``, perhaps in another life of the machine."""
    return _shifted(place, mono - now)


def _shifted(place: Place, by_s: float) -> Place:
    promised_s = None if place.promised_s is None else place.promised_s + by_s
    return replace(place, start_s=place.start_s + by_s, promised_s=promised_s)


def estimated_start(book: Book, task_id: TaskId, *, now: float, mono: float) -> tuple[float, bool] | None:
    """When a waiting task starts, as of the last pass, by the wall clock, and whether that is a rough figure; None
    where nothing can be told."""
    plan = book.plan
    if plan is None or not book.queue.is_runnable(task_id):
        return None
    estimate = plan.estimates.get(task_id)
    if estimate is None and plan.rough is not None:
        estimate = plan.rough.at(book.queue.position(task_id))
    if estimate is None or not math.isfinite(estimate.start_s):
        return None
    return now + max(0.0, estimate.start_s - mono), estimate.rough


def promised_start(book: Book, task_id: TaskId, *, now: float, mono: float) -> float | None:
    """No later than this it starts, by the wall clock, rounded up; None: nothing is promised."""
    place = book.places.get(task_id)
    if place is None or place.promised_s is None:
        return None
    return math.ceil(now + place.promised_s - mono) + _PASS_S
