"""Whether any machine could ever run a task, and why not, in sentences for people.

Submit refuses with these sentences, and `explain` gives them for a task that waits.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headway.model.ulimits import told
from headway.units import format_size, round_size

from ...model import Gpu, Node, Shape
from .. import cuda
from ..placement import (
    IMAGE_LACKS,
    CpuTasks,
    Lack,
    Shortage,
    distance,
    full_capacity,
    shortages,
    suits,
    why_closed,
    without_sick,
)
from .phrases import closest_machine, count_cpus, cpus, gpus_asked, sick_cards, some_of

_MODELS_SHOWN = 8
_ALIKE = 0.5  # how similar two names must be for a hint; H100 and B200 are


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Whether any known node could ever run a shape. ``sentence`` says why not, or that no node is known yet."""

    satisfiable: bool
    sentence: str
    of_ulimits: bool = False  # less under `ulimits` would do


def could_ever_run(shape: Shape, nodes: Sequence[Node], cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT) -> Feasibility:
    """Whether any of these nodes could ever run the shape. Without nodes it could: machines may still join."""
    if not nodes:
        return Feasibility(True, "No machine has joined yet.")
    if shape.node_id:
        nodes = [node for node in nodes if node.id == shape.node_id]
        if not nodes:
            return Feasibility(False, f"There is no machine {shape.node_id}.")
    lacks = [shortages(shape, full_capacity(node, also_sick=True), cpu_tasks) for node in nodes]
    if any(not lack for lack in lacks):
        return Feasibility(True, "")
    of_ulimits = any({s.lack for s in lack} == {Lack.ULIMIT} for lack in lacks)
    return Feasibility(False, why_never(shape, nodes, lacks), of_ulimits)


def waits_for_sick(shape: Shape, nodes: Sequence[Node], cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT) -> str:
    """Which broken cards a task that could run here has to wait for. Empty: there are enough others."""
    if not shape.uses_gpus or any(not shortages(shape, without_sick(node), cpu_tasks) for node in nodes):
        return ""
    able = [node for node in nodes if not shortages(shape, full_capacity(node, also_sick=True), cpu_tasks)]
    if not able:
        return ""
    # The machine with the fewest broken cards that suit is likely to be mended first.
    nearest = min(able, key=lambda node: sum(gpu.sick and suits(gpu, shape) for gpu in node.gpus))
    return f"It asks for {gpus_asked(shape)}, and waits for GPUs that do not work. {sick_cards(shape, nearest)}"


def why_never(shape: Shape, nodes: Sequence[Node], lacks: Sequence[Sequence[Shortage]]) -> str:
    """Why none of these nodes could ever run the shape. ``lacks`` says what each of them lacks."""
    parts = []
    if shape.gpus:
        suitable = max(sum(1 for gpu in node.gpus if suits(gpu, shape)) for node in nodes)
        if suitable < shape.gpus:
            parts.append(f"it asks for {gpus_asked(shape)}, the largest has {suitable}{_cards(shape, nodes)}")
    if shape.gpu_share_bytes and (share := _no_share(shape, nodes)):
        return share
    parts.extend(_too_small(shape, nodes))
    if parts:
        return f"No machine is big enough: {'; '.join(parts)}. {_nearest(shape, nodes, lacks)}"
    if any({s.lack for s in lack} == {Lack.KEPT_FOR_GPU_TASKS} for lack in lacks):
        return _kept(shape, [node for node in nodes if not node.gpus])
    image = _image_never(shape, lacks)
    if image:
        return image
    if ulimits := _ulimits_never(shape, lacks):
        return ulimits
    together = "No machine has all that it asks for together, though each part is on some machine."
    return f"{together} {_nearest(shape, nodes, lacks)}"


def _no_share(shape: Shape, nodes: Sequence[Node]) -> str:
    """Why no shared card could ever hold the share; empty: one could."""
    shared = [gpu for node in nodes for gpu in node.gpus if gpu.shared]
    if not shared:
        return (
            f"It asks for {gpus_asked(shape)}, and no machine shares its GPUs: an admin can allow it by "
            "`worker.gpu_shared`. Ask for `gpus: 1` instead."
        )
    if any(suits(gpu, shape) for gpu in shared):
        return ""
    of_model = [g for g in shared if suits(g, replace(shape, gpu_memory_bytes=0, gpu_share_bytes=1))]
    if not of_model:
        return f"It asks for {gpus_asked(shape)}, and no such GPU is shared{_models(shape, _names(shared))}."
    most = round_size(max(gpu.memory_bytes for gpu in of_model))
    return f"It asks for {gpus_asked(shape)}, and the largest GPU of that kind that is shared has {most}."


def _names(gpus: Sequence[Gpu]) -> list[str]:
    return sorted({gpu.model for gpu in gpus})


def _nearest(shape: Shape, nodes: Sequence[Node], lacks: Sequence[Sequence[Shortage]]) -> str:
    """What the machine that lacks least has of what was asked for. An open one goes before a closed one."""
    places = range(len(nodes))
    at = min(places, key=lambda i: (distance(lacks[i]), bool(why_closed(nodes[i])), i))
    return closest_machine(shape, nodes[at], lacks[at])


def _too_small(shape: Shape, nodes: Sequence[Node]) -> list[str]:
    parts = []
    cpu = max(node.cpu_centi for node in nodes)
    if cpu < shape.cpu_centi:
        parts.append(f"it asks for {count_cpus(shape.cpu_centi)}, the largest has {cpus(cpu)}")
    memory = max(node.memory_bytes for node in nodes)
    if memory < shape.memory_bytes:
        parts.append(f"it asks for {format_size(shape.memory_bytes)} of memory, the largest has {round_size(memory)}")
    return parts


def _kept(shape: Shape, others: Sequence[Node]) -> str:
    """Why a task without GPUs never starts that only nodes with GPUs could hold. ``others`` are nodes without."""
    if not others:
        return "All machines have GPUs and are kept for tasks that ask for GPUs."
    small = _too_small(shape, others)
    too_small = f" The others are too small: {'; '.join(small)}." if small else ""
    return f"Only machines with GPUs could run it, and they are kept for tasks that ask for GPUs.{too_small}"


def _cards(shape: Shape, nodes: Sequence[Node]) -> str:
    """Which cards there are, if none is of a model or memory size that was asked for."""
    cards = [gpu for node in nodes for gpu in node.gpus if not gpu.shared]
    if not cards and any(node.gpus for node in nodes):
        return " (all GPUs are given out in shares, see gpu_share)"
    of_model = [gpu for gpu in cards if suits(gpu, replace(shape, gpu_memory_bytes=0))]
    if not of_model:
        return _models(shape, _names(cards))
    most = max(gpu.memory_bytes for gpu in of_model)
    if most >= shape.gpu_memory_bytes:
        return ""
    return f" (the largest card{' of this model' if shape.gpu_models else ''} has {round_size(most)})"


def _models(shape: Shape, there: Sequence[str]) -> str:
    if not there:
        return ""
    near = max(there, key=lambda model: _likeness(model, shape.gpu_models))
    guess = f"; did you mean {near}?" if len(there) > 1 and _likeness(near, shape.gpu_models) >= _ALIKE else ""
    return f" (there are {', '.join(there[:_MODELS_SHOWN])}{' and others' * (len(there) > _MODELS_SHOWN)}{guess})"


def _likeness(model: str, wanted: Sequence[str]) -> float:
    """How similar the model, or one of its words, is to what was asked for, from 0 to 1."""
    names = [model.lower(), *re.split(r"[\s-]+", model.lower())]
    return max(difflib.SequenceMatcher(None, one.lower(), name).ratio() for one in wanted for name in names)


def _ulimits_never(shape: Shape, lacks: Sequence[Sequence[Shortage]]) -> str:
    """Which limits no machine gives that could run the task otherwise; empty: there is no such machine."""
    near = [lack for lack in lacks if {s.lack for s in lack} == {Lack.ULIMIT}]
    if not near:
        return ""
    nearest = min(near, key=lambda lack: (len(lack), [-s.free for s in lack]))
    asked = " and ".join(f"{name} {told(name, hard)}" for name, hard in shape.ulimits)
    gives = " and ".join(s.words for s in nearest)
    return f"Under ulimits it asks for {asked}; the nearest machine can't give that: {gives} at most."


def _image_never(shape: Shape, lacks: Sequence[Sequence[Shortage]]) -> str:
    """Why the image can't run on any machine that could run the task otherwise; empty: there is no such machine."""
    near = [lack for lack in lacks if all(s.lack in IMAGE_LACKS for s in lack)]
    if not near:
        return ""
    # Of the machines that lack one thing only, the easiest to fix comes first: the image, the driver, the machine.
    for kind, asked in (
        (Lack.IMAGE, "No machine that could run it has its image, and the image can't be fetched from anywhere"),
        (Lack.DRIVER, f"Its image needs {cuda.phrase(shape.require_cuda)}"),
        (Lack.ARCHITECTURE, f"Its image is for {shape.architecture} machines"),
    ):
        only = [lack[0].words for lack in near if {s.lack for s in lack} == {kind}]
        if only:
            advice = ": load it on one, or put it into the image market" if kind is Lack.IMAGE else f"; {some_of(only)}"
            return f"{asked}{advice}."
    return f"Its image can't run on any machine: {some_of([' and '.join(s.words for s in lack) for lack in near])}."
