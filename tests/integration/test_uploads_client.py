"""The client that sends: through cuts, a killed server and an end of its own."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from headway.client import Client, Profile, uploads
from headway.client.errors import NoService, Refused
from headway.errors import Conflict
from tests.integration.http_rig import Rig, a_rig
from tests.support.cluster import Cluster
from tests.support.waiting import soon

MIB = 1 << 20
# Its loop is the fixtures', the client itself blocks and runs in threads.
in_module = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("uploads")) as rig:
        yield rig


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the client remembers; and it does not pause for long."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(uploads, "_FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(uploads, "_MOST_PAUSE_S", 0.2)
    return tmp_path / "state" / "headway" / "uploads"


def a_file(folder: Path, size: int) -> Path:
    path = folder / "source"
    path.write_bytes(os.urandom(size))
    return path


def remembered(state: Path) -> list[Path]:
    """What the client keeps of uploads that are not over."""
    return list(state.iterdir()) if state.exists() else []


class Progress:
    """What the client told; at a point a test may do something."""

    def __init__(self, at: int | None = None, do: Callable[[], None] = lambda: None) -> None:
        self.steps: list[int] = []
        self._at = at
        self._do = do

    def __call__(self, count: int) -> None:
        self.steps.append(count)
        if self._at is not None and self.sum >= self._at:
            self._at = None
            self._do()

    @property
    def sum(self) -> int:
        return sum(self.steps)


class CtrlC(BaseException):
    """The program ends."""


def ctrl_c() -> None:
    raise CtrlC


@asynccontextmanager
async def a_line_that_breaks(port: int, after: int, times: int) -> AsyncIterator[int]:
    """A port in front of another: each of the first ``times`` connections that carry ``after`` bytes is cut there."""
    left = times

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)

        async def back() -> None:
            while data := await far_reader.read(1 << 16):
                writer.write(data)

        answers = asyncio.create_task(back())
        carried = 0
        try:
            while data := await reader.read(1 << 16):
                far_writer.write(data)
                await far_writer.drain()
                carried += len(data)
                if left and carried > after:
                    left -= 1
                    break
        except ConnectionError:
            pass
        finally:
            answers.cancel()
            far_writer.close()
            writer.transport.abort()

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    assert left == 0, "it was cut as often as the test wanted"


async def a_client(rig: Rig, name: str, port: int | None = None) -> Client:
    url = rig.url if port is None else f"http://127.0.0.1:{port}"
    return Client(Profile(url=url, token=await rig.account(name), user=name))


@in_module
async def test_a_file_arrives_through_a_line_that_breaks_again_and_again(rig: Rig, tmp_path: Path, state: Path):
    source = a_file(tmp_path, 9 * MIB)
    progress = Progress()
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    async with a_line_that_breaks(int(rig.url.rpartition(":")[2]), after=2 * MIB, times=3) as port:
        with await a_client(rig, "ann", port) as client:
            done = await asyncio.to_thread(
                uploads.upload, client, "files", source, {"path": "a ü", "sha256": digest}, progress
            )
    assert (done["state"], done["result"]) == ("done", {"path": "a ü"})
    assert (rig.layout.home("ann") / "a ü").read_bytes() == source.read_bytes()
    assert progress.sum == 9 * MIB, "what is sent twice is no progress"
    assert remembered(state) == []


@in_module
async def test_a_second_run_goes_on_where_the_first_ended(rig: Rig, tmp_path: Path, state: Path):
    source = a_file(tmp_path, 9 * MIB)
    with await a_client(rig, "ann") as client:
        first = Progress(4 * MIB, ctrl_c)
        with pytest.raises(CtrlC):
            await asyncio.to_thread(uploads.upload, client, "files", source, {"path": "twice"}, first)
        assert len(remembered(state)) == 1
        assert os.stat(state).st_mode & 0o777 == 0o700
        other = Progress()
        done = await asyncio.to_thread(uploads.upload, client, "files", source, {"path": "other"}, other)
        assert done["result"] == {"path": "other"}
        assert len(remembered(state)) == 1, "other words are another upload"
        second = Progress()
        done = await asyncio.to_thread(uploads.upload, client, "files", source, {"path": "twice"}, second)
    assert done["state"] == "done"
    assert second.steps[0] > 3 * MIB
    assert second.sum == 9 * MIB
    assert (rig.layout.home("ann") / "twice").read_bytes() == source.read_bytes()
    assert remembered(state) == []


@in_module
@pytest.mark.parametrize("how", ["told to", "changed", "gone", "failed"])
async def test_a_second_run_begins_anew_where_it_must(rig: Rig, tmp_path: Path, state: Path, how: str):
    source = a_file(tmp_path, 3 * MIB)
    words = {"path": f"anew {how}"} | ({"sha256": "ab" * 32} if how == "failed" else {})
    with await a_client(rig, "ann") as client:
        if how == "failed":
            found = await asyncio.to_thread(uploads.upload, client, "files", source, words, Progress())
            assert found["problem"]["slug"] == "checksum"
        else:
            with pytest.raises(CtrlC):
                await asyncio.to_thread(uploads.upload, client, "files", source, words, Progress(MIB, ctrl_c))
        if how == "changed":
            source.write_bytes(os.urandom(3 * MIB))
        elif how == "gone":
            path = remembered(state)[0].read_text().split('"')[3]
            await asyncio.to_thread(client._send, "DELETE", path, headers={"Tus-Resumable": "1.0.0"})
        progress = Progress()
        done = await asyncio.to_thread(
            lambda: (
                uploads.upload(client, "files", source, {"path": "anew"}, progress, resume=how != "told to")
                if how == "failed"
                else uploads.upload(client, "files", source, words, progress, resume=how != "told to")
            )
        )
    assert done["state"] == "done"
    assert progress.sum == 3 * MIB
    assert progress.steps[0] < MIB


@in_module
async def test_a_pipe_and_a_part_of_a_file_and_nothing(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(uploads, "_STREAM_PIECE_BYTES", MIB)
    data = os.urandom(3 * MIB + 5)
    home = rig.layout.home("ann")
    with await a_client(rig, "ann") as client:
        reading, writing = os.pipe()

        def fill() -> None:
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(data)

        filling = threading.Thread(target=fill)
        filling.start()
        progress = Progress()
        with os.fdopen(reading, "rb") as pipe:
            done = await asyncio.to_thread(uploads.upload, client, "files", pipe, {"path": "pipe"}, progress)
        filling.join()
        assert (done["state"], done["length"], progress.sum) == ("done", len(data), len(data))
        assert (home / "pipe").read_bytes() == data
        part = io.BytesIO(data)
        part.seek(1000)
        done = await asyncio.to_thread(uploads.upload, client, "files", part, {"path": "part"}, Progress())
        assert (home / "part").read_bytes() == data[1000:]
        source = a_file(tmp_path, 0)
        done = await asyncio.to_thread(uploads.upload, client, "files", source, {"path": "nothing"}, Progress())
        assert done["state"] == "done"
        assert (home / "nothing").read_bytes() == b""


@in_module
async def test_a_file_that_changes_while_it_is_sent_is_not_stored(rig: Rig, tmp_path: Path, state: Path):
    source = a_file(tmp_path, 3 * MIB)

    def change() -> None:
        with source.open("r+b") as file:
            file.write(b"changed")

    with await a_client(rig, "ann") as client, pytest.raises(Conflict, match="changed"):
        await asyncio.to_thread(uploads.upload, client, "files", source, {"path": "x"}, Progress(MIB, change))
    assert remembered(state) == []


@in_module
async def test_refusals_are_not_tried_again_and_silence_ends(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path
):
    monkeypatch.setattr(uploads, "_PATIENCE_S", 0.3)
    source = a_file(tmp_path, 100)
    with await a_client(rig, "ann") as client:
        with pytest.raises(Refused) as refused:
            await asyncio.to_thread(uploads.upload, client, "files", source, {"path": "../x"}, Progress())
        assert refused.value.status == 400
        assert remembered(state) == []
    asked = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        if request.method == "POST":
            return httpx.Response(201, headers={"Location": "/api/v1/uploads/files/x"})
        raise httpx.ConnectError("nobody")

    nowhere = Client(Profile(url="http://nowhere"), transport=httpx.MockTransport(answer))
    with nowhere as client, pytest.raises(NoService):
        await asyncio.to_thread(uploads.upload, client, "files", source, {"path": "x"}, Progress())
    assert asked > 3
    assert len(remembered(state)) == 1, "a later run goes on"


def test_what_was_left_open_is_chosen_by_the_next_run(tmp_path: Path, state: Path):
    source = a_file(tmp_path, 100)
    sent: list[str] = []
    found = {"id": "x", "state": "receiving", "offset": 0, "length": 100}

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(f"{request.method} {request.url.params.get('op', '')}".strip())
        if request.method == "PATCH":
            found.update(state="choose", offset=100)
            return httpx.Response(204, headers={"Upload-Offset": "100"})
        if "op" in request.url.params:
            assert request.read() == b'{"choice":"a:2"}'
            found.update(state="done")
        location = {"Location": "http://place/api/v1/uploads/images/x"}
        return httpx.Response(201 if request.method == "POST" else 200, json=found, headers=location)

    with Client(Profile(url="http://place"), transport=httpx.MockTransport(answer)) as client:
        first = uploads.upload(client, "images", source, {"name": "a"}, Progress())
        assert first["state"] == "choose"
        assert len(remembered(state)) == 1
        second = uploads.upload(client, "images", source, {"name": "a", "choose": "a:2"}, Progress())
    assert second["state"] == "done"
    assert sent == ["POST", "PATCH", "GET", "GET", "POST choose", "GET"], "no byte is sent twice"
    assert remembered(state) == []


# -- a server that is killed ---------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Cluster]:
    """HttpServer as a process of its own; the other services are not needed."""
    cluster = Cluster(tmp_path / "cluster")
    cluster.start("httpserver")
    try:
        answers(cluster)
        yield cluster
    finally:
        cluster.close()


def answers(cluster: Cluster) -> None:
    def answering() -> bool:
        assert cluster.processes["httpserver"].poll() is None, cluster.log("httpserver")[-2000:]
        try:
            return httpx.get(f"{cluster.url}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    soon(answering, within_s=60, what="HttpServer answers")


@pytest.mark.slow
def test_an_upload_goes_on_after_its_server_was_killed(alone: Cluster, tmp_path: Path):
    source = a_file(tmp_path, 40 * MIB)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()

    def kill() -> None:
        alone.kill9("httpserver")
        halves = list((alone.mount / "homes" / "admin" / ".headway-uploads").iterdir())
        assert len(halves) == 1
        # Another of its kind, that no record knows: as of a database that was set back.
        halves[0].with_name("nobodys").write_bytes(b"x")
        alone.start("httpserver")

    progress = Progress(20 * MIB, kill)
    done = uploads.upload(alone.client, "files", source, {"path": "big", "sha256": digest}, progress)
    assert done["state"] == "done", done
    home = alone.mount / "homes" / "admin"
    assert [path.name for path in home.iterdir()] == ["big"]
    assert hashlib.sha256((home / "big").read_bytes()).hexdigest() == digest
    assert progress.sum == 40 * MIB
    assert subprocess.run(["stat", "-c", "%h", str(home / "big")], capture_output=True, check=True).stdout == b"1\n"
