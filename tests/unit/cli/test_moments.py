"""Moments on the command line stand with the zone of the clock that they are told by."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from headway.cli.common import moment
from headway.cli.start_times import clock

FIRST = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()
SECOND = FIRST + 3600


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_the_hour_that_comes_twice_is_two_moments() -> None:
    assert moment(FIRST) == "2026-10-25 02:30:00 +02:00"
    assert moment(SECOND) == "2026-10-25 02:30:00 +01:00"
    assert clock(FIRST, FIRST - 60) == "02:30:00 +02:00"
    assert clock(SECOND, FIRST - 60) == "02:30:00 +01:00"
    assert clock(SECOND, FIRST - 86_400) == "2026-10-25 02:30 +01:00"


def test_utc_has_its_zone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert moment(FIRST, "%H:%M") == "00:30 +00:00"
    monkeypatch.undo()
    time.tzset()
