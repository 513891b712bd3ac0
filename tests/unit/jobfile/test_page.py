"""What the page's form makes of a file is what the server reads: both read the same fixtures (trips.test.ts)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway.jobfile.source import Ambiguous
from headway.jobfile.source_yaml import YamlSource, resolve_plain

FIXTURES = Path(__file__).parents[3] / "httpserver" / "web" / "src" / "domain" / "fixtures"


def read(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text())


@pytest.mark.parametrize(("word", "text"), read("plain-words.json").items())
def test_a_word_without_quotes_is_to_the_page_what_it_is_to_the_server(word: str, text: bool) -> None:
    value = resolve_plain(word)
    assert (isinstance(value, str) and not isinstance(value, Ambiguous)) is text


@pytest.mark.parametrize("trip", read("trips.json"))
def test_a_trip_through_the_form_changes_only_what_was_changed_there(trip: dict[str, str]) -> None:
    def of(text: str) -> Any:
        source = YamlSource(text, max_nodes=1000, max_expanded_chars=10_000)
        assert source.problems == []
        return source.value

    before, after = of(trip["file"]), of(trip["after"])
    assert after.pop("name") == "another"
    assert [task.pop("grace") for task in after["tasks"]] == ["5s"] * len(after["tasks"])
    del before["name"]
    assert spelled(after) == spelled(before)


def spelled(value: Any) -> Any:
    """With the kind of each value: 1 is neither 1.0 nor true, and yes is no plain text."""
    if isinstance(value, dict):
        return {key: spelled(one) for key, one in value.items()}
    if isinstance(value, list):
        return [spelled(one) for one in value]
    return type(value).__name__, value
