"""Reads manifests and configs that registries answer. Their content is not trusted. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .names import DIGEST

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ACCEPT = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))
_MOST_PLATFORMS = 100
_WORD = re.compile(r"[a-z0-9_.-]{1,32}")
_LONGEST_REQUIREMENT = 500


class UnreadableManifest(ValueError):
    """A clause that says what is wrong with an answer."""


@dataclass(frozen=True, slots=True)
class PlatformManifest:
    """One platform of an image: the digest of its manifest."""

    architecture: str
    digest: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ImageManifest:
    """Of a single platform: where its config is."""

    config_digest: str
    config_bytes: int


@dataclass(frozen=True, slots=True)
class ImageIndex:
    """Of several platforms; only what Linux runs, each architecture once."""

    parts: tuple[PlatformManifest, ...]


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What is known of an image by its digest; it never changes.

    ``architectures`` is empty when unknown; ``require_cuda`` is what one of the platforms asks of the driver.
    """

    architectures: tuple[str, ...] = ()
    require_cuda: str = ""


def digest_of(body: bytes) -> str:
    """As registries write it."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def read(body: bytes) -> ImageManifest | ImageIndex:
    """An image's manifest or index.

    Raises:
        UnreadableManifest: it is neither.
    """
    document = _document(body)
    kind = document.get("mediaType")
    if document.get("schemaVersion") == 1 or "fsLayers" in document:
        raise UnreadableManifest(
            "is in a form (schema 1) that engines don't fetch any more; push it again with a newer tool"
        )
    if kind in INDEX_TYPES or (kind not in MANIFEST_TYPES and isinstance(document.get("manifests"), list)):
        return ImageIndex(tuple(_parts(document.get("manifests"))))
    config = document.get("config")
    if not isinstance(config, dict):
        raise UnreadableManifest("answers something that is no manifest of an image")
    digest, size = config.get("digest"), config.get("size")
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest) or type(size) is not int or size < 0:
        raise UnreadableManifest("answers a manifest without a usable config")
    return ImageManifest(digest, size)


def read_config(body: bytes) -> ImageFacts:
    """From an image's config.

    Raises:
        UnreadableManifest: it is not one.
    """
    document = _document(body)
    inner = document.get("config")
    env = inner.get("Env") if isinstance(inner, dict) else None
    architecture = document.get("architecture")
    return ImageFacts(
        architectures=(architecture,) if isinstance(architecture, str) and _WORD.fullmatch(architecture) else (),
        require_cuda=require_cuda(env if isinstance(env, list) else ()),
    )


def require_cuda(env: Iterable[Any]) -> str:
    """What an image's environment asks of the driver; empty: nothing."""
    for entry in env:
        if isinstance(entry, str) and entry.startswith("NVIDIA_REQUIRE_CUDA="):
            value = entry.partition("=")[2]
            return value if len(value) <= _LONGEST_REQUIREMENT and value.isprintable() else ""
    return ""


def of_index(index: ImageIndex, of_one: ImageFacts | None) -> ImageFacts:
    """An index's facts; ``of_one`` are those of the part that was looked at."""
    facts = of_one or ImageFacts()
    return replace(facts, architectures=tuple(part.architecture for part in index.parts))


def part_to_read(index: ImageIndex, wanted: Sequence[str]) -> PlatformManifest | None:
    """The part that the nodes would run, else the first."""
    by_architecture = {part.architecture: part for part in index.parts}
    for architecture in wanted:
        if architecture in by_architecture:
            return by_architecture[architecture]
    return index.parts[0] if index.parts else None


def architecture_for(architectures: Sequence[str], of_nodes: Sequence[str]) -> str:
    """The one architecture that a node must have; empty: any of them will do, or nothing is known.

    One field can't hold a set: where several, but not all, kinds of nodes could run an image, the worker finds out.
    """
    if len(architectures) <= 1:
        return architectures[0] if architectures else ""
    both = [architecture for architecture in architectures if architecture in of_nodes]
    if not both:
        return architectures[0] if of_nodes else ""
    return both[0] if len(both) == 1 else ""


def _parts(manifests: Any) -> Iterable[PlatformManifest]:
    seen = set()
    for entry in manifests[:_MOST_PLATFORMS] if isinstance(manifests, list) else ():
        platform = entry.get("platform") if isinstance(entry, dict) else None
        if not isinstance(platform, dict) or platform.get("os") != "linux":
            continue  # attestations call themselves unknown/unknown
        architecture, digest, size = platform.get("architecture"), entry.get("digest"), entry.get("size")
        if (
            isinstance(architecture, str)
            and _WORD.fullmatch(architecture)
            and isinstance(digest, str)
            and DIGEST.fullmatch(digest)
            and architecture not in seen
        ):
            seen.add(architecture)
            yield PlatformManifest(architecture, digest, size if type(size) is int else 0)


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnreadableManifest("answers something that is no JSON") from error
    if not isinstance(document, dict):
        raise UnreadableManifest("answers something that is no JSON object")
    return document
