"""Names as parts of an address."""

from __future__ import annotations

from urllib.parse import quote

from ..errors import InvalidInput, NotFound


def path_part(name: str, what: str) -> str:
    """``name`` as one part of an address; ``what`` it names, such as ``account``.

    Raises:
        InvalidInput: it is empty.
        NotFound: nothing can have this name. In an address `..` is resolved, and `/` begins another part. Another call
            would be made than the one that was meant.
    """
    if not name.strip():
        raise InvalidInput(f"The name of the {what} is empty.")
    if name in (".", "..") or "/" in name or not name.isprintable():
        raise NotFound(f"There is no {what} `{_shown(name)}`.")
    return quote(name, safe="")


def _shown(name: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name[:64])
