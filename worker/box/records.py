"""The values that the files of a box hold."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

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
    """Why the platform ends an attempt; `KILLED_OUTSIDE` is the launcher's own, when it got a SIGTERM."""

    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    SHUTDOWN = "shutdown"
    DISK_FULL = "disk_full"
    PLATFORM = "platform"
    KILLED_OUTSIDE = "killed_outside"


class StartStage(enum.StrEnum):
    """The step of the start that failed, when the user's program never ran."""

    SETUP = "setup"
    USER = "user"
    WORKDIR = "workdir"
    EXEC = "exec"


class LogLimitAction(enum.StrEnum):
    """What happens once stdout and stderr together passed the log limit."""

    DROP = "drop"
    KILL = "kill"


class Stream(enum.IntEnum):
    """Number of a stream in the index."""

    STDOUT = 1
    STDERR = 2


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What the launcher starts. `env` is the complete environment of the user's process.

    `user` is `uid:gid`, or the image's own USER (`name[:group]`, `uid[:gid]`) to be looked up in the
    container. `passwd_line` and `group_line` are appended to the container's files if those have no
    line of that uid or gid yet.
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


@dataclass(frozen=True, slots=True)
class StartedRecord:
    """The user's program has been exec'd. `pid` is its pid as the launcher sees it."""

    wall_ns: int
    boot_ns: int
    pid: int


@dataclass(frozen=True, slots=True)
class EndRecord:
    """How an attempt ended, as the launcher (or the scripted runtime) saw it.

    `exit_code` is None if the main process never ran or ended by a signal, `signal` is None unless it did:
    `exit 137` and a KILL are never the same record. `started_wall_ns` is None if it never started.
    `timeout_ms` is the one that it was counted by at last. `peak_memory_bytes` is None where neither cgroup nor
    kernel told.
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
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BoxStopOrder:
    """The content of `stop`. `grace_ms` is None where the spec's grace holds."""

    word: StopWord
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """`length` bytes at `offset` of a stream were read at `wall_ns` (nanoseconds since the epoch)."""

    wall_ns: int
    offset: int
    length: int
    stream: Stream
