"""The page of one's account: passwords for registries, and groups; by keys as well as by mouse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.cluster import Cluster
from tests.support.registry import PASSWORD, USER, Registry, a_registry

from .conftest import ask, sign_in

pytestmark = [pytest.mark.web, pytest.mark.slow]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """A real one that knows one user."""
    with a_registry(tmp_path / "registry", private=True) as registry:
        yield registry


def test_a_password_for_a_registry_is_checked_stored_and_never_shown(
    page: Page, headway: Cluster, registry: Registry, shoot: Callable[[Page, str], None]
) -> None:
    page.get_by_role("link", name="admin").click()
    form = page.get_by_role("form", name="Store a password for a registry")
    expect(form.get_by_label("Password")).to_have_attribute("autocomplete", "new-password")
    form.get_by_label("Registry").fill(f"{registry.host}/team")
    form.get_by_label("User name").fill(USER)
    form.get_by_label("Password").fill("not this one")
    form.get_by_label("Password").press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("the host alone")
    form.get_by_label("Registry").fill(f"https://{registry.host}/")
    form.get_by_label("Password").press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("does not take this user name with this password")
    assert ask(headway, "GET", "/registries").json() == {"registries": []}
    form.get_by_label("Password").fill(PASSWORD)
    form.get_by_role("button", name="Store").click()
    expect(form.get_by_role("status")).to_contain_text("accepts")
    expect(form.get_by_role("alert")).to_have_count(0)
    row = page.get_by_role("row", name=re.compile(re.escape(registry.host)))
    expect(row).to_contain_text(USER)
    expect(form.get_by_label("Password")).to_have_value("")
    shoot(page, "account")
    with page.expect_response(lambda response: response.url.endswith("/registries")) as listed:
        page.reload()
    assert PASSWORD not in listed.value.text()
    expect(row).to_be_visible()
    assert PASSWORD not in page.content()
    row.get_by_role("button", name="New password").press("Enter")
    expect(form.get_by_label("User name")).to_have_value(USER)
    expect(form.get_by_label("Password")).to_be_focused()
    row.get_by_role("button", name="Delete").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Delete").press("Enter")
    expect(row).to_have_count(0)
    assert ask(headway, "GET", "/registries").json() == {"registries": []}


def test_groups_are_changed_by_admins_and_seen_by_all(
    page: Page, headway: Cluster, browser: Browser, shoot: Callable[[Page, str], None]
) -> None:
    for name in ("bea", "dan"):
        headway.client.create_user(name=name, password=f"a password of {name}")
    page.goto("/account")
    page.get_by_role("button", name="New group").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Group name").fill("Not So")
    expect(dialog).to_contain_text("lower-case")
    expect(dialog.get_by_role("button", name="Make the group")).to_be_disabled()
    dialog.get_by_label("Group name").fill("vision")
    dialog.get_by_label("Members", exact=True).fill("bea, nobody-here")
    shoot(page, "account-group")
    dialog.get_by_role("button", name="Make the group").click()
    expect(dialog.get_by_role("alert")).to_contain_text("nobody-here")
    dialog.get_by_role("button", name="Remove nobody-here").click()
    dialog.get_by_role("button", name="Make the group").click()
    expect(dialog).to_have_count(0)
    table = page.get_by_role("table", name="Groups")
    expect(table.get_by_role("row", name="vision")).to_contain_text("bea")
    with browser.new_context(base_url=headway.url) as other:
        theirs = other.new_page()
        sign_in(theirs, "dan", "a password of dan")
        theirs.goto("/account")
        expect(theirs.get_by_role("row", name="vision")).to_contain_text("bea")
        expect(theirs.get_by_role("button", name=re.compile("New group|Change vision|Delete vision"))).to_have_count(0)
    page.get_by_role("button", name="Change vision").press("Enter")
    dialog.get_by_role("button", name="Remove bea").click()
    dialog.get_by_label("Members", exact=True).fill("dan")  # not added: who presses Save means it
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(table.get_by_role("row", name="vision")).to_contain_text("dan")
    [group] = ask(headway, "GET", "/groups").json()["groups"]
    assert group["members"] == ["dan"]
    page.get_by_role("button", name="Delete vision").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("There are no groups yet.")).to_be_visible()
    assert ask(headway, "GET", "/groups").json() == {"groups": []}
