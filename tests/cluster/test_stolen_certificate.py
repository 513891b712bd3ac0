"""Somebody has copied a Worker's certificate and key, and calls the real services with them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from headway.client.own import OwnAccount
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import http_server_pb2 as hs
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.rpc.v1.http_server_pb2_grpc import HttpServerStub
from headway.rpc.v1.resource_manager_pb2_grpc import ResourceManagerStub
from headway.rpc.v1.task_manager_pb2_grpc import TaskManagerStub
from headway.trust.identity import Identity, Role
from headway.trust.pairs import new_request
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

VALUE = b"geheim/of-ann"


class Thief:
    """Has what lies in a Worker's folder of certificates, and knows all ids."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._trust, self._cluster, self.node = cluster.trust(node), cluster, node
        self.pages = HttpServerStub(self._channel("httpserver", Role.HTTP_SERVER))
        self.tasks = TaskManagerStub(self._channel("task_manager", Role.TASK_MANAGER))
        self.nodes = ResourceManagerStub(self._channel("resource_manager", Role.RESOURCE_MANAGER))
        self.incarnation = int(time.time() * 1_000) + 10**8

    def _channel(self, service: str, role: Role) -> grpc.Channel:
        files = self._trust
        shown = (files.ca, files.key(Role.WORKER), files.certificate(Role.WORKER))
        credentials = grpc.ssl_channel_credentials(*(path.read_bytes() for path in shown))
        name = Identity("headway", role).dns_name
        return grpc.secure_channel(
            self._cluster.address(service), credentials, options=[("grpc.ssl_target_name_override", name)]
        )

    def beats(self, *live: tm.LiveAttempt) -> Any:
        request = tm.HeartbeatRequest(
            node_id=self.node, incarnation=self.incarnation, address=self._cluster.worker_address(self.node),
            live=[one.attempt for one in live], attempts=live,
        )  # fmt: skip
        return self.tasks.Heartbeat(request, timeout=20)

    def secrets(self, attempt: common.Attempt, node: str) -> Any:
        request = hs.GetTaskSecretsRequest(attempt=attempt, node_id=node, names=["KEY"])
        return self.pages.GetTaskSecrets(request, timeout=20)


def refused(call: Callable[[], Any], *codes: grpc.StatusCode) -> str:
    """What the refusal says. One that is not refused at all fails."""
    with pytest.raises(grpc.RpcError) as found:
        call()
    assert found.value.code() in (codes or (grpc.StatusCode.PERMISSION_DENIED,)), found.value
    text = str(found.value.details())
    assert VALUE.decode() not in text
    return text


def test_it_opens_its_own_node_alone_and_nothing_once_it_is_revoked(tmp_path: Path) -> None:
    with a_cluster(tmp_path, workers=2, tls=True) as cluster:
        ann = cluster.user("ann")
        OwnAccount(ann).set_secret("KEY", VALUE)
        whole = {"resources": {"cpus": 2, "memory": "64MiB"}, "secrets": ["KEY"]}
        runs = ann.submit(a_job(*(scripted_task(f"r{i}", run_s=600, **whole) for i in range(2))))["id"]

        def states(job: str) -> list[str]:
            return [one["state"] for one in ann.ask("GET", f"/jobs/{job}")["tasks"]]

        def begun(name: str) -> bool:
            # A task counts as running from its placement on; its program begins a little later.
            attempts = ann.task(runs, name)["attempts"]
            return bool(attempts) and attempts[0]["state"] == "RUNNING"

        soon(lambda: begun("r0") and begun("r1"), within_s=60, what="both nodes are full, and both programs have begun")
        waits = ann.submit(a_job(*(scripted_task(f"w{i}", **whole) for i in range(2))))["id"]
        cluster.kill9("n2")
        thief = Thief(cluster, "n2")

        def attempt(job: str, name: str) -> common.Attempt:
            return common.Attempt(task=common.Task(job_id=job, name=name), number=1)

        # What runs on either node has begun, and what waits is nowhere.
        for job, name in ((runs, "r0"), (runs, "r1"), (waits, "w0")):
            refused(lambda job=job, name=name: thief.secrets(attempt(job, name), "n2"),
                    grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.ABORTED)  # fmt: skip
            refused(lambda job=job, name=name: thief.secrets(attempt(job, name), "n1"))
        # It says that it has lost its own work and has taken on what waits.
        thief.beats()
        claimed = tm.LiveAttempt(attempt=attempt(waits, "w0"), generation=1, placed_at=time.time())
        soon(lambda: thief.beats(claimed) and states(waits)[0] == "RUNNING", within_s=60, what="it is believed")
        refused(lambda: thief.secrets(attempt(waits, "w0"), "n2"))
        asks = hs.GetRegistryAuthRequest(account="nobody-there", registry="r.example")
        refused(lambda: thief.pages.GetRegistryAuth(asks, timeout=20))

        # Other names, too much at once, and no TLS.
        for name in ("n1", "N2", "n3", ""):
            request = rm.RegisterNodeRequest(node_id=name, address="127.0.0.1:9", incarnation=thief.incarnation)
            refused(lambda request=request: thief.nodes.RegisterNode(request, timeout=20))
        far = rm.RegisterNodeRequest(node_id="n2", address="x" * 3_000_000, incarnation=thief.incarnation)
        refused(lambda: thief.nodes.RegisterNode(far, timeout=20), grpc.StatusCode.INVALID_ARGUMENT)
        many = [tm.LiveAttempt(attempt=common.Attempt(task=claimed.attempt.task, number=n)) for n in range(1, 20_000)]
        refused(lambda: thief.beats(*many), grpc.StatusCode.INVALID_ARGUMENT)
        plain = TaskManagerStub(grpc.insecure_channel(cluster.address("task_manager")))
        refused(lambda: plain.Heartbeat(tm.HeartbeatRequest(node_id="n2"), timeout=20), grpc.StatusCode.UNAVAILABLE)
        assert {one["id"] for one in cluster.client.nodes()} == {"n1", "n2"}

        # A renewed one falls with the one that was stolen, on the connections that stand.
        key, csr = new_request(Identity("headway", Role.WORKER, "n2"))
        renewed = thief.nodes.Renew(rm.RenewRequest(csr_pem=csr), timeout=20).cert_pem
        cluster.trust("n2").key(Role.WORKER).write_bytes(key)
        cluster.trust("n2").certificate(Role.WORKER).write_bytes(renewed)
        thief = Thief(cluster, "n2")
        thief.beats()
        said = cluster.client.ask("POST", "/certificates/revoke", json={"which": "n2"})
        assert {one["name"] for one in said["certificates"]} == {"n2"}
        gone = "was revoked"

        def knows() -> bool:
            try:
                thief.beats()
            except grpc.RpcError as error:
                return gone in str(error.details())
            return False

        soon(knows, within_s=60, what="TaskManager reads the list, which lies on its machine")
        assert gone in refused(lambda: thief.nodes.Renew(rm.RenewRequest(csr_pem=csr), timeout=20))

        def told() -> dict[str, Any]:
            newest: dict[str, Any] = cluster.client.ask("GET", "/audit", params={"what": "certificate.revoke"})
            return dict(newest["entries"][0])

        soon(lambda: told()["outcome"] != "under_way", within_s=30, what="the outcome is on disk")
        assert (told()["subject"], told()["outcome"]) == ("n2", "done")
        assert not any(VALUE.decode() in cluster.log(name) for name in cluster.names)
