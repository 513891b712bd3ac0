"""Who may call what: a row for each RPC there is, and none for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.rpc.v1 import http_server_pb2, job_manager_pb2, resource_manager_pb2, task_manager_pb2, worker_pb2
from headway.trust.caller import Caller, CallerRefused, calling_node, require_node, set_caller
from headway.trust.callers import CALLERS, table, why_refused
from headway.trust.identity import Identity, Role

_CONTRACTS = (http_server_pb2, job_manager_pb2, task_manager_pb2, resource_manager_pb2, worker_pb2)
_DOCS = Path(__file__).parents[3] / "docs" / "security.md"
N1 = Identity("lab", Role.WORKER, "n1")


def test_each_rpc_has_a_row() -> None:
    there = {
        f"{service.name}/{method.name}"
        for contract in _CONTRACTS
        for service in contract.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert set(CALLERS) == there


def test_the_page_of_docs_has_this_table() -> None:
    assert table() in _DOCS.read_text("utf-8"), "paste what headway.trust.callers.table() says into docs/security.md"


def test_a_worker_may_make_few_calls() -> None:
    assert {method for method, roles in CALLERS.items() if Role.WORKER in roles} == {
        "HttpServer/GetRegistryAuth",
        "HttpServer/GetTaskSecrets",
        "TaskManager/Heartbeat",
        "TaskManager/ReportAttempts",
        "ResourceManager/RegisterNode",
        "ResourceManager/ReportStatus",
        "ResourceManager/GetTrust",
        "ResourceManager/Renew",
    }


def test_only_the_page_acts_for_users() -> None:
    for method in ("JobManager/SubmitJob", "JobManager/ActOnJob", "Worker/ReadLog", "TaskManager/ExtendTask"):
        assert CALLERS[method] == {Role.HTTP_SERVER}


@pytest.mark.parametrize(
    ("caller", "method", "said"),
    [
        (N1, "TaskManager/Heartbeat", ""),
        (N1, "JobManager/SubmitJob", "does not allow to call JobManager/SubmitJob"),
        (N1, "JobManager/NoSuchCall", "does not allow to call"),
        (Identity("other", Role.WORKER, "n1"), "TaskManager/Heartbeat", "is of the cluster 'other', and this is 'lab'"),
        (Identity("lab", Role.TASK_MANAGER), "Worker/Launch", ""),
        (Identity("lab", Role.JOB_MANAGER), "Worker/Launch", "of job_manager does not allow"),
    ],
)
def test_the_sentence_of_a_refusal(caller: Identity, method: str, said: str) -> None:
    found = why_refused(caller, method, cluster="lab")
    assert said in found
    assert bool(said) == bool(found)


async def test_a_worker_speaks_for_its_own_node_alone() -> None:
    set_caller(Caller(N1, 1))
    assert calling_node() == "n1"
    require_node("n1", "n1")
    with pytest.raises(CallerRefused, match=r"that of the Worker n1, and it speaks for 'n2'"):
        require_node("n1", "n2")
    with pytest.raises(CallerRefused, match="speaks for ''"):
        require_node("")


async def test_managers_and_callers_with_a_token_are_bound_to_no_node() -> None:
    require_node("n2")
    set_caller(Caller(Identity("lab", Role.TASK_MANAGER), 1))
    require_node("n2")
    assert calling_node() is None
