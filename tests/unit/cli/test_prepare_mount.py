"""The command that makes a share the mount of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headway.cli import mount
from headway.errors import ConfigInvalid
from headway.mount import MARKER


def run(*arguments: str) -> str:
    result = CliRunner().invoke(mount.prepare_mount, list(arguments))
    if result.exception is not None:
        raise result.exception
    return result.output


def test_it_writes_the_marker_and_the_folders_and_again_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mount, "_mounted", lambda _: True)
    for _ in range(2):
        assert "lab" in run(str(tmp_path / "share"), "--cluster", "lab")
    assert (tmp_path / "share" / MARKER).read_text() == "lab\n"
    assert {"homes", "jobs", "images", "datasets", "code"} <= {p.name for p in (tmp_path / "share").iterdir()}
    with pytest.raises(ConfigInvalid, match="another folder"):
        run(str(tmp_path / "share"), "--cluster", "other")


def test_a_bare_folder_is_refused_unless_it_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount, "_mounted", lambda _: False)
    with pytest.raises(ConfigInvalid, match="mount the share first"):
        run(str(tmp_path / "bare"))
    assert not (tmp_path / "bare").exists()
    run(str(tmp_path / "bare"), "--local")
    assert (tmp_path / "bare" / MARKER).is_file()
