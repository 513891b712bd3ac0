"""The data market in the HTTP API."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, StrictBool

from ..schemas import DESCRIPTION_CHARACTERS, ApiRequest, ApiResponse, ShareChange, SharedWith, UsedBy


class DatasetState(StrEnum):
    PUBLISHING = "publishing"
    READY = "ready"
    FAILED = "failed"


class DatasetVersion(ApiResponse):
    version: str
    state: DatasetState
    progress: float | None = Field(description="of publishing, 0 to 1; null when there is none")
    files: int | None = Field(description="null: not known")
    size_bytes: int | None = Field(description="null: not known")
    checksum: str | None = Field(description="SHA-256 of the text of its checksums; null: not known")
    method: Literal["reflink", "hardlink", "copy", ""] = Field(
        description="how it shares its content with the space it came from; empty: not known"
    )
    published_at: float | None
    problem: str | None = Field(description="why it failed")
    live_jobs: list[str] = Field(description="queued or running jobs that need it")


class Dataset(ApiResponse):
    name: str
    owner: str = Field(description="empty: an admin put it on the mount by hand")
    public: bool
    shared_with: SharedWith
    description: str = Field(description="Markdown")
    created_at: float
    may_change: bool
    versions: list[DatasetVersion] = Field(description="oldest first")
    used_by: list[UsedBy] = Field(description="the latest first; empty in lists")


class DatasetList(ApiResponse):
    datasets: list[Dataset]


class DatasetPublish(ApiRequest):
    """A folder of one's space that becomes a version of a dataset."""

    name: str = Field(max_length=200, examples=["mnist"])
    path: str = Field(max_length=4000, description="a folder of the personal space", examples=["data/mnist"])
    version: str | None = Field(None, max_length=200, description="default: 1, 2, 3 …")
    description: str | None = Field(None, max_length=DESCRIPTION_CHARACTERS, description="Markdown")
    public: StrictBool | None = Field(None, description="default of a new dataset: false")
    copy_: StrictBool = Field(
        False, alias="copy", description="the bytes may be copied where they can't be shared with the space"
    )


class DatasetChange(ApiRequest):
    description: str | None = Field(None, max_length=DESCRIPTION_CHARACTERS)
    public: StrictBool | None = None
    shared_with: ShareChange | None = None


class DatasetDeletion(ApiResponse):
    """It is out of the lists now; what jobs still need goes when the last of them ends."""

    live_jobs: list[str]
