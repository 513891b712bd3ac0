"""The device files of GPUs and the files of their driver, for containers that are given them without any toolkit.

A card's device file is known by its minor number, which the driver tells for a UUID. A slice of a card (MIG) needs two
capability files besides. The driver's libraries are those that the machine's own loader finds.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pynvml

from .gpu_faults import (
    GpuFault,
    GpuFaultKind,
    device_file_closed,
    device_files_missing,
    folder_unwritable,
    libraries_missing,
    node_of_card_missing,
)
from .gpu_ways import DRIVER_FOLDER, GivenGpus, by_nodes

# What CUDA programs and nvidia-smi open, as NVIDIA's toolkit lists them.
_LIBRARY = re.compile(
    r"lib(cuda|cudadebugger|nvcuvid|nvidia-(ml|cfg|opencl|gpucomp|ptxjitcompiler|fatbinaryloader|allocator|compiler|"
    r"pkcs11(-openssl3)?|nvvm(70)?|encode|opticalflow))\.so[\w.]*"
)
_LINE = re.compile(r"\s*(?P<name>\S+) \((?P<kind>[^)]*)\) => (?P<path>/.*)")
_KINDS = {"x86_64": "x86-64", "aarch64": "AArch64"}
_NEEDED = ("nvidiactl", "nvidia-uvm")
_WANTED = ("nvidia-uvm-tools",)
_PROGRAMS = ("nvidia-smi",)
_MUST_HAVE = "libcuda.so.1"
_ALL_USE = stat.S_IROTH | stat.S_IWOTH
_LDCONFIG_S = 10.0


@dataclass(frozen=True, slots=True)
class CardNumbers:
    """How the driver numbers a card, or a slice of one."""

    minor: int
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class FoundNodes:
    """What was there at the last look. ``fault``: why no card can be given in this way."""

    fault: GpuFault | None = None
    common: tuple[str, ...] = ()  # paths below /dev
    cards: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by UUID
    broken: Mapping[str, GpuFault] = field(default_factory=dict)
    files: tuple[tuple[str, str], ...] = ()  # path on the machine, path in DRIVER_FOLDER
    folder: str = ""


class DeviceNodes:
    """Looks for them below ``root``, and gives them. ``folder`` is the Worker's own, for what is mounted below."""

    def __init__(
        self,
        node: str,
        folder: Path,
        *,
        root: Path = Path("/"),
        numbers: Callable[[], Mapping[str, CardNumbers]] | None = None,
        libraries: Callable[[Path], Mapping[str, str]] | None = None,
    ) -> None:
        """``root`` is the machine's, but in tests. ``numbers`` tells those of all cards, and may raise NVMLError.

        ``libraries`` tells by which names programs ask for the driver's libraries, and where each lies below the root.
        """
        self._node = node
        self._folder = folder
        self._root = root
        self._numbers = numbers or numbers_of_cards
        self._libraries = libraries or libraries_of_machine
        self.found = FoundNodes(device_files_missing(node, "/dev/nvidiactl"))

    def look(self) -> None:
        """See what is there now. Blocks, as long as the driver does."""
        try:
            self.found = self._look()
        except OSError as error:
            self.found = FoundNodes(folder_unwritable(self._node, error.strerror or str(error)))

    def fault(self, uuids: Iterable[str]) -> GpuFault | None:
        """Why these can't be given. One card's fault is of that card alone."""
        found = self.found
        if found.fault is not None:
            return found.fault
        for uuid in uuids:
            if uuid in found.broken:
                return found.broken[uuid]
            if uuid not in found.cards:
                return node_of_card_missing(self._node, "")
        return None

    def given(self, uuids: Sequence[str], plain_runtime: str = "") -> GivenGpus:
        """The options for these cards. No UUID: for all of them, for a try."""
        found = self.found
        names = dict.fromkeys(name for uuid in uuids or found.cards for name in found.cards.get(uuid, ()))
        nodes = [(str(self._root / "dev" / name), f"/dev/{name}") for name in (*found.common, *names)]
        files = [(source, f"{DRIVER_FOLDER}/{place}") for source, place in found.files]
        return by_nodes(nodes, files, found.folder, plain_runtime)

    # -- inside -----------------------------------------------------------------------------------

    def _look(self) -> FoundNodes:
        for name in _NEEDED:
            if (fault := self._fault_of_node(name)) is not None:
                return FoundNodes(fault)
        listed = self._libraries(self._root)
        libraries = {name: real for name, path in listed.items() if (real := self._real(path))}
        if _MUST_HAVE not in libraries:
            return FoundNodes(libraries_missing(self._node, _MUST_HAVE))
        try:
            numbers = self._numbers()
        except pynvml.NVMLError as error:
            return FoundNodes(libraries_missing(self._node, "libnvidia-ml.so.1", str(error)))
        cards: dict[str, tuple[str, ...]] = {}
        broken: dict[str, GpuFault] = {}
        for uuid, card in numbers.items():
            names = self._names(card)
            fault = next(filter(None, map(self._fault_of_node, names)), None) if names else self._no_capability()
            if fault is None:
                cards[uuid] = names
            else:
                broken[uuid] = replace(fault, kind=GpuFaultKind.CARD, absent=False)
        files = [(path, f"lib64/{name}") for name, path in sorted(libraries.items())]
        files += [(path, f"bin/{name}") for name in _PROGRAMS if (path := self._program(name))]
        return FoundNodes(
            common=(*_NEEDED, *(name for name in _WANTED if self._fault_of_node(name) is None)),
            cards=cards,
            broken=broken,
            files=tuple(files),
            folder=str(_folder_for(self._folder, [place for _, place in files])),
        )

    def _names(self, card: CardNumbers) -> tuple[str, ...]:
        """The card's device files. Empty: the driver does not tell all of a slice."""
        names = [f"nvidia{card.minor}"]
        if card.gpu_instance is not None:
            base = self._root / f"proc/driver/nvidia/capabilities/gpu{card.minor}/mig/gi{card.gpu_instance}"
            for path in (base / "access", base / f"ci{card.compute_instance}/access"):
                number = _capability(path)
                if number is None:
                    return ()
                names.append(f"nvidia-caps/nvidia-cap{number}")
        return tuple(names)

    def _no_capability(self) -> GpuFault:
        return device_files_missing(self._node, "/dev/nvidia-caps")

    def _fault_of_node(self, name: str) -> GpuFault | None:
        try:
            mode = _mode(self._root / "dev" / name)
        except OSError:
            return device_files_missing(self._node, f"/dev/{name}")
        if not stat.S_ISCHR(mode):
            return device_files_missing(self._node, f"/dev/{name}")
        wanted = stat.S_IROTH if name.startswith("nvidia-caps/") else _ALL_USE
        # Tasks run as the users of their accounts.
        return None if mode & wanted == wanted else device_file_closed(self._node, f"/dev/{name}", stat.S_IMODE(mode))

    def _program(self, name: str) -> str:
        return self._real(f"/usr/bin/{name}")

    def _real(self, path: str) -> str:
        """The file itself, since an engine mounts no link. Empty: there is none."""
        real = os.path.realpath(self._root / path.lstrip("/"))
        return real if os.path.isfile(real) else ""


def libraries_of_machine(root: Path) -> dict[str, str]:
    """What the machine's own loader finds. Blocks."""
    ldconfig = shutil.which("ldconfig", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if ldconfig is None:
        return {}
    below = [] if root == Path("/") else ["-r", str(root)]
    try:
        done = subprocess.run(
            [ldconfig, *below, "-p"], capture_output=True, timeout=_LDCONFIG_S, env={"LC_ALL": "C"}, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return libraries_of(done.stdout.decode("utf-8", "replace"), platform.machine())


def libraries_of(said: str, machine: str) -> dict[str, str]:
    """The driver's libraries in what `ldconfig -p` prints: the first of each name, as the loader takes it. Pure."""
    kind, found = _KINDS.get(machine, ""), dict[str, str]()
    for line in said.splitlines():
        entry = _LINE.fullmatch(line)
        if entry and _LIBRARY.fullmatch(entry["name"]) and kind in entry["kind"]:
            found.setdefault(entry["name"], entry["path"])
    return found


def numbers_of_cards() -> dict[str, CardNumbers]:
    """Of all cards and their slices, by UUID. Blocks. Raises NVMLError if the driver as a whole does not answer."""
    found: dict[str, CardNumbers] = {}
    pynvml.nvmlInit()
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
                minor = int(pynvml.nvmlDeviceGetMinorNumber(gpu))
                found[_text(pynvml.nvmlDeviceGetUUID(gpu))] = CardNumbers(minor)
            except pynvml.NVMLError:
                continue  # a card that can't be read is no other's fault
            found.update(_slices(gpu, minor))
    finally:
        pynvml.nvmlShutdown()
    return found


def _slices(gpu: Any, minor: int) -> dict[str, CardNumbers]:
    found: dict[str, CardNumbers] = {}
    try:
        most = pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)
    except pynvml.NVMLError:
        return found
    for index in range(most):
        try:
            part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
            numbers = CardNumbers(
                minor,
                int(pynvml.nvmlDeviceGetGpuInstanceId(part)),
                int(pynvml.nvmlDeviceGetComputeInstanceId(part)),
            )
            found[_text(pynvml.nvmlDeviceGetUUID(part))] = numbers
        except pynvml.NVMLError:
            continue
    return found


def _mode(path: Path) -> int:
    return os.stat(path).st_mode


def _capability(path: Path) -> int | None:
    """The number of a capability file, as the driver tells it."""
    try:
        found = re.search(r"^DeviceFileMinor:\s*(\d+)", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


def _folder_for(parent: Path, places: Sequence[str]) -> Path:
    """A folder with an empty file for each mount. It is one of its own for each list of files.

    An old one stays: a container may use it, and what is removed under a mount takes the mount away.
    """
    digest = hashlib.sha256("\n".join(places).encode()).hexdigest()[:16]
    folder = parent / digest
    for place in places:
        path = folder / place
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.touch(mode=0o644)
    for made in (folder, *folder.iterdir()):
        made.chmod(0o755)
    return folder


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
