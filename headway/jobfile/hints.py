"""Guesses at what was meant: the nearest known name, and where a key belongs that is known elsewhere."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sized
from typing import Final

from headway.jobfile.source import Path
from headway.jobfile.spec import RESOURCES, TASK
from headway.jobfile.table import Table


def foreign_words(*tables: Table) -> dict[str, str]:
    """Words of other batch systems, container tools and workflow files for what a job file calls by the name behind."""
    return {word: row.key for table in tables for row in table.rows for word in row.foreign}


_FOREIGN: Final = {
    **foreign_words(TASK, RESOURCES),
    **dict.fromkeys(("jobs", "steps", "nodes"), "tasks"),
    **dict.fromkeys(("title", "job_name", "task_name", "id"), "name"),
}
_IN_RESOURCES: Final = frozenset(RESOURCES.keys)
_BESIDE_RESOURCES: Final = frozenset(TASK.shared_keys)
_OF_THE_JOB: Final = frozenset(("version", "priority", "defaults", "tasks"))
_OF_A_TASK_ONLY: Final = frozenset(TASK.keys) - _BESIDE_RESOURCES


def nearest(word: str, known: Iterable[str], lower: dict[str, str] | None = None) -> str | None:
    """The known name that was probably meant, or None.

    ``lower`` is a dict that the caller keeps between calls on the same names. Among more than 300 names
    only capitals are overlooked: comparing them all, for each of many slips, would take seconds.
    """
    by_lower = {} if lower is None else lower
    if not by_lower:
        for name in known:
            by_lower.setdefault(name.lower(), name)
    folded = word[:100].lower().replace("-", "_") if word.lower() not in by_lower else word.lower()
    if folded in by_lower:
        return by_lower[folded]
    if (foreign := _FOREIGN.get(folded)) in by_lower:
        return by_lower[foreign] if foreign else None
    if isinstance(known, Sized) and len(known) > 300:
        return None
    found = difflib.get_close_matches(word[:100].lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[found[0]] if found else None


def elsewhere(key: str, path: Path, known: Iterable[str]) -> str | None:
    """Advice for a key that is known, in its own or a foreign spelling, but in another place."""
    name = key.lower().replace("-", "_")
    name = _FOREIGN.get(name, name)
    if name in known:
        return None
    if name in _IN_RESOURCES:
        inside = "" if path else " of a task or of defaults"
        return f"{name} goes under resources{inside}"
    if name in _OF_THE_JOB:
        return f"{name} goes at the top of the job file" if path else None
    if name in _OF_A_TASK_ONLY:
        return f"{name} goes in each task"
    if path and path[-1] == "resources" and name in _BESIDE_RESOURCES:
        return f"{name} goes beside resources, not in it"
    return f"{name} goes in a task or under defaults" if not path and name in _BESIDE_RESOURCES else None
