"""The ASGI application: routes behind the request guard, and every error as problem+json."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp

from headway.errors import HeadwayError
from headway.logs import get_logger

from ..api import (
    audit,
    cluster,
    code,
    datasets,
    events,
    files,
    gpu_holds,
    groups,
    health,
    images,
    job_events,
    jobs,
    logs,
    registries,
    samples,
    secrets,
    session,
    sign_in,
    trash,
    trust,
    uploads,
    usage,
    users,
)
from ..api.auditing import audited
from ..http import problems
from ..http.query_names import refuse_unknown
from ..parts import Parts
from . import openapi
from .compression import Compressed
from .request_guard import API, RequestGuard
from .static_files import StaticPage

log = get_logger(__name__)

_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


class _App(FastAPI):
    def openapi(self) -> dict[str, Any]:
        return openapi.document(self)


def application(parts: Parts) -> ASGIApp:
    """Everything, as the server runs it."""
    return RequestGuard(Compressed(routes(parts)), parts)


def routes(parts: Parts | None) -> FastAPI:
    """The routes alone. ``parts`` is None only to write the OpenAPI document."""
    app = _App(
        title="Headway",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    app.state.parts = parts
    # Added one by one: a router that holds routers would be searched anew for every request.
    for module in (
        session, sign_in, jobs, logs, cluster, files, trash, uploads, images, groups, datasets, code, events,
        job_events, users, registries, secrets, usage, samples, gpu_holds, trust, audit,
    ):  # fmt: skip
        app.include_router(module.router, prefix=API, dependencies=[Depends(audited), Depends(refuse_unknown)])
    app.include_router(health.router)
    app.add_exception_handler(HeadwayError, _of_headway)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(Exception, _of_nobody)
    if parts is not None:
        app.state.page = StaticPage(parts.settings.static, parts.settings.docs)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name


def _answer(request: Request, error: HeadwayError) -> Response:
    if error.http_status >= 500 and error.http_status not in (503, 504, 507):
        log.error("http.error", path=request.url.path, slug=error.slug, reason=error.message)
    request.scope["headway.problem"] = error.slug
    return problems.response(error, request.scope.get("headway.request_id", ""))


async def _of_headway(request: Request, error: Exception) -> Response:
    assert isinstance(error, HeadwayError)
    return _answer(request, error)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    # A route for every path would answer 404 where an address exists and only the method is wrong.
    if error.status_code == 404 and request.method in ("GET", "HEAD"):
        page: StaticPage = request.app.state.page
        try:
            return page.respond(request.url.path, request.headers)
        except HeadwayError as missing:
            return _answer(request, missing)
    return _answer(request, problems.from_http(error, _methods_of(request)))


def _methods_of(request: Request) -> list[str]:
    """All methods that the path takes; Starlette names those of one route."""
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)
    ]


async def _of_nobody(request: Request, error: Exception) -> Response:
    # The request guard sees the same error next and logs it.
    return problems.response(HeadwayError(problems.INSIDE), request.scope.get("headway.request_id", ""))


async def _of_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _answer(request, problems.from_validation(error))
