"""GPUs that are only simulated, for rehearsals. What happens to them is judged as with real ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from headway.clock import Clock, SystemClock
from headway.model.simulated_gpus import simulated_uuid

from ..ports import GpuInventory, GpuJournal, GpuProcess, GpuReading, GpuReturnAnswer
from .gpus.health import CardFacts, HealthRules
from .gpus.library import Look
from .gpus.nvml import SILENT, sick
from .gpus.quarantine import Quarantine
from .simulated_readings import LIMIT_C, MEMORY_OF_ATTEMPT, Load, Pulse, beat, memory_used, most_power_w
from .simulated_script import GpuPlot, GpuScript

_FIRST_PID = 1 << 23  # Linux gives no process such a number


@dataclass(frozen=True, slots=True)
class SimulatedShare:
    """A live attempt with a share of a simulated card. ``folder`` is the attempt's, ``task`` its name."""

    uuid: str
    share_bytes: int
    folder: str
    task: str


class SimulatedGpus:
    """Simulated GPUs for rehearsals. See ``ports.WatchedGpus``."""

    def __init__(
        self,
        node_id: str,
        count: int,
        *,
        model: str = "Simulated",
        memory_bytes: int = 24 << 30,
        script: GpuScript | None = None,
        clean_s: float = 0.0,
        clock: Clock | None = None,
        shares: Callable[[], Sequence[SimulatedShare]] = lambda: (),
    ) -> None:
        """``shares``: which attempts have shares of a card now.

        ``clean_s``: after so long without a fault a card comes back by itself.
        """
        self._cards = tuple(
            GpuReading(
                uuid=simulated_uuid(node_id, index),
                model=model,
                memory_bytes=memory_bytes,
                index=index,
                pci_bus_id=f"00000000:{index + 1:02X}:00.0",
                simulated=True,
            )
            for index in range(count)
        )
        self._power_w = most_power_w(model)
        self._script = script or GpuScript()
        self._clock = clock or SystemClock()
        self._quarantine = Quarantine(self._clock, HealthRules(clean_s=clean_s))
        self._pulses = dict.fromkeys((card.uuid for card in self._cards), Pulse())
        self._began_s = self._clock.monotonic()
        self._read_at_s = 0.0  # since it began
        self._told_until_s = -1.0  # of events; the start itself is told of, too
        self._ours: Collection[str] = ()
        self._shares = shares
        self._last = GpuInventory(self._cards)

    async def open(self, journal: GpuJournal) -> None:
        """The script begins anew at each start of the Worker, and with it the cards' health.

        So nothing is stored, and what is known of real cards stays as it is.
        """

    async def read(self, ours: Collection[str]) -> GpuInventory:
        self._ours = frozenset(ours)
        at_s = self._clock.monotonic() - self._began_s
        plots = {card.uuid: self._script.gpu(card.index, at_s) for card in self._cards}
        self._pass_time(at_s, plots)
        if self._script.hangs(at_s):
            last = [replace(gpu, memory_used_bytes=None) for gpu in self._last.gpus]
            return replace(self._last, gpus=sick(last, "its driver does not answer"), problem=SILENT)
        driver, cuda = self._script.driver(at_s)
        look = self._look(at_s, plots, GpuInventory(driver_version=driver, cuda_version=cuda))
        self._last = replace(look.inventory, gpus=self._quarantine.look(look))
        return self._last

    async def return_gpu(self, uuid: str, *, gone: bool = False) -> GpuReturnAnswer:
        found = await self.read(self._ours)
        if found.problem:
            return GpuReturnAnswer(False, f"{uuid} stays out. {found.problem}")
        return self._quarantine.give_back(uuid, gone=gone)

    async def sample(self, uuids: Collection[str]) -> Mapping[str, GpuReading]:
        # They belong to running attempts. Nothing is judged here: what the script does to them, ``read`` finds.
        self._ours = frozenset((*self._ours, *uuids))
        at_s = self._clock.monotonic() - self._began_s
        plots = {card.uuid: self._script.gpu(card.index, at_s) for card in self._cards}
        self._pass_time(at_s, plots)
        if self._script.hangs(at_s):
            return {}
        there = [card for card in self._cards if not (plots[card.uuid].vanished or plots[card.uuid].lost)]
        return {card.uuid: self._reading(card, plots[card.uuid]) for card in there if card.uuid in uuids}

    async def close(self) -> None:
        pass

    def _pass_time(self, at_s: float, plots: dict[str, GpuPlot]) -> None:
        passed_s, self._read_at_s = max(0.0, at_s - self._read_at_s), max(at_s, self._read_at_s)
        for card in self._cards:
            load = self._load(card, plots[card.uuid])
            self._pulses[card.uuid] = beat(self._pulses[card.uuid], load, passed_s, phase=1.7 * card.index)

    def _look(self, at_s: float, plots: dict[str, GpuPlot], inventory: GpuInventory) -> Look:
        """What a driver would tell of them now."""
        known, facts, gpus = {}, {}, []
        for card in self._cards:
            plot = plots[card.uuid]
            xids = self._script.xids(card.index, self._told_until_s, at_s)
            if plot.vanished:
                continue
            known[card.uuid] = card
            if plot.lost:
                facts[card.uuid] = CardFacts(lost=True, unreadable="GPU is lost", xids=xids)
                gpus.append(card)
                continue
            reading = self._reading(card, plot)
            gpus.append(reading)
            facts[card.uuid] = CardFacts(
                temperature_c=reading.temperature_c, limit_c=LIMIT_C, uncorrected=plot.errors, xids=xids
            )
        self._told_until_s = at_s
        return Look(replace(inventory, gpus=tuple(gpus)), known, facts)

    def _reading(self, card: GpuReading, plot: GpuPlot) -> GpuReading:
        pulse, load = self._pulses[card.uuid], self._load(card, plot)
        own = self._own_processes(card, plot, pulse.loaded)
        used = min(card.memory_bytes, memory_used(pulse, load, card.memory_bytes))
        if own:  # what others hold beside them is in the load
            used = min(card.memory_bytes, load.foreign_bytes + sum(one.memory_used_bytes or 0 for one in own))
        return replace(
            card,
            utilisation=round(min(1.0, pulse.utilisation), 2),
            memory_utilisation=round(min(1.0, 0.55 * pulse.utilisation), 2),
            memory_used_bytes=used,
            temperature_c=float(round(pulse.celsius if plot.celsius is None else plot.celsius)),
            power_w=round(self._power_w * pulse.power_share, 1),
            processes=(*plot.processes, *own),
        )

    def _own_processes(self, card: GpuReading, plot: GpuPlot, loaded: float) -> tuple[GpuProcess, ...]:
        """The programs of attempts that have shares of the card: as much as the script says, else within the share."""
        found = []
        for number, share in enumerate(share for share in self._shares() if share.uuid == card.uuid):
            said = next((taken for task, taken in plot.taken if task == share.task), None)
            usual = round(share.share_bytes * MEMORY_OF_ATTEMPT * loaded)
            used = usual if said is None else said
            found.append(GpuProcess(_FIRST_PID + number, memory_used_bytes=used, attempt=share.folder))
        return tuple(found)

    def _load(self, card: GpuReading, plot: GpuPlot) -> Load:
        foreign = sum(process.memory_used_bytes or 0 for process in plot.processes)
        return Load(card.uuid in self._ours, foreign)
