"""Files of personal spaces."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, StrictBool

from .base import ApiRequest, ApiResponse


class FileKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


class FileEntry(ApiResponse):
    name: str = Field(description="for people: bytes that are no UTF-8 are spelled out as \\xNN")
    encoded: str = Field(description="the exact name, percent-encoded, to be put into an address")
    kind: FileKind
    size_bytes: int
    modified_at: float
    mode: str = Field(description="octal, as 0644")
    uid: int
    link_target: str | None = Field(None, description="what a link says; it is shown, never followed")


class FileList(ApiResponse):
    """One folder; sorted by name."""

    path: str
    entries: list[FileEntry]
    next_cursor: str | None


class FileMove(ApiRequest):
    to: str = Field(description="new path in the personal space", max_length=4096)
    overwrite: StrictBool = False


class FileDone(ApiResponse):
    path: str
    size_bytes: int | None = None
