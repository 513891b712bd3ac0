from __future__ import annotations

import tomllib
from typing import Any

import pytest

from headway.config import HeadwayConfig
from headway.errors import InvalidInput
from headway.setup import config_text
from headway.trust.identity import MANAGERS, Role
from headway.trust.shared import shared_settings


def whole(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "cluster": "lab",
        "host": "10.0.0.1",
        "state": "/var/lib/headway",
        "mount": "/mnt/lab",
        "roles": MANAGERS,
        "elsewhere": {},
        "node": "n1",
        "behind_proxy": "",
        "tls": None,
        **changes,
    }
    return tomllib.loads(config_text.text_of("init", config_text.first_machine(**fields)))


def test_the_first_machine_listens_at_its_address_and_knows_who_is_elsewhere():
    found = whole(roles=MANAGERS - {Role.JOB_MANAGER}, elsewhere={Role.JOB_MANAGER: "10.0.0.2:7001"})
    assert found["resource_manager"]["bind"] == "10.0.0.1:7003"
    assert "job_manager" not in found
    assert found["peers"] == {"job_manager": "10.0.0.2:7001"}
    assert "worker" not in found
    HeadwayConfig.model_validate(found)


def test_addresses_of_ipv6_and_a_worker_and_a_proxy():
    found = whole(host="fd00::1", roles=[*MANAGERS, Role.WORKER], behind_proxy="10.0.0.9/32")
    assert found["worker"] == {"bind": "[fd00::1]:7004", "node_id": "n1"}
    assert found["httpserver"]["behind_proxy"] == ["10.0.0.9/32"]
    HeadwayConfig.model_validate(found)


def test_what_a_joined_machine_gets_is_what_all_share_and_nothing_of_the_first():
    first = HeadwayConfig.model_validate(
        {
            "cluster": {
                "name": "lab",
                "mount": "/mnt/lab",
                "lease_s": 300,
                "token": "s" * 32,
                "trust_dir": "/a/trust",
                "state_dir": "/a",
            },
            "peers": {name: f"10.0.0.1:{7000 + i}" for i, name in enumerate(("http_server", "job_manager"))},
        }
    )
    shared = shared_settings(first)
    assert shared["cluster.lease_s"] == 300
    assert not {"cluster.token", "cluster.token_file", "cluster.trust_dir", "cluster.state_dir"} & set(shared)
    found = tomllib.loads(
        config_text.text_of(
            "join",
            config_text.joined_machine(
                role=Role.WORKER, name="n2", where="10.0.0.7:7004", state="/b", shared={**shared, "log.file": "/etc/x"}
            ),
        )
    )
    assert found["cluster"]["trust_dir"] == "/b/trust"
    assert found["worker"] == {"bind": "10.0.0.7:7004", "node_id": "n2"}
    assert "log" not in found


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("worker.runtime=scripted", ("worker.runtime", "scripted")),
        ("worker.local_images=true", ("worker.local_images", True)),
        ("httpserver.port=81", ("httpserver.port", 81)),
        ('httpserver.behind_proxy=["10.0.0.1"]', ("httpserver.behind_proxy", ["10.0.0.1"])),
        ("httpserver.public_url=https://a/?b=c", ("httpserver.public_url", "https://a/?b=c")),
    ],
)
def test_settings_of_the_command_line(text: str, read: tuple[str, Any]):
    assert config_text.read_setting(text) == read
    section, _, key = read[0].partition(".")
    assert tomllib.loads(config_text.text_of("init", {read[0]: read[1]}))[section][key] == read[1]


@pytest.mark.parametrize("text", ["", "a", "port=1", "=1"])
def test_what_is_no_setting_is_refused(text: str):
    with pytest.raises(InvalidInput):
        config_text.read_setting(text)
