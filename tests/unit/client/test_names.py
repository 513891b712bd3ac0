"""What can't be a name is told so before any call: it would be another call, which no server knows."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from headway.cli import cluster, files, jobs, retention
from headway.cli.main import cli
from headway.cli.market import datasets
from headway.client import Client, Profile
from headway.client.market import MarketClient
from headway.client.own import OwnAccount
from headway.errors import HeadwayError, InvalidInput, NotFound

Call = Callable[[Client, str], Any]
CALLS: dict[str, list[Call]] = {
    "account": [
        lambda http, name: http.change_user(name, {}),
        lambda http, name: http.reset_password(name),
        lambda http, name: http.remove_user(name, home="keep"),
        lambda http, name: http.user_tokens(name, "tokens"),
        lambda http, name: http.end_user_tokens(name, "sessions"),
    ],
    "token": [
        lambda http, name: OwnAccount(http).delete_token(name),
        lambda http, name: http.end_user_tokens("ann", "tokens", name),
    ],
    "session": [
        lambda http, name: OwnAccount(http).end_session(name),
        lambda http, name: http.end_user_tokens("ann", "sessions", name),
    ],
    "group": [
        lambda http, name: MarketClient(http).change_group(name, add=[], remove=[]),
        lambda http, name: MarketClient(http).delete_group(name),
    ],
    "dataset": [
        lambda http, name: MarketClient(http).dataset(name),
        lambda http, name: MarketClient(http).delete_dataset(name),
    ],
    "version": [lambda http, name: MarketClient(http).checksums("mnist", name, io.BytesIO())],
    "job": [
        lambda http, name: http.job(name),
        lambda http, name: http.act("cancel", name),
        lambda http, name: http.log(name, "a"),
    ],
    "task": [lambda http, name: http.task("j1", name), lambda http, name: http.log("j1", name)],
    "node": [lambda http, name: http.node(name), lambda http, name: http.node_action(name, "drain")],
    "GPU": [lambda http, name: http.return_gpu("n1", name)],
    "item of the trash": [lambda http, name: http.restore(name), lambda http, name: http.empty_trash(name)],
}


def silent() -> Client:
    transport = httpx.MockTransport(lambda request: pytest.fail(f"asked {request.method} {request.url}"))
    return Client(Profile("http://headway.test"), transport=transport)


@pytest.mark.parametrize(("what", "call"), [(what, call) for what, calls in CALLS.items() for call in calls])
def test_what_can_not_be_a_name_is_not_asked_for(what: str, call: Call) -> None:
    with silent() as http:
        for name in ("..", ".", "../x", "a/b", "/", "a\r", "\udcff"):
            with pytest.raises(NotFound, match=f"There is no {what} `"):
                call(http, name)
        for name in ("", " "):
            with pytest.raises(InvalidInput, match=f"The name of the {what} is empty"):
                call(http, name)


@pytest.mark.parametrize("ref", ["ann/\udcff", "ann/a\n"])
def test_images_and_registries_have_names_that_can_be_seen(ref: str) -> None:
    with silent() as http:
        for call in (MarketClient(http).image, MarketClient(http).registry_logout):
            with pytest.raises(InvalidInput):
                call(ref)


@pytest.mark.parametrize(
    "words",
    [
        ["files", "trash", "rm", ""],
        ["datasets", "rm", "mnist@"],
        ["nodes", "drain", "../x"],
        ["extend", "..", "1h"],
        ["delete", ".."],
    ],
)
def test_an_empty_or_wrong_name_on_the_command_line_removes_nothing(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty id emptied the whole trash, and an empty version removed all of them."""
    for module in (cluster, datasets, files, jobs, retention):
        monkeypatch.setattr(module, "client", silent)
    done = CliRunner().invoke(cli, words)
    assert "No such" not in done.output
    assert done.exit_code == 2 or isinstance(done.exception, HeadwayError), done.output
