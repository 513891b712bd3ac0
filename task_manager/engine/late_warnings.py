"""What Workers could not do for attempts after their end.

Such a warning comes when an attempt has ended, perhaps while its task runs again. So it changes nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from .events import LateWarnings
from .turn import Turn

_MOST = 8
_MOST_CHARACTERS = 1_000


def on_late_warnings(turn: Turn, told: LateWarnings) -> None:
    """Takes the warnings that hold now. Those of another node, or of an earlier start of it, count for nothing."""
    lease = turn.state.leases.get(told.node_id)
    if lease is not None and lease.incarnation > told.incarnation:
        return
    known = turn.state.attempt(told.attempt) or turn.state.dirty_attempts.get(told.attempt)
    attempt = known or turn.past_attempts.get(told.attempt)
    if attempt is None:
        return
    if attempt.node_id != told.node_id or attempt.generation != told.generation:
        return
    warnings = tuple(text[:_MOST_CHARACTERS] for text in told.warnings[:_MOST])
    if attempt.late_warnings != warnings:
        turn.state.put_warnings(replace(attempt, late_warnings=warnings))
