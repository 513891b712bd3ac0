"""The list of certificates that count no more, as it stands in `revoked.json`. Pure.

A JSON list of serial numbers as hex texts. `headway certs revoke` adds to it on ResourceManager's machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable


def read_serials(text: str | bytes) -> frozenset[int]:
    """The serial numbers.

    Raises:
        ValueError: the text is no such list.
    """
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("it must be a JSON list of serial numbers as hex texts")
    return frozenset(int(one, 16) for one in found)


def written(serials: Iterable[int]) -> str:
    """The file's text, always the same for the same numbers."""
    return json.dumps([f"{one:x}" for one in sorted(serials)], indent=0) + "\n"
