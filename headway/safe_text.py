"""The door for texts that Headway did not write: of programs, images, file names and third parties.

Linux lets names hold any bytes but a slash and a NUL, and cuts some of them inside a letter. Python keeps such bytes as
lone surrogates, which neither protobuf nor JSON in UTF-8 takes. PostgreSQL takes no NUL.
"""

from __future__ import annotations

import re

_NO_TEXT = re.compile("[\x00\ud800-\udfff]+")
_MARK = "\N{REPLACEMENT CHARACTER}"


def valid_text(text: str) -> str:
    """The same text, with a mark in the place of what can't be stored or sent."""
    return text if text.isascii() and "\x00" not in text else _NO_TEXT.sub(_MARK, text)


def printable_text(text: str) -> str:
    """A text for the middle of a sentence: one line, and nothing that moves a cursor or hides what follows."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _MARK for char in valid_text(text))
