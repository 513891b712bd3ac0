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


class House:
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
async def house(tmp_path: Path, clock: FakeClock) -> AsyncIterator[House]:
    house = House(tmp_path, clock)
    await house.start()
    yield house
    await house.stop()


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


async def state(house: House, upload: LiveUpload, want: RecordState) -> LiveUpload:
    await eventually(lambda: upload.record.state is want)
    return upload


async def test_bytes_come_in_pieces_and_reach_the_target(house: House):
    upload = await house.uploads.create(ANN, "things", 10, "")
    assert await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"0123", b"4")) == 5
    assert (await house.uploads.view(upload)).progress == 0.5
    assert await house.uploads.append(upload, UploadPiece(5, body_bytes=5), None, bytes_of(b"56789")) == 10
    await state(house, upload, RecordState.DONE)
    assert house.target.got == [b"0123456789"]
    assert house.parts == []
    view = await house.uploads.view(upload)
    assert (view.state, view.result, view.offset) == ("done", {"thing": "only"}, 10)
    house.clock.tick(3601)
    await house.uploads.expire()
    with pytest.raises(NotFound):
        house.uploads.find(ANN, "things", upload.record.id)
    assert house.target.abandoned == []


async def test_an_empty_upload_is_finished_at_once(house: House):
    upload = await house.uploads.create(ANN, "things", 0, f"sha256 {b64(hashlib.sha256().hexdigest())}")
    await state(house, upload, RecordState.DONE)
    assert house.target.got == [b""]


async def test_what_came_before_a_cut_is_kept_and_must_be_gone_on_with(house: House):
    upload = await house.uploads.create(ANN, "things", 9, "")
    wire = Wire()
    wire.send(b"abc", b"de", Gone())
    with pytest.raises(Gone):
        await house.uploads.append(upload, UploadPiece(0), None, wire)
    assert await house.uploads.offset(upload) == 5
    for offset in (0, 4, 6, 9):
        with pytest.raises(WrongOffset, match="end at 5"):
            await house.uploads.append(upload, UploadPiece(offset), None, bytes_of(b"x"))
    assert await house.uploads.append(upload, UploadPiece(5), None, bytes_of(b"fghi")) == 9
    await state(house, upload, RecordState.DONE)
    assert house.target.got == [b"abcdefghi"]


async def test_large_bodies_pass_through_whole(house: House):
    data = b"".join(bytes([i % 251]) * 70_001 for i in range(100))
    digest = hashlib.sha256(data).hexdigest()
    upload = await house.uploads.create(ANN, "things", len(data), f"sha256 {b64(digest)}")
    pieces = [data[i : i + 65_537] for i in range(0, len(data), 65_537)]
    await house.uploads.append(upload, UploadPiece(0), None, bytes_of(*pieces[:60]))
    await house.uploads.append(upload, UploadPiece(60 * 65_537), None, bytes_of(*pieces[60:]))
    await state(house, upload, RecordState.DONE)
    assert house.target.got == [data]


async def test_a_server_that_was_killed_goes_on_where_the_file_ends(house: House):
    digest = hashlib.sha256(b"0123456789").hexdigest()
    upload = await house.uploads.create(ANN, "things", 10, f"sha256 {b64(digest)}")
    await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"01234"))
    await house.again()
    assert house.target.swept == [upload.record.place.name]
    found = house.uploads.find(ANN, "things", upload.record.id)
    assert await house.uploads.offset(found) == 5
    await house.uploads.append(found, UploadPiece(5), None, bytes_of(b"56789"))
    await state(house, found, RecordState.DONE)
    assert house.target.got == [b"0123456789"]


async def test_an_upload_whose_bytes_had_all_come_is_finished_by_the_next_start(house: House):
    house.target.gate = asyncio.Event()
    upload = await house.uploads.create(ANN, "things", 3, "")
    await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    assert (await house.uploads.view(upload)).state == "checking"
    await house.again()
    house.target.gate.set()
    found = await state(house, house.uploads.find(ANN, "things", upload.record.id), RecordState.DONE)
    assert house.target.got == [b"abc"]
    assert house.parts == []
    await house.again()
    assert (await house.uploads.view(house.uploads.find(ANN, "things", found.record.id))).state == "done"
    assert house.target.got == [b"abc"], "what is done is not done again"


async def test_a_file_that_is_not_what_its_checksum_says_fails_and_its_bytes_go(house: House):
    upload = await house.uploads.create(ANN, "things", 3, f"sha256 {b64('ab' * 32)}")
    await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    await state(house, upload, RecordState.FAILED)
    view = await house.uploads.view(upload)
    assert view.problem is not None
    assert view.problem.slug == "checksum"
    assert (house.parts, house.target.got, house.target.abandoned) == ([], [], [upload.record.place.name])
    with pytest.raises(UploadOver, match="upload it again"):
        await house.uploads.append(upload, UploadPiece(3), None, bytes_of(b""))
    with pytest.raises(UploadOver):
        await house.uploads.offset(upload)


def checksum(data: bytes, algorithm: str = "sha1") -> tus.Checksum:
    return tus.Checksum(algorithm, hashlib.new(algorithm, data).digest())


async def test_a_piece_that_is_not_what_its_checksum_says_is_thrown_away(house: House):
    digest = hashlib.sha256(b"abcdef").hexdigest()
    upload = await house.uploads.create(ANN, "things", 6, f"sha256 {b64(digest)}")
    await house.uploads.append(upload, UploadPiece(0, checksum(b"abc")), None, bytes_of(b"a", b"bc"))
    with pytest.raises(PieceBroken):
        await house.uploads.append(upload, UploadPiece(3, checksum(b"def")), None, bytes_of(b"deX"))
    assert await house.uploads.offset(upload) == 3
    assert house.parts[0].read_bytes() == b"abc"
    await house.uploads.append(upload, UploadPiece(3, checksum(b"def", "sha256")), None, bytes_of(b"def"))
    await state(house, upload, RecordState.DONE)
    assert house.target.got == [b"abcdef"]


async def test_a_piece_with_a_checksum_that_breaks_off_is_not_kept_also_through_a_kill(house: House):
    upload = await house.uploads.create(ANN, "things", 6, "")
    await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    wire = Wire()
    wire.send(b"de", Gone())
    with pytest.raises(Gone):
        await house.uploads.append(upload, UploadPiece(3, checksum(b"def")), None, wire)
    assert await house.uploads.offset(upload) == 3
    # Killed while such a piece comes: the record says from where on nothing was checked.
    upload.record = await house.uploads._records.change(upload.record, unchecked_from=3)
    with house.parts[0].open("ab") as file:
        file.write(b"de")
    await house.again()
    assert await house.uploads.offset(house.uploads.find(ANN, "things", upload.record.id)) == 3
    assert house.parts[0].read_bytes() == b"abc"


async def test_nobody_sees_bytes_that_are_still_being_checked(house: House):
    upload = await house.uploads.create(ANN, "things", 3 << 20, "")
    wire, plain = Wire(), b"x" * (1 << 20)
    sending = asyncio.create_task(house.uploads.append(upload, UploadPiece(0, checksum(plain * 2)), None, wire))
    wire.send(plain, plain)
    await eventually(lambda: house.parts[0].stat().st_size == 2 << 20)
    assert await house.uploads.offset(upload) == 0
    wire.send(None)
    assert await sending == 2 << 20
    # Without a checksum they count as they come.
    sending = asyncio.create_task(house.uploads.append(upload, UploadPiece(2 << 20), None, wire))
    wire.send(plain[:-1], b"x")

    async def all_there() -> bool:
        return await house.uploads.offset(upload) == 3 << 20

    await eventually(all_there)
    wire.send(None)
    await sending


async def test_more_than_was_announced_is_refused_and_undone(house: House):
    upload = await house.uploads.create(ANN, "things", 5, "")
    with pytest.raises(TooLarge):
        await house.uploads.append(upload, UploadPiece(0, body_bytes=6), None, bytes_of(b"123456"))
    with pytest.raises(TooLarge):
        await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"1234", b"56"))
    assert await house.uploads.offset(upload) == 0
    with pytest.raises(TooLarge, match=r"at most 1\.0 GiB"):
        await house.uploads.create(ANN, "things", (1 << 30) + 1, "")


async def test_one_sends_at_a_time_and_a_dead_line_is_replaced(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(receiving, "PATIENCE_S", 0.3)
    upload = await house.uploads.create(ANN, "things", 6, "")
    wire = Wire()
    first = asyncio.create_task(house.uploads.append(upload, UploadPiece(0), None, wire))
    await eventually(lambda: upload.holder is not None)

    async def keep_sending() -> None:
        while True:
            wire.send(b"")
            await asyncio.sleep(0.02)

    alive = asyncio.create_task(keep_sending())
    with pytest.raises(Locked):
        await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"x"))
    alive.cancel()
    wire.send(b"abc")
    second = asyncio.create_task(house.uploads.append(upload, UploadPiece(3), None, bytes_of(b"def")))
    with pytest.raises(Locked, match="goes on"):
        await first
    assert await second == 6
    await state(house, upload, RecordState.DONE)
    assert house.target.got == [b"abcdef"]


async def test_a_stop_keeps_what_came_and_takes_no_more(house: House):
    upload = await house.uploads.create(ANN, "things", 6, "")
    wire = Wire()
    sending = asyncio.create_task(house.uploads.append(upload, UploadPiece(0), None, wire))
    wire.send(b"abc")
    await eventually(lambda: upload.writer is not None and upload.holder is not None and upload.holder._received)
    house.uploads.refuse()
    with pytest.raises(Stopping):
        await sending
    with pytest.raises(Stopping):
        await house.uploads.append(upload, UploadPiece(3), None, bytes_of(b"def"))
    with pytest.raises(Stopping):
        await house.uploads.create(ANN, "things", 6, "")
    await house.again()
    assert await house.uploads.offset(house.uploads.find(ANN, "things", upload.record.id)) == 3


async def test_a_cancelled_request_leaves_the_upload_usable(house: House):
    upload = await house.uploads.create(ANN, "things", 6, "")
    wire = Wire()
    sending = asyncio.create_task(house.uploads.append(upload, UploadPiece(0), None, wire))
    wire.send(b"abc")
    await eventually(lambda: upload.holder is not None and upload.holder._received)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert await house.uploads.append(upload, UploadPiece(3), None, bytes_of(b"def")) == 6


async def test_others_do_not_see_it_but_admins_do(house: House):
    upload = await house.uploads.create(ANN, "things", 6, "")
    with pytest.raises(NotFound):
        house.uploads.find(BOB, "things", upload.record.id)
    assert house.uploads.find(ROOT, "things", upload.record.id) is upload
    with pytest.raises(NotFound):
        house.uploads.find(ANN, "other", upload.record.id)
    assert (await house.uploads.list(BOB, "things")).uploads == []
    assert [u.id for u in (await house.uploads.list(ANN, "things")).uploads] == [upload.record.id]


async def test_a_length_that_is_told_later(house: House):
    upload = await house.uploads.create(ANN, "things", None, "")
    await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    with pytest.raises(InvalidInput, match="can't have 2"):
        await house.uploads.append(upload, UploadPiece(3), 2, bytes_of(b""))
    house.target.refuses = Conflict("too much for you")
    with pytest.raises(Conflict, match="too much for you"):
        await house.uploads.append(upload, UploadPiece(3), 6, bytes_of(b"def"))
    house.target.refuses = None
    assert await house.uploads.append(upload, UploadPiece(3), 6, bytes_of(b"d")) == 4
    with pytest.raises(InvalidInput, match="can't be changed"):
        await house.uploads.append(upload, UploadPiece(4), 7, bytes_of(b"ef"))
    assert await house.uploads.append(upload, UploadPiece(4), 6, bytes_of(b"ef")) == 6
    await state(house, upload, RecordState.DONE)


async def test_what_has_no_length_yet_is_held_to_the_quota_while_it_comes(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    """It used to be looked at only at the end, with all of it on the disk."""
    monkeypatch.setattr(store_piece, "_ASK_BYTES", 4)
    house.target.most = 6
    upload = await house.uploads.create(ANN, "things", None, "")
    with pytest.raises(StoreFull, match="At most 6"):
        await house.uploads.append(upload, UploadPiece(0, body_bytes=7), None, bytes_of(b"abcdefg"))
    assert await house.uploads.offset(upload) == 0
    with pytest.raises(StoreFull, match="At most 6"):
        await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abcd", b"efgh", b"never"))
    assert await house.uploads.offset(upload) == 4
    assert await house.uploads.append(upload, UploadPiece(4, body_bytes=2), 6, bytes_of(b"ef")) == 6
    await state(house, upload, RecordState.DONE)


async def test_what_was_promised_is_promised_after_a_restart(house: House):
    upload = await house.uploads.create(ANN, "things", 6, "")
    later = await house.uploads.create(ANN, "things", None, "")
    await house.uploads.append(later, UploadPiece(0), None, bytes_of(b"abc"))
    await house.again()
    assert house.target.resumes == {upload.record.place.name: 6, later.record.place.name: 3}


async def test_what_nobody_sends_keeps_no_room_from_others(house: House, monkeypatch: pytest.MonkeyPatch):
    """Used to: uploads without a byte kept all of a disk for themselves for ten minutes."""

    async def free(_place: UploadPlace) -> int:
        return limits._SPARE_BYTES + 10

    monkeypatch.setattr(house.disk, "free_bytes", free)
    large = await house.uploads.create(ANN, "things", 8, "")
    with pytest.raises(StoreFull, match="not counting 8 bytes"):
        await house.uploads.create(ANN, "things", 5, "")
    house.clock.tick(61)
    upload = await house.uploads.create(ANN, "things", 5, "")
    house.clock.tick(61)
    gate = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"ab"
        await gate.wait()
        yield b"cdefgh"

    sending = asyncio.create_task(house.uploads.append(large, UploadPiece(0), None, slowly()))
    await eventually(lambda: large.holder is not None)
    house.clock.tick(61)
    with pytest.raises(StoreFull, match="of other uploads"):
        await house.uploads.create(ANN, "things", 5, "")
    gate.set()
    assert await sending == 8
    await house.uploads.delete(upload)


async def test_a_length_may_come_last_and_alone(house: House):
    upload = await house.uploads.create(ANN, "things", None, "")
    await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    assert await house.uploads.append(upload, UploadPiece(3), 3, bytes_of()) == 3
    await state(house, upload, RecordState.DONE)


async def test_what_is_refused_at_the_beginning_leaves_nothing(house: House):
    house.target.refuses = Conflict("no")
    with pytest.raises(Conflict):
        await house.uploads.create(ANN, "things", 6, "")
    house.target.refuses = None
    for length, said in ((6, "a !"), (6, f"sha256 {b64('no')}")):
        with pytest.raises(InvalidInput):
            await house.uploads.create(ANN, "things", length, said)
    (house.layout.root / "images" / ".parts").write_text("in the way")
    with pytest.raises(HeadwayError):
        await house.uploads.create(ANN, "things", 6, "")
    assert (await house.uploads.list(ANN, "things")).uploads == []
    assert len(house.target.abandoned) == 1
    await house.again()
    assert (await house.uploads.list(ANN, "things")).uploads == []


async def test_an_account_has_so_many_open_at_once(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service, "MOST_OPEN", 3)
    made = await asyncio.gather(*(house.uploads.create(ANN, "things", 6, "") for _ in range(5)), return_exceptions=True)
    assert [type(m) for m in made].count(TooMany) == 2
    await house.uploads.create(BOB, "things", 6, "")
    await house.uploads.delete(next(m for m in made if isinstance(m, LiveUpload)))
    await house.uploads.create(ANN, "things", 6, "")


async def test_what_nobody_goes_on_with_expires_with_its_bytes(house: House, clock: FakeClock):
    old = await house.uploads.create(ANN, "things", 6, "")
    await house.uploads.append(old, UploadPiece(0), None, bytes_of(b"abc"))
    clock.tick(DAY / 2)
    used = await house.uploads.create(ANN, "things", 6, "")
    clock.tick(DAY / 4)
    await house.uploads.append(used, UploadPiece(0), None, bytes_of(b"abc"))
    assert house.uploads.expires_at(used) == clock.now() + DAY
    clock.tick(DAY / 4 + 1)
    await clock.advance(60)
    await eventually(lambda: old.record.id not in house.uploads._uploads)
    assert len(house.parts) == 1
    assert house.target.abandoned == [old.record.place.name]
    await house.db.write(lambda conn: None) if house.db else None  # what was put off is stored with the next write
    clock.tick(DAY / 2)
    await house.again()
    assert await house.uploads.offset(house.uploads.find(ANN, "things", used.record.id)) == 3
    clock.tick(DAY)
    await house.uploads.expire()
    assert house.parts == []


async def test_nothing_expires_while_bytes_come(house: House, clock: FakeClock):
    upload = await house.uploads.create(ANN, "things", 6, "")
    wire = Wire()
    sending = asyncio.create_task(house.uploads.append(upload, UploadPiece(0), None, wire))
    await eventually(lambda: upload.holder is not None)
    clock.tick(2 * DAY)
    await house.uploads.expire()
    wire.send(b"abcdef", None)
    assert await sending == 6
    await state(house, upload, RecordState.DONE)


async def test_deleting_ends_what_comes(house: House):
    upload = await house.uploads.create(ANN, "things", 6, "")
    wire = Wire()
    sending = asyncio.create_task(house.uploads.append(upload, UploadPiece(0), None, wire))
    wire.send(b"abc")
    await eventually(lambda: upload.holder is not None and upload.holder._received)
    await house.uploads.delete(upload)
    with pytest.raises(UploadOver):
        await sending
    assert house.parts == []
    with pytest.raises(NotFound):
        await house.uploads.append(upload, UploadPiece(3), None, bytes_of(b"x"))


async def test_deleting_ends_what_is_checked(house: House):
    house.target.gate = asyncio.Event()
    upload = await house.uploads.create(ANN, "things", 3, "")
    await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    house.target.fails = [RuntimeError("cancelled")]
    await house.uploads.delete(upload)
    assert (house.parts, house.target.got) == ([], [])
    await house.again()
    assert (await house.uploads.list(ANN, "things")).uploads == []


async def test_a_choice(house: House):
    house.target.choices = ("a:1", "b:2")
    upload = await house.uploads.create(ANN, "things", 3, "")
    with pytest.raises(Conflict):
        await house.uploads.choose(upload, "a:1")
    await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    await state(house, upload, RecordState.CHOOSE)
    await house.again()
    upload = house.uploads.find(ANN, "things", upload.record.id)
    view = await house.uploads.view(upload)
    assert (view.state, view.choices) == ("choose", ["a:1", "b:2"])
    with pytest.raises(InvalidInput, match="a:1, b:2"):
        await house.uploads.choose(upload, "c")
    await house.uploads.choose(upload, "b:2")
    await state(house, upload, RecordState.DONE)
    assert upload.record.result == {"thing": "b:2"}
    with pytest.raises(Conflict):
        await house.uploads.choose(upload, "b:2")


async def test_a_mount_that_is_away_is_waited_for_and_a_refusal_is_for_good(house: House, clock: FakeClock):
    house.target.fails = [Unavailable("away"), Unavailable("still away")]
    upload = await house.uploads.create(ANN, "things", 3, "")
    await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))

    async def done() -> bool:
        await clock.advance(1)
        return upload.record.state is RecordState.DONE

    await eventually(done)
    assert house.target.got == [b"abc"]
    for error, slug in ((Conflict("taken"), "conflict"), (RuntimeError("bug"), "internal")):
        house.target.fails = [error]
        upload = await house.uploads.create(ANN, "things", 3, "")
        await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
        await state(house, upload, RecordState.FAILED)
        assert upload.record.problem is not None
        assert upload.record.problem.slug == slug
    assert house.parts == []


async def test_a_record_whose_bytes_somebody_took_away_is_forgotten(house: House):
    upload = await house.uploads.create(ANN, "things", 3, "")
    house.parts[0].unlink()
    with pytest.raises(UploadOver):
        await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    await house.again()
    with pytest.raises(NotFound):
        house.uploads.find(ANN, "things", upload.record.id)


async def test_a_link_in_the_place_of_the_bytes_is_not_followed(house: House, tmp_path: Path):
    upload = await house.uploads.create(ANN, "things", 3, "")
    secret = tmp_path / "secret"
    secret.write_bytes(b"")
    house.parts[0].unlink()
    (house.layout.root / upload.record.place.path).symlink_to(secret)
    with pytest.raises(UploadOver):
        await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    assert secret.read_bytes() == b""
    await house.uploads.delete(upload)
    assert secret.exists()


async def test_nothing_is_written_behind_a_mount_that_is_away(house: House):
    upload = await house.uploads.create(ANN, "things", 3, "")
    house.layout.marker.rename(house.layout.root / "away")
    with pytest.raises(Unavailable):
        await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc"))
    (house.layout.root / "away").rename(house.layout.marker)
    assert await house.uploads.append(upload, UploadPiece(0), None, bytes_of(b"abc")) == 3
