"""docs/operations/several-machines.md, followed word by word on three machines.

Each machine is a network namespace, with folders of its own at the places that the page names. So its commands run as
they stand there. All machines see one folder at /srv/headway. UnitRunner does what systemd does. Tasks are scripted, so
each `join` gets two settings besides.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.machines.network import Namespace, Switch
from tests.support.unit_runner import UnitRunner
from tests.support.waiting import soon

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations" / "several-machines.md").read_text()
FIREWALL = (ROOT / "docs" / "operations" / "firewall.md").read_text()
OWN = ("/etc/headway", "/etc/systemd/system", "/var/lib/headway", "/run/headway")
SCRIPTED = "--set worker.runtime=scripted --set worker.local_images=true"


def commands(text: str, heading: str) -> list[str]:
    """The lines of the code blocks below a heading, without those that only show a form."""
    part = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert part is not None, f"the page has no heading {heading!r} any more"
    blocks = re.findall(r"^```\n(.*?)^```", part[1], re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line]
    return [line for line in lines if "…" not in line]


class Host:
    """One machine. ``shared`` is what it sees at /srv/headway."""

    def __init__(self, switch: Switch, address: str, folder: Path, shared: Path) -> None:
        self.network, self.folder = Namespace(), folder
        switch.join(self.network, f"{address}/24")
        self.units: dict[str, UnitRunner] = {}
        # The checkout may lie below /srv: what is there stays to be seen.
        upper, work = folder.parent / f"{folder.name}-upper", folder.parent / f"{folder.name}-work"
        upper.mkdir()
        work.mkdir()
        mounts = [f"mount -t tmpfs -o mode=755 none {path}" for path in OWN]
        mounts.append(f"mount -t overlay -o lowerdir=/srv,upperdir={upper},workdir={work} none /srv")
        mounts += [f"mkdir -p /srv/home /srv/headway && mount --bind {shared} /srv/headway", "echo up", "read _"]
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", " && ".join(mounts)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n"
        folder.mkdir()
        program = folder / "headway"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m headway "$@"\n')
        program.chmod(0o755)

    @property
    def before(self) -> list[str]:
        return ["nsenter", f"--net={self.network.path}", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--"]

    def types(self, *lines: str, input: str = "", status: int = 0) -> str:
        """As a person in one shell, which ends at the first command that fails."""
        environ = {key: value for key, value in os.environ.items() if not key.startswith(("HEADWAY_", "XDG_"))}
        done = subprocess.run(
            [*self.before, "bash", "-ec", "\n".join(lines)],
            input=input,
            capture_output=True,
            text=True,
            env={**environ, "HOME": "/srv/home", "PATH": f"{self.folder}:{os.environ['PATH']}:/usr/sbin:/sbin"},
            cwd=ROOT,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, f"{lines}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def starts_its_units(self) -> None:
        """What `init` and `join` let systemd do."""
        for name in self.types("cd /etc/systemd/system && ls -1 headway-*.service").split():
            text = self.types(f"cat /etc/systemd/system/{name}")
            self.units[name] = UnitRunner(name, text, self.folder / f"{name}.log", before=self.before)
        with ThreadPoolExecutor() as all_at_once:
            list(all_at_once.map(UnitRunner.start, self.units.values()))

    def close(self) -> None:
        for unit in self.units.values():
            unit.stop()
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait()
        self.network.close()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    shared = tmp_path / "shared"
    shared.mkdir()
    with ExitStack() as stack:
        for path in map(Path, OWN):
            # Places to mount at; nothing is written into them outside of the machines.
            for folder in (*reversed(path.parents), path):
                if not folder.exists():
                    stack.callback(folder.rmdir)
            path.mkdir(parents=True, exist_ok=True)
        switch = Switch()
        stack.callback(switch.close)
        made = []
        for name, address in (("head", "10.0.0.1"), ("gpu1", "10.0.0.11"), ("gpu2", "10.0.0.12")):
            made.append(Host(switch, address, tmp_path / name, shared))
            stack.callback(made[-1].close)
        yield made


def test_a_newcomer_follows_the_page_and_a_job_runs_on_each_machine(hosts: list[Host]) -> None:
    head, *others = hosts
    said = head.types(*commands(PAGE, "3. The first machine"))
    assert "Nothing is changed now" in said
    assert "systemctl daemon-reload && systemctl enable --now headway-resource-manager.service" in said
    head.starts_its_units()

    first = commands(PAGE, "4. The first admin")
    password = head.types(first[0]).split("\n")[1]
    head.types(*first[1:], input=f"{password}\n")

    # The page's rules for the firewall, too: they close nothing that is needed.
    rules = [line for line in commands(FIREWALL, "Rules that do it") if line]
    head.types(*rules[:3])
    for number, host in enumerate(others, 1):
        host.types(*rules[3:])
        (invite,) = (line.replace("gpu1", f"gpu{number}") for line in commands(PAGE, "5. Each other machine"))
        printed = head.types(first[1], invite)
        join = re.search(r"headway join https://10\.0\.0\.1:8080 --token \S+", printed)
        assert join is not None, printed
        said = host.types(f"{join[0]} {SCRIPTED}")
        assert f"This machine is worker gpu{number} of the cluster lab" in said
        host.starts_its_units()

    def ready() -> bool:
        return head.types(first[1], "headway nodes").count("READY") == 2

    soon(ready, within_s=60, every_s=1, what="both machines are ready")
    for number in (1, 2):
        other = 3 - number
        run = "headway run --timeout 1m --image scripted -- true"
        head.types(first[1], f"headway nodes cordon gpu{other}", run, f"headway nodes uncordon gpu{other}")

    # All is well, as `doctor` says on each machine; a warning may be there of this machine's own clock or disk.
    for host in hosts:
        said = host.types("headway doctor || test $? = 1")
        assert "problem" not in said
    assert "machine gpu2" in head.types(first[1], "headway doctor --cluster || test $? = 1")
    others[1].network.run("ip", "link", "set", "eth0", "down")
    said = others[1].types("headway doctor", status=2)
    assert len(re.findall(r"^way to \w+ +problem", said, re.MULTILINE)) == 3
