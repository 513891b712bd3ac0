"""Past runs as a trace: the columns that ``headway simulate --trace`` reads (docs/simulate.md). Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from headway.rpc.v1 import task_manager_pb2 as tm

_COLUMNS = (
    "id", "submit_s", "runtime_s", "gpus", "timeout_s", "gpu_type", "cpus", "mem_mib", "user", "priority",
)  # fmt: skip
HEADER = (",".join(_COLUMNS) + "\n").encode()

_MIB = 1 << 20
# A run that its timeout ended would have gone on. With a run time just above the timeout, simulate ends it there too.
_BEYOND_S = 0.001
# So many runs are written before other tasks of the event loop get their turn: a millisecond or two.
_AT_ONCE = 200


def pieces(runs: Sequence[tm.PastRun], began_at: float) -> Iterator[bytes]:
    """Lines of CSV; ``submit_s`` counts from ``began_at``."""
    for start in range(0, len(runs), _AT_ONCE):
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerows(_cells(run, began_at) for run in runs[start : start + _AT_ONCE])
        yield text.getvalue().encode()


def _cells(run: tm.PastRun, began_at: float) -> list[str | int]:
    task, asked = run.attempt.task, run.resources
    return [
        f"{task.job_id}/{task.name}/{run.attempt.number}",
        _number(run.queued_at - began_at),
        _number(max(run.run_s, run.timeout_s + _BEYOND_S) if run.timed_out else run.run_s),
        asked.gpus,
        _number(run.timeout_s),
        # A trace parts types by this sign, and has no way to write it in a name.
        "|".join(model.replace("|", "/") for model in asked.gpu_models),
        _number(asked.cpu_centi / 100),
        _number(asked.memory_bytes / _MIB),
        run.owner,
        run.priority,
    ]


def _number(value: float) -> str:
    """To the microsecond, without an exponent, which clocks and sizes never need."""
    return f"{max(0.0, value):.6f}".rstrip("0").rstrip(".")
