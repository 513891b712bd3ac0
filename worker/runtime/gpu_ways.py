"""The ways in which a container can be given GPUs, and what each puts into its options. Pure."""

from __future__ import annotations

import enum
import os.path
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..box import LaunchSpec

DRIVER_FOLDER: Final = "/usr/local/nvidia"  # where CUDA images look for the driver's files
LIBRARY_FOLDER: Final = f"{DRIVER_FOLDER}/lib64"
_CDI_KIND: Final = "nvidia.com/gpu"
_NOTHING: Final = "void"
# Variables of an image by which NVIDIA's toolkit gives more than was booked, or refuses to start at all. The first
# are those of Docker Swarm, which a site may let the toolkit read.
_TAKEN_AWAY: Final = (
    "DOCKER_RESOURCE_",
    "NVIDIA_IMEX_CHANNELS",
    "NVIDIA_MIG_CONFIG_DEVICES",
    "NVIDIA_MIG_MONITOR_DEVICES",
)
_NVIDIAS_RUNTIMES: Final = ("nvidia-container-runtime", "nvidia-container-toolkit")


class GpuWay(enum.StrEnum):
    """As ``worker.gpu_passing`` and ``Capacity.gpu_passing`` spell it. In the order in which they are tried."""

    DEVICE_REQUEST = "device_request"
    CDI = "cdi"
    DEVICE_NODES = "device_nodes"


@dataclass(frozen=True, slots=True)
class GivenGpus:
    """What a container's options hold for its GPUs.

    ``visible`` is NVIDIA_VISIBLE_DEVICES as the engine's runtimes see it. ``runtime`` is the engine's runtime that must
    run it; empty: its default one. ``libraries``: whether the driver's files are mounted at ``DRIVER_FOLDER``.
    """

    host: Mapping[str, Any] = field(default_factory=dict)
    mounts: tuple[Mapping[str, Any], ...] = ()
    visible: str = _NOTHING
    runtime: str = ""
    libraries: bool = False

    def spec_for(self, spec: LaunchSpec) -> LaunchSpec:
        """The launcher's spec: the program finds the driver's libraries, and the launcher proves their mount."""
        if not self.libraries:
            return spec
        before = spec.env.get("LD_LIBRARY_PATH", "")
        paths = [LIBRARY_FOLDER, *(path for path in before.split(":") if path and path != LIBRARY_FOLDER)]
        env = {**spec.env, "LD_LIBRARY_PATH": ":".join(paths)}
        return replace(spec, env=env, mounts=tuple(dict.fromkeys((*spec.mounts, DRIVER_FOLDER))))

    def fits(self, spec: LaunchSpec) -> bool:
        """Whether the spec in the box was written for this way. An earlier call may have written it for another."""
        return self.libraries == (DRIVER_FOLDER in spec.mounts)


@dataclass(frozen=True, slots=True)
class EngineTraits:
    """What the engine says of itself that matters for GPUs.

    ``cdi_folders``: where it reads lists of CDI devices; empty: it gives none. ``cdi_devices``: those that it has found
    by itself; None: it does not tell. ``plain_runtime``: what runs a container that no toolkit may touch; empty: the
    engine's default runtime does.
    """

    cdi_folders: tuple[str, ...] = ()
    cdi_devices: frozenset[str] | None = None
    plain_runtime: str = ""


def traits_of(info: Mapping[str, Any]) -> EngineTraits:
    """From the engine's answer to `info`."""
    found = info.get("DiscoveredDevices")
    devices = None
    if found:
        devices = frozenset(str(one.get("ID", "")) for one in found if one.get("Source") == "cdi")
    return EngineTraits(
        cdi_folders=tuple(str(folder) for folder in info.get("CDISpecDirs") or ()),
        cdi_devices=devices,
        plain_runtime=_plain_runtime(str(info.get("DefaultRuntime") or ""), info.get("Runtimes") or {}),
    )


def _plain_runtime(default: str, runtimes: Mapping[str, Any]) -> str:
    """Where NVIDIA's runtime is the default, an image's variables and volumes would ask it for devices."""
    about = runtimes.get(default) or {}
    program = os.path.basename(str(about.get("path") or (about.get("runtimeType") or "")))
    if default != "nvidia" and not program.startswith(_NVIDIAS_RUNTIMES):
        return ""
    # The engine itself has this one, whatever its settings name.
    return "runc"


def by_request(uuids: Sequence[str]) -> GivenGpus:
    """Docker's request for the driver of NVIDIA's toolkit. No UUID: all GPUs, for a try."""
    which: dict[str, Any] = {"DeviceIDs": list(uuids)} if uuids else {"Count": -1}
    request = {"Driver": "nvidia", **which, "Capabilities": [["gpu"]]}
    return GivenGpus({"DeviceRequests": [request]}, visible=",".join(uuids) or _NOTHING)


def by_cdi(uuids: Sequence[str], plain_runtime: str = "") -> GivenGpus:
    """Devices of the engine's CDI lists. No UUID: all GPUs, for a try."""
    names = [cdi_name(uuid) for uuid in uuids] or [cdi_name("all")]
    return GivenGpus({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": names}]}, runtime=plain_runtime)


def by_nodes(
    nodes: Iterable[tuple[str, str]],
    libraries: Iterable[tuple[str, str]],
    folder: str,
    plain_runtime: str = "",
) -> GivenGpus:
    """Device files and the driver's own files, each with its place on the machine and in the container.

    ``folder`` lies on the machine, and has an empty file for each of ``libraries``. So nothing is made in the image.
    """
    devices = [{"PathOnHost": source, "PathInContainer": target, "CgroupPermissions": "rw"} for source, target in nodes]
    mounts = tuple(
        {"Type": "bind", "Source": source, "Target": target, "ReadOnly": True}
        for source, target in ((folder, DRIVER_FOLDER), *libraries)
    )
    return GivenGpus({"Devices": devices}, mounts, runtime=plain_runtime, libraries=True)


def without(plain_runtime: str = "") -> GivenGpus:
    """For a container that must see no GPU, whatever its image sets."""
    return GivenGpus(runtime=plain_runtime)


def cdi_name(device: str) -> str:
    """A device as a CDI list names it in full."""
    return f"{_CDI_KIND}={device}"


def engine_environment(given: GivenGpus, image_env: Iterable[str]) -> list[str]:
    """The container's variables as the engine's runtimes see them; the program has its own, which are in the spec.

    One without a value takes the image's away.
    """
    names = {entry.partition("=")[0] for entry in image_env}
    taken = sorted(name for name in names if name.startswith(_TAKEN_AWAY))
    return [f"NVIDIA_VISIBLE_DEVICES={given.visible}", *taken]
