"""A folder of code as a snapshot: what is in it, and sending what the server does not have yet.

    digest = upload_code(http, Path("."), on_progress=lambda done, total: ...)
    http.submit(job_file, ...)                       # whose tasks say `code: sha256:…`, or with ?code=

Files that .gitignore or .headwayignore name stay out, in every folder and as git reads them; .git always does. A cache
remembers the hashes of files that have not changed since.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pathspec import GitIgnoreSpec

from ..backoff import grown_s
from ..errors import HeadwayError, InvalidInput, TooLarge
from ..snapshot import SnapFile, SnapLink, digest_of, link_stays_inside, problem_of_path, too_big
from .code_cache import HashCache
from .errors import NoService, Refused
from .http import Client

MAX_BYTES = 1 << 30
MAX_FILES = 100_000
_BATCH_BYTES = 64 << 20
_CHUNK = 1 << 20
_IGNORES = (".gitignore", ".headwayignore")
_NEVER = frozenset({".git"})
_TRIES = 6
_SEND_S = 120.0  # without a byte taken or an answer
_CHANGES = 3
_TOLD = 20

Progress = Callable[[int, int], None]  # bytes sent, bytes to send


class CodeRefused(InvalidInput):
    """The folder can't be a snapshot."""

    slug = "code-refused"
    title = "This folder can't go with a job"


class _Changed(Exception):
    """A file is not what it was when it was hashed."""


@dataclass(frozen=True, slots=True)
class PackedCode:
    """What is in a folder."""

    root: Path
    files: tuple[SnapFile, ...]
    links: tuple[SnapLink, ...]

    @property
    def digest(self) -> str:
        return digest_of(self.files, self.links)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """The folder as POST /code takes it."""
        return {
            "files": [
                {"path": f.path, "sha256": f.sha256, "size_bytes": f.size_bytes, "executable": f.executable}
                for f in self.files
            ],
            "links": [{"path": link.path, "target": link.target} for link in self.links],
        }


def pack(
    folder: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES, cache: HashCache | None = None
) -> PackedCode:
    """Everything of a folder that is not ignored, hashed.

    Raises:
        CodeRefused: a link out of it, a name that is no UTF-8, a file that can't be read, or nothing at all.
        TooLarge: more than allowed; the message names the biggest parts.
    """
    root = folder.resolve()
    if not root.is_dir():
        raise CodeRefused(f"{folder} is no folder.")
    found = list(_walk(root))
    links = [(path, os.readlink(root / path)) for path, info in found if stat.S_ISLNK(info.st_mode)]
    files = [(path, info) for path, info in found if stat.S_ISREG(info.st_mode)]
    if not found:
        raise CodeRefused(f"There is nothing in {folder} that is not ignored.")
    _check_names(path for path, _ in found)
    outside = [f"{path} -> {target}" for path, target in links if not link_stays_inside(path, target)]
    if outside:
        more = f" and {len(outside) - _TOLD} more" if len(outside) > _TOLD else ""
        raise CodeRefused(
            f"Links that lead out of the folder can't go along: {', '.join(outside[:_TOLD])}{more}. Remove them, put "
            "what they lead to into the folder, or name them in .headwayignore."
        )
    sentence = too_big(((path, info.st_size) for path, info in files), max_bytes=max_bytes, max_files=max_files)
    if sentence:
        raise TooLarge(sentence)
    hashes = cache or HashCache(None)
    out = []
    for path, info in files:
        sha256 = hashes.get(path, info)
        if sha256 is None:
            sha256, info = _hash(root / path)
            hashes.put(path, info, sha256)
        out.append(SnapFile(path, sha256, info.st_size, bool(info.st_mode & 0o100)))
    hashes.save()
    return PackedCode(root, tuple(out), tuple(SnapLink(path, target) for path, target in links))


def upload_code(
    http: Client, folder: Path, *, on_progress: Progress = lambda done, total: None, cache: HashCache | None = None
) -> PackedCode:
    """Packs a folder and sends what the server lacks; a line that breaks is taken up again.

    Raises:
        CodeRefused, TooLarge: see :func:`pack`.
        NoService: it does not answer any more.
    """
    cache = cache or HashCache.of(folder)
    limits = http.ask("GET", "/code")
    for _ in range(_CHANGES):
        packed = pack(folder, max_bytes=limits["max_bytes"], max_files=limits["max_files"], cache=cache)
        try:
            _send_all(http, packed, on_progress)
        except _Changed:
            continue
        return packed
    raise CodeRefused(
        f"Files in {folder} change all the time while they are read; try again when nothing writes there."
    )


def _send_all(http: Client, packed: PackedCode, on_progress: Progress) -> None:
    manifest = packed.to_json()
    of_hash = {file.sha256: file for file in packed.files}
    failures = sent = 0
    before: int | None = None
    while True:
        # Once it has begun, a server that is started anew is waited for.
        answer = http.patiently(lambda: http.ask("POST", "/code", json=manifest))
        if answer["ready"]:
            return
        missing = [of_hash[sha256] for sha256 in answer["missing"]]
        total = sent + sum(file.size_bytes for file in missing)
        # Whatever was sent whole is there, so a broken line costs what was on it and no more.
        failures = 0 if before is None or len(missing) < before else failures + 1
        before = len(missing)
        try:
            for batch in batches(missing):
                with _archive(packed.root, batch) as (archive, size):
                    _put(http, archive, size)
                sent += sum(file.size_bytes for file in batch)
                on_progress(sent, total)
        except (NoService, Refused) as error:
            if isinstance(error, Refused) and (error.status < 500 or error.status == 507):
                raise
            if failures >= _TRIES:
                raise
            time.sleep(grown_s(failures, first_s=0.2, most_s=10.0))
        else:
            if failures >= _TRIES:
                raise HeadwayError("The server asks for the same files again and again; its log may say why.")


def _put(http: Client, archive: IO[bytes], size: int) -> None:
    def chunks() -> Iterator[bytes]:
        while data := archive.read(_CHUNK):
            yield data

    headers = {"Content-Type": "application/x-tar", "Content-Length": str(size)}
    http.ask("PUT", "/code/blobs", content=chunks(), headers=headers, repeat=False, timeout=_SEND_S)


def batches(files: Sequence[SnapFile]) -> Iterator[list[SnapFile]]:
    """Groups of up to 64 MiB; a larger file is alone in its group."""
    batch: list[SnapFile] = []
    size = 0
    for file in files:
        if batch and size + file.size_bytes > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size_bytes
    if batch:
        yield batch


class _archive:
    """The batch as a tar file on disk, each member checked while it is written."""

    def __init__(self, root: Path, batch: Iterable[SnapFile]) -> None:
        self._root = root
        self._batch = batch
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="headway-code-")  # noqa: SIM115  # closed in __exit__

    def __enter__(self) -> tuple[IO[bytes], int]:
        try:
            with tarfile.open(fileobj=self._file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                for file in self._batch:
                    self._add(tar, file)
            size = self._file.tell()
            self._file.seek(0)
        except BaseException:
            self._file.close()
            raise
        return self._file, size

    def _add(self, tar: tarfile.TarFile, file: SnapFile) -> None:
        member = tarfile.TarInfo(file.sha256)
        member.size = file.size_bytes
        try:
            with (self._root / file.path).open("rb") as source:
                reader = _Hashing(source)
                tar.addfile(member, reader)  # type: ignore[arg-type]
        except OSError as error:  # gone, or shorter than it was
            raise _Changed from error
        if reader.found.hexdigest() != file.sha256:
            raise _Changed

    def __exit__(self, *_: object) -> None:
        self._file.close()


class _Hashing(io.RawIOBase):
    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.found = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.found.update(data)
        return data


# -- the folder ---------------------------------------------------------------------------------


def _walk(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Files and links that are not ignored, by path. Pipes, sockets and devices are left out, as git does."""
    todo: list[tuple[str, list[_Ignore]]] = [("", _ignores_above(root))]
    while todo:
        folder, above = todo.pop()
        here = [*above, *_ignores_in(root / folder, folder)]
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError as error:
            raise CodeRefused(f"{root / folder} can't be read: {error.strerror}.") from error
        below = []
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in _NEVER or _ignored(path, here, is_folder=is_folder):
                continue
            if is_folder:
                below.append((path, here))
            else:
                with suppress(FileNotFoundError):
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
                        yield path, info
        todo.extend(reversed(below))


@dataclass(frozen=True, slots=True)
class _Ignore:
    """One ignore file: paths are relative to ``folder``, or to a folder above, from which ``down`` leads to here."""

    folder: str
    down: str
    lines: tuple[str, ...]
    spec: GitIgnoreSpec

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether it is ignored; None: nothing is said."""
        below = self.down + (path[len(self.folder) + 1 :] if self.folder else path)
        result = self.spec.check_file(f"{below}/" if is_folder else below)
        if not is_folder or not result.include or result.index is None:
            return result.include
        # `data/**` is about what is in data: that may be in again by a later line, so it is looked at.
        about_content = self.lines[result.index].rstrip().endswith("/**") and not self.spec.check_file(below).include
        return None if about_content else True


def _ignored(path: str, ignores: Sequence[_Ignore], *, is_folder: bool) -> bool:
    # The deepest file that says something about a path decides, and in it the last line that does.
    for ignore in reversed(ignores):
        verdict = ignore.verdict(path, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def _ignores_in(folder: Path, path: str, *, down: str = "", names: Sequence[str] = _IGNORES) -> Iterator[_Ignore]:
    for name in names:
        try:
            text = (folder / name).read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            continue
        lines = tuple(text.removeprefix("\ufeff").splitlines())
        try:
            yield _Ignore(path, down, lines, GitIgnoreSpec.from_lines(lines))
        except ValueError as error:
            raise CodeRefused(f"{folder / name} can't be understood: {error}") from error


def _ignores_above(root: Path) -> list[_Ignore]:
    """The ignore files of the folders between a repository's top and ``root``, which git reads too."""
    above: list[Path] = []
    for parent in (root, *root.parents):
        above.append(parent)
        if (parent / ".git").exists():
            break
    else:
        return []
    found: list[_Ignore] = []
    for parent in reversed(above[1:]):
        down = root.relative_to(parent).as_posix() + "/"
        found += _ignores_in(parent, "", down=down, names=(".gitignore",))
    return found


def _check_names(paths: Iterable[str]) -> None:
    bad = []
    for path in paths:
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            bad.append(path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))
            continue
        if clause := problem_of_path(path):
            bad.append(f"{path[:200]} ({clause})")
    if bad:
        more = f" and {len(bad) - _TOLD} more" if len(bad) > _TOLD else ""
        raise CodeRefused(f"These names can't go along (not UTF-8, or too long): {', '.join(bad[:_TOLD])}{more}.")


def _hash(path: Path) -> tuple[str, os.stat_result]:
    try:
        with path.open("rb") as file:
            info = os.fstat(file.fileno())
            return hashlib.file_digest(file, "sha256").hexdigest(), info
    except OSError as error:
        raise CodeRefused(f"{path} can't be read: {error.strerror}.") from error
