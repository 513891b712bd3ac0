"""The environment of the user's process; see docs/interfaces.md, "Inside a task". Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from headway.jobfile.spec import RunAs
from headway.model.simulated_gpus import is_simulated

from ..box import container_attempt_dir
from ..container_paths import HOME, MPS_PIPE, NFS_DIR
from ..model import LaunchAttempt
from ..ports import LocalImage

_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MIB = 1 << 20


def task_environment(
    launch: LaunchAttempt, image: LocalImage, *, now: float, place: str, mps: bool = False
) -> dict[str, str]:
    """All variables of the user's process.

    Later ones replace earlier ones: the image's, the platform's defaults, the user's own, and last Headway's facts.
    Nobody may change the facts. ``now`` (epoch seconds) gives a first HEADWAY_DEADLINE. The exact one is in the file
    `deadline`, since extensions move it. ``place`` is where the container has the box. ``mps``: it uses NVIDIA MPS.
    """
    env = _pairs(image.env)
    env.setdefault("PATH", _DEFAULT_PATH)
    env["HOME"] = HOME
    env["USER"] = _user_name(launch, image)
    # Python buffers whole blocks when it writes to a pipe. What a program prints would not show for minutes.
    env.setdefault("PYTHONUNBUFFERED", "1")
    env.update(launch.spec.env)
    env.update(_facts(launch, now, place))
    if launch.spec.resources.gpu_share_bytes:
        env |= _share_facts(launch.spec.resources.gpu_share_bytes, mps)
    return env


def _share_facts(share_bytes: int, mps: bool) -> dict[str, str]:
    mib = share_bytes // _MIB
    facts = {"HEADWAY_GPU_SHARE_MIB": str(mib)}
    if mps:
        # The one GPU that it sees is number 0.
        facts |= {"CUDA_MPS_PIPE_DIRECTORY": MPS_PIPE, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={mib}M"}
    return facts


def _facts(launch: LaunchAttempt, now: float, place: str) -> dict[str, str]:
    resources, attempt = launch.spec.resources, launch.attempt
    uuids = ",".join(launch.gpu_uuids)
    devices = ",".join(uuid for uuid in launch.gpu_uuids if not is_simulated(uuid))
    return {
        "HEADWAY_JOB_ID": attempt.task.job_id,
        "HEADWAY_JOB_NAME": launch.job_name,
        "HEADWAY_TASK_NAME": attempt.task.name,
        "HEADWAY_ATTEMPT": str(attempt.number),
        "HEADWAY_USER": launch.owner.name,
        "HEADWAY_CPUS": f"{resources.cpus_centi / 100:g}",
        "HEADWAY_MEMORY_MIB": str(resources.memory_bytes // _MIB),
        "HEADWAY_GPUS": str(len(launch.gpu_uuids)),
        "HEADWAY_GPU_UUIDS": uuids,
        "HEADWAY_TIMEOUT_SECONDS": f"{launch.spec.timeout_s:.12g}",
        "HEADWAY_DEADLINE": str(math.floor(now + launch.spec.timeout_s)),
        "HEADWAY_NFS_DIR": NFS_DIR,
        "HEADWAY_ATTEMPT_DIR": container_attempt_dir(place),
        # CUDA images set "all". A task without GPUs must see none, whatever its image or its user sets.
        "NVIDIA_VISIBLE_DEVICES": devices or "void",
    }


def hold_facts(launch: LaunchAttempt, now: float) -> dict[str, str]:
    """What a person's own process learns. All else of its environment is its own."""
    facts = _facts(launch, now, "")
    inside = ("HEADWAY_CPUS", "HEADWAY_MEMORY_MIB", "HEADWAY_NFS_DIR", "HEADWAY_ATTEMPT_DIR", "NVIDIA_VISIBLE_DEVICES")
    return {name: value for name, value in facts.items() if name not in inside}


def _user_name(launch: LaunchAttempt, image: LocalImage) -> str:
    if launch.spec.user is RunAs.ACCOUNT:
        return launch.owner.name
    name = image.user.partition(":")[0]
    if not name.isdigit():
        return name or "root"
    return f"user{int(name)}" if int(name) else "root"  # as the launcher calls one that has no name


def _pairs(entries: Iterable[str]) -> dict[str, str]:
    """As engines read an image's ENV: an entry without `=` takes an earlier one away."""
    out: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if name and equals:
            out[name] = value
        else:
            out.pop(name, None)
    return out
