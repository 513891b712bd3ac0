"""What is on the page lasts: while services are away, over Back and a reload, and from the first visit on."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.waiting import soon

from .conftest import ask

pytestmark = [pytest.mark.web, pytest.mark.slow]

# Of all that the first page load fetches, on the wire.
FIRST_VISIT_BYTES = 250_000


def test_nothing_vanishes_while_the_server_is_away(
    page: Page, headway: Cluster, shoot: Callable[[Page, str], None]
) -> None:
    text = "line of the log\n" * 40
    tasks = [
        scripted_task(name, run_s=600, env={"HEADWAY_SCRIPTED_OUTPUT": text}, resources={"gpus": 1}) for name in "ab"
    ]
    job = headway.client.submit(a_job(*tasks, name="stays"))["id"]
    soon(lambda: headway.client.job(job)["state"] == "RUNNING", within_s=60, what="it runs")
    banner = page.locator(".away-banner")
    log = page.locator(".log-text")
    page.get_by_role("link", name="stays").click()
    page.locator('[data-task-row="a"]').click()
    expect(log).to_contain_text("line of the log")
    expect(page.locator(".connection")).to_have_text("live")

    # A part that is away: the job page keeps the attempts, and says of when they are.
    headway.kill9("task_manager")
    expect(page.locator(".note", has_text="The attempts can't be shown now")).to_contain_text(
        re.compile(r"What you see is from .*UTC.* ago"), timeout=60_000
    )
    expect(page.get_by_text("Attempt 1: running")).to_be_visible()
    expect(log).to_contain_text("line of the log")
    assert banner.count() == 0
    headway.start("task_manager")
    expect(page.locator(".note", has_text="The attempts can't be shown now")).to_have_count(0, timeout=60_000)

    # All of it: the banner comes, and everything else is as it was.
    before = log.inner_text()
    headway.kill9("httpserver")
    expect(banner).to_contain_text(re.compile(r"Headway does not answer since .*UTC.*; what you see is from then"))
    # Longer than the page asks for the job anew, tries again, and gives up.
    page.wait_for_timeout(20_000)
    shoot(page, "away")
    assert log.inner_text() == before
    expect(page.get_by_role("heading", name="stays")).to_be_visible()
    expect(page.get_by_text("Attempt 1: running")).to_be_visible()
    assert page.get_by_role("alert").count() == 1, "nothing else complains"
    # Another view that was seen before, too.
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page.get_by_role("link", name="stays")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("Attempt 1: running")).to_be_visible()
    headway.start("httpserver")
    expect(banner).to_have_count(0, timeout=60_000)
    # What happened meanwhile is asked for.
    headway.client.act("cancel", job)
    expect(page).to_have_title(re.compile("stays: cancelled"), timeout=60_000)
    expect(log).to_contain_text("line of the log")
    assert log.inner_text().count("line of the log") == 40


def test_filters_and_order_outlive_back_and_a_reload(page: Page, headway: Cluster) -> None:
    ids = [headway.client.submit(a_job(scripted_task(), name=f"addressed {n}"))["id"] for n in (2, 10, 1)]
    for job in ids:
        headway.client.wait(job, timeout_s=60)
    headway.client.submit(a_job(scripted_task(), name="another"))
    names = page.locator("table.jobs td.name a")
    # What a shared worker asks does not go through `page.route`, and it would hear the server itself.
    page.add_init_script("delete globalThis.SharedWorker")
    page.goto("/jobs?state=nonsense&sort=-&of=%FF&q=")
    expect(page.get_by_role("link", name="another")).to_be_visible()
    page.get_by_role("searchbox", name="Search").press_sequentially("addressed")
    page.get_by_label("State").select_option("SUCCEEDED")
    page.get_by_role("button", name="Name").click()
    expect(names).to_have_text(["addressed 1", "addressed 2", "addressed 10"])
    expect(page.get_by_text("3 jobs, 0 running")).to_be_visible()
    expect(page).to_have_url(re.compile(r"q=addressed&state=SUCCEEDED|state=SUCCEEDED.*q=addressed"))
    address = page.url
    names.first.click()
    expect(page.get_by_role("heading", name="addressed 1")).to_be_visible()
    page.go_back()
    expect(names).to_have_text(["addressed 1", "addressed 2", "addressed 10"])
    page.reload()
    expect(names).to_have_text(["addressed 1", "addressed 2", "addressed 10"])
    assert page.url == address
    # One step back a choice; the letters of the search are none.
    page.go_back()
    expect(names).to_have_text(["addressed 1", "addressed 10", "addressed 2"])
    page.go_back()
    expect(page.get_by_label("State")).to_have_value("")
    expect(page.get_by_role("searchbox", name="Search")).to_have_value("addressed")
    # The oldest first: the server's own order, however many there are.
    page.goto("/jobs?q=addressed&sort=submitted")
    expect(names).to_have_text(["addressed 2", "addressed 10", "addressed 1"])
    # A proxy that answers in Headway's place is no answer of Headway's.
    page.route("**/api/v1/**", lambda route: route.fulfill(status=502, content_type="text/html", body="<h1>502</h1>"))
    page.evaluate("() => window.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_role("searchbox", name="Search").fill("addressed 10")
    expect(page.locator(".away-banner")).to_be_visible()
    page.unroute("**/api/v1/**")
    expect(page.locator(".away-banner")).to_have_count(0)
    expect(names).to_have_text(["addressed 10"])


def test_the_first_visit_is_small_and_the_next_is_smaller(context: BrowserContext, password: str) -> None:
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    took: list[float] = []
    session.on("Network.loadingFinished", lambda event: took.append(event["encodedDataLength"]))
    page.goto("/")
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Home")).to_be_visible()
    expect(page.get_by_role("heading", name="What waits")).to_be_visible()
    page.wait_for_timeout(3000)
    first = sum(took)
    assert 50_000 < first < FIRST_VISIT_BYTES, f"{first:.0f} bytes"
    took.clear()
    page.goto("/jobs")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    page.wait_for_timeout(1000)
    assert sum(took) < first / 5, "scripts and styles are kept"


def test_what_goes_out_packed_is_what_went_out_before(headway: Cluster) -> None:
    plain = {"Accept-Encoding": "identity"}
    for path in ("/jobs?limit=50", "/nodes", "/openapi.json"):
        packed, bare = ask(headway, "GET", path), ask(headway, "GET", path, headers=plain)
        assert "content-encoding" not in bare.headers
        assert packed.json().keys() == bare.json().keys()
        if len(bare.content) >= 1000:
            assert packed.headers["content-encoding"] == "gzip"
            assert int(packed.headers["content-length"]) < len(bare.content) / 2
