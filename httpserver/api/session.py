"""Signing in and out, oneself, tokens."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from .. import schemas as s
from ..auth import views
from .common import COOKIE, SignedIn, TheParts, set_session_cookie

router = APIRouter(tags=["session"])


@router.post("/session")
async def sign_in(body: s.Credentials, request: Request, response: Response, parts: TheParts) -> s.Session:
    """Answers a token and sets it as a cookie too. Wrong names and wrong passwords are told alike."""
    signed = await parts.accounts.sign_in(
        body.username,
        body.password,
        client=request.scope["headway.client"],
        agent=request.headers.get("user-agent", ""),
    )
    set_session_cookie(request, response, signed.token, parts.settings.session_s)
    return s.Session(user=views.user(signed.account), token=signed.token, expires_at=signed.expires_at)


@router.delete("/session", status_code=204)
async def sign_out(_: SignedIn, request: Request, parts: TheParts) -> Response:
    """Ends the session that the request came with; harmless for a long-lived token."""
    await parts.accounts.sign_out(request.scope["headway.token"])
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response


@router.get("/me")
async def get_me(account: SignedIn) -> s.User:
    """Who is signed in."""
    return views.user(account)


@router.post("/me/password", status_code=204)
async def change_password(body: s.PasswordChange, account: SignedIn, request: Request, parts: TheParts) -> Response:
    """Changes one's own password and ends one's other sessions; long-lived tokens stay."""
    await parts.accounts.change_password(account, body.current, body.new, keep_token=request.scope["headway.token"])
    return Response(status_code=204)


@router.get("/sessions")
async def list_sessions(account: SignedIn, request: Request, parts: TheParts) -> s.OwnSessionList:
    """One's own sessions, oldest first, and which of them asks."""
    own = parts.accounts.own_sessions.of(account.name, request.scope["headway.token"])
    return s.OwnSessionList(sessions=[views.own_session(one, current) for one, current in own])


@router.delete("/sessions")
async def end_other_sessions(account: SignedIn, request: Request, parts: TheParts) -> s.Ended:
    """Ends one's own sessions, and what is under way with them, but for the one that the request came with."""
    ended = await parts.accounts.own_sessions.end_others(account.name, request.scope["headway.token"])
    return s.Ended(ended=ended)


@router.delete("/sessions/{id}")
async def end_session(id: str, account: SignedIn, parts: TheParts) -> s.Ended:
    """Ends one of one's own sessions. Ending one that is gone already is harmless."""
    return s.Ended(ended=await parts.accounts.own_sessions.end(account.name, id))


@router.post("/tokens", status_code=201)
async def create_token(body: s.TokenCreate, account: SignedIn, request: Request, parts: TheParts) -> s.TokenCreated:
    """Makes a long-lived token. The answer is the only place where it is ever shown."""
    asking = request.scope["headway.token"]
    token, secret = await parts.accounts.create_token(account, body.name, body.expires_in_s, asking=asking)
    return s.TokenCreated(**views.token(token).model_dump(), token=secret)


@router.get("/tokens")
async def list_tokens(account: SignedIn, parts: TheParts) -> s.TokenList:
    """One's own long-lived tokens, without their values."""
    return s.TokenList(tokens=[views.token(token) for token in await parts.accounts.tokens(account)])


@router.delete("/tokens/{id}", status_code=204)
async def delete_token(id: str, account: SignedIn, parts: TheParts) -> Response:
    """Ends a token at once. Deleting one that is gone already is harmless."""
    await parts.accounts.delete_token(account, id)
    return Response(status_code=204)
