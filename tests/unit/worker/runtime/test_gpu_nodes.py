"""Which device files and libraries of a machine belong to which card."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

import pynvml
import pytest

from worker.runtime.gpu_cdi import cdi_devices
from worker.runtime.gpu_faults import GpuFaultKind
from worker.runtime.gpu_nodes import CardNumbers, DeviceNodes, libraries_of

CARDS = {"GPU-1": CardNumbers(1), "GPU-2": CardNumbers(0), "MIG-1": CardNumbers(2, 7, 0)}


class Machine:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        (self.root / "dev/nvidia-caps").mkdir(parents=True)
        for name in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1", "nvidia2"):
            self.make(name)
        for path in ("usr/lib/libcuda.so.550", "usr/bin/nvidia-smi"):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text("x")
        (self.root / "usr/lib/libcuda.so.1").symlink_to("libcuda.so.550")
        self.numbers: Mapping[str, CardNumbers] = CARDS
        self.libraries = {"libcuda.so.1": "/usr/lib/libcuda.so.1", "libcuda.so": "/usr/lib/libcuda.so.1"}
        self.nodes = DeviceNodes(
            "n1", folder / "made", root=self.root, numbers=lambda: self.numbers, libraries=lambda root: self.libraries
        )

    def make(self, name: str) -> None:
        (self.root / "dev" / name).symlink_to("/dev/null")

    def tell_slice(self) -> None:
        for path, number in (("gi7", 30), ("gi7/ci0", 31)):
            access = self.root / f"proc/driver/nvidia/capabilities/gpu2/mig/{path}/access"
            access.parent.mkdir(parents=True, exist_ok=True)
            access.write_text(f"DeviceFileMinor: {number}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
            self.make(f"nvidia-caps/nvidia-cap{number}")

    def devices(self, *uuids: str) -> list[str]:
        return [one["PathInContainer"] for one in self.nodes.given(uuids).host["Devices"]]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_card_has_the_file_of_its_minor_number(machine: Machine) -> None:
    """GPU-06: the order in which tools count cards is another one."""
    machine.nodes.look()
    assert machine.nodes.fault(["GPU-1", "GPU-2"]) is None
    assert machine.devices("GPU-1") == ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia1"]
    assert machine.devices("GPU-2") == ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"]
    assert machine.devices("GPU-9") == ["/dev/nvidiactl", "/dev/nvidia-uvm"]
    found = machine.nodes.fault(["GPU-9"])
    assert found is not None
    assert found.kind is GpuFaultKind.CARD


def test_a_slice_has_the_files_of_its_capabilities(machine: Machine) -> None:
    machine.nodes.look()
    missing = machine.nodes.fault(["MIG-1"])
    assert missing is not None
    assert (missing.kind, "/dev/nvidia-caps" in missing.sentence) == (GpuFaultKind.CARD, True)
    machine.tell_slice()
    machine.nodes.look()
    assert machine.devices("MIG-1")[2:] == [
        "/dev/nvidia2",
        "/dev/nvidia-caps/nvidia-cap30",
        "/dev/nvidia-caps/nvidia-cap31",
    ]


def test_files_are_mounted_over_empty_ones_by_each_name(machine: Machine) -> None:
    machine.nodes.look()
    folder, *files = machine.nodes.given(["GPU-1"]).mounts
    assert folder["Target"] == "/usr/local/nvidia"
    real = str(machine.root / "usr/lib/libcuda.so.550")
    assert [(one["Source"], one["Target"]) for one in files] == [
        (real, "/usr/local/nvidia/lib64/libcuda.so"),
        (real, "/usr/local/nvidia/lib64/libcuda.so.1"),
        (str(machine.root / "usr/bin/nvidia-smi"), "/usr/local/nvidia/bin/nvidia-smi"),
    ]
    for one in files:
        assert not (Path(folder["Source"]) / one["Target"].removeprefix("/usr/local/nvidia/")).read_bytes()


def test_what_is_missing_is_said_with_what_to_do(machine: Machine) -> None:
    def said() -> tuple[bool, str]:
        machine.nodes.look()
        fault = machine.nodes.fault(["GPU-1"])
        assert fault is not None
        return fault.absent, fault.sentence

    def driver_silent() -> Mapping[str, CardNumbers]:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

    works, machine.nodes._numbers = machine.nodes._numbers, driver_silent
    assert "libnvidia-ml.so.1 can't be used on n1 (Driver Not Loaded)" in said()[1]
    machine.nodes._numbers = works
    machine.libraries = {}
    assert said()[0]
    assert "libcuda.so.1" in said()[1]
    (machine.root / "dev/nvidia-uvm").unlink()
    assert said()[0]
    assert "`nvidia-modprobe -u -c=0`" in said()[1]
    (machine.root / "dev/nvidia-uvm").symlink_to("/etc/passwd")
    assert "/dev/nvidia-uvm" in said()[1], "a file is no device file"


def test_a_device_file_that_is_closed_to_tasks(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.runtime.gpu_nodes._mode", lambda path: stat.S_IFCHR | 0o660)
    machine.nodes.look()
    fault = machine.nodes.fault(["GPU-1"])
    assert fault is not None
    assert not fault.absent
    assert "(mode 0660)" in fault.sentence
    assert "NVreg_DeviceFileMode=0666" in fault.sentence


def test_the_loaders_list() -> None:
    said = """2 libs found in cache `/etc/ld.so.cache'
\tlibnvidia-ml.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-ml.so.1
\tlibcuda.so.1 (libc6) => /lib/i386-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6,x86-64) => /usr/local/cuda/compat/libcuda.so.1
\tlibcudart.so.12 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.12
\tlibnvidia-gpucomp.so.550.54.15 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-gpucomp.so.550.54.15
\tlibcrypt.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcrypt.so.1
"""
    assert libraries_of(said, "x86_64") == {
        "libnvidia-ml.so.1": "/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
        "libcuda.so.1": "/lib/x86_64-linux-gnu/libcuda.so.1",
        "libnvidia-gpucomp.so.550.54.15": "/lib/x86_64-linux-gnu/libnvidia-gpucomp.so.550.54.15",
    }


def test_cdi_lists(tmp_path: Path) -> None:
    (tmp_path / "nvidia.yaml").write_text(
        'cdiVersion: "0.5.0"\nkind: nvidia.com/gpu\ndevices:\n- name: "0"\n- name: GPU-1\n- name: all\n'
    )
    (tmp_path / "other.json").write_text('{"kind": "vendor.com/net", "devices": [{"name": "eth1"}]}')
    for name, text in {
        "broken.json": "{",
        "odd.yaml": "- 1",
        "flat.yml": "kind: a/b\ndevices: x",
        "x.txt": "{",
    }.items():
        (tmp_path / name).write_text(text)
    assert cdi_devices([str(tmp_path), "/nonexistent"]) == {
        "nvidia.com/gpu=0",
        "nvidia.com/gpu=GPU-1",
        "nvidia.com/gpu=all",
        "vendor.com/net=eth1",
    }
