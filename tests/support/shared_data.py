"""The folder with real traces and workflows, which is not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parent.parent.parent
FIXTURE = "shared_data"


def find() -> Path | None:
    """What HEADWAY_TESTS_DATA names, else `shared/data` beside the checkout; None where neither has traces."""
    named = os.environ.get("HEADWAY_TESTS_DATA")
    folder = Path(named) if named else _REPOSITORY.parent / "shared" / "data"
    return folder if (folder / "traces").is_dir() and (folder / "dags").is_dir() else None
