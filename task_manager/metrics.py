"""TaskManager's own numbers, as ``GET /metrics`` shows them."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class TaskManagerNumbers:
    """The functions are asked at each scrape."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        waiting: Callable[[], int],
        held: Callable[[], int],
        live: Callable[[], int],
    ) -> None:
        for name, what, ask in (
            ("headway_tasks_waiting", "Tasks that wait in the queue, those on hold among them", waiting),
            ("headway_tasks_held", "Tasks on hold", held),
            ("headway_attempts_live", "Attempts that are booked on a node and have not ended", live),
        ):
            Gauge(name, what, registry=registry).set_function(ask)
        self._launches = Counter("headway_dispatches", "Attempts that a pass has booked on a node", registry=registry)
        self._turn = Histogram(
            "headway_turn_seconds",
            "What one batch of events takes in memory, its pass included",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._pass = Histogram("headway_pass_seconds", "One pass over the queue", buckets=_BUCKETS, registry=registry)

    def turned(self, turn_s: float, pass_s: float | None, launches: int) -> None:
        """One turn is on disk. ``pass_s`` is None where it needed no pass."""
        self._turn.observe(turn_s)
        if pass_s is not None:
            self._pass.observe(pass_s)
        if launches:
            self._launches.inc(launches)
