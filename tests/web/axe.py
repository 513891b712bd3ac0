"""What axe finds on a page, light and dark."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import BrowserContext, Page

# Rules of axe that are wrong for this page, each with the reason.
NOT_FOR_US: dict[str, str] = {}
_RUN = """async ([rules, off]) => {
    const found = await axe.run(document, {
        ...(rules === null ? {} : {runOnly: {type: "rule", values: rules}}),
        rules: Object.fromEntries(off.map(rule => [rule, {enabled: false}])),
        resultTypes: ["violations"],
        iframes: false,
    });
    return found.violations.flatMap(one => one.nodes.map(node =>
        `${one.id} (${one.impact}): ${node.html.slice(0, 150)} |${node.failureSummary.split("\\n")[1]}`));
}"""


def bring(context: BrowserContext, web_folder: Path) -> None:
    """Makes it known to the pages that are opened from now on."""
    context.add_init_script(path=web_folder / "node_modules" / "axe-core" / "axe.min.js")


def look(page: Page, name: str) -> list[str]:
    """A sentence for each thing found; the page is dark afterwards."""
    page.emulate_media(color_scheme="light")
    found = [f"{name}: {one}" for one in page.evaluate(_RUN, [None, list(NOT_FOR_US)])]
    # Nothing but colours differs in the dark.
    page.emulate_media(color_scheme="dark")
    return found + [f"{name}, dark: {one}" for one in page.evaluate(_RUN, [["color-contrast"], []])]
