"""Small files, written in one step and read with care: a task may be root in its container."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from .folders import FOLDER, folder_of
from .records import BoxError

_SMALL_FILE_BYTES = 1 << 20


def boottime_ns() -> int:
    """CLOCK_BOOTTIME in nanoseconds. It counts while the machine sleeps, and never jumps with the wall clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Replace `path` by `data` in one step. With `durable` it survives a power cut.

    Raises OSError. The old content is still there then.
    """
    with folder_of(path) as folder:
        temporary = write_temporary(folder, path.name, data, mode=mode, durable=durable)
        try:
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            unlink(temporary, folder)
            raise
        if durable:
            os.fsync(folder)


def write_temporary(folder: int, name: str, data: bytes, *, mode: int = 0o600, durable: bool = False) -> str:
    """Write ``data`` beside ``name``, to be renamed or linked to it. Raises OSError; nothing is left then."""
    temporary = f".{name}.{os.getpid()}.new"
    # Never through a link, which a task that is root in its container may have made.
    unlink(temporary, folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, mode, dir_fd=folder)
    try:
        try:
            os.fchmod(descriptor, mode)
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        unlink(temporary, folder)
        raise
    return temporary


def unlink(name: str, folder: int) -> None:
    """Remove a name from an open folder. Safe twice. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file of the box. Raises OSError.

    A task that is root in its container may have replaced it. Links, pipes and device nodes are refused at once.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with folder_of(path) as folder:
        descriptor = os.open(path.name, flags, dir_fd=folder)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def fsync_dir(path: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(path, FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def encode_value(text: str) -> bytes:
    """Percent-encode a value, byte for byte, so that it fits on one line of plain ASCII.

    Raises ValueError for a NUL, which no argument, path or environment value can hold.
    """
    raw = text.encode("utf-8", "surrogateescape")
    if 0 in raw:
        raise ValueError("a NUL byte cannot be passed to a process")
    out = bytearray()
    for byte in raw:
        if byte == 0x25 or byte < 0x20 or byte >= 0x7F:
            out += b"%%%02X" % byte
        else:
            out.append(byte)
    return bytes(out)


def decode_value(value: bytes) -> str:
    """The text of a percent-encoded value. Raises BoxError for a broken escape."""
    parts = value.split(b"%")
    out = bytearray(parts[0])
    for part in parts[1:]:
        try:
            out.append(int(part[:2].decode("ascii"), 16))
        except ValueError:
            raise BoxError(f"broken escape in {value!r}") from None
        out += part[2:]
    return out.decode("utf-8", "surrogateescape")


def read_small(path: Path) -> str | None:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return file.read(_SMALL_FILE_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def read_pairs(path: Path) -> dict[str, str] | None:
    text = read_small(path)
    if text is None:
        return None
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        pairs[key] = decode_value(value.encode("utf-8"))
    return pairs


def number(path: Path, key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BoxError(f"{path}: {key} is not a number: {text[:40]!r}") from None


def optional_number(path: Path, key: str, pairs: Mapping[str, str]) -> int | None:
    return number(path, key, pairs[key]) if pairs.get(key) else None
