"""What a job file says, with every default applied. Pure values; reading is in parse.py, writing YAML in
emit.py."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from headway.units import GIB, format_cpus, format_duration, format_size

VERSION: Final = 1


class Priority(StrEnum):
    """Higher always runs sooner; ``high`` needs a grant by an admin."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class NeedOn(StrEnum):
    """Which ends of a needed task let the task start. Failure counts a timeout and running out of memory;
    any also counts being skipped."""

    SUCCESS = "success"
    FAILURE = "failure"
    ANY = "any"


class Shell(StrEnum):
    """What runs a command given as text: ``/bin/sh -e`` or ``bash -e -o pipefail``."""

    SH = "sh"
    BASH = "bash"


class Entrypoint(StrEnum):
    """REPLACE: the command stands for the image's ENTRYPOINT and CMD. IMAGE: the command is ENTRYPOINT's
    arguments."""

    REPLACE = "replace"
    IMAGE = "image"


class RunAs(StrEnum):
    """ACCOUNT: the account's uid and gid. IMAGE: as the image says, where an admin allows it."""

    ACCOUNT = "account"
    IMAGE = "image"


class Network(StrEnum):
    OUTGOING = "outgoing"
    NONE = "none"


class LogLimitAction(StrEnum):
    """What happens to output past the limit: dropped and counted, or the task is ended."""

    DROP = "drop"
    KILL = "kill"


DEFAULT_CPUS_CENTI: Final = 100
DEFAULT_MEMORY_BYTES: Final = 2 * GIB
DEFAULT_GRACE_S: Final = 10.0
DEFAULT_LOG_LIMIT_BYTES: Final = GIB


@dataclass(frozen=True, slots=True)
class Need:
    """An edge of the DAG: the task that has to end first, and how."""

    task: str
    on: NeedOn = NeedOn.SUCCESS


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """What one attempt is given. ``gpu_models`` empty: any model; ``gpu_memory_bytes`` None: any size,
    else the least memory that each of its GPUs must have. Both say nothing when ``gpus`` is 0."""

    cpus_centi: int = DEFAULT_CPUS_CENTI  # hundredths of a CPU
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    shm_bytes: int = DEFAULT_MEMORY_BYTES // 2
    gpus: int = 0
    gpu_models: tuple[str, ...] = ()
    gpu_memory_bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As in a job file, without what equals a default."""
        out: dict[str, Any] = {}
        if self.cpus_centi != DEFAULT_CPUS_CENTI:
            whole, rest = divmod(self.cpus_centi, 100)
            out["cpus"] = float(format_cpus(self.cpus_centi)) if rest else whole
        if self.memory_bytes != DEFAULT_MEMORY_BYTES:
            out["memory"] = format_size(self.memory_bytes)
        if self.shm_bytes != self.memory_bytes // 2:
            out["shm"] = format_size(self.shm_bytes)
        if self.gpus:
            out["gpus"] = self.gpus
        if self.gpu_models:
            out["gpu_model"] = list(self.gpu_models)
        if self.gpu_memory_bytes is not None:
            out["gpu_memory"] = format_size(self.gpu_memory_bytes)
        return out


DEFAULT_RESOURCES: Final = ResourceSpec()


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task with every default applied.

    ``needs`` and ``env`` are sorted: neither has an order that means anything, and a JSON column or a
    protobuf map may not keep one.
    """

    name: str
    image: str
    command: str | tuple[str, ...]  # text: a script for ``shell``; tuple: argv
    timeout_s: float  # of run time; whole milliseconds
    needs: tuple[Need, ...] = ()  # each task once, in the order of their names
    shell: Shell | None = Shell.SH  # None exactly when ``command`` is a tuple
    entrypoint: Entrypoint = Entrypoint.REPLACE
    env: tuple[tuple[str, str], ...] = ()  # each name once, in the order of the names
    working_dir: str | None = None  # None: /root/code where there is code, else the image's
    code: str | None = None  # digest of the snapshot that is seen at /root/code
    datasets: tuple[str, ...] = ()  # NAME or NAME@VERSION
    resources: ResourceSpec = DEFAULT_RESOURCES
    grace_s: float = DEFAULT_GRACE_S  # TERM to KILL; whole milliseconds
    retries: int = 0  # runs after the first, after a failure of the user's own process
    user: RunAs = RunAs.ACCOUNT
    network: Network = Network.OUTGOING
    output_path: str | None = None  # relative to the personal space, normalised
    log_limit_bytes: int = DEFAULT_LOG_LIMIT_BYTES  # stdout and stderr together
    log_limit_action: LogLimitAction = LogLimitAction.DROP

    def to_json(self) -> dict[str, Any]:
        """As in a job file, without what equals a default."""
        out: dict[str, Any] = {"name": self.name}
        if self.needs:
            if all(need.on is NeedOn.SUCCESS for need in self.needs):
                out["needs"] = [need.task for need in self.needs]
            else:
                out["needs"] = {need.task: need.on.value for need in self.needs}
        out["image"] = self.image
        out["command"] = self.command if isinstance(self.command, str) else list(self.command)
        if self.shell is Shell.BASH:
            out["shell"] = self.shell.value
        if self.entrypoint is not Entrypoint.REPLACE:
            out["entrypoint"] = self.entrypoint.value
        if self.env:
            out["env"] = dict(self.env)
        if self.working_dir is not None:
            out["working_dir"] = self.working_dir
        if self.code is not None:
            out["code"] = self.code
        if self.datasets:
            out["datasets"] = list(self.datasets)
        if self.resources != DEFAULT_RESOURCES:
            out["resources"] = self.resources.to_json()
        out["timeout"] = format_duration(self.timeout_s)
        if self.grace_s != DEFAULT_GRACE_S:
            out["grace"] = format_duration(self.grace_s)
        if self.retries:
            out["retries"] = self.retries
        if self.user is not RunAs.ACCOUNT:
            out["user"] = self.user.value
        if self.network is not Network.OUTGOING:
            out["network"] = self.network.value
        if self.output_path is not None:
            out["output_path"] = self.output_path
        if self.log_limit_bytes != DEFAULT_LOG_LIMIT_BYTES:
            out["log_limit"] = format_size(self.log_limit_bytes)
        if self.log_limit_action is not LogLimitAction.DROP:
            out["log_limit_action"] = self.log_limit_action.value
        return out


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A whole job with every default applied. Task names are unique and every need names a task; that
    there is no cycle is JobManager's to say."""

    name: str
    tasks: tuple[TaskSpec, ...]
    priority: Priority = Priority.NORMAL
    version: int = VERSION

    def to_json(self) -> dict[str, Any]:
        """A job file that says the same, as plain JSON values: reading it gives an equal JobSpec.

        Defaults of the schema are left out (``version`` pins what they are), the job's own ``defaults``
        are spelled out in each task."""
        return {
            "version": self.version,
            "name": self.name,
            "priority": self.priority.value,
            "tasks": [task.to_json() for task in self.tasks],
        }

    @property
    def spec_hash(self) -> str:
        """SHA-256 in hex of what the job says, whatever the spelling, key order or format of the file it
        came from."""
        canonical = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()
