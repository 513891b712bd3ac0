"""The shared mount's options: what they allow that no task needs is a condition in words, and keeps no work away."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.clock import SystemClock
from headway.mount import prepare_local, weak_options
from worker.machine.conditions import Conditions
from worker.machine.mount import MountWatch

pytestmark = pytest.mark.root


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A folder that is a mount with these options."""
    place = tmp_path / "mount"
    place.mkdir()
    done: list[Path] = []

    def mount(options: str) -> Path:
        if done:
            subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)
        else:
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "headway-test", str(place)], check=True)
        done.append(place)
        return place

    yield mount
    if done:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ("nosuid,nodev", ""),
        ("nosuid,dev", "without nodev:"),
        ("suid,nodev", "without nosuid:"),
        ("suid,dev", "without nosuid and nodev:"),
    ],
)
def test_what_is_missing_is_named(mounted: Callable[[str], Path], options: str, want: str) -> None:
    sentence = weak_options(prepare_local(mounted(f"{options},size=64m"), "test"))
    assert want in sentence
    assert bool(want) == bool(sentence)


def test_a_plain_folder_has_no_options(tmp_path: Path) -> None:
    assert weak_options(prepare_local(tmp_path / "plain", "test")) == ""


async def test_it_is_a_condition_that_keeps_no_work_away(mounted: Callable[[str], Path]) -> None:
    layout = prepare_local(mounted("suid,dev,size=2g"), "test")
    conditions = Conditions(SystemClock())

    def on_change() -> None:
        conditions.set("mount_options", watch.weakness, blocks_work=False)

    watch = MountWatch(layout, "test", SystemClock(), on_change)
    try:
        assert await watch.look() == ""
        (condition,) = conditions.now
        assert condition.word == "mount_options"
        assert "Mount it with `nosuid,nodev`." in condition.sentence
        assert conditions.blocking() is None
    finally:
        watch.close()
