"""The line of the request that is dealt with now, as far as it is known."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from .model import Outcome
from .words import AuditedRoute, shortened

_current: ContextVar[Draft | None] = ContextVar("headway_audit", default=None)

SERVICE = "the service itself"
_DETAIL_CHARACTERS = 1_000


@dataclass(slots=True)
class Draft:
    """A line that is not whole yet. ``way``: how it came: session, token, password, provider.

    ``number`` and ``written``: the row that is on disk already, and what it says of the outcome; 0: none is.
    """

    route: AuditedRoute
    at: float
    request_id: str = ""
    who: str = ""
    way: str = ""
    address: str = ""
    subject: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    number: int = 0
    written: Outcome | None = None
    silent: bool = False  # it proved to change nothing
    closed: bool = False  # the request has ended
    admitted: bool | None = None  # of one that is not signed in: whether its line is not left out; None: not asked yet
    writing: asyncio.Task[None] | None = None  # the row is on its way to the disk

    @property
    def detail(self) -> str:
        """The facts as JSON; empty: there are none."""
        if not self.facts:
            return ""
        text = json.dumps(self.facts, sort_keys=True, default=str)
        return text if len(text) <= _DETAIL_CHARACTERS else json.dumps({"facts": "too many to be kept"})


def current() -> Draft | None:
    """The draft of this request; None: it needs no line."""
    return _current.get()


def begin(draft: Draft | None) -> None:
    """From now on ``current`` is this one, for this request alone."""
    _current.set(draft)


def note(subject: str = "", *, who: str = "", way: str = "", **facts: Any) -> None:
    """What a route knows of its own change. Never pass a secret, a file's content or a value of an environment."""
    draft = _current.get()
    if draft is None:
        return
    draft.subject = shortened(subject) or draft.subject
    draft.who = who or draft.who
    draft.way = way or draft.way
    draft.facts |= facts


def nothing_changes() -> None:
    """This request only asks, as a dry run does."""
    draft = _current.get()
    if draft is not None:
        draft.silent = True


@contextlib.contextmanager
def of_service(word: str, subject: str, now: float, *, way: str = SERVICE, **facts: Any) -> Iterator[None]:
    """What is written inside is the service's own doing, and gets a line of this word. ``way``: what made it do so."""
    before = _current.get()
    draft = Draft(AuditedRoute(word, owner="own"), now, way=way, subject=shortened(subject), facts=facts)
    if before is not None:
        draft.request_id, draft.address = before.request_id, before.address
    _current.set(draft)
    try:
        yield
    finally:
        draft.closed = True
        _current.set(before)
