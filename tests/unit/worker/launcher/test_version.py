"""A launcher of another version takes no ticket and holds no lock, so it must not be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.launcher import LauncherMissing, check_protocol


def test_the_launcher_that_is_built_here_keeps_to_the_workers_protocol(launcher_binary: Path) -> None:
    check_protocol(launcher_binary)


def test_a_launcher_of_another_version_is_refused_in_words(tmp_path: Path) -> None:
    """After an update without a build the old launcher ran tasks that counted as never started."""
    old = tmp_path / "headway-launcher"
    old.write_bytes(b"\x7fELF of an older Headway")
    with pytest.raises(LauncherMissing, match="another version of Headway"):
        check_protocol(old)
