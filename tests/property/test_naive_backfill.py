"""Starts under `conservative`, `easy`, `strict` and `greedy` beside a plain reading of docs/scheduling.md.

One node of GPUs, so that a list of booked spans is the whole state, looked through from end to end. First without
promises, then with caps and the short reserve, and with disciplines that change while promised starts stand.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from task_manager.limits import AdmissionLimits, ShortTaskReserve
from task_manager.order.policy_registry import by_name
from task_manager.planning.pass_model import Discipline, PassSettings
from task_manager.simulate import cluster_spec, comparison, workload
from task_manager.simulate.trace_records import TraceRecord
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import a_node, a_task

GPUS = 8
KEYS: dict[str, Callable[[Waiting], float]] = {
    "fifo": lambda task: task.submit_s,
    "sjf": lambda task: task.timeout_s,
    "ljf": lambda task: -task.timeout_s,
    "aging_sjf": lambda task: task.timeout_s + task.submit_s,
}
# From when on nobody who is submitted sorts ahead, with a shortest timeout of 0.1 s.
CLOSES: dict[str, Callable[[Waiting], float]] = {
    "fifo": lambda task: task.submit_s,
    "aging_sjf": lambda task: task.submit_s + max(0.0, task.timeout_s - 0.1),
}


@dataclass(frozen=True)
class Waiting:
    number: int
    submit_s: float
    run_s: float  # until it ends or is killed
    timeout_s: float
    gpus: int
    owner: str = "ann"


@dataclass(frozen=True)
class Span:
    start_s: float
    end_s: float
    task: Waiting


@dataclass(frozen=True)
class Rules:
    """What one account, and all tasks longer than ``long_s``, may hold together."""

    cap: int = GPUS
    long_s: float = 1e9
    of_long: int = GPUS
    reserved: int = 200  # so many have a reservation

    def groups(self, task: Waiting) -> Iterator[tuple[Callable[[Waiting], bool], int]]:
        """With whom it shares how many GPUs; first those of the node."""
        yield lambda other: True, GPUS
        if self.cap < GPUS:
            yield lambda other: other.owner == task.owner, self.cap
        if task.timeout_s > self.long_s:
            yield lambda other: other.timeout_s > self.long_s, self.of_long

    @property
    def limits(self) -> AdmissionLimits:
        reserve = ShortTaskReserve(GPUS - self.of_long, self.long_s) if self.of_long < GPUS else None
        return AdmissionLimits(running_gpus_per_user=self.cap if self.cap < GPUS else None, short_reserve=reserve)


def fits(spans: Sequence[Span], task: Waiting, at: float, rules: Rules, *, node: bool = True) -> bool:
    """Whether it has room at every moment; without ``node`` only as far as limits go."""
    until = at + task.timeout_s
    beside = [span for span in spans if span.start_s < until and span.end_s > at]
    moments = {at, *(span.start_s for span in beside if span.start_s > at)}
    for shares, most in list(rules.groups(task))[0 if node else 1 :]:
        there = [(span.start_s, span.end_s, span.task.gpus) for span in beside if shares(span.task)]
        for moment in moments:
            if sum([gpus for start, end, gpus in there if start <= moment < end]) + task.gpus > most:
                return False
    return True


def earliest(spans: Sequence[Span], task: Waiting, after: float, rules: Rules) -> float:
    moments = sorted({after, *(span.end_s for span in spans if span.end_s > after)})
    return next(at for at in moments if fits(spans, task, at, rules))


@dataclass
class World:
    """What runs, what waits, and what was promised."""

    rules: Rules
    key: Callable[[Waiting], float]
    closes: Callable[[Waiting], float] | None  # None: nothing is promised
    now: float = 0.0
    starts: dict[int, float] = field(default_factory=dict)
    running: dict[int, tuple[float, Span]] = field(default_factory=dict)  # when it really ends, and what is booked
    waiting: list[Waiting] = field(default_factory=list)
    promised: dict[int, float] = field(default_factory=dict)
    booked: dict[int, Span] = field(default_factory=dict)  # of this pass: promised starts and reservations

    def spans(self, but: Waiting) -> list[Span]:
        kept = [span for number, span in self.booked.items() if number != but.number]
        return [span for _, span in self.running.values()] + kept

    def place(self, task: Waiting, after: float) -> float:
        """Starts or books it at the earliest, no later than promised; returns when that is."""
        at = min(earliest(self.spans(task), task, after, self.rules), self.promised.get(task.number, 1e18))
        if at <= self.now:
            self.start(task)
        else:
            self.booked[task.number] = Span(at, at + task.timeout_s, task)
        return at

    def start(self, task: Waiting) -> None:
        self.booked.pop(task.number, None)
        self.promised.pop(task.number, None)
        self.waiting.remove(task)
        self.running[task.number] = (self.now + task.run_s, Span(self.now, self.now + task.timeout_s, task))
        self.starts[task.number] = self.now

    def try_all(self, tasks: Sequence[Waiting]) -> bool:
        """Starts those that fit now beside all that is booked, their own place aside; whether there was one."""
        before = len(self.starts)
        for task in tasks:
            if task in self.waiting and fits(self.spans(task), task, self.now, self.rules):
                self.start(task)
        return len(self.starts) > before

    def one_pass(self, discipline: str) -> None:
        self.waiting.sort(key=lambda task: (self.key(task), task.submit_s, task.number))
        while True:
            there = {task.number: task for task in self.waiting}
            self.booked = {i: Span(at, at + there[i].timeout_s, there[i]) for i, at in self.promised.items()}
            before = dict(self.promised)
            {"greedy": self.greedy, "strict": self.strict}.get(discipline, lambda: self.reserving(discipline))()
            for number in self.promised:
                self.promised[number] = self.booked[number].start_s
            if discipline in ("conservative", "easy") or self.promised == before:
                break
        if self.closes is not None and discipline in ("conservative", "easy"):
            for task in self.waiting:
                if task.number in self.booked and self.closes(task) <= self.now + 1e-6:
                    self.promised[task.number] = self.booked[task.number].start_s

    def greedy(self) -> None:
        self.try_all(list(self.waiting))
        for task in list(self.waiting):
            if task.number in self.promised:
                self.place(task, self.now)

    def strict(self) -> None:
        looked: list[Waiting] = []
        floor = self.now
        for task in list(self.waiting):
            if sum(one.number in self.booked for one in looked) >= self.rules.reserved:
                floor = 1e18
            looked.append(task)
            limited = not fits(self.spans(task), task, self.now, self.rules, node=False)
            if task.number not in self.promised and limited:
                continue
            at = self.place(task, floor)
            if not limited:
                floor = max(floor, at)

    def reserving(self, discipline: str) -> None:
        order, first = list(self.waiting), list[Waiting]()
        for task in order:
            if sum(one in self.waiting for one in first) >= (1 if discipline == "easy" else self.rules.reserved):
                break
            first.append(task)
            self.place(task, self.now)
        kept = first + [task for task in order if task not in first and task.number in self.promised]
        for task in kept[len(first) :]:
            self.place(task, self.now)
        behind = [task for task in order if task not in kept]
        self.try_all(behind)
        while self.try_all(kept):
            self.try_all(behind)


def naive(
    tasks: Sequence[Waiting], policy: str, turns: Sequence[tuple[float, str]], rules: Rules | None = None,
    *, promises: bool = False,
) -> dict[int, float]:  # fmt: skip
    """``turns``: from when on which discipline; the first from the start."""
    world = World(rules or Rules(), KEYS[policy], CLOSES[policy] if promises else None)
    ahead = sorted(tasks, key=lambda task: (task.submit_s, task.number))
    while ahead or world.waiting:
        instants = [task.submit_s for task in ahead[:1]] + [end_s for end_s, _ in world.running.values()]
        instants += [at for at, _ in turns if at > world.now] + [at for at in world.promised.values() if at > world.now]
        if world.closes is not None:
            instants += [at for at in map(world.closes, world.waiting) if at > world.now]
        world.now = now = min(instants)
        world.running = {number: run for number, run in world.running.items() if run[0] > now}
        while ahead and ahead[0].submit_s <= now:
            world.waiting.append(ahead.pop(0))
        world.one_pass([discipline for at, discipline in turns if at <= now][-1])
    return world.starts


def a_stream(chance: random.Random, count: int, gap_s: float = 60.0) -> list[Waiting]:
    tasks, now = [], 0.0
    for number in range(count):
        now += chance.expovariate(1 / gap_s)
        run_s = round(10 ** chance.uniform(1, 3), 2)
        timeout_s = round(run_s * chance.choice([1, 1, 1.5, 3, 0.7]), 2)
        gpus = chance.choice([1, 1, 1, 2, 2, 4, 8])
        tasks.append(Waiting(number, round(now, 2), min(run_s, timeout_s), timeout_s, gpus))
    return tasks


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("discipline", ["conservative", "easy", "strict", "greedy"])
def test_starts_are_those_of_the_plain_reading(discipline: str, seed: int) -> None:
    tasks = a_stream(random.Random(seed), 120)
    records = [
        TraceRecord(
            label=str(task.number), where="", row=task.number, submit_s=task.submit_s, runtime_s=task.run_s,
            timeout_s=task.timeout_s, gpus=task.gpus,
        )
        for task in tasks
    ]  # fmt: skip
    machines = cluster_spec.parse_cluster(f"1x{GPUS}")
    items = workload.build(records, machines)
    contestants = comparison.parse_contestants(list(KEYS), [discipline])
    simulation = comparison.Simulation(items, tuple(range(len(items))), machines, contestants, promises=False)
    for name, result in zip(KEYS, simulation.run(), strict=True):
        found = {number: life.start_s for number, life in enumerate(result.outcome.lives)}
        assert found == pytest.approx(naive(tasks, name, [(0.0, discipline)]), abs=1e-6), name


def lived(
    tasks: Sequence[Waiting], policy: str, turns: Sequence[tuple[float, str]], rules: Rules, *, promises: bool
) -> Cluster:
    """The same under `cycle.plan`."""
    settings = PassSettings(limits=rules.limits, reserved=rules.reserved, promised=200 if promises else 0)
    lives = {f"t{task.number:03d}": task.run_s for task in tasks}
    made = Cluster(
        [a_node(gpus=GPUS, cpu=100_000)], by_name(policy), settings, run_s=lambda task: lives[task.id.name],
        checked=False,
    )  # fmt: skip

    def turn(to: str) -> None:
        made.settings = replace(made.settings, discipline=Discipline(to))

    for at, discipline in turns:
        made.at(at, lambda to=discipline: turn(to))  # type: ignore[misc]
    made.submit(
        *(
            a_task(
                f"t{task.number:03d}", at=task.submit_s, timeout=task.timeout_s, gpus=task.gpus, owner=task.owner,
                memory=1,
            )
            for task in tasks
        )
    )  # fmt: skip
    made.run()
    return made


def some_rules(chance: random.Random) -> Rules:
    rules = Rules(cap=chance.choice([2, 4, 6, GPUS]), reserved=chance.choice([2, 200]))
    return rules if chance.random() < 0.5 else replace(rules, long_s=200.0, of_long=chance.choice([2, 4, 6]))


@pytest.mark.parametrize("group", range(8))
def test_starts_under_caps_and_changing_disciplines_are_those_of_the_plain_reading(group: int) -> None:
    """A cap hid tasks that it let start; under `strict` what stood behind a stored place went past it; under `greedy` a
    task's own place stood in its way."""
    promised = 0
    for seed in range(group, 400, 8):
        chance = random.Random(seed)
        rules = some_rules(chance)
        tasks = []
        for task in a_stream(chance, 16, gap_s=chance.choice([10.0, 40.0, 90.0])):
            most = min(rules.cap, rules.of_long)
            tasks.append(replace(task, gpus=min(task.gpus, most), owner=chance.choice(["ann", "ann", "ben"])))
        turns = [(0.0, chance.choice(list(Discipline)).value)]
        for _ in range(chance.choice([0, 1, 2, 3])):
            turns.append((turns[-1][0] + round(chance.uniform(1, 400), 2), chance.choice(list(Discipline)).value))
        policy, promises = chance.choice(["fifo", "aging_sjf"]), chance.random() < 0.8
        found = lived(tasks, policy, turns, rules, promises=promises)
        assert found.missed == [], f"seed {seed}"
        promised += found.promises
        want = naive(tasks, policy, turns, rules, promises=promises)
        starts = {int(task_id.name[1:]): at for task_id, at in found.starts.items()}
        assert starts == pytest.approx(want, abs=1e-6), f"seed {seed}: {policy}, {turns}, {rules}"
    assert promised > 50
