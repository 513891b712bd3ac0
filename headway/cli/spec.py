"""What a task is, for people: its command, environment, needs, limits and folders."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from typing import Any

from .common import safe


def spec_lines(spec: dict[str, Any]) -> Iterator[str]:
    """The lines of ``headway show JOB/TASK``, in the words of a job file."""
    yield ""
    command = spec["command"]
    if isinstance(command, str):
        yield f"command, a script for {spec['shell']}:"
        for line in command.rstrip("\n").split("\n"):
            yield f"  {safe(line.expandtabs())}"
    else:
        # As a shell would take it, so that blanks within an argument are seen.
        yield f"command: {safe(shlex.join(command))}"
    if spec["env"]:
        yield "env:"
        yield from (f"  {safe(name)}={safe(value)}" for name, value in spec["env"].items())
    for name, value in _facts(spec):
        yield f"{name}: {safe(value)}"


def _models(resources: dict[str, Any]) -> str:
    return f" {' or '.join(resources['gpu_model'])}" if resources["gpu_model"] else ""


def _facts(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    needs, resources = spec["needs"], spec["resources"]
    if not spec["image"]:
        asked = f"{resources['gpus']} GPU{'' if resources['gpus'] == 1 else 's'}"
        yield "runs", "on the machine itself, without a container (`headway gpu run`)"
        yield "resources", asked + "".join(f" {model}" for model in (" or ".join(resources["gpu_model"]),) if model)
        yield "limits", f"timeout {spec['timeout']}, grace {spec['grace']}"
        return
    if needs:
        named = [f"{task} ({on})" for task, on in needs.items()] if isinstance(needs, dict) else needs
        yield "needs", ", ".join(named)
    yield "image", spec["image"] + ("" if spec["entrypoint"] == "replace" else f" (entrypoint: {spec['entrypoint']})")
    asked = f"{resources['cpus']:g} CPU, {resources['memory']} memory, {resources['shm']} shm"
    if resources["gpus"]:
        models = _models(resources)
        least = f" of {resources['gpu_memory']}" if resources["gpu_memory"] else ""
        asked += f", {resources['gpus']}{models} GPU{'' if resources['gpus'] == 1 else 's'}{least}"
    if resources.get("gpu_share"):
        asked += f", {resources['gpu_share']} of one{_models(resources)} GPU that is shared"
    yield "resources", asked
    yield (
        "limits",
        f"timeout {spec['timeout']}, grace {spec['grace']}, log {spec['log_limit']} ({spec['log_limit_action']})",
    )
    if spec["secrets"]:
        yield "secrets", ", ".join(map(_secret, spec["secrets"]))
    if spec["ulimits"]:
        yield "ulimits", ", ".join(f"{name}={_limit(value)}" for name, value in spec["ulimits"].items())
    yield "retries", str(spec["retries"])
    yield "working_dir", spec["working_dir"] or ("/root/code" if spec["code"] else "the image's")
    if spec["code"]:
        yield "code", f"{spec['code']} at /root/code"
    for name in spec["datasets"]:
        yield "dataset", f"{name} at /root/datasets/{name.partition('@')[0]}"
    if spec["output_path"]:
        yield "output_path", spec["output_path"]
    yield "network", spec["network"]
    yield "user", spec["user"]


def _secret(use: Any) -> str:
    if isinstance(use, str):
        return use
    return f"{use['name']} as {'/run/secrets/' + use['file'] if use.get('file') else use.get('env', '')}"


def _limit(value: Any) -> str:
    return f"{value['soft']}:{value['hard']}" if isinstance(value, dict) else str(value)


def end_fact(reason: dict[str, Any]) -> str:
    """Exit code and signal of an end, as facts beside its sentence; empty: it has none."""
    facts = []
    if reason.get("exit_code") is not None:
        facts.append(f"exit code {reason['exit_code']}")
    if reason.get("signal") is not None:
        number = reason["signal"]
        try:
            facts.append(f"signal {number} ({signal.Signals(number).name})")
        except ValueError:
            facts.append(f"signal {number}")
    return ", ".join(facts)
