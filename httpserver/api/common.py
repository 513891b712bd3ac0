"""What all routers share: who sends the request, and the parts of the service."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import Depends, Request, Response, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from headway.errors import NotAllowed, NotSignedIn

from ..auth.model import Account
from ..parts import Parts

COOKIE = "headway_session"

_cookie = APIKeyCookie(
    name=COOKIE, scheme_name="cookie", description="set by POST /session; for browsers", auto_error=False
)
_bearer = HTTPBearer(
    scheme_name="bearer", description="the token of POST /session or POST /tokens; for programs", auto_error=False
)


async def parts(request: Request) -> Parts:
    """The parts of the running service. A coroutine, since a plain function would be run in a thread each time."""
    return cast(Parts, request.app.state.parts)


async def signed_in(
    request: Request, _b: Annotated[Any, Security(_bearer)], _c: Annotated[Any, Security(_cookie)]
) -> Account:
    """Who asks.

    The request guard has already checked the cookie or token and left the account here. So every path below
    /api/v1 needs a signed-in account unless it is listed as open.

    Raises:
        NotSignedIn: nobody is signed in.
    """
    account: Account | None = request.scope.get("headway.account")
    if account is None:
        raise NotSignedIn("Sign in first: send the session's cookie, or a token as `Authorization: Bearer …`.")
    return account


async def an_admin(account: Annotated[Account, Depends(signed_in)]) -> Account:
    """Who asks, an admin.

    Raises:
        NotAllowed: it is not an admin.
    """
    if not account.admin:
        raise NotAllowed("Only an admin may do that.")
    return account


def set_session_cookie(request: Request, response: Response, token: str, life_s: float) -> None:
    """The browser is signed in from now on."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=int(life_s),
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.scope.get("headway.secure", False),
    )


SignedIn = Annotated[Account, Depends(signed_in)]
AnAdmin = Annotated[Account, Depends(an_admin)]
TheParts = Annotated[Parts, Depends(parts)]


def streams(media_type: str, description: str, *, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """An OpenAPI response whose body is not a JSON model."""
    return {"description": description, "content": {media_type: {"schema": schema or {"type": "string"}}}}


BINARY = {"type": "string", "format": "binary"}
