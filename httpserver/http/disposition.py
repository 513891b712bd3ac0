"""Content-Disposition for any file name (RFC 6266, RFC 8187). Pure."""

from __future__ import annotations

import re
from urllib.parse import quote

_UNSAFE = re.compile(r"[^A-Za-z0-9._ +=@()\[\]-]")
_ATTR_CHARS = "!#$&+-.^_`|~"


def attachment(name: str) -> str:
    """A header that makes browsers save the content under ``name`` and never show it.

    Old clients get a plain form, with ``_`` for every character outside it. Undecodable bytes of a name are sent
    percent-encoded, as they are."""
    plain = _UNSAFE.sub("_", name).strip() or "file"
    # A leading dash or dot would turn the saved file into an option or a hidden file.
    plain = "_" + plain[1:] if plain[0] in "-." else plain
    exact = quote(name.encode("utf-8", "surrogateescape"), safe=_ATTR_CHARS)
    if plain == name:
        return f'attachment; filename="{plain}"'
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}"
