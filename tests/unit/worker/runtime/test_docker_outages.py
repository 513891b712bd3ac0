"""When an engine counts as away: around its going and coming, and as long as nobody has watched it."""

from __future__ import annotations

from worker.runtime.docker_outages import EngineOutages


def test_before_anybody_watched_the_engine_it_may_have_been_away() -> None:
    outages = EngineOutages()
    assert outages.cover(5.0)
    outages.over(100.0)
    assert outages.cover(5.0)
    assert outages.cover(104.0), "the news of its start may come a moment late"
    assert not outages.cover(200.0)


def test_an_outage_counts_with_a_moment_before_and_after() -> None:
    outages = EngineOutages()
    outages.over(0.0)
    outages.began(1_000.0)
    assert outages.cover(996.0), "the news of it may come a moment late"
    assert not outages.cover(990.0)
    assert outages.cover(5_000.0), "it is still away"
    outages.began(1_001.0)  # safe twice
    outages.over(1_010.0)
    assert [outages.cover(at) for at in (990.0, 996.0, 1_005.0, 1_014.0, 1_016.0)] == [False, True, True, True, False]
