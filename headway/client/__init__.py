"""Headway from Python: the same HTTP API that the page and the command line use.

    from headway.client import Client, Profile

    with Client(Profile.load()) as headway:
        job = headway.submit(Path("digits.yaml").read_bytes())
        job = headway.wait(job["id"])
        print(job["state"], headway.log(job["id"], "compare").decode())

Needs nothing of the server's dependencies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import NoService, Refused
    from .http import Client
    from .profile import Profile

__all__ = ["Client", "NoService", "Profile", "Refused"]

# Each comes when it is first named: `headway gpu run` must start at once, and needs none of the HTTP library.
_HOMES = {"Client": "http", "NoService": "errors", "Profile": "profile", "Refused": "errors"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
