"""Wires HttpServer and runs it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headway.backup.notes import read_note
from headway.clock import Clock, SystemClock
from headway.errors import ConfigInvalid, HeadwayError
from headway.lifecycle import Service
from headway.logs import get_logger
from headway.metrics.endpoint import MetricsEndpoint
from headway.metrics.process import Metrics
from headway.mount import Layout, MountProbe
from headway.responsive import stay_responsive
from headway.rpc.server import RpcServer
from headway.rpc.trust_keeping import open_trust
from headway.rpc.v1.http_server_pb2_grpc import add_HttpServerServicer_to_server
from headway.store import Database, Timers
from headway.trust.identity import Role

from .asgi.application import application
from .asgi.server import WebServer
from .audit.log import AuditLog
from .auth import operator
from .auth.accounts import Accounts
from .auth.groups import Groups
from .auth.model import Account
from .auth.sign_in_requests import SignInRequests
from .auth.vault import Vault
from .cluster.queue_and_nodes import QueueAndNodes
from .cluster.trust import Trust
from .cluster.usage import UsageReports
from .code.service import CodeLimits, CodeSnapshots
from .datasets.build import build as build_datasets
from .files.homes import Homes
from .files.mount_rights import MountRightsWatch
from .files.quotas import SpaceQuotas
from .files.service import Files
from .files.trash import Trash
from .files.upload_target import FileUploadTarget
from .job_events.event_log import JobEventLog
from .job_events.reading import EventReading
from .jobs.account_jobs import AccountJobs
from .jobs.account_removal import AccountRemoval
from .jobs.gpu_holds import GpuHolds
from .jobs.job_file_process import JobFileProcess
from .jobs.service import Jobs
from .jobs.submit import Submit
from .logs.job_folders import JobFolders
from .logs.reader import AttemptLogReader
from .logs.service import Logs
from .logs.stored import StoredLogs
from .market.garbage_collection import ImageCollector, ImageFiles
from .market.service import ImageMarket
from .market.upload_target import ImageUploadTarget
from .metrics import HttpNumbers
from .needs.pinning import Pinning
from .parts import Parts
from .peers.clients import ServiceClients
from .peers.fresh_nodes import FreshNodes
from .peers.hub import PageEventHub
from .peers.node_rights import NodeRights
from .provider.links import Links
from .provider.service import ProviderSignIn
from .readiness import Readiness
from .registries.hosts import RegistryHosts
from .registries.service import Registries
from .samples.following import SampleFollowing
from .samples.gathering import SamplePlaces
from .samples.service import Samples
from .secrets.attempts import StartingAttempts
from .secrets.service import Secrets
from .servicer import HttpServerService
from .settings import LOOPBACK_HOSTS, ProviderSettings, Settings
from .tables import timer_table
from .text import near_names
from .uploads.service import Uploads
from .uploads.upload_files import UploadFiles
from .uses.jobs import JobManagerLookup
from .uses.service import Uses

if TYPE_CHECKING:
    from headway.config import HeadwayConfig
    from headway.trust.certificates import Certificates

log = get_logger(__name__)


async def serve(config: HeadwayConfig) -> None:
    """Runs until asked to stop.

    Raises:
        HeadwayError: it could not start, or a part of it ended.
    """
    service = Service("httpserver")
    await build(service, config, token=open_trust(service, config, Role.HTTP_SERVER))
    stay_responsive()
    await service.run()


async def build(
    service: Service, config: HeadwayConfig, *, clock: Clock | None = None, token: str | Certificates | None = None
) -> tuple[Parts, WebServer]:
    """Everything of one HttpServer, registered with ``service``. ``token``: see ``RpcServer``; None: the cluster's."""
    clock = clock or SystemClock()
    token = config.cluster.token if token is None else token
    settings = settings_from(config)
    http = config.httpserver
    metrics = Metrics(service)
    db = await Database.open(http.database, room="httpserver", numbers=metrics.database)
    service.on_stop(db.close)
    services = ServiceClients(
        job_manager=config.peers.job_manager,
        task_manager=config.peers.task_manager,
        resource_manager=config.peers.resource_manager,
        token=token,
        clock=clock,
    )
    service.on_stop(services.close)
    parts = assemble(service, db, services, settings, clock, config.cluster.name, uids=_uids(config), metrics=metrics)
    parts.readiness.restored = lost = _restored(config.cluster.state_dir, clock)
    parts.cluster.notices = [lost] if lost else []
    hub, accounts = parts.hub, parts.accounts

    async def load_accounts() -> None:
        await accounts.load()
        if http.first_admin_file:
            await accounts.make_first_admin(Path(http.first_admin_file))
            await operator.reset_wished(accounts, Path(http.first_admin_file))
        elif not await accounts.all():
            log.warning("account.none", advice="set httpserver.first_admin_file, so that a first admin is made")
        if settings.passwords != "on" and not await parts.links.admins():
            log.warning(
                "account.no_admin_by_provider",
                advice="link an admin with `headway accounts link NAME SUBJECT`",
            )
        await _warn_of_unknown(config.retention.accounts, accounts)

    service.on_start(load_accounts)
    rpc = RpcServer(service, bind=http.grpc_bind, token=token, numbers=metrics.rpc)
    servicer = HttpServerService(
        accounts,
        parts.pinning,
        parts.registries,
        parts.secrets,
        parts.job_folders,
        parts.job_events,
        NodeRights(services),
    )
    add_HttpServerServicer_to_server(servicer, rpc)  # type: ignore[no-untyped-call]
    web = WebServer(application(parts), host=http.bind, port=http.port, tls_cert=http.tls_cert, tls_key=http.tls_key)
    service.on_open(web.start)
    service.on_refuse(hub.close)
    service.on_stop(web.stop)
    if http.metrics_listen:
        MetricsEndpoint(service, metrics, http.metrics_listen)
    service.side_task("watches", lambda: hub.run(services))
    return parts, web


def assemble(
    service: Service,
    db: Database,
    services: ServiceClients,
    settings: Settings,
    clock: Clock,
    cluster: str,
    *,
    uids: range = range(20_000, 60_000),
    metrics: Metrics | None = None,
) -> Parts:
    """Makes the parts behind the routes. ``service`` starts and stops those that need it."""
    metrics = metrics or Metrics(service)
    accounts = Accounts(
        db, clock, uid_from=uids.start, uid_to=uids.stop, session_s=settings.session_s, passwords=settings.passwords
    )
    service.side_task("sessions", accounts.run)
    account_jobs = AccountJobs(services, accounts, clock)
    service.side_task("account holds", account_jobs.run)
    layout = Layout(settings.mount)
    mount = MountProbe(layout, cluster)
    process = JobFileProcess(clock)
    service.on_stop(process.close)
    mount_rights = MountRightsWatch(layout, mount, accounts, clock)
    service.on_stop(mount_rights.close)
    service.side_task("mount rights", mount_rights.run)
    homes = Homes(layout, mount, accounts, clock)
    service.on_stop(homes.close)
    spaces = SpaceQuotas(
        layout,
        mount,
        accounts,
        db,
        clock,
        default_quota_bytes=settings.default_quota_bytes,
        max_files=settings.space_max_files,
        measure_s=settings.space_measure_s,
    )
    service.on_start(spaces.load)
    service.on_stop(spaces.close)
    service.side_task("spaces", spaces.run)
    timers = Timers(timer_table, db, clock)
    service.on_start(timers.open)
    service.side_task("timers", timers.run)
    audit = AuditLog(db, clock, timers, days=settings.audit_days)
    service.on_start(audit.open)
    service.on_stop(audit.close)
    trash = Trash(homes, spaces, accounts, mount, clock, timers, keep_s=settings.trash_keep_s)
    service.on_stop(trash.close)
    service.side_task("trash", trash.run)
    uses = Uses(db, clock, JobManagerLookup(services))
    service.on_start(uses.load)
    service.side_task("uses", uses.run)
    groups = Groups(db, accounts, clock)
    links = Links(db, accounts, clock)
    provider = ProviderSignIn(settings.provider, accounts, groups, links, clock) if settings.provider else None
    if provider is not None:
        service.on_stop(provider.close)
    image_files = ImageFiles(layout, cluster)
    service.on_stop(image_files.close)
    collector = ImageCollector(db, image_files, uses, clock)
    service.side_task("images", collector.run)
    market = ImageMarket(db, image_files, accounts, groups, uses, collector, clock)
    image_target = ImageUploadTarget(
        db, image_files, accounts, uses, collector, clock, quota_bytes=settings.image_quota_bytes
    )
    uploads = Uploads(
        db,
        UploadFiles(layout, mount, cluster, clock),
        clock,
        (FileUploadTarget(layout, homes, accounts, spaces), image_target),
        expires_s=settings.upload_expires_s,
        max_bytes=settings.upload_max_bytes,
    )
    service.on_start(uploads.load)
    service.side_task("uploads", uploads.run)
    service.on_refuse(uploads.refuse)
    service.on_stop(uploads.close)
    job_events = JobEventLog(db, clock, timers, days=settings.event_days)
    service.on_start(job_events.open)
    service.on_refuse(job_events.close)
    event_reading = EventReading(job_events, clock)
    hub = PageEventHub(clock)
    hub.listen_to_jobs(uses.on_jobs, uses.gap)
    hub.listen_to_jobs(spaces.on_jobs, lambda: None)
    hub.listen_to_jobs(lambda changes: None, account_jobs.tell_again)
    jobs = Jobs(services, process, uses)
    job_folders = JobFolders(layout, mount, cluster)
    service.on_stop(job_folders.close)
    datasets = build_datasets(
        service,
        db,
        clock,
        layout,
        mount,
        accounts,
        services,
        groups,
        uses,
        spaces,
        max_files=settings.dataset_max_files,
    )
    code_limits = CodeLimits(settings.code_max_bytes, settings.code_max_files, settings.code_keep_s)
    code = CodeSnapshots(db, clock, layout, mount, accounts, uses, code_limits)
    service.on_stop(code.close)
    service.side_task("code", code.run)
    hosts = RegistryHosts(
        asks=settings.ask_registries, allowed=settings.registries, insecure=settings.insecure_registries
    )
    vault = Vault(settings.secret_key_file)
    secrets = Secrets(db, clock, vault, StartingAttempts(services))
    accounts.when_removed(secrets.drop_account)
    service.side_task("secrets", secrets.run)
    registries = Registries(db, clock, vault, hosts)
    accounts.when_removed(registries.drop_account)
    service.on_start(registries.load)
    service.on_stop(registries.close)
    pinning = Pinning(
        hub.nodes,
        registries,
        fetch_nodes=FreshNodes(services, hub.nodes).fetch,
        market=market,
        datasets=datasets,
        code=code,
        secrets=secrets,
    )

    reader = AttemptLogReader(services, StoredLogs(layout, clock), clock)
    logs = Logs(jobs, reader, clock)
    sample_places = SamplePlaces(services, layout)

    def refuses_work(account: Account) -> str:
        mount_rights.require_home(account)
        return spaces.refuse_new_work(account)

    return Parts(
        settings=settings,
        clock=clock,
        audit=audit,
        accounts=accounts,
        sign_in_requests=SignInRequests(),
        links=links,
        provider=provider,
        account_jobs=account_jobs,
        removal=AccountRemoval(accounts, account_jobs, homes, layout, mount),
        submit=Submit(services, process, pinning, uses, refuses_work, audit.begin),
        gpu_holds=GpuHolds(services, hub.nodes, cluster),
        jobs=jobs,
        job_folders=job_folders,
        job_events=job_events,
        event_reading=event_reading,
        logs=logs,
        samples=Samples(jobs, reader, sample_places),
        sample_following=SampleFollowing(services, reader, sample_places, logs.places, clock),
        cluster=QueueAndNodes(services, jobs, clock),
        trust=Trust(services, clock),
        homes=homes,
        files=Files(homes, spaces, timers),
        spaces=spaces,
        trash=trash,
        datasets=datasets,
        code=code,
        uses=uses,
        groups=groups,
        market=market,
        image_target=image_target,
        uploads=uploads,
        usage=UsageReports(services, accounts, groups, clock),
        registries=registries,
        secrets=secrets,
        pinning=pinning,
        hub=hub,
        readiness=Readiness(service.health, services, mount, lambda: mount_rights.sentence),
        metrics=metrics,
        numbers=HttpNumbers(metrics.registry, lambda: hub.streams + event_reading.streams, lambda: logs.streams),
    )


def settings_from(config: HeadwayConfig) -> Settings:
    """What of the configuration matters to the routes."""
    http = config.httpserver
    loopback = http.bind in LOOPBACK_HOSTS
    hosts: frozenset[str] = LOOPBACK_HOSTS if loopback and not http.behind_proxy else frozenset()
    public = urlsplit(http.public_url).hostname if http.public_url else None
    if public:
        hosts |= {public}
    scheme = "https" if http.tls_cert else "http"
    return Settings(
        mount=Path(config.cluster.mount),
        session_s=http.session_lifetime_s,
        hosts=hosts | LOOPBACK_HOSTS if hosts else hosts,
        trusted_proxies=tuple(ip_network(str(network)) for network in http.behind_proxy),
        where=http.public_url or f"{scheme}://{http.bind}:{http.port}",
        secure=bool(http.tls_cert),
        secret_key_file=Path(http.secret_key_file),
        ask_registries=http.ask_registries,
        registries=frozenset(http.registries),
        insecure_registries=frozenset(http.insecure_registries),
        default_quota_bytes=http.default_quota_bytes,
        image_quota_bytes=http.image_quota_bytes,
        space_max_files=http.space_max_files,
        space_measure_s=http.space_measure_s,
        trash_keep_s=http.trash_keep_s,
        upload_expires_s=http.upload_expires_s,
        upload_max_bytes=http.upload_max_bytes,
        dataset_max_files=http.dataset_max_files,
        code_max_bytes=http.code_max_bytes,
        code_max_files=http.code_max_files,
        code_keep_s=http.code_keep_s,
        event_days=config.retention.event_days,
        audit_days=config.retention.audit_days,
        passwords=http.passwords,
        provider=_provider(config),
    )


def _restored(state_dir: str, clock: Clock) -> str:
    """What a restore of the last days has lost; empty: there was none."""
    note = read_note(state_dir, clock.now())
    if note is None:
        return ""
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(note.made_at))
    log.warning("cluster.restored", made_at=note.made_at, jobs=note.count, reason=note.sentence(made))
    return note.sentence(made, ids=False)


def _provider(config: HeadwayConfig) -> ProviderSettings | None:
    http, mine = config.httpserver, config.httpserver.oidc
    if not mine.issuer:
        return None
    scopes = tuple(dict.fromkeys(("openid", *mine.scopes)))
    where = http.public_url or f"{'https' if http.tls_cert else 'http'}://{http.bind}:{http.port}"
    return ProviderSettings(
        issuer=mine.issuer,
        client_id=mine.client_id,
        client_secret=_secret(mine.client_secret_file),
        redirect_uri=f"{where}/api/v1/session/provider/callback",
        scopes=scopes,
        button=mine.button,
        account_claim=mine.account_claim,
        groups_claim=mine.groups_claim,
        allowed_domains=frozenset(domain.lower() for domain in mine.allowed_domains),
        allowed_groups=frozenset(mine.allowed_groups),
        admin_groups=frozenset(mine.admin_groups),
        groups=dict(mine.groups),
        create_accounts=mine.create_accounts,
    )


def _secret(file: str) -> str:
    if not file:
        return ""
    try:
        secret = Path(file).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"httpserver.oidc.client_secret_file can't be read: {error}") from error
    if not secret:
        raise ConfigInvalid(f"httpserver.oidc.client_secret_file names {file}, which is empty.")
    return secret


async def _warn_of_unknown(names: Iterable[str], accounts: Accounts) -> None:
    """A slip in the name of a rule would let the jobs of the account that is meant go by the general one."""
    known = {account.name for account in await accounts.all_and_removed()}
    for name in sorted(set(names) - known):
        meant = near_names.word(name, sorted(known))
        log.warning("retention.no_such_account", account=name, meant=meant or None, where="retention.accounts")


def _uids(config: HeadwayConfig) -> range:
    if config.cluster.account_uid_max < config.cluster.account_uid_min:
        raise HeadwayError("cluster.account_uid_max is below account_uid_min.")
    return range(config.cluster.account_uid_min, config.cluster.account_uid_max + 1)
