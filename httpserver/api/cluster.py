"""The queue and the nodes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from .. import schemas as s
from ..audit.current import note
from ..cluster import node_csv
from ..cluster.scheduling import SchedulingPatch
from .common import AnAdmin, SignedIn, TheParts

router = APIRouter()

_PREVIEW: dict[str, Any] = {
    "required": True,
    "description": "A job file as JSON or YAML, or variants as JSON.",
    "content": {
        "application/json": {
            "schema": {
                "anyOf": [
                    {"$ref": "#/components/schemas/JobFile"},
                    {"$ref": "#/components/schemas/PreviewVariants"},
                    {
                        "type": "array",
                        "items": {"$ref": "#/components/schemas/PreviewVariant"},
                        "minItems": 1,
                        "maxItems": 20,
                    },
                    {"$ref": "#/components/schemas/PreviewVariant"},
                ]
            }
        },
        "application/yaml": {"schema": {"type": "string"}},
    },
}


@router.get("/queue", tags=["queue"])
async def get_queue(
    account: SignedIn,
    parts: TheParts,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    job: Annotated[str, Query(max_length=64, description="only this job's tasks")] = "",
    owner: Annotated[str, Query(max_length=64, description="only this account's tasks; `me`: one's own")] = "",
    running: Annotated[int, Query(ge=0, le=1000, description="so many running tasks as well; 0: none")] = 100,
) -> s.Queue:
    """Waiting tasks in their order, each with its place, the terms of its priority and why it waits. Beside them the
    running ones, with what each holds and until when at the latest."""
    return await parts.cluster.queue(account, limit=limit, offset=offset, job=job, owner=owner, running=running)


@router.patch("/queue", tags=["queue"])
async def set_scheduling(wanted: SchedulingPatch, by: AnAdmin, parts: TheParts) -> s.Scheduling:
    """Another policy or discipline for the running queue, until it is set again; the queue and promised starts stay.
    `default` goes back to what the configuration says."""
    note(**wanted.model_dump(exclude_none=True))
    return await parts.cluster.set_scheduling(wanted, by=by.name)


@router.post("/queue/preview", tags=["queue"], openapi_extra={"requestBody": _PREVIEW})
async def preview_queue(
    request: Request,
    account: SignedIn,
    parts: TheParts,
    code: Annotated[
        str, Query(pattern="^(sha256:[0-9a-f]{64})?$", description="as for POST /jobs, of a job file")
    ] = "",
) -> s.Preview:
    """When tasks would start, were they submitted now: those of a job file, or up to 20 variants to compare. Nothing is
    stored. It is what a submit would be answered, if nothing happens in between."""
    return await parts.submit.preview(
        account, request.stream(), content_type=request.headers.get("content-type", ""), code=code
    )


@router.get("/nodes", tags=["nodes"])
async def list_nodes(_: SignedIn, parts: TheParts) -> s.NodeList:
    """All machines with their latest readings, who holds each GPU, and when the next one is free at the latest."""
    return await parts.cluster.nodes()


@router.get("/nodes/{id}", tags=["nodes"])
async def get_node(id: str, _: SignedIn, parts: TheParts) -> s.NodeDetail:
    """One machine."""
    return await parts.cluster.node(id)


@router.get(
    "/nodes/{id}/usage",
    tags=["nodes"],
    response_model=s.NodeUsage,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def get_node_usage(
    id: str,
    _: SignedIn,
    parts: TheParts,
    since: Annotated[
        float,
        Query(ge=0, le=1e11, allow_inf_nan=False, description="epoch seconds; default: an hour before `until`"),
    ] = 0,
    until: Annotated[float, Query(ge=0, le=1e11, allow_inf_nan=False, description="epoch seconds; default: now")] = 0,
    points: Annotated[
        int | None, Query(ge=1, le=5000, description="at most so many, each the mean of its time; default: 500")
    ] = None,
    max_points: Annotated[int, Query(ge=1, le=5000, description="an older name of `points`")] = 500,
    format: Annotated[Literal["json", "csv"], Query(description="`csv`: a line for each point")] = "json",
) -> s.NodeUsage | Response:
    """Readings over time. What reaches back an hour has single readings, a day means of minutes, more those of hours.
    Each mean has its peak beside it."""
    found = await parts.cluster.usage(id, since=since, until=until, max_points=points or max_points)
    if format == "json":
        return found
    headers = {"Content-Disposition": 'attachment; filename="node-usage.csv"'}
    return Response(node_csv.text(found.points), media_type="text/csv", headers=headers)


@router.post("/nodes/{id}/cordon", tags=["nodes"])
async def cordon_node(id: str, by: AnAdmin, parts: TheParts, body: s.NodeNote | None = None) -> s.NodeAdmission:
    """It takes no new work; what runs there goes on."""
    return await parts.cluster.set_admission(id, "cordon", note=body.note if body else "", by=by.name)


@router.post("/nodes/{id}/uncordon", tags=["nodes"])
async def uncordon_node(id: str, by: AnAdmin, parts: TheParts, body: s.NodeNote | None = None) -> s.NodeAdmission:
    """It takes work again, also after a drain."""
    return await parts.cluster.set_admission(id, "uncordon", note=body.note if body else "", by=by.name)


@router.post("/nodes/{id}/drain", tags=["nodes"])
async def drain_node(id: str, by: AnAdmin, parts: TheParts, body: s.DrainRequest | None = None) -> s.NodeAdmission:
    """It takes no new work and is DRAINED once nothing runs there. Without a deadline all ends by itself. With one,
    what still runs then is stopped and run again elsewhere; owners are told at once."""
    if body is not None:
        note(**body.model_dump(exclude_none=True, exclude_defaults=True))
    return await parts.cluster.set_admission(id, "drain", note=body.note if body else "", by=by.name, wish=body)


@router.get("/nodes/{id}/drain", tags=["nodes"])
async def preview_drain(id: str, _: AnAdmin, parts: TheParts) -> s.DrainPreview:
    """What emptying a machine would touch. Nothing is changed."""
    return await parts.cluster.drain_preview(id)


@router.post("/nodes/{id}/replace", tags=["nodes"], status_code=204)
async def replace_node(id: str, by: AnAdmin, parts: TheParts) -> Response:
    """An operator's word that this machine was set up anew: the next worker of its name takes over, though its state
    folder is another one. Without it that happens once the old one is DOWN."""
    await parts.cluster.replace(id, by=by.name)
    return Response(status_code=204)


@router.post("/nodes/{id}/gpus/{uuid}/return", tags=["nodes"])
async def return_gpu(
    id: str, uuid: str, by: AnAdmin, parts: TheParts, body: s.GpuReturn | None = None
) -> s.GpuReturned:
    """Gives out a GPU again that was taken out for a fault, if it is clean now; if not, 409 says what is wrong."""
    return await parts.cluster.return_gpu(id, uuid, gone=body.gone if body else False, by=by.name)


@router.post("/nodes/{id}/lost", tags=["nodes"])
async def declare_node_lost(id: str, by: AnAdmin, parts: TheParts) -> s.NodeLost:
    """An operator's word that this machine will not come back: its attempts are LOST at once and queued again.
    Never say so of a machine that may still run; one that answers is refused (409)."""
    return await parts.cluster.declare_lost(id, by=by.name)


@router.delete("/nodes/{id}", tags=["nodes"], status_code=204)
async def forget_node(id: str, by: AnAdmin, parts: TheParts) -> Response:
    """Takes a machine that is DOWN off the list."""
    await parts.cluster.forget(id, by=by.name)
    return Response(status_code=204)
