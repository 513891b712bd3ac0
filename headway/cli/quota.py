"""Quotas of personal spaces as people write them."""

from __future__ import annotations

from typing import Final

import click

from ..units import BadValue, parse_size

AS_CONFIGURED: Final = -1
_NO_LIMIT: Final = 0
_WORDS: Final = {"configured": AS_CONFIGURED, "default": AS_CONFIGURED, "none": _NO_LIMIT, "0": _NO_LIMIT}
QUOTA_FORMS: Final = "for instance 50GiB; `configured`: as configured; `none` or 0: no limit"


def parse_quota(text: str) -> int:
    """Bytes, or what the API takes for the words.

    Raises:
        click.BadParameter: it is no such thing.
    """
    if text in _WORDS:
        return _WORDS[text]
    try:
        return parse_size(text)
    except BadValue as error:
        raise click.BadParameter(error.message, param_hint="--quota") from None
