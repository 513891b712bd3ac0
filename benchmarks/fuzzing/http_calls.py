"""Random calls of the whole HTTP API; what answers 500 or above is a finding."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from .schema_values import SchemaValues

_METHODS = ("get", "put", "post", "patch", "delete", "head", "options")
_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it is sent; ``target`` has the query in it."""

    method: str
    target: str
    headers: Mapping[str, str]
    content: bytes


def drawn(document: Mapping[str, Any], chance: random.Random, known: tuple[str, ...]) -> Iterator[Call]:
    """Calls without an end: each operation in turn."""
    values = SchemaValues(document, chance, known)
    operations = [
        (method, path, operation)
        for path, of_path in document["paths"].items()
        for method, operation in of_path.items()
        if method in _METHODS
    ]
    while True:
        for method, path, operation in operations:
            yield _call(values, chance, method.upper(), path, operation)


def found(url: str, token: str, calls: Iterator[Call], count: int) -> list[str]:
    """Sends so many; one line for each that was answered 500 or above, or not at all."""
    findings = []
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, timeout=_WAIT_S, trust_env=False) as client:
        for _, call in zip(range(count), calls, strict=False):
            said = _status(client, call)
            if said != "":
                findings.append(f"{call.method} {call.target[:300]} {call.content[:300]!r}: {said}")
    return findings


def _status(client: httpx.Client, call: Call) -> str:
    try:
        # Streams are opened and left: only how they begin is looked at.
        with client.stream(call.method, call.target, headers=dict(call.headers), content=call.content) as answer:
            return str(answer.status_code) if answer.status_code >= 500 else ""
    except httpx.ReadTimeout:
        # A followed log of a task that has written nothing is as silent.
        return "" if "follow=" in call.target or call.method == "GET" else "no answer"
    except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeEncodeError, ValueError):
        return ""  # the client itself refuses to send it
    except httpx.TransportError as error:
        return f"{type(error).__name__}: {error}"


def _call(values: SchemaValues, chance: random.Random, method: str, path: str, operation: Mapping[str, Any]) -> Call:
    query, headers = [], {}
    for parameter in operation.get("parameters", ()):
        name, schema = parameter["name"], parameter.get("schema", {})
        if parameter["in"] == "path":
            path = path.replace("{" + name + "}", _quoted(_plain(values.value(schema))) or "x")
        elif chance.random() < (0.95 if parameter.get("required") else 0.3):
            drawn = values.value(schema)
            for one in drawn if isinstance(drawn, list) else [drawn]:
                if parameter["in"] == "query":
                    query.append(f"{name}={_quoted(_plain(one))}")
                else:
                    headers[name] = "".join(c for c in _plain(one) if " " <= c < "\x7f").strip() or "x"
    content = b""
    bodies = operation.get("requestBody", {}).get("content", {})
    if bodies:
        media = chance.choice(list(bodies))
        headers["Content-Type"] = media
        content = _body(values, chance, bodies[media].get("schema", {}), media)
    return Call(method, path + ("?" + "&".join(query) if query else ""), headers, content)


def _body(values: SchemaValues, chance: random.Random, schema: Mapping[str, Any], media: str) -> bytes:
    if "json" not in media:
        return chance.choice((b"", b"\x00" * 600, chance.randbytes(200), b"a: &a [*a]", b"{", b"tasks: !!python/x 1"))
    text = json.dumps(values.value(schema)).encode()
    if chance.random() < 0.1:  # broken on its way
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.randbytes(chance.randint(0, 3)) + text[at + 1 :]
    return text


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")
