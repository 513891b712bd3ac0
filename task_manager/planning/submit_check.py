"""Which tasks are taken into the queue. Submit, previews and the question "would it ever run?" ask here."""

from __future__ import annotations

from collections.abc import Sequence

from ..limits import AdmissionLimits
from ..model import Node, Shape
from .limit_checks import AdmissionRefusal, RefusalGround, refusals
from .placement import CpuTasks
from .reasons.feasibility import Feasibility, could_ever_run, waits_for_sick


class SubmitCheck:
    """The check for the nodes and limits of one moment. Tasks of equal shape cost one look at the nodes."""

    def __init__(
        self, nodes: Sequence[Node], limits: AdmissionLimits, cpu_tasks: CpuTasks, grown: Sequence[Node] = ()
    ) -> None:
        """``grown``: machines that can come when they are needed."""
        self._nodes = nodes
        self._grown = grown
        self._limits = limits
        self._cpu_tasks = cpu_tasks
        self._gpus = sum(node.whole_gpus for node in nodes) if nodes else None
        self._verdicts: dict[Shape, Feasibility] = {}

    def refusals(self, shape: Shape, timeout_s: float) -> list[AdmissionRefusal]:
        """All reasons why such a task is refused; empty: it is taken. ``timeout_s`` is in seconds."""
        verdict = self._verdicts.get(shape)
        if verdict is None:
            verdict = could_ever_run(shape, self._nodes, self._cpu_tasks)
            if not verdict.satisfiable and self._grown:
                grown = could_ever_run(shape, self._grown, self._cpu_tasks)
                verdict = grown if grown.satisfiable else verdict
            self._verdicts[shape] = verdict
        ground = RefusalGround.ULIMITS if verdict.of_ulimits else RefusalGround.NO_NODE
        found = [] if verdict.satisfiable else [AdmissionRefusal(ground, verdict.sentence)]
        return found + refusals(self._limits, shape, timeout_s, gpus=self._gpus)

    def waits(self, shape: Shape) -> str:
        """What a task that is taken waits for at first, beyond its turn: broken cards. Empty: nothing."""
        return waits_for_sick(shape, self._nodes, self._cpu_tasks)
