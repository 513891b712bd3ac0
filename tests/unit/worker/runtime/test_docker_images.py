"""Which names go from an image that Headway brought, and what the engine's words about a load mean."""

from __future__ import annotations

from typing import Any

import pytest

from headway.model.reasons import EndWord
from worker.model import WantedImage
from worker.ports import NotEnoughDisk
from worker.runtime.docker_errors import is_trouble, load_refusal
from worker.runtime.docker_images import MARK, is_named, removal

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
        ("Error processing tar file(exit status 1): write /x: input/output error", EndWord.IMAGE_PULL_FAILED, True),
        ("fork/exec /proc/self/exe: cannot allocate memory", EndWord.IMAGE_PULL_FAILED, True),
        ("Error processing tar file(exit status 1): link /etc/shadow /x: no such file", EndWord.IMAGE_BAD, False),
        ("Error processing tar file(duplicates of file paths not supported): ", EndWord.IMAGE_BAD, False),
        ("json: cannot unmarshal number into Go struct field Config.config.Volumes", EndWord.IMAGE_BAD, False),
    ],
)
def test_words_of_a_load(text: str, word: EndWord, elsewhere: bool) -> None:
    refusal = load_refusal(text, node="n1", image="lab/tool:1")
    assert (refusal.word, refusal.elsewhere) == (word, elsewhere)
    assert isinstance(refusal, NotEnoughDisk) is ("no space" in text)
    assert not is_trouble(text)


@pytest.mark.parametrize(
    ("name", "tags", "want"),
    [
        ("reg.example/a:1", ["reg.example/a:1"], True),
        ("reg.example/a:1", [OURS], False),
        ("reg.example/a", ["reg.example/a:latest"], True),
        ("docker.io/library/mine:1", ["mine:1"], True),
        ("mine", ["mine:1"], False),
        ("a" * 12, ["mine:1"], False),
        ("sha256:" + "a" * 64, ["mine:1"], False),
        (ID, ["mine:1"], False),
        (OURS, [OURS], False),
        (PULLED, ["mine:1"], True),
        (PULLED, [OURS], False),
        (PULLED, [OURS, "mine:1"], False),
        ("reg.example/a:1@sha256:" + "b" * 64, [], True),
        ("reg.example/a@sha256:" + "c" * 64, [], False),
        (f"{MARK}@sha256:" + "b" * 64, [], False),
    ],
)
def test_only_a_name_that_people_gave_finds_an_image_for_all(name: str, tags: list[str], want: bool) -> None:
    """Engines know images by parts of their ids too, and what Headway brought is not everybody's."""
    found = {"Id": ID, "RepoTags": tags, "RepoDigests": [PULLED, f"{MARK}@sha256:" + "b" * 64]}
    assert is_named(WantedImage(name), found) is want


def test_an_engine_that_stops_is_asked_again() -> None:
    assert is_trouble("Error processing tar file: context canceled")
