"""Answers from the decision log, and deletes what is older than the configured number of days."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from headway.clock import Clock
from headway.errors import HeadwayError, InvalidInput, NotFound
from headway.ids import TaskId
from headway.logs import get_logger
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.store import Database

from ..decisions.sentences import describe_pass
from ..model import Attempt, Task
from ..store import decision_store, queue_store

log = get_logger(__name__)

_DAY_S = 86_400.0
_PRUNED_EVERY_S = 900.0
_PASSES = 20
_MOST_PASSES = 200
_MOST_ATTEMPTS = 500


class DecisionLog:
    """Reads and prunes the log. ``days``: how long it is kept; 0: there is no log."""

    def __init__(self, db: Database, clock: Clock, days: int) -> None:
        self._db = db
        self._clock = clock
        self._days = days

    async def of_task(self, task_id: TaskId, *, limit: int, before: int) -> pb.ListDecisionsReply:
        """The passes that started something while the task waited, latest first.

        Raises:
            NotFound: JobManager never handed it over.
            InvalidInput: too many passes are asked for.
        """
        if limit > _MOST_PASSES:
            raise InvalidInput(f"At most {_MOST_PASSES} passes can be listed at a time; {limit} were asked for.")
        limit, now = limit or _PASSES, self._clock.now()

        def read(conn: Connection) -> pb.ListDecisionsReply:
            task = queue_store.load_tasks(conn, [task_id]).get(task_id)
            if task is None:
                raise NotFound(f"The queue knows no task {task_id}.")
            attempts = queue_store.load_attempts(conn, task_id.job_id, [task_id.name], ("", 0), _MOST_ATTEMPTS)
            waits = _waits(task, attempts)
            ids = decision_store.ids(conn, waits, before=before, limit=limit + 1)
            reply = pb.ListDecisionsReply(kept_days=self._days)
            if len(ids) > limit:
                reply.next_before = ids[limit - 1]
            found = [
                describe_pass(frame, number, at, task, _came_at(waits, at))
                for first, last in _runs(ids[:limit])
                for number, at, frame in decision_store.frames(conn, first, last)
                # Leaves out a pass just before the task came, and one that only seems later by the wall clock.
                if task_id in frame.tasks or any(came < at <= min(left, now) for came, left in waits)
            ]
            reply.passes.extend(sorted(found, key=lambda one: -one.id))
            return reply

        return await self._db.read(read)

    async def run(self) -> None:
        """Prunes the log from time to time; a side task."""
        while True:
            try:
                while await self.forget():
                    pass
            except HeadwayError as error:
                log.warning("decisions.not_pruned", reason=str(error))
            await self._clock.sleep(_PRUNED_EVERY_S)

    async def forget(self) -> int:
        """Deletes some passes that are too old; returns how many."""
        before_at = self._clock.now() - self._days * _DAY_S
        return await self._db.write(lambda conn: decision_store.prune(conn, before_at))


def _waits(task: Task, attempts: Iterable[Attempt]) -> list[tuple[float, float]]:
    """The spans in which it waited; the start of an attempt belongs to its span."""
    found = [(attempt.queued_at, attempt.placed_at) for attempt in attempts]
    if task.waiting:
        found.append((task.queued_at, float("inf")))
    elif not found:
        found.append((task.queued_at, task.ended_at or float("inf")))
    return found


def _came_at(waits: Iterable[tuple[float, float]], at: float) -> float | None:
    """Since when it was waiting then; None: by the wall clock it was not."""
    return max((came for came, left in waits if came <= at <= left), default=None)


def _runs(ids: Iterable[int]) -> list[tuple[int, int]]:
    """Ranges of consecutive ids, as first and last."""
    found: list[tuple[int, int]] = []
    for number in sorted(ids):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
