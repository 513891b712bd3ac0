from __future__ import annotations

from dataclasses import fields, replace

import pytest

from headway.errors import InvalidInput
from headway.trust import joining
from headway.trust.joining import JoinAnswer, JoinRequest, new_token, read_token, token_key

REQUEST = JoinRequest(
    "lab", "abcdefghij", "CSR", "n" * 32, 1_800_000_000.25, "0.1.0", "n1", "host", renew=False, look=True
)
ANSWER = JoinAnswer("CERT", "CA", '{"role": "worker"}', "0.1.0")


def test_a_token_is_read_as_it_was_made_and_shows_no_secret():
    token = new_token("my.lab_1-x", "a" * 64)
    assert read_token(f" {token.text}\n") == token
    assert token.secret not in repr(token)
    assert token.key == token_key(token.secret)
    assert new_token("lab", "a" * 64) != new_token("lab", "a" * 64)


@pytest.mark.parametrize("cut", range(0, 130, 7))
def test_a_token_that_is_not_whole_is_refused(cut: int):
    text = new_token("lab", "a" * 64).text
    with pytest.raises(InvalidInput):
        read_token(text[:cut])


@pytest.mark.parametrize("text", ["hw2:lab:abcdefghij:s:f", "hw1:-lab:abcdefghij:" + "A" * 43 + ":" + "a" * 64, "\x00"])
def test_what_is_no_token_is_refused(text: str):
    with pytest.raises(InvalidInput):
        read_token(text)


@pytest.mark.parametrize("field", [field.name for field in fields(JoinRequest)])
def test_a_change_of_any_word_of_a_request_breaks_its_proof(field: str):
    value = getattr(REQUEST, field)
    other = not value if isinstance(value, bool) else value + 1 if isinstance(value, float) else value + "x"
    key = token_key("A" * 43)
    assert replace(REQUEST, **{field: other}).proof(key) != REQUEST.proof(key)


@pytest.mark.parametrize("field", [field.name for field in fields(JoinAnswer)])
def test_a_change_of_any_word_of_an_answer_breaks_its_proof(field: str):
    key = token_key("A" * 43)
    changed = replace(ANSWER, **{field: getattr(ANSWER, field) + "x"})
    assert changed.proof(key, REQUEST) != ANSWER.proof(key, REQUEST)


def test_an_answer_is_proven_for_one_request_and_one_token():
    key = token_key("A" * 43)
    assert ANSWER.proof(key, REQUEST) != ANSWER.proof(key, replace(REQUEST, nonce="m" * 32))
    assert ANSWER.proof(key, REQUEST) != ANSWER.proof(token_key("B" * 43), REQUEST)


def test_words_that_move_from_one_field_to_the_next_are_another_request():
    key = token_key("A" * 43)
    assert replace(REQUEST, name="n1h", host="ost").proof(key) != REQUEST.proof(key)


@pytest.mark.parametrize(
    ("at", "told"), [(1000, ""), (1060, ""), (940, ""), (1061, "61 s ahead"), (900, "100 s behind")]
)
def test_a_clock_may_be_a_minute_off(at: float, told: str):
    refusal = joining.clock_refusal(at, 1000)
    assert (told in refusal) if told else refusal == ""


@pytest.mark.parametrize(
    ("mine", "others", "fits"),
    [
        ("0.1.0", "0.1.5", True),
        ("0.2.0", "0.1.0", True),
        ("0.1.0", "0.2.0", True),
        ("0.3.0", "0.1.0", False),
        ("1.0.0", "0.9.0", False),
        ("1.9.2", "1.10.0", True),
        ("unknown", "unknown", True),
        ("0.1.0", "unknown", False),
    ],
)
def test_one_minor_version_may_lie_between(mine: str, others: str, fits: bool):
    refusal = joining.version_refusal(mine, others)
    assert (refusal == "") is fits
    assert fits or mine in refusal
