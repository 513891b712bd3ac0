"""Descriptions that people write for images and datasets. Pure."""

from __future__ import annotations

from headway.errors import InvalidInput

from ..schemas import DESCRIPTION_CHARACTERS


def checked(description: str) -> str:
    """The description as it may be stored.

    Raises:
        InvalidInput: too long, or with characters that are no text.
    """
    if len(description) > DESCRIPTION_CHARACTERS:
        raise InvalidInput(
            f"A description has up to {DESCRIPTION_CHARACTERS} characters, and this one has {len(description)}."
        )
    if "\0" in description or any("\ud800" <= character <= "\udfff" for character in description):
        raise InvalidInput("The description holds characters that are no text.")
    return description
