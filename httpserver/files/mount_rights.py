"""What this service may not do on the shared mount: looked at now and then, told to admins, and to who can't work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headway.clock import Clock
from headway.errors import Conflict
from headway.logs import get_logger
from headway.mount import Layout, MountProbe
from headway.mount_rights import MountRights, look_at_rights

from ..auth.accounts import Accounts
from ..auth.model import Account

log = get_logger(__name__)

_EVERY_S, _AGAIN_S = 600.0, 30.0  # the shorter while something is refused, or the mount is away


class MountRightsWatch:
    """``run`` looks regularly. Until the first look nothing is known to be refused."""

    def __init__(
        self,
        layout: Layout,
        mount: MountProbe,
        accounts: Accounts,
        clock: Clock,
        look: Callable[[Path, Collection[str]], MountRights] = look_at_rights,
    ) -> None:
        self._layout = layout
        self._mount = mount
        self._accounts = accounts
        self._clock = clock
        self._look = look
        self._rights = MountRights()
        # Its own: a mount that hangs holds nobody else.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mount-rights")

    @property
    def sentence(self) -> str:
        """What is refused and how an admin mends it; empty: nothing."""
        return self._rights.sentence

    def require_home(self, account: Account) -> None:
        """Refuses work of an account that could have no home. Asks nothing.

        Raises:
            Conflict: with what an admin has to do.
        """
        home = self._layout.home(account.name)
        if why := self._rights.refuses(home, account.name, account.uid, account.gid):
            raise Conflict(why)

    async def run(self) -> None:
        """Looks at the start, and now and then."""
        while True:
            good = await self.look()
            await self._clock.sleep(_EVERY_S if good else _AGAIN_S)

    async def look(self) -> bool:
        """Looks now; whether all is well."""
        if not (await self._mount.check()).ok:
            return False
        before = self._rights.sentence
        names = [account.name for account in await self._accounts.all()]
        try:
            self._rights = await asyncio.get_running_loop().run_in_executor(
                self._thread, self._look, self._layout.root, names
            )
        except OSError:
            return False  # the mount went away meanwhile, and its own look says so
        if self._rights.sentence and self._rights.sentence != before:
            log.warning("mount.rights", reason=self._rights.sentence)
        if before and not self._rights.sentence:
            log.info("mount.rights_good")
        return not self._rights.sentence

    def close(self) -> None:
        """Lets go of the thread. Safe twice."""
        self._thread.shutdown(wait=False, cancel_futures=True)
