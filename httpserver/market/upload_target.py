"""Uploads of images: where they go, and how an uploaded archive becomes an image of the market.

The order makes a kill harmless: the content appears in the store, whole, and then the tag points to it in one
transaction. In between it is content without rows, which garbage collection removes if the upload never ends.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import Connection

from headway.archive import ImageInfo, ImageStore, SeveralImages
from headway.clock import Clock
from headway.errors import HeadwayError, InvalidInput, NotAllowed, Unavailable
from headway.logs import get_logger
from headway.mount import Layout
from headway.store.database import Database

from ..auth.accounts import Accounts
from ..auth.model import Account
from ..text import descriptions
from ..uploads.ports import FinishWatch, StoredUpload, UploadOutcome, UploadPlace
from ..uses.service import Ref, Uses
from . import store
from .garbage_collection import ImageCollector, ImageFiles
from .names import MarketImageName, to_push
from .store import ImagePush, PublishedImage

log = get_logger(__name__)

_FOLDER = "images/.uploads"
_TRIES = 3
_KEEP_FREE_BYTES = 64 << 20


class _Wish(NamedTuple):
    """What the metadata of an upload say."""

    name: MarketImageName
    description: str | None
    public: bool | None
    choose: str


class ImageUploadTarget:
    """See the module."""

    kind = "images"
    at_once = 2  # each checks sums of tens of GB: more at once would only be slower, each

    def __init__(
        self,
        db: Database,
        files: ImageFiles,
        accounts: Accounts,
        uses: Uses,
        collector: ImageCollector,
        clock: Clock,
        *,
        quota_bytes: int,
    ) -> None:
        self._db = db
        self._files = files
        self._accounts = accounts
        self._uses = uses
        self._collector = collector
        self._clock = clock
        self._quota_bytes = quota_bytes

    async def begin(self, account: Account, length: int | None, metadata: Mapping[str, str]) -> UploadPlace:
        wish = _wish(account, metadata)
        await self._check(account, wish, length)
        await self._files.run(lambda _, layout: _make_folder(layout))
        return UploadPlace(_FOLDER, secrets.token_hex(16))

    async def admit(self, upload: StoredUpload, place: UploadPlace, length: int) -> None:
        account = self._account(upload)
        await self._check(account, _wish(account, upload.metadata), length)

    def resumed(self, place: UploadPlace, length: int) -> None:
        """Nothing is promised to one that is under way: an image counts when it is published."""

    async def finish(self, upload: StoredUpload, place: UploadPlace, watch: FinishWatch) -> UploadOutcome:
        account = self._account(upload)
        wish = _wish(account, upload.metadata)
        push = self._push(account, wish, upload.id)

        for _ in range(_TRIES):
            try:
                info = await self._files.ingest(
                    place.path, choose=upload.choice or wish.choose, keep_free_bytes=_KEEP_FREE_BYTES, watch=watch
                )
            except SeveralImages as several:
                return UploadOutcome(choices=several.choices)
            published = await self._publish(push, info)
            if published is not None:
                self._tell(push, info, published)
                return UploadOutcome({"image": str(wish.name), "digest": info.digest})
        raise Unavailable("The image was removed again and again while it was stored.")

    async def abandon(self, upload: StoredUpload, place: UploadPlace) -> None:
        """Nothing is kept for it but the file."""

    async def sweep(self, live: Collection[UploadPlace]) -> None:
        names = {place.path.name for place in live if str(place.path.parent) == _FOLDER}
        try:
            await self._files.run(lambda images, layout: _sweep(images, layout, names))
        except HeadwayError as error:
            log.warning("images.not_swept", reason=error.message)

    # -- inside ---------------------------------------------------------------------------------

    async def _publish(self, push: ImagePush, info: ImageInfo) -> PublishedImage | None:
        # Garbage collection takes the same lock, so it can't remove what gets its row here. None: it just did.
        async with self._uses.deleting(Ref("image", info.digest)):
            if await self._files.run(lambda images, _: images.info(info.digest)) is None:
                return None
            now = self._clock.now()

            def work(conn: Connection) -> tuple[PublishedImage, list[str]]:
                published = store.publish(conn, push, info, now)
                return published, store.beyond_quota(conn, push.by, push.quota_bytes)

            try:
                published, over = await self._db.write(work)
                self._collector.look_at(over)
                return published
            except HeadwayError:
                self._collector.look_at([info.digest])
                raise

    def _tell(self, push: ImagePush, info: ImageInfo, published: PublishedImage) -> None:
        log.info(
            "image.pushed",
            image=str(push.name),
            digest=info.digest,
            before=published.left or None,
            bytes=info.size_bytes,
            by=push.by,
        )

    async def _check(self, account: Account, wish: _Wish, length: int | None) -> None:
        if length == 0:
            raise InvalidInput("The file is empty: upload what `docker save` wrote.")
        push = self._push(account, wish, "")
        await self._db.read(lambda conn: store.refuse_beyond_quota(conn, push, length or 0))

    def _push(self, account: Account, wish: _Wish, upload: str) -> ImagePush:
        return ImagePush(wish.name, account.name, upload, wish.description, wish.public, self._quota_bytes)

    def _account(self, upload: StoredUpload) -> Account:
        account = self._accounts.get(upload.account)
        if account is None or not account.enabled:
            raise NotAllowed(f"The account {upload.account} is disabled.")
        return account


def _wish(account: Account, metadata: Mapping[str, str]) -> _Wish:
    public = metadata.get("public", "").strip().lower()
    if public not in ("", "true", "false"):
        raise InvalidInput(f"`public` is true or false, not {public[:40]!r}.")
    description = metadata.get("description")
    return _Wish(
        name=to_push(metadata.get("name", ""), account),
        description=None if description is None else descriptions.checked(description),
        public=None if not public else public == "true",
        choose=metadata.get("choose", ""),
    )


def _make_folder(layout: Layout) -> None:
    layout.image_uploads.mkdir(mode=0o700, exist_ok=True)


def _sweep(images: ImageStore, layout: Layout, live: Collection[str]) -> None:
    images.sweep()
    if not layout.image_uploads.is_dir():
        return
    for entry in layout.image_uploads.iterdir():
        if entry.name in live:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
