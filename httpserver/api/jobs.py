"""Jobs and tasks: submit, list, look, act."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import StringConstraints

from headway.errors import NotFound
from headway.states import JobState

from .. import schemas as s
from ..audit.current import note, nothing_changes
from ..jobs.decisions import DecisionList
from ..parts import Parts
from ..text import near_names
from .common import SignedIn, TheParts, streams

router = APIRouter(tags=["jobs"])

_JOB_REF = "job id; or its start, or for a week its last five characters, while that is unique"
JobRef = Annotated[str, Path(description=_JOB_REF, max_length=64)]
TaskRef = Annotated[str, Path(description="task name", max_length=64)]

_Change = Annotated[str, StringConstraints(max_length=4_000)]
_CHANGES = (
    "a field to set in place of what the file says, repeatable: `timeout=1h` and `gpus=2` of each task, `train.gpus=2` "
    "of one, `name=…` and `priority=…` of the job"
)
_JOB_FILE: dict[str, Any] = {
    "required": True,
    "description": "A job file as JSON, or as YAML with Content-Type application/yaml.",
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/JobFile"}},
        "application/yaml": {"schema": {"type": "string"}},
    },
}


@router.post(
    "/jobs",
    status_code=201,
    openapi_extra={"requestBody": _JOB_FILE},
    responses={200: {"model": s.Submitted, "description": "A dry run, or a repeated Idempotency-Key"}},
)
async def submit_job(
    request: Request,
    response: Response,
    account: SignedIn,
    parts: TheParts,
    idempotency_key: Annotated[
        str | None,
        Header(max_length=200, description="the same key with the same job answers the same id, however often"),
    ] = None,
    dry_run: Annotated[bool, Query(description="check everything, store nothing")] = False,
    allow_unsatisfiable: Annotated[
        bool, Query(description="queue what no machine of today could run, for machines still to come")
    ] = False,
    code: Annotated[
        str,
        Query(pattern="^(sha256:[0-9a-f]{64})?$", description="the snapshot (POST /code) for all tasks that name none"),
    ] = "",
    set: Annotated[list[_Change] | None, Query(description=_CHANGES, max_length=100)] = None,
) -> s.Submitted:
    """Takes a job whole or refuses it whole with all its problems (422). An account that would have more waiting tasks
    than it may is refused too (429)."""
    if dry_run:
        nothing_changes()
    parts.audit.begin_early()
    submitted = await parts.submit.submit(
        account,
        request.stream(),
        content_type=request.headers.get("content-type", ""),
        idempotency_key=idempotency_key,
        dry_run=dry_run,
        allow_unsatisfiable=allow_unsatisfiable,
        code=code,
        changes=tuple(set or ()),
    )
    if dry_run or submitted.already_known:
        response.status_code = 200
    note(f"job {submitted.id}" if submitted.id else "", name=submitted.name, known=submitted.already_known)
    return submitted


@router.get("/jobs")
async def list_jobs(
    account: SignedIn,
    parts: TheParts,
    state: Annotated[list[JobState] | None, Query(description="repeatable; default: any")] = None,
    owner: Annotated[str, Query(max_length=64, description="account name; `me`; default: everybody's")] = "",
    q: Annotated[str, Query(max_length=200, description="part of the name or start of the id")] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str, Query(max_length=64, description="next_cursor of the page before")] = "",
    order: Annotated[Literal["newest", "oldest"], Query(description="which comes first")] = "newest",
    count: Annotated[bool, Query(description="also say how many there are in all")] = False,
) -> s.JobList:
    """Newest first. New jobs that arrive while paging don't shift the pages."""
    return await parts.jobs.page(
        account,
        states=state or [],
        owner=account.name if owner == "me" else owner,
        query=q,
        limit=limit,
        cursor=cursor,
        oldest_first=order == "oldest",
        count=count,
    )


@router.get("/jobs/{job}", response_model=s.JobDetail)
async def get_job(
    job: JobRef,
    account: SignedIn,
    parts: TheParts,
    tasks_limit: Annotated[int, Query(ge=0, le=100_000, description="0 for the job alone; default: all")] = 100_000,
    tasks_offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    attempts: Annotated[bool, Query(description="false: attempts and places are left empty")] = True,
) -> StreamingResponse:
    """A job with its tasks, edges, attempts and phases."""
    pieces = await parts.jobs.detail(job, account=account, limit=tasks_limit, offset=tasks_offset, attempts=attempts)
    return StreamingResponse(pieces, media_type="application/json")


@router.get("/jobs/{job}/tasks/{task}")
async def get_task(job: JobRef, task: TaskRef, account: SignedIn, parts: TheParts) -> s.TaskDetail:
    """One task with its attempts, and why it waits."""
    return await parts.jobs.task(job, task, account=account)


@router.get("/jobs/{job}/tasks/{task}/decisions")
async def list_decisions(
    job: JobRef,
    task: TaskRef,
    account: SignedIn,
    parts: TheParts,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
    before: Annotated[
        int, Query(ge=0, le=2**63 - 1, description="only passes older than this one (`next_before`)")
    ] = 0,
) -> DecisionList:
    """The passes that started something while this task waited: who went before it, and why it did not start."""
    return await parts.jobs.history(job, task, account=account, limit=limit, before=before)


@router.get(
    "/jobs/{job}/spec",
    response_model=s.JobFile,
    responses={200: streams("application/yaml", "The job file, loss-free: submit it again to clone the job")},
)
async def get_job_spec(
    job: JobRef,
    account: SignedIn,
    parts: TheParts,
    format: Annotated[Literal["json", "yaml"], Query()] = "json",
) -> Response:
    """Owner and admins only, since it holds the values of the environment."""
    return Response(await parts.jobs.spec(account, job, format), media_type=f"application/{format}")


@router.post("/jobs/{job}/cancel")
async def cancel_job(job: JobRef, account: SignedIn, parts: TheParts) -> s.Acted:
    """Ends all its tasks. In any state; what has ended stays as it is."""
    return await parts.jobs.act(account, job, "cancel")


@router.post("/jobs/{job}/retry")
async def retry_job(job: JobRef, account: SignedIn, parts: TheParts) -> s.Acted:
    """Runs its failed, cancelled and skipped tasks again; they age from now on."""
    return await parts.jobs.act(account, job, "retry")


@router.post("/jobs/{job}/hold")
async def hold_job(job: JobRef, account: SignedIn, parts: TheParts) -> s.Acted:
    """Starts none of its waiting tasks until released; held time doesn't age."""
    return await parts.jobs.act(account, job, "hold")


@router.post("/jobs/{job}/release")
async def release_job(job: JobRef, account: SignedIn, parts: TheParts) -> s.Acted:
    """Undoes a hold."""
    return await parts.jobs.act(account, job, "release")


@router.post("/jobs/{job}/pin")
async def pin_job(job: JobRef, account: SignedIn, parts: TheParts) -> s.Acted:
    """Keeps it until it is unpinned, whatever the rules of retention say; nobody can delete it meanwhile."""
    return await parts.jobs.act(account, job, "pin")


@router.post("/jobs/{job}/unpin")
async def unpin_job(job: JobRef, account: SignedIn, parts: TheParts) -> s.Acted:
    """Undoes a pin."""
    return await parts.jobs.act(account, job, "unpin")


@router.delete("/jobs/{job}", status_code=204)
async def delete_job(job: JobRef, account: SignedIn, parts: TheParts) -> Response:
    """Deletes an ended job with its logs, specs, attempts and past runs; its usage stays by day. One that has not ended
    or is pinned is refused (409)."""
    await parts.jobs.act(account, job, "delete")
    return Response(status_code=204)


@router.post("/jobs/prune")
async def prune_jobs(wish: s.Prune, account: SignedIn, parts: TheParts) -> s.Pruned:
    """Deletes all ended jobs that are old enough, but for pinned ones; some in each call."""
    if wish.dry_run:
        nothing_changes()
    note(older=wish.older, owner=wish.owner or "everybody")
    await parts.audit.begin()
    pruned = await parts.jobs.prune(account, wish)
    if wish.owner not in ("", "me") and not (pruned.jobs or pruned.pinned or wish.cursor):
        await _refuse_unknown_owner(wish.owner, parts)
    return pruned


@router.post("/jobs/{job}/tasks/{task}/cancel")
async def cancel_task(job: JobRef, task: TaskRef, account: SignedIn, parts: TheParts) -> s.Acted:
    """Ends this task; those that need its success are skipped."""
    return await parts.jobs.act(account, job, "cancel", task)


@router.post("/jobs/{job}/tasks/{task}/retry")
async def retry_task(job: JobRef, task: TaskRef, account: SignedIn, parts: TheParts) -> s.Acted:
    """Runs this ended task again, and those that were skipped because of it."""
    return await parts.jobs.act(account, job, "retry", task)


@router.post("/jobs/{job}/tasks/{task}/hold")
async def hold_task(job: JobRef, task: TaskRef, account: SignedIn, parts: TheParts) -> s.Acted:
    """Keeps this task from starting until released."""
    return await parts.jobs.act(account, job, "hold", task)


@router.post("/jobs/{job}/tasks/{task}/release")
async def release_task(job: JobRef, task: TaskRef, account: SignedIn, parts: TheParts) -> s.Acted:
    """Undoes a hold."""
    return await parts.jobs.act(account, job, "release", task)


@router.post("/jobs/{job}/tasks/{task}/extend")
async def extend_task(
    job: JobRef,
    task: TaskRef,
    wish: s.Extend,
    account: SignedIn,
    parts: TheParts,
    idempotency_key: Annotated[
        str | None, Header(max_length=200, description="the same key gives time once, however often")
    ] = None,
) -> s.Extended:
    """Gives this running task more time, at once when nobody's promised start moves (else 409, with who waits how
    long)."""
    note(by=wish.by, force=wish.force)
    return await parts.jobs.extend(account, job, task, by=wish.by, force=wish.force, key=idempotency_key)


async def _refuse_unknown_owner(owner: str, parts: Parts) -> None:
    """Raises NotFound: nobody has or had this name, so that "no jobs" would hide a slip."""
    names = [account.name for account in await parts.accounts.all_and_removed()]
    if owner not in names:
        near = near_names.word(owner, names)
        hint = f" Did you mean `{near}`?" if near else ""
        raise NotFound(f"There is no account `{owner}`.{hint}")
