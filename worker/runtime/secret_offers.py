"""Secrets on their way from the Worker to a launcher: through a socket in the box, from memory to memory.

The kernel says which process asks. Only the launcher that holds the lock of the box is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headway.ids import AttemptId
from headway.logs import get_logger

from .. import box as boxes
from ..box import Box

log = get_logger(__name__)

_PEER = struct.Struct("iII")  # pid, uid, gid


@dataclass(slots=True)
class _Offer:
    values: Sequence[bytes] = field(repr=False)
    server: asyncio.Server | None = None


class SecretOffers:
    """See the module. One event loop owns it. ``box_of`` gives the box of an attempt, which may not exist."""

    def __init__(self, box_of: Callable[[AttemptId], Box]) -> None:
        self._box_of = box_of
        self._offers: dict[AttemptId, _Offer] = {}

    async def give(self, attempt: AttemptId, values: Sequence[bytes]) -> None:
        """From now on the attempt's launcher gets these, in this order. A box that is made later has them too.

        Raises OSError: the socket can't be made.
        """
        self.forget(attempt)
        self._offers[attempt] = _Offer(values)
        if boxes.exists(self._box_of(attempt).run):
            await self.listen(attempt)

    async def listen(self, attempt: AttemptId) -> None:
        """The attempt's box is there. Safe twice, and for attempts without secrets.

        Raises OSError: the socket can't be made.
        """
        offer = self._offers.get(attempt)
        if offer is None or offer.server is not None:
            return
        box = self._box_of(attempt)
        door = _door(box)
        try:
            offer.server = await asyncio.start_unix_server(
                lambda reader, writer: self._answer(box, offer, writer), sock=door
            )
        except BaseException:
            door.close()
            raise

    def forget(self, attempt: AttemptId) -> None:
        """Nobody gets them any more. Safe twice, and for unknown attempts."""
        offer = self._offers.pop(attempt, None)
        if offer is None or offer.server is None:
            return
        offer.server.close()
        secrets = self._box_of(attempt).secrets
        with contextlib.suppress(OSError), boxes.folder_of(secrets) as folder:
            os.unlink(secrets.name, dir_fd=folder)

    def close(self) -> None:
        """Safe twice. A launcher that still waits asks the next Worker."""
        for attempt in list(self._offers):
            self.forget(attempt)

    async def _answer(self, box: Box, offer: _Offer, writer: asyncio.StreamWriter) -> None:
        try:
            if not await asyncio.to_thread(_is_launcher, box, writer.get_extra_info("socket")):
                log.warning("secrets.refused_to_a_stranger", box=box.root.parent.name)
                return
            for value in offer.values:
                writer.write(struct.pack(">Q", len(value)) + value)
            await writer.drain()
        except OSError:
            pass  # it went away, or asks again
        finally:
            writer.close()


def _door(box: Box) -> socket.socket:
    """Blocks for an instant. The path of a box can be longer than that of a socket may be."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        with boxes.folder_of(box.secrets) as folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(box.secrets.name, dir_fd=folder)  # of a Worker that was killed
            door.bind(f"/proc/self/fd/{folder}/{box.secrets.name}")
    except BaseException:
        door.close()
        raise
    return door


def _is_launcher(box: Box, line: socket.socket) -> bool:
    """Whether the lock of the box is held by who asks. Blocks."""
    pid, _uid, _gid = _PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(pid > 0 and pid == boxes.holder(box))
