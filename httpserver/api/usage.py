"""What was used, and past runs."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from headway.errors import InvalidInput

from ..cluster.usage import By, Usage
from .common import SignedIn, TheParts, streams

router = APIRouter(tags=["usage"])

_FORMS = "2026-11-01 (its beginning in UTC), 2026-11-01T14:30Z, or 7d (ago)"
From = Annotated[str, Query(alias="from", max_length=64, description=f"{_FORMS}; default: 30 days before the end")]
To = Annotated[str, Query(alias="to", max_length=64, description="likewise, not in the span; default: now")]


@router.get(
    "/usage",
    response_model=Usage,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def get_usage(
    account: SignedIn,
    parts: TheParts,
    by: Annotated[By, Query(description="what a row is")] = "user",
    begin: From = "",
    end: To = "",
    user: Annotated[str, Query(max_length=64, description="account name; `me`; default: everybody's")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    format: Annotated[Literal["json", "csv"], Query(description="`csv`: a line for each row, all of them")] = "json",
    daily: Annotated[bool, Query(description="with `csv`: rows for each day of the span (UTC)")] = False,
) -> Usage | Response:
    """GPU, CPU and memory hours, waits, and how much of the booked time was used or wasted, over a span of time. An
    attempt that reaches beyond it counts with its part inside; one that runs, until now."""
    if format == "csv":
        pieces = await parts.usage.csv(account, by=by, begin=begin, end=end, user=user, daily=daily)
        headers = {"Content-Disposition": 'attachment; filename="usage.csv"'}
        return StreamingResponse(pieces, media_type="text/csv", headers=headers)
    if daily:
        raise InvalidInput("`daily` goes with `format=csv`; `by=day` sums up all rows of a day.")
    return await parts.usage.sums(account, by=by, begin=begin, end=end, user=user, limit=limit, offset=offset)


@router.get(
    "/usage/trace",
    response_class=Response,
    responses={200: streams("text/csv", "A row for each ended run, as `headway simulate --trace` reads it")},
)
async def get_trace(
    account: SignedIn,
    parts: TheParts,
    begin: From = "",
    end: To = "",
    user: Annotated[str, Query(max_length=64, description="account name (admins); default: one's own")] = "",
    all: Annotated[bool, Query(description="everybody's (admins)")] = False,
) -> Response:
    """Runs that were queued within the span and have ended, in their order; `submit_s` counts from the first one.
    Streams; one that breaks off has no last chunk."""
    pieces = await parts.usage.trace(account, begin=begin, end=end, user=user, everybody=all)
    headers = {"Content-Disposition": 'attachment; filename="trace.csv"'}
    return StreamingResponse(pieces, media_type="text/csv", headers=headers)
