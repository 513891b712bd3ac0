"""Whose process it is, by what /proc says."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

from worker.machine.gpu_processes import GpuProcesses
from worker.ports import GpuProcess


def a_process(proc: Path, pid: int, command: str, *, mounts: str = "", started: int = 7) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in command.split(" ")) + b"\0")
    (folder / "mountinfo").write_text(mounts)
    (folder / "stat").write_text(f"{pid} (a) b) " + " ".join(["S", *["0"] * 18, str(started), "0"]))


def box_mount(attempts: Path, name: str) -> str:
    """As a container's mountinfo has it, by that of this process for the folder."""
    best: tuple[str, str, str] = ("", "", "")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split(" ")
        if (str(attempts) + "/").startswith(words[4].rstrip("/") + "/") and len(words[4]) >= len(best[2]):
            best = words[2], words[3], words[4]
    inside = best[1].rstrip("/") + str(attempts)[len(best[2].rstrip("/")) :]
    return f"900 800 {best[0]} {inside}/{name}/box/run /headway rw - ext4 /dev/sda rw\n"


def test_processes_of_attempts_are_told_from_those_of_people(tmp_path: Path) -> None:
    attempts, proc = tmp_path / "attempts", tmp_path / "proc"
    attempts.mkdir()
    name = "j0123456789abcdef.train.1"
    a_process(proc, 10, "/usr/bin/python3 train.py --lr 0.1 --token abc", mounts=box_mount(attempts, name))
    a_process(proc, 11, "/opt/conda/bin/python train.py --lr 0.1 --token abc")
    reader = GpuProcesses(attempts, proc)
    ours, others = reader.split([GpuProcess(10, memory_used_bytes=5), GpuProcess(11, memory_used_bytes=6)])
    assert list(ours) == [name]
    (other,) = others
    me = pwd.getpwuid(os.getuid()).pw_name
    assert (other.pid, other.owner, other.memory_used_bytes) == (11, me, 6)
    assert other.command == "python train.py --lr 0.1"  # what follows may be nobody's business


def test_a_pid_that_is_used_anew_is_another_process(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    a_process(proc, 11, "python a.py")
    reader = GpuProcesses(tmp_path, proc)
    assert reader.split([GpuProcess(11)])[1][0].command == "python a.py"
    a_process(proc, 11, "python b.py", started=8)
    assert reader.split([GpuProcess(11)])[1][0].command == "python b.py"


def test_a_process_that_only_the_driver_still_lists_stays_whose_it_was(tmp_path: Path) -> None:
    attempts, proc = tmp_path / "attempts", tmp_path / "proc"
    attempts.mkdir()
    name = "j0123456789abcdef.train.1"
    a_process(proc, 10, "python train.py", mounts=box_mount(attempts, name))
    reader = GpuProcesses(attempts, proc)
    found = [GpuProcess(10, memory_used_bytes=5)]
    first = reader.split(found)
    shutil.rmtree(proc / "10")
    reader.forget([10])
    assert reader.split(found) == first
    assert first[0][name][0].command == "python train.py"
    # One that was never seen is nobody's: a Worker in a container sees no pids of its machine.
    reader.forget([])
    assert reader.split(found) == ({}, [])


def test_a_process_of_a_rehearsal_is_what_its_script_says(tmp_path: Path) -> None:
    made_up = GpuProcess(1, "ann", "python x.py", 2)
    assert GpuProcesses(tmp_path, tmp_path / "proc").split([made_up]) == ({}, [made_up])
