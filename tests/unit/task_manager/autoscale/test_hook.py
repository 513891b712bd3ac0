"""Real commands and a real server on loopback, as the hook for growth."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headway.errors import Unavailable
from task_manager.autoscale.hook import CommandHook, WebhookHook
from tests.support.waiting import eventually

MESSAGE = {"want": "grow", "lacks": [{"count": 3}]}


def python(program: str, *, timeout_s: float = 30.0) -> CommandHook:
    return CommandHook([sys.executable, "-c", program], timeout_s)


async def test_a_command_gets_the_message_on_stdin(tmp_path: Path) -> None:
    target = tmp_path / "told"
    await python(f"import sys; open({str(target)!r}, 'w').write(sys.stdin.read())").tell(MESSAGE)
    assert json.loads(target.read_text()) == MESSAGE


async def test_a_command_need_not_read() -> None:
    await python("pass").tell({"lacks": ["x" * 1_000_000]})


async def test_a_command_that_fails_is_told_with_what_it_said() -> None:
    with pytest.raises(Unavailable, match="ended with code 3: no quota left"):
        await python("import sys; print('no quota left'); sys.exit(3)").tell(MESSAGE)


async def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(Unavailable, match="could not be started"):
        await CommandHook(["/nowhere/hook"], 5).tell(MESSAGE)


async def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    program = (
        "import subprocess, time\n"
        f"child = subprocess.Popen(['sleep', '600']); open({str(noted)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )
    with pytest.raises(Unavailable, match="was killed"):
        await python(program, timeout_s=3.0).tell(MESSAGE)
    pid = int(noted.read_text())

    def gone() -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        return state == "Z"

    await eventually(gone)


Answer = Callable[[bytes], bytes]


@asynccontextmanager
async def a_server(answer: Answer) -> AsyncIterator[tuple[str, list[bytes]]]:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-l"))
        seen.append(head + await reader.readexactly(length))
        writer.write(answer(head))
        await writer.drain()
        writer.close()

    handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = serve
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook", seen


def ok(head: bytes) -> bytes:
    return b"HTTP/1.1 204 No Content\r\n\r\n"


async def test_a_webhook_gets_a_signed_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    key = tmp_path / "key"
    key.write_text("sesame\n")
    async with a_server(ok) as (url, seen):
        await WebhookHook(url, str(key), 10).tell(MESSAGE)
    head, body = seen[0].split(b"\r\n\r\n", 1)
    assert json.loads(body) == MESSAGE
    wanted = "sha256=" + hmac.new(b"sesame", body, hashlib.sha256).hexdigest()
    assert f"x-headway-signature: {wanted}".encode() in head.lower()


async def test_a_redirect_is_not_followed() -> None:
    async with a_server(ok) as (elsewhere, reached):

        def away(head: bytes) -> bytes:
            return f"HTTP/1.1 307 Away\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n".encode()

        async with a_server(away) as (url, _):
            with pytest.raises(Unavailable, match="status 307"):
                await WebhookHook(url, "", 10).tell(MESSAGE)
        assert reached == []


async def test_a_webhook_that_fails_or_is_away_is_told() -> None:
    async with a_server(lambda head: b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n") as (url, _):
        with pytest.raises(Unavailable, match="status 500"):
            await WebhookHook(url, "", 10).tell(MESSAGE)
    with pytest.raises(Unavailable, match="did not answer"):
        await WebhookHook(url, "", 10).tell(MESSAGE)


async def test_a_webhook_that_hangs_is_given_up() -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(Unavailable, match="did not answer"):
            await WebhookHook(url, "", 0.5).tell(MESSAGE)


async def test_without_its_key_nothing_is_sent(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    async with a_server(ok) as (url, seen):
        for path in (empty, tmp_path / "missing"):
            with pytest.raises(Unavailable, match="key of the webhook"):
                await WebhookHook(url, str(path), 10).tell(MESSAGE)
    assert seen == []
