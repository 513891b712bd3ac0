"""Docker Engine and what it needs for GPUs."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ..model.findings import Check, ok, problem, warning

_DEFAULT = "unix:///var/run/docker.sock"
_OLDEST = (20, 10)
_DRIVER = "/proc/driver/nvidia/version"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("docker", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def address_of(docker_host: str) -> str:
    """Where the engine is, as the Worker finds it."""
    return docker_host or os.environ.get("DOCKER_HOST", "") or _DEFAULT


def ask(address: str, timeout_s: float = 10.0) -> Mapping[str, Any] | str:
    """The engine's own facts (`GET /info`), or why there are none. Blocking."""
    url = urlsplit(address)
    connection: http.client.HTTPConnection
    if url.scheme == "unix":
        connection = _UnixConnection(url.path, timeout_s)
    elif url.scheme in ("tcp", "http") and url.hostname:
        connection = http.client.HTTPConnection(url.hostname, url.port or 2375, timeout=timeout_s)
    else:
        return f"it has an address of another kind, {address}"
    try:
        connection.request("GET", "/info")
        answer = connection.getresponse()
        found = json.loads(answer.read(4 << 20))
        return found if answer.status == 200 and isinstance(found, dict) else f"status {answer.status}"
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__
    finally:
        connection.close()


def engine_checks(address: str, facts: Mapping[str, Any] | str) -> list[Check]:
    """What the engine's facts say. Pure."""
    if isinstance(facts, str):
        return [
            problem(
                "Docker Engine",
                f"It does not answer at {address} ({facts}).",
                "Install it (`apt-get install docker.io`) and start it (`systemctl start docker`).",
            )
        ]
    version = str(facts.get("ServerVersion", ""))
    found = [ok("Docker Engine", f"It answers at {address}, version {version or 'unknown'}.")]
    if (numbers := _numbers(version)) and numbers < _OLDEST:
        found = [problem("Docker Engine", f"Version {version} is too old.", "Install version 20.10 or later.")]
    if facts.get("LiveRestoreEnabled"):
        found.append(ok("live-restore", "Containers outlive a restart of Docker Engine."))
    else:
        found.append(
            warning(
                "live-restore",
                "It is off: a restart of Docker Engine ends all tasks here.",
                'Write {"live-restore": true} into /etc/docker/daemon.json, then `systemctl reload docker`.',
            )
        )
    return found


def gpu_checks(driver: str | None, facts: Mapping[str, Any] | str, *, toolkit: bool) -> list[Check]:
    """``driver``: what the kernel says of NVIDIA's; None: it is not loaded. ``toolkit``: its program is installed."""
    if driver is None:
        return [ok("GPUs", "NVIDIA's driver is not loaded: this machine offers none.")]
    found = [ok("GPUs", f"NVIDIA's driver is loaded: {driver}.")]
    runtimes = facts.get("Runtimes") if isinstance(facts, Mapping) else None
    knows = isinstance(runtimes, Mapping) and "nvidia" in runtimes
    cdi = isinstance(facts, Mapping) and any(str(one.get("ID", "")).startswith("nvidia.com") for one in _devices(facts))
    if knows or cdi:
        return [*found, ok("GPU toolkit", "Docker Engine can give GPUs to containers.")]
    what = "It is installed, but Docker Engine was not told." if toolkit else "NVIDIA's container toolkit is not here."
    remedy = "" if toolkit else "Install nvidia-container-toolkit. "
    return [
        *found,
        warning(
            "GPU toolkit",
            f"{what} Tasks get device files alone (docs/gpus.md).",
            f"{remedy}`nvidia-ctk runtime configure --runtime=docker`, then `systemctl restart docker`.",
        ),
    ]


def driver_version() -> str | None:
    """As the kernel tells it; None: the driver is not loaded."""
    try:
        with open(_DRIVER, encoding="utf-8", errors="replace") as file:
            words = file.readline().split()
    except OSError:
        return None
    return next((word for word in words if word[:1].isdigit()), "version unknown")


def toolkit_installed() -> bool:
    return shutil.which("nvidia-ctk") is not None


def _devices(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    devices = facts.get("DiscoveredDevices")
    return [one for one in devices if isinstance(one, Mapping)] if isinstance(devices, list) else []


def _numbers(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        return None
