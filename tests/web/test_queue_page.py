"""The page of a long queue, and what people press there and on a job's page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

from .conftest import ask

pytestmark = [pytest.mark.web, pytest.mark.slow]

LONG_S = 3000.0
# More than a page has rows.
MANY = 130
LONG_NAME = "Überlänge-" * 9 + "x"
TASK_OF_MANY_LETTERS = "t-" + "verylong" * 7


@pytest.fixture(scope="module")
def headway(web_folder: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of two pretend GPUs; ``bea`` has an account."""
    folder = tmp_path_factory.mktemp("headway")
    with a_cluster(folder, worker__simulated_gpus=2, worker__cpus=16) as cluster:
        cluster.client.create_user(name="bea", password="a password of bea")
        yield cluster


@pytest.fixture(scope="module")
def beas(headway: Cluster) -> dict[str, str]:
    """Headers of calls of hers."""
    said = {"username": "bea", "password": "a password of bea"}
    token = ask(headway, "POST", "/session", json=said).json()["token"]
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def queue(headway: Cluster, beas: dict[str, str]) -> Iterator[dict[str, str]]:
    """A day's work on both GPUs, and behind it many tasks: of two accounts, with long names, until tomorrow."""
    ids: dict[str, str] = {}

    def submit(name: str, *tasks: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        told = {"Content-Type": "application/yaml", **(headers or {})}
        ids[name] = ask(headway, "POST", "/jobs", content=a_job(*tasks, name=name), headers=told).json()["id"]

    submit("holder", scripted_task("holds", run_s=LONG_S, timeout="20h17m", resources={"gpus": 2}))
    soon(lambda: headway.client.job(ids["holder"])["tasks"][0]["state"] == "RUNNING", within_s=60, what="it runs")
    submit("of bea", scripted_task("wide", timeout="1d", resources={"gpus": 2}), headers=beas)
    submit(LONG_NAME, scripted_task(TASK_OF_MANY_LETTERS, timeout="23h59m", resources={"gpus": 1, "memory": "10MiB"}))
    submit("many", *[scripted_task(f"m{i:03}", timeout="3d", resources={"gpus": 1}) for i in range(MANY)])
    soon(lambda: _waiting(headway) == MANY + 2, within_s=60, what="all wait")
    yield ids
    for job in ids.values():
        headway.client.act("cancel", job)


def _waiting(headway: Cluster) -> int:
    return int(ask(headway, "GET", "/queue?limit=1").json()["total_waiting"])


def test_a_long_queue_is_read_in_pages_and_looked_through(page: Page, queue: dict[str, str]) -> None:
    page.get_by_role("link", name="Queue").click()
    rows = page.get_by_role("table", name="Waiting tasks").locator("tbody tr")
    pages = page.get_by_role("navigation", name="Pages of the queue")
    expect(rows).to_have_count(100)
    expect(pages).to_contain_text(f"1 to 100 of {MANY + 2}")
    expect(rows.first.locator('[data-label="place"]')).to_have_text("1")
    expect(pages.get_by_role("button", name="Earlier")).to_be_disabled()
    pages.get_by_role("button", name="Later").click()
    expect(pages).to_contain_text(f"101 to {MANY + 2} of {MANY + 2}")
    expect(rows).to_have_count(MANY + 2 - 100)
    expect(rows.first.locator('[data-label="place"]')).to_have_text("101")
    expect(pages.get_by_role("button", name="Last")).to_be_disabled()
    search = page.get_by_role("searchbox", name="Search")
    search.fill("m12")
    expect(rows).to_have_count(10)
    expect(pages).to_have_count(0)
    search.fill("")
    page.get_by_label("only mine").check()
    expect(pages).to_contain_text(f"1 to 100 of {MANY + 1}")
    expect(rows.filter(has_text="of bea")).to_have_count(0)
    search.fill("bea")
    expect(page.get_by_text("No waiting task matches.")).to_be_visible()
    page.get_by_label("only mine").uncheck()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("2 GPUs, ")


@pytest.mark.parametrize("width", [1280, 1024, 768, 375])
def test_long_names_and_starts_tomorrow_leave_room_for_why(
    page: Page, queue: dict[str, str], shoot: Callable[[Page, str], None], width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.get_by_role("link", name="Queue").click()
    rows = page.get_by_role("table", name="Waiting tasks").locator("tbody tr")
    expect(rows).to_have_count(100)
    long = rows.filter(has_text=LONG_NAME)
    expect(long.locator('[data-label="starts about"]')).to_contain_text("(in 20 h")
    shoot(page, f"queue-long-{width}")
    link = long.get_by_role("link").first
    assert f"{LONG_NAME} / {TASK_OF_MANY_LETTERS}" in (link.get_attribute("title") or "")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    table = page.locator(".scroll:has(.queue)")
    assert table.evaluate("e => e.scrollWidth <= e.clientWidth"), "nothing is cut off"
    too_wide = "cells => cells.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.textContent)"
    assert rows.locator("td:not(.name, .owner)").evaluate_all(too_wide) == [], "nothing lies over its neighbour"
    heights = rows.evaluate_all("all => all.map(row => row.getBoundingClientRect().height)")
    assert max(heights) < (150 if width >= 1101 else 320)
    why = long.locator(".why").bounding_box()
    assert why is not None
    assert why["width"] >= 240


def test_why_names_other_tasks_as_lists_do(page: Page, headway: Cluster, queue: dict[str, str]) -> None:
    """It used to name them by id alone; where the id leads is what it says."""
    job = ask(headway, "GET", f"/jobs/{queue['of bea']}").json()
    sentence = f"Behind {job['id']}/wide."

    def tell(route: Any) -> None:
        answer = route.fetch()
        body = answer.json()
        body["entries"][0]["waits"] = [{"word": "x", "sentence": sentence}]
        route.fulfill(response=answer, json=body)

    page.route("**/api/v1/queue?*", tell)
    page.get_by_role("link", name="Queue").click()
    link = page.locator(".why").first.get_by_role("link", name="of bea / wide", exact=True)
    expect(link).to_have_attribute("title", re.compile(job["id"]))
    link.click()
    expect(page).to_have_url(re.compile(f"/jobs/{job['id']}/wide$"))


def test_the_queue_is_ordered_anew_by_keys_alone(page: Page, queue: dict[str, str]) -> None:
    page.get_by_role("link", name="Queue").click()
    opener = page.get_by_role("button", name="Change …")
    dialog = page.get_by_role("dialog")
    opener.focus()
    page.keyboard.press("Enter")
    policy = dialog.get_by_label("Policy")
    expect(policy).to_be_focused()
    policy.fill("fifo")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("heading", name="Change the order of the queue?")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()
    # What a second click meets is the next question: it answers nothing.
    opener.click()
    policy.fill("fifo")
    dialog.get_by_role("button", name="Go on").dblclick()
    expect(dialog.get_by_role("heading", name="Change the order of the queue?")).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(opener).to_be_focused()
    expect(page.get_by_role("region", name="What orders the queue")).to_contain_text("aging_sjf")


def test_a_double_click_on_hold_holds(page: Page, headway: Cluster, queue: dict[str, str]) -> None:
    """Its second click could meet Release, which stands there by then."""
    acts: list[str] = []
    page.on("request", lambda asked: acts.append(asked.url.rsplit("/")[-1]) if asked.method == "POST" else None)
    page.goto(f"/jobs/{queue[LONG_NAME]}")
    box = page.get_by_role("button", name="Hold", exact=True).bounding_box()
    assert box is not None
    x, y = box["x"] + 10, box["y"] + 10
    page.mouse.move(x, y)
    page.mouse.down(click_count=1)
    page.mouse.up(click_count=1)
    expect(page.get_by_role("button", name="Release", exact=True)).to_be_enabled()
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_role("button", name="Hold", exact=True)).to_be_enabled()
    assert [act for act in acts if act in ("hold", "release")] == ["hold", "release"]


def test_an_admin_is_asked_before_the_job_of_another_is_cancelled(
    page: Page, headway: Cluster, beas: dict[str, str]
) -> None:
    told = {"Content-Type": "application/yaml", **beas}
    waits = scripted_task("wide", timeout="1d", resources={"gpus": 2})
    job = ask(headway, "POST", "/jobs", content=a_job(waits, name="hers"), headers=told).json()["id"]
    page.get_by_label("only mine").uncheck()
    row = page.get_by_role("row", name=re.compile("hers"))
    row.get_by_role("button", name="Cancel …").click()
    dialog = page.get_by_role("dialog", name="Cancel hers of bea?")
    dialog.get_by_role("button", name="Keep it running").click()
    expect(dialog).to_have_count(0)
    page.goto(f"/jobs/{job}")
    page.get_by_role("button", name="Cancel …").click()
    assert headway.client.job(job)["ended_at"] is None
    dialog.get_by_role("button", name="Cancel it").click()
    expect(page).to_have_title(re.compile("hers: cancelled"))
    reason = page.locator("p.reason", has_text="by admin")
    expect(reason).to_have_text("It was cancelled, by admin.")
    page.goto("/jobs")
    page.get_by_label("only mine").uncheck()
    expect(row.locator(".why")).to_have_text("It was cancelled, by admin.")


def test_the_owner_is_not_asked(page: Page, headway: Cluster) -> None:
    job = headway.client.submit(a_job(scripted_task("own", run_s=LONG_S), name="own"))["id"]
    page.goto(f"/jobs/{job}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page).to_have_title(re.compile("own: cancelled"))
