"""TaskManager's own numbers, as ``GET /metrics`` shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from headway.model.reasons import EndWord
from headway.states import AttemptState

from .engine.phases import Phases, phases_of
from .model import Attempt

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_WAIT_BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0, 28_800.0, 86_400.0, 259_200.0)
_PHASE_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0)
PHASES = tuple(field.name.removesuffix("_s") for field in fields(Phases))


class AutoscaleNumbers:
    """Calls of the hook for growth, as ``calls`` counts them."""

    def __init__(self, registry: CollectorRegistry, calls: Mapping[str, int]) -> None:
        gauge = Gauge("headway_autoscale_calls", "Calls of the hook for growth", ["result"], registry=registry)
        for result in calls:
            gauge.labels(result).set_function(partial(calls.__getitem__, result))


class TaskManagerNumbers:
    """The functions are asked at each scrape."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        waiting: Callable[[], int],
        held: Callable[[], int],
        live: Callable[[], int],
        booked_gpus: Callable[[], Iterable[tuple[str, str]]],
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
        self._wait = Histogram(
            "headway_queue_wait_seconds",
            "From the moment at which a task could run to its placement",
            buckets=_WAIT_BUCKETS,
            registry=registry,
        )
        phase = Histogram(
            "headway_attempt_phase_seconds",
            "Where the time of attempts that have ended went",
            ["phase"],
            buckets=_PHASE_BUCKETS,
            registry=registry,
        )
        self._phases = {name: phase.labels(name) for name in PHASES}
        self._ended = Counter(
            "headway_attempts_ended", "Attempts that have ended, by state and why", ["state", "end"], registry=registry
        )
        self._ended.labels(AttemptState.SUCCEEDED.value, EndWord.EXITED.value)
        for word in EndWord:
            self._ended.labels(word.facts.attempt.value, word.value)
        registry.register(_BookedGpus(booked_gpus))

    def turned(self, turn_s: float, pass_s: float | None, placed: Sequence[Attempt], ended: Sequence[Attempt]) -> None:
        """One turn is on disk. ``pass_s`` is None where it needed no pass."""
        self._turn.observe(turn_s)
        if pass_s is not None:
            self._pass.observe(pass_s)
        if placed:
            self._launches.inc(len(placed))
        for attempt in placed:
            self._wait.observe(max(0.0, attempt.placed_at - attempt.queued_at))
        for attempt in ended:
            self._count_end(attempt)

    def _count_end(self, attempt: Attempt) -> None:
        if attempt.reason is not None:
            self._ended.labels(attempt.state.value, attempt.reason.word.value).inc()
        phases = phases_of(attempt)
        for name, histogram in self._phases.items():
            seconds = getattr(phases, f"{name}_s")
            if seconds is not None:
                histogram.observe(seconds)


class _BookedGpus(Collector):
    """A series for each GPU that is booked; none for the others."""

    def __init__(self, booked: Callable[[], Iterable[tuple[str, str]]]) -> None:
        self._booked = booked

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = GaugeMetricFamily(
            "headway_gpu_booked", "1 for each GPU that a running attempt holds", labels=["node", "uuid"]
        )
        for node_id, uuid in self._booked():
            found.add_metric([node_id, uuid], 1)
        yield found
