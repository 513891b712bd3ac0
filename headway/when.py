"""Instants and spans of time as people write them: the same reading for the API and the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from .units import BadValue, parse_duration, shown

FORMS = ("2026-11-01", "2026-11-01T14:30Z", "2026-11-01T14:30+01:00", "7d")
DEFAULT_SPAN_S = 30 * 86_400.0

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
_MOMENT = re.compile(rf"({_DAY})(?:[Tt ]({_TIME})([Zz]|[+-][0-9]{{2}}:?[0-9]{{2}})?)?")
_YEAR = re.compile(r"19[7-9][0-9]|20[0-9]{2}")
_DAYS = re.compile(r"[0-9]{1,4}")
_LIKE_A_DATE = re.compile(r"[0-9]{1,4}[-./][0-9]{1,2}|[0-9]{8}")


def parse_when(text: str, now: float) -> float:
    """Seconds since the epoch of ``2026-11-01`` (its beginning, in UTC), ``2026-11-01T14:30Z`` or with another zone,
    or ``7d`` (so long before ``now``).

    Raises:
        BadValue: it is none of these, or lies before 1970; the message reads on after the name of the field.
    """
    quoted = shown(text)
    if moment := _MOMENT.fullmatch(text):
        day, time, zone = moment.groups()
        if time and not zone:
            raise BadValue(f"{quoted} names no zone: write {day}T{time}Z for UTC, or {day}T{time}+01:00", allowed=FORMS)
        try:
            at = datetime.fromisoformat(f"{day}T{time}{zone.upper()}" if time else f"{day}T00:00Z")
        except ValueError:
            raise BadValue(f"{quoted} is no day or time that there is", allowed=FORMS) from None
        seconds = (at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    elif _LIKE_A_DATE.match(text):
        raise BadValue(f"{quoted} is no date: write it like 2026-11-01, or 2026-11-01T14:30Z", allowed=FORMS)
    else:
        try:
            seconds = now - parse_duration(text)
        except BadValue as error:
            meant = _meant(text, error)
            near = f" (did you mean {meant}?)" if meant else ""
            raise BadValue(
                f"{quoted} is no date and no time ago{near}: write for instance 2026-11-01, 2026-11-01T14:30Z or 7d",
                suggestion=meant,
                allowed=FORMS,
            ) from None
    if seconds < 0:
        raise BadValue(f"{quoted} lies before 1970")
    return seconds


def _meant(text: str, error: BadValue) -> str | None:
    """A bare number is one of days, or a year; a time ago has no sign."""
    bare = text.strip().removeprefix("-").removesuffix("ago").rstrip()
    if _YEAR.fullmatch(bare):
        return f"{bare}-01-01"
    if bare == text and not _DAYS.fullmatch(bare):
        return error.suggestion
    candidate = f"{bare}d" if _DAYS.fullmatch(bare) else bare
    try:
        parse_duration(candidate)
    except BadValue as worse:
        return worse.suggestion if candidate == bare else None
    return candidate


def parse_ahead(text: str, now: float) -> float:
    """Seconds since the epoch of an instant to come: as for ``parse_when``, but a span means so long after ``now``.

    Raises:
        BadValue: it is none of these, or has passed.
    """
    try:
        at = now + parse_duration(text)
    except BadValue:
        at = parse_when(text, now)
    if at <= now:
        raise BadValue(f"{shown(text)} has passed: name a time to come, such as 2h or 2026-11-01T14:30Z")
    return at


def shown_at(at: float) -> str:
    """An instant as sentences tell it, in UTC: ``2026-11-01 14:30 UTC``."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def parse_span(begin: str, end: str, now: float) -> tuple[float, float]:
    """Two instants; the second is not in the span. ``end`` empty: now. ``begin`` empty: 30 days before the end.

    Raises:
        BadSpan: one of them can't be taken, or they are in the wrong order.
    """
    to_at = now if not end else _part("to", end, now)
    if not begin:
        return max(0.0, to_at - DEFAULT_SPAN_S), to_at
    from_at = _part("from", begin, now)
    if from_at >= now:
        raise BadSpan("from", begin, f"{shown(begin)} has not come yet")
    if from_at >= to_at:
        behind = f"{shown(end)}, the end of the span" if end else "now"
        raise BadSpan("from", begin, f"{shown(begin)} is not before {behind}")
    return from_at, to_at


class BadSpan(BadValue):
    """``field``: which of the two, ``from`` or ``to``; ``word``: as it was written."""

    def __init__(
        self, field: str, word: str, message: str, *, suggestion: str | None = None, allowed: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, suggestion=suggestion, allowed=allowed)
        self.field = field
        self.word = word


def _part(field: str, text: str, now: float) -> float:
    try:
        return parse_when(text, now)
    except BadValue as error:
        raise BadSpan(field, text, error.message, suggestion=error.suggestion, allowed=error.allowed) from None
