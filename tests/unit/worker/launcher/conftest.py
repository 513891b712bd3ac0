"""Fixtures of the launcher's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.launcher.runs import Runs
from worker.launcher.build import build


@pytest.fixture(scope="session")
def launcher_binary() -> Path:
    return build()


@pytest.fixture
def launch(launcher_binary: Path, tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(launcher_binary, tmp_path)
    yield runs
    runs.close()
