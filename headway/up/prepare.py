"""The state folder of `headway up`: lock, token, ports, headway.toml, shared folder. Starts nothing.

The first start writes headway.toml; from then on the file belongs to the person. `up` changes only the keys that an
option names, and the internal ports when another program has taken one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..config import HeadwayConfig, load
from ..config.values import split_address
from ..doctor.network import can_bind
from ..errors import ConfigInvalid
from ..mount import prepare_local, read_marker
from . import checks

_PORT_KEYS = ("httpserver.grpc_bind", "job_manager.bind", "task_manager.bind", "resource_manager.bind", "worker.bind")
# Of these HttpServer's is not opened by `up`: it shows its numbers at the page's port anyway.
_HTTP_METRICS_KEY = "httpserver.metrics_listen"
_METRICS_KEYS = tuple(
    f"{service}.metrics_listen" for service in ("job_manager", "task_manager", "resource_manager", "worker")
)
_STOPPING_WAIT_S = 30.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What the command line asked for; None: leave as it is."""

    port: int | None = None
    mount: Path | None = None
    simulated_gpus: int | None = None
    simulated_gpu_model: str | None = None
    runtime: str | None = None
    metrics: bool = False  # True: all services show their numbers


@dataclass(frozen=True, slots=True)
class PreparedConfig:
    """A state folder that is ready for the five services, locked for this process."""

    state: Path
    config_path: Path
    config: HeadwayConfig
    lock_fd: int
    first: bool

    @property
    def url(self) -> str:
        """The page's address on this machine."""
        http = self.config.httpserver
        scheme = "https" if http.tls_cert else "http"
        host = "127.0.0.1" if http.bind in ("0.0.0.0", "::") else http.bind
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{http.port}"

    @property
    def metrics_urls(self) -> list[str]:
        """Where `GET /metrics` of each service is that shows it; empty: only HttpServer does, at the page's port."""
        doors = [address for key in _METRICS_KEYS if (address := _get(self.config, key))]
        return [f"{self.url}/metrics", *(f"http://{address}/metrics" for address in doors)] if doors else []


def prepare(state: Path, wishes: UpOptions, say: Say = print) -> PreparedConfig:
    """Takes the state folder and makes it whole.

    Raises:
        ConfigInvalid: it is in use, or something in it can't be; one sentence says what to do. Nothing runs then.
    """
    state = state.expanduser().absolute()
    _make_private(state)
    lock_fd = _lock(state, say)
    try:
        return _prepare_locked(state, wishes, lock_fd)
    except BaseException:
        os.close(lock_fd)
        raise


def _prepare_locked(state: Path, wishes: UpOptions, lock_fd: int) -> PreparedConfig:
    config_path = state / "headway.toml"
    first = not config_path.exists()
    _make_token(state / "token")
    _make_private(state / "logs")
    text = _first_config(state, wishes) if first else config_path.read_text("utf-8")
    text = with_keys(text, _changes(state, wishes))
    # Checked as a whole before anything is stored under the real name.
    draft = state / "headway.toml.new"
    _write(draft, text)
    try:
        loaded = load(draft)
        config = loaded.config
        checks.gpus_suffice(loaded)
        checks.services_agree(loaded)
        if config.httpserver.port:
            checks.port_is_free(config.httpserver.bind, config.httpserver.port)
        changes = {**_free_ports(config, metrics=wishes.metrics), **_of_later_versions(config)}
        if changes:
            text = with_keys(text, changes)
            _write(draft, text)
            config = load(draft).config
        used = state / "mount-used"
        known = used.read_text("utf-8").strip() if used.exists() else ""
        prepare_local(config.cluster.mount, config.cluster.name, used_before=known == config.cluster.mount)
        _write(used, f"{config.cluster.mount}\n")
    except ConfigInvalid as error:
        # The draft's lines are those of the file that the person knows.
        draft_name, real_name = str(draft), str(config_path)
        draft.unlink(missing_ok=True)
        raise ConfigInvalid(str(error).replace(draft_name, real_name)) from error
    if first or text != config_path.read_text("utf-8"):
        draft.replace(config_path)
    else:
        draft.unlink()
    return PreparedConfig(state, config_path, config, lock_fd, first)


def again(prepared: PreparedConfig) -> PreparedConfig:
    """Looks at the ports once more, after one was lost to another program at the last moment.

    Raises:
        ConfigInvalid: as for `prepare`.
    """
    fresh = _prepare_locked(prepared.state, UpOptions(), prepared.lock_fd)
    return replace(fresh, first=prepared.first)


def write_lock(prepared: PreparedConfig) -> None:
    """Says in the lock file who runs here, for the next one who tries."""
    content = json.dumps({"pid": os.getpid(), "url": prepared.url}).encode()
    os.ftruncate(prepared.lock_fd, 0)
    os.pwrite(prepared.lock_fd, content, 0)


def with_keys(text: str, changes: Mapping[str, Any]) -> str:
    """The TOML text with these keys set, everything else left byte for byte; keys are `section.key`."""
    lines = text.splitlines()
    for dotted, value in changes.items():
        section, _, key = dotted.rpartition(".")
        _set(lines, section, key, f"{key} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _set(lines: list[str], section: str, key: str, line: str) -> None:
    header = re.compile(rf"\s*\[\s*{re.escape(section)}\s*\]\s*(#.*)?$")
    any_header = re.compile(r"\s*\[")
    begin = next((i for i, text in enumerate(lines) if header.match(text)), None)
    if begin is None:
        lines += ["", f"[{section}]", line]
        return
    end = next((i for i in range(begin + 1, len(lines)) if any_header.match(lines[i])), len(lines))
    for i in range(begin + 1, end):
        if re.match(rf"\s*{re.escape(key)}\s*=", lines[i]):
            lines[i] = line
            return
    while end > begin + 1 and not lines[end - 1].strip():
        end -= 1
    lines.insert(end, line)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # JSON strings are TOML basic strings.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _first_config(state: Path, wishes: UpOptions) -> str:
    mount = wishes.mount.expanduser().absolute() if wishes.mount else state / "mount"
    # A folder that was used with another state folder keeps its cluster's name.
    name = read_marker(mount) or f"local-{secrets.token_hex(3)}"
    return "\n".join(
        [
            "# Written by the first `headway up`; yours to change from then on. All keys: docs/configuration.md.",
            "",
            "[cluster]",
            f"name = {_toml(name)}",
            'token_file = "token"',
            'state_dir = "."',
            f"mount = {_toml('mount' if wishes.mount is None else str(mount))}",
            "",
            "[httpserver]",
            f"port = {wishes.port if wishes.port is not None else 8080}",
            'first_admin_file = "first-admin"',
            "",
            "[worker]",
            'runtime = "docker"',
            "local_images = true",
            'network_rules = "wanted"',
            "",
            "[log]",
            'file = "logs/{service}.log"',
            'format = "text"',
            "",
        ]
    )


def _changes(state: Path, wishes: UpOptions) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if wishes.port is not None:
        changes["httpserver.port"] = wishes.port
    if wishes.mount is not None:
        changes["cluster.mount"] = str(wishes.mount.expanduser().absolute())
    if wishes.simulated_gpus is not None:
        changes["worker.simulated_gpus"] = wishes.simulated_gpus
    if wishes.simulated_gpu_model is not None:
        changes["worker.simulated_gpu_model"] = wishes.simulated_gpu_model
    if wishes.runtime is not None:
        changes["worker.runtime"] = wishes.runtime
        changes["cluster.simulated"] = wishes.runtime == "scripted"
    return changes


def _of_later_versions(config: HeadwayConfig) -> dict[str, str]:
    """What a first start writes today, and a folder of an older version lacks."""
    if "network_rules" in config.worker.model_fields_set:
        return {}
    return {"worker.network_rules": "wanted"}


def _free_ports(config: HeadwayConfig, *, metrics: bool) -> dict[str, str]:
    """New addresses for the internal doors whose port another program has taken, or that are to be opened now."""
    avoid = {config.httpserver.port}
    taken = []
    for key in (*_PORT_KEYS, *_METRICS_KEYS, _HTTP_METRICS_KEY):
        address = _get(config, key)
        if not address:
            if metrics and key != _HTTP_METRICS_KEY:
                taken.append((key, "127.0.0.1"))
            continue
        host, port = split_address(address)
        if port in avoid or not can_bind(host, port):
            taken.append((key, host))
        avoid.add(port)
    ports = checks.free_ports(len(taken), avoid)
    return {
        key: f"{f'[{host}]' if ':' in host else host}:{port}" for (key, host), port in zip(taken, ports, strict=True)
    }


def _get(config: HeadwayConfig, key: str) -> str:
    section, _, leaf = key.partition(".")
    return str(getattr(getattr(config, section), leaf))


def _lock(state: Path, say: Say) -> int:
    # The services inherit this descriptor: the lock is held until the last of them is gone, also when `up` itself
    # was killed.
    fd = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    give_up_at = time.monotonic() + _STOPPING_WAIT_S
    told = False
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(fd)
            pid = holder.get("pid", 0)
            if pid and _is_headway(pid):
                os.close(fd)
                raise ConfigInvalid(
                    f"Headway already runs on {state} (process {pid}, {holder.get('url', 'starting')}): use that one, "
                    f"stop it with `kill {pid}`, or choose another folder with --state."
                ) from None
            if time.monotonic() > give_up_at:
                os.close(fd)
                raise ConfigInvalid(
                    f"Services of an earlier `headway up` on {state} have not stopped: end them by hand, then try "
                    "again."
                ) from None
            if not told:
                say("An earlier run on this folder is still stopping; waiting for it.")
                told = True
            time.sleep(0.2)
        else:
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid()}).encode(), 0)
            return fd


def _holder(fd: int) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(os.pread(fd, 4_096, 0))
        if isinstance(found, dict) and isinstance(found.get("pid"), int):
            return found
    return {}


def _is_headway(pid: int) -> bool:
    try:
        return b"headway" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _make_private(folder: Path) -> None:
    try:
        if not folder.exists():
            folder.mkdir(parents=True, mode=0o700)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigInvalid(f"{folder} can't be written by this user: choose another folder with --state.")
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(0o700)
    except OSError as error:
        raise ConfigInvalid(f"{folder} can't be made: {error.strerror}. Choose another folder with --state.") from error


def _make_token(path: Path) -> None:
    if not path.exists():
        _write(path, f"{secrets.token_hex(32)}\n")


def _write(path: Path, text: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
    except OSError as error:
        raise ConfigInvalid(f"{path} can't be written: {error.strerror}.") from error
