"""A docker archive made of what the store keeps, as a stream: the same bytes for the same image, always."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidInput, MountUnavailable
from .model import MIB, ImageDamaged

_BLOCK = 512
_TAG = re.compile(r"[a-z0-9][a-z0-9._/:-]{0,253}:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True)
class StoredLayer:
    """A layer's file in the store."""

    digest: str
    path: Path
    file_bytes: int


@dataclass(frozen=True, slots=True)
class _Piece:
    name: str
    content: bytes | StoredLayer

    @property
    def size(self) -> int:
        return len(self.content) if isinstance(self.content, bytes) else self.content.file_bytes

    def header(self) -> bytes:
        info = tarfile.TarInfo(self.name)
        info.size, info.mode = self.size, 0o644
        return info.tobuf(tarfile.GNU_FORMAT)


class Composed:
    """A docker archive that isn't written yet. ``size`` is how many bytes :meth:`chunks` gives, exactly."""

    def __init__(self, digest: str, pieces: Sequence[_Piece]) -> None:
        self.digest = digest
        self.size = sum(_BLOCK + piece.size + -piece.size % _BLOCK for piece in pieces) + 2 * _BLOCK
        self._pieces = tuple(pieces)

    def chunks(self) -> Iterator[bytes]:
        """The archive. May be called again, for the same bytes.

        Raises (while it is read):
            ImageDamaged: a layer is missing or has another size than was stored.
            MountUnavailable: the shared folder doesn't answer.
        """
        for piece in self._pieces:
            yield piece.header()
            if isinstance(piece.content, bytes):
                yield piece.content
            else:
                yield from _file(piece.content, self.digest)
            if padding := -piece.size % _BLOCK:
                yield bytes(padding)
        yield bytes(2 * _BLOCK)


def composed(digest: str, config: bytes, layers: Sequence[StoredLayer], *, omit: Collection[str], tag: str) -> Composed:
    """See :meth:`ImageStore.compose`."""
    if tag and not _TAG.fullmatch(tag):
        raise InvalidInput(f"{tag[:200]!r} can't tag an image: it must be a name in small letters, a colon and a tag.")
    name = digest.partition(":")[2]
    files = {layer.digest: _member_name(layer) for layer in layers}
    manifest = [
        {
            "Config": f"{name}.json",
            "RepoTags": [tag] if tag else None,
            "Layers": [files[layer.digest] for layer in layers],
        }
    ]
    # Documents first: who reads the archive as a stream knows what is to come.
    pieces = [_Piece("manifest.json", json.dumps(manifest).encode()), _Piece(f"{name}.json", config)]
    for layer in {layer.digest: layer for layer in layers}.values():
        if layer.digest not in omit:
            _check(layer, digest)
            pieces.append(_Piece(files[layer.digest], layer))
    return Composed(digest, pieces)


def omittable(layers: Sequence[str], present: Iterable[Sequence[str]]) -> frozenset[str]:
    """Which of an image's ``layers`` need not be sent to an engine that has images of the layers ``present``.

    An engine knows a layer together with all that lies below it. So only a common beginning counts, and a layer that
    comes again further up is sent.
    """
    known = 0
    for others in present:
        same = 0
        for ours, theirs in zip(layers, others, strict=False):
            if ours != theirs:
                break
            same += 1
        known = max(known, same)
    return frozenset(layers[:known]) - frozenset(layers[known:])


def _member_name(layer: StoredLayer) -> str:
    return layer.path.name.removeprefix("sha256-")


def _check(layer: StoredLayer, image: str) -> None:
    try:
        found = layer.path.stat().st_size
    except FileNotFoundError:
        raise _missing(layer, image) from None
    except OSError as error:
        raise MountUnavailable(f"The layer {layer.digest} can't be read: {error.strerror}.") from error
    if found != layer.file_bytes:
        raise _other_size(layer, image, found)


def _file(layer: StoredLayer, image: str) -> Iterator[bytes]:
    left = layer.file_bytes
    try:
        with layer.path.open("rb", buffering=0) as file:
            while left:
                chunk = file.read(min(MIB, left))
                if not chunk:
                    raise _other_size(layer, image, layer.file_bytes - left)
                left -= len(chunk)
                yield chunk
    except FileNotFoundError:
        raise _missing(layer, image) from None
    except OSError as error:
        raise MountUnavailable(f"The layer {layer.digest} can't be read: {error.strerror}.") from error


def _missing(layer: StoredLayer, image: str) -> ImageDamaged:
    return ImageDamaged(
        f"The layer {layer.digest} of the image {image} is gone from the store; upload the image again."
    )


def _other_size(layer: StoredLayer, image: str, found: int) -> ImageDamaged:
    return ImageDamaged(
        f"The layer {layer.digest} of the image {image} has {found} bytes instead of {layer.file_bytes}; upload the "
        "image again."
    )
