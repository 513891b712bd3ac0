"""Which Headway this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("headway")
except PackageNotFoundError:  # run from a bare checkout
    VERSION = "unknown"
