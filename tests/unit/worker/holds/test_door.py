"""The Worker's socket for people's own processes: everybody on the machine reaches it, and proves who it is."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.client.gpu_door import NoWorkerHere, find_door, open_door
from headway.clock import SystemClock
from headway.errors import InvalidInput
from worker.box import BoxStanding
from worker.holds.door import HoldDoor
from worker.holds.keeper import Holds

from .test_keeper import KEY_HASH, an_order, until_ended


@pytest.fixture
def short() -> Iterator[Path]:
    """A socket's path must be short."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


async def test_ordinary_users_reach_it_whatever_the_umask_is(short: Path, tmp_path: Path):
    holds = Holds(tmp_path, SystemClock())
    door = HoldDoor(short / "run" / "n1.sock", holds, node_id="n1", cluster="c")
    before = os.umask(0o077)
    try:
        await door.open()
    finally:
        os.umask(before)
    assert stat.S_IMODE((short / "run").stat().st_mode) == 0o755
    assert stat.S_IMODE((short / "run" / "n1.sock").stat().st_mode) == 0o666
    await door.close()
    assert not (short / "run" / "n1.sock").exists()


async def test_a_second_worker_takes_nobodys_socket(short: Path, tmp_path: Path):
    holds = Holds(tmp_path, SystemClock())
    first, second = (HoldDoor(short / "n.sock", holds, node_id=name, cluster="c") for name in ("n1", "n2"))
    await first.open()
    await second.open()
    await second.close()
    met = await asyncio.to_thread(open_door, str(short / "n.sock"))
    assert met is not None
    assert (met.node, met.cluster) == ("n1", "c")
    met.close()
    await first.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
async def test_the_process_of_another_user_gets_gpus_and_is_ended(short: Path, tmp_path: Path):
    holds = Holds(tmp_path / "holds", SystemClock())
    holds.open()
    door = HoldDoor(short / "n.sock", holds, node_id="n1", cluster="c")
    await door.open()
    got, gets = os.pipe()
    pid = os.fork()  # the interpreter may lie where that user can't start it
    if pid == 0:
        _as_nobody(str(short / "n.sock"), gets)
    order = an_order(timeout_ms=60_000)
    holds.offer(order, KEY_HASH, {})
    assert await asyncio.to_thread(os.read, got, 1) == b"g"
    assert holds.standing(order.attempt) is BoxStanding.RUNS
    (record,) = [hold.record for hold in holds._live.values()]
    assert record.holder is not None
    assert (record.holder.pid, record.holder.uid) == (pid, 65534)
    holds.kill(order.attempt)
    await until_ended(holds, order.attempt)
    assert os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, pid, 0))[1]) == -9
    await door.close()
    await holds.close()


def _as_nobody(path: str, gets: int) -> None:
    """In the child: it asks with the key, tells that it was granted, and waits."""
    try:
        os.setgid(65534)
        os.setuid(65534)
        line = socket.socket(socket.AF_UNIX)
        line.connect(path)
        line.sendall(b'{"key": "key"}\n')
        text = b""
        while b"granted" not in text:
            text += line.recv(4096)
        os.write(gets, b"g")
        time.sleep(60)
    finally:
        os._exit(1)


async def test_nonsense_ends_the_connection_and_nothing_else(short: Path, tmp_path: Path):
    door = HoldDoor(short / "n.sock", Holds(tmp_path, SystemClock()), node_id="n1", cluster="c")
    await door.open()
    for nonsense in (b"[]\n", b"{\n", b'"x"\n', b'{"done": {}}\n', b"\xff\xfe\n", b"x" * 100_000 + b"\n", b"\n"):
        reader, writer = await asyncio.open_unix_connection(str(short / "n.sock"))
        writer.write(nonsense)
        await reader.readline()
        if nonsense != b'{"done": {}}\n':
            assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
    met = await asyncio.to_thread(open_door, str(short / "n.sock"))
    assert met is not None
    met.close()
    await door.close()


async def test_nobody_takes_up_the_room_of_others(short: Path, tmp_path: Path):
    holds = Holds(tmp_path, SystemClock())
    door = HoldDoor(short / "n.sock", holds, node_id="n1", cluster="c")
    await door.open()
    lines = [await asyncio.open_unix_connection(str(short / "n.sock")) for _ in range(257)]
    hellos = [await asyncio.wait_for(reader.readline(), 5) for reader, _ in lines]
    assert [bool(hello) for hello in hellos] == [True] * 256 + [False]
    reader, writer = lines[0]
    writer.write(b"".join(b'{"key": "%d"}\n' % number for number in range(2_000)) + b"{\n")
    while await asyncio.wait_for(reader.read(4096), 5):
        pass
    assert len(holds._waiting) == 0
    lines[1][1].write(b"".join(b'{"key": "%d"}\n' % number for number in range(20)))
    await asyncio.sleep(0.2)
    assert len(holds._waiting) == 1
    for _, writer in lines:
        writer.close()
    await door.close()


async def test_which_worker_is_meant(short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headway.client.gpu_door._SHARED", str(short / "none" / "*.sock"))  # a worker may run here
    doors = [
        HoldDoor(short / "headway" / f"{n}.sock", Holds(tmp_path, SystemClock()), node_id=n, cluster="c") for n in "ab"
    ]
    environ = {"XDG_RUNTIME_DIR": str(short), "HEADWAY_GPU_SOCKET": ""}
    with pytest.raises(NoWorkerHere):
        await asyncio.to_thread(find_door, "", {"HEADWAY_GPU_SOCKET": str(short / "none.sock")})
    for door in doors:
        await door.open()
    with pytest.raises(InvalidInput, match=r"Several workers run on this machine \(a, b\): name one with --node"):
        await asyncio.to_thread(find_door, "", environ)
    met = await asyncio.to_thread(find_door, "b", environ)
    assert met.node == "b"
    met.close()
    with pytest.raises(InvalidInput, match="This machine is a, b, and not c"):
        await asyncio.to_thread(find_door, "c", environ)
    for door in doors:
        await door.close()


async def test_a_worker_that_stops_tells_nobody_as_dead(short: Path, tmp_path: Path):
    """All lines close then: TaskManager would have cancelled whoever waits."""
    holds = Holds(tmp_path, SystemClock())
    assert holds.waiting_jobs().known_s == 0
    door = HoldDoor(short / "n.sock", holds, node_id="n1", cluster="c")
    await door.open()
    reader, writer = await asyncio.open_unix_connection(str(short / "n.sock"))
    await reader.readline()
    writer.write(b'{"key": "key"}\n')
    await asyncio.sleep(0.1)
    assert holds.waiting_jobs().known_s == 0, "its job is not known yet"
    writer.write(b'{"job": "j0123456789abcdef"}\n')
    await asyncio.sleep(0.1)
    told = holds.waiting_jobs()
    assert told.jobs == ("j0123456789abcdef",)
    assert told.known_s > 0
    await door.close()
    await asyncio.sleep(0.1)
    told = holds.waiting_jobs()
    assert (told.jobs, told.known_s) == (("j0123456789abcdef",), 0)
    writer.close()
