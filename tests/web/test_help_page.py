"""First steps, help from the server itself, a page that was updated meanwhile, and names that try to be more."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.waiting import soon

from .conftest import ask

pytestmark = [pytest.mark.web, pytest.mark.slow]

PASSWORD = "a password of newcomers"
MARKUP = "<img src=x onerror=\"document.title='pwned'\">"


def test_an_account_without_jobs_runs_the_example_by_one_press(context: BrowserContext, headway: Cluster) -> None:
    headway.client.create_user(name="newcomer", password=PASSWORD)
    page = context.new_page()
    page.goto("/")
    page.get_by_label("Name").fill("newcomer")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    steps = page.get_by_role("region", name="First steps")
    expect(steps.get_by_role("listitem")).to_have_count(3)
    # No image is here, and this runtime takes any: the server says that the example would run.
    assert ask(headway, "GET", "/images").json()["images"] == []
    steps.get_by_role("button", name="Run the example").click()
    expect(page).to_have_url(re.compile(r"/jobs/j\w+/count$"))
    expect(page.get_by_role("heading", name="first example")).to_be_visible()
    expect(page.get_by_role("tablist", name=re.compile("Log", re.IGNORECASE))).to_be_visible()
    page.goto("/")
    expect(page.get_by_role("table", name="My latest jobs")).to_contain_text("first example")
    expect(steps).to_have_count(0)


def test_a_question_mark_leads_to_its_part_of_the_documentation(page: Page) -> None:
    page.goto("/submit")
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Help: Timeouts").click()
    shown = opened.value
    expect(shown).to_have_url(re.compile(r"/help/start#timeout$"))
    expect(shown.get_by_role("heading", name="Timeout")).to_be_in_viewport()
    shown.get_by_role("article").get_by_role("link", name="signals").click()
    expect(shown.get_by_role("heading", name="How a task is told to end, and how it saves its work")).to_be_visible()
    expect(shown).to_have_title(re.compile("How a task is told to end"))
    shown.get_by_role("navigation", name="Help").get_by_role("link", name="Promised starts").click()
    expect(shown.get_by_role("heading", name="Promised start", exact=True)).to_be_in_viewport()
    # What leads out of the documentation is no link; a page that is not there says so, whatever its address.
    assert shown.locator('article a[href*=".md"], article a[href*=".."]').count() == 0
    for name in ("none", "adr/none", "..%2f..%2fetc%2fpasswd", "%3Cimg%20src=x%3E"):
        shown.goto(f"/help/{name}")
        expect(shown.get_by_text("There is no such page of the documentation.")).to_be_visible()


def test_after_an_update_an_old_tab_says_so_and_keeps_what_was_typed(page: Page, complaints: list[str]) -> None:
    page.goto("/submit")
    page.get_by_label("Job name").fill("half typed")
    page.route("**/assets/usage-*.js", lambda route: route.fulfill(status=404, body="gone"))
    page.route(re.compile(r"/$"), lambda route: route.fulfill(body='<script type="module" src="/assets/index-new.js">'))
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Usage").click()
    expect(page.get_by_role("heading", name="Headway was updated")).to_be_visible()
    # The rest of the page goes on.
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Queue").click()
    expect(page.get_by_role("heading", name="Queue")).to_be_visible()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Usage").click()
    page.unroute_all()
    page.get_by_role("button", name="Reload").click()
    expect(page.get_by_role("heading", name="Usage")).to_be_visible()
    page.goto("/submit")
    expect(page.get_by_label("Job name")).to_have_value("half typed")
    complaints[:] = [one for one in complaints if "dynamically imported module" not in one]


def test_a_part_that_did_not_come_is_told_when_nothing_was_updated(page: Page, complaints: list[str]) -> None:
    page.route("**/assets/trash-*.js", lambda route: route.abort())
    page.goto("/trash")
    expect(page.get_by_role("heading", name="This part of the page could not be shown")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("Reload the page. If that does not help, tell an admin")
    page.route(re.compile(r"/$"), lambda route: route.abort())
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Queue").click()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Datasets").click()
    expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    complaints[:] = [one for one in complaints if "dynamically imported module" not in one]


JOBS = [
    MARKUP,
    "../../etc/passwd %00 %2e%2e",
    "__proto__",
    "constructor",
    "🦄" * 50,
    "x" * 100,
    "عربي اسم 日本語",
    "`code` **bold** [a](javascript:alert(1))",
]
TASKS = ["constructor", "toString", "valueOf", "hasOwnProperty", "1", "x" * 63]
FILES = [
    MARKUP.replace("/", ""),
    "..hidden",
    "%00",
    "__proto__",
    "a\x1b[31mred",
    "photo\u202egpj.exe",
    "🦄" * 20,
    "y" * 255,
]


def test_names_that_try_to_be_more_change_nothing(page: Page, headway: Cluster) -> None:
    ids = {name: headway.client.submit(a_job(scripted_task(), name=name))["id"] for name in JOBS}
    env = {"constructor": "1", "toString": "2"}
    tasks = [scripted_task(name, needs=TASKS[:at], env=env) for at, name in enumerate(TASKS)]
    ids["tasks"] = headway.client.submit(a_job(*tasks, name="tasks"))["id"]
    for name in (*FILES, "constructor/a"):
        ask(headway, "PUT", f"/files/{quote(name)}?parents=true", content=b"x")
    headway.client.create_user(name="constructor", password=PASSWORD)
    ask(headway, "POST", "/groups", json={"name": "constructor", "members": ["constructor"]})
    described = {"copy": True, "description": MARKUP}
    ask(headway, "POST", "/datasets", json={"name": "constructor", "path": "constructor", **described})
    soon(lambda: headway.client.job(ids["tasks"])["ended_at"], within_s=60, what="the tasks")

    views = ["/", "/jobs", "/queue", "/usage", "/files", "/datasets", "/datasets/constructor", "/account"]
    views += [f"/jobs/{ids[name]}" for name in JOBS]
    views += [f"/submit/{ids[MARKUP]}"]
    views += [f"/jobs/{ids['tasks']}/{name}" for name in ("constructor", "hasOwnProperty")]
    for view in views:
        page.goto(view)
        expect(page.locator("h1").first).to_be_visible()
        expect(page.get_by_text("Loading …")).to_have_count(0)
        assert page.get_by_role("heading", name="This part of the page could not be shown").count() == 0, view
        assert page.locator("img, [onerror], [onload]").count() == 0, view
        assert "pwned" not in page.title() or MARKUP in page.title(), view
        wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert page.evaluate(wide), f"{view} sticks out"
        assert page.evaluate("({}).polluted === undefined && Object.keys(Object.prototype).length === 0"), view
    page.goto("/files")
    expect(page.locator("main")).to_contain_text("gpj.exe")
    listed = page.locator("main").inner_text()
    assert "\u202e" not in listed
    assert "photo\\u{202e}gpj.exe" in listed

    for words in ("ps -n 100", f"show {ids['tasks']}", "files ls", "usage --by job", "datasets ls", "groups ls"):
        done = headway.headway(*words.split())
        assert done.returncode == 0, done.stderr
        told = done.stdout.decode()
        strange = {c for c in told if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}
        assert strange == set(), words
