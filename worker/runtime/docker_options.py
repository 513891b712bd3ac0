"""The options of an attempt's container for the engine's API. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.jobfile import Network
from headway.model.simulated_gpus import is_simulated

from ..box import Box, container_attempt_dir, container_launcher
from ..container_paths import CODE_DIR, DATASETS_DIR, MPS_PIPE, NFS_DIR, SECRETS_DIR
from ..network.addresses import identity_of
from ..ports import StartOrder
from .gpu_ways import GivenGpus, by_request, engine_environment, without

_LABEL = "headway."
_PERIOD_US = 100_000
_LEAST_QUOTA_US = 1_000  # the kernel takes no less
_LEAST_MEMORY = 6 << 20  # nor the engine
# What the launcher needs to prepare the container, start the program as its user, and end everything.
_LAUNCHER_POWERS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "SETPCAP", "KILL")
# Docker's own default without MKNOD, whose device nodes would work outside of the container, and NET_RAW.
_IMAGE_USER_POWERS = (*_LAUNCHER_POWERS, "FSETID", "SETFCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "AUDIT_WRITE")
_OOM_SCORE = 300
_SECRETS_BYTES = 16 << 20  # for the files of all of a task's secrets


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """The Worker that owns a container. ``folder`` is the folder of its boxes.

    Two people may run clusters of one name on one machine. The folder tells their containers apart.
    """

    cluster: str
    node: str
    folder: str

    @property
    def short(self) -> str:
        """Eight hex digits that stand for it in names and hardware addresses."""
        return identity_of(self.cluster, self.node, self.folder)

    def labels(self) -> dict[str, str]:
        """Labels that all containers of this Worker have."""
        return {f"{_LABEL}cluster": self.cluster, f"{_LABEL}node": self.node, f"{_LABEL}folder": self.folder}

    def filters(self) -> list[str]:
        """The same, for the engine's filter ``label``."""
        return [f"{name}={value}" for name, value in self.labels().items()]


def container_name(cluster: str, folder: str) -> str:
    """The only name of an attempt's container. It has the cluster's name and ``AttemptId.folder``."""
    prefix = cluster if cluster.startswith("headway") else f"headway-{cluster}"
    return f"{prefix}-{folder}"


def folder_of(name: str, labels: dict[str, str] | None, identity: WorkerIdentity) -> str | None:
    """The attempt's folder, if a container with this name and these labels belongs to this Worker.

    An image may have labels of its own, so the name must match too.
    """
    labels = labels or {}
    if any(labels.get(key) != value for key, value in identity.labels().items()):
        return None
    folder = labels.get(f"{_LABEL}attempt", "")
    return folder if folder and name.removeprefix("/") == container_name(identity.cluster, folder) else None


def container_config(
    order: StartOrder,
    box: Box,
    identity: WorkerIdentity,
    *,
    digest: str,
    pids_limit: int,
    address: str = "",
    network: str = "",
    home: Mapping[str, Path] | None = None,
    given: GivenGpus | None = None,
) -> dict[str, Any]:
    """The body of the engine's call `create`.

    ``digest`` is that of the spec in the box. ``address`` is the container's hardware address, by which the firewall
    rules know it. ``network`` is the engine's network of the job. ``home`` has a folder for each place of the task's
    own home. ``given`` is what it gets for its GPUs; None: by a request for NVIDIA's toolkit.
    """
    if given is None:
        devices = devices_of(order)
        given = by_request(devices) if devices else without()
    config: dict[str, Any] = {
        # By content id, so a tag that moves now changes nothing.
        "Image": order.image.id,
        # An image adds nothing behind these: with an entrypoint of ours its CMD is not used.
        "Entrypoint": [container_launcher(order.spec.place), order.spec.place, digest],
        "Cmd": [],
        "User": "0:0",
        "WorkingDir": "/",
        # The program's environment is in the spec. This one is for GPU runtimes, and replaces the image's.
        "Env": engine_environment(given, order.image.env),
        "StopSignal": "SIGTERM",
        "Hostname": _host_name(order),
        # The image's health check would run as root, beside the launcher.
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": _labels(order, identity),
        "HostConfig": _host_config(order, box, pids_limit, home or {}, given),
    }
    if order.network is not Network.NONE:
        mode = config["HostConfig"]["NetworkMode"] = network or "bridge"
        endpoint: dict[str, Any] = {"MacAddress": address}
        if network:
            endpoint["Aliases"] = [order.attempt.task.name]
        # In two places: older engines read the first one, newer ones the second.
        config["MacAddress"] = address
        config["NetworkingConfig"] = {"EndpointsConfig": {mode: endpoint}}
    return config


def _host_name(order: StartOrder) -> str:
    """As long as those that engines give, and known before the container is made."""
    return hashlib.sha256(order.attempt.folder.encode()).hexdigest()[:12]


def _labels(order: StartOrder, identity: WorkerIdentity) -> dict[str, str]:
    attempt = order.attempt
    return {
        **identity.labels(),
        f"{_LABEL}attempt": attempt.folder,
        f"{_LABEL}job": attempt.task.job_id,
        f"{_LABEL}task": attempt.task.name,
        f"{_LABEL}number": str(attempt.number),
        f"{_LABEL}job-name": order.job_name,
        f"{_LABEL}owner": order.owner,
    }


def _host_config(
    order: StartOrder, box: Box, pids_limit: int, home: Mapping[str, Path], given: GivenGpus
) -> dict[str, Any]:
    memory = max(_LEAST_MEMORY, order.memory_bytes)
    host: dict[str, Any] = {
        # Not NanoCpus: with that the engine refuses more CPUs than it has, and a Worker may offer more.
        "CpuPeriod": _PERIOD_US,
        "CpuQuota": max(_LEAST_QUOTA_US, order.cpus_centi * _PERIOD_US // 100),
        "CpuShares": max(2, order.cpus_centi * 1024 // 100),
        "Memory": memory,
        "MemorySwap": memory,
        "ShmSize": order.shm_bytes,
        "PidsLimit": pids_limit,
        # When the machine itself runs out of memory, a task goes before the services.
        "OomScoreAdj": _OOM_SCORE,
        "Mounts": [*_mounts(order, box, home), *map(dict, given.mounts)],
        "NetworkMode": "none",
        "LogConfig": {"Type": "none"},
        "Privileged": False,
        "CapDrop": ["ALL"],
        "CapAdd": list(_LAUNCHER_POWERS if order.spec.drop_caps else _IMAGE_USER_POWERS),
        "SecurityOpt": ["no-new-privileges"],
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "Init": False,
    }
    if order.network is Network.NONE:
        # Without a network the engine writes only localhost into /etc/hosts.
        host["ExtraHosts"] = [f"{_host_name(order)}:127.0.0.1"]
    if order.ulimits:
        host["Ulimits"] = [{"Name": one.name, "Soft": one.soft, "Hard": one.hard} for one in order.ulimits]
    if given.runtime:
        host["Runtime"] = given.runtime
    return {**host, **given.host}


def devices_of(order: StartOrder) -> tuple[str, ...]:
    """Its GPUs, without those that are only simulated: an engine has no such device."""
    return tuple(uuid for uuid in order.gpu_uuids if not is_simulated(uuid))


def _mounts(order: StartOrder, box: Box, home: Mapping[str, Path]) -> list[dict[str, Any]]:
    as_image, place = not order.spec.drop_caps, order.spec.place
    mounts = [_bind(box.root, place, read_only=as_image)]
    if as_image:
        # The program may be root and change the box's files. The Worker is root outside, so a link could lead it to
        # files of the machine. A folder that is a mount can't be replaced by a link.
        mounts += [_bind(box.run, f"{place}/run"), _bind(box.attempt, container_attempt_dir(place))]
    for target, source in home.items():
        if target not in (NFS_DIR, CODE_DIR):
            # No volume of an image opens the code.
            mounts.append(_bind(source, target, read_only=target.startswith(f"{CODE_DIR}/")))
    if order.home is not None:
        mounts.append(_bind(home.get(NFS_DIR, order.home), NFS_DIR))
    if order.mps_pipe is not None:
        mounts.append(_bind(order.mps_pipe, MPS_PIPE))
    for name, folder in order.datasets.items():
        mounts.append(_bind(folder, f"{DATASETS_DIR}/{name}", read_only=True))
    if order.code is not None:
        mounts.append(_bind(home.get(CODE_DIR, order.code), CODE_DIR, read_only=True))
    if any(secret.is_file for secret in order.spec.secrets):
        # In memory: the launcher writes them there, and nothing of them reaches a disk.
        options = {"SizeBytes": _SECRETS_BYTES, "Mode": 0o755}
        mounts.append({"Type": "tmpfs", "Target": SECRETS_DIR, "TmpfsOptions": options})
    return mounts


def _bind(source: Path, target: str, *, read_only: bool = False) -> dict[str, Any]:
    # A mount, not a bind string: for those the engine would make a folder where the source is gone.
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": read_only}
