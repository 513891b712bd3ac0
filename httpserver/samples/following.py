"""New samples of an attempt as server-sent events, until it has ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import HeadwayError, MountUnavailable, Unavailable
from headway.logs import get_logger
from headway.samples.model import Header, Sample, columns_of
from headway.samples.reading import Feed
from headway.samples.writing import span

from ..auth.model import Account
from ..logs.places import FollowPlaces
from ..logs.reader import AttemptLogReader
from ..peers.clients import ServiceClients
from . import gathering, views
from .gathering import Gathered, SamplePlaces, request_of
from .service import FoundAttempt

log = get_logger(__name__)

_ALIVE_S: Final = 15.0
_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 10.0
# Behind a break so many missed samples are sent; older ones are asked for as points.
_MOST_MISSED: Final = 3600
_QUEUED: Final = 64


@dataclass(slots=True)
class _State:
    """What was sent so far."""

    since: float | None
    header: Header | None = None
    head_sent: bool = False
    before: float | None = None
    pauses: Backoff = field(default_factory=lambda: Backoff(_PAUSE_S, _LONGEST_PAUSE_S))


class SampleFollowing:
    """Follows attempts. A follower takes a place as one of a log does."""

    def __init__(
        self,
        services: ServiceClients,
        reader: AttemptLogReader,
        places: SamplePlaces,
        follow_places: FollowPlaces,
        clock: Clock,
    ) -> None:
        self._services = services
        self._reader = reader
        self._places = places
        self._follow_places = follow_places
        self._clock = clock

    def respond(
        self, account: Account, found: FoundAttempt, since: float | None, still_allowed: Callable[[], bool]
    ) -> StreamingResponse:
        """The stream. ``since``: samples behind that moment; None: from the latest one on."""
        return _Following(self._events(found, since, still_allowed), self._follow_places, account.name)

    async def _events(
        self, found: FoundAttempt, since: float | None, still_allowed: Callable[[], bool]
    ) -> AsyncGenerator[str, None]:
        queue: asyncio.Queue[str | None] = asyncio.Queue(_QUEUED)
        pump = asyncio.create_task(self._pump(found, since, queue), name="samples pump")
        try:
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), _ALIVE_S)
                except TimeoutError:
                    text = ": alive\n\n"
                if text is None or not still_allowed():
                    return
                yield text
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)

    async def _pump(self, found: FoundAttempt, since: float | None, queue: asyncio.Queue[str | None]) -> None:
        try:
            async with aclosing(self._followed(found, since)) as texts:
                async for text in texts:
                    await queue.put(text)
        except HeadwayError as error:
            log.info("samples.follow_broke", task=str(found.id), reason=error.message)
        finally:
            await queue.put(None)

    async def _followed(self, found: FoundAttempt, since: float | None) -> AsyncGenerator[str, None]:
        state = _State(since)
        place = found.place
        while True:
            gathered = await self._places.gather(found.id, place)
            samples, feed = await asyncio.to_thread(_read, gathered, state)
            if state.header is not None and not state.head_sent:
                state.head_sent = True
                yield _event("head", _head(state.header, place.number))
            for text in _told(samples, state):
                yield text
            if place.ended:
                none = "" if state.header is not None else gathering.NONE_EVER
                yield _event("end", {"sentence": gathered.trouble or none})
                return
            if feed is not None and place.worker_address and not gathered.trouble:
                try:
                    worker = await self._services.worker(place.node_id, place.worker_address)
                    request = request_of(found.id, place.number, gathered.size, follow=True)
                    async with aclosing(worker.parts("ReadSamples", request, deadline_s=None)) as chunks:
                        async for chunk in chunks:
                            state.pauses.reset()
                            for text in _told(feed.add(chunk.data), state):
                                yield text
                            if chunk.ended:
                                break
                except HeadwayError as error:
                    log.info("samples.follow_broke", task=str(found.id), reason=error.message)
            await self._clock.sleep(state.pauses.next_s())
            try:
                located = await self._reader.locate(found.id, place.number)
            except (Unavailable, MountUnavailable):
                continue
            place = located if located.view is not None else place


def _read(gathered: Gathered, state: _State) -> tuple[list[Sample], Feed | None]:
    """The samples that were not sent yet, and a reader for what follows."""
    with gathered.files(minutes=False) as (file, _):
        if file.header is None:
            return [], None
        state.header = file.header
        if state.since is None:
            bounds = file.bounds()
            state.since = bounds[1] - file.header.every_s / 2 if bounds else None
        return list(file.samples(state.since))[-_MOST_MISSED:], Feed(file)


def _told(samples: list[Sample], state: _State) -> list[str]:
    """An event for each sample that is newer than the last one."""
    texts = []
    for sample in samples:
        if state.header is not None and (state.since is None or sample.at > state.since):
            values = views.values_of(sample, span(state.header, state.before, sample.at))
            told = {"at": round(sample.at, 3), "values": values}
            # The id is the moment itself: a browser sends it after a break, and goes on behind it.
            texts.append(_event("sample", told, id=f"{sample.at!r}"))
            state.since = sample.at
        state.before = sample.at
    return texts


def _head(header: Header, number: int) -> dict[str, Any]:
    return {
        "attempt": number,
        "every_s": header.every_s,
        "gpus": [views.gpu_of(gpu) for gpu in header.gpus],
        "columns": [
            {"name": column.name, "unit": column.unit, "gpu": column.gpu} for column in columns_of(len(header.gpus))
        ],
    }


def _event(name: str, data: dict[str, Any], *, id: str = "") -> str:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"{f'id: {id}' + chr(10) if id else ''}event: {name}\ndata: {text}\n\n"


class _Following(StreamingResponse):
    """Holds its place for as long as it is sent, however that ends."""

    def __init__(self, events: AsyncGenerator[str, None], places: FollowPlaces, account: str) -> None:
        super().__init__(
            events,
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
        )
        self._places = places
        self._account = account

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._places.taken(self._account, 1):
            await super().__call__(scope, receive, send)
