"""Which images registries gave to which accounts. It counts while a registry can't be asked."""

from __future__ import annotations

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger

from ..model import WantedImage
from .ports import ImageJournal

log = get_logger(__name__)

AGE_S = 7 * 86_400.0  # a permission without a new answer of the registry ends after this time
_STORE_S = 3_600.0  # a permission that is renewed sooner is not stored again


class ImagePermissions:
    """Permissions by account and ``WantedImage.key``, in memory and in the journal. One event loop owns it."""

    def __init__(self, journal: ImageJournal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._given: dict[tuple[str, str], float] = {}

    async def open(self) -> None:
        """Read the journal and drop what is too old. Raises StoreUnavailable."""
        self._given = dict(await self._journal.load_permissions())
        self._journal.drop_permissions_later(
            [permission for permission in self._given if not self._is_fresh(permission)]
        )
        self._given = {permission: at for permission, at in self._given.items() if self._is_fresh(permission)}

    def grant(self, wanted: WantedImage) -> None:
        """A registry has just given the image to this account."""
        permission, now = (wanted.account, wanted.key), self._clock.now()
        if wanted.account and not 0.0 <= now - self._given.get(permission, float("-inf")) < _STORE_S:
            self._given[permission] = now
            self._journal.grant_later(permission, now)

    def has(self, wanted: WantedImage) -> bool:
        """Whether a registry gave it to this account lately, and has refused it nothing of this repository since."""
        return self._is_fresh((wanted.account, wanted.key))

    async def revoke(self, wanted: WantedImage) -> None:
        """A registry refused the image: drop this account's permissions for the whole repository."""
        lost = [
            (account, key)
            for account, key in self._given
            if account == wanted.account and key.startswith(f"{wanted.repository}@")
        ]
        for permission in lost:
            del self._given[permission]
        try:
            await self._journal.revoke(lost)
        except HeadwayError as error:
            log.warning("image.right_not_dropped", image=wanted.name, account=wanted.account, reason=str(error))

    def _is_fresh(self, permission: tuple[str, str]) -> bool:
        given_at = self._given.get(permission)
        # A clock that was set back must not make a permission last longer.
        return given_at is not None and 0.0 <= self._clock.now() - given_at < AGE_S
