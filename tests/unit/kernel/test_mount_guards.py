"""The marker: what tells the real mount from the bare folder below it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway.mount import prepare_local, reach


def test_nothing_is_reached_on_a_folder_without_the_marker(tmp_path: Path) -> None:
    layout = prepare_local(tmp_path / "mount", "lab")
    with reach(layout, "lab", layout.root / "jobs" / "x") as path:
        assert path.parent.is_dir()
    with pytest.raises(OSError, match="not mounted"), reach(layout, "other", layout.root / "jobs"):
        raise AssertionError("another cluster's")
    layout.marker.unlink()
    with pytest.raises(OSError, match="not mounted"), reach(layout, "lab", layout.root / "jobs"):
        raise AssertionError("the bare folder")


def test_the_marker_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty marker after a power cut would be another cluster's."""
    steps: list[str] = []
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return real(self, target)

    monkeypatch.setattr(os, "fsync", lambda descriptor: steps.append("fsync"))
    monkeypatch.setattr(Path, "replace", replace)
    prepare_local(tmp_path / "mount", "lab")
    assert steps == ["fsync", "rename"]
