"""Registry credentials in the HTTP API."""

from __future__ import annotations

from pydantic import Field

from ..schemas import ApiRequest, ApiResponse


class Registry(ApiResponse):
    """That a password is stored; it is never shown."""

    registry: str = Field(description="host, with the port if any; docker.io for Docker Hub")
    username: str
    changed_at: float


class RegistryList(ApiResponse):
    registries: list[Registry]


class RegistryStored(Registry):
    checked: bool = Field(description="true: the registry was asked and takes them; false: it could not be asked now")


class RegistryLogin(ApiRequest):
    username: str = Field(min_length=1, max_length=255, pattern=r"^[^:\x00-\x1f\x7f]+$")
    password: str = Field(min_length=1, max_length=8192, description="or a token that the registry gave", repr=False)
