"""State on disk: one writer, grouped commits, events that leave only after their commit.

How it is used:

    db = await Database.open(config.job_manager.database, room="job_manager")    # migrates, refuses a newer one
    inbox = Batcher(lambda items: db.write(lambda conn: apply(conn, items)), name="task-events")
    answer = await inbox.submit(event)                 # one transaction for all that has piled up
    outbox = Outbox(metadata)                          # in the room's tables.py
    outbox.add(conn, "task-manager", "enqueue", message.SerializeToString(), now)   # inside a write
    service.side_task("outbox", outbox.pump(db, "task-manager", send, clock).run)   # delivers after the commit
    timers.set(conn, "forget", job_id, after_s=3_600.0)        # inside a write; still happens after a restart
"""

from .batcher import Batcher
from .database import Database, after_commit
from .kept_clock import ClockNotes
from .outbox import Outbox, OutboxPump, OutboxRow
from .timers import Handler, Timer, Timers, TimerTable

__all__ = [
    "Batcher",
    "ClockNotes",
    "Database",
    "Handler",
    "Outbox",
    "OutboxPump",
    "OutboxRow",
    "Timer",
    "TimerTable",
    "Timers",
    "after_commit",
]
