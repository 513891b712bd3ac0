"""Many tabs of one browser: one line for events, one for logs, and one account."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.browser import another
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

from .conftest import sign_in

pytestmark = [pytest.mark.web, pytest.mark.slow]

TABS = 8


@pytest.fixture(scope="module")
def headway(web_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Also to be opened by plain http under a name, as in most labs. That is no secure context."""
    folder = tmp_path_factory.mktemp("headway")
    name = "http://headway.test"
    with a_cluster(
        folder, workers=2, worker__simulated_gpus=2, worker__cpus=16, httpserver__public_url=name
    ) as cluster:
        yield cluster


@pytest.fixture
def plain(browser: Browser) -> Iterator[Browser]:
    own = another(browser.browser_type, "--host-resolver-rules=MAP headway.test 127.0.0.1")
    yield own
    own.close()


@pytest.fixture(scope="module")
def live(headway: Cluster) -> str:
    """A job with a task for each tab that has written a line and goes on."""
    tasks = [
        scripted_task(f"t{i}", run_s=600, env={"HEADWAY_SCRIPTED_OUTPUT": f"line of {i}\n"}, resources={"cpus": 1})
        for i in range(TABS)
    ]
    job = str(headway.client.submit(a_job(*tasks, name="many tabs"))["id"])
    soon(lambda: all(task["state"] == "RUNNING" for task in headway.client.job(job)["tasks"]), within_s=60)
    return job


def streams(headway: Cluster) -> tuple[int, int]:
    """Of events and of logs, open at the server."""
    text = httpx.get(f"{headway.url}/metrics").text
    found = [re.search(rf"^headway_http_{kind}_streams (\d+)", text, re.M) for kind in ("event", "log")]
    return tuple(int(one[1]) if one else -1 for one in found)  # type: ignore[return-value]


CALL = """async () => {
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 20000);
    const answer = await fetch('/api/v1/me', { signal: stop.signal });
    return (await answer.json()).name;
}"""


def test_eight_tabs_with_live_logs_hold_two_lines_and_are_of_one_account(
    context: BrowserContext, page: Page, headway: Cluster, password: str, live: str
) -> None:
    """Used to: two lines a tab of the six that a browser has; the third tab hung."""
    headway.client.create_user(name="tabea", password="a password of tabea")
    tabs = [page, *(context.new_page() for _ in range(TABS - 1))]
    for i, tab in enumerate(tabs):
        tab.goto(f"/jobs/{live}/t{i}?log=stdout")
    for i, tab in enumerate(tabs):
        expect(tab.locator(".log-text")).to_contain_text(f"line of {i}")
        expect(tab.locator(".connection")).to_have_text("live")
        expect(tab.locator(".log-state")).to_have_text("live")
    assert [tab.evaluate(CALL) for tab in tabs] == ["admin"] * TABS
    soon(lambda: streams(headway) == (1, 1), within_s=20)

    # What happens comes to all of them; a tab that is closed leaves nothing behind.
    tabs.pop().close()
    soon(lambda: streams(headway) == (1, 1), within_s=20)
    headway.client.act("cancel", live)
    for tab in tabs:
        expect(tab.locator(".log-state")).to_have_text("complete")
        expect(tab.locator("main")).to_contain_text("cancelled")
    soon(lambda: streams(headway) == (1, 0), within_s=20)

    # Out in one is out in all, and in as another is so in all; nothing of before stays.
    tabs[0].get_by_role("button", name="Sign out").click()
    for tab in tabs:
        expect(tab.get_by_role("button", name="Sign in")).to_be_visible()
        assert "line of" not in tab.content()
    soon(lambda: streams(headway) == (0, 0), within_s=20)
    sign_in(tabs[1], "tabea", "a password of tabea")
    for tab in tabs:
        expect(tab.locator(".who")).to_have_text("tabea")
    assert all("line of" not in tab.content() for tab in tabs)
    expect(tabs[2].locator(".log-state")).to_contain_text("belongs to admin")
    soon(lambda: streams(headway)[0] == 1, within_s=20)


def test_plain_http_and_browsers_without_shared_workers_hang_no_tab(
    plain: Browser, headway: Cluster, password: str
) -> None:
    """Used to: without Web Locks, which plain http lacks, each tab held two of the browser's six connections."""
    tasks = [
        scripted_task(f"p{i}", run_s=600, env={"HEADWAY_SCRIPTED_OUTPUT": f"line of {i}\n"}, resources={"cpus": 1})
        for i in range(TABS)
    ]
    job = str(headway.client.submit(a_job(*tasks, name="plain"))["id"])
    url = f"http://headway.test:{headway.http_port}"
    window = plain.new_context(base_url=url)
    tabs = [window.new_page() for _ in range(TABS)]
    sign_in(tabs[0], "admin", password)
    for i, tab in enumerate(tabs):
        tab.goto(f"/jobs/{job}/p{i}?log=stdout")
    assert tabs[0].evaluate("() => [isSecureContext, navigator.locks === undefined]") == [False, True]
    for i, tab in enumerate(tabs):
        expect(tab.locator(".log-text")).to_contain_text(f"line of {i}")
        expect(tab.locator(".connection")).to_have_text("live")
    assert [tab.evaluate(CALL) for tab in tabs] == ["admin"] * TABS
    soon(lambda: streams(headway) == (1, 1), within_s=20)
    window.close()
    # A phone's browser: only the tab that is seen holds lines, and who comes back finds what came meanwhile.
    phone = plain.new_context(base_url=url)
    phone.add_init_script(
        "delete globalThis.SharedWorker; globalThis.unseen = false;"
        " Object.defineProperty(Document.prototype, 'hidden', { get: () => globalThis.unseen });"
        " globalThis.see = (on) => { globalThis.unseen = !on; document.dispatchEvent(new Event('visibilitychange')); };"
    )
    tabs = []
    for i in range(TABS):
        for tab in tabs[-1:]:
            tab.evaluate("() => see(false)")
        tabs.append(phone.new_page())
        if i == 0:
            sign_in(tabs[0], "admin", password)
        tabs[i].goto(f"/jobs/{job}/p{i}?log=stdout")
        expect(tabs[i].locator(".log-text")).to_contain_text(f"line of {i}")
        expect(tabs[i].locator(".connection")).to_have_text("live")
    # Logs of a tab alone are not counted here.
    soon(lambda: streams(headway) == (1, 0), within_s=20)
    tabs[-1].evaluate("() => see(false)")
    soon(lambda: streams(headway) == (0, 0), within_s=20)
    headway.client.act("cancel", job)
    tabs[0].evaluate("() => see(true)")
    expect(tabs[0].locator(".log-state")).to_have_text("complete")
    expect(tabs[0].locator(".log-text .line")).to_have_count(1)
    assert all(tab.locator(".away-banner").count() == 0 for tab in tabs)


def test_a_worker_that_dies_is_replaced_and_one_that_can_not_start_is_done_without(
    context: BrowserContext, page: Page, browser: Browser, headway: Cluster
) -> None:
    task = scripted_task(run_s=600, env={"HEADWAY_SCRIPTED_OUTPUT": "still here\n"})
    job = str(headway.client.submit(a_job(task, name="alone"))["id"])
    log = f"/jobs/{job}/a?log=stdout"
    page.goto(log)
    without, broken = context.new_page(), context.new_page()
    without.add_init_script("delete globalThis.SharedWorker")
    broken.add_init_script(
        "const Own = SharedWorker; globalThis.SharedWorker = function (url, more) {"
        " return new Own(url + '.not-there', { ...more, name: 'none' }); };"
    )
    for tab in (without, broken):
        tab.goto(log)
    for tab in (page, without, broken):
        expect(tab.locator(".log-text")).to_contain_text("still here")
        expect(tab.locator(".connection")).to_have_text("live")
    soon(lambda: streams(headway) == (3, 1), within_s=20)
    session = browser.new_browser_cdp_session()

    def workers() -> set[str]:
        found = session.send("Target.getTargets")["targetInfos"]
        return {one["targetId"] for one in found if one["type"] == "shared_worker" and "hub-worker" in one["url"]}

    (first,) = workers()
    session.send("Target.closeTarget", {"targetId": first})
    soon(lambda: workers() - {first}, within_s=20)
    soon(lambda: streams(headway) == (3, 1), within_s=20)
    headway.client.act("cancel", job)
    for tab in (page, without, broken):
        expect(tab.locator(".log-state")).to_have_text("complete")
        expect(tab.locator(".log-text .line")).to_have_count(1)


def test_a_press_that_can_not_be_sent_says_so_and_is_never_done_later(
    context: BrowserContext, page: Page, headway: Cluster
) -> None:
    """Used to: with no network the browser kept the press, showed it as under way, and sent it when one came."""
    job = str(headway.client.submit(a_job(scripted_task(run_s=600), name="not sent"))["id"])
    page.goto(f"/jobs/{job}")
    press = page.get_by_role("button", name="Cancel", exact=True).first
    expect(press).to_be_visible()
    context.set_offline(True)
    press.click()
    expect(page.locator(".failure", has_text="does not answer")).to_be_visible()
    context.set_offline(False)
    page.wait_for_timeout(1000)
    assert headway.client.job(job)["state"] in ("QUEUED", "RUNNING", "PENDING")
    headway.client.act("cancel", job)
