"""Logs: which to follow, and places in them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from .base import ApiRequest, ApiResponse, LogStream

# A slow reader makes the server hold a chunk of each.
MOST_FOLLOWED = 128


_AttemptNumber = Annotated[
    int,
    BeforeValidator(lambda value: 0 if value == "latest" else value),
    Field(ge=0, le=999_999_999, strict=True),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 999_999_999},
                {"type": "string", "const": "latest"},
            ],
            "description": "from 1; 0 or `latest`: the latest",
        }
    ),
]


class FollowedLog(ApiRequest):
    """One log, and where it begins: at ``offset``, with its last ``tail`` bytes, or at its first byte; never both."""

    job: str = Field(max_length=64, description="id, or a beginning of it that fits one job only")
    task: str = Field(max_length=64)
    attempt: _AttemptNumber = 0
    stream: LogStream
    offset: int | None = Field(None, ge=0, lt=2**63, strict=True)
    tail: int | None = Field(None, ge=0, lt=2**63, strict=True)

    @model_validator(mode="after")
    def _begins_at_one_place(self) -> Self:
        if self.offset is not None and self.tail is not None:
            raise PydanticCustomError("either", "either", {"names": "`offset` or `tail`"})
        return self


class FollowedLogs(ApiRequest):
    """They are told by their place in this list, from 0."""

    logs: list[FollowedLog] = Field(min_length=1, max_length=MOST_FOLLOWED)


class LogLine(ApiResponse):
    """Where a line of a log begins."""

    line: int = Field(description="from 1; the last one there is, where a later one was asked for")
    offset: int = Field(description="of its first byte")
    size: int = Field(description="bytes that the log has now")
    ended: bool = Field(description="false: more may come")


class LogTimes(ApiResponse):
    """When bytes of a log came. Those from ``offsets[i]`` up to the next offset, or ``end``, came at ``at[i]``."""

    offsets: list[int] = Field(description="first bytes, in rising order")
    at: list[float | None] = Field(
        description="seconds since 1970 by the node's clock, to the millisecond; null: nobody knows"
    )
    end: int = Field(description="nothing is told from this byte on: ask again from here, or later of a live log")
    ended: bool = Field(description="false: more may come")
