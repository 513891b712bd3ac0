"""Silence, and what becomes of it."""

from __future__ import annotations

import pytest

from headway.states import NodeHealth
from resource_manager import health
from resource_manager.health import HEALTH, HealthSignal, HealthState, SilenceLimits

LIMITS = SilenceLimits(suspect_after_s=30, down_after_s=90)
READY, SUSPECT, DOWN = NodeHealth.READY, NodeHealth.SUSPECT, NodeHealth.DOWN


def test_the_table_is_total() -> None:
    for state in NodeHealth:
        for sign in HealthSignal:
            assert HEALTH.after(state, sign) in NodeHealth


@pytest.mark.parametrize(
    ("silent_s", "want"), [(0, READY), (29.9, READY), (30, SUSPECT), (89, SUSPECT), (90, DOWN), (9_999, DOWN)]
)
def test_silence_makes_suspect_and_then_down(silent_s: float, want: NodeHealth) -> None:
    health_state = health.on_registered(1_000)
    assert health.on_time(health_state, 1_000 + silent_s, LIMITS).health is want


def test_answers_from_before_a_silence_do_not_count_after_it() -> None:
    # Silence without one failed poll: the question hung.
    health_state = health.on_answer(health.on_answer(health.on_registered(0), 10), 20)
    health_state = health.on_answer(health.on_time(health_state, 200, LIMITS), 201)
    assert health_state.health is DOWN
    assert health.on_answer(health_state, 211).health is READY


def test_a_suspect_node_is_ready_after_one_answer_and_a_down_one_after_two() -> None:
    suspect = health.on_time(health.on_registered(0), 40, LIMITS)
    assert health.on_answer(health.on_failure(suspect, "no route"), 41).health is READY
    down = health.on_failure(health.on_time(health.on_registered(0), 100, LIMITS), "no route")
    once = health.on_answer(down, 101)
    assert once.health is DOWN
    assert health.on_time(once, 110, LIMITS).health is DOWN
    assert health.on_answer(once, 111).health is READY


def test_a_down_node_that_answers_every_other_time_stays_down() -> None:
    health_state = health.on_failure(health.on_time(health.on_registered(0), 100, LIMITS), "")
    for at in range(110, 300, 20):
        health_state = health.on_answer(health_state, at)
        health_state = health.on_time(health.on_failure(health_state, "flapping"), at + 10, LIMITS)
        assert health_state.health is DOWN


def test_after_a_restart_of_the_service_a_node_is_suspect_until_it_answers() -> None:
    health_state = health.at_start(500)
    assert health_state.health is SUSPECT
    assert "since Headway was started 5 s ago" in health.sentence(health_state, 505)
    assert health.on_answer(health_state, 505).health is READY
    assert health.on_time(health_state, 500 + 90, LIMITS).health is DOWN


def test_a_pause_of_the_service_itself_counts_against_nobody() -> None:
    health_state = health.forgive(health.on_registered(0), 3_600)
    assert health.on_time(health_state, 3_605, LIMITS).health is READY


def test_the_sentence_says_why() -> None:
    health_state = health.on_failure(HealthState(SUSPECT, seen=0), "Worker at 10.0.0.5:7004 does not answer.")
    text = health.sentence(health_state, 35)
    assert text == (
        "It has not answered for 35 s (Worker at 10.0.0.5:7004 does not answer). No new work is sent there."
    )
    assert health.sentence(HealthState(READY, seen=0), 1) == ""
    assert health.sentence(HealthState(READY, seen=0), 1, ("The disk is full.",)) == "The disk is full."
    assert "2 h" in health.sentence(HealthState(DOWN, seen=0), 7_500)
