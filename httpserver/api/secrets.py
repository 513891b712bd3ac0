"""Secrets for tasks: everybody's own, stored and never shown again."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Path, Response

from headway.errors import InvalidInput, Problem
from headway.jobfile.secrets import secret_name, variable_name
from headway.units import BadValue

from ..secrets.schemas import Secret, SecretEncoding, SecretList, SecretValueIn
from ..secrets.service import MOST_BYTES, MOST_SECRETS
from ..secrets.store import SecretFacts
from .common import SignedIn, TheParts

router = APIRouter(tags=["secrets"])

Name = Annotated[str, Path(max_length=300, description="letters, digits and `_`, as of an environment variable")]


@router.get("/secrets")
async def list_secrets(account: SignedIn, parts: TheParts) -> SecretList:
    """One's own secrets, without their values."""
    return SecretList(secrets=[_view(one) for one in await parts.secrets.of(account.name)], most=MOST_SECRETS)


@router.put("/secrets/{name}")
async def put_secret(name: Name, body: SecretValueIn, account: SignedIn, parts: TheParts) -> Secret:
    """Stores a value, encrypted, in place of the one before. Tasks that start from now on get it."""
    try:
        checked = variable_name(secret_name(name))
    except BadValue as bad:
        message = f"The name {bad.message}." if bad.message.startswith(("is ", "has ")) else f"{bad.message}."
        raise InvalidInput(message, problems=[Problem("/name", message)]) from None
    return _view(await parts.secrets.put(account.name, checked, _bytes(body)))


@router.delete("/secrets/{name}", status_code=204)
async def delete_secret(name: Name, account: SignedIn, parts: TheParts) -> Response:
    """Forgets a secret. Tasks that name it and have not started fail at their start."""
    await parts.secrets.delete(account.name, name)
    return Response(status_code=204)


def _view(facts: SecretFacts) -> Secret:
    return Secret(name=facts.name, size_bytes=facts.size_bytes, file_only=facts.has_nul, changed_at=facts.changed_at)


def _bytes(body: SecretValueIn) -> bytes:
    """
    Raises:
        InvalidInput: it is no base64, empty, or too long. The sentence has nothing of the value.
    """
    if body.encoding is SecretEncoding.BASE64:
        try:
            value = base64.b64decode(body.value, validate=True)
        except (binascii.Error, ValueError):
            raise _bad("The value is not base64.") from None
    else:
        try:
            value = body.value.encode()
        except UnicodeEncodeError:
            raise _bad("The value has a character that UTF-8 can't say: send its bytes as base64.") from None
    if not value:
        raise _bad("The value is empty: a secret has at least one byte.")
    if len(value) > MOST_BYTES:
        raise _bad(f"The value has {len(value)} bytes; {MOST_BYTES} are allowed.")
    return value


def _bad(message: str) -> InvalidInput:
    return InvalidInput(message, problems=[Problem("/value", message)])
