"""By what the services of a lab know each other: a certificate for each machine, or one token."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from headway.trust.authority import Authority, authority_paths, key_pem, make_authority, make_csr, make_key
from headway.trust.files import TrustFiles, write_private
from headway.trust.identity import Identity, Role

from .machine import Machine

_MANAGERS = {
    "httpserver": Role.HTTP_SERVER,
    "job_manager": Role.JOB_MANAGER,
    "task_manager": Role.TASK_MANAGER,
    "resource_manager": Role.RESOURCE_MANAGER,
}
# A cluster is mostly older than a clock is off: a machine whose clock is set back takes its certificates still.
_SIGNED_AGO_S = 86_400.0


def authority_of(folder: Path) -> Authority:
    """A cluster's authority, of yesterday. ``folder`` is of ResourceManager's machine, where its key lies."""
    began_at = time.time() - _SIGNED_AGO_S
    key, certificate = make_authority("headway", lambda: began_at)
    for path, content in zip(authority_paths(TrustFiles(folder / "trust")), (key, certificate), strict=True):
        write_private(path, content)
    return Authority(key, certificate, lambda: began_at)


def certified(machine: Machine, authority: Authority) -> dict[str, Any]:
    """Gives a machine the certificate of its one service; the settings that name it."""
    files = TrustFiles(machine.folder / "trust")
    role = _MANAGERS.get(machine.name, Role.WORKER)
    key = make_key()
    identity = Identity(authority.cluster, role, machine.name if role is Role.WORKER else "main")
    write_private(files.ca, authority.certificate_pem)
    write_private(files.key(role), key_pem(key))
    write_private(files.certificate(role), authority.sign(make_csr(key), identity))
    return {"cluster.trust_dir": files.folder}


def with_token(machine: Machine, token: str) -> dict[str, Any]:
    """Gives a machine the cluster's token; the settings that name it."""
    file = machine.folder / "token"
    file.write_text(token)
    file.chmod(0o600)
    return {"cluster.token_file": file, "cluster.insecure_network": True}
