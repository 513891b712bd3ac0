"""For load balancers, supervisors and Prometheus; open, outside /api/v1."""

from __future__ import annotations

from fastapi import APIRouter, Response

from .. import schemas as s
from ..version import VERSION
from .common import TheParts, streams

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def get_healthz() -> s.Healthy:
    """The process lives."""
    return s.Healthy(status="ok", version=VERSION)


@router.get("/readyz", responses={503: {"model": s.Ready, "description": "Something it needs is missing"}})
async def get_readyz(response: Response, parts: TheParts) -> s.Ready:
    """It can serve: its database, the shared folder and the other services answer."""
    ready = await parts.readiness.look()
    response.status_code = 200 if ready.ready else 503
    return ready


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: streams("text/plain", "Prometheus text, names headway_…")},
)
async def get_metrics(parts: TheParts) -> Response:
    """Counters and gauges of this process."""
    body, media_type = await parts.metrics.as_text()
    return Response(body, media_type=media_type)
