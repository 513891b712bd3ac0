"""NVML in the one thread that uses it: what is there, and what tells whether it is well."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pynvml

from headway.logs import get_logger
from headway.model.gpu_faults import GpuFaultWord

from ...ports import GpuInventory, GpuReading
from . import cards
from .events import XidEvents
from .health import CardFacts
from .kernel_files import KernelCard, kernel_cards, may_use, same_bus
from .loading import load_anew

log = get_logger(__name__)

NAMELESS = "GPU-unreadable-"  # how the made-up UUID of a card begins whose own is not known


@dataclass(frozen=True, slots=True)
class Look:
    """What the driver told. ``known`` are identities of cards and slices by UUID, and ``facts`` their health.

    A card with slices is in both, and only its slices are in the inventory.
    """

    inventory: GpuInventory
    known: Mapping[str, GpuReading] = field(default_factory=dict)
    facts: Mapping[str, CardFacts] = field(default_factory=dict)


@dataclass(slots=True)
class _Found:
    """What one reading has found so far."""

    gpus: list[GpuReading] = field(default_factory=list)
    known: dict[str, GpuReading] = field(default_factory=dict)
    facts: dict[str, CardFacts] = field(default_factory=dict)
    handles: list[tuple[str, Any]] = field(default_factory=list)  # of whole cards

    def add(self, reading: GpuReading, facts: CardFacts, *, shown: bool = True) -> None:
        self.known[reading.uuid] = bare(reading)
        self.facts[reading.uuid] = facts
        if shown:
            self.gpus.append(reading)


@dataclass(frozen=True, slots=True)
class _Unread:
    """A card of which the driver can't tell all. Empty: not known."""

    index: int
    uuid: str
    pci_bus_id: str
    facts: CardFacts


class NvmlLibrary:
    """See the module. Belongs to one thread."""

    def __init__(
        self,
        kernel: Callable[[], Sequence[KernelCard]] = kernel_cards,
        may_use: Callable[[KernelCard], bool] = may_use,
    ) -> None:
        self._kernel = kernel
        self._may_use = may_use
        self._ready = False
        self._logged = ""
        self._nameless: set[str] = set()
        self._events = XidEvents()
        self._links: tuple[tuple[str, ...], dict[str, tuple[str, ...]]] = ((), {})
        self._sampled: dict[str, tuple[Any, GpuReading]] = {}  # handle and identity

    def read(self, known: Sequence[GpuReading] = ()) -> Look:
        """All GPUs. ``known`` are the cards and slices of before. Never raises."""
        try:
            self._start()
            look = self._read(known)
        except pynvml.NVMLError as error:
            return Look(self._without(error, bool(known)))
        self._log_change("", expected=True)
        return look

    def sample(self, uuids: Sequence[str]) -> dict[str, GpuReading]:
        """The readings of these GPUs alone, without those that can't be read now. Never raises."""
        found = {}
        for uuid in uuids:
            try:
                if uuid not in self._sampled:
                    self._start()
                    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                    index = cards.or_none(pynvml.nvmlDeviceGetIndex, handle)
                    self._sampled[uuid] = handle, cards.identity(handle, -1 if index is None else index)
                found[uuid] = cards.readings(*self._sampled[uuid])
            except pynvml.NVMLError:
                self._sampled.pop(uuid, None)  # perhaps the driver was loaded anew
        return found

    def _start(self) -> None:
        if self._ready:
            return
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError_LibRmVersionMismatch:
            if not load_anew():
                raise
            pynvml.nvmlInit()
        self._ready = True

    def _read(self, known: Sequence[GpuReading]) -> Look:
        found, unread = _Found(), []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = None
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                self._add_card(found, handle, index)
            except pynvml.NVMLError as error:
                if self._driver_failed():
                    raise
                uuid = "" if handle is None else cards.text(cards.or_none(pynvml.nvmlDeviceGetUUID, handle))
                bus = "" if handle is None else cards.pci_bus_id(handle)
                unread.append(_Unread(index, uuid, bus, cards.unreadable(error)))
        self._add_unread(found, unread, known)
        self._events.watch(found.handles)
        for uuid, xids in self._events.look().items():
            found.facts[uuid] = replace(found.facts.get(uuid, CardFacts(listed=False)), xids=xids)
        linked = self._linked(found.handles)
        gpus = [replace(gpu, linked_uuids=linked.get(gpu.uuid, ())) for gpu in found.gpus]
        inventory = GpuInventory(
            tuple(sorted(gpus, key=lambda gpu: gpu.index)),
            driver_version=cards.text(cards.or_none(pynvml.nvmlSystemGetDriverVersion)),
            cuda_version=cuda_version(cards.or_none(pynvml.nvmlSystemGetCudaDriverVersion) or 0),
        )
        return Look(inventory, found.known, found.facts)

    def _add_card(self, found: _Found, handle: Any, index: int) -> None:
        """Raises NVMLError, and then has added nothing."""
        card = cards.reading(handle, index)
        facts = cards.facts(handle, card.temperature_c)
        found.handles.append((card.uuid, handle))
        if not cards.is_sliced(handle):
            found.add(card, facts)
            return
        parts = cards.slices(handle, card)
        whole = replace(card, sick=True, note=cards.WITHOUT_SLICES)
        found.add(whole, facts, shown=not parts)
        for part, of_part in parts:
            found.add(part, of_part)

    def _add_unread(self, found: _Found, unread: Sequence[_Unread], known: Sequence[GpuReading]) -> None:
        """Cards that can't be read are shown all the same: as what they were, or as what the kernel says of them."""
        left = [card for card in known if not card.parent_uuid and card.uuid not in found.known]
        of_kernel = [card for card in self._kernel() if not _is_there(card, found.known.values())]
        for one in unread:
            before = _recognised(one, left)
            if before is not None:
                left.remove(before)
                of_kernel = [card for card in of_kernel if not _is_there(card, [before])]
                found.add(replace(before, index=one.index), one.facts)
                continue
            card = next((card for card in of_kernel if same_bus(card.pci_bus_id, one.pci_bus_id)), None)
            if card is None and len(of_kernel) == 1:
                card = of_kernel[0]
            if card is not None:
                of_kernel.remove(card)
            self._add_nameless(found, one, card)
        for card in of_kernel:
            # The driver knows of it, and NVML does not list it: it could not be started.
            if not _is_there(card, known) and self._may_use(card):
                why = CardFacts(unreadable="the driver could not start it")
                self._add_nameless(found, _Unread(len(found.gpus), "", card.pci_bus_id, why), card)

    def _add_nameless(self, found: _Found, one: _Unread, card: KernelCard | None) -> None:
        """A card that was never read. What is not known of it is taken from its neighbours, if they are all alike."""
        alike = {(gpu.model, gpu.memory_bytes) for gpu in found.gpus if not gpu.sick}
        model, memory_bytes = alike.pop() if len(alike) == 1 else ("", 0)
        if card is not None and card.model and card.model != model:
            model, memory_bytes = card.model, 0
        bus = one.pci_bus_id or (card.pci_bus_id if card is not None else "")
        uuid = one.uuid or (card.uuid if card is not None else "")
        gpu = GpuReading(uuid or f"{NAMELESS}{bus or one.index}", model or "unknown", memory_bytes, one.index, bus)
        if uuid:
            found.add(gpu, one.facts)
            return
        # Its UUID may be any, so nothing is remembered of it.
        word = GpuFaultWord.OFF_THE_BUS if one.facts.lost else GpuFaultWord.UNREADABLE
        note = f"{word.facts.what} ({one.facts.unreadable})"
        if gpu.uuid not in self._nameless:
            self._nameless.add(gpu.uuid)
            log.warning("gpu.unreadable", index=one.index, bus=bus, reason=one.facts.unreadable)
        found.gpus.append(replace(gpu, sick=True, note=note, fault=word.value))

    def _linked(self, handles: Sequence[tuple[str, Any]]) -> dict[str, tuple[str, ...]]:
        """Asked anew when other cards are there: it takes a call for each pair."""
        uuids = tuple(uuid for uuid, _ in handles)
        if self._links[0] != uuids:
            self._links = uuids, cards.links(handles)
        return self._links[1]

    def _driver_failed(self) -> bool:
        """Whether the driver as a whole fails, and not one card."""
        try:
            pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError:
            return True
        return False

    def _without(self, error: pynvml.NVMLError, known: bool) -> GpuInventory:
        """No GPUs, and why. A machine that never had any is no problem."""
        self._sampled.clear()
        if self._ready:
            self._events.close()
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
            self._ready = False
        missing = isinstance(error, pynvml.NVMLError_LibraryNotFound)
        what = "NVIDIA's library is not installed" if missing else f"NVIDIA's driver says: {error}"
        if isinstance(error, pynvml.NVMLError_LibRmVersionMismatch):
            # It was updated while its old modules are loaded.
            what += ". An admin has to restart the machine, or load the driver's modules anew"
        expected = not known and (missing or isinstance(error, pynvml.NVMLError_DriverNotLoaded))
        self._log_change(what, expected=expected)
        return GpuInventory(problem="" if expected else f"The GPUs of this machine can't be read. {what}.")

    def _log_change(self, why: str, *, expected: bool) -> None:
        """Log a line for a change, not one every few seconds."""
        if why and why != self._logged:
            write = log.info if expected else log.warning
            write("gpu.none", reason=why)
        self._logged = why


def bare(gpu: GpuReading) -> GpuReading:
    """Its identity without readings."""
    return GpuReading(gpu.uuid, gpu.model, gpu.memory_bytes, gpu.index, gpu.pci_bus_id, parent_uuid=gpu.parent_uuid)


def cuda_version(number: int) -> str:
    """12040 is 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _recognised(one: _Unread, left: Sequence[GpuReading]) -> GpuReading | None:
    """Which of the cards that are left it is: by its UUID, its place on the bus, its number, or as the only one."""
    for is_it in (
        lambda card: bool(one.uuid) and card.uuid == one.uuid,
        lambda card: same_bus(card.pci_bus_id, one.pci_bus_id),
    ):
        found = next((card for card in left if is_it(card)), None)
        if found is not None:
            return found
    if one.uuid or one.pci_bus_id:
        return None  # it is another one
    return next((card for card in left if card.index == one.index), left[0] if len(left) == 1 else None)


def _is_there(card: KernelCard, gpus: Any) -> bool:
    return any(card.uuid == gpu.uuid or same_bus(card.pci_bus_id, gpu.pci_bus_id) for gpu in gpus)
