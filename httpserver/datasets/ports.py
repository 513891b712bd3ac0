"""What the data market gives to other rooms, and what it needs from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ..auth.model import Account


class PinnedVersion(NamedTuple):
    """The version of a dataset that a job gets."""

    name: str
    version: str


class DatasetFinder(Protocol):
    """How a job's ``datasets`` become pins; implemented by ``service.Datasets``."""

    async def find(self, account: Account, reference: str) -> PinnedVersion | None:
        """The newest ready version of ``mnist``, or exactly that of ``mnist@2``. None: there is none that this
        account may see, whatever the reason. A version that is being deleted or published does not count.

        Raises:
            MountUnavailable: the shared mount does not answer.
        """

    async def usable(self, account: Account) -> Mapping[str, Sequence[str]]:
        """All names that ``find`` would find, each with its versions, the newest last.

        Raises:
            MountUnavailable: the shared mount does not answer.
        """


class RunningTaskLookup(Protocol):
    """Whether tasks of an account run, which may hold open what it publishes."""

    async def running(self, account: str) -> Sequence[str]:
        """Ids of its jobs that have running tasks.

        Raises:
            Unavailable: JobManager does not answer.
        """


class QuotaCheck(Protocol):
    """Quotas of personal spaces; implemented by ``files.quotas.SpaceQuotas``."""

    async def require_quota(self, account: Account, bytes: int) -> None:
        """
        Raises:
            StoreFull: so many bytes more would be beyond the account's quota.
        """
