"""The ASGI application: routes behind a gate, every error as problem+json."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from . import openapi
from .api import cluster, events, files, health, jobs, logs, session, users
from .parts import Parts

PREFIX = "/api/v1"


class _App(FastAPI):
    def openapi(self) -> dict[str, object]:
        return openapi.document(self)


def _operation_id(route: APIRoute) -> str:
    return route.name


def build(parts: Parts | None) -> FastAPI:
    """The routes alone. ``parts`` is None only to write the OpenAPI document."""
    app = _App(
        title="Headway",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    app.state.parts = parts
    api = APIRouter(prefix=PREFIX)
    for module in (session, jobs, logs, cluster, files, events, users):
        api.include_router(module.router)
    app.include_router(api)
    app.include_router(health.router)
    return app
