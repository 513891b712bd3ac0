"""Ports of this machine, and whether the other services can be reached."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Mapping

from ..config.values import split_address
from ..model.findings import Check, ok, problem, warning

_PATIENCE_S = 3.0


def can_bind(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            # Binding alone succeeds beside a listener that lets its address be reused.
            probe.listen(1)
        except OSError:
            return False
    return True


def is_mine(host: str) -> bool:
    """Whether the address, or one that the name has, is this machine's."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(can_bind(str(where[0]), 0) for *_, where in found)


def answers(host: str, port: int) -> str:
    """Why nobody answers there; empty: somebody does. Blocks for 3 s at most."""
    try:
        socket.create_connection((host, port), timeout=_PATIENCE_S).close()
    except TimeoutError:
        return f"no answer within {_PATIENCE_S:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def own_doors(binds: Mapping[str, str], free: Callable[[str, int], bool] = can_bind) -> list[Check]:
    """``binds``: what will listen, and where (HOST:PORT)."""
    found = []
    for what, bind in binds.items():
        if free(*split_address(bind)):
            found.append(ok(f"port of {what}", f"{bind} is free."))
        else:
            found.append(
                warning(
                    f"port of {what}",
                    f"{bind} is taken, or not an address of this machine.",
                    f"If {what} runs already, all is well. Else stop the other program, or set another port.",
                )
            )
    return found


def others_doors(peers: Mapping[str, str], ask: Callable[[str, int], str] = answers) -> list[Check]:
    """``peers``: the services that this machine will call, and where."""
    found = []
    for what, address in peers.items():
        why = ask(*split_address(address))
        if why:
            remedy = f"Start {what} there, and open the port of {address} in the firewalls between."
            found.append(problem(f"way to {what}", f"{address} can't be reached ({why}).", remedy))
        else:
            found.append(ok(f"way to {what}", f"{address} answers."))
    return found


def firewall(rules: str, program: str | None) -> Check:
    """``rules``: `worker.network_rules`. ``program``: where nft is; None: nowhere."""
    name = "firewall"
    if rules == "off":
        return warning(
            name, "Tasks reach this machine and each other (`worker.network_rules` is off).", "See docs/networks.md."
        )
    if program is not None:
        return ok(name, f"{program} sets the rules that keep tasks apart.")
    remedy = "`apt-get install nftables`, then restart the Worker."
    if rules == "required":
        return problem(name, "nft is not installed, so this machine takes no work.", remedy)
    return warning(name, "nft is not installed, so tasks are not kept apart.", remedy)


def firewall_program() -> str | None:
    """Where nft is; None: it is not installed."""
    return shutil.which("nft", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
