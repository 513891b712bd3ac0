"""What an attempt is given of its owner's secrets, and what it ends with where it can't be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headway.errors import Fenced, HeadwayError, Unavailable
from headway.ids import AttemptId, JobId, TaskId
from headway.jobfile.spec import SecretUse
from headway.model.reasons import EndWord
from tests.support.clock import FakeClock
from worker.attempt.task_secrets import FetchedSecrets, fetch, values_for
from worker.ports import RuntimeRefused

ATTEMPT = AttemptId(TaskId(JobId("j1"), "t"), 1)
USES = (SecretUse("A", env="A"), SecretUse("B", file="b"), SecretUse("A", env="OTHER"))


class Answers:
    """A source that says these one after the other, the last one for ever."""

    def __init__(self, *answers: FetchedSecrets | HeadwayError) -> None:
        self.answers = list(answers)
        self.asked: list[Sequence[str]] = []

    async def secrets(self, attempt: AttemptId, names: Sequence[str]) -> FetchedSecrets:
        self.asked.append(names)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, HeadwayError):
            raise answer
        return answer


def test_each_use_has_its_value_in_its_order() -> None:
    assert values_for(USES, FetchedSecrets({"A": b"a", "B": b"\0"})) == (b"a", b"\0", b"a")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"A": b"a"}, "no secret `B` any more"),
        ({}, "no secrets `A`, `B` any more"),
        ({"A": b"geheim\0", "B": b"b"}, "`A` has a NUL byte"),
    ],
)
def test_what_lacks_is_the_owners_fault_and_named_without_a_value(values: dict[str, bytes], says: str) -> None:
    with pytest.raises(RuntimeRefused, match=says) as refused:
        values_for(USES, FetchedSecrets(values))
    assert refused.value.word is EndWord.SECRET_MISSING
    assert not refused.value.word.facts.user_retry
    assert not refused.value.word.facts.platform_retry
    assert "geheim" not in str(refused.value)


def test_no_repr_has_a_value() -> None:
    assert "geheim" not in repr(FetchedSecrets({"A": b"geheim"}))


async def test_a_service_that_is_away_is_waited_for_and_the_owner_told_once(clock: FakeClock) -> None:
    source, told = Answers(Unavailable("away"), Unavailable("away"), FetchedSecrets({"A": b"a", "B": b"b"})), []
    fetching = asyncio.create_task(fetch(source, ATTEMPT, USES, clock, limit_s=60, on_wait=told.append))
    for _ in range(8):
        await clock.advance(1)
    assert await fetching == (b"a", b"b", b"a")
    assert told == ["away"]
    assert source.asked[0] == ["A", "B"]


async def test_past_its_limit_it_is_the_platforms_fault(clock: FakeClock) -> None:
    source = Answers(Unavailable("away"))
    fetching = asyncio.create_task(fetch(source, ATTEMPT, USES, clock, limit_s=5, on_wait=lambda why: None))
    for _ in range(12):
        await clock.advance(1)
    with pytest.raises(RuntimeRefused, match="within 5s: away") as refused:
        await fetching
    assert (refused.value.word, refused.value.elsewhere) == (EndWord.START_FAILED, True)


async def test_a_no_is_not_asked_for_again(clock: FakeClock) -> None:
    source = Answers(Fenced("not yours"))
    with pytest.raises(RuntimeRefused, match="not yours") as refused:
        await fetch(source, ATTEMPT, USES, clock, limit_s=60, on_wait=lambda why: None)
    assert refused.value.word is EndWord.START_FAILED
    assert len(source.asked) == 1
