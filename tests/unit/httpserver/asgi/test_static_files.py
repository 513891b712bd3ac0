"""The page's files and the documentation: known from the start, so no address reaches another file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headway.cli import topics
from headway.errors import NotFound
from httpserver.asgi.static_files import StaticPage
from httpserver.settings import Settings


@pytest.fixture
def page(tmp_path: Path) -> StaticPage:
    (tmp_path / "static" / "assets").mkdir(parents=True)
    (tmp_path / "static" / "index.html").write_text("<html>")
    (tmp_path / "static" / "assets" / "app-1.js").write_text("1")
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "docs").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "adr").mkdir(parents=True)
    (tmp_path / "real" / "start.md").write_text("# First steps")
    (tmp_path / "real" / "adr" / "0001-x.md").write_text("# X")
    (tmp_path / "real" / "notes.txt").write_text("not shown")
    return StaticPage(tmp_path / "static", tmp_path / "docs")


@pytest.mark.parametrize("path", ["/help/start.md", "/help/adr/0001-x.md"])
def test_pages_of_the_documentation_are_markdown(page: StaticPage, path: str) -> None:
    answer = page.respond(path)
    assert answer.media_type == "text/markdown; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    [
        "/favicon.ico",
        "/openapi.json",
        "/nope.js",
        "//nope.js",
        "/index.html.map",
        "/.git/config",
        "/help/none.md",
        "/help/../secret.md",
        "/help/..%2fsecret.md",
        "/help//start.md",
        "/help/\0.md",
        "/help/x/../start.md",
    ],
)
def test_what_is_no_page_is_not_there(page: StaticPage, path: str) -> None:
    with pytest.raises(NotFound, match="nothing at this address"):
        page.respond(path)


@pytest.mark.parametrize(
    "path",
    ["/help/start", "/help/none", "/help/notes.txt", "/help/", "/jobs/j1", "/jobs/j1/a.b", "/images/a/b.js/1.0", "/"],
)
def test_addresses_of_views_are_the_page(page: StaticPage, path: str) -> None:
    answer = page.respond(path)
    assert (answer.media_type, bytes(answer.body)) == ("text/html; charset=utf-8", b"<html>")


def test_each_topic_and_each_link_of_the_documentation_leads_somewhere(repository: Path) -> None:
    docs = Settings(repository).docs.resolve()
    assert docs == repository / "docs"
    headings = {
        path.relative_to(docs).with_suffix("").as_posix(): {
            topics.slug(line.lstrip("#"))
            for line in re.sub(r"(?ms)^```.*?^```$", "", path.read_text()).split("\n")
            if line.startswith("#")
        }
        for path in docs.rglob("*.md")
    }
    listed = re.findall(
        r'\{ topic: "([\w-]+)", page: "([\w#/-]+)"', (repository / "httpserver/web/src/domain/help.ts").read_text()
    )
    assert dict(listed) == topics.TOPICS
    wrong = [place for place in topics.TOPICS.values() if not _there(headings, place)]
    for page in headings:
        here = Path("/", page).parent
        for target in re.findall(r"\]\(([^)\s]+)\)", (docs / f"{page}.md").read_text()):
            place, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target) or (place and not place.endswith(".md")):
                continue
            to = page if not place else (here / place).resolve().relative_to("/").with_suffix("").as_posix()
            if not _there(headings, f"{to}#{anchor}") and not (docs / page).parent.joinpath(place).is_file():
                wrong.append(f"{page}: {target}")
    assert wrong == []


def _there(headings: dict[str, set[str]], place: str) -> bool:
    page, _, anchor = place.partition("#")
    return page in headings and (not anchor or anchor in headings[page])
