"""Runs each attempt as a container of a Docker Engine. The contract is ``ports.Runtime``.

A start is just two calls to the engine: create and start. A container is named after its attempt, and the engine gives
a name only once. So an attempt never has two containers. If the answer of a create got lost, the next create finds the
container by the name's conflict.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from docker import APIClient
from docker.errors import APIError, NotFound

from headway.ids import AttemptId
from headway.logs import get_logger
from headway.model.reasons import EndWord

from ..box import BoxError, BoxStanding, exists
from ..homes import TaskHomes
from ..launcher import launcher_path
from ..model import WantedImage
from ..ports import (
    AttemptProgress,
    ContainerFacts,
    ContainerFiles,
    ContainerState,
    EngineFacts,
    EngineImage,
    EngineUnavailable,
    ImageArchive,
    ImageRemoval,
    LocalImage,
    RegistryCredentials,
    RuntimeRefused,
    StartOrder,
)
from .boxed import BoxedRuntime
from .docker_containers import AttemptContainers
from .docker_disk import EngineFolders, container_files
from .docker_engine import DockerEngine, KeyedLock, StartSlots
from .docker_errors import text_of
from .docker_events import EngineEvents
from .docker_facts import CONTAINER_STATES
from .docker_gpu_ways import GpuWays
from .docker_gpus import GpuProbe
from .docker_guard import docker_guard
from .docker_homes import DockerHomes, task_homes
from .docker_images import DockerImages
from .docker_networks import TaskNetworks
from .docker_options import WorkerIdentity, devices_of
from .docker_outages import EngineOutages
from .docker_places import ImagePlaces, LookTakesLong
from .docker_start import BEGUN, ContainerStarts
from .docker_ulimits import engine_ulimits
from .setup import RuntimeParts, RuntimeSetup

if TYPE_CHECKING:
    from headway.config import HeadwayConfig

log = get_logger(__name__)
T = TypeVar("T")

_LOOK_S = 0.5


class DockerRuntime(BoxedRuntime):
    """See the module. One event loop owns it."""

    name = "docker"
    simulates = False
    any_image = False

    def __init__(
        self,
        attempts_dir: Path,
        *,
        engine: DockerEngine,
        identity: WorkerIdentity,
        launcher: Path,
        local_images: bool = True,
        pids_limit: int = 4_096,
        job_range: str = "10.213.0.0/16",
        look_into_images: bool = True,
        homes: TaskHomes | None = None,
        gpu_ways: GpuWays | None = None,
    ) -> None:
        super().__init__(attempts_dir, launcher)
        self._engine = engine
        self._identity = identity
        self._containers = AttemptContainers(identity, self.box)
        self.networks = TaskNetworks(engine, identity, IPv4Network(job_range))
        self._images = DockerImages(engine, node=identity.node, local=local_images)
        self.gpu_probe = GpuProbe(engine, identity.node, identity.short, ways=gpu_ways)
        self._folders = EngineFolders(engine)
        self._homes = DockerHomes(homes, engine.url, identity.node)
        self._starting = ContainerStarts(
            identity,
            self._containers,
            self.networks,
            self._homes,
            self.gpu_probe,
            ImagePlaces(identity) if look_into_images else None,
            pids_limit,
            self._judge,
            self._withdraw,
        )
        self._outages = EngineOutages()
        self._keeps_containers: bool | None = None  # not asked since the engine came
        self._most_ulimits: tuple[tuple[str, int], ...] | None = None  # likewise
        self._events = EngineEvents(engine, on_connect=self._connected, on_loss=self._lost, on_event=self._engine_event)
        # More starts at once would only wait for each other in the engine.
        self._starts = StartSlots(min(16, max(8, 2 * (os.cpu_count() or 1))))
        self._gpu_starts = StartSlots(8)  # of their own: those that hang on a GPU keep no other task waiting
        self._in_turn: KeyedLock[AttemptId] = KeyedLock()
        self._known_attempts: set[AttemptId] = set()
        self._on_change: Callable[[AttemptId], None] = lambda attempt: None

    @classmethod
    def from_config(cls, config: HeadwayConfig, attempts_dir: Path) -> DockerRuntime:
        """The runtime of the configuration. Raises LauncherMissing."""
        settings, launcher = config.worker, launcher_path()
        nodes = None
        if not settings.simulated_gpus:
            from .gpu_nodes import DeviceNodes

            nodes = DeviceNodes(settings.node_id, attempts_dir.resolve().parent / "gpu-driver")
        return cls(
            attempts_dir.resolve(),
            engine=DockerEngine(settings.docker_host, timeout_s=settings.engine_timeout_s),
            identity=WorkerIdentity(config.cluster.name, settings.node_id, str(attempts_dir.resolve())),
            launcher=launcher,
            local_images=settings.local_images,
            pids_limit=settings.pids_limit,
            job_range=settings.network_job_range,
            homes=task_homes(attempts_dir.resolve(), launcher),
            gpu_ways=GpuWays(settings.node_id, setting=settings.gpu_passing, nodes=nodes),
        )

    @classmethod
    def from_setup(cls, setup: RuntimeSetup) -> RuntimeParts:
        """As ``RuntimeKind.from_setup``, with the firewall rules of its networks, and GPUs that it can pass on."""
        runtime = cls.from_config(setup.config, setup.attempts_dir)
        guard = docker_guard(setup, runtime.networks, sweep=runtime.sweep_networks)
        settings = setup.config.worker
        if settings.simulated_gpus:
            return RuntimeParts(runtime, guard=guard)
        from ..machine.gpus import NvmlGpus

        runtime.gpu_probe.tell = lambda sentence: setup.tell("gpu_unavailable", sentence, False)
        gpus = NvmlGpus(
            outside_memory_bytes=settings.gpu_outside_memory_bytes,
            cannot_pass=runtime.gpu_probe.problem,
            unfit=runtime.gpu_probe.cards,
            clean_s=settings.gpu_clean_s,
            clock=setup.clock,
        )
        return RuntimeParts(runtime, gpus=gpus, guard=guard, gpu_passing=runtime.gpu_probe.passing)

    # -- opening and closing ----------------------------------------------------------------------

    async def open(self, on_change: Callable[[AttemptId], None]) -> None:
        self._on_change = on_change
        await super().open(on_change)
        self._events.start()

    async def close(self) -> None:
        self.gpu_probe.close()
        self._events.close()
        self._engine.close()
        await super().close()

    async def check(self) -> EngineFacts:
        version = await self._engine.quick(lambda api: api.version())
        architecture = str(version.get("Arch", ""))
        self._images.architecture = architecture
        await self._folders.look()
        await self._homes.look(self._folders)
        if not self._keeps_containers:  # an admin may turn it on while the engine runs
            info = await self._engine.quick(lambda api: api.info())
            self._keeps_containers = bool(info.get("LiveRestoreEnabled", True))
            self.gpu_probe.ways.learn(info)
        if self._most_ulimits is None:
            self._most_ulimits = await asyncio.to_thread(engine_ulimits, self._engine.url)
        return EngineFacts(
            str(version.get("Version", "")),
            architecture,
            self._keeps_containers,
            home_problem=self._homes.problem,
            most_ulimits=self._most_ulimits,
        )

    # -- images -----------------------------------------------------------------------------------

    async def find_image(self, wanted: WantedImage) -> LocalImage | None:
        return await self._images.find(wanted)

    async def load_image(self, wanted: WantedImage, archive: ImageArchive) -> LocalImage:
        return await self._images.load(wanted, archive)

    async def resolve_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> str:
        return await self._images.resolve(wanted, credentials)

    async def pull_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> LocalImage:
        return await self._images.pull(wanted, credentials)

    async def mark_image(self, image_id: str) -> None:
        await self._images.mark(image_id)

    async def remove_image(self, image_id: str, names: Collection[str]) -> ImageRemoval:
        return await self._images.remove(image_id, names)

    async def layers_there(self, layers: Sequence[str]) -> int:
        self._images.reuses_layers = self._folders.reuses_layers
        return await self._images.layers_there(layers)

    async def images(self) -> Sequence[EngineImage]:
        return await self._images.listing()

    # -- disks ------------------------------------------------------------------------------------

    def data_folders(self) -> Sequence[Path]:
        return self._folders.found

    async def files(self, attempt: AttemptId) -> ContainerFiles:
        name, here = self._containers.name(attempt), self._folders.found
        return await self._engine_call(lambda api: self._homes.files(attempt, container_files(api, name, here)))

    # -- one attempt ------------------------------------------------------------------------------

    async def start(self, order: StartOrder) -> ContainerFacts:
        attempt = order.attempt
        home = await self._one_by_one(attempt, lambda api: self._starting.prepare_home(api, order), on_disk=True)
        given = self.gpu_probe.given(devices_of(order))
        try:
            laid_out = await self.lay_out(replace(order, spec=given.spec_for(home.spec_for(order.spec))))
            if not laid_out.digest:
                raise BoxError("the spec is gone or broken")
        except (OSError, BoxError, ValueError) as error:
            # A program that is root may have broken the files of its own box.
            standing = self._judge(attempt)
            if standing in BEGUN:
                return ContainerFacts(ContainerState.RUNNING, image_id=order.image.id)
            if standing is BoxStanding.MAY_START and not self._withdraw(attempt):
                raise EngineUnavailable(f"The start failed, but its launcher lives. {error}") from error
            raise RuntimeRefused(
                f"{self._identity.node} could not write the task's files: {error}",
                word=EndWord.START_FAILED,
                elsewhere=isinstance(error, OSError),
            ) from error
        self._known_attempts.add(attempt)
        order, home = replace(order, spec=laid_out.spec), home.fitting(laid_out.spec, self._identity.node)
        cancelled = False

        def start(api: APIClient) -> ContainerFacts:
            return self._starting.create_and_start(api, order, laid_out, home, given, lambda: cancelled)

        slots = self._gpu_starts if devices_of(order) else self._starts
        await slots.take()
        began_at = time.monotonic()
        try:
            facts = await self._one_by_one(attempt, start)
            return replace(facts, notes=home.notes, home_is_owners=home.is_owners)
        except asyncio.CancelledError:
            cancelled = True
            raise
        except LookTakesLong:
            raise  # those that wait may have another image
        except RuntimeRefused as refusal:
            raise await self.gpu_probe.judged(refusal, devices_of(order)) from refusal.__cause__
        except EngineUnavailable as error:
            hung = await self.gpu_probe.hung(devices_of(order), time.monotonic() - began_at)
            if hung is not None and self._withdraw(attempt):
                raise hung from error
            slots.fail(error)
            raise
        finally:
            slots.give_back()

    async def progress(self, attempt: AttemptId) -> AttemptProgress:
        progress = await super().progress(attempt)
        if progress.end is None and attempt not in self._known_attempts and exists(self.box(attempt).run):
            # Adopted after a restart. Files written before the watch began are read once more.
            self._known_attempts.add(attempt)
            self.watch(attempt)
            return await super().progress(attempt)
        return progress

    async def inspect(self, attempt: AttemptId) -> ContainerFacts:
        return await self._engine_call(lambda api: self._containers.inspect(api, attempt))

    async def kill(self, attempt: AttemptId) -> None:
        def kill(api: APIClient) -> None:
            try:
                container = self._containers.own(api, attempt)
                if container is not None:
                    api.kill(container, "KILL")
            except NotFound:
                return
            except APIError as error:
                if error.status_code != 409:  # 409: it is not running
                    raise EngineUnavailable(f"The container engine can't kill it: {text_of(error)}") from error

        await self._one_by_one(attempt, kill)

    async def remove(self, attempt: AttemptId) -> None:
        def remove(api: APIClient) -> None:
            try:
                container = self._containers.own(api, attempt)
                if container is not None:
                    api.remove_container(container, v=True, force=True)
            except NotFound:
                pass  # somebody was quicker
            except APIError as error:
                raise EngineUnavailable(f"The container engine can't remove it: {text_of(error)}") from error
            # Never before: a program that still runs would lose its files.
            self._homes.remove(attempt)

        await self._one_by_one(attempt, remove)
        self._known_attempts.discard(attempt)
        self.unwatch(attempt)
        if self.networks.left(attempt):
            with contextlib.suppress(EngineUnavailable):  # then a later sweep does it
                await self.sweep_networks()

    async def list(self) -> Mapping[AttemptId, ContainerFacts]:
        filters = {"label": self._identity.filters()}
        found = await self._engine_call(lambda api: api.containers(all=True, filters=filters))
        out: dict[AttemptId, ContainerFacts] = {}
        ours: dict[AttemptId, Mapping[str, Any]] = {}
        for entry in found:
            attempt = self._containers.attempt_of((entry.get("Names") or [""])[0], entry.get("Labels"))
            if attempt is not None:
                state = CONTAINER_STATES.get(entry.get("State", ""), ContainerState.RUNNING)
                out[attempt] = ContainerFacts(state, id=entry["Id"], image_id=entry.get("ImageID", ""))
                ours[attempt] = entry
        self.networks.seen(ours)
        await self._sweep_homes(out)
        # Their container is gone, and their space is not free yet.
        return {**{attempt: ContainerFacts(ContainerState.EXITED) for attempt in self._homes.going}, **out}

    async def _sweep_homes(self, containers: Collection[AttemptId]) -> None:
        if self._homes.sweep_due:
            owned = {*containers, *await self.boxes()}
            await asyncio.to_thread(self._homes.sweep, owned)

    # -- networks ---------------------------------------------------------------------------------

    async def sweep_networks(self) -> None:
        """Remove the networks of jobs of which nothing is left here. Raises EngineUnavailable."""

        def sweep(api: APIClient) -> None:
            self.networks.sweep(api, lambda: {attempt.task.job_id for attempt in list(self._known_attempts)})

        await self._engine_call(sweep)

    # -- inside -----------------------------------------------------------------------------------

    async def _engine_call(self, work: Callable[[APIClient], T]) -> T:
        try:
            return await self._engine.call(work)
        except APIError as error:
            raise EngineUnavailable(f"The container engine answered: {text_of(error)}") from error

    async def _one_by_one(self, attempt: AttemptId, work: Callable[[APIClient], T], *, on_disk: bool = False) -> T:
        """Run the calls that change an attempt's container one after another.

        The next begins when the thread of the last has ended, even if that call was cancelled. Work ``on_disk`` that
        no thread has begun by then is never done.
        """
        try:
            await self._in_turn.take(attempt, within_s=self._engine.timeout_s)
        except TimeoutError as error:
            raise EngineUnavailable("The container engine is still busy with an earlier call.") from error
        try:
            call = self._engine.submit(work, on_disk=on_disk)
        except EngineUnavailable:
            self._in_turn.give_back(attempt)
            raise

        loop = asyncio.get_running_loop()

        def over(done: Future[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, since the Worker has stopped
                loop.call_soon_threadsafe(self._in_turn.give_back, attempt)

        call.add_done_callback(over)
        try:
            return await self._engine.wait(call)
        except asyncio.CancelledError:
            if on_disk:
                call.cancel()
            raise

    def engine_was_away(self, at: float) -> bool:
        return self._outages.cover(at)

    async def engine_goes_away(self, within_s: float) -> bool:
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            try:
                await self._engine.quick_anew()
            except EngineUnavailable:
                return True
            await asyncio.sleep(_LOOK_S)
        return False

    def _connected(self) -> None:
        self._outages.over(time.time())
        log.info("engine.connected", url=self._engine.url)
        self._images.trust(True)
        for attempt in list(self._known_attempts):
            self._on_change(attempt)

    def _lost(self) -> None:
        self._outages.began(time.time())
        self._keeps_containers = self._most_ulimits = None
        self._images.trust(False)
        self.gpu_probe.forget()
        self._folders.forget()
        self._homes.forget()

    def _engine_event(self, event: Mapping[str, Any]) -> None:
        if event.get("Type") == "image":
            self._images.changed()
            return
        attributes = (event.get("Actor") or {}).get("Attributes") or {}
        attempt = self._containers.attempt_of(attributes.get("name", ""), attributes)
        if attempt is not None:
            self._on_change(attempt)
