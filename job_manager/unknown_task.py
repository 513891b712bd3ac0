"""The sentence for a task that a job doesn't have. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from headway.errors import NotFound

NAMES_COMPARED = 1_000
_NAMES_TOLD = 10


def unknown_task(job_id: str, name: str, names: Sequence[str], task_count: int) -> NotFound:
    """``names``: the job's first tasks, of which the nearest is told, or the first few."""
    near = difflib.get_close_matches(name, names[:NAMES_COMPARED], n=1, cutoff=0.6)
    if near:
        hint = f" Did you mean {near[0]!r}?"
    else:
        more = ", …" if task_count > _NAMES_TOLD else ""
        hint = f" There {'is' if task_count == 1 else 'are'} {', '.join(names[:_NAMES_TOLD])}{more}."
    return NotFound(f"Job {job_id} has no task {name[:64]!r}.{hint}")
