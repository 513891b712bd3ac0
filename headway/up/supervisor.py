"""Keeps five service processes alive and stops them in order.

Nothing is polled: a pidfd tells when a process ends, a socket when it is ready. When this process is killed, the
services see their end of the socket close and stop by themselves. Running tasks go on in every case.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ..backoff import Backoff
from ..clock import Clock, SystemClock
from ..errors import HeadwayError
from ..notify import SUPERVISOR_FD

# The page first, so that no new work comes; the Worker last, so that TaskManager can still tell it that leases are
# suspended.
STOP_ORDER = ("httpserver", "job_manager", "task_manager", "resource_manager", "worker")
# headway.lifecycle.EXIT_PORT_TAKEN; importing it would bring all that a service needs into this process.
_EXIT_PORT_TAKEN = 3
_START_LIMIT_S = 120.0
_STOP_LIMIT_S = 30.0
_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 30.0
# A service that lived so long starts again at once.
_SETTLED_S = 60.0

Say = Callable[[str], None]


class StartFailed(HeadwayError):
    """A service could not start; all others have been stopped again."""

    code = "UNAVAILABLE"
    http_status = 503
    slug = "start-failed"
    title = "Headway could not start"


class PortsMoved(StartFailed):
    """Another program took an internal port between the look at it and the start; others may be had."""

    slug = "ports-moved"


class Child:
    """One process of one service."""

    def __init__(self, service: str, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self.service = service
        self.status = ""
        self.ready = asyncio.Event()
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._process = process
        self._channel = channel
        self._pidfd = os.pidfd_open(process.pid)
        self._buffer = b""
        loop = asyncio.get_running_loop()
        channel.setblocking(False)
        loop.add_reader(channel.fileno(), self._readable)
        loop.add_reader(self._pidfd, self._over)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; nothing if it has ended."""
        self._process.send_signal(number)

    def _readable(self) -> None:
        try:
            data = self._channel.recv(4_096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if line == b"READY=1":
                self.ready.set()
            elif line.startswith(b"STATUS="):
                self.status = line[7:].decode("utf-8", "replace")

    def _over(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        # What it said last may still lie in the socket.
        with contextlib.suppress(OSError):
            self._readable()
        loop.remove_reader(self._channel.fileno())
        self._channel.close()
        self.ended.set_result(self._process.wait())


class Supervisor:
    """Starts the services, restarts those that die, stops them all."""

    def __init__(
        self,
        config_path: Path,
        logs: Path,
        *,
        lock_fd: int = -1,
        services: tuple[str, ...] = STOP_ORDER,
        command: Callable[[str, Path], list[str]] | None = None,
        environment: Mapping[str, str] | None = None,
        say: Say = print,
        clock: Clock | None = None,
    ) -> None:
        self._config_path = config_path
        self._logs = logs
        self._lock_fd = lock_fd
        self._services = services
        self._command = command or _serve_command
        self._environment = dict(os.environ if environment is None else environment)
        self._say = say
        self._clock: Clock = clock or SystemClock()
        self._children: dict[str, Child] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._stop_asked = asyncio.Event()

    @property
    def children(self) -> Mapping[str, Child]:
        """The process of each service that runs now."""
        return self._children

    def request_stop(self) -> None:
        """Starts the stop; a second wish kills."""
        if self._stop_asked.is_set():
            for child in self._children.values():
                child.signal(signal.SIGKILL)
        self._stop_asked.set()

    async def start(self) -> None:
        """Starts all services at once and returns when all are ready, or a stop was asked for.

        Raises:
            StartFailed: one ended or was not ready in time; the others have been stopped again.
        """
        for service in self._services:
            self._children[service] = self._spawn(service)
        starting = [asyncio.create_task(self._first_ready(child)) for child in self._children.values()]
        stop = asyncio.create_task(self._stop_asked.wait())
        everything = asyncio.gather(*starting)
        try:
            await asyncio.wait((everything, stop), timeout=_START_LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
            if everything.done():
                everything.result()
            elif not stop.done():
                slow = [child.service for child in self._children.values() if not child.ready.is_set()]
                raise StartFailed(f"Not ready after {_START_LIMIT_S:g} s: {', '.join(slow)}; see {self._logs}.")
        except StartFailed:
            await self._stop_all()
            raise
        finally:
            stop.cancel()
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, stop, everything, return_exceptions=True)

    async def keep(self) -> None:
        """Restarts what dies until a stop is asked for, then stops all in order."""
        self._keepers = [asyncio.create_task(self._keep(service)) for service in self._services]
        await self._stop_asked.wait()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await self._stop_all()

    async def _first_ready(self, child: Child) -> None:
        ready = asyncio.create_task(child.ready.wait())
        try:
            await asyncio.wait((ready, child.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if child.ended.done() and not self._stop_asked.is_set():
            status = child.ended.result()
            kind = PortsMoved if status == _EXIT_PORT_TAKEN else StartFailed
            raise kind(self._why(child, status, "could not start"))

    async def _keep(self, service: str) -> None:
        pauses = Backoff(_FIRST_DELAY_S, _LONGEST_DELAY_S)
        while True:
            child = self._children[service]
            started_at = self._clock.monotonic()
            status = await asyncio.shield(child.ended)
            del self._children[service]
            if self._clock.monotonic() - started_at > _SETTLED_S:
                pauses.reset()
            why = self._why(child, status, "ended")
            while service not in self._children:
                delay_s = pauses.next_s()
                self._say(f"{why} Starting it again in {delay_s:g} s.")
                await self._clock.sleep(delay_s)
                try:
                    self._children[service] = self._spawn(service)
                except OSError as error:
                    why = f"{service} could not be started: {error.strerror}."

    async def _stop_all(self) -> None:
        self._stop_asked.set()
        for service in STOP_ORDER:
            child = self._children.get(service)
            if child is None:
                continue
            child.signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(_STOP_LIMIT_S):
                    await asyncio.shield(child.ended)
            except TimeoutError:
                self._say(f"{service} did not stop within {_STOP_LIMIT_S:g} s; killing it.")
                child.signal(signal.SIGKILL)
                await child.ended
        self._children.clear()

    def _spawn(self, service: str) -> Child:
        mine, theirs = socket.socketpair()
        environment = {
            **self._environment,
            SUPERVISOR_FD: str(theirs.fileno()),
            # Each thread would get 64 MiB of address space of its own, of which much is never given back.
            "MALLOC_ARENA_MAX": self._environment.get("MALLOC_ARENA_MAX", "2"),
        }
        # systemd waits for `up` itself to say that it is ready.
        environment.pop("NOTIFY_SOCKET", None)
        inherited = [theirs.fileno()] + ([self._lock_fd] if self._lock_fd >= 0 else [])
        try:
            with (self._logs / f"{service}.out").open("wb") as output:
                process = subprocess.Popen(
                    self._command(service, self._config_path),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    pass_fds=inherited,
                    # Ctrl-C at the terminal is for `up` alone, which then stops the services in order.
                    start_new_session=True,
                )
        finally:
            theirs.close()
        return Child(service, process, mine)

    def _why(self, child: Child, status: int, what: str) -> str:
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"{what} (status {status})"
        said = child.status or ("" if status < 0 else self._last_line(child.service))
        reason = f": {said.rstrip('.')}." if said else "."
        return f"{child.service} {how}{reason} See {self._logs / f'{child.service}.log'}."

    def _last_line(self, service: str) -> str:
        """The last words of a process that could not even log."""
        with contextlib.suppress(OSError):
            lines = (self._logs / f"{service}.out").read_text("utf-8", "replace").strip().splitlines()
            return lines[-1][:500] if lines else ""
        return ""


def _serve_command(service: str, config_path: Path) -> list[str]:
    return [sys.executable, "-m", "headway", "serve", service, "--config", str(config_path)]
