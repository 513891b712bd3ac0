"""What the names in a job mean at the moment of its submit: images, datasets, code, secrets.

An image's name is looked up in the image market, then on the nodes' engines, then in the registry that it names. All
attempts of the task run the digest that was found, whatever becomes of the name. If nobody knows the digest, the name
stays a name and the user gets a warning. A name that surely exists nowhere is refused before anything is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import resource_manager_pb2 as rm

from ..auth.model import Account
from ..code.ports import CodeFinder
from ..datasets.ports import DatasetFinder, PinnedVersion
from ..market.ports import ImageFinder
from ..market.ports import ResolvedMarketImage as OfMarket
from ..registries import manifests, names
from ..registries.failure import RegistryFailure
from ..registries.manifests import ImageFacts
from ..registries.names import ImageName
from ..registries.service import ResolvedRegistryImage as OfRegistry
from ..secrets.store import SecretFacts
from ..text import near_names
from ..text.near_names import Hint
from ..uses.service import Ref
from .engine_images import EngineImages, ImageOnEngines
from .job_names import JobNames, UnknownName
from .secret_names import unfit_secrets

T = TypeVar("T")

_AT_ONCE = 32
_HINTED = 20  # so many names are compared with those that there are
_NAMES_COMPARED = 2000
_NODES_NAMED = 5
_WARNINGS = 20


class RegistryResolver(Protocol):
    """Implemented by ``registries.service.Registries``."""

    @property
    def asks(self) -> bool:
        """Whether registries are asked at all."""

    async def resolve(
        self, account: str, names: Iterable[ImageName], architectures: Sequence[str]
    ) -> Mapping[ImageName, OfRegistry | RegistryFailure]:
        """All names at once, in bounded time; never raises for what a registry does."""


class SecretFinder(Protocol):
    """Implemented by ``secrets.service.Secrets``."""

    async def of(self, account: str) -> Sequence[SecretFacts]:
        """What may be shown of an account's secrets."""


@dataclass(frozen=True, slots=True)
class ImagePin:
    """What an image's name means.

    Without a source nobody knew the content, or whether this account may have it. Then the worker asks again where the
    task runs. A digest without a source is the one that was written.
    """

    digest: str = ""
    source: common.ImageSource = common.IMAGE_SOURCE_UNKNOWN
    architecture: str = ""
    require_cuda: str = ""
    bytes: int = 0  # unpacked; 0: not known
    nodes: tuple[str, ...] = ()  # whose engine has it already
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Pins:
    """What the names of a job mean, and which of them mean nothing."""

    images: Mapping[str, ImagePin] = field(default_factory=dict)
    datasets: Mapping[str, PinnedVersion] = field(default_factory=dict)
    unknown: tuple[UnknownName, ...] = ()

    @property
    def warnings(self) -> list[str]:
        """A sentence for each image that may be another one when the task starts, as far as people read on."""
        warnings = [pin.warning for pin in self.images.values() if pin.warning]
        if len(warnings) > _WARNINGS:
            return [*warnings[:_WARNINGS], f"{len(warnings) - _WARNINGS} more images could not be looked up either."]
        return warnings

    def refs(self, account: str, wanted: JobNames) -> list[Ref]:
        """What must not be deleted while the job lives."""
        images = {pin.digest for pin in self.images.values() if pin.source == common.IMAGE_SOURCE_MARKET}
        return [
            *(Ref("image", digest) for digest in sorted(images)),
            *(Ref("dataset", f"{name}@{version}") for name, version in sorted(set(self.datasets.values()))),
            *(Ref("code", f"{account}/{digest}") for digest in wanted.code),
        ]

    def put_into(self, spec: common.TaskSpec) -> None:
        """Writes them into one task."""
        pin = self.images.get(spec.image)
        if pin is not None and pin.digest:
            spec.image_digest = pin.digest
            spec.image_source = pin.source
            spec.image_architecture = pin.architecture
            spec.image_require_cuda = pin.require_cuda
            spec.image_bytes = pin.bytes
        for reference in spec.datasets:
            if (found := self.datasets.get(reference)) is not None:
                spec.dataset_pins.add(name=found.name, version=found.version)


class Pinning:
    """See the module. A market that is None is not asked.

    ``nodes`` answers the last reports of all nodes. ``fetch_nodes`` asks the nodes, for a name that is nowhere else.
    """

    def __init__(
        self,
        nodes: Callable[[], Sequence[rm.Node]],
        registries: RegistryResolver,
        *,
        fetch_nodes: Callable[[], Awaitable[Sequence[rm.Node]]] | None = None,
        market: ImageFinder | None = None,
        datasets: DatasetFinder | None = None,
        code: CodeFinder | None = None,
        secrets: SecretFinder | None = None,
    ) -> None:
        self._nodes = nodes
        self._registries = registries
        self._fetch_nodes = fetch_nodes
        self._market = market
        self._datasets = datasets
        self._code = code
        self._secrets = secrets

    async def pin(self, account: Account, wanted: JobNames) -> Pins:
        """Everything at once; each distinct name is looked up once.

        Raises:
            MountUnavailable: nobody knows whether a dataset or code is there.
        """
        (images, unknown_images), (datasets, unknown_datasets), unknown_code, unknown_secrets = await asyncio.gather(
            self._pin_images(account, wanted.images),
            self._pin_datasets(account, wanted.datasets),
            self._look_for_code(account, wanted.code),
            self._look_for_secrets(account, wanted),
        )
        return Pins(images, datasets, (*unknown_images, *unknown_datasets, *unknown_code, *unknown_secrets))

    async def image(self, account: Account | None, name: str) -> tuple[ImagePin, UnknownName | None]:
        """One image; an account that is None has nothing of its own."""
        pins, unknown = await self._pin_images(account, (name,))
        return pins.get(name, ImagePin()), unknown[0] if unknown else None

    # -- images ---------------------------------------------------------------------------------

    async def _pin_images(
        self, account: Account | None, wanted: Sequence[str]
    ) -> tuple[dict[str, ImagePin], list[UnknownName]]:
        pins: dict[str, ImagePin] = {}
        if self._market is not None and account is not None:
            market = self._market
            for name, image in zip(wanted, await _each(wanted, lambda name: market.find(account, name)), strict=True):
                if image is not None:
                    pins[name] = of_market(image)
        engines = EngineImages(self._nodes())
        left = {name: names.parse(name) for name in wanted if name not in pins}
        if not engines:
            # Nothing really runs here (yet): neither pins nor warnings would mean anything.
            return {**pins, **dict.fromkeys(left, ImagePin())}, []
        asked: dict[str, tuple[ImageName, ImageOnEngines | None]] = {}
        unknown: list[UnknownName] = []
        for name, parsed in left.items():
            if parsed is None or parsed.registry == names.OWN_REGISTRY:
                unknown.append(_no_name(name, parsed))
                continue
            found = engines.find(parsed)
            if found is None or must_ask(found):
                asked[name] = (parsed, found)
            else:
                pins[name] = of_engines(name, parsed, found)
        answers: Mapping[ImageName, OfRegistry | RegistryFailure] = {}
        if self._registries.asks:
            parsed_names = [parsed for name, (parsed, _) in asked.items() if not names.looks_like_id(name)]
            answers = await self._registries.resolve(
                account.name if account else "", parsed_names, engines.architectures
            )
        if self._fetch_nodes and any(
            found is None and not isinstance(answers.get(parsed), OfRegistry) for parsed, found in asked.values()
        ):
            # Somebody may have built it there just now.
            engines = EngineImages(await self._fetch_nodes()) or engines
            asked = {name: (parsed, found or engines.find(parsed)) for name, (parsed, found) in asked.items()}
        for name, (parsed, found) in asked.items():
            decided = decide(name, parsed, found, answers.get(parsed), engines)
            if isinstance(decided, UnknownName):
                unknown.append(decided)
            else:
                pins[name] = decided
        lost = [name.word for name in unknown] + [name for name, pin in pins.items() if pin.warning and not pin.nodes]
        hints = await self._hints(account, lost[:_HINTED], engines)
        for name in hints.keys() & pins.keys():
            pins[name] = replace(pins[name], warning=_with(pins[name].warning, hints[name]))
        return pins, [_hinted(name, hints) for name in unknown]

    async def _hints(self, account: Account | None, lost: Sequence[str], engines: EngineImages) -> dict[str, Hint]:
        """What may have been meant by images that are not found, among what the account may see."""
        if not lost:
            return {}
        hints: dict[str, Hint] = {}
        known = engines.names()[:_NAMES_COMPARED]
        if self._market is not None and account is not None:
            for name in lost:
                found = await self._market.tagged(account, name)
                if found is not None:
                    hints[name] = near_names.tag(name, found)
            known = [*await self._market.names(account, _NAMES_COMPARED), *known]
        own = account.name if account is not None else ""

        def compare() -> None:
            for name in lost:
                if not hints.get(name, Hint()).sentence:
                    hints[name] = near_names.image(name, known, own)

        await asyncio.to_thread(compare)
        return hints

    # -- datasets and code ----------------------------------------------------------------------

    async def _pin_datasets(
        self, account: Account, wanted: Sequence[str]
    ) -> tuple[dict[str, PinnedVersion], list[UnknownName]]:
        if self._datasets is None:
            return {}, []
        datasets = self._datasets
        found = await _each(wanted, lambda name: datasets.find(account, name))
        pins = {name: pin for name, pin in zip(wanted, found, strict=True) if pin is not None}
        unknown = [
            UnknownName("datasets", name, f"There is no dataset `{name}` that you may use.")
            for name in wanted
            if name not in pins
        ]
        if not unknown:
            return pins, []
        usable = await datasets.usable(account)
        lost = [name.word for name in unknown[:_HINTED]]
        hints = await asyncio.to_thread(lambda: {name: near_names.dataset(name, usable) for name in lost})
        return pins, [_hinted(name, hints) for name in unknown]

    async def _look_for_code(self, account: Account, wanted: Sequence[str]) -> list[UnknownName]:
        if self._code is None:
            return []
        code = self._code
        found = await _each(wanted, lambda digest: code.find(account, digest))
        return [
            UnknownName("code", digest, f"There is no snapshot of code {digest}: upload it (again) before the job.")
            for digest, there in zip(wanted, found, strict=True)
            if not there
        ]

    async def _look_for_secrets(self, account: Account, wanted: JobNames) -> list[UnknownName]:
        """Only that they are there: the value that counts is the one at the start."""
        if self._secrets is None or not wanted.secrets:
            return []
        return unfit_secrets(await self._secrets.of(account.name), wanted)


def must_ask(found: ImageOnEngines) -> bool:
    """Whether the registry has the better answer, though engines have the image.

    What Headway itself fetched for one account is not everybody's: the registry is asked whether this account may have
    it. And where machines hold several states of one name, the registry's is the one that counts.
    """
    return found.of_registry and (found.fetched_by_headway or not found.digest)


def decide(
    name: str,
    parsed: ImageName,
    found: ImageOnEngines | None,
    answer: OfRegistry | RegistryFailure | None,
    engines: EngineImages,
) -> ImagePin | UnknownName:
    """What a name means for which the registry was to be asked; ``answer`` None: this installation asks none."""
    if isinstance(answer, OfRegistry):
        return of_registry(answer, engines.architectures)
    if answer is not None and answer.definite and (found.fetched_by_headway if found else engines.all_reported):
        return _nowhere(name, engines, answer.message)
    if found is None and names.looks_like_id(name):
        return _nowhere(name, engines, "Images are run by their names, not by their ids.")
    if found is not None and not (found.of_registry and found.fetched_by_headway):
        return of_engines(name, parsed, found)
    return not_pinned(name, parsed, answer, there=found is not None)


def of_market(image: OfMarket) -> ImagePin:
    """The pin of an image of the market."""
    return ImagePin(
        digest=image.digest,
        source=common.IMAGE_SOURCE_MARKET,
        architecture=image.info.architecture,
        require_cuda=image.info.require_cuda,
        bytes=image.info.size_bytes,
    )


def of_engines(name: str, parsed: ImageName, found: ImageOnEngines) -> ImagePin:
    """The pin of what engines have, or a warning if they have different things."""
    if not found.digest:
        machines = ", ".join(found.nodes[:_NODES_NAMED]) + (" and others" if len(found.nodes) > _NODES_NAMED else "")
        return ImagePin(
            nodes=found.nodes,
            warning=f"The machines {machines} have different images under the name `{name}`, so which one runs depends "
            "on the machine: put the right one in the image market, or name it by its digest.",
        )
    source = common.IMAGE_SOURCE_REGISTRY if found.of_registry else common.IMAGE_SOURCE_ENGINE
    return ImagePin(digest=parsed.digest or found.digest, source=source, bytes=found.bytes, nodes=found.nodes)


def of_registry(answer: OfRegistry, architectures: Sequence[str]) -> ImagePin:
    """The pin of an image that is fetched from its registry."""
    facts: ImageFacts = answer.facts
    return ImagePin(
        digest=answer.digest,
        source=common.IMAGE_SOURCE_REGISTRY,
        architecture=manifests.architecture_for(facts.architectures, architectures),
        require_cuda=facts.require_cuda,
    )


def not_pinned(name: str, parsed: ImageName, failure: RegistryFailure | None, *, there: bool) -> ImagePin:
    """What is known of an image whose registry did not answer, or was not asked.

    ``there``: Headway fetched it to a node for some account. The worker asks the registry for this account then.
    """
    if failure is None:
        return ImagePin(digest=parsed.digest, warning="" if there else _not_asked(name))
    if parsed.digest:
        # The digest was written, so a failed look-up changes nothing about it.
        warning = f"Headway could not check whether the image `{name}` exists: {failure.message}"
        return ImagePin(digest=parsed.digest, warning=warning)
    return ImagePin(
        warning=f"No machine has the image `{name}` yet, and its digest could not be looked up now: {failure.message} "
        "It is looked up when the task starts, which takes time and can fail."
    )


def _not_asked(name: str) -> str:
    return (
        f"No machine has the image `{name}` yet: it is fetched from its registry when the task starts, which takes "
        "time and can fail."
    )


def _no_name(name: str, parsed: ImageName | None) -> UnknownName:
    if parsed is None:
        return UnknownName("image", name, f"{name!r} is not an image's name.")
    sentence = f"`{name}` is Headway's own name for an image on its machines: write the name that the image market "
    return UnknownName("image", name, f"{sentence}or its registry knows it by.")


def _nowhere(name: str, engines: EngineImages, why: str) -> UnknownName:
    machines = "the machine doesn't have it" if len(engines) == 1 else "no machine has it"
    sentence = f"There is no image `{name}`: you see none of that name in the image market, and {machines}."
    return UnknownName("image", name, f"{sentence} {why}")


def _hinted(unknown: UnknownName, hints: Mapping[str, Hint]) -> UnknownName:
    hint = hints.get(unknown.word, Hint())
    return replace(unknown, message=_with(unknown.message, hint), suggestion=hint.suggestion)


def _with(sentence: str, hint: Hint) -> str:
    return f"{sentence} {hint.sentence}".rstrip()


async def _each(wanted: Sequence[str], look: Callable[[str], Awaitable[T]]) -> list[T]:
    """Some at a time: ten thousand different names must not take everybody's turn."""
    out: list[T] = []
    for start in range(0, len(wanted), _AT_ONCE):
        out += await asyncio.gather(*(look(name) for name in wanted[start : start + _AT_ONCE]))
    return out
