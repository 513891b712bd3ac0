"""The launcher's spec, the file `run/spec`: what to start and how."""

from __future__ import annotations

import hashlib
import os

from .files import decode_value, encode_value, open_regular, write_atomic
from .layout import Box
from .records import BoxError, LaunchSpec, LogLimitAction, SecretPlace


def render_spec(spec: LaunchSpec) -> bytes:
    """The bytes of `spec`. Raises ValueError for a value that no process can have."""
    if not spec.args:
        raise ValueError("a program needs at least one argument, its own name")
    lines: list[tuple[str, str]] = [("arg", arg) for arg in spec.args]
    for name, value in spec.env.items():
        if not name or "=" in name:
            raise ValueError(f"not a name of an environment variable: {name!r}")
        lines.append(("env", f"{name}={value}"))
    lines += [
        ("workdir", spec.workdir),
        ("user", spec.user),
        ("timeout_ms", str(spec.timeout_ms)),
        ("grace_ms", str(spec.grace_ms)),
        ("lease_grace_ms", str(spec.lease_grace_ms)),
        ("log_limit_bytes", str(spec.log_limit_bytes)),
        ("log_limit_action", spec.log_limit_action.value),
        ("drop_caps", str(int(spec.drop_caps))),
        ("open_root", str(int(spec.open_root))),
        ("place", spec.place),
        *(("mount", path) for path in spec.mounts),
        *(("secret_file" if one.is_file else "secret_env", one.name) for one in spec.secrets),
    ]
    optional = (("passwd_line", spec.passwd_line), ("group_line", spec.group_line), ("home", spec.home))
    lines += [(key, value) for key, value in optional if value is not None]
    return b"".join(key.encode("ascii") + b"=" + encode_value(value) + b"\n" for key, value in lines)


def parse_spec(data: bytes) -> LaunchSpec:
    """The spec in these bytes. Raises BoxError."""
    args: list[str] = []
    mounts: list[str] = []
    secrets: list[SecretPlace] = []
    env: dict[str, str] = {}
    single: dict[str, str] = {}
    for line in data.splitlines():
        key_bytes, equals, raw = line.partition(b"=")
        key, value = key_bytes.decode("ascii", "replace"), decode_value(raw)
        if not equals:
            raise BoxError(f"a line of the spec has no value: {line!r}")
        if key == "arg":
            args.append(value)
        elif key == "env":
            name, _, text = value.partition("=")
            env[name] = text
        elif key == "mount":
            mounts.append(value)
        elif key in ("secret_env", "secret_file"):
            secrets.append(SecretPlace(value, is_file=key == "secret_file"))
        else:
            single[key] = value
    try:
        return LaunchSpec(
            args=tuple(args),
            env=env,
            workdir=single["workdir"],
            user=single["user"],
            timeout_ms=int(single["timeout_ms"]),
            grace_ms=int(single["grace_ms"]),
            lease_grace_ms=int(single["lease_grace_ms"]),
            log_limit_bytes=int(single["log_limit_bytes"]),
            log_limit_action=LogLimitAction(single["log_limit_action"]),
            drop_caps=single["drop_caps"] == "1",
            open_root=single["open_root"] == "1",
            passwd_line=single.get("passwd_line"),
            group_line=single.get("group_line"),
            home=single.get("home"),
            place=single.get("place", ""),
            mounts=tuple(mounts),
            secrets=tuple(secrets),
        )
    except (KeyError, ValueError) as error:
        raise BoxError(f"the spec is incomplete or wrong: {error}") from error


def spec_digest(data: bytes) -> str:
    """By what the launcher knows the spec of its Worker."""
    return hashlib.sha256(data).hexdigest()


def write_spec(box: Box, spec: LaunchSpec) -> None:
    """Write the launcher's input. Raises ValueError for a spec no process can have, and OSError."""
    write_atomic(box.spec, render_spec(spec))


def spec_bytes(box: Box) -> bytes:
    """The launcher's input as it lies in the box. Raises OSError."""
    with os.fdopen(open_regular(box.spec), "rb") as file:
        return file.read()


def read_spec(box: Box) -> LaunchSpec:
    """Read the launcher's input back. Raises BoxError, or FileNotFoundError if there is none."""
    return parse_spec(spec_bytes(box))
