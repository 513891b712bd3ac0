"""A real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserType, sync_playwright

# As root and without a screen; and nothing that would look for the network by itself.
_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


def another(kind: BrowserType, *options: str) -> Browser:
    """One more beside the first: close it."""
    return kind.launch(executable_path="/usr/bin/chromium", headless=True, args=[*_OPTIONS, *options])


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium. Playwright's own browsers can't be had everywhere, so Debian's is used.

    Its synchronous API must not be called inside an event loop: tests with it are no coroutines.
    """
    with sync_playwright() as playwright:
        browser = another(playwright.chromium)
        try:
            yield browser
        finally:
            browser.close()
