"""The shared mount as the Worker uses it: its state, and the folders of attempts, homes, datasets and code."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from headway.clock import Clock
from headway.errors import MountUnavailable
from headway.ids import AttemptId
from headway.mount import Layout, MountKind, MountProbe, ensure_home, reach, weak_options
from headway.mount_rights import MountRights, look_at_rights

from ..model import Owner

T = TypeVar("T")

CALL_TIMEOUT_S = 10.0
_THREADS = 4
_HOME_FRESH_S = 60.0
_RIGHTS_S, _RIGHTS_AGAIN_S = 600.0, 30.0  # between looks at what it may do; the shorter while something is refused
_AGAIN_S = 2.0  # between looks at a mount that can't be used, since all work waits for it


class SharedMount(Protocol):
    """The shared mount. No call waits long for a mount that hangs."""

    @property
    def problem(self) -> str:
        """Why the mount can't be used, by the last look. Empty: it can be used."""
        ...

    def job_folder(self, attempt: AttemptId) -> Path:
        """The folder of the attempt's logs. It asks nothing."""
        ...

    def home_folder(self, owner: Owner) -> Path:
        """The account's personal space. It asks nothing and makes nothing."""
        ...

    async def home(self, owner: Owner) -> Path:
        """The account's personal space. It is made if it is missing, with mode 700 and the account's uid and gid.

        Raises:
            MountUnavailable: the mount is not there, full, or read-only.
        """
        ...

    async def dataset(self, name: str, version: str = "") -> Path:
        """The folder of a dataset's version. Empty: the newest.

        Raises:
            MountUnavailable: the mount is not there, or has no such dataset.
        """
        ...

    async def code(self, account: str, digest: str) -> Path:
        """The folder of a snapshot of the account's code.

        Raises:
            MountUnavailable: the mount is not there, or has no such snapshot.
        """
        ...

    async def call(self, work: Callable[[], T], *, within_s: float = CALL_TIMEOUT_S) -> T:
        """Run ``work`` in a thread for the mount, for at most ``within_s`` seconds.

        Raises:
            MountUnavailable: it hangs.
            OSError: as raised by ``work``.
        """
        ...


class MountWatch:
    """``SharedMount`` on a real mount. ``run`` looks at it regularly.

    What counts as a change: another problem than at the last look, or none any more.
    """

    def __init__(
        self, layout: Layout, cluster: str, clock: Clock, on_change: Callable[[], None], *, every_s: float = 10.0
    ) -> None:
        self._layout = layout
        self._cluster = cluster
        self._probe = MountProbe(layout, cluster)
        self._clock = clock
        self._on_change = on_change
        self._every_s = every_s
        self._problem = f"{layout.root} has not been looked at yet."
        self._full = False
        self._weakness = ""
        self._rights = MountRights()
        self._rights_at = -math.inf
        self._homes: dict[str, float] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mount")

    @property
    def problem(self) -> str:
        return self._problem

    @property
    def full(self) -> bool:
        """Whether the problem is that the mount is full."""
        return self._full

    @property
    def weakness(self) -> str:
        """What the mount's options allow that no task needs. Empty: nothing. It is no problem for work."""
        return self._weakness

    @property
    def rights(self) -> MountRights:
        """What this Worker may not do on the mount."""
        return self._rights

    async def look(self) -> str:
        """Look now, for some seconds at most. Returns the problem, empty if there is none."""
        state = await self._probe.check()
        changed = False
        if state.ok:
            changed = await self._look_at_rights()
        else:
            self._rights_at = -math.inf  # it may come back with others
        if state.sentence != self._problem:
            self._problem, self._full = state.sentence, state.kind is MountKind.FULL
            self._homes.clear()
            changed = True
        if changed:
            self._on_change()
        return self._problem

    async def run(self) -> None:
        while True:
            problem = await self.look()
            await self._clock.sleep(min(_AGAIN_S, self._every_s) if problem else self._every_s)

    async def _look_at_rights(self) -> bool:
        """Whether something is otherwise than at the last look."""
        again_s = _RIGHTS_AGAIN_S if self._rights.sentence else _RIGHTS_S
        if self._clock.monotonic() - self._rights_at < again_s:
            return False
        before = self._rights.sentence, self._rights.blocks_work, self._weakness
        with contextlib.suppress(MountUnavailable, OSError):  # the next look says why
            self._weakness = await self.call(lambda: weak_options(self._layout))
            self._rights = await self.call(lambda: look_at_rights(self._layout.root))
            self._rights_at = self._clock.monotonic()
        return before != (self._rights.sentence, self._rights.blocks_work, self._weakness)

    def job_folder(self, attempt: AttemptId) -> Path:
        return self._layout.attempt(attempt)

    def home_folder(self, owner: Owner) -> Path:
        return self._layout.home(owner.name)

    async def home(self, owner: Owner) -> Path:
        if self._problem:
            raise MountUnavailable(self._problem)
        now = self._clock.monotonic()
        if now - self._homes.get(owner.name, -_HOME_FRESH_S) < _HOME_FRESH_S:
            return self._layout.home(owner.name)
        await self.call(lambda: ensure_home(self._layout, owner.name, owner.uid, owner.gid))
        self._homes[owner.name] = now
        return self._layout.home(owner.name)

    async def dataset(self, name: str, version: str = "") -> Path:
        if not version:
            return await self.call(lambda: self._newest(name))
        folder = self._layout.dataset(name, version)
        return await self._folder(folder, f"Version {version} of the dataset {name} is not on the shared mount.")

    async def code(self, account: str, digest: str) -> Path:
        folder = self._layout.code(account, digest)
        return await self._folder(folder, f"The code {digest} of {account} is not on the shared mount.")

    async def call(self, work: Callable[[], T], *, within_s: float = CALL_TIMEOUT_S) -> T:
        # Threads of their own, so a mount that hangs blocks nothing else.
        try:
            return await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(self._threads, work), within_s)
        except TimeoutError as error:
            raise MountUnavailable(f"{self._layout.root} has not answered for {within_s:g} s.") from error

    def reach(self, folder: Path) -> AbstractContextManager[Path]:
        """A path to a folder that surely stays on the mount. See ``headway.mount.reach``. Blocks."""
        return reach(self._layout, self._cluster, folder)

    def close(self) -> None:
        """Release the threads. Safe twice."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _folder(self, folder: Path, missing: str) -> Path:
        if self._problem:
            raise MountUnavailable(self._problem)
        # Not through a link, whose target was not published.
        if not await self.call(lambda: folder.is_dir() and not folder.is_symlink()):
            raise MountUnavailable(missing)
        return folder

    def _newest(self, name: str) -> Path:
        folder = self._layout.dataset(name, "x").parent
        try:
            versions = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
        except OSError:
            versions = []
        if not versions:
            raise MountUnavailable(f"There is no dataset {name} on the shared mount.")
        return max(versions, key=lambda version: version.stat().st_mtime)
