"""systemd units: one a service, from one template. Pure but for `install` and `start`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from ..errors import ConfigInvalid
from ..trust.files import write_private
from ..trust.identity import Role

FOLDER = Path("/etc/systemd/system")
_RUNNING = Path("/run/systemd/system")
_NAMES = {
    Role.HTTP_SERVER: ("httpserver", "web page and API"),
    Role.JOB_MANAGER: ("job_manager", "jobs"),
    Role.TASK_MANAGER: ("task_manager", "queue"),
    Role.RESOURCE_MANAGER: ("resource_manager", "machines and certificates"),
    Role.WORKER: ("worker", "containers of this machine"),
}
# A Worker makes mounts that Docker Engine must see, so it gets no view of the file system of its own. Of a stop it
# alone is told: what runs beside it, such as a holder of GPUs, goes on.
_OF_WORKER = """KillMode=process
RuntimeDirectory=headway
RuntimeDirectoryPreserve=yes
OOMScoreAdjust=-500
TasksMax=infinity"""
# HttpServer works under accounts' uids, so it keeps root's rights; it starts no programs that gain any.
_OF_HTTP_SERVER = """KillMode=mixed
ProtectSystem=full
PrivateTmp=yes
ProtectControlGroups=yes
ProtectKernelModules=yes
RestrictNamespaces=yes"""
_OF_MANAGER = """KillMode=mixed
UMask=0077
ProtectSystem=full
PrivateTmp=yes
PrivateDevices=yes
ProtectControlGroups=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
SystemCallArchitectures=native
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_FOWNER CAP_CHOWN"""
_TIMEOUT_STOP_S = 90


@dataclass(frozen=True, slots=True)
class SystemdUnit:
    """A unit with its name, such as `headway-worker.service`."""

    name: str
    text: str


def unit(role: Role, *, config: Path, mount: str, python: str = sys.executable) -> SystemdUnit:
    """The unit of one service. ``config``: its headway.toml, absolute."""
    service, what = _NAMES[role]
    with_docker = " docker.service" if role is Role.WORKER else ""
    on_mount = role in (Role.WORKER, Role.HTTP_SERVER)
    template = Template((files(__package__) / "headway.service.in").read_text("utf-8"))
    text = template.substitute(
        what=what,
        wants=f"network-online.target{with_docker}",
        after=f"network-online.target time-sync.target{with_docker}",
        mounts=f"RequiresMountsFor={_path(mount)}\n" if on_mount and mount else "",
        command=f"{_word(python)} -m headway serve {service} --config {_word(str(config))}",
        stop_s=_TIMEOUT_STOP_S,
        more={Role.WORKER: _OF_WORKER, Role.HTTP_SERVER: _OF_HTTP_SERVER}.get(role, _OF_MANAGER),
    )
    return SystemdUnit(f"headway-{service.replace('_', '-')}.service", text)


def units(roles: Iterable[Role], *, config: Path, mount: str, python: str = sys.executable) -> list[SystemdUnit]:
    """In the order in which they are best started."""
    order = (Role.RESOURCE_MANAGER, Role.TASK_MANAGER, Role.JOB_MANAGER, Role.HTTP_SERVER, Role.WORKER)
    wanted = set(roles)
    return [unit(role, config=config, mount=mount, python=python) for role in order if role in wanted]


def install(folder: Path, wanted: Iterable[SystemdUnit]) -> None:
    """Writes them, each whole or not at all.

    Raises:
        ConfigInvalid: one can't be written.
    """
    for one in wanted:
        try:
            write_private(folder / one.name, one.text.encode(), mode=0o644)
        except OSError as error:
            raise ConfigInvalid(
                f"{folder / one.name} can't be written ({error.strerror}): run this as root, or say --no-unit."
            ) from error


def systemd_runs() -> bool:
    return _RUNNING.is_dir()


def start(names: Sequence[str]) -> str:
    """Lets systemd start them now and at each boot; why it can't, empty if it does."""
    for command in (["systemctl", "daemon-reload"], ["systemctl", "enable", "--now", *names]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"`{' '.join(command)}` failed: {error}"
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no word why"])[-1]
            return f"`{' '.join(command)}` failed: {last}"
    return ""


def by_hand(names: Sequence[str], commands: Sequence[str], *, installed: bool) -> list[str]:
    """What a person types where systemd does not run, or was not to be asked."""
    if installed:
        return [f"systemctl daemon-reload && systemctl enable --now {' '.join(names)}"]
    return list(commands)


def serve_commands(roles: Iterable[Role], config: Path) -> list[str]:
    """What starts each service without systemd."""
    return [f"headway serve {_NAMES[role][0]} --config {config}" for role in sorted(set(roles))]


def _word(text: str) -> str:
    """A word of a command line of systemd: `%` and `$` mean something there."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{quoted}"' if any(sign in text for sign in " \t\"'\\;") else quoted


def _path(text: str) -> str:
    return os.path.normpath(text).replace("\\", "\\\\").replace("%", "%%").replace(" ", "\\x20")
