"""Listens to the engine's events: containers that ended, images that changed, and whether the engine is there."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import requests
import urllib3
from docker.errors import DockerException
from docker.types.daemon import CancellableStream

from headway.backoff import Backoff
from headway.logs import get_logger

from ..ports import EngineUnavailable
from .docker_engine import DockerEngine

log = get_logger(__name__)

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 2.0
_FILTERS = {
    "type": ["container", "image"],
    "event": ["die", "oom", "destroy", "tag", "untag", "delete", "load", "import", "pull"],
}


class EngineEvents:
    """A thread that reads the stream, and connects again whenever it breaks; all callbacks run on the event loop.

    ``on_connect`` after every connect (what happened before it may have been missed), ``on_loss`` when the stream
    broke, ``on_event`` for each event.
    """

    def __init__(
        self,
        engine: DockerEngine,
        *,
        on_connect: Callable[[], None],
        on_loss: Callable[[], None],
        on_event: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._engine = engine
        self._on_connect = on_connect
        self._on_loss = on_loss
        self._on_event = on_event
        self._closed = threading.Event()
        self._stream: CancellableStream[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin to listen; call on the event loop."""
        self._loop = asyncio.get_running_loop()
        # A daemon thread: a read that hangs must not keep the Worker from ending.
        threading.Thread(target=self._run, name="engine-events", daemon=True).start()

    def close(self) -> None:
        """Stop listening. Safe twice."""
        self._closed.set()
        stream = self._stream
        if stream is not None:
            try:
                stream.close()
            except (DockerException, OSError, AttributeError):
                log.debug("engine.events_not_closed")

    def _run(self) -> None:
        pauses = Backoff(2 * _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while not self._closed.is_set():
            try:
                self._listen()
                pauses.reset()
                pause_s = _FIRST_PAUSE_S
            except (
                EngineUnavailable,
                DockerException,
                requests.RequestException,
                urllib3.exceptions.HTTPError,
                OSError,
            ):
                pause_s = pauses.next_s()
            except Exception as error:
                # A thread has no door of its own: without this, one odd event would end the listening silently.
                log.error("engine.events_failed", exc=error)
                pause_s = _LONGEST_PAUSE_S
            self._engine.forget_clients()
            self._closed.wait(pause_s)

    def _listen(self) -> None:
        api = self._engine.client(None)
        stream = api.events(decode=True, filters=_FILTERS)
        self._stream = stream
        began_at = time.monotonic()
        self._call(self._on_connect)
        try:
            for event in stream:
                if self._closed.is_set():
                    return
                self._call(self._on_event, event)
        finally:
            self._stream = None
            self._call(self._on_loss)
            log.info("engine.events_lost", after_s=round(time.monotonic() - began_at, 1))

    def _call(self, callback: Callable[..., None], *arguments: Any) -> None:
        if self._loop is None or self._loop.is_closed():
            return
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop was closed in between
            self._closed.set()
