"""What can go wrong between a client and its server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from ..errors import HeadwayError, Problem, by_slug


class NoService(HeadwayError):
    """Nobody answers at the address."""

    code = "UNAVAILABLE"
    http_status = 503
    slug = "no-service"


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
    def from_response(cls, response: httpx.Response) -> Refused:
        """Reads problem+json; anything else becomes one sentence with the status."""
        body: Mapping[str, Any] = {}
        if "json" in response.headers.get("content-type", ""):
            try:
                parsed = response.json()
                body = parsed if isinstance(parsed, dict) else {}
            except ValueError:
                body = {}
        slug = str(body.get("type", "")).rsplit(":", 1)[-1].rsplit("/", 1)[-1]
        message = str(body.get("detail") or body.get("title") or f"The server answered {response.status_code}.")
        return cls(
            message,
            kind=by_slug(slug),
            status=response.status_code,
            request_id=str(body.get("request_id", "")),
            problems=[Problem.from_json(e) for e in body.get("errors") or [] if isinstance(e, dict)],
        )
