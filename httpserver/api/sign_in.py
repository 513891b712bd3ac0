"""Signing in by the provider, and command lines that somebody lets in."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from headway.errors import Conflict, HeadwayError, NotAllowed, NotFound
from headway.logs import get_logger

from .. import schemas as s
from ..audit.current import current, note, nothing_changes
from ..auth import sign_in_requests, views
from ..auth.model import CameFrom
from ..auth.secret import SESSION
from ..provider.flows import LIFE_S
from ..provider.refusals import SENTENCES, SignInRefused
from ..provider.service import WAY, ProviderSignIn
from .common import AnAdmin, SignedIn, TheParts, set_session_cookie

log = get_logger(__name__)
router = APIRouter(tags=["session"])

_COOKIE = "headway_provider"
_PATH = "/api/v1/session/provider"
_GOES: dict[int | str, dict[str, Any]] = {
    303: {"description": "To the provider, or back to the page; with `sign_in` in its address if it came to nothing"}
}


@router.get("/session/ways")
async def get_sign_in_ways(parts: TheParts) -> s.SignInWays:
    """How people sign in here."""
    provider = parts.provider
    return s.SignInWays(
        passwords=parts.settings.passwords,
        provider=None if provider is None else provider.settings.button,
        problems=SENTENCES,
    )


@router.get("/session/provider", status_code=303, response_class=RedirectResponse, responses=_GOES)
async def begin_by_provider(
    request: Request,
    parts: TheParts,
    next: Annotated[str, Query(max_length=2_000, description="the path of the page to go to behind it")] = "/",
) -> Response:
    """A browser goes to the provider, which sends it back to `/session/provider/callback`."""
    try:
        url, secret = await _provider(parts.provider).begin(next, request.scope["headway.client"])
    except SignInRefused as error:
        return _back(error, request)
    answer = RedirectResponse(url, 303)
    # Lax: the provider's page sends the browser back, which strict cookies do not survive.
    answer.set_cookie(
        _COOKIE, secret, max_age=int(LIFE_S), path=_PATH, httponly=True, samesite="lax",
        secure=request.scope.get("headway.secure", False),
    )  # fmt: skip
    return answer


@router.get("/session/provider/callback", status_code=303, response_class=RedirectResponse, responses=_GOES)
async def finish_by_provider(request: Request, parts: TheParts) -> Response:
    """The provider's answer. What it sends is checked; the browser then has its session."""
    provider = _provider(parts.provider)
    came = CameFrom(request.scope["headway.client"], request.headers.get("user-agent", ""), WAY)
    try:
        signed, place = await provider.finish(request.query_params, request.cookies.get(_COOKIE, ""), came)
    except SignInRefused as error:
        return _back(error, request)
    except HeadwayError as error:
        return _back(SignInRefused("failed", fact=error.message), request)
    answer = RedirectResponse(place, 303)
    set_session_cookie(request, answer, signed.token, parts.settings.session_s)
    answer.delete_cookie(_COOKIE, path=_PATH, httponly=True, samesite="lax")
    return answer


@router.post("/session/requests", status_code=201)
async def ask_to_sign_in(request: Request, parts: TheParts) -> s.SignInAsked:
    """A command line asks to be let in. Somebody who is signed in approves it on the page, within ten minutes."""
    asked, secret = parts.sign_in_requests.ask(
        request.scope["headway.client"], request.headers.get("user-agent", ""), parts.clock.monotonic()
    )
    code = sign_in_requests.shown(asked.code)
    return s.SignInAsked(
        code=code,
        path=f"/approve?code={code}",
        secret=secret,
        expires_in_s=sign_in_requests.LIFE_S,
        every_s=sign_in_requests.EVERY_S,
    )


@router.post("/session/requests/poll")
async def poll_sign_in(body: s.SignInPoll, request: Request, parts: TheParts) -> s.SignInPolled:
    """Whether it was let in; then the session's token, once."""
    polled = parts.sign_in_requests.poll(body.secret, parts.clock.monotonic())
    if polled.decision != "approved":
        nothing_changes()
        return s.SignInPolled(state=polled.decision, session=None)
    note(who=polled.account, way="command line")
    came = CameFrom(request.scope["headway.client"], request.headers.get("user-agent", ""), "command line")
    signed = await parts.accounts.open_session(polled.account, came)
    session = s.Session(user=views.user(signed.account), token=signed.token, expires_at=signed.expires_at)
    return s.SignInPolled(state="approved", session=session)


@router.get("/session/requests/{code}")
async def get_sign_in_request(code: str, account: SignedIn, parts: TheParts) -> s.SignInWaiting:
    """Which command line waits with this code."""
    now_s = parts.clock.monotonic()
    waiting = parts.sign_in_requests.look(code, account.name, now_s)
    return s.SignInWaiting(
        code=sign_in_requests.shown(waiting.code),
        address=waiting.address,
        agent=waiting.agent,
        ends_in_s=round(waiting.until_s - now_s, 1),
    )


@router.post("/session/requests/{code}", status_code=204)
async def decide_sign_in(
    code: str, body: s.SignInDecision, account: SignedIn, request: Request, parts: TheParts
) -> Response:
    """Lets the command line in as oneself, or turns it away. A long-lived token may not: what it let in would outlive
    it."""
    if not request.scope["headway.token"].startswith(SESSION):
        raise NotAllowed("A token can't let anybody in: sign in on the page, and approve it there.")
    decided = parts.sign_in_requests.decide(code, account.name, body.approve, parts.clock.monotonic())
    note(f"a command line at {decided.address}", approved=body.approve, agent=decided.agent)
    await parts.audit.begin()
    return Response(status_code=204)


@router.get("/users/{name}/links", tags=["users"])
async def list_provider_links(name: str, _: AnAdmin, parts: TheParts) -> s.ProviderLinkList:
    """Who at the provider signs in as this account."""
    return s.ProviderLinkList(
        links=[
            s.ProviderLink(issuer=one.issuer, subject=one.subject, linked_at=one.linked_at, linked_by=one.linked_by)
            for one in await parts.links.of(name)
        ]
    )


@router.post("/users/{name}/links", tags=["users"], status_code=201)
async def link_to_provider(name: str, body: s.ProviderLinkCreate, by: AnAdmin, parts: TheParts) -> s.ProviderLink:
    """This person at the provider signs in as this account from now on."""
    if parts.provider is None:
        raise Conflict("No sign-in provider is configured: set [httpserver.oidc] first.")
    note(provider_subject=body.subject)
    link = await parts.links.link(parts.provider.settings.issuer, body.subject, name, by=by.name)
    return s.ProviderLink(issuer=link.issuer, subject=link.subject, linked_at=link.linked_at, linked_by=link.linked_by)


@router.delete("/users/{name}/links", tags=["users"])
async def unlink_from_provider(name: str, by: AnAdmin, parts: TheParts) -> s.Unlinked:
    """Nobody at the provider signs in as this account any more; open sessions stay."""
    return s.Unlinked(unlinked=await parts.links.unlink(name, by=by.name))


def _provider(provider: ProviderSignIn | None) -> ProviderSignIn:
    if provider is None:
        raise NotFound("No sign-in provider is configured here.")
    return provider


def _back(error: SignInRefused, request: Request) -> Response:
    """To the page, which says the sentence of the word. Text of others never comes into an address."""
    draft = current()
    log.warning(
        "provider.sign_in_failed", word=error.word, fact=error.fact, client=request.scope["headway.client"],
        account=draft.who if draft is not None else None,
    )  # fmt: skip
    request.scope["headway.problem"] = f"sign-in-{error.word}"
    answer = RedirectResponse(f"/?{urlencode({'sign_in': error.word})}", 303)
    answer.delete_cookie(_COOKIE, path=_PATH, httponly=True, samesite="lax")
    return answer
