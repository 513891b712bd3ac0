"""Publishes and removes versions in the background. After a restart it goes on where it was."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from headway.clock import Clock
from headway.errors import Conflict, HeadwayError, NotFound, StoreFull
from headway.logs import get_logger
from headway.mount import Layout, MountKind, MountProbe, ensure_home
from headway.snapshot import format_size_about
from headway.store import Database
from headway.turns import Turns
from headway.waiting import wait

from ..auth.accounts import Accounts
from ..auth.model import Account
from ..filesystem.paths import components, shown
from ..filesystem.rights import acting_as, drop_groups
from ..filesystem.system_calls import open_beneath
from ..uses.service import Ref, Uses
from . import store
from .ports import QuotaCheck, RunningTaskLookup
from .publication import ChangedMeanwhile, Method, Publication, as_headway_error, choose
from .source_folder import DatasetLimits, FolderScan, SourceFolder
from .staging import VersionFolders, VersionInfo, discard
from .store import Version

log = get_logger(__name__)
T = TypeVar("T")

KIND = "dataset"
_AT_ONCE = 2
_STARTS = 3
_LOOK_EVERY_S = 60.0
_FREE_AFTERWARDS = 1 << 30  # a copy leaves so much of the mount
_STOP_S = 5.0


class _Ended(Exception):
    """The service stops, or the version was deleted while it grew."""


class _Work:
    """One publishing under way."""

    def __init__(self) -> None:
        self.publication: Publication | None = None
        self.cancelled = False
        self.task: asyncio.Task[None] | None = None


class DatasetPublisher:
    """See the module. ``run`` is a side task; ``close`` is safe twice."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        layout: Layout,
        mount: MountProbe,
        accounts: Accounts,
        tasks: RunningTaskLookup,
        uses: Uses,
        room: QuotaCheck,
        limits: DatasetLimits,
    ) -> None:
        self._db = db
        self._clock = clock
        self._layout = layout
        self._mount = mount
        self._accounts = accounts
        self._tasks = tasks
        self._uses = uses
        self._room = room
        self.limits = limits
        self.places = VersionFolders(layout)
        # Publishing takes hours; what a caller waits for has threads of its own.
        self._slow = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="datasets", initializer=drop_groups)
        self._quick = ThreadPoolExecutor(4, thread_name_prefix="datasets-quick", initializer=drop_groups)
        self._places_free = Turns(_AT_ONCE)
        self._of_account: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._work: dict[str, _Work] = {}
        self._later: set[asyncio.Task[None]] = set()
        self._closing = False
        self._recovered = False
        self._wake = asyncio.Event()
        uses.when_freed(lambda ref: self._wake.set() if ref.kind == KIND else None)

    async def run(self) -> None:
        """Recovers once the mount is there, then removes what nobody needs any more, until cancelled."""
        while True:
            self._wake.clear()
            try:
                # On a full mount most of all.
                await self._mount.require(MountKind.FULL)
                if not self._recovered:
                    await self._recover()
                    self._recovered = True
                await self._sweep()
            except (HeadwayError, OSError) as error:
                log.warning("datasets.not_looked_after", reason=str(error))
            await wait(self._wake, _LOOK_EVERY_S, self._clock)

    async def close(self) -> None:
        """Stops; what is under way begins anew after the next start."""
        self._closing = True
        tasks = [work.task for work in self._work.values() if work.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_S)
        for task in (*tasks, *self._later):
            task.cancel()
        self._slow.shutdown(wait=False, cancel_futures=True)
        self._quick.shutdown(wait=False, cancel_futures=True)

    async def quick(self, work: Callable[[], T]) -> T:
        """Something short, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, work)

    def progress(self, key: str) -> float | None:
        """Of a version that grows; None: it doesn't."""
        work = self._work.get(key)
        if work is None:
            return None
        return work.publication.progress if work.publication is not None else 0.0

    def start(self, row: Version) -> None:
        """Publishes it from now on."""
        work = self._work[row.key] = _Work()
        work.task = asyncio.create_task(self._publish(row, work), name=f"publish {row.key}")

    def cancel(self, key: str) -> asyncio.Task[None] | None:
        """Stops publishing; the task to wait for, None if there is none."""
        work = self._work.get(key)
        if work is None:
            return None
        work.cancelled = True
        return work.task

    # -- looking before -------------------------------------------------------------------------

    async def look(self, account: Account, path: str, *, copy: bool, within_s: float) -> Method:
        """Whether the folder can be published, as far as that can be seen within this time.

        Raises:
            NotFound, Conflict, NotPublishable, TooLarge, CopyNeeded: it can't.
        """
        versions = await self._published_by(account.name)
        until = self._clock.monotonic() + within_s

        def looking() -> Method:
            with self._source(account, path, versions) as source:
                scanned: list[FolderScan] = []

                def scan() -> FolderScan:
                    if not scanned:
                        scanned.append(source.scan(self.limits, lambda: self._clock.monotonic() > until))
                    return scanned[0]

                scan().check(self.limits)
                return choose(self.places, source, copy=copy, counted=scan, root_tasks=account.may_use_image_user)

        try:
            method = await self.quick(looking)
        except OSError as error:
            raise as_headway_error(error) from error
        if method == "hardlink":
            await self._require_no_tasks(account.name)
        return method

    async def _require_no_tasks(self, account: str) -> None:
        if jobs := await self._tasks.running(account):
            more = f" and {len(jobs) - 5} more" if len(jobs) > 5 else ""
            raise Conflict(
                f"Tasks of yours are running ({', '.join(jobs[:5])}{more}) and may be writing to these files, which "
                "the dataset would share by hard links: wait for their end, or publish with --copy (in the API: "
                "copy: true).",
                extra={"live_jobs": list(jobs)},
            )

    # -- publishing -----------------------------------------------------------------------------

    async def _publish(self, row: Version, work: _Work) -> None:
        try:
            async with self._of_account[row.account], self._places_free.of(row.account):
                await self._publish_now(row, work)
        except _Ended:
            pass
        except (HeadwayError, OSError) as error:
            # The database or the mount is away: the row says that it has to be done, and the next start does it.
            log.error("dataset.publish_interrupted", dataset=row.key, reason=str(error))
        finally:
            del self._work[row.key]

    async def _publish_now(self, row: Version, work: _Work) -> None:
        try:
            info = await self._make(row, work)
        except _Ended:
            if work.cancelled and not self._closing:
                await self._discard(self.places.staging(row.dataset, row.version), row)
            raise
        except HeadwayError as error:
            await self._failed(row, error)
            return
        except OSError as error:
            await self._failed(row, as_headway_error(error))
            return
        await self._ready(row, info)

    async def _make(self, row: Version, work: _Work) -> VersionInfo:
        def stop() -> None:
            if self._closing or work.cancelled:
                raise _Ended

        stop()
        if row.starts >= _STARTS:
            raise HeadwayError(
                f"Publishing was begun {_STARTS} times and Headway was stopped each time; publish it again."
            )
        changes = {"starts": row.starts + 1}
        await self._db.write(lambda conn: store.change_version(conn, row, changes, state=store.PUBLISHING))
        account = self._accounts.get(row.account)
        if account is None:
            raise NotFound(f"There is no account `{row.account}` any more.")
        await self._mount.require()
        await self._discard(self.places.staging(row.dataset, row.version), row)
        versions = await self._published_by(row.account)
        opening = self._source(account, row.path, versions)
        source = await self._slowly(opening.__enter__)
        try:
            scanned = await self._slowly(lambda: source.scan(self.limits, lambda: self._closing or work.cancelled))
            stop()
            scanned.check(self.limits)
            method = await self._slowly(
                lambda: choose(
                    self.places, source, copy=row.copy, counted=lambda: scanned, root_tasks=account.may_use_image_user
                )
            )
            if method == "hardlink":
                await self._require_no_tasks(row.account)
            elif method == "copy":
                await self._room.require_quota(account, scanned.size_bytes)
                await self._slowly(lambda: self._require_space(scanned))
            made = work.publication = Publication(self.places, row.dataset, row.version, source, method, scanned, stop)
            await self._slowly(made.collect)
            await self._slowly(made.take_over)
            if method == "hardlink" and (jobs := await self._tasks.running(row.account)):
                # Whatever started since may have opened a file before it was taken over.
                raise ChangedMeanwhile(
                    f"A task of yours started while the folder was published ({jobs[0]}) and may be writing to it; "
                    "publish again when it has ended, or with --copy (in the API: copy: true)."
                )
            info = await self._slowly(made.check)
        finally:
            await self._slowly(lambda: opening.__exit__(None, None, None))
        try:
            await self._slowly(lambda: self.places.publish(row.dataset, row.version))
        except FileExistsError:
            raise Conflict(
                f"There is a folder {row.dataset}/{row.version} on the mount already that was not published here; "
                "choose another version."
            ) from None
        return info

    def _require_space(self, scanned: FolderScan) -> None:
        stat = os.statvfs(self.places.root)
        free = stat.f_bavail * stat.f_frsize
        if scanned.size_bytes + _FREE_AFTERWARDS > free:
            raise StoreFull(
                f"A copy takes {format_size_about(scanned.size_bytes)} and the shared folder has "
                f"{format_size_about(free)} left, of which {format_size_about(_FREE_AFTERWARDS)} have to stay free; "
                "nothing was published."
            )

    async def _ready(self, row: Version, info: VersionInfo) -> None:
        now = self._clock.now()
        changes = {
            "state": store.READY,
            "method": info.method,
            "files": info.files,
            "size_bytes": info.size_bytes,
            "checksum": info.checksum,
            "problem": "",
            "published_at": now,
        }
        await self._db.write(lambda conn: store.published(conn, row, changes))
        log.info("dataset.published", dataset=row.key, owner=row.account, files=info.files, bytes=info.size_bytes)

    async def _failed(self, row: Version, error: HeadwayError) -> None:
        await self._discard(self.places.staging(row.dataset, row.version), row)
        changes = {"state": store.FAILED, "problem": error.message}
        await self._db.write(lambda conn: store.change_version(conn, row, changes, state=store.PUBLISHING))
        log.info("dataset.failed", dataset=row.key, owner=row.account, slug=error.slug, reason=error.message)

    async def _discard(self, folder: Path, row: Version) -> None:
        versions = await self._published_by(row.account, without=row.key)

        def discarding() -> None:
            if folder.exists():
                discard(folder, keep=self.places.inodes(versions) if (folder / "owned").exists() else ())

        try:
            await self._slowly(discarding)
        except OSError as error:
            log.error("dataset.not_cleaned_up", folder=folder.name, reason=str(error))
            self._recovered = False  # the next look tries again

    # -- removing -------------------------------------------------------------------------------

    async def remove(self, row: Version) -> bool:
        """Removes it unless a job needs it. Then it stays as it is, and the answer is False.

        Raises:
            OSError: the mount does not let it go now.
        """
        ref = Ref(KIND, row.key)
        async with self._uses.deleting(ref):
            if await self._uses.live(ref):
                return False
            changes = {"state": store.DELETING}
            await self._db.write(lambda conn: store.change_version(conn, row, changes))
            gone = await self.quick(lambda: self.places.take_out(row.dataset, row.version))
            await self._db.write(lambda conn: store.drop_version(conn, row.dataset, row.version))
        await self._uses.forget(ref)
        log.info("dataset.removed", dataset=row.key)
        task = asyncio.create_task(self._discard_in_turn(gone, row))
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        return True

    async def _discard_in_turn(self, gone: Path, row: Version) -> None:
        # Not while this account publishes: the same file could be taken over and given back at once.
        with suppress(HeadwayError):
            async with self._of_account[row.account]:
                await self._discard(gone, row)

    async def _sweep(self) -> None:
        for row in await self._versions(store.DELETING):
            await self.remove(row)

    async def _recover(self) -> None:
        for grown in await self._versions(store.PUBLISHING):
            info = await self.quick(lambda r=grown: self.places.info(r.dataset, r.version))  # type: ignore[misc]
            if info is not None:
                await self._ready(grown, info)
        known = {row.key: row for row in await self._versions()}
        for folder in await self.quick(self.places.leftovers):
            key = folder.name.split("-", 1)[1]
            if key in self._work:
                continue
            row = known.get(key)
            ready = [r for r in known.values() if r.state == store.READY and r.method == "hardlink" and r.key != key]
            mine = [(r.dataset, r.version) for r in ready if row is None or r.account == row.account]
            log.info("dataset.cleaning_up", folder=folder.name)
            await self._slowly(lambda f=folder, m=mine: discard(f, keep=self.places.inodes(m)))  # type: ignore[misc]
        for unmade in await self._versions(store.PUBLISHING):
            if unmade.key not in self._work:
                self.start(unmade)

    async def _versions(self, *states: str) -> list[Version]:
        all_of_them = [row for dataset in await self._db.read(store.load) for row in dataset.versions]
        return [row for row in all_of_them if not states or row.state in states]

    # -- inside ---------------------------------------------------------------------------------

    async def _published_by(self, account: str, without: str = "") -> list[tuple[str, str]]:
        """Versions that took files over from this account."""
        found = await self._db.read(lambda conn: store.hard_linked_by(conn, account))
        return [(name, version) for name, version in found if f"{name}@{version}" != without]

    @contextmanager
    def _source(self, account: Account, path: str, versions: list[tuple[str, str]]) -> Iterator[SourceFolder]:
        home = self._layout.home(account.name)
        ensure_home(self._layout, account.name, account.uid, account.gid)
        folder = -1
        try:
            # The home's own parent is Headway's, so it is opened as Headway; all below as the account.
            parent = os.open(home.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                root = open_beneath(parent, home.name, os.O_PATH | os.O_DIRECTORY, links=False)
            finally:
                os.close(parent)
            try:
                with acting_as(account.uid, account.gid):
                    folder = open_beneath(root, "/".join(components(path)), os.O_PATH | os.O_DIRECTORY)
            except OSError as error:
                raise NotFound(f"There is no folder `{shown(path)}` in the personal space that can be read.") from error
            finally:
                os.close(root)
            yield SourceFolder(folder, account.uid, account.gid, self.places.inodes(versions))
        finally:
            if folder >= 0:
                os.close(folder)

    async def _slowly(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._slow, work)
