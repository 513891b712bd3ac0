"""deploy/compose.yaml: what it says fits the services, and its containers run them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.cli.serve import SERVICES
from headway.setup import units
from headway.trust.identity import MANAGERS, Role
from tests.cluster.test_init_and_join import Machines
from tests.support.dockerd import Engine
from tests.support.images import BUSYBOX
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]
ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
ETC, STATE = "/etc/headway", "/var/lib/headway"


def test_it_has_every_manager_once_with_the_rights_of_its_unit() -> None:
    services = COMPOSE["services"]
    assert sorted(one["command"][0] for one in services.values()) == sorted(set(SERVICES) - {"worker"})
    for name, service in services.items():
        role = next(
            role for role in MANAGERS if units.serve_commands([role], Path("x"))[0].split()[2] in service["command"]
        )
        text = units.unit(role, config=Path(ETC), mount="").text
        assert units.unit(role, config=Path(ETC), mount="").name == f"headway-{name}.service"
        assert service["stop_grace_period"] == f"{re.findall('TimeoutStopSec=(.*)', text)[0]}s"
        assert str(service["ulimits"]["nofile"]) == re.findall("LimitNOFILE=(.*)", text)[0]
        allowed = re.findall("CapabilityBoundingSet=(.*)", text)
        if allowed:
            assert {f"CAP_{one}" for one in service["cap_add"]} == set(allowed[0].split())
        assert "no-new-privileges:true" in service["security_opt"]
        # By the machine's own network and paths headway.toml fits, and no port is published.
        assert service["network_mode"] == "host"
        assert "ports" not in service
        assert f"{ETC}:{ETC}:ro" in service["volumes"]
        assert f"{STATE}:{STATE}" in service["volumes"]
        assert any(isinstance(one, dict) for one in service["volumes"]) is (role is Role.HTTP_SERVER)


def test_its_image_starts_what_compose_names() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["headway", "serve"]' in text
    assert re.search(r"^ARG BASE=\S+\nFROM \$\{BASE\}$", text, re.MULTILINE)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Path]:
    """Folders of a first machine as `headway init` makes them: `state`, and `etc` with headway.toml."""
    machines = Machines(tmp_path)
    machines.init("--no-unit")
    folder = tmp_path / "a"
    (folder / "etc").mkdir()
    config = (folder / "headway.toml").read_text().replace(str(folder / "state"), STATE)
    (folder / "etc" / "headway.toml").write_text(config)
    yield folder
    shutil.rmtree(folder)


def run(engine: Engine, service: dict[str, Any], machine: Path) -> Any:
    """A container as compose would start it, with this checkout and its Python in the place of the image."""
    python = {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, ROOT)}
    binds = {path: {"bind": path, "mode": "ro"} for path in (*python, str(ROOT))}
    for path in ("/usr", "/lib", "/lib64"):
        if os.path.isdir(path):
            binds[os.path.realpath(path) + "/."] = {"bind": path, "mode": "ro"}
    for source, target in ((machine / "etc", ETC), (machine / "state", STATE)):
        mode = next(one for one in service["volumes"] if str(one).startswith(f"{target}:")).split(":")[2:]
        binds[str(source)] = {"bind": target, "mode": mode[0] if mode else "rw"}
    return engine.client().containers.run(
        BUSYBOX,
        [sys.executable, "-m", "headway", "serve", *service["command"]],
        detach=True,
        environment={"PYTHONPATH": str(ROOT)},
        network_mode=service["network_mode"],
        user=service["user"],
        read_only=service["read_only"],
        tmpfs=dict.fromkeys(service["tmpfs"], ""),
        security_opt=service["security_opt"],
        cap_drop=service["cap_drop"],
        cap_add=service["cap_add"],
        stop_signal=service["stop_signal"],
        volumes=binds,
    )


def test_a_manager_runs_in_its_container_and_stops_well(docker_engine: Engine, machine: Path) -> None:
    service = COMPOSE["services"]["resource-manager"]
    container = run(docker_engine, service, machine)
    try:
        role = service["command"][0]
        asked = [sys.executable, "-m", "headway", "doctor", "--role", role, "-o", "json"]

        soon(lambda: b"service.ready" in container.logs(), within_s=60, every_s=0.2, what=f"{role} is ready")
        said = container.exec_run(asked, demux=True).output[0]
        rows = {one["name"]: one["level"] for one in json.loads(said)["checks"]}
        assert (rows[f"service {role}"], rows[f"certificate of {role}"]) == ("ok", "ok")
        assert (machine / "state" / f"{role}.db").exists()
        container.stop(timeout=60)
        assert container.wait()["StatusCode"] == 0
    finally:
        container.remove(force=True)
