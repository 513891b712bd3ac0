from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headway.errors import ConfigInvalid
from headway.setup import units
from headway.trust.identity import Role

ALL = list(Role)


def made(role: Role, **changes: object) -> str:
    fields: dict[str, object] = {"config": Path("/etc/headway/headway.toml"), "mount": "/mnt/lab", **changes}
    return units.unit(role, **fields).text  # type: ignore[arg-type]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("where", ["plain", "with a blank"])
def test_systemd_takes_every_unit_without_a_word(tmp_path: Path, where: str):
    config = tmp_path / where / "100%.toml"
    config.parent.mkdir()
    found = units.units(ALL, config=config, mount=str(tmp_path / where), python=sys.executable)
    assert [one.name for one in found][-1] == "headway-worker.service"
    units.install(tmp_path / "units", found)
    paths = [str(tmp_path / "units" / one.name) for one in found]
    done = subprocess.run(
        ["systemd-analyze", "verify", *paths], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_stop_of_a_worker_ends_the_worker_alone_and_its_mounts_are_seen_by_docker():
    text = made(Role.WORKER)
    assert "KillMode=process\n" in text
    assert "docker.service" in text
    for own_view in ("ProtectSystem", "PrivateTmp", "PrivateMounts", "ProtectHome", "ReadWritePaths", "PrivateDevices"):
        assert own_view not in text


@pytest.mark.parametrize("role", ALL)
def test_every_service_comes_back_and_waits_for_the_share_that_it_needs(role: Role):
    text = made(role)
    assert "Restart=on-failure\n" in text
    assert "StartLimitIntervalSec=0\n" in text
    assert "Type=notify\n" in text
    assert ("RequiresMountsFor=/mnt/lab\n" in text) is (role in (Role.WORKER, Role.HTTP_SERVER))
    assert ("docker" in text) is (role is Role.WORKER)


def test_signs_that_systemd_would_read_are_kept_as_they_are():
    text = made(Role.WORKER, config=Path("/etc/a b/100%$x.toml"), mount="/mnt/a b%")
    assert '--config "/etc/a b/100%%$$x.toml"\n' in text
    assert "RequiresMountsFor=/mnt/a\\x20b%%\n" in text


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigInvalid, match="--no-unit"):
        units.install(tmp_path / "file", units.units(ALL, config=Path("/x"), mount=""))
