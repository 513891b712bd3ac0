"""Wires JobManager and runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.clock import Clock, SystemClock
from headway.config.retention import retention_rules
from headway.lifecycle import Service
from headway.metrics import open_metrics
from headway.model.retention import RetentionRules
from headway.responsive import stay_responsive
from headway.rpc.channel import Peer
from headway.rpc.server import RpcServer
from headway.rpc.trust_keeping import open_trust
from headway.rpc.v1.job_manager_pb2_grpc import add_JobManagerServicer_to_server
from headway.store import Database
from headway.trust.identity import Role

from . import forgetting, store
from .comparing.comparison import Comparison
from .delivery import Delivery
from .event_delivery import GATHER_S, MOST_BYTES, EventDelivery
from .hub import JobEventHub
from .job_writer import JobWriter
from .outgoing_events import OutgoingEvents
from .peers import HttpServerPeer, NoFolders, TaskManagerPeer
from .ports import JobFoldersPort
from .removal.prune import Pruning
from .removal.sweeper import Sweeper
from .servicer import JobManagerService
from .tables import HTTP_SERVER, TASK_MANAGER, event_outbox, outbox

if TYPE_CHECKING:
    from headway.config import HeadwayConfig
    from headway.metrics.process import Metrics
    from headway.store.outbox import OutboxPump
    from headway.trust.certificates import Certificates


async def serve(config: HeadwayConfig) -> None:
    """Runs until asked to stop.

    Raises:
        HeadwayError: it could not start, or a part of it ended.
    """
    service = Service("job-manager")
    token = open_trust(service, config, Role.JOB_MANAGER)
    await build(
        service,
        database=config.job_manager.database,
        bind=config.job_manager.bind,
        token=token,
        task_manager=config.peers.task_manager,
        max_tasks_per_job=config.job_manager.max_tasks_per_job,
        queued_tasks_per_user=config.task_manager.limits.queued_tasks_per_user,
        compare_s=config.job_manager.compare_s,
        http_server=config.peers.http_server,
        rules=retention_rules(config),
        metrics_listen=config.job_manager.metrics_listen,
    )
    stay_responsive()
    await service.run()


async def build(
    service: Service,
    *,
    database: str,
    bind: str,
    token: str | Certificates,
    task_manager: str,
    max_tasks_per_job: int = 10_000,
    queued_tasks_per_user: int = 0,
    compare_s: float = 0.0,
    http_server: str = "",
    rules: RetentionRules | None = None,
    clock: Clock | None = None,
    metrics_listen: str = "",
) -> RpcServer:
    """Everything of one JobManager, registered with `service`; `task_manager` and `http_server` are addresses.

    Without `http_server` no job has a folder. `compare_s`: how often it is compared with TaskManager what both hold; 0:
    never. `rules`: how long ended jobs are kept; None: for ever. `metrics_listen`: where its numbers are shown, if
    anywhere.
    """
    clock = clock or SystemClock()
    metrics = open_metrics(service, metrics_listen)
    db = await Database.open(database, room="job_manager", numbers=metrics.database if metrics else None)
    service.on_stop(db.close)
    peer = Peer("TaskManager", task_manager, token=token, role=Role.TASK_MANAGER, clock=clock)
    service.on_stop(peer.close)
    task_manager_port = TaskManagerPeer(peer)
    folders: JobFoldersPort = NoFolders()
    pumps: list[OutboxPump] = []
    events = OutgoingEvents(told=bool(http_server))
    if http_server:
        http_peer = Peer("HttpServer", http_server, token=token, role=Role.HTTP_SERVER, clock=clock)
        service.on_stop(http_peer.close)
        folders = event_port = HttpServerPeer(http_peer)
        event_delivery = EventDelivery(events, event_port, db)
        service.on_start(event_delivery.open)
        send = event_delivery.send
        event_pump = event_outbox.pump(db, HTTP_SERVER, send, clock, max_bytes=MOST_BYTES, gather_s=GATHER_S)
        service.side_task("events", event_pump.run)
        pumps.append(event_pump)
    hub = JobEventHub()
    jobs = JobWriter(
        db, clock, hub, task_manager_port, max_tasks_per_job=max_tasks_per_job,
        queued_tasks_per_user=queued_tasks_per_user, rules=rules, events=events,
    )  # fmt: skip
    server = RpcServer(service, bind=bind, token=token, numbers=metrics.rpc if metrics else None)
    comparison = Comparison(db, jobs, task_manager_port, clock, every_s=compare_s)
    pruning = Pruning(db, jobs, task_manager_port)
    servicer = JobManagerService(db, jobs, hub, comparison, pruning, clock)
    add_JobManagerServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    service.on_start(lambda: events.open(db))
    service.on_start(jobs.recheck_waiting)
    service.on_refuse(hub.close)
    service.on_drain(jobs.close)
    delivery = Delivery(db, jobs, task_manager_port)
    pump = outbox.pump(db, TASK_MANAGER, delivery.send, clock, give_up=delivery.give_up)
    pumps.append(pump)
    service.side_task("outbox", pump.run)
    if compare_s:
        service.side_task("comparison", comparison.run)
    service.side_task("removal", Sweeper(db, jobs, task_manager_port, folders, clock).run)
    forgetting.start(service, db, clock)
    if metrics is not None:
        _count(metrics, db, jobs, pumps)
    return server


def _count(metrics: Metrics, db: Database, jobs: JobWriter, pumps: Sequence[OutboxPump]) -> None:
    """Somebody looks at the numbers, so they are counted from here on."""
    from .metrics import JobNumbers

    numbers = jobs.numbers = JobNumbers(metrics.registry)

    async def count_jobs() -> None:
        numbers.are(await db.read(store.count_live))

    metrics.before_scrape("jobs", count_jobs)
    metrics.watch_inbox("jobs", jobs.inbox)
    for pump in pumps:
        metrics.watch_outbox(pump)
