"""An engine that is wrong: somebody else's container under our name, and a start that failed though it worked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from docker import APIClient
from docker.errors import NotFound

from headway.model.reasons import EndWord
from tests.unit.worker.runtime.test_boxed import ATTEMPT, an_order
from tests.unit.worker.runtime.test_docker_errors import an_error
from worker import box as boxes
from worker.box import BoxStanding
from worker.launcher import FOREIGN_BOX
from worker.ports import ContainerState, EngineUnavailable, RuntimeRefused
from worker.runtime.docker import DockerRuntime
from worker.runtime.docker_engine import DockerEngine
from worker.runtime.docker_options import WorkerIdentity, container_name, folder_of
from worker.runtime.docker_places import LookTakesLong
from worker.runtime.docker_start import ContainerStarts
from worker.runtime.gpu_ways import by_nodes, without


class FakeApi:
    """One container of the name that the attempt's would have; notes what is done to it."""

    def __init__(self, labels: dict[str, str] | None = None) -> None:
        self.labels = labels
        self.done: list[str] = []
        self.start_error: Exception | None = None
        self.state: dict[str, Any] = {"Status": "running"}
        self.entrypoint: list[str] = []

    def inspect_container(self, name: str) -> dict[str, Any]:
        if self.labels is None:
            raise NotFound("none")
        config = {"Labels": self.labels, "Entrypoint": self.entrypoint}
        return {"Id": "c0ffee", "Name": f"/{name}", "Config": config, "State": self.state}

    def inspect_image(self, image: str) -> dict[str, Any]:
        return {}

    def kill(self, container: str, signal: str) -> None:
        self.done.append("kill")

    def remove_container(self, container: str, **how: Any) -> None:
        self.done.append("remove")

    def create_container_from_config(self, config: Any, name: str) -> dict[str, str]:
        return {"Id": "c0ffee"}

    def start(self, container: str) -> None:
        if self.start_error is not None:
            raise self.start_error


class Engine(DockerRuntime):
    """A runtime whose calls to the engine are made at once, on the fake."""

    api = FakeApi()

    async def _engine_call(self, work: Any) -> Any:
        return work(cast(APIClient, self.api))

    async def _one_by_one(self, attempt: Any, work: Any, **how: Any) -> Any:
        return work(cast(APIClient, self.api))


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Engine]:
    launcher = tmp_path / "launcher"
    launcher.write_bytes(b"\x7fELF")
    engine = DockerEngine(f"unix://{tmp_path}/none.sock", timeout_s=1)
    identity = WorkerIdentity("lab", "n1", str(tmp_path / "attempts"))
    yield Engine(tmp_path / "attempts", engine=engine, identity=identity, launcher=launcher, look_into_images=False)
    engine.close()


def ours(runtime: Engine) -> dict[str, str]:
    return {**runtime._identity.labels(), "headway.attempt": ATTEMPT.folder}


async def test_a_container_of_our_name_without_our_labels_is_left_alone(runtime: Engine) -> None:
    """It was removed by force, with its volumes."""
    runtime.api = FakeApi({"owner": "somebody"})
    await runtime.kill(ATTEMPT)
    await runtime.remove(ATTEMPT)
    assert (await runtime.inspect(ATTEMPT)).state is ContainerState.ABSENT
    assert runtime.api.done == []


async def test_a_container_of_ours_is_killed_and_removed(runtime: Engine) -> None:
    runtime.api = FakeApi(ours(runtime))
    assert runtime._containers.name(ATTEMPT) == container_name("lab", ATTEMPT.folder)
    await runtime.kill(ATTEMPT)
    await runtime.remove(ATTEMPT)
    assert runtime.api.done == ["kill", "remove"]


async def test_a_start_that_is_called_failed_has_worked_where_the_box_says_so(
    runtime: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine was killed while it started the container: it said "id already in use", and attempt 2 began."""
    runtime.api = FakeApi(ours(runtime))
    runtime.api.start_error = an_error(409, "id already in use")
    box = (await runtime.lay_out(an_order())).box
    box.ticket.rename(box.ticket_taken)
    assert runtime._judge(ATTEMPT) is BoxStanding.OVER
    facts = await runtime.start(an_order())
    assert facts.state is ContainerState.RUNNING
    assert runtime.api.done == []


async def test_a_refused_start_is_told_only_after_its_ticket_was_withdrawn(
    runtime: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.api = FakeApi(ours(runtime))
    runtime.api.start_error = an_error(400, "invalid mount config")
    with pytest.raises(RuntimeRefused):
        await runtime.start(an_order())
    box = runtime.box(ATTEMPT)
    assert box.ticket_withdrawn.exists()
    assert not box.ticket.exists()


async def test_a_refused_start_whose_ticket_was_just_taken_is_no_refusal(
    runtime: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.api = FakeApi(ours(runtime))
    runtime.api.start_error = an_error(400, "invalid mount config")
    monkeypatch.setattr(boxes, "withdraw", lambda box: False)
    with pytest.raises(EngineUnavailable):
        await runtime.start(an_order())
    assert runtime.api.done == []


def test_only_name_and_all_labels_together_make_a_container_ours(runtime: Engine) -> None:
    """An image may have labels like ours, and another cluster's containers may lie on the same machine."""
    identity, name = runtime._identity, runtime._containers.name(ATTEMPT)
    assert folder_of(f"/{name}", ours(runtime), identity) == ATTEMPT.folder
    assert folder_of("/somebody", ours(runtime), identity) is None
    assert folder_of(f"/{name}", None, identity) is None
    for label in identity.labels():
        assert folder_of(f"/{name}", {**ours(runtime), label: "another"}, identity) is None


@pytest.mark.parametrize("changed", [False, True])
async def test_an_image_is_blamed_for_a_hidden_box_only_if_the_box_is_whole(runtime: Engine, changed: bool) -> None:
    laid_out = await runtime.lay_out(an_order())
    runtime.api = FakeApi(ours(runtime))
    runtime.api.state = {"Status": "exited", "ExitCode": FOREIGN_BOX}
    runtime.api.entrypoint = ["/x/launcher", "/x", laid_out.digest]
    if changed:
        laid_out.box.spec.write_bytes(b"")
    facts = await runtime.inspect(ATTEMPT)
    assert facts.box_was_hidden is not changed


class _Places:
    """An image with something in the way."""

    def check(self, api: object, image: str, mounts: object) -> None:
        raise RuntimeRefused("a link", word=EndWord.IMAGE_BAD)


async def test_an_image_in_the_way_is_told_only_after_the_ticket_was_withdrawn(runtime: Engine) -> None:
    runtime.api = FakeApi(ours(runtime))
    runtime._starting.places = cast(Any, _Places())
    with pytest.raises(RuntimeRefused, match="a link"):
        await runtime.start(an_order())
    assert runtime.box(ATTEMPT).ticket_withdrawn.exists()
    assert runtime.api.done == ["remove"]


async def test_a_start_that_is_refused_again_has_worked_where_the_box_says_so(runtime: Engine) -> None:
    """The Worker restarted in the middle of a start, and its first call had worked."""
    box = (await runtime.lay_out(an_order())).box
    box.ticket.rename(box.ticket_taken)
    runtime.api = FakeApi(ours(runtime))
    runtime._starting.places = cast(Any, _Places())
    assert (await runtime.start(an_order())).state is ContainerState.RUNNING
    assert runtime.api.done == []


async def test_a_box_of_an_older_headway_is_withdrawn(runtime: Engine) -> None:
    """Its container may exist, and its launcher would still take the ticket."""
    box = (await runtime.lay_out(an_order())).box
    lines = box.spec.read_bytes().splitlines(keepends=True)
    box.spec.write_bytes(b"".join(line for line in lines if not line.startswith(b"place=")))
    runtime.api = FakeApi(ours(runtime))
    with pytest.raises(RuntimeRefused, match="older Headway") as refused:
        await runtime.start(an_order())
    assert refused.value.elsewhere
    assert box.ticket_withdrawn.exists()


@pytest.mark.parametrize("begun", [False, True])
async def test_a_box_with_a_broken_spec_is_no_refusal_of_what_runs(runtime: Engine, begun: bool) -> None:
    """A program that is root in its container can break it."""
    box = (await runtime.lay_out(an_order())).box
    box.spec.write_bytes(b"nonsense\n")
    runtime.api = FakeApi(ours(runtime))
    if begun:
        box.ticket.rename(box.ticket_taken)
        assert (await runtime.start(an_order())).state is ContainerState.RUNNING
    else:
        with pytest.raises(RuntimeRefused, match="could not write"):
            await runtime.start(an_order())
        assert box.ticket_withdrawn.exists()


@pytest.mark.parametrize(("error", "told"), [(LookTakesLong("busy"), False), (EngineUnavailable("away"), True)])
async def test_starts_of_other_images_wait_on(
    runtime: Engine, monkeypatch: pytest.MonkeyPatch, error: EngineUnavailable, told: bool
) -> None:
    """Only an engine that is away sends those back that wait for their turn."""
    sent_back: list[Exception] = []

    def start(*anything: Any) -> None:
        raise error

    monkeypatch.setattr(ContainerStarts, "create_and_start", start)
    monkeypatch.setattr(runtime._starts, "fail", sent_back.append)
    with pytest.raises(type(error)):
        await runtime.start(an_order())
    assert bool(sent_back) is told


async def test_a_start_whose_files_were_written_for_another_way_of_giving_gpus_is_refused(runtime: Engine) -> None:
    """An engine came back with NVIDIA's toolkit while an answer was lost. The launcher would have missed a mount."""
    runtime.gpu_probe.given = lambda uuids: by_nodes([], [], "/made")  # type: ignore[method-assign]
    runtime.api.start_error = an_error(503, "no answer")
    with pytest.raises(EngineUnavailable):
        await runtime.start(an_order())
    runtime.gpu_probe.given = lambda uuids: without()  # type: ignore[method-assign]
    with pytest.raises(RuntimeRefused, match="gives GPUs in another way") as refused:
        await runtime.start(an_order())
    assert (refused.value.word, refused.value.elsewhere) == (EndWord.GPU_FAILED, True)
