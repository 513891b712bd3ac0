"""A machine: a network namespace with a line to the others, processes of its own, and its own wall clock."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.compiling import compiled

from .network import Line, Namespace, Switch

_SHIM = Path(__file__).resolve().parent.parent / "wall_clock.c"


@dataclass
class Machine:
    """One machine. ``address`` is its own, without a prefix; ``folder`` is its local disk."""

    name: str
    address: str
    folder: Path
    network: Namespace = field(default_factory=Namespace)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _paused: set[str] = field(default_factory=set)

    @classmethod
    def on(cls, switch: Switch, name: str, address: str, folder: Path) -> Machine:
        """A machine with a line to the switch."""
        folder.mkdir(parents=True, exist_ok=True)
        machine = cls(name, address, folder)
        switch.join(machine.network, f"{address}/24")
        machine.set_clock(0)
        return machine

    def __post_init__(self) -> None:
        self.line = Line(self.network)

    @property
    def _clock(self) -> Path:
        return self.folder / "clock"

    def set_clock(self, offset_s: int) -> None:
        """Moves the wall clock of processes that have it so far from the kernel's; other clocks stay."""
        new = self._clock.with_suffix(".new")
        new.write_text(str(offset_s))
        new.rename(self._clock)

    def log(self, name: str) -> Path:
        """What a process has written, all its lives one after the other."""
        return self.folder / f"{name}.log"

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        own_clock: bool = False,
    ) -> None:
        """Starts a process in the machine's network. ``own_clock``: with the machine's wall clock."""
        assert name not in self.processes, f"{name} runs already on {self.name}"
        own: dict[str, str] = {}
        if own_clock:
            shim = compiled(_SHIM, "wall_clock.so", "-shared", "-fPIC", "-O1")
            own = {"LD_PRELOAD": str(shim), "HEADWAY_TESTS_CLOCK": str(self._clock)}
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self.network.words(*command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **own, **(environment or {})},
                start_new_session=True,
            )

    def kill9(self, name: str) -> None:
        """Ends a process without a chance to tidy up. One that has ended by itself is no error."""
        process = self.processes.pop(name)
        self._paused.discard(name)
        process.kill()
        process.wait()

    def stop(self, name: str, within_s: float = 30) -> int:
        """Asks a process to end; its exit code (-9: it did not, and was killed)."""
        self.resume(name)
        process = self.processes.pop(name)
        process.terminate()
        try:
            return process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def pause(self, name: str) -> None:
        """Makes a process hang."""
        self.processes[name].send_signal(signal.SIGSTOP)
        self._paused.add(name)

    def resume(self, name: str) -> None:
        """Undoes :meth:`pause`."""
        if name in self._paused:
            self._paused.discard(name)
            self.processes[name].send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends whatever runs on it."""
        for name in tuple(self.processes):
            self.kill9(name)
        self.network.close()


def boot_ns() -> int:
    """Nanoseconds of the one kernel's boot clock, which all machines share and nobody sets."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
