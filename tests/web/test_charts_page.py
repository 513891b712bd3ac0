"""Charts of what attempts and machines used."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.waiting import soon

from . import axe
from .conftest import sign_in

pytestmark = [pytest.mark.web, pytest.mark.slow]


def _queries(addresses: list[str], part: str) -> list[dict[str, list[str]]]:
    return [parse_qs(urlsplit(one).query) for one in addresses if urlsplit(one).path.endswith(part)]


def test_what_an_attempt_and_its_machine_use(
    context: BrowserContext,
    headway: Cluster,
    password: str,
    web_folder: Path,
    shoot: Callable[[Page, str], None],
) -> None:
    job = headway.client.submit(a_job(scripted_task("train", run_s=600, resources={"gpus": 1}), name="watched"))["id"]
    soon(lambda: headway.client.job(job)["state"] == "RUNNING", within_s=60, what="it runs")
    axe.bring(context, web_folder)
    page = context.new_page()
    page.set_viewport_size({"width": 1280, "height": 900})
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    sign_in(page, "admin", password)
    page.goto("/nodes")
    expect(page.locator(".node")).to_have_count(2)
    assert [one for one in fetched if "/assets/charts" in one] == [], "the charts' library comes where it is needed"

    page.goto(f"/jobs/{job}/train")
    used = page.get_by_role("region", name="What attempt 1 used")
    cursor = used.get_by_role("slider", name="Moment")
    expect(used.locator("canvas").first).to_be_visible()
    expect(used.get_by_role("img", name=re.compile("^CPUs in use. mean .*, at most .*, last "))).to_be_visible()
    # A live point comes, from the last one on.
    before = int(cursor.get_attribute("max") or 0)
    expect(cursor).not_to_have_attribute("max", str(before))
    assert int(cursor.get_attribute("max") or 0) > before
    asked = _queries(fetched, "/metrics")
    assert "since" not in asked[0]
    assert "since" in asked[-1]
    assert "until" not in asked[-1]

    # By hand: values and the moment below the pointer, a part of the time, and all of it again.
    picture = used.locator(".u-over").first
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    expect(used.locator(".charts-moment")).to_have_text(re.compile(r"\d:\d\d:\d\d.* UTC"))
    whole = used.get_by_role("button", name="Whole time")
    expect(whole).to_be_disabled()
    soon(lambda: int(cursor.get_attribute("max") or 0) >= 12, within_s=60, what="there is something to look at closely")
    page.mouse.move(box["x"] + box["width"] * 0.2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, middle, steps=5)
    with page.expect_request(re.compile(r"/metrics\?.*since=.*until=")):
        page.mouse.up()
    expect(whole).to_be_enabled()
    page.mouse.dblclick(box["x"] + box["width"] * 0.4, middle)
    expect(whole).to_be_disabled()
    page.mouse.move(5, 5)
    # By keys: the same cursor, and numbers.
    cursor.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(cursor).to_have_attribute("aria-valuetext", re.compile(r"UTC.*: CPUs in use \d.*; Memory \d"))
    used.get_by_role("button", name="Zoom in").press("Enter")
    expect(whole).to_be_enabled()
    used.get_by_text("In numbers").click()
    expect(used.get_by_role("row", name=re.compile("^Memory .*iB"))).to_be_visible()
    shoot(page, "charts-job")
    found = axe.look(page, "an attempt's charts")
    # It ends: what to ask for next time.
    headway.client.act("cancel", job)
    expect(used.get_by_role("heading", name="What it used")).to_be_visible()
    expect(used.get_by_text("Next time")).to_be_visible()
    expect(used.locator("canvas").first).to_be_visible()

    node = headway.workers[0]
    page.goto("/nodes")
    page.get_by_role("link", name=node, exact=True).click()
    used = page.get_by_role("region", name=f"What {node} used")
    expect(used.locator("canvas").first).to_be_visible()
    expect(used.get_by_role("img", name=re.compile("^Free disk space. "))).to_be_visible()
    found += axe.look(page, "a machine's charts")
    shoot(page, "charts-node")
    with page.expect_request(re.compile(r"/usage\?.*since=[1-9]")):
        used.get_by_label("Of the last").select_option("year")
    expect(page).to_have_url(re.compile(r"\?of=year$"))
    page.go_back()
    expect(used.get_by_label("Of the last")).to_have_value("hour")
    page.goto("/nodes/nobody")
    expect(page.get_by_text("There is no machine “nobody”.")).to_be_visible()
    assert "\n".join(found) == ""
