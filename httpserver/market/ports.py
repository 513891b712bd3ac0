"""What the image market gives to other rooms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..auth.model import Account
from ..text.near_names import TaggedImage

if TYPE_CHECKING:
    from headway.archive import ImageInfo


@dataclass(frozen=True, slots=True)
class ResolvedMarketImage:
    """What an image name means to an account, now."""

    digest: str  # of the config: what engines call the image's id; the key of uses.Ref("image", …)
    full_name: str  # owner/name:tag, or owner/name@digest
    info: ImageInfo


class ImageFinder(Protocol):
    """How a job's image names become digests; implemented by ``service.ImageMarket``."""

    async def find(self, account: Account, image_name: str) -> ResolvedMarketImage | None:
        """The content that the name means now; a ``name`` without an owner is the account's own.

        Names are ``name`` or ``owner/name``, either with ``:tag`` or ``@sha256:…``. None: there is none that this
        account may see, whatever the reason.
        """

    async def tagged(self, account: Account, image_name: str) -> TaggedImage | None:
        """The image that the name is of, whatever tag or content it says; None: none that this account may see."""

    async def names(self, account: Account, at_most: int) -> Sequence[str]:
        """``owner/name:tag`` of what this account may use, the latest push first."""
