"""Network namespaces as the networks of machines, and a switch that joins them.

Each namespace is held by a descriptor alone, so none is left behind. Nothing here touches the machine's own network.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.namespaces import new_network_namespace

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """One network namespace."""

    def __init__(self) -> None:
        self.descriptor = new_network_namespace()

    @property
    def path(self) -> str:
        """By which other programs find it as long as this process lives."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def words(self, *command: str) -> list[str]:
        """A command, to be run inside."""
        return ["nsenter", f"--net={self.path}", "--", *command]

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a command inside and waits.

        Raises:
            RuntimeError: it failed, and ``check`` is set.
        """
        done = subprocess.run(self.words(*command), capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr or done.stdout}")
        return done

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This thread, and those that it starts, open their sockets inside."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(self.descriptor)
            yield
        finally:
            _enter(before)
            os.close(before)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Switch:
    """A bridge in a namespace of its own."""

    def __init__(self) -> None:
        self._hub = Namespace()
        self._hub.run("ip", "link", "add", "hub", "type", "bridge")
        self._hub.run("ip", "link", "set", "hub", "up")
        self._ports = 0

    def join(self, namespace: Namespace, address: str) -> None:
        """Gives a namespace an interface ``eth0`` with this address, such as 10.79.0.2/24, and a line to all others."""
        port = f"p{self._ports}"
        self._ports += 1
        peer = ["peer", "name", "eth0", "netns", namespace.path]
        self._hub.run("ip", "link", "add", port, "type", "veth", *peer)
        self._hub.run("ip", "link", "set", port, "master", "hub", "up")
        namespace.run("ip", "addr", "add", address, "dev", "eth0")
        namespace.run("ip", "link", "set", "eth0", "up")

    def close(self) -> None:
        self._hub.close()


class Line:
    """What can go wrong on the line of one namespace. Each fault is undone by :meth:`heal` alone."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def cut(self, *, inbound: bool = True, outbound: bool = True, peers: Sequence[str] = ()) -> None:
        """Drops what comes, what goes, or both; with ``peers`` only what comes from or goes to these addresses."""
        rules = ["table inet faults {"]
        if inbound:
            rules += _dropping("input", "saddr", peers)
        if outbound:
            rules += _dropping("output", "daddr", peers)
        self._load("\n".join([*rules, "}"]))

    def unplug(self) -> None:
        """Takes the link down, as a pulled cable does."""
        self._namespace.run("ip", "link", "set", "eth0", "down")

    def slow(self, *, kbit: int, delay_ms: int, loss_percent: int) -> None:
        """Makes it slow and lossy. A kernel without netem has the rate and the loss, and delays by queueing."""
        done = self._namespace.run(
            *("tc", "qdisc", "replace", "dev", "eth0", "root", "netem"),
            *("delay", f"{delay_ms}ms", f"{delay_ms // 3}ms", "rate", f"{kbit}kbit", "limit", "2000"),
            check=False,
        )
        if done.returncode != 0:
            rate = ("rate", f"{kbit}kbit", "burst", "16kb", "latency", f"{max(400, delay_ms * 4)}ms")
            self._namespace.run("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *rate)
        loss = f"numgen random mod 100 < {loss_percent} drop"
        chains = "".join(
            f"chain {hook} {{ type filter hook {hook} priority -200; {word} eth0 {loss}; }}\n"
            for hook, word in (("input", "iifname"), ("output", "oifname"))
        )
        self._load(f"table inet faults {{\n{chains}}}")

    def heal(self) -> None:
        """Undoes all of it."""
        self._namespace.run("ip", "link", "set", "eth0", "up")
        self._namespace.run("nft", "delete", "table", "inet", "faults", check=False)
        self._namespace.run("tc", "qdisc", "delete", "dev", "eth0", "root", check=False)

    def _load(self, rules: str) -> None:
        command = self._namespace.words("nft", "-f", "-")
        done = subprocess.run(command, input=rules, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"nft refused the rules: {done.stderr}\n{rules}")


def _dropping(hook: str, field: str, peers: Sequence[str]) -> list[str]:
    name = "iifname" if hook == "input" else "oifname"
    of = f"ip {field} {{ {', '.join(peers)} }} " if peers else ""
    # Before all else, so that neither an engine's rules nor a Worker's let it pass.
    return [f"chain {hook} {{ type filter hook {hook} priority -200; {name} eth0 {of}drop; }}"]


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(Path("/proc/self/fd") / str(descriptor)))
