"""Wires ResourceManager and runs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headway.clock import Clock, SystemClock
from headway.lifecycle import Service
from headway.metrics import open_metrics
from headway.rpc.server import RpcServer
from headway.rpc.trust_keeping import keep_own, open_trust
from headway.rpc.v1.resource_manager_pb2_grpc import add_ResourceManagerServicer_to_server
from headway.store import Database
from headway.trust.files import TrustFiles
from headway.trust.identity import Role
from headway.trust.shared import shared_settings

from .health import SilenceLimits
from .hub import NodeEventHub
from .issuing import AuthoritySettings, Issuer
from .nodes import Nodes
from .own_machine import OwnMachine, make_own
from .peers import WorkerPeers
from .poller import Poller
from .servicer import ResourceManagerService
from .trust_answers import TrustAnswers

if TYPE_CHECKING:
    from headway.config import HeadwayConfig
    from headway.trust.certificates import Certificates


async def serve(config: HeadwayConfig) -> None:
    """Runs until asked to stop.

    Raises:
        HeadwayError: it could not start, or a part of it ended.
    """
    settings = config.resource_manager
    service = Service("resource-manager")
    authority = _authority(config)
    if authority is not None:
        make_own(TrustFiles(authority.folder), authority.cluster)
    token = open_trust(service, config, Role.RESOURCE_MANAGER)
    await build(
        service,
        database=settings.database,
        bind=settings.bind,
        token=token,
        poll_s=settings.poll_s,
        limits=SilenceLimits(settings.suspect_after_s, settings.down_after_s),
        usage_days=settings.usage_days,
        metrics_listen=settings.metrics_listen,
        authority=authority,
    )
    await service.run()


def _authority(config: HeadwayConfig) -> AuthoritySettings | None:
    if not config.cluster.trust_dir:
        return None
    return AuthoritySettings(config.cluster.name, Path(config.cluster.trust_dir), shared_settings(config))


async def build(
    service: Service,
    *,
    database: str,
    bind: str,
    token: str | Certificates,
    poll_s: float,
    limits: SilenceLimits,
    usage_days: int = 366,
    clock: Clock | None = None,
    metrics_listen: str = "",
    authority: AuthoritySettings | None = None,
) -> RpcServer:
    """Everything of one ResourceManager, registered with `service`. ``authority`` is unset where it is not here."""
    clock = clock or SystemClock()
    metrics = open_metrics(service, metrics_listen)
    db = await Database.open(database, room="resource_manager", numbers=metrics.database if metrics else None)
    service.on_stop(db.close)
    workers = WorkerPeers(token, clock)
    service.on_stop(workers.close)
    hub = NodeEventHub()
    nodes = Nodes(db, clock, hub, limits, usage_days=usage_days)
    poller = Poller(nodes, workers, clock, poll_s=poll_s)
    server = RpcServer(service, bind=bind, token=token, numbers=metrics.rpc if metrics else None)
    issuer = Issuer(db, clock, authority, cordon=nodes.cordon_known)
    certificates = None if isinstance(token, str) else token
    signer = issuer if authority is not None else None
    if certificates is not None:
        keep_own(service, certificates, signer, clock)
    trust = TrustAnswers(certificates, signer, clock)
    servicer = ResourceManagerService(
        nodes, hub, poll_s=poll_s, return_gpu=poller.return_gpu, issuer=issuer, trust=trust
    )
    add_ResourceManagerServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    service.on_start(nodes.load)
    service.on_start(issuer.load)
    service.on_refuse(hub.close)
    service.on_drain(nodes.flush)
    service.side_task("poller", poller.run)
    service.side_task("health", nodes.keep_time)
    service.side_task("usage", nodes.keep_history)
    if authority is not None:
        service.side_task("own-machine", OwnMachine(authority, issuer, clock).run)
    if metrics is not None:
        from .metrics import NodeNumbers

        NodeNumbers(metrics.registry, health=nodes.by_health, admission=nodes.by_admission, nodes=nodes.all)
    return server
