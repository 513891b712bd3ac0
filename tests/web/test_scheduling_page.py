"""Scheduling on the page: more time, when a job would start, why tasks wait, and what orders the queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, Locator, Page, Response, expect

from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.waiting import soon

from .conftest import ask, sign_in

pytestmark = [pytest.mark.web, pytest.mark.slow]

# Fails for a task of one name only, so that a test says when.
MOODY = """
from task_manager.policy import Policy

class Moody(Policy):
    name = "moody"
    static = True

    def key(self, task, now, view):
        if task.id.name == "upsets":
            raise RuntimeError("<b>what a name</b>")
        return task.submitted_at
"""
TWO_GPUS = {"gpus": 2}
LONG_S = 3000.0


@pytest.fixture(scope="module")
def headway(web_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of two pretend GPUs, so that a task with both makes the next one wait; and one more policy."""
    folder = tmp_path_factory.mktemp("headway")
    info = folder / "site" / "moody-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "site" / "moody.py").write_text(MOODY)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moody\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headway.policies]\nmoody = moody:Moody\n")
    settings = {"worker.simulated_gpus": 2, "worker.cpus": 16}
    cluster = Cluster(folder, ("n1",), settings, environment={"PYTHONPATH": str(folder / "site")})
    try:
        cluster.start()
        cluster.wait_ready()
        cluster.client.create_user(name="bea", password="a password of bea")
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def jobs(headway: Cluster) -> Iterator[Callable[..., str]]:
    """Submits a job of these tasks and answers its id; at the end of the test it is cancelled and over."""
    ids: list[str] = []

    def submit(*tasks: dict[str, Any], name: str = "test") -> str:
        ids.append(str(headway.client.submit(a_job(*tasks, name=name))["id"]))
        return ids[-1]

    yield submit
    for job in ids:
        headway.client.act("cancel", job)
    for job in ids:
        soon(lambda job=job: headway.client.job(job)["ended_at"], within_s=60, what=job)  # type: ignore[misc]


def attempt(headway: Cluster, job: str, task: str) -> dict[str, Any]:
    """Its latest."""
    return dict(ask(headway, "GET", f"/jobs/{job}/tasks/{task}").json()["task"]["attempts"][-1])


def running(headway: Cluster, job: str, task: str) -> None:
    def runs() -> bool:
        found = ask(headway, "GET", f"/jobs/{job}/tasks/{task}").json()["task"]
        return {found["state"], found["attempts"][-1]["state"]} == {"RUNNING"} if found["attempts"] else False

    soon(runs, within_s=60, what=f"{task} runs")


def promised(headway: Cluster, job: str) -> dict[str, Any]:
    """The queue's entry of its only waiting task, once its start is promised."""

    def entry() -> dict[str, Any] | None:
        entries = ask(headway, "GET", f"/queue?job={job}").json()["entries"]
        return entries[0] if entries and entries[0]["promised_start_at"] is not None else None

    return dict(soon(entry, within_s=60, what="a promised start") or {})


def fits(page: Page) -> bool:
    """Nothing sticks out at a phone's width."""
    page.set_viewport_size({"width": 360, "height": 760})
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def lines(texts: Locator) -> list[int]:
    """On how many lines each of these is written."""
    return list(
        texts.evaluate_all(
            """all => all.map(one => {
                const range = document.createRange();
                range.selectNodeContents(one);
                const line = 1.45 * parseFloat(getComputedStyle(one).fontSize);
                return Math.round(range.getBoundingClientRect().height / line);
            })"""
        )
    )


def test_more_time_is_given_once_and_seen_at_once(
    page: Page, headway: Cluster, jobs: Callable[..., str], shoot: Callable[[Page, str], None]
) -> None:
    job = jobs(scripted_task("long", run_s=LONG_S, timeout="1h"), scripted_task("after", needs=["long"]))
    running(headway, job, "long")
    page.goto(f"/jobs/{job}/after")
    expect(page.get_by_role("heading", name="after")).to_be_visible()
    expect(page.get_by_role("button", name="More time")).to_have_count(0)
    page.goto(f"/jobs/{job}/long")
    page.get_by_role("button", name="More time").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="More time for long")
    expect(dialog.get_by_label("How much more", exact=True)).to_be_focused()
    dialog.get_by_label("How much more", exact=True).fill("some")
    dialog.get_by_role("button", name="Give it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("some")
    dialog.get_by_role("button", name="1h").click()
    expect(dialog).to_contain_text("then until")
    shoot(page, "more-time")
    assert fits(page)
    shoot(page, "more-time-phone")
    # The answer of the first gets lost, and the same is pressed again, twice.
    page.route("**/extend", lambda route: (route.fetch(), route.abort("connectionreset")), times=1)
    dialog.get_by_role("button", name="Give it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("does not answer")
    dialog.get_by_role("button", name="Give it").dblclick()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("status").filter(has_text="long has 1h more; its timeout is 2h now.")).to_be_visible()
    expect(page.locator(".task-panel")).to_contain_text("timeout 2 h")
    expect(page.locator(".attempt")).to_contain_text("given 1 h more by admin")
    assert [one["seconds"] for one in attempt(headway, job, "long")["extensions"]] == [3600]
    # Somebody else's act comes by itself.
    ask(headway, "POST", f"/jobs/{job}/tasks/long/extend", json={"by": "30m"})
    expect(page.locator(".task-panel")).to_contain_text("timeout 2 h 30 m")


def test_more_time_that_moves_a_promise_is_refused_and_an_admin_may_give_it(
    page: Page, headway: Cluster, browser: Browser, jobs: Callable[..., str], shoot: Callable[[Page, str], None]
) -> None:
    with browser.new_context(base_url=headway.url) as context:
        theirs = context.new_page()
        sign_in(theirs, "bea", "a password of bea")
        holder = theirs.request.post(
            "/api/v1/jobs",
            data=a_job(scripted_task("holds", run_s=LONG_S, timeout="1h", resources=TWO_GPUS)),
            headers={"Content-Type": "application/yaml", "Origin": headway.url},
        ).json()["id"]
        try:
            running(headway, holder, "holds")
            waiter = jobs(scripted_task("waits", timeout="1s", resources=TWO_GPUS))
            promised(headway, waiter)
            theirs.goto(f"/jobs/{holder}")
            theirs.get_by_role("button", name="More time").click()
            dialog = theirs.get_by_role("dialog")
            dialog.get_by_role("button", name="Give it").click()
            expect(dialog.get_by_role("alert")).to_contain_text("1 task would start later than promised")
            expect(dialog.get_by_role("link", name="test / waits")).to_be_visible()
            expect(dialog.get_by_role("button", name="Give it anyway")).to_have_count(0)
            assert attempt(headway, holder, "holds")["extensions"] == []
            # Nobody else but the owner and admins is offered it.
            theirs.goto(f"/jobs/{waiter}")
            expect(theirs.get_by_role("region", name="Why it waits")).to_be_visible()
            expect(theirs.get_by_role("button", name="More time")).to_have_count(0)

            page.goto(f"/jobs/{holder}")
            page.get_by_role("button", name="More time").click()
            dialog = page.get_by_role("dialog")
            expect(dialog.get_by_role("button", name="Give it anyway")).to_have_count(0)
            dialog.get_by_role("button", name="Give it").click()
            expect(dialog.get_by_role("alert")).to_contain_text("1 task would start later than promised")
            # Out of use while it was asked, it has the focus back.
            expect(dialog.get_by_role("button", name="Give it", exact=True)).to_be_focused()
            shoot(page, "more-time-refused")
            # Another amount is another question.
            dialog.get_by_role("button", name="10m").click()
            expect(dialog.get_by_role("button", name="Give it anyway")).to_have_count(0)
            dialog.get_by_role("button", name="Give it").click()
            dialog.get_by_role("button", name="Give it anyway").click()
            expect(dialog).to_have_count(0)
            expect(page.locator(".attempt")).to_contain_text("given 10 m more by admin")
            [given] = attempt(headway, holder, "holds")["extensions"]
            assert (given["seconds"], given["forced"]) == (600, True)
        finally:
            headway.client.act("cancel", holder)


def test_the_form_says_when_and_the_coach_is_applied_by_a_press_only(
    page: Page, headway: Cluster, jobs: Callable[..., str], shoot: Callable[[Page, str], None]
) -> None:
    for _ in range(3):
        past = jobs({**scripted_task("sweep", run_s=0.2), "command": "python3 sweep.py"})
        soon(lambda past=past: headway.client.job(past)["state"] == "SUCCEEDED", within_s=60)  # type: ignore[misc]
    page.get_by_role("link", name="Submit", exact=True).click()
    starts = page.get_by_role("region", name="When it would start")
    expect(starts).to_contain_text("once image, command and timeout are filled in")
    asked: list[Response] = []
    page.on("response", lambda answer: asked.append(answer) if "dry_run" in answer.url else None)
    page.get_by_label("Task name").fill("sweep")
    page.get_by_label(re.compile("^Command")).fill("python3 sweep.py")
    page.get_by_label("Image", exact=True).fill("")
    page.get_by_label("Image", exact=True).press_sequentially("scripted", delay=200)
    page.get_by_label("Timeout").fill("2d")
    expect(starts).to_contain_text("It would start at once.")
    images = {yaml.safe_load(one.request.post_data or "")["tasks"][0]["image"] for one in asked}
    assert images <= {"base/python:1", "scripted"}, "no name that is half typed was looked for"
    coach = page.get_by_role("note", name="What past runs say")
    expect(coach).to_contain_text("3 runs of this command by you took about")
    expect(coach).to_contain_text("would have killed none of them")
    expect(page.get_by_label("Timeout")).to_have_value("2d")
    shoot(page, "submit-coach")

    holder = jobs(scripted_task("holds", run_s=LONG_S, timeout="1h", resources=TWO_GPUS))
    running(headway, holder, "holds")
    page.get_by_label("GPUs").fill("1")
    expect(starts).to_contain_text("It would be 1st in the queue, start about")
    expect(starts).to_contain_text(", promised: no later than")
    table = starts.get_by_role("table")
    expect(table.get_by_role("row")).to_have_count(5)  # heads, 10m, 1h, 1d, 2d
    expect(table.get_by_role("columnheader")).to_have_text(["timeout", "1 GPU", "2 GPUs"])
    expect(table.get_by_role("row", name=re.compile("^10m"))).to_contain_text(re.compile(r"\d:\d\d"))
    shoot(page, "submit-starts")
    page.get_by_label("Timeout").fill("sometime")
    expect(starts).to_contain_text("Headway would not accept the job as it is")
    expect(starts.get_by_role("listitem")).to_contain_text("sometime")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_label("Timeout").fill("2d")
    table.get_by_role("button", name="1h").click()
    expect(page.get_by_label("Timeout")).to_have_value("1h")
    page.get_by_role("button", name="Set the timeout to 10s").click()
    expect(page.get_by_label("Timeout")).to_have_value("10s")
    assert fits(page)
    shoot(page, "submit-starts-phone")
    assert max(lines(table.locator("th"))) == 1, "they used to be broken amid their letters"
    assert list(headway.client.jobs(q="my job")) == []


def test_a_waiting_task_is_explained_on_both_pages(
    page: Page, headway: Cluster, jobs: Callable[..., str], shoot: Callable[[Page, str], None]
) -> None:
    holder = jobs(scripted_task("holds", run_s=LONG_S, timeout="1h", resources={"gpus": 1}))
    running(headway, holder, "holds")
    waiter = jobs(scripted_task("waits", timeout="1s", resources=TWO_GPUS), name="<i>wide</i>")
    promised(headway, waiter)
    late = jobs(scripted_task("late", timeout="2d", resources=TWO_GPUS), name="late")
    # Starts past both, since it is over before they could.
    narrow = jobs(scripted_task("narrow", timeout="20m", resources={"gpus": 1}), name="narrow")
    soon(lambda: headway.client.job(narrow)["state"] == "SUCCEEDED", within_s=60)
    page.get_by_role("link", name="Queue").click()
    row = page.locator("tr", has_text="<i>wide</i> / waits")
    for label in ("starts about", "no later than"):
        expect(row.locator(f'[data-label="{label}"]')).to_contain_text(re.compile(r"\d:\d\d.*\(in (1 h|59 m)"))
        title = row.locator(f'[data-label="{label}"] time').get_attribute("title") or ""
        assert re.search(r"20\d\d.*(GMT|UTC|[A-Z]{3,4})", title), title
    expect(row.locator(".why")).to_contain_text("has 1 of its 2 GPUs free")
    row.get_by_text("How its place is calculated").click()
    expect(row.locator(".terms")).to_contain_text("score for its timeout−1 s")
    behind = page.locator("tr", has_text="late / late")
    expect(behind.locator('[data-label="no later than"]')).to_contain_text(re.compile(r"\d:\d\d.*\(in 2 d"))
    expect(behind.locator(".why")).to_contain_text("1 waiting task is ahead of it")
    shoot(page, "queue-explained")
    assert fits(page)
    shoot(page, "queue-explained-phone")

    row.get_by_role("link", name=re.compile("waits$")).click()
    why = page.get_by_role("region", name="Why it waits")
    expect(why).to_contain_text(re.compile("Place 1 in the queue, starts about .* promised: no later than"))
    expect(why).to_contain_text("has 1 of its 2 GPUs free")
    why.get_by_text("Why did others start before?").focus()
    page.keyboard.press("Enter")
    expect(why.locator(".passes")).to_contain_text("but started on n1")
    expect(why.get_by_role("link", name="narrow / narrow").first).to_be_visible()
    assert fits(page)
    shoot(page, "job-explained-phone")
    page.set_viewport_size({"width": 1280, "height": 900})
    shoot(page, "job-explained")
    page.goto(f"/jobs/{late}")
    expect(page.get_by_role("region", name="Why it waits")).to_contain_text("promised: no later than")
    assert page.locator("main i").count() == 0


def test_an_admin_orders_the_queue_anew_and_back(
    page: Page, headway: Cluster, browser: Browser, shoot: Callable[[Page, str], None]
) -> None:
    page.get_by_role("link", name="Queue").click()
    panel = page.get_by_role("region", name="What orders the queue")
    expect(panel).to_contain_text("conservative")
    expect(panel.get_by_role("button", name="Back to what is configured")).to_have_count(0)
    panel.get_by_role("button", name="Change").press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Go on")).to_be_disabled()
    dialog.get_by_label("Policy").fill("no_such")
    dialog.get_by_label(re.compile("^greedy")).check()
    shoot(page, "scheduling")
    assert fits(page)
    shoot(page, "scheduling-phone")
    dialog.get_by_role("button", name="Go on").click()
    expect(dialog).to_contain_text("New starts are not promised")
    assert ask(headway, "GET", "/queue").json()["scheduling"]["discipline"] == "conservative", "asked before"
    dialog.get_by_role("button", name="Set it for everybody").click()
    expect(dialog.get_by_role("alert")).to_contain_text("There is no scheduling policy 'no_such'")
    dialog.get_by_label("Policy").fill("log_aging:c=600")
    dialog.get_by_label("Policy").press("Enter")
    expect(dialog).to_contain_text("log_aging:c=600")
    dialog.get_by_role("button", name="Set it for everybody").click()
    expect(dialog).to_have_count(0)
    expect(panel).to_contain_text("log_aging:c=600")
    expect(panel).to_contain_text("Set by admin")
    with browser.new_context(base_url=headway.url) as context:
        theirs = context.new_page()
        sign_in(theirs, "bea", "a password of bea")
        theirs.get_by_role("link", name="Queue").click()
        told = theirs.get_by_role("region", name="What orders the queue")
        expect(told).to_contain_text("Set by admin")
        expect(told.get_by_role("button")).to_have_count(0)
    acts = ask(headway, "GET", "/queue").json()["scheduling"]
    assert (acts["policy"], acts["discipline"]) == ("log_aging:c=600", "greedy")
    page.get_by_role("button", name="Back to what is configured").click()
    dialog.get_by_role("button", name="Set it for everybody").click()
    expect(dialog).to_have_count(0)
    expect(panel).not_to_contain_text("Set by")
    acts = ask(headway, "GET", "/queue").json()["scheduling"]
    assert (acts["policy_set_by"], acts["discipline_set_by"], acts["discipline"]) == (None, None, "conservative")


def test_a_policy_that_fails_is_told_loudly_until_it_works_again(
    page: Page, headway: Cluster, jobs: Callable[..., str], shoot: Callable[[Page, str], None]
) -> None:
    ask(headway, "PATCH", "/queue", json={"policy": "moody"})
    try:
        holder = jobs(scripted_task("holds", run_s=LONG_S, timeout="1h", resources=TWO_GPUS))
        running(headway, holder, "holds")
        page.get_by_role("link", name="Queue").click()
        panel = page.get_by_role("region", name="What orders the queue")
        expect(panel).to_contain_text("moody")
        expect(panel.get_by_role("alert")).to_have_count(0)
        upsets = jobs(scripted_task("upsets", resources=TWO_GPUS))
        expect(panel.get_by_role("alert")).to_contain_text("aging_sjf orders the queue until it works again")
        expect(panel.get_by_role("alert")).to_contain_text("<b>what a name</b>")
        expect(page.get_by_role("row", name=re.compile("upsets"))).to_be_visible()
        assert fits(page)
        shoot(page, "queue-policy-fails-phone")
        headway.client.act("cancel", upsets)
        jobs(scripted_task("calm", resources=TWO_GPUS))  # its pass asks the policy again
        expect(panel.get_by_role("alert")).to_have_count(0)
    finally:
        ask(headway, "PATCH", "/queue", json={"policy": "default"})
