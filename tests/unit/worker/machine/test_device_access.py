"""A container that lost its GPUs is found by the rules of its control group."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import cgroups
from worker.machine.device_access import lost_devices, refused_by_kernel, refused_by_list

HIERARCHY = Path("/sys/fs/cgroup/devices")
FILES = {Path("/dev/nvidia0"): (195, 0), Path("/dev/nvidiactl"): (195, 255), Path("/dev/nvidia-uvm"): (510, 0)}


@pytest.mark.parametrize(
    ("lines", "lost"),
    [
        (["a *:* rwm"], []),
        (["c 195:0 rw", "c 195:255 rwm", "c 510:0 rw"], []),
        (["c 195:* rw", "c *:* m", "b *:* m"], ["nvidia-uvm"]),
        (["c 1:3 rwm", "c 195:0 r", "b 195:0 rw", "c *:* m"], ["nvidia0", "nvidiactl", "nvidia-uvm"]),
    ],
)
def test_what_a_list_of_rules_refuses(lines: list[str], lost: list[str]) -> None:
    assert refused_by_list(lines, FILES) == lost


def a_container(proc: Path, group: str, mount: str, device: Path) -> None:
    """A process 7 whose /dev has a GPU's file, in a group of this hierarchy."""
    dev = proc / "7" / "root" / "dev"
    dev.mkdir(parents=True)
    os.mknod(dev / "nvidia0", 0o666 | 0o020000, os.stat(device).st_rdev)
    (dev / "nvidia-caps").mkdir()
    (proc / "7" / "cgroup").write_text(group)
    (proc / "self").mkdir()
    (proc / "self" / "mountinfo").write_text(mount)


@pytest.mark.root
def test_a_reload_that_wrote_the_rules_anew_is_noticed(tmp_path: Path) -> None:
    """GPU-04: inside, every GPU call fails from then on, and nobody knew why."""
    group = tmp_path / "cgroup" / "docker" / "abc"
    group.mkdir(parents=True)
    rules = group / "devices.list"
    rules.write_text("c 1:3 rwm\n")
    proc = tmp_path / "proc"
    a_container(
        proc,
        "5:devices:/docker/abc\n0::/\n",
        f"36 31 0:33 / {tmp_path}/cgroup rw - cgroup cgroup rw,devices\n",
        Path("/dev/null"),
    )
    assert lost_devices(7, proc) == []
    rules.write_text("c 5:0 rwm\n")
    assert lost_devices(7, proc) == ["nvidia0"]


@pytest.mark.root
@pytest.mark.skipif(not HIERARCHY.is_dir(), reason="this machine has no rules that a test can take back")
def test_without_a_list_a_process_of_the_group_tries_it_out(tmp_path: Path) -> None:
    """The kernel's own refusal, as under cgroup v2, and not that of a card that is gone."""
    name = f"headway-test-{os.getpid()}"
    group = HIERARCHY / name
    group.mkdir()
    try:
        files = {}
        for file, number in (("nvidia0", os.makedev(1, 3)), ("nvidiactl", os.makedev(1, 5))):
            os.mknod(tmp_path / file, 0o666 | 0o020000, number)
            files[tmp_path / file] = (os.major(number), os.minor(number))
        files[tmp_path / "nvidia1"] = (195, 1)
        os.mknod(tmp_path / "nvidia1", 0o666 | 0o020000, os.makedev(195, 1))  # nothing answers there
        assert refused_by_kernel(group, files) == []
        (group / "devices.deny").write_text("c 1:5 rwm")
        assert refused_by_kernel(group, files) == ["nvidiactl"]
    finally:
        cgroups.remove(name)
