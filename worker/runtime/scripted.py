"""A runtime that starts nothing: each attempt follows the task's environment (see ``scripted_plan``).

It is for cluster tests and rehearsals without Docker. It keeps the contract of ``ports.Runtime``, even when the Worker
is killed. Instants are written to a journal before they count, and the rest is computed from them. An attempt is one
line in the journal and no file, unless it prints something.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.clock import Clock
from headway.errors import InvalidInput
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.model.reasons import EndWord

from .. import box as boxes
from ..alarms import Alarm, Alarms
from ..box import Box, BoxStanding, EndRecord, StartedRecord, StopWord, Stream
from ..machine.simulated_gpus import SimulatedGpus
from ..model import WantedImage, attempt_of_folder
from ..ports import (
    AttemptProgress,
    ContainerCounters,
    ContainerFacts,
    ContainerFiles,
    ContainerState,
    EngineFacts,
    EngineImage,
    EngineUnavailable,
    ImageArchive,
    ImageRemoval,
    LocalImage,
    RegistryCredentials,
    RuntimeRefused,
    StartOrder,
)
from .scripted_plan import SAID_BY_SECRETS, Script, ScriptedRun, ScriptedStop, ends_at, made_up_counters, ordered_at
from .setup import RuntimeParts, RuntimeSetup

log = get_logger(__name__)

_ABSENT = ContainerFacts(ContainerState.ABSENT)
_NS = 1_000_000_000
_IMAGE_ID = "scripted"
_COMPACT_BYTES = 1 << 20


@dataclass(slots=True)
class _Live:
    """One simulated container. ``frozen`` is its end, which no later order changes."""

    run: ScriptedRun
    stop: ScriptedStop | None = None
    lease_until_ns: int | None = None
    frozen: tuple[int, EndRecord] | None = None
    alarm: Alarm | None = None
    cut_off: bool = False  # the machine has rebooted: it is gone without an end record, like a real one
    extended: bool = False  # its timeout is no longer the one that it was started with

    def end(self) -> tuple[int, EndRecord]:
        return self.frozen or ends_at(self.run, self.stop, self.lease_until_ns)

    def is_ending(self, now_ns: int) -> bool:
        """Whether its end was ordered. It may go on for its grace."""
        return ordered_at(self.run, self.stop, self.lease_until_ns) <= now_ns

    def freeze_if_over(self, now_ns: int) -> None:
        if self.frozen is None:
            end = self.end()
            if end[0] <= now_ns:
                self.frozen = end


class ScriptedRuntime:
    """See the module. The contract is ``ports.Runtime``. One event loop owns it."""

    name = "scripted"
    simulates = True
    any_image = True

    @classmethod
    def from_setup(cls, setup: RuntimeSetup) -> RuntimeParts:
        """As ``RuntimeKind.from_setup``. No program runs, so there are no rules to set, and no GPU is needed."""
        journal = setup.attempts_dir.parent / f"{cls.name}.journal"
        gpus = SimulatedGpus(setup.config.worker.node_id, 0)
        return RuntimeParts(cls(setup.attempts_dir, journal, setup.clock), gpus=gpus)

    def __init__(self, attempts_dir: Path, journal: Path, clock: Clock, *, boot_id: str | None = None) -> None:
        self._attempts_dir = attempts_dir
        self._journal_path = journal
        self._clock = clock
        self._boot_id = boot_id if boot_id is not None else clock.boot_id()
        self._journal = -1
        self._written = 0
        self._live: dict[AttemptId, _Live] = {}
        self._secrets: dict[AttemptId, tuple[bytes, ...]] = {}
        self._alarms = Alarms(clock)
        self._timer: asyncio.Task[None] | None = None
        self._on_change: Callable[[AttemptId], None] = lambda attempt: None

    # -- opening and closing ----------------------------------------------------------------------

    async def open(self, on_change: Callable[[AttemptId], None]) -> None:
        self._on_change = on_change
        self._replay()
        self._journal = os.open(self._journal_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._written = os.fstat(self._journal).st_size
        self._write({"boot": self._boot_id})
        self._timer = asyncio.create_task(self._alarms.run(), name="scripted-timer")
        log.info("scripted.opened", adopted=len(self._live))

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._timer
            self._timer = None
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1

    async def check(self) -> EngineFacts:
        return EngineFacts(version="scripted", architecture=_architecture())

    # -- one attempt ------------------------------------------------------------------------------

    async def find_image(self, wanted: WantedImage) -> LocalImage | None:
        # Every image is there, since nothing runs in it.
        return LocalImage(id=wanted.digest or _IMAGE_ID, architecture=_architecture())

    async def load_image(self, wanted: WantedImage, archive: ImageArchive) -> LocalImage:
        archive.close()
        return LocalImage(id=wanted.digest, architecture=_architecture())

    async def resolve_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> str:
        return wanted.digest or _IMAGE_ID

    async def pull_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> LocalImage:
        return LocalImage(id=wanted.digest or _IMAGE_ID, architecture=_architecture())

    async def mark_image(self, image_id: str) -> None:
        pass

    async def remove_image(self, image_id: str, names: Collection[str]) -> ImageRemoval:
        return ImageRemoval.GONE

    async def layers_there(self, layers: Sequence[str]) -> int:
        return 0

    async def start(self, order: StartOrder) -> ContainerFacts:
        known = self._live.get(order.attempt)
        if known is not None:
            return self._facts(order.attempt, known)
        try:
            script = Script.from_env({**order.spec.env, **self._secret_variables(order)})
        except InvalidInput as error:
            raise RuntimeRefused(str(error), word=EndWord.IMAGE_BAD) from error
        if script.start_fails is not None:
            word = script.start_fails
            raise RuntimeRefused(f"The task's script says that it ends with {word.value} before it starts.", word=word)
        now_ns = self._now_ns()
        run = ScriptedRun(
            script=script,
            boot_ns=now_ns,
            wall_ns=round(self._clock.now() * _NS),
            timeout_ms=order.spec.timeout_ms,
            grace_ms=order.spec.grace_ms,
            lease_grace_ms=order.spec.lease_grace_ms,
            cpus_centi=order.cpus_centi,
            memory_bytes=order.memory_bytes,
        )
        try:
            if script.output or script.errors:
                await asyncio.to_thread(self._print, self.box(order.attempt), run)
            self._write(_start_line(order.attempt, run, order.lease_until_boot_ns))
        except OSError as error:
            raise EngineUnavailable(f"The scripted runtime can't write its journal: {error.strerror}") from error
        live = _Live(run, lease_until_ns=order.lease_until_boot_ns)
        self._live[order.attempt] = live
        self._schedule(order.attempt, live)
        return self._facts(order.attempt, live)

    async def give_secrets(self, attempt: AttemptId, values: Sequence[bytes]) -> None:
        self._secrets[attempt] = tuple(values)

    def forget_secrets(self, attempt: AttemptId) -> None:
        self._secrets.pop(attempt, None)

    def _secret_variables(self, order: StartOrder) -> dict[str, str]:
        """What a program would print of them; no program runs that could read the others.

        Raises EngineUnavailable: they were not given.
        """
        places, values = order.spec.secrets, self._secrets.get(order.attempt, ())
        if len(places) != len(values):
            raise EngineUnavailable("The task's secrets have not come.")
        given = zip(places, values, strict=True)
        return {
            place.name: value.decode(errors="surrogateescape")
            for place, value in given
            if place.name in SAID_BY_SECRETS
        }

    async def progress(self, attempt: AttemptId) -> AttemptProgress:
        live = self._live.get(attempt)
        if live is None:
            return AttemptProgress()
        started = StartedRecord(live.run.wall_ns, live.run.boot_ns, pid=0)
        live.freeze_if_over(self._now_ns())
        end = live.frozen[1] if live.frozen and not live.cut_off else None
        return AttemptProgress(started, end, live.run.timeout_ms if live.extended else None)

    async def inspect(self, attempt: AttemptId) -> ContainerFacts:
        live = self._live.get(attempt)
        return _ABSENT if live is None else self._facts(attempt, live)

    async def standing(self, attempt: AttemptId) -> BoxStanding:
        live = self._live.get(attempt)
        if live is None:
            return BoxStanding.UNUSED
        if live.cut_off:
            return BoxStanding.OTHER_BOOT
        live.freeze_if_over(self._now_ns())
        return BoxStanding.RUNS if live.frozen is None else BoxStanding.ENDED

    async def withdraw(self, attempt: AttemptId) -> bool:
        return attempt not in self._live

    async def launcher_lives(self, attempt: AttemptId) -> bool:
        return await self.standing(attempt) is BoxStanding.RUNS

    async def is_inhabited(self, attempt: AttemptId) -> bool:
        return await self.standing(attempt) is BoxStanding.RUNS

    async def boxes(self) -> Collection[AttemptId]:
        return list(self._live)

    async def stored_launch(self, attempt: AttemptId) -> bytes | None:
        return None

    async def kill_launcher(self, attempt: AttemptId) -> bool:
        await self.stop(attempt, StopWord.PLATFORM, 0)
        return await self.standing(attempt) is not BoxStanding.RUNS

    def engine_was_away(self, at: float) -> bool:
        return False

    async def engine_goes_away(self, within_s: float) -> bool:
        return False

    async def stop(self, attempt: AttemptId, word: StopWord, grace_ms: int | None = None) -> None:
        live = self._live.get(attempt)
        if live is None:
            return
        now_ns = self._now_ns()
        live.freeze_if_over(now_ns)
        if live.frozen is not None:
            return
        grace_ns = None if grace_ms is None else grace_ms * 1_000_000
        if live.stop is not None:
            if grace_ns is None or (live.stop.grace_ns is not None and live.stop.grace_ns <= grace_ns):
                return
            stop = ScriptedStop(live.stop.word, live.stop.at_ns, grace_ns)
        else:
            stop = ScriptedStop(word, now_ns, grace_ns)
        self._write({"stop": attempt.folder, "word": stop.word.value, "at": stop.at_ns, "grace": stop.grace_ns})
        live.stop = stop
        self._schedule(attempt, live)

    async def extend(self, attempt: AttemptId, timeout_ms: int) -> None:
        live = self._live.get(attempt)
        if live is None:
            return
        now_ns = self._now_ns()
        live.freeze_if_over(now_ns)
        # As in the launcher: an attempt that is ending gets no more time.
        if live.frozen is not None or timeout_ms <= live.run.timeout_ms or live.is_ending(now_ns):
            return
        self._write({"extend": attempt.folder, "timeout_ms": timeout_ms})
        live.run, live.extended = replace(live.run, timeout_ms=timeout_ms), True
        self._schedule(attempt, live)
        self._on_change(attempt)

    async def renew(self, until_boot_ns: Mapping[AttemptId, int | None]) -> None:
        now_ns = self._now_ns()
        by_lease: dict[int | None, list[AttemptId]] = {}
        for attempt, until in until_boot_ns.items():
            live = self._live.get(attempt)
            if live is None:
                continue
            # An attempt whose lease is over has ended, although this was not recorded yet.
            live.freeze_if_over(now_ns)
            if live.frozen is None and live.lease_until_ns != until:
                by_lease.setdefault(until, []).append(attempt)
        for until, attempts in by_lease.items():
            self._write({"lease": until, "at": now_ns, "of": [a.folder for a in attempts]})
            for attempt in attempts:
                self._live[attempt].lease_until_ns = until
                self._schedule(attempt, self._live[attempt])

    async def kill(self, attempt: AttemptId) -> None:
        await self.stop(attempt, StopWord.PLATFORM, 0)

    async def remove(self, attempt: AttemptId) -> None:
        live = self._live.pop(attempt, None)
        if live is not None:
            self._alarms.cancel(live.alarm)
            with contextlib.suppress(OSError):
                self._write({"gone": attempt.folder})

    async def remove_box(self, attempt: AttemptId) -> None:
        folder = self._attempts_dir / attempt.folder
        if folder.exists():
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def list(self) -> Mapping[AttemptId, ContainerFacts]:
        return {attempt: self._facts(attempt, live) for attempt, live in self._live.items()}

    def data_folders(self) -> Sequence[Path]:
        return ()

    async def files(self, attempt: AttemptId) -> ContainerFiles:
        return ContainerFiles()

    async def images(self) -> Sequence[EngineImage]:
        return []

    def counters(self, attempt: AttemptId) -> ContainerCounters | None:
        live = self._live.get(attempt)
        if live is None or live.frozen is not None:
            return None
        return made_up_counters(live.run, self._now_ns())

    def spool(self, attempt: AttemptId, stream: Stream) -> Path | None:
        live = self._live.get(attempt)
        if live is not None and not (live.run.script.output or live.run.script.errors):
            return None
        box = self.box(attempt)
        return box.spool(stream) if live is not None or box.run.exists() else None

    def index(self, attempt: AttemptId) -> Path | None:
        return self.box(attempt).index

    def box(self, attempt: AttemptId) -> Box:
        """The attempt's box. It exists only if the attempt printed something."""
        return Box(self._attempts_dir / attempt.folder / "box")

    # -- inside -----------------------------------------------------------------------------------

    def _now_ns(self) -> int:
        return round(self._clock.monotonic() * _NS)

    def _facts(self, attempt: AttemptId, live: _Live) -> ContainerFacts:
        live.freeze_if_over(self._now_ns())
        name, started_at = f"scripted-{attempt.folder}", live.run.wall_ns / _NS
        if live.cut_off:
            # As engines report after a hard reboot.
            return ContainerFacts(ContainerState.EXITED, name, _IMAGE_ID, exit_code=0, started_at=started_at)
        if live.frozen is None:
            return ContainerFacts(ContainerState.RUNNING, name, _IMAGE_ID, started_at=started_at)
        end = live.frozen[1]
        return ContainerFacts(
            ContainerState.EXITED,
            name,
            _IMAGE_ID,
            exit_code=end.exit_code if end.exit_code is not None else 128 + (end.signal or 0),
            oom_killed=end.oom_kills > 0,
            started_at=started_at,
            ended_at=end.ended_wall_ns / _NS,
        )

    def _schedule(self, attempt: AttemptId, live: _Live) -> None:
        self._alarms.cancel(live.alarm)
        at_ns = live.end()[0]
        if at_ns <= self._now_ns():
            self._on_change(attempt)
        else:
            live.alarm = self._alarms.set(at_ns / _NS, lambda: self._on_change(attempt))

    def _print(self, box: Box, run: ScriptedRun) -> None:
        for folder in (box.root, box.attempt, box.run):
            folder.mkdir(parents=True, exist_ok=True)
        # A start that was interrupted before its line in the journal comes here again.
        for path in (box.stdout, box.stderr, box.index):
            path.unlink(missing_ok=True)
        writer = boxes.SpoolWriter(box)
        try:
            writer.append(Stream.STDOUT, run.script.output, wall_ns=run.wall_ns)
            writer.append(Stream.STDERR, run.script.errors, wall_ns=run.wall_ns)
        finally:
            writer.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._journal < 0:
            return
        if not self._live and self._written > _COMPACT_BYTES:
            os.ftruncate(self._journal, 0)
            self._written = os.write(self._journal, json.dumps({"boot": self._boot_id}).encode() + b"\n")
        self._written += os.write(self._journal, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def _replay(self) -> None:
        try:
            lines = self._journal_path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        boot = ""
        for raw in lines:
            try:
                line = json.loads(raw)
            except ValueError:
                continue  # the last line, which a kill interrupted
            boot = line.get("boot", boot)
            self._replay_line(line, rebooted=boot != self._boot_id)
        for attempt, live in self._live.items():
            if not live.cut_off:
                self._schedule(attempt, live)

    def _replay_line(self, line: dict[str, Any], *, rebooted: bool) -> None:
        if "start" in line:
            attempt = attempt_of_folder(line["start"])
            if attempt is not None:
                self._live[attempt] = _Live(_run_of(line), lease_until_ns=line["lease"], cut_off=rebooted)
        elif "stop" in line:
            live = self._of(line["stop"])
            if live is not None:
                live.stop = ScriptedStop(StopWord(line["word"]), line["at"], line["grace"])
        elif "extend" in line:
            live = self._of(line["extend"])
            if live is not None:
                live.run, live.extended = replace(live.run, timeout_ms=line["timeout_ms"]), True
        elif "of" in line:
            for folder in line["of"]:
                live = self._of(folder)
                if live is not None:
                    live.freeze_if_over(line["at"])
                    live.lease_until_ns = line["lease"]
        elif "gone" in line:
            attempt = attempt_of_folder(line["gone"])
            if attempt is not None:
                self._live.pop(attempt, None)

    def _of(self, folder: str) -> _Live | None:
        attempt = attempt_of_folder(folder)
        return None if attempt is None else self._live.get(attempt)


def _start_line(attempt: AttemptId, run: ScriptedRun, lease_until_ns: int | None) -> dict[str, Any]:
    script = run.script
    return {
        "start": attempt.folder,
        "boot_ns": run.boot_ns,
        "wall_ns": run.wall_ns,
        "limits": [run.timeout_ms, run.grace_ms, run.lease_grace_ms],
        "lease": lease_until_ns,
        "run_ns": script.run_ns,
        "exit": script.exit_code,
        "out": len(script.output),
        "err": len(script.errors),
        "deaf": script.ignores_term,
        "oom": script.out_of_memory,
        "asks": [run.cpus_centi, run.memory_bytes],
    }


def _run_of(line: Mapping[str, Any]) -> ScriptedRun:
    timeout_ms, grace_ms, lease_grace_ms = line["limits"]
    script = Script(
        run_ns=line["run_ns"],
        exit_code=line["exit"],
        # The text is in the spool already. Only its length counts from here on.
        output=b"\0" * line["out"],
        errors=b"\0" * line.get("err", 0),  # an older journal has none
        ignores_term=line["deaf"],
        out_of_memory=line["oom"],
    )
    asks = line.get("asks", ())  # an older journal has none
    return ScriptedRun(script, line["boot_ns"], line["wall_ns"], timeout_ms, grace_ms, lease_grace_ms, *asks)


def _architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
