"""Services that know each other by certificates, over real gRPC: who gets in, and who may do what."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headway.clock import SystemClock
from headway.errors import HeadwayError
from headway.lifecycle import Service
from headway.rpc.channel import Peer
from headway.rpc.server import RpcServer
from headway.rpc.trust_keeping import TrustKeeper
from headway.rpc.v1 import common_pb2, worker_pb2
from headway.rpc.v1 import http_server_pb2 as hs
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.rpc.v1.http_server_pb2_grpc import HttpServerStub, add_HttpServerServicer_to_server
from headway.rpc.v1.job_manager_pb2_grpc import JobManagerServicer, JobManagerStub, add_JobManagerServicer_to_server
from headway.rpc.v1.resource_manager_pb2_grpc import ResourceManagerStub
from headway.rpc.v1.task_manager_pb2_grpc import TaskManagerServicer, TaskManagerStub, add_TaskManagerServicer_to_server
from headway.rpc.v1.worker_pb2_grpc import WorkerServicer, WorkerStub, add_WorkerServicer_to_server
from headway.trust.caller import CallerRefused
from headway.trust.certificates import Certificates
from headway.trust.files import TrustFiles
from headway.trust.identity import Role
from httpserver.peers.clients import ServiceClients
from httpserver.peers.node_rights import NodeRights
from httpserver.servicer import HttpServerService
from resource_manager.app import build as build_resource_manager
from resource_manager.health import SilenceLimits
from resource_manager.issuing import AuthoritySettings
from task_manager.app import build as build_task_manager
from task_manager.settings import TaskManagerSettings
from tests.support.certificates import CertificateMaker, revoke, serial_of
from tests.support.ports import free_port
from tests.support.running import running
from tests.support.waiting import eventually

STUBS: dict[Role, Any] = {
    Role.HTTP_SERVER: HttpServerStub,
    Role.JOB_MANAGER: JobManagerStub,
    Role.TASK_MANAGER: TaskManagerStub,
    Role.RESOURCE_MANAGER: ResourceManagerStub,
    Role.WORKER: WorkerStub,
}


class Registries:
    """Stands for HttpServer's: each account has a password."""

    class Login:
        username, password = "ann", "secret"

    async def login(self, account: str, registry: str) -> Login:
        return self.Login()


class WorkOnNodes(TaskManagerServicer):
    """Stands for TaskManager where HttpServer asks: n1 has work of ann."""

    async def HasWork(self, request: tm.HasWorkRequest, context: Any) -> tm.HasWorkReply:
        return tm.HasWorkReply(has=request.node_id == "n1" and request.account == "ann")


class Log(WorkerServicer):
    """A log that goes on until the test has heard enough."""

    def __init__(self) -> None:
        self.more = asyncio.Event()

    async def ReadLog(self, request: Any, context: Any) -> AsyncIterator[worker_pb2.LogChunk]:
        while True:
            self.more.clear()  # before the chunk: whoever has it may ask for more at once
            yield worker_pb2.LogChunk(data=b"x")
            await self.more.wait()


class Lab:
    """One machine's folder of certificates for each service that a test runs or plays."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.stack = stack
        self.maker = CertificateMaker()

    def files(self, role: Role, name: str = "main") -> TrustFiles:
        return TrustFiles(self.folder / f"{role}-{name}")

    def certificates(
        self, role: Role, name: str = "main", *, maker: CertificateMaker | None = None, **span: float
    ) -> Certificates:
        files = self.files(role, name)
        identity = (maker or self.maker).give(files, role, name, **span)
        return Certificates(files, identity)

    async def serve(self, role: Role, name: str, add: Any, servicer: Any, *, shown: Certificates | None = None) -> str:
        """Runs a server of that role; answers its address."""
        service = Service(str(role))
        server = RpcServer(service, bind="127.0.0.1:0", token=shown or self.certificates(role, name))
        add(servicer, server)
        await self.stack.enter_async_context(running(service))
        return f"127.0.0.1:{server.port}"

    def caller(self, shown: Certificates, role: Role, address: str, name: str = "main") -> tuple[Peer, Any]:
        """A client with these certificates, to a service of that role."""
        peer = Peer(str(role), address, token=shown, role=role, node=name)
        self.stack.push_async_callback(peer.close)
        return peer, STUBS[role](peer.channel)

    async def refused(self, shown: Certificates, role: Role, address: str, method: str, request: Any) -> str:
        peer, stub = self.caller(shown, role, address)
        with pytest.raises(HeadwayError) as found:
            await peer.call(getattr(stub, method), request, deadline_s=5)
        return f"{type(found.value).__name__}: {found.value}"

    def authority(self) -> AuthoritySettings:
        """What signs, on ResourceManager's machine."""
        files = self.files(Role.RESOURCE_MANAGER)
        self.maker.give_authority(files)
        return AuthoritySettings(self.maker.cluster, files.folder, {})

    async def renewed(self, nodes: str) -> set[tuple[str, str]]:
        """Role and name of all that ResourceManager has signed anew."""
        peer, stub = self.caller(self.certificates(Role.HTTP_SERVER, "asks"), Role.RESOURCE_MANAGER, nodes)
        reply = await peer.call(stub.ListCertificates, rm.ListCertificatesRequest(), deadline_s=5)
        return {(one.role, one.name) for one in reply.certificates if one.origin == "renew"}

    async def resource_manager(self, **more: Any) -> str:
        service = Service("resource-manager")
        server = await build_resource_manager(
            service,
            database=str(self.folder / "nodes.db"),
            bind="127.0.0.1:0",
            token=self.certificates(Role.RESOURCE_MANAGER),
            poll_s=10,
            limits=SilenceLimits(30, 90),
            **more,
        )
        await self.stack.enter_async_context(running(service))
        return f"127.0.0.1:{server.port}"


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with AsyncExitStack() as stack:
        yield Lab(tmp_path, stack)


async def test_a_stolen_workers_certificate_submits_no_job_and_reads_no_others_log(lab: Lab) -> None:
    stolen = lab.certificates(Role.WORKER, "n1")
    jobs = await lab.serve(Role.JOB_MANAGER, "main", add_JobManagerServicer_to_server, JobManagerServicer())
    n2 = await lab.serve(Role.WORKER, "n2", add_WorkerServicer_to_server, Log())
    peer, stub = lab.caller(stolen, Role.JOB_MANAGER, jobs)
    with pytest.raises(CallerRefused, match="of worker n1 does not allow to call JobManager/SubmitJob"):
        await peer.upload(stub.SubmitJob, lambda: [jm.SubmitJobPart()], deadline_s=5)
    other, worker = lab.caller(stolen, Role.WORKER, n2, "n2")
    with pytest.raises(CallerRefused, match="does not allow to call Worker/ReadLog"):
        await anext(other.stream(worker.ReadLog, worker_pb2.ReadLogRequest(), deadline_s=5))
    with pytest.raises(CallerRefused, match="does not allow to call Worker/Launch"):
        await other.call(worker.Launch, worker_pb2.LaunchRequest(), deadline_s=5)


async def test_a_worker_gets_passwords_of_accounts_that_it_has_work_of(lab: Lab) -> None:
    tasks = await lab.serve(Role.TASK_MANAGER, "main", add_TaskManagerServicer_to_server, WorkOnNodes())
    shown = lab.certificates(Role.HTTP_SERVER)
    clients = ServiceClients(
        job_manager=tasks, task_manager=tasks, resource_manager=tasks, token=shown, clock=SystemClock()
    )
    lab.stack.push_async_callback(clients.close)
    none = cast(Any, None)
    servicer = HttpServerService(none, none, cast(Any, Registries()), none, none, none, NodeRights(clients))
    http = await lab.serve(Role.HTTP_SERVER, "main", add_HttpServerServicer_to_server, servicer, shown=shown)
    peer, stub = lab.caller(lab.certificates(Role.WORKER, "n1"), Role.HTTP_SERVER, http)
    asked = hs.GetRegistryAuthRequest(account="ann", registry="docker.io")
    assert (await peer.call(stub.GetRegistryAuth, asked, deadline_s=5)).password == "secret"
    bob = hs.GetRegistryAuthRequest(account="bob", registry="docker.io")
    with pytest.raises(CallerRefused, match="n1 has no work of the account `bob`"):
        await peer.call(stub.GetRegistryAuth, bob, deadline_s=5)
    n2 = lab.certificates(Role.WORKER, "n2")
    assert "n2 has no work of the account `ann`" in await lab.refused(
        n2, Role.HTTP_SERVER, http, "GetRegistryAuth", asked
    )
    assert "does not allow" in await lab.refused(
        n2, Role.HTTP_SERVER, http, "ResolveUser", hs.ResolveUserRequest(name="ann")
    )


async def test_a_worker_reports_for_its_own_node_alone(lab: Lab) -> None:
    stolen = lab.certificates(Role.WORKER, "n1")
    nodes = await lab.resource_manager()
    service = Service("task-manager")
    shown = lab.certificates(Role.TASK_MANAGER)
    server = await build_task_manager(
        service,
        database=str(lab.folder / "tasks.db"),
        bind="127.0.0.1:0",
        token=shown,
        job_manager=f"127.0.0.1:{free_port()}",
        resource_manager=nodes,
        settings=TaskManagerSettings(),
    )
    await lab.stack.enter_async_context(running(service))
    tasks = f"127.0.0.1:{server.port}"
    report = tm.AttemptReport(
        attempt=common_pb2.Attempt(task=common_pb2.Task(job_id="j0000000000000001", name="a"), number=1), node_id="n2"
    )
    late = tm.LateWarnings(attempt=report.attempt, node_id="n2", warnings=["a lie"])
    status = rm.NodeStatus(node_id="n2", incarnation=1)
    for role, address, method, request in (
        (Role.TASK_MANAGER, tasks, "Heartbeat", tm.HeartbeatRequest(node_id="n2", incarnation=1, address="x:1")),
        (Role.TASK_MANAGER, tasks, "ReportAttempts", tm.ReportAttemptsRequest(reports=[report])),
        (Role.TASK_MANAGER, tasks, "ReportAttempts", tm.ReportAttemptsRequest(late_warnings=[late])),
        (Role.RESOURCE_MANAGER, nodes, "RegisterNode", rm.RegisterNodeRequest(node_id="n2", address="x:1")),
        (Role.RESOURCE_MANAGER, nodes, "RegisterNode", rm.RegisterNodeRequest(node_id="n1", status=status)),
        (Role.RESOURCE_MANAGER, nodes, "ReportStatus", rm.ReportStatusRequest(status=status)),
    ):
        assert "speaks for 'n2'" in await lab.refused(stolen, role, address, method, request), method
    peer, stub = lab.caller(stolen, Role.TASK_MANAGER, tasks)
    beat = tm.HeartbeatRequest(node_id="n1", incarnation=1, address="x:1")
    assert (await peer.call(stub.Heartbeat, beat, deadline_s=5)).lease_s > 0


async def test_who_has_no_good_certificate_does_not_get_in(lab: Lab) -> None:
    tasks = await lab.serve(Role.TASK_MANAGER, "main", add_TaskManagerServicer_to_server, TaskManagerServicer())
    beat = tm.HeartbeatRequest(node_id="n1")
    expired = lab.certificates(Role.WORKER, "n1", from_s=-7_200, until_s=-3_600)
    assert "Unavailable" in await lab.refused(expired, Role.TASK_MANAGER, tasks, "Heartbeat", beat)
    foreign = lab.certificates(Role.WORKER, "n2", maker=CertificateMaker())
    assert "Unavailable" in await lab.refused(foreign, Role.TASK_MANAGER, tasks, "Heartbeat", beat)

    # Certificates of this authority for another cluster: it would have to sign them first.
    other = CertificateMaker("lab")
    other._key, other._certificate, other._name = lab.maker._key, lab.maker._certificate, lab.maker._name
    files = lab.files(Role.WORKER, "n3")
    key_pem, pair = files.key(Role.WORKER), other.give(files, Role.WORKER, "n3")
    options = (("grpc.ssl_target_name_override", "main.task-manager.headway.headway"),)
    credentials = grpc.ssl_channel_credentials(
        lab.maker.ca_pem, key_pem.read_bytes(), files.certificate(Role.WORKER).read_bytes()
    )
    assert pair.cluster == "lab"
    async with grpc.aio.secure_channel(tasks, credentials, options=options) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as found:
            await TaskManagerStub(channel).Heartbeat(beat, timeout=5)  # type: ignore[no-untyped-call]
    assert found.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "of the cluster 'lab', and this is 'headway'" in str(found.value.details())

    for channel in (
        grpc.aio.insecure_channel(tasks),
        grpc.aio.secure_channel(tasks, grpc.ssl_channel_credentials(lab.maker.ca_pem), options=options),
    ):
        async with channel:
            health = health_pb2_grpc.HealthStub(channel)
            for call in (
                TaskManagerStub(channel).Heartbeat(beat, timeout=5),  # type: ignore[no-untyped-call]
                health.Check(health_pb2.HealthCheckRequest(), timeout=5),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as found:
                    await call
                assert found.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_old_versions_of_tls_are_refused(lab: Lab) -> None:
    tasks = await lab.serve(Role.TASK_MANAGER, "main", add_TaskManagerServicer_to_server, TaskManagerServicer())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    host, _, port = tasks.partition(":")
    _reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
    writer.close()
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(host, int(port), ssl=context)


async def test_a_workers_certificate_does_not_pass_for_task_manager(lab: Lab) -> None:
    posing = await lab.serve(
        Role.TASK_MANAGER,
        "main",
        add_TaskManagerServicer_to_server,
        TaskManagerServicer(),
        shown=lab.certificates(Role.WORKER, "evil"),
    )
    said = await lab.refused(
        lab.certificates(Role.WORKER, "n1"), Role.TASK_MANAGER, posing, "Heartbeat", tm.HeartbeatRequest(node_id="n1")
    )
    assert said.startswith("Unavailable")
    assert "shows the certificate of another service" in said


async def test_a_revoked_certificate_is_refused_on_a_connection_that_stands(lab: Lab) -> None:
    log = Log()
    shown = lab.certificates(Role.WORKER, "n1")
    address = await lab.serve(Role.WORKER, "n1", add_WorkerServicer_to_server, log, shown=shown)
    page = lab.certificates(Role.HTTP_SERVER)
    peer, stub = lab.caller(page, Role.WORKER, address, "n1")
    async with contextlib.aclosing(peer.stream(stub.ReadLog, worker_pb2.ReadLogRequest(), deadline_s=30)) as chunks:  # type: ignore[type-var]
        assert (await anext(chunks)).data == b"x"
        revoke(lab.files(Role.WORKER, "n1"), serial_of(lab.files(Role.HTTP_SERVER), Role.HTTP_SERVER))
        shown.look_now()
        log.more.set()
        with pytest.raises(CallerRefused, match="of http_server was revoked"):
            await anext(chunks)
    with pytest.raises(CallerRefused, match="was revoked"):
        await anext(peer.stream(stub.ReadLog, worker_pb2.ReadLogRequest(), deadline_s=5))


@asynccontextmanager
async def kept(lab: Lab, shown: Certificates, nodes: str) -> AsyncIterator[tuple[TrustKeeper, Service]]:
    """The keeper of a Worker, which asks a real ResourceManager; the test says when it looks."""
    peer, stub = lab.caller(shown, Role.RESOURCE_MANAGER, nodes)

    async def fetch() -> Any:
        return await peer.call(stub.GetTrust, rm.GetTrustRequest(), deadline_s=5)

    async def renew(csr_pem: bytes) -> bytes:
        reply = await peer.call(stub.Renew, rm.RenewRequest(csr_pem=csr_pem), deadline_s=5)
        return bytes(reply.cert_pem)

    service = Service("worker")
    yield TrustKeeper(shown, service.health, SystemClock(), fetch=fetch, sign=renew), service


async def test_a_renewal_reaches_both_sides_while_a_stream_runs(lab: Lab) -> None:
    nodes = await lab.resource_manager(authority=lab.authority())
    log = Log()
    n1 = lab.certificates(Role.WORKER, "n1", from_s=-86_400.0, until_s=3_600.0)
    address = await lab.serve(Role.WORKER, "n1", add_WorkerServicer_to_server, log, shown=n1)
    page = lab.certificates(Role.HTTP_SERVER, from_s=-86_400.0, until_s=3_600.0)
    peer, stub = lab.caller(page, Role.WORKER, address, "n1")
    stream = peer.stream(stub.ReadLog, worker_pb2.ReadLogRequest(), deadline_s=60)
    async with contextlib.aclosing(stream) as chunks:  # type: ignore[type-var]
        assert (await anext(chunks)).data == b"x"
        before = n1.pair()[1].serial, page.pair()[1].serial
        for shown in (n1, page):
            async with kept(lab, shown, nodes) as (keeper, _service):
                await keeper.look()
        assert await lab.renewed(nodes) == {("worker", "n1"), ("http_server", "main")}
        after = n1.pair()[1].serial, page.pair()[1].serial
        assert not set(before) & set(after)

        # The old ones count no more, so only what was made anew can talk.
        revoke(lab.files(Role.WORKER, "n1"), *before)
        n1.look_now()
        async with contextlib.aclosing(
            peer.stream(stub.ReadLog, worker_pb2.ReadLogRequest(), deadline_s=5)  # type: ignore[type-var]
        ) as anew:
            assert (await anext(anew)).data == b"x"
        revoke(lab.files(Role.WORKER, "n1"))
        n1.look_now()
        log.more.set()
        assert (await anext(chunks)).data == b"x"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    files = lab.files(Role.HTTP_SERVER)
    tls.load_cert_chain(files.certificate(Role.HTTP_SERVER), files.key(Role.HTTP_SERVER))
    host, _, port = address.partition(":")
    _reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    shown_der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    assert ssl.DER_cert_to_PEM_cert(shown_der).encode() == n1.pair()[1].cert_pem


async def test_what_resource_manager_revokes_reaches_a_machine(lab: Lab) -> None:
    nodes = await lab.resource_manager()
    n1 = lab.certificates(Role.WORKER, "n1")
    async with kept(lab, n1, nodes) as (keeper, service):
        await keeper.look()
        assert not lab.files(Role.WORKER, "n1").revoked.exists() or n1.revoked() == frozenset()
        revoke(lab.files(Role.RESOURCE_MANAGER), 255)
        peer, stub = lab.caller(n1, Role.RESOURCE_MANAGER, nodes)

        async def told() -> bool:
            reply = await peer.call(stub.GetTrust, rm.GetTrustRequest(), deadline_s=5)
            return list(reply.revoked) == ["ff"]

        await eventually(told, what="ResourceManager has read its list")
        await keeper.look()
        assert n1.revoked() == {255}
        assert service.health.reasons == {}
    assert Certificates(lab.files(Role.WORKER, "n1"), n1.identity).is_revoked(255)


async def test_the_authoritys_own_folder_is_not_written_over(lab: Lab) -> None:
    nodes = await lab.resource_manager()
    page = lab.certificates(Role.HTTP_SERVER)
    files = lab.files(Role.HTTP_SERVER)
    files.authority.mkdir()
    revoke(files, 255)
    async with kept(lab, page, nodes) as (keeper, _service):
        await keeper.look()
    page.look_now()
    assert page.is_revoked(255), "an answer from before the revocation has undone it"


async def test_an_ended_certificate_says_what_to_do_and_a_new_one_is_taken(lab: Lab) -> None:
    nodes = await lab.resource_manager(authority=lab.authority())
    n1 = lab.certificates(Role.WORKER, "n1", from_s=-7_200, until_s=-3_600)
    async with kept(lab, n1, nodes) as (keeper, service):
        await keeper.look()
        assert "ended at" in service.health.reasons["certificate"]
        assert "`headway join --renew`" in service.health.reasons["certificate"]
        lab.maker.give(lab.files(Role.WORKER, "n1"), Role.WORKER, "n1")
        n1.look_now()
        await keeper.look()
        assert service.health.reasons == {}


async def test_a_certificate_is_not_renewed_before_its_last_third(lab: Lab) -> None:
    nodes = await lab.resource_manager(authority=lab.authority())
    async with kept(lab, lab.certificates(Role.WORKER, "n1", from_s=-6_000, until_s=4_000), nodes) as (keeper, _):
        await keeper.look()
    assert await lab.renewed(nodes) == set()
    async with kept(lab, lab.certificates(Role.WORKER, "n1", from_s=-7_000, until_s=3_000), nodes) as (keeper, _):
        await keeper.look()
    assert await lab.renewed(nodes) == {("worker", "n1")}


async def test_without_an_authority_nothing_is_renewed_and_the_service_goes_on(lab: Lab) -> None:
    nodes = await lab.resource_manager()
    n1 = lab.certificates(Role.WORKER, "n1", from_s=-7_000, until_s=3_000)
    before = n1.pair()
    async with kept(lab, n1, nodes) as (keeper, service):
        await keeper.look()
        assert service.health.reasons == {}
    assert n1.pair() == before
    said = await lab.refused(n1, Role.RESOURCE_MANAGER, nodes, "Renew", rm.RenewRequest(csr_pem=b"x"))
    assert said.startswith("Unavailable")
    assert "authority is not on this machine" in said


async def test_resource_manager_renews_itself(lab: Lab) -> None:
    files = lab.files(Role.RESOURCE_MANAGER)
    shown = lab.certificates(Role.RESOURCE_MANAGER, from_s=-7_200, until_s=-3_600)
    service = Service("resource-manager")
    await build_resource_manager(
        service,
        database=str(lab.folder / "own.db"),
        bind="127.0.0.1:0",
        token=shown,
        poll_s=10,
        limits=SilenceLimits(30, 90),
        authority=lab.authority(),
    )
    before = serial_of(files, Role.RESOURCE_MANAGER)
    await lab.stack.enter_async_context(running(service))
    await eventually(lambda: serial_of(files, Role.RESOURCE_MANAGER) != before, what="it has a new certificate")
