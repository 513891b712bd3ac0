"""Credentials for registries: everybody's own, stored and never shown again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from headway.errors import InvalidInput

from ..registries.names import registry_host
from ..registries.schemas import Registry, RegistryList, RegistryLogin, RegistryStored
from .common import SignedIn, TheParts

router = APIRouter(tags=["registries"])

Host = Annotated[
    str, Path(max_length=300, description="host of the registry, with the port if any; docker.io for Docker Hub")
]


@router.get("/registries")
async def list_registries(account: SignedIn, parts: TheParts) -> RegistryList:
    """For which registries the account has stored credentials."""
    rows = await parts.registries.of(account.name)
    return RegistryList(
        registries=[Registry(registry=row.registry, username=row.username, changed_at=row.changed_at) for row in rows]
    )


@router.put("/registries/{host:path}")
async def put_registry(
    host: Host, body: RegistryLogin, account: SignedIn, parts: TheParts, request: Request
) -> RegistryStored:
    """Stores credentials, encrypted, in place of those before. What the registry itself refuses is not stored."""
    if registry_host(host) == request.headers.get("host", "").lower():
        raise InvalidInput(f"`{host}` is Headway itself, whose images need no password: name a registry.")
    row, checked = await parts.registries.put(account.name, host, body.username, body.password)
    return RegistryStored(registry=row.registry, username=row.username, changed_at=row.changed_at, checked=checked)


@router.delete("/registries/{host:path}", status_code=204)
async def delete_registry(host: Host, account: SignedIn, parts: TheParts) -> Response:
    """Forgets them. Jobs that wait are then fetched for without."""
    await parts.registries.delete(account.name, host)
    return Response(status_code=204)
