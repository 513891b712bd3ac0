"""Forgets requests that are too old to be repeated. A durable timer tells when, so no restart puts it off."""

from __future__ import annotations

from sqlalchemy import Connection

from headway.clock import Clock
from headway.lifecycle import Service
from headway.logs import get_logger
from headway.store import Database, Handler, Timer, Timers

from . import store
from .tables import timer_table

log = get_logger(__name__)

# A request that is repeated later than this is taken for a new one.
ACTIONS_KEPT_S = 7 * 86_400.0
EVERY_S = 6 * 3_600.0
KIND = "forget-requests"


def start(service: Service, db: Database, clock: Clock) -> Timers:
    """Has old requests forgotten as long as the service runs, and at its start if that is overdue."""

    def forget(conn: Connection, timer: Timer) -> None:
        forgotten = store.forget_actions(conn, timers.now() - ACTIONS_KEPT_S)
        timers.set(conn, KIND, "", after_s=EVERY_S)
        log.debug("requests.forgotten", requests=forgotten)

    timers = Timers(timer_table, db, clock)
    timers.handle(KIND, Handler(forget))

    async def open_timers() -> None:
        await timers.open()
        await db.write(lambda conn: timers.ensure(conn, KIND, "", after_s=EVERY_S))

    service.on_start(open_timers)
    service.side_task("timers", timers.run)
    return timers
