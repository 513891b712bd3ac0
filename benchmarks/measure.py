"""Figures and how they are printed."""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure beside its goal; ``at_most`` tells which side of the goal is good."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    at_most: bool = True
    note: str = ""

    @property
    def reached(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value <= self.goal if self.at_most else self.value >= self.goal

    def __str__(self) -> str:
        mark = {True: "ok  ", False: "MISS", None: "    "}[self.reached]
        goal = "" if self.goal is None else f"  (goal {'≤' if self.at_most else '≥'} {self.goal:g})"
        return f"{mark} {self.name:<58} {self.value:>10.3f} {self.unit}{goal}{'  ' + self.note if self.note else ''}"


def quantile(values: Sequence[float], q: float) -> float:
    """The value below which a share ``q`` of ``values`` lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def pss_bytes(pid: int) -> int:
    """Proportional set size: shared pages count by their share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Pss in smaps_rollup")


def cpu_seconds(pid: int) -> float:
    """User and system time of the process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100.0


def bare_commits_per_s(folder: Path, count: int = 300) -> float:
    """One durable SQLite commit after another: what one fsync costs here."""
    db = sqlite3.connect(folder / "bare.db", isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute("create table t (id integer primary key, state text)")
    began = time.monotonic()
    for number in range(count):
        db.execute("insert into t values (?, 'x')", (number,))
    took = time.monotonic() - began
    db.close()
    return count / took
