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
