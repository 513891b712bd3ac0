"""The data market, as the routes and a submission call it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack

from sqlalchemy import Connection

from headway.clock import Clock
from headway.errors import Conflict, InvalidInput, NotAllowed, NotFound
from headway.logs import get_logger
from headway.mount import MountKind, MountProbe
from headway.store import Database

from ..auth.accounts import Accounts
from ..auth.groups import require_groups
from ..auth.model import Account
from ..auth.ports import GroupMembership
from ..filesystem.paths import components
from ..filesystem.reading import telling_breaks
from ..schemas import ShareChange
from ..text import descriptions
from ..uses.service import Ref, Uses
from . import schemas as s
from . import store, unmanaged, views
from .ports import PinnedVersion
from .publisher import KIND, DatasetPublisher
from .store import Dataset, Version

log = get_logger(__name__)

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_LOOK_S = 3.0  # a caller waits so long to hear at once what is wrong with a folder
_READ_BYTES = 1 << 18
_NAMED = 5


class DatasetInUse(Conflict):
    """Jobs need it."""

    slug = "dataset-in-use"
    title = "Jobs still need this dataset"


class Datasets:
    """See the module."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        mount: MountProbe,
        accounts: Accounts,
        groups: GroupMembership,
        uses: Uses,
        publisher: DatasetPublisher,
    ) -> None:
        self._db = db
        self._clock = clock
        self._mount = mount
        self._accounts = accounts
        self._groups = groups
        self._uses = uses
        self._publisher = publisher
        uses.check_exists(KIND, self._is_there)

    # -- for submits ----------------------------------------------------------------------------

    async def find(self, account: Account, reference: str) -> PinnedVersion | None:
        """See ``ports.DatasetFinder``."""
        name, _, version = reference.partition("@")
        known = await self._load(name)
        if known is not None:
            if not known.visible(account, await self._groups.of(account.name)):
                return None
            found = known.of(version) if version else known.newest()
            return PinnedVersion(name, found.version) if found is not None and found.state == store.READY else None
        by_hand = await self._by_hand(name)
        if by_hand is None:
            return None
        names = [each for each, _ in by_hand.versions]
        if version:
            return PinnedVersion(name, version) if version in names else None
        return PinnedVersion(name, names[-1])

    async def usable(self, account: Account) -> Mapping[str, Sequence[str]]:
        """See ``ports.DatasetFinder``."""
        groups = await self._groups.of(account.name)
        known = await self._db.read(store.load)
        by_hand = await self._all_by_hand({d.name for d in known})
        found = {d.name: d.ready() for d in known if d.visible(account, groups)}
        found |= {each.name: [version for version, _ in each.versions] for each in by_hand}
        return {name: versions for name, versions in sorted(found.items()) if versions}

    async def _is_there(self, key: str) -> bool:
        name, _, version = key.partition("@")
        known = await self._load(name)
        if known is None:
            by_hand = await self._by_hand(name)
            return by_hand is not None and version in [each for each, _ in by_hand.versions]
        found = known.of(version)
        return found is not None and found.state == store.READY

    # -- looking --------------------------------------------------------------------------------

    async def list(self, account: Account, q: str) -> s.DatasetList:
        """All that the account may see, by name; ``q`` is part of the name or description."""
        groups = await self._groups.of(account.name)
        known = await self._db.read(store.load)
        found = [
            views.dataset(d, account, self._publisher, self._uses) for d in known if self._shown(d, account, groups)
        ]
        found += [views.by_hand(each) for each in await self._all_by_hand({d.name for d in known})]
        wanted = q.casefold().strip()
        return s.DatasetList(
            datasets=sorted(
                (d for d in found if wanted in d.name.casefold() or wanted in d.description.casefold()),
                key=lambda d: d.name,
            )
        )

    async def get(self, account: Account, name: str) -> s.Dataset:
        """One of them, with who uses it.

        Raises:
            NotFound: none that the account may see.
        """
        known = await self._load(name)
        if known is None:
            by_hand = await self._by_hand(name)
            if by_hand is None:
                raise _none(name)
            return views.by_hand(by_hand)
        if not self._shown(known, account, await self._groups.of(account.name)):
            raise _none(name)
        uses = [use for v in known.versions for use in await self._uses.of(Ref(KIND, v.key))]
        return views.dataset(known, account, self._publisher, self._uses, uses)

    async def checksums(self, account: Account, name: str, version: str) -> AsyncIterator[bytes]:
        """The text of a version's checksums, as ``sha256sum -c`` reads it.

        Raises:
            NotFound: no such version that is ready, or put there by hand.
        """
        known = await self._load(name)
        visible = known is not None and self._shown(known, account, await self._groups.of(account.name))
        found = known.of(version) if known is not None and visible else None
        if found is None or found.state != store.READY:
            raise NotFound(f"There are no checksums of `{name[:64]}@{version[:32]}` here.")
        await self._mount.require(MountKind.FULL, MountKind.READ_ONLY)
        path = self._publisher.places.side(name, version, "sha256")
        try:
            file = await self._publisher.quick(lambda: path.open("rb"))
        except FileNotFoundError:
            raise NotFound(f"The checksums of `{name}@{version}` are gone from the shared folder.") from None

        async def chunks() -> AsyncIterator[bytes]:
            with file, telling_breaks("The list of checksums"):
                while data := await self._publisher.quick(lambda: file.read(_READ_BYTES)):
                    yield data

        return chunks()

    # -- changing -------------------------------------------------------------------------------

    async def publish(self, account: Account, body: s.DatasetPublish) -> s.Dataset:
        """Begins to publish; refuses what can be seen at once to be impossible.

        Raises:
            InvalidInput: the name, version or path can't be.
            Conflict: the name is somebody else's, or the version is there already.
            NotFound, NotPublishable, CopyNeeded: see DatasetPublisher.look.
        """
        _check(body)
        path = "/".join(components(body.path))
        if not path:
            raise InvalidInput("Name a folder in the personal space; the whole space can't be published.")
        description = descriptions.checked(body.description) if body.description is not None else None
        self._may_publish(account, body, await self._load(body.name))
        await self._mount.require()
        if await self._load(body.name) is None and await self._by_hand(body.name) is not None:
            raise Conflict(
                f"The name `{body.name}` is taken by a folder that an admin put on the mount; choose another."
            )
        await self._publisher.look(account, path, copy=body.copy_, within_s=_LOOK_S)
        now = self._clock.now()

        def work(conn: Connection) -> Version:
            # Checked again inside the transaction: of two requests at once only one may win.
            found = store.load(conn, body.name)
            known = found[0] if found else None
            self._may_publish(account, body, known)
            if known is None:
                store.add_dataset(conn, _new(body, account, description or "", now))
            else:
                given = {"description": description, "public": body.public}
                store.change_dataset(conn, body.name, {k: v for k, v in given.items() if v is not None})
            row = Version(
                dataset=body.name,
                version=body.version or str(_next_number(known)),
                state=store.PUBLISHING,
                account=account.name,
                path=path,
                copy=body.copy_,
                starts=0,
                method="",
                files=0,
                size_bytes=0,
                checksum="",
                problem="",
                asked_at=now,
                published_at=None,
            )
            store.put_version(conn, row)
            return row

        row = await self._db.write(work)
        self._publisher.start(row)
        log.info("dataset.publishing", dataset=row.key, owner=account.name)
        return await self.get(account, body.name)

    def _may_publish(self, account: Account, body: s.DatasetPublish, known: Dataset | None) -> None:
        if known is None:
            return
        if not known.may_change(account):
            raise Conflict(f"The name `{body.name}` is taken by somebody else's dataset; choose another.")
        found = known.of(body.version) if body.version else None
        if found is not None and found.state != store.FAILED:
            raise Conflict(
                f"`{found.key}` is there already and never changes; leave `version` out to get the next number, or "
                "delete it first."
            )

    async def change(self, account: Account, name: str, body: s.DatasetChange) -> s.Dataset:
        """Description and who may see it.

        Raises:
            NotFound, NotAllowed: see :meth:`_own`.
            InvalidInput: shared with nobody that exists.
        """
        await self._own(account, name)
        changes = {
            "public": body.public,
            "description": descriptions.checked(body.description) if body.description is not None else None,
        }
        if body.shared_with is not None:
            self._refuse_strangers(body.shared_with)

        def work(conn: Connection) -> None:
            if body.shared_with is not None:
                require_groups(conn, body.shared_with.groups)
            store.change_dataset(conn, name, {k: v for k, v in changes.items() if v is not None})
            if body.shared_with is not None:
                store.set_shares(conn, name, body.shared_with.users, body.shared_with.groups)

        await self._db.write(work)
        return await self.get(account, name)

    def _refuse_strangers(self, wanted: ShareChange) -> None:
        unknown = sorted({name for name in wanted.users if self._accounts.get(name) is None})
        if unknown:
            raise InvalidInput(f"There is no account `{unknown[0][:64]}` to share with.")

    async def delete(self, account: Account, name: str, version: str | None, *, wait: bool) -> Sequence[str]:
        """Deletes a version, or all. What is being published is stopped.

        With ``wait``, versions that live jobs need are hidden at once and removed when the last of those jobs has
        ended. The answer names those jobs.

        Raises:
            NotFound, NotAllowed: see :meth:`_own`.
            DatasetInUse: jobs need it, and not ``wait``: nothing is deleted.
        """
        known = await self._own(account, name)
        going = [v for v in known.versions if v.state != store.DELETING and version in (None, v.version)]
        if not going:
            raise NotFound(f"There is no `{name[:64]}@{(version or '')[:32]}`.")
        live: set[str] = set()
        async with AsyncExitStack() as stack:
            for row in sorted(going, key=lambda v: v.key):
                await stack.enter_async_context(self._uses.deleting(Ref(KIND, row.key)))
                live.update(await self._uses.live(Ref(KIND, row.key)))
            if live and not wait:
                raise _in_use(name, sorted(live))
            await self._db.write(lambda conn: _mark(conn, going))
        for row in going:
            task = self._publisher.cancel(row.key)
            if task is not None:
                await task
            try:
                await self._publisher.remove(row)
            except OSError as error:
                # It is marked, and the publisher tries again every minute.
                log.error("dataset.not_removed", dataset=row.key, reason=str(error))
        log.info("dataset.deleted", dataset=name, version=version, by=account.name, waits_for=len(live))
        return sorted(live)

    # -- inside ---------------------------------------------------------------------------------

    async def _load(self, name: str) -> Dataset | None:
        found = await self._db.read(lambda conn: store.load(conn, name))
        return found[0] if found else None

    async def _by_hand(self, name: str) -> unmanaged.UnmanagedDataset | None:
        await self._mount.require(MountKind.FULL, MountKind.READ_ONLY)
        return await self._publisher.quick(lambda: unmanaged.find(self._publisher.places.root, name))

    async def _all_by_hand(self, managed: Collection[str]) -> Sequence[unmanaged.UnmanagedDataset]:
        await self._mount.require(MountKind.FULL, MountKind.READ_ONLY)
        return await self._publisher.quick(lambda: unmanaged.find_all(self._publisher.places.root, managed))

    def _shown(self, known: Dataset, account: Account, groups: Collection[str]) -> bool:
        return known.visible(account, groups) and any(v.state != store.DELETING for v in known.versions)

    async def _own(self, account: Account, name: str) -> Dataset:
        """
        Raises:
            NotFound: none that the account may see.
            NotAllowed: it is somebody else's, or an admin's by hand.
        """
        known = await self._load(name)
        if known is None:
            if await self._by_hand(name) is not None:
                raise NotAllowed(f"`{name}` was put on the mount by hand; an admin changes it there.")
            raise _none(name)
        if not self._shown(known, account, await self._groups.of(account.name)):
            raise _none(name)
        if not known.may_change(account):
            raise NotAllowed(f"`{name}` belongs to {known.owner}; only {known.owner} or an admin may do that.")
        return known


def _check(body: s.DatasetPublish) -> None:
    if not _NAME.fullmatch(body.name):
        raise InvalidInput(
            f"`{body.name[:80]}` can't name a dataset: lower-case letters, digits, `.`, `_` and `-`, starting with a "
            "letter or digit, up to 63."
        )
    if body.version is not None and not _VERSION.fullmatch(body.version):
        raise InvalidInput(
            f"`{body.version[:80]}` can't be a version: letters, digits, `.`, `_` and `-`, starting with a letter or "
            "digit, up to 32."
        )


def _new(body: s.DatasetPublish, account: Account, description: str, now: float) -> dict[str, object]:
    return {
        "name": body.name,
        "owner": account.name,
        "public": bool(body.public),
        "description": description,
        "created_at": now,
        "last_number": 0,
    }


def _next_number(known: Dataset | None) -> int:
    if known is None:
        return 1
    growing = [
        int(v.version)
        for v in known.versions
        if v.state != store.FAILED and v.version.isdecimal() and len(v.version) < 10
    ]
    return max([known.last_number, *growing]) + 1


def _mark(conn: Connection, going: Sequence[Version]) -> None:
    for row in going:
        store.change_version(conn, row, {"state": store.DELETING})


def _none(name: str) -> NotFound:
    return NotFound(f"There is no dataset `{name[:64]}` that you may see.")


def _in_use(name: str, live: Sequence[str]) -> DatasetInUse:
    some = ", ".join(live[:_NAMED]) + (f" and {len(live) - _NAMED} more" if len(live) > _NAMED else "")
    return DatasetInUse(
        f"`{name}` can't be deleted: queued or running jobs need it ({some}). Cancel them, or delete it "
        "with --wait (in the API: wait=true): then it is gone from the lists now, and from the disk when they have "
        "ended.",
        extra={"jobs": list(live)},
    )
