"""Snapshots of code, as the routes and a submission call them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, delete, insert, select, update

from headway.clock import Clock
from headway.errors import HeadwayError, InvalidInput, Problem, TooLarge
from headway.logs import get_logger
from headway.mount import Layout, MountKind, MountProbe
from headway.snapshot import SnapFile, SnapLink, digest_of, is_digest, problems, too_big
from headway.store import Database

from ..auth.accounts import Accounts
from ..auth.model import Account
from ..uses.service import Ref, Uses
from . import schemas as s
from .store import CodeStore, as_headway_error
from .tables import snapshots

log = get_logger(__name__)
T = TypeVar("T")

KIND = "code"
_THREADS = 4
_GATHER = 1 << 20
_COLLECT_EVERY_S = 3_600.0
_TOLD = 20


class CodeLimits(NamedTuple):
    """Of one snapshot, and how long an unused one stays."""

    bytes: int = 1 << 30
    files: int = 100_000
    keep_s: float = 30 * 86_400.0


class CodeSnapshots:
    """See the module. ``run`` is a side task."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        layout: Layout,
        mount: MountProbe,
        accounts: Accounts,
        uses: Uses,
        limits: CodeLimits,
    ) -> None:
        self._db = db
        self._clock = clock
        self._layout = layout
        self._mount = mount
        self._accounts = accounts
        self._uses = uses
        self.limits = limits
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="code")
        self._of_account: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._swept = False
        uses.check_exists(KIND, self._is_there)

    def close(self) -> None:
        """Lets go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # -- for submits ----------------------------------------------------------------------------

    async def find(self, account: Account, digest: str) -> bool:
        """See ``ports.CodeFinder``."""
        if not is_digest(digest):
            return False
        await self._mount.require(MountKind.FULL, MountKind.READ_ONLY)
        async with self._of_account[account.name]:
            store = self._store(account)
            if not await self._in_thread(lambda: store.has(digest)):
                return False
            await self._db.write(lambda conn: _touch(conn, account.name, digest, self._clock.now()))
            return True

    async def _is_there(self, key: str) -> bool:
        name, _, digest = key.partition("/")
        await self._mount.require(MountKind.FULL, MountKind.READ_ONLY)
        account = self._accounts.get(name)
        return account is not None and await self._in_thread(lambda: self._store(account).has(digest))

    # -- routes ---------------------------------------------------------------------------------

    async def list(self, account: Account) -> s.CodeList:
        """The account's snapshots, and what one may have."""
        query = select(snapshots).where(snapshots.c.account == account.name).order_by(snapshots.c.used_at.desc())
        rows = await self._db.read(lambda conn: conn.execute(query).all())
        return s.CodeList(
            snapshots=[
                s.CodeSnapshot(
                    digest=row.digest,
                    files=row.files,
                    size_bytes=row.size_bytes,
                    created_at=row.created_at,
                    used_at=row.used_at,
                    live_jobs=self._uses.live_in_memory(Ref(KIND, f"{account.name}/{row.digest}")),
                )
                for row in rows
            ],
            max_bytes=self.limits.bytes,
            max_files=self.limits.files,
            keep_s=self.limits.keep_s,
        )

    async def offer(self, account: Account, manifest: s.CodeManifest) -> s.CodeAnswer:
        """Makes the snapshot if all of its contents are there, else tells which are not.

        Raises:
            InvalidInput: it can't be made; the problems list everything that is wrong.
            TooLarge: more than a snapshot may have.
        """
        await self._mount.require()
        files, links, digest = await self._in_thread(lambda: self._checked(manifest))
        size = sum(file.size_bytes for file in files)
        store = self._store(account)
        async with self._of_account[account.name]:
            missing: Sequence[str] = ()
            if not await self._in_thread(lambda: store.has(digest)):
                missing = await self._in_thread(lambda: store.missing(files))
                if not missing:
                    await self._in_thread(store.prepare)
                    await self._in_thread(lambda: store.build(files, links))
                    log.info("code.stored", owner=account.name, digest=digest, files=len(files), bytes=size)
            if not missing:
                now = self._clock.now()
                await self._db.write(lambda conn: _put(conn, account.name, digest, len(files), size, now))
        return s.CodeAnswer(digest=digest, ready=not missing, missing=[*missing], size_bytes=size, files=len(files))

    def _checked(self, manifest: s.CodeManifest) -> tuple[Sequence[SnapFile], Sequence[SnapLink], str]:
        files = [SnapFile(f.path, f.sha256, f.size_bytes, f.executable) for f in manifest.files]
        links = [SnapLink(link.path, link.target) for link in manifest.links]
        entries = [(file.path, file.size_bytes) for file in files] + [(link.path, 0) for link in links]
        if sentence := too_big(entries, max_bytes=self.limits.bytes, max_files=self.limits.files):
            raise TooLarge(sentence)
        if not entries:
            raise InvalidInput("There is nothing in this snapshot.")
        found = [Problem("", f"`{path[:200]}` {clause}", word=path[:200]) for path, clause in problems(files, links)]
        if found:
            rest = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise InvalidInput(f"This can't be a snapshot: {found[0].message}{rest}.", problems=found[:_TOLD])
        return files, links, digest_of(files, links)

    async def receive(self, account: Account, body: AsyncIterable[bytes]) -> s.CodeBlobs:
        """Takes contents in, each checked against its name. What is whole stays when the line breaks off later.

        Raises:
            BlobRefused: see CodeStore.receive.
            StoreFull: no space.
        """
        await self._mount.require()
        store = self._store(account)
        path = await self._in_thread(store.incoming)
        try:
            await self._fill(path, body)
            count = await self._in_thread(lambda: _received(store, path))
        finally:
            await asyncio.shield(self._in_thread(lambda: path.unlink(missing_ok=True)))
        return s.CodeBlobs(stored=count)

    async def _fill(self, path: Path, body: AsyncIterable[bytes]) -> None:
        gathered = bytearray()
        async for chunk in body:
            gathered += chunk
            if len(gathered) >= _GATHER:
                data, gathered = bytes(gathered), bytearray()
                await self._in_thread(lambda data=data: _append(path, data))  # type: ignore[misc]
        await self._in_thread(lambda: _append(path, bytes(gathered)))

    # -- clearing away --------------------------------------------------------------------------

    async def run(self) -> None:
        """Removes what nobody has used for long, and at first what a kill left, until cancelled."""
        while True:
            try:
                # On a full mount most of all.
                await self._mount.require(MountKind.FULL)
                await self.collect()
            except (HeadwayError, OSError) as error:
                log.warning("code.not_collected", reason=str(error))
            await self._clock.sleep(_COLLECT_EVERY_S)

    async def collect(self) -> None:
        """One round."""
        before = self._clock.now() - self.limits.keep_s
        for account in await self._accounts.all_and_removed():
            async with self._of_account[account.name]:
                store = self._store(account)
                await self._adopt(account, store)
                query = select(snapshots.c.digest).where(
                    (snapshots.c.account == account.name) & (snapshots.c.used_at < before)
                )
                old = await self._db.read(lambda conn, q=query: list(conn.execute(q).scalars()))  # type: ignore[misc]
                for digest in old:
                    await self._remove(account, store, digest)
                first = not self._swept
                freed = await self._in_thread(lambda st=store, f=first: st.sweep(leftovers=f))  # type: ignore[misc]
                if freed:
                    log.info("code.swept", owner=account.name, bytes=freed)
        self._swept = True

    async def _remove(self, account: Account, store: CodeStore, digest: str) -> None:
        ref = Ref(KIND, f"{account.name}/{digest}")
        async with self._uses.deleting(ref):
            if await self._uses.live(ref):
                return
            used = [use.last_used_at for use in await self._uses.of(ref)]
            if used and max(used) >= self._clock.now() - self.limits.keep_s:
                return
            await self._in_thread(lambda: store.remove([digest]))
            await self._db.write(lambda conn: _drop(conn, account.name, digest))
        await self._uses.forget(ref)
        log.info("code.removed", owner=account.name, digest=digest)

    async def _adopt(self, account: Account, store: CodeStore) -> None:
        # A kill between the snapshot's rename and its row.
        there = await self._in_thread(store.digests)
        query = select(snapshots.c.digest).where(snapshots.c.account == account.name)
        known = set(await self._db.read(lambda conn: list(conn.execute(query).scalars())))
        now = self._clock.now()
        for digest in there:
            if digest not in known and is_digest(digest):
                await self._db.write(lambda conn, d=digest: _put(conn, account.name, d, 0, 0, now))  # type: ignore[misc]

    # -- inside ---------------------------------------------------------------------------------

    def _store(self, account: Account) -> CodeStore:
        return CodeStore(self._layout, account.name, account.gid)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _received(store: CodeStore, path: Path) -> int:
    with path.open("rb") as file:
        return store.receive(file)


def _append(path: Path, data: bytes) -> None:
    with as_headway_error(), path.open("ab") as file:
        file.write(data)


def _touch(conn: Connection, account: str, digest: str, now: float) -> None:
    mine = (snapshots.c.account == account) & (snapshots.c.digest == digest)
    conn.execute(update(snapshots).where(mine).values(used_at=now))


def _put(conn: Connection, account: str, digest: str, files: int, size: int, now: float) -> None:
    mine = (snapshots.c.account == account) & (snapshots.c.digest == digest)
    values = {"used_at": now, **({"files": files, "size_bytes": size} if files else {})}
    if conn.execute(update(snapshots).where(mine).values(**values)).rowcount == 0:
        row = {"account": account, "digest": digest, "files": files, "size_bytes": size}
        conn.execute(insert(snapshots).values(**row, created_at=now, used_at=now))


def _drop(conn: Connection, account: str, digest: str) -> None:
    conn.execute(delete(snapshots).where((snapshots.c.account == account) & (snapshots.c.digest == digest)))
