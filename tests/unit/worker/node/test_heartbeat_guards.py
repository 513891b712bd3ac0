"""What was given to others is ended before anything gets a longer lease."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from headway.ids import AttemptId
from tests.support.clock import FakeClock
from tests.unit.worker.builders import an_attempt
from worker.attempt.leases import Lease
from worker.box import StopWord
from worker.model import ExtendAttempt
from worker.node.heartbeat import Heartbeat, HeartbeatAnswer

A, B = an_attempt("a"), an_attempt("b")


async def test_discards_and_stops_come_before_the_lease_and_the_discarded_get_none(clock: FakeClock) -> None:
    """An attempt that waited for an answer would begin with this one, beside the one that replaced it."""
    steps: list[Any] = []

    async def send(sent_s: float, suspended: bool) -> HeartbeatAnswer:
        return HeartbeatAnswer(120, True, discard=(A,), stop=((B, StopWord.CANCELLED),))

    async def renew(lease: Lease, but: Collection[AttemptId]) -> None:
        steps.append(("renew", tuple(but)))

    async def stop(orders: Sequence[tuple[AttemptId, StopWord]]) -> None:
        steps.append("stop")

    async def discard(attempts: Sequence[AttemptId]) -> None:
        steps.append("discard")

    async def extend(orders: Sequence[ExtendAttempt]) -> None:
        steps.append("extend")

    heartbeat = Heartbeat(
        send,
        clock,
        every_s=10,
        lease_stop_s=30,
        set_lease=lambda lease: steps.append("lease"),
        renew=renew,
        stop=stop,
        discard=discard,
        extend=extend,
    )
    assert await heartbeat.send_once()
    assert steps == ["discard", "stop", "lease", ("renew", (A,))]


async def test_no_answer_shortens_a_lease(clock: FakeClock) -> None:
    """Answers may overtake each other: what was promised to a launcher stays."""
    leases: list[Lease] = []
    answers = [HeartbeatAnswer(120, True), HeartbeatAnswer(60, True)]

    async def send(sent_s: float, suspended: bool) -> HeartbeatAnswer:
        return answers.pop(0)

    async def nothing(*arguments: Any) -> None: ...

    heartbeat = Heartbeat(
        send,
        clock,
        every_s=10,
        lease_stop_s=30,
        set_lease=leases.append,
        renew=nothing,
        stop=nothing,
        discard=nothing,
        extend=nothing,
    )
    await heartbeat.send_once()
    await heartbeat.send_once()
    assert leases[0] == leases[1]
