"""Steady time: what the age of tasks is counted by."""

from __future__ import annotations

import re

from headway.clock import SystemClock
from headway.steady import Anchor, anchored
from tests.support.clock import FakeClock

HOUR_S = 3_600.0


def test_it_begins_as_the_wall_clock_and_is_not_set_with_it(clock: FakeClock) -> None:
    began = clock.now()
    anchor = anchored(None, clock)
    assert anchor.now(clock) == began
    clock.step_wall(-5 * HOUR_S)
    clock.tick(10)
    assert anchor.now(clock) == began + 10
    clock.step_wall(9 * HOUR_S)
    assert anchored(anchor, clock) == anchor, "written down, it goes on over a restart"
    assert anchor.now(clock) == began + 10


def test_in_another_life_of_the_machine_it_begins_anew_behind_what_was_written_down(clock: FakeClock) -> None:
    began = clock.now()
    anchor = anchored(None, clock)
    clock.reboot()
    clock.step_wall(HOUR_S)
    assert anchored(anchor, clock, latest=began).now(clock) == began + HOUR_S, "the machine was off for an hour"
    clock.step_wall(-3 * HOUR_S)  # its clock has no battery, say
    behind = anchored(anchor, clock, latest=began)
    assert behind.now(clock) == began
    assert behind.boot_id != anchor.boot_id


def test_the_machine_tells_its_life() -> None:
    boot_id = SystemClock().boot_id()
    assert re.fullmatch(r"[0-9a-f-]{36}", boot_id)
    assert SystemClock().boot_id() == boot_id
    assert Anchor(boot_id, 7.0).now(SystemClock()) >= SystemClock().monotonic()
