"""Command lines that somebody on the page lets in by a short code."""

from __future__ import annotations

import pytest

from headway.errors import InvalidInput, NotFound, TooMany
from httpserver.auth.sign_in_requests import LIFE_S, SignInRequests, shown


def test_it_is_let_in_once_by_the_code_that_both_show() -> None:
    requests = SignInRequests()
    asked, secret = requests.ask("10.0.0.1", "headway\x1b[2J", 0.0)
    assert asked.agent == "headway[2J"
    assert requests.poll(secret, 1.0).decision == "waiting"
    typed = shown(asked.code).lower()
    assert requests.look(typed, "ann", 1.0).address == "10.0.0.1"
    requests.decide(typed, "ann", True, 1.0)
    with pytest.raises(NotFound):
        requests.decide(typed, "eve", False, 1.0)
    done = requests.poll(secret, 1.0)
    assert (done.decision, done.account) == ("approved", "ann")
    with pytest.raises(InvalidInput):
        requests.poll(secret, 1.0)


def test_the_code_alone_fetches_nothing() -> None:
    requests = SignInRequests()
    asked, _ = requests.ask("10.0.0.1", "", 0.0)
    requests.decide(asked.code, "ann", True, 0.0)
    for guess in (asked.code, asked.secret, ""):
        with pytest.raises(InvalidInput):
            requests.poll(guess, 0.0)


def test_it_ends_by_itself_whether_it_was_approved_or_not() -> None:
    requests = SignInRequests()
    (_, waits), (approved, secret) = requests.ask("10.0.0.1", "", 0.0), requests.ask("10.0.0.1", "", 0.0)
    requests.decide(approved.code, "ann", True, 1.0)
    for one in (waits, secret):
        with pytest.raises(InvalidInput):
            requests.poll(one, LIFE_S)
    requests.ask("10.0.0.1", "", LIFE_S)
    assert len(requests._requests) == len(requests._codes) == 1


def test_nobody_guesses_codes_or_fills_the_memory() -> None:
    requests = SignInRequests()
    for _ in range(10):
        with pytest.raises(NotFound):
            requests.look("BCDFGHJK", "eve", 0.0)
    asked, _ = requests.ask("10.0.0.1", "", 0.0)
    with pytest.raises(TooMany):
        requests.look(asked.code, "eve", 0.0)
    assert requests.look(asked.code, "ann", 0.0) == asked
    for _ in range(19):
        requests.ask("10.0.0.1", "", 0.0)
    with pytest.raises(TooMany):
        requests.ask("10.0.0.1", "", 0.0)
    requests.ask("10.0.0.2", "", 0.0)
