"""What was collected after a chaos run, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    """As the API tells it. ``word`` and ``fault`` are of its end reason."""

    number: int
    node: str
    state: str
    word: str = ""
    fault: str = ""
    exit_code: int | None = None
    dropped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    state: str
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    name: str
    state: str
    tasks: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Submit:
    """What a sender knows of a job. ``job_id`` is empty where it got no answer; ``refused`` is an answer that nobody
    expected; ``cancel`` is none, asked (it may have come through) or answered."""

    name: str
    job_id: str = ""
    sure: bool = True
    cancel: str = "none"
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """One stream of one attempt: ``good`` says whether all its bytes are the first ones of what the task prints."""

    length: int
    good: bool
    missing: str = ""  # why it could not be read


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a task's witness. ``at_ns`` is of the boot clock; ``more`` is what stands behind it."""

    what: str
    attempt: int
    at_ns: int
    more: str = ""

    @classmethod
    def read(cls, text: str) -> Line:
        """A line as ``task.c`` writes it."""
        what, attempt, at, *more = text.split(" ", 3)
        return cls(what, int(attempt), int(at), more[0].strip() if more else "")


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was collected. Keys are names of tasks, unique in a run; a log's key has attempt and stream, too."""

    jobs: Sequence[Job]
    submits: Sequence[Submit]
    witness: Mapping[str, Sequence[Line]]
    home: Mapping[str, Sequence[str]]
    logs: Mapping[tuple[str, int, str], Log]
    booked: Sequence[Mapping[str, int]]  # GPUs by node, at many moments
    gpus: Mapping[str, int]  # there are so many on each node
    left: Sequence[str]  # what is still there, in words
    differences: Sequence[str]  # between the databases, in words
    tracebacks: Sequence[str] = ()  # in the services' logs, in words
