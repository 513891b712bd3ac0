"""The small files that Worker and launcher write for each other while an attempt lives, and its end record."""

from __future__ import annotations

import os
from pathlib import Path

from headway.safe_text import printable_text, valid_text

from .files import encode_value, number, open_regular, optional_number, read_pairs, read_small, write_atomic
from .layout import Box
from .records import BoxEnd, BoxError, BoxStopOrder, EndRecord, StartedRecord, StartStage, StopWord


def write_lease(box: Box, until_boot_ns: int | None) -> None:
    """Let the attempt run until an instant of the boot clock (`boottime_ns`). None: without limit."""
    write_atomic(box.lease, b"none\n" if until_boot_ns is None else b"%d\n" % until_boot_ns)


def read_launch(box: Box) -> bytes | None:
    """The launch that the Worker stored beside the spec. None: there is none."""
    try:
        with os.fdopen(open_regular(box.launch), "rb") as file:
            return file.read() or None
    except OSError:
        return None


def read_lease(box: Box) -> int | None:
    """Until when by the boot clock the attempt may run. None: without limit, or no file."""
    text = read_small(box.lease)
    if text is None or text.strip() == "none":
        return None
    return number(box.lease, "lease", text.strip())


def write_limits(box: Box, *, timeout_ms: int) -> None:
    """Change the timeout, counted from the start. The launcher moves the deadline at once."""
    write_atomic(box.limits, b"timeout_ms=%d\n" % timeout_ms)


def read_limits(box: Box) -> int | None:
    """The changed timeout in milliseconds from the start. None: it was never changed. Raises BoxError."""
    return _timeout_ms(box.limits)


def _timeout_ms(path: Path) -> int | None:
    pairs = read_pairs(path)
    return None if pairs is None else number(path, "timeout_ms", pairs.get("timeout_ms", ""))


def write_stop(box: Box, word: StopWord, *, grace_ms: int | None = None) -> None:
    """Order the launcher to end the attempt.

    A second order can only shorten the grace, and the first word counts. An order after the end changes nothing.
    """
    grace = b"" if grace_ms is None else b"grace_ms=%d\n" % grace_ms
    write_atomic(box.stop, b"word=%s\n" % word.value.encode("ascii") + grace)


def read_stop(box: Box) -> BoxStopOrder | None:
    """The stop order, if one was given. Raises BoxError."""
    pairs = read_pairs(box.stop)
    if pairs is None:
        return None
    try:
        word = StopWord(pairs.get("word", ""))
    except ValueError as error:
        raise BoxError(f"{box.stop}: {error}") from error
    return BoxStopOrder(word, optional_number(box.stop, "grace_ms", pairs))


# --- launcher to Worker ---------------------------------------------------------------------------------


def write_started(box: Box, record: StartedRecord) -> None:
    """Record the start, for a runtime without a launcher. Raises OSError."""
    text = f"wall_ns={record.wall_ns}\nboot_ns={record.boot_ns}\npid={record.pid}\n"
    write_atomic(box.started, text.encode("ascii"))


def read_started(box: Box) -> StartedRecord | None:
    """When the user's program was exec'd. None: not yet. Raises BoxError."""
    pairs = read_pairs(box.started)
    if pairs is None:
        return None
    wall_ns, boot_ns, pid = (number(box.started, k, pairs.get(k, "")) for k in ("wall_ns", "boot_ns", "pid"))
    return StartedRecord(wall_ns, boot_ns, pid)


def read_taken(box: Box) -> int | None:
    """The changed timeout that the launcher confirmed, in milliseconds from the start. None: none. Raises BoxError."""
    return _timeout_ms(box.taken)


def write_deadline(box: Box, at_epoch_s: float) -> None:
    """Tell the user's program when it will be timed out, in whole seconds since the epoch."""
    write_atomic(box.deadline, b"%d\n" % int(at_epoch_s), mode=0o644)


def read_deadline(box: Box) -> int | None:
    """When the run will be timed out, in epoch seconds. None: it has not started."""
    text = read_small(box.deadline)
    return None if text is None else number(box.deadline, "deadline", text.strip())


def write_end(box: Box, record: EndRecord) -> None:
    """Record the end durably, for a runtime without a launcher.

    Call it after the spools have been fsynced. Raises OSError.
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
        "timeout_ms": record.timeout_ms,
        "peak_memory_bytes": record.peak_memory_bytes,
        "oom_kills": record.oom_kills,
        "stdout_bytes": record.stdout_bytes,
        "stderr_bytes": record.stderr_bytes,
        "dropped_bytes": record.dropped_bytes,
        "left": record.left,
        "left_names": record.left_names,
    }
    lines = (
        key.encode("ascii") + b"=" + (b"" if value is None else encode_value(str(value))) + b"\n"
        for key, value in values.items()
    )
    write_atomic(box.end, b"".join(lines), durable=True)


def read_end(box: Box) -> EndRecord | None:
    """How the attempt ended. None: not yet. Raises BoxError for a broken record."""
    pairs = read_pairs(box.end)
    if pairs is None:
        return None
    path = box.end
    try:
        return EndRecord(
            reason=BoxEnd(pairs.get("reason", "")),
            exit_code=optional_number(path, "exit_code", pairs),
            signal=optional_number(path, "signal", pairs),
            stop_word=StopWord(pairs["stop_word"]) if pairs.get("stop_word") else None,
            errno=pairs.get("errno") or None,
            error=valid_text(pairs.get("error", "")) or None,
            stage=StartStage(pairs["stage"]) if pairs.get("stage") else None,
            started_wall_ns=optional_number(path, "started_wall_ns", pairs),
            ended_wall_ns=optional_number(path, "ended_wall_ns", pairs) or 0,
            run_ns=optional_number(path, "run_ns", pairs) or 0,
            timeout_ms=optional_number(path, "timeout_ms", pairs),
            peak_memory_bytes=optional_number(path, "peak_memory_bytes", pairs),
            oom_kills=optional_number(path, "oom_kills", pairs) or 0,
            stdout_bytes=optional_number(path, "stdout_bytes", pairs) or 0,
            stderr_bytes=optional_number(path, "stderr_bytes", pairs) or 0,
            dropped_bytes=optional_number(path, "dropped_bytes", pairs) or 0,
            left=optional_number(path, "left", pairs) or 0,
            left_names=printable_text(pairs.get("left_names", "")),
        )
    except ValueError as error:
        raise BoxError(f"{path}: {error}") from error
