"""Looks for a secret in files, in the forms in which it could stand there."""

from __future__ import annotations

import base64
import os
import urllib.parse
from collections.abc import Iterator
from pathlib import Path


def forms(value: bytes) -> list[bytes]:
    """The value as it is, in base64 at each of three offsets, in hex, url-encoded, and as Python and JSON quote it."""
    found = [value, value.hex().encode(), value.hex().upper().encode()]
    found += [urllib.parse.quote(value).encode(), urllib.parse.quote_plus(value).encode()]
    found += [repr(value)[2:-1].encode()]
    for skip in range(3):
        # Only whole groups of four characters, as what stands beside it is not known.
        part = value[skip:]
        part = part[: len(part) - len(part) % 3]
        found += [base64.b64encode(part), base64.urlsafe_b64encode(part)]
    return [form for form in dict.fromkeys(found) if len(form) >= 8]


def leaks(folder: Path, *values: bytes) -> Iterator[Path]:
    """Files below a folder that have one of the values, whatever it looks like; and names of files that do."""
    wanted = [form for value in values for form in forms(value)]
    for top, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(top, name)
            if any(form in os.fsencode(name) for form in wanted):
                yield path
            if name in names and path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                if any(form in data for form in wanted):
                    yield path
