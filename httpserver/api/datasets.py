"""The data market."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from ..audit.current import note
from ..datasets import schemas as s
from .common import SignedIn, TheParts, streams

router = APIRouter(tags=["datasets"])

Name = Annotated[str, Path(description="of the dataset", max_length=64)]


@router.get("/datasets")
async def list_datasets(
    account: SignedIn,
    parts: TheParts,
    q: Annotated[str, Query(max_length=200, description="part of the name or description")] = "",
) -> s.DatasetList:
    """All that one may use, by name; folders that an admin put on the mount by hand have no owner."""
    return await parts.datasets.list(account, q)


@router.post("/datasets", status_code=202)
async def publish_dataset(body: s.DatasetPublish, account: SignedIn, parts: TheParts) -> s.Dataset:
    """Publishes a folder of one's space as a new dataset or its next version, in the background."""
    note(f"dataset {body.name}")
    return await parts.datasets.publish(account, body)


@router.get("/datasets/{name}")
async def get_dataset(name: Name, account: SignedIn, parts: TheParts) -> s.Dataset:
    """One dataset with who uses it."""
    return await parts.datasets.get(account, name)


@router.patch("/datasets/{name}")
async def update_dataset(name: Name, body: s.DatasetChange, account: SignedIn, parts: TheParts) -> s.Dataset:
    """Changes description and who may use it: the owner and admins."""
    note(changed=sorted(body.model_fields_set))
    return await parts.datasets.change(account, name, body)


@router.delete(
    "/datasets/{name}",
    status_code=204,
    responses={202: {"model": s.DatasetDeletion, "description": "Gone from the lists; jobs still need its content"}},
)
async def delete_dataset(
    name: Name,
    account: SignedIn,
    parts: TheParts,
    version: Annotated[str | None, Query(max_length=64, description="default: all of them")] = None,
    wait: Annotated[bool, Query(description="where jobs need it: gone now, removed when they have ended")] = False,
) -> Response:
    """Deletes a version or the whole dataset; refused with 409 while queued or running jobs need it. Files that were
    shared with the space by hard links are their owner's again."""
    live = await parts.datasets.delete(account, name, version, wait=wait)
    if live:
        return JSONResponse(s.DatasetDeletion(live_jobs=list(live)).model_dump(), status_code=202)
    return Response(status_code=204)


@router.get(
    "/datasets/{name}/{version}/checksums",
    response_class=StreamingResponse,
    responses={200: streams("text/plain", "SHA-256 of every file, as `sha256sum -c` reads it")},
)
async def get_checksums(
    name: Name, version: Annotated[str, Path(max_length=64)], account: SignedIn, parts: TheParts
) -> StreamingResponse:
    """The checksums of all files of a version."""
    return StreamingResponse(await parts.datasets.checksums(account, name, version), media_type="text/plain")
