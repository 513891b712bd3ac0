"""Whether the service is up and ready."""

from __future__ import annotations

from pydantic import Field

from .base import ApiResponse


class Healthy(ApiResponse):
    status: str
    version: str


class Ready(ApiResponse):
    ready: bool
    services: dict[str, str] = Field(description="service to `ok` or a sentence")
    conditions: dict[str, str]
