"""A rehearsal: what a script does to simulated GPUs is judged as with real ones, and the readings are plausible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway.config import HeadwayConfig
from headway.errors import ConfigInvalid
from headway.model.gpu_faults import GpuFaultWord
from task_manager.planning import cuda
from tests.support.clock import FakeClock
from worker.machine import simulated_script
from worker.machine.gpu_processes import GpuProcesses
from worker.machine.offered_gpus import OfferedGpus
from worker.machine.simulated_gpus import SimulatedGpus
from worker.machine.simulated_readings import Load, Pulse, beat
from worker.machine.simulated_script import BadScript, read
from worker.node.status import faulty_sentence
from worker.ports import GpuInventory, GpuReading, WatchedGpus

GIB = 1 << 30
EXAMPLE = Path(__file__).parents[4] / "deploy/examples/gpu-rehearsal.toml"


class Rehearsal:
    """Two GPUs of a Worker, with a script in YAML."""

    def __init__(self, folder: Path, steps: str = "", *, clean_s: float = 60.0) -> None:
        self.clock = FakeClock()
        script = read(f"steps:\n{steps}" if steps else "{}", 2, toml=False)
        self.simulated = SimulatedGpus(
            "n1", 2, model="A100", memory_bytes=40 * GIB, script=script, clean_s=clean_s, clock=self.clock
        )
        self.gpus = OfferedGpus(
            self.simulated, GpuProcesses(folder), self.clock, outside_memory_bytes=512 << 20, free_for_s=30.0
        )
        self.held: list[str] = []

    async def after(self, seconds: float) -> GpuInventory:
        """Looked at as often as a Worker does."""
        for _ in range(int(seconds // 5)):
            await self.clock.advance(5)
            await self.gpus.read(self.held)
        await self.clock.advance(seconds % 5)
        return await self.gpus.read(self.held)

    async def first(self, seconds: float) -> GpuReading:
        return (await self.after(seconds)).gpus[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


async def test_readings_follow_the_attempt_that_holds_the_card(folder: Path) -> None:
    rehearsal = Rehearsal(folder)
    idle = await rehearsal.first(0)
    assert (idle.utilisation, idle.memory_used_bytes, idle.simulated) == (0, 0, True)
    assert idle.temperature_c is not None
    assert idle.power_w is not None
    assert 30 < idle.temperature_c < 40
    assert 40 < idle.power_w < 80
    rehearsal.held = [idle.uuid]
    soon, later, much_later = [await rehearsal.first(seconds) for seconds in (5, 30, 180)]
    for reading in (soon, later, much_later):
        assert None not in (reading.utilisation, reading.memory_used_bytes, reading.temperature_c, reading.power_w)
    assert 0.3 < (soon.utilisation or 0) < (later.utilisation or 0) <= 1
    assert 0 < (soon.memory_used_bytes or 0) < (later.memory_used_bytes or 0) < 40 * GIB
    assert (soon.power_w or 0) > 2 * (idle.power_w or 0), "power follows at once"
    assert (soon.temperature_c or 0) - idle.temperature_c < 10, "and temperature later"
    assert 65 < (much_later.temperature_c or 0) < 85
    assert (await rehearsal.after(0)).gpus[1].utilisation == 0
    rehearsal.held = []
    free = await rehearsal.first(0)
    assert (free.memory_used_bytes, free.busy_outside) == (0, False), "it can be booked again at once"
    cool = await rehearsal.first(300)
    assert (cool.utilisation or 0) < 0.01
    assert (cool.temperature_c or 0) < 40


def test_neighbours_swing_apart_and_a_long_pause_is_no_leap() -> None:
    busy = Load(held=True)
    one, other = (beat(Pulse(), busy, 60, phase) for phase in (0.0, 1.7))
    assert one.utilisation != other.utilisation
    assert beat(Pulse(), busy, 86_400, 0.0).utilisation <= 1


async def test_a_card_that_falls_off_the_bus_is_taken_out_and_comes_back_by_itself(folder: Path) -> None:
    rehearsal = Rehearsal(folder, "- {at: 10s, do: fault, gpu: 0, xid: 79, for: 1m}\n")
    assert not (await rehearsal.first(5)).sick
    lost = await rehearsal.first(10)
    assert (lost.sick, lost.fault, lost.simulated) == (True, GpuFaultWord.OFF_THE_BUS, True)
    assert lost.quarantined_since > 0
    assert lost.utilisation is None
    assert "Restart the machine" in faulty_sentence("n1", [lost])
    assert not (await rehearsal.after(0)).gpus[1].sick
    clean = await rehearsal.first(60)
    assert clean.sick
    assert "comes back by itself soon" in clean.note
    assert "Restart" not in faulty_sentence("n1", [clean]), "a restart would end the tasks there for nothing"
    assert "Restart the machine" in faulty_sentence("n1", [clean, lost])
    assert not (await rehearsal.first(70)).sick


async def test_what_needs_an_admin_waits_for_one(folder: Path) -> None:
    rehearsal = Rehearsal(folder, "- {at: 10s, do: ecc, gpu: 0, errors: 2}\n- {at: 20s, do: fault, gpu: 1, xid: 13}\n")
    assert isinstance(rehearsal.simulated, WatchedGpus)
    found = await rehearsal.after(600)
    assert (found.gpus[0].fault, found.gpus[1].fault) == (GpuFaultWord.ECC_ERRORS, ""), "a program's own fault is none"
    assert (await rehearsal.simulated.return_gpu(found.gpus[0].uuid)).returned
    assert not (await rehearsal.first(0)).sick


async def test_a_card_vanishes_and_returns(folder: Path) -> None:
    rehearsal = Rehearsal(folder, "- {at: 10s, do: vanish, gpu: 0}\n- {at: 1m, do: return}\n", clean_s=10)
    await rehearsal.after(5)
    gone = await rehearsal.after(10)
    assert [(gpu.index, gpu.fault, gpu.simulated) for gpu in gone.gpus] == [(0, "vanished", True), (1, "", True)]
    assert not (await rehearsal.simulated.return_gpu(gone.gpus[0].uuid)).returned
    assert not (await rehearsal.first(60)).sick


async def test_a_hot_card_is_taken_out_until_it_has_cooled_down(folder: Path) -> None:
    rehearsal = Rehearsal(folder, "- {at: 10s, do: heat, gpu: 0, celsius: 95, for: 1m}\n", clean_s=5)
    assert (await rehearsal.first(40)).fault == GpuFaultWord.TOO_HOT
    assert not (await rehearsal.first(60)).sick


async def test_a_process_of_somebody_else_keeps_a_card_from_others_until_it_is_over(folder: Path) -> None:
    rehearsal = Rehearsal(
        folder, "- {at: 10s, do: process, gpu: 0, owner: ann, command: python train.py, memory: 20GiB, for: 1m}\n"
    )
    await rehearsal.after(0)
    busy = await rehearsal.first(15)
    assert (busy.busy_outside, busy.sick) == (True, False)
    assert "ann's python train.py, 20" in busy.note
    assert [(one.owner, one.memory_used_bytes) for one in busy.processes] == [("ann", 20 * GIB)]
    assert "free of use from outside only since a moment ago" in (await rehearsal.first(60)).note
    assert not (await rehearsal.first(60)).busy_outside


async def test_versions_of_the_driver_reach_the_choice_of_nodes(folder: Path) -> None:
    rehearsal = Rehearsal(folder, '- {at: 10s, do: driver, version: "535.161.07", cuda: "12.2"}\n')
    assert (await rehearsal.after(0)).driver_version == ""
    found = await rehearsal.after(15)
    assert (found.driver_version, found.cuda_version) == ("535.161.07", "12.2")
    assert cuda.is_served("cuda>=12.2", found.driver_version, found.cuda_version, ("A100",))
    assert not cuda.is_served("cuda>=12.4", found.driver_version, found.cuda_version, ("A100",))


async def test_a_driver_that_hangs_offers_nothing_until_it_answers(folder: Path) -> None:
    rehearsal = Rehearsal(folder, "- {at: 10s, do: hang, for: 30s}\n")
    await rehearsal.after(0)
    found = await rehearsal.after(15)
    assert "does not answer" in found.problem
    assert all(gpu.sick and not gpu.fault for gpu in found.gpus)
    assert not (await rehearsal.simulated.return_gpu(found.gpus[0].uuid)).returned
    found = await rehearsal.after(30)
    assert (found.problem, [gpu.sick for gpu in found.gpus]) == ("", [False, False])


def test_a_shorter_step_ends_no_longer_one() -> None:
    """The second one ended the first, which had been said to take longer."""
    longer, shorter = {"at": "10s", "for": "1m"}, {"at": "20s", "for": "5s"}
    for deed in ({"do": "vanish"}, {"do": "fault", "xid": 79}, {"do": "heat", "celsius": 95}):
        script = read(of_steps({**deed, **longer}, {**deed, **shorter}), 1, toml=False)
        of_deed = [script.gpu(0, at_s) for at_s in (5, 22, 30, 69, 70)]
        shown = [plot.vanished or plot.lost or plot.celsius is not None for plot in of_deed]
        assert shown == [False, True, True, True, False], deed
    heats = of_steps(
        {"do": "heat", "celsius": 95, **longer}, {"do": "heat", "celsius": 80, **shorter}, {"do": "return", "at": "40s"}
    )
    script = read(heats, 1, toml=False)
    assert [script.gpu(0, at_s).celsius for at_s in (15, 22, 30, 41)] == [95, 80, 95, None]


def test_the_example_can_be_played() -> None:
    script = simulated_script.load(str(EXAMPLE), 4)
    assert script.driver(0) == ("550.54.15", "12.4")
    assert script.driver(800)[1] == "12.2"
    assert script.gpu(0, 130).lost
    assert script.gpu(2, 90).processes
    assert script.gpu(2, 500).vanished
    assert not script.gpu(2, 700).vanished
    assert script.hangs(850)
    assert {deed for step in script.steps if (deed := step.deed)} == set(simulated_script.Deed)


def of_steps(*steps: dict[str, Any]) -> str:
    import json

    return json.dumps({"steps": list(steps)})


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("[", "it is no YAML: "),
        ("- 1", "it needs a list `steps`"),
        ("step: []", "it has no 'step': did you mean steps?"),
        ("steps: 1", "`steps` is no list"),
        ("steps: [1]", "step 1: it is no table"),
        ('driver: "new"', "`version` is 'new': write a version in quotes"),
        ("cuda: 12.4", "`cuda` is '12.4': write a version in quotes"),
        (of_steps({"at": "1m"}), "step 1: it needs `do`, which is one of fault, vanish"),
        (of_steps({"do": "hang"}, {"do": "vanisch"}), "step 2: `do` is 'vanisch': did you mean vanish?"),
        (of_steps({"do": "explode"}), "step 1: `do` is 'explode': it is one of fault"),
        (of_steps({"do": "vanish", "gpus": 1}), "step 1: it has no 'gpus': did you mean gpu? (it does vanish)"),
        (of_steps({"do": "vanish", "xid": 79}), "step 1: it has no 'xid'"),
        (of_steps({"do": "fault", "gpu": 4}), "step 1: a fault needs `xid`"),
        (of_steps({"do": "fault", "xid": 79, "gpu": 4}), "there is no GPU 4: 4 GPUs are simulated (0 to 3)"),
        (of_steps({"do": "vanish", "gpu": "1"}), "`gpu` is '1': write a number, a list of numbers, or all"),
        (of_steps({"do": "vanish", "gpu": [0, True]}), "write a number, a list of numbers, or all"),
        (of_steps({"do": "fault", "xid": "79"}), "`xid` is '79': write a whole number from 1 to 999"),
        (of_steps({"do": "fault", "xid": 79.5}), "`xid` is '79.5': write a whole number from 1 to 999"),
        (of_steps({"do": "fault", "xid": 1000}), "`xid` is '1000': write a whole number from 1 to 999"),
        (of_steps({"do": "ecc", "errors": 1.5}), "`errors` is '1.5': write a whole number from 1 to 1000000"),
        (of_steps({"do": "vanish", "at": 60}), "`at`: '60' has no unit"),
        (of_steps({"do": "process", "owner": "ann", "memory": "20"}), "`memory`: '20' has no unit"),
        (of_steps({"do": "process", "owner": "a\nb", "memory": "1GiB"}), "`owner` is 'a\\u000ab'"),
        (of_steps({"do": "process", "memory": "1GiB"}), "a process needs `owner`"),
        (of_steps({"do": "heat", "celsius": 400}), "`celsius` is '400': write a number from 0 to 150"),
        (of_steps({"do": "driver"}), "a driver needs `version` or `cuda`"),
        (of_steps(*[{"do": "hang"}] * 1001), "it has 1001 steps, and 1000 may be"),
    ],
)
def test_a_bad_script_says_where_in_one_sentence(text: str, want: str) -> None:
    with pytest.raises(BadScript) as refused:
        read(text, 4, toml=False)
    assert want in str(refused.value)
    assert str(refused.value).isprintable()


def test_a_script_is_looked_at_before_anything_starts(folder: Path) -> None:
    path = folder / "script.toml"
    path.write_text('[[steps]]\ndo = "vanish"\ngpu = 9\n')
    worker = {"simulated_gpus": 2, "simulated_gpu_script": str(path)}
    with pytest.raises(ConfigInvalid, match=r"script\.toml: step 1: there is no GPU 9: 2 GPUs are simulated"):
        simulated_script.check(HeadwayConfig.model_validate({"worker": worker}))
    simulated_script.check(HeadwayConfig.model_validate({"worker": {**worker, "simulated_gpus": 0}}))
    path.write_text('at = "1m\n')
    with pytest.raises(ConfigInvalid, match=r"it is no TOML: .*line 1"):
        simulated_script.load(str(path), 2)
    with pytest.raises(ConfigInvalid, match=r"it can't be read: No such file"):
        simulated_script.load(str(folder / "none.yaml"), 2)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigInvalid, match="UTF-8"):
        simulated_script.load(str(path), 2)
