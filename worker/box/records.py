"""The values that the files of a box hold."""

from __future__ import annotations

import enum
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.errors import HeadwayError


class BoxError(HeadwayError):
    """A file of the box does not hold what the contract says."""

    slug = "box-broken"
    title = "A file of an attempt's box is broken"


class BoxEnd(enum.StrEnum):
    """Why the launcher ended the attempt, as written in the end record."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    LEASE_EXPIRED = "lease_expired"
    LOG_LIMIT = "log_limit"
    START_FAILED = "start_failed"


class StopWord(enum.StrEnum):
    """Why the platform ends an attempt. The launcher itself writes `KILLED_OUTSIDE` when it got a SIGTERM."""

    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    SHUTDOWN = "shutdown"
    DISK_FULL = "disk_full"
    GPU_IDLE = "gpu_idle"
    DRAINED = "drained"
    GPU_MEMORY = "gpu_memory"
    PLATFORM = "platform"
    KILLED_OUTSIDE = "killed_outside"


class StartStage(enum.StrEnum):
    """The step of the start that failed, when the user's program never ran."""

    SETUP = "setup"
    IMAGE = "image"
    USER = "user"
    WORKDIR = "workdir"
    EXEC = "exec"


class LogLimitAction(enum.StrEnum):
    """What happens when stdout and stderr together are longer than the log limit."""

    DROP = "drop"
    KILL = "kill"


class Stream(enum.IntEnum):
    """Number of a stream in the index."""

    STDOUT = 1
    STDERR = 2


def new_place() -> str:
    """A folder for a box in its container. No image can name it, since nobody knows it before."""
    return f"/headway-{secrets.token_hex(16)}"


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """Where the program finds a secret: in the variable `name`, or in the file `name` of /run/secrets."""

    name: str
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What the launcher starts. `env` is the complete environment of the user's process.

    `user` is `uid:gid`, or the image's own USER (`name[:group]`, `uid[:gid]`), which is looked up in the container.
    `passwd_line` and `group_line` are appended to the container's files, unless those have a line of that id.
    `place` is where the container has the box; empty in a spec of an older Headway. `mounts` are folders that must be
    mounts, reached without a link of the image. `secrets` are places for the values that the launcher is given through
    a socket, in this order.
    """

    args: tuple[str, ...]
    env: Mapping[str, str]
    user: str
    timeout_ms: int
    workdir: str = "/"
    grace_ms: int = 10_000
    lease_grace_ms: int = 5_000
    log_limit_bytes: int = 1 << 30
    log_limit_action: LogLimitAction = LogLimitAction.DROP
    drop_caps: bool = True
    open_root: bool = True
    passwd_line: str | None = None
    group_line: str | None = None
    home: str | None = None
    place: str = field(default_factory=new_place)
    mounts: tuple[str, ...] = ()
    secrets: tuple[SecretPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class StartedRecord:
    """The user's program has been exec'd. `pid` is its process id in the container."""

    wall_ns: int
    boot_ns: int
    pid: int


@dataclass(frozen=True, slots=True)
class EndRecord:
    """How an attempt ended, as the launcher (or the scripted runtime) saw it.

    `exit_code` is None if the main process never ran or a signal ended it. `signal` is None unless a signal ended it.
    So `exit 137` and a KILL have different records. `started_wall_ns` is None if it never started. `timeout_ms` is the
    timeout that counted last. `peak_memory_bytes` is None if neither cgroup nor kernel reported it.
    `left` processes still ran in the background when the main process had ended, and were ended with it. `left_names`
    are some of their names, with a slash between.
    """

    reason: BoxEnd
    exit_code: int | None = None
    signal: int | None = None
    stop_word: StopWord | None = None
    errno: str | None = None
    error: str | None = None
    stage: StartStage | None = None
    started_wall_ns: int | None = None
    ended_wall_ns: int = 0
    run_ns: int = 0
    peak_memory_bytes: int | None = None
    oom_kills: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    dropped_bytes: int = 0
    left: int = 0
    left_names: str = ""
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BoxStopOrder:
    """The content of `stop`. `grace_ms` is None if the spec's grace counts."""

    word: StopWord
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """`length` bytes at `offset` of a stream were read at `wall_ns` (nanoseconds since the epoch)."""

    wall_ns: int
    offset: int
    length: int
    stream: Stream
