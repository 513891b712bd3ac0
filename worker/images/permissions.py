"""Which images registries gave for which accounts, kept for when a registry can't be asked."""

from __future__ import annotations

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger

from ..model import WantedImage
from .ports import ImageJournal

log = get_logger(__name__)

AGE_S = 7 * 86_400.0  # a registry that takes a right back while it can't be asked is obeyed so late at most
_NOTE_S = 3_600.0  # what was given again sooner is not written down


class ImagePermissions:
    """By account and ``WantedImage.key``: in memory, and behind that in the journal. One event loop owns it."""

    def __init__(self, journal: ImageJournal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._given: dict[tuple[str, str], float] = {}

    async def open(self) -> None:
        """Read the journal and drop what is too old. Raises StoreUnavailable."""
        self._given = dict(await self._journal.load_rights())
        self._journal.drop_rights_later([right for right in self._given if not self._is_fresh(right)])
        self._given = {right: at for right, at in self._given.items() if self._is_fresh(right)}

    def give(self, wanted: WantedImage) -> None:
        """A registry gave it for this account, just now."""
        right, now = (wanted.account, wanted.key), self._clock.now()
        if wanted.account and not 0.0 <= now - self._given.get(right, float("-inf")) < _NOTE_S:
            self._given[right] = now
            self._journal.give_later(right, now)

    def has(self, wanted: WantedImage) -> bool:
        """Whether a registry gave it for this account, not too long ago, and has refused it nothing of this repository
        since."""
        return self._is_fresh((wanted.account, wanted.key))

    async def take(self, wanted: WantedImage) -> None:
        """A registry refused it: then nothing of the same repository is given on its word of before."""
        lost = [
            (account, key)
            for account, key in self._given
            if account == wanted.account and key.startswith(f"{wanted.repository}@")
        ]
        for right in lost:
            del self._given[right]
        try:
            await self._journal.take(lost)
        except HeadwayError as error:
            log.warning("image.right_not_dropped", image=wanted.name, account=wanted.account, reason=str(error))

    def _is_fresh(self, right: tuple[str, str]) -> bool:
        given_at = self._given.get(right)
        # A clock that was set back makes nothing last longer.
        return given_at is not None and 0.0 <= self._clock.now() - given_at < AGE_S
