from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headway.config import load
from headway.doctor import certificates, databases, disks, machine, network
from headway.trust.authority import make_key
from headway.trust.identity import Role
from tests.support.authorities import make_trust
from tests.support.ports import free_port

NOW = 1_800_000_000.0
DAY = 86_400.0


def roles(tmp_path: Path, text: str, mine: str = "10.0.0.1") -> set[Role]:
    path = tmp_path / "headway.toml"
    path.write_text(text)
    loaded = load(path, env={})
    return machine.roles_here(loaded.config, loaded.sources, lambda host: host in (mine, "127.0.0.1"))


PEERS = "".join(f'{name} = "10.0.0.1:{7000 + n}"\n' for n, name in enumerate(sorted(set(Role) - {Role.WORKER})))


def test_which_services_a_machine_should_run(tmp_path: Path):
    managers = set(Role) - {Role.WORKER}
    everywhere = f'[cluster]\ninsecure_network = true\ntoken = "{"t" * 32}"\n[peers]\n{PEERS}'
    assert roles(tmp_path, everywhere) == managers
    assert roles(tmp_path, f'{everywhere}[worker]\nbind = "10.0.0.1:7004"\n') == set(Role)
    assert roles(tmp_path, f'{everywhere}[worker]\nnode_id = "n1"\n', mine="10.0.0.11") == {Role.WORKER}
    assert roles(tmp_path, everywhere, mine="10.0.0.11") == set()
    # Certificates decide where there are any.
    make_trust(tmp_path / "trust", NOW)
    (tmp_path / "trust" / "task_manager" / "key.pem").unlink()
    found = roles(tmp_path, f'[cluster]\ntrust_dir = "trust"\n[peers]\n{PEERS}', mine="10.0.0.99")
    assert found == managers, "one that lost its key is still to be told"


@pytest.mark.parametrize(("least", "level"), [(1, "ok"), (1 << 62, "problem")])
def test_room_on_disks(tmp_path: Path, least: int, level: str):
    found = disks.space({"state": (str(tmp_path / "not" / "yet"), least)})
    assert [(one.name, one.level) for one in found] == [("disk of state", level)]


def test_little_room_is_a_warning_before_it_is_too_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Facts:
        f_frsize, f_bavail, f_files, f_favail = 1, 150, 1000, 900

    monkeypatch.setattr(disks.os, "statvfs", lambda _: Facts)
    assert [one.level for one in disks.space({"a": (str(tmp_path), 100), "b": (str(tmp_path), 10)})] == [
        "warning",
        "ok",
    ]
    Facts.f_favail = 3
    assert "inodes" in disks.space({"b": (str(tmp_path), 10)})[0].sentence


def test_databases_that_are_well_broken_or_not_there_yet(tmp_path: Path):
    path = tmp_path / "job_manager.db"

    def look(url: str | Path = path) -> list[Any]:
        return databases.database(Role.JOB_MANAGER, str(url), NOW)

    assert "first start" in look()[0].sentence
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE outbox (target TEXT, created_at REAL)")
        connection.executemany("INSERT INTO outbox VALUES (?, ?)", [("a", NOW - 10), ("b", NOW - 9_000), ("b", NOW)])
    assert [(one.name, one.level) for one in look()] == [
        ("database of job_manager", "ok"),
        ("events of job_manager for a", "ok"),
        ("events of job_manager for b", "warning"),
    ]
    assert [one.level for one in look(f"sqlite:///{path}")] == ["ok", "ok", "warning"]
    path.write_bytes(b"no database at all, " * 99)
    (tmp_path / "job_manager.db-wal").unlink(missing_ok=True)
    assert look()[0].level == "problem"
    where = f"postgresql://headway:secret@127.0.0.1:{free_port()}/headway"
    refused = look(where)[0]
    assert (refused.level, "secret" in refused.sentence) == ("problem", False)


@pytest.mark.parametrize(
    ("rules", "program", "level"),
    [
        ("required", "/usr/sbin/nft", "ok"),
        ("required", None, "problem"),
        ("wanted", None, "warning"),
        ("off", "/usr/sbin/nft", "warning"),
    ],
)
def test_firewall(rules: str, program: str | None, level: str):
    assert network.firewall(rules, program).level == level


def test_what_is_this_machine():
    assert network.is_mine("localhost")
    assert network.is_mine("127.0.0.1")
    assert not network.is_mine("192.0.2.1")
    assert not network.is_mine("no-such-host.invalid")


def test_certificates_of_the_page_and_of_another_cluster(tmp_path: Path):
    made = make_trust(tmp_path, NOW)
    page = tmp_path / "page.pem"
    page.write_bytes(made.sign_page(make_key().public_key(), "10.0.0.1"))
    levels: Mapping[float, str] = {0: "ok", 810: "warning", 821: "problem"}
    for days, level in levels.items():
        assert certificates.page(str(page), NOW + days * DAY).level == level
    page.write_text("nonsense")
    assert certificates.page(str(page), NOW).level == "problem"
    assert certificates.page(str(tmp_path / "none"), NOW).level == "problem"
    other = certificates.certificate(str(tmp_path), Role.TASK_MANAGER, NOW, "elsewhere")
    assert "is of the cluster 'lab'" in other.sentence
    (tmp_path / "authority" / "key.pem").chmod(0o644)
    assert "chmod 600" in certificates.authority(str(tmp_path)).remedy
