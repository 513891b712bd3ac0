"""`headway help TOPIC`, an empty list of jobs, and a server of an older version."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from headway.cli import topics
from headway.cli.main import _COMMANDS, cli
from headway.client import Client, Profile, Refused
from headway.client.errors import NotHeadway

PART = "## Timeout\n\nTwo \x1b[31mred\x1b[0m.\n\n```\n# no heading\n```\n\n### More\n"
TEXT = f"# First\n\nOne.\n\n{PART}\n## Priority\n\nThree.\n"


@pytest.fixture
def server() -> Iterator[dict[str, tuple[int, str, str]]]:
    """Answers by path: status, media type, body."""
    answers: dict[str, tuple[int, str, str]] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nothing = (404, "application/problem+json", json.dumps({"detail": "There is nothing at this address."}))
            status, media, text = answers.get(self.path.partition("?")[0], nothing)
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        answers["url"] = (0, "", f"http://127.0.0.1:{running.server_port}")
        yield answers
        running.shutdown()


def headway(server: dict[str, tuple[int, str, str]], *words: str) -> Result:
    variables = {"HEADWAY_URL": server["url"][2], "HEADWAY_TOKEN": "x"}
    return CliRunner(env=variables).invoke(cli, words)


def test_no_topic_hides_a_command() -> None:
    assert not topics.TOPICS.keys() & _COMMANDS.keys()


def test_a_topic_is_its_address_and_its_part_of_the_page(server: dict[str, tuple[int, str, str]]) -> None:
    server["/help/start.md"] = (200, "text/markdown; charset=utf-8", TEXT)
    said = headway(server, "help", "timeout").stdout
    address, _, text = said.partition("\n\n")
    assert address == f"{server['url'][2]}/help/start#timeout"
    assert text == PART.replace("\x1b", "\N{REPLACEMENT CHARACTER}")
    assert headway(server, "help", "start").stdout.endswith("Three.\n")


@pytest.mark.parametrize(
    "answer", [None, (200, "text/html", "<html>"), (404, "application/problem+json", "{}"), (500, "text/plain", "?")]
)
def test_without_the_page_the_address_is_told(
    server: dict[str, tuple[int, str, str]], answer: tuple[int, str, str] | None
) -> None:
    if answer:
        server["/help/networks.md"] = answer
    done = headway(server, "help", "network")
    assert (done.exit_code, done.stdout) == (0, f"{server['url'][2]}/help/networks\n")


def test_commands_have_their_help_and_all_topics_are_named() -> None:
    assert "List jobs" in CliRunner().invoke(cli, ["help", "ps"]).stdout
    assert "Topics, as in `headway help timeout`: start, timeout," in CliRunner().invoke(cli, ["help"]).stdout


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        ("CUDA", "start#gpus"), ("timeouts", "start#timeout"), ("Priorities", "start#priority"),
        ("cpu", "start#cpus-and-memory"),
        ("CPUs", "start#cpus-and-memory"), ("job_file", "job-file"), ("job file", "job-file"), ("glossary", "glossary"),
    ],
)  # fmt: skip
def test_a_topic_is_found_by_what_people_call_it(
    server: dict[str, tuple[int, str, str]], typed: str, place: str
) -> None:
    assert headway(server, "help", *typed.split()).stdout == f"{server['url'][2]}/help/{place}\n"


def test_the_topics_are_listed_and_completed_and_named_where_there_is_no_such(
    server: dict[str, tuple[int, str, str]],
) -> None:
    listed = headway(server, "help", "topics").stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(topics.TOPICS) == list(topics.NAMES)
    done = headway(server, "help", "timout")
    assert done.exit_code == 2
    assert "There is no command or topic 'timout'. Did you mean `headway help timeout`?" in done.output
    assert "Topics: start, timeout, priority, " in done.output
    assert "Did you mean `headway help submit`?" in headway(server, "help", "sbatch").output
    assert "There is no command or topic 'zzzzzz'.\n" in headway(server, "help", "zzzzzz").output
    assert headway(server, "help", "PS").output == headway(server, "help", "ps").output
    assert "The topic of this name: `headway help gpu-task`." in headway(server, "help", "gpus").output
    for typed, want in (
        ("ti", ["timeout"]),
        ("re", ["retry", "release", "registry", "restore", "retries", "retention"]),
    ):
        complete = ShellComplete(cli, {}, "headway", "_HEADWAY_COMPLETE")
        assert [item.value for item in complete.get_completions(["help"], typed)] == want
    assert [item.value for item in complete.get_completions(["help", "files"], "mk")] == ["mkdir"]


def test_links_name_a_topic_or_an_address() -> None:
    text = (
        "See [networks](networks.md), [the\npromise](scheduling.md#promised-start), [GPUs](gpus.md), "
        "[ADR 4](adr/0004-a.md),\n[below](#below), [bench](../benchmarks/README.md), [site](https://x.org/a.md).\n"
        "```\n[a](b.md)\n```\n[s](states.md#ends)"
    )
    assert topics.for_a_terminal(text, "start", "http://h") == (
        "See networks (`headway help network`), the\npromise (`headway help promise`), GPUs (http://h/help/gpus), "
        "ADR 4 (http://h/help/adr/0004-a),\nbelow, bench, site (https://x.org/a.md).\n```\n[a](b.md)\n```\n"
        "s (`headway help states`)"
    )


def test_an_account_without_jobs_is_told_how_to_begin(server: dict[str, tuple[int, str, str]]) -> None:
    server["/api/v1/me"] = (200, "application/json", '{"name": "ann"}')
    server["/api/v1/jobs"] = (200, "application/json", '{"jobs": [], "next_cursor": null}')
    assert "To begin:\n  headway run --image base/python:1" in headway(server, "ps").stderr
    assert "To begin" not in headway(server, "ps", "--all").stderr
    assert headway(server, "ps", "-o", "json").output == "[]\n"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"type": "urn:headway:problem:not-found", "detail": "There is nothing at this address."}),
        (405, {"type": "urn:headway:problem:method-not-allowed", "detail": "DELETE is not for this address."}),
    ],
)
def test_a_call_that_an_older_server_has_not_is_told_so(status: int, body: dict[str, str]) -> None:
    transport = httpx.MockTransport(
        lambda _: httpx.Response(status, json=body, headers={"Content-Type": "application/problem+json"})
    )
    with Client(Profile("http://h", "x"), transport=transport) as client, pytest.raises(Refused) as refused:
        client.ask("GET", "/tokens")
    assert str(refused.value).startswith("The server is older than this program, headway ")
    assert "does not know the call GET /api/v1/tokens. An admin can update the server." in str(refused.value)


def test_what_is_not_found_otherwise_is_told_as_it_is(tmp_path: Path) -> None:
    body = {"type": "urn:headway:problem:not-found", "detail": "There is no job j1."}
    transport = httpx.MockTransport(lambda _: httpx.Response(404, json=body))
    with Client(Profile("http://h", "x"), transport=transport) as client, pytest.raises(Refused, match="no job j1"):
        client.ask("GET", "/jobs/j1")


def test_a_row_without_what_a_newer_server_tells_is_one_sentence_and_more_is_no_harm(
    server: dict[str, tuple[int, str, str]],
) -> None:
    row = {
        "id": "j0123456789abcdef", "name": "x", "owner": "ann", "state": "RUNNING", "held": False, "task_count": 1,
        "tasks_by_state": {}, "submitted_at": 1.0, "started_at": 2.0, "ended_at": None,
    }  # fmt: skip
    server["/api/v1/me"] = (200, "application/json", '{"name": "ann", "colour": "red"}')
    listed = {"jobs": [{**row, "mood": {"good": True}}], "next_cursor": None, "weather": []}
    server["/api/v1/jobs"] = (200, "application/json", json.dumps(listed))
    assert "RUNNING  0/1    -     ann" in headway(server, "ps").stdout
    del row["held"]
    server["/api/v1/jobs"] = (200, "application/json", json.dumps({"jobs": [row], "next_cursor": None}))
    assert "RUNNING  0/1    -     ann" in headway(server, "ps").stdout
    del row["id"]
    server["/api/v1/jobs"] = (200, "application/json", json.dumps({"jobs": [row], "next_cursor": None}))
    error = headway(server, "ps").exception
    assert isinstance(error, NotHeadway)
    assert "has no `id`" in str(error)
    assert "its version is another than this program's" in str(error)
