"""Which cards are given out in shares, as an admin says in ``worker.gpu_shared``, and whether they can be now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..ports import GpuReading

UNKNOWN, OFF = "gpu_shared_unknown", "gpu_shares_off"
_ALL = "all"
_CONTROL = "control"  # what MPS's control daemon leaves in its folder while it runs


@dataclass(frozen=True, slots=True)
class SharedCards:
    """The UUIDs of the cards that are named, and what is wrong with the names, in clauses."""

    uuids: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()


def shared_cards(names: Sequence[str], gpus: Sequence[GpuReading]) -> SharedCards:
    """The cards that these names mean: UUIDs, beginnings of them, or `all`. Slices (MIG) are never shared. Pure."""
    whole = [gpu.uuid for gpu in gpus if not gpu.parent_uuid]
    uuids, problems = set[str](), []
    for name in names:
        if name == _ALL:
            uuids.update(whole)
            continue
        found = [uuid for uuid in whole if uuid.lower().startswith(name.lower())]
        if len(found) == 1:
            uuids.add(found[0])
        elif found:
            problems.append(f"{len(found)} of its GPUs begin with {name}")
        else:
            problems.append(f"it has no GPU {name}")
    return SharedCards(frozenset(uuids), tuple(problems))


class GpuSharing:
    """Marks the cards that are shared. ``tell`` sets a condition of the node; an empty sentence ends it.

    A breach can only be seen where the driver tells how much memory each process holds. Where it does not, and where
    MPS is wanted and its control daemon is away, shared cards are not offered. ``mps_pipe``: the daemon's folder; None:
    the driver's time-slicing is enough.
    """

    def __init__(
        self,
        names: Sequence[str],
        node_id: str,
        tell: Callable[[str, str], None] = lambda word, sentence: None,
        *,
        mps_pipe: Path | None = None,
    ) -> None:
        self._names = tuple(names)
        self._node_id = node_id
        self._tell = tell
        self.mps_pipe = mps_pipe
        self.uuids: frozenset[str] = frozenset()

    def mark(self, gpus: Sequence[GpuReading]) -> tuple[GpuReading, ...]:
        """The cards as they may be given out."""
        if not self._names:
            return tuple(gpus)
        cards = shared_cards(self._names, gpus)
        self.uuids = cards.uuids
        known = bool(gpus)  # without a driver nobody can say which cards there are
        self._tell(UNKNOWN, self._unknown(cards.problems) if known else "")
        mute = {gpu.uuid for gpu in gpus if gpu.uuid in cards.uuids and not tells_memory(gpu)}
        daemon = cards.uuids and self.mps_pipe is not None and not (self.mps_pipe / _CONTROL).exists()
        self._tell(OFF, self._no_daemon() if daemon else self._mute([gpu for gpu in gpus if gpu.uuid in mute]))
        why = "the control daemon of NVIDIA MPS does not run" if daemon else "its driver tells no memory of processes"
        return tuple(self._marked(gpu, why if daemon or gpu.uuid in mute else "", cards.uuids) for gpu in gpus)

    def _marked(self, gpu: GpuReading, why: str, uuids: frozenset[str]) -> GpuReading:
        if gpu.uuid not in uuids:
            return gpu
        if gpu.sick or not why:
            return replace(gpu, shared=True)
        return replace(gpu, shared=True, sick=True, note=f"no shares of it are given out: {why}")

    def _unknown(self, problems: Sequence[str]) -> str:
        if not problems:
            return ""
        return (
            f"`worker.gpu_shared` of {self._node_id} names GPUs that it does not have: {', '.join(problems)}. "
            "`headway nodes show` lists its UUIDs."
        )

    def _no_daemon(self) -> str:
        return (
            f"{self._node_id} gives out no shares of GPUs: `worker.gpu_mps_pipe` is {self.mps_pipe}, and the control "
            "daemon of NVIDIA MPS does not run there. Start it (`nvidia-cuda-mps-control -d`), or leave the key empty."
        )

    def _mute(self, gpus: Sequence[GpuReading]) -> str:
        if not gpus:
            return ""
        names = ", ".join(f"GPU {gpu.index}" for gpu in gpus)
        return (
            f"{self._node_id} gives out no shares of {names}: its driver does not tell how much memory each process "
            "holds, so nobody could see who takes more than a share."
        )


def tells_memory(gpu: GpuReading) -> bool:
    """Whether the driver tells which processes are on the card, and how much of its memory each of them holds."""
    return gpu.tells_processes and all(process.memory_used_bytes is not None for process in gpu.processes)
