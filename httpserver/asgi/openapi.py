"""The OpenAPI document: what FastAPI finds in the routes, plus what it can't see."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from .. import schemas as s

_REF = "#/components/schemas/{model}"

# Named in descriptions, streams and request bodies that are read by hand, so no route shows them to FastAPI.
_EXTRA = (s.Problem, s.ResetEvent, s.TaskEvent, s.AttemptEvent, s.JobGone, s.NodeGone, s.QueueEvent)
_EXTRA_ASKED = (s.JobFile, s.PreviewVariants)

_DESCRIPTION = """Everything the page and the command line do, they do here.

Instants end in `_at` (seconds since the epoch), durations in `_s`, sizes in `_bytes`; null is "not known" or "not yet".
Every answer of 400 and above is `application/problem+json`. Sign in with `POST /session`: browsers then have a cookie,
programs send the token as `Authorization: Bearer …`. Calls with a cookie that change something must come from this
very origin.
"""


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document; made once per process."""
    if app.openapi_schema is None:
        app.openapi_schema = _build(app)
    return app.openapi_schema


_SHOWN_FIRST = ("session", "jobs", "logs", "queue", "nodes", "files", "uploads", "events", "users", "health")


def _build(app: FastAPI) -> dict[str, Any]:
    doc = get_openapi(
        title="Headway",
        version="1",
        description=_DESCRIPTION,
        routes=app.routes,
        tags=[{"name": name} for name in (*_SHOWN_FIRST, "metrics")],
    )
    schemas: dict[str, Any] = doc["components"]["schemas"]
    for models, mode in ((_EXTRA, "serialization"), (_EXTRA_ASKED, "validation")):
        _, extra = models_json_schema([(model, mode) for model in models], ref_template=_REF)  # type: ignore[misc]
        for name, schema in extra["$defs"].items():
            schemas.setdefault(name, schema)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    problem = {
        "description": "What is wrong, as RFC 9457 problem details",
        "content": {"application/problem+json": {"schema": {"$ref": _REF.format(model="Problem")}}},
    }
    for operations in doc["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = problem
    doc["components"]["schemas"] = dict(sorted(schemas.items()))
    return doc
