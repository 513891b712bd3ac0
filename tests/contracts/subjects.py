"""Runtimes under the contract of ``worker.ports.Runtime``. A new kind of runtime gets a subject here and a line in
``test_runtime.py``; the tests stay the same.

A runtime of another package is named by a variable: ``HEADWAY_CONTRACT_SUBJECT=my_tests:MySubject``. The class is
called with an empty folder (docs/runtimes.md).
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shlex
from pathlib import Path
from typing import Protocol

from headway.clock import SystemClock
from headway.ids import AttemptId
from headway.jobfile import Network
from tests.support.images import BUSYBOX
from worker.box import LaunchSpec
from worker.launcher.build import build
from worker.model import WantedImage
from worker.ports import Runtime, StartOrder
from worker.runtime.docker import DockerRuntime
from worker.runtime.docker_engine import DockerEngine
from worker.runtime.docker_gpu_ways import GpuWays
from worker.runtime.docker_options import WorkerIdentity
from worker.runtime.scripted import ScriptedRuntime


class Subject(Protocol):
    """One kind of runtime, real time."""

    @property
    def runtime(self) -> Runtime: ...

    async def open(self) -> None:
        """A fresh Runtime object on what is there, as after a restart of the Worker; nudges go to ``nudged``."""
        ...

    async def abandon(self) -> None:
        """Drop the Runtime object, as a killed Worker does."""
        ...

    async def order(
        self,
        attempt: AttemptId,
        *,
        run_s: float = 0.0,
        exit_code: int = 0,
        output: str = "",
        ignores_term: bool = False,
        timeout_s: float = 60.0,
        grace_s: float = 1.0,
        lease_until_boot_ns: int | None = None,
    ) -> StartOrder:
        """A task that prints ``output``, runs so long and exits so; image and all."""
        ...

    def nudged(self, attempt: AttemptId) -> asyncio.Event:
        """Set at every nudge for the attempt."""
        ...


OF_ANOTHER_PACKAGE = os.environ.get("HEADWAY_CONTRACT_SUBJECT", "")


def subject_of_another_package(folder: Path) -> Subject:
    """The one that the variable names."""
    module, _, name = OF_ANOTHER_PACKAGE.partition(":")
    subject: Subject = getattr(importlib.import_module(module), name)(folder)
    return subject


class Nudges:
    """Collects nudges by attempt."""

    def __init__(self) -> None:
        self._events: dict[AttemptId, asyncio.Event] = {}

    def __call__(self, attempt: AttemptId) -> None:
        self.event(attempt).set()

    def event(self, attempt: AttemptId) -> asyncio.Event:
        return self._events.setdefault(attempt, asyncio.Event())


class ScriptedSubject:
    """The scripted runtime, or one that is built on it."""

    kind: type[ScriptedRuntime] = ScriptedRuntime
    runtime: ScriptedRuntime

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nudges = Nudges()

    async def open(self) -> None:
        attempts = self._folder / "attempts"
        attempts.mkdir(exist_ok=True)
        self.runtime = self.kind(attempts, self._folder / "journal", SystemClock())
        await self.runtime.open(self._nudges)

    async def abandon(self) -> None:
        await self.runtime.close()

    async def order(
        self,
        attempt: AttemptId,
        *,
        run_s: float = 0.0,
        exit_code: int = 0,
        output: str = "",
        ignores_term: bool = False,
        timeout_s: float = 60.0,
        grace_s: float = 1.0,
        lease_until_boot_ns: int | None = None,
    ) -> StartOrder:
        image = await self.runtime.find_image(WantedImage("any/image:1"))
        assert image is not None
        env = {
            "HEADWAY_SCRIPTED_RUN_S": str(run_s),
            "HEADWAY_SCRIPTED_EXIT": str(exit_code),
            "HEADWAY_SCRIPTED_OUTPUT": output,
            "HEADWAY_SCRIPTED_IGNORES_TERM": str(int(ignores_term)),
        }
        return StartOrder(
            attempt=attempt,
            image=image,
            spec=LaunchSpec(
                args=("true",),
                env=env,
                user="0:0",
                timeout_ms=round(timeout_s * 1000),
                grace_ms=round(grace_s * 1000),
                lease_grace_ms=500,
            ),
            command=None,
            lease_until_boot_ns=lease_until_boot_ns,
            cpus_centi=10,
            memory_bytes=64 << 20,
            shm_bytes=1 << 20,
            network=Network.NONE,
        )

    def nudged(self, attempt: AttemptId) -> asyncio.Event:
        return self._nudges.event(attempt)


class DockerSubject:
    """The Docker runtime on the tests' engine."""

    runtime: DockerRuntime

    def __init__(
        self,
        folder: Path,
        engine_url: str,
        *,
        timeout_s: float = 20.0,
        node: str = "n1",
        gpu_ways: GpuWays | None = None,
    ) -> None:
        self._gpu_ways = gpu_ways
        self.attempts = folder / "attempts"
        self._engine_url = engine_url
        self._timeout_s = timeout_s
        self._node = node
        self._nudges = Nudges()

    async def open(self) -> None:
        self.attempts.mkdir(exist_ok=True)
        self.runtime = DockerRuntime(
            self.attempts,
            engine=DockerEngine(self._engine_url, timeout_s=self._timeout_s),
            identity=WorkerIdentity("test", self._node, str(self.attempts)),
            launcher=build(),
            gpu_ways=self._gpu_ways,
        )
        await self.runtime.open(self._nudges)

    async def abandon(self) -> None:
        await self.runtime.close()

    async def order(
        self,
        attempt: AttemptId,
        *,
        run_s: float = 0.0,
        exit_code: int = 0,
        output: str = "",
        ignores_term: bool = False,
        timeout_s: float = 60.0,
        grace_s: float = 1.0,
        lease_until_boot_ns: int | None = None,
    ) -> StartOrder:
        image = await self.runtime.find_image(WantedImage(BUSYBOX))
        assert image is not None
        trap = "trap '' TERM; " if ignores_term else ""
        text = f"{trap}printf %s {shlex.quote(output)}; sleep {run_s}; exit {exit_code}"
        return StartOrder(
            attempt=attempt,
            image=image,
            spec=LaunchSpec(
                args=("/bin/sh", "-c", text),
                env={"PATH": "/bin"},
                user="20001:20001",
                timeout_ms=round(timeout_s * 1000),
                grace_ms=round(grace_s * 1000),
                lease_grace_ms=500,
            ),
            command=None,
            lease_until_boot_ns=lease_until_boot_ns,
            cpus_centi=50,
            memory_bytes=64 << 20,
            shm_bytes=1 << 20,
            network=Network.NONE,
        )

    def nudged(self, attempt: AttemptId) -> asyncio.Event:
        return self._nudges.event(attempt)
