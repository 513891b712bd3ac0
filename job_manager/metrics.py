"""JobManager's own numbers, as ``GET /metrics`` shows them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge

from headway.states import JOB_ENDED, JobState

LIVE = frozenset(JobState) - JOB_ENDED


class JobNumbers:
    """Jobs as they come, are and end."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._jobs = Gauge("headway_jobs", "Jobs that have not ended", ["state"], registry=registry)
        self._ended = Counter("headway_jobs_ended", "Jobs that have ended", ["state"], registry=registry)
        self._submits = Counter(
            "headway_submits",
            "Submissions: stored; refused, with problems or beyond a limit; known, since the request came before",
            ["result"],
            registry=registry,
        )
        for state in JobState:
            (self._ended if state in JOB_ENDED else self._jobs).labels(state.value)
        for result in ("stored", "refused", "known"):
            self._submits.labels(result)

    def submitted(self, result: Literal["stored", "refused", "known"]) -> None:
        """One submission was answered."""
        self._submits.labels(result).inc()

    def ended(self, states: Collection[JobState]) -> None:
        """These jobs have ended, each with its state."""
        for state in states:
            self._ended.labels(state.value).inc()

    def are(self, counts: Mapping[str, int]) -> None:
        """How many jobs that have not ended are in each state."""
        for state in LIVE:
            self._jobs.labels(state.value).set(counts.get(state.value, 0))
