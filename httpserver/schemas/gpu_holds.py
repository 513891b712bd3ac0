"""Bodies for GPUs that a person's own process on a machine holds."""

from __future__ import annotations

from pydantic import Field

from .base import ApiRequest, ApiResponse


class GpuHoldRequest(ApiRequest):
    """GPUs of one machine, for a process there."""

    node: str = Field(max_length=64, description="the machine, as its worker's socket tells it")
    cluster: str = Field("", max_length=64, description="the cluster, as the socket tells it")
    gpus: int = Field(ge=1, le=1_024)
    models: list[str] = Field(default_factory=list, max_length=32, description="any of these; empty: any model")
    ids: list[str] = Field(default_factory=list, max_length=1_024, description="exactly these UUIDs; empty: any")
    timeout: str = Field(max_length=64, description="how long it may hold them, such as 2h; waiting is free")
    grace: str = Field("10s", max_length=64, description="from TERM to KILL at the timeout")
    name: str = Field("", max_length=200, description="the job's name; empty: `on NODE`")
    command: list[str] = Field(default_factory=list, max_length=100, description="what will run, for people who look")
    key_hash: str = Field(
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of a secret that the process shows to the worker; the same one answers the same job",
    )


class GpuHold(ApiResponse):
    job_id: str
    task: str
