"""Calls between services: they may come late, get lost on the way there, or lose their answer on the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from headway.errors import DeadlineExceeded, HeadwayError, Unavailable

from .stage import Process, event_within

if TYPE_CHECKING:
    from .world import World

Handler = Callable[[Any, Any], Awaitable[Any]]


class Network:
    """One link for each machine, to TaskManager and back."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: dict[str, asyncio.Event] = {}
        self.loses_answers: set[str] = set()  # requests come through

    def add(self, machine: str) -> None:
        self._open[machine] = asyncio.Event()
        self._open[machine].set()

    def cut(self, machine: str) -> None:
        self._open[machine].clear()

    def heal(self, machine: str) -> None:
        self._open[machine].set()
        self.loses_answers.discard(machine)

    def is_cut(self, machine: str) -> bool:
        return not self._open[machine].is_set()

    async def call(
        self,
        machine: str,
        caller: Process,
        find: Callable[[], tuple[Process, Handler] | None],
        request: Any,
        *,
        deadline_s: float,
        clock: Any,
    ) -> Any:
        """One call over a machine's link. ``find`` gives who listens when it arrives.

        Raises:
            HeadwayError: as ``headway.rpc.channel.Peer.call``.
        """
        caller.check()
        answered, outcome = asyncio.Event(), []
        gave_up, handlings = False, list[asyncio.Task[Any]]()
        message = type(request).FromString(request.SerializeToString())

        async def travel() -> None:
            world = self._world
            await world.delay(world.time, 4.0, usual=0.01)
            if self.is_cut(machine):
                if world.chance.random() < 0.5:
                    return  # lost
                await self._open[machine].wait()  # it waits in a buffer on the way
                await world.delay(world.time, 1.0, usual=0.01)
            found = find()
            if found is None:
                outcome.append(Unavailable("nobody listens there"))
                answered.set()
                return
            server, handler = found
            handling = server.spawn(_handle(handler, message))
            handlings.append(handling)
            if gave_up or not caller.alive:
                # The far side hears of the call and of its end in the same moment.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                handling.cancel()
            await asyncio.wait({handling})
            answer: Any
            if handling.cancelled():
                answer = Unavailable("the connection broke")
            else:
                answer = handling.result()
            await world.delay(world.time, 2.0, usual=0.01)
            if self.is_cut(machine) or machine in self.loses_answers:
                return
            outcome.append(answer)
            answered.set()

        self._world.spawn(travel())
        try:
            if not await event_within(answered, deadline_s, clock):
                raise DeadlineExceeded("no answer in time")
        finally:
            gave_up = not answered.is_set()
            if gave_up:
                for handling in handlings:
                    handling.cancel()  # as gRPC does with a call whose deadline is over
        caller.check()
        if isinstance(outcome[0], HeadwayError):
            raise outcome[0]
        return outcome[0]


async def _handle(handler: Handler, request: Any) -> Any:
    try:
        return await handler(request, None)
    except HeadwayError as error:
        return error


class ModelPeer:
    """Stands for ``headway.rpc.channel.Peer``: a stub's method is the name of the call."""

    def __init__(self, call: Callable[[str, Any, float], Awaitable[Any]]) -> None:
        self._call = call
        self.channel = self

    def unary_unary(self, path: str, *args: Any, **options: Any) -> str:
        return path.rpartition("/")[2]

    unary_stream = unary_unary
    stream_unary = unary_unary

    async def call(self, method: str, request: Any, *, deadline_s: float, **options: Any) -> Any:
        return await self._call(method, request, deadline_s)

    async def close(self) -> None:
        pass
