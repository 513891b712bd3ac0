"""Finds out whether the engine can give GPUs to containers, by trying."""

from __future__ import annotations

import asyncio
import contextlib
import io
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import requests
from docker import APIClient
from docker.errors import APIError

from headway.backoff import Backoff
from headway.logs import get_logger
from headway.model.reasons import EndWord

from ..ports import EngineUnavailable, RuntimeRefused
from .docker_engine import DockerEngine
from .docker_errors import engine_in_trouble, text_of
from .docker_gpu_ways import GpuWays
from .gpu_faults import GpuFault, GpuFaultKind, gpu_fault, hangs, no_gpu_offered
from .gpu_ways import GivenGpus, GpuWay

log = get_logger(__name__)

_WAIT_S = 3.0
_FIRST_WAIT_S = 10.0  # a node that joins without GPUs would move promised starts
_HANG_S = 5.0  # a start that got no answer sooner met another fault
_FIRST_AGAIN_S, _AGAIN_S = 5.0, 60.0
_IMAGE = "headway/gpu-probe"
_HANGS = "it hangs"
_NOT_ASKED = "The container engine has not been asked yet whether it can give GPUs to containers."


def _nobody(sentence: str) -> None:
    pass


class GpuProbe:
    """Knows whether containers of this engine are given GPUs, and which cards they are not given.

    No call of the engine tells that. So a container is made that asks for GPUs and has no program to run. The engine's
    complaint about one of the two is the answer. It is made after each start of the engine, and after each start of a
    task that was not given its GPUs. While something is wrong it is made from time to time.

    Of the ways that the machine may have, the first that works is used. One that the machine lacks is passed over. One
    that is there and broken is not: an admin should mend it.
    """

    def __init__(
        self,
        engine: DockerEngine,
        node: str,
        key: str,
        *,
        tell: Callable[[str], None] = _nobody,
        ways: GpuWays | None = None,
    ) -> None:
        """``key`` names what belongs to this Worker. ``tell`` is told the condition, and "" when it is over."""
        self._engine = engine
        self.ways = ways or GpuWays(node)
        self._node = node
        self._name = f"headway-gpu-probe-{key}"
        self._image = f"{_IMAGE}-{key}:1"
        self.tell = tell
        self._asked = False
        self._fault: GpuFault | None = None
        self._cards: dict[str, GpuFault] = {}
        self._uuids: tuple[str, ...] = ()
        self._again = Backoff(_FIRST_AGAIN_S, _AGAIN_S)
        self._good_until = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._in_turn = asyncio.Lock()

    def forget(self) -> None:
        """The engine did not answer, and may have other settings now."""
        self._good_until = float("-inf")

    async def problem(self) -> str:
        """Why it can't, in one sentence. Empty: it can. The last answer counts while there is no new one."""
        if time.monotonic() >= self._good_until and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())
        if self._looking is not None and not self._looking.done():
            await asyncio.wait({self._looking}, timeout=_WAIT_S if self._asked else _FIRST_WAIT_S)
        return self._sentence()

    def passing(self) -> str:
        """The way in which containers are given GPUs. Empty: in none, or it is not known yet."""
        return self.ways.chosen.value if self._asked and self._fault is None else ""

    def given(self, uuids: Sequence[str]) -> GivenGpus:
        """What a container gets that has exactly these GPUs. ``refusal`` says whether it may be made."""
        return self.ways.given(uuids)

    def cards(self, uuids: Sequence[str]) -> Mapping[str, str]:
        """Why single cards can't be given to containers, by their UUIDs. ``uuids`` are all that the machine has."""
        self._uuids = tuple(uuids)
        self._cards = {uuid: fault for uuid, fault in self._cards.items() if uuid in self._uuids}
        return {uuid: f"{fault.sentence}." for uuid, fault in self._cards.items()}

    def refusal(self, uuids: Sequence[str]) -> RuntimeRefused | None:
        """Why no container with these GPUs can be started now. None: as far as is known, it can."""
        if not uuids:
            return None
        fault = self._fault or next((self._cards[uuid] for uuid in uuids if uuid in self._cards), None)
        if fault is None and (fault := self.ways.fault(self.ways.chosen, uuids)) is not None:
            self.forget()  # a card that came or went since the last look
        return fault.refusal(of_node=True) if fault is not None else None

    async def judged(self, refusal: RuntimeRefused, uuids: Sequence[str]) -> RuntimeRefused:
        """The refusal of a container with these GPUs, after a look at who is at fault.

        A container without anybody's image tells the machine's fault from the image's.
        """
        cause = refusal.__cause__
        if not uuids or refusal.word is not EndWord.GPU_FAILED or not isinstance(cause, APIError):
            return refusal
        fault = gpu_fault(text_of(cause), self._node)
        if fault is None:
            return refusal
        try:
            return await self._found(fault, uuids)
        except (EngineUnavailable, APIError) as error:
            log.warning("gpu.probe_failed", reason=str(error))
            return refusal

    async def hung(self, uuids: Sequence[str], took_s: float) -> RuntimeRefused | None:
        """What to say of a start with these GPUs that got no answer. None: it may work yet."""
        if not uuids or took_s < min(_HANG_S, self._engine.timeout_s):
            return None
        try:
            await self._engine.quick(lambda api: api.version())
            refusal = await self._found(GpuFault(GpuFaultKind.NODE, hangs(self._node)), uuids)
        except (EngineUnavailable, APIError):
            return None
        return refusal if self.refusal(uuids) is not None else None

    def close(self) -> None:
        """Safe twice."""
        if self._looking is not None:
            self._looking.cancel()
        self.ways.close()

    # -- inside -----------------------------------------------------------------------------------

    async def _found(self, fault: GpuFault, uuids: Sequence[str]) -> RuntimeRefused:
        """What an attempt met, once the machine has been looked at. Raises EngineUnavailable, APIError."""
        async with self._in_turn:
            known = self.refusal(uuids)
            if known is not None:
                return known  # another attempt has just found it out
            found = await self._try(uuids)
            if found is not None and found.kind is GpuFaultKind.UNSURE and fault.kind is not found.kind:
                found = None
            if found is not None and found.kind is GpuFaultKind.CARD:
                fault = await self._fault_of_cards(uuids)
            elif found is not None:
                fault = self._fault = found
            log.warning("gpu.not_given", node_at_fault=self._fault is not None, cards=sorted(self._cards))
            if found is not None:
                self._look_again()
        return fault.refusal()

    async def _look(self) -> None:
        try:
            async with self._in_turn:
                found = await self._choose()
                if found is not None and found.kind is GpuFaultKind.CARD:
                    # One that fails may stand in the way of a container that asks for all.
                    await self._fault_of_cards(self._uuids)
                    found = None if self._uuids else found
                elif found is not None and found.kind is GpuFaultKind.UNSURE:
                    # It may be for want of files in the probe's container, unless a task met the same.
                    same = self._fault is not None and self._fault.kind is found.kind
                    found = found if same else None
                elif found is None and self._cards:
                    await self._fault_of_cards(list(self._cards))
        except (EngineUnavailable, APIError) as error:
            log.warning("gpu.probe_failed", reason=str(error))
            return
        self._fault, self._asked = found, True
        log.info("gpu.probed", problem=self._sentence(), cards=sorted(self._cards), passing=self.passing())
        self._look_again()

    async def _choose(self) -> GpuFault | None:
        """Take the first way that the machine has. What is wrong with it; without any, with the first.

        Raises EngineUnavailable, APIError.
        """
        self.ways.learn(await self._engine.call(lambda api: api.info()))
        await self.ways.look()
        first: GpuFault | None = None
        for way in self.ways.candidates:
            found = await self._try((), way)
            if found is None or not found.absent:
                self.ways.chosen = way
                return found
            first = first or found
        self.ways.chosen = self.ways.candidates[0]
        return first

    def _look_again(self) -> None:
        wrong = self._fault is not None or bool(self._cards)
        if not wrong:
            self._again.reset()
        self._good_until = time.monotonic() + self._again.next_s() if wrong else float("inf")
        self.tell(self._sentence())

    def _sentence(self) -> str:
        if self._fault is not None:
            return no_gpu_offered(self._fault.sentence)
        return "" if self._asked else _NOT_ASKED

    async def _fault_of_cards(self, uuids: Sequence[str]) -> GpuFault:
        """Try each card alone. What is wrong with the last that fails."""
        last = GpuFault(GpuFaultKind.UNSURE, f"{self._node} could not give the GPU to the container")
        for uuid in uuids:
            found = await self._try((uuid,))
            self._cards.pop(uuid, None)
            if found is not None and found.kind is not GpuFaultKind.UNSURE:
                self._cards[uuid] = last = found
        return last

    async def _try(self, uuids: Sequence[str], way: GpuWay | None = None) -> GpuFault | None:
        """What is wrong with the machine for a container of our own with these GPUs, or with all."""
        way, asked = way or self.ways.chosen, uuids or self._uuids
        fault = self.ways.fault(way, asked)
        if fault is None:
            given = self.ways.of_all(way, asked if way is GpuWay.CDI else uuids)
            said = await self._engine.call(lambda api: _start(api, self._name, self._image, given))
            fault = GpuFault(GpuFaultKind.NODE, hangs(self._node)) if said == _HANGS else gpu_fault(said, self._node)
        return None if fault is None or fault.kind is GpuFaultKind.IMAGE else fault


def _start(api: APIClient, name: str, image: str, given: GivenGpus) -> str:
    """What the engine says about a container that is given GPUs. Leaves nothing behind, unless it hangs."""
    try:
        _remove(api, name, image)  # one that hung
    except requests.Timeout:
        return _HANGS
    _make_image(api, image)
    config: dict[str, Any] = {
        "Image": image,
        "Cmd": ["/no-program"],
        "HostConfig": {
            "NetworkMode": "none",
            "LogConfig": {"Type": "none"},
            **given.host,
            **({"Mounts": [dict(mount) for mount in given.mounts]} if given.mounts else {}),
            **({"Runtime": given.runtime} if given.runtime else {}),
        },
    }
    said = "started"
    try:
        container = api.create_container_from_config(config, name)["Id"]  # type: ignore[no-untyped-call]
        api.start(container)
    except APIError as error:
        if engine_in_trouble(error) or error.status_code == 409:
            raise
        said = text_of(error)
    except requests.Timeout:
        api.version()  # an engine that answers nothing hangs itself
        return _HANGS
    _remove(api, name, image)
    return said


def _remove(api: APIClient, name: str, image: str) -> None:
    with contextlib.suppress(APIError):
        api.remove_container(name, v=True, force=True)
    with contextlib.suppress(APIError):
        api.remove_image(image, force=True)


def _make_image(api: APIClient, image: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder = tarfile.TarInfo("etc")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder)
    name, _, tag = image.rpartition(":")
    api.import_image_from_data(buffer.getvalue(), repository=name, tag=tag)
