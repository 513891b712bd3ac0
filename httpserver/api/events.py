"""Server-sent events."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from ..jobs.service import may_see_all
from .common import SignedIn, TheParts, streams

router = APIRouter(tags=["events"])

_EVENTS: dict[str, Any] = {
    "type": "string",
    "description": "Server-sent events. `event` names what `data` (JSON) is: job: Job · task: TaskEvent · attempt: "
    "AttemptEvent · node: Node · node_gone: NodeGone · queue: QueueEvent · reset: ResetEvent.",
}


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: streams("text/event-stream", "Changes as they happen, until the client goes", schema=_EVENTS)},
)
async def get_events(
    request: Request,
    account: SignedIn,
    parts: TheParts,
    last_event_id: Annotated[str | None, Header(max_length=64, description="browsers send it by themselves")] = None,
    after: Annotated[str | None, Query(max_length=64, description="the same, for those who can't set headers")] = None,
    job: Annotated[str, Query(max_length=64, description="only events of this job (whole id)")] = "",
) -> StreamingResponse:
    """Job, task, attempt, node and queue changes. After a break, send the last id seen: what was missed follows,
    or one `reset` if it can't be had any more. A comment comes every 15 s so that proxies keep the line open."""
    token = request.scope["headway.token"]

    def still_allowed() -> bool:
        return parts.accounts.who(token) is not None

    return StreamingResponse(
        parts.hub.stream(
            last_event_id or after,
            job=job,
            still_allowed=still_allowed,
            whole=lambda owner: may_see_all(account, owner),
        ),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
    )
