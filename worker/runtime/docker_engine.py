"""Calls to a Docker Engine from asyncio code, each with a time limit."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import requests
import urllib3
from docker import APIClient
from docker.errors import APIError, DockerException
from docker.transport import UnixHTTPAdapter

from headway.units import format_duration

from ..ports import EngineUnavailable
from .docker_errors import engine_in_trouble

T = TypeVar("T")
K = TypeVar("K")

DEFAULT_URL = "unix:///var/run/docker.sock"
_THREADS = 24
_QUICK_S = 5.0
_PULL_SILENCE_S = 120.0
_PULL_THREADS = 4
_HOME_THREADS = 8


class DockerEngine:
    """One engine. Blocking calls run in threads of its own, so an engine that hangs blocks nothing else.

    A call raises EngineUnavailable when no answer came in ``timeout_s``, or when the engine itself fails. It raises
    docker's APIError when the engine refused.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.url = url or os.environ.get("DOCKER_HOST") or DEFAULT_URL
        self.timeout_s = timeout_s
        self._clients: dict[float | None, APIClient] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="engine")
        self._quick_threads = ThreadPoolExecutor(2, thread_name_prefix="engine-quick")
        self._home_threads = ThreadPoolExecutor(_HOME_THREADS, thread_name_prefix="engine-home")
        self._pull_threads = ThreadPoolExecutor(_PULL_THREADS, thread_name_prefix="engine-pull")

    async def call(self, work: Callable[[APIClient], T]) -> T:
        """Run ``work`` with the engine. It may make several calls."""
        return await self.wait(self.submit(work))

    async def quick(self, work: Callable[[APIClient], T]) -> T:
        """A question that a healthy engine answers at once. It never waits behind other calls."""
        limit_s = min(_QUICK_S, self.timeout_s)
        return await self._wait(self._in_thread(self._quick_threads, work, limit_s), limit_s)

    async def quick_anew(self) -> None:
        """Ask over a new connection. An engine that stops takes none, while it answers on old ones to the last.

        Raises EngineUnavailable.
        """
        limit_s = min(_QUICK_S, self.timeout_s)
        await self._wait(
            self._in_thread(self._quick_threads, lambda _: self._connect(limit_s).close(), limit_s), limit_s
        )

    async def fetch(self, work: Callable[[APIClient], T]) -> T:
        """Fetch an image. It may take long, but not long without progress."""
        return await asyncio.wrap_future(self._in_thread(self._pull_threads, work, _PULL_SILENCE_S))

    def submit(self, work: Callable[[APIClient], T], *, on_disk: bool = False) -> Future[T]:
        """As ``call``, without waiting. The future is done when the thread is.

        ``on_disk``: the work is mostly with an image's files, or on a share. It keeps no other call waiting.
        """
        return self._in_thread(self._home_threads if on_disk else self._threads, work, self.timeout_s)

    async def wait(self, call: Future[T]) -> T:
        """Wait for a submitted call, but not for ever. Its thread may go on after that."""
        return await self._wait(call, self.timeout_s)

    def client(self, timeout_s: float | None) -> APIClient:
        """A client with this time limit for each answer. It blocks while it asks for the engine's version.

        Raises EngineUnavailable.
        """
        with self._lock:
            client = self._clients.get(timeout_s)
        if client is not None:
            return client
        client = self._connect(timeout_s)
        if self.url.startswith("unix://"):
            client.mount("http+docker://", _OnePool(self.url.replace("unix:", "http+unix:"), client.timeout, _THREADS))
        with self._lock:
            return self._clients.setdefault(timeout_s, client)

    def _connect(self, timeout_s: float | None) -> APIClient:
        try:
            return APIClient(
                base_url=self.url,
                version="auto",
                timeout=timeout_s or self.timeout_s,  # type: ignore[arg-type]  # requests takes fractions too
            )
        except (DockerException, requests.RequestException, OSError, ValueError) as error:
            raise self._away(error) from error

    def forget_clients(self) -> None:
        """The engine did not answer, and may have another version now."""
        with self._lock:
            self._clients.clear()

    def close(self) -> None:
        """Release the threads, without waiting for running calls. Safe twice."""
        for threads in (self._threads, self._quick_threads, self._home_threads, self._pull_threads):
            threads.shutdown(wait=False, cancel_futures=True)

    def _in_thread(self, threads: ThreadPoolExecutor, work: Callable[[APIClient], T], timeout_s: float) -> Future[T]:
        def call() -> T:
            try:
                return work(self.client(timeout_s))
            except APIError as error:
                if engine_in_trouble(error):
                    raise EngineUnavailable(f"The container engine fails: {error.explanation}") from error
                raise
            except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
                raise self._away(error) from error

        try:
            return threads.submit(call)
        except RuntimeError as error:  # the threads are released, since the Worker is stopping
            raise EngineUnavailable("The Worker is stopping.") from error

    async def _wait(self, call: Future[T], limit_s: float) -> T:
        waiting = asyncio.wrap_future(call)
        waiting.add_done_callback(_ignore_error)
        # The thread has limits of its own. This one is for a call that no thread has begun.
        done, _ = await asyncio.wait({waiting}, timeout=2 * limit_s)
        if not done:
            call.cancel()
            raise self._silent(limit_s)
        return waiting.result()

    def _away(self, error: BaseException) -> EngineUnavailable:
        if isinstance(error, requests.Timeout) or "timed out" in str(error).lower():
            return self._silent(self.timeout_s)
        return EngineUnavailable(f"The container engine at {self.url} can't be reached: {_innermost(error)}.")

    def _silent(self, limit_s: float) -> EngineUnavailable:
        return EngineUnavailable(
            f"The container engine at {self.url} does not answer (waited {format_duration(limit_s)})."
        )


def _ignore_error(call: asyncio.Future[Any]) -> None:
    """The caller may have been cancelled. Then nobody needs the error."""
    if not call.cancelled():
        call.exception()


def _innermost(error: BaseException) -> str:
    """The cause below the wrappers of requests and urllib3."""
    seen: BaseException = error
    while True:
        cause = seen.__cause__ or seen.__context__ or next((a for a in seen.args if isinstance(a, BaseException)), None)
        if cause is None:
            break
        seen = cause
    return (getattr(seen, "strerror", None) or str(seen) or type(seen).__name__).rstrip(".")


class _OnePool(UnixHTTPAdapter):
    """docker's adapter keeps a pool of connections for each address. Here one pool serves all."""

    def __init__(self, url: str, timeout: float, size: int) -> None:
        super().__init__(url, timeout, max_pool_size=size)  # type: ignore[arg-type]

    def get_connection(self, url: Any, proxies: Any = None) -> Any:
        return super().get_connection("http+docker://localhost", proxies)


class StartSlots:
    """Lets a number of starts run at once, in the order of asking.

    When the engine does not answer, all that wait get the error at once, not one after another.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a slot. Raises the error of ``fail``."""
        if self._free > 0:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give_back()
            raise

    def give_back(self) -> None:
        """Free the slot."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def fail(self, error: Exception) -> None:
        """Raise the error in all that wait."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(error)


class KeyedLock(Generic[K]):
    """Runs work on one key one after another.

    The next begins only when the last has really ended, including the thread of a cancelled call.
    """

    def __init__(self) -> None:
        self._locks: dict[K, tuple[asyncio.Lock, int]] = {}

    async def take(self, key: K, *, within_s: float) -> None:
        """Raises TimeoutError."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, users + 1)
        try:
            await asyncio.wait_for(lock.acquire(), within_s)
        except BaseException:
            self._leave(key)
            raise

    def give_back(self, key: K) -> None:
        """Release the key, since the work on it has ended."""
        self._locks[key][0].release()
        self._leave(key)

    def _leave(self, key: K) -> None:
        lock, users = self._locks[key]
        if users > 1:
            self._locks[key] = (lock, users - 1)
        else:
            del self._locks[key]
