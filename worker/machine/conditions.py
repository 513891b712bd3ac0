"""What keeps this Worker from taking work, told to whoever asks and to ResourceManager at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headway.clock import Clock
from headway.logs import get_logger

from ..model import Condition

log = get_logger(__name__)


class Conditions:
    """Conditions by word and what they are of. Every change wakes ``changed``."""

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
        """The first that keeps work away."""
        return next((condition for condition in self._held.values() if condition.blocks_work), None)

    def set(self, word: str, sentence: str, *, blocks_work: bool = True, of: str = "") -> None:
        """Hold a condition, or with an empty sentence none of that word. Safe to say again. ``of`` keeps apart what
        has the same word: this machine's disk and the shared one may both be full."""
        key = (word, of)
        before = self._held.get(key)
        if not sentence:
            if before is None:
                return
            del self._held[key]
            log.info("condition.over", condition=word)
        elif before is None:
            self._held[key] = Condition(word, sentence, self._clock.now(), blocks_work)
            log.warning("condition.holds", condition=word, reason=sentence)
        elif before.sentence != sentence or before.blocks_work != blocks_work:
            # Numbers in a sentence (free bytes) change all the time: told at the next poll, not each by itself.
            self._held[key] = Condition(word, sentence, before.since, blocks_work)
            if before.blocks_work == blocks_work:
                return
        else:
            return
        self.changed.set()
        self._on_change()
