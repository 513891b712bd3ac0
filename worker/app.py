"""Wires the Worker and runs it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headway.clock import Clock, SystemClock
from headway.errors import HeadwayError, Unavailable
from headway.ids import AttemptId
from headway.lifecycle import Service
from headway.logs import get_logger
from headway.metrics import open_metrics
from headway.mount import Layout
from headway.plugins import own_version
from headway.responsive import stay_responsive
from headway.rpc.channel import Peer
from headway.rpc.server import RpcServer
from headway.rpc.trust_keeping import open_trust
from headway.rpc.v1.worker_pb2_grpc import add_WorkerServicer_to_server
from headway.trust.identity import Role

from .alarms import Alarms
from .attempt.context import ExecutorContext, ExecutorLimits
from .attempt.disk_usage import AttemptDiskUsage
from .attempt.late_reporter import LateReporter
from .attempt.leases import Lease
from .attempt.reporter import AttemptReporter
from .attempt.task_controller import TaskController
from .gpu_parts import offered_gpus, simulated_shares, watch_attempts_gpus
from .holds.door import HoldDoor, socket_path
from .holds.keeper import Holds
from .holds.runtime import RuntimeWithHolds
from .holds.time_is_over import HoldLimits
from .images import DiskWatermarks, ImageManager, ImagePrefetcher, MountedMarketArchives
from .logs.copier import LogCopier
from .logs.reader import WorkerLogReader
from .machine import simulated_script
from .machine.conditions import Conditions
from .machine.disk_watch import DiskWatch
from .machine.engine_watch import EngineWatch
from .machine.mount import MountWatch
from .machine.simulated_gpus import SimulatedGpus, SimulatedShare
from .network.guard import NoGuard
from .node.heartbeat import Heartbeat
from .node.place import FolderPlace, arrival
from .node.registration import Registration
from .node.status import OfferedResources, StatusReader
from .peers import HttpServerClient, ResourceManagerClient, TaskManagerClient
from .ports import Gpus, Runtime, WatchedGpus
from .runtime import registry
from .runtime.setup import RuntimeParts, RuntimeSetup
from .sampling.idle_rule import IdleMode, IdleRule
from .sampling.reader import SamplesReader
from .sampling.sampler import IdleNews, Sampler
from .servicer import WorkerService
from .store import WorkerStore

if TYPE_CHECKING:
    from headway.config import HeadwayConfig
    from headway.trust.certificates import Certificates

log = get_logger(__name__)

_SWEEP_S = 30.0
_SAMPLES_TO_MOUNT_S = 15.0  # between copies of what is new, each of which costs the mount a write


async def serve(config: HeadwayConfig) -> None:
    """Run until asked to stop. Containers run on.

    Raises:
        HeadwayError: it could not start, or a part of it ended.
    """
    service = Service("worker")
    await build(service, config, token=open_trust(service, config, Role.WORKER))
    stay_responsive()
    await service.run()


async def build(
    service: Service,
    config: HeadwayConfig,
    *,
    runtime: Runtime | None = None,
    gpus: Gpus | None = None,
    clock: Clock | None = None,
    token: str | Certificates | None = None,
) -> RpcServer:
    """Build all parts of one Worker and register them with ``service``. Tests may give runtime, GPUs and clock."""
    clock = clock or SystemClock()
    token = config.cluster.token if token is None else token
    settings, cluster = config.worker, config.cluster
    folder = Path(settings.folder)
    attempts_dir = folder / "attempts"
    try:
        attempts_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"The worker's folder {folder} can't be made: {error.strerror}.") from error
    metrics = open_metrics(service, settings.metrics_listen)
    store = await WorkerStore.open(str(folder / "worker.db"), metrics.database if metrics else None)
    service.on_stop(store.close)
    incarnation = await store.next_incarnation(clock.now())
    node_id = settings.node_id
    place = FolderPlace(node_id, clock.boot_id(), settings.address)
    worker_uuid, last_place = await store.identity()
    came = arrival(last_place, place, has_attempts=bool(await store.load()))
    conditions = Conditions(clock)
    setup = RuntimeSetup(
        config,
        attempts_dir,
        clock,
        tell=lambda word, sentence, blocks: conditions.set(word, sentence, blocks_work=blocks),
    )
    parts = _parts(config, setup, runtime, lambda: simulated_shares(controller.using_resources()))
    guard = parts.guard
    holds = Holds(
        folder / "holds", clock, HoldLimits(silence_s=settings.gpu_silence_s), describe=lambda uuid: status.gpu(uuid)
    )
    runtime = cast(Runtime, RuntimeWithHolds(parts.runtime, holds))
    gpus = gpus or parts.gpus
    assert gpus is not None
    assert guard is not None
    offered = offered_gpus(gpus, settings, attempts_dir, clock, conditions)
    service.on_stop(offered.close)

    http_server = Peer("HttpServer", config.peers.http_server, token=token, role=Role.HTTP_SERVER, clock=clock)
    task_manager = Peer("TaskManager", config.peers.task_manager, token=token, role=Role.TASK_MANAGER, clock=clock)
    resource_manager = Peer(
        "ResourceManager", config.peers.resource_manager, token=token, role=Role.RESOURCE_MANAGER, clock=clock
    )
    service.on_stop(http_server.close)
    service.on_stop(task_manager.close)
    service.on_stop(resource_manager.close)

    engine = EngineWatch(runtime, conditions, clock)

    def on_mount_changed() -> None:
        # Both are set each time, so that one that is over ends.
        conditions.set("mount_unavailable", "" if mounted.full else mounted.problem)
        conditions.set("disk_full", mounted.problem if mounted.full else "", of="mount")
        conditions.set("mount_options", mounted.weakness, blocks_work=False)
        conditions.set("mount_rights", mounted.rights.sentence, blocks_work=mounted.rights.blocks_work)
        if not mounted.problem:
            copier.try_again()
            samples_copier.try_again()

    mounted = MountWatch(Layout(cluster.mount), cluster.name, clock, on_mount_changed)
    service.on_stop(mounted.close)
    copier = LogCopier(clock, lambda: mounted.problem, reach=mounted.reach)
    service.on_stop(copier.close)
    # Of its own: samples wait for nobody's log, and no log waits for samples.
    samples_copier = LogCopier(clock, lambda: mounted.problem, reach=mounted.reach, every_s=_SAMPLES_TO_MOUNT_S)
    service.on_stop(samples_copier.close)
    idle_rule = IdleRule(IdleMode(settings.gpu_idle_mode), settings.gpu_idle_below, settings.gpu_idle_for_s)

    async def on_idle(news: IdleNews) -> None:
        await controller.on_idle(idle_rule, news)

    sampler = Sampler(
        attempts_dir,
        runtime,
        gpus,
        clock,
        every_s=settings.sample_every_s,
        live=lambda: controller.watched(),
        copier=samples_copier,
        target=mounted.job_folder,
        idle_rule=idle_rule,
        on_idle=on_idle,
        held_bytes=lambda attempt: gpu_parts.shares.held_bytes(attempt),
    )
    service.on_stop(sampler.close)
    background = _Background()
    service.on_stop(background.close)

    tasks = TaskManagerClient(
        task_manager,
        node_id=node_id,
        incarnation=incarnation,
        address=settings.address,
        live=lambda: controller.live(),
        held=lambda: controller.held(),
        waiting=holds.waiting_jobs,
    )
    reports = AttemptReporter(
        tasks.report,
        clock,
        on_acked=lambda attempts: controller.acked(attempts),
        on_discard=lambda attempts: background.start(controller.discard(attempts, heard=True)),
    )

    late = LateReporter(
        tasks.warn, clock, on_told=lambda attempt, warnings: controller.warnings_told(attempt, warnings)
    )

    def on_answered_again() -> None:
        reports.retry_now()
        late.retry_now()

    def needed_images() -> list[str]:
        executors = controller.using_resources()
        return [name for one in executors for name in (one.launch.image.key, one.record.image_id) if name]

    of_accounts = HttpServerClient(http_server, node_id=node_id)
    images = ImageManager(
        node_id=node_id,
        runtime=runtime,
        journal=store.images,
        market=MountedMarketArchives(Layout(cluster.mount), cluster.name, mounted),
        credentials=of_accounts.credentials,
        disk=lambda: disks.of(runtime.data_folders()),
        needed=needed_images,
        clock=clock,
        watermarks=DiskWatermarks(
            settings.image_disk_high, settings.image_disk_low, reserve_bytes=settings.disk_low_bytes // 2
        ),
        pull=settings.pull_images,
    )
    service.on_stop(images.close)
    prefetch = ImagePrefetcher(images, clock)
    context = ExecutorContext(
        node_id=node_id,
        incarnation=incarnation,
        boot_id=clock.boot_id(),
        runtime=runtime,
        images=images,
        store=store,
        reports=reports,
        late=late,
        copier=copier,
        mounted=mounted,
        alarms=Alarms(clock),
        clock=clock,
        limits=ExecutorLimits(
            pull_s=settings.pull_limit_s, lease_stop_s=cluster.lease_stop_s, lease_grace_s=cluster.lease_grace_s
        ),
        sampler=sampler,
        on_engine_trouble=engine.suspect,
        secrets=of_accounts,
    )
    controller = TaskController(context, lambda: conditions.now, keep_ended_s=settings.keep_ended_s)
    gpu_parts = watch_attempts_gpus(offered, settings, attempts_dir, context, controller, conditions, holds.warn)
    disk_usage = AttemptDiskUsage(attempts_dir, runtime, mounted, controller.using_resources)
    service.on_stop(disk_usage.close)

    def places() -> list[tuple[Path, str]]:
        return [(folder, "the worker"), *((data, "its container engine") for data in runtime.data_folders())]

    async def has_freed_its_space(attempt: AttemptId) -> bool:
        live = [executor.record.attempt for executor in controller.using_resources()]
        return attempt not in live and attempt not in await runtime.list()

    disks = DiskWatch(
        node_id=node_id,
        low_bytes=settings.disk_low_bytes,
        places=places,
        usage=disk_usage,
        end=controller.end_for_disk,
        is_gone=has_freed_its_space,
        conditions=conditions,
        clock=clock,
    )
    service.on_stop(disks.close)
    status = StatusReader(
        node_id=node_id,
        incarnation=incarnation,
        runtime=runtime,
        gpus=offered,
        offer=OfferedResources(settings.cpus, settings.memory_bytes),
        conditions=conditions,
        engine=engine,
        clock=clock,
        disks=disks,
        live=controller.live,
        using_resources=controller.using_resources,
        images=images,
        show_names=settings.local_images,
        gpu_passing=parts.gpu_passing,
        worker_uuid=worker_uuid,
    )

    async def renew(lease: Lease, discarded: Collection[AttemptId]) -> None:
        live = [attempt for attempt in controller.live() if attempt not in discarded]
        await context.runtime.renew(dict.fromkeys(live, lease.until_boot_ns))

    heartbeat = Heartbeat(
        tasks.heartbeat,
        clock,
        every_s=cluster.heartbeat_s,
        lease_stop_s=cluster.lease_stop_s,
        set_lease=controller.lease_answered,
        renew=renew,
        stop=controller.stop,
        discard=controller.discard,
        extend=controller.extend,
        on_answered_again=on_answered_again,
    )
    nodes = ResourceManagerClient(resource_manager)

    async def register() -> float:
        poll_s = await nodes.register(await status.read(), address=settings.address, version=own_version())
        await store.settle(place.to_text())
        return poll_s

    async def report_status() -> bool:
        return await nodes.report_status(await status.read())

    registration = Registration(register, report_status, conditions, clock)
    server = RpcServer(service, bind=settings.bind, token=token, numbers=metrics.rpc if metrics else None)
    path = socket_path(settings.gpu_socket, node_id)
    if path is not None:
        door = HoldDoor(path, holds, node_id=node_id, cluster=cluster.name)
        service.on_open(door.open)
        service.on_stop(door.close)
    reader = WorkerLogReader(controller.find, runtime, copier, mounted, clock)
    servicer = WorkerService(
        service,
        controller,
        reader,
        status,
        heartbeat,
        clock,
        gpus=offered,
        on_poll=registration.polled,
        on_prefetch_list=prefetch.set_list,
        samples=SamplesReader(controller.find, sampler, clock),
    )
    add_WorkerServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]

    if metrics is not None:
        from .metrics import WorkerNumbers

        numbers = WorkerNumbers(
            metrics.registry,
            held=lambda: [record for record, _ in controller.held()],
            conditions=lambda: sum(condition.blocks_work for condition in conditions.now),
        )
        heartbeat.on_sent = numbers.beat
        metrics.before_scrape("attempts", numbers.look)
        metrics.watch_inbox("attempts", store.puts)

    async def start() -> None:
        # Look before the server opens, so that the first launch meets the real conditions.
        if isinstance(gpus, WatchedGpus):
            await gpus.open(store.gpus)
        await context.runtime.open(controller.nudge)
        await images.open()
        await mounted.look()
        await engine.look()
        await guard.look()
        await disks.look()
        if came.before_adopting:
            await registration.first()
        await controller.adopt()

    def once_taken(loop: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Coroutine[Any, Any, None]]:
        async def run() -> None:
            if came.before_telling:
                await registration.registered.wait()
            await loop()

        return run

    async def announce_stop() -> None:
        if came.before_telling and not registration.registered.is_set():
            return  # it was never taken, and may speak for nobody
        # TaskManager suspends this node's leases, so that a restart of the Worker ends no task.
        tasks.stopping = True
        with contextlib.suppress(HeadwayError):
            await tasks.heartbeat(clock.monotonic(), not heartbeat.lease.enforced, deadline_s=2.0)
            await heartbeat.suspend_leases()

    async def deliver_last_reports() -> None:
        # Reports that TaskManager does not take now are stored, and sent after the next start.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reports.wait_until_delivered(), 2.0)

    async def leave_networks() -> None:
        # While a task runs its rules stay.
        with contextlib.suppress(HeadwayError):
            if not await runtime.list():
                await guard.leave()

    service.on_stop(runtime.close)
    service.on_stop(guard.close)
    service.on_stop(leave_networks)
    service.on_stop(controller.close)
    service.on_start(start)
    service.on_refuse(lambda: conditions.set("stopping", f"{node_id} is stopping."))
    service.on_drain(announce_stop)
    service.on_drain(deliver_last_reports)
    loops = {
        "alarms": context.alarms.run,
        "copies": copier.run,
        "disks": disks.run,
        "engine": engine.run,
        "heartbeat": once_taken(heartbeat.run),
        "images": images.run,
        "late warnings": once_taken(late.run),
        "mount": mounted.run,
        "network": guard.run,
        "prefetch": prefetch.run,
        "registration": registration.run,
        "reports": once_taken(reports.run),
        "samples": sampler.run,
        "samples to the mount": samples_copier.run,
        **gpu_parts.loops,
    }
    for name, loop in loops.items():
        service.side_task(name, loop)
    service.side_task("sweep", lambda: _every(_SWEEP_S, controller.sweep, clock))
    return server


async def _every(seconds: float, work: Callable[[], Awaitable[None]], clock: Clock) -> None:
    while True:
        try:
            await work()
        except HeadwayError as error:
            log.warning("round.failed", reason=str(error))
        await clock.sleep(seconds)


class _Background:
    """Tasks that nothing waits for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()


def _parts(
    config: HeadwayConfig,
    setup: RuntimeSetup,
    runtime: Runtime | None,
    shares: Callable[[], Sequence[SimulatedShare]],
) -> RuntimeParts:
    """The configured runtime, or the given one, and what it brings along, whole."""
    settings = config.worker
    parts = RuntimeParts(runtime) if runtime is not None else registry.make(settings.runtime, setup)
    gpus = parts.gpus
    if settings.simulated_gpus:
        gpus = SimulatedGpus(
            settings.node_id,
            settings.simulated_gpus,
            model=settings.simulated_gpu_model,
            memory_bytes=settings.simulated_gpu_memory_bytes,
            script=simulated_script.load(settings.simulated_gpu_script, settings.simulated_gpus),
            clean_s=settings.gpu_clean_s,
            clock=setup.clock,
            shares=shares,
        )
    elif gpus is None:
        from .machine.gpus import NvmlGpus

        gpus = NvmlGpus(
            outside_memory_bytes=settings.gpu_outside_memory_bytes,
            clean_s=settings.gpu_clean_s,
            clock=setup.clock,
        )
    return replace(parts, gpus=gpus, guard=parts.guard or _no_guard(config, setup, parts.runtime))


def _no_guard(config: HeadwayConfig, setup: RuntimeSetup, runtime: Runtime) -> NoGuard:
    """Says that a runtime with real tasks sets no rules, unless an admin wants none."""
    settings = config.worker
    if runtime.simulates or settings.network_rules == "off":
        return NoGuard()
    sentence = (
        f"The runtime {runtime.name} of {settings.node_id} sets no firewall rules, so its tasks reach each other and "
        "this machine: set worker.network_rules to wanted or off where that may be."
    )
    return NoGuard(sentence, required=settings.network_rules == "required", tell=setup.tell)
