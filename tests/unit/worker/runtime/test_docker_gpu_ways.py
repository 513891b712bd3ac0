"""By which way GPUs are given, when a machine has one, several or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway.model.reasons import EndWord
from tests.unit.worker.runtime import test_docker_gpus as probing
from tests.unit.worker.runtime.test_gpu_nodes import Machine
from worker.runtime.docker_gpu_ways import GpuWays
from worker.runtime.docker_gpus import GpuProbe

NO_TOOLKIT = 'could not select device driver "nvidia" with capabilities: [[gpu]]'


class Api(probing.Api):
    """``says_of``: what a start is answered, by the way that it takes. One that is missing works."""

    def __init__(self) -> None:
        super().__init__()
        self.says_of: dict[str, str] = {}
        self.made: list[dict[str, Any]] = []

    def start(self, name: str) -> None:
        host = self.containers[name]["HostConfig"]
        self.made.append(host)
        way = host["DeviceRequests"][0]["Driver"] if "DeviceRequests" in host else "nodes"
        raise probing.an_error(self.says_of.get(way, probing._WELL))


class Rig:
    def __init__(self, folder: Path, setting: str = "auto") -> None:
        self.api = Api()
        self.machine = Machine(folder)
        self.cdi = folder / "cdi"
        self.cdi.mkdir()
        self.ways = GpuWays("n1", setting=setting, nodes=self.machine.nodes)
        self.probe = GpuProbe(probing.Engine(self.api), "n1", "k", ways=self.ways)  # type: ignore[arg-type]
        self.probe.cards(["GPU-1", "GPU-2"])

    def list_cdi(self, *names: str) -> None:
        said = {"kind": "nvidia.com/gpu", "devices": [{"name": name} for name in names]}
        (self.cdi / "nvidia.json").write_text(json.dumps(said))
        self.api.about = {"CDISpecDirs": [str(self.cdi)]}

    async def looked(self) -> tuple[str, str]:
        self.probe.forget()
        problem = await self.probe.problem()
        return self.probe.passing(), problem


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_the_first_way_that_the_machine_has_is_taken(rig: Rig) -> None:
    assert rig.probe.passing() == ""
    assert await rig.looked() == ("device_request", "")
    rig.api.says_of["nvidia"] = NO_TOOLKIT
    assert await rig.looked() == ("device_nodes", "")
    rig.list_cdi("GPU-1", "GPU-2", "all")
    assert await rig.looked() == ("cdi", "")
    assert rig.api.made[-1]["DeviceRequests"] == [
        {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-2"]}
    ]
    rig.api.says_of["nvidia"] = probing._WELL
    assert await rig.looked() == ("device_request", "")


async def test_a_machine_without_any_is_told_of_the_usual_one(rig: Rig) -> None:
    rig.api.says_of["nvidia"] = NO_TOOLKIT
    (rig.machine.root / "dev/nvidiactl").unlink()
    passing, problem = await rig.looked()
    assert passing == ""
    assert "NVIDIA's container toolkit" in problem
    assert "`nvidia-ctk runtime configure`" in problem


async def test_a_container_without_gpus_is_kept_from_nvidias_runtime(rig: Rig) -> None:
    rig.ways.learn({"DefaultRuntime": "nvidia", "Runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}})
    assert rig.probe.given(()).runtime == "runc"
    assert rig.probe.given(("GPU-1",)).runtime == "", "its toolkit gives the GPUs"


async def test_a_broken_toolkit_is_not_gone_round(rig: Rig) -> None:
    rig.api.says_of["nvidia"] = probing._BROKEN
    passing, problem = await rig.looked()
    assert passing == ""
    assert "`nvidia-smi`" in problem


async def test_lists_by_index_alone_are_no_lists_of_uuids(rig: Rig) -> None:
    """GPU-06."""
    rig.api.says_of["nvidia"] = NO_TOOLKIT
    rig.list_cdi("0", "1", "all")
    assert (await rig.looked())[0] == "device_nodes"


@pytest.mark.parametrize(
    ("setting", "want"),
    [
        ("cdi", '{"features": {"cdi": true}}'),
        ("device_request", "NVIDIA's container toolkit"),
        ("device_nodes", "/dev/nvidia-uvm"),
    ],
)
async def test_a_way_that_is_set_is_the_only_one(tmp_path: Path, setting: str, want: str) -> None:
    rig = Rig(tmp_path, setting)
    rig.api.says_of["nvidia"] = NO_TOOLKIT
    (rig.machine.root / "dev/nvidia-uvm").unlink()
    passing, problem = await rig.looked()
    assert passing == ""
    assert want in problem
    refusal = rig.probe.refusal(("GPU-1",))
    assert refusal is not None
    assert (refusal.word, refusal.of_node) == (EndWord.GPU_FAILED, True)


async def test_a_card_that_a_list_leaves_out_is_faulty_alone(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "cdi")
    rig.list_cdi("GPU-1")
    assert await rig.looked() == ("cdi", "")
    assert list(rig.probe.cards(["GPU-1", "GPU-2"])) == ["GPU-2"]
    assert rig.probe.refusal(("GPU-1",)) is None
    assert "names GPU-2" in str(rig.probe.refusal(("GPU-2",)))
    rig.list_cdi("GPU-1", "GPU-2")
    await rig.looked()
    assert rig.probe.cards(["GPU-1", "GPU-2"]) == {}


async def test_lists_without_uuids_say_how_to_write_them(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "cdi")
    rig.list_cdi("0", "1", "all")
    assert "--device-name-strategy=uuid" in (await rig.looked())[1]


async def test_a_device_file_that_the_engine_does_not_find_is_its_cards_fault(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "device_nodes")
    assert await rig.looked() == ("device_nodes", "")
    said = 'error gathering device information while adding custom device "/dev/nvidia1": no such file or directory'
    rig.api.says_of["nodes"] = said
    assert await rig.looked() == ("device_nodes", "")
    assert sorted(rig.probe.cards(["GPU-1", "GPU-2"])) == ["GPU-1", "GPU-2"], "each alone meets it, here"
    rig.api.says_of["nodes"] = said.replace("nvidia1", "nvidiactl")
    assert "no device file /dev/nvidiactl" in (await rig.looked())[1]
    rig.api.says_of["nodes"] = "invalid mount config: bind source path does not exist: /usr/lib/libcuda.so.550"
    assert "libcuda.so.550 can't be used on n1" in (await rig.looked())[1]


async def test_a_card_that_came_since_the_last_look_is_looked_for(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "device_nodes")
    await rig.looked()
    assert rig.probe.refusal(("GPU-new",)) is not None
    rig.machine.numbers = {**rig.machine.numbers, "GPU-new": rig.machine.numbers["GPU-1"]}
    await rig.probe.problem()
    assert rig.probe.refusal(("GPU-new",)) is None


async def test_an_engine_without_the_word_cdi(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "cdi")
    rig.list_cdi("GPU-1", "GPU-2")
    rig.api.says_of["cdi"] = 'could not select device driver "cdi" with capabilities: []'
    assert "gives no CDI devices" in (await rig.looked())[1]


async def test_a_driver_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr("worker.runtime.docker_gpu_ways._LOOK_S", 0.05)
    rig, over = Rig(tmp_path, "device_nodes"), threading.Event()
    works = rig.machine.nodes.look

    def hangs() -> None:
        over.wait(10)

    rig.machine.nodes.look = hangs  # type: ignore[method-assign]
    assert "does not answer" in (await rig.looked())[1]
    over.set()
    rig.machine.nodes.look = works  # type: ignore[method-assign]
    rig.probe.forget()
    await rig.looked()
    assert await rig.looked() == ("device_nodes", "")
