"""`headway up`: a state folder that is whole or refused, and processes that are kept."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headway.errors import ConfigInvalid, Unavailable
from headway.mount import MARKER, read_marker
from headway.up import checks, prepare
from headway.up.prepare import PreparedConfig, UpOptions, with_keys
from headway.up.supervisor import STOP_ORDER, PortsMoved, StartFailed, Supervisor
from tests.support.clock import FakeClock
from tests.support.ports import free_port
from tests.support.waiting import eventually


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def opened() -> Iterator[list[PreparedConfig]]:
    opened: list[PreparedConfig] = []
    yield opened
    for prepared in opened:
        os.close(prepared.lock_fd)


def make(state: Path, opened: list[PreparedConfig], **wishes: object) -> PreparedConfig:
    prepared = prepare.prepare(state, UpOptions(**{"port": free_port(), **wishes}), lambda line: None)  # type: ignore[arg-type]
    opened.append(prepared)
    return prepared


def again(state: Path, opened: list[PreparedConfig], **wishes: object) -> PreparedConfig:
    os.close(opened.pop().lock_fd)
    prepared = prepare.prepare(state, UpOptions(**wishes), lambda line: None)  # type: ignore[arg-type]
    opened.append(prepared)
    return prepared


def test_the_first_start_makes_everything_private_and_whole(state: Path, opened: list[PreparedConfig]) -> None:
    prepared = make(state, opened)
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "token").stat().st_mode & 0o077 == 0
    assert prepared.config_path.stat().st_mode & 0o077 == 0
    config = prepared.config
    assert len(config.cluster.token) == 64
    assert config.cluster.state_dir == str(state)
    assert config.httpserver.first_admin_file == str(state / "first-admin")
    assert config.worker.folder == str(state / "worker")
    assert config.worker.local_images
    assert config.log.file == str(state / "logs" / "{service}.log")
    assert read_marker(state / "mount") == config.cluster.name
    assert prepared.first


def test_a_second_start_keeps_what_a_person_wrote(state: Path, opened: list[PreparedConfig]) -> None:
    first = make(state, opened)
    text = first.config_path.read_text("utf-8").replace("[worker]", "# mine\n[worker]\ndisk_low_bytes = '1GiB'")
    first.config_path.write_text(text, "utf-8")
    second = again(state, opened)
    assert second.config_path.read_text("utf-8") == text
    assert second.config.worker.disk_low_bytes == 1 << 30
    assert second.config.cluster.token == first.config.cluster.token
    assert not second.first


def test_a_folder_of_an_older_version_goes_on_without_firewall_rules(state: Path, opened: list[PreparedConfig]) -> None:
    """Where the rules can't be set, its node would take no work from one day to the next."""
    first = make(state, opened)
    assert first.config.worker.network_rules == "wanted"
    text = first.config_path.read_text("utf-8")
    first.config_path.write_text(text.replace('network_rules = "wanted"\n', ""), "utf-8")
    assert again(state, opened).config.worker.network_rules == "wanted"
    first.config_path.write_text(text.replace('"wanted"', '"required"'), "utf-8")
    assert again(state, opened).config.worker.network_rules == "required"


def test_options_are_remembered(state: Path, opened: list[PreparedConfig]) -> None:
    make(state, opened, runtime="scripted", simulated_gpus=4)
    config = again(state, opened).config
    assert (config.worker.runtime, config.worker.simulated_gpus, config.cluster.simulated) == ("scripted", 4, True)
    config = again(state, opened, runtime="docker").config
    assert (config.worker.runtime, config.worker.simulated_gpus, config.cluster.simulated) == ("docker", 4, False)
    config = again(state, opened, simulated_gpus=2, simulated_gpu_model="A100").config
    assert (config.worker.simulated_gpus, config.worker.simulated_gpu_model) == (2, "A100")
    config = again(state, opened, simulated_gpus=3).config
    assert (config.worker.simulated_gpus, config.worker.simulated_gpu_model) == (3, "A100")


def test_ports_stay_unless_they_are_taken(state: Path, opened: list[PreparedConfig]) -> None:
    before = make(state, opened).config
    assert again(state, opened).config == before
    port = int(before.task_manager.bind.rpartition(":")[2])
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        after = again(state, opened).config
    assert after.task_manager.bind != before.task_manager.bind
    assert after.job_manager.bind == before.job_manager.bind
    assert after.peers.task_manager == after.task_manager.bind


def test_metrics_are_opened_once_asked_for_and_stay_open(state: Path, opened: list[PreparedConfig]) -> None:
    closed = make(state, opened)
    assert closed.metrics_urls == []
    shown = again(state, opened, metrics=True)
    doors = [getattr(shown.config, service).metrics_listen for service in STOP_ORDER if service != "httpserver"]
    assert len(set(doors)) == 4
    assert all(door.startswith("127.0.0.1:") for door in doors)
    assert shown.config.httpserver.metrics_listen == ""
    assert shown.metrics_urls[0] == f"{shown.url}/metrics"
    assert set(shown.metrics_urls[1:]) == {f"http://{door}/metrics" for door in doors}
    assert again(state, opened).config == shown.config
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", int(shown.config.worker.metrics_listen.rpartition(":")[2])))
        other.listen()
        moved = again(state, opened).config
    assert moved.worker.metrics_listen not in ("", *doors)
    assert moved.task_manager == shown.config.task_manager


def test_a_taken_page_port_is_one_sentence_and_nothing_is_left(state: Path, opened: list[PreparedConfig]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigInvalid, match=rf"Port {port} .* taken by another program: choose another one"):
            make(state, opened, port=port)
    assert not (state / "headway.toml").exists()
    assert not (state / "mount").exists()
    assert make(state, opened).first


def test_two_on_one_folder_are_refused_with_the_address(
    state: Path, opened: list[PreparedConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make(state, opened)
    monkeypatch.setattr(prepare, "_is_headway", lambda pid: pid == os.getpid())
    prepare.write_lock(first)
    with pytest.raises(ConfigInvalid, match=rf"already runs on {state} \(process {os.getpid()}, {first.url}\)"):
        prepare.prepare(state, UpOptions(), lambda line: None)


def test_services_of_a_killed_run_are_waited_for(state: Path, opened: list[PreparedConfig]) -> None:
    make(state, opened)
    os.close(opened.pop().lock_fd)
    # A service of the killed run still holds the lock, and the file names a process that is gone.
    holder = subprocess.Popen(
        [sys.executable, "-c", "import fcntl,sys; f=open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); input()",
         str(state / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None
    holder.stdout.readline()
    gone = subprocess.Popen(["true"])
    gone.wait()
    (state / "lock").write_text(json.dumps({"pid": gone.pid}))
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        holder.communicate(b"\n")

    opened.append(prepare.prepare(state, UpOptions(), say))
    assert said == ["An earlier run on this folder is still stopping; waiting for it."]


def test_a_mount_elsewhere_is_used_and_keeps_its_cluster(
    state: Path, tmp_path: Path, opened: list[PreparedConfig]
) -> None:
    mount = tmp_path / "nfs"
    first = make(state, opened, mount=mount)
    assert read_marker(mount) == first.config.cluster.name
    other = make(tmp_path / "other state", opened, mount=mount)
    assert other.config.cluster.name == first.config.cluster.name


def test_a_mount_that_lost_its_marker_is_not_written_to(
    state: Path, tmp_path: Path, opened: list[PreparedConfig]
) -> None:
    mount = tmp_path / "nfs"
    make(state, opened, mount=mount)
    for path in sorted(mount.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(ConfigInvalid, match="is the disk mounted"):
        again(state, opened)
    assert list(mount.iterdir()) == []
    (mount / MARKER).write_text(tomllib.loads((state / "headway.toml").read_text())["cluster"]["name"])
    opened.append(prepare.prepare(state, UpOptions(), lambda line: None))


def test_a_broken_file_is_named_by_its_real_name_and_kept(state: Path, opened: list[PreparedConfig]) -> None:
    path = make(state, opened).config_path
    broken = path.read_text().replace("[worker]", "[worker]\nrutime = 3")
    path.write_text(broken)
    with pytest.raises(ConfigInvalid, match=rf"^{path}:\d+: \[worker\] rutime is not known; did you mean runtime\?$"):
        again(state, opened)
    assert path.read_text() == broken
    assert not (state / "headway.toml.new").exists()


def test_a_reserve_as_large_as_the_simulated_cluster_is_refused_and_nothing_is_changed(
    state: Path, opened: list[PreparedConfig]
) -> None:
    path = make(state, opened, runtime="scripted", simulated_gpus=4).config_path
    path.write_text(path.read_text() + '\n[task_manager.limits.short_reserve]\ngpus = 4\nabove = "10m"\n')
    text = path.read_text()
    want = (
        rf"^{path}:\d+: \[task_manager.limits.short_reserve\] gpus is 4. .* leaves none of the cluster's 4 for tasks "
    )
    with pytest.raises(ConfigInvalid, match=want):
        again(state, opened)
    with pytest.raises(ConfigInvalid, match="leaves none of the cluster's 2"):
        prepare.prepare(state, UpOptions(simulated_gpus=2), lambda line: None)
    assert path.read_text() == text
    assert not (state / "headway.toml.new").exists()
    opened.append(prepare.prepare(state, UpOptions(simulated_gpus=5), lambda line: None))


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        ("log_aging:c=-5", r"'log_aging:c=-5' can't be used: "),
        ("aging_sfj", r"'aging_sfj'; there are .* Did you mean aging_sjf\?"),
    ],
)
def test_a_policy_that_can_not_be_had_is_refused_before_anything_starts(
    state: Path, opened: list[PreparedConfig], monkeypatch: pytest.MonkeyPatch, policy: str, want: str
) -> None:
    path = make(state, opened, runtime="scripted", simulated_gpus=4).config_path
    text = path.read_text()
    section = "\n[task_manager]\n"  # there already where the port that is usual was taken
    asked = f'{section}policy = "{policy}"\n'
    path.write_text(text.replace(section, asked) if section in text else text + asked)
    with pytest.raises(ConfigInvalid, match=rf"^{path}:\d+: \[task_manager\] policy can't be taken: .*{want}"):
        again(state, opened)
    path.write_text(text)
    monkeypatch.setenv("HEADWAY_TASK_MANAGER__POLICY", policy)
    with pytest.raises(ConfigInvalid, match=r"^HEADWAY_TASK_MANAGER__POLICY: \[task_manager\] policy can't be taken: "):
        prepare.prepare(state, UpOptions(), lambda line: None)


def test_a_folder_that_can_not_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigInvalid, match=r"can't be made: Not a directory\. Choose another folder with --state"):
        prepare.prepare(tmp_path / "file" / "state", UpOptions(), lambda line: None)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "\n[a]\nk = 1\n"),
        ("[a]\nx = 1\n\n[b]\nk = 2\n", "[a]\nx = 1\nk = 1\n\n[b]\nk = 2\n"),
        ("[a] # c\n  k   = 5 # old\n", "[a] # c\nk = 1\n"),
        ("[a.b]\nk = 3\n[a]\n", "[a.b]\nk = 3\n[a]\nk = 1\n"),
    ],
)
def test_one_key_is_set_and_all_else_stays(text: str, want: str) -> None:
    assert with_keys(text, {"a.k": 1}) == want
    assert tomllib.loads(want)["a"]["k"] == 1


def test_an_engine_that_is_away_is_one_sentence(state: Path, tmp_path: Path, opened: list[PreparedConfig]) -> None:
    config = make(state, opened).config
    absent = config.model_copy(
        update={"worker": config.worker.model_copy(update={"docker_host": f"unix://{tmp_path}/no.sock"})}
    )
    with pytest.raises(Unavailable, match=r"Docker Engine does not answer .*No such file.*--runtime scripted"):
        checks.engine(absent)
    scripted = absent.worker.model_copy(update={"runtime": "scripted"})
    checks.engine(absent.model_copy(update={"worker": scripted}))


# -- the supervisor ------------------------------------------------------------------------------------

_SERVICE = """
import asyncio, os, sys
from headway import logs
from headway.errors import ConfigInvalid, PortTaken
from headway.lifecycle import Service, run_service

name, folder = sys.argv[1], sys.argv[2]

async def serve():
    if os.path.exists(f"{folder}/{name}.late"):
        raise PortTaken(f"{name} can't listen.")
    if os.path.exists(f"{folder}/{name}.broken"):
        raise ConfigInvalid(f"{name} is broken for the test.")
    service = Service(name)
    if os.path.exists(f"{folder}/{name}.deaf"):
        service.on_stop(lambda: asyncio.sleep(60))
    service.on_open(lambda: open(f"{folder}/diary", "a").write(f"open {name}\\n") and None)
    service.on_stop(lambda: open(f"{folder}/diary", "a").write(f"stop {name}\\n") and None)
    await service.run()

logs.setup(service=name, fmt="json")
sys.exit(run_service(serve()))
"""


class Rig:
    """A supervisor over three toy services."""

    def __init__(self, folder: Path, clock: FakeClock, repository: Path) -> None:
        self.folder, self.clock = folder, clock
        self.said: list[str] = []
        self.lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
        self.supervisor = Supervisor(
            folder / "headway.toml",
            folder,
            lock_fd=self.lock,
            services=("httpserver", "task_manager", "worker"),
            command=lambda service, _: [sys.executable, "-c", _SERVICE, service, str(folder)],
            environment={**os.environ, "PYTHONPATH": str(repository)},
            say=self.said.append,
            clock=clock,
        )

    def diary(self, word: str) -> list[str]:
        path = self.folder / "diary"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split()[1] for line in lines if line.startswith(word)]

    def pid(self, service: str) -> int:
        return self.supervisor.children[service].pid


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock, repository: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path, clock, repository)
    yield rig
    for child in list(rig.supervisor.children.values()):
        child.signal(signal.SIGKILL)
    os.close(rig.lock)


async def test_services_start_and_stop_in_order(rig: Rig) -> None:
    await rig.supervisor.start()
    assert sorted(rig.diary("open")) == ["httpserver", "task_manager", "worker"]
    assert len({os.getpgid(rig.pid(name)) for name in rig.supervisor.children}) == 3
    assert os.getpgid(0) not in {os.getpgid(rig.pid(name)) for name in rig.supervisor.children}
    keeping = asyncio.create_task(rig.supervisor.keep())
    rig.supervisor.request_stop()
    await keeping
    assert rig.diary("stop") == [name for name in STOP_ORDER if name in ("httpserver", "task_manager", "worker")]
    assert rig.said == []


async def test_a_killed_service_is_started_again_and_said_so(rig: Rig) -> None:
    await rig.supervisor.start()
    keeping = asyncio.create_task(rig.supervisor.keep())
    before = rig.pid("worker")
    os.kill(before, signal.SIGKILL)
    await eventually(lambda: rig.clock.sleeping == 1)
    assert rig.said[0].startswith("worker was killed by SIGKILL. See ")
    assert rig.said[0].endswith("Starting it again in 0.5 s.")
    await rig.clock.advance(0.5)
    await eventually(lambda: rig.diary("open").count("worker") == 2)
    assert rig.pid("worker") != before
    assert rig.diary("open").count("task_manager") == 1
    rig.supervisor.request_stop()
    await keeping


async def test_pauses_grow_while_it_keeps_dying(rig: Rig) -> None:
    await rig.supervisor.start()
    keeping = asyncio.create_task(rig.supervisor.keep())
    (rig.folder / "worker.broken").touch()
    os.kill(rig.pid("worker"), signal.SIGKILL)
    for pause in (0.5, 1, 2):
        await eventually(lambda: rig.clock.sleeping == 1)
        assert rig.said[-1].endswith(f"Starting it again in {pause:g} s.")
        await rig.clock.advance(pause)
    assert "worker ended (status 2): worker is broken for the test." in rig.said[-1]
    rig.supervisor.request_stop()
    await keeping


async def test_one_that_can_not_start_stops_the_others_and_says_why(rig: Rig) -> None:
    (rig.folder / "task_manager.broken").touch()
    with pytest.raises(StartFailed, match=r"task_manager could not start \(status 2\): task_manager is broken for"):
        await rig.supervisor.start()
    assert rig.supervisor.children == {}
    assert sorted(rig.diary("open")) == sorted(rig.diary("stop"))


async def test_a_port_lost_at_the_last_moment_is_told_apart(rig: Rig) -> None:
    (rig.folder / "worker.late").touch()
    with pytest.raises(PortsMoved, match="worker can't listen"):
        await rig.supervisor.start()
    assert rig.supervisor.children == {}


def test_another_look_moves_the_lost_port_only(state: Path, opened: list[PreparedConfig]) -> None:
    before = make(state, opened)
    port = int(before.config.worker.bind.rpartition(":")[2])
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Where another program of this machine was quicker, the port is lost just as well.
        with contextlib.suppress(OSError):
            other.bind(("127.0.0.1", port))
            other.listen()
        after = prepare.again(before)
    assert after.config.worker.bind != before.config.worker.bind
    assert after.config.task_manager == before.config.task_manager
    assert after.config.httpserver == before.config.httpserver
    assert after.first


async def test_a_second_wish_kills(rig: Rig) -> None:
    (rig.folder / "httpserver.deaf").touch()
    await rig.supervisor.start()
    keeping = asyncio.create_task(rig.supervisor.keep())
    rig.supervisor.request_stop()
    await eventually(lambda: rig.diary("stop") == ["httpserver"])
    rig.supervisor.request_stop()
    async with asyncio.timeout(5):
        await keeping


async def test_services_hold_the_folders_lock_until_the_last_is_gone(rig: Rig) -> None:
    fcntl.flock(rig.lock, fcntl.LOCK_EX)
    await rig.supervisor.start()
    # As when `up` is killed: its own descriptor goes, those of the services stay.
    os.close(rig.lock)
    rig.lock = os.open(os.devnull, os.O_RDONLY)
    with (rig.folder / "lock").open() as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        rig.supervisor.request_stop()
        await rig.supervisor.keep()
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
