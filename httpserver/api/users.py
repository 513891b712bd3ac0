"""Accounts, for admins."""

from __future__ import annotations

from fastapi import APIRouter

from .. import schemas as s
from ..auth import views
from .common import AnAdmin, TheParts

router = APIRouter(tags=["users"])


@router.get("/users")
async def list_users(_: AnAdmin, parts: TheParts) -> s.UserList:
    """All accounts, by name."""
    return s.UserList(
        users=[
            s.ListedUser(
                **views.user(account).model_dump(),
                space_used_bytes=parts.spaces.used_by(account),
                space_limit_bytes=parts.spaces.quota_of(account),
            )
            for account in await parts.accounts.all()
        ]
    )


@router.post("/users", status_code=201)
async def create_user(body: s.UserCreate, by: AnAdmin, parts: TheParts) -> s.UserCreated:
    """Makes an account with its personal space. Without a password one is made and answered once."""
    account, password = await parts.accounts.create(
        body.name,
        body.password,
        admin=body.admin,
        uid=body.uid,
        gid=body.gid,
        may_use_image_user=body.may_use_image_user,
        may_use_high_priority=body.may_use_high_priority,
        quota_bytes=body.quota_bytes,
        by=by.name,
    )
    return s.UserCreated(user=views.user(account), password=password)


@router.patch("/users/{name}")
async def update_user(name: str, body: s.UserPatch, by: AnAdmin, parts: TheParts) -> s.User:
    """Changes what is given. The last enabled admin can't be disabled or made a plain user."""
    changes = body.model_dump(exclude_none=True)
    if changes.get("quota_bytes") == -1:
        changes["quota_bytes"] = None
    account = await parts.accounts.update(name, changes, by=by.name)
    if "quota_bytes" in changes:
        parts.spaces.freed(account)
    return views.user(account)
