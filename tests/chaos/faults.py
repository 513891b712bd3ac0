"""The faults of a chaos run, as data. Each names the parts that it holds: no two strike the same part at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.support.cluster import SERVICES
from tests.support.machines.lab import ENGINES, WORKERS, Lab
from tests.support.waiting import soon

ALL = (*SERVICES, *WORKERS)
_WITH_MOUNT = ("httpserver", *WORKERS)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: what, where, when and how long, in seconds of the run. ``detail`` is a number that its kind reads."""

    kind: str
    where: str
    begins_s: float
    lasts_s: float
    detail: int = 0

    @property
    def ends_s(self) -> float:
        return self.begins_s + self.lasts_s

    @property
    def parts(self) -> frozenset[str]:
        """What nobody else may strike meanwhile."""
        kind = KINDS[self.kind]
        return frozenset(part.format(self.where) for part in kind.parts)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault. ``parts`` hold ``{}`` for the place; ``detail`` is the range of its number."""

    places: tuple[str, ...]
    lasts_s: tuple[float, float]
    parts: tuple[str, ...]
    begin: Callable[[Lab, Fault], None]
    end: Callable[[Lab, Fault], None]
    weight: int = 2
    detail: tuple[int, int] = (0, 0)


def _kill(lab: Lab, fault: Fault) -> None:
    lab.machines[fault.where].kill9("headway")


def _start(lab: Lab, fault: Fault) -> None:
    lab.start_service(fault.where)


def _cut(lab: Lab, fault: Fault) -> None:
    """0: both ways, 1: what comes, 2: what goes; with 3 added only between it and TaskManager."""
    way, near = fault.detail % 3, fault.detail >= 3
    peers = (lab.machines["task_manager"].address,) if near else ()
    lab.machines[fault.where].line.cut(inbound=way != 2, outbound=way != 1, peers=peers)


def _slow(lab: Lab, fault: Fault) -> None:
    lab.machines[fault.where].line.slow(
        kbit=500 + fault.detail * 10, delay_ms=fault.detail, loss_percent=fault.detail // 30
    )


def _heal(lab: Lab, fault: Fault) -> None:
    lab.machines[fault.where].line.heal()


def _fill_bricks(lab: Lab, _: Fault) -> None:
    for name in ("store1", "store2"):
        lab.disks[name].fill()


def _empty_bricks(lab: Lab, _: Fault) -> None:
    for name in ("store1", "store2"):
        lab.disks[name].make_room()


def _read_only(lab: Lab, fault: Fault) -> None:
    # Refused while a file is open for writing; one that copies logs without a break keeps it off.
    give_up_at = time.monotonic() + fault.lasts_s / 2
    while not lab.mounts[fault.where].read_only(True) and time.monotonic() < give_up_at:
        time.sleep(0.02)


def _writable(lab: Lab, fault: Fault) -> None:
    soon(lambda: lab.mounts[fault.where].read_only(False), what="the mount is writable again")


def _kill_engine(lab: Lab, fault: Fault) -> None:
    """With detail 1 containerd goes too."""
    engine = lab.engines[fault.where]
    engine.kill9()
    if fault.detail:
        engine.kill9_containerd()


def _start_engine(lab: Lab, fault: Fault) -> None:
    engine = lab.engines[fault.where]
    if fault.detail:
        engine.start_containerd()
    engine.start(within_s=120)


def _kill_engine_in_start(lab: Lab, fault: Fault) -> None:
    """Waits for the next start of a program and ends the engine so many milliseconds later."""
    lab.slow_starts(fault.where, on=True)
    before, give_up_at = lab.starts(fault.where), time.monotonic() + fault.lasts_s - 2
    while lab.starts(fault.where) == before and time.monotonic() < give_up_at:
        time.sleep(0.002)
    time.sleep(fault.detail / 1000)
    lab.engines[fault.where].kill9()
    lab.slow_starts(fault.where, on=False)


def _start_dead_engine(lab: Lab, fault: Fault) -> None:
    lab.engines[fault.where].start(within_s=120)


_PROCESS, _LINE, _DISK, _MOUNT, _ENGINE = "{}.process", "{}.line", "{}.disk", "{}.mount", "{}.engine"

KINDS: Mapping[str, Kind] = {
    "service killed": Kind(ALL, (0.5, 10), (_PROCESS,), _kill, _start, weight=6),
    "Worker killed, away for long": Kind(WORKERS, (14, 24), (_PROCESS,), _kill, _start),
    "service hangs": Kind(
        ALL,
        (1, 20),
        (_PROCESS,),
        lambda lab, fault: lab.machines[fault.where].pause("headway"),
        lambda lab, fault: lab.machines[fault.where].resume("headway"),
        weight=4,
    ),
    "line cut": Kind((*ALL, "database"), (2, 25), (_LINE,), _cut, _heal, weight=6, detail=(0, 5)),
    "cable pulled": Kind(
        ALL, (2, 25), (_LINE,), lambda lab, fault: lab.machines[fault.where].line.unplug(), _heal, weight=2
    ),
    "line slow": Kind((*ALL, "store1"), (5, 20), (_LINE,), _slow, _heal, weight=3, detail=(20, 200)),
    "clock set": Kind(
        ALL,
        (3, 30),
        ("{}.clock",),
        lambda lab, fault: lab.machines[fault.where].set_clock(fault.detail),
        lambda lab, fault: lab.machines[fault.where].set_clock(0),
        weight=3,
        detail=(-7_200, 7_200),
    ),
    "disk full": Kind(
        WORKERS,
        (2, 12),
        (_DISK,),
        lambda lab, fault: lab.disks[fault.where].fill(),
        lambda lab, fault: lab.disks[fault.where].make_room(),
    ),
    "bricks full": Kind(("store1",), (2, 12), ("store1.disk", "store2.disk"), _fill_bricks, _empty_bricks, weight=1),
    "mount read-only": Kind(_WITH_MOUNT, (3, 15), (_MOUNT,), _read_only, _writable),
    "mount stale": Kind(
        _WITH_MOUNT,
        (2, 15),
        (_MOUNT,),
        lambda lab, fault: lab.mounts[fault.where].kill(),
        lambda lab, fault: lab.mounts[fault.where].again(),
    ),
    "mount hangs": Kind(
        _WITH_MOUNT,
        (2, 15),
        (_MOUNT,),
        lambda lab, fault: lab.machines[fault.where].pause("glusterfs"),
        lambda lab, fault: lab.machines[fault.where].resume("glusterfs"),
    ),
    "brick dead": Kind(
        ("store2",),
        (3, 15),
        ("store2.process",),
        lambda lab, _: lab.volume.second.kill_brick(),
        lambda lab, _: lab.volume.second.start_brick(),
        weight=1,
    ),
    "engine killed": Kind(ENGINES, (0.5, 12), (_ENGINE,), _kill_engine, _start_engine, weight=3, detail=(0, 1)),
    "engine killed in a start": Kind(
        ENGINES, (6, 14), (_ENGINE,), _kill_engine_in_start, _start_dead_engine, weight=3, detail=(0, 1_200)
    ),
    "engine hangs": Kind(
        ENGINES,
        (2, 25),
        (_ENGINE,),
        lambda lab, fault: lab.engines[fault.where].pause(),
        lambda lab, fault: lab.engines[fault.where].resume(),
    ),
    "database killed": Kind(
        ("database",),
        (0.5, 6),
        ("database.process",),
        lambda lab, _: lab.postgres.kill9(),
        lambda lab, _: lab.start_database(),
        weight=1,
    ),
    "database hangs": Kind(
        ("database",),
        (1, 12),
        ("database.process",),
        lambda lab, _: lab.postgres.pause(),
        lambda lab, _: lab.postgres.resume(),
        weight=1,
    ),
    # It comes back after its leases are over: a machine that lost its power has no containers any more, and another
    # boot. Here the boot stays the same, so nothing may count that was told of it before. TaskManager, which gives the
    # leases, is left alone meanwhile.
    "power lost": Kind(
        ENGINES,
        (30, 34),
        (_PROCESS, _LINE, _MOUNT, _ENGINE, "task_manager.process", "task_manager.line", "task_manager.clock"),
        lambda lab, fault: lab.power_off(fault.where),
        lambda lab, fault: lab.power_on(fault.where),
        weight=1,
    ),
}
