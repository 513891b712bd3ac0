"""Runtimes by their entry points: found, looked at, made, or refused with the package's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headway.config import HeadwayConfig, WorkerSection
from headway.errors import ConfigInvalid, Unavailable
from tests.support.clock import FakeClock
from tests.support.packages import Site
from worker import app
from worker.machine.simulated_gpus import SimulatedGpus
from worker.network.guard import NetworkGuard, NoGuard
from worker.ports import Runtime
from worker.runtime import registry
from worker.runtime.docker import DockerRuntime
from worker.runtime.scripted import ScriptedRuntime
from worker.runtime.setup import RuntimeSetup

ODD = """
from worker.runtime.scripted import ScriptedRuntime
from headway.errors import Unavailable

class Plain:
    name = "plain"

class Other(ScriptedRuntime):
    name = "scripted"

class Untold(ScriptedRuntime):
    name = "untold"
    any_image = None

class Raises(ScriptedRuntime):
    name = "raises"

    @classmethod
    def from_setup(cls, setup):
        raise ValueError("no such engine.")

class Says(ScriptedRuntime):
    name = "says"

    @classmethod
    def from_setup(cls, setup):
        raise Unavailable("The partition does not answer.")

class Gives(ScriptedRuntime):
    name = "gives"

    @classmethod
    def from_setup(cls, setup):
        return cls

class Real(ScriptedRuntime):
    name = "real"
    simulates = False
"""

Told = list[tuple[str, str, bool]]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    site = Site(tmp_path / "site", monkeypatch)

    def one(entry_point: str) -> None:
        site.install("odd-runtimes", "headway.runtimes", entry_point, module="odd", code=ODD)

    return one


def setup_of(folder: Path, clock: FakeClock, told: Told | None = None, **worker: object) -> RuntimeSetup:
    settings = HeadwayConfig().worker.model_copy(update={"node_id": "n1", **worker})
    config = HeadwayConfig().model_copy(update={"worker": settings})
    attempts = folder / "attempts"
    attempts.mkdir(exist_ok=True)
    return RuntimeSetup(config, attempts, clock, tell=lambda *word: told.append(word) if told is not None else None)


def test_ours_are_entry_points_like_others() -> None:
    assert registry.kind_of("docker") is DockerRuntime
    assert registry.kind_of("scripted") is ScriptedRuntime


def test_the_methods_are_those_of_the_protocol() -> None:
    assert {"open", "start", "list", "spool", "withdraw"} <= set(registry.methods())
    assert all(hasattr(Runtime, name) for name in registry.methods())


@pytest.mark.parametrize(
    ("entry_point", "want"),
    [
        ("x = nowhere:X", "can't be imported from nowhere:X: ModuleNotFoundError: No module named 'nowhere'"),
        ("x = odd:Missing", "can't be imported from odd:Missing: AttributeError"),
        ("plain = odd:Plain", "lacks what worker.ports.Runtime asks for: open, close, check, find_image,"),
        ("untold = odd:Untold", "lacks what worker.ports.Runtime asks for: any_image."),
        ("mine = odd:Other", "calls itself 'scripted': the class's `name` must be that of its entry point."),
        ("raises = odd:Raises", "can't be made: ValueError: no such engine. Mend"),
        ("gives = odd:Gives", "can't be made: its from_setup gave type instead of RuntimeParts."),
    ],
)
def test_what_is_no_runtime_is_a_sentence_with_its_package(
    tmp_path: Path, clock: FakeClock, install: Callable[[str], None], entry_point: str, want: str
) -> None:
    install(entry_point)
    name = entry_point.partition(" ")[0]
    with pytest.raises(ConfigInvalid) as refused:
        registry.make(name, setup_of(tmp_path, clock))
    assert str(refused.value).startswith(f"[worker] runtime {name!r} of the package odd-runtimes 1.0 ")
    assert want in str(refused.value)


def test_what_a_runtime_says_of_the_settings_is_shown_as_it_is(
    tmp_path: Path, clock: FakeClock, install: Callable[[str], None]
) -> None:
    install("says = odd:Says")
    with pytest.raises(Unavailable, match=r"^The partition does not answer\.$"):
        registry.make("says", setup_of(tmp_path, clock))


def test_the_check_imports_no_module_of_ours_and_every_other(install: Callable[[str], None]) -> None:
    install("x = nowhere:X")
    for name in ("docker", "scripted"):
        registry.check(HeadwayConfig(worker=WorkerSection(runtime=name)))
    with pytest.raises(ConfigInvalid, match=r"odd-runtimes 1\.0"):
        registry.check(HeadwayConfig(worker=WorkerSection(runtime="x")))


def test_only_a_runtime_that_simulates_needs_no_rules(
    tmp_path: Path, clock: FakeClock, install: Callable[[str], None]
) -> None:
    install("real = odd:Real")
    told: Told = []
    setup = setup_of(tmp_path, clock, told, runtime="real")
    parts = app._parts(setup.config, setup, None, lambda: ())
    assert isinstance(parts.guard, NoGuard)
    assert isinstance(parts.gpus, SimulatedGpus)
    assert told == []


@pytest.mark.parametrize(("rules", "blocks"), [("required", True), ("wanted", False), ("off", None)])
async def test_a_real_runtime_without_a_guard_takes_no_work_where_rules_are_required(
    tmp_path: Path, clock: FakeClock, install: Callable[[str], None], rules: str, blocks: bool | None
) -> None:
    install("real = odd:Real")
    told: Told = []
    setup = setup_of(tmp_path, clock, told, runtime="real", network_rules=rules)
    guard = app._parts(setup.config, setup, None, lambda: ()).guard
    assert guard is not None
    assert await guard.look() is (blocks is None)
    assert [(word, block) for word, _, block in told] == ([] if blocks is None else [("network_rules", blocks)])


def test_docker_brings_its_rules(tmp_path: Path, clock: FakeClock) -> None:
    setup = setup_of(tmp_path, clock, simulated_gpus=2)
    parts = app._parts(setup.config, setup, None, lambda: ())
    assert isinstance(parts.guard, NetworkGuard)
    assert isinstance(parts.gpus, SimulatedGpus)
