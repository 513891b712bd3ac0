"""Paths that are opened without links, and mounts that nobody sees yet."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.support.mounts import mounted_below
from worker.box import open_beneath
from worker.homes.system_calls import clone

open_within = partial(open_beneath, mounts=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / "a/b").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (made / "a/away").symlink_to(tmp_path / "outside")
    (made / "a/near").symlink_to("b")
    return made


@pytest.mark.parametrize("path", ["a/away/.", "a/away", "a/near", "a/../../outside", "/a/b", ".."])
@pytest.mark.parametrize("open_it", [open_within, open_beneath])
def test_no_link_and_no_way_up_is_followed(folder: Path, path: str, open_it: object) -> None:
    assert callable(open_it)
    top = os.open(folder, os.O_PATH)
    try:
        os.close(open_it(top, "a/b", os.O_RDONLY))
        with pytest.raises(OSError, match=r"links|cross-device|Not a directory"):
            open_it(top, path, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(top)


@pytest.mark.root
def test_a_mount_in_a_layer_is_not_entered_and_not_cloned(folder: Path) -> None:
    (folder / "a/b/under").write_text("")
    subprocess.run(["mount", "-t", "tmpfs", "headway-test", folder / "a/b"], check=True)
    top = os.open(folder, os.O_PATH)
    try:
        with pytest.raises(OSError, match="cross-device"):
            open_within(top, "a/b", os.O_RDONLY)
        copy = clone(top, folder)
        assert os.listdir(f"/proc/self/fd/{copy}/a/b") == ["under"]
        os.close(copy)
    finally:
        os.close(top)
        subprocess.run(["umount", folder / "a/b"], check=True)
    assert mounted_below(folder) == []
