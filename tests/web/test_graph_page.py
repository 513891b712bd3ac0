"""The graph of a job of any width, and the times of its log's lines."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.waiting import soon

pytestmark = [pytest.mark.web, pytest.mark.slow]


def test_two_hundred_tasks_are_one_box_a_grid_and_never_a_strip(page: Page, headway: Cluster) -> None:
    """Used to: a strip of 363 × 10,798 px in reversed order, nothing above 250 tasks, no zoom."""
    names = [f"train-{number}" for number in range(1, 201)]
    # What needs a failed task is skipped: a job that ends at once.
    tasks = [
        scripted_task("prep", exit_code=1, retries=0, env={"HEADWAY_SCRIPTED_OUTPUT": "one\ntwo\n"}),
        *(scripted_task(name, needs=["prep"]) for name in names),
        scripted_task("report", needs=names),
    ]
    job = str(headway.client.submit(a_job(*tasks, name="sweep"))["id"])
    soon(lambda: headway.client.job(job)["ended_at"], within_s=60)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"/jobs/{job}")
    boxes = page.locator(".dag .task")
    expect(boxes).to_have_count(3)
    group = page.get_by_role("button", name="train-*, 200 tasks: 200 skipped")
    group.focus()
    page.keyboard.press("Enter")
    expect(boxes).to_have_count(202)
    picture = page.locator(".dag svg").bounding_box()
    assert picture is not None
    assert picture["width"] <= 1280
    assert picture["height"] <= 900 * 0.6
    places = boxes.evaluate_all(
        "all => all.map(one => [one.dataset.task, one.getBoundingClientRect().y, one.getBoundingClientRect().x])"
    )
    in_grid = [(round(y), x, name) for name, y, x in places if name.startswith("train-")]
    assert [name for _, _, name in sorted(in_grid)] == names
    # Ctrl and the wheel zoom the graph alone, a drag moves it, and 0 shows all again.
    zoom = page.locator(".graph-zoom .number")
    before = zoom.inner_text()
    page.locator(".dag").hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -600)
    page.keyboard.up("Control")
    expect(zoom).not_to_have_text(before)
    moved = page.locator(".dag").evaluate("e => [e.scrollLeft, e.scrollTop]")
    box = page.locator(".dag").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 500, box["y"] + 300)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 200, steps=4)
    page.mouse.up()
    assert page.locator(".dag").evaluate("e => [e.scrollLeft, e.scrollTop]") != moved
    expect(page).to_have_url(re.compile(f"/jobs/{job}$"))
    page.get_by_role("button", name="Fit", exact=True).click()
    expect(zoom).to_have_text(before)
    # The choice lasts as long as the tab.
    page.reload()
    expect(boxes).to_have_count(202)
    page.get_by_label("Draw").select_option("by state")
    expect(page.get_by_role("button", name="200 skipped. Unfold")).to_be_visible()
    # A task beside the graph; the times of its lines.
    page.locator('[data-task="prep"]').click()
    expect(page).to_have_url(re.compile("/prep"))
    page.get_by_label("times").check()
    expect(page.locator(".log-text .line time")).to_have_text(
        [re.compile(r"^20\d\d-\d\d-\d\d .*\.\d{3}[+-]\d\d:\d\d $")] * 2
    )
