"""The engine's networks: what there is, and one for each job that asks for it."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Any

from docker import APIClient
from docker.errors import APIError, NotFound
from docker.types import IPAMConfig, IPAMPool

from headway.ids import AttemptId
from headway.jobfile import Network
from headway.logs import get_logger
from headway.model.reasons import EndWord

from ..network.addresses import HardwareAddresses, marks_of
from ..network.guard import EngineNetwork, Unknown, taken_now
from ..network.machine import BRIDGES
from ..network.namespace import namespace_of
from ..network.ranges import Taken, clash, first_free, job_subnets
from ..ports import EngineUnavailable, RuntimeRefused, StartOrder
from .docker_engine import DockerEngine
from .docker_errors import engine_in_trouble, text_of
from .docker_options import WorkerIdentity

log = get_logger(__name__)

_JOB_LABEL = "headway.network-of-job"
_BRIDGE_NAME = "com.docker.network.bridge.name"
_DEFAULT = "com.docker.network.bridge.default_bridge"
_TRIES = 16  # another Worker may take a subnet first


class NoNetwork(RuntimeRefused):
    """The task can't get the network that it asks for on this machine."""

    def __init__(self, why: str) -> None:
        super().__init__(why, word=EndWord.START_FAILED, elsewhere=True)


class TaskNetworks:
    """What connects this Worker's containers. Calls with an ``api`` block, and are made in the engine's threads."""

    def __init__(self, engine: DockerEngine, identity: WorkerIdentity, job_range: IPv4Network) -> None:
        self.engine = engine
        self.identity = identity
        self.refusal: Callable[[], str] = lambda: ""
        """Why no container with a network may be started now. Empty: it may. Raises EngineUnavailable."""
        self._range = job_range
        self._addresses = HardwareAddresses(identity.short)
        self._given: set[AttemptId] = set()  # attempts that this process has given an address
        self._unknown: set[AttemptId] = set()
        self._in_jobs: set[AttemptId] = set()  # attempts of this process in the network of their job
        self._one_at_a_time = threading.Lock()

    async def all(self) -> Sequence[EngineNetwork]:
        """The engine's networks. Raises EngineUnavailable."""
        try:
            return await self.engine.quick(self.read)
        except APIError as error:
            raise EngineUnavailable(f"The container engine answered: {text_of(error)}") from error

    def of(self, api: APIClient, order: StartOrder) -> tuple[str, str]:
        """The container's hardware address and the engine's network of its job. Both may be empty.

        Raises EngineUnavailable, NoNetwork, APIError.
        """
        if order.network is Network.NONE:
            return "", ""
        if why := self.refusal():
            raise NoNetwork(why)
        attempt, of_job = order.attempt, order.network is Network.JOB
        address = self._addresses.take(attempt, job=of_job)
        self._given.add(attempt)
        if not of_job:
            return address, ""
        self._in_jobs.add(attempt)
        return address, self.make(api, attempt.task.job_id)

    def seen(self, entries: Mapping[AttemptId, Mapping[str, Any]]) -> None:
        """The engine lists these containers of attempts, perhaps from before a restart."""
        marks, unknown = marks_of(self.identity.short), set()
        for attempt, entry in entries.items():
            for endpoint in ((entry.get("NetworkSettings") or {}).get("Networks") or {}).values():
                address = str((endpoint or {}).get("MacAddress") or "")
                if not address:
                    continue
                self._addresses.seen(attempt, address)
                if not marks.all.fits(address):
                    unknown.add(attempt)
        self._unknown = unknown

    def unknown(self) -> Unknown:
        """Running containers whose hardware addresses the rules don't know."""
        return Unknown(len(self._unknown), engine_ignores=bool(self._unknown & self._given))

    def left(self, attempt: AttemptId) -> bool:
        """Its container is removed. True: it was in the network of its job."""
        self._addresses.give_back(attempt)
        self._given.discard(attempt)
        self._unknown.discard(attempt)
        was_in = attempt in self._in_jobs
        self._in_jobs.discard(attempt)
        return was_in

    def name_of(self, job: str) -> str:
        """The network's name on the engine."""
        return f"headway-{self.identity.short}-{job}"

    def make(self, api: APIClient, job: str) -> str:
        """The job's network, made if it is not there; its name.

        Raises EngineUnavailable, NoNetwork, APIError.
        """
        name = self.name_of(job)
        with self._one_at_a_time:
            if any(one.name == name for one in self.read(api, names=[name])):
                return name
            refused: list[Taken] = []
            for _ in range(_TRIES):
                networks = self.read(api)
                taken = [*self._taken(networks), *refused]
                subnet = self._free_subnet(taken)
                try:
                    self._create(api, name, job, subnet)
                except APIError as error:
                    if engine_in_trouble(error):
                        raise EngineUnavailable(f"The container engine made no network: {text_of(error)}") from error
                    if "overlap" not in text_of(error):
                        raise NoNetwork(f"The engine made no network for the job: {text_of(error)}") from error
                    refused.append(Taken(subnet, "another network", ours=True))
                    continue
                log.info("network.made", network=name, subnet=str(subnet))
                return name
        raise NoNetwork(f"{self.identity.node} found no free part of worker.network_job_range for the job")

    def sweep(self, api: APIClient, living: Callable[[], Collection[str]]) -> None:
        """Remove the networks of jobs of which nothing is left here. ``living``: jobs that may start something."""
        with self._one_at_a_time:
            # Asked while no start can be about to take one: such a start makes its network anew.
            may_start = living()
            networks = [one for one in self.read(api, ours=True) if one.job not in may_start]
            for network in networks:
                filters = {"label": [*self.identity.filters(), f"headway.job={network.job}"]}
                if api.containers(all=True, filters=filters):
                    continue
                try:
                    api.remove_network(network.id)
                    log.info("network.removed", network=network.name)
                except NotFound:
                    continue
                except APIError as error:  # somebody else's container is in it: tried again with the next one
                    log.warning("network.not_removed", network=network.name, reason=text_of(error))

    def read(self, api: APIClient, *, ours: bool = False, names: Sequence[str] = ()) -> list[EngineNetwork]:
        """The engine's networks: all, this Worker's, or those of exactly these names."""
        filters: dict[str, Any] = {}
        if ours or names:
            filters["label"] = [*self.identity.filters(), _JOB_LABEL]
        found = api.networks(filters=filters) or []
        return [one for one in map(_network, found) if not names or one.name in names]

    def _free_subnet(self, taken: Sequence[Taken]) -> IPv4Network:
        clashes = clash(self._range, taken, [])
        if clashes:
            raise NoNetwork(clashes.rstrip("."))
        subnet = first_free(job_subnets(self._range), [one for one in taken if one.network.overlaps(self._range)])
        if subnet is None:
            raise NoNetwork(
                f"All of worker.network_job_range {self._range} is given to networks of jobs on {self.identity.node}"
            )
        return subnet

    def _create(self, api: APIClient, name: str, job: str, subnet: IPv4Network) -> None:
        number = hashlib.sha256(name.encode()).hexdigest()[:6]
        api.create_network(
            name,
            driver="bridge",
            options={_BRIDGE_NAME: f"{BRIDGES}{self.identity.short[:5]}-{number}"},
            ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))]),
            check_duplicate=True,
            labels={**self.identity.labels(), _JOB_LABEL: job},
        )

    def _taken(self, networks: Sequence[EngineNetwork]) -> list[Taken]:
        where = namespace_of(self.engine.url)
        if where is None:
            raise EngineUnavailable("The container engine has just gone.")
        return taken_now(where, networks)


def _network(said: Mapping[str, Any]) -> EngineNetwork:
    options, labels = said.get("Options") or {}, said.get("Labels") or {}
    default = options.get(_DEFAULT) == "true"
    return EngineNetwork(
        name=str(said.get("Name", "")),
        id=str(said.get("Id", "")),
        driver=str(said.get("Driver", "")),
        bridge=str(options.get(_BRIDGE_NAME, "")),
        subnets=tuple(_subnets(said)),
        default=default,
        job=str(labels.get(_JOB_LABEL, "")),
    )


def _subnets(said: Mapping[str, Any]) -> Iterator[IPv4Network]:
    for one in (said.get("IPAM") or {}).get("Config") or []:
        with contextlib.suppress(AddressValueError, NetmaskValueError, ValueError):
            yield IPv4Network(str(one.get("Subnet", "")), strict=False)
