"""What attempts used, second by second."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from .. import schemas as s
from ..samples.service import MOST_POINTS, POINTS, Part
from .common import SignedIn, TheParts, streams
from .jobs import JobRef, TaskRef
from .logs import AttemptRef

router = APIRouter(tags=["metrics"])

_MOST_AT = 1e11
Since = Annotated[
    float | None,
    Query(ge=0, le=_MOST_AT, allow_inf_nan=False, description="from this moment on, in seconds since 1970"),
]
Until = Annotated[float | None, Query(ge=0, le=_MOST_AT, allow_inf_nan=False, description="up to this moment")]

_EVENTS: dict[str, Any] = {
    "type": "string",
    "description": "Server-sent events; `data` is JSON. head: attempt, every_s, gpus, columns, as in AttemptMetrics. "
    "sample: its moment `at` and its `values` in the order of the columns. end: it has ended, and all was sent; "
    "`sentence` says what is missing.",
}


@router.get(
    "/jobs/{job}/tasks/{task}/attempts/{number}/metrics",
    response_model=s.AttemptMetrics,
    responses={
        200: {
            "content": {
                "text/csv": {"schema": {"type": "string"}},
                "image/svg+xml": {"schema": {"type": "string"}},
            }
        }
    },
)
async def get_attempt_metrics(
    job: JobRef,
    task: TaskRef,
    number: AttemptRef,
    account: SignedIn,
    parts: TheParts,
    format: Annotated[
        Literal["json", "csv", "svg"], Query(description="svg: plots; csv: every sample, or with `points` so many")
    ] = "json",
    points: Annotated[
        int | None, Query(ge=1, le=MOST_POINTS, description=f"at most about so many; default: {POINTS}")
    ] = None,
    since: Since = None,
    until: Until = None,
) -> Response:
    """CPU, memory, disk and network of an attempt, and the readings of its GPUs, while it runs and after. A part that
    has more samples than points is shown by means and maxima. `use` and `efficiency` are told of the whole run alone:
    without since and until."""
    part, attempt = Part(since, until), 0 if number == "latest" else int(number)
    if format == "csv":
        return await parts.samples.csv(account, job, task, attempt, part, points)
    if format == "svg":
        return await parts.samples.svg(account, job, task, attempt, part, points or POINTS)
    return await parts.samples.json(account, job, task, attempt, part, points or POINTS)


@router.get(
    "/jobs/{job}/tasks/{task}/attempts/{number}/metrics/follow",
    response_class=StreamingResponse,
    responses={200: streams("text/event-stream", "Samples as they are taken, until its end", schema=_EVENTS)},
)
async def follow_attempt_metrics(
    request: Request,
    job: JobRef,
    task: TaskRef,
    number: AttemptRef,
    account: SignedIn,
    parts: TheParts,
    since: Since = None,
    last_event_id: Annotated[str | None, Header(max_length=64, description="browsers send it by themselves")] = None,
) -> Response:
    """Samples behind `since`; without it the latest one and those that come. A comment comes every 15 s so that
    proxies keep the line open. 429: the account, or all accounts together, follow too many."""
    token = request.scope["headway.token"]
    found = await parts.samples.found(account, job, task, 0 if number == "latest" else int(number))
    return parts.sample_following.respond(
        account, found, _moment(last_event_id) or since, lambda: parts.accounts.who(token) is not None
    )


def _moment(id: str | None) -> float | None:
    """Of the last event that was seen. What no server sent counts as nothing."""
    try:
        at = float(id or "")
    except ValueError:
        return None
    return at if 0 <= at <= _MOST_AT else None
