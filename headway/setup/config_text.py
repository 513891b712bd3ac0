"""The headway.toml that `init` and `join` write. Pure."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InvalidInput
from ..trust.identity import MANAGERS, Role

PORTS = {
    Role.HTTP_SERVER: 7_000,
    Role.JOB_MANAGER: 7_001,
    Role.TASK_MANAGER: 7_002,
    Role.RESOURCE_MANAGER: 7_003,
    Role.WORKER: 7_004,
}
PAGE_PORT = 8_080
_BIND_KEYS = {
    Role.HTTP_SERVER: "httpserver.grpc_bind",
    Role.JOB_MANAGER: "job_manager.bind",
    Role.TASK_MANAGER: "task_manager.bind",
    Role.RESOURCE_MANAGER: "resource_manager.bind",
    Role.WORKER: "worker.bind",
}
# Machines join through these, so they are where the authority is.
STAY = frozenset({Role.HTTP_SERVER, Role.RESOURCE_MANAGER})


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def first_machine(
    *,
    cluster: str,
    host: str,
    state: str,
    mount: str,
    roles: Iterable[Role],
    elsewhere: Mapping[Role, str],
    node: str,
    behind_proxy: str,
    tls: tuple[str, str] | None,
) -> dict[str, Any]:
    """Keys such as `cluster.name` with their values, for the machine of `headway init`."""
    found: dict[str, Any] = {
        "cluster.name": cluster,
        "cluster.trust_dir": f"{state}/trust",
        "cluster.state_dir": state,
        "cluster.mount": mount,
        "httpserver.bind": host,
        "httpserver.port": PAGE_PORT,
        "httpserver.first_admin_file": f"{state}/first-admin",
    }
    if behind_proxy:
        found["httpserver.behind_proxy"] = [behind_proxy]
    elif tls:
        found["httpserver.tls_cert"], found["httpserver.tls_key"] = tls
    wanted = set(roles)
    for role in sorted(wanted):
        found[_BIND_KEYS[role]] = address(host, PORTS[role])
    if Role.WORKER in wanted:
        found["worker.node_id"] = node
    for role, where in sorted(elsewhere.items()):
        found[f"peers.{role}"] = where
    return found


def joined_machine(*, role: Role, name: str, where: str, state: str, shared: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a machine of `headway join`. ``shared`` came from the cluster; ``where``: HOST:PORT of its door."""
    found = {key: value for key, value in shared.items() if key.startswith(("cluster.", "peers."))}
    found |= {"cluster.trust_dir": f"{state}/trust", "cluster.state_dir": state, _BIND_KEYS[role]: where}
    if role is Role.WORKER:
        found |= {"worker.node_id": name}
    return found


def door_of(role: Role, shared: Mapping[str, Any]) -> str:
    """Where the cluster looks for a manager; empty for a Worker, which tells its own address."""
    return str(shared.get(f"peers.{role}", "")) if role in MANAGERS else ""


def read_setting(text: str) -> tuple[str, Any]:
    """`KEY=VALUE` of the command line: VALUE as in the file, or a text without its quotes.

    Raises:
        InvalidInput: it has another form.
    """
    key, sign, value = text.partition("=")
    if not sign or "." not in key:
        raise InvalidInput(f"{text[:80]!r} is no setting: write it as in worker.runtime=scripted.")
    try:
        return key.strip(), tomllib.loads(f"v = {value}")["v"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value


def text_of(command: str, settings: Mapping[str, Any]) -> str:
    """The file. Sections stand in the order in which their first keys come."""
    sections: dict[str, list[str]] = {}
    for dotted, value in settings.items():
        section, _, key = dotted.rpartition(".")
        sections.setdefault(section, []).append(f"{key} = {_toml(value)}")
    lines = [f"# Written by `headway {command}`; yours to change from then on. All keys: docs/configuration.md."]
    for name, keys in sections.items():
        lines += ["", f"[{name}]", *keys]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(one) for one in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(str(key))} = {_toml(one)}' for key, one in value.items())}}}"
    # JSON strings are TOML basic strings.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
