"""Network namespaces that can't be left behind."""

from __future__ import annotations

import os
import subprocess


def new_network_namespace(more: str = "true") -> int:
    """A network namespace with its loopback up, held by nothing but the descriptor that this returns.

    Args:
        more: a shell command to run inside first, for further interfaces.

    Raises:
        RuntimeError: it could not be set up.
    """
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", f"ip link set lo up && {more} && echo up && read _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        if holder.stdout.readline() != b"up\n":
            raise RuntimeError("the network namespace could not be set up")
        descriptor = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        holder.stdin.close()
        holder.wait()
    return descriptor
