"""When the engine was away, as far as this Worker has seen. Pure.

An engine without live-restore ends its containers when it goes, and looks like a person who kills them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

# An engine that stops closes its API first, and one that starts ends what it can't take back before it opens it.
_AROUND_S = 5.0
_KEPT = 20


@dataclass(slots=True)
class EngineOutages:
    """Spans of time, in epoch seconds, in which the engine was not watched or did not answer."""

    _since: float | None = -math.inf  # None: the engine answers; at first nobody has watched it
    _spans: list[tuple[float, float]] = field(default_factory=list)

    def began(self, now: float) -> None:
        """The engine's stream of events broke. Safe twice."""
        if self._since is None:
            self._since = now

    def over(self, now: float) -> None:
        """The engine answers again."""
        if self._since is not None:
            self._spans.append((self._since, now))
            del self._spans[:-_KEPT]
            self._since = None

    def cover(self, at: float) -> bool:
        """Whether the engine was away around that moment, or may have been."""
        if self._since is not None and at >= self._since - _AROUND_S:
            return True
        return any(first - _AROUND_S <= at <= last + _AROUND_S for first, last in self._spans)
