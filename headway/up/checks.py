"""What can be known to be wrong before anything is started."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from urllib.parse import urlsplit

from ..config import HeadwayConfig, LoadedConfig
from ..config.checks import is_public
from ..doctor.network import can_bind
from ..errors import ConfigInvalid, Unavailable
from ..model.limits import reserve_leaves_none

# Internal ports lie in rows of ten from here. Rows are below the range from which the kernel takes outgoing ports, so
# that they stay the same from start to start.
_FIRST_ROW = 7_000
_LAST_ROW = 9_990
_DEFAULT_SOCKET = "/var/run/docker.sock"


def port_is_free(host: str, port: int) -> None:
    """Raises ConfigInvalid if the page's port can't be had."""
    if not can_bind(host, port):
        why = "needs root" if port < 1024 and os.geteuid() != 0 else "is taken by another program"
        raise ConfigInvalid(
            f"Port {port} at {host} {why}: choose another one, such as `headway up --port {_suggest(host, port)}`."
        )


def _suggest(host: str, port: int) -> int:
    start = max(port, 8079)
    return next((other for other in range(start + 1, start + 100) if can_bind(host, other)), start + 1)


def gpus_suffice(loaded: LoadedConfig) -> None:
    """Looks at limits that depend on the number of GPUs, where that number is known before anything runs.

    It is known where GPUs are simulated, on a machine that no other can join.

    Raises:
        ConfigInvalid: they rule something out for good.
    """
    config = loaded.config
    reserve = config.task_manager.limits.short_reserve
    if is_public(config):
        return
    sentence = reserve_leaves_none(reserve.gpus, reserve.above, config.worker.simulated_gpus)
    if sentence:
        at = loaded.sources["task_manager.limits.short_reserve.gpus"]
        raise ConfigInvalid(f"{at}: [task_manager.limits.short_reserve] gpus is {reserve.gpus}. {sentence}")


def services_agree(loaded: LoadedConfig) -> None:
    """Asks the code of services that is installed here whether it can take the configuration.

    A check is a function that takes a ``HeadwayConfig``. It is named by the entry points ``headway.config_checks``,
    each under the key of the setting that it looks at, since the kernel imports no service.

    Raises:
        ConfigInvalid: a service can't take its settings, say a policy that is not installed.
    """
    for sentence in refusals(loaded):
        raise ConfigInvalid(sentence)


def refusals(loaded: LoadedConfig) -> Iterator[str]:
    """The sentences of all checks of ``services_agree`` that refuse the configuration, with file and line."""
    for entry in entry_points(group="headway.config_checks"):
        try:
            entry.load()(loaded.config)
        except ConfigInvalid as error:
            source = loaded.sources[entry.name]
            yield str(error) if source == "default" else f"{source}: {error}"


def free_ports(count: int, avoid: Iterable[int]) -> list[int]:
    """Finds so many ports of the loopback that nobody uses, in one row where possible.

    Raises:
        ConfigInvalid: there are none.
    """
    if count == 0:
        return []
    used = set(avoid)
    rows = range(_FIRST_ROW, _LAST_ROW, 10)
    # From a row of chance on: two that start at the same moment would else take the same ports.
    first = secrets.randbelow(len(rows))
    for row in (*rows[first:], *rows[:first]):
        ports = [port for port in range(row, row + count) if port not in used and can_bind("127.0.0.1", port)]
        if len(ports) == count:
            return ports
    raise ConfigInvalid(f"No {count} free ports from {_FIRST_ROW} to {_LAST_ROW}: what uses them all?")


def engine(config: HeadwayConfig) -> None:
    """Asks Docker Engine whether it is there; nothing to ask with the scripted runtime.

    Raises:
        Unavailable: it does not answer; the sentence says what to do.
    """
    if config.worker.runtime != "docker":
        return
    address = config.worker.docker_host or os.environ.get("DOCKER_HOST", "") or f"unix://{_DEFAULT_SOCKET}"
    why = _ping(address)
    if why:
        raise Unavailable(
            f"Docker Engine does not answer at {address} ({why}): start it, or rehearse without containers with "
            "`headway up --runtime scripted`."
        )


def _ping(address: str, timeout_s: float = 10.0) -> str:
    """Why the engine does not answer; empty if it does, or if only the worker can tell."""
    url = urlsplit(address)
    try:
        if url.scheme == "unix":
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            target: str | tuple[str, int] = url.path
        elif url.scheme in ("tcp", "http") and url.hostname and not os.environ.get("DOCKER_TLS_VERIFY"):
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            target = (url.hostname, url.port or 2375)
        else:
            return ""
        with connection:
            connection.settimeout(timeout_s)
            connection.connect(target)
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            answer = connection.recv(64)
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return "" if b" 200 " in answer else "it is not well"
