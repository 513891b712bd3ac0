"""Snapshots of code in the HTTP API."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from ..schemas import ApiRequest, ApiResponse

Path = Annotated[str, Field(min_length=1, max_length=2_000)]


class _Entry(BaseModel):
    # There may be a hundred thousand of them.
    model_config = ConfigDict(extra="forbid", frozen=True)


class CodeFile(_Entry):
    path: Path = Field(description="relative to the folder, with `/`")
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0, le=1 << 50)
    executable: StrictBool = False


class CodeLink(_Entry):
    path: Path
    target: Path = Field(description="relative, and never out of the folder")


class CodeManifest(ApiRequest):
    """All of a folder but what it ignores."""

    files: list[CodeFile]
    links: list[CodeLink] = Field(default_factory=list)


class CodeAnswer(ApiResponse):
    digest: str = Field(description="for `code` of a task")
    ready: bool = Field(description="the snapshot is there; otherwise send what is missing and ask again")
    missing: list[str] = Field(description="SHA-256 of contents to send")
    size_bytes: int
    files: int


class CodeBlobs(ApiResponse):
    stored: int = Field(description="how many contents were taken")


class CodeSnapshot(ApiResponse):
    digest: str
    files: int
    size_bytes: int
    created_at: float
    used_at: float
    live_jobs: list[str]


class CodeList(ApiResponse):
    snapshots: list[CodeSnapshot] = Field(description="one's own, the latest used first")
    max_bytes: int = Field(description="that one snapshot may have")
    max_files: int
    keep_s: float = Field(description="a snapshot that no job needs goes so long after its last use")
