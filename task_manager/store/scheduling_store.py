"""What an admin set and what policies have learnt, as SQL. Every function works inside a transaction of its caller."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert, select

from ..engine.scheduling_choice import AdminChoice
from .tables import policy_states, scheduling


def write(conn: Connection, chosen: Mapping[str, AdminChoice | None], states: Mapping[str, str], now: float) -> None:
    """Stores what changed."""
    for name, value in chosen.items():
        conn.execute(delete(scheduling).where(scheduling.c.name == name))
        if value is not None:
            conn.execute(
                insert(scheduling), {"name": name, "value": value.value, "set_by": value.by, "set_at": value.at}
            )
    for policy, state in states.items():
        conn.execute(delete(policy_states).where(policy_states.c.policy == policy))
        conn.execute(insert(policy_states), {"policy": policy, "state": state, "at": now})


def load(conn: Connection) -> tuple[dict[str, AdminChoice], dict[str, str]]:
    """What an admin set, by name; and the states, by policy."""
    chosen = {row.name: AdminChoice(row.value, row.set_by, row.set_at) for row in conn.execute(select(scheduling))}
    return chosen, {row.policy: row.state for row in conn.execute(select(policy_states))}
