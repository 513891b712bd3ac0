"""How many bytes a folder uses that a task changes meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker.machine import file_usage
from worker.machine.file_usage import tree_bytes

_BLOCK = 1 << 16


def _file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * _BLOCK)


def test_links_are_not_followed_and_second_names_count_once(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    _file(outside / "large")
    _file(top / "a" / "own")
    (top / "a" / "link").symlink_to(outside)
    os.link(top / "a" / "own", top / "second")
    device = top.stat().st_dev
    assert _BLOCK <= tree_bytes(top, device) < 2 * _BLOCK
    assert tree_bytes(top, device + 1) == 0
    assert tree_bytes(tmp_path / "missing", device) == 0


def test_a_folder_that_becomes_a_link_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is root swaps it between two looks, to have the Worker walk through the machine."""
    top, outside = tmp_path / "top", tmp_path / "outside"
    _file(outside / "inner" / "large")
    (top / "a" / "inner").mkdir(parents=True)
    real = file_usage._facts

    def swapped(folder: int, path: str) -> Iterator[tuple[str, os.stat_result]]:
        found = list(real(folder, path))
        if path == "a":
            (top / "a").rename(top / "old")
            (top / "a").symlink_to(outside)
        return iter(found)

    monkeypatch.setattr(file_usage, "_facts", swapped)
    assert tree_bytes(top, top.stat().st_dev) < _BLOCK
