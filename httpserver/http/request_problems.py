"""What is wrong in a request's parameters and body, in sentences. Pure; pydantic's findings in, problems out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headway.errors import Problem
from headway.units import counted

_PLACES = {"query": "The parameter", "path": "The part of the address", "header": "The header", "cookie": "The cookie"}
# What the patterns of the schemas mean; a test holds that none is missing.
FORMS = {
    r"^[a-z_][a-z0-9_-]{0,31}$": "a small letter or `_`, then small letters, digits, `_` and `-`, up to 32 characters",
    r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$": "a letter, digit or `_`, then letters, digits, `_`, `.` and `-`, up to 128 "
    "characters",
    r"^[^:\x00-\x1f\x7f]+$": "written without `:` and without control characters",
    r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*$": "written without control characters",
    "^[0-9a-f]{64}$": "64 digits 0-9 and a-f",
    "^(sha256:[0-9a-f]{64})?$": "`sha256:` and 64 digits 0-9 and a-f",
    "^[0-9]*$": "digits 0-9",
    "^([1-9][0-9]{0,8}|latest)$": "a number from 1, or `latest`",
}
_KINDS = {
    "string": "a text",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "list": "a list",
    "dict": "an object",
    "model": "an object",
    "none": "null",
}
_LIMITS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than_equal": lambda ctx: f"must be at least {_plain(ctx['ge'])}",
    "greater_than": lambda ctx: f"must be more than {_plain(ctx['gt'])}",
    "less_than_equal": lambda ctx: f"may be {_plain(ctx['le'])} at most",
    "less_than": lambda ctx: f"must be less than {_plain(ctx['lt'])}",
    "string_too_long": lambda ctx: f"may have {counted(ctx['max_length'], 'character')} at most",
    "string_too_short": lambda ctx: _at_least(ctx["min_length"], "character"),
    "too_long": lambda ctx: f"may have {counted(ctx['max_length'], 'entry', 'entries')} at most",
    "too_short": lambda ctx: _at_least(ctx["min_length"], "entry", "entries"),
    "string_pattern_mismatch": lambda ctx: f"must be {FORMS.get(ctx['pattern'], 'written differently')}",
    "enum": lambda ctx: f"must be {ctx['expected']}".replace("'", "`"),
    "literal_error": lambda ctx: f"must be {ctx['expected']}".replace("'", "`"),
    "either": lambda ctx: f"may have {ctx['names']}, not both",
    "string_unicode": lambda ctx: "must be a text of whole characters",
    "bytes_invalid_encoding": lambda ctx: "must be a text in UTF-8",
}


NO_JSON = Problem("", "The body is no valid JSON.")


def problem(item: Mapping[str, Any]) -> Problem:
    """One finding at its place."""
    where, *rest = item.get("loc") or ("body",)
    kind = str(item.get("type", ""))
    if where == "body" and kind == "json_invalid":
        return NO_JSON
    word = str(rest[-1]) if rest else ""
    named = _named(where, rest)
    pointer = _pointer(rest) if where == "body" else ""
    if kind == "extra_forbidden":
        return Problem(pointer, f"{named} is not known here.", word=word)
    if kind == "missing":
        return Problem(pointer, f"{named} is missing.", word=word)
    return Problem(pointer, f"{named} {_what(kind, item)}.", word=word)


def _what(kind: str, item: Mapping[str, Any]) -> str:
    ctx: Mapping[str, Any] = item.get("ctx") or {}
    try:
        if kind in _LIMITS:
            return _LIMITS[kind](ctx)
    except (KeyError, TypeError, ValueError):
        return "is not valid"
    if kind in ("int_from_float", "finite_number"):
        return "must be a whole number" if kind == "int_from_float" else "must be a plain number, not nan or infinity"
    for start, words in _KINDS.items():
        if kind.startswith(f"{start}_"):
            return f"must be {words}"
    return "is not valid"


def _named(where: Any, rest: Sequence[Any]) -> str:
    if where != "body":
        return f"{_PLACES.get(where, str(where))} `{rest[0] if rest else ''}`"
    names = [part for part in rest if isinstance(part, str)]
    if not rest:
        return "The body"
    if isinstance(rest[-1], int):
        return f"Entry {rest[-1] + 1} of `{names[-1]}`" if names else f"Entry {rest[-1] + 1} of the body"
    return f"`{rest[-1]}`"


def _pointer(parts: Sequence[Any]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


def _at_least(number: int, one: str, many: str = "") -> str:
    return "must not be empty" if number == 1 else f"must have at least {counted(number, one, many)}"
