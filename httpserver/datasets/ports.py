"""What the data market gives to others, and what it needs from them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from ..auth.model import Account


class Pinned(NamedTuple):
    """The version of a dataset that a job gets."""

    name: str
    version: str


class FindsDatasets(Protocol):
    """How a job's ``datasets`` become pins; implemented by ``service.Datasets``."""

    async def find(self, account: Account, reference: str) -> Pinned | None:
        """The newest ready version of ``mnist``, or exactly that of ``mnist@2``. None: there is none that this
        account may see, whatever the reason. A version that is being deleted or published is none either.

        Raises:
            MountUnavailable: nobody knows, because the shared mount does not answer.
        """


class Groups(Protocol):
    """Who is in which group."""

    async def of(self, account: str) -> Collection[str]:
        """Names of the groups that the account is in."""

    async def exist(self, names: Collection[str]) -> Collection[str]:
        """Those of ``names`` that are groups."""


class Use(Protocol):
    """That an account's jobs used something."""

    @property
    def account(self) -> str: ...
    @property
    def jobs(self) -> int: ...
    @property
    def last_used_at(self) -> float: ...


class DatasetUses(Protocol):
    """Which jobs use a version; keys are ``name@version``."""

    async def live(self, key: str) -> Sequence[str]:
        """Ids of jobs, queued or running, that need it; jobs being submitted count."""

    async def of(self, key: str) -> Sequence[Use]:
        """Who has used it."""

    def deleting(self, key: str) -> AbstractAsyncContextManager[None]:
        """While it is open no job can be submitted with it."""


class LiveTasks(Protocol):
    """Whether tasks of an account run, which may hold open what it publishes."""

    async def running(self, account: str) -> Sequence[str]:
        """Ids of its jobs that have running tasks.

        Raises:
            Unavailable: nobody can say.
        """
