"""Amounts and lists as the sentences of explanations write them."""

from __future__ import annotations

from collections.abc import Sequence

from headway.ids import NodeId
from headway.model.gpu_faults import fault_of
from headway.units import counted, format_size, round_size

from ...model import GPU_UNAVAILABLE, Node, Shape
from ..placement import Lack, Shortage, suits, why_closed

_NAMES_SHOWN = 3


def gpus_asked(shape: Shape) -> str:
    """The GPUs of a shape: `2 GPUs of model A40 with 25GiB each`, `a share of 6GiB of one GPU`."""
    share = f"a share of {format_size(shape.gpu_share_bytes)} of one GPU"
    words = [share if shape.gpu_share_bytes else counted(shape.gpus, "GPU")]
    if shape.gpu_models:
        words.append(f"of model {' or '.join(shape.gpu_models)}")
    if shape.gpu_memory_bytes:
        words.append(f"with {format_size(shape.gpu_memory_bytes)}{' each' if shape.gpus > 1 else ''}")
    return " ".join(words)


def count_cpus(centi: int) -> str:
    """Hundredths of a CPU as CPUs: `1.5 CPUs`."""
    return f"{cpus(centi)} CPU" if centi == 100 else f"{cpus(centi)} CPUs"


def cpus(centi: int) -> str:
    """Hundredths of a CPU as a bare number: `1.5`."""
    return f"{max(0, centi) / 100:g}"


def some_of(sentences: Sequence[str]) -> str:
    """The first few of these, and how many more there are."""
    shown = "; ".join(sentences[:_NAMES_SHOWN])
    more = len(sentences) - _NAMES_SHOWN
    return f"{shown}; and {more} more" if more > 0 else shown


# What follows names one machine. All its sentences are here, so that they stay alike.


def closest_machine(shape: Shape, node: Node, lacks: Sequence[Shortage]) -> str:
    """What the machine that lacks least has of what was asked for, at best, and why it takes no work, if so."""
    has = " and ".join(_has(shape, node, lack) for lack in lacks if lack.lack in _AMOUNTS)
    rest = " and ".join(_bars(lack) for lack in lacks if lack.lack not in _AMOUNTS)
    closed = why_closed(node).rstrip(".")
    parts = ", and ".join(filter(None, (f"has {has}" if has else "", rest)))
    return f"The closest machine, {node.id}, {parts}.{f' {closed}.' if closed else ''}"


_AMOUNTS = frozenset({Lack.CPU, Lack.MEMORY, Lack.GPU, Lack.GPU_MODEL, Lack.NAMED_GPU, Lack.GPU_SHARE})


def _has(shape: Shape, node: Node, lack: Shortage) -> str:
    """How much the machine has of what was asked for: `8 of 12 CPUs`."""
    match lack.lack:
        case Lack.CPU:
            return f"{cpus(lack.free)} of {count_cpus(lack.asked)}"
        case Lack.MEMORY:
            return f"{round_size(max(0, lack.free))} of {format_size(lack.asked)} of memory"
        case Lack.GPU_SHARE:
            return f"at most {round_size(lack.free)} for {gpus_asked(shape)}"
        case _:
            sick = sum(1 for gpu in node.gpus if gpu.sick and suits(gpu, shape))
            broken = f" ({sick} of them {'does' if sick == 1 else 'do'} not work)" if sick else ""
            return f"{lack.free} of {gpus_asked(shape)}{broken}"


def _bars(lack: Shortage) -> str:
    match lack.lack:
        case Lack.KEPT_FOR_GPU_TASKS:
            return "it is kept for tasks that ask for GPUs"
        case Lack.ULIMIT:
            return f"it can't give the limits ({lack.words})"
        case Lack.OTHER_NODE:
            return lack.words
        case _:
            return f"its image can't run there ({lack.words})"


def sick_cards(shape: Shape, node: Node) -> str:
    """Which cards of the node that would do don't work, and why. There is at least one."""
    for condition in node.conditions:
        if condition.word == GPU_UNAVAILABLE:
            return f"{node.id} gives out no GPU now. {condition.sentence}"
    sick = [gpu for gpu in node.gpus if gpu.sick and suits(gpu, shape)]
    verb = "does" if len(sick) == 1 else "do"
    what = f"{counted(len(sick), 'GPU')} of {node.id} {verb} not work: "
    known = [f"GPU {gpu.index} ({gpu.uuid}), {_fault(gpu.fault)}" for gpu in sick if gpu.fault]
    if len(known) < len(sick):
        known.append(f"`headway nodes show {node.id}` says why")
    return f"{what}{some_of(known)}."


def _fault(word: str) -> str:
    fault = fault_of(word)
    return fault.facts.what if fault is not None else f"it has a fault ({word})"


def if_it_took_work(names: Sequence[NodeId], *, now: bool) -> str:
    """What would be if these machines were open."""
    whose = names[0] if len(names) == 1 else "one of them"
    return f"If {whose} took work, this task could start there {_when(now)}."


def if_they_worked(count: int, *, now: bool) -> str:
    """What would be if so many broken GPUs of a machine worked."""
    return f"If {'it' if count == 1 else 'they'} worked, this task could start there {_when(now)}."


def _when(now: bool) -> str:
    return "now" if now else "once others have ended"
