"""Fixtures of the launcher's tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.launcher.runs import Runs
from worker.launcher.build import build


@pytest.fixture(scope="session")
def launcher_binary() -> Iterator[Path]:
    """A copy that every user can reach, also where the checkout lies below a closed home."""
    with tempfile.TemporaryDirectory(prefix="hw") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield Path(shutil.copy(build(), folder))


@pytest.fixture
def launch(launcher_binary: Path, tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(launcher_binary, tmp_path)
    yield runs
    runs.close()
