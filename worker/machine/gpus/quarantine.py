"""Which cards are taken out, and why. It outlives restarts of the Worker."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.clock import Clock
from headway.errors import HeadwayError, NotFound
from headway.logs import get_logger
from headway.model.gpu_faults import fault_of

from ...ports import GpuJournal, GpuReading, GpuReturnAnswer
from .health import CardFacts, CardHealth, HealthRules, judge, returned
from .library import Look, bare

log = get_logger(__name__)


class Quarantine:
    """The machine's cards as they were last known, with their health. Belongs to the event loop."""

    def __init__(self, clock: Clock, rules: HealthRules) -> None:
        self._clock = clock
        self._rules = rules
        self._journal: GpuJournal | None = None
        self._cards: dict[str, GpuReading] = {}
        self._health: dict[str, CardHealth] = {}
        self._listed: Collection[str] = ()  # by the driver, at the last look
        self._stored = ""
        self._failed = False

    async def open(self, journal: GpuJournal) -> None:
        """Take up what was stored. Raises StoreUnavailable."""
        self._journal = journal
        self._stored = await journal.load()
        for card, health in _loaded(self._stored):
            self._cards[card.uuid], self._health[card.uuid] = card, health

    @property
    def known(self) -> tuple[GpuReading, ...]:
        """Identities of all cards and slices."""
        return tuple(self._cards.values())

    def all(self) -> tuple[GpuReading, ...]:
        """What is given out at other times: slices in the place of their cards."""
        parents = {card.parent_uuid for card in self._cards.values()}
        return tuple(card for card in self._cards.values() if card.uuid not in parents)

    def look(self, look: Look) -> tuple[GpuReading, ...]:
        """Judge all cards. The answer is what there is to give out, with the sick ones and those that vanished."""
        self._cards.update(look.known)
        self._listed = look.facts.keys()
        for uuid, card in list(self._cards.items()):
            if (
                uuid not in look.known
                and card.parent_uuid in look.known
                and not look.facts[card.parent_uuid].unreadable
            ):
                self._forget(uuid)  # an admin changes slices
        for uuid, card in self._cards.items():
            if uuid in look.facts:
                self._judge(uuid, look.facts[uuid])
            elif not card.parent_uuid:
                self._judge(uuid, CardFacts(listed=False))
        shown = [self._verdict(gpu) for gpu in self._with_missing(look)]
        return tuple(sorted(shown, key=lambda gpu: gpu.index))

    def driver_fails(self) -> None:
        """Nothing could be looked at."""
        self._listed = ()

    def _with_missing(self, look: Look) -> list[GpuReading]:
        """What was found, and what is not there any more. A card that can't be read is shown as its slices."""
        gpus = list(look.inventory.gpus)
        there = {gpu.uuid for gpu in gpus} | {gpu.parent_uuid for gpu in gpus}
        gpus += [card for card in self._cards.values() if not card.parent_uuid and card.uuid not in there]
        out = []
        for gpu in gpus:
            parts = [card for card in self._cards.values() if card.parent_uuid == gpu.uuid]
            out += parts or [gpu]
        return out

    def _judge(self, uuid: str, facts: CardFacts) -> None:
        before = self._health.get(uuid, CardHealth())
        now, monotonic = self._clock.now(), self._clock.monotonic()
        after = self._health[uuid] = judge(before, facts, at=now, monotonic=monotonic, rules=self._rules)
        if after.fault is not before.fault:
            if after.fault is not None:
                log.warning("gpu.quarantined", gpu=uuid, fault=after.fault, reason=after.note(self._rules))
            else:
                log.info("gpu.returned", gpu=uuid, by="itself")

    def _verdict(self, gpu: GpuReading) -> GpuReading:
        """Sick if it or its card is taken out."""
        for uuid in (gpu.uuid, gpu.parent_uuid):
            health = self._health.get(uuid)
            if health is not None and health.fault is not None:
                note = health.note(self._rules)
                return replace(
                    gpu,
                    sick=True,
                    note=note,
                    fault=health.fault.value,
                    quarantined_since=health.since,
                    comes_back=health.comes_back(self._rules),
                )
        return gpu

    def _forget(self, uuid: str) -> None:
        self._cards.pop(uuid, None)
        self._health.pop(uuid, None)

    def give_back(self, uuid: str, *, gone: bool) -> GpuReturnAnswer:
        """An admin says that a card is good again, or that it is gone for good. Only what is clean comes back.

        Raises:
            NotFound: there is no such card.
        """
        card = self._cards.get(uuid)
        if card is None:
            raise NotFound(_unknown(uuid, self.all()))
        if card.parent_uuid in self._health and self._health[card.parent_uuid].fault is not None:
            uuid = card.parent_uuid
        health = self._health.get(uuid, CardHealth())
        if gone:
            return self._take_off(uuid)
        if health.fault is None:
            return GpuReturnAnswer(True, f"{uuid} is not taken out.")
        if health.unclean:
            return GpuReturnAnswer(False, f"{uuid} stays out: {health.unclean}. {health.fault.facts.advice}")
        self._health[uuid] = returned(health)
        return GpuReturnAnswer(True, f"{uuid} is given out again.")

    def _take_off(self, uuid: str) -> GpuReturnAnswer:
        if uuid in self._listed:
            return GpuReturnAnswer(
                False, f"{uuid} is there, so it stays in the list. Take it out of the machine first."
            )
        for one in [card.uuid for card in self._cards.values() if uuid in (card.uuid, card.parent_uuid)]:
            self._forget(one)
        return GpuReturnAnswer(True, f"{uuid} is no longer in the list.")

    async def store(self) -> None:
        """Write down what has changed. What can't be written is tried again after the next look."""
        text = _dumped((card, self._health.get(card.uuid, CardHealth())) for card in self._cards.values())
        if self._journal is None or text == self._stored:
            return
        try:
            await self._journal.save(text)
        except HeadwayError as error:
            if not self._failed:
                log.warning("gpu.health_not_stored", reason=str(error))
            self._failed = True
            return
        self._stored, self._failed = text, False


def one_use(gpus: Sequence[GpuReading], ours: Collection[str], parents: Mapping[str, str]) -> tuple[GpuReading, ...]:
    """A card is given out whole or in slices, never both at once. Pure.

    ``ours`` are what live attempts have, and ``parents`` the cards of slices, also of those that are gone.
    """
    out = []
    for gpu in gpus:
        note = ""
        if gpu.parent_uuid and gpu.parent_uuid in ours:
            note = "a task still has its whole card"
        elif not gpu.parent_uuid and any(parents.get(uuid) == gpu.uuid for uuid in ours):
            note = "a task still has a slice of it"
        out.append(replace(gpu, sick=True, note=note) if note and not gpu.sick else gpu)
    return tuple(out)


def _unknown(uuid: str, there: Iterable[GpuReading]) -> str:
    names = [gpu.uuid for gpu in there]
    near = difflib.get_close_matches(uuid[:100], names, 3, cutoff=0.0)
    told = f"The nearest are {', '.join(near)}." if near else "This machine has none."
    return f"There is no GPU {uuid[:100]!r} here. {told}"


_IDENTITY = ("uuid", "model", "memory_bytes", "index", "pci_bus_id", "parent_uuid")


def _dumped(cards: Iterable[tuple[GpuReading, CardHealth]]) -> str:
    rows = []
    for card, health in cards:
        row: dict[str, Any] = {name: getattr(card, name) for name in _IDENTITY}
        row["uncorrected"] = health.uncorrected
        if health.fault is not None or health.faults_at:
            row |= {
                "fault": health.fault,
                "detail": health.detail,
                "since": health.since,
                "faults_at": health.faults_at,
            }
        rows.append(row)
    return json.dumps(rows)


def _loaded(text: str) -> list[tuple[GpuReading, CardHealth]]:
    """What was stored. A fault that a newer Worker wrote keeps its card out until an admin returns it."""
    found = []
    for row in json.loads(text or "[]"):
        card = bare(GpuReading(**{name: row[name] for name in _IDENTITY}))
        health = CardHealth(
            fault=fault_of(row.get("fault") or "") or (fault_of("xid_error") if row.get("fault") else None),
            detail=row.get("detail", ""),
            since=row.get("since", 0.0),
            uncorrected=row.get("uncorrected"),
            faults_at=tuple(row.get("faults_at", ())),
        )
        found.append((card, health))
    return found
