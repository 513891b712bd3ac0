"""Turns every failure into one application/problem+json answer."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headway.errors import (
    DeadlineExceeded,
    HeadwayError,
    InvalidInput,
    NotFound,
    RangeInvalid,
    TooLarge,
    TooMany,
    Unavailable,
)

from .. import schemas as s
from . import request_problems

MEDIA_TYPE = "application/problem+json"
INSIDE = "Something inside Headway failed; its log has more under this request id."


class MethodNotAllowed(InvalidInput):
    """The path exists, but not with this method."""

    http_status = 405
    slug = "method-not-allowed"
    title = "This address does not take that method"


class UnsupportedMedia(InvalidInput):
    """The body's Content-Type is not one that is read here."""

    http_status = 415
    slug = "unsupported-media-type"
    title = "This kind of content is not read here"


class TooSlow(InvalidInput):
    """Nothing more of the body came for a long while."""

    http_status = 408
    slug = "too-slow"
    title = "The rest of this request did not come"


class CrossSite(HeadwayError):
    """A page of another origin tried to act with this browser's session."""

    code = "PERMISSION_DENIED"
    http_status = 403
    slug = "cross-site"
    title = "Refused: the request comes from another site"


class WrongHost(HeadwayError):
    """Called under a name that is not this service's."""

    code = "PERMISSION_DENIED"
    http_status = 421
    slug = "wrong-host"
    title = "Headway is not open under this name"


class NotByProxy(HeadwayError):
    """Called in plain text past the proxy that does TLS."""

    code = "PERMISSION_DENIED"
    http_status = 403
    slug = "not-by-proxy"
    title = "Headway is open through its proxy only"


def response(error: HeadwayError, request_id: str) -> Response:
    """The answer for an error."""
    body = _body(error, request_id).model_dump_json(exclude_none=False)
    headers: dict[str, str] = {"Cache-Control": "no-store"}
    if isinstance(error, TooMany | Unavailable) and not isinstance(error, DeadlineExceeded):
        headers["Retry-After"] = str(max(1, round(error.extra.get("retry_after_s", 2))))
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, RangeInvalid) and "size" in error.extra:
        headers["Content-Range"] = f"bytes */{error.extra['size']}"
    if isinstance(error, TooLarge):
        # What is left of the body is not read.
        headers["Connection"] = "close"
    if isinstance(error, MethodNotAllowed) and error.extra.get("allow"):
        headers["Allow"] = error.extra["allow"]
    return Response(body, error.http_status, headers, MEDIA_TYPE)


def _body(error: HeadwayError, request_id: str) -> s.Problem:
    """One error as problem details."""
    return s.Problem(
        type=f"urn:headway:problem:{error.slug}",
        title=error.title,
        status=error.http_status,
        detail=error.message,
        slug=error.slug,
        request_id=request_id,
        errors=[s.ProblemItem(**item.to_json()) for item in error.problems],
        service=error.extra.get("service"),
        retry_after_s=error.extra.get("retry_after_s"),
    )


def from_http(error: HTTPException, methods: Sequence[str] = ()) -> HeadwayError:
    """Errors that Starlette itself raises (no such route, wrong method) as ours; ``methods``: all of the address."""
    if error.status_code == 404:
        return NotFound("There is nothing at this address.")
    if error.status_code == 405:
        allow = ", ".join(methods) or (error.headers or {}).get("Allow", "")
        advice = f"; it takes {allow}" if allow else ""
        return MethodNotAllowed(f"This address does not take that method{advice}.", extra={"allow": allow})
    if error.status_code == 413:
        return TooLarge("The body is too large.")
    if error.status_code == 400 and isinstance(error.__cause__, ValueError | RecursionError):
        # Broken bytes, too deep, or a number too long: what FastAPI's parser doesn't tell as a place in the text.
        return InvalidInput(request_problems.NO_JSON.message, problems=[request_problems.NO_JSON])
    if 400 <= error.status_code < 500:
        return InvalidInput(f"The request can't be read: {error.detail}.")
    return HeadwayError()


def from_validation(error: RequestValidationError) -> HeadwayError:
    """FastAPI's findings about parameters and body, each at its place."""
    problems = [request_problems.problem(item) for item in error.errors()]
    first = problems[0].message if problems else "It is not valid."
    return InvalidInput(first if len(problems) == 1 else f"{len(problems)} things are wrong.", problems=problems)
