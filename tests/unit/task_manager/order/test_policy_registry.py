"""Policies by name, their parameters, those of other packages, and what a broken one does to the queue: nothing."""

from __future__ import annotations

import asyncio
import json
import math
import random
import signal
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from task_manager.model import Task
from task_manager.order import guard, policy_registry
from task_manager.order.policy import AgingSjf, ClusterView, Policy, View, sort_key
from task_manager.order.queue import TaskQueue
from task_manager.planning.pass_model import PassSettings
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import a_node, a_task, tid


def test_parameters_are_taken_from_the_name() -> None:
    assert policy_registry.by_name("aging_sjf:beta=2") == AgingSjf(beta=2.0)
    assert policy_registry.by_name("aging_sjf:beta=2,gamma=0.5") == AgingSjf(2.0, 0.5)
    assert policy_registry.by_name("aging_sjf:beta=2", {"aging_sjf": {"beta": 7.0, "gamma": 3.0}}) == AgingSjf(2.0, 3.0)
    assert policy_registry.by_name("fifo", {"aging_sjf": {"beta": 7.0}}).name == "fifo"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("aging_sjf:delta=2", "has no parameter 'delta'; it has beta, gamma"),
        ("fifo:beta=2", "has no parameter 'beta'; it has none"),
        ("aging_sjf:beta", "not of the form parameter=number"),
        ("aging_sjf:beta=much", "not of the form parameter=number"),
        ("aging_sjf:beta=nan", "not of the form parameter=number"),
        ("aging_sjf:gamma=0", "gamma must be above 0"),
        ("aging_sjf:beta=-1", "beta must be at least 0"),
        ("adaptive:decay=2", "decay must be above 0 and at most 1"),
        ("aging_sjf:beta=1e308", "Policy 'aging_sjf:beta=1e308' gives a task of 365d no finite number"),
        ("aging_sjf:gamma=1e300", "gives a task of 0.1s no finite number"),
        ("log_aging:c=1e308", "gives a task of 365d no finite number"),
        ("adaptive:c_min=1e308", "gives a task of 365d no finite number"),
        ("fair:spread=1e308", "no finite number"),
        ("lottery", "There is no scheduling policy 'lottery'; there are"),
    ],
)
def test_what_is_wrong_is_said(text: str, want: str) -> None:
    with pytest.raises(policy_registry.BadPolicy) as refused:
        policy_registry.by_name(text)
    assert want in str(refused.value)


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of somebody else, as pip would have installed it."""
    (tmp_path / "lifo_policy.py").write_text(
        "from dataclasses import dataclass\n"
        "from task_manager.policy import Policy\n\n"
        "@dataclass\n"
        "class Lifo(Policy):\n"
        "    name = 'lifo'\n"
        "    static = True\n"
        "    weight: float = 1.0\n\n"
        "    def key(self, task, now, view):\n"
        "        return -self.weight * task.submitted_at\n\n"
        "def broken(): raise RuntimeError('no licence')\n"
        "def strange(): return 7\n\n"
        "class Locked(Lifo):\n"
        "    static = False\n\n"
        "    def __init__(self):\n"
        "        import threading\n"
        "        self.lock = threading.Lock()\n\n"
        "class Hollow(Lifo):\n"
        "    static = False\n\n"
        "    def __deepcopy__(self, memo):\n"
        "        return None\n\n"
        "class Nameless(Lifo):\n"
        "    @property\n"
        "    def name(self):\n"
        "        raise LookupError('who am I?')\n\n"
        "def leaves():\n"
        "    import asyncio\n"
        "    raise asyncio.CancelledError('gone')\n"
    )
    info = tmp_path / "lifo_policy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lifo-policy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[headway.policies]\nlifo = lifo_policy:Lifo\nbroken = lifo_policy:broken\n"
        "strange = lifo_policy:strange\nabsent = lifo_policy:Absent\nlocked = lifo_policy:Locked\n"
        "hollow = lifo_policy:Hollow\nnameless = lifo_policy:Nameless\nleaves = lifo_policy:leaves\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lifo_policy", raising=False)
    return tmp_path


def test_a_policy_of_another_package_orders_the_queue(other_package: Path) -> None:
    order = policy_registry.by_name("lifo:weight=2")
    assert "lifo" in policy_registry.known_names()
    cluster = Cluster([a_node(gpus=1)], order)
    cluster.submit(*(a_task(f"t{i}", at=float(i), timeout=100.0, gpus=1) for i in range(4)))
    cluster.run()
    assert sorted(cluster.starts, key=cluster.starts.__getitem__) == [tid("t0"), tid("t3"), tid("t2"), tid("t1")]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("broken", "can't be used: no licence"),
        ("strange", "does not give a task_manager.policy.Policy"),
        ("absent", "does not load"),
        ("locked", "can't be copied, as previews need it: cannot pickle '_thread.lock' object"),
        ("hollow", "can't be copied, as previews need it: its copy is a NoneType"),
        ("nameless", "its `name` is no text"),
        ("leaves", "can't be used: gone"),
        ("lifo:height=1", "no parameter 'height'; it has weight"),
    ],
)
def test_a_policy_of_another_package_that_is_no_use_is_refused(other_package: Path, name: str, want: str) -> None:
    with pytest.raises(policy_registry.BadPolicy) as refused:
        policy_registry.by_name(name)
    assert want in str(refused.value)


def test_a_name_that_two_packages_give_is_nobodys(other_package: Path) -> None:
    info = other_package / "other_lifo-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-lifo\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[headway.policies]\nlifo = other_lifo:Lifo\n")
    with pytest.raises(policy_registry.BadPolicy) as refused:
        policy_registry.by_name("lifo")
    told = "The scheduling policy is 'lifo', a name that lifo-policy 1.0 and other-lifo 2.0 both give"
    assert str(refused.value).startswith(told)


class Moody(Policy):
    """Fails for one task."""

    name = "moody"

    def __init__(self, victim: str, how: object, *, static: bool) -> None:
        self.victim, self.how = victim, how
        self.static = static  # type: ignore[misc]

    def key(self, task: Task, now: float, view: View | None) -> float:
        if task.id.name != self.victim:
            return -task.submitted_at
        if isinstance(self.how, BaseException):
            raise self.how
        return self.how  # type: ignore[return-value]


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize(
    "how",
    [math.nan, math.inf, 10**400, "seven", "7", True, None, RuntimeError("out of ideas"), ZeroDivisionError(),
     SystemExit(1), asyncio.CancelledError(), GeneratorExit(), type("Own", (BaseException,), {})()],
)  # fmt: skip
def test_a_policy_that_fails_is_stood_in_for_and_loses_nothing(how: object, static: bool) -> None:
    cluster = Cluster([a_node(gpus=1)], Moody("t2", how, static=static))
    cluster.submit(*(a_task(f"t{i}", at=float(i), timeout=100.0 - i * 10, gpus=1) for i in range(6)))
    cluster.run(until=50.0)
    assert cluster.last is not None
    assert "moody failed for" in cluster.last.policy_failed
    assert "t2" in cluster.last.policy_failed
    want = sorted(cluster.tasks.values(), key=lambda t: sort_key(t, AgingSjf().key(t, 0.0, None)))
    assert cluster.queue.page(0, 9) == [task.id for task in want]
    assert cluster.reservations == {}  # a rule that may come back promises nothing
    cluster.cancel(tid("t2"))
    made = cluster.step()
    assert made.policy_failed == ""
    assert cluster.queue.page(0, 9) == [tid("t5"), tid("t4"), tid("t3"), tid("t1")]
    cluster.run()
    assert len(cluster.starts) == 5


class Torn(Policy):
    """Every hook fails."""

    name = "torn"

    def __init__(self, how: BaseException) -> None:
        self.how = how

    def key(self, task: Task, now: float, view: View | None) -> float:
        return task.timeout_s

    def arrived(self, task: Task, view: View) -> None:
        raise self.how

    def ended(self, task: Task, ran_s: float, view: View) -> None:
        raise self.how


@pytest.mark.parametrize("how", [KeyError("hook"), SystemExit(2)])
def test_hooks_that_fail_lose_nothing_either(how: BaseException) -> None:
    cluster = Cluster([a_node(gpus=1)], Torn(how))
    cluster.submit(*(a_task(f"t{i}", at=float(i), timeout=100.0, gpus=1) for i in range(4)))
    cluster.run(until=150.0)
    assert cluster.last is not None
    assert "torn failed for" in cluster.last.policy_failed
    cluster.run()
    assert len(cluster.starts) == 4


class Vague(Policy):
    """Says something odd about when nobody new sorts ahead."""

    name = "vague"
    static = True

    def __init__(self, how: object) -> None:
        self.how = how

    def key(self, task: Task, now: float, view: View | None) -> float:
        return task.submitted_at

    def closes_at(self, task: Task, min_timeout_s: float) -> float | None:
        if isinstance(self.how, BaseException):
            raise self.how
        return self.how  # type: ignore[return-value]


@pytest.mark.parametrize(
    "how", ["0", "soon", True, math.nan, math.inf, -math.inf, [0.0], None, SystemExit(1), ValueError("never")]
)
def test_a_policy_that_can_not_tell_when_it_closes_promises_nothing(how: object) -> None:
    cluster = Cluster([a_node(gpus=1)], Vague(how))
    cluster.submit(*(a_task(f"t{i}", at=float(i), timeout=100.0, gpus=1) for i in range(4)))
    cluster.run(until=50.0)
    assert cluster.last is not None
    assert cluster.last.policy_failed == ""
    assert cluster.queue.page(0, 9) == [tid(f"t{i}") for i in range(1, 4)]
    assert [place for place in cluster.reservations.values() if place.promised_s is not None] == []
    cluster.run()
    assert len(cluster.starts) == 4


def test_ctrl_c_ends_what_nothing_else_would_and_else_is_a_policys_own_word() -> None:
    queue = TaskQueue(Moody("t", KeyboardInterrupt(), static=True))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            queue.add(a_task("t"), runnable=True)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a service, which has a handler of its own
        queue.add(a_task("t"), runnable=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert queue.failure.endswith("KeyboardInterrupt()")
    assert queue.page(0, 9) == [tid("t")]


def test_numbers_of_other_packages_are_numbers() -> None:
    assert guard.finite_number(Fraction(1, 2)) == 0.5
    with pytest.raises(TypeError, match="its number is a Decimal"):
        guard.finite_number(Decimal(1))


def test_another_policy_takes_over_a_full_queue() -> None:
    queue = TaskQueue(policy_registry.by_name("sjf"))
    tasks = [a_task(f"t{i}", at=float(i), timeout=100.0 - i) for i in range(5)]
    for task in tasks:
        queue.add(task, runnable=task.id.name != "t3")
    assert queue.page(0, 9) == [tid(f"t{i}") for i in (4, 3, 2, 1, 0)]
    for name in ("fifo", "fair", "hrrn", "adaptive", "fifo"):
        queue.change_policy(policy_registry.by_name(name))
        queue.sort(10.0, ClusterView(2, queue.waiting_gpu_s))
        assert len(queue) == 5
        assert not queue.is_runnable(tid("t3"))
    assert queue.page(0, 9) == [tid(f"t{i}") for i in range(5)]
    assert [key[5] for key in queue.ready_keys()] == ["t0", "t1", "t2", "t4"]


@pytest.mark.parametrize("name", ["hrrn", "adaptive", "fair", "aging_sjf", "log_aging", "ljf"])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_is_that_of_a_full_sort_whatever_came_and_went(name: str, seed: int) -> None:
    chance = random.Random(seed)
    order, queue = policy_registry.by_name(name), TaskQueue(policy_registry.by_name(name))
    queue.policy = order
    there: dict[str, Task] = {}
    now = 0.0
    for i in range(120):
        now += chance.uniform(0, 50)
        if there and chance.random() < 0.4:
            task = there.pop(chance.choice(list(there)))
            queue.remove(task.id)
            queue.ended(task, task.timeout_s * chance.random())
        else:
            task = a_task(
                f"t{i:03d}",
                at=now - chance.choice([0, 0, 30]),
                timeout=chance.uniform(1, 900),
                gpus=chance.randint(0, 2),
                owner=chance.choice("ab"),
                priority=chance.choice([0, 0, 1]),
            )
            there[task.id.name] = task
            queue.add(task, runnable=True)
        view = ClusterView(4, queue.waiting_gpu_s)
        queue.sort(now, view)
        want = sorted(there.values(), key=lambda t: sort_key(t, order.key(t, now, view)))
        assert queue.page(0, 999) == [task.id for task in want]
        assert [queue.position(task.id) for task in want] == list(range(1, len(want) + 1))
        assert queue.waiting_gpu_s == pytest.approx(sum(t.shape.gpus * t.timeout_s for t in there.values()), abs=1e-3)


def test_adaptive_learns_how_much_of_their_timeouts_tasks_use() -> None:
    order = policy_registry.by_name("adaptive")
    view = ClusterView(2, waiting_gpu_s=4000.0)
    ten, hundred = a_task("a", timeout=10.0, gpus=1), a_task("b", timeout=100.0, gpus=1)
    assert order.key(hundred, 0.0, view) - order.key(ten, 0.0, view) == pytest.approx(2000.0)
    order.ended(a_task(timeout=100.0, gpus=2), 50.0, view)
    assert order.key(hundred, 0.0, view) - order.key(ten, 0.0, view) == pytest.approx(1000.0)
    order.ended(a_task(timeout=100.0, gpus=1), 100.0, view)
    rho = (100.0 * 0.98 + 100.0) / (200.0 * 0.98 + 100.0)
    assert order.key(hundred, 0.0, view) - order.key(ten, 0.0, view) == pytest.approx(2000.0 * rho)
    again = policy_registry.by_name("adaptive")
    again.restore(order.state())
    assert again.key(hundred, 0.0, view) == order.key(hundred, 0.0, view)
    assert order.key(hundred, 0.0, ClusterView(2, 1.0)) - order.key(ten, 0.0, ClusterView(2, 1.0)) == 60.0


def test_fair_keeps_its_tags_over_a_restart() -> None:
    view = ClusterView(2)
    order = policy_registry.by_name("fair")
    flood = [a_task(f"t{i}", at=100.0, timeout=50.0, gpus=1) for i in range(4)]
    for task in flood:
        order.arrived(task, view)
        order.arrived(task, view)
    assert [order.terms(task, 100.0)["spread_s"] for task in flood] == [-0.0, -100.0, -200.0, -300.0]
    order.ended(flood[0], 50.0, view)
    again = policy_registry.by_name("fair")
    again.restore(order.state())
    newcomer = a_task("new", at=150.0, timeout=50.0, gpus=1)
    again.arrived(newcomer, view)
    assert again.terms(newcomer, 150.0)["spread_s"] == -(100.0 + 400.0 - 150.0)


def test_under_fair_what_never_ran_costs_the_next_one_nothing() -> None:
    """A task of 7 days that was cancelled at once made its account's next one age from 28 days on."""
    queue = TaskQueue(policy_registry.by_name("fair"))

    def add(task: Task) -> None:
        queue.add(task, runnable=True)
        queue.sort(task.submitted_at, ClusterView(2))

    week = a_task("week", gpus=2, timeout=604_800.0)
    add(week)
    queue.remove(week.id)
    queue.ended(week, 0.0)
    add(a_task("soon", at=10.0, gpus=1, timeout=10.0))
    add(a_task("bens", at=20.0, gpus=1, timeout=86_400.0, owner="ben"))
    assert [task_id.name for task_id in queue.in_order()] == ["soon", "bens"]
    assert queue.policy.terms(a_task("soon", at=10.0), 20.0)["spread_s"] == 0.0


@pytest.mark.parametrize(
    ("facts", "ran_s", "want"),
    [
        ({}, 0.0, 0.0),
        ({}, 5.0, -400.0),
        ({"user_failures": 1}, 0.0, -400.0),  # cancelled in the pause after a run
        ({"losses": 1}, 0.0, -400.0),
    ],
)
def test_under_fair_what_has_run_is_paid(facts: dict[str, Any], ran_s: float, want: float) -> None:
    order, view = policy_registry.by_name("fair"), ClusterView(1)
    order.arrived(a_task("gone", timeout=100.0, gpus=1), view)
    order.ended(a_task("gone", timeout=100.0, gpus=1, **facts), ran_s, view)
    order.arrived(a_task("next", gpus=1), view)
    assert order.terms(a_task("next"), 0.0)["spread_s"] == want


@pytest.mark.parametrize("seed", range(60))
def test_under_fair_lines_are_as_if_those_that_never_ran_had_not_been_there(seed: int) -> None:
    chance = random.Random(seed)
    order, view = policy_registry.by_name("fair"), ClusterView(chance.randint(1, 4))
    at, there, gone = 0.0, [], set()
    for i in range(chance.randint(2, 30)):
        at += chance.choice([0.0, 0.0, 5.0, 500.0])
        timeout_s = float(chance.choice([10, 60, 300]))
        task = a_task(f"t{i}", at=at, timeout=timeout_s, gpus=chance.choice([0, 1, 2]), owner=chance.choice("ab"))
        there.append(task)
        order.arrived(task, view)
        if chance.random() < 0.4:
            left = chance.choice([one for one in there if one.id not in gone])
            gone.add(left.id)
            order.ended(left, 0.0, view)
        if chance.random() < 0.2:
            state = order.state()
            order = policy_registry.by_name("fair")
            order.restore(json.loads(json.dumps(state)))
    without = policy_registry.by_name("fair")
    stay = [task for task in there if task.id not in gone] + [a_task("new", at=at, owner=owner) for owner in "ab"]
    for task in stay:
        without.arrived(task, view)
        order.arrived(task, view)
    for task in stay:
        assert order.terms(task, at)["spread_s"] == pytest.approx(without.terms(task, at)["spread_s"]), task.id


def test_under_fair_time_on_hold_does_not_age() -> None:
    order = policy_registry.by_name("fair")
    order.arrived(a_task("t", at=100.0), ClusterView(1))
    assert order.key(a_task("t", at=900.0, timeout=1.0), 900.0, ClusterView(1)) == 900.0


def test_fair_reads_what_a_version_without_lines_has_kept() -> None:
    order, view = policy_registry.by_name("fair"), ClusterView(1)
    order.restore({"actual_s": 1.0, "booked_s": 2.0, "tags": [["j1", "t", 70.0]], "users": {"ann": [70.0, 10.0]}})
    assert order.terms(a_task("t", job="j1", at=50.0), 60.0)["spread_s"] == -20.0
    order.ended(a_task("t", job="j1"), 0.0, view)
    order.arrived(a_task("next", at=80.0), view)
    assert order.terms(a_task("next", at=80.0), 80.0)["spread_s"] == -30.0


def _wait_behind_a_flood(policy: str, claimed_s: float) -> float:
    """300 tasks of one account, then a long one of another, which waits so long."""
    cluster = Cluster([a_node(gpus=4, cpu=10_000)], policy_registry.by_name(policy), PassSettings(), checked=False)
    flood = [a_task(f"a{i:03d}", timeout=claimed_s, gpus=1, owner="ann") for i in range(300)]
    cluster.submit(*flood, a_task("b", at=10.0, timeout=7200.0, gpus=1, owner="ben"))
    cluster.run(until=300 * 120.0)
    return cluster.starts[tid("b")] - 10.0


def test_a_flood_of_one_account_ages_as_if_spread_out_under_fair() -> None:
    flood_s = 300 * 120.0 / 4
    assert _wait_behind_a_flood("fair", 120.0) < 0.4 * flood_s
    assert _wait_behind_a_flood("adaptive", 120.0) > 0.8 * flood_s


def test_who_claims_a_second_is_ended_after_a_second_so_the_claim_gains_nothing() -> None:
    assert _wait_behind_a_flood("fair", 1.0) <= 300 * 1.0 / 4


def test_an_urgent_task_does_not_lift_what_it_needs_but_its_job_ages_as_one() -> None:
    """The rule for DAGs: priority is the job's, and every task of it ages from the job's submission."""
    cluster = Cluster([a_node(gpus=1)], AgingSjf())
    cluster.submit(a_task("runs", timeout=100.0, gpus=1))
    cluster.submit(*(a_task(f"m{i:02d}", at=1.0, timeout=1000.0, gpus=1) for i in range(50)))
    chain = [a_task(name, job="j9", at=1.0, timeout=100.0, gpus=1, priority=1) for name in "bc"]
    cluster.submit(chain[0])
    cluster.at(200.0, lambda: cluster.enqueue(chain[1]))
    cluster.run()
    assert [cluster.starts[task.id] for task in chain] == [100.0, 200.0]


def test_the_long_task_starts_within_the_bound_under_an_endless_flow_of_short_ones() -> None:
    cluster = Cluster([a_node(gpus=1)], AgingSjf(), checked=False)
    long = a_task("long", at=0.5, timeout=3600.0, gpus=1)
    cluster.submit(long, *(a_task(f"s{i:03d}", at=i * 60.0, timeout=60.0, gpus=1) for i in range(120)))
    cluster.run(until=7200.0)
    # Only what comes within T - T' after it may overtake: 59 minutes of a full slot, and the one that runs.
    assert cluster.starts[long.id] <= 0.5 + (3600.0 - 60.0) + 2 * 60.0
