"""Begins the line of the audit log for each request that changes something."""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute

from ..audit import current, words
from ..audit.current import Draft
from ..auth.model import Account
from .common import TheParts

_PREFIX = "/api/v1"


async def audited(request: Request, parts: TheParts) -> None:
    """A dependency of all routes, before all others: from here on the request has its line."""
    scope = request.scope
    route: APIRoute = scope["route"]
    entry = words.of_route(scope["method"], route.path.removeprefix(_PREFIX))
    if not isinstance(entry, words.AuditedRoute):
        return
    account: Account | None = scope.get("headway.account")
    draft = Draft(
        entry,
        at=parts.clock.now(),
        request_id=scope.get("headway.request_id", ""),
        who="" if account is None else account.name,
        way=scope.get("headway.way", ""),
        address=scope.get("headway.client", ""),
        subject=words.subject_of(entry, scope.get("path_params", {})),
    )
    scope["headway.audit"] = draft
    current.begin(draft)
    if entry.owner == "outside":
        await parts.audit.begin()
