"""What keeps this Worker from accepting work. Others are told at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headway.clock import Clock
from headway.logs import get_logger

from ..model import Condition

log = get_logger(__name__)


class Conditions:
    """The conditions that hold now, by their word and their subject.

    ``changed`` is set when a condition begins, when it ends, and when it begins or ceases to block work.
    A new sentence alone does not count: its numbers, such as free bytes, change all the time.
    """

    def __init__(self, clock: Clock, on_change: Callable[[], None] = lambda: None) -> None:
        self._clock = clock
        self._on_change = on_change
        self._held: dict[tuple[str, str], Condition] = {}
        self.changed = asyncio.Event()

    @property
    def now(self) -> list[Condition]:
        """All that hold, oldest first."""
        return list(self._held.values())

    def blocking(self) -> Condition | None:
        """The first one that blocks work."""
        return next((condition for condition in self._held.values() if condition.blocks_work), None)

    def set(self, word: str, sentence: str, *, blocks_work: bool = True, of: str = "") -> None:
        """Set a condition. An empty sentence ends it. Safe twice.

        ``of`` is its subject, where several may have one word: this machine's disk and the mount may both be full.
        """
        key = (word, of)
        before = self._held.get(key)
        if sentence:
            since = before.since if before is not None else self._clock.now()
            self._held[key] = Condition(word, sentence, since, blocks_work)
        else:
            self._held.pop(key, None)
        after = self._held.get(key)
        began = before is None and after is not None
        ended = before is not None and after is None
        blocks_otherwise = before is not None and after is not None and before.blocks_work != after.blocks_work
        if began:
            log.warning("condition.holds", condition=word, reason=sentence)
        if ended:
            log.info("condition.over", condition=word)
        if began or ended or blocks_otherwise:
            self.changed.set()
            self._on_change()
