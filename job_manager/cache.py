"""Jobs kept in memory."""

from __future__ import annotations

from collections import OrderedDict

from .job import LiveJob


class JobCache:
    """Live jobs by id, the longest unused dropped first. Used by one thread at a time."""

    def __init__(self, tasks_at_most: int) -> None:
        self._jobs: OrderedDict[str, LiveJob] = OrderedDict()
        self._tasks = 0
        self._tasks_at_most = tasks_at_most

    def get(self, job_id: str) -> LiveJob | None:
        live = self._jobs.get(job_id)
        if live is not None:
            self._jobs.move_to_end(job_id)
        return live

    def put(self, live: LiveJob) -> None:
        self.drop(live.record.id)
        self._jobs[live.record.id] = live
        self._tasks += len(live.tasks)

    def drop(self, job_id: str) -> None:
        live = self._jobs.pop(job_id, None)
        if live is not None:
            self._tasks -= len(live.tasks)

    def shrink(self) -> None:
        """Between transactions: a job in use must not be read a second time beside itself."""
        while self._tasks > self._tasks_at_most and len(self._jobs) > 1:
            self.drop(next(iter(self._jobs)))
