"""Rough estimates of starts, for tasks without a reservation."""

from __future__ import annotations

from .pass_model import PassInput, RoughEstimates


def rough_estimates(snapshot: PassInput) -> RoughEstimates | None:
    """Estimates for tasks without a reservation, from the amount of work ahead of them; None: nothing waits."""
    waiting, now_s = len(snapshot.queue), snapshot.now_s
    if not waiting:
        return None
    left = [(b.shape, b.until_s - now_s) for b in snapshot.running if b.until_s > now_s]
    nodes = [free.node for free in snapshot.free_resources]
    gpu_s, cpu_s, memory_s = snapshot.queue.waiting_work

    def spread(there: float, running: float, waits: float) -> tuple[float, float] | None:
        return (now_s + running / there, waits / waiting / there) if there else None

    cpus, memory = sum([node.cpu_centi for node in nodes]), sum([node.memory_bytes for node in nodes])
    return RoughEstimates(
        spread(snapshot.view.gpus, sum([shape.gpus * s for shape, s in left]), gpu_s),
        spread(cpus, sum([shape.cpu_centi * s for shape, s in left]), cpu_s),
        spread(memory, sum([shape.memory_bytes * s for shape, s in left]), memory_s),
    )
