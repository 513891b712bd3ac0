"""Logs over HTTP: bytes as they are, ranges, tails, followers that end, archives; and what happens when parts are
away."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import zipfile
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import pytest_asyncio

from headway.ids import JobId, TaskId
from httpserver.logs.places import FollowPlaces
from httpserver.logs.reader import PIECE_BYTES
from tests.integration.http_rig import Rig, a_rig, submit
from tests.support.waiting import eventually
from tests.unit.httpserver.logs.test_feed import frames
from worker.box import IndexRecord, Stream, pack_index, unpack_index

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERY_BYTE = bytes(range(256)) * 3 + b"\xff\xfe half a letter \xc3"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("logs")) as rig:
        yield rig


async def a_task(rig: Rig, state: str = "RUNNING", **view: object) -> tuple[str, str]:
    """A job's id and the address of its task's stdout."""
    job_id = await submit(await rig.client("ann"))
    rig.tasks.put(job_id, "a", state=state, **view)
    return job_id, f"/jobs/{job_id}/tasks/a/attempts/1/logs/stdout"


@pytest.mark.parametrize("live", [True, False], ids=["live", "ended"])
async def test_bytes_ranges_and_tails(rig: Rig, live: bool):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, "RUNNING" if live else "SUCCEEDED", stdout_bytes=0 if live else len(EVERY_BYTE))
    if live:
        await rig.worker.write(job_id, "a", EVERY_BYTE)
    else:
        rig.store_log(job_id, "a", EVERY_BYTE)
    size = len(EVERY_BYTE)
    whole = await ann.get(path)
    assert (whole.status_code, whole.content) == (200, EVERY_BYTE)
    assert whole.headers["content-type"] == "text/plain"  # no charset: nobody knows it
    assert whole.headers["content-disposition"] == f'attachment; filename="{job_id}.a.1.stdout.log"'
    assert whole.headers["x-log-ended"] == ("false" if live else "true")
    assert (await ann.get(path.replace("/1/", "/latest/"))).content == EVERY_BYTE
    for header, want in (
        ("bytes=0-9", EVERY_BYTE[:10]),
        ("bytes=100-", EVERY_BYTE[100:]),
        ("bytes=-7", EVERY_BYTE[-7:]),
        (f"bytes=10-{size * 9}", EVERY_BYTE[10:]),
        (f"bytes={size - 1}-", EVERY_BYTE[-1:]),
        (f"bytes=-{size * 9}", EVERY_BYTE),
    ):
        part = await ann.get(path, headers={"Range": header})
        assert (part.status_code, part.content) == (206, want), header
        start = EVERY_BYTE.rindex(want) if want != EVERY_BYTE[:10] else 0
        assert part.headers["content-range"] == f"bytes {start}-{start + len(want) - 1}/{size}"
    beyond = await ann.get(path, headers={"Range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    for unheeded in ("lines=1-2", "bytes=1-2,5-6", "bytes=9-3", "nonsense"):
        assert (await ann.get(path, headers={"Range": unheeded})).status_code == 200
    tail = await ann.get(path, params={"tail": 5})
    assert (tail.content, tail.headers["x-log-offset"]) == (EVERY_BYTE[-5:], str(size - 5))
    assert (await ann.get(path, params={"tail": 0})).content == b""
    assert (await ann.get(path, params={"offset": 700})).content == EVERY_BYTE[700:]


async def test_a_log_without_a_byte_is_empty_and_one_of_no_attempt_is_missing(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, "SUCCEEDED")
    answer = await ann.get(path)
    assert (answer.status_code, answer.content) == (200, b"")
    for missing in (
        path.replace("/1/", "/2/"),
        path.replace("/a/", "/b/"),
        path.replace("/a/", "/..%2F..%2Fa/"),
        path.replace(job_id, "j0000000000000000"),
    ):
        assert (await ann.get(missing)).status_code == 404, missing


async def read_all(rig: Rig, path: str, into: bytearray, **kwargs: object) -> dict[str, str]:
    ann = await rig.client("ann")
    async with ann.stream("GET", path, **kwargs) as answer:  # type: ignore[arg-type]
        assert answer.status_code == 200
        async for data in answer.aiter_raw():
            into.extend(data)
        return dict(answer.headers)


async def test_a_log_of_a_task_that_the_job_does_not_have_says_so(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig)
    for name in ("nope", "b"):
        for number in ("1", "latest"):
            answer = await ann.get(path.replace("/a/", f"/{name}/").replace("/1/", f"/{number}/"))
            assert answer.status_code == 404
            assert answer.json()["detail"].startswith(f"Job {job_id} has no task '{name}'.")


def an_index(*records: tuple[int, int, int]) -> bytes:
    """Of (stream, offset, length), in the order in which the bytes came."""
    return pack_index(IndexRecord(n, offset, length, Stream(s)) for n, (s, offset, length) in enumerate(records))


async def test_both_streams_are_one_log_in_the_order_in_which_they_came(rig: Rig):
    out, err = b"epoch 1\nepoch 2\n", b"warning\nTraceback\n"
    index = an_index((1, 0, 8), (2, 0, 8), (1, 8, 8), (2, 8, 4), (2, 12, 3))  # the end of stderr is not named
    whole = b"epoch 1\nwarning\nepoch 2\nTraceback\n"
    ann = await rig.client("ann")
    job_id, path = await a_task(rig)
    path = path.replace("stdout", "both")
    got = bytearray()
    following = asyncio.create_task(read_all(rig, path, got, params={"follow": "true"}))
    later = bytearray()
    await rig.worker.write(job_id, "a", out)
    await rig.worker.write(job_id, "a", err, stream="stderr")
    await rig.worker.write(job_id, "a", index[:40], stream="index")  # the second record is being written
    await eventually(lambda: bytes(got) == whole[:8])
    assert (await ann.get(path)).content == whole[:8]
    await rig.worker.write(job_id, "a", index[40:], stream="index")
    await eventually(lambda: bytes(got) == whole[:-3])
    assert (await ann.get(path, params={"tail": 5})).content == whole[:-3][-5:]
    since = asyncio.create_task(read_all(rig, path, later, params={"follow": "true", "offset": 10}))
    await eventually(lambda: bytes(later) == whole[10:-3])
    await rig.worker.end(job_id, "a")
    await asyncio.wait_for(asyncio.gather(following, since), 10)
    assert (bytes(got), bytes(later)) == (whole, whole[10:])
    rig.tasks.put(job_id, "a", state="SUCCEEDED", stdout_bytes=len(out), stderr_bytes=len(err))
    rig.store_log(job_id, "a", out)
    rig.store_log(job_id, "a", err, stream="stderr")
    rig.store_log(job_id, "a", index, stream="index")
    assert (await ann.get(path)).content == whole
    for start in range(0, len(whole), 5):
        part = await ann.get(path, headers={"Range": f"bytes={start}-{start + 9}"})
        assert part.content == whole[start : start + 10]
        assert part.headers["content-range"].endswith(f"/{len(whole)}")
        rest = bytearray()
        await read_all(rig, path, rest, params={"follow": "true", "offset": start})
        assert bytes(rest) == whole[start:]
    assert (await ann.get(path, params={"tail": 7})).content == whole[-7:]
    assert (await ann.get(f"{path}/line", params={"line": 3})).json()["offset"] == 16
    # An index that a task wrote itself hides no byte and adds none.
    for broken in (b"", b"x" * 24, an_index((2, 10**12, 9), (1, 3, 10**6)), index[:24] * 9):
        rig.store_log(job_id, "a", broken, stream="index")
        answer = await ann.get(path)
        assert (answer.status_code, sorted(answer.content)) == (200, sorted(whole))
    assert (await ann.get(path.replace("/both", "/index"))).status_code == 400


async def test_times_of_lines_live_and_ended(rig: Rig):
    out, err = b"epoch 1\nepoch 2\n", b"warning\nTraceback\n"
    index = an_index((1, 0, 8), (2, 0, 8), (1, 8, 8), (2, 8, 4))  # the end of stderr is not named
    index = pack_index(IndexRecord((r.wall_ns + 1) * 10**9, r.offset, r.length, r.stream) for r in unpack_index(index))
    ann = await rig.client("ann")
    job_id, path = await a_task(rig)
    both, other = path.replace("stdout", "both"), path.replace("stdout", "stderr")

    async def times(of: str, offset: int, length: int = 100) -> tuple[list[tuple[int, float | None]], int]:
        found = (await ann.get(f"{of}/times", params={"offset": offset, "length": length})).json()
        return list(zip(found["offsets"], found["at"], strict=True)), found["end"]

    for stream, data in (("stdout", out), ("stderr", err), ("index", index[:60])):
        await rig.worker.write(job_id, "a", data, stream=stream)
    assert await times(path, 0) == ([(0, 1.0)], 8)
    assert await times(both, 3, 8) == ([(3, 1.0), (8, 2.0)], 11)
    await rig.worker.write(job_id, "a", index[60:], stream="index")
    assert await times(path, 0) == ([(0, 1.0), (8, 3.0)], 16)
    await rig.worker.end(job_id, "a")
    rig.tasks.put(job_id, "a", state="SUCCEEDED", stdout_bytes=len(out), stderr_bytes=len(err))
    rig.store_log(job_id, "a", out)
    rig.store_log(job_id, "a", err, stream="stderr")
    rig.store_log(job_id, "a", index, stream="index")
    assert await times(path, 0) == ([(0, 1.0), (8, 3.0), (16, None)], 100)
    assert await times(other, 4) == ([(4, 2.0), (8, 4.0), (12, None)], 104)
    assert await times(both, 0) == ([(0, 1.0), (8, 2.0), (16, 3.0), (24, 4.0), (28, None)], 100)
    assert await times(path.replace("stdout", "platform"), 5, 9) == ([(5, None)], 14)
    # One stream alone has times, too; without an index nothing is guessed.
    job_id, path = await a_task(rig, "SUCCEEDED", stdout_bytes=len(out))
    rig.store_log(job_id, "a", out)
    assert await times(path, 2) == ([(2, None)], 102)
    rig.store_log(job_id, "a", index, stream="index")
    assert await times(path, 2) == ([(2, 1.0), (8, 3.0), (16, None)], 102)
    assert (await ann.get(f"{path}/times", params={"length": 0})).status_code == 400
    assert (await (await rig.client("bob")).get(f"{path}/times")).status_code == 403


@pytest.mark.parametrize("live", [True, False], ids=["live", "ended"])
async def test_a_line_is_found_by_its_number_and_by_a_byte(rig: Rig, live: bool):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, "RUNNING" if live else "SUCCEEDED")
    text = b"one\n\nthree" + b"x" * 300_000 + b"\nfour\n"
    if live:
        await rig.worker.write(job_id, "a", text)
    else:
        rig.store_log(job_id, "a", text)
    four = text.index(b"four")
    for params, want in (
        ({"line": 1}, (1, 0)),
        ({"line": 2}, (2, 4)),
        ({"line": 3}, (3, 5)),
        ({"line": 4}, (4, four)),
        ({"line": 99}, (5, len(text))),
        ({"offset": 0}, (1, 0)),
        ({"offset": 3}, (1, 0)),
        ({"offset": 4}, (2, 4)),
        ({"offset": 200_000}, (3, 5)),
        ({"offset": four + 2}, (4, four)),
        ({"offset": 10**9}, (5, len(text))),
    ):
        found = (await ann.get(f"{path}/line", params=params)).json()
        assert (found["line"], found["offset"]) == want, params
        assert (found["size"], found["ended"]) == (len(text), not live)
    assert (await ann.get(f"{path}/line", params={"line": 0})).status_code == 400
    assert (await (await rig.client("bob")).get(f"{path}/line")).status_code == 403


async def test_a_follower_gets_every_byte_as_it_comes_and_ends_with_the_attempt(rig: Rig):
    """LOG-07, LOG-08."""
    job_id, path = await a_task(rig)
    got = bytearray()
    following = asyncio.create_task(read_all(rig, path, got, params={"follow": "true"}))
    await rig.worker.write(job_id, "a", b"10%\r")
    await eventually(lambda: bytes(got) == b"10%\r")
    await rig.worker.write(job_id, "a", b"20%\r")
    await eventually(lambda: bytes(got) == b"10%\r20%\r")
    assert not following.done()
    await rig.worker.write(job_id, "a", b"last byte")
    await rig.worker.end(job_id, "a")
    await asyncio.wait_for(following, 10)
    assert bytes(got) == b"10%\r20%\rlast byte"


async def test_a_follower_takes_up_where_it_was_cut(rig: Rig):
    """LOG-12: nothing twice, nothing left out."""
    job_id, path = await a_task(rig)
    text = b"".join(b"%06d\n" % i for i in range(3000))
    await rig.worker.write(job_id, "a", text)
    await rig.worker.end(job_id, "a")
    rig.worker.break_after = 9_500
    got = bytearray()
    headers = await read_all(rig, path, got, params={"follow": "true"}, headers={"Range": "bytes=7000-"})
    assert headers["x-log-offset"] == "7000"
    assert bytes(got) == text[7000:]


async def test_a_follower_of_an_ended_attempt_waits_for_the_rest_of_its_copy(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, "SUCCEEDED", stdout_bytes=10)
    file = rig.store_log(job_id, "a", b"01234")
    address, rig.tasks.worker_address = rig.tasks.worker_address, ""
    try:
        got = bytearray()
        following = asyncio.create_task(read_all(rig, path, got, params={"follow": "true"}))
        await eventually(lambda: bytes(got) == b"01234")
        with file.open("ab") as more:
            more.write(b"56789")
        await asyncio.wait_for(following, 15)
        assert bytes(got) == b"0123456789"
    finally:
        rig.tasks.worker_address = address
    past = await ann.get(path, params={"follow": "true"}, headers={"Range": "bytes=11-"})
    assert past.status_code == 416


async def test_an_ended_log_whose_copy_is_not_whole_comes_from_the_worker(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, "SUCCEEDED", stdout_bytes=10)
    rig.store_log(job_id, "a", b"01234")
    await rig.worker.write(job_id, "a", b"0123456789")
    await rig.worker.end(job_id, "a")
    assert (await ann.get(path)).content == b"0123456789"


async def test_while_the_mount_fails_the_worker_is_asked(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """Used to: a quarter of a minute of waiting for a GlusterFS mount whose server was gone, then 503."""
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, "SUCCEEDED", stdout_bytes=10)
    await rig.worker.write(job_id, "a", b"0123456789")
    await rig.worker.end(job_id, "a")

    def gone(*_: object) -> int:
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

    monkeypatch.setattr("httpserver.logs.stored._size", gone)
    assert (await asyncio.wait_for(ann.get(path), 10)).content == b"0123456789"


async def test_with_the_worker_away_what_was_copied_is_shown(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig)
    rig.store_log(job_id, "a", b"copied so far")
    address, rig.tasks.worker_address = rig.tasks.worker_address, "127.0.0.1:1"
    try:
        answer = await ann.get(path)
    finally:
        rig.tasks.worker_address = address
    assert answer.content == b"copied so far"
    assert answer.headers["x-log-ended"] == "false"


async def test_with_task_manager_away_ended_logs_are_still_there(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, "SUCCEEDED")
    rig.store_log(job_id, "a", b"first")
    rig.store_log(job_id, "a", b"second", number=2)
    rig.tasks.away = True
    try:
        assert (await ann.get(path)).content == b"first"
        assert (await ann.get(path.replace("/1/", "/latest/"))).content == b"second"
        away = await ann.get(path.replace("/1/", "/3/"))
        assert (away.status_code, away.json()["service"]) == (503, "TaskManager")
    finally:
        rig.tasks.away = False


async def test_a_link_in_place_of_a_log_is_not_followed(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, "SUCCEEDED")
    file = rig.store_log(job_id, "a", b"")
    file.unlink()
    file.symlink_to("/etc/passwd")
    answer = await ann.get(path)
    assert b"root:" not in answer.content


async def test_the_archive_holds_every_log_and_names_what_it_lacks(rig: Rig):
    ann = await rig.client("ann")
    job_id = await submit(ann, "a", "b")
    noise = os.urandom(3 << 20)
    rig.tasks.put(job_id, "a", 1, state="FAILED", stdout_bytes=len(noise))
    rig.tasks.put(job_id, "a", 2, state="RUNNING")
    rig.tasks.put(job_id, "b", 1, state="SUCCEEDED", stderr_bytes=4)
    rig.store_log(job_id, "a", noise)
    rig.store_log(job_id, "a", b"why", stream="platform")
    rig.store_log(job_id, "b", b"oops", stream="stderr")
    await rig.worker.write(job_id, "a", b"still going", number=2)
    answer = await ann.get(f"/jobs/{job_id}/logs.zip")
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == f'attachment; filename="{job_id}-logs.zip"'
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    assert {name: archive.read(name) for name in archive.namelist()} == {
        "a/1/stdout.log": noise,
        "a/1/platform.log": b"why",
        "a/2/stdout.log": b"still going",
        "b/1/stderr.log": b"oops",
    }


async def test_a_large_log_is_sent_in_flat_memory(rig: Rig):
    import psutil

    ann = await rig.client("ann")
    size = 200 << 20
    job_id, path = await a_task(rig, "SUCCEEDED", stdout_bytes=size)
    file = rig.store_log(job_id, "a", b"")
    with file.open("r+b") as sparse:
        sparse.truncate(size)
    before, most, got = psutil.Process().memory_info().rss, 0, 0
    async with ann.stream("GET", path) as answer:
        async for data in answer.aiter_raw():
            got += len(data)
            most = max(most, psutil.Process().memory_info().rss) if got % (8 << 20) < len(data) else most
    assert got == size
    assert most - before < 40 << 20


@pytest.mark.parametrize("live", [True, False], ids=["live", "ended"])
async def test_what_a_slow_reader_has_not_taken_is_not_asked_of_the_worker(rig: Rig, live: bool):
    """Whole windows of gRPC used to fill on both sides, some MiB for each log."""
    job_id, _ = await a_task(rig, "RUNNING" if live else "SUCCEEDED", stdout_bytes=2 << 20)
    data = os.urandom(2 << 20)
    await rig.worker.write(job_id, "a", data)
    if not live:
        await rig.worker.end(job_id, "a")
    reader, task = rig.parts.logs._reader, TaskId(JobId(job_id), "a")
    found = await reader.locate(task, 1)
    before = rig.worker.sent
    async with aclosing(reader.follow(task, found, "stdout", 0, piece=64_000)) as chunks:
        got = await anext(chunks)
        await asyncio.sleep(0.2)  # nobody reads
        assert len(got) <= rig.worker.sent - before <= (64_000 if live else PIECE_BYTES)
        async for chunk in chunks:
            got += chunk
            if len(got) == len(data):
                break
    assert got == data


async def test_several_logs_come_in_one_answer_each_as_if_alone(rig: Rig):
    ann, bob = await rig.client("ann"), await rig.client("bob")
    live, _ = await a_task(rig)
    ended, _ = await a_task(rig, "SUCCEEDED", stdout_bytes=6)
    others = await submit(bob)
    rig.tasks.put(others, "a")
    rig.store_log(ended, "a", b"01234\n")
    await rig.worker.write(live, "a", EVERY_BYTE)

    def one(job: str, **more: object) -> dict[str, object]:
        return {"job": job, "task": "a", "attempt": 1, "stream": "stdout", **more}

    wanted = [
        one(live, tail=5),
        one(live, offset=10, attempt=0),
        one(ended, offset=2),
        one(ended, offset=7),
        one(others),
        one(live, attempt=2),
        one("j0000000000000000"),
        one(live, attempt="latest", offset=len(EVERY_BYTE) + 1),
        one(live, stream="both", offset=len(EVERY_BYTE) + 1),
    ]
    got = bytearray()

    async def read() -> None:
        async with ann.stream("POST", "/logs/follow", json={"logs": wanted}) as answer:
            assert answer.status_code == 200
            async for data in answer.aiter_raw():
                got.extend(data)

    def of(number: int) -> list[tuple[dict[str, object], bytes]]:
        return [(head, data) for head, data in frames(bytes(got)) if head.get("log") == number]

    reading = asyncio.create_task(read())
    await eventually(lambda: b"".join(data for _, data in of(1)) == EVERY_BYTE[10:])
    await eventually(lambda: all(of(n)[-1:] for n in range(9)))
    assert of(0)[0][0] == {
        "kind": "open", "log": 0, "attempt": 1, "offset": len(EVERY_BYTE) - 5, "ended": False,
    }  # fmt: skip
    assert (of(2)[0][0]["offset"], b"".join(data for _, data in of(2))) == (2, b"234\n")
    assert [of(n)[-1][0].get("status") for n in range(3, 9)] == [416, 403, 404, 404, 416, 416]
    await rig.worker.write(live, "a", b"more")
    await rig.worker.end(live, "a")
    await asyncio.wait_for(reading, 10)
    assert b"".join(data for _, data in of(0)) == EVERY_BYTE[-5:] + b"more"
    assert b"".join(data for _, data in of(1)) == EVERY_BYTE[10:] + b"more"
    assert [of(n)[-1][0]["kind"] for n in range(3)] == ["end"] * 3
    for bad in ([], [one(live)] * 129, [one(live, stream="index")], [one(live, offset=-1)]):
        assert (await ann.post("/logs/follow", json={"logs": bad})).status_code == 400


@pytest.mark.parametrize("key", ["offset", "tail", "attempt"])
@pytest.mark.parametrize("value", ["1", True, 1.0, 2**63])
async def test_numbers_of_a_followed_log_are_whole_numbers(rig: Rig, key: str, value: object):
    ann = await rig.client("ann")
    wish = {"job": "j", "task": "a", "stream": "stdout", key: value}
    answer = await ann.post("/logs/follow", json={"logs": [wish]})
    assert answer.status_code == 400
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == f"/logs/0/{key}"
    assert problem["message"].startswith(f"`{key}` m")


async def test_a_followed_log_begins_at_one_place(rig: Rig):
    ann = await rig.client("ann")
    wish = {"job": "j", "task": "a", "stream": "stdout", "offset": 0, "tail": 1}
    answer = await ann.post("/logs/follow", json={"logs": [wish]})
    assert answer.status_code == 400
    assert answer.json()["detail"] == "Entry 1 of `logs` may have `offset` or `tail`, not both."


@pytest.mark.parametrize(
    "body", [b'{"logs": "\xff\xfe"}', b"[" * 100_000, b'{"logs": ' + b"9" * 5_000 + b"}", b"{"], ids=len
)
async def test_a_body_that_is_no_json_is_told_in_one_sentence(rig: Rig, body: bytes):
    ann = await rig.client("ann")
    answer = await ann.post("/logs/follow", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["detail"]) == (400, "The body is no valid JSON.")
    assert [item["message"] for item in answer.json()["errors"]] == ["The body is no valid JSON."]


async def test_too_many_followed_logs_are_refused_until_some_are_closed(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    ann = await rig.client("ann")
    job_id, _ = await a_task(rig)
    monkeypatch.setattr(rig.parts.logs, "places", FollowPlaces(per_account=4))

    def body(*offsets: int, stream: str = "stdout") -> dict[str, object]:
        return {"logs": [{"job": job_id, "task": "a", "stream": stream, "offset": offset} for offset in offsets]}

    await rig.worker.write(job_id, "a", b"0123456789")
    # Four wishes for one log from one byte on are one.
    async with ann.stream("POST", "/logs/follow", json=body(1, 1, 1, 1, 2)) as answer:
        assert answer.status_code == 200
        refused = await ann.post("/logs/follow", json=body(0, stream="both"))
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert "close some" in refused.json()["detail"]
    await rig.worker.end(job_id, "a")

    async def taken() -> bool:
        return (await ann.post("/logs/follow", json=body(0, stream="both"))).status_code == 200

    for _ in range(50):
        if await taken():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the places stay taken")
