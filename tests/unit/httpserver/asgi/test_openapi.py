"""The OpenAPI document: fresh, and good enough to generate a client from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def document(repository: Path) -> dict[str, Any]:
    return json.loads((repository / "httpserver" / "openapi.json").read_text("utf-8"))


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, op) for path, ops in document["paths"].items() for method, op in ops.items()]


@pytest.mark.slow
def test_the_committed_document_is_what_the_routes_say(repository: Path):
    done = subprocess.run(
        [sys.executable, "scripts/openapi", "--check"], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# Who is about to sign in is not signed in yet.
OPEN = {
    ("/session", "post"),
    ("/session/ways", "get"),
    ("/session/provider", "get"),
    ("/session/provider/callback", "get"),
    ("/session/requests", "post"),
    ("/session/requests/poll", "post"),
    ("/join", "post"),
}


def test_every_operation_has_an_id_of_its_own_a_text_and_its_errors(document: dict[str, Any]):
    found = operations(document)
    ids = [op["operationId"] for _, _, op in found]
    assert len(set(ids)) == len(ids)
    for path, method, op in found:
        assert op["description"], (path, method)
        assert "application/problem+json" in op["responses"]["default"]["content"]
        closed = path.startswith("/api/v1/") and (path.removeprefix("/api/v1"), method) not in OPEN
        assert bool(op.get("security")) is closed, (path, method)


def test_every_reference_leads_somewhere(document: dict[str, Any]):
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"], name


def named_in(schemas: dict[str, Any], what: Any) -> set[str]:
    """All schemas that these lead to."""
    found: set[str] = set()
    todo = [what]
    while todo:
        for part in json.dumps(todo.pop()).split("#/components/schemas/")[1:]:
            name = part.split('"')[0]
            if name not in found:
                found.add(name)
                todo.append(schemas[name])
    return found


def test_every_field_of_an_answer_is_always_there(document: dict[str, Any]):
    schemas = document["components"]["schemas"]
    answered = named_in(schemas, [op["responses"] for _, _, op in operations(document)])
    asked = named_in(schemas, [op["requestBody"] for _, _, op in operations(document) if "requestBody" in op])
    assert {"Credentials", "FileMove"} <= asked - answered
    for name, schema in schemas.items():
        if schema.get("type") == "object" and name not in asked - answered and not name.startswith("JobFile"):
            assert set(schema.get("required", ())) == set(schema["properties"]), name


def test_every_json_body_is_closed_to_unknown_keys(document: dict[str, Any]):
    schemas = document["components"]["schemas"]
    asked = named_in(schemas, [op["requestBody"] for _, _, op in operations(document) if "requestBody" in op])
    assert {"PreviewVariants", "PreviewVariant", "JobFileTask", "Credentials"} <= asked
    for name in asked:
        if schemas[name].get("type") == "object":
            assert schemas[name].get("additionalProperties") is False, name


def test_names_tell_their_units(document: dict[str, Any]):
    for name, schema in document["components"]["schemas"].items():
        for field, what in schema.get("properties", {}).items():
            kinds = {what.get("type"), *(option.get("type") for option in what.get("anyOf", ()))}
            if field.endswith(("_at", "_s")) and field != "tasks_by_s":
                assert kinds & {"number", "integer"}, (name, field)
            if field.endswith("_bytes"):
                assert "integer" in kinds, (name, field)
