"""A runtime of another package in a Worker of its own process: that of docs/runtimes.md as written, and broken ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headway.config import load
from headway.errors import ConfigInvalid
from tests.support.packages import Site
from tests.support.worker_rig import a_launch, an_attempt, scripted, worker_rig

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "runtimes.md"
GROUP = "headway.runtimes"
CODE, PROJECT = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL)
(ENTRY_POINT,) = re.findall(r'^(\w+ = "\w+:\w+")$', PROJECT, re.MULTILINE)
SUBJECT = """
from announced import Announced
from tests.contracts.subjects import ScriptedSubject

class AnnouncedSubject(ScriptedSubject):
    kind = Announced
"""
BROKEN = """
from worker.runtime.scripted import ScriptedRuntime

class Broken(ScriptedRuntime):
    name = "broken"
    withdraw = None
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path / "site", monkeypatch)


@pytest.fixture
def announced(site: Site) -> Site:
    site.install("announced-runtime", GROUP, ENTRY_POINT.replace('"', ""), module="announced", code=CODE)
    return site


def headway(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headway", *words], capture_output=True, text=True, timeout=120, check=False
    )


def config_file(folder: Path, runtime: str) -> Path:
    path = folder / "headway.toml"
    path.write_text(
        f'[cluster]\ntoken = "0123456789abcdef"\nstate_dir = "{folder}/state"\n[worker]\nruntime = "{runtime}"\n'
    )
    return path


async def test_the_example_runs_a_task(tmp_path: Path, announced: Site) -> None:
    async with worker_rig(tmp_path, worker__runtime="announced") as rig:
        incarnation = await rig.start()
        attempt = an_attempt()
        (verdict,) = await rig.launch(a_launch(attempt, incarnation=incarnation, env=scripted(0.1, output="hello")))
        assert verdict.accepted, verdict
        assert (await rig.ended(attempt)).kind == "SUCCEEDED"
        assert (rig.logs(attempt) / "stdout.log").read_bytes() == b"hello"
        assert (rig.folder / "announced").read_text() == f"{attempt} scripted-{attempt.folder}\n"
        capacity = (await rig.status()).capacity
        assert (capacity.runtime, capacity.any_image) == ("announced", True)


def test_the_contract_can_be_tested_from_outside(announced: Site) -> None:
    (announced.folder / "announced_tests.py").write_text(SUBJECT)
    paths = os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]])
    environment = {**os.environ, "HEADWAY_CONTRACT_SUBJECT": "announced_tests:AnnouncedSubject", "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/contracts", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", "removal"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^1 passed", done.stdout, re.MULTILINE), done.stdout


def test_a_package_that_lacks_a_method_is_one_sentence_at_the_workers_start(tmp_path: Path, site: Site) -> None:
    site.install("broken-runtime", GROUP, "broken = broken:Broken", module="broken", code=BROKEN)
    path = config_file(tmp_path, "broken")
    sentence = (
        "[worker] runtime 'broken' of the package broken-runtime 1.0 lacks what worker.ports.Runtime asks for: "
        "withdraw. Mend or uninstall that package, or name another runtime."
    )
    served = headway("serve", "worker", "--config", str(path))
    assert (served.returncode, served.stderr.strip().splitlines()[-1]) == (2, f"headway: {sentence}")
    assert "Traceback" not in served.stderr
    shown = headway("config", "show", "worker.runtime", "--config", str(path))
    assert (shown.returncode, "broken" in shown.stdout) == (0, True)
    assert shown.stderr == f"headway: {path}:5: {sentence}\n"


def test_up_refuses_before_anything_is_written(tmp_path: Path, site: Site) -> None:
    site.install("broken-runtime", GROUP, "broken = nowhere:Broken")
    state = tmp_path / "up"
    unknown = headway("up", "--state", str(state), "--runtime", "scriptid")
    assert unknown.returncode == 2
    assert (
        "The runtime must be one of 'broken', 'docker' or 'scripted', and not 'scriptid' (did you mean 'scripted'?)."
        in " ".join(unknown.stderr.split())
    )
    assert not state.exists()
    broken = headway("up", "--state", str(state), "--port", "1", "--runtime", "broken")
    assert broken.returncode == 2
    assert "'broken' of the package broken-runtime 1.0 can't be imported from nowhere:Broken" in broken.stderr
    assert "Traceback" not in broken.stderr
    assert not (state / "headway.toml").exists()


def test_a_name_of_two_packages_is_refused_with_both(tmp_path: Path, announced: Site) -> None:
    announced.install("other-runtime", GROUP, "announced = announced:Announced")
    with pytest.raises(ConfigInvalid) as refused:
        load(config_file(tmp_path, "announced"), env={})
    assert str(refused.value).endswith(
        "[worker] runtime is 'announced', a name that announced-runtime 1.0 and other-runtime 1.0 both give: "
        "uninstall one of these packages."
    )
