"""What is told of a job, as the job itself notes it. Ids and owner are added when it is stored."""

from __future__ import annotations

from typing import NamedTuple

from headway.model.job_events import JobEventWord
from headway.model.reasons import EndReason


class OutgoingJobEvent(NamedTuple):
    """One past fact. ``at`` in epoch seconds; ``task`` is empty where it is about the job as a whole."""

    word: JobEventWord
    at: float
    task: str = ""
    generation: int = 0
    attempt: int = 0
    state: str = ""  # that the job or task has then
    reason: EndReason | None = None
    by: str = ""
    tasks: int = 0  # how many it concerns
    sentence: str = ""  # of a warning
