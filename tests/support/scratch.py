"""Folders for tests whose paths must be short, such as those with Unix sockets in them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def short_folder(prefix: str) -> Path:
    """A new folder in the run's scratch folder (else in /tmp)."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
