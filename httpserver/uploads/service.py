"""Uploads from their creation to their end: what the routes ask, what runs in the background, what a start resumes."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import Conflict, HeadwayError, InvalidInput, NotFound, Stopping, StoreFull, TooMany, Unavailable
from headway.logs import get_logger
from headway.store import Database

from ..auth.model import Account
from ..filesystem.paths import shown
from . import schemas as s
from . import tus
from .errors import Locked, UploadOver, WrongOffset
from .finishing import UploadFinisher
from .limits import refuse_beyond, refuse_too_large, refuse_without_space
from .live_upload import LiveUpload
from .ports import UploadPlace, UploadTarget
from .receiving import SendingRequest
from .records import OVER, RecordState, UploadRecord, UploadRecords
from .store_piece import UploadPiece, store
from .upload_files import UploadFiles
from .view import shown_upload

log = get_logger(__name__)

MOST_OPEN = 100  # of one account
_MOST_SHOWN = 200
_KEPT_S = 3_600.0  # a record after its end
_SWEEP_S = 60.0
_TOUCH_STEP_S = 60.0
_UNDER_WAY_S = 60.0  # so long after its last request, the rest of an upload counts as promised
_FIRST_LOOK_S = 5.0
_MOST_PAUSE_S = 5.0


class Uploads:
    """All kinds of uploads. Call :meth:`load` first and keep :meth:`run` running."""

    def __init__(
        self,
        db: Database,
        disk: UploadFiles,
        clock: Clock,
        targets: Sequence[UploadTarget],
        *,
        expires_s: float,
        max_bytes: int,
    ) -> None:
        self._records = UploadRecords(db)
        self._disk = disk
        self._clock = clock
        self._targets = {target.kind: target for target in targets}
        self._expires_s = expires_s
        self.max_bytes = max_bytes  # 0: what the disk holds
        self._uploads: dict[str, LiveUpload] = {}
        self._creating: Counter[str] = Counter()
        self._finishing = UploadFinisher(self._records, disk, clock, self._targets)
        self._taken_up = asyncio.Event()
        self._refusing = False

    # -- life of the service --------------------------------------------------------------------

    async def load(self) -> None:
        """Reads the records; the files are looked at by :meth:`run`."""
        for record in await self._records.all():
            self._uploads[record.id] = LiveUpload(
                record, record.touched_at, has_unchecked_bytes=record.unchecked_from is not None
            )

    async def run(self) -> None:
        """Takes up what the last run left, then removes what has expired, for ever."""
        pauses = Backoff(1.0, _MOST_PAUSE_S)
        while not self._taken_up.is_set():
            try:
                await self._take_up()
            except HeadwayError as error:
                log.warning("upload.not_taken_up", reason=error.message)
                await self._clock.sleep(pauses.next_s())
        while True:
            await self._clock.sleep(_SWEEP_S)
            await self.expire()

    async def _take_up(self) -> None:
        await self._disk.require(adds=False)
        for target in self._targets.values():
            await target.sweep([u.record.place for u in self._uploads.values() if u.record.kind == target.kind])
        for upload in list(self._uploads.values()):
            if upload.record.state in OVER:
                await self._disk.remove(upload.record.place)  # the last run may have been killed before it did
                continue
            try:
                offset = await self._look(upload)
            except NotFound:
                continue
            if upload.record.kind in self._targets:
                self._targets[upload.record.kind].resumed(upload.record.place, upload.record.length or offset)
            self._finish_if_complete(upload)
        self._taken_up.set()

    async def expire(self) -> None:
        """Removes what was not touched for too long, and records of what ended a while ago."""
        now = self._clock.now()
        for upload in list(self._uploads.values()):
            if upload.holder is None and upload.finishing is None and self._expires_at(upload) <= now:
                try:
                    await self._remove(upload, "expired")
                except HeadwayError as error:
                    log.warning("upload.stays", upload=upload.record.id, reason=error.message)

    def refuse(self) -> None:
        """The service stops: what has come is stored, and clients go on later."""
        self._refusing = True
        for upload in self._uploads.values():
            if upload.holder is not None:
                upload.holder.cut(Stopping("The server stops; go on with this upload when it is back."))

    async def close(self) -> None:
        """Stops what runs in the background; the next start takes it up."""
        await self._finishing.close()
        self._disk.close()

    # -- what the routes ask --------------------------------------------------------------------

    def kind(self, kind: str) -> UploadTarget:
        """
        Raises:
            NotFound: there is no such kind.
        """
        target = self._targets.get(kind)
        if target is None:
            raise NotFound(f"There are no uploads of the kind `{kind[:40]}`; there are {', '.join(self._targets)}.")
        return target

    def find(self, account: Account, kind: str, upload_id: str) -> LiveUpload:
        """
        Raises:
            NotFound: it isn't there, or another account's.
        """
        upload = self._uploads.get(upload_id)
        if upload is None or upload.record.kind != kind or not (account.admin or upload.record.account == account.name):
            raise _gone()
        return upload

    async def create(self, account: Account, kind: str, length: int | None, raw_metadata: str) -> LiveUpload:
        """A new upload, durable, without a byte.

        Raises:
            TooMany, TooLarge, StoreFull, InvalidInput, HeadwayError: refused; nothing is left of it.
        """
        try:
            return await self._create(account, kind, length, raw_metadata)
        except StoreFull as error:
            log.warning("upload.no_room", kind=kind, account=account.name, bytes=length, reason=error.message)
            raise

    async def _create(self, account: Account, kind: str, length: int | None, raw_metadata: str) -> LiveUpload:
        target = self.kind(kind)
        self._refuse_while_stopping()
        metadata = tus.metadata(raw_metadata)
        tus.sha256_of(metadata)
        refuse_too_large(length, self.max_bytes)
        self._creating[account.name] += 1
        try:
            self._refuse_many(account)
            await self._disk.require(adds=True)
            await self._first_look()
            place = await target.begin(account, length, metadata)
            now = self._clock.now()
            record = UploadRecord(
                secrets.token_hex(16), kind, account.name, length, raw_metadata, metadata, place, now, now
            )
            upload = LiveUpload(record, now, offset=0)
            try:
                await self._refuse_without_space(place, length or 0)
                # The record first: a file without one would be found only by the next start's sweep.
                await self._records.add(record)
            except BaseException:
                await asyncio.shield(target.abandon(record.stored(), place))
                raise
            self._uploads[record.id] = upload
        finally:
            self._creating[account.name] -= 1
        try:
            await self._disk.create(place)
        except BaseException:
            await asyncio.shield(self._remove(upload, "not made"))
            raise
        log.info("upload.created", upload=record.id, kind=kind, account=account.name, bytes=length)
        self._finish_if_complete(upload)
        return upload

    async def append(
        self, upload: LiveUpload, piece: UploadPiece, length: int | None, body: AsyncIterator[bytes]
    ) -> int:
        """Stores what comes; answers where the stored bytes end now. Whatever came is kept when it breaks off, but for
        a piece with a checksum: that is stored as a whole or not at all. ``length``: of the upload, where the client
        tells it only now.

        Raises:
            Locked: another request sends to it.
            WrongOffset: it does not begin where the stored bytes end.
            PieceBroken: it is not what its checksum says.
            TooLarge: more than the upload's length.
            StoreFull: the disk is full; the upload can go on from what is stored.
            UploadOver: it has failed.
        """
        holder = await self._hold(upload)
        try:
            offset = await self._look(upload)
            if piece.offset != offset:
                raise WrongOffset(f"The stored bytes end at {offset}, and this piece begins at {piece.offset}.")
            if length is not None:
                await self._learn_length(upload, length)
            refuse_beyond(offset + (piece.body_bytes or 0), upload.record.length, self.max_bytes)
            admit: Callable[[int], Awaitable[None]] | None = None
            if upload.record.length is None:
                # Its end is not known, but what would go beyond a quota doesn't come first.
                admit = partial(self._admit, upload)
                if piece.body_bytes:
                    await admit(offset + piece.body_bytes)
            if not upload.complete:
                self._touch(upload)
                await store(self._disk, self._records, upload, holder, piece, body, self.max_bytes, admit)
                self._touch(upload)
        finally:
            upload.holder = None
            holder.release()
        self._finish_if_complete(upload)
        return await self._look(upload)

    async def offset(self, upload: LiveUpload) -> int:
        """Where the stored bytes end.

        Raises:
            UploadOver: it has failed.
        """
        if upload.record.state is RecordState.FAILED:
            raise _failed(upload)
        return await self._look(upload)

    async def delete(self, upload: LiveUpload) -> None:
        """Ends it and forgets it; what it was published as, once done, stays.

        Raises:
            Locked: a write to it hangs.
        """
        if upload.holder is not None:
            upload.holder.cut(UploadOver("This upload was deleted."))
            if not await upload.holder.released():
                raise Locked("A write to this upload hangs; delete it later.")
        await self._remove(upload, "deleted")

    async def choose(self, upload: LiveUpload, choice: str) -> None:
        """Goes on with one of the choices.

        Raises:
            Conflict: nothing is to be picked.
            InvalidInput: that is none of the choices.
        """
        if upload.record.state is not RecordState.CHOOSE:
            raise Conflict("There is nothing to choose for this upload (any more).")
        if choice not in upload.record.choices:
            raise InvalidInput(f"`{shown(choice)[:100]}` is none of the choices: {', '.join(upload.record.choices)}.")
        upload.record = await self._records.change(upload.record, state=RecordState.OPEN, choice=choice, choices=())
        self._touch(upload)
        await self._look(upload)
        self._finish_if_complete(upload)

    async def list(self, account: Account, kind: str) -> s.UploadList:
        """One's own, newest first."""
        self.kind(kind)
        mine = [u for u in self._uploads.values() if (u.record.account, u.record.kind) == (account.name, kind)]
        found = []
        for upload in sorted(mine, key=lambda u: u.record.created_at, reverse=True)[:_MOST_SHOWN]:
            try:
                found.append(await self.view(upload))
            except NotFound:
                continue  # gone meanwhile
        return s.UploadList(uploads=found)

    async def view(self, upload: LiveUpload) -> s.Upload:
        """As the API shows it."""
        offset = 0 if upload.record.state is RecordState.FAILED else await self._look(upload)
        return shown_upload(upload, offset, self._expires_at(upload))

    def expires_at(self, upload: LiveUpload) -> float | None:
        """When what is unfinished is removed; None once all bytes have come."""
        return None if upload.complete or upload.record.state in OVER else self._expires_at(upload)

    # -- inside ---------------------------------------------------------------------------------

    def _expires_at(self, upload: LiveUpload) -> float:
        return upload.touched_at + (_KEPT_S if upload.record.state in OVER else self._expires_s)

    def _refuse_while_stopping(self) -> None:
        if self._refusing:
            raise Stopping("The server stops; go on with this upload when it is back.")

    def _refuse_many(self, account: Account) -> None:
        mine = [u for u in self._uploads.values() if u.record.account == account.name and u.record.state not in OVER]
        if len(mine) + self._creating[account.name] > MOST_OPEN:
            raise TooMany(
                f"{MOST_OPEN} uploads of this account are unfinished: finish or delete some of them.",
                extra={"retry_after_s": 30.0},
            )

    async def _refuse_without_space(self, place: UploadPlace, more: int) -> None:
        since = self._clock.now() - _UNDER_WAY_S
        promised = sum(
            (u.record.length or 0) - (u.stored_bytes or 0)
            for u in self._uploads.values()
            if u.record.state is RecordState.OPEN and (u.holder is not None or u.touched_at > since) and u.record.length
        )
        refuse_without_space(more, await self._disk.free_bytes(place), promised)

    async def _first_look(self) -> None:
        # What the sweep of the start does not know would be taken for left over.
        try:
            async with asyncio.timeout(_FIRST_LOOK_S):
                await self._taken_up.wait()
        except TimeoutError:
            raise Unavailable("The server still looks through the uploads of its last run; try again soon.") from None

    async def _hold(self, upload: LiveUpload) -> SendingRequest:
        while True:
            self._refuse_while_stopping()
            if upload.record.id not in self._uploads:
                raise _gone()
            if upload.record.state is RecordState.FAILED:
                raise _failed(upload)
            if upload.holder is None:
                holder = upload.holder = SendingRequest()
                return holder
            if not await upload.holder.yields_to_another(Locked("Another connection goes on with this upload.")):
                raise Locked("Another connection sends to this upload now: end it first, or wait for its end.")

    async def _look(self, upload: LiveUpload) -> int:
        """Where the stored bytes end; looks at the file where that isn't known.

        Raises:
            NotFound: the file is gone, and the record now, too.
        """
        if upload.record.state is RecordState.DONE:
            upload.offset = upload.record.length
        async with upload.size_lock:
            if upload.offset is None or upload.has_unchecked_bytes:
                await self._look_at_file(upload)
        offset = upload.stored_bytes
        assert offset is not None
        return offset

    async def _look_at_file(self, upload: LiveUpload) -> None:
        record = upload.record
        await self._disk.require(adds=False)
        size = await self._disk.size(record.place)
        if size is None:
            await self._remove(upload, "its bytes are gone")
            raise _gone()
        # What was never checked, or more than was announced, does not count.
        most = min(n for n in (size, record.unchecked_from, record.length) if n is not None)
        if most < size:
            await self._disk.cut(record.place, most)
        if record.unchecked_from is not None:
            upload.record = await self._records.change(record, unchecked_from=None)
        upload.has_unchecked_bytes, upload.offset = False, most

    async def _learn_length(self, upload: LiveUpload, length: int) -> None:
        record, offset = upload.record, upload.offset or 0
        if record.length is not None:
            if record.length != length:
                raise InvalidInput(f"This upload has {record.length} bytes; that can't be changed to {length}.")
            return
        if length < offset:
            raise InvalidInput(f"{offset} bytes have come already: the upload can't have {length}.")
        refuse_too_large(length, self.max_bytes)
        await self._refuse_without_space(record.place, length - offset)
        await self._admit(upload, length)
        upload.record = await self._records.change(record, length=length)

    async def _admit(self, upload: LiveUpload, length: int) -> None:
        record = upload.record
        await self._targets[record.kind].admit(record.stored(), record.place, length)

    def _touch(self, upload: LiveUpload) -> None:
        upload.touched_at = self._clock.now()
        if upload.touched_at - upload.record.touched_at > _TOUCH_STEP_S:
            upload.record = self._records.touched(upload.record, upload.touched_at)

    def _finish_if_complete(self, upload: LiveUpload) -> None:
        if upload.complete and upload.record.state is RecordState.OPEN and not self._refusing:
            self._finishing.start(upload)

    async def _remove(self, upload: LiveUpload, why: str) -> None:
        record = upload.record
        await self._finishing.stop(upload)
        await self._disk.remove(record.place)
        if upload.record.state is not RecordState.DONE and record.kind in self._targets:
            await self._targets[record.kind].abandon(record.stored(), record.place)
        await self._records.drop(record.id)
        self._uploads.pop(record.id, None)
        log.info("upload.removed", upload=record.id, kind=record.kind, why=why)


def _gone() -> NotFound:
    return NotFound("There is no such upload (any more): start it anew.")


def _failed(upload: LiveUpload) -> UploadOver:
    problem = upload.record.problem
    return UploadOver("This upload has failed." if problem is None else problem.detail)
