"""What a container has used, by files as the kernel shows them, of both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.machine.cgroups import (
    Hierarchies,
    counters_of,
    folders_of,
    group_of,
    hierarchies_of,
)
from worker.ports import ContainerCounters

PID = 4242
NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9999       10    0    0    0     0          0         0 9999       10    0    0    0     0       0          0
  eth0:    1500       10    0    0    0     0          0         0      700       10    0    0    0     0       0          0
"""  # noqa: E501


class Machine:
    """A /proc and a tree of control groups in a folder."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.groups = folder / "proc", folder / "cgroup"
        for pid, network in ((str(PID), "net:[1]"), ("self", "net:[0]")):
            (self.proc / pid / "ns").mkdir(parents=True)
            (self.proc / pid / "ns" / "net").symlink_to(network)
        self.write(self.proc / str(PID) / "net" / "dev", NET_DEV)
        self.write(self.proc / "self" / "cgroup", "0::/system.slice/headway.service\n1:cpu,cpuacct:/\n")

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def v2(self) -> None:
        self.write(self.proc / "self" / "mountinfo", f"30 1 0:26 / {self.groups} rw - cgroup2 cgroup2 rw\n")
        self.write(self.proc / str(PID) / "cgroup", "0::/docker/abc\n")
        group = self.groups / "docker" / "abc"
        self.write(group / "cpu.stat", "usage_usec 2500000\nuser_usec 2000000\n")
        self.write(group / "memory.current", "5000\n")
        self.write(group / "memory.peak", "9000\n")
        self.write(group / "memory.stat", "anon 3000\ninactive_file 1000\nactive_file 500\n")
        self.write(group / "io.stat", "8:0 rbytes=100 wbytes=20 rios=1\n8:16 rbytes=5 wbytes=7 wios=1\n")

    def v1(self) -> None:
        lines = [
            f"{number} 1 0:{number} / {self.groups}/{name} rw - cgroup cgroup rw,{name}\n"
            for number, name in enumerate(("cpu,cpuacct", "memory", "blkio"), 30)
        ]
        self.write(self.proc / "self" / "mountinfo", "".join(lines))
        self.write(
            self.proc / str(PID) / "cgroup",
            "3:memory:/docker/abc\n2:blkio:/docker/abc\n1:cpu,cpuacct:/docker/abc\n0::/\n",
        )
        self.write(self.groups / "cpu,cpuacct" / "docker/abc/cpuacct.usage", "2500000000\n")
        memory = self.groups / "memory" / "docker/abc"
        self.write(memory / "memory.usage_in_bytes", "5000\n")
        self.write(memory / "memory.max_usage_in_bytes", "9000\n")
        self.write(memory / "memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n")
        self.write(
            self.groups / "blkio" / "docker/abc/blkio.throttle.io_service_bytes",
            "8:0 Read 100\n8:0 Write 20\n8:0 Total 120\n8:16 Read 5\n8:16 Write 7\nTotal 132\n",
        )

    def counters(self) -> ContainerCounters | None:
        group = group_of(PID, Hierarchies.of_machine(self.proc), self.proc)
        return None if group is None else counters_of(group, str(self.proc))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_both_versions_tell_the_same(machine: Machine, version: str) -> None:
    getattr(machine, version)()
    assert machine.counters() == ContainerCounters(2.5, 4000, 9000, 105, 27, 1500, 700)


def test_what_the_kernel_does_not_count_is_not_known(machine: Machine) -> None:
    machine.v2()
    group = machine.groups / "docker" / "abc"
    for name in ("memory.peak", "io.stat"):  # an older kernel; a controller that is off
        (group / name).unlink()
    (group / "memory.stat").write_text("anon 3000\n")
    assert machine.counters() == ContainerCounters(2.5, 5000, None, None, None, 1500, 700)


def test_a_container_that_is_gone_has_no_counters(machine: Machine) -> None:
    machine.v2()
    group = group_of(PID, Hierarchies.of_machine(machine.proc), machine.proc)
    assert group is not None
    for path in (machine.groups / "docker" / "abc").iterdir():
        path.unlink()
    (machine.groups / "docker" / "abc").rmdir()
    assert counters_of(group, str(machine.proc)) is None
    (machine.proc / str(PID) / "cgroup").unlink()
    assert machine.counters() is None


def test_the_machines_own_network_is_no_containers(machine: Machine) -> None:
    machine.v2()
    (machine.proc / str(PID) / "ns" / "net").unlink()
    (machine.proc / str(PID) / "ns" / "net").symlink_to("net:[0]")
    counters = machine.counters()
    assert counters is not None
    assert counters.network_received_bytes is None


def test_a_group_that_is_shared_with_the_worker_is_no_containers() -> None:
    mounts = hierarchies_of(["1 1 0:1 / /c rw - cgroup2 c rw", "2 1 0:2 /docker /m rw - cgroup c rw,memory"])
    assert folders_of(["0::/user", "1:memory:/docker/a/b"], ["0::/user"], mounts) == {"memory": "/m/a/b"}
    assert folders_of(["0::/../x", "1:memory:/other"], [], mounts) == {}
