"""All that matters on one machine, in one list."""

from __future__ import annotations

import os
import time
from collections.abc import Collection

from ..config import HeadwayConfig
from ..trust.identity import Role
from . import certificates, clock, engine, network, shared_mount, versions
from .model import Check


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
        from ..trust.joining import own_version

        found.append(versions.headway(own_version(), cluster_version))
    if config.cluster.trust_dir:
        found += [certificates.certificate(config.cluster.trust_dir, role, time.time()) for role in sorted(roles)]
    if {Role.WORKER, Role.HTTP_SERVER} & set(roles):
        found += shared_mount.mount(config.cluster.mount, config.cluster.name)
    if Role.WORKER in roles and config.worker.runtime == "docker":
        address = engine.address_of(config.worker.docker_host)
        facts = engine.ask(address)
        found += engine.engine_checks(address, facts)
        found += engine.gpu_checks(engine.driver_version(), facts, toolkit=engine.toolkit_installed())
    found += network.own_doors(_doors(config, roles))
    if starts_elsewhere:
        found += network.others_doors(_peers(config, roles))
    return found


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
