"""JSON documents of an archive, read without trust."""

from __future__ import annotations

import json
import re
from typing import Any

from ..safe_text import printable_text
from .model import ArchiveRefused

_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


class JsonObject(dict[str, Any]):
    """A JSON object. ``ambiguous``: two keys differ in case only, which engines take for the same key."""

    ambiguous = ""


def parse(content: bytes, name: str) -> Any:
    """The value of a document.

    Raises:
        ArchiveRefused: it is no JSON, or says one thing twice.
    """
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant)
    except _Twice as twice:
        raise ArchiveRefused(f"{name} of the archive says {clean(str(twice), 60)!r} twice.") from twice
    except (ValueError, RecursionError) as error:
        raise ArchiveRefused(f"{name} of the archive is no valid JSON.") from error


def obj(value: Any, name: str, key: str = "") -> JsonObject:
    """``value``, which must be an object whose keys are clear. ``key``: where it stands in the document ``name``."""
    if not isinstance(value, JsonObject):
        raise wrong(name, key, "an object")
    if value.ambiguous:
        raise ArchiveRefused(f"{name} of the archive says {clean(value.ambiguous, 60)!r} twice.")
    return value


def objects(value: Any, name: str, key: str = "") -> list[JsonObject]:
    """``value``, which must be a list of objects (null: an empty one)."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong(name, key, "a list")
    return [obj(item, name, f"{key}[{index}]") for index, item in enumerate(value)]


def text(value: Any, name: str, key: str = "") -> str:
    """``value``, which must be a text (null: an empty one)."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise wrong(name, key, "a text")
    return value


def texts(value: Any, name: str, key: str = "") -> tuple[str, ...]:
    """``value``, which must be a list of texts (null: an empty one)."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise wrong(name, key, "a list of texts")
    return tuple(value)


def wrong(name: str, key: str, what: str) -> ArchiveRefused:
    """The refusal of a value that isn't ``what`` it should be; ``key``: where it stands, "" for the whole."""
    if not key:
        return ArchiveRefused(f"{name} of the archive is not what it should be: {what} is missing.")
    shown = printable_text(clean(key, 120))
    return ArchiveRefused(f"{name} of the archive is not what it should be: `{shown}` is not {what}.")


def clean(value: str, most: int = 32_768) -> str:
    """A text as it can be shown and kept in any database: without NUL and halves of characters."""
    return _NOT_TEXT.sub("\ufffd", value[:most])


class _Twice(ValueError):
    """An object has this key twice."""


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = JsonObject(pairs)
    if len(found) != len(pairs):
        met: set[str] = set()
        for key, _ in pairs:
            if key in met:
                raise _Twice(key)
            met.add(key)
    seen: set[str] = set()
    for key in found:
        folded = key.casefold()
        if folded in seen:
            found.ambiguous = key
        seen.add(folded)
    return found


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
