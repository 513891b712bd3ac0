"""Job events: what happened, by a cursor, and as it happens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from headway.model.job_events import JobEventWord

from ..job_events.schemas import JobEventList
from .common import SignedIn, TheParts, streams

router = APIRouter(tags=["events"])

After = Annotated[str, Query(max_length=40, description="a cursor that an answer gave: events behind it")]
Owner = Annotated[str, Query(max_length=64, description="account name; `me`; default: your own, of admins everybody's")]
OfJob = Annotated[str, Query(max_length=64, description="only events of this job (whole id)")]
Kinds = Annotated[list[JobEventWord] | None, Query(description="repeatable; default: any. Gaps come always")]


@router.get("/job-events")
async def list_job_events(
    account: SignedIn,
    parts: TheParts,
    after: After = "",
    owner: Owner = "",
    job: OfJob = "",
    kind: Kinds = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> JobEventList:
    """What happened to jobs and their tasks, oldest first. Every event comes to whoever goes on with the cursor of the
    answer before; `gap` stands where some are missing."""
    return await parts.event_reading.page(account, after=after, owner=owner, job=job, kinds=kind or [], limit=limit)


@router.get(
    "/job-events/stream",
    response_class=StreamingResponse,
    responses={200: streams("text/event-stream", "Job events as they happen; `data` is a JobEvent (JSON)")},
)
async def follow_job_events(
    request: Request,
    account: SignedIn,
    parts: TheParts,
    last_event_id: Annotated[str | None, Header(max_length=40, description="browsers send it by themselves")] = None,
    after: After = "",
    owner: Owner = "",
    job: OfJob = "",
    kind: Kinds = None,
) -> StreamingResponse:
    """The same as server-sent events, from now on or behind a cursor. After a break, send the last id seen: nothing
    is missed. A comment comes every 15 s so that proxies keep the line open."""
    token = request.scope["headway.token"]
    text = await parts.event_reading.stream(
        account,
        after=last_event_id or after,
        owner=owner,
        job=job,
        kinds=kind or [],
        still_allowed=lambda: parts.accounts.who(token) is not None,
    )
    return StreamingResponse(text, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
