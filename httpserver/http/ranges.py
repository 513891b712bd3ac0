"""HTTP byte ranges (RFC 9110, section 14), as far as one range goes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headway.errors import RangeInvalid

_RANGE = re.compile(r"\s*bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """``first`` None: the last ``last`` bytes; ``last`` None: to the end. Both inclusive, from 0."""

    first: int | None
    last: int | None

    def of(self, size: int) -> tuple[int, int]:
        """Start and length within ``size`` bytes.

        Raises:
            RangeInvalid: nothing of it lies within; ``extra["size"]`` is for Content-Range.
        """
        if self.first is None:
            length = min(self.last or 0, size)
            start = size - length
        else:
            start = self.first
            end = size - 1 if self.last is None else min(self.last, size - 1)
            length = end - start + 1
        if length <= 0:
            raise RangeInvalid(f"There are {size} bytes; the range asked for lies outside.", extra={"size": size})
        return start, length


def parse(header: str | None) -> ByteRange | None:
    """The range in a header. None: there is none, or one that a server may ignore; then the whole is sent."""
    if header is None:
        return None
    match = _RANGE.fullmatch(header)
    if match is None:
        return None
    first, last = match[1], match[2]
    if not first and not last:
        return None
    if first and last and int(last) < int(first):
        return None
    return ByteRange(int(first) if first else None, int(last) if last else None)
