"""Which versions talk, and that a call of one too far away is refused before it is read."""

from __future__ import annotations

import pytest

from headway.errors import Unavailable
from headway.rpc import versions
from headway.rpc.errors_map import error_of, problem_bytes
from headway.rpc.versions import VersionsApart, apart, versions_talk


@pytest.mark.parametrize(
    ("one", "other", "talk"),
    [
        ("0.1.0", "0.1.0", True),
        ("0.1.0", "0.1.9", True),
        ("0.1.0", "0.2.0", True),
        ("0.1.9", "0.2.0rc1", True),
        ("0.1.0", "0.3.0", False),
        ("0.9.0", "0.10.0", True),
        ("0.1.0", "0.10.0", False),
        ("0.2.0", "1.2.0", False),
        ("1.0.0", "0.9.0", False),
        ("1.4", "1.5", True),
        ("", "0.3.0", True),
        ("unknown", "0.3.0", True),
        ("0.1.0", "9" * 400 + ".1", True),
    ],
)
def test_versions_next_to_each_other_talk(one: str, other: str, talk: bool) -> None:
    assert versions_talk(one, other) is talk
    assert versions_talk(other, one) is talk


def test_the_refusal_names_both_and_the_remedy() -> None:
    sentence = apart("task-manager", "0.3.0", "0.1.0")
    assert sentence.startswith("task-manager is Headway 0.3.0, and it was called by Headway 0.1.0:")
    assert "by one minor version at a time" in sentence


def test_a_refused_caller_waits_as_for_one_that_is_away() -> None:
    """Else an outbox would give its rows up in the middle of an upgrade."""
    told = error_of(problem_bytes(VersionsApart("too far")))
    assert isinstance(told, VersionsApart)
    assert isinstance(told, Unavailable)
    assert told.code == "UNAVAILABLE"


def test_this_version_is_known() -> None:
    assert versions_talk(versions.MINE, versions.MINE)
