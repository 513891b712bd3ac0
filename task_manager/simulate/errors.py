"""The errors of the input of a simulation."""

from __future__ import annotations

from headway.errors import InvalidInput


class TraceInvalid(InvalidInput):
    """A trace or workflow that can't be simulated. The message names the first fault with its row and column."""

    http_status = 422
    slug = "trace-invalid"
    title = "The trace can't be simulated"
