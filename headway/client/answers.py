"""JSON that a server sent. Another version may leave fields out; somebody else's JSON is no answer of Headway."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import httpx

from .errors import NotHeadway, media_of
from .fields import KINDS, NEEDED, default_of

# The year 9999. No date of most languages lies behind it.
_LATEST_S = 253_402_300_800


class Answer(dict[str, Any]):
    """A JSON object that the server sent.

    A field that is left out, or null where it never is, has the value that means nothing. So what was done is told all
    the same. A field of another kind is of somebody else.
    """

    __slots__ = ("_who",)

    def __init__(self, found: Mapping[str, Any], who: str) -> None:
        super().__init__(found)
        self._who = who

    def __missing__(self, name: str) -> Any:
        if name in NEEDED:
            raise NotHeadway(
                f"The answer of {self._who} has no `{name}`: it isn't Headway that answers there, or its version is "
                "another than this program's. `headway --version` tells this one."
            )
        value = default_of(name)
        return Answer(value, self._who) if isinstance(value, dict) else value

    def __getitem__(self, name: str) -> Any:
        found = super().get(name)
        if found is None:
            # What may be null says something by it; only what isn't there at all is of another version.
            return None if name in NEEDED and name in self else self.__missing__(name)
        return self._checked(name, found)

    def get(self, name: str, default: Any = None) -> Any:  # type: ignore[override]
        found = super().get(name)
        return default if found is None else self._checked(name, found)

    def __or__(self, more: Any) -> Answer:  # type: ignore[override]
        return Answer({**self, **more}, self._who)

    def rows(self, name: str) -> list[Any]:
        """A list of objects, and nothing else."""
        found = super().get(name)
        return self._as("rows", name, found) if found is not None else self.__missing__(name) or []

    def part(self, name: str) -> Any:
        """An object, and nothing else."""
        found = super().get(name)
        return self._as("object", name, found) if found is not None else self.__missing__(name) or Answer({}, self._who)

    def _checked(self, name: str, found: Any) -> Any:
        kinds = KINDS.get(name)
        if kinds is not None and not any(_is(kind, name, found) for kind in kinds):
            self._other(name)
        return found

    def _as(self, kind: str, name: str, found: Any) -> Any:
        if not _is(kind, name, found):
            self._other(name)
        return found

    def _other(self, name: str) -> None:
        raise NotHeadway(
            f"What answers at {self._who} isn't Headway: its `{name}` is of another kind. Is the address right? "
            "A portal or a proxy may answer in its place."
        )


def _is(kind: str, name: str, found: Any) -> bool:
    if kind in ("rows", "words", "numbers"):
        of: Any = {"rows": dict, "words": str, "numbers": (int, float, type(None))}[kind]
        return isinstance(found, list) and all(isinstance(one, of) for one in found)
    if kind == "integer":
        return isinstance(found, int) and not isinstance(found, bool)
    if kind == "number":
        good = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
        return good and (abs(found) < _LATEST_S or not (name == "at" or name.endswith("_at")))
    return isinstance(found, {"flag": bool, "text": str, "object": dict}[kind])


def read_json(response: httpx.Response) -> Any:
    """The answer's JSON object. An empty answer is None to a deletion, and an object without fields to other calls.

    Raises:
        NotHeadway: it isn't JSON, or no object.
    """
    if response.status_code == 204:
        return None if response.request.method == "DELETE" else parsed("{}", response)
    if "json" not in media_of(response):
        raise not_ours(response)
    return parsed(response.content, response)


def parsed(text: str | bytes, response: httpx.Response) -> Answer:
    """A JSON object of this answer, or of a part of it.

    Raises:
        NotHeadway: it is none.
    """
    who = f"{address_of(response)} (status {response.status_code}, {media_of(response)})"
    try:
        # Each object within it, too: what a row lacks is told like what the whole lacks.
        found = json.loads(text, object_hook=lambda found: Answer(found, who))
    except (ValueError, RecursionError) as error:
        raise not_ours(response) from error
    if not isinstance(found, Answer):
        raise not_ours(response)
    return found


def not_ours(response: httpx.Response) -> NotHeadway:
    """What to tell of an answer that is somebody else's."""
    return NotHeadway(
        f"What answers at {address_of(response)} isn't Headway (status {response.status_code}, "
        f"{media_of(response)}): is the address right? A portal or a proxy may answer in its place."
    )


def address_of(response: httpx.Response) -> str:
    """The address that answered, without its query."""
    return str(response.request.url.copy_with(query=None, fragment=None))
