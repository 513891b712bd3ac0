"""Uploads as JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class UploadState(StrEnum):
    """How far an upload is."""

    RECEIVING = "receiving"
    CHECKING = "checking"
    CHOOSE = "choose"
    DONE = "done"
    FAILED = "failed"


class UploadProblem(BaseModel):
    """Why an upload failed."""

    slug: str
    detail: str


class Upload(BaseModel):
    """One upload; ``length`` and ``offset`` are in bytes."""

    id: str
    kind: str
    length: int | None = Field(description="of the whole; null: the client tells it later")
    offset: int = Field(description="where the stored bytes end")
    state: UploadState
    progress: float | None = Field(description="0 to 1: of the bytes, or of the checks while `checking`")
    problem: UploadProblem | None
    choices: list[str] = Field(description="one of them is to be picked, while `choose`")
    result: dict[str, Any] | None = Field(description="what became of it, once `done`: `image` and `digest`, or `path`")
    metadata: dict[str, str]
    created_at: float
    expires_at: float = Field(description="then the upload, or after its end the record of it, is removed")


class UploadList(BaseModel):
    """One's own uploads, newest first."""

    uploads: list[Upload]


class UploadChoice(BaseModel):
    """Which of the choices is meant."""

    model_config = ConfigDict(extra="forbid")

    choice: str = Field(max_length=1000)
