"""Which names go from an image that Headway brought, and what the engine's words about a load mean."""

from __future__ import annotations

from typing import Any

import pytest

from headway.model.reasons import EndWord
from worker.ports import NoRoom
from worker.runtime.docker_errors import is_trouble, load_refusal
from worker.runtime.docker_images import MARK, removal

ID = "sha256:" + "a" * 64
OURS = f"{MARK}:{'a' * 64}"
PULLED = "reg.example/a@sha256:" + "b" * 64


@pytest.mark.parametrize(
    ("tags", "digests", "want", "goes"),
    [
        ([OURS], [], [OURS], True),
        ([OURS], [PULLED], [PULLED, OURS], True),
        ([OURS, "mine:1"], [PULLED], [OURS], False),
        ([OURS], [PULLED, "other.example/a@sha256:" + "b" * 64], [OURS], False),
        (["mine:1"], [], [], False),
        (["<none>:<none>"], ["<none>@<none>"], [ID], True),
        (None, None, [ID], True),
    ],
)
def test_only_what_headway_brought_goes(tags: Any, digests: Any, want: list[str], goes: bool) -> None:
    assert removal({"Id": ID, "RepoTags": tags, "RepoDigests": digests}, [PULLED]) == (want, goes)


@pytest.mark.parametrize(
    ("text", "word", "elsewhere"),
    [
        (
            "Error processing tar file(exit status 1): write /x: no space left on device",
            EndWord.IMAGE_PULL_FAILED,
            True,
        ),
        ('invalid diffID for layer 0: expected "sha256:1", got "sha256:2"', EndWord.IMAGE_BAD, False),
        ("Error processing tar file(exit status 1): unexpected EOF", EndWord.IMAGE_PULL_FAILED, True),
    ],
)
def test_words_of_a_load(text: str, word: EndWord, elsewhere: bool) -> None:
    refusal = load_refusal(text, node="n1", image="lab/tool:1")
    assert (refusal.word, refusal.elsewhere) == (word, elsewhere)
    assert isinstance(refusal, NoRoom) is ("no space" in text)
    assert not is_trouble(text)


def test_an_engine_that_stops_is_asked_again() -> None:
    assert is_trouble("Error processing tar file: context canceled")
