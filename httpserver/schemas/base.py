"""What all responses and requests share, and the problem that every refusal is."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class ApiResponse(BaseModel):
    """Base of all response bodies. A field with a default is still always present."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True, frozen=True)


class ApiRequest(BaseModel):
    """Base of all request bodies. Unknown keys are refused, so that a typing error is reported."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class NeedOn(StrEnum):
    """Which end of the needed task lets this one start."""

    SUCCESS = "success"
    FAILURE = "failure"
    ANY = "any"


class LogStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    BOTH = "both"
    PLATFORM = "platform"


class ProblemItem(ApiResponse):
    """One fault of the input, at its place."""

    pointer: str = Field(description="JSON pointer into what was sent; empty: the whole")
    message: str
    line: int | None = Field(None, description="from 1; null where what was sent has no lines")
    column: int | None = Field(None, description="from 1")
    word: str = Field("", description="the offending word")
    allowed: list[str] = Field(default_factory=list, description="what may stand there")
    suggestion: str = Field("", description="the nearest known name")


class Problem(ApiResponse):
    """RFC 9457 problem details; every answer of 400 and above is one."""

    type: str = Field(description="urn:headway:problem:<slug>")
    title: str
    status: int
    detail: str = Field(description="one clear sentence: what is wrong, where, what to do")
    slug: str = Field(description="stable word for programs")
    request_id: str = Field(description="also in the header X-Request-Id and in the server's log")
    errors: list[ProblemItem] = Field(default_factory=list)
    service: str | None = Field(None, description="which part of Headway does not answer (503 and 504 only)")
    retry_after_s: float | None = Field(None, description="also in the header Retry-After (429 and 503 only)")
