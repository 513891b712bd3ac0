"""Mounts a home: the image's folders as the task's own, and over them what it writes."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .id_maps import IdMaps
from .image_tree import Found, opened
from .model import HomeImpossible
from .system_calls import (
    NO_DEVICES,
    NO_SUID,
    READ_ONLY,
    clone,
    mount_overlay,
    overlay_of,
    put,
    restrict,
    unmount,
)

# Errors that mean "never here" and not "not now".
NEVER = (errno.EINVAL, errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENODEV, errno.EXDEV, errno.ELOOP)
_SAFE = NO_SUID | NO_DEVICES
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A folder of the image may be renamed like any other, so it takes a redirect. The rest is only said to be sure: another
# kernel may have been built with other defaults.
_OPTIONS = {"redirect_dir": "on", "index": "off", "metacopy": "off"}
_PAGE = 4096  # the old way takes all options on one

T = TypeVar("T")
Namespace = Callable[[IdMaps], int]


@dataclass(frozen=True, slots=True)
class OverlayPlaces:
    """Where an overlay is mounted, and its folders. ``top`` is the home's folder."""

    top: Path
    mounted: Path
    upper: Path
    work: Path


def mount_home(home: Found, maps: IdMaps, namespace: Namespace, places: OverlayPlaces) -> None:
    """Mount what is written over the image's folders.

    Raises:
        OSError: not now.
        HomeImpossible: never with this kernel, or with the file system of the image or of the home.
    """
    with contextlib.ExitStack() as stack:
        user_namespace = None if maps.changes_nothing else _closing(namespace(maps), stack)
        lowers = [_lower(layer, home.path, user_namespace, stack) for layer in home.layers]
        upper, work = _open(places.upper, stack), _open(places.work, stack)
        if not lowers:
            mount = _closing(clone(upper, places.upper), stack)
            restrict(mount, _SAFE, places.upper)
            put(mount, places.mounted)
            return
        try:
            _mount(lowers, upper, work, places, stack)
        except OSError as error:
            if error.errno in NEVER:
                raise HomeImpossible(
                    f"A home in {places.top.parent} can't be stacked over the image's layers, for which Linux 5.19 and "
                    f"a local file system are needed: {error.strerror}."
                ) from error
            raise


def mount_share(folder: Path, maps: IdMaps, namespace: Namespace, place: Path | None) -> None:
    """Mount a folder at ``place`` with other owners. None: it is only tried. Raises OSError."""
    with contextlib.ExitStack() as stack:
        mount = _closing(clone(_open(folder, stack), folder), stack)
        restrict(mount, _SAFE, folder, user_namespace=_closing(namespace(maps), stack))
        if place is not None:
            put(mount, place)


def _lower(layer: Path, path: str, user_namespace: int | None, stack: contextlib.ExitStack) -> int:
    with opened(layer, path, _FOLDER) as folder:
        mount = _closing(_not_never(lambda: clone(folder, layer), f"The image's layer {layer} can't be mounted"), stack)
    _not_never(
        lambda: restrict(mount, READ_ONLY | _SAFE, layer, user_namespace=user_namespace),
        f"The file system of {layer} can't show the image's files as the task's, for which Linux 5.12 is needed",
    )
    return mount


def _mount(lowers: Sequence[int], upper: int, work: int, at: OverlayPlaces, stack: contextlib.ExitStack) -> None:
    try:
        mount = _closing(overlay_of(list(lowers), upper, work, _OPTIONS, _SAFE), stack)
    except OSError as error:
        if error.errno not in NEVER:
            raise
        mount_at_places(lowers, upper, work, at)
    else:
        put(mount, at.mounted)


def mount_at_places(lowers: Sequence[int], upper: int, work: int, at: OverlayPlaces) -> None:
    """The same where the kernel stacks only what is mounted somewhere (before 6.13).

    The places are left again at once, since the overlay keeps what it stacks. Raises OSError.
    """
    with contextlib.ExitStack() as stack:
        places = at.top / "layers"
        places.mkdir(exist_ok=True)
        for number, lower in enumerate(lowers):
            place = places / f"{number:x}"
            place.mkdir(exist_ok=True)
            put(lower, place)
            stack.callback(unmount, place)
        # Short names: with 127 layers, whole paths would not fit on the page.
        short = f"/proc/self/fd/{_open(places, stack)}"
        stacked = ":".join(f"{short}/{number:x}" for number in range(len(lowers)))
        more = ",".join(f"{name}={value}" for name, value in _OPTIONS.items())
        options = f"lowerdir={stacked},upperdir=/proc/self/fd/{upper},workdir=/proc/self/fd/{work},{more}"
        if len(options) >= _PAGE:
            raise HomeImpossible(f"The image has {len(lowers)} layers with a /root, more than this kernel stacks.")
        mount_overlay(_open(at.mounted, stack), options)


def _not_never(act: Callable[[], T], sentence: str) -> T:
    try:
        return act()
    except OSError as error:
        if error.errno in NEVER:
            raise HomeImpossible(f"{sentence}: {error.strerror}.") from error
        raise


def _open(folder: Path, stack: contextlib.ExitStack) -> int:
    return _closing(os.open(folder, _FOLDER), stack)


def _closing(descriptor: int, stack: contextlib.ExitStack) -> int:
    stack.callback(os.close, descriptor)
    return descriptor
