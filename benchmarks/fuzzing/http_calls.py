"""Calls of the whole HTTP API that schemathesis draws from the OpenAPI document, some valid and some not.

What answers 500 or above is a finding.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

schemathesis.serializer.alias(["application/offset+octet-stream", "application/x-tar"], "application/octet-stream")

_WAIT_S = 2.0
# Bodies that are no value of any schema.
_BROKEN = (
    b"",
    b"{",
    b"\x00" * 600,
    b'{"a":"\xff"}',
    b"[" * 2_000,
    b'{"a":1e999}',
    b"a: &a [*a]",
    b"tasks: !!python/x 1",
)


def found(
    url: str, token: str, document: Mapping[str, Any], known: Mapping[str, str], *, each: int, chosen: int
) -> tuple[int, list[str]]:
    """Sends about ``each`` calls of each operation; how many it were, and one line for each finding.

    Args:
        known: values of path parameters that lead to something.
        chosen: a number from which all that is drawn follows.
    """
    sent, findings = 0, []
    headers = {"Authorization": f"Bearer {token}"}
    schema = schemathesis.openapi.from_dict(dict(document))
    with httpx.Client(timeout=_WAIT_S, trust_env=False) as client:

        def send(case: Case[Any], content: bytes | None = None) -> None:
            nonlocal sent
            sent += 1
            asked = case.as_transport_kwargs(base_url=url)
            asked.pop("cookies", None)
            data = asked.pop("data", None) if content is None else content
            asked["headers"] = {**asked.get("headers", {}), **headers}
            if isinstance(data, str | bytes):
                asked.pop("json", None)
                asked["content"] = data
            said = _said(client, asked)
            if said:
                findings.append(f"{asked} {said}"[:900])

        for one in schema.get_all_operations():
            assert isinstance(one, Ok), one
            operation = one.ok()
            _draw(operation, known, each, chosen, send)
            if operation.body:
                for content in _BROKEN:
                    example = operation.Case(path_parameters=_known_of(operation, known))
                    example.headers["Content-Type"] = operation.get_request_payload_content_types()[0]
                    send(example, content)
    return sent, findings


def _draw(
    operation: APIOperation[Any, Any, Any, Any],
    known: Mapping[str, str],
    each: int,
    chosen: int,
    send: Callable[[Case[Any]], None],
) -> None:
    """Half of the calls are valid by the document, the other half not; half lead to what is there."""
    there = _known_of(operation, known)
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        for fixed in (None, there) if there else (None, None):
            draws = settings(
                max_examples=max(1, each // 4), database=None, deadline=None, phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            strategy = operation.as_strategy(generation_mode=mode, path_parameters=fixed)

            @seed(random.Random(f"{chosen} {operation.label} {mode}").getrandbits(64))
            @draws
            @given(strategy)
            def drawn(case: Case[Any]) -> None:
                send(case)

            with contextlib.suppress(Unsatisfiable):  # an operation that takes nothing has no invalid call
                drawn()


def _known_of(operation: APIOperation[Any, Any, Any, Any], known: Mapping[str, str]) -> dict[str, str] | None:
    names = [parameter.name for parameter in operation.path_parameters]
    return {name: known.get(name, "a") for name in names} or None


def _said(client: httpx.Client, asked: dict[str, Any]) -> str:
    """What is wrong with the answer; empty: nothing is."""
    try:
        # Streams are opened and left: only how they begin is looked at.
        with client.stream(**asked) as answer:
            return f"was answered {answer.status_code}" if answer.status_code >= 500 else ""
    except httpx.ReadTimeout:
        # A followed log of a task that has written nothing is as silent.
        return "" if asked["method"] == "GET" else "was not answered"
    except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeEncodeError, ValueError):
        return ""  # the client itself refuses to send it
    except httpx.TransportError as error:
        return f"broke off: {type(error).__name__}: {error}"
