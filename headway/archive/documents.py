"""JSON documents of an archive, read without trust."""

from __future__ import annotations

import json
import re
from typing import Any

from .model import ArchiveRefused

_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


class Obj(dict[str, Any]):
    """A JSON object. ``ambiguous``: two keys differ in case only, which engines take for the same key."""

    ambiguous = ""


def parse(content: bytes, name: str) -> Any:
    """The value of a document.

    Raises:
        ArchiveRefused: it is no JSON, or says one thing twice.
    """
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ArchiveRefused(f"{name} of the archive is no valid JSON.") from error


def obj(value: Any, name: str) -> Obj:
    """``value``, which must be an object whose keys are clear."""
    if not isinstance(value, Obj):
        raise ArchiveRefused(f"{name} of the archive is not what it should be: an object is missing.")
    if value.ambiguous:
        raise ArchiveRefused(f"{name} of the archive says {value.ambiguous[:60]!r} twice.")
    return value


def objects(value: Any, name: str) -> list[Obj]:
    """``value``, which must be a list of objects (null: an empty one)."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ArchiveRefused(f"{name} of the archive is not what it should be: a list is missing.")
    return [obj(item, name) for item in value]


def text(value: Any, name: str) -> str:
    """``value``, which must be a text (null: an empty one)."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ArchiveRefused(f"{name} of the archive is not what it should be: a text is missing.")
    return value


def texts(value: Any, name: str) -> tuple[str, ...]:
    """``value``, which must be a list of texts (null: an empty one)."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ArchiveRefused(f"{name} of the archive is not what it should be: a list of texts is missing.")
    return tuple(value)


def clean(value: str, most: int = 32_768) -> str:
    """A text as it can be shown and kept in any database: without NUL and halves of characters."""
    return _NOT_TEXT.sub("\ufffd", value[:most])


def _object(pairs: list[tuple[str, Any]]) -> Obj:
    found = Obj(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    seen: set[str] = set()
    for key in found:
        folded = key.casefold()
        if folded in seen:
            found.ambiguous = key
        seen.add(folded)
    return found


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
