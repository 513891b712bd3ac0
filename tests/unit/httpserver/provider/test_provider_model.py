"""What the provider says of a person, and what that means here."""

from __future__ import annotations

from typing import Any

import pytest

from httpserver.provider.flows import LIFE_S, Flows
from httpserver.provider.model import account_name, group_changes, is_admin, local_path, person
from httpserver.provider.refusals import SignInRefused
from httpserver.settings import ProviderSettings


def settings(**more: Any) -> ProviderSettings:
    return ProviderSettings("https://id.example", "headway", "s", "https://hw.example/back", **more)


@pytest.mark.parametrize(
    ("claim", "name"),
    [
        ("ada", "ada"), ("Ada", "ada"), ("ada@lab.example", "ada"), ("ada lovelace", ""), ("../ada", ""), ("", ""),
        (None, ""), (["ada"], ""), ("a" * 40, ""), ("ädä", ""), ("ada\n", "ada"), ("-ada", ""),
    ],
)  # fmt: skip
def test_an_account_is_named_after_a_claim_or_not_at_all(claim: Any, name: str) -> None:
    assert account_name(claim) == name


def test_only_a_confirmed_address_of_an_allowed_domain_lets_in() -> None:
    mine = settings(allowed_domains=frozenset({"lab.example"}))
    good = {"sub": "1", "email": "Ada@LAB.example", "email_verified": True, "preferred_username": "ada"}
    assert person(good, mine).name == "ada"
    for bad in (
        {"email": "ada@lab.example.evil.example"},
        {"email": "ada@evil.example"},
        {"email_verified": False},
        {"email_verified": "true"},
        {"email": None},
    ):
        with pytest.raises(SignInRefused) as refused:
            person({**good, **bad}, mine)
        assert refused.value.word == "not-allowed"


def test_only_people_of_an_allowed_group_are_let_in() -> None:
    mine = settings(allowed_groups=frozenset({"staff"}))
    assert person({"sub": "1", "groups": ["x", "staff", 7]}, mine).groups == {"x", "staff"}
    assert person({"sub": "1", "groups": "staff"}, mine).groups == {"staff"}
    for groups in (["x"], None, {"staff": 1}, 7):
        with pytest.raises(SignInRefused):
            person({"sub": "1", "groups": groups}, mine)


@pytest.mark.parametrize("subject", [None, "", 7, "x" * 256, ["1"]])
def test_a_person_without_a_subject_is_nobody(subject: Any) -> None:
    with pytest.raises(SignInRefused):
        person({"sub": subject}, settings())


def test_groups_that_no_rule_names_stay_as_they_are() -> None:
    mine = settings(groups={"staff": "lab", "students": "course"})
    assert group_changes(mine, {"staff"}, ["friends", "course"]) == (["lab"], ["course"])
    assert group_changes(settings(), {"staff"}, ["friends"]) == ([], [])


def test_admins_are_made_here_unless_a_rule_says_so() -> None:
    assert is_admin(settings(), {"root"}) is None
    assert is_admin(settings(admin_groups=frozenset({"root"})), {"root"}) is True
    assert is_admin(settings(admin_groups=frozenset({"root"})), {"staff"}) is False


@pytest.mark.parametrize(
    "wish",
    [
        "//evil.example", "/\\evil.example", "https://evil.example", "evil", "", "/a\\b", "/api/v1/session", "/\t/evil",
        "/a\nSet-Cookie: x", "javascript:alert(1)", "/" + "a" * 3_000, "/\u202e",
    ],
)  # fmt: skip
def test_nobody_is_sent_elsewhere_behind_the_sign_in(wish: str) -> None:
    assert local_path(wish) == "/"


def test_places_of_the_page_are_gone_to() -> None:
    assert local_path("/approve?code=BCDF-GHJK") == "/approve?code=BCDF-GHJK"


def test_a_flow_is_taken_once_by_its_own_browser_and_in_time() -> None:
    flows = Flows()
    flow, secret = flows.begin("/jobs", "10.0.0.1", 0.0)
    assert flows.take(flow.state, "another browser's", 1.0) is None
    assert flows.take("no such state", secret, 1.0) is None
    assert flows.take(flow.state, secret, 1.0) == flow
    assert flows.take(flow.state, secret, 1.0) is None
    late, secret = flows.begin("/", "10.0.0.1", 0.0)
    assert flows.take(late.state, secret, LIFE_S) is None


def test_one_address_pushes_out_its_own_flows_alone() -> None:
    flows = Flows()
    mine, secret = flows.begin("/", "10.0.0.1", 0.0)
    first, theirs = flows.begin("/", "10.0.0.2", 0.0)
    for _ in range(500):
        flows.begin("/", "10.0.0.2", 1.0)
    assert len(flows._flows) == 101
    assert flows.take(first.state, theirs, 1.0) is None
    assert flows.take(mine.state, secret, 1.0) == mine
    flows.begin("/", "10.0.0.3", LIFE_S + 2)
    assert len(flows._flows) == 1
