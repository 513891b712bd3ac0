"""Fifty tabs of one browser, each with a live log: calls from them, and how soon a change is seen."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from playwright.sync_api import Page

from tests.support.browser import chromium
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

from .measure import Figure, median, quantile

TABS = int(os.environ.get("HEADWAY_TABS", "50"))
ROUNDS = 6
SETTLE_S = 5.0
CALLS_GOAL_MS = 200.0
PIXEL_GOAL_MS = 500.0
_PATH = "/api/v1/me"

_CALL = """async path => {
    const began = performance.now();
    const answer = await fetch(path, { signal: AbortSignal.timeout(30000) });
    await answer.arrayBuffer();
    return answer.ok ? performance.now() - began : 30000;
}"""
# The moment at which the page shows the end of its job, by the clock that the server has, too.
_WATCH = """() => {
    const look = () => {
        if (!/cancelled/.test(document.querySelector('h1')?.textContent ?? '')) return;
        observer.disconnect();
        requestAnimationFrame(() => { window.headwaySeenAt = Date.now(); });
    };
    const observer = new MutationObserver(look);
    observer.observe(document.body, { childList: true, subtree: true, characterData: true });
}"""


def tabs() -> Iterator[Figure]:
    """Opens the tabs, calls from each of them while all logs are live, then ends their tasks one after the other."""
    with (
        tempfile.TemporaryDirectory(prefix="hwb") as folder,
        a_cluster(Path(folder), worker__cpus=TABS + 8) as cluster,
        chromium() as browser,
    ):
        names = [f"t{i}" for i in range(TABS)]
        jobs = [_live_job(cluster, name) for name in names]
        with browser.new_context(base_url=cluster.url) as context:
            _sign_in(context.new_page(), cluster)
            began = time.monotonic()
            pages = [_opened(context.new_page(), job, name) for job, name in zip(jobs, names, strict=True)]
            opened_s = time.monotonic() - began
            events, logs = _streams(cluster)
            note = f"{events} stream of events and {logs} of logs at the server"
            yield Figure(f"tabs: {TABS} with live logs are open after", opened_s, "s", note=note)
            time.sleep(SETTLE_S)
            yield from _calls(cluster, pages)
            yield from _pixels(cluster, pages, jobs)


def _live_job(cluster: Cluster, name: str) -> str:
    task = scripted_task(name, run_s=3600, env={"HEADWAY_SCRIPTED_OUTPUT": f"line of {name}\n"}, timeout="2h")
    task["resources"] = {"cpus": 1, "memory": "64MiB"}
    return str(cluster.client.submit(a_job(task, name=name))["id"])


def _sign_in(page: Page, cluster: Cluster) -> None:
    page.goto("/jobs")
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill((cluster.folder / "first-admin").read_text().split("\n")[1])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Jobs").wait_for()


def _opened(page: Page, job: str, name: str) -> Page:
    page.goto(f"/jobs/{job}/{name}?log=stdout")
    page.locator(".log-text", has_text=f"line of {name}").wait_for(timeout=120_000)
    page.locator(".connection", has_text="live").wait_for(timeout=120_000)
    return page


def _streams(cluster: Cluster) -> tuple[int, int]:
    found = {"event": 0, "log": 0}
    for line in httpx.get(f"{cluster.url}/metrics").text.splitlines():
        for kind in found:
            if line.startswith(f"headway_http_{kind}_streams "):
                found[kind] = int(float(line.split()[1]))
    return found["event"], found["log"]


def _calls(cluster: Cluster, pages: list[Page]) -> Iterator[Figure]:
    """From each tab, one after the other; the same by a plain client in between, so that both met the same load."""
    headers = {"Authorization": f"Bearer {cluster.client.profile.token}"}
    took: list[float] = []
    plain: list[float] = []
    with httpx.Client(base_url=cluster.url, headers=headers) as client:
        for _ in range(ROUNDS):
            for page in pages:
                took.append(float(page.evaluate(_CALL, _PATH)))
                began = time.monotonic()
                client.get(_PATH).raise_for_status()
                plain.append((time.monotonic() - began) * 1000)
    p99, bare = quantile(took, 0.99), quantile(plain, 0.99)
    note = (
        f"median {median(took):.0f} ms; a plain client {bare:.0f} and {median(plain):.0f} ms "
        f"({p99 / bare:.1f} and {median(took) / median(plain):.1f} x)"
    )
    yield Figure(f"tabs: a call from each of {len(pages)}, p99 of {len(took)}", p99, "ms", CALLS_GOAL_MS, note=note)


def _pixels(cluster: Cluster, pages: list[Page], jobs: list[str]) -> Iterator[Figure]:
    """From the end of a job, as the server has it, to the frame in which its tab shows it.

    A plain reader of the stream of events tells how much of it the page can't help.
    """
    heard: dict[str, float] = {}
    threading.Thread(target=_listen, args=(cluster, heard), daemon=True).start()
    soon(lambda: heard, within_s=20)
    took: list[float] = []
    plain: list[float] = []
    for page, job in zip(pages, jobs, strict=True):
        page.bring_to_front()
        page.wait_for_timeout(300)
        page.evaluate(_WATCH)
        cluster.client.act("cancel", job)
        seen = soon(lambda page=page: page.evaluate("window.headwaySeenAt"), within_s=60)  # type: ignore[misc]
        ended = soon(lambda job=job: cluster.client.job(job)["ended_at"], within_s=60)  # type: ignore[misc]
        took.append(float(seen) - 1000 * ended)
        plain.append(1000 * (soon(lambda job=job: heard.get(job), within_s=60) - ended))  # type: ignore[misc]
    note = (
        f"median {median(took):.0f} ms; a plain reader has the event after {quantile(plain, 0.95):.0f} "
        f"and {median(plain):.0f} ms"
    )
    yield Figure(f"tabs: state to pixel, p95 of {len(took)}", quantile(took, 0.95), "ms", PIXEL_GOAL_MS, note=note)


def _listen(cluster: Cluster, heard: dict[str, float]) -> None:
    """When the end of each job came, by its id."""
    headers = {"Authorization": f"Bearer {cluster.client.profile.token}"}
    kind = ""
    try:
        with httpx.stream("GET", f"{cluster.url}/api/v1/events", headers=headers, timeout=60) as answer:
            for line in answer.iter_lines():
                field, _, value = line.partition(": ")
                kind = value if field == "event" else kind
                if field == "data" and kind == "reset":
                    heard[""] = time.time()
                elif field == "data" and kind == "job" and (job := json.loads(value))["ended_at"]:
                    heard.setdefault(job["id"], time.time())
    except httpx.HTTPError:
        return  # the cluster has ended
