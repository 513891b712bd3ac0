"""What the kernel's module of NVIDIA's driver tells of cards, also of those that NVML can't read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, slots=True)
class KernelCard:
    """A card. Empty: not known."""

    pci_bus_id: str
    model: str = ""
    uuid: str = ""
    minor: str = ""  # the number of its device file


@cache
def may_use(card: KernelCard) -> bool:
    """Whether this process may use the card: in a container or a control group others may be kept from it.

    It opens the device, which a broken card answers with an error of its own. That may take long, so it is done once.
    """
    try:
        os.close(os.open(f"/dev/nvidia{card.minor}", os.O_RDWR | os.O_CLOEXEC))
    except (PermissionError, FileNotFoundError):
        return False
    except OSError:
        pass
    return True


def kernel_cards(folder: Path = FOLDER) -> list[KernelCard]:
    """All cards of the driver. An admin may have excluded some."""
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
        if words.get("GPU Excluded") == "Yes":
            continue
        uuid, minor = words.get("GPU UUID", ""), words.get("Device Minor", "")
        found.append(KernelCard(file.parent.name, words.get("Model", ""), "" if "?" in uuid else uuid, minor))
    return found


def same_bus(one: str, other: str) -> bool:
    """Whether two PCI ids are one. NVML writes more digits of the domain than the kernel."""
    return bool(one and other) and _short(one) == _short(other)


def _short(bus_id: str) -> str:
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]:0>4}:{rest}"
