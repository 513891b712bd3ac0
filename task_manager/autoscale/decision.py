"""What the queue lacks, and which machines could leave. Pure.

Only what more machines would cure counts: not a limit of an account, a hold or a pause. A task whose shape no machine
has counts only if the settings name a shape that the hook can make. Machines are only named idle while nothing lacks,
so that none comes and goes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway.ids import NodeId
from headway.states import Admission, NodeHealth

from ..model import Gpu, Node, Shape
from ..planning.pass_model import WaitCause
from ..planning.placement import CpuTasks, full_capacity, shortages

# What more machines don't change.
_NO_CURE = frozenset({WaitCause.USER_LIMIT, WaitCause.SHORT_RESERVE, WaitCause.BEHIND})


@dataclass(frozen=True, slots=True)
class MachineShape:
    """A machine that the hook can make."""

    name: str
    cpu_centi: int
    memory_bytes: int
    gpus: int = 0
    gpu_model: str = ""
    gpu_memory_bytes: int = 0

    def as_node(self) -> Node:
        """Such a machine, empty and open, as placement counts."""
        name = f"a machine of the shape {self.name}"
        gpus = (Gpu(f"{self.name}-{i}", self.gpu_model, self.gpu_memory_bytes, i) for i in range(self.gpus))
        return Node(
            NodeId(name), 0, "", NodeHealth.READY, Admission.OPEN, self.cpu_centi, self.memory_bytes, tuple(gpus)
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """When the hook is told. Times in seconds."""

    waits_s: float = 60.0
    idle_s: float = 900.0
    cooldown_s: float = 300.0
    min_nodes: int = 0
    max_nodes: int = 10
    shapes: tuple[MachineShape, ...] = ()
    cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT


@dataclass(frozen=True, slots=True)
class Waiting:
    """A task that could run, as the last pass left it."""

    shape: Shape
    waited_s: float
    starts_in_s: float | None = None  # as estimated; None: not known
    promised_at: float | None = None  # epoch seconds
    why: WaitCause | None = None


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Tasks of one shape that can't start soon."""

    shape: Shape
    count: int
    oldest_wait_s: float
    promised_at: float | None  # the first of them
    machines: tuple[str, ...]  # names of configured shapes that could hold it; empty: one like those that there are


@dataclass(frozen=True, slots=True)
class Idle:
    """A machine on which nothing has run for long."""

    node_id: NodeId
    idle_s: float


@dataclass(frozen=True, slots=True)
class Ask:
    """What the hook is told. Either ``lacks`` or ``idle`` is empty."""

    nodes: int
    may_add: int
    may_remove: int
    lacks: tuple[Shortfall, ...] = ()
    idle: tuple[Idle, ...] = ()


def lacks(queue: Iterable[Waiting], nodes: Sequence[Node], idle_s: Mapping[NodeId, float], rules: Rules) -> Ask | None:
    """What to tell the hook; None: nothing.

    ``idle_s``: for how long nothing has run on a node, nor is kept there for a task.
    """
    there = [node for node in nodes if node.health is not NodeHealth.DOWN]
    late = [one for one in queue if _is_late(one, rules)]
    found = _lacking(late, nodes, rules)
    if found:
        # One that is being emptied or is closed still is a machine that somebody pays for.
        may_add = max(0, rules.max_nodes - len(there))
        return Ask(len(there), may_add, 0, lacks=found) if may_add else None
    open_nodes = [node for node in there if node.admission is Admission.OPEN]
    may_remove = max(0, len(open_nodes) - rules.min_nodes)
    leaving = sorted(
        (Idle(node.id, idle_s[node.id]) for node in open_nodes if idle_s.get(node.id, 0.0) >= rules.idle_s),
        key=lambda one: (-one.idle_s, one.node_id),
    )[:may_remove]
    return Ask(len(there), 0, may_remove, idle=tuple(leaving)) if leaving else None


def _is_late(one: Waiting, rules: Rules) -> bool:
    """Whether a task has waited for long, will go on waiting, and not for what no machine changes."""
    if one.why in _NO_CURE or one.shape.node_id or one.waited_s < rules.waits_s:
        return False
    return one.starts_in_s is None or one.starts_in_s > rules.waits_s


def _lacking(late: Sequence[Waiting], nodes: Sequence[Node], rules: Rules) -> tuple[Shortfall, ...]:
    groups: dict[Shape, list[Waiting]] = {}
    for one in late:
        groups.setdefault(one.shape, []).append(one)
    made = {one.name: one.as_node() for one in rules.shapes}
    found = []
    for shape, tasks in groups.items():
        machines = tuple(name for name, node in made.items() if _holds(node, shape, rules.cpu_tasks))
        # Without named shapes the hook makes machines like those that there are. If there is none, it knows best.
        like_these = not made and (not nodes or any(_holds(node, shape, rules.cpu_tasks) for node in nodes))
        if not machines and not like_these:
            continue
        promised = [one.promised_at for one in tasks if one.promised_at is not None]
        oldest_s = max(one.waited_s for one in tasks)
        found.append(Shortfall(shape, len(tasks), oldest_s, min(promised, default=None), machines))
    return tuple(sorted(found, key=lambda lack: (-lack.oldest_wait_s, -lack.count)))


def _holds(node: Node, shape: Shape, cpu_tasks: CpuTasks) -> bool:
    return not shortages(shape, full_capacity(node), cpu_tasks)


def to_json(ask: Ask, *, at: float, cluster: str, rules: Rules) -> dict[str, object]:
    """The message for the hook; docs/operations/growth.md says what each field means."""
    return {
        "version": 1,
        "at": at,
        "cluster": cluster,
        "want": "grow" if ask.lacks else "shrink",
        "nodes": {
            "now": ask.nodes,
            "min": rules.min_nodes,
            "max": rules.max_nodes,
            "may_add": ask.may_add,
            "may_remove": ask.may_remove,
        },
        "lacks": [
            {
                "count": lack.count,
                "cpus": lack.shape.cpu_centi / 100,
                "memory_bytes": lack.shape.memory_bytes,
                "gpus": lack.shape.gpus,
                "gpu_models": list(lack.shape.gpu_models),
                "gpu_memory_bytes": lack.shape.gpu_memory_bytes,
                "architecture": lack.shape.architecture,
                "oldest_wait_s": round(lack.oldest_wait_s, 1),
                "promised_start_at": lack.promised_at,
                "shapes": list(lack.machines),
            }
            for lack in ask.lacks
        ],
        "idle": [{"node": one.node_id, "idle_s": round(one.idle_s, 1)} for one in ask.idle],
    }
