from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway.doctor import certificates, clock, engine, network, shared_mount, versions
from headway.model.findings import Check, Severity, ok, problem, warning, worst
from headway.mount import prepare_local
from headway.trust.identity import Role
from tests.support.authorities import make_trust

NOW = 1_800_000_000.0
DAY = 86_400.0


def levels(checks: list[Check]) -> dict[str, str]:
    return {one.name: str(one.level) for one in checks}


def test_the_worst_counts_and_what_is_bad_has_a_remedy():
    assert worst([]) is Severity.OK
    assert worst([ok("a", "s"), warning("b", "s", "r")]) is Severity.WARNING
    assert worst([problem("c", "s", "r"), ok("a", "s")]) is Severity.PROBLEM


@pytest.mark.parametrize(
    ("off_s", "kept", "level"),
    [
        (0.1, True, "ok"),
        (-2.5, True, "warning"),
        (-61.0, True, "problem"),
        (None, None, "ok"),
        (61.0, False, "problem"),
    ],
)
def test_clocks(off_s: float | None, kept: bool | None, level: str):
    found = clock.clock(off_s, ask=lambda: kept)
    assert found.level == level
    assert bool(found.remedy) is (level != "ok")


def test_the_kernel_can_be_asked_about_its_clock():
    assert clock.kept_right() in (True, False, None)


def test_an_engine_that_does_not_answer_and_one_without_live_restore(tmp_path: Path):
    address = f"unix://{tmp_path / 'none.sock'}"
    found = engine.engine_checks(address, engine.ask(address))
    assert levels(found) == {"Docker Engine": "problem"}
    assert str(tmp_path) in found[0].sentence
    found = engine.engine_checks(address, {"ServerVersion": "24.0.7", "LiveRestoreEnabled": False})
    assert levels(found) == {"Docker Engine": "ok", "live-restore": "warning"}
    found = engine.engine_checks(address, {"ServerVersion": "19.3.1", "LiveRestoreEnabled": True})
    assert levels(found) == {"Docker Engine": "problem", "live-restore": "ok"}


@pytest.mark.parametrize(
    ("driver", "facts", "toolkit", "level"),
    [
        (None, {}, False, None),
        ("570.1", {"Runtimes": {"runc": {}, "nvidia": {}}}, True, "ok"),
        ("570.1", {"DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}]}, True, "ok"),
        ("570.1", {"Runtimes": {"runc": {}}}, True, "warning"),
        ("570.1", "no answer", False, "warning"),
    ],
)
def test_gpus_and_their_toolkit(driver: str | None, facts: object, toolkit: bool, level: str | None):
    found = levels(engine.gpu_checks(driver, facts, toolkit=toolkit))  # type: ignore[arg-type]
    assert found["GPUs"] == "ok"
    assert found.get("GPU toolkit") == level


def test_a_mount_that_is_missing_of_another_cluster_or_well(tmp_path: Path):
    assert levels(shared_mount.mount(str(tmp_path), "lab")) == {"mount": "problem"}
    assert shared_mount.other_cluster(tmp_path, "lab") == ""
    root = tmp_path / "m"
    prepare_local(root, "lab")
    found = shared_mount.mount(str(root), "lab")
    assert found[0].level is Severity.OK
    assert shared_mount.other_cluster(root, "lab") == ""
    assert shared_mount.other_cluster(root, "others") == "lab"
    assert shared_mount.mount(str(root), "others")[0].level is Severity.PROBLEM


def test_a_mount_that_hangs_is_told_and_nobody_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import threading

    forever = threading.Event()

    def hangs(*_: object) -> list[Check]:
        forever.wait()
        return []

    monkeypatch.setattr(shared_mount, "_look", hangs)
    try:
        found = shared_mount.mount(str(tmp_path), "lab", timeout_s=0.05)
        assert "hangs" in found[0].sentence
    finally:
        forever.set()


def test_doors():
    own = network.own_doors({"worker": "127.0.0.1:1", "job_manager": "127.0.0.1:2"}, free=lambda host, port: port == 1)
    assert [one.level for one in own] == [Severity.OK, Severity.WARNING]
    others = network.others_doors(
        {"task_manager": "h:1", "http_server": "h:2"}, ask=lambda host, port: "" if port == 1 else "no route"
    )
    assert [one.level for one in others] == [Severity.OK, Severity.PROBLEM]
    assert "no route" in others[1].sentence


def test_certificates(tmp_path: Path):
    make_trust(tmp_path, NOW)
    role = Role.TASK_MANAGER
    assert certificates.certificate(str(tmp_path), role, NOW).level is Severity.OK
    assert certificates.certificate(str(tmp_path), role, NOW + 27 * DAY).level is Severity.WARNING
    assert "expired 2 days ago" in certificates.certificate(str(tmp_path), role, NOW + 32 * DAY).sentence
    assert "clock is behind" in certificates.certificate(str(tmp_path), role, NOW - DAY).sentence
    assert certificates.certificate(str(tmp_path), Role.WORKER, NOW).level is Severity.PROBLEM
    os.chmod(tmp_path / role / "key.pem", 0o640)
    assert "chmod 600" in certificates.certificate(str(tmp_path), role, NOW).remedy
    (tmp_path / role / "cert.pem").write_bytes((tmp_path / "job_manager" / "cert.pem").read_bytes())
    assert "is for job_manager" in certificates.certificate(str(tmp_path), role, NOW).sentence
    (tmp_path / role / "cert.pem").write_text("nonsense")
    assert certificates.certificate(str(tmp_path), role, NOW).level is Severity.PROBLEM


def test_versions():
    assert versions.python((3, 10, 1)).level is Severity.PROBLEM
    assert versions.python().level is Severity.OK
    assert versions.kernel("5.10.0-8-amd64").level is Severity.WARNING
    assert versions.kernel("6.1.0").level is Severity.OK
    assert versions.headway("0.1.0", "0.1.0").level is Severity.OK
    assert versions.headway("0.1.0", "0.2.0").level is Severity.WARNING
    assert versions.headway("0.1.0", "0.3.0").level is Severity.PROBLEM
