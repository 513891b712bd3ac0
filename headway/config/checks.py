"""Relations between settings that no single value can show, and the values that follow from others."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..errors import Problem
from ..units import format_duration
from .sections import HeadwayConfig
from .values import is_loopback, is_wildcard, split_address

# What the launcher may need past its grace until the last process is surely gone, and the drift between two
# machines' clocks over one lease.
LEASE_SLACK_S = 5.0
MIN_TOKEN_CHARS = 16
_LEAST_SAMPLE_S = 0.1  # a round takes milliseconds

_WITH_WEIGHTS = "aging_sjf"
_SERVICES = ("httpserver", "job_manager", "task_manager", "resource_manager")


def derived(config: HeadwayConfig, environ_host: str = "") -> tuple[HeadwayConfig, dict[str, str]]:
    """Fills in what follows from other settings; returns the whole config and where each such value came from."""
    state = config.cluster.state_dir
    updates: dict[str, dict[str, Any]] = {}
    sources: dict[str, str] = {}

    def fill(section: str, key: str, value: str, source: str) -> None:
        if not getattr(getattr(config, section), key):
            updates.setdefault(section, {})[key] = value
            sources[f"{section}.{key}"] = source

    for service in _SERVICES:
        fill(service, "database", f"{state}/{service}.db", "from cluster.state_dir")
    fill("httpserver", "secret_key_file", f"{state}/registry-key", "from cluster.state_dir")
    fill("cluster", "mount", f"{state}/mount", "from cluster.state_dir")
    fill("worker", "folder", f"{state}/worker", "from cluster.state_dir")
    fill("worker", "node_id", _node_name(environ_host or socket.gethostname()), "from the host name")
    fill("worker", "address", config.worker.bind, "from worker.bind")
    fill("peers", "http_server", _reachable(config.httpserver.grpc_bind), "from httpserver.grpc_bind")
    for service in ("job_manager", "task_manager", "resource_manager"):
        fill("peers", service, _reachable(getattr(config, service).bind), f"from {service}.bind")
    whole = config.model_copy(
        update={name: getattr(config, name).model_copy(update=values) for name, values in updates.items()}
    )
    return whole, sources


def problems(config: HeadwayConfig) -> Iterator[Problem]:
    """Everything that does not go together; `pointer` is the key, the message reads on after it."""
    yield from _leases(config)
    yield from _disks(config)
    yield from _samples(config)
    yield from _doors(config)
    yield from _numbers(config)
    yield from _policy(config)
    yield from _limits(config)
    yield from _retention(config)


def outage_borne_s(config: HeadwayConfig) -> float:
    """An outage of TaskManager of so many seconds ends no task; the answer to one heartbeat may take a moment more."""
    cluster = config.cluster
    return cluster.lease_s - cluster.lease_stop_s - cluster.heartbeat_s


def _leases(config: HeadwayConfig) -> Iterator[Problem]:
    cluster = config.cluster
    if cluster.lease_s <= 3 * cluster.heartbeat_s:
        yield Problem(
            "cluster.lease_s",
            f"is {cluster.lease_s:g}; it must be more than three times heartbeat_s ({cluster.heartbeat_s:g}), or one "
            "lost heartbeat could cost a task",
        )
    needed_s = cluster.lease_grace_s + LEASE_SLACK_S
    if cluster.lease_stop_s < needed_s:
        yield Problem(
            "cluster.lease_stop_s",
            f"is {cluster.lease_stop_s:g}; it must be at least lease_grace_s + {LEASE_SLACK_S:g} = {needed_s:g}, so "
            "that a cut-off task is surely gone before another machine may start it",
        )
    if cluster.lease_s - cluster.lease_stop_s <= 2 * cluster.heartbeat_s:
        yield Problem(
            "cluster.lease_stop_s",
            f"is {cluster.lease_stop_s:g}; lease_s - lease_stop_s must be more than two heartbeats "
            f"({2 * cluster.heartbeat_s:g} s), or a launcher would stop tasks between two heartbeats",
        )


def _disks(config: HeadwayConfig) -> Iterator[Problem]:
    worker = config.worker
    if worker.image_disk_low > worker.image_disk_high:
        yield Problem(
            "worker.image_disk_low",
            f"is {worker.image_disk_low:g}; it must not be above image_disk_high ({worker.image_disk_high:g})",
        )


def _samples(config: HeadwayConfig) -> Iterator[Problem]:
    worker = config.worker
    if 0 < worker.sample_every_s < _LEAST_SAMPLE_S:
        yield Problem(
            "worker.sample_every_s",
            f"is {worker.sample_every_s:g}; it must be at least {_LEAST_SAMPLE_S:g}, or 0: never",
        )
    if worker.gpu_idle_mode != "off" and not worker.sample_every_s:
        yield Problem(
            "worker.gpu_idle_mode",
            f"is {worker.gpu_idle_mode}, which needs samples: set sample_every_s to 1, say, or gpu_idle_mode to off",
        )
    elif worker.gpu_idle_mode != "off" and worker.gpu_idle_for_s < 8 * worker.sample_every_s:
        yield Problem(
            "worker.gpu_idle_for_s",
            f"is {worker.gpu_idle_for_s:g}; it must be at least eight times sample_every_s "
            f"({worker.sample_every_s:g}), or few readings would decide",
        )


def _doors(config: HeadwayConfig) -> Iterator[Problem]:
    http = config.httpserver
    if bool(http.tls_cert) != bool(http.tls_key):
        yield Problem("httpserver.tls_cert", "and tls_key go together: set both or neither")
    if not is_loopback(http.bind) and not http.tls_cert and not http.behind_proxy:
        yield Problem(
            "httpserver.bind",
            f"is {http.bind}, which other machines can reach: set tls_cert and tls_key, or name the proxy that does "
            "TLS in behind_proxy, or keep 127.0.0.1 and come in through ssh -L",
        )
    yield from _sign_in(config)
    yield from _network(config)
    if not config.cluster.trust_dir and len(config.cluster.token) < MIN_TOKEN_CHARS:
        what = "is too short" if config.cluster.token else "is not set"
        yield Problem(
            "cluster.token_file",
            f"{what}: put at least {MIN_TOKEN_CHARS} random characters into a file that only the services can read, "
            "the same on every machine (`headway up` does it by itself)",
        )
    host, _ = split_address(config.worker.address)
    if is_wildcard(host):
        yield Problem(
            "worker.address", f"must say how the others reach this machine, since worker.bind is {config.worker.bind}"
        )


def _sign_in(config: HeadwayConfig) -> Iterator[Problem]:
    http, oidc = config.httpserver, config.httpserver.oidc
    if http.passwords != "on" and not oidc.issuer:
        yield Problem(
            "httpserver.passwords",
            f"is {http.passwords}, but people could not sign in otherwise: set [httpserver.oidc] issuer, "
            'or keep passwords = "on"',
        )
    if http.passwords == "off" and not http.first_admin_file:
        yield Problem(
            "httpserver.passwords",
            "is off, so set first_admin_file: it is the way in for an admin on this machine while the provider is away",
        )
    if not oidc.issuer:
        return
    if not oidc.client_id:
        yield Problem("httpserver.oidc.client_id", "must be set, since issuer is")
    parts = urlsplit(oidc.issuer)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        yield Problem("httpserver.oidc.issuer", "must begin with https://, or anybody on the way could sign in as all")
    if not http.public_url and not is_loopback(http.bind):
        yield Problem(
            "httpserver.public_url",
            "must be set, since httpserver.oidc.issuer is: the provider sends people back there",
        )


def _network(config: HeadwayConfig) -> Iterator[Problem]:
    """One problem for all doors, since one setting answers them all."""
    doors = is_public(config)
    if doors and not config.cluster.trust_dir and not config.cluster.insecure_network:
        first, *others = doors
        also = f", like {', '.join(others)}" if others else ""
        yield Problem(
            first,
            f"is {doors[first]}, which other machines can reach{also}: gRPC is plain text, so give the services "
            "certificates (`headway init`, then cluster.trust_dir), or keep 127.0.0.1, or set "
            "[cluster] insecure_network = true where you trust everybody on that network: who listens there gets the "
            "token, and with it all machines",
        )
    for key, address in _metrics_doors(config).items():
        if not is_loopback(split_address(address)[0]) and not config.cluster.insecure_network:
            yield Problem(
                key,
                f"is {address}, which other machines can reach: it is plain text and asks nobody who they are, so keep "
                "127.0.0.1, or set [cluster] insecure_network = true where you trust everybody on that network",
            )


def _numbers(config: HeadwayConfig) -> Iterator[Problem]:
    cluster, nodes, tasks = config.cluster, config.resource_manager, config.task_manager
    if cluster.account_uid_max < cluster.account_uid_min:
        yield Problem("cluster.account_uid_max", f"must not be below account_uid_min ({cluster.account_uid_min})")
    if nodes.suspect_after_s < 2 * nodes.poll_s:
        yield Problem(
            "resource_manager.suspect_after_s",
            f"is {nodes.suspect_after_s:g}; it must be at least two polls ({2 * nodes.poll_s:g} s)",
        )
    if nodes.down_after_s <= nodes.suspect_after_s:
        yield Problem("resource_manager.down_after_s", f"must be above suspect_after_s ({nodes.suspect_after_s:g})")
    if config.worker.pull_limit_s >= tasks.start_limit_s:
        yield Problem("worker.pull_limit_s", f"must be below task_manager.start_limit_s ({tasks.start_limit_s:g})")
    if _inside(cluster.state_dir, cluster.mount):
        yield Problem("cluster.state_dir", "must not lie on the shared mount: databases break there")


def _policy(config: HeadwayConfig) -> Iterator[Problem]:
    """beta and gamma are for aging_sjf, which may also have them behind its name: two figures would contradict."""
    tasks = config.task_manager
    name, _, rest = tasks.policy.strip().partition(":")
    pairs = (part.partition("=") for part in rest.replace(":", ",").split(","))
    written = {parameter.strip(): value.strip() for parameter, _, value in pairs}
    for key, figure in (("beta", tasks.beta), ("gamma", tasks.gamma)):
        if key not in tasks.model_fields_set:
            continue
        if name != _WITH_WEIGHTS:
            yield Problem(
                f"task_manager.{key}",
                f"is a weight of {_WITH_WEIGHTS}, but policy is {tasks.policy!r}, which would not heed it: remove one "
                "of the two",
            )
        elif key in written and not _is_figure(written[key], figure):
            yield Problem(
                f"task_manager.{key}",
                f"is {figure:g}, but policy is {tasks.policy!r}: say it in one of the two places only",
            )


def _is_figure(text: str, figure: float) -> bool:
    try:
        return float(text) == figure
    except ValueError:
        return True  # TaskManager tells what is wrong with it


def _limits(config: HeadwayConfig) -> Iterator[Problem]:
    limits = config.task_manager.limits
    shortest_s, reserve = limits.min_timeout, limits.short_reserve
    for gpus, longest_s in sorted(limits.max_timeout.items()):
        if shortest_s > longest_s:
            there = f" from {gpus} GPUs on" if gpus else ""
            yield Problem(
                "task_manager.limits.min_timeout",
                f"is {format_duration(shortest_s)}; it must not be above max_timeout ({format_duration(longest_s)}"
                f"{there}), or nobody could submit a task then",
            )
    if reserve.gpus and reserve.above < shortest_s:
        yield Problem(
            "task_manager.limits.short_reserve.above",
            f"is {format_duration(reserve.above)}; it must not be below min_timeout ({format_duration(shortest_s)}), "
            "or GPUs would be kept for tasks that nobody can submit",
        )


def _retention(config: HeadwayConfig) -> Iterator[Problem]:
    """Who keeps jobs for less time than a task may run forgets how long tasks run before they come again."""
    longest_s = max(config.task_manager.limits.max_timeout.values())
    mine = config.retention
    asked = {"retention.days": mine.days}
    asked |= {f"retention.accounts.{name}.days": rule.days for name, rule in mine.accounts.items()}
    for key, days in asked.items():
        if days is not None and days * 86_400.0 < longest_s:
            yield Problem(
                key,
                f"is {days}; it must not be shorter than the longest timeout that a task may ask for "
                f"(task_manager.limits.max_timeout, {format_duration(longest_s)})",
            )


def _inside(path: str, folder: str) -> bool:
    return bool(folder) and (path.rstrip("/") + "/").startswith(folder.rstrip("/") + "/")


def _reachable(bind: str) -> str:
    host, port = split_address(bind)
    return f"127.0.0.1:{port}" if is_wildcard(host) else bind


def _node_name(host: str) -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", host.split(".")[0].lower()).strip("-._")[:63]
    return name or "node"


def _metrics_doors(config: HeadwayConfig) -> Mapping[str, str]:
    doors = {f"{name}.metrics_listen": getattr(config, name).metrics_listen for name in (*_SERVICES, "worker")}
    return {key: address for key, address in doors.items() if address}


def is_public(config: HeadwayConfig) -> Mapping[str, str]:
    """The gRPC doors that other machines can reach: key to address."""
    doors = {f"{name}.bind": getattr(config, name).bind for name in (*_SERVICES[1:], "worker")}
    doors["httpserver.grpc_bind"] = config.httpserver.grpc_bind
    return {key: bind for key, bind in doors.items() if not is_loopback(split_address(bind)[0])}
