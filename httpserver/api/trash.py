"""Deleted files that can still come back, and what a personal space holds."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from ..files import schemas as s
from ..schemas import FileDone
from .common import SignedIn, TheParts
from .files import Of

router = APIRouter(tags=["files"])

TrashId = Annotated[str, Path(max_length=64, description="from the list, or `Headway-Trash-Id` of the deletion")]


@router.get("/trash")
async def list_trash(account: SignedIn, parts: TheParts, of: Of = "") -> s.TrashList:
    """What was deleted within the last days, the last one first."""
    return await parts.trash.items(account, of=of)


@router.post("/trash/{id}/restore", status_code=200)
async def restore_file(
    id: TrashId, account: SignedIn, parts: TheParts, body: s.TrashRestore | None = None, of: Of = ""
) -> FileDone:
    """Puts it back where it was (or at `to`), never over something that is there: that is 409."""
    return await parts.trash.restore(account, id, body, of=of)


@router.delete("/trash/{id}", status_code=204)
async def forget_file(id: TrashId, account: SignedIn, parts: TheParts, of: Of = "") -> Response:
    """Deletes it for good; one that is not there any more is fine."""
    await parts.trash.forget(account, id, of=of)
    return Response(status_code=204)


@router.delete("/trash", status_code=204)
async def empty_trash(account: SignedIn, parts: TheParts, of: Of = "") -> Response:
    """Deletes all of it for good."""
    await parts.trash.empty(account, of=of)
    return Response(status_code=204)


@router.get("/space")
async def get_space(account: SignedIn, parts: TheParts, of: Of = "") -> s.Space:
    """How much of the quota is used. Homes are measured in the background: `measured_at` says when."""
    return parts.spaces.view(parts.homes.owner(account, of))
