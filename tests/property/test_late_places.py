"""Random lives under `late`: every waiting task is promised a start at once, and none is missed without a cause."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from task_manager.limits import AdmissionLimits, ShortTaskReserve
from task_manager.order import policy_registry
from task_manager.order.policy import Policy
from task_manager.planning.pass_model import Discipline, Plan, PromiseRule, WaitCause
from task_manager.planning.step_functions import latest_in, spans
from tests.property.test_promises import Stream
from tests.support.scheduling import Cluster

_LIVES = 80
_NEVER = {WaitCause.NO_NODE, WaitCause.NOT_ADMITTED}
_POLICIES = ("aging_sjf", "fifo", "log_aging:c=300", "hrrn", "sjf")


class PromisingAll(Cluster):
    """Checks after each pass that every runnable task has a promise, and a place that keeps it."""

    def step(self) -> Plan:
        made = super().step()
        for place in made.promised.values():
            assert place.promised_s is not None
            assert place.start_s <= place.promised_s or place.start_s <= self.now
        if made.more or any(live.booking.until_s <= self.now for live in self.live.values()):
            return made  # the rest comes in the next pass, or nobody knows when something ends
        for task_id in self.tasks:
            wait = made.waits.get(task_id)
            if self.queue.is_runnable(task_id) and not (wait is not None and wait.why in _NEVER):
                assert task_id in made.promised, f"{task_id} has no promise"
        return made


def life(seed: int, policy: Policy, *, calm: bool, late: bool) -> Cluster:
    chance = random.Random(seed)
    limits = AdmissionLimits(
        running_gpus_per_user=chance.choice([None, None, 8]),
        short_reserve=chance.choice([None, None, ShortTaskReserve(1, 300.0)]),
    )
    return Stream(seed, calm=calm, late=late).build(
        policy, Discipline.CONSERVATIVE, make=PromisingAll, promises=PromiseRule.LATE, limits=limits
    )


@pytest.mark.parametrize("group", range(4))
def test_every_task_is_promised_at_once_and_no_promise_is_missed(group: int) -> None:
    promises = 0
    for seed in range(group, _LIVES, 4):
        calm = seed % 2 == 0
        policy = policy_registry.by_name(_POLICIES[seed % len(_POLICIES)])
        cluster = life(seed, policy, calm=calm, late=not calm and seed % 3 == 0)
        try:
            cluster.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert cluster.missed == [], f"seed {seed}"
        assert not calm or cluster.causes == [], f"seed {seed}"
        promises += cluster.promises
    assert promises > 50


_STEPS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12)


@given(_STEPS, st.integers(1, 4), st.integers(1, 4), st.integers(1, 15), st.integers(0, 60))
def test_the_latest_start_is_the_last_that_fits(
    steps: list[tuple[int, int, int]], one: int, other: int, duration: int, until: int
) -> None:
    times = [float(sum(length for length, _, _ in steps[:i])) for i in range(len(steps))]
    rows = [([step[1] for step in steps], one), ([step[2] for step in steps], other)]

    def fits(start: int) -> bool:
        return all(
            row[i] >= least
            for row, least in rows
            for i, time in enumerate(times)
            if time < start + duration and (i + 1 == len(times) or times[i + 1] > start)
        )

    want = max((start for start in range(until + 1) if fits(start)), default=None)
    assert latest_in([spans(times, rows, until)], duration, until) == want
    assert latest_in([spans(times, [row], until) for row in rows], duration, until) == want


@given(st.floats(0.001, 1e6), st.floats(1e-3, 1e5))
def test_a_late_place_never_reaches_over_the_end_of_its_span(end: float, duration: float) -> None:
    start = latest_in([[(0.0, end)]], duration, math.inf)
    assert start is None or (start >= 0 and start + duration <= end)
