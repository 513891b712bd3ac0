"""The door to the server's part, on made-up installations; real ones: tests/integration/test_two_distributions.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.message import Message
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headway.cli import server_part
from headway.cli.main import cli


class Installed:
    """A distribution, as far as the door asks it."""

    def __init__(self, version: str, requires: Sequence[str] = ()) -> None:
        self.version = version
        self.requires = list(requires)
        self.metadata = Message()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    def has(modules: bool, **distributions: Installed) -> None:
        known: Mapping[str, Installed] = {name.replace("_", "-"): one for name, one in distributions.items()}
        monkeypatch.setattr(server_part, "_installed", known.get)
        monkeypatch.setattr(server_part, "is_here", lambda: modules)

    return has


def refusal(command: str = "up") -> str:
    with pytest.raises(server_part.ServerPartMissing) as caught:
        server_part.require(command)
    assert caught.value.exit_code == 2
    return caught.value.message


def test_equal_versions_pass(machine: Any) -> None:
    machine(True, headway=Installed("1.2.0"), headway_server=Installed("1.2.0", ["headway==1.2.0"]))
    server_part.require("up")


def test_a_checkout_on_the_path_passes(machine: Any) -> None:
    machine(True)
    server_part.require("up")
    machine(True, headway=Installed("1.2.0"))
    server_part.require("up")


def test_the_client_alone_is_told_what_to_install(machine: Any) -> None:
    machine(False, headway=Installed("1.2.0"))
    assert refusal("serve") == (
        "`headway serve` needs the server's part of Headway, which is not installed here: "
        "pip install headway-server==1.2.0"
    )
    machine(False)
    assert refusal().endswith("pip install headway-server")


@pytest.mark.parametrize("server", ["0.1.0", "1.2.1", "1.2.0rc1"])
def test_unequal_versions_are_refused(machine: Any, server: str) -> None:
    machine(True, headway=Installed("1.2.0"), headway_server=Installed(server))
    assert refusal() == (
        f"headway 1.2.0 and headway-server {server} are installed here, and only equal versions work together: "
        "pip install headway-server==1.2.0"
    )


def test_modules_that_lie_elsewhere_are_told(machine: Any) -> None:
    machine(False, headway=Installed("1.2.0"), headway_server=Installed("1.2.0"))
    assert "headway-server 1.2.0 is installed, but not beside headway, or only in part." in refusal()


def test_missing_dependencies_are_named_and_those_of_extras_are_none(machine: Any) -> None:
    asked = [
        "headway==1.2.0",
        "grpcio>=1.66",
        "uvloop (>=0.20)",
        'psycopg[binary]>=3.2; extra == "postgres"',
        "psutil>=6",
    ]
    both = {"headway": Installed("1.2.0"), "headway_server": Installed("1.2.0", asked)}
    machine(True, **both, psutil=Installed("6"))
    assert "headway-server needs grpcio, uvloop, which are not installed here: pip" in refusal()
    machine(True, **both, psutil=Installed("6"), uvloop=Installed("1"))
    assert "headway-server needs grpcio, which is not installed here: pip" in refusal()
    machine(True, **both, psutil=Installed("6"), uvloop=Installed("1"), grpcio=Installed("2"))
    server_part.require("up")


def test_behind_the_door_a_missing_module_is_a_bug(machine: Any) -> None:
    missed = ModuleNotFoundError("No module named 'pydantic'", name="pydantic")
    machine(True, headway=Installed("1.2.0"), headway_server=Installed("1.2.0"))
    assert server_part.explained("up", missed) is None
    with pytest.raises(ModuleNotFoundError), server_part.door("up"):
        raise missed


def test_in_a_checkout_for_its_client_alone_it_is_not_except_for_modules_of_headway(machine: Any) -> None:
    machine(True, headway=Installed("1.2.0"))
    missed = ModuleNotFoundError("No module named 'pydantic'", name="pydantic")
    sentence = server_part.explained("up", missed)
    assert sentence is not None
    assert "which is not installed here (Python finds no module pydantic): pip install headway-server==1.2.0" in str(
        sentence
    )
    bug = ModuleNotFoundError("No module named 'headway.nothing'", name="headway.nothing")
    assert server_part.explained("up", bug) is None


def test_a_module_that_a_running_command_misses_is_told_the_same(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'pydantic'", name="pydantic")

    monkeypatch.setattr("headway.cli.serve.run", lacks)
    machine(True, headway=Installed("1.2.0"))
    done = CliRunner().invoke(cli, ["serve", "worker"])
    assert done.exit_code == 2
    assert "needs the server's part" in done.stderr
    machine(True, headway=Installed("1.2.0"), headway_server=Installed("1.2.0"))
    done = CliRunner().invoke(cli, ["serve", "worker"])
    assert isinstance(done.exception, ModuleNotFoundError)


def test_a_command_of_the_client_never_blames_the_server(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def ps() -> None:
        raise ModuleNotFoundError("No module named 'httpx'", name="httpx")

    monkeypatch.setattr("headway.cli.ps.ps", ps)
    machine(False, headway=Installed("1.2.0"))
    assert isinstance(CliRunner().invoke(cli, ["ps"]).exception, ModuleNotFoundError)
