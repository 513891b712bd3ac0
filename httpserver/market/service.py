"""The image market: who may see, use and change which image."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from headway.archive import Composed, ImageInfo
from headway.clock import Clock
from headway.errors import Conflict, InvalidInput, NotAllowed, NotFound, Problem
from headway.logs import get_logger
from headway.store.database import Database

from ..auth.accounts import Accounts
from ..auth.groups import Groups, require_groups
from ..auth.model import Account
from ..schemas import ShareChange
from ..text import descriptions, near_names
from ..text.near_names import TaggedImage
from ..uses.service import Ref, Uses
from . import queries, store
from . import schemas as s
from .garbage_collection import ImageCollector, ImageFiles
from .names import LATEST, inner_tag
from .ports import ResolvedMarketImage

log = get_logger(__name__)
T = TypeVar("T")

_NAMED = 5  # jobs in a sentence
_TRIES = 5


class ImageInUse(Conflict):
    """Jobs need it."""

    slug = "image-in-use"
    title = "Jobs still need this image"


class ImageDownload(NamedTuple):
    """An image as a file to download."""

    full_name: str
    digest: str
    composed: Composed


class ImageMarket:
    """See the module."""

    def __init__(
        self,
        db: Database,
        files: ImageFiles,
        accounts: Accounts,
        groups: Groups,
        uses: Uses,
        collector: ImageCollector,
        clock: Clock,
    ) -> None:
        self._db = db
        self._files = files
        self._accounts = accounts
        self._uses = uses
        self._collector = collector
        self._clock = clock
        groups.when_deleted(store.drop_group)
        accounts.when_removed(store.drop_account)
        uses.check_exists("image", self.exists)

    # -- using ----------------------------------------------------------------------------------

    async def find(self, account: Account, image_name: str) -> ResolvedMarketImage | None:
        """What the name means to the account, now: ``name`` (its own), ``owner/name``, either with ``:tag`` or
        ``@sha256:…``. None: nothing that it may see, whatever the reason."""
        content = await self._read(lambda conn: _content(conn, account, image_name))
        if content is None:
            return None
        return ResolvedMarketImage(content.digest, content.full_name, ImageInfo.from_json(json.loads(content.info)))

    async def exists(self, digest: str) -> bool:
        """Whether a job may be submitted with this content."""
        return await self._read(lambda conn: store.exists(conn, digest))

    async def tagged(self, account: Account, image_name: str) -> TaggedImage | None:
        """See ``ports.ImageFinder``."""
        return await self._read(lambda conn: queries.tagged(conn, account, image_name))

    async def names(self, account: Account, at_most: int) -> list[str]:
        """See ``ports.ImageFinder``."""
        return await self._read(lambda conn: queries.names(conn, account, at_most))

    async def archive(self, account: Account, ref: str) -> ImageDownload:
        """The image for a download, tagged with its name.

        Raises:
            NotFound: nothing that the account may see.
            ImageDamaged, MountUnavailable: its files.
        """
        content = await self._read(lambda conn: _content(conn, account, ref))
        if content is None:
            raise await self._none(account, ref)
        tag = inner_tag(content.full_name)
        composed = await self._files.compose(content.digest, tag)
        return ImageDownload(content.full_name, content.digest, composed)

    def reading(self, digest: str) -> AbstractContextManager[None]:
        """While it is open the content stays on the mount."""
        return self._collector.reading(digest)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Runs ``work`` in a thread, where reading from the mount delays nobody."""
        return await self._files.in_thread(work)

    # -- looking --------------------------------------------------------------------------------

    async def page(self, account: Account, *, query: str, owner: str, limit: int, cursor: str) -> s.ImageList:
        """One page of what the account may see."""
        return await self._read(
            lambda conn: queries.page(conn, account, query=query, owner=owner, limit=limit, cursor=cursor)
        )

    async def detail(self, account: Account, ref: str) -> s.ImageDetail:
        """Everything of one image.

        Raises:
            NotFound: nothing that the account may see.
        """
        found = await self._found(account, ref)
        digests = await self._read(lambda conn: queries.digests_of(conn, found))
        live = {digest: self._uses.live_in_memory(Ref("image", digest)) for digest in digests}
        return await self._read(lambda conn: queries.detail(conn, account, found, live))

    # -- changing -------------------------------------------------------------------------------

    async def change(self, account: Account, ref: str, patch: s.ImagePatch) -> s.ImageDetail:
        """Changes what is given.

        Raises:
            NotFound, NotAllowed: see :meth:`_own`.
            InvalidInput: shared with somebody who isn't there.
        """
        found = await self._own(account, ref)
        changes = patch.model_dump(exclude_none=True, include={"description", "public"})
        if "description" in changes:
            changes["description"] = descriptions.checked(changes["description"])
        if patch.shared_with is not None:
            changes["shares"] = self._shares(patch.shared_with)
        if changes:
            now = self._clock.now()

            def work(conn: Connection) -> None:
                require_groups(conn, [name for kind, name in changes.get("shares", ()) if kind == "group"])
                store.change(conn, found.image.id, changes, now)

            await self._db.write(work)
            log.info("image.changed", image=found.full_name, changed=sorted(changes), by=account.name)
        return await self.detail(account, str(found.image.id))

    async def tag(self, account: Account, ref: str, tag: str) -> s.ImageDetail:
        """Points one more tag, or another one, to the content that ``ref`` means.

        Raises:
            NotFound, NotAllowed: see :meth:`_own`.
        """
        found = await self._own(account, ref)
        now = self._clock.now()

        def work(conn: Connection) -> str:
            content = queries.content(conn, found, LATEST)
            if content is None:
                raise NotFound(f"There is no `{found.full_name}:{LATEST}`; say which tag is meant.")
            store.move_tag(conn, found.image.id, tag, content.digest, by=account.name, now=now)
            store.change(conn, found.image.id, {}, now)
            return content.digest

        digest = await self._db.write(work)
        log.info("image.tagged", image=f"{found.full_name}:{tag}", digest=digest, by=account.name)
        return await self.detail(account, str(found.image.id))

    async def delete(self, account: Account, ref: str, *, wait: bool) -> list[str]:
        """Deletes an image, one of its tags, or one of its contents. With ``wait``, what live jobs need stays on the
        mount until they have ended; those jobs are answered.

        Raises:
            NotFound, NotAllowed: see :meth:`_own`.
            ImageInUse: live jobs need what would go, and not ``wait``.
        """
        for _ in range(_TRIES):
            found = await self._own(account, ref)
            live = await self._delete(account, ref, found, wait=wait)
            if live is not None:
                log.info("image.deleted", image=ref, by=account.name, waits_for=len(live))
                return live
        raise Conflict("This image is being pushed to again and again; try once more.")

    async def _delete(self, account: Account, ref: str, found: queries.MarketMatch, *, wait: bool) -> list[str] | None:
        """None: a push came in between."""
        digests = await self._read(lambda conn: queries.digests_of(conn, found))
        async with AsyncExitStack() as stack:
            for digest in sorted(digests):
                await stack.enter_async_context(self._uses.deleting(Ref("image", digest)))
            if await self._read(lambda conn: queries.digests_of(conn, found)) != digests:
                return None
            live = await self._needed(found, digests)
            if live and not wait:
                raise _in_use(ref, live)
            now = self._clock.now()
            await self._db.write(lambda conn: _delete(conn, found, account.name, now))
        self._collector.look_at(digests)
        return live

    async def _needed(self, found: queries.MarketMatch, digests: list[str]) -> list[str]:
        """Live jobs of contents that no other tag keeps."""

        def kept(conn: Connection) -> set[str]:
            gone = queries.tags_meant(conn, found)
            return queries.had_elsewhere(conn, digests, found.image.id, gone)

        going = set(digests) - await self._read(kept)
        live: set[str] = set()
        for digest in sorted(going):
            live.update(await self._uses.live(Ref("image", digest)))
        return sorted(live)

    # -- inside ---------------------------------------------------------------------------------

    async def _read(self, work: Callable[[Connection], T]) -> T:
        return await self._db.read(work)

    async def _found(self, account: Account, ref: str) -> queries.MarketMatch:
        found = await self._read(lambda conn: queries.find(conn, account, ref))
        if found is None:
            raise await self._none(account, ref)
        return found

    async def _none(self, account: Account, ref: str) -> NotFound:
        found = await self.tagged(account, ref)
        hint = near_names.tag(ref, found).sentence if found is not None else ""
        return NotFound(f"There is no image `{ref[:200]}` that you may see. {hint}".rstrip())

    async def _own(self, account: Account, ref: str) -> queries.MarketMatch:
        """
        Raises:
            NotFound: nothing that the account may see.
            NotAllowed: it sees it, and it is somebody else's.
        """
        found = await self._found(account, ref)
        if not queries.may_change(account, found.image.owner):
            raise NotAllowed(
                f"{found.full_name} belongs to {found.image.owner}; only {found.image.owner} or an admin may do that."
            )
        return found

    def _shares(self, wanted: ShareChange) -> set[tuple[str, str]]:
        unknown = sorted({name for name in wanted.users if self._accounts.get(name) is None})
        if unknown:
            raise InvalidInput(f"There is no account `{unknown[0][:64]}` to share with.")
        return {("user", name) for name in wanted.users} | {("group", name) for name in wanted.groups}


def _content(conn: Connection, account: Account, ref: str) -> queries.MarketContent | None:
    found = queries.find(conn, account, ref)
    return None if found is None else queries.content(conn, found, LATEST)


def _delete(conn: Connection, found: queries.MarketMatch, by: str, now: float) -> None:
    if found.tag:
        store.delete_tags(conn, found.image.id, [found.tag], by=by, now=now)
    elif found.digest:
        store.delete_content(conn, found.image.id, found.digest, by=by, now=now)
    else:
        store.delete_image(conn, found.image.id)


def _in_use(ref: str, live: list[str]) -> ImageInUse:
    some = ", ".join(live[:_NAMED]) + (f" and {len(live) - _NAMED} more" if len(live) > _NAMED else "")
    return ImageInUse(
        f"`{ref[:200]}` can't be deleted: queued or running jobs need it ({some}). Cancel them, or delete it "
        "with --wait (in the API: wait=true): then it is gone from the lists now, and from the disk when they have "
        "ended.",
        problems=[Problem("", f"{job} needs it.", word=job) for job in live],
    )
