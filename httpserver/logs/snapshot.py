"""An attempt whose log is read, and what of the log there is."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from headway.rpc.v1 import task_manager_pb2 as tm
from headway.states import ATTEMPT_ENDED, AttemptState


@dataclass(frozen=True, slots=True)
class LocatedAttempt:
    """An attempt as it stands; ``view`` is None when TaskManager could not be asked."""

    number: int
    view: tm.AttemptView | None
    worker_address: str

    @property
    def node_id(self) -> str:
        """On which node it is or was; empty: not known."""
        return self.view.node_id if self.view is not None else ""

    @property
    def ended(self) -> bool:
        """Whether no byte will follow but those still on their way to the mount."""
        return self.view is None or AttemptState(self.view.state) in ATTEMPT_ENDED

    def bytes_of(self, stream: str) -> int | None:
        """How many bytes the whole log has, as the worker counted them at the end; None: not known."""
        if self.view is None or not self.ended or stream not in ("stdout", "stderr"):
            return None
        return self.view.stdout_bytes if stream == "stdout" else self.view.stderr_bytes


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """A snapshot of a log: ``start`` to ``size`` are the bytes that ``chunks`` gives."""

    start: int
    size: int
    ended: bool
    chunks: AsyncGenerator[bytes, None]
