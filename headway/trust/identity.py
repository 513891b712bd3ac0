"""Who a service is, as its certificate says it. Pure.

A certificate names one service of one cluster. It says so twice:

* as a URI, `headway://CLUSTER/ROLE/NAME`, which the called service reads: who calls;
* as a DNS name, `NAME.ROLE.CLUSTER.headway`, which the calling service asks for: whom it reached. It has `-` where the
  role has `_`. No network knows these names, so a certificate stays good when a machine gets another address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

_URI = re.compile(r"headway://([A-Za-z0-9][A-Za-z0-9._-]{0,62})/([a-z_]+)/([A-Za-z0-9][A-Za-z0-9._-]{0,62})")


class Role(StrEnum):
    """What a service is. Each has a certificate of its own, also where several stand on one machine."""

    HTTP_SERVER = "http_server"
    JOB_MANAGER = "job_manager"
    TASK_MANAGER = "task_manager"
    RESOURCE_MANAGER = "resource_manager"
    WORKER = "worker"


MANAGERS = frozenset(Role) - {Role.WORKER}


@dataclass(frozen=True, slots=True)
class Identity:
    """One service of one cluster.

    ``name`` is the node's name of a Worker. Of another service it is `main`: there is one of each.
    """

    cluster: str
    role: Role
    name: str = "main"

    @property
    def uri(self) -> str:
        return f"headway://{self.cluster}/{self.role}/{self.name}"

    @property
    def dns_name(self) -> str:
        return f"{self.name}.{self.role.replace('_', '-')}.{self.cluster}.headway".lower()

    def __str__(self) -> str:
        return f"{self.role} {self.name}" if self.role is Role.WORKER else self.role


def identity_of(uris: Iterable[str]) -> Identity | None:
    """The identity that a certificate's URIs tell; None: it has none, or more than one."""
    found = [match for uri in uris if uri.startswith("headway://") and (match := _URI.fullmatch(uri))]
    if len(found) != 1 or found[0][2] not in set(Role):
        return None
    return Identity(found[0][1], Role(found[0][2]), found[0][3])
