"""Groups of accounts."""

from __future__ import annotations

from fastapi import APIRouter, Response

from .. import schemas as s
from ..audit.current import note
from .common import AnAdmin, SignedIn, TheParts

router = APIRouter(tags=["groups"])


@router.get("/groups")
async def list_groups(_: SignedIn, parts: TheParts) -> s.GroupList:
    """All groups with their members, by name."""
    return s.GroupList(groups=await parts.groups.all())


@router.post("/groups", status_code=201)
async def create_group(body: s.GroupCreate, by: AnAdmin, parts: TheParts) -> s.Group:
    """Makes a group of accounts."""
    note(f"group {body.name}", members=body.members)
    return await parts.groups.create(by, body.name, body.members)


@router.patch("/groups/{name}")
async def update_group(name: str, body: s.GroupPatch, by: AnAdmin, parts: TheParts) -> s.Group:
    """Adds and removes members."""
    note(add=body.add, remove=body.remove)
    return await parts.groups.change(by, name, add=body.add, remove=body.remove)


@router.delete("/groups/{name}", status_code=204)
async def delete_group(name: str, by: AnAdmin, parts: TheParts) -> Response:
    """Deletes a group; nothing is shared with it any more."""
    await parts.groups.delete(by, name)
    return Response(status_code=204)
