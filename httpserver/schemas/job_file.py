"""A job file, for people and generated clients.

The document itself is read by headway.jobfile, which tells every problem with its place; these models are the contract
and are not used to read.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import ApiRequest, NeedOn, Priority


class JobFileResources(ApiRequest):
    cpus: float | None = None
    memory: str | None = Field(None, examples=["4GiB"])
    shm: str | None = None
    gpus: int | None = None
    gpu_model: str | list[str] | None = None
    gpu_memory: str | None = None


class JobFileDefaults(ApiRequest):
    image: str | None = None
    command: str | list[str] | None = Field(None, description="text: a script run by `shell`; list: run as is")
    shell: Literal["sh", "bash"] | None = None
    entrypoint: Literal["replace", "image"] | None = None
    env: dict[str, str] | None = None
    working_dir: str | None = None
    code: str | None = Field(None, description="digest of a snapshot (POST /code), seen read-only at /root/code")
    datasets: list[str] | None = Field(None, description="NAME, or NAME@VERSION", examples=[["mnist"], ["mnist@2"]])
    resources: JobFileResources | None = None
    timeout: str | None = Field(None, examples=["30m"], description="of run time; required here or in defaults")
    grace: str | None = None
    retries: int | None = None
    user: Literal["account", "image"] | None = None
    network: Literal["outgoing", "none"] | None = None
    output_path: str | None = None
    log_limit: str | None = None
    log_limit_action: Literal["drop", "kill"] | None = None


class JobFileTask(JobFileDefaults):
    name: str
    needs: list[str] | dict[str, NeedOn] | None = None


class JobFile(ApiRequest):
    """A job file; docs/interfaces.md says what each field means."""

    version: Literal[1]
    name: str
    priority: Priority | None = None
    defaults: JobFileDefaults | None = None
    tasks: list[JobFileTask]
