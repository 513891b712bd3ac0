"""The box's protocol (docs/box.md): whole clusters in which everything dies at any step, and readers of any box."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.support.interleavings import find_violation
from tests.support.interleavings.acts import ACTS, Act
from tests.support.interleavings.breakages import BREAKAGES
from tests.support.interleavings.walk import one_thread
from tests.support.interleavings.world import World
from worker import box as boxes
from worker.box import Box, BoxEnd, BoxFacts, BoxStanding, EndRecord, judge, look, protocol

ATTEMPT, BOOT = "j0123456789abcdef.train.1", "this-boot"
PAUSES_S = (0.0, 0.01, 0.05, 0.2, 1.0, 3.0, 8.0, 20.0)
GROUPS = 8


# --- whole clusters -------------------------------------------------------------------------------------


class Cluster(RuleBasedStateMachine):
    """Two Workers and TaskManager. The world itself checks after each step what must never be."""

    @initialize(seed=st.integers(0, 1_000_000))
    def begins(self, seed: int) -> None:
        self.staying = one_thread()
        self.loop = self.staying.__enter__()
        self.world = self.wait(World.begin(seed))

    @rule(act=st.sampled_from(ACTS), chance=st.integers(0, 1_000), pause_s=st.sampled_from(PAUSES_S))
    def happens(self, act: Act, chance: int, pause_s: float) -> None:
        self.wait(act.do(self.world, random.Random(chance)))
        self.wait(self.world.advance(pause_s))

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            if not self.world.wrong:
                self.wait(self.world.heal())
        finally:
            self.wait(self.world.close())
            self.staying.__exit__(None, None, None)

    def wait(self, work: Any) -> Any:
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(work)


def _machine(examples: int) -> None:
    run_state_machine_as_test(
        Cluster,
        settings=settings(
            max_examples=examples,
            stateful_step_count=15,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_some_interleavings_break_nothing() -> None:
    _machine(10)
    found = find_violation(range(20))
    assert not found.violations, found.violation


@pytest.mark.slow
def test_interleavings_that_hypothesis_chooses_break_nothing() -> None:
    _machine(100)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_interleavings_by_seed_break_nothing(group: int) -> None:
    found = find_violation(range(1_000 + 50 * group, 1_050 + 50 * group))
    assert not found.violations, f"seed {found.seed}: {found.violation}"


def test_each_broken_version_can_still_be_made() -> None:
    for breakage in BREAKAGES:
        with breakage.applied():
            pass


# --- one box: what its files prove ------------------------------------------------------------------------

GOOD_TICKET = f"attempt={ATTEMPT}\nboot_id={BOOT}\n".encode()
TICKETS: dict[str, bytes | None] = {
    "good": GOOD_TICKET,
    "of another boot": GOOD_TICKET.replace(BOOT.encode(), b"another-boot"),
    "of another attempt": GOOD_TICKET.replace(b".1\n", b".2\n"),
    "empty": b"",
    "cut": GOOD_TICKET[: GOOD_TICKET.index(b"boot_id")],
    "broken": b"\xff\x00%zz=%zz\n",
    "a folder": None,
}
GOOD_END = b"reason=exited\nexit_code=0\n"
ENDS: dict[str, bytes | None] = {
    "good": GOOD_END,
    "empty": b"",
    "broken": b"reason=\xff\nexit_code=x\n",
    "a folder": None,
}
PLACES = ("ready", "taken", "withdrawn")


def _table(place: str, ticket: str, lock: str, end: str) -> BoxStanding:
    """The table of docs/box.md, from the top. A record that makes no sense is no record."""
    names_something = ticket in ("good", "of another boot", "of another attempt")
    place = place if names_something else "missing"
    if place != "missing" and ticket == "of another attempt":
        return BoxStanding.UNKNOWN
    if end == "good":
        return BoxStanding.ENDED
    if place == "withdrawn":
        return BoxStanding.NEVER_STARTED
    if place != "missing" and ticket == "of another boot":
        return BoxStanding.OTHER_BOOT
    if lock == "held":
        return BoxStanding.RUNS
    if lock == "missing" or place == "missing":
        return BoxStanding.UNKNOWN
    return BoxStanding.MAY_START if place == "ready" else BoxStanding.OVER


def _put(path: Path, content: bytes | None) -> None:
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)


def test_every_box_is_judged_by_the_table(tmp_path: Path) -> None:
    cases = itertools.product(
        [("missing", "good"), *itertools.product(PLACES, TICKETS)], ("missing", "free", "held"), ("missing", *ENDS)
    )
    wrong = []
    for number, ((place, ticket), lock, end) in enumerate(cases):
        box = Box(tmp_path / str(number))
        box.run.mkdir(parents=True)
        box.spec.write_bytes(b"")
        where = {"ready": box.ticket, "taken": box.ticket_taken, "withdrawn": box.ticket_withdrawn}
        if place in where:
            _put(where[place], TICKETS[ticket])
        held = -1
        if lock != "missing":
            held = os.open(box.lock, os.O_RDONLY | os.O_CREAT, 0o600)
            if lock == "held":
                fcntl.flock(held, fcntl.LOCK_EX)
        if end in ENDS:
            _put(box.end, ENDS[end])
        judged, want = judge(look(box, attempt=ATTEMPT, boot_id=BOOT)), _table(place, ticket, lock, end)
        if held >= 0:
            os.close(held)
        if judged is not want:
            wrong.append(f"ticket {place}, {ticket}; lock {lock}; end {end}: {judged.value} instead of {want.value}")
    assert not wrong, "\n".join(wrong)


def test_no_box_at_all_is_unused(tmp_path: Path) -> None:
    (tmp_path / "empty" / "run").mkdir(parents=True)
    for root in (tmp_path / "none", tmp_path / "empty"):
        assert judge(look(Box(root), attempt=ATTEMPT, boot_id=BOOT)) is BoxStanding.UNUSED


# --- one box: a reader between any two steps of its launcher ------------------------------------------------


class StepByStep:
    """A launcher in one box that goes on when it is told to; it may be killed after any step."""

    def __init__(self, root: Path, *, killed_after: int) -> None:
        self.box = boxes.create(root)
        boxes.write_spec(self.box, boxes.LaunchSpec(args=("x",), env={}, user="0:0", timeout_ms=1))
        boxes.write_ticket(self.box, attempt=ATTEMPT, boot_id=BOOT)
        self.done = 0
        self._killed_after = killed_after
        self._lock = -1

    STEPS = 5

    def go_to(self, step: int) -> None:
        while self.done < step:
            self.done += 1
            if self.done <= self._killed_after:
                (self._locks, self._takes, self._starts, self._ends, self.dies)[self.done - 1]()
            else:
                self.dies()

    @property
    def lives_or_may_come(self) -> bool:
        return self.done <= min(self._killed_after, self.STEPS - 1)

    def _locks(self) -> None:
        self._lock = os.open(self.box.lock, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _takes(self) -> None:
        os.rename(self.box.ticket, self.box.ticket_taken)

    def _starts(self) -> None:
        boxes.write_started(self.box, boxes.StartedRecord(1, 1, 7))

    def _ends(self) -> None:
        boxes.write_end(self.box, EndRecord(BoxEnd.EXITED, exit_code=0))

    def dies(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _readings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Box], BoxFacts]) -> list[str]:
    """What a reader says wrongly, whatever steps lie between its looks at ticket, lock and end."""
    wrong = []
    real = {name: getattr(protocol, name) for name in ("read_pairs", "is_locked", "read_end")}
    looks = 5  # the ticket in its three places, the lock, the end
    counter = itertools.count()
    for killed_after in range(1, StepByStep.STEPS + 1):
        for steps in itertools.combinations_with_replacement(range(StepByStep.STEPS + 1), looks):
            launcher = StepByStep(tmp_path / str(next(counter)), killed_after=killed_after)
            todo = iter(steps)

            def between(name: str, todo: Any = todo, launcher: StepByStep = launcher) -> Callable[..., Any]:
                def looks_at(*args: Any) -> Any:
                    launcher.go_to(next(todo))
                    return real[name](*args)

                return looks_at

            for name in real:
                monkeypatch.setattr(protocol, name, between(name))
            standing = judge(read(launcher.box))
            over = standing is BoxStanding.OVER and (launcher.lives_or_may_come or launcher.box.end.exists())
            ended = standing is BoxStanding.ENDED and not launcher.box.end.exists()
            if over or ended or standing in (BoxStanding.UNKNOWN, BoxStanding.UNUSED, BoxStanding.NEVER_STARTED):
                wrong.append(f"killed after step {killed_after}, seen at {steps}: {standing.value}")
            launcher.dies()
    monkeypatch.undo()
    return wrong


def test_no_step_between_its_looks_makes_a_reader_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = _readings(tmp_path, monkeypatch, lambda box: look(box, attempt=ATTEMPT, boot_id=BOOT))
    assert not wrong, "\n".join(wrong[:10])


def test_a_reader_that_looks_at_the_lock_first_would_be_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lock_first(box: Box) -> BoxFacts:
        locked = protocol.is_locked(box)
        ticket, _ = protocol._read_ticket(box)
        has_end, broken = protocol._has_end(box)
        return BoxFacts(True, ticket, True, True, locked, has_end, broken)

    def end_first(box: Box) -> BoxFacts:
        has_end, broken = protocol._has_end(box)
        ticket, _ = protocol._read_ticket(box)
        return BoxFacts(True, ticket, True, True, protocol.is_locked(box), has_end, broken)

    assert _readings(tmp_path / "lock", monkeypatch, lock_first)
    assert _readings(tmp_path / "end", monkeypatch, end_first)


def test_a_ticket_is_made_once_wherever_it_is_now(tmp_path: Path) -> None:
    for moved in (None, "ticket_taken", "ticket_withdrawn"):
        box = boxes.create(tmp_path / str(moved))
        assert boxes.write_ticket(box, attempt=ATTEMPT, boot_id=BOOT)
        if moved is not None:
            os.rename(box.ticket, getattr(box, moved))
        assert not boxes.write_ticket(box, attempt=ATTEMPT, boot_id=BOOT)
        assert box.ticket.exists() is (moved is None)
        assert boxes.withdraw(box) is (moved != "ticket_taken")
