"""Images on the engine: which are there, how one is fetched, and how one is removed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import requests
from docker import APIClient
from docker.errors import APIError, ImageNotFound, NotFound
from docker.utils import parse_repository_tag

from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.model.reasons import EndWord

from ..model import ImageSource, WantedImage
from ..ports import (
    EngineImage,
    EngineUnavailable,
    ImageArchive,
    ImageRemoval,
    LocalImage,
    RegistryCredentials,
    RuntimeRefused,
)
from .docker_engine import DockerEngine
from .docker_errors import is_trouble, load_refusal, pull_refusal, text_of
from .docker_load import LoadFailed, load

log = get_logger(__name__)
T = TypeVar("T")

# The name of Headway's images on the engine, with the image's id as tag. No registry has this name.
MARK = "headway.local/images"


class DockerImages:
    """The engine's images. While ``trusted``, answers are remembered, and a start asks the engine nothing.

    What counts as a change: each image event of the engine. It is trusted while its events are received.
    """

    def __init__(self, engine: DockerEngine, *, node: str, local: bool) -> None:
        self._engine = engine
        self._node = node
        self._local = local
        self._known: dict[tuple[str, ImageSource], LocalImage] = {}
        self._listing: list[EngineImage] | None = None
        self._layers: dict[str, tuple[str, ...]] = {}  # by image id: never changes
        self._trusted = False
        self.architecture = ""  # the engine's, once known
        self.reuses_layers = False  # whether it loads archives without the layers that it has; False until known

    def trust(self, trusted: bool) -> None:
        """Set whether events will call ``changed``. All remembered answers are dropped."""
        self._trusted = trusted
        self.changed()

    def changed(self) -> None:
        """An image came, went, or got another name: drop all remembered answers."""
        self._known.clear()
        self._listing = None

    async def find(self, wanted: WantedImage) -> LocalImage | None:
        """See ``ports.Runtime.find_image``."""
        # An answer about a digest does not count for a name.
        key = (wanted.key, wanted.source)
        facts = self._known.get(key)
        if facts is not None:
            return facts
        facts = await self._look(wanted)
        if facts is None:
            return None
        self._check(wanted, facts)
        if self._trusted:
            self._known[key] = facts
        return facts

    async def load(self, wanted: WantedImage, archive: ImageArchive) -> LocalImage:
        """See ``ports.Runtime.load_image``."""
        try:
            made = await self._engine.fetch(lambda api: load(api, archive))
        except LoadFailed as error:
            if is_trouble(str(error)):
                raise EngineUnavailable(f"The container engine fails: {error}") from error
            raise load_refusal(str(error), node=self._node, image=wanted.name) from error
        except APIError as error:
            raise load_refusal(text_of(error), node=self._node, image=wanted.name) from error
        finally:
            archive.close()
            self.changed()
        facts = await self._by_name(wanted.digest)
        if facts is not None:
            self._check(wanted, facts)
            return facts
        await self._call(lambda api: _remove_unexpected(api, made))
        raise RuntimeRefused(
            f"The market's copy of the image {wanted.name} is not {wanted.digest}. Upload it again",
            word=EndWord.IMAGE_BAD,
        )

    async def resolve(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> str:
        """See ``ports.Runtime.resolve_image``."""

        def ask(api: APIClient) -> str:
            try:
                found = api.inspect_distribution(wanted.name, auth_config=_login(credentials))  # type: ignore[no-untyped-call]
            except APIError as error:
                if error.status_code == 503:
                    raise
                # Not a failure of the engine, whatever the text: it reports what the registry answered.
                raise pull_refusal(
                    text_of(error), node=self._node, image=wanted.name, asks_for=wanted.account
                ) from error
            return str(found["Descriptor"]["digest"])

        try:
            return await self._engine.fetch(ask)
        except EngineUnavailable as error:
            raise self._slow(wanted, error, asks_for=wanted.account) from error

    async def pull(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> LocalImage:
        """See ``ports.Runtime.pull_image``."""
        image = wanted.name
        repository, _tag = parse_repository_tag(image)

        def pull(api: APIClient) -> None:
            # By its digest, so that no name of the engine changes.
            lines = api.pull(repository, wanted.digest, stream=True, decode=True, auth_config=_login(credentials))
            for line in lines:
                if "error" in line:
                    raise pull_refusal(str(line["error"]), node=self._node, image=image)

        try:
            await self._engine.fetch(pull)
        except APIError as error:
            raise pull_refusal(text_of(error), node=self._node, image=image) from error
        except EngineUnavailable as error:
            raise self._slow(wanted, error) from error
        finally:
            self.changed()
        facts = await self._by_name(f"{repository}@{wanted.digest}")
        if facts is None:
            raise RuntimeRefused(
                f"{image} was fetched, but {self._node} does not have it",
                word=EndWord.IMAGE_PULL_FAILED,
                elsewhere=True,
            )
        self._check(wanted, facts)
        return facts

    async def mark(self, image_id: str) -> None:
        """See ``ports.Runtime.mark_image``."""
        await self._call(lambda api: api.tag(image_id, MARK, _tag_of(image_id)))
        self.changed()

    async def remove(self, image_id: str, names: Collection[str]) -> ImageRemoval:
        """See ``ports.Runtime.remove_image``."""
        try:
            return await self._call(lambda api: _remove(api, image_id, names))
        finally:
            self.changed()

    async def layers_there(self, layers: Sequence[str]) -> int:
        """See ``ports.Runtime.layers_there``."""
        if not self.reuses_layers or not layers:
            return 0
        ids = [image.id for image in await self.listing()]
        known = self._layers

        def look(api: APIClient) -> dict[str, tuple[str, ...]]:
            found = {}
            for image_id in ids:
                if image_id not in known:
                    with contextlib.suppress(ImageNotFound, NotFound):
                        root = _inspect(api, image_id).get("RootFS") or {}
                        found[image_id] = tuple(root.get("Layers") or ())
            return found

        known.update(await self._call(look))
        for image_id in set(known).difference(ids):
            del known[image_id]
        return max((_in_common(layers, known[image_id]) for image_id in ids if image_id in known), default=0)

    async def listing(self) -> list[EngineImage]:
        """See ``ports.Runtime.images``."""
        listing = self._listing
        if listing is None:
            listing = [_listed(entry) for entry in await self._call(lambda api: api.images())]
            if self._trusted:
                self._listing = listing
        return listing

    async def _look(self, wanted: WantedImage) -> LocalImage | None:
        def look(api: APIClient) -> dict[str, Any] | None:
            for name in _names(wanted):
                with contextlib.suppress(ImageNotFound, NotFound):
                    return _inspect(api, name)
            return None

        try:
            found = await self._engine.call(look)
        except APIError as error:
            raise RuntimeRefused(
                f"{wanted.name} is not a valid name of an image: {text_of(error)}", word=EndWord.IMAGE_NOT_FOUND
            ) from error
        if found is None or (wanted.source is ImageSource.UNKNOWN and not self._for_all(wanted, found)):
            return None
        return image_facts(found)

    def _for_all(self, wanted: WantedImage, found: Mapping[str, Any]) -> bool:
        """Whether people of the machine gave the image that name, and jobs may use their images."""
        return is_named(wanted, found) and (self._local or came_from_registry(wanted.name, found))

    def _slow(self, wanted: WantedImage, error: EngineUnavailable, asks_for: str = "") -> HeadwayError:
        if isinstance(error.__cause__, requests.Timeout):
            text = "timeout: no progress for minutes"
            return pull_refusal(text, node=self._node, image=wanted.name, asks_for=asks_for)
        return error

    async def _by_name(self, name: str) -> LocalImage | None:
        try:
            return image_facts(await self._engine.call(lambda api: _inspect(api, name)))
        except APIError:
            return None

    async def _call(self, work: Callable[[APIClient], T]) -> T:
        try:
            return await self._engine.call(work)
        except APIError as error:
            raise EngineUnavailable(f"The container engine answered: {text_of(error)}") from error

    def _check(self, wanted: WantedImage, facts: LocalImage) -> None:
        if self.architecture and facts.architecture and facts.architecture != self.architecture:
            raise RuntimeRefused(
                f"The image {wanted.name} is for {facts.architecture} machines, but {self._node} is "
                f"{self.architecture}",
                word=EndWord.IMAGE_BAD,
            )


def image_facts(found: Mapping[str, Any]) -> LocalImage:
    """The facts in the engine's answer about one image."""
    config = found.get("Config") or {}
    return LocalImage(
        id=str(found["Id"]),
        env=tuple(config.get("Env") or ()),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        cmd=tuple(config.get("Cmd") or ()),
        working_dir=config.get("WorkingDir") or "",
        user=config.get("User") or "",
        architecture=found.get("Architecture") or "",
    )


def came_from_registry(image: str, found: Mapping[str, Any]) -> bool:
    """Whether the engine got the image from the name's registry, and not from a person on the machine."""
    repository, _ = parse_repository_tag(image)
    return any(entry.partition("@")[0] == repository for entry in found.get("RepoDigests") or ())


def is_named(wanted: WantedImage, found: Mapping[str, Any]) -> bool:
    """Whether people gave the image exactly this name.

    Engines find images by parts of their id too. Headway's own images have a mark and a digest, which don't say who may
    use them.
    """
    repository = wanted.repository
    tags = found.get("RepoTags") or ()
    _name, at, digest = wanted.name.partition("@")
    if repository == MARK:
        return False
    if at:
        digests = found.get("RepoDigests") or ()
        return f"{repository}@{digest}" in digests and _mark_of(str(found["Id"])) not in tags
    _repository, tag = parse_repository_tag(wanted.name)
    return f"{repository}:{tag or 'latest'}" in tags


def removal(found: Mapping[str, Any], names: Collection[str]) -> tuple[list[str], bool]:
    """Which names to remove from an image, Headway's mark last, and whether it has no others."""
    image_id = str(found["Id"])
    mark = _mark_of(image_id)
    has = [*(found.get("RepoDigests") or ()), *(found.get("RepoTags") or ())]
    has = [name for name in has if not name.startswith(("<none>", f"{MARK}@"))]
    others = [name for name in has if name != mark and name not in names]
    if others:
        return [mark] if mark in has else [], False
    # An earlier removal may have taken its mark and stopped: then it is removed by its id.
    return [*(name for name in has if name != mark), mark if mark in has else image_id], True


def _remove(api: APIClient, image_id: str, names: Collection[str]) -> ImageRemoval:
    try:
        found = _inspect(api, image_id)
    except (ImageNotFound, NotFound):
        return ImageRemoval.GONE
    order, goes = removal(found, names)
    for name in order:
        try:
            # Never by force, and never its parents: only what Headway fetched, and nothing that a container needs.
            api.remove_image(name, force=False, noprune=True)
        except (ImageNotFound, NotFound):
            continue
        except APIError as error:
            if error.status_code != 409:
                raise
            log.info("image.in_use", image=image_id, reason=text_of(error))
            return ImageRemoval.IN_USE
    return ImageRemoval.GONE if goes else ImageRemoval.KEPT


def _remove_unexpected(api: APIClient, made: Collection[str]) -> None:
    """Remove images without a name that a load should not have made."""
    for image_id in made:
        with contextlib.suppress(APIError):
            found = _inspect(api, image_id)
            if not found.get("RepoTags") and not found.get("RepoDigests"):
                api.remove_image(image_id, force=False, noprune=True)


def _listed(entry: Mapping[str, Any]) -> EngineImage:
    tags = [tag for tag in entry.get("RepoTags") or () if not tag.startswith("<none>")]
    digests = [name for name in entry.get("RepoDigests") or () if not name.startswith(("<none>", f"{MARK}@"))]
    mark = _mark_of(str(entry["Id"]))
    return EngineImage(
        id=str(entry["Id"]),
        names=tuple(tag for tag in tags if tag != mark),
        repo_digests=tuple(digests),
        size_bytes=int(entry.get("Size") or 0),
        marked=mark in tags,
    )


def _names(wanted: WantedImage) -> tuple[str, ...]:
    """The names by which the engine may have it. With a digest only that counts."""
    if wanted.source in (ImageSource.MARKET, ImageSource.ENGINE):
        return (wanted.digest,)
    return (wanted.key,)


def _login(credentials: RegistryCredentials | None) -> dict[str, str] | None:
    return {"username": credentials.username, "password": credentials.password} if credentials else None


def _mark_of(image_id: str) -> str:
    return f"{MARK}:{_tag_of(image_id)}"


def _tag_of(image_id: str) -> str:
    return image_id.partition(":")[2]


def _in_common(some: Sequence[str], others: Sequence[str]) -> int:
    """How many of the first elements are equal."""
    count = 0
    for one, other in zip(some, others, strict=False):
        if one != other:
            break
        count += 1
    return count


def _inspect(api: APIClient, name: str) -> dict[str, Any]:
    found: dict[str, Any] = api.inspect_image(name)  # type: ignore[no-untyped-call]
    return found
