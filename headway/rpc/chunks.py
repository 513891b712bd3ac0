"""Long lists and long texts in parts that stay far below gRPC's 4 MB.

for part in in_parts(tasks):
    yield SubmitJobPart(tasks=part)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

MAX_PART_BYTES = 1_000_000
# What a repeated message's tag and length add at most to each element.
_OVERHEAD_BYTES = 8


class Sized(Protocol):
    """A protobuf message."""

    def ByteSize(self) -> int:
        """Its serialised size in bytes."""
        ...


M = TypeVar("M", bound=Sized)


def in_parts(messages: Iterable[M], *, max_bytes: int = MAX_PART_BYTES, max_count: int = 10_000) -> Iterator[list[M]]:
    """Splits messages, in order, into lists of at most `max_bytes`; a single larger one goes alone.

    Yields nothing for no messages.
    """
    part: list[M] = []
    size = 0
    for message in messages:
        more = message.ByteSize() + _OVERHEAD_BYTES
        if part and (size + more > max_bytes or len(part) >= max_count):
            yield part
            part, size = [], 0
        part.append(message)
        size += more
    if part:
        yield part


def byte_parts(data: bytes, *, max_bytes: int = MAX_PART_BYTES) -> Iterator[bytes]:
    """Splits bytes into pieces of at most `max_bytes`; yields nothing for no bytes."""
    for start in range(0, len(data), max_bytes):
        yield data[start : start + max_bytes]
