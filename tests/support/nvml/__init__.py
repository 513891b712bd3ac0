"""GPUs for the real NVML bindings on a machine without one: see nvml.c beside this file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.compiling import compiled

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Gpu:
    """What the library says of one GPU. Memory in bytes, power in watts, temperature in degrees Celsius.

    ``processes`` and ``graphics`` map pids to bytes; ``fails`` maps NVML function names (``*``: all) to the status
    they answer, for instance 15 for a GPU that fell off the bus.
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

    def line(self) -> str:
        """This GPU in the library's file."""
        words = {
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
        }
        return "\t".join(["gpu", *(f"{key}={value}" for key, value in words.items())])


class PretendGpus:
    """The library in a folder of its own, and the file that drives it."""

    def __init__(self, folder: Path) -> None:
        self.library = compiled(
            Path(__file__).with_name("nvml.c"),
            "libnvidia-ml.so.1",
            "-shared",
            "-fPIC",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
        )
        self.file = folder / "gpus"
        self.set([])

    def set(self, gpus: Iterable[Gpu], *, driver: str = "550.54.15", cuda: int = 12040, init_fails: int = 0) -> None:
        """From the next call on, these are the machine's GPUs. ``init_fails``: what the driver as a whole answers."""
        system = [f"system\tdriver={driver}\tcuda={cuda}\tfail=nvmlInit:{init_fails}"]
        new = self.file.with_suffix(".new")
        new.write_text("\n".join([*system, *(gpu.line() for gpu in gpus)]) + "\n")
        new.rename(self.file)

    def environment(self) -> dict[str, str]:
        """Variables under which a new process finds the library; it is loaded by name when Python starts NVML."""
        path = os.pathsep.join(filter(None, [str(self.library.parent), os.environ.get("LD_LIBRARY_PATH", "")]))
        return {"LD_LIBRARY_PATH": path, "HEADWAY_TEST_NVML": str(self.file)}


def _pairs(mapping: Mapping[int, int] | Mapping[str, int]) -> str:
    return ",".join(f"{key}:{value}" for key, value in mapping.items())
