"""One account against everything of another: each call of the API, aimed at what is not theirs.

Nothing of the other's is shown, and nothing is changed. The calls are made from the OpenAPI document, so that a new
route is tried as soon as it is there.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import httpserver.app
from tests.integration.http_rig import Rig, a_rig

SECRET = "kept-by-ann"
DOCUMENT = json.loads(Path(httpserver.app.__file__).with_name("openapi.json").read_text("utf-8"))
# Usage has its own tests (test_http_usage.py): the neighbour here keeps none. Events end by themselves never.
ELSEWHERE = {
    "/healthz", "/readyz", "/metrics", "/api/v1/events", "/api/v1/job-events/stream", "/api/v1/usage",
    "/api/v1/usage/trace",
    # A request to be let in is nobody's yet: whoever has its code may look at it (test_http_sign_in.py).
    "/api/v1/session/requests/{code}",
}  # fmt: skip
METHODS = ("get", "put", "post", "patch", "delete", "head")
BODY: dict[str, Any] = {
    "op": "move", "to": "stolen", "by": "10m", "public": True, "shared_with": {"users": ["bob"], "groups": []},
    "name": "stolen", "password": "a new good one", "enabled": False, "username": "bob", "members": ["bob"],
}  # fmt: skip
# What everybody who is signed in may see of all jobs, or has of their own.
OPEN = {"/api/v1/jobs/{job}", "/api/v1/jobs/{job}/tasks/{task}", "/api/v1/jobs/{job}/tasks/{task}/decisions"}


async def things_of_ann(rig: Rig) -> dict[str, list[str]]:
    """Makes one of each kind; the values of path parameters that lead to them."""
    ann = await rig.client("ann")
    task = {"name": "a", "env": {"KEY": SECRET}, "command": f"run {SECRET}"}
    file = {
        "version": 1, "name": "job", "tasks": [task, {"name": "b", "needs": ["a"]}],
        "defaults": {"image": "base", "command": "true", "timeout": "1m"},
    }  # fmt: skip
    job = (await ann.post("/jobs", json=file)).json()["id"]
    rig.tasks.put(job, "a")
    rig.worker.logs[job, "a", 1, "stdout"] = bytearray(f"{SECRET}\n".encode())
    rig.worker.logs[job, "a", 1, "stderr"] = bytearray(f"{SECRET}\n".encode())
    await ann.put("/files/folder/f", content=SECRET.encode(), params={"parents": "true"})
    await ann.put("/files/gone", content=SECRET.encode())
    await ann.delete("/files/gone")
    trash = (await ann.get("/trash")).json()["items"][0]["id"]
    token = (await ann.post("/tokens", json={"name": SECRET})).json()["id"]
    (session, *_) = rig.parts.accounts.of_account("ann", "session")
    upload = await ann.post(
        "/uploads/files",
        headers={"Tus-Resumable": "1.0.0", "Upload-Length": "8", "Upload-Metadata": "path " + "a2VwdA=="},
    )
    assert upload.status_code == 201, upload.text
    published = await ann.post("/datasets", json={"name": "anns-data", "version": "1", "path": "folder"})
    assert published.status_code in (201, 202), published.text
    return {
        "job": [job, job[:8]],
        "task": ["a", "b"],
        "number": ["1", "latest"],
        "stream": ["stdout", "stderr", "platform"],
        "path": ["folder/f", "folder", "kept"],
        "id": [trash, token, session.id],
        "kind": ["files"],
        "upload_id": [upload.headers["location"].rpartition("/")[2]],
        "ref": ["ann/anns-image", "ann/anns-image:1"],
        "name": ["ann", "anns-data"],
        "version": ["1"],
        "host": ["registry.example"],
        "uuid": ["GPU-1"],
    }


def calls(things: dict[str, list[str]]) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Method, template, path and query of each call."""
    for template, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            if method not in METHODS or template in ELSEWHERE:
                continue
            parameters = {one["name"]: one for one in operation.get("parameters", ())}
            names = [name for name, one in parameters.items() if one["in"] == "path"]
            required = {
                name: str(one["schema"].get("enum", ["move"])[0])
                for name, one in parameters.items()
                if one["in"] == "query" and one.get("required")
            }
            queries: list[dict[str, str]] = [required]
            if "account" in parameters:
                queries = [{**required, "account": "ann"}]
            if "user" in parameters:
                queries = [{**required, "user": "ann"}]
            if method == "delete" and "permanent" in parameters:
                queries += [{**queries[0], "permanent": "true", "recursive": "true"}]
            for values in itertools.product(*(things[name] for name in names)):
                path = template
                for name, value in zip(names, values, strict=True):
                    path = path.replace("{" + name + "}", quote(value, safe="/" if name in ("path", "ref") else ""))
                for query in queries:
                    yield method.upper(), template, path.removeprefix("/api/v1"), query


async def state_of_ann(rig: Rig) -> dict[str, Any]:
    """All that there is of hers, as an admin sees it."""
    boss = await rig.client("boss", admin=True)
    jobs = (await boss.get("/jobs", params={"owner": "ann"})).json()["jobs"]
    found: dict[str, Any] = {"jobs": jobs}
    for job in jobs:
        detail = (await boss.get(f"/jobs/{job['id']}", params={"attempts": "false"})).json()
        found[job["id"]] = [(task["name"], task["state"], task["held"]) for task in detail["tasks"]]
    found["files"] = sorted(
        (str(path), path.read_bytes() if path.is_file() else b"") for path in rig.layout.home("ann").rglob("*")
    )
    found["trash"] = (await boss.get("/trash", params={"account": "ann"})).json()
    found["tokens"] = [(one["id"], one["name"]) for one in (await boss.get("/users/ann/tokens")).json()["tokens"]]
    found["sessions"] = [one["id"] for one in (await boss.get("/users/ann/sessions")).json()["sessions"]]
    (account,) = [one for one in (await boss.get("/users")).json()["users"] if one["name"] == "ann"]
    found["account"] = {key: account[key] for key in ("admin", "enabled", "uid", "gid", "quota_bytes")}
    datasets = (await boss.get("/datasets")).json()["datasets"]
    found["datasets"] = [(one["name"], one["owner"], one["public"]) for one in datasets]
    found["extended"] = len(rig.tasks.extended)
    return found


async def test_nobody_reaches_anything_of_another(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        things = await things_of_ann(rig)
        await (await rig.client("ann")).put(
            "/registries/registry.example", json={"username": SECRET, "password": "p" * 12}
        )
        # A token that lasts, since one of the calls signs out.
        made = await (await rig.client("bob")).post("/tokens", json={"name": "t"})
        bob = await rig._client({"Authorization": f"Bearer {made.json()['token']}"})
        before = await state_of_ann(rig)
        tried, wrong = 0, []
        for method, template, path, query in calls(things):
            body: dict[str, Any] = {} if method in ("GET", "HEAD", "DELETE") else {"json": BODY}
            if template.endswith("/files/{path}") and method == "PUT":
                body = {"content": b"changed"}
            if template.startswith("/api/v1/uploads"):
                body = {"headers": {"Tus-Resumable": "1.0.0", "Upload-Offset": "0"}, "content": b"stolen!!"}
            try:
                answer = await bob.request(method, path, params=query, timeout=5, **body)
            except httpx.ReadTimeout:
                wrong.append(f"{method} {path} {query}: no answer")
                continue
            tried += 1
            shown = answer.content.decode("utf-8", "replace")
            if SECRET in shown or answer.status_code >= 500:
                wrong.append(f"{method} {path} {query}: {answer.status_code} {shown[:200]}")
            aimed = "{job}" in template and template not in OPEN
            if aimed and answer.status_code not in (400, 403, 404):
                wrong.append(f"{method} {path} {query}: {answer.status_code}, not refused")
        assert wrong == []
        assert tried >= 150
        after = await state_of_ann(rig)
        for what, was in before.items():
            assert after[what] == was, f"{what} has changed"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_the_list_of_calls_is_not_empty_for(method: str) -> None:
    things = {name: ["x"] for name in ("job", "task", "number", "stream", "path", "id", "kind", "upload_id", "ref",
                                       "name", "version", "host", "uuid")}  # fmt: skip
    assert sum(one[0] == method for one in calls(things)) > 10
