"""`headway events`: pages, a line that breaks and is taken up where it broke, and what a line says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from headway.cli import events
from headway.cli.main import cli
from headway.client import Client, Profile, Refused
from headway.client import events as client_events

JOB = "01jabcdefghjkmnpq"


def an_event(number: int, kind: str = "ended", **fields: Any) -> dict[str, Any]:
    whole = {
        "cursor": str(number), "kind": kind, "at": 1.8e9, "job_id": JOB, "owner": "ann", "job_name": "train",
        "task": "", "generation": 0, "attempt": 0, "state": "SUCCEEDED", "reason": None, "by": "", "tasks": 0,
    }  # fmt: skip
    return {**whole, **fields}


class Breaking(httpx.SyncByteStream):
    """A body that breaks off at its end."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __iter__(self) -> Iterator[bytes]:
        yield self._text.encode()
        raise httpx.ReadError("the line broke")


class Server:
    """Has ten events; its streams break after each one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, httpx.QueryParams]] = []
        self.refuses: list[int] = []
        self.events = [an_event(number) for number in range(1, 11)]
        made = lambda: Client(Profile("http://headway.test"), transport=httpx.MockTransport(self._answer))  # noqa: E731
        monkeypatch.setattr(events, "client", made)
        monkeypatch.setattr(client_events.time, "sleep", lambda seconds: None)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path, asked = request.url.path.removeprefix("/api/v1"), request.url.params
        self.asked.append((path, asked))
        if self.refuses:
            return httpx.Response(self.refuses.pop(0), json={"slug": "x", "detail": "no", "title": "no"})
        if path.startswith("/jobs/"):
            return httpx.Response(200, json={"id": JOB})
        behind = [event for event in self.events if int(event["cursor"]) > int(asked.get("after", 0))]
        if path == "/job-events":
            page = behind[: min(3, int(asked["limit"]))]
            cursor = page[-1]["cursor"] if page else asked.get("after", "0")
            return httpx.Response(200, json={"events": page, "cursor": cursor, "more": len(page) < len(behind)})
        text = f"retry: 2000\n: from here on\nid: {asked.get('after', '0')}\n\n"
        for event in behind[:1]:
            text += f"event: {event['kind']}\nid: {event['cursor']}\ndata: {json.dumps(event)}\n\n"
        return httpx.Response(200, stream=Breaking(text + "event: ended\nid: 99\ndata: {half"))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["events", *words], catch_exceptions=False)


def cursors(result: Result) -> list[int]:
    return [int(json.loads(line)["cursor"]) for line in result.stdout.splitlines()]


def test_all_pages_come_one_event_a_line(server: Server) -> None:
    result = run("-o", "json", "--kind", "ended", "--kind", "gap", "--user", "bob")
    assert cursors(result) == list(range(1, 11))
    assert result.stderr == ""
    first, second = (asked for _, asked in server.asked[:2])
    assert first.get_list("kind") == ["ended", "gap"]
    assert first["owner"] == "bob"
    assert "after" not in first
    assert second["after"] == "3"


def test_it_goes_on_behind_a_cursor_and_tells_how(server: Server) -> None:
    result = run("--after", "4", "--limit", "4")
    assert len(result.stdout.splitlines()) == 4
    assert result.stderr == "(go on with --after 8)\n"
    assert run("--after", "8").stderr == "(go on with --after 10)\n"
    assert cursors(run("-o", "json", "--after", "10")) == []


def test_a_line_that_breaks_is_taken_up_behind_the_last_event(server: Server) -> None:
    result = run("--follow", "--after", "2", "-o", "json", "--limit", "6")
    assert cursors(result) == [3, 4, 5, 6, 7, 8]
    assert [asked["after"] for _, asked in server.asked] == ["2", "3", "4", "5", "6", "7"]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("bytes_at_once", [1, 2, 3, 1_000])
def test_only_cr_and_lf_end_a_line(server: Server, end: str, bytes_at_once: int) -> None:
    odd = an_event(3, job_name="a\u2028b\u2029c\x85d\x0be\x0cf\x1cg")
    raw = json.dumps(odd, ensure_ascii=False)
    text = end.join(["retry: 2000", ": from here on", "id:2", "", "event: ended", "id: 3", f"data:{raw}", "", ""])
    text += end.join(["id: 4", 'data: {"a":', "data: 1}", "", "", "id: 9", ""])
    data = text.encode()
    body = iter(data[at : at + bytes_at_once] for at in range(0, len(data), bytes_at_once))
    reading = client_events.EventClient(events.client())
    response = httpx.Response(200, content=body, request=httpx.Request("GET", "http://headway.test/events"))
    assert list(reading._events_of(response)) == [None, odd, {"a": 1}, None]
    assert reading.cursor == "4", "of the last event that came whole"


def test_a_server_that_is_away_for_a_while_is_waited_for_but_not_at_first(server: Server) -> None:
    server.refuses = [503]
    with pytest.raises(Refused):
        run("--follow")
    reading = client_events.EventClient(events.client())
    found = reading.follow("1")
    assert next(found)["cursor"] == "2"
    server.refuses = [503] * 40
    assert next(found)["cursor"] == "3"
    server.refuses = [401]
    with pytest.raises(Refused):
        next(found)
    assert reading.cursor == "3"


def test_the_start_of_an_id_is_enough(server: Server) -> None:
    run("--job", "01j")
    assert server.asked[0][0] == "/jobs/01j"
    assert server.asked[1][1]["job"] == JOB
    server.asked.clear()
    server.refuses = [404]
    run("--job", JOB.upper())  # a job that was deleted
    assert server.asked[-1][1]["job"] == JOB


def test_what_a_line_says(server: Server) -> None:
    reason = {"sentence": "It exited with code 1.", "word": "exited"}
    server.events = [
        an_event(1, "submitted", state="PENDING", tasks=2, by="ann", job_name="evil\x1b[2J"),
        an_event(2, "task_ended", task="a", state="FAILED", reason=reason),
        an_event(3, "cancel_asked", state="STOPPING", by="boss"),
        an_event(6, "task_warned", task="a", state="RUNNING", sentence="Its GPU has been idle."),
        an_event(4, "gap", tasks=7, job_id="", state=""),
        an_event(5, "gap", job_id="", state=""),
    ]
    lines = [line.split("  ", 1)[1] for line in run().stdout.splitlines()]
    assert lines == [
        f"{JOB}  submitted  evil\N{REPLACEMENT CHARACTER}[2J with 2 tasks",
        f"{JOB}/a  task ended  FAILED  It exited with code 1.",
        f"{JOB}  cancel asked  by boss",
        f"{JOB}/a  task warned  Its GPU has been idle.",
        "gap  7 events missing",
        "gap  some events are missing here",
    ]


def test_words_that_are_none_are_refused_with_those_that_are(server: Server) -> None:
    result = run("--kind", "end")
    assert result.exit_code == 2
    assert "task_ended" in result.stderr
    assert run("--limit", "0").exit_code == 2
    assert server.asked == []
