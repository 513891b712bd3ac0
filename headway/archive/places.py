"""What an image may not hold where Headway and its engine mount something into a container. Pure.

An engine follows an image's links to where it mounts, and puts an image's volumes over what lies there. So an image
could lead a mount into a task's own files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from .tar import MemberKind, shown

HOME = "/root"
# Folders that a task is promised, and those of the kernel. A link of the image at or above them is never followed.
OURS = ("/root/nfs", "/root/code", "/root/datasets")
_KERNELS = ("/proc", "/sys", "/dev")
FOLDERS = (*OURS, *_KERNELS)
# Files that the engine mounts. Many images have links there, which is fine as long as they lead to none of the above.
FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
# Files that the engine reads before a start. A pipe there would hold it, and a folder fails it.
TABLES = ("/etc/passwd", "/etc/group")
# NVIDIA's toolkit may be set to give a container each GPU that a mount here names, whatever was booked.
_DEVICES = ("/var/run/nvidia-container-devices", "/run/nvidia-container-devices")
_ENV_BYTES = 128 << 10  # the kernel's limit for one entry
_ENVS_BYTES = 1 << 20  # half of the kernel's for all, with the arguments; the other half is for the job's own
# Of declared volumes. A Worker asks its engine about each folder on the way to each of them.
_VOLUMES, _VOLUME_DEPTH, _VOLUME_CHARS = 64, 32, 1024


def problem_of_config(volumes: Iterable[str], env: Iterable[str]) -> str:
    """What an image's config has in the way of a container, in one sentence without its dot. Empty: nothing."""
    volumes, env = tuple(volumes), tuple(env)
    together = sum(len(entry.encode("utf-8", "surrogateescape")) + 1 for entry in env)
    if together > _ENVS_BYTES:
        return (
            f"The image's ENV has {together >> 10} KiB in {len(env)} variables; {_ENVS_BYTES >> 10} KiB may be, or no "
            "program can start. Build it with less, such as a file instead"
        )
    if len(volumes) > _VOLUMES:
        return f"The image declares {len(volumes)} volumes; {_VOLUMES} may be. Build it with fewer VOLUMEs"
    return next(filter(None, (*map(_problem_of_volume, volumes), *map(_problem_of_env, env))), "")


def _problem_of_volume(volume: str) -> str:
    path = plain(volume)
    if not volume.startswith("/") or "\0" in volume:
        return (
            f"The image declares a volume at {shown(volume)}, which is no absolute path. Build it without this VOLUME"
        )
    if len(volume) > _VOLUME_CHARS or len(path.strip("/").split("/")) > _VOLUME_DEPTH:
        return (
            f"The image declares a volume at {shown(volume)}, which is too deep or too long. Build it without this "
            "VOLUME"
        )
    if any(path == place or path.startswith(f"{place}/") for place in _DEVICES):
        return (
            f"The image declares a volume at {shown(volume)}, by which NVIDIA's toolkit would give it GPUs that nobody "
            "booked. Build it without this VOLUME"
        )
    if path in OURS or path == HOME:
        return ""  # the task's own mount takes its place
    place = _touched(path)
    if place:
        return (
            f"The image declares a volume at {shown(volume)}, which is in the way of {place}, where Headway mounts "
            "something. Build it without this VOLUME"
        )
    return ""


def problem_of_words(setting: str, words: Iterable[str]) -> str:
    """Of a setting that names programs, folders or users, such as ENTRYPOINT."""
    for word in words:
        if "\0" in word:
            return f"The image says {setting} {shown(word)}, which holds a zero byte. Build it without it"
    return ""


def problem_of_working_dir(working_dir: str, path: str) -> str:
    """Of something in the image at ``path`` that is no folder, on the way to its WORKDIR."""
    return (
        f"The image says WORKDIR {working_dir}, but {path} is a file there, so no container starts in it. Build it "
        "with another WORKDIR"
    )


def problem_of_linked_volume(volume: str, leads_to: str) -> str:
    """Of a declared volume that links lead to another path. ``leads_to`` empty: in a ring."""
    if not leads_to:
        return f"The image declares a volume at {shown(volume)}, whose links form a ring. Build it without this VOLUME"
    place = _touched(leads_to)
    if place:
        return (
            f"The image declares a volume at {shown(volume)}, which links lead to {shown(leads_to)}, in the way of "
            f"{place}, where Headway mounts something. Build it without this VOLUME"
        )
    return ""


def plain(path: str) -> str:
    """A path without dots and double slashes."""
    return posixpath.normpath(path).replace("//", "/")


def _touched(path: str) -> str:
    """The mount that lies at, above or below a path. Empty: none."""
    for place in (*FOLDERS, *FILES):
        if path == "/" or path == place or place.startswith(f"{path}/") or path.startswith(f"{place}/"):
            return place
    return ""


def _problem_of_env(entry: str) -> str:
    name = entry.partition("=")[0]
    if "\0" in entry:
        return f"The image's environment variable {shown(name)} holds a zero byte. Build it without this ENV"
    if not name:
        return f"The image has an environment variable without a name, {shown(entry)}. Build it without this ENV"
    if len(entry.encode("utf-8", "surrogateescape")) >= _ENV_BYTES:
        return (
            f"The image's environment variable {shown(name)} is longer than {_ENV_BYTES >> 10} KiB, so no program can "
            "start. Build it with a shorter one"
        )
    return ""


def problem_of_link(path: str, target: str, place: str) -> str:
    """Of a link in the image at ``path``."""
    return (
        f"In the image {path} is a link to {shown(target)}, which is in the way of {place}, where Headway mounts "
        "something. Build it with a folder there, or with nothing"
    )


def problem_of_file(path: str, place: str) -> str:
    """Of something in the image that is no folder."""
    return (
        f"In the image {path} is no folder, so it is in the way of {place}, where Headway mounts something. Build it "
        "with a folder there, or with nothing"
    )


def problem_of_folder(path: str) -> str:
    """Of a folder where the engine mounts a file."""
    return f"In the image {path} is a folder, where the engine of a container mounts a file. Build it without"


def problem_of_table(path: str, target: str = "") -> str:
    """Of something that is no file where the engine reads one. ``target``: where a link leads, if it is one."""
    what = f"is a link to {shown(target)}" if target else "is no file"
    return f"In the image {path} {what}, and the engine reads it before a start. Build it with a file there"


def leads_into_mounts(target: str) -> bool:
    """Whether a resolved path lies at or below something that is mounted."""
    return any(target == place or target.startswith(f"{place}/") for place in FOLDERS)


def ways(place: str) -> Iterable[str]:
    """The place and all folders above it, from the top."""
    parts = place.strip("/").split("/")
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


# All paths that decide, as they stand in layers.
DECIDING = frozenset(path.lstrip("/") for place in (*FOLDERS, *FILES, *TABLES) for path in ways(place))


_Things = dict[str, tuple[MemberKind, str]]
_NOTHING: tuple[MemberKind | None, str] = (None, "")
_FOLDER = (MemberKind.DIR, "")


@dataclass(slots=True)
class PlacesOfLayer:
    """What one layer does to the paths that decide. ``names``: kind and link of those that it has.

    ``deciding``: these paths, and those above the image's own WORKDIR.
    """

    deciding: Set[str] = DECIDING
    names: _Things = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    opaque: set[str] = field(default_factory=set)

    def add(self, path: str, kind: MemberKind, link: str) -> None:
        """``path``: where an engine puts the member, with the links of its own layer followed."""
        parent, _, base = path.rpartition("/")
        if parent in self.deciding:
            # Folders that no member names are made on the way.
            for way in ways(parent):
                self.names.setdefault(way.lstrip("/"), _FOLDER)
        if base == ".wh..wh..opq":
            if not parent or parent in self.deciding:
                self.opaque.add(parent)
        elif base.startswith(".wh."):
            removed = path.removesuffix(base) + base.removeprefix(".wh.")
            if removed in self.deciding:
                self.gone.add(removed)
        elif path in self.deciding:
            self.names[path] = (kind, link)


def lay_over(layers: Iterable[PlacesOfLayer]) -> _Things:
    """What is at the paths that decide when all layers, lowest first, lie over each other."""
    names: _Things = {}
    for layer in layers:
        hidden = layer.gone | {path for path, (kind, _) in layer.names.items() if kind is not MemberKind.DIR}
        for path in list(names):
            above = [way.lstrip("/") for way in ways(path)]
            if not hidden.isdisjoint(above) or not layer.opaque.isdisjoint(["", *above[:-1]]):
                del names[path]
        names.update(layer.names)
    return names


def deciding_with(working_dir: str) -> Set[str]:
    """All paths that decide for an image with this WORKDIR ("": none)."""
    if not working_dir or len(working_dir) > _VOLUME_CHARS:
        return DECIDING
    return DECIDING | {path.lstrip("/") for path in ways(plain(working_dir))}


def problem_of_layers(layers: Iterable[PlacesOfLayer], working_dir: str = "") -> str:
    """What all layers together have in the way, also of the image's own WORKDIR."""
    names = lay_over(layers)
    for place in FOLDERS:
        for path in ways(place):
            kind, link = names.get(path.lstrip("/"), _NOTHING)
            if kind is MemberKind.SYMLINK:
                return problem_of_link(path, link, place)
            if kind not in (None, MemberKind.DIR):
                return problem_of_file(path, place)
    for place in FILES:
        for path in ways(place):
            kind, link = names.get(path.lstrip("/"), _NOTHING)
            target = plain(posixpath.join("/", posixpath.dirname(path), link))
            if kind is MemberKind.SYMLINK and (target == path or leads_into_mounts(target + place[len(path) :])):
                return problem_of_link(path, link, place)
            if path == place and kind is MemberKind.DIR:
                return problem_of_folder(path)
            if path != place and kind not in (None, MemberKind.DIR, MemberKind.SYMLINK):
                return problem_of_file(path, place)
    for path in TABLES:
        kind, link = names.get(path.lstrip("/"), _NOTHING)
        if kind is MemberKind.SYMLINK:
            target = plain(posixpath.join("/etc", link))
            if leads_into_mounts(target) or target == path:
                return problem_of_table(path, target)
        elif kind not in (None, MemberKind.FILE, MemberKind.HARDLINK):
            return problem_of_table(path)
    for path in ways(plain(working_dir)) if working_dir else ():
        kind, _ = names.get(path.lstrip("/"), _NOTHING)
        if kind is MemberKind.SYMLINK:
            break  # where it leads, the launcher finds out
        if kind not in (None, MemberKind.DIR):
            return problem_of_working_dir(working_dir, path)
    return ""
