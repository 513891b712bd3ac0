"""Broken versions of the product: the model has to notice each of them."""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from task_manager.engine import leases as manager_leases
from worker.attempt import task_executor
from worker.node import heartbeat
from worker.runtime import boxed, docker_start


@dataclass(frozen=True, slots=True)
class Edit:
    """In a function of a module some text stands in place of other text."""

    module: ModuleType
    function: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Breakage:
    """``world``: rules that the simulated launcher or engine does not keep."""

    name: str
    edits: tuple[Edit, ...] = ()
    world: frozenset[str] = field(default_factory=frozenset)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The product is broken meanwhile."""
        with contextlib.ExitStack() as undo:
            for module, function in dict.fromkeys((edit.module, edit.function) for edit in self.edits):
                edits = [edit for edit in self.edits if (edit.module, edit.function) == (module, function)]
                undo.enter_context(_edited(module, function, edits))
            yield


@contextlib.contextmanager
def _edited(module: ModuleType, function: str, edits: Sequence[Edit]) -> Iterator[None]:
    owner: Any = module
    *classes, name = function.split(".")
    for one in classes:
        owner = getattr(owner, one)
    before = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(before))
    for edit in edits:
        if edit.old not in source:
            raise AssertionError(f"{module.__name__}.{function} has no text {edit.old!r} any more")
        source = source.replace(edit.old, edit.new, 1)
    made: dict[str, Any] = {}
    text = "from __future__ import annotations\n" + source
    exec(compile(text, f"<broken {function}>", "exec"), module.__dict__, made)
    setattr(owner, name, made[name])
    try:
        yield
    finally:
        setattr(owner, name, before)


BREAKAGES = (
    Breakage(
        "the launcher takes no lock, and nobody looks for processes",
        world=frozenset({"launcher: lock not taken", "worker: looks for no processes"}),
    ),
    Breakage(
        "the launcher needs no ticket, and runs an attempt twice",
        world=frozenset({"launcher: ticket not needed", "launcher: runs again", "launcher: ticket of any boot"}),
    ),
    Breakage("the launcher looks at no lease", world=frozenset({"launcher: no lease"})),
    Breakage(
        "the Worker says `never started` without taking the ticket back",
        (Edit(boxed, "BoxedRuntime._withdraw", "return boxes.withdraw(self.box(attempt))", "return True"),),
    ),
    Breakage(
        "the deadline counts from the start, not from the launch's arrival",
        (
            Edit(
                task_executor,
                "TaskExecutor._first_lease",
                "arrived_s=record.arrived_s",
                "arrived_s=context.clock.monotonic()",
            ),
            Edit(task_executor, "TaskExecutor._first_lease", "answered=context.lease", "answered=None"),
        ),
    ),
    Breakage(
        "a fresh lease comes before the discards",
        (
            Edit(heartbeat, "Heartbeat.send_once", "if answer.discard:", "if False:"),
            Edit(heartbeat, "Heartbeat.send_once", "answer.discard)", "())"),
        ),
    ),
    Breakage(
        "the engine's word counts more than the lock",
        (
            Edit(
                task_executor,
                "TaskExecutor._is_over",
                "self._rebooted =",
                "said = await self._container.facts_now()\n"
                "    if said is not None and said.state is not ContainerState.RUNNING:\n"
                "        return True\n"
                "    self._rebooted =",
            ),
        ),
    ),
    Breakage(
        "`already in use` is a refusal",
        (
            Edit(docker_start, "ContainerStarts.create_and_start", "if self.judge(attempt) in BEGUN:", "if False:"),
            Edit(
                docker_start,
                "ContainerStarts.create_and_start",
                "if engine_in_trouble(error) or is_left_over(error):",
                "if engine_in_trouble(error):",
            ),
            Edit(docker_start, "ContainerStarts._refuse", "if not self.withdraw(attempt):", "if False:"),
            Edit(task_executor, "TaskExecutor._begin", "await self._never_starts()", "True"),
        ),
    ),
    Breakage(
        "TaskManager's margin is gone",
        (Edit(manager_leases, "_ends", "settings.lease_s + settings.margin_s", "settings.lease_s"),),
    ),
    Breakage(
        "TaskManager does not count from its own start",
        (Edit(manager_leases, "_ends", "live.launched_s, started_s)", "0.0)"),),
    ),
)
