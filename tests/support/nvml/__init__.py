"""GPUs for the real NVML bindings on a machine without one: see nvml.c beside this file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.compiling import compiled

GIB = 1024**3
XID = 8  # nvmlEventTypeXidCriticalError


@dataclass(frozen=True, slots=True)
class Slice:
    """What the library says of one MIG slice of a GPU."""

    uuid: str
    name: str = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    memory_bytes: int = 5 * GIB
    used_bytes: int = 0
    slices: int = 1
    instance: int = 0
    processes: Mapping[int, int] = field(default_factory=dict)
    fails: Mapping[str, int] = field(default_factory=dict)

    def line(self, parent: str) -> str:
        """This slice in the library's file."""
        words = {
            "uuid": self.uuid,
            "parent": parent,
            "name": self.name,
            "memory": self.memory_bytes,
            "used": self.used_bytes,
            "slices": self.slices,
            "instance": self.instance,
            "processes": _pairs(self.processes),
            "fail": _pairs(self.fails),
        }
        return _line("mig", words)


@dataclass(frozen=True, slots=True)
class Gpu:
    """What the library says of one GPU. Memory in bytes, power in watts, temperature in degrees Celsius.

    ``processes`` and ``graphics`` map pids to bytes (-1: not available); ``fails`` maps NVML function names (``*``:
    all) to the status they answer, for instance 15 for a GPU that fell off the bus. A ``gone`` one has vanished from
    the driver's list, and the others keep their PCI ids. None: the card or its driver can't tell.
    """

    uuid: str
    name: str = "NVIDIA A100-SXM4-40GB"
    memory_bytes: int = 40 * GIB
    used_bytes: int = 0
    reserved_bytes: int = 0
    utilisation: int = 0
    memory_utilisation: int = 0
    temperature_c: int = 30
    power_w: float = 50.0
    processes: Mapping[int, int] = field(default_factory=dict)
    graphics: Mapping[int, int] = field(default_factory=dict)
    fails: Mapping[str, int] = field(default_factory=dict)
    gone: bool = False
    energy_j: float | None = None
    pci_bus_id: str = ""  # empty: by its place in the list
    linked: Sequence[str] = ()  # UUIDs that it reaches over NVLink
    slowdown_c: int | None = None  # thresholds
    shutdown_c: int | None = None
    gpu_max_c: int | None = None
    ecc: tuple[int, int] | None = None  # corrected and uncorrected errors since the driver was loaded
    ecc_total: tuple[int, int] | None = None
    remapped: tuple[int, int, int, int] | None = None  # rows: correctable, uncorrectable, pending, failed
    retired: tuple[int, int, int] | None = None  # pages: by single-bit errors, by double-bit ones, pending
    mig: bool | None = None  # MIG is on; None: the card has none
    slices: Sequence[Slice] = ()

    def lines(self) -> list[str]:
        """This GPU and its slices in the library's file."""
        words: dict[str, object] = {
            "uuid": self.uuid,
            "name": self.name,
            "memory": self.memory_bytes,
            "used": self.used_bytes,
            "reserved": self.reserved_bytes,
            "utilisation": self.utilisation,
            "memory_utilisation": self.memory_utilisation,
            "temperature": self.temperature_c,
            "power": round(self.power_w * 1000),
            "processes": _pairs(self.processes),
            "graphics": _pairs(self.graphics),
            "fail": _pairs(self.fails),
            "gone": int(self.gone),
            "pci": self.pci_bus_id,
            "linked": ",".join(self.linked),
            "energy": None if self.energy_j is None else round(self.energy_j * 1000),
            "slowdown": self.slowdown_c,
            "shutdown": self.shutdown_c,
            "gpu_max": self.gpu_max_c,
            "mig": int(bool(self.mig or self.slices)) if self.mig is not None or self.slices else None,
        }
        for key in ("ecc", "ecc_total", "remapped", "retired"):
            numbers = getattr(self, key)
            words[key] = None if numbers is None else ":".join(str(number) for number in numbers)
        return [_line("gpu", words), *(one.line(self.uuid) for one in self.slices)]


class PretendGpus:
    """The library in a folder of its own, and the file that drives it.

    ``build``: of the driver whose library it is. `set` with another one is a driver that was updated meanwhile.
    """

    def __init__(self, folder: Path, *, build: int = 0) -> None:
        self.library = compiled(
            Path(__file__).with_name("nvml.c"),
            "libnvidia-ml.so.1",
            "-shared",
            "-fPIC",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            *([f"-DBUILD={build}"] if build else []),
        )
        self.file = folder / "gpus"
        self._gpus: list[Gpu] = []
        self._system = ""
        self._events: list[str] = []
        self.set([])

    def set(
        self,
        gpus: Iterable[Gpu],
        *,
        driver: str = "550.54.15",
        cuda: int = 12040,
        init_fails: int = 0,
        missing: Iterable[str] = (),
        build: int | None = None,
    ) -> None:
        """From the next call on, these are the machine's GPUs.

        ``init_fails``: what the driver as a whole answers. ``missing``: names of functions that it lacks.
        """
        words = {
            "driver": driver,
            "cuda": cuda,
            "fail": f"nvmlInit:{init_fails}",
            "missing": ",".join(missing),
            "build": build,
        }
        self._gpus, self._system = list(gpus), _line("system", words)
        self._write()

    def change(self, uuid: str, **more: object) -> None:
        """Change facts of one GPU."""
        self._gpus = [replace(gpu, **more) if gpu.uuid == uuid else gpu for gpu in self._gpus]  # type: ignore[arg-type]
        self._write()

    def tell(self, uuid: str, number: int, *, kind: int = XID) -> None:
        """The driver tells of an event of a GPU: an XID error, if nothing else is said."""
        self._events.append(_line("event", {"uuid": uuid, "type": kind, "data": number}))
        self._write()

    def _write(self) -> None:
        new = self.file.with_suffix(".new")
        lines = [self._system, *(line for gpu in self._gpus for line in gpu.lines()), *self._events]
        new.write_text("\n".join(lines) + "\n")
        new.rename(self.file)

    def environment(self) -> dict[str, str]:
        """Variables under which a new process finds the library; it is loaded by name when Python starts NVML."""
        path = os.pathsep.join(filter(None, [str(self.library.parent), os.environ.get("LD_LIBRARY_PATH", "")]))
        return {"LD_LIBRARY_PATH": path, "HEADWAY_TEST_NVML": str(self.file)}


def _line(kind: str, words: Mapping[str, object]) -> str:
    """A line of the file. What is None or empty is left out."""
    return "\t".join([kind, *(f"{key}={value}" for key, value in words.items() if value not in (None, ""))])


def _pairs(mapping: Mapping[int, int] | Mapping[str, int]) -> str:
    return ",".join(f"{key}:{value}" for key, value in mapping.items())
