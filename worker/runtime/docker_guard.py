"""The firewall rules for containers of Docker Engine, from the configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from ipaddress import IPv4Network

from ..network.guard import GuardSettings, NetworkGuard
from ..network.rules import Reach
from .docker_networks import TaskNetworks
from .setup import RuntimeSetup


def docker_guard(setup: RuntimeSetup, networks: TaskNetworks, *, sweep: Callable[[], Awaitable[None]]) -> NetworkGuard:
    """Holds the rules, and lets no task with a network start before they are set. ``sweep`` is as in NetworkGuard."""
    settings, peers = setup.config.worker, setup.config.peers
    services = (peers.http_server, peers.job_manager, peers.task_manager, peers.resource_manager, settings.address)
    guard = NetworkGuard(
        GuardSettings(
            node=settings.node_id,
            identity=networks.identity.short,
            job_range=IPv4Network(settings.network_job_range),
            mode=settings.network_rules,
            allowed=tuple(map(Reach.of, settings.network_allow)),
            private=settings.network_private,
            services=services,
        ),
        engine_url=networks.engine.url,
        read=networks.all,
        sweep=sweep,
        unknown=networks.unknown,
        tell=setup.tell,
        clock=setup.clock,
    )
    networks.refusal = guard.refusal
    return guard
