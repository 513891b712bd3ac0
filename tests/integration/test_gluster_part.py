from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.gluster import Gluster

pytestmark = [pytest.mark.gluster, pytest.mark.slow]


def test_the_volume_is_mounted_can_be_cut_off_and_comes_back(gluster: Gluster) -> None:
    (gluster.mount / "file").write_text("there")
    assert (gluster.brick / "file").read_text() == "there"
    gluster.cut()
    # A reader that the cut catches hangs or gets an error; it may not see old or empty data.
    reader = subprocess.run(
        ["timeout", "2", "cat", gluster.mount / "other"], capture_output=True, text=True, check=False
    )
    assert reader.returncode != 0
    assert reader.stdout == ""
    gluster.heal()
    gluster.unmount()
    assert list(gluster.mount.iterdir()) == []
    gluster.mount_it()
    assert os.listdir(gluster.mount) == ["file"]
