"""Samples of attempts over HTTP: points as JSON, a table, plots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fastapi.responses import StreamingResponse
from starlette.responses import Response

from headway.errors import InvalidInput, MountUnavailable
from headway.ids import JobId, TaskId
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.samples.sums import use_of
from headway.samples.thinning import Points, thin
from headway.units import counted

from ..auth.model import Account
from ..http.disposition import attachment
from ..jobs.service import Jobs
from ..logs.reader import AttemptLogReader
from ..logs.snapshot import LocatedAttempt
from . import gathering, plots, views
from .gathering import Gathered, SamplePlaces

POINTS = 500
MOST_POINTS = 5000
# A picture runs nothing and loads nothing, whatever is written into it.
_PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an attempt's run; None: from its first sample, to its last."""

    since: float | None
    until: float | None

    @property
    def whole(self) -> bool:
        return self.since is None and self.until is None


@dataclass(frozen=True, slots=True)
class FoundAttempt:
    """An attempt that somebody may look at."""

    job: jm.Job
    task: jm.TaskView
    id: TaskId
    place: LocatedAttempt

    @property
    def file_name(self) -> str:
        return f"{self.job.id}.{self.task.name}.{self.place.number}.metrics"


class Samples:
    """Owner and admins only, as logs are."""

    def __init__(self, jobs: Jobs, reader: AttemptLogReader, places: SamplePlaces) -> None:
        self._jobs = jobs
        self._reader = reader
        self._places = places

    async def json(self, account: Account, ref: str, task: str, number: int, part: Part, points: int) -> Response:
        """An ``AttemptMetrics``; ``number`` 0: the latest attempt.

        Raises:
            NotAllowed: somebody else's job.
            NotFound: no such task or attempt.
            InvalidInput: the part ends before it begins.
            MountUnavailable: neither mount nor Worker can be read.
        """
        found, gathered = await self._found(account, ref, task, number, part)
        return Response(await _in_thread(lambda: _json(found, gathered, part, points)), media_type="application/json")

    async def svg(self, account: Account, ref: str, task: str, number: int, part: Part, points: int) -> Response:
        """Plots; see ``json``."""
        found, gathered = await self._found(account, ref, task, number, part)
        title = f"{found.job.name} / {found.task.name}, attempt {found.place.number}"

        def draw() -> bytes:
            with gathered.files() as (samples, minutes):
                thinned = thin(samples, minutes, points=points, since=part.since, until=part.until)
            return plots.svg(thinned, title, _sentence(gathered, thinned)).encode()

        headers = {
            "Content-Security-Policy": _PICTURE_POLICY,
            "Content-Disposition": attachment(f"{found.file_name}.svg").replace("attachment", "inline", 1),
        }
        return Response(await _in_thread(draw), media_type="image/svg+xml", headers=headers)

    async def csv(self, account: Account, ref: str, task: str, number: int, part: Part, points: int | None) -> Response:
        """Every sample; with ``points`` means and maxima. See ``json``."""
        found, gathered = await self._found(account, ref, task, number, part)

        def rows() -> Iterator[bytes]:
            with gathered.files() as (samples, minutes):
                if points is None:
                    yield from views.csv_of_samples(samples.samples(part.since, part.until), samples.gpus)
                else:
                    thinned = thin(samples, minutes, points=points, since=part.since, until=part.until)
                    yield from views.csv_of_points(thinned)

        pieces = rows()
        first = await _in_thread(lambda: next(pieces))
        # Its length is not known before it is written, so there are no ranges of it.
        headers = {"Content-Disposition": attachment(f"{found.file_name}.csv"), "Accept-Ranges": "none"}
        return StreamingResponse(_both(first, pieces), media_type="text/csv", headers=headers)

    async def found(self, account: Account, ref: str, task: str, number: int) -> FoundAttempt:
        """
        Raises:
            NotAllowed: somebody else's job.
            NotFound: no such task or attempt.
        """
        job, view = await self._jobs.own_task(account, ref, task)
        task_id = TaskId(JobId(job.id), view.name)
        return FoundAttempt(job, view, task_id, await self._reader.locate(task_id, number))

    async def _found(
        self, account: Account, ref: str, task: str, number: int, part: Part
    ) -> tuple[FoundAttempt, Gathered]:
        if part.since is not None and part.until is not None and part.since > part.until:
            raise InvalidInput("`since` lies behind `until`, so no sample lies between them: swap them.")
        found = await self.found(account, ref, task, number)
        return found, await self._places.gather(found.id, found.place)


def _json(found: FoundAttempt, gathered: Gathered, part: Part, points: int) -> bytes:
    with gathered.files() as (samples, minutes):
        thinned = thin(samples, minutes, points=points, since=part.since, until=part.until)
    view = found.place.view
    use = view.use if view is not None and view.HasField("use") else None
    if use is None and part.whole and thinned.samples:
        use = use_of(thinned)
    card = None
    if part.whole and view is not None and use is not None:
        card = views.efficiency(found.task, view, use, thinned if thinned.samples else None)
    sentence = _sentence(gathered, thinned)
    return views.document(found.place.number, gathered.ended, sentence, thinned, use, card)


def _sentence(gathered: Gathered, points: Points) -> str:
    """Why there is nothing, or what is missing."""
    said = [gathered.trouble] if gathered.trouble else []
    if points.lost:
        one = points.lost == 1
        said.append(f"About {counted(points.lost, 'record')} {'is' if one else 'are'} broken or cut, and left out.")
    if not points.samples and not said:
        if gathered.size:
            return "No sample lies in this part."
        return gathering.NONE_EVER if gathered.ended else gathering.NONE_YET
    return " ".join(said)


async def _in_thread(call: Callable[[], bytes]) -> bytes:
    try:
        return await asyncio.to_thread(call)
    except OSError as error:
        raise MountUnavailable(f"The samples can't be read from the shared folder: {error.strerror}.") from error


def _both(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
