"""What the other rooms ask of groups of accounts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class GroupMembership(Protocol):
    """Who is in which group; implemented by ``auth.groups.Groups``."""

    async def of(self, account: str) -> Collection[str]:
        """Names of the groups that the account is in."""
