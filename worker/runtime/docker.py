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

from ..box import BoxError, BoxStanding, exists, spec_bytes, spec_digest
from ..homes import TaskHomes
from ..launcher import FOREIGN_BOX, launcher_path
from ..model import WantedImage, attempt_of_folder
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
from .boxed import BoxedRuntime, LaidOut
from .docker_disk import EngineFolders, container_files
from .docker_engine import DockerEngine, KeyedLock, StartSlots
from .docker_errors import engine_in_trouble, is_left_over, start_refusal, text_of
from .docker_events import EngineEvents
from .docker_facts import CONTAINER_STATES, container_facts
from .docker_gpus import GpuProbe
from .docker_guard import docker_guard
from .docker_homes import DockerHomes, PreparedHome, task_homes
from .docker_images import DockerImages
from .docker_networks import NoNetwork, TaskNetworks
from .docker_options import WorkerIdentity, container_config, container_name, devices_of, folder_of
from .docker_outages import EngineOutages
from .docker_places import ImagePlaces, LookTakesLong
from .docker_ulimits import engine_ulimits
from .setup import RuntimeParts, RuntimeSetup

if TYPE_CHECKING:
    from headway.config import HeadwayConfig

log = get_logger(__name__)
T = TypeVar("T")

_ABSENT = ContainerFacts(ContainerState.ABSENT)
# A launcher lives or has lived: whatever the engine says, this start has worked.
_BEGUN = frozenset({BoxStanding.RUNS, BoxStanding.ENDED, BoxStanding.OVER})
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
    ) -> None:
        super().__init__(attempts_dir, launcher)
        self._engine = engine
        self._identity = identity
        self._pids_limit = pids_limit
        self.networks = TaskNetworks(engine, identity, IPv4Network(job_range))
        self._images = DockerImages(engine, node=identity.node, local=local_images)
        self.gpu_probe = GpuProbe(engine, identity.node, identity.short)
        self._folders = EngineFolders(engine)
        self._places = ImagePlaces(identity) if look_into_images else None
        self._homes = DockerHomes(homes, engine.url, identity.node)
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
        return cls(
            attempts_dir.resolve(),
            engine=DockerEngine(settings.docker_host, timeout_s=settings.engine_timeout_s),
            identity=WorkerIdentity(config.cluster.name, settings.node_id, str(attempts_dir.resolve())),
            launcher=launcher,
            local_images=settings.local_images,
            pids_limit=settings.pids_limit,
            job_range=settings.network_job_range,
            homes=task_homes(attempts_dir.resolve(), launcher),
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
        )
        return RuntimeParts(runtime, gpus=gpus, guard=guard)

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
        name, here = self._name(attempt), self._folders.found
        return await self._engine_call(lambda api: self._homes.files(attempt, container_files(api, name, here)))

    # -- one attempt ------------------------------------------------------------------------------

    async def start(self, order: StartOrder) -> ContainerFacts:
        attempt = order.attempt
        home = await self._one_by_one(attempt, lambda api: self._prepare_home(api, order), on_disk=True)
        try:
            laid_out = await self.lay_out(replace(order, spec=home.spec_for(order.spec)))
            if not laid_out.digest:
                raise BoxError("the spec is gone or broken")
        except (OSError, BoxError, ValueError) as error:
            # A program that is root may have broken the files of its own box.
            standing = self._judge(attempt)
            if standing in _BEGUN:
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
            return self._create_and_start(api, order, laid_out, home, lambda: cancelled)

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
        return await self._engine_call(lambda api: self._inspect(api, attempt))

    async def kill(self, attempt: AttemptId) -> None:
        def kill(api: APIClient) -> None:
            try:
                container = self._own(api, attempt)
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
                container = self._own(api, attempt)
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
            attempt = self._attempt_of((entry.get("Names") or [""])[0], entry.get("Labels"))
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

    # -- in the engine's threads --------------------------------------------------------------------

    def _create_and_start(
        self,
        api: APIClient,
        order: StartOrder,
        laid_out: LaidOut,
        home: PreparedHome,
        cancelled: Callable[[], bool],
    ) -> ContainerFacts:
        attempt, container = order.attempt, ""
        try:
            refused = self._refused_before(api, order) or home.refusal
            if refused is not None:
                return self._refuse_or_leave(api, order, refused)
            address, network = self.networks.of(api, order)
            config = container_config(
                order,
                laid_out.box,
                self._identity,
                digest=laid_out.digest,
                pids_limit=self._pids_limit,
                address=address,
                network=network,
                home=home.binds,
            )
            container, before = self._create(api, order, config)
            if before is not None:
                return before
            if cancelled():
                raise EngineUnavailable("The start was cancelled.")
            api.start(container)
        except (APIError, NoNetwork) as error:
            # The box decides: an engine that was killed while it started a container knows nothing of its processes.
            if self._judge(attempt) in _BEGUN:
                return ContainerFacts(ContainerState.RUNNING, id=container, image_id=order.image.id)
            if isinstance(error, NoNetwork):
                self._refuse(api, attempt, error)
                raise
            if engine_in_trouble(error) or is_left_over(error):
                if is_left_over(error):
                    self._clean_up(api, attempt)
                raise EngineUnavailable(f"The container engine could not start it: {text_of(error)}") from error
            gpus = bool(devices_of(order))
            refusal = start_refusal(error, node=self._identity.node, image=order.image.id, gpus=gpus)
            self._refuse(api, attempt, refusal)
            raise refusal from error
        return ContainerFacts(ContainerState.RUNNING, id=container, image_id=order.image.id)

    def _prepare_home(self, api: APIClient, order: StartOrder) -> PreparedHome:
        attempt = order.attempt
        try:
            return self._homes.prepare(
                api, order, lambda: self._judge(attempt) in _BEGUN or self._own(api, attempt) is not None
            )
        except NotFound:
            return PreparedHome()  # no such image: what follows says so
        except APIError as error:
            raise EngineUnavailable(f"The container engine answered: {text_of(error)}") from error

    def _refused_before(self, api: APIClient, order: StartOrder) -> RuntimeRefused | None:
        """What stands in the way before any container is made. Raises APIError."""
        if not order.spec.place:
            text = "Its box was made by an older Headway, just before this update"
            return RuntimeRefused(text, word=EndWord.START_FAILED, elsewhere=True)
        if (refusal := self.gpu_probe.refusal(devices_of(order))) is not None:
            return refusal
        try:
            if self._places is not None:
                self._places.check(api, order.image.id, order.spec.mounts)
        except RuntimeRefused as refusal:
            return refusal
        return None

    def _refuse_or_leave(self, api: APIClient, order: StartOrder, refusal: RuntimeRefused) -> ContainerFacts:
        """An earlier call may have made a container all the same. Then it runs."""
        if self._judge(order.attempt) in _BEGUN:
            return ContainerFacts(ContainerState.RUNNING, image_id=order.image.id)
        self._refuse(api, order.attempt, refusal)
        raise refusal

    def _create(self, api: APIClient, order: StartOrder, config: dict[str, Any]) -> tuple[str, ContainerFacts | None]:
        """The id of a container that was never started; or the facts of one that was."""
        name = self._name(order.attempt)
        try:
            return str(api.create_container_from_config(config, name)["Id"]), None  # type: ignore[no-untyped-call]
        except APIError as error:
            if error.status_code != 409:
                raise
            found = self._find(api, name)
            if found is None:
                # The engine is about to make it, for a call that was cancelled.
                raise EngineUnavailable(f"The container engine is still busy with {name}.") from error
            if not self._is_own(found, order.attempt):
                refusal = RuntimeRefused(
                    f"The engine of {self._identity.node} has a container named {name} that is not Headway's; its "
                    "owner has to rename or remove it",
                    word=EndWord.START_FAILED,
                    elsewhere=True,
                )
                if self._withdraw(order.attempt):
                    raise refusal from error
                return "", ContainerFacts(ContainerState.RUNNING, image_id=order.image.id)
            facts = container_facts(found)
            return facts.id, None if facts.state is ContainerState.CREATED else facts

    def _refuse(self, api: APIClient, attempt: AttemptId, refusal: RuntimeRefused) -> None:
        """Make sure that the program never runs, before anybody says so.

        Raises EngineUnavailable where a launcher was quicker: the call is repeated, and finds that it runs.
        """
        if not self._withdraw(attempt):
            raise EngineUnavailable(f"The start failed, but its launcher lives. {refusal.message}")
        self._clean_up(api, attempt)

    def _clean_up(self, api: APIClient, attempt: AttemptId) -> None:
        try:
            container = self._own(api, attempt)
            if container is not None:
                api.remove_container(container, v=True, force=True)
        except NotFound:
            return
        except APIError as error:
            log.warning("container.not_removed", container=self._name(attempt), reason=text_of(error))

    def _name(self, attempt: AttemptId) -> str:
        return container_name(self._identity.cluster, attempt.folder)

    def _find(self, api: APIClient, name: str) -> Mapping[str, Any] | None:
        """The engine's answer about the container of this name, whoever's it is."""
        try:
            found: Mapping[str, Any] = api.inspect_container(name)
        except NotFound:
            return None
        return found

    def _is_own(self, found: Mapping[str, Any], attempt: AttemptId) -> bool:
        return self._attempt_of(found.get("Name", ""), (found.get("Config") or {}).get("Labels")) == attempt

    def _own(self, api: APIClient, attempt: AttemptId) -> str | None:
        """The id of the attempt's container. None: there is none. A name alone makes no container ours."""
        found = self._find(api, self._name(attempt))
        if found is None:
            return None
        if not self._is_own(found, attempt):
            log.warning("container.foreign", container=found.get("Name", ""))
            return None
        return str(found["Id"])

    def _inspect(self, api: APIClient, attempt: AttemptId) -> ContainerFacts:
        found = self._find(api, self._name(attempt))
        if found is None:
            return _ABSENT
        if not self._is_own(found, attempt):
            log.warning("container.foreign", container=found.get("Name", ""))
            return _ABSENT
        facts = container_facts(found)
        if facts.state is ContainerState.EXITED and facts.exit_code == FOREIGN_BOX:
            return replace(facts, box_was_hidden=self._gave_its_box(found, attempt))
        return facts

    def _gave_its_box(self, found: Mapping[str, Any], attempt: AttemptId) -> bool:
        """Whether the box is as it was when the container was made, so that it is not to blame."""
        entrypoint = (found.get("Config") or {}).get("Entrypoint") or []
        with contextlib.suppress(OSError):
            return entrypoint[-1:] == [spec_digest(spec_bytes(self.box(attempt)))]
        return False

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

    def _attempt_of(self, name: str, labels: dict[str, str] | None) -> AttemptId | None:
        folder = folder_of(name, labels, self._identity)
        return None if folder is None else attempt_of_folder(folder)

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
        attempt = self._attempt_of(attributes.get("name", ""), attributes)
        if attempt is not None:
            self._on_change(attempt)
