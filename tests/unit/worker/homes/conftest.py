"""Homes with real mounts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mounts import mounted_below, unmount_below
from worker.homes import TaskHomes
from worker.launcher.build import build


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[TaskHomes]:
    """Homes in ``tmp_path/homes``, of which no mount may be left at the end."""
    made = TaskHomes(tmp_path / "homes", user_namespace=child())
    try:
        yield made
        made.sweep(())
        assert mounted_below(tmp_path / "homes") == []
    finally:
        unmount_below(tmp_path / "homes")


def child() -> tuple[str, ...]:
    return (str(build()), "user-namespace")
