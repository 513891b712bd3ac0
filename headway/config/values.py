"""Kinds of values in headway.toml. Each refuses with a clause that reads on after the key: "… must be …"."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from .. import plugins
from ..ids import is_account_name
from ..model.retention import MOST_DAYS
from ..units import MAX_DURATION_S, BadValue, format_duration, parse_duration, parse_size

_HOST_PORT = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>\d{1,5})")
_WIDEST = {4: 16, 6: 48}  # networks of proxies
_MOST = 2**63 - 1
_LONGEST_S = 100 * MAX_DURATION_S
_GPU = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_NODE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_WIDEST_REACH = 8  # of networks that are named for tasks
_NARROWEST = 22  # for the networks of jobs
NEVER_REACHED = tuple(
    ipaddress.IPv4Network(text) for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4")
)
"""This machine itself, link-local addresses (metadata services among them), multicast and what nobody has."""
METADATA = tuple(ipaddress.IPv4Network(text) for text in ("100.100.100.200/32", "168.63.129.16/32"))
"""Metadata services of clouds (Alibaba, Azure) that are not at a link-local address."""
PRIVATE = tuple(
    ipaddress.IPv4Network(text)
    for text in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15")
)
"""Addresses of machines inside."""
_LONGEST_SOCKET_PATH = 107  # of a Unix socket, in bytes (unix(7))
_REGISTRY = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")


def split_address(text: str) -> tuple[str, int]:
    """`HOST:PORT` or `[IPV6]:PORT` in two.

    Raises:
        ValueError: it has another form.
    """
    found = _HOST_PORT.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise ValueError(f"must be HOST:PORT, such as 127.0.0.1:7001, and not {text!r}")
    return found["six"] or found["host"], int(found["port"])


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can connect to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Whether `host` means all addresses of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def checked_number(value: Any, kind: Any) -> Any:
    """The value of a field of this kind, where no number stands for another thing.

    Raises:
        ValueError: a truth value where a number belongs, or a whole number that no database holds.
    """
    if kind in (int, float) and isinstance(value, bool):
        raise ValueError(f"must be a number, and not {str(value).lower()}")
    if kind is int and isinstance(value, int | float) and _MOST < abs(value) < float("inf"):
        raise ValueError(f"must be at most {_MOST}, and not {value!r}")
    return value


def _seconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        pass
    try:
        return parse_duration(value)
    except BadValue as error:
        raise ValueError(error.message) from error


def _duration(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f'must be a text with a unit, such as "90s", "2h" or "7d", and not {value!r}')
    try:
        return parse_duration(value)
    except BadValue as error:
        raise ValueError(error.message) from error


def _bytes(value: Any) -> Any:
    if isinstance(value, str) and not value.isdecimal():
        try:
            return parse_size(value)
        except BadValue as error:
            raise ValueError(error.message) from error
    return value


def _finite_positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError("must be above 0")
    return _not_endless(value)


def _not_endless(value: float) -> float:
    if value > _LONGEST_S:
        raise ValueError(f"must be at most {format_duration(_LONGEST_S)}")
    return value


def _not_negative(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise ValueError("must not be negative")
    return value


def _address(text: str) -> str:
    split_address(text)
    return text


def _optional_address(text: str) -> str:
    return _address(text) if text else text


def _host(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        if text != "localhost":
            raise ValueError(f"must be an IP address of this machine, such as 127.0.0.1, and not {text!r}") from None
    return text


def _network(text: str) -> str:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"must be IP addresses or networks of proxies (10.0.0.7, 10.0.0.0/24), not {text!r}") from None
    if network.prefixlen < _WIDEST[network.version]:
        raise ValueError(
            f"must name the proxies themselves (10.0.0.7, 10.0.0.0/24): {text!r} is so wide that anybody could be one"
        )
    return str(network)


def split_reach(text: str) -> tuple[ipaddress.IPv4Network, int | None]:
    """`ADDRESS`, `NETWORK`, `ADDRESS:PORT` or `NETWORK:PORT` in two: what tasks may reach.

    Raises:
        ValueError: it has another form, or names what tasks never reach.
    """
    place, colon, port = text.partition(":")
    try:
        network = ipaddress.IPv4Network(place, strict=True)
    except ValueError:
        raise ValueError(
            f"must be IPv4 addresses or networks, with a port if any (10.1.2.3:27000, 10.4.0.0/16), not {text!r}: a "
            "name may mean another address tomorrow, so write the address that it has"
        ) from None
    if colon and not (port.isascii() and port.isdecimal() and 0 < int(port) <= 65_535):
        raise ValueError(f"must have a port from 1 to 65535 behind the colon, not {text!r}")
    if network.prefixlen < _WIDEST_REACH:
        raise ValueError(f"must name networks of /{_WIDEST_REACH} or smaller, not {text!r}")
    if any(network.overlaps(never) for never in NEVER_REACHED):
        raise ValueError(
            f"must not name loopback, link-local or multicast addresses, not {text!r}: no task reaches them"
        )
    return network, int(port) if colon else None


def _reach(text: str) -> str:
    split_reach(text)
    return text


def _job_range(text: str) -> str:
    try:
        network = ipaddress.IPv4Network(text, strict=True)
    except ValueError:
        raise ValueError(f"must be an IPv4 network such as 10.213.0.0/16, and not {text!r}") from None
    if not _WIDEST_REACH <= network.prefixlen <= _NARROWEST:
        raise ValueError(
            f"must be a network of /{_WIDEST_REACH} to /{_NARROWEST}, and not {text!r}: each job gets a part"
        )
    if not any(network.subnet_of(private) for private in PRIVATE):
        raise ValueError(f"must be a network of private addresses such as 10.213.0.0/16, and not {text!r}")
    return text


def _registry_host(text: str) -> str:
    if not _REGISTRY.fullmatch(text):
        raise ValueError(f"must be hosts of registries, with the port if any (docker.io, 10.0.0.7:5000), not {text!r}")
    return text.lower()


def _node_name(text: str) -> str:
    if text and not _NODE.fullmatch(text):
        raise ValueError(f"must be small letters, digits, '.', '_' and '-', up to 63, and not {text!r}")
    return text


def _gpu_name(text: str) -> str:
    if not _GPU.fullmatch(text):
        raise ValueError(f'must be UUIDs of GPUs, beginnings of them, or "all", and not {text!r}')
    return text


def _runtime_name(text: str) -> str:
    plugins.find(plugins.RUNTIMES, text)
    return text


def _absolute(text: str) -> str:
    if text and not os.path.isabs(text):
        raise ValueError(f"must be an absolute path, and not {text!r}")
    return text


def _socket(text: str) -> str:
    if text in ("", "off"):
        return text
    if not os.path.isabs(text):
        raise ValueError(f"must be an absolute path, or off, and not {text!r}")
    if len(os.fsencode(text)) > _LONGEST_SOCKET_PATH:
        raise ValueError(f"must be at most {_LONGEST_SOCKET_PATH} bytes long, as the kernel takes no longer one")
    return text


def _some_days(value: Any) -> Any:
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"must be a whole number of days, and not {value!r}")
    if not 1 <= value <= MOST_DAYS:
        raise ValueError(f"must be 1 to {MOST_DAYS} days, and not {value}; leave it out to keep jobs for ever")
    return value


def _account_rules(value: Any) -> Any:
    for name in value if isinstance(value, dict) else ():
        if not is_account_name(str(name)):
            near = str(name).strip().lower()
            hint = f"; did you mean {near!r}?" if is_account_name(near) else ""
            raise ValueError(
                f"must be by names of accounts, and {name!r} can be none: they are lower-case letters, digits, _ and "
                f"-, up to 32, starting with a letter or _{hint}"
            )
    return value


def _some_bytes(value: Any) -> Any:
    found = _bytes(value)
    if isinstance(found, bool) or (isinstance(found, int) and found < 1):
        raise ValueError(f"must be above 0, and not {value!r}; leave it out to keep logs whatever they take")
    return found


def _max_timeout(value: Any) -> Any:
    table = value if isinstance(value, dict) else {0: value}
    out: dict[int, Any] = {}
    for gpus, limit in table.items():
        if not str(gpus).isdecimal():
            raise ValueError(f'must be like "7d" or {{0 = "1d", 8 = "7d"}}; {gpus!r} is no number of GPUs')
        if int(gpus) in out:
            raise ValueError(f"must name each number of GPUs once; {gpus} is {int(gpus)} again")
        out[int(gpus)] = _duration(limit)
    if 0 not in out:
        raise ValueError('must say what holds for a cluster without GPUs: a table like {0 = "1d", 8 = "7d"}')
    return out


Seconds = Annotated[float, BeforeValidator(_seconds), AfterValidator(_finite_positive)]
SecondsOrZero = Annotated[float, BeforeValidator(_seconds), AfterValidator(_not_negative), AfterValidator(_not_endless)]
Bytes = Annotated[int, BeforeValidator(_bytes), AfterValidator(_not_negative)]
Days = Annotated[int, BeforeValidator(_some_days)]
AccountRules = BeforeValidator(_account_rules)
SomeBytes = Annotated[int, BeforeValidator(_some_bytes)]
Address = Annotated[str, AfterValidator(_address)]
OptionalAddress = Annotated[str, AfterValidator(_optional_address)]
Host = Annotated[str, AfterValidator(_host)]
Network = Annotated[str, AfterValidator(_network)]
Reach = Annotated[str, AfterValidator(_reach)]
JobRange = Annotated[str, AfterValidator(_job_range)]
RegistryHost = Annotated[str, AfterValidator(_registry_host)]
NodeName = Annotated[str, AfterValidator(_node_name)]
GpuName = Annotated[str, AfterValidator(_gpu_name)]
RuntimeName = Annotated[str, AfterValidator(_runtime_name)]
FilePath = Annotated[str, AfterValidator(_absolute)]
SocketPath = Annotated[str, AfterValidator(_socket)]
MaxTimeout = Annotated[dict[int, float], BeforeValidator(_max_timeout)]
