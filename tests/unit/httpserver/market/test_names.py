"""Names of images: what may be pushed where, and what people mean."""

from __future__ import annotations

import os

import pytest

from headway.errors import InvalidInput, NotAllowed
from httpserver.auth.model import Account
from httpserver.market.names import MarketImageName, inner_tag, is_id, new_id, parse, to_push

DIGEST = "sha256:" + "0" * 64


def account(name: str = "ann", *, admin: bool = False) -> Account:
    return Account(name, 20_000, 20_000, admin, True, False, False, 0.0)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("torch", MarketImageName("ann", "torch", "latest")),
        ("torch:2.4", MarketImageName("ann", "torch", "2.4")),
        ("ann/torch", MarketImageName("ann", "torch", "latest")),
        ("a" * 64, MarketImageName("ann", "a" * 64, "latest")),
        ("a.b_c-d:T_1.x-", MarketImageName("ann", "a.b_c-d", "T_1.x-")),
    ],
)
def test_a_name_without_an_owner_is_ones_own(text: str, want: MarketImageName) -> None:
    assert to_push(text, account()) == want


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Torch",
        "a" * 65,
        "torch:",
        "torch:a b",
        "torch:" + "t" * 129,
        "../x",
        "a//b",
        "a/b/c",
        "/a",
        "a..b",
        "-a",
        "a\n",
        "a\x00",
        "ä",
        f"torch@{DIGEST}",
    ],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="NAME"):
        to_push(text, account())


def test_nobody_pushes_to_others_and_admins_alone_to_base() -> None:
    with pytest.raises(NotAllowed, match="not yours"):
        to_push("bob/torch", account())
    with pytest.raises(NotAllowed, match="not yours"):
        to_push("bob/torch", account(admin=True))
    with pytest.raises(NotAllowed, match="admins only"):
        to_push("base/python", account())
    assert to_push("base/python:1", account(admin=True)) == MarketImageName("base", "python", "1")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("torch", MarketImageName("ann", "torch")),
        ("bob/torch:2", MarketImageName("bob", "torch", "2")),
        (f"bob/torch@{DIGEST}", MarketImageName("bob", "torch", "", DIGEST)),
        (f"bob/torch:2@{DIGEST}", MarketImageName("bob", "torch", "2", DIGEST)),
        ("docker.io/library/python", None),
        ("localhost:5000/x", None),
        ("ghcr.io/x", None),
        ("x@sha256:abc", None),
    ],
)
def test_what_can_not_be_in_the_market_is_none_of_it(text: str, want: MarketImageName | None) -> None:
    assert parse(text, "ann") == want


def test_ids_are_no_names_of_accounts() -> None:
    made = {new_id(os.urandom(12)) for _ in range(100)}
    assert len(made) == 100
    assert all(is_id(one) and not one[0].isalpha() for one in made)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("ann/x:1", "ann/x:1"),
        ("_ann/x:1", "x:1"),
        ("ann-/x:1", "x:1"),
        ("a__b/x:1", "a__b/x:1"),
        (f"ann/x@{DIGEST}", ""),
    ],
)
def test_the_tag_inside_an_archive_is_one_that_engines_take(name: str, want: str) -> None:
    assert inner_tag(name) == want
