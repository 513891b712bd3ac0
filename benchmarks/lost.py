"""A machine is lost: after how long its task runs elsewhere, and how long before that the old one was gone.

Ten machines in network namespaces, two with a Docker Engine (`tests/support/machines`). The task ignores TERM. Both
spans are by the one kernel's boot clock. HEADWAY_LOST_ROUNDS: how often each way (3).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.lost import WAYS, Loss, lost_machine
from tests.support.cluster import QUICK_LEASES
from tests.support.machines.lab import a_lab

from .measure import Figure

_ROUNDS = 3
_MORE_S = 2.0  # than a lease


def lost() -> Iterator[Figure]:
    """Each way to lose a machine, some times."""
    rounds = int(os.environ.get("HEADWAY_LOST_ROUNDS", _ROUNDS))
    lease_s = float(QUICK_LEASES["cluster__lease_s"])
    all_losses: list[Loss] = []
    with a_lab(Path(tempfile.mkdtemp(prefix="ch"))) as lab:
        for way in WAYS:
            losses: list[Loss] = []
            for number in range(rounds):
                with lost_machine(lab, way, f"lost-{way.replace(' ', '-')}-{number}") as loss:
                    losses.append(loss)
            all_losses += losses
            elsewhere = max(loss.elsewhere_after_s for loss in losses)
            placed = max(loss.placed_after_s for loss in losses)
            gone = min(loss.apart_s for loss in losses)
            note = f"placed after {placed:.1f} s; old one gone {gone:.1f} s before, at least; {rounds} times"
            yield Figure(f"machine lost, {way}: runs elsewhere", elsewhere, "s", lease_s + _MORE_S, note=note)
    at_once = sum(loss.apart_s <= 0 for loss in all_losses)
    yield Figure(f"machine lost: of {len(all_losses)} tasks, ran twice at once", at_once, "tasks", 0.0)
