"""Sends subscribers the nodes: all of them first, then the latest state of each that changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from headway.errors import Stopping
from headway.rpc.chunks import in_parts
from headway.rpc.v1 import resource_manager_pb2

_FIRST_BYTES = 3_500_000


class NodeSubscription:
    """One subscriber's unread changes. Bounded by the number of nodes, since only the latest of each is kept."""

    def __init__(self, nodes: Iterable[resource_manager_pb2.Node]) -> None:
        self._first = list(nodes)
        self._unread: dict[str, resource_manager_pb2.Node | None] = {}
        self._ready = asyncio.Event()
        self._closed = False

    def first(self) -> Iterator[resource_manager_pb2.NodesChanged]:
        """All nodes, in as many messages as their size asks for; the first one says reset, also with no node."""
        # In one message if at all possible: watchers take what a reset leaves out for gone until it follows.
        parts = list(in_parts(self._first, max_bytes=_FIRST_BYTES)) or [[]]
        for number, part in enumerate(parts):
            yield resource_manager_pb2.NodesChanged(reset=number == 0, nodes=part)

    def put(self, node_id: str, node: resource_manager_pb2.Node | None) -> None:
        self._unread[node_id] = node
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def next(self) -> list[resource_manager_pb2.NodesChanged]:
        """What is unread; waits for the next change.

        Raises:
            Stopping: the service is stopping.
        """
        await self._ready.wait()
        if self._closed:
            raise Stopping
        self._ready.clear()
        unread, self._unread = self._unread, {}
        messages = [
            resource_manager_pb2.NodesChanged(nodes=part)
            for part in in_parts(node for node in unread.values() if node is not None)
        ]
        if removed := [node_id for node_id, node in unread.items() if node is None]:
            messages.append(resource_manager_pb2.NodesChanged(removed=removed))
        return messages


class NodeEventHub:
    """All subscribers. Belongs to the event loop."""

    def __init__(self) -> None:
        self._subscriptions: set[NodeSubscription] = set()

    def publish(self, node_id: str, node: resource_manager_pb2.Node | None) -> None:
        """A node as it is now; None: it is gone."""
        for subscription in self._subscriptions:
            subscription.put(node_id, node)

    @contextmanager
    def watch(self, nodes: Iterable[resource_manager_pb2.Node]) -> Iterator[NodeSubscription]:
        subscription = NodeSubscription(nodes)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def close(self) -> None:
        """Ends all subscriptions; for the stop of the service."""
        for subscription in self._subscriptions:
            subscription.close()
