"""Secrets in the HTTP API."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from ..schemas import ApiRequest, ApiResponse


class SecretEncoding(StrEnum):
    """How ``value`` says bytes."""

    TEXT = "text"  # its UTF-8
    BASE64 = "base64"


class Secret(ApiResponse):
    """That a value is stored; it is never shown."""

    name: str
    size_bytes: int = Field(description="of the value")
    file_only: bool = Field(description="the value has a NUL byte, which no environment variable can have")
    changed_at: float


class SecretList(ApiResponse):
    secrets: list[Secret] = Field(description="by name")
    most: int = Field(description="so many an account may have")


class SecretValueIn(ApiRequest):
    value: str = Field(max_length=90_000, repr=False, description="up to 64 KiB, once it is decoded")
    encoding: SecretEncoding = SecretEncoding.TEXT
