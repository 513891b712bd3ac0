"""Headway from Python: the same HTTP API that the page and the command line use.

    from headway.client import Client, Profile

    with Client(Profile.load()) as headway:
        job = headway.submit(Path("digits.yaml").read_bytes())
        job = headway.wait(job["id"])
        print(job["state"], headway.log(job["id"], "compare").decode())

Needs nothing of the server's dependencies.
"""

from .errors import NoService, Refused
from .http import Client
from .profile import Profile

__all__ = ["Client", "NoService", "Profile", "Refused"]
