"""Opens an account's home: checks that the mount is there, and makes file calls with the account's rights."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

from headway.clock import Clock
from headway.errors import NotAllowed, NotFound
from headway.mount import Layout, MountKind, MountProbe, ensure_home
from headway.turns import Turns

from ..auth.accounts import Accounts
from ..auth.model import Account
from ..filesystem.rights import acting_as, drop_groups
from ..filesystem.system_calls import open_beneath
from .space import PersonalSpace

T = TypeVar("T")

_THREADS = 8
_REMOVALS = 2
_MOUNT_LOOK_S = 3.0


class Homes:
    """Runs blocking work in an account's home, in threads of its own."""

    def __init__(self, layout: Layout, mount: MountProbe, accounts: Accounts, clock: Clock) -> None:
        self._layout = layout
        self._mount = mount
        self._accounts = accounts
        self._clock = clock
        self._mount_good_until = -math.inf
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="files", initializer=drop_groups)
        # One account's hundred archives or searches must not hold up who wants one page of a folder.
        self.turns = {False: Turns(_THREADS), True: Turns(_REMOVALS)}
        # Of whole trees, for good: ten million files take minutes, and must not hold up who wants a page of a folder.
        self.removals = ThreadPoolExecutor(_REMOVALS, thread_name_prefix="removals", initializer=drop_groups)

    def close(self) -> None:
        """Lets go of the threads; those that hang on a dead mount are left behind."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        self.removals.shutdown(wait=False, cancel_futures=True)

    def owner(self, account: Account, of: str) -> Account:
        """Whose home is meant: one's own, or, for admins, that of the account named ``of``.

        Raises:
            NotAllowed, NotFound: another's; of nobody.
        """
        if of in ("", account.name):
            return account
        if not account.admin:
            raise NotAllowed("Another account's files are for that account and admins only.")
        owner = self._accounts.get(of)
        if owner is None:
            raise NotFound(f"There is no account `{of}`.")
        return owner

    async def within(
        self, owner: Account, work: Callable[[PersonalSpace], T], *, adds: bool = False, removes: bool = False
    ) -> T:
        """What ``work`` answers; the home is made where it isn't there yet.

        Args:
            adds: it needs room, so a full mount is refused beforehand.
            removes: it may take minutes, so it has threads of its own.

        Raises:
            MountUnavailable, StoreFull: the mount isn't there, or is full and ``adds``.
        """
        # A look writes and syncs; thousands of small files need not pay for one each.
        if self._clock.monotonic() > self._mount_good_until:
            # On a full mount people look for what they can delete, and from a read-only one they rescue what they
            # have.
            state = await self._mount.require(MountKind.READ_ONLY, *(() if adds else (MountKind.FULL,)))
            if state.ok:
                self._mount_good_until = self._clock.monotonic() + _MOUNT_LOOK_S
        executor = self.removals if removes else None
        async with self.turns[removes].of(owner.name):
            return await self.run(lambda: self.blocking(owner, work, make=True), executor)

    def blocking(self, owner: Account, work: Callable[[PersonalSpace], T], *, make: bool) -> T:
        """The same in this thread, without a look at the mount before.

        Raises:
            OSError: there is no home, and ``make`` is False.
        """
        if make:
            ensure_home(self._layout, owner.name, owner.uid, owner.gid)
        home = self._layout.home(owner.name)
        with ExitStack() as stack:
            # The home's own parent is Headway's, so it is opened as Headway; all below as the account.
            parent = os.open(home.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, parent)
            root = open_beneath(parent, home.name, os.O_PATH | os.O_DIRECTORY, links=False)
            stack.callback(os.close, root)
            stack.enter_context(acting_as(owner.uid, owner.gid))
            return work(PersonalSpace(root))

    async def acting(self, owner: Account, work: Callable[[], T]) -> T:
        """For descriptors that are open already."""

        def working() -> T:
            with acting_as(owner.uid, owner.gid):
                return work()

        async with self.turns[False].of(owner.name):
            return await self.run(working)

    async def run(self, work: Callable[[], T], executor: Executor | None = None) -> T:
        """In one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(executor or self.threads, work)
