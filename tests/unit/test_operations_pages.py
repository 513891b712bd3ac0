"""What docs/operations says is so: ports, sentences of services, and where links lead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from headway.config import HeadwayConfig, split_address

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ROOMS = ("headway", "httpserver", "job_manager", "resource_manager", "task_manager", "worker")
PAGES = sorted(path for path in DOCS.rglob("*.md"))
_LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """As GitHub and the page make them of headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_link_of_a_page_leads_somewhere(page: Path):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lost = []
    for link in _LINK.findall(text):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = page if not path else (page.parent / path).resolve()
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


def test_every_page_for_the_one_who_runs_it_is_in_the_index():
    index = (DOCS / "operations" / "README.md").read_text()
    assert [page.name for page in (DOCS / "operations").glob("*.md") if f"({page.name})" not in index] == ["README.md"]


def test_the_ports_are_those_of_the_configuration():
    config = HeadwayConfig()
    rows = re.findall(r"^\| (\d+) \|.*?\| `(\S+)` \|", (DOCS / "operations" / "firewall.md").read_text(), re.MULTILINE)
    told = {key: int(port) for port, key in rows}
    doors = {"httpserver.port": config.httpserver.port}
    for section, key in (
        ("httpserver", "grpc_bind"),
        ("job_manager", "bind"),
        ("task_manager", "bind"),
        ("resource_manager", "bind"),
        ("worker", "bind"),
    ):
        doors[f"{section}.{key}"] = split_address(getattr(getattr(config, section), key))[1]
    assert told == doors


@cache
def sentences() -> str:
    """All texts of the services' code, a sign in the place of each value that differs."""
    return "\n".join(text for room in ROOMS for path in (ROOT / room).rglob("*.py") for text in _texts(path))


def _texts(path: Path) -> Iterator[str]:
    if "node_modules" in path.parts or "v1" in path.parts:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def quoted() -> list[str]:
    rows = re.findall(r"^\| `([^`]*…[^`]*)`", (DOCS / "operations" / "troubleshooting.md").read_text(), re.MULTILINE)
    assert len(rows) > 10
    return rows


@pytest.mark.parametrize("sentence", quoted())
def test_services_really_say_what_troubleshooting_quotes(sentence: str):
    parts = [re.escape(part.strip()) for part in sentence.split("…") if part.strip(" .")]
    assert parts
    # In one text: its parts in this order, whatever stands between.
    assert re.search("[^\n]*".join(parts), sentences()), sentence
