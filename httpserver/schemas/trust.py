"""Invitations, machines that join, and certificates."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import ApiRequest, ApiResponse

Role = Literal["worker", "job_manager", "task_manager"]


class InvitationCreate(ApiRequest):
    role: Role = Field("worker", description="what the machine will run")
    name: str = Field("", max_length=63, description="of the node, for a worker; empty: the machine says it")
    expires_in_s: float = Field(3_600.0, ge=60, le=7 * 86_400)


class Invitation(ApiResponse):
    """A token by which one machine joins, without its value."""

    id: str
    role: str
    name: str = Field(description="of the node; empty: the machine says it")
    by: str = Field(description="who made it")
    made_at: float
    expires_at: float
    used_at: float | None = Field(description="null: not yet")
    used_as: str = Field(description="the name under which a machine joined by it; empty: none did")


class InvitationCreated(Invitation):
    token: str = Field(description="for `headway join`; never shown again")


class InvitationList(ApiResponse):
    invitations: list[Invitation]


class MachineJoin(ApiRequest):
    """What a machine sends (ADR 59). No secret is in it: `proof` is a code over all the rest, made with the token."""

    cluster: str = Field(max_length=63)
    token_id: str = Field(max_length=32)
    csr: str = Field(max_length=8_192, description="PEM; only its public key counts")
    nonce: str = Field(min_length=16, max_length=64, description="new for every request")
    at: float = Field(description="the machine's own clock")
    version: str = Field(max_length=64, description="of Headway on the machine")
    name: str = Field("", max_length=63, description="the node's name that a person gave it")
    host: str = Field("", max_length=63, description="its name where nobody gave one")
    renew: bool = Field(False, description="it was this node before")
    look: bool = Field(False, description="only say whether it could join; nothing changes")
    proof: str = Field(max_length=64)


class MachineJoined(ApiResponse):
    """`proof` is a code over all the rest and the request: so the machine knows who answered."""

    certificate: str = Field(description="PEM; empty after a look")
    ca: str = Field(description="PEM: whom to believe")
    settings: str = Field(description="JSON: role, name, the cluster's clock, and the keys that its headway.toml needs")
    version: str = Field(description="of Headway in the cluster")
    proof: str


class Certificate(ApiResponse):
    serial: str = Field(description="hex")
    role: str
    name: str
    valid_from_at: float
    expires_at: float
    origin: str = Field(description="`init`, `join` or `renew`")
    invitation: str = Field(description="id of the token by which it came; empty: by none")
    revoked_at: float | None = Field(description="null: it was not revoked")
    revoked_by: str


class CertificateList(ApiResponse):
    certificates: list[Certificate]


class CertificatesRevoke(ApiRequest):
    which: str = Field(
        min_length=1,
        max_length=128,
        description="a serial, a node's name (all of its certificates), or a manager's role",
    )


class CertificatesRevoked(ApiResponse):
    certificates: list[Certificate] = Field(description="those that count no more")
    cordoned: list[str] = Field(description="nodes that get no new work from now on")
