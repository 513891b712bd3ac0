"""What is wrong in a request is told in sentences, never in the library's words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, StrictBool, TypeAdapter, ValidationError

from httpserver.http import request_problems

OPENAPI = Path(__file__).resolve().parents[4] / "httpserver" / "openapi.json"
TAG = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"


class Inner(BaseModel):
    tag: str = Field("x", pattern=TAG, max_length=128)


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=5)
    public: StrictBool = False
    number: int = Field(1, ge=1, le=9)
    share: float = Field(1, gt=0)
    users: list[str] = Field(default_factory=list, max_length=2)
    inner: Inner = Inner()
    how: Literal["a", "b"] = "a"
    many: dict[str, str] = Field(default_factory=dict)


def found(body: object) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate(body)
    items = [request_problems.problem({**item, "loc": ("body", *item["loc"])}) for item in caught.value.errors()]
    return [(item.pointer, item.message) for item in items]


@pytest.mark.parametrize(
    ("fields", "pointer", "sentence"),
    [
        ({"name": 5}, "/name", "`name` must be a text."),
        ({"name": ""}, "/name", "`name` must not be empty."),
        ({"name": "x" * 6}, "/name", "`name` may have 5 characters at most."),
        ({"public": "yes"}, "/public", "`public` must be true or false."),
        ({"public": 1}, "/public", "`public` must be true or false."),
        ({"number": "x"}, "/number", "`number` must be a whole number."),
        ({"number": 1.5}, "/number", "`number` must be a whole number."),
        ({"number": 0}, "/number", "`number` must be at least 1."),
        ({"number": 10}, "/number", "`number` may be 9 at most."),
        ({"share": 0}, "/share", "`share` must be more than 0."),
        ({"share": []}, "/share", "`share` must be a number."),
        ({"users": "ann"}, "/users", "`users` must be a list."),
        ({"users": ["ann", 5]}, "/users/1", "Entry 2 of `users` must be a text."),
        ({"users": ["a", "b", "c"]}, "/users", "`users` may have 2 entries at most."),
        ({"inner": "x"}, "/inner", "`inner` must be an object."),
        (
            {"inner": {"tag": "a/b"}},
            "/inner/tag",
            "`tag` must be a letter, digit or `_`, then letters, digits, `_`, `.` and `-`, up to 128 characters.",
        ),
        ({"how": "c"}, "/how", "`how` must be `a` or `b`."),
        ({"many": [1]}, "/many", "`many` must be an object."),
        ({"wrong/way": 1}, "/wrong~1way", "`wrong/way` is not known here."),
    ],
)
def test_each_mistake_has_its_sentence(fields: dict[str, Any], pointer: str, sentence: str) -> None:
    assert found({"name": "x", **fields}) == [(pointer, sentence)]


def test_a_body_and_a_parameter_of_another_form() -> None:
    assert found("text") == [("", "The body must be an object.")]
    assert found({}) == [("/name", "`name` is missing.")]
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Annotated[int, Field(le=500)]).validate_python(501)
    (item,) = caught.value.errors()
    told = request_problems.problem({**item, "loc": ("query", "limit")})
    assert (told.pointer, told.message) == ("", "The parameter `limit` may be 500 at most.")
    assert (
        request_problems.problem({"type": "json_invalid", "loc": ("body", 7)}).message == "The body is no valid JSON."
    )
    assert request_problems.problem({"type": "news", "loc": ("body", "a"), "msg": "Raw"}).message == (
        "`a` is not valid."
    )


def patterns(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("pattern"), str):
            yield value["pattern"]
        for one in value.values():
            yield from patterns(one)
    elif isinstance(value, list):
        for one in value:
            yield from patterns(one)


def test_each_pattern_of_the_api_has_words() -> None:
    assert set(patterns(json.loads(OPENAPI.read_text()))) <= request_problems.FORMS.keys()
