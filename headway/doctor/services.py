"""Whether services answer: those of this machine, and those that they call. Asks as a service of this machine would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from grpc_health.v1 import health_pb2, health_pb2_grpc

from ..config import HeadwayConfig
from ..config.values import split_address
from ..errors import HeadwayError
from ..model.findings import Check, ok, problem, warning
from ..rpc.channel import Peer
from ..rpc.v1 import resource_manager_pb2 as rm
from ..rpc.v1.resource_manager_pb2_grpc import ResourceManagerStub
from ..trust.certificates import Certificates
from ..trust.files import TrustFiles
from ..trust.identity import Identity, Role
from .network import answers

_PATIENCE_S = 5.0
_UNITS = {Role.HTTP_SERVER: "httpserver"}


@dataclass(frozen=True, slots=True)
class AskedService:
    """A service that is asked. ``here``: it runs on this machine."""

    role: Role
    address: str
    here: bool
    node: str = "main"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What ResourceManager told. ``clock_off_s``: this machine is so far ahead; None: it told nothing."""

    clock_off_s: float | None = None
    version: str = ""


def unit_of(role: Role) -> str:
    """Its systemd unit, as `headway init` names it."""
    return f"headway-{_UNITS.get(role, role.replace('_', '-'))}"


def ask(
    config: HeadwayConfig, roles: Collection[Role], doors: Collection[AskedService]
) -> tuple[list[Check], ClusterFacts]:
    """Asks all at once. Blocking, ten seconds at most.

    Raises:
        ConfigInvalid: no certificate of ``roles`` can be used; what is wrong with it is another check's word.
    """
    return asyncio.run(_ask_all(config, roles, doors))


async def _ask_all(
    config: HeadwayConfig, roles: Collection[Role], doors: Collection[AskedService]
) -> tuple[list[Check], ClusterFacts]:
    proof = _proof(config, roles)
    found = await asyncio.gather(*(_door(one, proof) for one in doors))
    facts = ClusterFacts()
    asked = zip(doors, found, strict=True)
    remote = next((one for one, check in asked if one.role is Role.RESOURCE_MANAGER and check.level != "problem"), None)
    if remote is not None and not isinstance(proof, str):
        facts = await _facts(remote.address, proof)
    return list(found), facts


def _proof(config: HeadwayConfig, roles: Collection[Role]) -> str | Certificates:
    cluster = config.cluster
    if not cluster.trust_dir:
        return cluster.token
    # A Worker's own certificate, where it is the only one; of managers any does.
    role = next((one for one in sorted(roles) if one is not Role.WORKER), Role.WORKER)
    name = config.worker.node_id if role is Role.WORKER else "main"
    return Certificates(TrustFiles(Path(cluster.trust_dir)), Identity(cluster.name, role, name))


async def _door(door: AskedService, proof: str | Certificates) -> Check:
    name = f"{'service' if door.here else 'way to'} {door.role}"
    why = await asyncio.to_thread(answers, *split_address(door.address))
    if why:
        return _silent(name, door, why)
    peer = Peer(door.role, door.address, token=proof, role=door.role, node=door.node)
    try:
        stub = health_pb2_grpc.HealthStub(peer.channel)
        reply = await peer.call(stub.Check, health_pb2.HealthCheckRequest(), deadline_s=_PATIENCE_S)
    except HeadwayError as error:
        return problem(
            name,
            f"Somebody listens at {door.address}, but gives no good answer: {error.message}",
            f"See that it is {door.role} of this cluster, and that both certificates are good (`headway certs`). "
            f"`journalctl -u {unit_of(door.role)} -n 50` there says more.",
        )
    finally:
        await peer.close()
    if reply.status != health_pb2.HealthCheckResponse.SERVING:
        return warning(
            name,
            f"It runs at {door.address} and takes no work now.",
            f"`journalctl -u {unit_of(door.role)} -n 50` {'' if door.here else 'there '}says what it waits for.",
        )
    return ok(name, f"It answers at {door.address}.")


def _silent(name: str, door: AskedService, why: str) -> Check:
    unit = unit_of(door.role)
    if door.here:
        return problem(
            name,
            f"It does not run here: nobody answers at {door.address} ({why}).",
            f"`systemctl start {unit}`. `journalctl -u {unit} -n 50` says why it ended.",
        )
    return problem(
        name,
        f"{door.address} can't be reached from here ({why}).",
        f"Start {unit} there, and open this port in the firewalls between (docs/operations/firewall.md).",
    )


async def _facts(address: str, proof: Certificates) -> ClusterFacts:
    peer = Peer("ResourceManager", address, token=proof, role=Role.RESOURCE_MANAGER)
    try:
        stub = ResourceManagerStub(peer.channel)  # type: ignore[no-untyped-call]
        began = time.time()
        reply = await peer.call(stub.GetTrust, rm.GetTrustRequest(), deadline_s=_PATIENCE_S)
        middle = (began + time.time()) / 2
    except HeadwayError:
        return ClusterFacts()  # the check of its door has said why
    finally:
        await peer.close()
    # A ResourceManager of an earlier version tells no time.
    return ClusterFacts(middle - reply.at if reply.at else None, reply.version)


def doors(config: HeadwayConfig, roles: Collection[Role]) -> list[AskedService]:
    """The services of this machine, and those that they call. Pure."""
    peers = config.peers
    managers = {
        Role.HTTP_SERVER: peers.http_server,
        Role.JOB_MANAGER: peers.job_manager,
        Role.TASK_MANAGER: peers.task_manager,
        Role.RESOURCE_MANAGER: peers.resource_manager,
    }
    # A Worker calls all but JobManager.
    called = set(managers) - ({Role.JOB_MANAGER} if set(roles) == {Role.WORKER} else set())
    found = [
        AskedService(role, address, here=role in roles)
        for role, address in managers.items()
        if role in roles or (roles and role in called)
    ]
    if Role.WORKER in roles:
        found.append(AskedService(Role.WORKER, config.worker.address, here=True, node=config.worker.node_id))
    return found
