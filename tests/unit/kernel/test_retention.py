"""Which jobs go, and until when the others are kept."""

from __future__ import annotations

import pytest

from headway.model.retention import (
    DAY_S,
    AccountRule,
    AgeLimit,
    EndedJob,
    RetentionRules,
    RoomToMake,
    parse_age,
)
from headway.units import BadValue

NOW = 1_800_000_000.0
RULES = RetentionRules(days=90, accounts={"ann": AccountRule(days=365), "cy": AccountRule(log_bytes=10)})


def ended(id: str, owner: str, days_ago: float, log_bytes: int | None = 0, *, pinned: bool = False) -> EndedJob:
    return EndedJob(id, owner, NOW - days_ago * DAY_S, log_bytes, pinned)


def test_without_a_rule_everything_is_kept_for_ever() -> None:
    rules = RetentionRules()
    assert not rules.by_age
    assert not rules.by_bytes
    assert rules.kept_until("bob", 0.0, pinned=False) is None
    assert not rules.too_old(ended("j", "bob", 10_000), NOW)
    assert rules.age_limits(NOW) == []
    assert not RoomToMake(rules, {"bob": 1 << 60}).needed


def test_a_job_is_kept_for_the_days_of_its_account_after_its_end() -> None:
    assert RULES.kept_until("bob", NOW, pinned=False) == NOW + 90 * DAY_S
    assert RULES.kept_until("ann", NOW, pinned=False) == NOW + 365 * DAY_S
    assert RULES.kept_until("bob", None, pinned=False) is None, "it has not ended"
    assert RULES.too_old(ended("j", "bob", 90), NOW), "to the second"
    assert not RULES.too_old(ended("j", "bob", 89.99), NOW)
    assert not RULES.too_old(ended("j", "ann", 91), NOW)


def test_a_pinned_job_is_never_too_old() -> None:
    assert RULES.kept_until("bob", NOW, pinned=True) is None
    assert not RULES.too_old(ended("j", "bob", 1_000, pinned=True), NOW)


def test_the_limits_for_a_query_say_the_same() -> None:
    assert RULES.age_limits(NOW) == [
        AgeLimit(NOW - 365 * DAY_S, "ann"),
        AgeLimit(NOW - 90 * DAY_S, "cy"),
        AgeLimit(NOW - 90 * DAY_S, others_than=("ann", "cy")),
    ]


def test_an_account_may_have_a_limit_where_the_others_have_none() -> None:
    rules = RetentionRules(accounts={"ann": AccountRule(days=30)})
    assert rules.by_age
    assert rules.age_limits(NOW) == [AgeLimit(NOW - 30 * DAY_S, "ann")]
    assert rules.days_of("bob") is None


def chosen(rules: RetentionRules, totals: dict[str, int], *jobs: EndedJob) -> list[str]:
    room = RoomToMake(rules, totals)
    return [job.id for job in jobs if room.needed and room.goes(job)]


def test_the_jobs_that_ended_first_go_until_the_logs_fit() -> None:
    jobs = ended("old", "ann", 3, 60), ended("next", "bob", 2, 30), ended("new", "ann", 1, 60)
    assert chosen(RetentionRules(log_bytes=100), {"ann": 120, "bob": 30}, *jobs) == ["old"]
    assert chosen(RetentionRules(log_bytes=89), {"ann": 120, "bob": 30}, *jobs) == ["old", "next"]
    assert chosen(RetentionRules(log_bytes=150), {"ann": 120, "bob": 30}, *jobs) == []


def test_the_limit_of_an_account_spares_the_others() -> None:
    rules = RetentionRules(log_bytes_per_account=50, accounts={"ann": AccountRule(log_bytes=200)})
    jobs = ended("a", "ann", 3, 120), ended("b", "bob", 2, 30), ended("c", "bob", 1, 30)
    assert chosen(rules, {"ann": 120, "bob": 60}, *jobs) == ["b"]


def test_what_goes_by_an_accounts_own_limit_makes_room_for_all() -> None:
    """Bob's older job used to go as well, though ann alone was above the limits."""
    rules = RetentionRules(log_bytes=100, accounts={"ann": AccountRule(log_bytes=50)})
    jobs = ended("b", "bob", 3, 40), ended("a0", "ann", 2, 60), ended("a1", "ann", 1, 50)
    assert chosen(rules, {"ann": 110, "bob": 40}, *jobs) == ["a0"]


def test_a_large_job_that_goes_frees_more_than_its_account_is_above() -> None:
    rules = RetentionRules(log_bytes=60, accounts={"ann": AccountRule(log_bytes=90)})
    jobs = ended("a0", "ann", 3, 60), ended("b", "bob", 2, 20), ended("a1", "ann", 1, 40)
    assert chosen(rules, {"ann": 100, "bob": 20}, *jobs) == ["a0"]


def test_pinned_jobs_and_jobs_without_logs_make_no_room() -> None:
    jobs = ended("a", "ann", 4, 70, pinned=True), ended("b", "ann", 3, 0), ended("c", "ann", 2, None)
    assert chosen(RetentionRules(log_bytes=10), {"ann": 80}, *jobs, ended("d", "ann", 1, 10)) == ["d"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90d", 90 * DAY_S),
        ("400d", 400 * DAY_S),
        ("36500d", 36_500 * DAY_S),
        ("12h", 43_200.0),
        ("1d12h", 1.5 * DAY_S),
        ("9000h", 375 * DAY_S),
        ("400d12h", 400.5 * DAY_S),
        ("36499d24h", 36_500 * DAY_S),
    ],
)
def test_an_age_is_read(text: str, seconds: float) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("-1d", "an age is more than 0, and not '-1d'; write for instance 90d"),
        ("0d", "an age is more than 0, and not '0d'; write for instance 90d"),
        ("00 days", "an age is more than 0, and not '00 days'; write for instance 90d"),
        ("2w", "'2w' is no age, since ages are in days; did you mean 14d?"),
        ("1y", "'1y' is no age, since ages are in days; did you mean 365d?"),
        ("10 years", "'10 years' is no age, since ages are in days; did you mean 3650d?"),
        ("90", "'90' has no unit; write for instance 90d"),
        ("1.5", "'1.5' has no unit; write for instance 90d"),
        ("1e400", "'1e400' has no unit; write for instance 90d"),
        ("0.0d", "an age is more than 0, and not '0.0d'; write for instance 90d"),
        ("0h0m", "an age is more than 0, and not '0h0m'; write for instance 90d"),
        ("00:00:00", "an age is more than 0, and not '00:00:00'; write for instance 90d"),
        ("876001h", "'876001h' is more than 36500 days"),
        ("400 days", "'400 days' is not a duration; did you mean 400d?"),
        ("36501d", "an age is at most 36500d, and not '36501d'"),
        ("9" * 64 + "d", "an age is at most 36500d, and not '" + "9" * 37 + "...'"),
    ],
)
def test_what_is_no_age_is_told(text: str, sentence: str) -> None:
    with pytest.raises(BadValue) as refused:
        parse_age(text)
    assert str(refused.value) == sentence
