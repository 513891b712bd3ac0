"""Who waits for GPUs and lives: whoever may live is never told as dead."""

from __future__ import annotations

from worker.holds.waiting import NS, Waiters, WaitingJobs


def told(waiters: Waiters[str], at_s: float) -> WaitingJobs:
    return waiters.jobs(round(at_s * NS), 120)


def some_waiters() -> Waiters[str]:
    waiters: Waiters[str] = Waiters()
    waiters.hear_all(0)
    told(waiters, 0)
    return waiters


def test_who_waits_is_told_until_its_line_has_been_closed_for_a_while() -> None:
    waiters = some_waiters()
    waiters.put("k1", "line", "j1", 0)
    waiters.put("k2", "other", "j2", 0)
    assert told(waiters, 20) == WaitingJobs(("j1", "j2"), 20)
    waiters.gone("line", 20 * NS)
    assert told(waiters, 29) == WaitingJobs(("j1", "j2"), 29)
    assert told(waiters, 30) == WaitingJobs(("j2",), 30)


def test_one_that_comes_back_is_never_missed() -> None:
    waiters = some_waiters()
    waiters.put("k1", "line", "j1", 0)
    waiters.gone("line", 20 * NS)
    waiters.put("k1", "second line", "j1", 21 * NS)
    assert told(waiters, 31).jobs == ("j1",)


def test_nothing_is_known_while_one_has_not_said_what_it_waits_for() -> None:
    """A client of an older version never says it: it lives all the same."""
    waiters = some_waiters()
    waiters.put("k1", "line", "", 0)
    assert told(waiters, 20) == WaitingJobs((), 0.0)
    waiters.name("line", "j1")
    assert told(waiters, 21) == WaitingJobs(("j1",), 21)
    waiters.put("k2", "other", "", 22 * NS)
    waiters.gone("other", 23 * NS)
    assert told(waiters, 24) == WaitingJobs(("j1",), 1), "it may come back and say it"


def test_a_worker_that_starts_or_stops_knows_nothing_of_who_is_silent() -> None:
    waiters: Waiters[str] = Waiters()
    assert told(waiters, 1_000) == WaitingJobs((), 0.0)
    waiters.hear_all(1_000 * NS)
    assert told(waiters, 1_001) == WaitingJobs((), 1)
    waiters.hear_nobody()
    assert told(waiters, 1_002) == WaitingJobs((), 0.0)


def test_a_silent_one_is_not_told_any_more_but_after_a_sleep_of_the_machine() -> None:
    waiters = some_waiters()
    waiters.put("k1", "line", "j1", 0)
    for at_s in range(10, 120, 10):
        assert told(waiters, at_s).jobs == ("j1",)
    assert told(waiters, 120) == WaitingJobs((), 120)
    waiters.beat("line", 121 * NS)
    assert told(waiters, 121).jobs == ("j1",)
    assert told(waiters, 5_000).known_s == 0, "it slept: nobody could say a word"
    waiters.beat("line", 5_003 * NS)
    assert told(waiters, 5_010) == WaitingJobs(("j1",), 10)


def test_who_finds_no_room_is_not_taken_for_dead() -> None:
    waiters = some_waiters()
    for number in range(1_025):
        waiters.put(f"k{number}", f"line {number}", f"j{number}", 50 * NS)
    assert len(told(waiters, 60).jobs) == 1_024
    assert told(waiters, 60).known_s == 10
    assert waiters.take("k1024") is None
    assert waiters.take("k3") == "line 3"
    assert waiters.take("k3") is None
