"""How many wrong passwords are allowed."""

from __future__ import annotations

import pytest

from httpserver.auth.sign_in_limits import FailureLimit, SignInLimits


def test_a_burst_of_failures_waits_and_time_forgives():
    limit = FailureLimit(burst=3, every_s=10)
    for _ in range(3):
        assert limit.wait_s("k", 0.0) == 0
        limit.failed("k", 0.0)
    assert limit.wait_s("k", 0.0) == pytest.approx(10)
    assert limit.wait_s("k", 9.9) > 0
    assert limit.wait_s("k", 10.0) == 0
    assert limit.wait_s("other", 0.0) == 0


def test_a_guesser_with_many_addresses_cannot_fill_the_memory():
    limit = FailureLimit(burst=3, every_s=10)
    for i in range(20_000):
        limit.failed(str(i), 0.0)
    assert len(limit._buckets) <= 10_000


def test_a_stranger_does_not_lock_somebody_out_soon_and_sign_ins_that_work_cost_nothing():
    limits = SignInLimits()
    for _ in range(20):
        limits.failed("ann", "6.6.6.6", 0.0)
    assert limits.wait_s("ann", "6.6.6.6", 0.0) > 0
    assert limits.wait_s("ann", "9.9.9.9", 0.0) == 0
    for _ in range(500):
        assert limits.wait_s("bob", "9.9.9.9", 0.0) == 0
        limits.failed("bob", "9.9.9.9", 0.0)
        limits.succeeded("bob", "9.9.9.9")
