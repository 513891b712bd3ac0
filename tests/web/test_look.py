"""Every page, light and dark, wide and narrow: nothing sticks out, and axe finds nothing. Pictures lie under .cache."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.archives import Entry, docker_save, tiny_image
from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.waiting import soon

from . import axe
from .conftest import ask, sign_in

pytestmark = [pytest.mark.web, pytest.mark.slow]

SIZES = {"wide": (1280, 900), "narrow": (390, 800)}


def said(text: str) -> dict[str, str]:
    return {"HEADWAY_SCRIPTED_OUTPUT": text}


@pytest.fixture(scope="module")
def jobs(headway: Cluster) -> Iterator[dict[str, str]]:
    """Ids of jobs in all kinds of states, by what they are."""
    trace = 'Traceback (most recent call last):\n  File "train.py", line 3\nValueError: no such data\n'
    epochs = "".join(f"epoch {i}: loss {1 / (i + 1):.4f}\n" for i in range(400))
    wants: dict[str, list[dict[str, Any]]] = {
        "digits": [
            scripted_task("prepare", env=said("1797 pictures\n")),
            scripted_task("train-forest", needs=["prepare"], env=said("accuracy 0.97\n")),
            scripted_task("train-svm", needs=["prepare"], run_s=1, env=said("accuracy 0.99\n")),
            scripted_task("compare", needs=["train-forest", "train-svm"], env=said("svm wins: 0.99\n")),
        ],
        "fails": [
            scripted_task("a"),
            scripted_task("b", needs=["a"], exit_code=3, retries=1, env=said(trace)),
            scripted_task("c", needs=["b"]),
            scripted_task("clean-up", needs={"b": "any"}),
            scripted_task("tell", needs={"b": "failure"}),
        ],
        "gpus": [
            *[scripted_task(f"gpu-{i}", run_s=600, resources={"gpus": 1}) for i in range(9)],
            scripted_task("collect", needs=[f"gpu-{i}" for i in range(9)]),
        ],
        "training": [scripted_task("long", run_s=600, env=said(epochs)), scripted_task("after", needs=["long"])],
        "wrong image": [scripted_task("x", env={"HEADWAY_SCRIPTED_START_FAILS": "image_not_found"})],
        "chain": [scripted_task(f"s{i:04}", needs=[f"s{i - 1:04}"] if i else []) for i in range(300)],
        "n" * 100: [scripted_task("t" * 63, run_s=1), scripted_task("u" * 63, needs=["t" * 63])],
    }
    ids = {name: str(headway.client.submit(a_job(*tasks, name=name))["id"]) for name, tasks in wants.items()}
    for name in ("digits", "fails", "n" * 100):
        soon(lambda name=name: headway.client.job(ids[name])["ended_at"], within_s=60, what=name)  # type: ignore[misc]
    yield ids
    for job in ids.values():
        headway.client.act("cancel", job)


@pytest.fixture(scope="module")
def things(headway: Cluster) -> None:
    """An image, files with long names, and a dataset."""
    content = docker_save(tiny_image([Entry("bin/sh", b"#!", 0o755)], env={"CUDA_VERSION": "12.4.1"}))
    meant = {
        "name": "long-name-of-an-image:2.5.1-cuda12.4",
        "description": "# Why\n\nHas **torch**.\n\n| a | b |\n|---|---|\n| 1 | 2 |",
    }
    said = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in meant.items())
    headers = {"Tus-Resumable": "1.0.0", "Upload-Length": str(len(content)), "Upload-Metadata": said}
    ask(
        headway,
        "POST",
        "/uploads/images",
        content=content,
        headers={**headers, "Content-Type": "application/offset+octet-stream"},
    )
    # Whose choices are digests, which are no words that could be broken between.
    two = docker_save(*(tiny_image([Entry("bin/sh", word)], tags=()) for word in (b"#!1", b"#!2")))
    ask(
        headway,
        "POST",
        "/uploads/images",
        content=two,
        headers={
            **headers,
            "Upload-Length": str(len(two)),
            "Upload-Metadata": f"name {base64.b64encode(b'several').decode()}",
            "Content-Type": "application/offset+octet-stream",
        },
    )
    soon(lambda: len(_choices(headway)) == 2, what="which one is asked")
    for name in ("data/a.csv", "n" * 200, "日本語.txt"):
        ask(headway, "PUT", f"/files/{name}?parents=true", content=b"1,2\n")
    ask(headway, "DELETE", "/files/日本語.txt")
    ask(headway, "POST", "/datasets", json={"name": "numbers", "path": "data", "copy": True})
    soon(lambda: ask(headway, "GET", "/images").json()["images"], what="the image is there")


def _choices(headway: Cluster) -> list[str]:
    uploads = ask(headway, "GET", "/uploads/images").json()["uploads"]
    return [choice for upload in uploads for choice in upload["choices"]]


@pytest.mark.timeout(400)  # many pages
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", list(SIZES))
def test_every_page(
    browser: Browser,
    headway: Cluster,
    password: str,
    jobs: dict[str, str],
    things: None,
    shoot: Callable[[Page, str], None],
    size: str,
    scheme: Any,
) -> None:
    width, height = SIZES[size]
    views = {
        "home": "/",
        "jobs": "/jobs",
        "submit": "/submit",
        "clone": f"/submit/{jobs['fails']}",
        "job": f"/jobs/{jobs['digits']}",
        "job-ended": f"/jobs/{jobs['digits']}/train-svm",
        "job-failed": f"/jobs/{jobs['fails']}/b",
        "job-waits": f"/jobs/{jobs['gpus']}/gpu-7",
        "job-live": f"/jobs/{jobs['training']}/long",
        "job-one-task": f"/jobs/{jobs['wrong image']}",
        "job-large": f"/jobs/{jobs['chain']}",
        "job-long-names": f"/jobs/{jobs['n' * 100]}/{'t' * 63}",
        "queue": "/queue",
        "nodes": "/nodes",
        "node": f"/nodes/{headway.workers[0]}",
        "usage": "/usage",
        "images": "/images",
        "image": "/images/admin/long-name-of-an-image",
        "files": "/files",
        "trash": "/trash",
        "datasets": "/datasets",
        "dataset": "/datasets/numbers",
        "account": "/account",
        "help": "/help/scheduling",
        "accounts": "/accounts",
        "account-admin": "/accounts/admin",
    }
    with browser.new_context(
        base_url=headway.url, viewport={"width": width, "height": height}, color_scheme=scheme
    ) as context:
        page = context.new_page()
        page.goto("/")
        expect(page.get_by_label("Password")).to_be_visible()
        shoot(page, f"sign-in-{size}-{scheme}")
        sign_in(page, "admin", password)
        too_wide = [name for name, path in views.items() if not _fits(page, path, f"{name}-{size}-{scheme}", shoot)]
    assert too_wide == []


def _fits(page: Page, path: str, name: str, shoot: Callable[[Page, str], None]) -> bool:
    page.goto(path)
    expect(page.locator("h1").first).to_be_visible()
    expect(page.get_by_text("Loading …")).to_have_count(0)
    if page.locator(".log-text").count():
        expect(page.locator(".log-state")).not_to_have_text("nothing yet")
    page.evaluate("new Promise(done => setTimeout(done, 300))")  # one more picture of what came meanwhile
    shoot(page, name)
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def test_keys_alone_are_enough(context: BrowserContext, headway: Cluster, password: str, jobs: dict[str, str]) -> None:
    page = context.new_page()
    sign_in(page, "admin", password)
    page.goto(f"/jobs/{jobs['digits']}")
    page.locator('[data-task="compare"]').focus()
    page.keyboard.press("Enter")
    expect(page.locator(".log-text")).to_contain_text("svm wins")
    page.get_by_role("tab", name="stderr").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="stderr")).to_have_attribute("aria-selected", "true")


def addresses(app: str, known: dict[str, list[str]]) -> list[str]:
    """An address or several of each route of the page; one without parameters is its own address."""
    routes = re.findall(r'<Route path="([^"]+)"', app)
    assert len(routes) > 15, "the routes are written in another way now"
    unknown = [route for route in routes if re.search(r"[:*]", route) and route not in known]
    assert unknown == [], "say here with what these routes are to be seen"
    return [address for route in routes for address in known.get(route, [route])]


@pytest.mark.timeout(400)
def test_axe_finds_nothing_on_any_page(
    browser: Browser, headway: Cluster, web_folder: Path, password: str, jobs: dict[str, str], things: None
) -> None:
    known = {
        "/submit/:clone": [f"/submit/{jobs['fails']}"],
        "/jobs/:id": [f"/jobs/{jobs['digits']}"],
        "/jobs/:id/:task": [
            f"/jobs/{jobs['fails']}/b",
            f"/jobs/{jobs['gpus']}/gpu-7",
            f"/jobs/{jobs['training']}/long",
        ],
        "/images/:owner/:name": ["/images/admin/long-name-of-an-image"],
        "/images/:owner/:name/:tag": ["/images/admin/long-name-of-an-image/2.5.1-cuda12.4"],
        "/datasets/:name": ["/datasets/numbers"],
        "/accounts/:name": ["/accounts/admin"],
        "/nodes/:id": [f"/nodes/{headway.workers[0]}", "/nodes/none?of=year"],
        "/help/*": ["/help/scheduling", "/help/none"],
    }
    views = [*addresses((web_folder / "src" / "app.tsx").read_text(), known), "/no/such/page"]
    found: list[str] = []
    with browser.new_context(base_url=headway.url, viewport={"width": 1280, "height": 900}) as context:
        axe.bring(context, web_folder)
        page = context.new_page()

        def look(name: str) -> None:
            found.extend(axe.look(page, name))

        page.goto("/")
        expect(page.get_by_label("Password")).to_be_visible()
        look("sign-in")
        sign_in(page, "admin", password)
        for view in views:
            page.goto(view)
            expect(page.locator("h1").first).to_be_visible()
            expect(page.get_by_text("Loading …")).to_have_count(0)
            if page.locator(".log-text").count():
                expect(page.locator(".log-state")).not_to_have_text("nothing yet")
            look(view)
    assert "\n".join(found) == ""
