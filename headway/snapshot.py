"""What a frozen folder is made of, and its digest: the same on the client, which packs, and the server, which checks.

A snapshot is its plain files (content and whether they may be executed) and its links. Empty folders, owners, times
and all other modes are no part of it. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .units import format_size

MAX_COMPONENT_BYTES = 255
MAX_PATH_BYTES = 2_000  # below the account's folder it has to fit into the 4096 bytes that Linux takes
SHA256 = re.compile(r"[0-9a-f]{64}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_BIGGEST = 5


@dataclass(frozen=True, slots=True)
class SnapFile:
    """A plain file; ``path`` is relative, with ``/``; undecodable bytes are surrogates."""

    path: str
    sha256: str
    size_bytes: int
    executable: bool


@dataclass(frozen=True, slots=True)
class SnapLink:
    """A symbolic link that stays inside."""

    path: str
    target: str


def is_digest(text: str) -> bool:
    """Whether it may be the digest of a snapshot."""
    return _DIGEST.fullmatch(text) is not None


def digest_of(files: Iterable[SnapFile], links: Iterable[SnapLink]) -> str:
    """The digest: SHA-256 over one record for each entry, in the order of the paths' bytes.

    Each record ends with a NUL, which no path holds. A file has ``f <sha256> <path>``, an executable one
    ``x <sha256> <path>``. A link has ``l <target>`` and, as a record of its own, ``<path>``.
    """
    records = [(_raw(f.path), b"%c %s " % (b"x" if f.executable else b"f", f.sha256.encode())) for f in files]
    lines = [(path, head + path + b"\0") for path, head in records]
    lines += [(_raw(link.path), b"l " + _raw(link.target) + b"\0" + _raw(link.path) + b"\0") for link in links]
    total = hashlib.sha256(b"headway snapshot 1\0")
    for _, line in sorted(lines):
        total.update(line)
    return f"sha256:{total.hexdigest()}"


def link_stays_inside(path: str, target: str) -> bool:
    """Whether a link at ``path`` (relative to the snapshot) can lead nowhere but into the snapshot.

    Only targets whose every ``..`` comes first pass: after a name, which may be another link, ``..`` leads who knows
    where. Then each step starts in a real folder of the snapshot and goes up no further than its root.
    """
    if target.startswith("/") or not target or "\0" in target:
        return False
    steps = [step for step in target.split("/") if step not in ("", ".")]
    ups = 0
    while ups < len(steps) and steps[ups] == "..":
        ups += 1
    return ".." not in steps[ups:] and ups <= path.count("/")


def problem_of_path(path: str) -> str:
    """What is wrong with a path of a snapshot, as a clause; empty: nothing."""
    raw = _raw(path)
    if len(raw) > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES} bytes"
    if "\0" in path:
        return "has a NUL in it"
    for step in raw.split(b"/"):
        if step in (b"", b".", b".."):
            return "is not a plain relative path"
        if len(step) > MAX_COMPONENT_BYTES:
            return f"has a part longer than {MAX_COMPONENT_BYTES} bytes"
    return ""


def problems(files: Sequence[SnapFile], links: Sequence[SnapLink]) -> Iterator[tuple[str, str]]:
    """Paths that can't be, each with a clause that says why."""
    kinds: set[str] = set()
    for path in (*(file.path for file in files), *(link.path for link in links)):
        if clause := problem_of_path(path):
            yield path, clause
        elif path in kinds:
            yield path, "is there twice"
        kinds.add(path)
    for file in files:
        if not SHA256.fullmatch(file.sha256):
            yield file.path, "has no valid sha256"
    for link in links:
        if not link_stays_inside(link.path, link.target):
            yield link.path, f"is a link out of the folder, to {link.target[:200]}"
    for path in kinds:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in kinds:
                yield path, f"lies below {parent[:200]}, which is no folder"
                break
            parent = parent.rpartition("/")[0]


def too_big(sizes: Iterable[tuple[str, int]], *, max_bytes: int, max_files: int) -> str:
    """A sentence that names the biggest folders when ``(path, size)`` of all files are more than allowed, or empty."""
    total = count = 0
    bytes_of: Counter[str] = Counter()
    files_of: Counter[str] = Counter()
    for path, size in sizes:
        total += size
        count += 1
        top = "/".join(path.split("/")[:-1][:2]) or "."
        bytes_of[top] += size
        files_of[top] += 1
    if total > max_bytes:
        biggest = ", ".join(f"{name} ({format_size_about(size)})" for name, size in bytes_of.most_common(_BIGGEST))
        return (
            f"The folder has {format_size_about(total)} of files and {format_size_about(max_bytes)} are allowed. The "
            f"biggest parts: {biggest}. Name what the task does not need in .gitignore or .headwayignore; data belongs "
            "into the personal space or a dataset."
        )
    if count > max_files:
        biggest = ", ".join(f"{name} ({n:,} files)" for name, n in files_of.most_common(_BIGGEST))
        return (
            f"The folder has {count:,} files and {max_files:,} are allowed. The biggest parts: {biggest}. Name what "
            "the task does not need in .gitignore or .headwayignore."
        )
    return ""


def format_size_about(size: int) -> str:
    """A size for people, rounded."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return format_size(size) if size else "0 B"


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
