"""Holds the rules while the Worker runs, and says where they can't be had."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Literal, Protocol, TypeVar

from headway.clock import Clock
from headway.config import split_address

from ..ports import EngineUnavailable
from .firewall import Firewall
from .machine import BRIDGES, has_interface, in_use, interfaces_of, name_servers
from .names import ServiceAddresses
from .namespace import NetworkNamespace, namespace_of, read_first
from .ranges import Taken, clash
from .rules import Facts, Reach, rules_of

T = TypeVar("T")

RULES, UNKNOWN, RANGE = "network_rules", "network_unguarded", "network_range"
_EVERY_S = 5.0
_TROUBLED_S = 2.0
_MOST_SERVERS = 16
_RESOLV_CONFS = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
_DAEMON_JSON = "/etc/docker/daemon.json"


@dataclass(frozen=True, slots=True)
class EngineNetwork:
    """A network of the engine. ``bridge`` is its interface on this machine."""

    name: str
    id: str = ""
    driver: str = "bridge"
    bridge: str = ""
    subnets: tuple[IPv4Network, ...] = ()
    default: bool = False
    job: str = ""  # the job that it belongs to, if this Worker made it


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """What an admin decides."""

    node: str
    identity: str
    job_range: IPv4Network
    mode: Literal["required", "wanted", "off"] = "required"
    allowed: tuple[Reach, ...] = ()
    private: bool = False
    services: tuple[str, ...] = ()  # HOST:PORT of Headway's services


@dataclass(frozen=True, slots=True)
class Unknown:
    """Running containers of this Worker with hardware addresses that the rules don't know.

    ``engine_ignores``: one of them was given an address. Else all started before this version.
    """

    count: int = 0
    engine_ignores: bool = False


class Guard(Protocol):
    """What the Worker's parts need of it."""

    async def look(self) -> bool: ...

    async def run(self) -> None: ...

    async def leave(self) -> None: ...

    async def close(self) -> None: ...


class NoGuard:
    """For runtimes that only simulate, and where nobody sets rules for a runtime: ``problem`` says so then.

    ``required``: whether a node without rules takes no work. ``tell`` is as for ``NetworkGuard``.
    """

    def __init__(
        self, problem: str = "", *, required: bool = False, tell: Callable[[str, str, bool], None] | None = None
    ) -> None:
        self._problem = problem
        self._required = required
        self._tell = tell

    async def look(self) -> bool:
        if self._tell is not None:
            self._tell(RULES, self._problem, self._required)
        return not self._problem

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def leave(self) -> None:
        return None

    async def close(self) -> None:
        return None


class NetworkGuard:
    """``read`` asks the engine for its networks, and ``sweep`` removes those of jobs that are over.

    ``tell`` sets a condition: word, sentence, whether it blocks work.

    Programs and files block, so they get a thread of the guard's own.
    """

    def __init__(
        self,
        settings: GuardSettings,
        *,
        engine_url: str,
        read: Callable[[], Awaitable[Sequence[EngineNetwork]]],
        sweep: Callable[[], Awaitable[None]],
        unknown: Callable[[], Unknown] = Unknown,
        tell: Callable[[str, str, bool], None],
        clock: Clock,
        firewall: Firewall | None = None,
    ) -> None:
        self._settings = settings
        self._engine_url = engine_url
        self._read = read
        self._sweep = sweep
        self._unknown = unknown
        self._tell = tell
        self._clock = clock
        self._firewall = firewall or Firewall()
        self._where: NetworkNamespace | None = None
        self._networks: Sequence[EngineNetwork] | None = None
        self._looked = False  # once to the end
        self._problem = ""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="network")
        self._removed = False
        self._addresses = ServiceAddresses(clock)
        self._servers: tuple[IPv4Address, ...] = ()  # seen so far, the newest first

    def refusal(self) -> str:
        """Why no task with a network may start now, in a sentence. Empty: it may.

        Raises EngineUnavailable while that is not known, since a start then waits.
        """
        if self._settings.mode != "required":
            return ""
        if not self._looked:
            raise EngineUnavailable(_not_yet(self._settings.node))
        return self._problem

    async def look(self) -> bool:
        """Make sure that the rules are there. False: look again soon."""
        answers = True
        try:
            self._networks = await self._read()
        except EngineUnavailable:
            answers = False  # another condition says so; the rules hold without it
        networks = self._networks
        if networks is None or (not answers and self._where != NetworkNamespace()):
            return self._not_looked()
        verdict = await self._in_thread(lambda: self._hold(networks, answers))
        if verdict is None:
            return self._not_looked()
        problem, clashes = verdict
        unknown = self._unknown() if self._settings.mode != "off" else Unknown()
        if unknown.engine_ignores:
            problem = problem or (
                "the engine does not give containers the hardware addresses that it is asked for, or somebody has "
                "connected one of them to another network"
            )
        sentence = "" if not problem else _cant_be_set(self._settings.node, problem)
        self._problem = sentence
        self._tell(RULES, sentence, self._settings.mode == "required")
        self._tell(UNKNOWN, "" if problem or not unknown.count else _not_known(self._settings.node, unknown), False)
        self._tell(RANGE, clashes, False)
        self._looked = True
        return not problem

    def _not_looked(self) -> bool:
        """The engine is away. Later its absence says nothing about the rules, but until the first look none hold."""
        if self._settings.mode == "required" and not self._looked:
            self._tell(RULES, _not_yet(self._settings.node), True)
        return False

    async def run(self) -> None:
        # Apart: a slow engine takes minutes for a sweep, and flushed rules must not be missing for so long.
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._keep_looking())
            loops.create_task(self._keep_sweeping())

    async def leave(self) -> None:
        """Remove the rules and the networks of jobs, since no container of this Worker is left."""
        with contextlib.suppress(EngineUnavailable):
            await self._sweep()
        where = self._where
        if where is not None:
            await self._in_thread(lambda: self._firewall.remove(where, self._settings.identity))

    async def close(self) -> None:
        """Safe twice. The rules stay, since tasks may run on."""
        self._thread.shutdown(wait=False)
        self._addresses.close()

    async def _keep_looking(self) -> None:
        while True:
            well = await self.look()
            await self._clock.sleep(_EVERY_S if well else _TROUBLED_S)

    async def _keep_sweeping(self) -> None:
        while True:
            if any(one.job for one in self._networks or ()):
                with contextlib.suppress(EngineUnavailable):
                    await self._sweep()
            await self._clock.sleep(_EVERY_S)

    # -- in the thread ----------------------------------------------------------------------------

    def _hold(self, networks: Sequence[EngineNetwork], answers: bool) -> tuple[str, str] | None:
        """Why the rules can't be had, and why networks of jobs can't be made.

        None: the engine has just gone, perhaps with its network namespace. What was found before still counts.
        """
        if answers or self._where is None:
            where = namespace_of(self._engine_url)
            if where is None:
                return None
            self._where = where
        where = self._where
        verdict = self._hold_at(where, networks)
        if verdict[0] and where.pid is not None and namespace_of(self._engine_url) != where:
            return None
        return verdict

    def _hold_at(self, where: NetworkNamespace, networks: Sequence[EngineNetwork]) -> tuple[str, str]:
        settings = self._settings
        servers = name_servers([read_first([path]) for path in _RESOLV_CONFS], read_first([_DAEMON_JSON]))
        self._servers = tuple(dict.fromkeys([*servers, *self._servers]))[:_MOST_SERVERS]
        clashes = clash(settings.job_range, taken_now(where, networks), [(one, "a name server") for one in servers])
        if settings.mode == "off":
            if not self._removed:
                self._firewall.remove(where, settings.identity)
            self._removed = True
            return "", clashes
        lost = next((one.bridge for one in networks if one.default and not _is_here(where, one.bridge)), "")
        if lost:
            return f"the engine's bridge {lost} is not on this machine", clashes
        services = [split_address(one) for one in settings.services]
        addresses = self._addresses.of([host for host, _ in services])
        facts = Facts(
            identity=settings.identity,
            # Containers go on asking those that they began with. Another order is nothing new.
            name_servers=tuple(sorted(self._servers)),
            services=tuple((address, port) for host, port in services for address in addresses[host]),
            service_ports=tuple(sorted({port for _, port in services if port})),
            engine_networks=tuple(subnet for one in networks if _of_strangers(one) for subnet in one.subnets),
            allowed=settings.allowed,
            private=settings.private,
        )
        return self._firewall.hold(where, rules_of(facts)), clashes

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def taken_now(where: NetworkNamespace, networks: Iterable[EngineNetwork]) -> list[Taken]:
    """Networks in use on this machine and on its engine. Blocks."""
    routes = interfaces_of(where.kernel_file("route"))
    engine = [
        Taken(subnet, f"the engine's network {one.name}", ours=one.bridge.startswith(BRIDGES))
        for one in networks
        for subnet in one.subnets
    ]
    return [*in_use(where.kernel_file("fib_trie"), routes), *engine]


def _of_strangers(network: EngineNetwork) -> bool:
    """Networks of jobs are closed by their interfaces' names, so the rules stay when one comes or goes."""
    return network.driver == "bridge" and not network.bridge.startswith(BRIDGES)


def _is_here(where: NetworkNamespace, bridge: str) -> bool:
    return has_interface(where.kernel_file("dev"), bridge)


def _not_known(node: str, unknown: Unknown) -> str:
    return (
        f"No firewall rule holds for {unknown.count} containers on {node} that started under an older version. This is "
        "over when they have ended."
    )


def _not_yet(node: str) -> str:
    return (
        f"The firewall rules that keep tasks apart are not set on {node} yet: the container engine has not told its "
        "networks. The worker asks it again every two seconds."
    )


def _cant_be_set(node: str, why: str) -> str:
    return (
        f"The firewall rules that keep tasks apart can't be set on {node}: {why}. An admin can install nftables and "
        "run the worker as root, or let it take work without the rules (worker.network_rules)."
    )
