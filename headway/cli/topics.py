"""What `headway help TOPIC` knows besides commands: pages of the documentation, which the server has."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Final

# Topic: page, and the heading on it. The page's own list is httpserver/web/src/domain/help.ts.
TOPICS: Final = {
    "start": "start",
    "timeout": "start#timeout",
    "priority": "start#priority",
    "memory": "start#cpus-and-memory",
    "gpu-task": "start#gpus",
    "image": "start#images",
    "data": "start#datasets",
    "code": "start#code",
    "secret": "start#secrets",
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
NAMES: Final = {
    "start": "First steps",
    "timeout": "Timeouts",
    "priority": "Priorities",
    "memory": "CPUs and memory",
    "gpu-task": "GPUs",
    "image": "Images",
    "data": "Datasets",
    "code": "Code that goes along",
    "secret": "Secrets",
    "retries": "Retries",
    "network": "What tasks reach over the network",
    "task": "What a task may read, write and run",
    "signals": "How a task is told to end",
    "waiting": "Why a task waits",
    "order": "The order of the queue",
    "promise": "Promised starts",
    "retention": "How long things are kept",
    "job-file": "The job file",
    "states": "States and ends",
    "words": "Glossary",
}
# What people call them; plurals and capitals need no row.
_ALSO: Final = {
    **dict.fromkeys(("tutorial", "quickstart", "begin", "intro", "first-step"), "start"),
    **dict.fromkeys(("time", "time-limit", "limit", "walltime", "duration"), "timeout"),
    **dict.fromkeys(("cpu", "core", "ram", "shm", "resource", "oom"), "memory"),
    **dict.fromkeys(("gpu", "gpu-model", "gpu-memory", "cuda", "gres"), "gpu-task"),
    **dict.fromkeys(("container", "docker"), "image"),
    **dict.fromkeys(("dataset",), "data"),
    **dict.fromkeys(("snapshot", "source"), "code"),
    **dict.fromkeys(("retrying",), "retries"),
    **dict.fromkeys(("port", "internet", "firewall"), "network"),
    **dict.fromkeys(("root", "box", "home", "permission"), "task"),
    **dict.fromkeys(("sigterm", "grace"), "signals"),
    **dict.fromkeys(("why", "pending"), "waiting"),
    **dict.fromkeys(("scheduling", "scheduler", "policy", "fairness"), "order"),
    **dict.fromkeys(("reservation", "promised-start", "start-time"), "promise"),
    **dict.fromkeys(("kept", "expiry", "cleanup"), "retention"),
    **dict.fromkeys(("jobfile", "yaml", "spec", "file-format", "field"), "job-file"),
    **dict.fromkeys(("end", "reason", "exit-code", "exit"), "states"),
    **dict.fromkeys(("glossary", "term"), "words"),
}
_PATIENCE_S = 5.0
_LINK = re.compile(r"\[([^\]\[]+)\]\(([^)\s]+)\)")


def found(word: str) -> str:
    """The topic that a word names, in capitals, in the plural or by another name too; empty: none."""
    plain = re.sub(r"[\s_]+", "-", word.strip().lower())
    forms = (plain, plain.removesuffix("s"), f"{plain}s", re.sub("ies$", "y", plain), re.sub("y$", "ies", plain))
    return next((one if one in TOPICS else _ALSO[one] for one in forms if one in TOPICS or one in _ALSO), "")


def near(word: str, commands: Iterable[str]) -> str:
    """The command or topic that is spelled much like a word; empty: none is."""
    close = difflib.get_close_matches(word.lower()[:100], [*TOPICS, *_ALSO, *commands], n=1)
    return _ALSO.get(close[0], close[0]) if close else ""


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
    part = for_a_terminal(section(text, anchor), page, profile.url.rstrip("/"))
    yield from (safe(line) for line in part.rstrip().split("\n"))


def for_a_terminal(text: str, page: str, url: str) -> str:
    """A Markdown text whose links name a topic, or an address where there is none: a terminal follows no link."""

    def told(link: re.Match[str]) -> str:
        words, target = link[1], link[2]
        if re.match("[a-z]+:", target):
            return f"{words} ({target})"
        path, hash_, anchor = target.partition("#")
        name = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else f"{page}.md"
        if not name.endswith(".md") or name.startswith("../"):
            return words  # which the server has not
        place = name.removesuffix(".md") + hash_ + anchor
        topic = next((topic for topic, its in TOPICS.items() if its == place), "")
        topic = topic or next((topic for topic, its in TOPICS.items() if its == place.partition("#")[0] and path), "")
        if topic:
            return f"{words} (`headway help {topic}`)"
        return f"{words} ({url}/help/{place})" if path else words

    blocks = re.split(r"(^ *```.*?^ *```[^\n]*$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(block if at % 2 else _LINK.sub(told, block) for at, block in enumerate(blocks))


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
