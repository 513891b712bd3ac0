"""Which images an archive holds, by docker's manifest.json or by an OCI index, and which one is meant."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from . import documents, other_kinds
from .config import Config, parse_config
from .model import ArchiveLimits, ArchiveRefused, SeveralImages
from .tar import shown
from .uploaded import UploadedArchive

_DEFAULT_PLATFORM = "linux/amd64"
_INDEXES = frozenset(
    ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
)
_MANIFESTS = frozenset(
    ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
)
_CONFIGS = frozenset(("", "application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"))
_LAYERS = frozenset(
    (
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
    )
)
_NAME_NOTES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_BLOB = re.compile(r"(?:.*/)?blobs/(sha256|sha512)/([0-9a-f]+)")
_DIGEST = re.compile(r"(sha256):([0-9a-f]{64})|(sha512):([0-9a-f]{128})")
_OLD_CONFIG = re.compile(r"([0-9a-f]{64})\.json")
_DEPTH = 4  # of indexes in indexes
_IMAGES = 1000
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Layer:
    """Where the archive keeps a layer: the member's name, and the digest (or "") that its bytes there must have."""

    member: str
    digest: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One image of the archive. ``names`` are the tags it carries there."""

    digest: str
    names: tuple[str, ...]
    config_bytes: bytes
    config: Config
    layers: tuple[Layer, ...]


def candidates(outer: UploadedArchive, limits: ArchiveLimits) -> list[Candidate]:
    """All images of an archive, each content once.

    Raises:
        ArchiveRefused: there is none, or a document is wrong, or a part is missing.
    """
    # A modern `docker save` has both; its manifest.json names what is really there, while its index may name
    # platforms that were never fetched.
    if outer.has("manifest.json"):
        found = _of_docker(outer, limits)
    elif outer.has("index.json"):
        found = _of_oci(outer, limits)
    else:
        raise outer.refuse_contents()
    merged: dict[str, Candidate] = {}
    for one in found:
        before = merged.get(one.digest)
        names = (*before.names, *one.names) if before else one.names
        merged[one.digest] = replace(before or one, names=tuple(dict.fromkeys(names)))
    return list(merged.values())


def chosen(found: list[Candidate], choose: str) -> Candidate:
    """The image that is meant: the only one, or the one with the name, platform or digest ``choose``.

    Raises:
        ArchiveRefused: there is one, and another was meant.
        SeveralImages: several are left.
    """
    left = found
    if choose:
        left = [one for one in found if _answers(one, choose)]
        if not left and len(found) == 1:
            # There is nothing to ask: it is another archive than was thought.
            names = found[0].names or (found[0].digest,)
            raise ArchiveRefused(f"The archive has no image {shown(choose)}; it has {_listed(names)}.")
        if not left:
            choices = _choices(found)
            raise SeveralImages(f"The archive has no image {shown(choose)}; it has {_listed(choices)}.", choices)
    if len(left) > 1 and len({one.names for one in left}) == 1 and len({one.config.platform for one in left}) > 1:
        # One image for several platforms.
        default = [one for one in left if one.config.platform == _DEFAULT_PLATFORM]
        left = default or left
    if len(left) > 1:
        choices = _choices(left)
        raise SeveralImages(
            f"The archive holds {len(left)} images; say which one is meant: {_listed(choices)}.", choices
        )
    return left[0]


def right_digest(content: bytes, digest: str) -> bool:
    """Whether a document has the digest it is known by ("": none)."""
    if not digest:
        return True
    algorithm, _, value = digest.partition(":")
    return hashlib.new(algorithm, content).hexdigest() == value


def _answers(one: Candidate, choose: str) -> bool:
    if choose in (one.digest, one.digest.partition(":")[2]) or choose == one.config.platform:
        return True
    return any(choose == name or _full(choose) == _full(name) for name in one.names)


def _full(name: str) -> str:
    """A tag in the one form that docker's short forms stand for."""
    for short in ("docker.io/library/", "docker.io/", "index.docker.io/"):
        if name.startswith(short):
            name = name.removeprefix(short)
            break
    return name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"


def _choices(found: list[Candidate]) -> list[str]:
    if len(found) > 1 and len({one.names for one in found}) == 1:
        platforms = [one.config.platform for one in found]
        if len(set(platforms)) == len(found):
            return platforms
    return [one.names[0] if one.names else one.digest for one in found]


def _listed(choices: Sequence[str]) -> str:
    told = [documents.clean(choice, 200) for choice in choices[:_SHOWN]]
    last = f"{len(choices) - _SHOWN} more" if len(choices) > _SHOWN else told.pop()
    return f"{', '.join(told)} and {last}" if told else last


def _of_docker(outer: UploadedArchive, limits: ArchiveLimits) -> Iterable[Candidate]:
    document = documents.parse(outer.document("manifest.json", "manifest", limits.document_bytes), "manifest.json")
    known = other_kinds.of_manifest(document)
    if known:
        raise ArchiveRefused(f"{known}.")
    entries = documents.objects(document, "manifest.json")
    if not entries:
        raise ArchiveRefused("The manifest.json of the archive names no image.")
    if len(entries) > _IMAGES:
        raise ArchiveRefused(f"The archive has {len(entries)} images; {_IMAGES} may be.")
    for entry in entries:
        name = documents.text(entry.get("Config"), "manifest.json", "Config")
        if not name:
            raise ArchiveRefused("The manifest.json of the archive names no config.")
        content = outer.document(name, "config", limits.config_bytes)
        old = _OLD_CONFIG.fullmatch(name)
        if not right_digest(content, f"sha256:{old[1]}" if old else _digest_of_name(name)):
            raise ArchiveRefused(
                f"The config {shown(name)} doesn't have the digest in its name: it was changed or damaged."
            )
        layers = []
        for layer in documents.texts(entry.get("Layers"), "manifest.json", "Layers"):
            member = outer.find(layer, "layer").name
            layers.append(Layer(member, _digest_of_name(member)))
        tags = documents.texts(entry.get("RepoTags"), "manifest.json", "RepoTags")
        yield _candidate(content, name, tuple(documents.clean(tag, 512) for tag in tags), layers, limits)


def _of_oci(outer: UploadedArchive, limits: ArchiveLimits) -> Iterable[Candidate]:
    document = documents.parse(outer.document("index.json", "index", limits.document_bytes), "index.json")
    walk = _Walk(outer, limits)
    found = list(walk.index(documents.obj(document, "index.json"), (), 0))
    if not found:
        if walk.absent:
            raise ArchiveRefused(f"The {walk.absent} is missing from the archive.")
        known = other_kinds.of_artifacts(walk.passed_over)
        if known:
            raise ArchiveRefused(f"{known}.")
        raise ArchiveRefused("The index.json of the archive names no image for Linux.")
    return found


class _Walk:
    """Through an OCI index and the indexes in it."""

    def __init__(self, outer: UploadedArchive, limits: ArchiveLimits) -> None:
        self._outer = outer
        self._limits = limits
        self._seen = 0
        self.absent = ""
        self.passed_over: list[str] = []  # kinds of what is no image

    def index(self, document: documents.JsonObject, names: tuple[str, ...], depth: int) -> Iterable[Candidate]:
        """The images of one index; ``names`` are those of the index itself."""
        if depth > _DEPTH:
            raise ArchiveRefused("The archive has indexes in indexes in indexes; this is no image.")
        for entry in documents.objects(document.get("manifests"), "the index", "manifests"):
            self._seen += 1
            if self._seen > _IMAGES:
                raise ArchiveRefused(f"The archive names more than {_IMAGES} images.")
            kind = documents.text(entry.get("mediaType"), "the index", "mediaType")
            if kind not in _INDEXES | _MANIFESTS or self._is_no_image(entry):
                continue
            own = self._names(entry) or names
            blob = self._blob_name(entry, "manifest")
            if depth and not self._outer.has(blob):
                # A platform of an image that was never fetched; what was fetched is complete.
                self.absent = self.absent or f"manifest {shown(blob)}"
                continue
            content = self._blob(entry, "manifest", self._limits.document_bytes)
            inner = documents.obj(documents.parse(content, shown(blob)), "a manifest")
            if kind in _INDEXES:
                yield from self.index(inner, own, depth + 1)
            else:
                yield from self._image(inner, own)

    def _image(self, manifest: documents.JsonObject, names: tuple[str, ...]) -> Iterable[Candidate]:
        config = documents.obj(manifest.get("config"), "a manifest", "config")
        of_config = documents.text(config.get("mediaType"), "a manifest", "config.mediaType")
        if of_config not in _CONFIGS:
            # A chart, a signature or another thing that isn't run.
            own = manifest.get("artifactType")
            self.passed_over += [of_config, own if isinstance(own, str) else ""]
            return
        layers = []
        for layer in documents.objects(manifest.get("layers"), "a manifest", "layers"):
            kind = documents.text(layer.get("mediaType"), "a manifest", "layers.mediaType")
            if kind not in _LAYERS:
                raise ArchiveRefused(_why_not(kind))
            member = self._outer.find(self._blob_name(layer, "layer"), "layer")
            if layer.get("size") not in (None, member.size):
                raise ArchiveRefused(
                    f"The layer {shown(member.name)} has {member.size} bytes, and its manifest says otherwise."
                )
            layers.append(Layer(member.name, documents.text(layer.get("digest"), "a manifest", "layers.digest")))
        content = self._blob(config, "config", self._limits.config_bytes)
        yield _candidate(content, self._blob_name(config, "config"), names, layers, self._limits)

    def _blob(self, descriptor: documents.JsonObject, what: str, most: int) -> bytes:
        name = self._blob_name(descriptor, what)
        content = self._outer.document(name, what, most)
        if not right_digest(content, documents.text(descriptor.get("digest"), what, "digest")):
            raise ArchiveRefused(
                f"The {what} {shown(name)} doesn't have the digest in its name: it was changed or damaged."
            )
        return content

    def _blob_name(self, descriptor: documents.JsonObject, what: str) -> str:
        digest = documents.text(descriptor.get("digest"), what, "digest")
        if not _DIGEST.fullmatch(digest):
            raise ArchiveRefused(f"The archive names a {what} by {documents.clean(digest, 80)!r}, which is no digest.")
        return f"blobs/{digest.replace(':', '/')}"

    def _names(self, entry: documents.JsonObject) -> tuple[str, ...]:
        notes = entry.get("annotations")
        if not isinstance(notes, dict):
            return ()
        for note in _NAME_NOTES:
            name = notes.get(note)
            if isinstance(name, str) and name:
                return (documents.clean(name, 512),)
        return ()

    def _is_no_image(self, entry: documents.JsonObject) -> bool:
        notes = entry.get("annotations")
        if isinstance(notes, dict) and notes.get("vnd.docker.reference.type"):
            return True
        platform = entry.get("platform")
        # "unknown" are attestations. Of an image for several systems, that for Linux is meant.
        return isinstance(platform, dict) and platform.get("os") not in (None, "", "linux")


def _candidate(
    content: bytes, name: str, names: tuple[str, ...], layers: list[Layer], limits: ArchiveLimits
) -> Candidate:
    config = parse_config(content, shown(name), limits)
    if len(layers) != len(config.diff_ids):
        raise ArchiveRefused(
            f"The image has {len(layers)} layers in the archive, and its config names {len(config.diff_ids)}."
        )
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return Candidate(digest, names, content, config, tuple(layers))


def _digest_of_name(name: str) -> str:
    match = _BLOB.fullmatch(name)
    digest = f"{match[1]}:{match[2]}" if match else ""
    return digest if _DIGEST.fullmatch(digest) else ""


def _why_not(kind: str) -> str:
    shown_kind = documents.clean(kind, 120)
    if "encrypted" in kind:
        return f"A layer of the image is encrypted ({shown_kind}). Decrypt the image first."
    if "nondistributable" in kind or "foreign" in kind:
        return f"A layer of the image is not in the archive: it is fetched from elsewhere ({shown_kind})."
    return f"A layer of the image is of an unknown kind ({shown_kind})."
