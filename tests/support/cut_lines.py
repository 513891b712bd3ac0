"""A network between a Worker and the other services that a test can cut and heal.

What is under way when it is cut waits, as packets do that are sent again and again. When it is healed, that arrives
late, or its connection is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping
from typing import Any

from .cluster import SERVICES, Cluster
from .ports import free_port

_PIECE = 1 << 16
_PEERS = {"httpserver": "http_server"}


class CutLines:
    """All lines of one Worker, in both directions. ``settings`` are the Worker's, for a Cluster's ``worker_settings``.

    Call :meth:`connect` with the cluster before it is started.
    """

    def __init__(self) -> None:
        self._bind = f"127.0.0.1:{free_port()}"
        self._doors = {name: f"127.0.0.1:{free_port()}" for name in (*SERVICES, "worker")}
        self.settings: Mapping[str, Any] = {
            "worker.bind": self._bind,
            "worker.address": self._doors["worker"],
            **{f"peers.{_PEERS.get(name, name)}": self._doors[name] for name in SERVICES},
        }
        self._whole = asyncio.Event()
        self._whole.set()
        self._carried: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def connect(self, cluster: Cluster) -> None:
        """Listen, and lead to the services of this cluster."""
        self._thread.start()
        for name, door in self._doors.items():
            target = self._bind if name == "worker" else cluster.address(name)
            asyncio.run_coroutine_threadsafe(self._listen(door, target), self._loop).result(10)

    def cut(self) -> None:
        """From now on nothing goes through."""
        self._loop.call_soon_threadsafe(self._whole.clear)

    def heal(self, *, deliver: bool = True) -> None:
        """All goes through again. ``deliver`` False: the connections of before are closed, with what they carried."""

        def heal() -> None:
            if not deliver:
                for task in self._carried:
                    task.cancel()
            self._whole.set()

        self._loop.call_soon_threadsafe(heal)

    def close(self) -> None:
        """Safe twice."""
        if not self._thread.is_alive():
            return

        async def end() -> None:
            for server in self._servers:
                server.close()
            tasks = list(self._carried)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0.2)  # transports close themselves in later turns

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self, door: str, target: str) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._carried.add(task)
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._carry(reader, writer, target)
            writer.close()
            self._carried.discard(task)

        host, _, port = door.rpartition(":")
        self._servers.append(await asyncio.start_server(serve, host, int(port)))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> None:
        await self._whole.wait()
        host, _, port = target.rpartition(":")
        up_reader, up_writer = await asyncio.open_connection(host, int(port))

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(_PIECE):
                await self._whole.wait()
                sink.write(data)
                await sink.drain()
            await self._whole.wait()
            sink.close()

        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(copy(reader, up_writer))
                both.create_task(copy(up_reader, writer))
        except* OSError:
            pass  # one side is gone
        finally:
            up_writer.close()
