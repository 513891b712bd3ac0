"""What `headway help TOPIC` knows besides commands: pages of the documentation, which the server has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# Topic: page, and the heading on it. The page's own list is httpserver/web/src/domain/help.ts.
TOPICS: Final = {
    "start": "start",
    "timeout": "start#timeout",
    "priority": "start#priority",
    "memory": "start#cpus-and-memory",
    "gpu": "start#gpus",
    "image": "start#images",
    "data": "start#datasets",
    "code": "start#code",
    "retries": "start#retries",
    "network": "networks",
    "task": "what-a-task-may",
    "signals": "signals",
    "waiting": "start#why-it-waits",
    "order": "scheduling",
    "promise": "scheduling#promised-start",
    "retention": "retention",
    "job-file": "job-file",
    "states": "states",
    "words": "glossary",
}
_PATIENCE_S = 5.0


def lines(topic: str) -> Iterator[str]:
    """The address of a topic's page, and its text where the server answers."""
    from ..client import Client, Profile
    from ..errors import HeadwayError
    from .common import safe

    page, _, anchor = TOPICS[topic].partition("#")
    profile = Profile.load()
    yield f"{profile.url.rstrip('/')}/help/{TOPICS[topic]}"
    try:
        with Client(profile, timeout_s=_PATIENCE_S, tries=1) as http:
            text = http.help_page(page)
    except HeadwayError:
        return
    yield ""
    yield from (safe(line) for line in section(text, anchor).rstrip().split("\n"))


def section(text: str, anchor: str) -> str:
    """The part of a Markdown text below one heading, with it; all of it without an anchor, or where there is none."""
    found: list[str] = []
    depth, in_code = 0, False
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith("```")
        marks = len(line) - len(line.lstrip("#"))
        if not in_code and 0 < marks < 7 and line[marks : marks + 1] == " ":
            if depth and marks <= depth:
                break
            if not depth and slug(line[marks:]) == anchor:
                depth = marks
        if depth:
            found.append(line)
    return "\n".join(found) if found else text


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub and the page make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
