"""Archives of tiny images, made in code: as docker writes them, as OCI layouts, and as nobody should.

image = tiny_image([Entry("bin/sh", b"x")], tags=("tiny:1",))
path.write_bytes(packed(docker_save(image), "zstd"))
image.digest                                  # what ingest and the engine call it
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import zstandard

from tests.support.images import Entry, layer

__all__ = [
    "Entry",
    "TinyImage",
    "digest_of",
    "docker_save",
    "layer",
    "members_of",
    "oci_layout",
    "packed",
    "tar_of",
    "tiny_image",
]

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True, slots=True)
class TinyImage:
    """An image: its layers as plain tars, the bytes of its config, and the tags it carries in archives."""

    layers: tuple[bytes, ...]
    config: bytes
    tags: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """What the image is known by."""
        return digest_of(self.config)

    @property
    def diff_ids(self) -> list[str]:
        """The digests of its layers."""
        return [digest_of(content) for content in self.layers]

    @property
    def platform(self) -> dict[str, str]:
        """As an index says it."""
        config = json.loads(self.config)
        return {"architecture": config["architecture"], "os": config["os"]}


def tiny_image(
    *layers: Sequence[Entry] | bytes,
    tags: Sequence[str] = ("tiny:1",),
    architecture: str = "amd64",
    os: str = "linux",
    env: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> TinyImage:
    """An image of these layers; ``settings`` go into the config's own "config" (Cmd, User, …), ``more`` beside it."""
    tars = tuple(one if isinstance(one, bytes) else layer(one) for one in layers or ([Entry("hello", b"hi\n")],))
    config = {
        "architecture": architecture,
        "os": os,
        "created": "2024-05-06T07:08:09.5Z",
        "config": {
            "Env": [f"{key}={value}" for key, value in (env or {}).items()],
            "Labels": dict(labels or {}),
            **(settings or {}),
        },
        "rootfs": {"type": "layers", "diff_ids": [digest_of(content) for content in tars]},
        "history": [{"created_by": f"step {number}"} for number in range(len(tars))],
        **(more or {}),
    }
    return TinyImage(tars, json.dumps(config).encode(), tuple(tags))


def docker_save(*images: TinyImage, modern: bool = False, layers: str = "") -> bytes:
    """As `docker save` writes it: before version 25, or (``modern``) since, when it is an OCI layout as well.

    ``layers`` is how the layers are packed: "", gzip or zstd.
    """
    members: dict[str, bytes] = {}
    manifest = []
    for image in images:
        names = []
        for content in image.layers:
            data = packed(content, layers)
            name = _blob(data) if modern else f"{hashlib.sha256(data).hexdigest()}/layer.tar"
            members[name] = data
            names.append(name)
        config = _blob(image.config) if modern else f"{image.digest.partition(':')[2]}.json"
        members[config] = image.config
        manifest.append({"Config": config, "RepoTags": list(image.tags) or None, "Layers": names})
    if modern:
        members |= _oci_members(images, layers)
    members["manifest.json"] = json.dumps(manifest).encode()
    return tar_of(members)


def oci_layout(*images: TinyImage, layers: str = "gzip", nested: bool = False, layer_kind: str = "") -> bytes:
    """As image tools write it; ``nested`` puts an index of platforms into the index.

    ``layer_kind`` is the media type of the layers, where it is to be another than fits.
    """
    return tar_of(_oci_members(images, layers, nested=nested, layer_kind=layer_kind))


def packed(content: bytes, how: str) -> bytes:
    """The content packed: "", gzip, zstd or xz."""
    match how:
        case "gzip":
            return gzip.compress(content, 1, mtime=0)
        case "zstd":
            return zstandard.ZstdCompressor(level=1).compress(content)
        case "xz":
            return lzma.compress(content, preset=0)
    return content


def tar_of(members: Mapping[str, bytes | tarfile.TarInfo]) -> bytes:
    """A tar of files by name; a TarInfo is written as it is, under its own name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def members_of(archive: bytes) -> dict[str, bytes]:
    """The files of a plain tar, in order."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {info.name: opened.extractfile(info).read() for info in opened if info.isfile()}  # type: ignore[union-attr]


def digest_of(content: bytes) -> str:
    """sha256:…"""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _oci_members(
    images: Sequence[TinyImage], layers: str, *, nested: bool = False, layer_kind: str = ""
) -> dict[str, bytes]:
    members: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def add(content: bytes, kind: str, **more: Any) -> dict[str, Any]:
        members[_blob(content)] = content
        return {"mediaType": kind, "digest": digest_of(content), "size": len(content), **more}

    entries = []
    for image in images:
        kind = layer_kind or (f"{_LAYER}+{layers}" if layers else _LAYER)
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": add(image.config, _CONFIG),
            "layers": [add(packed(content, layers), kind) for content in image.layers],
        }
        content = json.dumps(manifest).encode()
        for tag in image.tags or ("",):
            notes = {"org.opencontainers.image.ref.name": tag} if tag else {}
            entries.append(add(content, _MANIFEST, platform=image.platform, annotations=notes))
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": entries}
    if nested:
        content = json.dumps(index).encode()
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [add(content, _INDEX)]}
    members["index.json"] = json.dumps(index).encode()
    return members


def _blob(content: bytes) -> str:
    return f"blobs/{digest_of(content).replace(':', '/')}"
