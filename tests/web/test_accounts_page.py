"""Accounts on the page: an admin makes one, changes it and shuts it out; its person lives with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.cluster import Cluster

from .conftest import ask, sign_in

pytestmark = [pytest.mark.web, pytest.mark.slow]

NEW = "a longer and better one"


def stored(page: Page) -> str:
    """All that the browser keeps of this page, and where it has been."""
    kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, history.state, location.href, document.cookie])"
    return str(page.evaluate(kept))


def as_program(headway: Cluster, token: str) -> int:
    """What a call with the token answers."""
    return httpx.get(f"{headway.url}/api/v1/me", headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code


def test_an_account_from_its_making_to_its_end(
    page: Page, headway: Cluster, browser: Browser, shoot: Callable[[Page, str], None]
) -> None:
    dialog = page.get_by_role("dialog")
    # An admin makes it.
    page.get_by_role("navigation").get_by_role("link", name="Accounts").click()
    page.get_by_role("button", name="New account").click()
    name = dialog.get_by_label("Name", exact=True)
    for bad in ("<img src=x onerror=alert(1)>", "Eve", "../eve", "eve eve"):
        name.fill(bad)
        expect(dialog).to_contain_text("small letters")
        expect(dialog.get_by_role("button", name="Make the account")).to_be_disabled()
    name.fill("admin")
    dialog.get_by_role("button", name="Make the account").click()
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(dialog.get_by_role("alert")).to_contain_text("There is an account admin already.")
    name.fill("eve")
    dialog.get_by_label("High priority").check()
    shoot(page, "accounts-new")
    dialog.get_by_role("button", name="Make the account").click()
    password = dialog.get_by_label("The secret").inner_text()
    assert len(password) > 15
    for _ in range(3):  # a browser lets a page prevent the first one alone
        page.keyboard.press("Escape")
    expect(dialog.get_by_label("The secret")).to_have_text(password)
    assert password not in stored(page)
    shoot(page, "accounts-password")
    dialog.get_by_role("button", name="I have it").click()
    assert password not in page.content()
    row = page.get_by_role("row", name=re.compile("^eve"))
    expect(row).to_contain_text("high priority")
    page.get_by_label("Find an account").fill("adm")
    expect(row).to_have_count(0)
    page.reload()
    expect(page.get_by_role("status").filter(has_text=re.compile("1 of [0-9]+ accounts"))).to_be_visible()
    page.get_by_label("Find an account").fill("")
    shoot(page, "accounts")

    # The quota has units.
    row.get_by_role("link", name="eve").click()
    page.get_by_role("button", name="Quota …").click()
    dialog.get_by_label("this much").check()
    for bad in ("-1", "1 TB of", "1" + 30 * "0", "0"):
        dialog.get_by_label("Quota", exact=True).fill(bad)
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("Quota", exact=True).fill("2GiB")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text(re.compile(r"of 2\.0 GiB"))).to_be_visible()

    with browser.new_context(base_url=headway.url) as hers:
        # She signs in, and takes a password of her own.
        eve = hers.new_page()
        sign_in(eve, "eve", password)
        expect(eve.get_by_role("navigation").get_by_role("link", name="Accounts")).to_have_count(0)
        eve.goto("/accounts")
        expect(eve.get_by_role("heading", name="There is no such page")).to_be_visible()
        elsewhere = httpx.post(
            f"{headway.url}/api/v1/session", json={"username": "eve", "password": password}, timeout=60
        ).json()["token"]
        eve.goto("/account")
        expect(eve.get_by_role("table", name="Sessions").get_by_role("row")).to_have_count(3)
        change = eve.get_by_role("form", name="Change the password")
        current, fresh, again = (
            change.get_by_label("Current password"),
            change.get_by_label("New password", exact=True),
            change.get_by_label("New password again"),
        )
        for old, new, repeated, wrong, told in (
            (password, NEW, "another", again, "not the same"),
            (password, "short", "short", fresh, "8 characters"),
            (password, "password1234", "password1234", fresh, "tried first"),
            ("not this one", NEW, NEW, current, "current password is wrong"),
        ):
            current.fill(old)
            fresh.fill(new)
            again.fill(repeated)
            change.get_by_role("button").click()
            expect(wrong).to_have_attribute("aria-invalid", "true")
            expect(change.get_by_role("alert")).to_contain_text(told)
        shoot(eve, "account-password-wrong")
        current.fill(password)
        again.press("Enter")
        expect(change.get_by_role("status")).to_contain_text("other sessions have ended")
        assert as_program(headway, elsewhere) == 401
        expect(eve.get_by_role("table", name="Sessions").get_by_role("row")).to_have_count(2)
        # A token works for a program until she deletes it.
        make = eve.get_by_role("form", name="Make a token")
        make.get_by_label("What it is for").fill("\u202ecba")
        make.get_by_role("button").click()
        expect(make.get_by_role("alert")).to_contain_text("control characters")
        make.get_by_label("What it is for").fill("n" * 101)
        make.get_by_role("button").click()
        expect(make.get_by_role("alert")).to_contain_text("100 characters")
        make.get_by_label("What it is for").fill("nightly")
        make.get_by_role("button").click()
        token = eve.get_by_label("The secret").inner_text()
        assert as_program(headway, token) == 200
        assert token not in stored(eve)
        assert NEW not in stored(eve)
        shoot(eve, "account-token")
        eve.get_by_role("button", name="I have it").click()
        eve.reload()
        expect(eve.get_by_role("row", name=re.compile("nightly"))).to_be_visible()
        assert token not in eve.content()

        # The admin shuts her out, with work that goes on or doesn't.
        tasks = [
            {
                "name": "a",
                "image": "base/python:1",
                "command": "sleep 600",
                "timeout": "20m",
                "env": {"HEADWAY_SCRIPTED_RUN_S": "600"},
            }
        ]
        job = httpx.post(
            f"{headway.url}/api/v1/jobs",
            json={"version": 1, "name": "hers", "tasks": tasks},
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        )
        assert job.status_code == 201, job.text
        page.reload()
        expect(page.get_by_role("row", name=re.compile("nightly"))).to_be_visible()
        page.get_by_role("button", name="Disable …").click()
        expect(dialog.get_by_role("heading")).to_have_text("Disable the account eve?")
        expect(dialog).to_contain_text("1 job has not ended")
        expect(dialog.get_by_role("button", name="Disable eve")).to_be_disabled()
        shoot(page, "accounts-disable")
        dialog.get_by_label(re.compile("^Cancel what")).check()
        dialog.get_by_role("button", name="Disable eve").click()
        expect(page.get_by_text("nobody can sign in with it")).to_be_visible()
        expect(page.get_by_text("It has no tokens.")).to_be_visible()
        assert as_program(headway, token) == 401
        expect(eve.get_by_role("dialog")).to_contain_text("Your session has ended")
        shoot(page, "accounts-one")

        # Her password is reset, and opens nothing while she is shut out.
        page.get_by_role("button", name="Reset password …").click()
        dialog.get_by_role("button", name="Make a new password").click()
        second = dialog.get_by_label("The secret").inner_text()
        dialog.get_by_role("button", name="I have it").click()
        eve.goto("/")
        eve.get_by_label("Name").fill("eve")
        eve.get_by_label("Password").fill(second)
        eve.get_by_role("button", name="Sign in").click()
        expect(eve.get_by_role("alert")).to_contain_text("disabled")
        page.get_by_role("button", name="Enable").click()
        expect(page.get_by_text("nobody can sign in with it")).to_have_count(0)
        eve.get_by_label("Password").fill(second)
        eve.get_by_role("button", name="Sign in").click()
        expect(eve.get_by_role("link", name="eve")).to_be_visible()
        assert ask(headway, "GET", f"/jobs/{job.json()['id']}").json()["state"] in ("STOPPING", "CANCELLED")

    # The last admin stays one.
    page.goto("/accounts/admin")
    page.get_by_role("button", name="Rights …").click()
    dialog.get_by_label("Admin").uncheck()
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("last admin")
    expect(dialog.get_by_label("Admin")).to_have_attribute("aria-invalid", "true")
    shoot(page, "accounts-last-admin")
    dialog.get_by_role("button", name="Cancel").click()

    # She goes, and her files go to somebody.
    headway.client.create_user(name="heir", password="a password of heir")
    headway.client.wait(job.json()["id"], timeout_s=60)
    headway.client.change_user("eve", {"enabled": False})
    page.goto("/accounts/eve")
    page.get_by_role("button", name="Remove …").click()
    dialog.get_by_label("go to another account").check()
    expect(dialog.get_by_role("button", name="Remove eve")).to_be_disabled()
    dialog.get_by_label("Who gets them").select_option("heir")
    shoot(page, "accounts-remove")
    dialog.get_by_role("button", name="Remove eve").click()
    expect(page.get_by_role("heading", name="Accounts")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("^eve"))).to_have_count(0)
    kept = json.loads(stored(page))
    assert not [secret for secret in (password, second, token, NEW) if secret in str(kept)]
