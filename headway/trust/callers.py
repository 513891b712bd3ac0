"""Which service may call which RPC of which other. One table, and what is not in it nobody may call. Pure.

docs/security.md shows it. A test holds it against the contracts in proto/, so that a new RPC takes a line here.
"""

from __future__ import annotations

from collections.abc import Mapping

from .identity import Identity, Role

_PAGE = frozenset({Role.HTTP_SERVER})  # it owns the accounts, and acts for them
_JOBS = frozenset({Role.JOB_MANAGER})
_TASKS = frozenset({Role.TASK_MANAGER})
_NODES = frozenset({Role.RESOURCE_MANAGER})
_WORKERS = frozenset({Role.WORKER})
_ALL = frozenset(Role)

CALLERS: Mapping[str, frozenset[Role]] = {
    "HttpServer/ResolveUser": _JOBS | _TASKS,
    "HttpServer/ResolveImage": _JOBS | _TASKS,
    "HttpServer/GetRegistryAuth": _WORKERS,
    "HttpServer/GetTaskSecrets": _WORKERS,
    "HttpServer/RemoveJobFolders": _JOBS,
    "HttpServer/ApplyJobEvents": _JOBS,
    "JobManager/SubmitJob": _PAGE,
    "JobManager/ListJobs": _PAGE,
    "JobManager/GetJob": _PAGE,
    "JobManager/GetJobSpec": _PAGE,
    "JobManager/ResolveJob": _PAGE,
    "JobManager/CheckWaiting": _PAGE,
    "JobManager/ActOnJob": _PAGE,
    "JobManager/PruneJobs": _PAGE,
    "JobManager/HoldAccounts": _PAGE,
    "JobManager/WatchJobs": _PAGE,
    "JobManager/ReportTaskEvents": _TASKS,
    "TaskManager/ApplyTaskCommands": _JOBS,
    "TaskManager/CompareTasks": _JOBS,
    "TaskManager/ConfirmTasks": _JOBS,
    "TaskManager/CheckResources": _JOBS,
    "TaskManager/MeasureLogs": _JOBS,
    "TaskManager/RemoveJobs": _JOBS,
    "TaskManager/Heartbeat": _WORKERS,
    "TaskManager/ReportAttempts": _WORKERS,
    "TaskManager/HasWork": _PAGE,
    "TaskManager/ListAttempts": _PAGE,
    "TaskManager/GetQueue": _PAGE,
    "TaskManager/ListBookings": _PAGE,
    "TaskManager/ExplainTask": _PAGE,
    "TaskManager/LocateAttempt": _PAGE,
    "TaskManager/WatchAttempts": _PAGE,
    "TaskManager/DeclareNodeLost": _PAGE,
    "TaskManager/ExtendTask": _PAGE,
    "TaskManager/SuggestTimeouts": _PAGE,
    "TaskManager/PreviewQueue": _PAGE,
    "TaskManager/PreviewDrain": _PAGE,
    "TaskManager/SetScheduling": _PAGE,
    "TaskManager/ListDecisions": _PAGE,
    "TaskManager/GetUsage": _PAGE,
    "TaskManager/ListRuns": _PAGE,
    "ResourceManager/RegisterNode": _WORKERS,
    "ResourceManager/ReportStatus": _WORKERS,
    "ResourceManager/ListNodes": _PAGE,
    "ResourceManager/GetNodeUsage": _PAGE,
    "ResourceManager/SetAdmission": _PAGE,
    "ResourceManager/ForgetNode": _PAGE,
    "ResourceManager/ReplaceNode": _PAGE,
    "ResourceManager/ReturnGpu": _PAGE,
    "ResourceManager/GetTrust": _ALL,
    "ResourceManager/Renew": _ALL,
    "ResourceManager/WatchNodes": _PAGE | _TASKS,
    "ResourceManager/Invite": _PAGE,
    "ResourceManager/ListInvitations": _PAGE,
    "ResourceManager/DeleteInvitation": _PAGE,
    "ResourceManager/Enroll": _PAGE,
    "ResourceManager/ListCertificates": _PAGE,
    "ResourceManager/RevokeCertificates": _PAGE,
    "Worker/Launch": _TASKS,
    "Worker/Stop": _TASKS,
    "Worker/Extend": _TASKS,
    "Worker/PrepareImages": _TASKS,
    "Worker/ReadLog": _PAGE,
    "Worker/ReadSamples": _PAGE,
    "Worker/ReturnGpu": _NODES,
    "Worker/GetStatus": _NODES | _PAGE,
}


def why_refused(caller: Identity, method: str, *, cluster: str) -> str:
    """The sentence with which a call is turned away; empty: it may come in. ``method`` is SERVICE/METHOD."""
    if caller.cluster != cluster:
        return f"The caller's certificate is of the cluster {caller.cluster!r}, and this is {cluster!r}."
    if caller.role in CALLERS.get(method, frozenset()):
        return ""
    return f"The certificate of {caller} does not allow to call {method}: see docs/security.md for who may."


def table() -> str:
    """The table for docs/security.md: a service's calls, and the services that may call them."""
    rows: dict[tuple[str, frozenset[Role]], list[str]] = {}
    for method, roles in CALLERS.items():
        service, _, name = method.partition("/")
        rows.setdefault((service, roles), []).append(name)
    lines = ["| service | calls | who may |", "| --- | --- | --- |"]
    for (service, roles), names in rows.items():
        who = "all" if roles == _ALL else ", ".join(str(role) for role in Role if role in roles)
        lines.append(f"| {service} | {', '.join(names)} | {who} |")
    return "\n".join(lines)
