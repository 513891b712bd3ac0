"""What the kernel's module of NVIDIA's driver tells of cards, also of those that NVML can't read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, slots=True)
class KernelCard:
    """A card. Empty: not known."""

    pci_bus_id: str
    model: str = ""
    uuid: str = ""


def _has_device(minor: str) -> bool:
    return Path(f"/dev/nvidia{minor}").exists()


def kernel_cards(folder: Path = FOLDER, has_device: Callable[[str], bool] = _has_device) -> list[KernelCard]:
    """All cards of the driver that this process may use. An admin may have excluded some."""
    found = []
    try:
        files = sorted(folder.glob("*/information"))
    except OSError:
        return []
    for file in files:
        try:
            told = file.read_text("utf-8", "replace")
        except OSError:
            continue
        words = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in told.splitlines())}
        if words.get("GPU Excluded") == "Yes" or not has_device(words.get("Device Minor", "")):
            continue
        uuid = words.get("GPU UUID", "")
        found.append(KernelCard(file.parent.name, words.get("Model", ""), "" if "?" in uuid else uuid))
    return found


def same_bus(one: str, other: str) -> bool:
    """Whether two PCI ids are one. NVML writes more digits of the domain than the kernel."""
    return bool(one and other) and _short(one) == _short(other)


def _short(bus_id: str) -> str:
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]:0>4}:{rest}"
