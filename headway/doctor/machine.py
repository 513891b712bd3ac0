"""All that matters on one machine, in one list."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ..config import HeadwayConfig
from ..config.values import split_address
from ..errors import ConfigInvalid
from ..model.findings import Check, problem
from ..plugins import own_version
from ..trust.files import TrustFiles
from ..trust.identity import Role
from . import certificates, clock, databases, disks, engine, network, services, shared_mount, versions

_STATE_LEAST = 1 << 30
# What says nothing about whether a Worker runs here: nobody wrote it.
_NOBODYS = frozenset({"default", "from cluster.state_dir", "from the host name", "from worker.bind"})


def look(
    config: HeadwayConfig,
    roles: Collection[Role],
    *,
    clock_off_s: float | None = None,
    cluster_version: str = "",
    starts_elsewhere: bool = True,
) -> list[Check]:
    """Checks what these services need here. Blocking, some seconds at most.

    ``clock_off_s``: ahead of the cluster's. ``starts_elsewhere``: the other services run already, so they are called.
    """
    found = [clock.clock(clock_off_s), versions.python(), versions.kernel(os.uname().release)]
    if cluster_version:
        found.append(versions.headway(own_version(), cluster_version))
    if config.cluster.trust_dir:
        found += [certificates.certificate(config.cluster.trust_dir, role, time.time()) for role in sorted(roles)]
    if {Role.WORKER, Role.HTTP_SERVER} & set(roles):
        found += shared_mount.mount(config.cluster.mount, config.cluster.name)
    if Role.WORKER in roles and config.worker.runtime == "docker":
        found += _engine(config)
    found += network.own_doors(_doors(config, roles))
    if starts_elsewhere:
        found += network.others_doors(_peers(config, roles))
    return found


def examine(config: HeadwayConfig, roles: Collection[Role], now: float) -> list[Check]:
    """Checks a machine whose services should run: all that :func:`look` does, and the services themselves.

    Blocking, half a minute at most. ``now`` is epoch seconds.
    """
    answered, facts = _services(config, roles)
    found = [clock.clock(facts.clock_off_s), versions.python(), versions.kernel(os.uname().release)]
    if facts.version:
        found.append(versions.headway(own_version(), facts.version))
    found += _certificates(config, roles, now)
    found += disks.space(_folders(config, roles))
    for role in sorted(set(roles) - {Role.WORKER}):
        found += databases.database(role, _database_of(config, role), now)
    if {Role.WORKER, Role.HTTP_SERVER} & set(roles):
        found += shared_mount.mount(config.cluster.mount, config.cluster.name)
    if Role.WORKER in roles and config.worker.runtime == "docker":
        found += _engine(config)
        found.append(network.firewall(config.worker.network_rules, network.firewall_program()))
    return found + answered


def roles_here(
    config: HeadwayConfig, sources: Mapping[str, str], is_mine: Callable[[str], bool] = network.is_mine
) -> set[Role]:
    """The services that this machine should run, by its certificates, or by its headway.toml where it has none.

    ``sources``: where each key's value came from. ``is_mine``: whether a host is this machine.
    """
    if config.cluster.trust_dir:
        files = TrustFiles(Path(config.cluster.trust_dir))
        return {role for role in Role if files.key(role).parent.is_dir()}
    found = {role for role, address in _peers(config, ()).items() if is_mine(split_address(address)[0])}
    roles = {Role(role) for role in found}
    # By default a Worker listens at loopback too, so only a word about it says that there is one.
    if any(key.startswith("worker.") and source not in _NOBODYS for key, source in sources.items()):
        roles.add(Role.WORKER)
    return roles


def _services(config: HeadwayConfig, roles: Collection[Role]) -> tuple[list[Check], services.ClusterFacts]:
    doors = services.doors(config, roles)
    try:
        return services.ask(config, roles, doors)
    except ConfigInvalid as error:
        # Nothing can be asked without a certificate. Whether anybody listens can be seen all the same.
        here = {str(one.role): one.address for one in doors}
        remedy = "Mend the certificate first (see its own check)."
        return [problem("services", error.message, remedy), *network.others_doors(here)], services.ClusterFacts()


def _certificates(config: HeadwayConfig, roles: Collection[Role], now: float) -> list[Check]:
    cluster, found = config.cluster, list[Check]()
    if cluster.trust_dir:
        found += [certificates.certificate(cluster.trust_dir, role, now, cluster.name) for role in sorted(roles)]
        if Role.RESOURCE_MANAGER in roles:
            found.append(certificates.authority(cluster.trust_dir))
    if Role.HTTP_SERVER in roles and config.httpserver.tls_cert:
        found.append(certificates.page(config.httpserver.tls_cert, now))
    return found


def _folders(config: HeadwayConfig, roles: Collection[Role]) -> dict[str, tuple[str, int]]:
    found = {"state": (config.cluster.state_dir, _STATE_LEAST)} if set(roles) - {Role.WORKER} else {}
    if Role.WORKER in roles:
        found["worker"] = (config.worker.folder, config.worker.disk_low_bytes)
    return found


def _database_of(config: HeadwayConfig, role: Role) -> str:
    return {
        Role.HTTP_SERVER: config.httpserver.database,
        Role.JOB_MANAGER: config.job_manager.database,
        Role.TASK_MANAGER: config.task_manager.database,
        Role.RESOURCE_MANAGER: config.resource_manager.database,
    }[role]


def _engine(config: HeadwayConfig) -> list[Check]:
    address = engine.address_of(config.worker.docker_host)
    facts = engine.ask(address)
    checks = engine.engine_checks(address, facts)
    checks += engine.gpu_checks(engine.driver_version(), facts, toolkit=engine.toolkit_installed())
    root = facts.get("DockerRootDir") if not isinstance(facts, str) else None
    if isinstance(root, str) and root:
        checks += disks.space({"Docker Engine": (root, config.worker.disk_low_bytes)})
    return checks


def _doors(config: HeadwayConfig, roles: Collection[Role]) -> dict[str, str]:
    doors = {
        Role.HTTP_SERVER: config.httpserver.grpc_bind,
        Role.JOB_MANAGER: config.job_manager.bind,
        Role.TASK_MANAGER: config.task_manager.bind,
        Role.RESOURCE_MANAGER: config.resource_manager.bind,
        Role.WORKER: config.worker.bind,
    }
    found = {str(role): doors[role] for role in sorted(roles)}
    if Role.HTTP_SERVER in roles:
        http = config.httpserver
        found["the page"] = f"{f'[{http.bind}]' if ':' in http.bind else http.bind}:{http.port}"
    return found


def _peers(config: HeadwayConfig, roles: Collection[Role]) -> dict[str, str]:
    peers = config.peers
    found = {
        Role.HTTP_SERVER: peers.http_server,
        Role.JOB_MANAGER: peers.job_manager,
        Role.TASK_MANAGER: peers.task_manager,
        Role.RESOURCE_MANAGER: peers.resource_manager,
    }
    # Which of the four a Worker calls: all but JobManager.
    skipped = set(roles) | ({Role.JOB_MANAGER} if set(roles) == {Role.WORKER} else set())
    return {str(role): address for role, address in found.items() if role not in skipped}
