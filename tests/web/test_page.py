"""What people do on the page, in a real browser, with real service processes behind it."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.waiting import soon

from .conftest import sign_in

pytestmark = [pytest.mark.web, pytest.mark.slow]

MARKUP = "<svg onload=\"document.title='pwned'\">"


def submit(headway: Cluster, *tasks: dict[str, Any], name: str = "test") -> str:
    answer: dict[str, Any] = headway.client.submit(a_job(*tasks, name=name))
    return str(answer["id"])


def saying(text: str, name: str = "a", **more: Any) -> dict[str, Any]:
    return scripted_task(name, env={"HEADWAY_SCRIPTED_OUTPUT": text}, **more)


def jobs_named(headway: Cluster, name: str) -> int:
    return len([job for job in headway.client.jobs(q=name) if job["name"] == name])


def test_a_wrong_password_is_told_and_the_right_one_opens_the_page(context: BrowserContext, password: str) -> None:
    page = context.new_page()
    page.goto("/queue")
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill("not this one")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Queue")).to_be_visible()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def fill_task(page: Page, index: int, name: str, env: dict[str, str], needs: tuple[str, ...] = ()) -> None:
    """The form's task ``index`` (from 0), with exactly these needs."""
    box = page.locator("fieldset.task-fields").nth(index)
    box.get_by_label("Task name").fill(name)
    box.get_by_label("Image", exact=True).fill("scripted")
    box.get_by_label(re.compile("^Command")).fill("true")
    for remove in box.get_by_role("button", name=re.compile("^Does not need")).all():
        remove.click()
    for need in needs:
        box.get_by_label("Add a need").select_option(need)
    box.get_by_text("Environment").click()
    for at, (key, value) in enumerate(env.items()):
        box.get_by_role("button", name="Add a variable").click()
        box.get_by_label("Variable name").nth(at).fill(key)
        box.get_by_label("Variable value").nth(at).fill(value)


def test_a_diamond_by_the_form_becomes_green_before_ones_eyes(
    page: Page, headway: Cluster, shoot: Callable[[Page, str], None]
) -> None:
    page.get_by_role("link", name="Submit", exact=True).click()
    page.get_by_label("Job name").fill("diamond")
    for _ in range(3):
        page.get_by_role("button", name="Add a task").click()
    slow = {"HEADWAY_SCRIPTED_RUN_S": "2", "HEADWAY_SCRIPTED_OUTPUT": "hello from the left"}
    fill_task(page, 0, "prepare", {})
    fill_task(page, 1, "left", slow, needs=("prepare",))
    fill_task(page, 2, "right", {}, needs=("prepare",))
    fill_task(page, 3, "join", {}, needs=("left", "right"))
    expect(page.locator(".preview")).to_contain_text("name: join")
    page.get_by_role("button", name="Check").click()
    expect(page.locator(".fine")).to_contain_text("4 tasks")
    starts = page.get_by_role("region", name="When it would start")
    expect(starts).to_contain_text("prepare: It would start at once.")
    expect(starts).to_contain_text("Start after the tasks that they need: left, right, join.")
    shoot(page, "submit-form-filled")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile("/jobs/"))
    left = page.locator('[data-task="left"]')
    expect(left).to_have_attribute("data-state", "RUNNING")
    left.click()
    expect(page.locator(".log-text")).to_contain_text("hello from the left")
    expect(page.locator('[data-task][data-state="SUCCEEDED"]')).to_have_count(4)
    expect(page).to_have_title(re.compile("diamond: succeeded"))
    expect(page.locator(".log-state")).to_have_text("complete")
    shoot(page, "job-diamond")
    assert page.locator(".dag .edge").count() == 4


def test_a_double_click_submits_once_and_going_back_does_not_submit_again(page: Page, headway: Cluster) -> None:
    page.get_by_role("link", name="Submit", exact=True).click()
    page.get_by_label("Job name").fill("once")
    fill_task(page, 0, "a", {})
    page.get_by_role("button", name="Submit", exact=True).dblclick()
    expect(page).to_have_url(re.compile("/jobs/"))
    page.reload()
    expect(page.get_by_role("heading", name="once")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Job name")).not_to_have_value("once")
    assert jobs_named(headway, "once") == 1


def test_an_answer_lost_on_the_way_and_a_second_try_is_one_job(page: Page, headway: Cluster) -> None:
    page.get_by_role("link", name="Submit", exact=True).click()
    page.get_by_label("Job name").fill("lost answer")
    fill_task(page, 0, "a", {})

    def lose(route: Any) -> None:
        route.fetch()
        route.abort("connectionreset")

    page.route("**/api/v1/jobs", lose, times=1)
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile("/jobs/"))
    assert jobs_named(headway, "lost answer") == 1


def test_problems_stand_at_their_line_and_at_their_field(page: Page, shoot: Callable[[Page, str], None]) -> None:
    page.get_by_role("link", name="Submit", exact=True).click()
    fill_task(page, 0, "a", {})
    page.get_by_label("Timeout").fill("soon")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("label.wrong", has_text="Timeout").locator(".wrong-text")).to_contain_text("soon")
    shoot(page, "submit-form-problem")
    page.get_by_role("tab", name="YAML").click()
    editor = page.get_by_label("Job file")
    editor.fill("version: 1\nname: x\ntasks:\n  - name: a\n    image: scripted\n    comand: 'true'\n    timeout: 1m\n")
    page.get_by_role("button", name="Check").click()
    expect(page.locator(".problems")).to_contain_text("command")
    marked = page.locator(".gutter .marked")
    assert "6" in marked.all_inner_texts()
    shoot(page, "submit-yaml-problem")
    page.get_by_role("button", name=re.compile("line 6")).click()
    assert editor.evaluate("e => e.value.slice(0, e.selectionStart).split('\\n').length") == 6
    editor.fill("version: 1\nname: x\ntasks:\n  - {name: a, image: scripted, command: 'true', timeout: 1m}\n")
    page.get_by_role("button", name="Check").click()
    expect(page.locator(".fine")).to_contain_text("1 task")
    expect(page.locator(".gutter .marked")).to_have_count(0)


def test_markup_in_names_and_output_stays_text(page: Page, headway: Cluster) -> None:
    """WEB-01."""
    job = submit(
        headway,
        saying(MARKUP + "\n", run_s=0),
        scripted_task("b", needs=["a"], exit_code=1),
        name=MARKUP,
    )
    soon(lambda: headway.client.job(job)["state"] == "FAILED", within_s=30)
    page.goto("/jobs")
    expect(page.get_by_role("link", name=MARKUP)).to_be_visible()
    page.get_by_role("link", name=MARKUP).click()
    page.locator('[data-task="a"]').click()
    expect(page.locator(".log-text")).to_contain_text(MARKUP)
    expect(page.get_by_role("heading", name=MARKUP)).to_be_visible()
    page.goto(f"/submit/{job}")
    expect(page.get_by_label("Job file")).to_have_value(re.compile("svg onload"))
    page.goto("/queue")
    expect(page.get_by_role("heading", name="Queue")).to_be_visible()
    assert page.title() != "pwned"
    assert page.locator("svg[onload]").count() == 0


def test_downloads_are_the_bytes_that_were_printed(page: Page, headway: Cluster, tmp_path: Path) -> None:
    text = "".join(f"line {i} €\n" for i in range(3000)) + "50 %\r100 %\rno newline at the end"
    job = submit(headway, saying(text), scripted_task("b"), name="printer")
    soon(lambda: headway.client.job(job)["state"] == "SUCCEEDED", within_s=30)
    page.goto(f"/jobs/{job}/a")
    # The progress bar is one line, its last state.
    expect(page.locator(".log-text")).to_contain_text("no newline at the end")
    shown = page.locator(".log-text").inner_text()
    assert "line 2999 €" in shown
    assert "50 %" not in shown
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    download.value.save_as(tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == text.encode()
    with page.expect_download() as download:
        page.get_by_role("link", name="All logs").click()
    download.value.save_as(tmp_path / "zip")
    with zipfile.ZipFile(io.BytesIO((tmp_path / "zip").read_bytes())) as archive:
        outputs = [name for name in archive.namelist() if name.endswith("stdout.log")]
        assert any("/a/" in f"/{name}" for name in outputs)
        assert text.encode() in [archive.read(name) for name in outputs]


def test_a_large_log_opens_at_its_end(page: Page, headway: Cluster) -> None:
    """LOG-09: a hundred megabytes, put where the platform keeps what ended attempts printed."""
    job = submit(headway, saying("first\n"), name="large log")
    soon(lambda: headway.client.job(job)["state"] == "SUCCEEDED", within_s=30)
    (log,) = soon(lambda: list(headway.mount.glob(f"jobs/{job}/**/stdout.log")), within_s=20)
    with log.open("a") as file:
        for thousand in range(1000):
            file.writelines(f"{thousand * 1000 + i:07} {'x' * 91}\n" for i in range(1000))
    page.goto(f"/jobs/{job}")
    expect(page.locator(".log-text")).to_contain_text("0999999", timeout=60_000)
    expect(page.locator(".log .note")).to_contain_text("Only the end")
    assert page.locator(".log-text").evaluate("e => e.textContent.length") < 3_000_000
    # Follows: the last line is in sight.
    assert page.locator(".log-text").evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight") < 40


def test_cancel_retry_hold_and_release(page: Page, headway: Cluster) -> None:
    job = submit(headway, scripted_task("long", run_s=600), scripted_task("after", needs=["long"]), name="to cancel")
    page.goto(f"/jobs/{job}")
    expect(page.locator('[data-task="long"]')).to_have_attribute("data-state", "RUNNING")
    page.get_by_role("button", name="Hold").click()
    expect(page.locator("h1", has_text="held")).to_be_visible()
    page.get_by_role("button", name="Release").click()
    expect(page.locator("h1", has_text="held")).to_have_count(0)
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page).to_have_title(re.compile("to cancel: cancelled"))
    expect(page.locator('[data-task="long"]')).to_have_attribute("data-state", "CANCELLED")
    page.get_by_role("button", name="Retry", exact=True).click()
    expect(page.locator('[data-task="long"]')).to_have_attribute("data-state", "RUNNING")
    # From the list, too.
    page.goto("/jobs")
    page.get_by_role("row", name=re.compile("to cancel")).get_by_role("button", name="Cancel").click()
    soon(lambda: headway.client.job(job)["state"] == "CANCELLED", within_s=30)
    expect(page.get_by_role("row", name=re.compile("to cancel"))).to_contain_text("cancelled")


def test_a_chain_of_three_thousand_is_shown(page: Page, headway: Cluster, shoot: Callable[[Page, str], None]) -> None:
    """SPEC-06: only the rows that are seen are in the page, and those are found by name."""
    tasks = [scripted_task(f"s{i:04}", needs=[f"s{i - 1:04}"] if i else [], run_s=600 * (i == 0)) for i in range(3000)]
    job = submit(headway, *tasks, name="chain")
    soon(lambda: headway.client.job(job)["state"] == "RUNNING", within_s=60, every_s=0.2, what="the chain has begun")
    page.goto(f"/jobs/{job}")
    expect(page.locator('[data-task-row="s0000"]')).to_contain_text("running", timeout=60_000)
    assert page.locator("[data-task-row]").count() < 100
    page.get_by_label("Find a task").fill("s2999")
    page.locator('[data-task-row="s2999"]').click()
    expect(page.locator(".waits")).to_contain_text("s2998")
    shoot(page, "job-chain")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page).to_have_title(re.compile("cancelled"), timeout=60_000)


def test_a_session_that_ends_asks_for_the_password_and_the_form_stays(
    page: Page, context: BrowserContext, headway: Cluster, password: str, shoot: Callable[[Page, str], None]
) -> None:
    """WEB-10."""
    page.get_by_role("link", name="Submit", exact=True).click()
    page.get_by_label("Job name").fill("half filled")
    fill_task(page, 0, "a", {})
    cookies = {c["name"]: c["value"] for c in context.cookies()}
    httpx.delete(f"{headway.url}/api/v1/session", cookies=cookies, headers={"Origin": headway.url}).raise_for_status()
    page.get_by_role("button", name="Submit", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    shoot(page, "session-over")
    dialog.get_by_label("Password").fill(password)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_label("Job name")).to_have_value("half filled")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile("/jobs/"))
    assert jobs_named(headway, "half filled") == 1


def test_a_server_that_goes_away_is_told_and_comes_back(page: Page, headway: Cluster) -> None:
    job = submit(headway, saying("before\n", run_s=8), name="outlives")
    page.goto(f"/jobs/{job}")
    expect(page.locator(".log-text")).to_contain_text("before")
    headway.kill9("httpserver")
    expect(page.locator("header .connection")).not_to_have_text("live")
    headway.start("httpserver")
    expect(page.locator("header .connection")).to_have_text("live", timeout=30_000)
    expect(page).to_have_title(re.compile("outlives: succeeded"), timeout=30_000)
    expect(page.locator(".log-state")).to_have_text("complete", timeout=30_000)
    assert page.locator(".log-text").inner_text().count("before") == 1


def test_somebody_else_sees_the_job_but_not_its_log(context: BrowserContext, headway: Cluster) -> None:
    headway.client.create_user(name="eve", password="a password of eve")
    job = submit(headway, saying("private\n"), name="of admin")
    soon(lambda: headway.client.job(job)["state"] == "SUCCEEDED", within_s=30)
    page = context.new_page()
    sign_in(page, "eve", "a password of eve")
    page.goto(f"/jobs/{job}")
    expect(page.get_by_role("heading", name="of admin")).to_be_visible()
    expect(page.locator(".log-state")).to_contain_text("belongs to admin")
    assert "private" not in page.content()
    page.goto("/nodes")
    expect(page.get_by_role("heading", name="n1")).to_be_visible()
    expect(page.get_by_role("button", name="Close for new tasks")).to_have_count(0)


def test_a_node_is_cordoned_and_opened(page: Page) -> None:
    page.get_by_role("link", name="Nodes").click()
    node = page.locator("article.node", has_text="n1")
    expect(node).to_contain_text("Simulated")
    node.get_by_role("button", name="Close for new tasks").click()
    expect(node).to_contain_text("closed for new tasks")
    node.get_by_role("button", name="Open again").click()
    expect(node.get_by_role("button", name="Close and empty")).to_be_visible()


def test_the_queue_says_why(page: Page, headway: Cluster) -> None:
    tasks = [scripted_task(f"gpu-{i}", run_s=600, resources={"gpus": 2}) for i in range(3)]
    job = submit(headway, *tasks, name="wants GPUs")
    page.get_by_role("link", name="Queue").click()
    runs = page.get_by_role("table", name="Running tasks").get_by_role("row", name=re.compile("wants GPUs"))
    expect(runs).to_have_count(2)
    row = page.get_by_role("table", name="Waiting tasks").get_by_role("row", name=re.compile("wants GPUs"))
    expect(row).to_have_count(1)
    expect(row).to_contain_text("2 GPU")
    expect(row.locator('[data-label="starts about"]')).to_contain_text(re.compile(r"\d:\d\d"))
    row.get_by_role("link").click()
    expect(page.locator(".waits")).to_contain_text("Place 1 in the queue, starts about")
    headway.client.act("cancel", job)
    page.go_back()
    expect(row).to_have_count(0)


def test_the_queue_says_what_limits_contradict_each_other(page: Page) -> None:
    sentence = "The reserve for short tasks (4 GPUs) leaves none of the cluster's 4 for tasks longer than 10m."

    def answer(route: Route) -> None:
        said = route.fetch().json()
        said["scheduling"]["contradictions"] = [sentence]
        route.fulfill(json=said)

    page.route("**/api/v1/queue?*", answer)
    page.get_by_role("link", name="Queue").click()
    notice = page.get_by_role("alert").filter(has_text="The limits contradict each other.")
    expect(notice).to_contain_text(sentence)


def test_usage_by_day_by_user_and_as_a_trace(page: Page, headway: Cluster) -> None:
    job = headway.client.submit(a_job(scripted_task("card", run_s=0.2, resources={"gpus": 1}), name="measured"))["id"]
    headway.client.wait(job, timeout_s=60)
    page.get_by_role("link", name="Usage", exact=True).click()
    days = page.get_by_role("table", name="Usage by day")
    expect(days.get_by_role("row").nth(1)).to_contain_text(re.compile(r"^\d{4}-\d\d-\d\d"))
    page.get_by_label("Rows by").select_option("job")
    jobs = page.get_by_role("table", name="Usage by job")
    expect(jobs.get_by_role("link", name="measured")).to_have_attribute("href", f"/jobs/{job}")
    page.get_by_label("Rows by").select_option("user")
    expect(page.get_by_label("only mine")).to_be_disabled()
    expect(page.get_by_role("table", name="Usage by user").get_by_role("row").nth(1)).to_contain_text("admin")
    with page.expect_download() as download:
        page.get_by_role("link", name="a trace").click()
    assert download.value.suggested_filename == "trace.csv"
    assert f"{job}/card/1," in Path(download.value.path()).read_text()
    page.goto(f"/jobs/{job}/card")
    expect(page.get_by_text(re.compile(r"GPUs GPU-simulated-\S+ \(only simulated\)"))).to_be_visible()
