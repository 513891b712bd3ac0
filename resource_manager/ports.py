"""What ResourceManager needs from outside."""

from __future__ import annotations

from typing import Protocol

from headway.rpc.v1 import resource_manager_pb2
from headway.trust.identity import Identity


class WorkersPort(Protocol):
    """The Workers, by node and address."""

    async def get_status(self, node_id: str, address: str, deadline_s: float) -> resource_manager_pb2.NodeStatus:
        """Ask a Worker how it is. Changes nothing there; may be called again at any time.

        Raises:
            HeadwayError: it did not answer within ``deadline_s`` seconds.
        """
        ...

    async def return_gpu(
        self, node_id: str, address: str, request: resource_manager_pb2.ReturnGpuRequest, deadline_s: float
    ) -> resource_manager_pb2.ReturnGpuReply:
        """A Worker looks at a card that was taken out, and gives it out again if it is clean. Safe twice.

        Raises:
            HeadwayError: it did not answer within ``deadline_s`` seconds, or knows no such card.
        """
        ...

    async def forget(self, address: str) -> None:
        """Nobody will ask there any more; let go of the connection. Safe for an address never asked."""
        ...

    async def close(self) -> None:
        """Let go of all connections. Safe to call twice."""
        ...


class Signer(Protocol):
    """The cluster's authority, as far as services need it that have a certificate already."""

    async def renew(self, csr_pem: bytes, identity: Identity, *, shown: int | None = None) -> bytes:
        """A certificate in PEM for the request's key and this identity, whatever the request names.

        ``shown``: the serial number of the certificate that the service has; None: it is the authority's own machine.

        Raises:
            HeadwayError: the request is broken, ``shown`` was revoked, or the authority is not here.
        """
        ...
