"""Which GPUs are in use by people outside Headway, and so are not given out. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from headway.units import format_duration

from ..ports import GpuProcess, GpuReading
from .gpu_processes import whose


class OutsideUse:
    """Marks cards as busy from outside, until they were free for ``free_for_s``.

    Programs come and go on a card that somebody works with. A card that was free for a moment only is still theirs.
    A small use of up to ``threshold_bytes`` counts as none: a desktop needs some memory all the time.
    """

    def __init__(self, threshold_bytes: int, free_for_s: float) -> None:
        self._threshold_bytes = threshold_bytes
        self._free_for_s = free_for_s
        self._busy_at: dict[str, float] = {}  # when it was last seen in use

    def judge(self, gpu: GpuReading, others: Sequence[GpuProcess], *, ours: bool, now: float) -> GpuReading:
        """The card as it is offered. ``others``: processes on it that Headway did not start. ``now`` is monotonic."""
        gpu = replace(gpu, processes=tuple(others), busy_outside=False, note=gpu.note if gpu.sick else "")
        if ours and not gpu.shared:
            # It is booked, so nobody waits for it to be free. Its memory is that of our task.
            self._busy_at.pop(gpu.uuid, None)
            return gpu
        if gpu.sick:
            return gpu
        used = gpu.memory_used_bytes
        if ours:
            # Of a shared card the rest is still given out, so what others hold counts, and our tasks' part does not.
            used = sum(process.memory_used_bytes or 0 for process in others)
        if used is not None and used > self._threshold_bytes:
            self._busy_at[gpu.uuid] = now
            return replace(gpu, busy_outside=True, note=f"in use by {whose(others, used)}")
        busy_at = self._busy_at.get(gpu.uuid)
        if busy_at is not None and now < busy_at + self._free_for_s:
            wait = format_duration(self._free_for_s)
            note = f"free of use from outside only since a moment ago; it is given out once it was free for {wait}"
            return replace(gpu, busy_outside=True, note=note)
        self._busy_at.pop(gpu.uuid, None)
        return gpu

    def keep(self, uuids: Collection[str]) -> None:
        """Forget all other cards."""
        self._busy_at = {uuid: at for uuid, at in self._busy_at.items() if uuid in uuids}
