"""Waiting by the injected clock for something that may happen sooner."""

from __future__ import annotations

import asyncio

from .clock import Clock


async def wait(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Waits until `event` is set, at most `seconds`. Returns whether it is set.

    A cancellation comes through and leaves no task behind. `asyncio.wait_for` of Python 3.11 may lose one that comes
    in the same turn as the event, and it knows no other clock than the loop's.
    """
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((sleeping, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeping.cancel()
        waiting.cancel()
    return event.is_set()
