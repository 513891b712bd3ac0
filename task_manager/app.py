"""Wires TaskManager and runs it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from headway.backoff import Backoff
from headway.clock import Clock, SystemClock
from headway.errors import HeadwayError
from headway.lifecycle import Service
from headway.logs import get_logger
from headway.metrics import open_metrics
from headway.responsive import stay_responsive
from headway.rpc.channel import Peer
from headway.rpc.server import RpcServer
from headway.rpc.trust_keeping import open_trust
from headway.rpc.v1.task_manager_pb2_grpc import add_TaskManagerServicer_to_server
from headway.store import Database
from headway.trust.identity import Role

from . import wire
from .answers.advice_queries import TimeoutAdvisor
from .answers.comparison_queries import ComparisonQueries
from .answers.decision_log import DecisionLog
from .answers.extension_requests import ExtensionRequests
from .answers.preview_queries import PreviewQueries
from .answers.queries import QueueQueries
from .answers.usage_queries import UsageQueries
from .answers.work_on_nodes import WorkOnNodes
from .autoscale.decision import MachineShape, Rules
from .autoscale.hook import CommandHook, WebhookHook
from .autoscale.scaler import Autoscaler, Growth, Hook
from .dispatch.dispatcher import Dispatcher
from .dispatch.image_prefetch import ImagePrefetchPlanner
from .engine.engine import Engine
from .engine.events import NodesUnknown, StopPlanned
from .engine.leases import LeaseSettings
from .engine.removal import JobRemoval
from .engine.retry import RetrySettings
from .hub import QueueEventHub
from .limits import AdmissionLimits, ShortTaskReserve
from .order import policy
from .order.configured import parameters, policy_of
from .peers import JobManagerPeer, NodeSourcePeer, WorkerConnections
from .planning.pass_model import Discipline, PromiseRule
from .planning.placement import CpuTasks
from .ports import NodeSource, Workers
from .servicer import TaskManagerService
from .settings import TaskManagerSettings
from .store.tables import JOB_MANAGER, outbox

if TYPE_CHECKING:
    from headway.config import HeadwayConfig
    from headway.metrics.process import Metrics
    from headway.store.outbox import OutboxPump
    from headway.trust.certificates import Certificates

log = get_logger(__name__)

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_SUSPEND_WITHIN_S = 3.0


async def serve(config: HeadwayConfig) -> None:
    """Runs until asked to stop.

    Raises:
        ConfigInvalid: this version does not have the configured policy.
        HeadwayError: it could not start, or a part of it ended.
    """
    service = Service("task-manager")
    token = open_trust(service, config, Role.TASK_MANAGER)
    await build(
        service,
        database=config.task_manager.database,
        bind=config.task_manager.bind,
        token=token,
        job_manager=config.peers.job_manager,
        resource_manager=config.peers.resource_manager,
        settings=settings_of(config),
        order=policy_of(config),
        growth=_growth_of(config),
        metrics_listen=config.task_manager.metrics_listen,
    )
    stay_responsive()
    await service.run()


def settings_of(config: HeadwayConfig) -> TaskManagerSettings:
    """The settings of TaskManager from the configuration."""
    mine = config.task_manager
    return TaskManagerSettings(
        leases=LeaseSettings(lease_s=config.cluster.lease_s, heartbeat_s=config.cluster.heartbeat_s),
        retry=RetrySettings(mine.platform_retries, mine.platform_retry_delay_s, mine.loss_retries),
        cpu_tasks=CpuTasks(mine.cpu_tasks_on_gpu_nodes),
        start_limit_s=mine.start_limit_s,
        stop_limit_s=mine.stop_limit_s,
        booked_start_s=mine.booked_start_s,
        booked_stop_s=mine.booked_stop_s,
        discipline=Discipline(mine.discipline),
        policy=mine.policy,
        policy_defaults=parameters(config),
        decisions_days=mine.decisions_days,
        promises=PromiseRule(mine.promises),
        reserved=mine.reserved_tasks,
        compare_at_start=True,
        limits=_limits_of(config),
        grown=tuple(shape.as_node() for shape in rules_of(config).shapes),
    )


def rules_of(config: HeadwayConfig) -> Rules:
    """When the hook for growth is told."""
    mine = config.task_manager.autoscale
    return Rules(
        waits_s=mine.waits_s,
        idle_s=mine.idle_s,
        cooldown_s=mine.cooldown_s,
        min_nodes=mine.min_nodes,
        max_nodes=mine.max_nodes,
        shapes=tuple(
            MachineShape(
                one.name, round(one.cpus * 100), one.memory_bytes, one.gpus, one.gpu_model, one.gpu_memory_bytes
            )
            for one in mine.shapes
        ),
        cpu_tasks=CpuTasks(config.task_manager.cpu_tasks_on_gpu_nodes),
    )


def _growth_of(config: HeadwayConfig) -> Growth | None:
    mine = config.task_manager.autoscale
    if not mine.wanted:
        return None
    hook: Hook | None = None
    if mine.command and not mine.dry_run:
        hook = CommandHook(mine.command, mine.timeout_s)
    elif mine.webhook and not mine.dry_run:
        hook = WebhookHook(mine.webhook, mine.webhook_secret_file, mine.timeout_s)
    return Growth(rules_of(config), hook, config.cluster.name)


def _limits_of(config: HeadwayConfig) -> AdmissionLimits:
    mine = config.task_manager.limits
    reserve = mine.short_reserve
    return AdmissionLimits(
        max_timeouts=tuple(sorted(mine.max_timeout.items())),
        min_timeout_s=mine.min_timeout,
        running_gpus_per_user=mine.running_gpus_per_user or None,
        short_reserve=ShortTaskReserve(reserve.gpus, reserve.above) if reserve.gpus else None,
    )


async def build(
    service: Service,
    *,
    database: str,
    bind: str,
    token: str | Certificates,
    job_manager: str,
    resource_manager: str,
    settings: TaskManagerSettings,
    order: policy.Policy | None = None,
    clock: Clock | None = None,
    workers: Workers | None = None,
    nodes: NodeSource | None = None,
    growth: Growth | None = None,
    metrics_listen: str = "",
) -> RpcServer:
    """Builds all parts of one TaskManager and registers them with ``service``; the two managers are addresses."""
    clock = clock or SystemClock()
    order = order or policy.AgingSjf()
    metrics = open_metrics(service, metrics_listen)
    db = await Database.open(database, room="task_manager", numbers=metrics.database if metrics else None)
    service.on_stop(db.close)
    jobs = Peer("JobManager", job_manager, token=token, role=Role.JOB_MANAGER, clock=clock)
    service.on_stop(jobs.close)
    if nodes is None:
        resources = Peer("ResourceManager", resource_manager, token=token, role=Role.RESOURCE_MANAGER, clock=clock)
        service.on_stop(resources.close)
        nodes = NodeSourcePeer(resources)
    hub = QueueEventHub(clock)
    engine = Engine(db, clock, settings, order, hub, wire.outgoing_event)
    workers = workers or WorkerConnections(token, clock)
    service.on_stop(workers.close)
    dispatcher = Dispatcher(engine, db, clock, workers)
    engine.order_sender = dispatcher

    async def planned_stop() -> None:
        # Stored first: the next start must know what Workers may have been told.
        try:
            await engine.submit(StopPlanned())
            await dispatcher.suspend_leases(_SUSPEND_WITHIN_S)
        except HeadwayError as error:
            log.warning("leases.not_suspended", reason=str(error))
        await dispatcher.close()
        await engine.close()

    server = RpcServer(service, bind=bind, token=token, numbers=metrics.rpc if metrics else None)
    previews = PreviewQueries(engine)
    service.on_stop(previews.close)
    decisions = DecisionLog(db, clock, settings.decisions_days)
    removal = JobRemoval(engine, db, clock)
    prefetch = ImagePrefetchPlanner(engine, db, clock, workers, dispatcher.address)
    servicer = TaskManagerService(
        engine,
        QueueQueries(engine, db),
        hub,
        ExtensionRequests(engine, hub, clock),
        TimeoutAdvisor(engine, db),
        previews,
        decisions,
        UsageQueries(db, clock),
        ComparisonQueries(engine, db),
        removal,
        WorkOnNodes(engine, prefetch.prepares_for),
    )
    add_TaskManagerServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    service.on_start(engine.start)
    service.on_refuse(hub.close)
    service.on_drain(planned_stop)
    service.side_task("ticks", engine.run)
    service.side_task("decisions", decisions.run)
    service.side_task("removal", removal.run)
    service.side_task("images", prefetch.run)
    service.side_task("nodes", lambda: watch_nodes(engine, nodes, clock))
    scaler = Autoscaler(engine, db, clock, growth) if growth is not None else None
    if scaler is not None:
        service.side_task("autoscale", scaler.run)
        engine.scheduling_choice.growth_failure = lambda: scaler.failure
    pump = outbox.pump(db, JOB_MANAGER, JobManagerPeer(jobs).send, clock)
    service.side_task("events", pump.run)
    if metrics is not None:
        _count(metrics, engine, pump)
        if scaler is not None:
            from .metrics import AutoscaleNumbers

            AutoscaleNumbers(metrics.registry, scaler.calls)
    return server


def _count(metrics: Metrics, engine: Engine, pump: OutboxPump) -> None:
    """Somebody looks at the numbers, so they are counted from here on."""
    from .metrics import TaskManagerNumbers

    metrics.watch_inbox("events", engine.inbox)
    metrics.watch_outbox(pump)
    engine.numbers = TaskManagerNumbers(
        metrics.registry,
        waiting=lambda: engine.state.waiting_count,
        held=lambda: len(engine.state.held),
        live=lambda: len(engine.state.attempts),
        booked_gpus=lambda: [(a.node_id, uuid) for a in engine.state.attempts.values() for uuid in a.gpu_uuids],
    )


async def watch_nodes(engine: Engine, nodes: NodeSource, clock: Clock) -> None:
    """Follows ResourceManager; while it is away, the nodes stay as they were last reported."""
    pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    while True:
        try:
            async with contextlib.aclosing(nodes.watch()) as changes:
                async for change in changes:
                    await engine.submit(change)
                    pauses.reset()
        except HeadwayError as error:
            log.info("nodes.watch_broken", reason=str(error))
        with contextlib.suppress(HeadwayError):
            await engine.submit(NodesUnknown())
        await clock.sleep(pauses.next_s())
