"""What a scripted attempt does by its environment, and when it ends. Pure.

    HEADWAY_SCRIPTED_RUN_S         seconds of run time (default 0)
    HEADWAY_SCRIPTED_EXIT          exit code at its end (default 0)
    HEADWAY_SCRIPTED_OUTPUT        text that it prints to stdout at its start
    HEADWAY_SCRIPTED_STDERR        text that it prints to stderr then
    HEADWAY_SCRIPTED_START_FAILS   it never starts: an end word (image_not_found ...), else start_failed
    HEADWAY_SCRIPTED_IGNORES_TERM  1: goes on after a TERM, until its grace or its run time is over
    HEADWAY_SCRIPTED_OOM           1: at the end of its run time the kernel kills it because memory ran out

Everything is computed from stored instants, so a restarted Worker decides the same end.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from headway.errors import InvalidInput
from headway.model.reasons import EndWord

from ..box import BoxEnd, EndRecord, StopWord
from ..ports import ContainerCounters

PREFIX = "HEADWAY_SCRIPTED_"
SAID_BY_SECRETS = frozenset({f"{PREFIX}OUTPUT", f"{PREFIX}STDERR"})  # a task's secrets may say no more than this
_NS = 1_000_000_000
_MS = 1_000_000
_WAVE_S = 60.0
_YES = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Script:
    """See the module."""

    run_ns: int = 0
    exit_code: int = 0
    output: bytes = b""
    start_fails: EndWord | None = None
    ignores_term: bool = False
    out_of_memory: bool = False
    errors: bytes = b""

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Script:
        """The script in an environment. Raises InvalidInput for an invalid value."""

        def said(name: str) -> str:
            return env.get(PREFIX + name, "").strip()

        try:
            run_s = float(said("RUN_S") or 0)
            exit_code = int(said("EXIT") or 0)
        except ValueError as error:
            raise InvalidInput(f"{PREFIX}RUN_S and {PREFIX}EXIT are numbers: {error}") from error
        if not (0 <= run_s < 1e9 and 0 <= exit_code <= 255):
            raise InvalidInput(f"{PREFIX}RUN_S is at least 0, and {PREFIX}EXIT 0 to 255")
        return cls(
            run_ns=round(run_s * _NS),
            exit_code=exit_code,
            output=env.get(PREFIX + "OUTPUT", "").encode("utf-8", "surrogateescape"),
            errors=env.get(PREFIX + "STDERR", "").encode("utf-8", "surrogateescape"),
            start_fails=_end_word(said("START_FAILS")),
            ignores_term=said("IGNORES_TERM").lower() in _YES,
            out_of_memory=said("OOM").lower() in _YES,
        )


def _end_word(text: str) -> EndWord | None:
    if not text or text.lower() in ("0", "false", "no", "off"):
        return None
    try:
        return EndWord(text.lower())
    except ValueError:
        return EndWord.START_FAILED


@dataclass(frozen=True, slots=True)
class ScriptedStop:
    """A stop order. Instants are nanoseconds of the boot clock."""

    word: StopWord
    at_ns: int
    grace_ns: int | None = None  # None: the task's own


@dataclass(frozen=True, slots=True)
class ScriptedRun:
    """One started attempt. ``wall_ns`` is nanoseconds since the epoch, other instants are of the boot clock."""

    script: Script
    boot_ns: int
    wall_ns: int
    timeout_ms: int
    grace_ms: int
    lease_grace_ms: int
    cpus_centi: int = 100
    memory_bytes: int = 1 << 30


def ends_at(
    run: ScriptedRun, stop: ScriptedStop | None = None, lease_until_ns: int | None = None
) -> tuple[int, EndRecord]:
    """When (nanoseconds of the boot clock) and how it ends, without later orders.

    The first one counts, as in the launcher: the script's own end, the timeout, the stop order, or the lease.
    """
    natural = run.boot_ns + run.script.run_ns
    term_at, grace, reason, word = _first_order(run, stop, lease_until_ns)
    if natural <= term_at:
        return natural, _record(run, natural, BoxEnd.EXITED)
    if not run.script.ignores_term:
        return term_at, _record(run, term_at, reason, word=word, signal_number=signal.SIGTERM)
    if natural <= term_at + grace:
        # It ended by itself within its grace, but the order was given before.
        return natural, _record(run, natural, reason, word=word, exit_code=run.script.exit_code)
    killed_at = term_at + grace
    return killed_at, _record(run, killed_at, reason, word=word, signal_number=signal.SIGKILL)


def made_up_counters(run: ScriptedRun, now_ns: int) -> ContainerCounters:
    """What a real container might have used by now, so that rehearsals have something to show.

    Its CPUs are used to two thirds, a quarter more and less over a minute. Its memory fills to two thirds in minutes.
    """
    ran_s = max(0.0, (now_ns - run.boot_ns) / _NS)
    turn = 2 * math.pi / _WAVE_S
    memory = run.memory_bytes * (0.66 - 0.5 * math.exp(-ran_s / 100))
    return ContainerCounters(
        cpu_s=run.cpus_centi / 100 * (0.66 * ran_s + 0.25 / turn * (1 - math.cos(turn * ran_s))),
        memory_bytes=round(memory),
        peak_memory_bytes=round(memory),
        disk_read_bytes=round(40e6 * (1 - math.exp(-ran_s / 20))),
        disk_written_bytes=round(2e5 * ran_s),
        network_received_bytes=round(5e4 * ran_s),
        network_sent_bytes=round(1e4 * ran_s),
    )


def ordered_at(run: ScriptedRun, stop: ScriptedStop | None = None, lease_until_ns: int | None = None) -> int:
    """When (nanoseconds of the boot clock) it gets its TERM, unless it ends before."""
    return _first_order(run, stop, lease_until_ns)[0]


def _first_order(
    run: ScriptedRun, stop: ScriptedStop | None, lease_until_ns: int | None
) -> tuple[int, int, BoxEnd, StopWord | None]:
    grace_ns = run.grace_ms * _MS
    limit = run.boot_ns + run.timeout_ms * _MS
    orders: list[tuple[int, int, BoxEnd, StopWord | None]] = [(limit, grace_ns, BoxEnd.TIMED_OUT, None)]
    if stop is not None:
        stop_grace = grace_ns if stop.grace_ns is None else min(stop.grace_ns, grace_ns)
        orders.append((max(stop.at_ns, run.boot_ns), stop_grace, BoxEnd.STOPPED, stop.word))
    if lease_until_ns is not None:
        orders.append((max(lease_until_ns, run.boot_ns), run.lease_grace_ms * _MS, BoxEnd.LEASE_EXPIRED, None))
    return min(orders, key=lambda order: order[0])


def _record(
    run: ScriptedRun,
    at_ns: int,
    reason: BoxEnd,
    *,
    word: StopWord | None = None,
    signal_number: int | None = None,
    exit_code: int | None = None,
) -> EndRecord:
    oom = reason is BoxEnd.EXITED and run.script.out_of_memory
    if reason is BoxEnd.EXITED:
        exit_code, signal_number = (None, signal.SIGKILL) if oom else (run.script.exit_code, None)
    return EndRecord(
        reason=reason,
        exit_code=exit_code,
        signal=int(signal_number) if signal_number is not None else None,
        stop_word=word,
        started_wall_ns=run.wall_ns,
        # By the boot clock, so that a change of the wall clock makes no run shorter or longer.
        ended_wall_ns=run.wall_ns + (at_ns - run.boot_ns),
        run_ns=at_ns - run.boot_ns,
        oom_kills=int(oom),
        stdout_bytes=len(run.script.output),
        stderr_bytes=len(run.script.errors),
        timeout_ms=run.timeout_ms,
    )
