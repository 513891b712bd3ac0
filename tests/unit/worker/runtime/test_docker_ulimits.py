"""How high an engine can set the limits of a container, by what the kernel says of its process."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from worker.runtime.docker_ulimits import engine_pid, engine_ulimits, most_ulimits

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max open files            1024                 20000                files
Max locked memory         65536                8388608              bytes
"""
FIRST, OTHER = "user:[4026531837]", "user:[4026532000]"
ALL_POWERS, WITHOUT = "000001ffffffffff", "000001fffeffffff"


def a_process(proc: Path, pid: int, *, comm: str = "dockerd", powers: str = WITHOUT, namespace: str = FIRST) -> None:
    folder = proc / str(pid)
    (folder / "ns").mkdir(parents=True)
    (folder / "comm").write_text(f"{comm}\n")
    (folder / "limits").write_text(LIMITS)
    (folder / "status").write_text(f"Name:\t{comm}\nCapEff:\t{powers}\n")
    (folder / "ns" / "user").symlink_to(namespace)
    (proc / "sys" / "fs").mkdir(parents=True, exist_ok=True)
    (proc / "sys" / "fs" / "nr_open").write_text("1048576\n")


@pytest.mark.parametrize(
    ("powers", "namespace", "want"),
    [
        (ALL_POWERS, FIRST, {"memlock": -1, "nofile": 1_048_576}),
        (WITHOUT, FIRST, {"memlock": 8_388_608, "nofile": 20_000}),
        (ALL_POWERS, OTHER, {"memlock": 8_388_608, "nofile": 20_000}),  # a rootless engine
    ],
)
def test_an_engine_with_power_over_the_machine_may_go_to_the_kernels_end(
    tmp_path: Path, powers: str, namespace: str, want: dict[str, int]
) -> None:
    a_process(tmp_path, 7, powers=powers, namespace=namespace)
    assert dict(most_ulimits(7, tmp_path)) == want


def test_unlimited_is_read_as_such(tmp_path: Path) -> None:
    a_process(tmp_path, 7)
    (tmp_path / "7" / "limits").write_text(LIMITS.replace("8388608 ", "unlimited"))
    assert dict(most_ulimits(7, tmp_path))["memlock"] == -1


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    assert most_ulimits(7, tmp_path) == ()
    a_process(tmp_path, 7)
    (tmp_path / "7" / "limits").write_text("Max open files  many  more  files\n")
    assert most_ulimits(7, tmp_path) == ()


def test_the_engine_is_who_listens_at_its_socket(tmp_path: Path) -> None:
    path, proc = str(tmp_path / "s"), tmp_path / "proc"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        assert engine_pid(path) is None  # a Python, which is no engine
        a_process(proc, os.getpid())
        assert engine_pid(path, proc) == os.getpid()
        assert dict(engine_ulimits(f"unix://{path}", proc)) == {"memlock": 8_388_608, "nofile": 20_000}
    assert engine_pid(path, proc) is None
    assert engine_pid(str(tmp_path / "none"), proc) is None


def test_an_engine_elsewhere_is_not_asked() -> None:
    assert engine_ulimits("tcp://192.0.2.1:2376") == ()
    assert engine_ulimits("ssh://there") == ()
