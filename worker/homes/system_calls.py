"""The kernel's calls for mounts, of which Python has none. They block."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

# Their numbers are the same on x86-64 and ARM64.
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 442

READ_ONLY, NO_SUID, NO_DEVICES = 0x1, 0x2, 0x4  # MOUNT_ATTR_*
_IDMAP = 0x100000
_AT_EMPTY_PATH, _AT_FDCWD = 0x1000, -100
_TREE_CLONE, _TREE_CLOEXEC, _FS_CLOEXEC = 0x1, os.O_CLOEXEC, 0x1
_FROM_EMPTY_PATH = 0x4
_SET_STRING, _SET_FD, _CREATE = 1, 5, 6
_DETACH, _NO_FOLLOW = 0x2, 0x8
_MS_NO_SUID, _MS_NO_DEVICES = 2, 4
_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def clone(folder: int, path: Path) -> int:
    """A mount of the open folder, without the mounts below. It is at no place yet, and goes with its descriptor.

    ``path`` is for the error. Raises OSError.
    """
    flags = _TREE_CLONE | _TREE_CLOEXEC | _AT_EMPTY_PATH
    return _call(_OPEN_TREE, str(path), folder, b"", flags)


def restrict(mount: int, flags: int, path: Path, *, user_namespace: int | None = None) -> None:
    """Set flags of a mount that is at no place yet. With a namespace its files belong to whom its maps say.

    Raises OSError. EINVAL: this file system can't show other owners.
    """
    attributes = _MountAttributes(flags, 0, 0, 0)
    if user_namespace is not None:
        attributes.set |= _IDMAP
        attributes.userns_fd = user_namespace
    size = ctypes.sizeof(attributes)
    _call(_MOUNT_SETATTR, str(path), mount, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size)


def put(mount: int, place: Path) -> None:
    """Mount at ``place``, a folder, what is at no place yet. Raises OSError."""
    _call(_MOVE_MOUNT, str(place), mount, b"", _AT_FDCWD, os.fsencode(place), _FROM_EMPTY_PATH)


def overlay_of(lowers: list[int], upper: int, work: int, options: dict[str, str], flags: int) -> int:
    """An overlay of open folders and mounts, top first. It is at no place yet.

    Raises OSError. EINVAL, for one: the kernel is older than 6.13 and takes no descriptors here.
    """
    context = _call(_FSOPEN, "overlay", b"overlay", _FS_CLOEXEC)
    try:
        pairs = [*(("lowerdir+", lower) for lower in lowers), ("upperdir", upper), ("workdir", work)]
        for name, descriptor in pairs:
            _call(_FSCONFIG, name, context, _SET_FD, name.encode(), None, descriptor)
        for name, value in options.items():
            _call(_FSCONFIG, name, context, _SET_STRING, name.encode(), value.encode(), 0)
        _call(_FSCONFIG, "overlay", context, _CREATE, None, None, 0)
        return _call(_FSMOUNT, "overlay", context, _FS_CLOEXEC, flags)
    finally:
        os.close(context)


def mount_overlay(place: int, options: str) -> None:
    """Mount an overlay at an open folder, in the way of older kernels. Raises OSError."""
    at = f"/proc/self/fd/{place}".encode()
    flags = ctypes.c_ulong(_MS_NO_SUID | _MS_NO_DEVICES)
    if _libc.mount(b"overlay", at, b"overlay", flags, options.encode()) != 0:
        raise _error("overlay")


def unmount(place: Path) -> None:
    """Take away the mount at ``place``. Who uses it keeps it until then. Raises OSError."""
    if _libc.umount2(os.fsencode(place), _DETACH | _NO_FOLLOW) != 0:
        raise _error(str(place))


def _call(number: int, about: str, *arguments: object) -> int:
    # An int alone would be passed with 32 bits.
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    found = int(_libc.syscall(ctypes.c_long(number), *words))
    if found < 0:
        raise _error(about)
    return found


def _error(about: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), about)
