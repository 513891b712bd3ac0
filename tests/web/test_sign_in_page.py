"""Signing in on the page: by a provider, and a command line that is let in by its code; the audit log."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import oidc_provider_mock
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from headway.client import Profile
from tests.support.cluster import Cluster, a_cluster

from .conftest import sign_in

pytestmark = [pytest.mark.web, pytest.mark.slow]


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """A real small one on this machine, which knows one person."""
    people = [oidc_provider_mock.User(sub="u-17", claims={"preferred_username": "grace"})]
    with oidc_provider_mock.run_server_in_thread(user_claims=people) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture(scope="module")
def headway(web_folder: Path, provider: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("headway")
    secret = folder / "client-secret"
    secret.write_text("a secret of the client\n")
    oidc = {"issuer": provider, "client_id": "headway", "client_secret_file": str(secret), "button": "Sign in by lab"}
    settings = {f"httpserver__oidc__{key}": value for key, value in oidc.items()}
    with a_cluster(folder, workers=1, **settings) as cluster:
        yield cluster


def by_provider(page: Page) -> None:
    page.get_by_role("link", name="Sign in by lab").click()
    page.get_by_role("button", name="u-17").click()


def test_a_person_signs_in_by_the_provider_and_lets_a_command_line_in(
    context: BrowserContext, headway: Cluster, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    page = context.new_page()
    page.goto("/queue?running=all")
    expect(page.get_by_label("Password")).to_be_visible()
    shoot(page, "sign-in-provider")
    by_provider(page)
    # Behind it is where one was.
    expect(page.get_by_role("heading", name="Queue")).to_be_visible()
    assert page.url == f"{headway.url}/queue?running=all"
    expect(page.get_by_role("link", name="grace")).to_be_visible()

    # A command line on another machine, without a browser.
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "SSH_CONNECTION": "x"}
    command = [sys.executable, "-m", "headway", "login", headway.url, "--browser"]
    line = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    try:
        assert line.stderr is not None
        place = line.stderr.readline().split()[1]
        code = re.findall("[B-Z]{4}-[B-Z]{4}", line.stderr.readline())[0]
        page.goto(place)
        expect(page.get_by_label("The command line that asks")).to_contain_text(code)
        expect(page.get_by_label("The command line that asks")).to_contain_text("127.0.0.1")
        shoot(page, "approve")
        page.get_by_role("button", name="Let it in").click()
        expect(page.get_by_role("status").filter(has_text="signed in as grace")).to_be_visible()
        out, _ = line.communicate(timeout=60)
    finally:
        line.kill()
    assert line.returncode == 0
    assert "Signed in as grace" in out
    stored = Profile.stored({"XDG_CONFIG_HOME": str(tmp_path)})
    assert (stored.url, stored.user, stored.token[:4]) == (headway.url, "grace", "hws_")
    # The same code opens nothing again.
    page.goto(place)
    expect(page.get_by_role("alert")).to_contain_text("No command line waits with this code")
    page.goto("/account")
    sessions = page.get_by_role("table", name="Sessions")
    expect(sessions).to_contain_text("127.0.0.1, provider")
    expect(sessions).to_contain_text("127.0.0.1, command line")


def test_a_sign_in_that_came_to_nothing_says_why_and_the_audit_log_has_it(
    browser: Browser, headway: Cluster, password: str, shoot: Callable[[Page, str], None]
) -> None:
    with browser.new_context(base_url=headway.url) as context:
        page = context.new_page()
        page.goto("/api/v1/session/provider/callback?state=made-up&code=x")
        expect(page.get_by_role("alert")).to_contain_text("was begun too long ago or in another browser")
        page.goto("/?sign_in=<img src=x onerror=alert(1)>")
        expect(page.get_by_label("Password")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        sign_in(page, "admin", password)
        page.goto("/audit")
        table = page.get_by_role("table", name="Audit log")
        expect(table).to_contain_text("sign-in-stale")
        page.get_by_label("Who", exact=True).fill("admin")
        expect(table).not_to_contain_text("sign-in-stale")
        expect(table).to_contain_text("session.sign_in")
        page.get_by_label("What", exact=True).select_option("node")
        expect(page.get_by_text("Nothing of this kind")).to_be_visible()
        page.get_by_label("What", exact=True).select_option("")
        shoot(page, "audit")
