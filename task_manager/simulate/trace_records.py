"""What a file of tasks holds, as CSV or as a workflow, and the bounds on its numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.safe_text import printable_text

from .errors import TraceInvalid
from .unpacking import unpacked

MIB = 1 << 20
STDIN = Path("-")  # stands for standard input
MAX_INSTANT_S = 1e11  # far beyond any clock, and still exact to a microsecond or so
MAX_SPAN_S = 1e9
MIN_TIMEOUT_S = 0.001  # the shortest that can be written (`headway.units`), and far above rounding errors
MAX_GPUS = 1_000_000
MAX_CPUS = 1_000_000.0
MAX_MEM_MIB = 1e12
MAX_PRIORITY = 1_000_000
MAX_FILE_BYTES = 2 << 30  # unpacked
MAX_TASKS = 10_000_000


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One task of a file; what the file leaves open is None or empty. Times are in seconds."""

    label: str  # its id for people
    where: str  # for messages: file and row
    row: int  # its row in the file, from 0
    submit_s: float
    runtime_s: float
    timeout_s: float | None
    gpus: int | None
    processors: int = 0  # of a source that knows no GPUs; ``gpus`` is None then
    gpu_types: tuple[str, ...] = ()  # any of these; empty: any
    cpu_centi: int = 0
    memory_bytes: int = 0
    user: str = ""
    priority: int = 0
    needs: tuple[int, ...] = ()  # indexes, in the list of records, of the tasks that must have ended
    job: int | None = None  # tasks of one workflow share it; None: a job of its own
    cells: Mapping[str, str] | None = None  # for messages: what its format calls `gpus`, `timeout_s` and so on


@dataclass(frozen=True, slots=True)
class TraceRecords:
    """The tasks of a file. ``notes`` are sentences for the reader of the results."""

    records: tuple[TraceRecord, ...]
    notes: tuple[str, ...] = ()


def content_of(path: Path, kind: str, most: int) -> tuple[bytes, str]:
    """The bytes of a file or of standard input, unpacked if they are gzip, and the file's name for messages.

    Raises:
        TraceInvalid: there are more than ``most`` of them, or they can't be unpacked.
        OSError: the file can't be read.
    """
    if path == STDIN:
        if sys.stdin is None:
            raise TraceInvalid(f"standard input is closed, so there is no {kind} to read.")
        return unpacked(sys.stdin.buffer, "standard input", kind, most), "standard input"
    with path.open("rb") as file:
        return unpacked(file, path.name, kind, most), path.name


def rounded_up(value: float) -> int:
    """The next whole number."""
    # Rounding errors, as of 3.152 * 100, must not add one.
    return math.ceil(round(value, 6))


def quoted(text: str) -> str:
    """Text of a file in quotes, cut short and without control characters."""
    return repr(printable_text(text if len(text) <= 40 else text[:37] + "..."))
