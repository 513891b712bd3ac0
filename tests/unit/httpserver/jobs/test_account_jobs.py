"""What JobManager is told of disabled accounts, when calls take long or fail."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from headway.errors import HeadwayError, Unavailable
from httpserver.jobs.account_jobs import AccountJobs
from tests.support.clock import FakeClock


@dataclass
class FakeAccount:
    name: str
    enabled: bool = True


class FakeAccounts:
    def __init__(self) -> None:
        self.ann = FakeAccount("ann")

    async def all_and_removed(self) -> list[FakeAccount]:
        return [self.ann]


class FakeJobManager:
    """Takes a call when its gate opens. ``arrived``: the sets, in the order in which they were taken."""

    def __init__(self) -> None:
        self.arrived: list[list[str]] = []
        self.gates: list[asyncio.Event] = []
        self.failures: list[HeadwayError] = []
        self.begun = 0

    async def call(self, method: str, request: Any, **options: Any) -> None:
        assert method == "HoldAccounts"
        self.begun += 1
        if self.gates:
            await self.gates.pop(0).wait()
        if self.failures:
            raise self.failures.pop(0)
        self.arrived.append(list(request.accounts))


class FakeServices:
    def __init__(self, jobs: FakeJobManager) -> None:
        self.jobs = jobs


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def jobs() -> FakeJobManager:
    return FakeJobManager()


@pytest.fixture
def accounts() -> FakeAccounts:
    return FakeAccounts()


@pytest.fixture
def told(jobs: FakeJobManager, accounts: FakeAccounts, clock: FakeClock) -> AccountJobs:
    return AccountJobs(FakeServices(jobs), accounts, clock)  # type: ignore[arg-type]


async def test_an_older_set_never_arrives_last(told: AccountJobs, jobs: FakeJobManager, accounts: FakeAccounts):
    gate = asyncio.Event()
    jobs.gates.append(gate)
    running = asyncio.create_task(told.run())
    told.tell_again()
    await turns()
    assert jobs.begun == 1
    accounts.ann.enabled = False
    disabling = asyncio.create_task(told.hold_or_release())
    await turns()
    gate.set()
    await disabling
    await turns()
    assert jobs.arrived[-1] == ["ann"]
    running.cancel()


@pytest.mark.parametrize("failure", [Unavailable("away"), HeadwayError("something inside")])
async def test_what_could_not_be_told_follows(
    told: AccountJobs, jobs: FakeJobManager, accounts: FakeAccounts, failure: HeadwayError
):
    jobs.failures.append(failure)
    accounts.ann.enabled = False
    await told.hold_or_release()
    assert jobs.arrived == []
    running = asyncio.create_task(told.run())
    await turns()
    assert jobs.arrived == [["ann"]]
    running.cancel()
