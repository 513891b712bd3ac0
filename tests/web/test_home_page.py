"""Who has what, as somebody sees it who opens the page and wonders whether a GPU is free."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.waiting import soon

pytestmark = [pytest.mark.web, pytest.mark.slow]

LONG_S = 3000.0


def _fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def test_who_has_the_gpus_when_one_is_free_and_what_waits(
    page: Page, headway: Cluster, shoot: Callable[[Page, str], None]
) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("link", name="Headway").click()
    gpus = page.get_by_role("region", name="GPUs", exact=True)
    expect(gpus).to_contain_text("4 of 4 GPUs free now.")
    expect(page.get_by_text("No task waits.")).to_be_visible()
    wants = [scripted_task(f"t{i}", run_s=LONG_S, timeout="2h", resources={"gpus": 2}) for i in range(3)]
    job = str(headway.client.submit(a_job(*wants, name="digits"))["id"])
    # All of it by itself: nothing is loaded anew.
    expect(gpus).to_contain_text(
        re.compile(r"0 of 4 GPUs free now\. The next is free at .+\(in (1 h 5\d|2 h).*at the latest")
    )
    tiles = gpus.get_by_role("listitem")
    expect(tiles).to_have_count(4)
    for index in range(4):
        expect(tiles.nth(index)).to_contain_text(re.compile(r"booked.*digits / t\d.*admin, ends by "))
    mine = page.get_by_role("table", name="My latest jobs").get_by_role("row", name=re.compile("digits"))
    expect(mine.locator('[data-label="GPUs"]')).to_have_text("4")
    waits = page.get_by_role("table", name="First waiting tasks").get_by_role("row", name=re.compile("digits"))
    expect(waits.locator('[data-label="GPUs"]')).to_have_text("2")
    assert _fits(page)
    shoot(page, "home-busy-wide")
    page.set_viewport_size({"width": 390, "height": 800})
    assert _fits(page)
    shoot(page, "home-busy-narrow")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("link", name="Nodes").click()
    node = page.locator("article.node", has_text="n1")
    expect(node).to_contain_text(re.compile(r"CPUs: \d.* of 16 booked.*of 16 in use"))
    expect(node.get_by_role("row").nth(1)).to_contain_text("digits / t")
    assert _fits(page)
    shoot(page, "nodes-busy-wide")
    page.get_by_role("link", name="Queue", exact=True).click()
    runs = page.get_by_role("table", name="Running tasks").get_by_role("row", name=re.compile("digits"))
    expect(runs).to_have_count(2)
    expect(runs.first.locator('[data-label="ends by"]')).to_contain_text("(in 2 h")
    shoot(page, "queue-busy-wide")
    page.get_by_role("link", name="Jobs", exact=True).click()
    row = page.get_by_role("row", name=re.compile("digits"))
    expect(row.locator('[data-label="GPUs"]')).to_have_text("4")
    page.get_by_role("link", name="Headway").click()
    headway.client.act("cancel", job)
    soon(lambda: headway.client.job(job)["ended_at"], within_s=60, what="it ended")
    expect(gpus).to_contain_text("4 of 4 GPUs free now.")
    expect(mine.locator('[data-label="GPUs"]')).to_have_text("–")
    expect(page.get_by_text("No task waits.")).to_be_visible()
    # What is known of the machines serves the form, too.
    page.get_by_role("link", name="Submit a job").click()
    expect(page.get_by_label("Job name")).to_be_visible()
