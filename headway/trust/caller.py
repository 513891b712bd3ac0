"""Who makes the call that is being answered. The door sets it, and handlers ask.

    require_node(request.node_id)      # a Worker speaks for its own node alone

Where services show each other a token, nobody is named: then each of them may speak for all.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from ..errors import HeadwayError
from .identity import Identity, Role


class CallerRefused(HeadwayError):
    """A service's certificate does not allow this call."""

    code = "PERMISSION_DENIED"
    http_status = 502
    slug = "caller-refused"
    title = "A service of this cluster may not make this call"


@dataclass(frozen=True, slots=True)
class Caller:
    """A service that showed a certificate, and the certificate's serial number."""

    identity: Identity
    serial: int


_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


def caller() -> Caller | None:
    """Who makes the call in hand; None: nobody who showed a certificate."""
    return _caller.get()


def set_caller(found: Caller) -> None:
    """For the door alone. Each call is answered in a context of its own."""
    _caller.set(found)


def calling_node() -> str | None:
    """The node of the Worker that calls; None: no Worker with a certificate does."""
    found = _caller.get()
    return found.identity.name if found is not None and found.identity.role is Role.WORKER else None


def require_node(*node_ids: str) -> None:
    """Passes unless a Worker speaks for another node than its certificate names.

    Raises:
        CallerRefused: it does.
    """
    mine = calling_node()
    if mine is None:
        return
    for node_id in node_ids:
        if node_id != mine:
            raise CallerRefused(
                f"The certificate is that of the Worker {mine}, and it speaks for {node_id!r}: each Worker needs a "
                "certificate of its own `worker.node_id`."
            )
