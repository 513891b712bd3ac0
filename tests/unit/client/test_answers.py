"""Answers of another version, and JSON of somebody else, through the real commands."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from headway.cli.main import cli
from headway.client import Client, Profile, http
from headway.client.answers import Answer
from headway.client.connection import Connection
from headway.client.errors import NotHeadway
from headway.client.fields import ANY, KINDS, NEEDED
from headway.errors import HeadwayError

API = json.loads((Path(http.__file__).parents[2] / "httpserver" / "openapi.json").read_text())
SCHEMAS = API["components"]["schemas"]
JOB = "a" * 12
COMMANDS: dict[str, list[str]] = {
    "ps": ["ps"],
    "last": ["last"],
    "show": ["show", JOB],
    "show a task": ["show", f"{JOB}/main"],
    "explain": ["explain", JOB],
    "explain --history": ["explain", f"{JOB}/main", "--history"],
    "metrics": ["metrics", f"{JOB}/main"],
    "wait": ["wait", JOB],
    "cancel": ["cancel", JOB],
    "hold": ["hold", f"{JOB}/main"],
    "extend": ["extend", JOB, "5m"],
    "clone": ["clone", JOB],
    "pin": ["pin", JOB],
    "submit": ["submit", "-"],
    "submit --dry-run": ["submit", "--dry-run", "-"],
    "submit --wait": ["submit", "--wait", "-"],
    "run -d": ["run", "-d", "--image", "base/python:1", "--timeout", "1m", "true"],
    "logs": ["logs", f"{JOB}/main"],
    "logs -t": ["logs", "-t", f"{JOB}/main"],
    "whoami": ["whoami"],
    "tokens": ["tokens"],
    "tokens add": ["tokens", "add", "ci"],
    "sessions": ["sessions"],
    "files ls": ["files", "ls"],
    "files space": ["files", "space"],
    "files trash ls": ["files", "trash", "ls"],
    "files trash restore": ["files", "trash", "restore", "1"],
    "queue": ["queue"],
    "nodes": ["nodes"],
    "nodes show": ["nodes", "show", "n1"],
    "gpus": ["gpus"],
    "usage": ["usage"],
    "events": ["events"],
    "accounts": ["accounts", "ls"],
    "images": ["images", "ls"],
    "images show": ["images", "show", "ann/tool"],
    "datasets": ["datasets", "ls"],
    "datasets show": ["datasets", "show", "faces"],
    "groups": ["groups", "ls"],
    "registry": ["registry", "ls"],
}


def sample(schema: dict[str, Any], name: str = "") -> Any:
    """A value that is as full as the schema lets it be."""
    if "$ref" in schema:
        return sample(SCHEMAS[schema["$ref"].rsplit("/", 1)[1]], name)
    for many in ("anyOf", "oneOf", "allOf"):
        if many in schema:
            return sample(next(one for one in schema[many] if one.get("type") != "null"), name)
    if "const" in schema or "enum" in schema:
        words = schema.get("enum", [schema.get("const")])
        return next((word for word in ("SUCCEEDED", "done", "ready") if word in words), words[0])
    match schema.get("type"):
        case "array":
            return [sample(schema.get("items", {"type": "string"}), name)]
        case "object":
            return {key: sample(value, key) for key, value in schema.get("properties", {}).items()}
        case "integer":
            return 1
        case "number":
            return 1_700_000_000.0 if name.endswith("_at") or name == "at" else 2.0
        case "boolean":
            return False
    return {"id": JOB, "state": "SUCCEEDED", "name": "main", "next_cursor": "", "cursor": "c"}.get(name, "word")


def _patterns() -> Iterator[tuple[str, re.Pattern[str], Any]]:
    for path, calls in API["paths"].items():
        pattern = re.compile(
            re.sub(r"\\\{path\\\}|\\\{ref\\\}", ".*", re.sub(r"\\\{(?!path|ref)\w+\\\}", "[^/]+", re.escape(path)))
        )
        for method, call in calls.items():
            for code, answer in call.get("responses", {}).items():
                body = answer.get("content", {}).get("application/json")
                if code.startswith("2") and body:
                    yield method.upper(), pattern, sample(body["schema"])


PATTERNS = list(_patterns())
Change = Callable[[str, Any], Any]


def serve(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if re.search(r"/logs/(stdout|stderr|both)$", path):
            return httpx.Response(200, content=b"hello\n", headers={"content-type": "text/plain"})
        for method, pattern, body in PATTERNS:
            if method == request.method and pattern.fullmatch(path):
                found = copy.deepcopy(body)
                if path.endswith("/jobs") and method == "GET":
                    found["next_cursor"] = None
                if path.endswith(("/images", "/files", "/files/")):
                    found["next_cursor"] = None
                if path.endswith("/times"):
                    found.update(offsets=[0], at=[1.0], end=6)
                headers = {"content-type": "application/json"}
                return httpx.Response(200, content=json.dumps(change(path, found)), headers=headers)
        raise AssertionError(f"{request.method} {path} is no call of the API")

    transport = httpx.MockTransport(handler)
    monkeypatch.setattr(
        http, "Connection", lambda profile, **more: Connection(profile, **more | {"transport": transport})
    )
    monkeypatch.setenv("HEADWAY_URL", "http://headway.test")
    monkeypatch.setenv("HEADWAY_TOKEN", "secret")
    monkeypatch.setattr("time.sleep", lambda _seconds: None)


def run(words: list[str]) -> Result:
    return CliRunner().invoke(cli, words, input="version: 1\n")


def sentence_of(result: Result) -> str:
    """What was refused, or empty. Anything else that is raised is a fault of ours."""
    if result.exception is None or isinstance(result.exception, SystemExit):
        return ""
    if isinstance(result.exception, HeadwayError):
        return str(result.exception)
    raise result.exception


@pytest.mark.parametrize("body", [[], None, "x", 3, {}, {"jobs": 3, "tasks": "x", "entries": [1], "name": 5, "id": {}}])
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_json_of_another_shape_is_told_as_that_of_somebody_else(monkeypatch, words, body):
    serve(monkeypatch, lambda _path, _found: body)
    said = sentence_of(run(words))
    if not isinstance(body, dict):
        assert (words[0] == "logs" and "-t" not in words) or re.search(
            r"http://headway\.test/api/v1/.* isn't Headway \(status 200, application/json\)", said
        )


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_full_answer_is_shown(monkeypatch, words):
    serve(monkeypatch, lambda _path, found: found)
    assert sentence_of(run(words)) == ""


def _places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield (*way, key)
            yield from _places(below, (*way, key))
    elif isinstance(value, list):
        for at, below in enumerate(value):
            yield from _places(below, (*way, at))


def _parent(value: Any, way: tuple[Any, ...]) -> Any:
    for step in way[:-1]:
        value = value[step]
    return value


def _bare(value: Any) -> Any:
    """With nothing but what can't be done without."""
    if isinstance(value, dict):
        return {key: _bare(below) for key, below in value.items() if key in NEEDED}
    return [_bare(below) for below in value] if isinstance(value, list) else value


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_what_another_version_leaves_out_stands_for_nothing(monkeypatch, words):
    serve(monkeypatch, lambda path, found: found if path.endswith("/times") else _bare(found))
    said = sentence_of(run(words))
    assert not said or ("has no `" in said and words[0] not in ("ps", "show", "explain", "wait", "whoami", "submit"))


@pytest.mark.parametrize("words", [COMMANDS[name] for name in ("ps", "whoami", "submit", "files ls")])
def test_a_field_of_another_kind_is_no_traceback(monkeypatch, words):
    seen: dict[str, Any] = {}
    serve(monkeypatch, lambda path, found: seen.setdefault(path, found))
    run(words)
    for path, body in seen.items():
        for way in _places(body):

            def change(asked: str, found: Any, path=path, way=way) -> Any:
                if asked == path:
                    _parent(found, way)[way[-1]] = [[]]
                return found

            serve(monkeypatch, change)
            try:
                sentence_of(run(words))
            except Exception as error:
                raise AssertionError(f"{way} of {path}") from error


def test_every_field_of_the_api_has_its_kinds():
    def kinds(schema: dict[str, Any]) -> set[str]:
        if "$ref" in schema:
            return kinds(SCHEMAS[schema["$ref"].rsplit("/", 1)[1]])
        if "anyOf" in schema:
            return {kind for one in schema["anyOf"] if one.get("type") != "null" for kind in kinds(one)}
        if schema.get("type") == "array":
            below = kinds(schema["items"])
            return {"rows"} if below == {"object"} else {"words"} if below == {"text"} else {"numbers"}
        names = {"string": "text", "integer": "integer", "number": "number", "boolean": "flag", "object": "object"}
        return {names[schema["type"]]} if schema.get("type") in names else set()

    def reached(schema: Any, seen: set[str]) -> set[str]:
        for key, below in schema.items() if isinstance(schema, dict) else enumerate(schema):
            if key == "$ref" and (name := below.rsplit("/", 1)[1]) not in seen:
                seen.add(name)
                reached(SCHEMAS[name], seen)
            elif isinstance(below, dict | list):
                reached(below, seen)
        return seen

    answers = [a for calls in API["paths"].values() for call in calls.values() for a in [call.get("responses", {})]]
    of_answers = reached([{k: v for k, v in one.items() if k.startswith("2")} for one in answers], set())
    # These are of programs that look whether a server lives; its client asks for none of them.
    for schema in of_answers - {"UsedBy", "Healthy", "Ready"}:
        for name, field in SCHEMAS[schema].get("properties", {}).items():
            if name not in ANY.split():
                assert kinds(field) <= KINDS.get(name, frozenset()), (schema, name)


def test_what_may_be_null_says_something_by_it():
    """`usage` of everybody has no user: it was taken for an answer of somebody else."""
    answer = Answer({"user": None}, "http://headway.test")
    assert answer["user"] is None
    with pytest.raises(NotHeadway, match="has no `id`"):
        answer["id"]


def test_an_id_is_printed_although_the_server_tells_no_warnings(monkeypatch):
    serve(monkeypatch, lambda _path, _found: {"id": JOB})
    result = run(["submit", "-"])
    assert (result.exit_code, result.stdout) == (0, f"{JOB}\n")


@pytest.mark.parametrize("words", [COMMANDS["submit"], COMMANDS["run -d"]])
def test_an_id_is_printed_before_its_warnings_can_fail(monkeypatch, words):
    serve(monkeypatch, lambda _path, _found: {"id": JOB, "warnings": 3})
    assert run(words).stdout == f"{JOB}\n"


@pytest.mark.parametrize("media", ["application/json", "application/problem+json", "text/html"])
def test_what_is_no_log_is_not_printed_as_one(media):
    def handler(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"{}", headers={"content-type": media})

    with Client(Profile(url="http://headway.test"), transport=httpx.MockTransport(handler)) as client:
        with pytest.raises(NotHeadway, match="isn't Headway"):
            client.log(JOB, "main")
        with pytest.raises(NotHeadway, match="isn't Headway"):
            list(client.follow_log(JOB, "main"))
