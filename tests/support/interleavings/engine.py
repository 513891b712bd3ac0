"""A container engine that can be killed or stopped at any step, forgets, and lies as real ones do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import requests
from docker.errors import APIError, NotFound

from headway.model.reasons import EndWord
from worker.box import Box
from worker.model import attempt_of_folder
from worker.ports import EngineUnavailable, RuntimeRefused
from worker.runtime.docker_engine import DockerEngine

from .launcher import Launcher
from .stage import Process, StepExecutor, event_within, pause_for

if TYPE_CHECKING:
    from .world import Machine, World

T = TypeVar("T")


@dataclass(slots=True)
class Container:
    """What the engine believes, and the launcher that it may have lost sight of."""

    name: str
    config: dict[str, Any]
    state: str = "created"
    exit_code: int = 0
    launcher: Launcher | None = None


class _Answer:
    """Enough of an HTTP answer for docker's APIError."""

    def __init__(self, status: int) -> None:
        self.status_code, self.reason, self.url = status, "", ""


def _refused(status: int, text: str) -> APIError:
    return APIError(text, response=_Answer(status), explanation=text)  # type: ignore[arg-type]


class SimulatedEngine:
    """The engine of one machine. Its containers outlive it, as those of containerd do."""

    def __init__(self, world: World, machine: Machine, *, live_restore: bool) -> None:
        self._world, self._machine = world, machine
        self.live_restore = live_restore
        self.containers: dict[str, Container] = {}
        self.refuses_next = False
        self._process = Process("engine")
        self._goes_on = asyncio.Event()
        self._goes_on.set()

    @property
    def is_up(self) -> bool:
        return self._process.alive

    # -- what happens to it ---------------------------------------------------------------------------

    def kill(self) -> None:
        self._process.kill()

    def freeze(self) -> None:
        """SIGSTOP: requests wait in its socket."""
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    def start(self) -> None:
        """After a kill: it reads its books, which may be wrong."""
        if self.is_up:
            return
        self._process = Process("engine")
        self._goes_on.set()
        chance = self._world.chance
        for container in list(self.containers.values()):
            lives = container.launcher is not None and container.launcher.lives
            if container.state == "running" and lives and not self.live_restore:
                assert container.launcher is not None
                container.launcher.kill()
                container.state, container.exit_code = "exited", chance.choice([137, 255, 0])
            elif container.state == "running" and not lives:
                container.state, container.exit_code = "exited", chance.choice([137, 255, 0])
            elif chance.random() < 0.1:
                self._world.tell(f"the engine of {self._machine.name} has forgotten {container.name}")
                del self.containers[container.name]
            elif lives and chance.random() < 0.1:
                self._world.tell(f"the engine of {self._machine.name} believes that {container.name} has ended")
                container.state, container.exit_code = "exited", chance.choice([137, 255, 0])

    async def stop(self) -> None:
        """As `systemctl stop`: without live-restore it ends its containers first."""
        if not self.live_restore:
            running = [c for c in self.containers.values() if c.state == "running" and c.launcher is not None]
            for container in running:
                assert container.launcher is not None
                container.launcher.terminated.set()
                container.launcher.orders.set()
            for container in running:
                assert container.launcher is not None
                if not await event_within(container.launcher.gone, 10.0, self._machine.clock):
                    container.launcher.kill()
        self.kill()

    def machine_dies(self) -> None:
        self.kill()
        for container in self.containers.values():
            if container.launcher is not None:
                container.launcher.kill(at_once=True)
            if container.state == "running":
                container.state, container.exit_code = "exited", 0

    def launcher_ended(self, launcher: Launcher) -> None:
        """containerd tells it, if it is there to hear."""
        for container in self.containers.values():
            if container.launcher is launcher and container.state == "running" and self.is_up:
                container.state, container.exit_code = "exited", launcher.exit_code or 0

    # -- requests ---------------------------------------------------------------------------------------

    async def ask(self, what: str, work: Callable[[], Any], *, timeout_s: float) -> Any:
        """One request. The client may give up while it goes on in the engine."""
        machine, world = self._machine, self._world
        if not self.is_up:
            raise requests.ConnectionError("connection refused")
        answered = asyncio.Event()
        outcome: list[Any] = []
        server = self._process

        async def serve() -> None:
            try:
                await self._goes_on.wait()
                await world.delay(machine.clock, 3.0, usual=0.02)
                world.hit(f"engine begins to {what}", machine)
                server.check()
                try:
                    result = work()
                    if asyncio.iscoroutine(result):
                        result = await result
                    outcome.append(result)
                except APIError as error:
                    outcome.append(error)
                world.hit(f"engine has done {what}", machine)
                server.check()
                await world.delay(machine.clock, 3.0, usual=0.02)
                await self._goes_on.wait()
            except asyncio.CancelledError:
                outcome[:] = [requests.ConnectionError("connection reset by peer")]
                raise
            finally:
                answered.set()

        server.spawn(serve()).add_done_callback(lambda done: answered.set())
        if not await event_within(answered, timeout_s, machine.clock):
            raise requests.ReadTimeout("timed out")
        if not outcome:
            raise requests.ConnectionError("connection reset by peer")
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    def create(self, name: str, config: dict[str, Any]) -> dict[str, Any]:
        if name in self.containers:
            raise _refused(409, f"Conflict. The container name {name} is already in use by another container")
        if self.refuses_next:
            self.refuses_next = False
            raise _refused(404, "No such image: sha256:feed")
        self.containers[name] = Container(name, config)
        return {"Id": name}

    async def start_container(self, name: str) -> None:
        world, machine = self._world, self._machine
        container = self._known(name)
        if container.state == "running":
            return
        if self.refuses_next:
            self.refuses_next = False
            raise _refused(500, "OCI runtime create failed: runc create failed: unable to start container process")
        before = container.launcher
        if before is not None and before.lives and "engine: starts a second" not in world.broken:
            text = world.chance.choice(
                [f"container with id {name} already in use", "failed to start shim: mkdir: file exists"]
            )
            raise _refused(500, text)
        world.hit("engine begins a launcher", machine)
        self._process.check()
        mounts = container.config["HostConfig"]["Mounts"]
        box = Box(Path(next(m["Source"] for m in mounts if m["Target"].startswith("/headway-"))))
        attempt = attempt_of_folder(box.root.parent.name)
        assert attempt is not None
        container.launcher = machine.begin_launcher(attempt, box)
        await world.delay(machine.clock, 2.0, usual=0.05)
        world.hit("engine has begun a launcher and not noted it", machine)
        self._process.check()
        if container.launcher.lives:
            container.state = "running"
        else:
            container.state, container.exit_code = "exited", container.launcher.exit_code or 0

    def inspect(self, name: str) -> dict[str, Any]:
        container = self._known(name)
        return {
            "Id": name,
            "Name": f"/{name}",
            "Image": "sha256:feed",
            "Config": {"Labels": container.config["Labels"]},
            "State": {"Status": container.state, "ExitCode": container.exit_code},
        }

    def kill_container(self, name: str) -> None:
        container = self._known(name)
        if container.state != "running":
            raise _refused(409, f"Container {name} is not running")
        if container.launcher is not None:
            container.launcher.kill()
        container.state, container.exit_code = "exited", 137

    def remove(self, name: str) -> None:
        container = self._known(name)
        # What it believes to have ended goes from its books alone.
        if container.state == "running" and container.launcher is not None:
            container.launcher.kill()
        del self.containers[name]

    def listing(self) -> list[dict[str, Any]]:
        return [
            {"Id": c.name, "Names": [f"/{c.name}"], "Labels": c.config["Labels"], "State": c.state}
            for c in self.containers.values()
        ]

    def _known(self, name: str) -> Container:
        if name not in self.containers:
            raise NotFound(f"No such container: {name}", response=_Answer(404), explanation="No such container")  # type: ignore[arg-type]
        return self.containers[name]


class EngineApi:
    """The calls of docker's APIClient that the Worker makes."""

    def __init__(self, engine: SimulatedEngine, process: Process, timeout_s: float) -> None:
        self._engine, self._process, self._timeout_s = engine, process, timeout_s

    def _ask(self, what: str, work: Callable[[], Any]) -> Any:
        self._process.check()
        answer = pause_for(self._engine.ask(what, work, timeout_s=self._timeout_s))
        self._process.check()
        return answer

    def create_container_from_config(self, config: dict[str, Any], name: str) -> Any:
        return self._ask("create", lambda: self._engine.create(name, config))

    def start(self, name: str) -> None:
        self._ask("start", lambda: self._engine.start_container(name))

    def inspect_container(self, name: str) -> Any:
        return self._ask("inspect", lambda: self._engine.inspect(name))

    def inspect_image(self, image: str) -> Any:
        return self._ask("inspect an image", lambda: {"Config": {}})

    def kill(self, name: str, signal: str) -> None:
        self._ask("kill", lambda: self._engine.kill_container(name))

    def remove_container(self, name: str, *, v: bool, force: bool) -> None:
        self._ask("remove", lambda: self._engine.remove(name))

    def containers(self, **filters: Any) -> Any:
        return self._ask("list", self._engine.listing)

    def version(self) -> Any:
        return self._ask("version", lambda: {"Version": "28", "Arch": "amd64"})


class ModelDockerEngine(DockerEngine):
    """The product's calls to an engine, without threads and by the machine's clock."""

    def __init__(self, engine: SimulatedEngine, process: Process, clock: Any, *, timeout_s: float) -> None:
        super().__init__("unix:///simulated", timeout_s=timeout_s)
        self._engine, self._process, self._clock = engine, process, clock
        steps: Any = StepExecutor(process)
        self._threads = self._quick_threads = self._home_threads = self._pull_threads = steps

    def client(self, timeout_s: float | None) -> Any:
        return EngineApi(self._engine, self._process, timeout_s or self.timeout_s)

    async def _wait(self, call: Future[T], limit_s: float) -> T:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        call.add_done_callback(lambda _: loop.call_soon(done.set))
        if not await event_within(done, 2 * limit_s, self._clock):
            raise EngineUnavailable("no answer")
        return call.result()


def no_image(sentence: str) -> RuntimeRefused:
    """As a registry refuses."""
    return RuntimeRefused(sentence, word=EndWord.IMAGE_PULL_FAILED, elsewhere=True)
