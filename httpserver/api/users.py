"""Accounts, for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from headway.errors import InvalidInput, Problem

from .. import schemas as s
from ..audit.current import note
from ..auth import views
from ..jobs.account_removal import HomeFate
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
    note(f"account {body.name}", admin=body.admin)
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
    changes = body.model_dump(exclude_none=True, exclude={"keep_tokens", "cancel_jobs"})
    note(changed=sorted(changes), **{key: value for key, value in changes.items() if key != "password"})
    _check_wishes(body)
    if changes.get("quota_bytes") == -1:
        changes["quota_bytes"] = None
    account = await parts.accounts.update(name, changes, by=by.name, keep_tokens=body.keep_tokens)
    if "quota_bytes" in changes:
        parts.spaces.freed(account)
    if "enabled" in changes:
        await parts.account_jobs.hold_or_release()
    if body.cancel_jobs:
        await parts.account_jobs.cancel(name, by)
    return views.user(account)


@router.post("/users/{name}/password")
async def reset_password(name: str, body: s.PasswordReset, by: AnAdmin, parts: TheParts) -> s.PasswordMade:
    """Makes a new password, which is answered once. It ends all sessions of the account, and its tokens unless they are
    kept."""
    return s.PasswordMade(password=await parts.accounts.reset_password(name, by=by.name, keep_tokens=body.keep_tokens))


@router.delete("/users/{name}")
async def remove_user(
    name: str,
    by: AnAdmin,
    parts: TheParts,
    home: Annotated[
        HomeFate,
        Query(description="what becomes of the personal space: it stays, goes to `to`, or is deleted"),
    ] = "keep",
    to: Annotated[str, Query(max_length=64, description="the account that gets the files")] = "",
) -> s.UserRemoved:
    """Removes a disabled account that has no live jobs. Admins still see its jobs; name and uid are never given
    again."""
    note(home=home, **({"to": to} if to else {}))
    return s.UserRemoved(name=name, home=await parts.removal.remove(name, home, to, by=by))


@router.get("/users/{name}/sessions")
async def list_user_sessions(name: str, _: AnAdmin, parts: TheParts) -> s.AccountSessionList:
    """Anybody's sessions, oldest first."""
    return s.AccountSessionList(sessions=[views.session(one) for one in parts.accounts.of_account(name, "session")])


@router.get("/users/{name}/tokens")
async def list_user_tokens(name: str, _: AnAdmin, parts: TheParts) -> s.TokenList:
    """Anybody's long-lived tokens, without their values, oldest first."""
    return s.TokenList(tokens=[views.token(one) for one in parts.accounts.of_account(name, "token")])


@router.delete("/users/{name}/sessions")
async def end_user_sessions(name: str, by: AnAdmin, parts: TheParts) -> s.Ended:
    """Ends all sessions of an account, and what is under way with them."""
    return s.Ended(ended=await parts.accounts.end_of_account(name, "session", None, by=by.name))


@router.delete("/users/{name}/tokens")
async def end_user_tokens(name: str, by: AnAdmin, parts: TheParts) -> s.Ended:
    """Ends all long-lived tokens of an account, and what is under way with them."""
    return s.Ended(ended=await parts.accounts.end_of_account(name, "token", None, by=by.name))


@router.delete("/users/{name}/sessions/{id}")
async def end_user_session(name: str, id: str, by: AnAdmin, parts: TheParts) -> s.Ended:
    """Ends one session. Ending one that is gone already is harmless."""
    return s.Ended(ended=await parts.accounts.end_of_account(name, "session", id, by=by.name))


@router.delete("/users/{name}/tokens/{id}")
async def end_user_token(name: str, id: str, by: AnAdmin, parts: TheParts) -> s.Ended:
    """Ends one long-lived token. Ending one that is gone already is harmless."""
    return s.Ended(ended=await parts.accounts.end_of_account(name, "token", id, by=by.name))


def _check_wishes(body: s.UserPatch) -> None:
    if body.cancel_jobs and body.enabled is not False:
        raise _goes_with("cancel_jobs", "`enabled: false`")
    if body.keep_tokens and body.enabled is not False and body.password is None:
        raise _goes_with("keep_tokens", "`enabled: false` or a new password")


def _goes_with(name: str, what: str) -> InvalidInput:
    sentence = f"`{name}` goes with {what} alone."
    return InvalidInput(sentence, problems=[Problem(f"/{name}", sentence)])
