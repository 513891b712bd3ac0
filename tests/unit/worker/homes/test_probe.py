"""Why no home can be made is one sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worker.homes import TaskHomes, mounting, probe


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "homes"


def test_a_worker_that_is_not_root_makes_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert TaskHomes(folder, user_namespace=()).probe() == "Homes need a Worker that runs as root."
    assert not folder.exists()


@pytest.mark.homes
def test_a_working_machine_has_nothing_to_tell(homes: TaskHomes, folder: Path) -> None:
    assert homes.probe(engine_root=Path("/proc/self/root"), store=folder.parent) == ""
    assert os.listdir(folder) == []


@pytest.mark.homes
def test_each_reason_has_its_words(homes: TaskHomes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TaskHomes(folder, user_namespace=("/bin/false",)).probe().startswith("The kernel gives the Worker no user n")
    assert "does not see what the Worker mounts" in homes.probe(engine_root=folder.parent)
    assert homes.probe(store=Path("/proc")).startswith("The file system of /proc can't show an image's files")
    with monkeypatch.context() as patch:
        patch.setattr(probe, "_REDIRECTS", folder.parent / "redirects")
        (folder.parent / "redirects").write_text("Y\n")
        assert "redirect_dir" in homes.probe()
    with monkeypatch.context() as patch:
        patch.setattr(mounting, "overlay_of", _refused)
        patch.setattr(mounting, "mount_overlay", _refused)
        assert "can't be stacked over the image's layers" in homes.probe()
    assert os.listdir(folder) == []


def _refused(*_: object) -> int:
    raise OSError(22, "Invalid argument")
