"""The network of a job: made when it is asked for, at a free place, and removed after the last task."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Any, cast

import docker.errors
import pytest
import requests

from headway.ids import AttemptId
from headway.jobfile import Network
from tests.unit.worker.builders import an_attempt
from tests.unit.worker.runtime.test_docker_options import ME, an_order
from worker.network.addresses import marks_of
from worker.network.guard import EngineNetwork, Unknown
from worker.network.ranges import Taken
from worker.runtime import docker_networks as module
from worker.runtime.docker_engine import DockerEngine
from worker.runtime.docker_networks import NoNetwork, TaskNetworks

RANGE = IPv4Network("10.213.0.0/16")


class PretendApi:
    """An engine's networks and containers. ``taken`` are subnets that it refuses."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = {}
        self.taken: set[str] = set()
        self.running: list[str] = []

    def networks(self, filters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        return [one for one in self.there.values() if not filters or one["Labels"]]

    def create_network(self, name: str, *, ipam: Any, options: Any, labels: Any, **_: Any) -> None:
        if name in self.there:
            raise _refused(f"network with name {name} already exists")
        subnet = ipam["Config"][0]["Subnet"]
        if subnet in self.taken:
            raise _refused("Pool overlaps with other one on this address space")
        assert len(options["com.docker.network.bridge.name"]) <= 15
        self.there[name] = {
            "Name": name,
            "Id": name,
            "Driver": "bridge",
            "Options": options,
            "Labels": labels,
            "IPAM": {"Config": [{"Subnet": subnet}]},
        }

    def containers(self, *, all: bool, filters: dict[str, Any]) -> list[str]:
        assert all
        return self.running

    def remove_network(self, network: str) -> None:
        del self.there[network]


def _refused(text: str) -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = 403
    return docker.errors.APIError(text, response=response, explanation=text)


@pytest.fixture
def api() -> PretendApi:
    return PretendApi()


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch) -> TaskNetworks:
    def taken(where: object, found: Sequence[EngineNetwork]) -> list[Taken]:
        return [Taken(subnet, one.name, ours=bool(one.job)) for one in found for subnet in one.subnets]

    monkeypatch.setattr(module, "taken_now", taken)
    return TaskNetworks(DockerEngine("tcp://pretended", timeout_s=1), ME, RANGE)


def _of(networks: TaskNetworks, api: PretendApi, network: Network, attempt: AttemptId | None = None) -> tuple[str, str]:
    return networks.of(cast(Any, api), an_order(network=network, **({"attempt": attempt} if attempt else {})))


def _subnet(api: PretendApi, name: str) -> str:
    return str(api.there[name]["IPAM"]["Config"][0]["Subnet"])


def test_a_network_is_made_only_for_a_job_that_asks_and_once(networks: TaskNetworks, api: PretendApi) -> None:
    assert _of(networks, api, Network.NONE) == ("", "")
    address, network = _of(networks, api, Network.OUTGOING)
    assert marks_of(ME.short).outgoing.fits(address)
    assert (network, api.there) == ("", {})
    address, network = _of(networks, api, Network.JOB, an_attempt("b"))
    assert marks_of(ME.short).job.fits(address)
    assert _of(networks, api, Network.JOB, an_attempt("b")) == (address, network)
    assert list(api.there) == [network]
    assert _subnet(api, network) == "10.213.0.0/24"


def test_a_subnet_that_another_worker_has_taken_meanwhile_is_passed_over(
    networks: TaskNetworks, api: PretendApi
) -> None:
    api.taken = {"10.213.0.0/24", "10.213.1.0/24"}
    _, network = _of(networks, api, Network.JOB)
    assert _subnet(api, network) == "10.213.2.0/24"


def test_a_range_in_use_is_refused_in_one_sentence(networks: TaskNetworks, api: PretendApi) -> None:
    api.there["lan"] = {
        "Name": "lan",
        "Labels": {},
        "IPAM": {"Config": [{"Subnet": "10.213.4.0/22"}, {"Subnet": "fd00::/64"}]},
    }
    with pytest.raises(NoNetwork, match=r"network_job_range 10\.213\.0\.0/16: 10\.213\.4\.0/22 is used by lan"):
        _of(networks, api, Network.JOB)
    assert list(api.there) == ["lan"]


def test_a_range_that_is_used_up_and_a_name_that_is_taken_are_told(networks: TaskNetworks, api: PretendApi) -> None:
    networks._range = IPv4Network("10.213.0.0/23")
    for number in range(2):
        networks.make(cast(Any, api), f"job{number}")
    with pytest.raises(NoNetwork, match=r"All of worker\.network_job_range 10\.213\.0\.0/23 is given"):
        networks.make(cast(Any, api), "job2")
    networks._range = RANGE
    api.there[networks.name_of("job3")] = {"Name": networks.name_of("job3"), "Labels": {}}
    with pytest.raises(NoNetwork, match=r"made no network for the job: network with name .* already exists"):
        networks.make(cast(Any, api), "job3")


def test_without_rules_nothing_with_a_network_starts(networks: TaskNetworks, api: PretendApi) -> None:
    networks.refusal = lambda: "No rules."
    for network in (Network.OUTGOING, Network.JOB):
        with pytest.raises(NoNetwork, match=r"No rules\."):
            _of(networks, api, network)
    assert _of(networks, api, Network.NONE) == ("", "")


def test_a_network_goes_after_the_jobs_last_task(networks: TaskNetworks, api: PretendApi) -> None:
    order = an_order(network=Network.JOB)
    networks.of(cast(Any, api), order)
    api.there["lan"] = {"Name": "lan", "Id": "lan", "Labels": {}}
    networks.sweep(cast(Any, api), lambda: {order.attempt.task.job_id})
    assert len(api.there) == 2, "a task of the job may be about to start"
    api.running = ["a container of the job"]
    networks.sweep(cast(Any, api), tuple)
    assert len(api.there) == 2
    api.running = []
    networks.sweep(cast(Any, api), tuple)
    assert list(api.there) == ["lan"]


def test_who_leaves_the_network_of_a_job(networks: TaskNetworks, api: PretendApi) -> None:
    a, b = an_order(network=Network.JOB), an_order(network=Network.OUTGOING)
    assert not networks.left(b.attempt)
    networks.of(cast(Any, api), a)
    assert networks.left(a.attempt)
    assert not networks.left(a.attempt)


def test_addresses_from_before_a_restart_are_not_given_again(networks: TaskNetworks, api: PretendApi) -> None:
    order = an_order(network=Network.OUTGOING)
    address, _ = networks.of(cast(Any, api), order)
    networks.left(order.attempt)
    entry = {"NetworkSettings": {"Networks": {"bridge": {"MacAddress": address}, "x": None}}}
    networks.seen({an_attempt("other"): entry})
    assert networks.of(cast(Any, api), order)[0] != address


def test_containers_that_the_rules_do_not_know_are_counted(networks: TaskNetworks, api: PretendApi) -> None:
    old, order = an_attempt("old"), an_order(network=Network.OUTGOING)
    address, _ = networks.of(cast(Any, api), order)

    def entry(address: str) -> dict[str, Any]:
        return {"NetworkSettings": {"Networks": {"bridge": {"MacAddress": address}}}}

    networks.seen({order.attempt: entry(address), an_attempt("none"): entry("")})
    assert networks.unknown() == Unknown(0)
    networks.seen({old: entry("02:42:ac:11:00:02"), order.attempt: entry(address)})
    assert networks.unknown() == Unknown(1), "from an older version"
    networks.seen({old: entry("02:42:ac:11:00:02"), order.attempt: entry("02:42:ac:11:00:03")})
    assert networks.unknown() == Unknown(2, engine_ignores=True)
    networks.left(order.attempt)
    networks.left(old)
    assert networks.unknown() == Unknown(0)
