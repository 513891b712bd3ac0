"""The trash of each personal space over HTTP, and the background task that empties it after a while."""

from __future__ import annotations

import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.mount import MountProbe
from headway.store import Timers

from ..auth.accounts import Accounts
from ..auth.model import Account
from ..filesystem import paths
from ..filesystem.rights import drop_groups
from ..schemas import FileDone, FileKind
from . import schemas as s
from . import trash_bin
from .homes import Homes
from .quotas import SpaceQuotas

log = get_logger(__name__)

_SWEEP_S = 3_600.0
_FIRST_SWEEP_S = 60.0


class Trash:
    """See trash_bin for where it lies."""

    def __init__(
        self,
        homes: Homes,
        spaces: SpaceQuotas,
        accounts: Accounts,
        mount: MountProbe,
        clock: Clock,
        timers: Timers,
        *,
        keep_s: float,
    ) -> None:
        self._homes = homes
        self._spaces = spaces
        self._accounts = accounts
        self._mount = mount
        self._clock = clock
        self._timers = timers  # what lies there ages by their clock, which nobody sets
        self._keep_s = keep_s
        # Its own: to delete ten million files, or to hang on a dead mount, holds nobody else.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="trash", initializer=drop_groups)

    def close(self) -> None:
        """Lets go of the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def items(self, account: Account, *, of: str) -> s.TrashList:
        """What is in it."""
        owner = self._homes.owner(account, of)
        found = await self._homes.within(owner, trash_bin.items)
        return s.TrashList(items=[self._item(item) for item in found])

    async def restore(self, account: Account, id: str, body: s.TrashRestore | None, *, of: str) -> FileDone:
        """Puts it back; see trash_bin.restore.

        Raises:
            NotFound, Conflict, InvalidInput: see there.
        """
        owner = self._homes.owner(account, of)
        to = paths.components(body.to) if body is not None else None
        path = await self._homes.within(owner, lambda space: trash_bin.restore(space, id, to))
        log.info("file.restored", owner=owner.name, by=account.name, trash=id)
        return FileDone(path=paths.shown("/".join(path)))

    async def forget(self, account: Account, id: str, *, of: str) -> None:
        """Deletes one thing for good."""
        owner = self._homes.owner(account, of)
        await self._homes.within(owner, lambda space: trash_bin.forget(space, id), removes=True)
        self._spaces.freed(owner)
        log.info("trash.forgotten", owner=owner.name, by=account.name, trash=id)

    async def empty(self, account: Account, *, of: str) -> None:
        """Deletes all of it for good."""
        owner = self._homes.owner(account, of)
        await self._homes.within(owner, trash_bin.empty, removes=True)
        self._spaces.freed(owner)
        log.info("trash.emptied", owner=owner.name, by=account.name)

    async def run(self) -> None:
        """Sweeps every hour."""
        await self._clock.sleep(_FIRST_SWEEP_S)
        while True:
            await self.sweep()
            await self._clock.sleep(_SWEEP_S)

    async def sweep(self) -> None:
        """Deletes for good what has been in the trash for long enough."""
        for account in await self._accounts.all():
            if not (await self._mount.check()).readable:
                return
            now = self._timers.now()
            try:
                gone = await self._homes.run(self._sweeping(account, now), self._thread)
            except FileNotFoundError:
                continue  # nobody has been there yet
            except (OSError, HeadwayError) as error:
                log.warning("trash.not_swept", account=account.name, reason=str(error))
                continue
            if gone:
                self._spaces.freed(account)
                log.info("trash.swept", account=account.name, items=gone)

    def _sweeping(self, account: Account, now: float) -> Callable[[], int]:
        def sweeping() -> int:
            return self._homes.blocking(
                account, lambda space: trash_bin.sweep(space, before=now - self._keep_s, now=now), make=False
            )

        return sweeping

    def _item(self, item: trash_bin.TrashEntry) -> s.TrashItem:
        deleted_at = self._timers.on_the_wall(item.deleted_at)
        return s.TrashItem(
            id=item.id,
            path=None if item.path is None else paths.shown("/".join(item.path)),
            kind=_kind(item.mode),
            size_bytes=item.size,
            deleted_at=deleted_at,
            expires_at=deleted_at + self._keep_s,
        )


def _kind(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return FileKind.FILE
    if stat.S_ISDIR(mode):
        return FileKind.FOLDER
    return FileKind.LINK if stat.S_ISLNK(mode) else FileKind.OTHER
