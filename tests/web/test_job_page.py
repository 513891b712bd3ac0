"""The page of a job: what a task is, and its logs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.waiting import soon

from .conftest import sign_in

pytestmark = [pytest.mark.web, pytest.mark.slow]

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 3\n\x1b[31mValueError: no such data\x1b[0m\n'
TRACE_LINES = ("Traceback", "File", "ValueError")


@pytest.fixture(scope="module")
def failed(headway: Cluster) -> str:
    """A job of ten tasks, of which the last two wrote to stderr and failed."""
    names = [f"step-{i}" for i in range(8)]
    tasks: list[dict[str, Any]] = [scripted_task(name) for name in names]
    for name in ("train", "train-2"):
        env = {"HEADWAY_SCRIPTED_STDERR": TRACE, "HEADWAY_SCRIPTED_OUTPUT": "epoch 1\n", "SEED": "7"}
        tasks.append(scripted_task(name, exit_code=1, env=env, needs=names, retries=0))
    job = str(headway.client.submit(a_job(*tasks, name="ten tasks"))["id"])
    soon(lambda: headway.client.job(job)["ended_at"], within_s=60)
    return job


def test_a_failed_task_opens_at_its_traceback_in_sight(page: Page, headway: Cluster, failed: str) -> None:
    """Used to: an empty stdout, below the fold; the choice was forgotten at each task."""
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"/jobs/{failed}/train")
    last = page.locator(".log-text .line", has_text="ValueError: no such data")
    expect(last).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("tab", name="stderr")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tab", name="stdout")).to_contain_text("●")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    # Both are one log, in the order in which they came.
    page.get_by_role("tab", name="All output").click()
    expect(page.locator(".log-text .line")).to_have_text([re.compile("epoch 1"), *map(re.compile, TRACE_LINES)])
    # The choice goes along, and stands in the address.
    page.get_by_role("tab", name="stdout").click()
    expect(page.locator(".log-text")).to_contain_text("epoch 1")
    page.locator('[data-task-row="train-2"]').click()
    expect(page).to_have_url(re.compile(r"/train-2\?log=stdout$"))
    expect(page.locator(".log-text")).to_contain_text("epoch 1")
    page.get_by_role("tab", name="stderr").click()
    page.reload()
    expect(page.locator(".log-text")).to_contain_text("ValueError")
    # What it is, and how it ended.
    panel = page.get_by_role("region", name="Task train-2")
    expect(panel.locator(".reason")).to_contain_text("exit code 1")
    spec = page.get_by_role("region", name="What it runs")
    expect(spec.locator("pre")).to_contain_text("true")
    spec.get_by_text("Environment").click()
    expect(spec).to_contain_text("SEED")


def test_what_a_task_is_told_is_its_owners(context: BrowserContext, headway: Cluster, failed: str) -> None:
    headway.client.create_user(name="fay", password="a password of fay")
    page = context.new_page()
    sign_in(page, "fay", "a password of fay")
    page.goto(f"/jobs/{failed}/train")
    expect(page.locator(".log-state")).to_contain_text("belongs to admin")
    expect(page.get_by_text("SEED")).to_have_count(0)


def test_all_of_a_large_log_is_read_by_scrolling_and_by_the_address_of_a_line(page: Page, headway: Cluster) -> None:
    """Used to: only its last 512 KiB."""
    job = str(
        headway.client.submit(a_job(scripted_task("a", env={"HEADWAY_SCRIPTED_OUTPUT": "first\n"}), name="long log"))[
            "id"
        ]
    )
    soon(lambda: headway.client.job(job)["ended_at"], within_s=30)
    (log,) = soon(lambda: list(headway.mount.glob(f"jobs/{job}/**/stdout.log")), within_s=20)
    lines = 200_000
    with log.open("w") as file:
        file.writelines(f"line {number} {'x' * 90}\n" for number in range(1, lines + 1))
    shown = page.locator(".log-text .line")
    page.goto(f"/jobs/{job}/a#L120000")
    marked = page.locator(".line.marked")
    expect(marked).to_have_attribute("data-n", "120000")
    expect(marked).to_contain_text("line 120000 ")
    expect(marked).to_be_in_viewport()
    text = page.locator(".log-text")

    def reach(number: int, end: str) -> None:
        for _ in range(60):
            have = int(getattr(shown, end).get_attribute("data-n") or 0)
            if have <= number if end == "first" else have >= number:
                return
            # As a wheel does: a little away from the end and to it.
            place = "0" if end == "first" else "e.scrollHeight"
            text.evaluate(f"async e => {{ e.scrollTop = {place}; await new Promise(r => setTimeout(r, 150)); }}")
        raise AssertionError(f"line {number} was not reached")

    reach(112_000, "first")
    reach(126_000, "last")
    numbers = shown.evaluate_all("lines => lines.map(l => [Number(l.dataset.n), l.textContent.split(' ')[1]])")
    assert all(str(number) == told for number, told in numbers)
    assert [number for number, _ in numbers] == list(range(numbers[0][0], numbers[-1][0] + 1))
    assert len(numbers) < 15_000
    page.get_by_role("button", name="Start").click()
    expect(shown.first).to_contain_text("line 1 ")
    page.get_by_role("button", name="End").click()
    expect(shown.last).to_contain_text(f"line {lines} ")
    expect(shown.last).to_have_attribute("data-n", str(lines))
    # A click on a number makes its address.
    shown.last.click(position={"x": 3, "y": 5})
    expect(page).to_have_url(re.compile(f"#L{lines}$"))
    page.get_by_role("button", name="Full screen").click()
    box = page.locator(".log.full").bounding_box()
    assert box is not None
    assert box["width"] >= 1200
    page.keyboard.press("Escape")
    expect(page.locator(".log.full")).to_have_count(0)
    # It is removed while it is read: what is on screen stays, and it says so.
    page.get_by_role("button", name="Start").click()
    expect(shown.first).to_contain_text("line 1 ")
    log.unlink()
    text.evaluate("async e => { e.scrollTop = e.scrollHeight; await new Promise(r => setTimeout(r, 300)); }")
    expect(page.get_by_text("not there any more")).to_be_visible()
    expect(shown.first).to_contain_text("line 1 ")
