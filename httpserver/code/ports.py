"""What snapshots of code give to other rooms."""

from __future__ import annotations

from typing import Protocol

from ..auth.model import Account


class CodeFinder(Protocol):
    """Whether a job's ``code`` is there; implemented by ``service.CodeSnapshots``."""

    async def find(self, account: Account, digest: str) -> bool:
        """Whether ``sha256:…`` is a whole snapshot of this account. It then counts as used now, so it is not removed
        before the job has taken hold of it.

        Raises:
            MountUnavailable: the shared mount does not answer.
        """
