"""Where a Docker Engine keeps images and containers, if that is on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docker import APIClient
from docker.errors import APIError, NotFound

from ..ports import ContainerFiles
from .docker_engine import DockerEngine

_CONTAINERD = Path("/var/lib/containerd")  # where newer engines may keep images and layers


class EngineFolders:
    """The engine's data folders. An engine on another machine has none here."""

    def __init__(self, engine: DockerEngine) -> None:
        self._engine = engine
        self._known = False
        self.found: tuple[Path, ...] = ()
        self.reuses_layers = False  # whether it stores layers itself, and shares them by their digests
        self.cannot_show_layers = ""  # why the folders of an image's layers are of no use here, in one sentence

    async def look(self) -> None:
        """Ask the engine, unless the folders are known. Raises EngineUnavailable."""
        if self._known:
            return
        try:
            info = await self._engine.quick(lambda api: api.info())
        except APIError:
            return  # asked again at the next check
        self.found = data_folders(info) if self._engine.url.startswith("unix://") else ()
        self.reuses_layers = not _has_containerd_images(info)
        self.cannot_show_layers = cannot_show_layers(info)
        self._known = True

    def forget(self) -> None:
        """The engine did not answer, and may have other settings then. The known folders count until it is asked."""
        self._known = False


def data_folders(info: Mapping[str, Any]) -> tuple[Path, ...]:
    """The folders in the engine's answer about itself that exist here."""
    folders = [Path(str(info.get("DockerRootDir") or "/nonexistent"))]
    if _has_containerd_images(info):
        folders.append(_CONTAINERD)
    return tuple(folder for folder in folders if folder.is_dir())


def cannot_show_layers(info: Mapping[str, Any]) -> str:
    """Why nobody but the engine can stack an image's layers as it does. Empty: they are plain folders."""
    options = [str(option).partition(",")[0] for option in info.get("SecurityOptions") or ()]
    if "name=rootless" in options or "name=userns" in options:
        return "The container engine maps users to others (userns-remap or rootless), which homes don't know."
    if _has_containerd_images(info):
        return (
            "The container engine keeps images in containerd's store. An admin can put "
            '{"features": {"containerd-snapshotter": false}} into /etc/docker/daemon.json and restart the engine.'
        )
    driver = str(info.get("Driver") or "")
    if driver != "overlay2":
        return (
            f"The container engine keeps images with the storage driver {driver}. An admin can put "
            '{"storage-driver": "overlay2"} into /etc/docker/daemon.json and restart the engine.'
        )
    return ""


def _has_containerd_images(info: Mapping[str, Any]) -> bool:
    return any("io.containerd.snapshotter" in str(pair) for pair in info.get("DriverStatus") or ())


def container_files(api: APIClient, name: str, here: Sequence[Path]) -> ContainerFiles:
    """Where the container's layer and volumes are. The engine adds up what can't be read here."""
    try:
        found = api.inspect_container(name)
    except NotFound:
        return ContainerFiles()
    pid = int((found.get("State") or {}).get("Pid") or 0) or None
    pid = pid if here else None  # process ids of another machine mean nothing here
    mounts = found.get("Mounts") or () if here else ()
    volumes = [Path(mount["Source"]) for mount in mounts if mount.get("Type") == "volume" and mount.get("Source")]
    layer = _upper_folder(found, pid) if here else None
    if layer is not None:
        return ContainerFiles(layer, (layer, *volumes), pid=pid)
    size = 0
    for entry in api.containers(all=True, size=True, filters={"name": f"^/?{name}$"}):
        size = int(entry.get("SizeRw") or 0)
    return ContainerFiles(here[0] if here else Path("/nonexistent"), tuple(volumes), more_bytes=size, pid=pid)


def _upper_folder(found: Mapping[str, Any], pid: int | None) -> Path | None:
    """The overlay's folder of written files. None: there is no overlay, or it is not visible here."""
    said = ((found.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir") or _mounted_upper(pid)
    folder = Path(said) if said else None
    return folder if folder is not None and folder.is_absolute() and folder.is_dir() else None


def _mounted_upper(pid: int | None) -> str:
    """The same folder by the kernel. Engines whose layers are containerd's don't report it."""
    if pid is None:
        return ""
    try:
        lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        words = line.split()
        if words[4] == "/":
            options = words[-1].split(",")
            return next((o.removeprefix("upperdir=") for o in options if o.startswith("upperdir=")), "")
    return ""
