"""Dates as people write them: what is taken, and what is refused with which words."""

from __future__ import annotations

import pytest

from headway.units import BadValue
from headway.when import BadSpan, parse_span, parse_when

NOW = 1_795_867_200.0  # 2026-11-28T12:00Z
DAY = 86_400.0


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2026-11-01", 1_793_491_200.0),
        ("2026-11-01T00:00Z", 1_793_491_200.0),
        ("2026-11-01 01:30+01:30", 1_793_491_200.0),
        ("2026-11-01t01:30:00.250+0130", 1_793_491_200.25),
        ("2026-10-31T23:59:30-00:00", 1_793_491_170.0),
        ("1970-01-01", 0.0),
        ("2024-02-29", 1_709_164_800.0),
        ("7d", NOW - 7 * DAY),
        ("90m", NOW - 5_400),
        ("1h30m", NOW - 5_400),
    ],
)
def test_what_is_taken(text: str, want: float) -> None:
    assert parse_when(text, NOW) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        # A bare number was taken for minutes, which nobody means who looks back at what was used.
        ("7", "7d"),
        ("-7", "7d"),
        ("-7d", "7d"),
        ("7d ago", "7d"),
        ("2 weeks ago", "14d"),
        ("2 weeks", "14d"),
        ("2026", "2026-01-01"),
        ("0", None),
        ("9999", None),
        ("yesterday", None),
    ],
)
def test_what_was_probably_meant_is_told(text: str, want: str | None) -> None:
    with pytest.raises(BadValue) as refused:
        parse_when(text, NOW)
    assert refused.value.suggestion == want
    assert (f"(did you mean {want}?)" in refused.value.message) is (want is not None)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2026-02-30", "no day or time that there is"),
        ("2026-11-01T25:00Z", "no day or time that there is"),
        ("2026-11-01T10:00", "names no zone: write 2026-11-01T10:00Z"),
        ("01.11.2026", "write it like 2026-11-01"),
        ("11/01/2026", "write it like 2026-11-01"),
        ("20261101", "write it like 2026-11-01"),
        ("2026-11", "write it like 2026-11-01"),
        ("2026-11-01T10:00Z and more", "write it like 2026-11-01"),
        ("2026-11-01\n", "write it like 2026-11-01"),
        ("1969-12-31", "before 1970"),
        ("0001-01-01T00:00+14:00", "before 1970"),
        ("7", "no date and no time ago"),
        ("-7d", "no date and no time ago"),
        ("2 weeks", "did you mean 14d?"),
        ("yesterday", "no date and no time ago"),
        ("٢٠٢٦-11-01", "no date and no time ago"),
        ("nan", "no date and no time ago"),
        ("9" * 5_000, "..."),
    ],
)
def test_what_is_refused(text: str, want: str) -> None:
    with pytest.raises(BadValue) as refused:
        parse_when(text, NOW)
    assert want in refused.value.message
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 200


def test_spans() -> None:
    assert parse_span("", "", NOW) == (NOW - 30 * DAY, NOW)
    assert parse_span("7d", "", NOW) == (NOW - 7 * DAY, NOW)
    assert parse_span("", "2026-11-01", NOW) == (1_793_491_200.0 - 30 * DAY, 1_793_491_200.0)
    assert parse_span("2026-11-01", "2026-12-01", NOW)[1] > NOW, "a month that is not over may be asked for"
    assert parse_span("", "1970-01-02", NOW) == (0.0, DAY)


@pytest.mark.parametrize(
    ("begin", "end", "field", "want"),
    [
        ("7d", "8d", "from", "'7d' is not before '8d'"),
        ("2026-11-01", "2026-11-01", "from", "is not before '2026-11-01'"),
        ("2026-12-01", "", "from", "has not come yet"),
        ("2026-12-01", "2026-12-31", "from", "has not come yet"),
        ("soon", "", "from", "'soon' is no date"),
        ("", "soon", "to", "'soon' is no date"),
    ],
)
def test_spans_that_are_none(begin: str, end: str, field: str, want: str) -> None:
    with pytest.raises(BadSpan) as refused:
        parse_span(begin, end, NOW)
    assert (refused.value.field, want in refused.value.message) == (field, True)
