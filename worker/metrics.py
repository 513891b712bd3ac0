"""The Worker's own numbers, as ``GET /metrics`` shows them."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from .model import AttemptRecord, AttemptStage

STATES = ("PULLING", "STARTING", "RUNNING", "STOPPING", "ENDED")


class WorkerNumbers:
    """``held`` gives the records of attempts that TaskManager waits for, ``conditions`` how many block work."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        held: Callable[[], Sequence[AttemptRecord]],
        conditions: Callable[[], int],
    ) -> None:
        attempts = Gauge(
            "headway_worker_attempts",
            "Attempts here by state; ENDED: their end is not confirmed yet",
            ["state"],
            registry=registry,
        )
        self._held = held
        self._attempts = {state: attempts.labels(state) for state in STATES}
        blocking = Gauge(
            "headway_worker_blocking_conditions", "Conditions that keep this node from work", registry=registry
        )
        blocking.set_function(conditions)
        self._beats = Counter("headway_heartbeats", "Heartbeats sent to TaskManager", registry=registry)
        self._failed = Counter(
            "headway_heartbeats_failed", "Heartbeats that TaskManager did not answer", registry=registry
        )

    async def look(self) -> None:
        """Counts the attempts; for ``Metrics.before_scrape``."""
        tally = Tally(map(state_of, self._held()))
        for state, gauge in self._attempts.items():
            gauge.set(tally[state])

    def beat(self, answered: bool) -> None:
        """One heartbeat was sent."""
        self._beats.inc()
        if not answered:
            self._failed.inc()


def state_of(record: AttemptRecord) -> str:
    """The state of an attempt as far as this Worker is with it, by the names of ``AttemptState``."""
    if record.stage is not AttemptStage.LIVE:
        return "ENDED"
    if record.stop is not None:
        return "STOPPING"
    if record.times.process_started_at is not None:
        return "RUNNING"
    return "PULLING" if record.times.container_started_at is None else "STARTING"
