"""Names of images as Docker reads them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headway.errors import InvalidInput

DOCKER_HUB = "docker.io"
# Docker's own names for it, in configurations and in old tools.
_HUB_NAMES = frozenset({DOCKER_HUB, "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
_HUB_API = "registry-1.docker.io"

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\])(?::([0-9]{{1,5}}))?")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Workers give this name to images that they fetched. No registry has it.
OWN_REGISTRY = "headway.local"
_PART_OF_ID = re.compile(r"[0-9a-f]{1,64}")
_LONGEST = 500
_LONGEST_HOST = 255


@dataclass(frozen=True, slots=True)
class ImageName:
    """One image of one registry. With a digest the tag says nothing; without both it is the tag ``latest``."""

    registry: str  # host, with the port if any; docker.io where the name has none
    repository: str
    tag: str
    digest: str = ""

    @property
    def place(self) -> str:
        """Registry and repository: what a digest belongs to."""
        return f"{self.registry}/{self.repository}"

    @property
    def short_place(self) -> str:
        """The place as engines show it."""
        if self.registry != DOCKER_HUB:
            return self.place
        return self.repository.removeprefix("library/")

    @property
    def short(self) -> str:
        """The name as engines show it."""
        return f"{self.short_place}@{self.digest}" if self.digest else f"{self.short_place}:{self.tag}"

    @property
    def reference(self) -> str:
        """What a registry is asked for."""
        return self.digest or self.tag

    def __str__(self) -> str:
        return f"{self.place}@{self.digest}" if self.digest else f"{self.place}:{self.tag}"


def parse(name: str) -> ImageName | None:
    """The whole of a short name, as engines complete it: ``python`` is ``docker.io/library/python:latest``. None: it
    is no name of an image."""
    rest, at, digest = name.partition("@")
    if len(name) > _LONGEST or (at and not DIGEST.fullmatch(digest)):
        return None
    first, slash, more = rest.partition("/")
    if slash and (first == "localhost" or first.lower() != first or "." in first or ":" in first):
        host, path = first, more
        if (registry := _registry(host)) is None:
            return None
    else:
        registry, path = DOCKER_HUB, rest
    repository, colon, tag = path.partition(":")
    if not _REPOSITORY.fullmatch(repository) or (colon and not _TAG.fullmatch(tag)):
        return None
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    return ImageName(registry, repository, "" if digest else tag or "latest", digest)


def looks_like_id(name: str) -> bool:
    """Whether engines may take it for an image's id or the start of one; no registry is asked for such a name."""
    return DIGEST.fullmatch(name) is not None or _PART_OF_ID.fullmatch(name) is not None


def registry_host(text: str) -> str:
    """The name under which credentials for a registry are kept.

    Raises:
        InvalidInput: it is no host.
    """
    # What people copy from an address bar, and what engines call Docker Hub.
    bare = re.sub(r"^https?://", "", text.strip(), flags=re.IGNORECASE)
    bare = re.sub(r"/(v[12]/?)?$", "", bare)
    found = _registry(bare)
    if found is None:
        raise InvalidInput(
            f"`{text[:100]}` is no registry: write its host, with the port if there is one, such as "
            "registry.example.org:5000, or docker.io."
        )
    return found


def api_host(registry: str) -> str:
    """Where the registry's API is."""
    return _HUB_API if registry == DOCKER_HUB else registry


def split_host(host: str) -> tuple[str, int | None]:
    """Name or address (without brackets) and port; None: the scheme's own."""
    found = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:]+)(?::(\d+))?", host)
    if found is None:
        return host, None
    port = found[2] or found[4]
    return found[1] or found[3], int(port) if port else None


def _registry(host: str) -> str | None:
    found = _HOST.fullmatch(host)
    if found is None or len(host) > _LONGEST_HOST or (found[1] and not 0 < int(found[1]) < 65_536):
        return None
    return DOCKER_HUB if host.lower() in _HUB_NAMES else host.lower()
