"""Asks the cluster by its page's address. What comes back counts only with the cluster's proof."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import httpx

from ..client.connection import checked_url
from ..errors import ConfigInvalid, HeadwayError, NotAllowed, Unavailable
from ..trust import joining
from ..trust.identity import Role
from ..trust.joining import JoinAnswer, JoinRequest, JoinToken

_PATH = "/api/v1/join"
_PATIENCE_S = 30.0


class JoinRefused(HeadwayError):
    """The cluster said no; the sentence is its own."""

    slug = "join-refused"
    title = "The cluster refused this machine"
    http_status = 403


@dataclass(frozen=True, slots=True)
class Answered:
    """What the cluster proved to have said. ``at``: its clock, epoch seconds. ``shared``: keys of headway.toml."""

    role: Role
    name: str
    at: float
    shared: Mapping[str, Any]
    certificate: bytes
    ca: bytes
    version: str


def ask(
    address: str, token: JoinToken, request: JoinRequest, *, transport: httpx.BaseTransport | None = None
) -> Answered:
    """One request and its answer, checked. The token's secret stays here.

    The certificate of an https address is not asked for: both sides prove themselves by the token.

    Raises:
        ConfigInvalid: the address is none.
        Unavailable: nobody answers there, or somebody else than Headway.
        JoinRefused: the cluster refuses; its sentence says why.
        NotAllowed: the answer is not from the cluster that made the token.
    """
    url = checked_url(address)
    body = {**asdict(request), "proof": request.proof(token.key)}
    try:
        with httpx.Client(verify=False, trust_env=False, timeout=_PATIENCE_S, transport=transport) as http:
            response = http.post(f"{url}{_PATH}", json=body)
    except httpx.TransportError as error:
        raise Unavailable(
            f"Headway does not answer at {url} ({type(error).__name__}): is the address right, does it run, and is the "
            "port open in the firewalls between?"
        ) from error
    try:
        found = response.json()
    except ValueError:
        found = None
    if response.status_code >= 400:
        sentence = found.get("detail") if isinstance(found, dict) else None
        if not sentence:
            raise Unavailable(f"{url} answered with status {response.status_code}: is it Headway's page?")
        raise JoinRefused(str(sentence)[:2_000])
    return _checked(found, token, request, url)


def _checked(found: Any, token: JoinToken, request: JoinRequest, url: str) -> Answered:
    try:
        answer = JoinAnswer(*(str(found[key]) for key in ("certificate", "ca", "settings", "version")))
        proven = joining.same(str(found["proof"]), answer.proof(token.key, request))
    except (TypeError, KeyError):
        raise Unavailable(f"{url} answered something that is none of Headway's: is the address right?") from None
    if not proven:
        raise NotAllowed(
            f"What came from {url} is not from the cluster {token.cluster!r}, which made the token: is somebody in "
            "between? Nothing was changed here."
        )
    settings = json.loads(answer.settings)
    return Answered(
        role=Role(settings["role"]),
        name=settings["name"],
        at=float(settings["at"]),
        shared=settings["settings"],
        certificate=answer.certificate.encode(),
        ca=answer.ca.encode(),
        version=answer.version,
    )


def fresh(request: JoinRequest, *, nonce: str, at: float, look: bool) -> JoinRequest:
    """The same wish, sent anew."""
    return replace(request, nonce=nonce, at=at, look=look)


def checked_address(address: str) -> str:
    """Raises ConfigInvalid for what is no address of a page."""
    try:
        return checked_url(address)
    except ConfigInvalid as error:
        raise ConfigInvalid(
            f"{address[:200]!r} is no address of a page of Headway: write it as in https://10.0.0.1:8080."
        ) from error
