"""What the probe of GPUs finds out, and what it costs whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import requests
from docker.errors import APIError, NotFound

from headway.model.reasons import EndWord
from worker.ports import EngineUnavailable, RuntimeRefused
from worker.runtime import docker_gpus
from worker.runtime.docker_errors import start_refusal
from worker.runtime.docker_gpus import GpuProbe

_WELL = 'exec: "/no-program": stat /no-program: no such file or directory'
_BROKEN = "OCI runtime create failed: error running hook #0: nvidia-container-cli: initialization error: nvml error"
_LOST = "OCI runtime create failed: error running hook #0: nvidia-container-cli: device error: GPU-2: unknown device"
_LDCACHE = "OCI runtime create failed: error running hook #0: nvidia-container-cli: ldcache error: open failed"
_ODD_IMAGE = "nvidia-container-cli: mount error: file creation failed: /d/merged/usr/lib/libcuda.so.1: file exists"


def an_error(text: str, status: int = 500) -> APIError:
    response = requests.Response()
    response.status_code = status
    return APIError("refused", response=response, explanation=text)


class Api:
    """``says`` tells what a start with these GPUs is answered; "" hangs."""

    def __init__(self) -> None:
        self.says: Callable[[tuple[str, ...]], str] = lambda uuids: _WELL
        self.starts: list[tuple[str, ...]] = []
        self.containers: dict[str, Mapping[str, Any]] = {}
        self.images: set[str] = set()
        self.silent = False
        self.about: dict[str, Any] = {}

    def import_image_from_data(self, data: bytes, repository: str, tag: str) -> None:
        self.images.add(f"{repository}:{tag}")

    def create_container_from_config(self, config: Mapping[str, Any], name: str) -> dict[str, str]:
        assert name not in self.containers
        assert config["Image"] in self.images
        self.containers[name] = config
        return {"Id": name}

    def start(self, name: str) -> None:
        uuids = tuple(self.containers[name]["HostConfig"]["DeviceRequests"][0].get("DeviceIDs", ()))
        self.starts.append(uuids)
        said = self.says(uuids)
        if not said:
            raise requests.ReadTimeout("Read timed out.")
        raise an_error(said)

    def remove_container(self, name: str, **_: Any) -> None:
        if name not in self.containers:
            raise NotFound("gone", response=requests.Response())
        if not self.says(()):
            raise requests.ReadTimeout("Read timed out.")
        del self.containers[name]

    def remove_image(self, image: str, **_: Any) -> None:
        self.images.discard(image)

    def info(self) -> dict[str, Any]:
        return self.about

    def version(self) -> dict[str, str]:
        if self.silent:
            raise requests.ReadTimeout("Read timed out.")
        return {}


class Engine:
    timeout_s = 60.0

    def __init__(self, api: Api) -> None:
        self.api = api

    async def call(self, work: Callable[[Any], Any]) -> Any:
        try:
            return work(self.api)
        except requests.RequestException as error:
            raise EngineUnavailable("silent") from error

    quick = call


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(docker_gpus.time, "monotonic", lambda: self.now)
        self.api = Api()
        self.told: list[str] = []
        self.probe = GpuProbe(Engine(self.api), "n1", "k", tell=self.told.append)  # type: ignore[arg-type]
        self.probe.cards(["GPU-1", "GPU-2"])

    async def judged(self, said: str, *uuids: str) -> RuntimeRefused:
        """What an attempt is told that the engine refused in these words."""
        try:
            raise start_refusal(an_error(said), node="n1", image="x", gpus=True) from an_error(said)
        except RuntimeRefused as refusal:
            return await self.probe.judged(refusal, uuids or ("GPU-1",))


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


async def test_a_node_that_works_is_asked_once_until_its_engine_was_away(rig: Rig) -> None:
    assert await rig.probe.problem() == await rig.probe.problem() == ""
    assert rig.api.starts == [()]
    rig.probe.forget()
    await rig.probe.problem()
    assert (len(rig.api.starts), rig.api.containers, rig.api.images) == (2, {}, set())


async def test_a_broken_toolkit_is_looked_at_again_ever_less_often_until_it_works(rig: Rig) -> None:
    rig.api.says = lambda uuids: _BROKEN
    assert "`nvidia-smi`" in await rig.probe.problem()
    assert rig.probe.refusal(()) is None
    for pause_s in (5, 10, 20, 40, 60, 60):
        rig.now += pause_s - 0.1
        before = len(rig.api.starts)
        await rig.probe.problem()
        assert len(rig.api.starts) == before
        rig.now += 0.2
        await rig.probe.problem()
        assert len(rig.api.starts) == before + 1
    rig.api.says = lambda uuids: _WELL
    rig.now += 61
    assert await rig.probe.problem() == ""
    assert rig.told[-1] == ""
    assert rig.probe.refusal(("GPU-1",)) is None


async def test_the_first_attempt_finds_it_out_and_no_other_pays(rig: Rig) -> None:
    """I11: on a node with a broken toolkit the GPU jobs of everybody used up their retries."""
    await rig.probe.problem()
    rig.api.says = lambda uuids: _BROKEN
    first = await rig.judged(_BROKEN)
    assert (first.word, first.elsewhere, first.of_node) == (EndWord.GPU_FAILED, True, False)
    assert "`nvidia-smi`" in rig.told[-1]
    starts = len(rig.api.starts)
    at_once = await rig.judged(_BROKEN, "GPU-2")
    assert at_once.of_node
    assert len(rig.api.starts) == starts
    later = rig.probe.refusal(("GPU-2",))
    assert later is not None
    assert later.of_node


@pytest.mark.parametrize("said", [_LDCACHE, _BROKEN])
async def test_what_happens_to_one_image_alone_takes_no_gpu_from_others(rig: Rig, said: str) -> None:
    await rig.probe.problem()
    refusal = await rig.judged(said)
    assert (refusal.word, refusal.of_node) == (EndWord.GPU_FAILED, False)
    assert rig.api.starts[-1] == ("GPU-1",)
    assert (await rig.probe.problem(), rig.probe.cards(["GPU-1"])) == ("", {})


async def test_what_may_be_for_want_of_files_counts_once_a_task_has_met_it_too(rig: Rig) -> None:
    rig.api.says = lambda uuids: _LDCACHE
    assert await rig.probe.problem() == ""
    refusal = await rig.judged(_LDCACHE)
    assert (refusal.word, refusal.of_node) == (EndWord.GPU_FAILED, False)
    for _ in range(2):
        assert "ldcache error: open failed" in await rig.probe.problem()
        rig.now += 61
    rig.api.says = lambda uuids: _WELL
    assert await rig.probe.problem() == ""


async def test_a_fault_of_the_image_is_no_fault_of_the_machine(rig: Rig) -> None:
    await rig.probe.problem()
    refusal = await rig.judged(_ODD_IMAGE)
    assert refusal.word is EndWord.IMAGE_BAD
    assert rig.api.starts == [()]


async def test_one_card_that_can_not_be_given_keeps_no_other_away(rig: Rig) -> None:
    await rig.probe.problem()
    rig.api.says = lambda uuids: _LOST if "GPU-2" in uuids or not uuids else _WELL
    refusal = await rig.judged(_LOST, "GPU-1", "GPU-2")
    assert (refusal.word, refusal.of_node) == (EndWord.GPU_FAILED, False)
    assert list(rig.probe.cards(["GPU-1", "GPU-2"])) == ["GPU-2"]
    assert await rig.probe.problem() == ""
    rig.now += 6
    assert await rig.probe.problem() == "", "all together fail for one"
    assert rig.probe.refusal(("GPU-1",)) is None
    assert rig.probe.refusal(("GPU-1", "GPU-2")) is not None
    rig.api.says = lambda uuids: _WELL
    rig.now += 20
    await rig.probe.problem()
    assert rig.probe.cards(["GPU-1", "GPU-2"]) == {}


async def test_a_hook_that_hangs_is_told_from_an_engine_that_hangs(rig: Rig) -> None:
    await rig.probe.problem()
    assert await rig.probe.hung(("GPU-1",), 60.0) is None, "with another image it works"
    rig.api.says = lambda uuids: ""
    assert await rig.probe.hung((), 60.0) is None
    assert await rig.probe.hung(("GPU-1",), 1.0) is None
    rig.api.silent = True
    assert await rig.probe.hung(("GPU-1",), 60.0) is None
    assert await rig.probe.problem() == ""
    rig.api.silent = False
    refusal = await rig.probe.hung(("GPU-1",), 60.0)
    assert refusal is not None
    assert "hangs" in refusal.message
    assert "hangs" in await rig.probe.problem()
    rig.now += 6
    assert "hangs" in await rig.probe.problem(), "its container can't be removed yet"
    rig.api.says = lambda uuids: _WELL
    rig.now += 11
    assert await rig.probe.problem() == ""
    assert rig.api.containers == {}


async def test_nothing_is_offered_before_the_engine_was_asked(rig: Rig) -> None:
    rig.api.says = lambda uuids: ""
    rig.api.silent = True
    assert "has not been asked yet" in await rig.probe.problem()
