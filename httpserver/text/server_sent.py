"""Server-sent events as text."""

from __future__ import annotations

# What many readers, of Python say, take for the end of a line beside CR and LF. JSON lets it be escaped.
_ENDS_OF_LINES = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def one_line(json_text: str) -> str:
    """The same JSON without a character that anybody takes for the end of a line."""
    return json_text if json_text.isascii() else json_text.translate(_ENDS_OF_LINES)
