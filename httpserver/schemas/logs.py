"""Places in logs."""

from __future__ import annotations

from pydantic import Field

from .base import ApiResponse


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
