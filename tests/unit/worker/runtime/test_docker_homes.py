"""When a task's home is made, made anew, removed and swept; with a stand-in for the mounts."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from docker.errors import NotFound

from headway.ids import AttemptId
from headway.model.reasons import EndWord
from tests.unit.worker.runtime.test_boxed import ATTEMPT, an_order
from tests.unit.worker.runtime.test_docker_errors import an_error
from tests.unit.worker.runtime.test_docker_guards import Engine, FakeApi, ours
from worker import box as boxes
from worker.homes import HomeImpossible, HomeOrder, ImageUser, TaskHome, TaskHomes
from worker.model import attempt_of_folder
from worker.ports import ContainerFiles, ContainerState, EngineUnavailable, LocalImage, RuntimeRefused, StartOrder
from worker.runtime import docker_homes
from worker.runtime.docker_disk import EngineFolders, cannot_show_layers
from worker.runtime.docker_engine import DockerEngine
from worker.runtime.docker_homes import DockerHomes, engine_pid, layers_of
from worker.runtime.docker_options import WorkerIdentity


class Homes:
    """As ``TaskHomes``, without a mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: list[str] = []
        self.orders: list[HomeOrder] = []
        self.error: Exception | None = None
        self.why = ""

    def probe(self, engine_root: Path | None = None, store: Path | None = None) -> str:
        return self.why

    def prepare(self, attempt: AttemptId, order: HomeOrder) -> TaskHome:
        self.orders.append(order)
        self.done.append("prepare")
        if self.error is not None:
            raise self.error
        written = self.folder / attempt.folder / "written"
        written.mkdir(parents=True, exist_ok=True)
        shares = {place: self.folder / place.strip("/") for place in order.shares}
        home = self.folder / attempt.folder / "root"
        led = {"/root/link": ".cache", "/cache": ".cache"}
        rest = {path: led.get(path) or path.removeprefix("/root/") for path in order.volumes if path != "/root"}
        below = {path: home / one for path, one in rest.items() if not one.startswith("/")}
        return TaskHome({"/root": home, **below, **shares}, written, ("a note",))

    def written(self, attempt: AttemptId) -> Path | None:
        folder = self.folder / attempt.folder / "written"
        return folder if folder.is_dir() else None

    def remove(self, attempt: AttemptId) -> None:
        self.done.append("remove home")
        if self.error is not None:
            raise self.error
        if self.written(attempt):
            (self.folder / attempt.folder / "written").rmdir()
            (self.folder / attempt.folder).rmdir()

    def sweep(self, keep: Collection[AttemptId]) -> int:
        self.done.append("sweep")
        gone = [one for one in self.folder.iterdir() if (found := attempt_of(one)) is not None and found not in keep]
        for one in gone:
            (one / "written").rmdir()
            one.rmdir()
        return len(gone)


def attempt_of(folder: Path) -> AttemptId | None:
    return attempt_of_folder(folder.name)


class Api(FakeApi):
    """An engine that notes the order of calls, with the homes' own."""

    def __init__(self, homes: Homes, volumes: Collection[str] = ()) -> None:
        super().__init__()
        self.homes, self.volumes = homes, volumes
        self.configs: list[dict[str, Any]] = []
        self.remove_error: Exception | None = None
        self.layers = homes.folder

    def inspect_image(self, image: str) -> dict[str, Any]:
        config = {"Volumes": {path: {} for path in self.volumes}}
        return {"Config": config, "GraphDriver": {"Data": {"UpperDir": str(self.layers), "LowerDir": "/a:/b"}}}

    def create_container_from_config(self, config: Any, name: str) -> dict[str, str]:
        self.homes.done.append("create")
        self.configs.append(config)
        return {"Id": "c0ffee"}

    def remove_container(self, container: str, **how: Any) -> None:
        if self.remove_error is not None:
            raise self.remove_error
        self.homes.done.append("remove container")

    def containers(self, **how: Any) -> list[dict[str, Any]]:
        return []

    def mounts(self) -> dict[str, str]:
        return {mount["Target"]: mount["Source"] for mount in self.configs[-1]["HostConfig"]["Mounts"]}


class Rig:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "homes").mkdir()
        self.homes = Homes(folder / "homes")
        self.api = Api(self.homes)
        (folder / "launcher").write_bytes(b"\x7fELF")
        self.engine = DockerEngine(f"unix://{folder}/none.sock", timeout_s=1)
        self.begin()

    def begin(self) -> None:
        """A Worker begins anew."""
        identity = WorkerIdentity("lab", "n1", str(self.folder / "attempts"))
        self.runtime = Engine(
            self.folder / "attempts",
            engine=self.engine,
            identity=identity,
            launcher=self.folder / "launcher",
            look_into_images=False,
        )
        self.runtime.api = self.api
        made = DockerHomes(None, self.engine.url, "n1")
        made._homes, made._tried = cast(TaskHomes, self.homes), True
        self.runtime._homes = self.runtime._starting.homes = made
        (self.folder / "attempts").mkdir(exist_ok=True)

    def spec(self) -> boxes.LaunchSpec:
        return boxes.read_spec(self.runtime.box(ATTEMPT))

    def has_a_home(self) -> bool:
        return self.homes.written(ATTEMPT) is not None


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.engine.close()


def order(**fields: Any) -> StartOrder:
    spec = replace(an_order().spec, mounts=("/root/nfs",))
    fields = {"home": Path("/mnt/homes/ann"), "account_uid": 1, "account_gid": 1, "spec": spec, **fields}
    return replace(an_order(), **fields)


async def test_a_home_is_made_before_its_container_and_removed_after_it(rig: Rig) -> None:
    facts = await rig.runtime.start(order())
    assert facts.notes == ("a note",)
    assert not facts.home_is_owners
    assert not rig.spec().open_root
    assert rig.spec().mounts == ("/root", "/root/nfs")
    assert rig.api.mounts()["/root"].endswith(f"{ATTEMPT.folder}/root")
    assert rig.api.mounts()["/root/nfs"] == "/mnt/homes/ann"
    (asked,) = rig.homes.orders
    assert (asked.uid, asked.gid, asked.shares, asked.mountpoints) == (1, 1, {}, ("/root/nfs",))
    assert asked.layers == (rig.homes.folder, Path("/a"), Path("/b"))
    assert await rig.runtime.start(order()) == facts  # the answer of the first got lost
    rig.api.labels = ours(rig.runtime)
    await rig.runtime.remove(ATTEMPT)
    assert rig.homes.done == ["prepare", "create", "create", "remove container", "remove home"]
    assert not rig.has_a_home()


async def test_a_home_stays_while_its_container_may_run(rig: Rig) -> None:
    await rig.runtime.start(order())
    rig.api.labels = ours(rig.runtime)
    rig.api.remove_error = an_error(500, "busy")
    with pytest.raises(EngineUnavailable):
        await rig.runtime.remove(ATTEMPT)
    assert rig.has_a_home()
    rig.api.remove_error = NotFound("gone")
    await rig.runtime.remove(ATTEMPT)
    assert not rig.has_a_home()


async def test_volumes_in_the_home_are_bound_from_it_and_proven(rig: Rig) -> None:
    rig.api.volumes = ["/root", "/root/.cache/", "/root/nfs", "/data"]
    await rig.runtime.start(order())
    assert rig.homes.orders[0].volumes == ("/root", "/root/.cache", "/data")
    assert rig.spec().mounts == ("/root", "/root/.cache", "/root/nfs")
    assert rig.api.mounts()["/root/.cache"].endswith("/root/.cache")


@pytest.mark.parametrize(
    ("volumes", "proven"),
    [
        (["/root/.cache"], ("/root", "/root/.cache", "/root/nfs")),
        (["/root/link"], ("/root", "/root/nfs")),
        (["/cache"], ("/root", "/root/nfs")),
        (["/root/.cache", "/cache"], ("/root", "/root/nfs")),
    ],
)
async def test_volumes_that_links_lead_to_are_not_proven(rig: Rig, volumes: list[str], proven: tuple[str, ...]) -> None:
    """Whether they lie there depends on the order of mounts, and either way the home shows the same folder."""
    rig.api.volumes = volumes
    await rig.runtime.start(order())
    assert rig.spec().mounts == proven
    assert {*volumes} < {*rig.api.mounts()}


async def test_a_task_that_runs_as_its_image_writes_as_the_account(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_homes, "image_user", lambda layers, user, volumes=(): ImageUser(1000, 1001))
    spec = replace(order().spec, drop_caps=False, user="app")
    facts = await rig.runtime.start(order(spec=spec, image=LocalImage("x", user="app")))
    asked = rig.homes.orders[0]
    assert (asked.uid, asked.gid, asked.share_uid) == (1000, 1001, 1)
    assert asked.shares == {"/root/nfs": Path("/mnt/homes/ann")}
    assert facts.home_is_owners
    assert rig.api.mounts()["/root/nfs"] == str(rig.homes.folder / "root/nfs")


@pytest.mark.parametrize("error", [HomeImpossible("No overlay here."), None])
async def test_where_no_home_can_be_made_the_images_own_is_opened_and_a_line_says_so(
    rig: Rig, error: Exception | None
) -> None:
    rig.homes.error = error
    if error is None:
        rig.runtime._homes.problem = "No overlay here."
    facts = await rig.runtime.start(order())
    assert facts.notes == ("What the image has in folders below /root may be closed to the task. No overlay here.",)
    assert rig.spec().open_root
    assert rig.spec().mounts == ("/root/nfs",)
    assert "/root" not in rig.api.mounts()
    assert rig.api.mounts()["/root/nfs"] == "/mnt/homes/ann"


async def test_an_image_whose_layers_nobody_names_gets_no_empty_home(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig.api, "inspect_image", lambda image: {"GraphDriver": {"Data": None}})
    facts = await rig.runtime.start(order())
    assert facts.notes[0].endswith("does not say where the image's layers are.")
    assert rig.spec().open_root


async def test_a_volume_at_the_home_needs_one_of_its_own(rig: Rig) -> None:
    rig.api.volumes = ["/root"]
    rig.runtime._homes.problem = "No overlay here."
    with pytest.raises(RuntimeRefused, match="declares a volume at /root, and n1 can't give") as refused:
        await rig.runtime.start(order())
    assert (refused.value.word, refused.value.elsewhere) == (EndWord.START_FAILED, True)
    assert rig.api.configs == []
    assert rig.runtime.box(ATTEMPT).ticket_withdrawn.exists()


async def test_a_full_disk_is_a_start_that_failed_here(rig: Rig) -> None:
    rig.homes.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(RuntimeRefused, match="n1 could not make the task's home: No space left on device") as refused:
        await rig.runtime.start(order())
    assert (refused.value.word, refused.value.elsewhere) == (EndWord.START_FAILED, True)
    assert rig.api.configs == []


async def test_a_worker_killed_before_the_container_was_made_makes_the_home_anew(rig: Rig) -> None:
    home = rig.runtime._starting.prepare_home(cast(Any, rig.api), order())
    await rig.runtime.lay_out(replace(order(), spec=home.spec_for(order().spec)))
    rig.begin()
    assert (await rig.runtime.start(order())).state is ContainerState.RUNNING
    assert rig.homes.done == ["prepare", "prepare", "create"]


async def test_a_home_that_can_not_be_made_again_is_no_open_image(rig: Rig) -> None:
    """The launcher would find no mount at /root, and blame the image."""
    home = rig.runtime._starting.prepare_home(cast(Any, rig.api), order())
    await rig.runtime.lay_out(replace(order(), spec=home.spec_for(order().spec)))
    rig.begin()
    rig.homes.error = HomeImpossible("No overlay here.")
    with pytest.raises(RuntimeRefused, match="n1 had made a home for the task, and can't make it again"):
        await rig.runtime.start(order())
    assert rig.api.configs == []


async def test_the_spec_in_the_box_decides(rig: Rig) -> None:
    """Of an earlier call that could make no home."""
    await rig.runtime.lay_out(order())
    facts = await rig.runtime.start(order())
    assert facts.state is ContainerState.RUNNING
    assert "/root" not in rig.api.mounts()


@pytest.mark.parametrize("begun", [False, True])
async def test_a_home_that_a_container_has_is_never_made_anew(rig: Rig, begun: bool) -> None:
    """A Worker that was restarted may start an attempt whose container is there, or lives without the engine's word."""
    await rig.runtime.start(order())
    if begun:
        box = rig.runtime.box(ATTEMPT)
        box.ticket.rename(box.ticket_taken)
    else:
        rig.api.labels = ours(rig.runtime)
    rig.begin()
    await rig.runtime.start(order())
    assert rig.homes.done.count("prepare") == 1


async def test_what_no_attempt_owns_is_swept_once(rig: Rig) -> None:
    other, boxed = ATTEMPT._replace(number=7), ATTEMPT._replace(number=8)
    for attempt in (other, boxed):
        (rig.homes.folder / attempt.folder / "written").mkdir(parents=True)
    boxes.create(rig.runtime.box(boxed).root)
    await rig.runtime.start(order())
    await rig.runtime.list()
    await rig.runtime.list()
    assert rig.homes.done.count("sweep") == 1
    assert rig.homes.written(other) is None
    assert rig.homes.written(boxed) is not None
    assert rig.has_a_home()


async def test_a_worker_killed_between_a_container_and_its_home_removes_it_anew(rig: Rig) -> None:
    await rig.runtime.start(order())
    rig.begin()  # the container is gone, and the engine knows it no more
    await rig.runtime.remove(ATTEMPT)
    assert not rig.has_a_home()


async def test_a_home_of_a_start_under_way_is_not_swept(rig: Rig) -> None:
    """Its box is not there yet, and no container."""
    rig.runtime._starting.prepare_home(cast(Any, rig.api), order())
    await rig.runtime.list()
    assert rig.homes.done.count("sweep") == 1
    assert rig.has_a_home()


async def test_a_home_that_can_not_be_removed_is_swept_later(rig: Rig) -> None:
    await rig.runtime.start(order())
    await rig.runtime.list()
    rig.homes.error = OSError(errno.EBUSY, "busy")
    await rig.runtime.remove(ATTEMPT)
    assert rig.has_a_home()
    rig.homes.error = None
    await rig.runtime.list()
    assert not rig.has_a_home()


async def test_a_home_counts_as_what_its_task_wrote(rig: Rig) -> None:
    homes = rig.runtime._homes
    assert homes.files(ATTEMPT, ContainerFiles()).home is None
    await rig.runtime.start(order())
    assert homes.files(ATTEMPT, ContainerFiles()).home == rig.homes.written(ATTEMPT)


def test_layers_are_read_from_the_top() -> None:
    data = {"UpperDir": "/top/diff", "LowerDir": "/middle/diff:/low/diff"}
    assert layers_of({"GraphDriver": {"Data": data}}) == (Path("/top/diff"), Path("/middle/diff"), Path("/low/diff"))
    assert layers_of({"GraphDriver": {"Data": {"UpperDir": "/top/diff"}}}) == (Path("/top/diff"),)
    assert layers_of({"GraphDriver": None}) == ()


@pytest.mark.parametrize(
    ("info", "word"),
    [
        ({"Driver": "overlay2"}, ""),
        ({"Driver": "btrfs"}, "storage driver btrfs"),
        ({"Driver": "overlayfs", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}, "containerd"),
        ({"Driver": "overlay2", "SecurityOptions": ["name=seccomp,profile=default", "name=userns"]}, "userns-remap"),
        ({"Driver": "overlay2", "SecurityOptions": ["name=rootless"]}, "rootless"),
    ],
)
def test_engines_that_show_no_layers(info: dict[str, Any], word: str) -> None:
    sentence = cannot_show_layers(info)
    assert word in sentence
    assert bool(word) == bool(sentence)


def test_who_listens_at_a_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        assert engine_pid(f"unix://{tmp_path}/s") == os.getpid()


async def test_a_fault_that_passes_is_found_to_have_passed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at the start of a Worker kept its tasks without homes until the next start."""
    now = [1_000.0]
    monkeypatch.setattr(docker_homes.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(docker_homes, "engine_pid", lambda url: 1)
    asked: list[str] = []
    monkeypatch.setattr(rig.homes, "probe", lambda *where: (asked.append(rig.homes.why), rig.homes.why)[1])
    folders, made = EngineFolders(rig.engine), rig.runtime._homes
    folders.found = (rig.folder,)
    rig.homes.why = "A home can't be made here: No space left on device."
    for _ in range(61):
        await made.look(folders)
        now[0] += 1
    assert made.problem == rig.homes.why
    assert 3 <= len(asked) <= 5
    rig.homes.why = ""
    now[0] += 60
    await made.look(folders)
    assert made.problem == ""
    asked.clear()
    now[0] += 10_000
    await made.look(folders)
    assert asked == []
