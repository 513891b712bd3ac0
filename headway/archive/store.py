"""Images on the shared mount: a folder each, and the layers that they share.

    images/sha256-HEX/config.json   the exact bytes whose digest is the image's
    images/sha256-HEX/image.json    what is shown of it, and in which file each of its layers lies
    images/layers/sha256-HEX.tar    a layer by its diff_id; .tar.gz if it came so
    images/.ingest/ID/              work of one ingest or removal, held by a lock while it lives

An ingest keeps a hard link, in its own folder, to every layer that its image needs. So a layer can be removed from
`layers` at any moment, and is there again when the image appears. Only that moment and the removal of layers hold
`images/.lock`. Locks are those of files (flock), so that they end with the process that held them. So any process can
tell what a killed one left from what is being worked on.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import NotFound
from ..mount import Layout
from .compose import Composed, StoredLayer, composed
from .config import parse_config
from .disk import as_problems, bytes_below, make_folder, sync_folder, take_away, write_durably
from .model import ArchiveLimits, ImageDamaged, ImageInfo

log = logging.getLogger("headway.archive")

_IMAGE = re.compile(r"sha256-([0-9a-f]{64})")
_LAYER = re.compile(r"sha256-[0-9a-f]{64}\.tar(?:\.gz)?")
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class NewLayer:
    """A layer of an ingest: its file in the ingest's own folder, and what is known of it."""

    digest: str
    size_bytes: int
    path: Path


class ImageStore:
    """The images of a mount. Any number of these may be used at once, by threads and processes."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._images = layout.image_uploads.parent
        self._layers = self._images / "layers"
        self._work = self._images / ".ingest"

    def info(self, digest: str) -> ImageInfo | None:
        """What is known of an image; None if it isn't here.

        Raises:
            InvalidInput: ``digest`` is none.
            ImageDamaged: its description can't be read.
            MountUnavailable: the shared folder doesn't answer.
        """
        document = self._document(self._layout.image(digest))
        if document is None:
            return None
        try:
            return ImageInfo.from_json(document["info"])
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(digest) from error

    def list(self) -> builtins.list[str]:
        """The digests of all images, in order.

        Raises:
            MountUnavailable: the shared folder doesn't answer.
        """
        with as_problems("The images"):
            names = sorted(entry.name for entry in self._entries(self._images))
        return [f"sha256:{match[1]}" for name in names if (match := _IMAGE.fullmatch(name))]

    def compose(self, digest: str, *, omit: Collection[str] = (), tag: str = "") -> Composed:
        """The image as a docker archive that every engine from 20.10 on loads.

        Without ``tag`` it names nothing, so that loading it moves no name of the engine. ``omit`` are layers (by
        digest) that are left out: an engine takes that if it has them already, see :func:`omittable`.

        Raises:
            NotFound: there is no such image.
            ImageDamaged: a part of it is missing or has another size than was stored.
            InvalidInput: ``digest`` or ``tag`` is of the wrong form.
            MountUnavailable: the shared folder doesn't answer.
        """
        folder = self._layout.image(digest)
        document = self._document(folder)
        if document is None:
            raise NotFound(f"There is no image {digest} in the store.")
        with as_problems(f"The image {digest}"):
            try:
                config = (folder / "config.json").read_bytes()
            except FileNotFoundError:
                raise ImageDamaged(f"The config of the image {digest} is gone; upload the image again.") from None
        try:
            layers = [self._stored(layer) for layer in document["layers"]]
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(digest) from error
        return composed(digest, config, layers, omit=omit, tag=tag)

    def remove(self, digest: str) -> int:
        """Takes an image away, with the layers that no other one has; the bytes given back. Safe to call twice.

        Raises:
            InvalidInput: ``digest`` is none.
            MountUnavailable: the shared folder doesn't answer.
        """
        folder = self._layout.image(digest)
        with as_problems(f"The image {digest}"):
            if not folder.is_dir():
                return 0
            with self.work() as work, self._locked():
                try:
                    # In one step, so that nobody ever sees half an image.
                    folder.rename(work / "removed")
                except FileNotFoundError:
                    return 0
                sync_folder(self._images)
                freed = bytes_below(work / "removed")
                return freed + self._remove_unused_layers()

    def sweep(self) -> int:
        """Takes away what killed ingests and removals left; the bytes given back. Safe at any time.

        Raises:
            MountUnavailable: the shared folder doesn't answer.
        """
        with as_problems("The images"):
            freed = 0
            for entry in self._entries(self._work):
                freed += self._sweep_work(Path(entry.path))
            if self._layers.is_dir():
                with self._locked():
                    freed += self._remove_unused_layers()
        if freed:
            log.info("images.swept", extra={"freed_bytes": freed})
        return freed

    @contextlib.contextmanager
    def work(self) -> Iterator[Path]:
        """A folder of one's own on the disk of the images, gone at the end.

        Raises:
            OSError: the shared folder isn't there, or is full.
        """
        if not self._images.is_dir():
            raise OSError(errno.ENODEV, f"{self._images} is not there")
        for folder in (self._layers, self._work):
            make_folder(folder)
        folder, lock = self._new_work()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    def trusted_layers(self) -> dict[str, int]:
        """The files of layers that images have, and the size that each must have."""
        sizes: dict[str, int] = {}
        for entry in self._entries(self._images):
            if _IMAGE.fullmatch(entry.name):
                with contextlib.suppress(ImageDamaged, KeyError, TypeError):
                    document = self._document(Path(entry.path)) or {"layers": []}
                    sizes.update((layer["file"], layer["file_bytes"]) for layer in document["layers"])
        return sizes

    def adopt(self, digest: str, work: Path, trusted: Mapping[str, int]) -> Path | None:
        """A layer that is in the store already, held by a hard link in ``work``; None if it isn't, or is damaged."""
        for path in self._files_of(digest):
            mine = work / path.name
            try:
                os.link(path, mine, follow_symlinks=False)
            except FileNotFoundError:
                continue
            except FileExistsError:
                return mine
            if mine.lstat().st_size == trusted.get(path.name):
                return mine
            mine.unlink()
        return None

    def named(self, spool: Path, digest: str, *, packed: bool) -> Path:
        """Gives a layer that was written into ``work`` the name that it will have among the layers."""
        return spool.rename(spool.with_name(self._files_of(digest)[packed].name))

    def publish(self, work: Path, info: ImageInfo, config: bytes, layers: Sequence[NewLayer]) -> None:
        """Makes an image visible, whose layers lie in ``work``, durable. All or nothing, also when killed.

        Raises:
            OSError: the disk is full, for instance.
        """
        folder = self._layout.image(info.digest)
        added: list[Path] = []
        with self._locked():
            try:
                trusted = self.trusted_layers()
                recorded = []
                for layer in layers:
                    path = self._publish_layer(layer, trusted, added)
                    size = path.stat().st_size
                    trusted[path.name] = size
                    recorded.append(_record(layer, path.name, size))
                sync_folder(self._layers)
                self._publish_folder(work / "image", folder, info, config, recorded)
            except BaseException:
                # Nobody has seen them: the lock is held.
                for path in added:
                    with contextlib.suppress(OSError):
                        path.unlink()
                raise

    def free_bytes(self) -> int:
        """How much room the disk has for others than root."""
        found = os.statvfs(self._images)
        return found.f_bavail * found.f_frsize

    def _publish_layer(self, layer: NewLayer, trusted: Mapping[str, int], added: builtins.list[Path]) -> Path:
        for path in self._files_of(layer.digest):
            with contextlib.suppress(FileNotFoundError):
                # Another ingest was first, or it was there all along; one of another size is damaged and gives way.
                if path.stat().st_size == trusted.get(path.name):
                    return path
        target = self._layers / layer.path.name
        temporary = layer.path.with_name(f"{layer.path.name}.publish")
        os.link(layer.path, temporary)
        if not target.exists():
            added.append(target)
        temporary.replace(target)
        return target

    def _publish_folder(
        self, new: Path, folder: Path, info: ImageInfo, config: bytes, layers: builtins.list[dict[str, Any]]
    ) -> None:
        document = {"version": 1, "info": info.to_json(), "layers": layers}
        make_folder(new)
        write_durably(new / "config.json", config)
        write_durably(new / "image.json", json.dumps(document, indent=1).encode())
        sync_folder(new)
        try:
            new.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            # The image is there already: only the files in which its layers lie may be others.
            for name in ("config.json", "image.json"):
                (new / name).replace(folder / name)
            sync_folder(folder)
            return
        try:
            sync_folder(self._images)
        except BaseException:
            folder.rename(new)
            raise

    def _remove_unused_layers(self) -> int:
        """Call it with the lock held."""
        used = self._used_layers()
        freed = 0
        for entry in self._entries(self._layers):
            if entry.name in used:
                continue
            if not _LAYER.fullmatch(entry.name) and not entry.is_file(follow_symlinks=False):
                continue
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                Path(entry.path).unlink()
                # An ingest that holds it keeps the bytes.
                freed += found.st_size if found.st_nlink == 1 else 0
        if freed:
            sync_folder(self._layers)
        return freed

    def _used_layers(self) -> set[str]:
        used: set[str] = set()
        for entry in self._entries(self._images):
            match = _IMAGE.fullmatch(entry.name)
            if match is None:
                continue
            try:
                document = self._document(Path(entry.path)) or {}
                used.update(str(layer["file"]) for layer in document["layers"])
            except (ImageDamaged, KeyError, TypeError):
                # Its layers are spared whatever file they lie in: a damaged description can be made anew.
                config = parse_config(
                    (Path(entry.path) / "config.json").read_bytes(), "of a stored image", ArchiveLimits()
                )
                for diff_id in config.diff_ids:
                    used.update(path.name for path in self._files_of(diff_id))
        return used

    def _sweep_work(self, folder: Path) -> int:
        lock = _lock_of(folder)
        if lock is None:
            # Nothing is in it: killed between the folder and its lock, or being made just now, and the maker copes with
            # its loss.
            with contextlib.suppress(OSError):
                folder.rmdir()
                return 0
            # Something is. The maker may have come on meanwhile, and then it holds the lock.
            lock = _lock_of(folder)
        if lock is None:
            return take_away(folder)  # killed, or busy, while it was taken away
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        else:
            return take_away(folder)
        finally:
            os.close(lock)

    def _new_work(self) -> tuple[Path, int]:
        while True:
            folder = self._work / secrets.token_hex(8)
            folder.mkdir(mode=0o700)
            try:
                lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # a sweep came in between
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.is_dir():
                return folder, lock
            os.close(lock)  # a sweep came in between, again

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self._images / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _document(self, folder: Path) -> dict[str, Any] | None:
        with as_problems("The images"):
            try:
                content = (folder / "image.json").read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                if folder.is_dir():
                    raise _damaged(folder.name) from None
                return None
        try:
            document = json.loads(content)
        except ValueError as error:
            raise _damaged(folder.name) from error
        if not isinstance(document, dict):
            raise _damaged(folder.name)
        return document

    def _stored(self, layer: dict[str, Any]) -> StoredLayer:
        name, digest, size = layer["file"], layer["digest"], layer["file_bytes"]
        if not isinstance(name, str) or not _LAYER.fullmatch(name) or not isinstance(size, int):
            raise ValueError("no name of a layer")
        return StoredLayer(str(digest), self._layers / name, size)

    def _files_of(self, diff_id: str) -> tuple[Path, Path]:
        path = self._layout.image_layer(diff_id)
        return path.with_name(f"{path.name}.tar"), path.with_name(f"{path.name}.tar.gz")

    def _entries(self, folder: Path) -> builtins.list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as found:
                return list(found)
        except FileNotFoundError:
            return []


def _lock_of(folder: Path) -> int | None:
    """The lock of a work folder, open; None if it is not there."""
    try:
        return os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None


def _record(layer: NewLayer, file: str, file_bytes: int) -> dict[str, Any]:
    return {"digest": layer.digest, "size_bytes": layer.size_bytes, "file": file, "file_bytes": file_bytes}


def _damaged(digest: str) -> ImageDamaged:
    return ImageDamaged(f"The description of the image {digest} is damaged; upload the image again.")
