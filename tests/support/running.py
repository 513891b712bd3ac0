"""Runs a service inside a test, on the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headway.lifecycle import Service

from .waiting import eventually


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[Service]:
    """The service, ready; stopped in good order at the end."""
    run = asyncio.create_task(service.run(signals=False), name=service.name)
    try:
        await eventually(lambda: service.health.ready or run.done(), what=f"{service.name} is ready")
        if run.done():
            await run
        yield service
    finally:
        service.request_stop("test is over")
        await run
