"""Trash and quotas in the HTTP API."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from ..schemas import ApiRequest, ApiResponse, FileKind


class TrashItem(ApiResponse):
    id: str
    path: str | None = Field(description="where it was; null: not known any more, so a restore has to say where to")
    kind: FileKind
    size_bytes: int | None = Field(description="of a folder: of all files in it; null: too many to be counted")
    deleted_at: float
    expires_at: float = Field(description="then it is deleted for good")


class TrashList(ApiResponse):
    """The one deleted last comes first."""

    items: list[TrashItem]


class TrashRestore(ApiRequest):
    to: str = Field(description="another path in the personal space than the one it had", max_length=4096)


class SpaceState(StrEnum):
    OK = "ok"
    WARNING = "warning"  # from 90 % of the quota
    FULL = "full"


class Space(ApiResponse):
    """What a personal space holds, the trash included."""

    used_bytes: int = Field(description="on the disk; what came since it was measured is added")
    quota_bytes: int | None = Field(description="null: no limit")
    measured_at: float | None = Field(description="null: not yet, and `used_bytes` says nothing")
    state: SpaceState
    sentence: str = Field(description="for people: what is wrong and what to do; empty when all is well")
