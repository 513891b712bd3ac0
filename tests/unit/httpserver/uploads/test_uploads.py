"""Uploads from their creation to their end, with time under control: cuts, takeovers, restarts, expiry."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headway.errors import (
    Conflict,
    HeadwayError,
    InvalidInput,
    NotFound,
    Stopping,
    StoreFull,
    TooLarge,
    TooMany,
    Unavailable,
)
from headway.mount import Layout, MountProbe, prepare_local
from headway.store import Database
from httpserver.auth.model import Account
from httpserver.uploads import limits, receiving, service, store_piece, tus
from httpserver.uploads.errors import Locked, PieceBroken, UploadOver, WrongOffset
from httpserver.uploads.live_upload import LiveUpload
from httpserver.uploads.ports import FinishWatch, StoredUpload, UploadOutcome, UploadPlace
from httpserver.uploads.records import RecordState
from httpserver.uploads.service import Uploads
from httpserver.uploads.store_piece import UploadPiece
from httpserver.uploads.upload_files import UploadFiles
from tests.support.clock import FakeClock
from tests.support.waiting import eventually

from .test_tus import b64

pytestmark = pytest.mark.usefixtures("both_databases")

ANN = Account("ann", 0, 0, False, True, False, False, 0.0)
BOB = Account("bob", 0, 0, False, True, False, False, 0.0)
ROOT = Account("root", 0, 0, True, True, False, False, 0.0)
DAY = 86_400.0


@dataclass
class TestTarget:
    """Remembers what it was asked, and does what a test says."""

    __test__ = False
    layout: Layout
    kind: str = "things"
    at_once: int = 2
    number: int = 0
    got: list[bytes] = field(default_factory=list)
    abandoned: list[str] = field(default_factory=list)
    swept: list[str] = field(default_factory=list)
    refuses: HeadwayError | None = None
    most: int = 1 << 40
    resumes: dict[str, int] = field(default_factory=dict)
    fails: list[Exception] = field(default_factory=list)
    choices: tuple[str, ...] = ()
    gate: asyncio.Event | None = None

    async def begin(self, account: Account, length: int | None, metadata: Mapping[str, str]) -> UploadPlace:
        if self.refuses is not None:
            raise self.refuses
        self.number += 1
        return UploadPlace("images", f".parts/{self.number}")

    async def admit(self, upload: StoredUpload, place: UploadPlace, length: int) -> None:
        if self.refuses is not None:
            raise self.refuses
        if length > self.most:
            raise StoreFull(f"At most {self.most}.")

    def resumed(self, place: UploadPlace, length: int) -> None:
        self.resumes[place.name] = length

    async def finish(self, upload: StoredUpload, place: UploadPlace, watch: FinishWatch) -> UploadOutcome:
        if self.gate is not None:
            gate = self.gate
            await eventually(lambda: gate.is_set() or watch.cancelled())
        if self.fails:
            raise self.fails.pop(0)
        if self.choices and not upload.choice:
            return UploadOutcome(choices=self.choices)
        self.got.append((self.layout.root / place.path).read_bytes())
        return UploadOutcome({"thing": upload.choice or "only"})

    async def abandon(self, upload: StoredUpload, place: UploadPlace) -> None:
        self.abandoned.append(place.name)

    async def sweep(self, live: Collection[UploadPlace]) -> None:
        self.swept = [place.name for place in live]


class Rig:
    """One server after another over the same disk and database."""

    def __init__(self, folder: Path, clock: FakeClock) -> None:
        self.layout = prepare_local(folder / "mount", "c")
        self.clock = clock
        self.target = TestTarget(self.layout)
        self.database = str(folder / "http.db")
        self.db: Database | None = None
        self.running: asyncio.Task[None] | None = None

    async def start(self, *, looks: bool = True) -> Uploads:
        self.db = await Database.open(self.database, room="httpserver")
        self.disk = UploadFiles(self.layout, MountProbe(self.layout, "c"), "c", self.clock)
        uploads = Uploads(self.db, self.disk, self.clock, [self.target], expires_s=DAY, max_bytes=1 << 30)
        await uploads.load()
        self.uploads = uploads
        if looks:
            self.running = asyncio.create_task(uploads.run())
            await eventually(uploads._taken_up.is_set)
        return uploads

    async def stop(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.wait((self.running,))
        await self.uploads.close()
        if self.db is not None:
            await self.db.close()

    async def again(self) -> Uploads:
        """As after a kill: nothing is said goodbye to."""
        await self.stop()
        return await self.start()

    @property
    def parts(self) -> list[Path]:
        return [p for p in (self.layout.root / "images").rglob("*") if p.is_file()]


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path, clock)
    await rig.start()
    yield rig
    await rig.stop()


async def bytes_of(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


class Wire:
    """A body that a test sends piece by piece; without an end, it hangs like a dead line."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    def send(self, *pieces: bytes | Exception | None) -> None:
        for piece in pieces:
            self._pieces.put_nowait(piece)

    def __aiter__(self) -> Wire:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._pieces.get()
        if isinstance(piece, Exception):
            raise piece
        if piece is None:
            raise StopAsyncIteration
        return piece


class Gone(Exception):
    """The client went."""


async def state(rig: Rig, upload: LiveUpload, want: RecordState) -> LiveUpload:
    await eventually(lambda: upload.record.state is want)
    return upload


async def test_bytes_come_in_pieces_and_reach_the_target(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 10, "")
    assert await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"0123", b"4")) == 5
    assert (await rig.uploads.view(upload)).progress == 0.5
    assert await rig.uploads.append(upload, UploadPiece(5, body_bytes=5), None, bytes_of(b"56789")) == 10
    await state(rig, upload, RecordState.DONE)
    assert rig.target.got == [b"0123456789"]
    assert rig.parts == []
    view = await rig.uploads.view(upload)
    assert (view.state, view.result, view.offset) == ("done", {"thing": "only"}, 10)
    rig.clock.tick(3601)
    await rig.uploads.expire()
    with pytest.raises(NotFound):
        rig.uploads.find(ANN, "things", upload.record.id)
    assert rig.target.abandoned == []


async def test_an_empty_upload_is_finished_at_once(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 0, f"sha256 {b64(hashlib.sha256().hexdigest())}")
    await state(rig, upload, RecordState.DONE)
    assert rig.target.got == [b""]


async def test_what_came_before_a_cut_is_kept_and_must_be_gone_on_with(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 9, "")
    wire = Wire()
    wire.send(b"abc", b"de", Gone())
    with pytest.raises(Gone):
        await rig.uploads.append(upload, UploadPiece(0), None, wire)
    assert await rig.uploads.offset(upload) == 5
    for offset in (0, 4, 6, 9):
        with pytest.raises(WrongOffset, match="end at 5"):
            await rig.uploads.append(upload, UploadPiece(offset), None, bytes_of(b"x"))
    assert await rig.uploads.append(upload, UploadPiece(5), None, bytes_of(b"fghi")) == 9
    await state(rig, upload, RecordState.DONE)
    assert rig.target.got == [b"abcdefghi"]


async def test_large_bodies_pass_through_whole(rig: Rig):
    data = b"".join(bytes([i % 251]) * 70_001 for i in range(100))
    digest = hashlib.sha256(data).hexdigest()
    upload = await rig.uploads.create(ANN, "things", len(data), f"sha256 {b64(digest)}")
    pieces = [data[i : i + 65_537] for i in range(0, len(data), 65_537)]
    await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(*pieces[:60]))
    await rig.uploads.append(upload, UploadPiece(60 * 65_537), None, bytes_of(*pieces[60:]))
    await state(rig, upload, RecordState.DONE)
    assert rig.target.got == [data]


async def test_a_server_that_was_killed_goes_on_where_the_file_ends(rig: Rig):
    digest = hashlib.sha256(b"0123456789").hexdigest()
    upload = await rig.uploads.create(ANN, "things", 10, f"sha256 {b64(digest)}")
    await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"01234"))
    await rig.again()
    assert rig.target.swept == [upload.record.place.name]
    found = rig.uploads.find(ANN, "things", upload.record.id)
    assert await rig.uploads.offset(found) == 5
    await rig.uploads.append(found, UploadPiece(5), None, bytes_of(b"56789"))
    await state(rig, found, RecordState.DONE)
    assert rig.target.got == [b"0123456789"]


async def test_an_upload_whose_bytes_had_all_come_is_finished_by_the_next_start(rig: Rig):
    rig.target.gate = asyncio.Event()
    upload = await rig.uploads.create(ANN, "things", 3, "")
    await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    assert (await rig.uploads.view(upload)).state == "checking"
    await rig.again()
    rig.target.gate.set()
    found = await state(rig, rig.uploads.find(ANN, "things", upload.record.id), RecordState.DONE)
    assert rig.target.got == [b"abc"]
    assert rig.parts == []
    await rig.again()
    assert (await rig.uploads.view(rig.uploads.find(ANN, "things", found.record.id))).state == "done"
    assert rig.target.got == [b"abc"], "what is done is not done again"


async def test_a_file_that_is_not_what_its_checksum_says_fails_and_its_bytes_go(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 3, f"sha256 {b64('ab' * 32)}")
    await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    await state(rig, upload, RecordState.FAILED)
    view = await rig.uploads.view(upload)
    assert view.problem is not None
    assert view.problem.slug == "checksum"
    assert (rig.parts, rig.target.got, rig.target.abandoned) == ([], [], [upload.record.place.name])
    with pytest.raises(UploadOver, match="upload it again"):
        await rig.uploads.append(upload, UploadPiece(3), None, bytes_of(b""))
    with pytest.raises(UploadOver):
        await rig.uploads.offset(upload)


def checksum(data: bytes, algorithm: str = "sha1") -> tus.Checksum:
    return tus.Checksum(algorithm, hashlib.new(algorithm, data).digest())


async def test_a_piece_that_is_not_what_its_checksum_says_is_thrown_away(rig: Rig):
    digest = hashlib.sha256(b"abcdef").hexdigest()
    upload = await rig.uploads.create(ANN, "things", 6, f"sha256 {b64(digest)}")
    await rig.uploads.append(upload, UploadPiece(0, checksum(b"abc")), None, bytes_of(b"a", b"bc"))
    with pytest.raises(PieceBroken):
        await rig.uploads.append(upload, UploadPiece(3, checksum(b"def")), None, bytes_of(b"deX"))
    assert await rig.uploads.offset(upload) == 3
    assert rig.parts[0].read_bytes() == b"abc"
    await rig.uploads.append(upload, UploadPiece(3, checksum(b"def", "sha256")), None, bytes_of(b"def"))
    await state(rig, upload, RecordState.DONE)
    assert rig.target.got == [b"abcdef"]


async def test_a_piece_with_a_checksum_that_breaks_off_is_not_kept_also_through_a_kill(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 6, "")
    await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    wire = Wire()
    wire.send(b"de", Gone())
    with pytest.raises(Gone):
        await rig.uploads.append(upload, UploadPiece(3, checksum(b"def")), None, wire)
    assert await rig.uploads.offset(upload) == 3
    # Killed while such a piece comes: the record says from where on nothing was checked.
    upload.record = await rig.uploads._records.change(upload.record, unchecked_from=3)
    with rig.parts[0].open("ab") as file:
        file.write(b"de")
    await rig.again()
    assert await rig.uploads.offset(rig.uploads.find(ANN, "things", upload.record.id)) == 3
    assert rig.parts[0].read_bytes() == b"abc"


async def test_nobody_sees_bytes_that_are_still_being_checked(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 3 << 20, "")
    wire, plain = Wire(), b"x" * (1 << 20)
    sending = asyncio.create_task(rig.uploads.append(upload, UploadPiece(0, checksum(plain * 2)), None, wire))
    wire.send(plain, plain)
    await eventually(lambda: rig.parts[0].stat().st_size == 2 << 20)
    assert await rig.uploads.offset(upload) == 0
    wire.send(None)
    assert await sending == 2 << 20
    # Without a checksum they count as they come.
    sending = asyncio.create_task(rig.uploads.append(upload, UploadPiece(2 << 20), None, wire))
    wire.send(plain[:-1], b"x")

    async def all_there() -> bool:
        return await rig.uploads.offset(upload) == 3 << 20

    await eventually(all_there)
    wire.send(None)
    await sending


async def test_more_than_was_announced_is_refused_and_undone(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 5, "")
    with pytest.raises(TooLarge):
        await rig.uploads.append(upload, UploadPiece(0, body_bytes=6), None, bytes_of(b"123456"))
    with pytest.raises(TooLarge):
        await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"1234", b"56"))
    assert await rig.uploads.offset(upload) == 0
    with pytest.raises(TooLarge, match=r"at most 1\.0 GiB"):
        await rig.uploads.create(ANN, "things", (1 << 30) + 1, "")


async def test_one_sends_at_a_time_and_a_dead_line_is_replaced(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(receiving, "PATIENCE_S", 0.3)
    upload = await rig.uploads.create(ANN, "things", 6, "")
    wire = Wire()
    first = asyncio.create_task(rig.uploads.append(upload, UploadPiece(0), None, wire))
    await eventually(lambda: upload.holder is not None)

    async def keep_sending() -> None:
        while True:
            wire.send(b"")
            await asyncio.sleep(0.02)

    alive = asyncio.create_task(keep_sending())
    with pytest.raises(Locked):
        await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"x"))
    alive.cancel()
    wire.send(b"abc")
    second = asyncio.create_task(rig.uploads.append(upload, UploadPiece(3), None, bytes_of(b"def")))
    with pytest.raises(Locked, match="goes on"):
        await first
    assert await second == 6
    await state(rig, upload, RecordState.DONE)
    assert rig.target.got == [b"abcdef"]


async def test_a_stop_keeps_what_came_and_takes_no_more(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 6, "")
    wire = Wire()
    sending = asyncio.create_task(rig.uploads.append(upload, UploadPiece(0), None, wire))
    wire.send(b"abc")
    await eventually(lambda: upload.writer is not None and upload.holder is not None and upload.holder._received)
    rig.uploads.refuse()
    with pytest.raises(Stopping):
        await sending
    with pytest.raises(Stopping):
        await rig.uploads.append(upload, UploadPiece(3), None, bytes_of(b"def"))
    with pytest.raises(Stopping):
        await rig.uploads.create(ANN, "things", 6, "")
    await rig.again()
    assert await rig.uploads.offset(rig.uploads.find(ANN, "things", upload.record.id)) == 3


async def test_a_cancelled_request_leaves_the_upload_usable(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 6, "")
    wire = Wire()
    sending = asyncio.create_task(rig.uploads.append(upload, UploadPiece(0), None, wire))
    wire.send(b"abc")
    await eventually(lambda: upload.holder is not None and upload.holder._received)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert await rig.uploads.append(upload, UploadPiece(3), None, bytes_of(b"def")) == 6


async def test_others_do_not_see_it_but_admins_do(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 6, "")
    with pytest.raises(NotFound):
        rig.uploads.find(BOB, "things", upload.record.id)
    assert rig.uploads.find(ROOT, "things", upload.record.id) is upload
    with pytest.raises(NotFound):
        rig.uploads.find(ANN, "other", upload.record.id)
    assert (await rig.uploads.list(BOB, "things")).uploads == []
    assert [u.id for u in (await rig.uploads.list(ANN, "things")).uploads] == [upload.record.id]


async def test_a_length_that_is_told_later(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", None, "")
    await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    with pytest.raises(InvalidInput, match="can't have 2"):
        await rig.uploads.append(upload, UploadPiece(3), 2, bytes_of(b""))
    rig.target.refuses = Conflict("too much for you")
    with pytest.raises(Conflict, match="too much for you"):
        await rig.uploads.append(upload, UploadPiece(3), 6, bytes_of(b"def"))
    rig.target.refuses = None
    assert await rig.uploads.append(upload, UploadPiece(3), 6, bytes_of(b"d")) == 4
    with pytest.raises(InvalidInput, match="can't be changed"):
        await rig.uploads.append(upload, UploadPiece(4), 7, bytes_of(b"ef"))
    assert await rig.uploads.append(upload, UploadPiece(4), 6, bytes_of(b"ef")) == 6
    await state(rig, upload, RecordState.DONE)


async def test_what_has_no_length_yet_is_held_to_the_quota_while_it_comes(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """It used to be looked at only at the end, with all of it on the disk."""
    monkeypatch.setattr(store_piece, "_ASK_BYTES", 4)
    rig.target.most = 6
    upload = await rig.uploads.create(ANN, "things", None, "")
    with pytest.raises(StoreFull, match="At most 6"):
        await rig.uploads.append(upload, UploadPiece(0, body_bytes=7), None, bytes_of(b"abcdefg"))
    assert await rig.uploads.offset(upload) == 0
    with pytest.raises(StoreFull, match="At most 6"):
        await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abcd", b"efgh", b"never"))
    assert await rig.uploads.offset(upload) == 4
    assert await rig.uploads.append(upload, UploadPiece(4, body_bytes=2), 6, bytes_of(b"ef")) == 6
    await state(rig, upload, RecordState.DONE)


async def test_what_was_promised_is_promised_after_a_restart(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 6, "")
    later = await rig.uploads.create(ANN, "things", None, "")
    await rig.uploads.append(later, UploadPiece(0), None, bytes_of(b"abc"))
    await rig.again()
    assert rig.target.resumes == {upload.record.place.name: 6, later.record.place.name: 3}


async def test_what_nobody_sends_keeps_no_room_from_others(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """Used to: uploads without a byte kept all of a disk for themselves for ten minutes."""

    async def free(_place: UploadPlace) -> int:
        return limits._SPARE_BYTES + 10

    monkeypatch.setattr(rig.disk, "free_bytes", free)
    large = await rig.uploads.create(ANN, "things", 8, "")
    with pytest.raises(StoreFull, match="not counting 8 bytes"):
        await rig.uploads.create(ANN, "things", 5, "")
    rig.clock.tick(61)
    upload = await rig.uploads.create(ANN, "things", 5, "")
    rig.clock.tick(61)
    gate = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"ab"
        await gate.wait()
        yield b"cdefgh"

    sending = asyncio.create_task(rig.uploads.append(large, UploadPiece(0), None, slowly()))
    await eventually(lambda: large.holder is not None)
    rig.clock.tick(61)
    with pytest.raises(StoreFull, match="of other uploads"):
        await rig.uploads.create(ANN, "things", 5, "")
    gate.set()
    assert await sending == 8
    await rig.uploads.delete(upload)


async def test_a_length_may_come_last_and_alone(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", None, "")
    await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    assert await rig.uploads.append(upload, UploadPiece(3), 3, bytes_of()) == 3
    await state(rig, upload, RecordState.DONE)


async def test_what_is_refused_at_the_beginning_leaves_nothing(rig: Rig):
    rig.target.refuses = Conflict("no")
    with pytest.raises(Conflict):
        await rig.uploads.create(ANN, "things", 6, "")
    rig.target.refuses = None
    for length, said in ((6, "a !"), (6, f"sha256 {b64('no')}")):
        with pytest.raises(InvalidInput):
            await rig.uploads.create(ANN, "things", length, said)
    (rig.layout.root / "images" / ".parts").write_text("in the way")
    with pytest.raises(HeadwayError):
        await rig.uploads.create(ANN, "things", 6, "")
    assert (await rig.uploads.list(ANN, "things")).uploads == []
    assert len(rig.target.abandoned) == 1
    await rig.again()
    assert (await rig.uploads.list(ANN, "things")).uploads == []


async def test_an_account_has_so_many_open_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service, "MOST_OPEN", 3)
    made = await asyncio.gather(*(rig.uploads.create(ANN, "things", 6, "") for _ in range(5)), return_exceptions=True)
    assert [type(m) for m in made].count(TooMany) == 2
    await rig.uploads.create(BOB, "things", 6, "")
    await rig.uploads.delete(next(m for m in made if isinstance(m, LiveUpload)))
    await rig.uploads.create(ANN, "things", 6, "")


async def test_what_nobody_goes_on_with_expires_with_its_bytes(rig: Rig, clock: FakeClock):
    old = await rig.uploads.create(ANN, "things", 6, "")
    await rig.uploads.append(old, UploadPiece(0), None, bytes_of(b"abc"))
    clock.tick(DAY / 2)
    used = await rig.uploads.create(ANN, "things", 6, "")
    clock.tick(DAY / 4)
    await rig.uploads.append(used, UploadPiece(0), None, bytes_of(b"abc"))
    assert rig.uploads.expires_at(used) == clock.now() + DAY
    clock.tick(DAY / 4 + 1)
    await clock.advance(60)
    await eventually(lambda: old.record.id not in rig.uploads._uploads)
    assert len(rig.parts) == 1
    assert rig.target.abandoned == [old.record.place.name]
    await rig.db.write(lambda conn: None) if rig.db else None  # what was put off is stored with the next write
    clock.tick(DAY / 2)
    await rig.again()
    assert await rig.uploads.offset(rig.uploads.find(ANN, "things", used.record.id)) == 3
    clock.tick(DAY)
    await rig.uploads.expire()
    assert rig.parts == []


async def test_nothing_expires_while_bytes_come(rig: Rig, clock: FakeClock):
    upload = await rig.uploads.create(ANN, "things", 6, "")
    wire = Wire()
    sending = asyncio.create_task(rig.uploads.append(upload, UploadPiece(0), None, wire))
    await eventually(lambda: upload.holder is not None)
    clock.tick(2 * DAY)
    await rig.uploads.expire()
    wire.send(b"abcdef", None)
    assert await sending == 6
    await state(rig, upload, RecordState.DONE)


async def test_deleting_ends_what_comes(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 6, "")
    wire = Wire()
    sending = asyncio.create_task(rig.uploads.append(upload, UploadPiece(0), None, wire))
    wire.send(b"abc")
    await eventually(lambda: upload.holder is not None and upload.holder._received)
    await rig.uploads.delete(upload)
    with pytest.raises(UploadOver):
        await sending
    assert rig.parts == []
    with pytest.raises(NotFound):
        await rig.uploads.append(upload, UploadPiece(3), None, bytes_of(b"x"))


async def test_deleting_ends_what_is_checked(rig: Rig):
    rig.target.gate = asyncio.Event()
    upload = await rig.uploads.create(ANN, "things", 3, "")
    await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    rig.target.fails = [RuntimeError("cancelled")]
    await rig.uploads.delete(upload)
    assert (rig.parts, rig.target.got) == ([], [])
    await rig.again()
    assert (await rig.uploads.list(ANN, "things")).uploads == []


async def test_a_choice(rig: Rig):
    rig.target.choices = ("a:1", "b:2")
    upload = await rig.uploads.create(ANN, "things", 3, "")
    with pytest.raises(Conflict):
        await rig.uploads.choose(upload, "a:1")
    await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    await state(rig, upload, RecordState.CHOOSE)
    await rig.again()
    upload = rig.uploads.find(ANN, "things", upload.record.id)
    view = await rig.uploads.view(upload)
    assert (view.state, view.choices) == ("choose", ["a:1", "b:2"])
    with pytest.raises(InvalidInput, match="a:1, b:2"):
        await rig.uploads.choose(upload, "c")
    await rig.uploads.choose(upload, "b:2")
    await state(rig, upload, RecordState.DONE)
    assert upload.record.result == {"thing": "b:2"}
    with pytest.raises(Conflict):
        await rig.uploads.choose(upload, "b:2")


async def test_a_mount_that_is_away_is_waited_for_and_a_refusal_is_for_good(rig: Rig, clock: FakeClock):
    rig.target.fails = [Unavailable("away"), Unavailable("still away")]
    upload = await rig.uploads.create(ANN, "things", 3, "")
    await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))

    async def done() -> bool:
        await clock.advance(1)
        return upload.record.state is RecordState.DONE

    await eventually(done)
    assert rig.target.got == [b"abc"]
    for error, slug in ((Conflict("taken"), "conflict"), (RuntimeError("bug"), "internal")):
        rig.target.fails = [error]
        upload = await rig.uploads.create(ANN, "things", 3, "")
        await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
        await state(rig, upload, RecordState.FAILED)
        assert upload.record.problem is not None
        assert upload.record.problem.slug == slug
    assert rig.parts == []


async def test_a_record_whose_bytes_somebody_took_away_is_forgotten(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 3, "")
    rig.parts[0].unlink()
    with pytest.raises(UploadOver):
        await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    await rig.again()
    with pytest.raises(NotFound):
        rig.uploads.find(ANN, "things", upload.record.id)


async def test_a_link_in_the_place_of_the_bytes_is_not_followed(rig: Rig, tmp_path: Path):
    upload = await rig.uploads.create(ANN, "things", 3, "")
    secret = tmp_path / "secret"
    secret.write_bytes(b"")
    rig.parts[0].unlink()
    (rig.layout.root / upload.record.place.path).symlink_to(secret)
    with pytest.raises(UploadOver):
        await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    assert secret.read_bytes() == b""
    await rig.uploads.delete(upload)
    assert secret.exists()


async def test_nothing_is_written_behind_a_mount_that_is_away(rig: Rig):
    upload = await rig.uploads.create(ANN, "things", 3, "")
    rig.layout.marker.rename(rig.layout.root / "away")
    with pytest.raises(Unavailable):
        await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    (rig.layout.root / "away").rename(rig.layout.marker)
    assert await rig.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc")) == 3
