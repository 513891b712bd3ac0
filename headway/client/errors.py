"""What can go wrong between a client and its server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from ..errors import HeadwayError, Problem, by_slug

# What a server says of a call that it has not, under every version.
_NO_SUCH_CALL = "There is nothing at this address."


class NoService(HeadwayError):
    """Nobody answers at the address."""

    code = "UNAVAILABLE"
    http_status = 503
    slug = "no-service"


class NotHeadway(HeadwayError):
    """Somebody else answers at the address."""

    code = "UNAVAILABLE"
    http_status = 503
    slug = "not-headway"


class Refused(HeadwayError):
    """The server refused the request.

    ``kind`` is the server's own class of error; ``status`` the HTTP status; ``request_id`` finds the line in its log.
    """

    def __init__(self, message: str, *, kind: type[HeadwayError], status: int, request_id: str, problems: Any) -> None:
        super().__init__(message, problems=problems)
        self.kind = kind
        self.status = status
        self.request_id = request_id

    @classmethod
    def from_response(cls, response: httpx.Response, via: str = "") -> Refused:
        """Reads problem+json; anything else becomes one sentence with the status. ``via``: the proxy, in words."""
        body: Mapping[str, Any] = {}
        if "json" in response.headers.get("content-type", ""):
            try:
                parsed = response.json()
                body = parsed if isinstance(parsed, dict) else {}
            except ValueError:
                body = {}
        slug = str(body.get("type", "")).rsplit(":", 1)[-1].rsplit("/", 1)[-1]
        message = str(body.get("detail") or body.get("title") or _of_somebody_else(response, via))
        if (response.status_code == 404 and message == _NO_SUCH_CALL) or slug == "method-not-allowed":
            message = _of_older_server(response)
        return cls(
            message,
            kind=by_slug(slug),
            status=response.status_code,
            request_id=str(body.get("request_id", "")),
            problems=[
                Problem.from_json(e) for e in _list(body.get("errors")) if isinstance(e, dict) and "message" in e
            ],
        )


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _of_older_server(response: httpx.Response) -> str:
    from importlib.metadata import version

    request = response.request
    return (
        f"The server is older than this program, headway {version('headway')}: it does not know the call "
        f"{request.method} {request.url.path}. An admin can update the server."
    )


def media_of(response: httpx.Response) -> str:
    """The answer's content type, such as ``text/html``."""
    return response.headers.get("content-type", "").partition(";")[0].strip()[:100] or "no content type"


def _of_somebody_else(response: httpx.Response, via: str) -> str:
    url = response.request.url.copy_with(query=None, fragment=None)
    told = f"{url}{via} answered with status {response.status_code} and {media_of(response)}"
    if via:
        return f"{told}: the proxy can't reach it, or may not. Is it the right one?"
    if response.status_code in (502, 503, 504):
        return f"{told}: a proxy is there, and Headway behind it does not answer. Is it running?"
    return f"{told}. Headway refuses otherwise: is the address right? A portal or a proxy may answer in its place."
