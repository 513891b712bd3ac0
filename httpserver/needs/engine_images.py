"""Images that container engines on the nodes have already. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from headway.rpc.v1 import resource_manager_pb2 as rm

from ..registries.names import DIGEST, ImageName

# A node reports at most so many images; one that reports so many may have more.
_MOST_TOLD = 500
_SIMULATED = "scripted"  # a Worker of an earlier version does not say that any image will do


@dataclass(frozen=True, slots=True)
class HeldImage:
    """One image on one node."""

    node: str
    id: str
    digests: frozenset[str]  # in the registry of the name that was looked for
    bytes: int
    fetched_by_headway: bool = False  # Headway fetched it, for some account


@dataclass(frozen=True, slots=True)
class ImageOnEngines:
    """What a name means on the engines. With a ``digest`` it means the same wherever it is there; without one the
    nodes don't agree."""

    digest: str
    of_registry: bool  # the digest is one of the registry, so the image can be fetched by it anywhere
    bytes: int
    nodes: tuple[str, ...]
    fetched_by_headway: bool = False  # Headway fetched it on every node that has it


class EngineImages:
    """The nodes to which it matters which images there are, as they reported last."""

    def __init__(self, nodes: Iterable[rm.Node]) -> None:
        self._nodes = [node for node in nodes if _looks_at_images(node.status.capacity)]

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def all_reported(self) -> bool:
        """Whether the reports are complete: an image that none of them names is on no node."""
        return not any(
            len(node.status.engine_images) >= _MOST_TOLD
            or any(condition.word == "engine_unavailable" for condition in node.status.conditions)
            for node in self._nodes
        )

    @cached_property
    def architectures(self) -> tuple[str, ...]:
        """Of the nodes, the most frequent first."""
        counts: dict[str, int] = {}
        for node in self._nodes:
            if architecture := node.status.capacity.architecture:
                counts[architecture] = counts.get(architecture, 0) + 1
        return tuple(sorted(counts, key=lambda architecture: (-counts[architecture], architecture)))

    def names(self) -> list[str]:
        """All names that nodes reported, sorted."""
        return sorted(self._by_name)

    def find(self, name: ImageName) -> ImageOnEngines | None:
        """What the name means there; None: no node has it."""
        if DIGEST.fullmatch(name.short):
            return self._with_digest(replace(name, digest=name.short))
        if name.digest:
            return self._with_digest(name)
        place = name.short_place
        return agreed([_held(node, image, place) for node, image in self._by_name.get(name.short, ())])

    def _with_digest(self, name: ImageName) -> ImageOnEngines | None:
        # People write both: the digest that a registry shows, and the id that an engine shows.
        # Images that Headway fetched have ids too. An account that knows such an id may still lack the right to use it.
        for of_registry, index, key in ((True, self._by_repo_digest, name.short), (False, self._by_id, name.digest)):
            if held := index.get(key, ()):
                size = max(image.bytes for _, image in held)
                nodes = tuple(sorted({node for node, _ in held}))
                return ImageOnEngines(name.digest, of_registry, size, nodes, all(image.ours for _, image in held))
        return None

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[str, rm.EngineImage]]]:
        return _index((name, node, image) for node, image in self._images() for name in image.names)

    @cached_property
    def _by_repo_digest(self) -> dict[str, list[tuple[str, rm.EngineImage]]]:
        return _index((name, node, image) for node, image in self._images() for name in image.repo_digests)

    @cached_property
    def _by_id(self) -> dict[str, list[tuple[str, rm.EngineImage]]]:
        # An image without a name may be one that Headway is fetching just now, or one that jobs may not use.
        return _index((image.id, node, image) for node, image in self._images() if image.names and not image.ours)

    def _images(self) -> Iterator[tuple[str, rm.EngineImage]]:
        return ((node.id, image) for node in self._nodes for image in node.status.engine_images)


def agreed(held: Sequence[HeldImage]) -> ImageOnEngines | None:
    """Whether all that have an image under one name have the same.

    A digest of the registry is better than an id. With it any node can fetch the image, also one of another
    architecture, where the same image has another id.
    """
    if not held:
        return None
    nodes = tuple(sorted({image.node for image in held}))
    size = max(image.bytes for image in held)
    fetched_by_headway = all(image.fetched_by_headway for image in held)
    fetched = [image for image in held if image.digests]
    common = frozenset.intersection(*(image.digests for image in fetched)) if fetched else frozenset()
    ids = {image.id for image in fetched}
    if common and all(image.id in ids for image in held):
        return ImageOnEngines(min(common), True, size, nodes, fetched_by_headway)
    if len({image.id for image in held}) == 1 and DIGEST.fullmatch(held[0].id):
        return ImageOnEngines(held[0].id, False, size, nodes, fetched_by_headway)
    return ImageOnEngines("", len(fetched) == len(held), size, nodes, fetched_by_headway)


def _looks_at_images(capacity: rm.Capacity) -> bool:
    # A node that has not reported says nothing of either.
    return capacity.runtime not in ("", _SIMULATED) and not capacity.any_image


def _held(node: str, image: rm.EngineImage, place: str) -> HeldImage:
    start = f"{place}@"
    digests = {entry.removeprefix(start) for entry in image.repo_digests if entry.startswith(start)}
    good = frozenset(digest for digest in digests if DIGEST.fullmatch(digest))
    return HeldImage(node, image.id, good, image.bytes, image.ours)


def _index(
    entries: Iterable[tuple[str, str, rm.EngineImage]],
) -> dict[str, list[tuple[str, rm.EngineImage]]]:
    index: dict[str, list[tuple[str, rm.EngineImage]]] = {}
    for key, node, image in entries:
        index.setdefault(key, []).append((node, image))
    return index
