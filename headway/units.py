"""Durations, sizes and CPU counts as people write them: one reading and one writing, the same on every
route.

The rule behind every refusal: nothing is guessed. A text that two well-known tools read differently is refused, with
the clear forms to choose from. ``8G``, say, is 2^33 bytes to Docker and Slurm and 8 * 10^9 to Kubernetes.
The tables are in docs/job-file.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3
TIB: Final = 1024**4

MIN_DURATION_S: Final = 0.1
MAX_DURATION_DAYS: Final = 365
MAX_DURATION_S: Final = MAX_DURATION_DAYS * 86_400.0
MAX_SIZE_BYTES: Final = 1024 * TIB
MAX_CPUS: Final = 4096

DURATION_FORMS: Final = ("90s", "15m", "2h", "1d", "1h30m", "HH:MM:SS")
SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB")


class BadValue(ValueError):
    """A value that can't be taken. ``str()`` is a clause that reads on after the name of the field."""

    def __init__(
        self,
        message: str,
        *,
        suggestion: str | None = None,
        allowed: tuple[str, ...] = (),
        retold: Callable[[str], BadValue] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion
        self.allowed = allowed
        self.retold = retold  # says it anew of the text that was typed, where that is known: 1.10 was read as 1.1


# --- durations -----------------------------------------------------------------------------------------

_UNIT_S: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_CLOCK = re.compile(r"([0-9]{1,4}):([0-9]{2}):([0-9]{2})")
_DURATION = re.compile(r"(?:[0-9]+d)?(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?")
_DECIMAL: Final = r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+"  # the same before every unit, and without one
_PLAIN_NUMBER = re.compile(_DECIMAL)
_ONE_UNIT = re.compile(rf"({_DECIMAL}) ?([dhms])")
_NUMBER = re.compile(rf"[+-]?(?:{_DECIMAL})(?:[eE][+-]?[0-9]+)?")
_PARTS = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]+)")
_LONG_NAMES: Final = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}


def number_in(text: str) -> str | None:
    """The plain number that a text looks like: ``2`` of ``2.`` or ``02``, ``10`` of ``1e1``. None: it is none."""
    if len(text) > 64 or not _NUMBER.fullmatch(text):
        return None
    exact = Decimal(text).normalize()
    return f"{exact:f}" if -64 < exact.adjusted() < 64 else text


@lru_cache(maxsize=4096)
def parse_duration(text: str, *, most_days: int = MAX_DURATION_DAYS) -> float:
    """Seconds, a whole number of milliseconds, from ``90s``, ``15m``, ``2h``, ``1d``, ``1h30m``, ``1.5h``,
    ``HH:MM:SS``. Raises BadValue on anything else, on less than 0.1 s and on more than ``most_days``."""
    if len(text) > 64:
        raise _bad_duration(text, most_days)
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, seconds = (int(part) for part in clock.groups())
        if minutes > 59 or seconds > 59:
            raise BadValue(f"{shown(text)} has minutes or seconds above 59 (the form is HH:MM:SS)")
        return _checked_duration(Decimal(hours * 3_600 + minutes * 60 + seconds), text, most_days)
    if one := _ONE_UNIT.fullmatch(text):
        return _checked_duration(Decimal(one[1]) * _UNIT_S[one[2]], text, most_days)
    if text and _DURATION.fullmatch(text):
        total = sum(int(number) * _UNIT_S[unit] for number, unit in _PARTS.findall(text))
        return _checked_duration(Decimal(total), text, most_days)
    raise _bad_duration(text, most_days)


def _checked_duration(seconds: Decimal, text: str, most_days: int) -> float:
    if seconds <= 0:
        raise BadValue(f"{shown(text)} is zero, which never means 'without limit'; write for instance 30m")
    if seconds > most_days * 86_400:
        raise BadValue(f"{shown(text)} is more than {most_days} days", suggestion=f"{most_days}d")
    millis = int((seconds * 1000).to_integral_value(rounding=ROUND_FLOOR))
    if millis < MIN_DURATION_S * 1000:
        raise BadValue(f"{shown(text)} is less than 0.1 seconds", suggestion="1s")
    return millis / 1000


def _bad_duration(text: str, most_days: int) -> BadValue:
    if len(text) > 64:
        return BadValue(f"{shown(text)} is not a duration; write for instance 90s or 15m", allowed=DURATION_FORMS)
    stripped = text.strip()
    if not stripped:
        return BadValue("is empty; write a duration such as 90s, 15m or 1h30m", allowed=DURATION_FORMS)
    if stripped.startswith("-"):
        return BadValue(f"{shown(text)} is negative; write a duration such as 90s or 15m", allowed=DURATION_FORMS)
    if _NUMBER.fullmatch(stripped):
        return _bare_number(text, stripped, ("s", "m", "h"), "m", DURATION_FORMS)
    if short := re.fullmatch(r"([0-9]{1,2}):([0-9]{2})", stripped):
        clock = f"{int(short[1]):02d}:{short[2]}"
        return BadValue(
            f"{shown(text)} may be hours and minutes or minutes and seconds; write {clock}:00 or 00:{clock}",
            allowed=DURATION_FORMS,
        )
    suggestion = _respell_duration(stripped, most_days)
    hint = f"did you mean {suggestion}?" if suggestion else "write 90s, 15m, 2h, 1d, 1h30m or HH:MM:SS"
    return BadValue(f"{shown(text)} is not a duration; {hint}", suggestion=suggestion, allowed=DURATION_FORMS)


def _respell_duration(text: str, most_days: int) -> str | None:
    """``15 Min`` -> ``15m``, ``30m1h`` -> ``1h30m``, ``1-02:00:00`` (Slurm) -> ``1d2h``; None if nothing
    fits."""
    if slurm := re.fullmatch(r"([0-9]+)-([0-9]{1,2}):([0-9]{2}):([0-9]{2})", text):
        days, hours, minutes, seconds = (int(part) for part in slurm.groups())
        return _format_millis(1000 * (days * 86_400 + hours * 3_600 + minutes * 60 + seconds))
    parts = _PARTS.findall(text)
    if not parts or _PARTS.sub("", text).replace("and", "").strip(" ,"):
        return None
    total = Decimal(0)
    for number, unit in parts:
        short = _LONG_NAMES.get(unit.lower())
        if unit.lower() in ("w", "week", "weeks"):
            total += Decimal(number) * 7 * 86_400
        elif unit in ("ms", "millis", "milliseconds"):
            total += Decimal(number) / 1000
        elif short is None:
            return None
        else:
            total += Decimal(number) * _UNIT_S[short]
    if not MIN_DURATION_S <= total <= most_days * 86_400:
        return None
    return _format_millis(int(total * 1000))


def format_duration(seconds: float) -> str:
    """The shortest exact form, to the millisecond: ``1h30m``, ``90m`` as ``1h30m``, ``0.5s``.
    ``parse_duration`` reads it back to the same number. Raises ValueError for a negative or non-finite
    number."""
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"not a duration: {seconds!r}")
    return _format_millis(round(seconds * 1000))


def round_duration(seconds: float) -> str:
    """For sentences: as ``format_duration``, from a minute on to whole seconds."""
    return format_duration(round(seconds) if seconds >= 60 else seconds)


def _format_millis(millis: int) -> str:
    whole, rest = divmod(millis, 1000)
    if rest:
        # Decimals go with one unit only, so that 1m0.5s (which no one would guess) is never written.
        return f"{whole}.{rest:03d}".rstrip("0") + "s"
    parts = []
    for unit, size in _UNIT_S.items():
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


# --- sizes ---------------------------------------------------------------------------------------------

_SIZE_BYTES: Final = {
    "B": 1,
    "KiB": KIB,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": TIB,
    "Ki": KIB,
    "Mi": MIB,
    "Gi": GIB,
    "Ti": TIB,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_SIZE = re.compile(rf"({_DECIMAL}) ?([A-Za-z]+)")


@lru_cache(maxsize=4096)
def parse_size(text: str) -> int:
    """Bytes from ``512MiB``, ``8GiB``, ``8Gi``, ``8GB`` (decimal), ``0.5 TiB`` or ``1024B``; part of a
    byte is dropped.

    Raises BadValue on anything else: a bare number, units that tools read differently (``8G``, ``8g``,
    ``500m``, ``KB``), zero, negative, more than 1024 TiB."""
    match = _SIZE.fullmatch(text) if len(text) <= 64 else None
    if match is None or match[2] not in _SIZE_BYTES:
        raise _bad_size(text)
    exact = Decimal(match[1]) * _SIZE_BYTES[match[2]]
    size = int(exact.to_integral_value(rounding=ROUND_FLOOR))
    if size <= 0:
        raise BadValue(f"{shown(text)} is less than one byte; leave it out for the default", allowed=SIZE_UNITS)
    if size > MAX_SIZE_BYTES:
        raise BadValue(f"{shown(text)} is more than 1024TiB", allowed=SIZE_UNITS)
    return size


def _bad_size(text: str) -> BadValue:
    if len(text) > 64:
        return BadValue(f"{shown(text)} is not a size; write for instance 512MiB or 8GiB", allowed=SIZE_UNITS)
    stripped = text.strip()
    if not stripped:
        return BadValue("is empty; write a size such as 512MiB or 8GiB", allowed=SIZE_UNITS)
    if stripped.startswith("-"):
        return BadValue(f"{shown(text)} is negative; write a size such as 512MiB or 8GiB", allowed=SIZE_UNITS)
    if _NUMBER.fullmatch(stripped):
        return _bare_number(text, stripped, ("MiB", "GiB", "B"), "MiB", SIZE_UNITS)
    match = _SIZE.fullmatch(re.sub(r"\s+", " ", stripped))
    letter = match[2][0].upper() if match else ""
    if match is None or letter not in "BKMGT":
        return BadValue(f"{shown(text)} is not a size; write for instance 512MiB, 8GiB or 8GB", allowed=SIZE_UNITS)
    number, unit = match.groups()
    if unit == "m":
        return BadValue(
            f"{shown(text)}: 'm' is a thousandth in some tools and a mebibyte in others; write {number}MiB",
            suggestion=f"{number}MiB",
            allowed=SIZE_UNITS,
        )
    binary = f"{number}{letter}iB"
    decimal = f"{number}{'k' if letter == 'K' else letter}B"
    if (len(unit) == 1 and letter != "B") or unit == "KB":
        return BadValue(
            f"{shown(text)} counts in steps of 1024 for some tools and of 1000 for others; "
            f"write {binary} ({_grouped(binary)} bytes) or {decimal} ({_grouped(decimal)} bytes)",
            suggestion=binary,
            allowed=SIZE_UNITS,
        )
    for known in SIZE_UNITS:
        if unit.lower() in (known.lower(), known.lower() + "s"):
            return BadValue(
                f"{shown(text)} has an unknown unit '{unit}'; did you mean {number}{known}?",
                suggestion=f"{number}{known}",
                allowed=SIZE_UNITS,
            )
    return BadValue(
        f"{shown(text)} has an unknown unit '{unit}'; the units are {', '.join(SIZE_UNITS)}",
        allowed=SIZE_UNITS,
    )


def _grouped(text: str) -> str:
    number, unit = _SIZE.fullmatch(text).groups()  # type: ignore[union-attr]
    return f"{int(Decimal(number) * _SIZE_BYTES[unit]):,}"


def format_size(size_bytes: int) -> str:
    """The shortest exact form: ``8GiB``, ``8GB``, ``1536MiB``, ``1234B``. ``parse_size`` reads it back to
    the same number. Raises ValueError for a negative number."""
    if size_bytes < 0:
        raise ValueError(f"not a size: {size_bytes!r}")
    best = f"{size_bytes}B"
    for unit in ("KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB"):
        count, rest = divmod(size_bytes, _SIZE_BYTES[unit])
        if count and not rest and len(f"{count}{unit}".replace("i", "")) < len(best.replace("i", "")):
            best = f"{count}{unit}"
    return best


def round_size(size_bytes: int) -> str:
    """For sentences: as ``format_size`` where that is short, else three figures rounded down: ``22.3GiB``."""
    exact = format_size(size_bytes)
    if len(exact) <= 7:
        return exact
    unit = next((unit for unit in ("TiB", "GiB", "MiB", "KiB") if size_bytes >= _SIZE_BYTES[unit]), "B")
    count = size_bytes / _SIZE_BYTES[unit]
    step = 100 if count < 10 else 10 if count < 100 else 1
    return f"{math.floor(count * step) / step:g}{unit}"


# --- CPUs ----------------------------------------------------------------------------------------------


def parse_cpus(value: int | float | str) -> int:
    """Hundredths of a CPU from 2, 0.5 or ``"0.5"``. Raises BadValue if it is not above 0 in steps of 0.01,
    or above 4096. Booleans are refused: ``cpus: true`` is not one CPU."""
    if isinstance(value, bool):
        raise BadValue(f"is {str(value).lower()}; write a number such as 2 or 0.5")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadValue(f"{value} is not a number of CPUs; write a number such as 2 or 0.5")
    if isinstance(value, str):
        if value.endswith("m") and _PLAIN_NUMBER.fullmatch(value[:-1]):
            cpus = f"{(Decimal(value[:-1]) / 1000).normalize():f}"
            raise BadValue(f"{shown(value)} is not a number of CPUs; write {cpus}", suggestion=cpus)
        if len(value) > 64 or not _PLAIN_NUMBER.fullmatch(value):
            raise BadValue(f"{shown(value)} is not a number of CPUs; write a number such as 2 or 0.5")
    try:
        # repr, not the binary value: 0.29 is meant as 29 hundredths.
        exact = Decimal(value if isinstance(value, str) else repr(value))
    except InvalidOperation:
        raise BadValue(f"{shown(str(value))} is not a number of CPUs") from None
    if exact <= 0:
        raise BadValue(f"{value} is not above 0; write a number such as 2 or 0.5")
    if exact > MAX_CPUS:
        raise BadValue(f"{value} is more than {MAX_CPUS}")
    centi = exact * 100
    if centi != centi.to_integral_value():
        raise BadValue(f"{value} is finer than steps of 0.01")
    return int(centi)


def format_cpus(cpus_centi: int) -> str:
    """``2``, ``0.5``, ``1.25`` from hundredths of a CPU."""
    whole, rest = divmod(cpus_centi, 100)
    return f"{whole}.{rest:02d}".rstrip("0") if rest else str(whole)


def counted(number: int, one: str, many: str = "") -> str:
    """``1 layer``, ``2 layers``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def _bare_number(
    text: str, number: str, units: tuple[str, str, str], likely: str, allowed: tuple[str, ...]
) -> BadValue:
    """What to say about a number without a unit: is it zero, can a unit simply be put behind it, which is
    likely."""
    if not _PLAIN_NUMBER.fullmatch(number):
        return BadValue(f"{shown(text)} has no unit; write a plain number and a unit", allowed=allowed)
    if not number.strip("0."):
        return BadValue(f"{shown(text)} is zero, which never means 'without limit'", allowed=allowed)
    first, second, third = (f"{number}{unit}" for unit in units)
    return BadValue(
        f"{shown(text)} has no unit; write {first}, {second} or {third}",
        suggestion=f"{number}{likely}",
        allowed=allowed,
    )


def shown(text: str) -> str:
    """The offending text in quotes, cut short and without control characters, fit for a message and a
    terminal."""
    clipped = text if len(text) <= 40 else text[:37] + "..."
    return "'" + "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in clipped) + "'"
