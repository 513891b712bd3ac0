"""Sleeping that can be cut short."""

from __future__ import annotations

import asyncio

from headway.clock import Clock


async def nap(clock: Clock, seconds: float, woken: asyncio.Event) -> None:
    """Sleep until ``seconds`` have passed or ``woken`` is set, whichever comes first."""
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    waiting = asyncio.ensure_future(woken.wait())
    try:
        await asyncio.wait((sleeping, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeping.cancel()
        waiting.cancel()
