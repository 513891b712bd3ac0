"""`headway init` and `headway join`, killed at any moment, then run again."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.errors import ConfigInvalid
from headway.mount import read_marker
from headway.setup.init import InitOptions, carry_out, plan
from headway.trust.authority import Authority, issued
from headway.trust.files import TrustFiles
from headway.trust.identity import Role

# Each of these is a moment between two changes that a kill could fall into.
CALLS = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir")
KILLED = 77


def options(folder: Path, **changes: Any) -> InitOptions:
    made = InitOptions(
        cluster="lab",
        address="127.0.0.1",
        state=folder / "state",
        config=folder / "etc" / "headway.toml",
        mount=folder / "mount",
        worker=True,
        node="n1",
        unit_dir=folder / "units",
    )
    return replace(made, **changes)


def killed_at(moment: int, act: Callable[[], object]) -> bool:
    """Runs in a process of its own, which ends without a word before that change; whether it came so far."""
    child = os.fork()
    if child == 0:
        count = 0

        def counted(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                nonlocal count
                count += 1
                if count == moment:
                    os._exit(KILLED)
                return real(*arguments, **named)

            return call

        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))
        try:
            act()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED), "it was refused"
    return code == KILLED


def done(folder: Path) -> bool:
    return (folder / "etc" / "headway.toml").exists() and not (folder / "state" / ".unfinished").exists()


def check_whole(folder: Path, cluster: str = "lab") -> None:
    files = TrustFiles(folder / "state" / "trust")
    authority = Authority.read(files)
    assert authority.cluster == cluster
    assert files.ca.read_bytes() == authority.certificate_pem
    for role in Role:
        assert issued(files.certificate(role).read_bytes()).identity.cluster == cluster
        assert stat.S_IMODE(files.key(role).stat().st_mode) == 0o600
    assert read_marker(folder / "mount") == cluster
    assert len(list((folder / "units").glob("headway-*.service"))) == 5
    assert f'name = "{cluster}"' in (folder / "etc" / "headway.toml").read_text()
    assert sorted(path.name for path in (folder / "state").iterdir()) == [".setup-lock", "trust"]
    assert not [path for path in folder.rglob("*") if path.name.endswith(".new")]


@pytest.mark.slow
def test_init_killed_at_any_moment_is_finished_by_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # no power is cut here
    moment = 0
    while True:
        moment += 1
        folder = tmp_path / str(moment)
        folder.mkdir()
        if not killed_at(moment, lambda folder=folder: carry_out(plan(options(folder)))):
            break
        # The next run may be killed too, and the one after it be given another name.
        if moment % 4 == 0 and not done(folder):
            killed_at(max(1, moment // 2), lambda folder=folder: carry_out(plan(options(folder))))
        other = "other" if moment % 3 == 0 else "lab"
        if done(folder):
            # The last change of all had been made: the cluster is set up, under its first name.
            with pytest.raises(ConfigInvalid, match="set up here already"):
                carry_out(plan(options(folder, cluster=other)))
            other = "lab"
        else:
            carry_out(plan(options(folder, cluster=other)))
        check_whole(folder, other)
    assert moment > 40
    check_whole(folder)


def test_what_is_refused_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="no_such_key"):
        carry_out(plan(options(tmp_path, settings={"task_manager.no_such_key": 1})))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mount").mkdir()
    (tmp_path / "mount" / ".headway-mount").write_text("theirs\n")
    with pytest.raises(ConfigInvalid, match="belongs to the cluster 'theirs'"):
        carry_out(plan(options(tmp_path)))
    (tmp_path / "mount" / ".headway-mount").unlink()
    (tmp_path / "mount" / "homes").mkdir()
    with pytest.raises(ConfigInvalid, match="is the share mounted"):
        carry_out(plan(options(tmp_path)))
    (tmp_path / "mount" / "homes").rmdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "headway.toml").write_text("# mine\n")
    with pytest.raises(ConfigInvalid, match="set up here already"):
        carry_out(plan(options(tmp_path)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["etc", "mount"]
    assert (tmp_path / "etc" / "headway.toml").read_text() == "# mine\n"


def test_a_failure_in_the_middle_takes_everything_away_again(tmp_path: Path) -> None:
    (tmp_path / "units").write_text("a file, where a folder should be")
    with pytest.raises(ConfigInvalid, match="--no-unit"):
        carry_out(plan(options(tmp_path)))
    assert not (tmp_path / "state" / "trust").exists()
    assert not (tmp_path / "etc" / "headway.toml").exists()
    (tmp_path / "units").unlink()
    carry_out(plan(options(tmp_path)))
    check_whole(tmp_path)


def test_wishes_that_can_not_be_are_refused_before_anything(tmp_path: Path) -> None:
    for changes, words in (
        ({"cluster": "a b"}, "can't name a cluster"),
        ({"address": "10.0.0.1", "mount": None}, "--mount"),
        ({"elsewhere": {Role.RESOURCE_MANAGER: "10.0.0.2:7003"}}, "runs on this machine"),
    ):
        with pytest.raises(ConfigInvalid, match=words):
            plan(options(tmp_path, **changes))
    assert list(tmp_path.iterdir()) == []


def test_on_a_network_the_page_gets_a_certificate_of_the_authority(tmp_path: Path) -> None:
    planned = plan(options(tmp_path, address="10.0.0.1"))
    assert planned.own_page_certificate
    carry_out(planned)
    page = tmp_path / "state" / "trust" / "page"
    assert stat.S_IMODE((page / "key.pem").stat().st_mode) == 0o600
    assert f'tls_cert = "{page / "cert.pem"}"' in (tmp_path / "etc" / "headway.toml").read_text()
    assert not plan(options(tmp_path / "b", address="10.0.0.1", behind_proxy="10.0.0.9")).own_page_certificate
