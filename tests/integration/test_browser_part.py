from __future__ import annotations

import pytest
from playwright.sync_api import Browser

pytestmark = [pytest.mark.web, pytest.mark.slow]


def test_the_browser_runs_scripts(browser: Browser) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.set_content("<p id=a>before</p><script>document.getElementById('a').textContent = 'after'</script>")
        assert page.inner_text("#a") == "after"
