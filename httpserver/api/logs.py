"""The bytes that tasks wrote."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from .. import schemas as s
from ..logs.times import MOST_BYTES
from .common import BINARY, SignedIn, TheParts, streams
from .jobs import JobRef, TaskRef

router = APIRouter(tags=["logs"])

AttemptRef = Annotated[str, Path(pattern=r"^([1-9][0-9]{0,8}|latest)$", description="from 1, or `latest`")]

_FRAMES: dict[str, Any] = {
    **BINARY,
    "description": "Each frame is a line of JSON. `log` is the place in the list that was sent, `kind` what it says. "
    "open: it was found; attempt, offset of its first byte to come, and whether it had ended. "
    "bytes: behind the line stand `size` bytes of it, which begin at `offset`. "
    "end: its attempt has ended, and all was sent. "
    "problem: it is not sent (any more); status, slug, title and detail as in a Problem. "
    "alive: the line stands; comes at once and each 15 s.",
}


@router.get(
    "/jobs/{job}/tasks/{task}/attempts/{number}/logs/{stream}",
    response_class=Response,
    responses={
        200: streams("text/plain", "The bytes as the task wrote them, in no particular encoding", schema=BINARY),
        206: streams("text/plain", "A part of them", schema=BINARY),
    },
)
async def get_log(
    request: Request,
    job: JobRef,
    task: TaskRef,
    number: AttemptRef,
    stream: s.LogStream,
    account: SignedIn,
    parts: TheParts,
    tail: Annotated[int | None, Query(ge=0, le=2**63 - 1, description="only the last so many bytes")] = None,
    follow: Annotated[bool, Query(description="go on until the attempt has ended")] = False,
    offset: Annotated[
        int | None, Query(ge=0, le=2**63 - 1, description="start here; with follow, where a range can't be used")
    ] = None,
) -> Response:
    """One log. The header X-Log-Offset says where the first byte of the answer lies, X-Log-Ended whether more may
    come. `Range` works too, also beyond what a live log has now (416 tells its present size)."""
    return await parts.logs.respond(
        account,
        job,
        task,
        0 if number == "latest" else int(number),
        stream,
        byte_range=request.headers.get("range"),
        tail=tail,
        offset=offset,
        follow=follow,
    )


@router.post(
    "/logs/follow",
    response_class=StreamingResponse,
    responses={200: streams("application/octet-stream", "Frames, until all logs have ended", schema=_FRAMES)},
)
async def follow_logs(request: Request, wanted: s.FollowedLogs, account: SignedIn, parts: TheParts) -> Response:
    """Several logs in one answer, each until its attempt has ended. They take turns, so none holds up another.
    To follow others as well, ask anew, each from the offset behind its last byte. 429: the account, or all accounts
    together, follow too many."""
    token = request.scope["headway.token"]

    def still_allowed() -> bool:
        return parts.accounts.who(token) is not None

    return parts.logs.follow(account, wanted.logs, still_allowed)


@router.get("/jobs/{job}/tasks/{task}/attempts/{number}/logs/{stream}/line")
async def get_log_line(
    job: JobRef,
    task: TaskRef,
    number: AttemptRef,
    stream: s.LogStream,
    account: SignedIn,
    parts: TheParts,
    line: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="its number, from 1")] = None,
    offset: Annotated[int, Query(ge=0, le=2**63 - 1, description="without `line`: a byte that it has")] = 0,
) -> s.LogLine:
    """Where a line of a log begins, so that a link can name one. The log is read up to there."""
    return await parts.logs.line(
        account, job, task, 0 if number == "latest" else int(number), stream, line=line, offset=offset
    )


@router.get("/jobs/{job}/tasks/{task}/attempts/{number}/logs/{stream}/times")
async def get_log_times(
    job: JobRef,
    task: TaskRef,
    number: AttemptRef,
    stream: s.LogStream,
    account: SignedIn,
    parts: TheParts,
    offset: Annotated[int, Query(ge=0, le=2**62, description="the first byte")] = 0,
    length: Annotated[int, Query(ge=1, le=MOST_BYTES, description="so many bytes")] = 1 << 20,
) -> s.LogTimes:
    """When the bytes of a part of a log came. Bytes that came within 20 ms may have one time; in logs with very many
    small pieces it is a second. Headway's own log has no times, nor has an attempt whose node was lost."""
    return await parts.logs.times(
        account, job, task, 0 if number == "latest" else int(number), stream, offset=offset, length=length
    )


@router.get(
    "/jobs/{job}/logs.zip",
    response_class=Response,
    responses={200: streams("application/zip", "All logs of all attempts, one folder a task", schema=BINARY)},
)
async def get_logs_zip(job: JobRef, account: SignedIn, parts: TheParts) -> Response:
    """Streams; nothing is put together beforehand."""
    name, chunks = await parts.logs.zip(account, job)
    return StreamingResponse(
        chunks, media_type="application/zip", headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )
