"""What is wrong with what a simulation is fed."""

from __future__ import annotations

from headway.errors import InvalidInput


class TraceInvalid(InvalidInput):
    """A trace or workflow that can't be simulated; the message names the first fault with its row and column."""

    http_status = 422
    slug = "trace-invalid"
    title = "The trace can't be simulated"
