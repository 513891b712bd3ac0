"""A machine is lost while it runs a task: what became of both attempts, by the one kernel's boot clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.machines.lab import ENGINES, IMAGE, SCRIPTED, Lab
from tests.support.machines.machine import boot_ns
from tests.support.waiting import soon

from .facts import Line
from .workload import JobPlan, TaskPlan

_RUN_MS = 300_000
_WITHIN_S = 180.0  # generous: what is looked at is the order, and the seconds are told


@dataclass(frozen=True, slots=True)
class Way:
    """One way to lose a machine, and how it comes back."""

    lose: Callable[[Lab, str], None]
    find: Callable[[Lab, str], None]


def _heal(lab: Lab, node: str) -> None:
    lab.machines[node].line.heal()


WAYS = {
    "cable pulled": Way(lambda lab, node: lab.machines[node].line.unplug(), _heal),
    "nothing goes out": Way(lambda lab, node: lab.machines[node].line.cut(inbound=False), _heal),
    "nothing comes in": Way(lambda lab, node: lab.machines[node].line.cut(outbound=False), _heal),
    "power lost": Way(lambda lab, node: lab.power_off(node), lambda lab, node: lab.power_on(node)),
}


@dataclass(frozen=True, slots=True)
class Loss:
    """What the task's witness says. Moments are nanoseconds of the boot clock."""

    lost_at_ns: int
    first: tuple[Line, ...]  # of the attempt on the lost machine
    second: tuple[Line, ...]
    placed_after_s: float  # from the loss until TaskManager placed the second one; the rest is its start

    @property
    def first_ended_at_ns(self) -> int:
        """It is not known to have lived after this."""
        return self.first[-1].at_ns

    @property
    def second_began_at_ns(self) -> int:
        return self.second[0].at_ns

    @property
    def elsewhere_after_s(self) -> float:
        """From the loss until the task ran elsewhere."""
        return (self.second_began_at_ns - self.lost_at_ns) / 1e9

    @property
    def apart_s(self) -> float:
        """From the last sign of life of the first attempt until the second one began."""
        return (self.second_began_at_ns - self.first_ended_at_ns) / 1e9


@contextmanager
def lost_machine(lab: Lab, way: str, name: str) -> Iterator[Loss]:
    """Loses the machine on which a task runs, and waits until it runs elsewhere. It ignores TERM, so that only KILL
    ends it. In the end the machine is back, the task is cancelled and all machines take work.

    Args:
        way: one of :data:`WAYS`.
        name: of the task, new in this lab.
    """
    first, second = ENGINES
    client, file = lab.client, lab.witness / name
    task = TaskPlan(name, "well", _RUN_MS, 600, flags="t")
    for node in (SCRIPTED, second):
        client.node_action(node, "cordon")
    job = client.submit(replace(JobPlan(name, 0.0, True, ()), tasks=(task,)).file(IMAGE))["id"]
    soon(lambda: _lines(file, 1), within_s=_WITHIN_S, every_s=0.1, what="it runs")
    client.node_action(second, "uncordon")
    # Some heartbeats: its lease counts by now.
    soon(lambda: len(_lines(file, 1)) > 25, within_s=_WITHIN_S, every_s=0.1, what="it runs for a while")
    lost_at, lost_wall_s = boot_ns(), time.time()
    WAYS[way].lose(lab, first)
    try:
        soon(lambda: len(_lines(file, 2)) > 2, within_s=_WITHIN_S, every_s=0.1, what="it runs elsewhere")
        placed_at = client.job(job)["tasks"][0]["attempts"][1]["placed_at"]
        yield Loss(lost_at, tuple(_lines(file, 1)), tuple(_lines(file, 2)), placed_at - lost_wall_s)
    finally:
        WAYS[way].find(lab, first)
        client.act("cancel", job)
        client.node_action(SCRIPTED, "uncordon")
        client.wait(job, timeout_s=_WITHIN_S)
        lab.wait_ready(_WITHIN_S)


def _lines(file: Path, attempt: int) -> list[Line]:
    if not file.exists():
        return []
    # The last line may be on its way.
    told = [Line.read(text) for text in file.read_text("utf-8").split("\n")[:-1]]
    return [line for line in told if line.attempt == attempt]
