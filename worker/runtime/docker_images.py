"""Images on the engine: looked at once, fetched once however many ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import requests
from docker import APIClient
from docker.errors import APIError, ImageNotFound, NotFound
from docker.utils import parse_repository_tag

from headway.logs import get_logger
from headway.model.reasons import EndWord

from ..ports import EngineUnavailable, ImageFacts, RuntimeRefused
from .docker_engine import DockerEngine
from .docker_errors import pull_refusal, text_of

log = get_logger(__name__)

_NAMES = 500


class DockerImages:
    """What a start needs to know of images costs no question to the engine while ``trusted``: as long as the engine's
    own events would tell of a change."""

    def __init__(self, engine: DockerEngine, *, node: str, local: bool, pull: bool) -> None:
        self._engine = engine
        self._node = node
        self._local = local
        self._pull = pull
        self._known: dict[str, ImageFacts] = {}
        self._fetches: dict[str, asyncio.Task[ImageFacts]] = {}
        self._trusted = False
        self.architecture = ""  # the engine's, once known

    def trust(self, trusted: bool) -> None:
        """Whether changes of images will be told to ``changed``; forgets what is known."""
        self._trusted = trusted
        self.changed()

    def changed(self) -> None:
        """Some image came, went, or got another name."""
        self._known.clear()

    async def prepare(self, image: str, digest: str, on_fetch: Callable[[], None]) -> ImageFacts:
        """See ``ports.Runtime.prepare_image``."""
        key = f"{image}@{digest}"
        facts = self._known.get(key)
        if facts is not None:
            return facts
        facts = await self._look(image, digest)
        if facts is None:
            if not self._pull:
                raise RuntimeRefused(
                    f"The image {image} is not on {self._node}, which fetches none from registries",
                    word=EndWord.IMAGE_NOT_FOUND,
                )
            on_fetch()
            facts = await self._fetched(key, image, digest)
        self._check(image, facts)
        if self._trusted:
            self._known[key] = facts
        return facts

    async def names(self) -> Sequence[str]:
        """Names of what is there, sorted."""
        found = await self._engine.call(lambda api: api.images())
        names = {tag for image in found for tag in image.get("RepoTags") or () if not tag.startswith("<none>")}
        return sorted(names)[:_NAMES]

    async def _look(self, image: str, digest: str) -> ImageFacts | None:
        def look(api: APIClient) -> dict[str, Any] | None:
            for name in _names(image, digest):
                with contextlib.suppress(ImageNotFound, NotFound):
                    return _inspect(api, name)
            return None

        try:
            found = await self._engine.call(look)
        except APIError as error:
            raise RuntimeRefused(
                f"{image} is no name of an image: {text_of(error)}", word=EndWord.IMAGE_NOT_FOUND
            ) from error
        if found is None or not (self._local or digest or came_from_registry(image, found)):
            return None
        return image_facts(found)

    async def _fetched(self, key: str, image: str, digest: str) -> ImageFacts:
        fetch = self._fetches.get(key)
        if fetch is None:
            fetch = asyncio.create_task(self._fetch(image, digest), name=f"fetch {image}")
            self._fetches[key] = fetch
            fetch.add_done_callback(lambda done: self._fetch_over(key, done))
        # A task that is cancelled meanwhile leaves the fetch to the others.
        return await asyncio.shield(fetch)

    def _fetch_over(self, key: str, fetch: asyncio.Task[ImageFacts]) -> None:
        self._fetches.pop(key, None)
        if not fetch.cancelled():
            fetch.exception()  # told to whoever waits; nobody may be left

    async def _fetch(self, image: str, digest: str) -> ImageFacts:
        log.info("image.fetch", image=image)
        repository, tag = parse_repository_tag(image)
        name = f"{repository}@{digest}" if digest else image

        def pull(api: APIClient) -> None:
            for line in api.pull(repository, digest or tag or "latest", stream=True, decode=True):
                if "error" in line:
                    raise pull_refusal(str(line["error"]), node=self._node, image=image)

        try:
            await self._engine.pull(pull)
        except APIError as error:
            raise pull_refusal(text_of(error), node=self._node, image=image) from error
        except EngineUnavailable as error:
            if isinstance(error.__cause__, requests.Timeout):
                raise pull_refusal("timeout: no progress for minutes", node=self._node, image=image) from error
            raise
        try:
            return image_facts(await self._engine.call(lambda api: _inspect(api, name)))
        except APIError as error:
            raise RuntimeRefused(
                f"{image} was fetched, yet {self._node} does not have it",
                word=EndWord.IMAGE_PULL_FAILED,
                elsewhere=True,
            ) from error

    def _check(self, image: str, facts: ImageFacts) -> None:
        if self.architecture and facts.architecture and facts.architecture != self.architecture:
            raise RuntimeRefused(
                f"The image {image} is for {facts.architecture} machines, and {self._node} is {self.architecture}",
                word=EndWord.IMAGE_BAD,
            )


def image_facts(found: Mapping[str, Any]) -> ImageFacts:
    """From the engine's answer about one image."""
    config = found.get("Config") or {}
    return ImageFacts(
        id=str(found["Id"]),
        env=tuple(config.get("Env") or ()),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        cmd=tuple(config.get("Cmd") or ()),
        working_dir=config.get("WorkingDir") or "",
        user=config.get("User") or "",
        architecture=found.get("Architecture") or "",
    )


def came_from_registry(image: str, found: Mapping[str, Any]) -> bool:
    """Whether the engine got the image of this name from that name's registry, not from a person on the machine."""
    repository, _ = parse_repository_tag(image)
    return any(entry.partition("@")[0] == repository for entry in found.get("RepoDigests") or ())


def _names(image: str, digest: str) -> tuple[str, ...]:
    """Under which names the engine may have it; a pinned digest wins, and nothing else will do then."""
    if not digest:
        return (image,)
    repository, _ = parse_repository_tag(image)
    return (digest, f"{repository}@{digest}")


def _inspect(api: APIClient, name: str) -> dict[str, Any]:
    found: dict[str, Any] = api.inspect_image(name)  # type: ignore[no-untyped-call]
    return found
