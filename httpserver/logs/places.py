"""How many logs are followed at once. Each costs the server a piece of it in memory while its reader is slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from headway.errors import TooMany

PER_ACCOUNT = 512  # four browsers that follow as much as one answer takes
PER_SERVER = 2048
_AGAIN_S = 5


class FollowPlaces:
    """Counts them by account and in all."""

    def __init__(self, per_account: int = PER_ACCOUNT, per_server: int = PER_SERVER) -> None:
        self._per_account = per_account
        self._per_server = per_server
        self._of: Counter[str] = Counter()

    @contextmanager
    def taken(self, account: str, number: int) -> Iterator[None]:
        """Holds so many places.

        Raises:
            TooMany: the account, or everybody together, would have more than may be.
        """
        again = {"retry_after_s": _AGAIN_S}
        if self._of[account] + number > self._per_account:
            raise TooMany(
                f"You follow many logs at once already, and may follow {self._per_account}: close some.", extra=again
            )
        if self._of.total() + number > self._per_server:
            raise TooMany("Too many logs are followed at once now; try again soon.", extra=again)
        self._of[account] += number
        try:
            yield
        finally:
            self._of[account] -= number
            if not self._of[account]:
                del self._of[account]
