"""The market's commands: what they ask of the server, and how they print its answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from click.testing import CliRunner

from headway.cli import common, files
from headway.cli.main import cli
from headway.cli.market import datasets, groups, images, registry
from headway.cli.transfer import audience_in_full, share_changes
from headway.client import Client, Profile
from headway.client.market import MarketClient
from headway.errors import InvalidInput

TAG = {
    "tag": "2.4", "digest": "sha256:" + "a" * 64, "pushed_at": 1.0, "pushed_by": "ann", "size_bytes": 3 << 30,
    "architecture": "amd64", "has_shell": True, "cuda_version": "12.4", "frameworks": {"torch": "2.4.0"}, "os": "linux",
    "entrypoint": [], "command": ["bash"], "user": "", "working_dir": "/w", "env": [], "labels": {},
    "python_version": "3.11", "has_bash": False, "require_cuda": "cuda>=12.4", "layers": [], "created_at": None,
    "used_by": [{"account": "bob", "jobs": 3, "last_used_at": 1.0}], "live_jobs": [],
}  # fmt: skip
IMAGE = {
    "id": "i1", "owner": "ann", "name": "torch", "full_name": "ann/torch", "public": False,
    "shared_with": {"users": ["bob"], "groups": ["lab"]}, "description": "\x1b[2Jof the lab\nmore", "created_at": 1.0,
    "updated_at": 1.0, "may_change": True, "last_good_run": None, "tags": [TAG],
}  # fmt: skip

Asked = list[tuple[str, str, Any]]


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[httpx.Request], httpx.Response]], Asked]:
    """Lets the commands talk to a function; answers the list of what they asked."""

    def serve(answer: Callable[[httpx.Request], httpx.Response]) -> Asked:
        asked: Asked = []

        def handle(request: httpx.Request) -> httpx.Response:
            body = json.loads(request.content) if request.content else None
            asked.append((request.method, request.url.raw_path.decode().removeprefix("/api/v1"), body))
            return answer(request)

        def make() -> Client:
            return Client(Profile(url="http://headway.test", token="t"), transport=httpx.MockTransport(handle))

        for module in (common, images, datasets, groups, registry, files):
            monkeypatch.setattr(module, "client", make)
        return asked

    return serve


def run(*words: str, stdin: str | None = None) -> str:
    done = CliRunner().invoke(cli, words, input=stdin, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_what_is_listed_can_be_typed_back(serving: Any) -> None:
    asked = serving(lambda request: httpx.Response(200, json={"images": [IMAGE], "next_cursor": None}))
    line = run("images", "ls", "torch").splitlines()[1]
    assert line.split()[0] == "ann/torch:2.4"
    assert "cuda 12.4, torch 2.4.0" in line
    assert "shared" in line
    assert asked == [("GET", "/images?q=torch&limit=200", None)]


def test_all_pages_are_listed(serving: Any) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        last = request.url.params.get("cursor") == "c"
        return httpx.Response(200, json={"images": [IMAGE], "next_cursor": None if last else "c"})

    serving(answer)
    assert len(json.loads(run("images", "ls", "-o", "json"))) == 2


def test_details_say_what_a_person_wants_to_know_and_no_escape_gets_through(serving: Any) -> None:
    serving(lambda request: httpx.Response(200, json=IMAGE))
    text = run("images", "show", "ann/torch")
    assert "shared (with bob, group lab)" in text
    assert "bob (3 jobs)" in text
    assert "cuda>=12.4" in text
    assert "\x1b" not in text


def test_sharing_adds_to_and_takes_from_what_is(serving: Any) -> None:
    asked = serving(lambda request: httpx.Response(200, json=IMAGE))
    run("images", "share", "ann/torch", "--user", "eve", "--unshare-group", "lab", "--public")
    assert asked[-1] == (
        "PATCH", "/images/ann/torch", {"public": True, "shared_with": {"users": ["bob", "eve"], "groups": []}}
    )  # fmt: skip


def test_sharing_with_nobody_is_a_usage_error() -> None:
    nothing = {"user": (), "group": (), "unshare_user": (), "unshare_group": (), "public": None}
    with pytest.raises(click.UsageError):
        share_changes(IMAGE, nothing)
    assert audience_in_full({"public": True, "shared_with": {"users": [], "groups": []}}) == "public"


@pytest.mark.parametrize("ref", ["", "../users", "ann/../../users", "/", "ann//torch", "ann/"])
def test_no_name_leads_to_another_call(serving: Any, ref: str) -> None:
    asked = serving(lambda request: httpx.Response(204))
    with pytest.raises(InvalidInput):
        CliRunner().invoke(cli, ["images", "rm", ref], catch_exceptions=False)
    assert asked == []


def test_deleting_with_wait_says_for_whom(serving: Any) -> None:
    asked = serving(lambda request: httpx.Response(202, json={"live_jobs": ["j1"]}))
    assert "j1" in run("images", "rm", "ann/torch:2.4", "--wait")
    assert asked == [("DELETE", "/images/ann/torch:2.4?wait=true", None)]


def test_a_push_without_an_archive_says_so(serving: Any, tmp_path: Path) -> None:
    asked = serving(lambda request: httpx.Response(500))
    done = CliRunner().invoke(cli, ["images", "push", "torch", "--from", str(tmp_path / "none.tar")])
    assert done.exit_code == 2
    assert "there is no file" in done.output
    assert asked == []


def test_what_the_engine_does_not_have_is_told_once(
    serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Used to: the engine's own words twice, and no way out."""
    docker = tmp_path / "docker"
    docker.write_text(
        "#!/bin/sh\necho 'Error response from daemon: no such image: x:1: No such image: x:1' >&2\nexit 1\n"
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = serving(lambda request: httpx.Response(500))
    told = CliRunner().invoke(cli, ["images", "push", "x:1"]).output
    assert "--from FILE" in told
    assert "daemon" not in told
    docker.unlink()
    with pytest.raises(InvalidInput, match="Bad Name"):
        CliRunner().invoke(cli, ["images", "push", "Bad Name"], catch_exceptions=False)
    assert asked == []


def test_publishing_waits_for_its_end_and_tells_why_it_failed(serving: Any) -> None:
    version = {
        "version": "2", "state": "publishing", "progress": 0.5, "files": None, "size_bytes": None, "checksum": None,
        "method": "", "published_at": None, "problem": None, "live_jobs": [],
    }  # fmt: skip
    states = iter(["ready"])

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return httpx.Response(202, json={"name": "mnist", "versions": [{**version, "version": "1"}, version]})
        if not published:
            published.append(True)
            return httpx.Response(200, json={"name": "mnist", "versions": [{**version, "version": "1"}]})
        done = {**version, "state": next(states), "files": 3, "size_bytes": 2048}
        return httpx.Response(200, json={"name": "mnist", "versions": [done]})

    published: list[bool] = []
    asked = serving(answer)
    assert "mnist@2: 3 files, 2.0 KiB" in run("datasets", "publish", "mnist", "data/mnist")
    assert asked[1] == ("POST", "/datasets", {"name": "mnist", "path": "data/mnist"})


def test_a_registry_password_comes_from_standard_input_and_is_never_printed(serving: Any) -> None:
    stored = {"registry": "registry.example.org:5000", "username": "ann", "changed_at": 1.0, "checked": False}
    asked = serving(lambda request: httpx.Response(200, json=stored))
    words = ("registry", "login", "registry.example.org:5000", "-u", "ann", "--password-stdin")
    text = run(*words, stdin="s3cret\n")
    assert "s3cret" not in text
    assert "could not be asked now" in text
    assert asked == [("PUT", "/registries/registry.example.org%3A5000", {"username": "ann", "password": "s3cret"})]
    assert json.loads(run(*words, "-o", "json", stdin="s3cret\n")) == stored
    with pytest.raises(InvalidInput, match="is no registry"):
        CliRunner().invoke(cli, ["registry", "login", "", *words[3:]], input="s3cret\n", catch_exceptions=False)


@pytest.mark.parametrize("name", ["cuda", "torch"])
def test_a_base_image_that_cannot_be_built_here_says_how_it_is(name: str) -> None:
    done = CliRunner().invoke(cli, ["images", "build-base", name])
    assert done.exit_code == 1
    dockerfile = Path(__file__).parents[3] / "images" / "cuda" / "Dockerfile"
    command = re.search(r"`(docker build [^`]+)`", done.output)
    assert command is not None, done.output
    assert command[1] in dockerfile.read_text("utf-8").replace("  ", " ")


def test_what_commands_answer_is_there_as_json(serving: Any) -> None:
    serving(lambda request: httpx.Response(200, json=IMAGE))
    for words in (("tag", "ann/torch", "3"), ("describe", "ann/torch", "text")):
        assert json.loads(run("images", *words, "-o", "json")) == IMAGE
        assert run("images", *words) == ""
    serving(lambda request: httpx.Response(202, json={"live_jobs": ["j1"]}))
    for word in ("images", "datasets"):
        assert json.loads(run(word, "rm", "ann/torch" if word == "images" else "mnist@1", "--wait", "-o", "json")) == {
            "live_jobs": ["j1"]
        }
    serving(lambda request: httpx.Response(204))
    assert json.loads(run("datasets", "rm", "mnist", "-o", "json")) == {"live_jobs": []}


def test_every_command_that_lists_or_shows_knows_json() -> None:
    def commands(command: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                yield from commands(below, *path, name)
        else:
            yield " ".join(path), command

    verbs = {"ls", "show", "ps", "queue", "explain", "share", "publish", "space", "tag", "describe", "restore", "set"}
    lacking = [
        path
        for path, command in commands(cli)
        # `headway restore` of the server's part lists nothing.
        if path.split()[-1] in verbs and path != "restore" and not any("-o" in option.opts for option in command.params)
    ]
    assert lacking == []


def test_groups_are_made_and_changed(serving: Any) -> None:
    asked = serving(lambda request: httpx.Response(200, json={"name": "lab", "members": ["ann"], "created_at": 1.0}))
    assert run("groups", "create", "lab", "ann") == "lab: ann\n"
    run("groups", "remove", "lab", "bob")
    assert asked[-1] == ("PATCH", "/groups/lab", {"add": [], "remove": ["bob"]})


def test_removed_files_can_be_had_back(serving: Any) -> None:
    asked = serving(lambda request: httpx.Response(200, json={"path": "a/b", "size_bytes": 1}))
    assert run("files", "trash", "restore", "t1") == "a/b\n"
    assert asked == [("POST", "/trash/t1/restore", None)]
    assert [one["path"] for one in json.loads(run("files", "trash", "restore", "t1", "-o", "json"))] == ["a/b"]
    done = CliRunner().invoke(cli, ["files", "trash", "rm"])
    assert done.exit_code == 2


def test_an_archive_is_written_whole_or_not_at_all(serving: Any, tmp_path: Path) -> None:
    serving(lambda request: httpx.Response(200, content=b"x" * 1000))
    run("images", "pull", "ann/torch", "--file", str(tmp_path / "a.tar"))
    assert (tmp_path / "a.tar").read_bytes() == b"x" * 1000
    serving(lambda request: httpx.Response(404, json={"detail": "There is no image ann/none.", "slug": "not-found"}))
    done = CliRunner().invoke(cli, ["images", "pull", "ann/none", "--file", str(tmp_path / "b.tar")])
    assert done.exception is not None
    assert [p.name for p in tmp_path.iterdir()] == ["a.tar"]


@pytest.mark.parametrize(
    ("typed", "asked_for"),
    [("torch", "ann/torch"), ("torch:2", "ann/torch:2"), ("1abc", "1abc"), ("bob/x:1", "bob/x:1")],
)
def test_an_image_of_ones_own_is_fetched_by_a_lone_name(
    serving: Any, tmp_path: Path, typed: str, asked_for: str
) -> None:
    """Used to: "There is no image `torch/archive`"."""
    place = tmp_path / "a.tar"
    asked = serving(lambda request: httpx.Response(200, json=IMAGE))
    run("images", "pull", typed, "--file", str(place))
    assert asked[-1][1] == f"/images/{asked_for}/archive"


def test_paging_stops_at_the_end() -> None:
    answers = iter([{"images": [IMAGE], "next_cursor": "x"}, {"images": [], "next_cursor": None}])
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=next(answers)))
    market = MarketClient(Client(Profile(url="http://headway.test", token="t"), transport=transport))
    assert [image["id"] for image in market.images()] == ["i1"]
