"""What snapshots of code give to others, and what they need from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..auth.model import Account


class FindsCode(Protocol):
    """Whether a job's ``code`` is there; implemented by ``service.Code``."""

    async def find(self, account: Account, digest: str) -> bool:
        """Whether ``sha256:…`` is a whole snapshot of this account. It then counts as used now, so it is not removed
        before the job has taken hold of it.

        Raises:
            MountUnavailable: nobody knows, because the shared mount does not answer.
        """


class CodeUses(Protocol):
    """Which jobs need a snapshot; keys are ``account/sha256:…``."""

    async def live(self, key: str) -> Sequence[str]:
        """Ids of jobs, queued or running, that need it; jobs being submitted count."""
