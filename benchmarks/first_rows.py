"""How soon the list of jobs is there for somebody who signs in and has many."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
from playwright.sync_api import Browser

from tests.support.browser import chromium
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

from .measure import Figure, median

JOBS = int(os.environ.get("HEADWAY_FIRST_ROWS_JOBS", "5000"))
ROUNDS = 7
GOAL_S = 1.0


def first_rows() -> Iterator[Figure]:
    """From the click on "Sign in" to the first row on screen, in a browser that was never here.

    Beside it stand the two calls that this needs at least, sign-in and list, without a browser.
    """
    small = {"cpus": 0.01, "memory": "16MiB"}
    with tempfile.TemporaryDirectory(prefix="hwb") as folder, a_cluster(Path(folder)) as cluster, chromium() as browser:
        for number in range(JOBS):
            cluster.client.submit(a_job(scripted_task(resources=small), name=f"job {number}"))
        soon(lambda: _live(cluster) == 0, within_s=600, what="all have ended")
        password = (cluster.folder / "first-admin").read_text().split("\n")[1]
        drawn_s = [_drawn(browser, cluster, password) for _ in range(ROUNDS)]
        bare_s = [_bare(cluster, password) for _ in range(ROUNDS)]
        list_s = [
            _timed(lambda: cluster.client._send("GET", "/api/v1/jobs", params=_LIST).json()) for _ in range(ROUNDS)
        ]
    note = f"median {median(drawn_s):.2f} s; sign-in and list without a browser {median(bare_s):.2f} s"
    yield Figure(f"first rows: {JOBS} jobs, slowest of {ROUNDS} fresh sign-ins", max(drawn_s), "s", GOAL_S, note=note)
    note = f"the list alone takes {median(list_s) * 1000:.0f} ms"
    yield Figure("first rows: against the two bare calls", median(drawn_s) / median(bare_s), "x", note=note)


_LIST: dict[str, str | int | bool] = {"limit": 50, "owner": "me", "count": True}


def _live(cluster: Cluster) -> int:
    states = ["PENDING", "RUNNING", "STOPPING"]
    return len(cluster.client._send("GET", "/api/v1/jobs", params={"limit": 1, "state": states}).json()["jobs"])


def _drawn(browser: Browser, cluster: Cluster, password: str) -> float:
    with browser.new_context(base_url=cluster.url) as context:
        page = context.new_page()
        page.goto("/jobs")
        page.get_by_label("Name").fill("admin")
        page.get_by_label("Password").fill(password)
        page.wait_for_load_state("networkidle")
        # Measured in the page itself: what Playwright takes to hear of it is not the reader's time.
        page.evaluate(
            """() => {
                const press = [...document.querySelectorAll('button')].find(one => /Sign in/.test(one.textContent));
                press.addEventListener('click', () => { window.pressed = performance.now(); }, { capture: true });
                new MutationObserver((_, watch) => {
                    if (document.querySelector('table.jobs tbody tr') === null) return;
                    watch.disconnect();
                    const drawn = () => { window.took = performance.now() - window.pressed; };
                    requestAnimationFrame(() => setTimeout(drawn));
                }).observe(document, { childList: true, subtree: true });
            }"""
        )
        page.get_by_role("button", name="Sign in").click()
        return float(page.wait_for_function("() => window.took").json_value()) / 1000


def _bare(cluster: Cluster, password: str) -> float:
    def calls() -> None:
        with httpx.Client(base_url=f"{cluster.url}/api/v1", timeout=60) as http:
            said = {"username": "admin", "password": password}
            token = http.post("/session", json=said).raise_for_status().json()["token"]
            http.get("/jobs", params=_LIST, headers={"Authorization": f"Bearer {token}"}).raise_for_status().json()

    return _timed(calls)


def _timed(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began
