"""The attempt box: the files through which Worker, launcher and scripted runtime talk about one attempt.

Worker and launcher never share a connection, so either may be killed at any time: what one of them has to
tell the other lies in a file of the box. Every file that is read while it may be replaced is written beside
its place and renamed into it, so a reader sees the old content or the new one and never half of it.

The box is a folder on the machine's local disk, bind-mounted into the container at `/headway`::

    launcher            the static launcher, the container's entrypoint
    attempt/            HEADWAY_ATTEMPT_DIR, readable by the user's program
      command           the script text
      deadline          when the run will be timed out, epoch seconds
    run/                root's alone
      spec              Worker to launcher: what to start and how
      lease             Worker to launcher: `none`, or the boot-time nanosecond at which to end the container
      limits            Worker to launcher: a changed timeout
      stop              Worker to launcher: end the container, and why
      started           launcher to Worker: the user's program has been exec'd
      stdout, stderr    raw spools
      index             which bytes of a spool came when
      end               launcher to Worker: how it ended; fsynced, written last
      launcher.log      the launcher's own few words

All functions here block on the local disk; call them in a thread from asyncio code.
"""

from __future__ import annotations

import enum
import errno
import os
import shutil
import stat
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from headway.errors import HeadwayError

CONTAINER_BOX_DIR = "/headway"
CONTAINER_ATTEMPT_DIR = "/headway/attempt"
CONTAINER_LAUNCHER = "/headway/launcher"
CONTAINER_COMMAND = "/headway/attempt/command"

_SMALL_FILE_BYTES = 1 << 20


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
    `peak_memory_bytes` is None where neither cgroup nor kernel told.
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


@dataclass(frozen=True, slots=True)
class StopOrder:
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


@dataclass(frozen=True, slots=True)
class Box:
    """Paths of one attempt's box."""

    root: Path
    launcher: Path = field(init=False)
    attempt: Path = field(init=False)
    command: Path = field(init=False)
    deadline: Path = field(init=False)
    run: Path = field(init=False)
    spec: Path = field(init=False)
    lease: Path = field(init=False)
    limits: Path = field(init=False)
    stop: Path = field(init=False)
    started: Path = field(init=False)
    stdout: Path = field(init=False)
    stderr: Path = field(init=False)
    index: Path = field(init=False)
    end: Path = field(init=False)
    launcher_log: Path = field(init=False)

    def __post_init__(self) -> None:
        attempt, run = self.root / "attempt", self.root / "run"
        places = {
            "launcher": self.root / "launcher",
            "attempt": attempt,
            "command": attempt / "command",
            "deadline": attempt / "deadline",
            "run": run,
            "launcher_log": run / "launcher.log",
        }
        names = ("spec", "lease", "limits", "stop", "started", "stdout", "stderr", "index", "end")
        places.update({name: run / name for name in names})
        for name, path in places.items():
            object.__setattr__(self, name, path)

    def spool(self, stream: Stream) -> Path:
        """The raw spool of a stream."""
        return self.stdout if stream is Stream.STDOUT else self.stderr


def boottime_ns() -> int:
    """CLOCK_BOOTTIME in nanoseconds: goes on while the machine sleeps, never jumps with the wall clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Changes with every boot: a boot-time instant that was written down counts only with the same one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Replace `path` by `data` in one step; with `durable` it also outlives a power cut.

    Raises OSError; the old content is then still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    # Never through a link: a task that is root in its container may have put one there.
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        try:
            os.fchmod(descriptor, mode)
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        fsync_dir(path.parent)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a file of the box, whatever a task that is root in its container made of it: links, pipes and
    device nodes are refused, without waiting. Raises OSError."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def fsync_dir(path: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create(root: Path, *, launcher: Path | None = None, command: str | None = None) -> Box:
    """Lay out a box (safe twice): folders with their modes, a copy of the launcher, the script.

    The launcher is copied, never linked: a program that runs as root could write to the file it sees.
    Raises OSError.
    """
    box = Box(root)
    for folder, mode in ((box.root, 0o755), (box.attempt, 0o755), (box.run, 0o700)):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)
    if launcher is not None:
        temporary = box.launcher.with_name(".launcher.new")
        shutil.copyfile(launcher, temporary)
        temporary.chmod(0o755)
        os.replace(temporary, box.launcher)
    if command is not None:
        write_atomic(box.command, command.encode("utf-8", "surrogateescape"), mode=0o555)
    return box


# --- spec ---------------------------------------------------------------------------------------------


def encode_value(text: str) -> bytes:
    """Percent-encode a value so that it fits on one line of plain ASCII, byte for byte.

    Raises ValueError for a NUL: no argument, path or environment value of a process can hold one.
    """
    raw = text.encode("utf-8", "surrogateescape")
    if 0 in raw:
        raise ValueError("a NUL byte cannot be passed to a process")
    out = bytearray()
    for byte in raw:
        if byte == 0x25 or byte < 0x20 or byte >= 0x7F:
            out += b"%%%02X" % byte
        else:
            out.append(byte)
    return bytes(out)


def decode_value(value: bytes) -> str:
    """The text of a percent-encoded value. Raises BoxError for a broken escape."""
    parts = value.split(b"%")
    out = bytearray(parts[0])
    for part in parts[1:]:
        try:
            out.append(int(part[:2].decode("ascii"), 16))
        except ValueError:
            raise BoxError(f"broken escape in {value!r}") from None
        out += part[2:]
    return out.decode("utf-8", "surrogateescape")


def render_spec(spec: LaunchSpec) -> bytes:
    """The bytes of `spec`. Raises ValueError for what no process could be given."""
    if not spec.args:
        raise ValueError("a program needs at least one argument, its own name")
    lines: list[tuple[str, str]] = [("arg", arg) for arg in spec.args]
    for name, value in spec.env.items():
        if not name or "=" in name:
            raise ValueError(f"not a name of an environment variable: {name!r}")
        lines.append(("env", f"{name}={value}"))
    lines += [
        ("workdir", spec.workdir),
        ("user", spec.user),
        ("timeout_ms", str(spec.timeout_ms)),
        ("grace_ms", str(spec.grace_ms)),
        ("lease_grace_ms", str(spec.lease_grace_ms)),
        ("log_limit_bytes", str(spec.log_limit_bytes)),
        ("log_limit_action", spec.log_limit_action.value),
        ("drop_caps", str(int(spec.drop_caps))),
        ("open_root", str(int(spec.open_root))),
    ]
    optional = (("passwd_line", spec.passwd_line), ("group_line", spec.group_line), ("home", spec.home))
    lines += [(key, value) for key, value in optional if value is not None]
    return b"".join(key.encode("ascii") + b"=" + encode_value(value) + b"\n" for key, value in lines)


def parse_spec(data: bytes) -> LaunchSpec:
    """The spec that these bytes stand for. Raises BoxError."""
    args: list[str] = []
    env: dict[str, str] = {}
    single: dict[str, str] = {}
    for line in data.splitlines():
        key_bytes, equals, raw = line.partition(b"=")
        key, value = key_bytes.decode("ascii", "replace"), decode_value(raw)
        if not equals:
            raise BoxError(f"a line of the spec has no value: {line!r}")
        if key == "arg":
            args.append(value)
        elif key == "env":
            name, _, text = value.partition("=")
            env[name] = text
        else:
            single[key] = value
    try:
        return LaunchSpec(
            args=tuple(args),
            env=env,
            workdir=single["workdir"],
            user=single["user"],
            timeout_ms=int(single["timeout_ms"]),
            grace_ms=int(single["grace_ms"]),
            lease_grace_ms=int(single["lease_grace_ms"]),
            log_limit_bytes=int(single["log_limit_bytes"]),
            log_limit_action=LogLimitAction(single["log_limit_action"]),
            drop_caps=single["drop_caps"] == "1",
            open_root=single["open_root"] == "1",
            passwd_line=single.get("passwd_line"),
            group_line=single.get("group_line"),
            home=single.get("home"),
        )
    except (KeyError, ValueError) as error:
        raise BoxError(f"the spec is incomplete or wrong: {error}") from error


def write_spec(box: Box, spec: LaunchSpec) -> None:
    """Write the launcher's input. Raises ValueError for a spec no process can have, and OSError."""
    write_atomic(box.spec, render_spec(spec))


def read_spec(box: Box) -> LaunchSpec:
    """Read the launcher's input back. Raises BoxError, and FileNotFoundError where there is none."""
    return parse_spec(box.spec.read_bytes())


# --- Worker to launcher ---------------------------------------------------------------------------------


def write_lease(box: Box, until_boot_ns: int | None) -> None:
    """Let the attempt run until a boot-time instant (`boottime_ns`), or without limit (None)."""
    write_atomic(box.lease, b"none\n" if until_boot_ns is None else b"%d\n" % until_boot_ns)


def read_lease(box: Box) -> int | None:
    """The boot-time instant until which the attempt may run; None without limit or without a file."""
    text = _read_small(box.lease)
    if text is None or text.strip() == "none":
        return None
    return _number(box.lease, "lease", text.strip())


def write_limits(box: Box, *, timeout_ms: int) -> None:
    """Change the timeout of the run, counted from its start; the launcher moves the deadline at once."""
    write_atomic(box.limits, b"timeout_ms=%d\n" % timeout_ms)


def read_limits(box: Box) -> int | None:
    """The changed timeout in milliseconds from the start, None where it was never changed."""
    pairs = _read_pairs(box.limits)
    return None if pairs is None else _number(box.limits, "timeout_ms", pairs.get("timeout_ms", ""))


def write_stop(box: Box, word: StopWord, *, grace_ms: int | None = None) -> None:
    """Order the launcher to end the attempt.

    Written again it can only shorten the grace; the first word stands. An order that comes after the end
    changes nothing.
    """
    grace = b"" if grace_ms is None else b"grace_ms=%d\n" % grace_ms
    write_atomic(box.stop, b"word=%s\n" % word.value.encode("ascii") + grace)


def read_stop(box: Box) -> StopOrder | None:
    """The stop order, if one was given. Raises BoxError."""
    pairs = _read_pairs(box.stop)
    if pairs is None:
        return None
    try:
        word = StopWord(pairs.get("word", ""))
    except ValueError as error:
        raise BoxError(f"{box.stop}: {error}") from error
    return StopOrder(word, _optional_number(box.stop, "grace_ms", pairs))


# --- launcher to Worker ---------------------------------------------------------------------------------


def write_started(box: Box, record: StartedRecord) -> None:
    """Record the start (for a runtime that starts nothing; otherwise the launcher does). Raises OSError."""
    text = f"wall_ns={record.wall_ns}\nboot_ns={record.boot_ns}\npid={record.pid}\n"
    write_atomic(box.started, text.encode("ascii"))


def read_started(box: Box) -> StartedRecord | None:
    """When the user's program was exec'd, None if it was not yet. Raises BoxError."""
    pairs = _read_pairs(box.started)
    if pairs is None:
        return None
    wall_ns, boot_ns, pid = (_number(box.started, k, pairs.get(k, "")) for k in ("wall_ns", "boot_ns", "pid"))
    return StartedRecord(wall_ns, boot_ns, pid)


def write_deadline(box: Box, at_epoch_s: float) -> None:
    """Tell the user's program when it will be timed out, in whole seconds since the epoch."""
    write_atomic(box.deadline, b"%d\n" % int(at_epoch_s), mode=0o644)


def read_deadline(box: Box) -> int | None:
    """When the run will be timed out (epoch seconds), None before the start."""
    text = _read_small(box.deadline)
    return None if text is None else _number(box.deadline, "deadline", text.strip())


def write_end(box: Box, record: EndRecord) -> None:
    """Record the end, durably (for a runtime that starts nothing; otherwise the launcher does).

    Raises OSError; call it after the spools have been fsynced.
    """
    values: dict[str, object] = {
        "reason": record.reason,
        "stop_word": record.stop_word,
        "exit_code": record.exit_code,
        "signal": record.signal,
        "errno": record.errno,
        "error": record.error,
        "stage": record.stage,
        "started_wall_ns": record.started_wall_ns,
        "ended_wall_ns": record.ended_wall_ns,
        "run_ns": record.run_ns,
        "peak_memory_bytes": record.peak_memory_bytes,
        "oom_kills": record.oom_kills,
        "stdout_bytes": record.stdout_bytes,
        "stderr_bytes": record.stderr_bytes,
        "dropped_bytes": record.dropped_bytes,
    }
    lines = (
        key.encode("ascii") + b"=" + (b"" if value is None else encode_value(str(value))) + b"\n"
        for key, value in values.items()
    )
    write_atomic(box.end, b"".join(lines), durable=True)


def read_end(box: Box) -> EndRecord | None:
    """How the attempt ended, None if it did not yet. Raises BoxError for a record that makes no sense."""
    pairs = _read_pairs(box.end)
    if pairs is None:
        return None
    path = box.end
    try:
        return EndRecord(
            reason=BoxEnd(pairs.get("reason", "")),
            exit_code=_optional_number(path, "exit_code", pairs),
            signal=_optional_number(path, "signal", pairs),
            stop_word=StopWord(pairs["stop_word"]) if pairs.get("stop_word") else None,
            errno=pairs.get("errno") or None,
            error=pairs.get("error") or None,
            stage=StartStage(pairs["stage"]) if pairs.get("stage") else None,
            started_wall_ns=_optional_number(path, "started_wall_ns", pairs),
            ended_wall_ns=_optional_number(path, "ended_wall_ns", pairs) or 0,
            run_ns=_optional_number(path, "run_ns", pairs) or 0,
            peak_memory_bytes=_optional_number(path, "peak_memory_bytes", pairs),
            oom_kills=_optional_number(path, "oom_kills", pairs) or 0,
            stdout_bytes=_optional_number(path, "stdout_bytes", pairs) or 0,
            stderr_bytes=_optional_number(path, "stderr_bytes", pairs) or 0,
            dropped_bytes=_optional_number(path, "dropped_bytes", pairs) or 0,
        )
    except ValueError as error:
        raise BoxError(f"{path}: {error}") from error


# --- index ------------------------------------------------------------------------------------------------

_INDEX = struct.Struct("<QQII")
INDEX_RECORD_BYTES = _INDEX.size


def pack_index(records: Iterable[IndexRecord]) -> bytes:
    """The bytes of index records, 24 each, little-endian."""
    return b"".join(_INDEX.pack(r.wall_ns, r.offset, r.length, r.stream) for r in records)


def unpack_index(data: bytes) -> Iterator[IndexRecord]:
    """Records of an index; a last one that is only half written yet is left out. Raises BoxError."""
    whole = len(data) - len(data) % INDEX_RECORD_BYTES
    for wall_ns, offset, length, stream in _INDEX.iter_unpack(data[:whole]):
        try:
            yield IndexRecord(wall_ns, offset, length, Stream(stream))
        except ValueError:
            raise BoxError(f"the index names a stream {stream}") from None


def read_index(box: Box, *, from_record: int = 0) -> list[IndexRecord]:
    """The index from a record number on; empty where there is none. Raises BoxError."""
    try:
        with os.fdopen(open_regular(box.index), "rb") as file:
            file.seek(from_record * INDEX_RECORD_BYTES)
            return list(unpack_index(file.read()))
    except FileNotFoundError:
        return []


class SpoolWriter:
    """Appends output to the spools and the index as the launcher does (for a runtime without one).

    Carries on where an earlier writer stopped. Not thread-safe. Raises OSError from every call.
    """

    def __init__(self, box: Box) -> None:
        self._files: dict[Stream, BinaryIO] = {}
        self._index: BinaryIO = box.index.open("ab", buffering=0)
        for stream in Stream:
            self._files[stream] = box.spool(stream).open("ab", buffering=0)

    def append(self, stream: Stream, data: bytes, *, wall_ns: int) -> None:
        """Append `data`, said to have come at `wall_ns` (nanoseconds since the epoch)."""
        if not data:
            return
        file = self._files[stream]
        offset = file.seek(0, os.SEEK_END)
        file.write(data)
        self._index.write(pack_index([IndexRecord(wall_ns, offset, len(data), stream)]))

    def close(self) -> None:
        """Fsync and close; safe twice."""
        for file in (*self._files.values(), self._index):
            if not file.closed:
                os.fsync(file.fileno())
                file.close()


# --- reading small files ------------------------------------------------------------------------------------


def _read_small(path: Path) -> str | None:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return file.read(_SMALL_FILE_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _read_pairs(path: Path) -> dict[str, str] | None:
    text = _read_small(path)
    if text is None:
        return None
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        pairs[key] = decode_value(value.encode("utf-8"))
    return pairs


def _number(path: Path, key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BoxError(f"{path}: {key} is not a number: {text[:40]!r}") from None


def _optional_number(path: Path, key: str, pairs: Mapping[str, str]) -> int | None:
    return _number(path, key, pairs[key]) if pairs.get(key) else None
