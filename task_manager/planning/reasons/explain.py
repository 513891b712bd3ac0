"""Why a task waits, in sentences for people. The same predicates that place tasks give the reasons."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from headway.ids import NodeId, TaskId
from headway.model.reasons import WaitReason, WaitWord
from headway.states import Admission
from headway.units import counted, format_size, round_duration, round_size

from ...limits import AdmissionLimits
from ...model import GPU_UNAVAILABLE, Gpu, Node, Shape, Task
from ..bookings import MovedPromise
from ..limit_checks import GpuHoldings, RefusalGround, limits_reached, ruled_out
from ..pass_model import Wait, WaitCause
from ..placement import (
    CpuTasks,
    FreeResources,
    Lack,
    Shortage,
    distance,
    fits,
    full_capacity,
    shortages,
    suits,
    why_closed,
)
from .feasibility import why_never
from .phrases import count_cpus, cpus, gpus_asked, if_it_took_work, if_they_worked, sick_cards, some_of

_ORDER = {word: number for number, word in enumerate(WaitWord)}


class ClusterSnapshot:
    """The cluster at one moment, as far as it gives reasons to wait. Tasks of equal shape are looked at once.

    ``free_resources`` are those of every known node. Without ``limits`` no reasons by limits are given. ``holdings``
    counts against the limits now; without it no reasons are given by limits that are reached.
    """

    def __init__(
        self,
        free_resources: Sequence[FreeResources],
        cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT,
        limits: AdmissionLimits | None = None,
        holdings: GpuHoldings | None = None,
    ) -> None:
        self.limits = limits
        self.holdings = holdings
        self.gpus = sum(free.node.whole_gpus for free in free_resources)
        self.has_nodes = bool(free_resources)
        self._free_resources = free_resources
        self._cpu_tasks = cpu_tasks
        self._node_reasons: dict[Shape, list[WaitReason]] = {}
        self._could_hold: dict[Shape, Set[NodeId]] = {}

    def could_hold(self, shape: Shape) -> Set[NodeId]:
        """The nodes that could hold this shape if they were empty."""
        found = self._could_hold.get(shape)
        if found is None:
            empty = ((free.node.id, full_capacity(free.node)) for free in self._free_resources)
            found = {node_id for node_id, free in empty if not shortages(shape, free, self._cpu_tasks)}
            self._could_hold[shape] = found
        return found

    def node_reasons(self, shape: Shape) -> list[WaitReason]:
        """Why no node can take this shape now; empty: one can."""
        found = self._node_reasons.get(shape)
        if found is None:
            found = self._node_reasons[shape] = _node_reasons(shape, self._free_resources, self._cpu_tasks)
        return found


def wait_reasons(
    task: Task,
    cluster: ClusterSnapshot,
    *,
    ahead: int,
    all_seen: bool = True,
    pause_s: float | None = None,
    wait: Wait | None = None,
    promised: bool = False,
    overtaken_by: Sequence[TaskId] = (),
    may_still_run: str = "",
) -> list[WaitReason]:
    """All reasons why a waiting task waits; empty: it would start in the next pass.

    What rules it out as things are comes first, then the reasons that are the easiest to remove. ``ahead`` is the
    number of tasks before it in the queue; without ``all_seen`` there may be more. ``pause_s`` is what is left of its
    pause, in seconds; None: it is in no pause. ``wait`` is what the last pass found. ``promised``: its start is
    promised. ``overtaken_by`` are the first tasks behind it whose promised starts come before its own.
    ``may_still_run`` says why it can't be ruled out that it runs already.
    """
    found: list[WaitReason] = []
    if task.held:
        found.append(WaitReason(WaitWord.HELD, "It is on hold; release it to let it run."))
    if may_still_run:
        found.append(WaitReason(WaitWord.MAY_STILL_RUN, may_still_run))
    if pause_s is not None:
        why = f" {task.reason.sentence}" if task.reason is not None else ""
        found.append(WaitReason(WaitWord.RETRY_PAUSE, f"It is tried again in {max(0.0, pause_s):.0f} s.{why}"))
    node_reasons, of_limits = cluster.node_reasons(task.shape), _of_limits(task, cluster)
    found += [*node_reasons, *of_limits]
    there_is_room = not found
    found.extend(_of_holdings(task, cluster))
    if there_is_room and wait is not None:
        known = {reason.word for reason in found}
        found.extend(reason for reason in _of_pass(task, wait) if reason.word not in known)
    busy = any(reason.word in _BUSY for reason in found)
    if busy and overtaken_by:
        found.append(_of_promises(overtaken_by))
    if busy and ahead:
        plural = "task is" if ahead == 1 else "tasks are"
        count = f"{ahead}" if all_seen else f"At least {ahead}"
        stands = "; its promised start still holds" if promised else ""
        found.append(WaitReason(WaitWord.BEHIND_HIGHER_PRIORITY, f"{count} waiting {plural} ahead of it{stands}."))
    # A task that can't start as things are must show that first: all else passes by itself.
    never = [*of_limits, *(reason for reason in node_reasons if reason.word in _NEVER and cluster.has_nodes)]
    return sorted(found, key=lambda reason: (reason not in never, _ORDER[reason.word]))


def _of_promises(tasks: Sequence[TaskId]) -> WaitReason:
    if len(tasks) == 1:
        sentence = f"{tasks[0]} is behind it, but was promised an earlier start before this task came ahead."
    else:
        sentence = f"{tasks[0]} and others are behind it, but were promised earlier starts before this task came ahead."
    return WaitReason(WaitWord.BEHIND_PROMISED_START, sentence)


def moved_promise_reason(moved: MovedPromise, start_s: float | None) -> WaitReason:
    """The reason that a promised start no longer holds. ``start_s`` is the start estimated now, by the same clock."""
    later_s = 0.0 if start_s is None else start_s - moved.promised_s
    by = f" by {round_duration(later_s)}" if later_s >= 1 else ""
    what = f"Its promised start has moved{by}" if by else "Its promised start no longer holds"
    return WaitReason(WaitWord.PROMISE_MOVED, f"{what}: {moved.cause}.")


def _of_pass(task: Task, wait: Wait) -> list[WaitReason]:
    """Why a task waits though a node has room for it."""
    of_node = f" of {wait.node_id}" if wait.node_id else ""
    match wait.why:
        case WaitCause.RESERVED:
            whom = f"{wait.blocker}" if wait.blocker is not None else "tasks ahead of it"
            later = "which would start later if this task started now"
            sentence = f"The free resources{of_node} are kept for {whom}, {later}."
            return [WaitReason(WaitWord.RESERVED_FOR_LARGER_TASK, sentence)]
        case WaitCause.BEHIND:
            sentence = (
                f"{wait.blocker} must start first: no task starts before the one ahead (overtaking rule: strict)."
            )
            return [WaitReason(WaitWord.BEHIND_HIGHER_PRIORITY, sentence)]
        case WaitCause.USER_LIMIT:
            sentence = f"{task.owner} already holds as many GPUs as one account may hold at a time."
            if wait.blocker is not None:
                sentence = (
                    f"The GPUs that the account {task.owner} may still hold are kept for {wait.blocker}, which "
                    "would start later if this task started now."
                )
            return [WaitReason(WaitWord.USER_LIMIT, sentence)]
        case WaitCause.SHORT_RESERVE:
            sentence = "The free GPUs are kept for tasks with shorter timeouts."
            if wait.blocker is not None:
                sentence = (
                    "Tasks with timeouts as long as this may hold only some of the GPUs. What they may still hold is "
                    f"kept for {wait.blocker}, which would start later if this task started now."
                )
            return [WaitReason(WaitWord.KEPT_FOR_SHORT_TASKS, sentence)]
        case WaitCause.NO_NODE | WaitCause.NO_ROOM | WaitCause.NOT_ADMITTED:
            return []  # that was so in the last pass; by now there is room


_GROUNDS = {
    RefusalGround.MAX_TIMEOUT: WaitWord.NO_SUCH_NODE_YET,
    RefusalGround.USER_GPUS: WaitWord.USER_LIMIT,
    RefusalGround.SHORT_RESERVE: WaitWord.KEPT_FOR_SHORT_TASKS,
}


def _of_limits(task: Task, cluster: ClusterSnapshot) -> list[WaitReason]:
    """Why it can't start with these limits and this number of GPUs."""
    if cluster.limits is None:
        return []
    found = ruled_out(cluster.limits, task.shape, task.timeout_s, gpus=cluster.gpus)
    return [WaitReason(_GROUNDS[one.ground], f"{one.sentence} It waits until that changes.") for one in found]


def _of_holdings(task: Task, cluster: ClusterSnapshot) -> list[WaitReason]:
    """Why it can't start as long as running tasks hold so many GPUs."""
    if cluster.limits is None or cluster.holdings is None:
        return []
    found = limits_reached(cluster.limits, task, cluster.holdings, gpus=cluster.gpus)
    return [WaitReason(_GROUNDS[one.ground], one.sentence) for one in found]


_BUSY = frozenset({WaitWord.WAITING_FOR_CPU_OR_MEMORY, WaitWord.WAITING_FOR_GPU, WaitWord.WAITING_FOR_GPU_MODEL})
_NEVER = frozenset({WaitWord.NO_SUCH_NODE_YET, WaitWord.IMAGE_MISSING})  # if there are machines


def _node_reasons(shape: Shape, free_resources: Sequence[FreeResources], cpu_tasks: CpuTasks) -> list[WaitReason]:
    if shape.node_id:
        free_resources = [free for free in free_resources if free.node.id == shape.node_id]
        if not free_resources:
            return [WaitReason(WaitWord.NO_SUCH_NODE_YET, f"It waits for {shape.node_id}, which is not there.")]
    nodes = [free.node for free in free_resources]
    if not nodes:
        return [WaitReason(WaitWord.NO_SUCH_NODE_YET, "It waits for workers: no machine has joined yet.")]
    able = [
        free for free in free_resources if not shortages(shape, full_capacity(free.node, also_sick=True), cpu_tasks)
    ]
    if not able:
        lacks = [shortages(shape, full_capacity(node, also_sick=True), cpu_tasks) for node in nodes]
        only_image = any({s.lack for s in lack} == {Lack.IMAGE} for lack in lacks)
        word = WaitWord.IMAGE_MISSING if only_image else WaitWord.NO_SUCH_NODE_YET
        return [WaitReason(word, why_never(shape, nodes, lacks))]
    if any(not free.closed and not shortages(shape, free, cpu_tasks) for free in able):
        return []
    found = _closed(shape, [free for free in able if free.closed], cpu_tasks)
    is_open = [free for free in able if not free.closed]
    if is_open:
        found.extend(_busy(shape, is_open, cpu_tasks))
    return found


def _closed(shape: Shape, free_resources: Sequence[FreeResources], cpu_tasks: CpuTasks) -> list[WaitReason]:
    by_word: dict[WaitWord, list[FreeResources]] = {}
    for free in free_resources:
        by_word.setdefault(_closed_word(free), []).append(free)
    found = []
    for word, closed in by_word.items():
        roomy = [free.node.id for free in closed if not shortages(shape, free, cpu_tasks)]
        otherwise = if_it_took_work(roomy or [free.node.id for free in closed], now=bool(roomy))
        found.append(WaitReason(word, f"{some_of([free.closed.rstrip('.') for free in closed])}. {otherwise}"))
    return found


def _closed_word(free: FreeResources) -> WaitWord:
    if why_closed(free.node) and free.node.admission is Admission.OPEN:
        for condition in free.node.conditions:
            if condition.blocks_work and condition.word == "disk_full":
                return WaitWord.DISK_FULL
            if condition.blocks_work and condition.word in ("mount_unavailable", "mount_rights"):
                return WaitWord.MOUNT_UNAVAILABLE
    return WaitWord.NODE_DRAINED


def _busy(shape: Shape, free_resources: Sequence[FreeResources], cpu_tasks: CpuTasks) -> list[WaitReason]:
    # The machine that lacks least shows best what has to come free. The others would only add numbers.
    well = [free for free in free_resources if _well_gpus(shape, free.node) >= shape.held_gpus]
    nearest = min(well or free_resources, key=lambda free: (distance(shortages(shape, free, cpu_tasks)), free.order))
    found = []
    spare = shortages(shape, nearest, cpu_tasks)
    compute = [s for s in spare if s.lack in (Lack.CPU, Lack.MEMORY)]
    if compute:
        asked = " and ".join(_asked_text(s) for s in compute)
        there = " and ".join(_free_text(s, nearest.node) for s in compute)
        text = f"It asks for {asked}. The closest machine, {nearest.node.id}, has {there} free."
        found.append(WaitReason(WaitWord.WAITING_FOR_CPU_OR_MEMORY, text))
    for shortage in spare:
        if shortage.lack is Lack.GPU_SHARE:
            found.append(_share(shape, nearest, shortage))
            continue
        if shortage.lack not in (Lack.GPU, Lack.GPU_MODEL, Lack.NAMED_GPU):
            continue
        if shape.gpu_uuids:
            found.extend(_named(shape, nearest))
            continue
        outside = [g for g in nearest.node.gpus if g.busy_outside and suits(g, shape)]
        if outside and fits_with(shape, nearest, outside):
            found.append(WaitReason(WaitWord.GPU_BUSY_OUTSIDE, _outside_text(outside, nearest.node)))
        sick = _sick(shape, nearest.node)
        if sick and _well_gpus(shape, nearest.node) < shape.gpus:
            text = _sick_text(shape, len(sick), nearest.node, now=fits_with(shape, nearest, sick))
            found.append(WaitReason(WaitWord.GPU_UNAVAILABLE, text))
            continue
        word = WaitWord.WAITING_FOR_GPU if shortage.lack is Lack.GPU else WaitWord.WAITING_FOR_GPU_MODEL
        there = _free_gpus_text(shortage.free, shape, nearest.node)
        text = f"It asks for {gpus_asked(shape)}. The closest machine, {nearest.node.id}, has {there}."
        found.append(WaitReason(word, text))
    if shape.gpu_uuids:
        return found  # other cards are of no use
    told = any(reason.word is WaitWord.GPU_UNAVAILABLE for reason in found)
    return found + _in_the_way(shape, [free for free in free_resources if free is not nearest or not told])


def _share(shape: Shape, free: FreeResources, shortage: Shortage) -> WaitReason:
    """Why no shared card of the node has room for the share now."""
    cards = [gpu for gpu in free.node.gpus if suits(gpu, shape)]
    if not any(gpu.usable for gpu in cards):
        if any(gpu.sick for gpu in cards):
            return WaitReason(WaitWord.GPU_UNAVAILABLE, sick_cards(shape, free.node))
        return WaitReason(WaitWord.GPU_BUSY_OUTSIDE, _outside_text(cards, free.node))
    has = f"{round_size(shortage.free)} of one free" if shortage.free else "none with free memory"
    text = f"It asks for {gpus_asked(shape)}. Of its GPUs that are shared, {free.node.id} has {has}."
    return WaitReason(WaitWord.WAITING_FOR_GPU, text)


def _named(shape: Shape, free: FreeResources) -> list[WaitReason]:
    """Which cards that the shape names are not free, and why not."""
    there = {gpu.uuid for gpu in free.gpus}
    missing = [gpu for gpu in free.node.gpus if gpu.uuid in shape.gpu_uuids and gpu.uuid not in there]
    found = []
    for word, gpus, what in (
        (WaitWord.GPU_UNAVAILABLE, [g for g in missing if g.sick], "out of service"),
        (WaitWord.GPU_BUSY_OUTSIDE, [g for g in missing if g.busy_outside and not g.sick], "used from outside Headway"),
        (WaitWord.WAITING_FOR_GPU, [g for g in missing if g.usable], "in use"),
    ):
        if gpus:
            names = ", ".join(f"GPU {gpu.index} ({gpu.uuid})" for gpu in gpus)
            verb = "is" if len(gpus) == 1 else "are"
            by = some_of([gpu.note for gpu in gpus if gpu.note]) if word is WaitWord.GPU_BUSY_OUTSIDE else ""
            found.append(WaitReason(word, f"It names {names} of {free.node.id}, which {verb} {by or what}."))
    return found


def _outside_text(outside: Sequence[Gpu], node: Node) -> str:
    """Who uses these cards from outside Headway."""
    if not all(gpu.note for gpu in outside):
        return f"Programs outside Headway use {counted(len(outside), 'GPU')} of {node.id}."
    return f"{some_of([f'GPU {gpu.index} of {node.id} is {gpu.note}' for gpu in outside])}."


def _in_the_way(shape: Shape, free_resources: Sequence[FreeResources]) -> list[WaitReason]:
    """The broken cards without which the task would start now, on the first such machine."""
    for free in free_resources:
        sick = _sick(shape, free.node)
        if shape.gpus and sick and fits_with(shape, free, sick):
            return [WaitReason(WaitWord.GPU_UNAVAILABLE, _sick_text(shape, len(sick), free.node, now=True))]
    return []


def _sick(shape: Shape, node: Node) -> list[Gpu]:
    """The broken cards of the node that would suit."""
    return [gpu for gpu in node.gpus if gpu.sick and suits(gpu, shape)]


def _well_gpus(shape: Shape, node: Node) -> int:
    """How many cards of the node would suit and work."""
    return sum(1 for gpu in node.gpus if not gpu.sick and suits(gpu, shape))


def _sick_text(shape: Shape, sick: int, node: Node, *, now: bool) -> str:
    """That cards are broken, and what would be otherwise. ``now``: with them the task would fit at this moment."""
    what = sick_cards(shape, node)
    if any(condition.word == GPU_UNAVAILABLE for condition in node.conditions):
        return what
    return f"{what} {if_they_worked(sick, now=now)}"


def fits_with(shape: Shape, free: FreeResources, mended: Sequence[Gpu]) -> bool:
    """Whether the shape would fit if these suitable cards could be given out. A card that a task still has can't."""
    suitable = sum(1 for gpu in free.gpus if suits(gpu, shape))
    more = sum(1 for gpu in mended if gpu.uuid not in free.held_unusable)
    without = replace(shape, gpus=0, require_cuda="")
    return fits(without, free) and suitable + more >= shape.gpus


def _asked_text(shortage: Shortage) -> str:
    if shortage.lack is Lack.CPU:
        return count_cpus(shortage.asked)
    return f"{format_size(shortage.asked)} of memory"


def _free_text(shortage: Shortage, node: Node) -> str:
    """What the node has free of CPUs or memory: `2 of its 8 CPUs`."""
    if shortage.lack is Lack.CPU:
        return f"{cpus(shortage.free)} of its {count_cpus(node.cpu_centi)}"
    return f"{round_size(max(0, shortage.free))} of its {round_size(node.memory_bytes)} of memory"


def _free_gpus_text(free: int, shape: Shape, node: Node) -> str:
    """How many of the node's suitable GPUs are free: `2 of its 8 GPUs free`, `no free GPU of this kind`."""
    suitable = sum(1 for gpu in node.gpus if suits(gpu, shape))
    kind = " of this kind" if suitable < len(node.gpus) else ""
    return f"{free} of its {counted(suitable, 'GPU')}{kind} free" if free else f"no free GPU{kind}"
