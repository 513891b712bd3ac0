"""What is wrong anywhere in a cluster, from what its API tells. Pure: answers in, findings out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..model.findings import Check, ok, problem, warning

_DAY_S = 86_400.0
_SOON_S = 5 * _DAY_S
_VERSION = re.compile(r"(\d+)\.(\d+)")
_LITTLE = 0.05
_ON_MACHINE = "Run `headway doctor` on that machine; it looks at all that a Worker needs."
# What to do about a condition of a machine, by its word.
_REMEDIES: Mapping[str, str] = {
    "engine_unavailable": "On that machine: `systemctl start docker`, and `journalctl -u docker -n 50`.",
    "mount_unavailable": "Mount the shared folder there again, and look at its server.",
    "mount_rights": "Export the shared folder without squashing root (docs/operations/several-machines.md).",
    "disk_full": "Make room on the disk of Docker Engine and of `worker.folder` there.",
    "gpu_unavailable": "See `nvidia-smi` there, and docs/operations/gpu-driver.md.",
    "mount_options": "Add them to /etc/fstab there, then mount it anew.",
    "gpu_not_clean": "See `nvidia-smi` there for what still holds it, and docs/gpus.md.",
    "gpu_shared_unknown": "Name cards in `worker.gpu_shared` that that machine has (`headway nodes show`).",
    "gpu_shares_off": "See docs/gpus.md, Sharing one GPU: what that machine lacks for shares.",
    "container_stuck": "On that machine: `systemctl restart docker`. With live-restore all other tasks go on.",
    "live_restore_off": 'There: {"live-restore": true} in /etc/docker/daemon.json, then `systemctl reload docker`.',
    "network_rules": "There: `apt-get install nftables`, then restart headway-worker (docs/networks.md).",
    "network_unguarded": "There: `apt-get install nftables`, then restart headway-worker (docs/networks.md).",
    "network_range": "Set `worker.network_job_range` to addresses that this machine does not use.",
    "clock_skew": "On that machine: `apt-get install chrony`.",
    "stopping": "It is being stopped. Start headway-worker there again when it is to go on.",
}
_WANTED = frozenset({"gpus_simulated"})  # somebody set it so
_SERVICES = {
    "JobManager": "headway-job-manager",
    "TaskManager": "headway-task-manager",
    "ResourceManager": "headway-resource-manager",
}


def services(ready: Mapping[str, Any]) -> list[Check]:
    """``ready``: the answer of `GET /readyz`."""
    found = []
    for name, state in ready.get("services", {}).items():
        unit = _SERVICES.get(name, "its unit")
        if state == "ok":
            found.append(ok(f"service {name}", "It answers the page."))
        else:
            remedy = f"`headway doctor` on its machine says more, and `journalctl -u {unit} -n 50`."
            found.append(problem(f"service {name}", str(state), remedy))
    for name, sentence in ready.get("conditions", {}).items():
        remedy = "`headway doctor` on the machine of the page says more."
        found.append(problem(f"page: {name}", str(sentence), _REMEDIES.get(name, remedy)))
    return found


def nodes(found: Iterable[Mapping[str, Any]], version: str) -> list[Check]:
    """``version``: the cluster's, which that of every machine has to fit."""
    checks: list[Check] = []
    for node in found:
        checks += _node(node, version)
    return checks or [warning("machines", "No machine has a Worker.", "`headway nodes invite` brings one in.")]


def _node(node: Mapping[str, Any], version: str) -> list[Check]:
    name, health = f"machine {node['id']}", node["health"]
    found = []
    if health != "READY":
        make = warning if health == "SUSPECT" else problem
        remedy = f"See whether the machine runs, and `systemctl status headway-worker` there. {_ON_MACHINE}"
        found.append(make(name, str(node["health_sentence"]), remedy))
    if node["admission"] != "OPEN":
        note = f" ({node['note']})" if node["note"] else ""
        found.append(
            warning(name, f"It takes no new work: {node['admission']}{note}.", f"`headway nodes uncordon {node['id']}`")
        )
    for condition in node["conditions"]:
        if condition["word"] in _WANTED:
            continue
        make = problem if condition["blocks_work"] else warning
        found.append(make(name, str(condition["sentence"]), _REMEDIES.get(condition["word"], _ON_MACHINE)))
    for gpu in node["gpus"]:
        what = f"{name}, GPU {gpu['index']}"
        if gpu["sick"]:
            remedy = f"See docs/gpus.md. Once it is clean: `headway gpus return {node['id']} {gpu['uuid']}`."
            found.append(problem(what, f"It is not given out: {gpu['note'] or gpu['fault'] or 'a fault'}", remedy))
        elif gpu["busy_outside"]:
            remedy = "See `headway nodes` for whose process it is; `headway gpu run` books GPUs for such programs."
            found.append(warning(what, f"A process outside Headway uses it. {gpu['note']}".strip(), remedy))
    found += _version(name, str(node["version"]), version)
    found += _disk(name, node)
    return found or [ok(name, f"It is ready, with Headway {node['version'] or 'of no known version'}.")]


def _version(name: str, mine: str, clusters: str) -> list[Check]:
    if not mine or not clusters or mine == clusters:
        return []
    here, there = _VERSION.match(mine), _VERSION.match(clusters)
    remedy = f"There: `pip install headway-server=={clusters}`, then restart headway-worker. Its tasks go on."
    near = here and there and here[1] == there[1] and abs(int(here[2]) - int(there[2])) <= 1
    make = warning if near else problem
    return [make(name, f"It has Headway {mine}, the page has {clusters}.", remedy)]


def _disk(name: str, node: Mapping[str, Any]) -> list[Check]:
    free, total = node["disk_free_bytes"], node["disk_total_bytes"]
    if free is None or not total or free >= total * _LITTLE:
        return []
    sentence = f"Its disk is nearly full: {free / (1 << 30):.1f} GiB of {total / (1 << 30):.1f} GiB are free."
    return [warning(name, sentence, _REMEDIES["disk_full"])]


def certificates(found: Iterable[Mapping[str, Any]], now: float) -> list[Check]:
    """The newest of each service that counts. Services renew them ten days before their end. ``now``: epoch seconds."""
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for one in found:
        key = (one["role"], one["name"])
        if one["revoked_at"] is None and (key not in newest or one["expires_at"] > newest[key]["expires_at"]):
            newest[key] = one
    checks = []
    for (role, service), one in sorted(newest.items()):
        name = f"certificate of {role}" + (f" {service}" if role == "worker" else "")
        days = (one["expires_at"] - now) / _DAY_S
        remedy = "There: `headway doctor`, and `headway join … --renew` with a token of `headway nodes invite`."
        if days <= 0:
            checks.append(problem(name, f"It expired {-days:.0f} days ago.", remedy))
        elif one["expires_at"] - now < _SOON_S:
            checks.append(warning(name, f"It is good for {days:.0f} days and was not renewed.", remedy))
        else:
            checks.append(ok(name, f"It is good for {days:.0f} days."))
    return checks


def queue(answer: Mapping[str, Any]) -> list[Check]:
    """``answer`` of `GET /queue`: a policy that fails, and limits that nothing can meet."""
    found = []
    if failure := answer["scheduling"]["failure"]:
        found.append(problem("queue", f"Its policy fails: {failure}", "`headway queue set --policy default`"))
    remedy = "Change the limits in [task_manager.limits] of headway.toml."
    found += [warning("queue", str(sentence), remedy) for sentence in answer["scheduling"]["contradictions"]]
    waiting = answer["total_waiting"]
    return found or [ok("queue", f"{waiting} {'task waits' if waiting == 1 else 'tasks wait'}.")]
