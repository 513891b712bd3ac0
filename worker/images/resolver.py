"""Resolves an image's name to a digest for one account, if that was not possible at submit.

An image that Headway fetched for one account is not for everybody. So the engine asks the registry for the name, with
the credentials of the task's account. Only the answer leads to an image that is already here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace

from headway.clock import Clock
from headway.logs import get_logger

from ..model import ImageSource, WantedImage
from ..ports import RuntimeRefused
from .permissions import ImagePermissions

log = get_logger(__name__)

_FRESH_S = 600.0  # registries limit how often they are asked
_MOST = 1_000


@dataclass(slots=True)
class _Resolution:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    digest: str = ""  # empty: not known yet
    asked_at: float = 0.0  # monotonic seconds


class ImageResolver:
    """The registries' answers by account, in memory. One event loop owns it."""

    def __init__(
        self, ask: Callable[[WantedImage], Awaitable[str]], permissions: ImagePermissions, clock: Clock
    ) -> None:
        """``ask`` gets a manifest's digest from the registry, with the account's credentials.

        It raises EngineUnavailable, or RuntimeRefused (``elsewhere``: the registry could not be asked). Then
        ``permissions`` decide.
        """
        self._ask = ask
        self._permissions = permissions
        self._clock = clock
        self._known: dict[tuple[str, str], _Resolution] = {}  # by account and name

    async def resolve(self, wanted: WantedImage) -> WantedImage:
        """The same image with its digest. Raises EngineUnavailable, RuntimeRefused.

        An answer is valid for some minutes. While the registry can't be reached, the last answer counts, or a digest in
        the name, as long as the account's permission lasts.
        """
        resolution = self._known.setdefault((wanted.account, wanted.name), _Resolution())
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        async with resolution.turn:
            if not resolution.digest or self._clock.monotonic() - resolution.asked_at >= _FRESH_S:
                await self._look_up(wanted, resolution)
        return _pinned(wanted, resolution.digest)

    def keys(self, names: Collection[str]) -> set[str]:
        """The keys of images that have one of these names for some account."""
        return {
            _pinned(WantedImage(name), resolution.digest).key
            for (_account, name), resolution in self._known.items()
            if name in names and resolution.digest
        }

    async def _look_up(self, wanted: WantedImage, resolution: _Resolution) -> None:
        try:
            resolution.digest = await self._ask(wanted)
        except RuntimeRefused as error:
            if not error.elsewhere:
                await self._permissions.revoke(wanted)
            before = _pinned(wanted, resolution.digest or wanted.name.partition("@")[2])
            resolution.digest = before.digest if self._permissions.has(before) else ""
            if not resolution.digest:
                raise
            log.info("image.meant_as_before", image=wanted.name, account=wanted.account, reason=str(error))
            return
        resolution.asked_at = self._clock.monotonic()
        self._permissions.grant(_pinned(wanted, resolution.digest))


def _pinned(wanted: WantedImage, digest: str) -> WantedImage:
    return replace(wanted, digest=digest, source=ImageSource.REGISTRY)
