"""The built page, a Headway of real processes behind it, and a browser that is signed in."""

from __future__ import annotations

import base64
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.cluster import Cluster, a_cluster

expect.set_options(timeout=45_000)  # a busy machine, two cores and a browser


@pytest.fixture(scope="session")
def build_hook(repository: Path) -> ModuleType:
    """server/hatch_build.py: what builds the page for a package builds it here too."""
    spec = importlib.util.spec_from_file_location("headway_page_build", repository / "server" / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def web_folder(repository: Path, build_hook: ModuleType) -> Path:
    """The page's sources; its dependencies are installed and it is built from these very sources."""
    build_hook.build_web(repository)
    return repository / "httpserver" / "web"


@pytest.fixture(scope="module")
def headway(web_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes of two pretend GPUs and many CPUs each; nothing really runs on them."""
    folder = tmp_path_factory.mktemp("headway")
    with a_cluster(folder, workers=2, worker__simulated_gpus=2, worker__cpus=16) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def password(headway: Cluster) -> str:
    """The first admin's; the name is ``admin``."""
    return (headway.folder / "first-admin").read_text().split("\n")[1]


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    """What the browser complained of; a refused script or style and an uncaught error fail the test."""
    heard: list[str] = []
    yield heard
    assert heard == []


@pytest.fixture
def context(browser: Browser, headway: Cluster, complaints: list[str]) -> Iterator[BrowserContext]:
    """A browser window of this test's own, nobody signed in."""
    with browser.new_context(base_url=headway.url, accept_downloads=True) as context:
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        context.on(
            "console",
            lambda message: complaints.append(message.text) if "Content Security Policy" in message.text else None,
        )
        yield context


@pytest.fixture
def page(context: BrowserContext, password: str) -> Page:
    """Signed in as ``admin``, on the list of jobs."""
    page = context.new_page()
    sign_in(page, "admin", password)
    return page


def sign_in(page: Page, name: str, password: str) -> None:
    """By the form, as a person does."""
    page.goto("/jobs")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()


def ask(headway: Cluster, method: str, path: str, **more: Any) -> httpx.Response:
    """A call of the first admin, besides the page."""
    headers = {"Authorization": f"Bearer {headway.client.profile.token}", **more.pop("headers", {})}
    answer = httpx.request(method, f"{headway.url}/api/v1{path}", headers=headers, timeout=60, **more)
    answer.raise_for_status()
    return answer


def drop(page: Page, files: dict[str, bytes]) -> None:
    """Drops files, by name, on the page, as a hand would."""
    page.locator(".drop-zone").wait_for()
    held = page.evaluate_handle(
        """async files => {
            const held = new DataTransfer();
            for (const [name, base64] of files) {
                const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
                held.items.add(new File([bytes], name));
            }
            return held;
        }""",
        [[name, base64.b64encode(content).decode()] for name, content in files.items()],
    )
    for event in ("dragenter", "dragover", "drop"):
        page.locator(".drop-zone").dispatch_event(event, {"dataTransfer": held})


def slow_uploads(context: BrowserContext, page: Page, bytes_per_s: int) -> Callable[[], None]:
    """So that there is a middle to do something in. Returns what makes them quick again."""
    session = context.new_cdp_session(page)
    session.send("Network.enable")

    def limit(rate: int) -> None:
        session.send(
            "Network.emulateNetworkConditions",
            {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": rate},
        )

    limit(bytes_per_s)
    return lambda: limit(-1)


@pytest.fixture
def shoot(repository: Path) -> Callable[[Page, str], None]:
    """Saves what the page looks like, for people to see: .cache/screenshots/NAME.png."""
    folder = repository / ".cache" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)

    def take(page: Page, name: str) -> None:
        page.screenshot(path=folder / f"{name}.png", full_page=True)

    return take
