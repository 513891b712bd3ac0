"""Whether this machine can show an image's files as a task's."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from worker.homes import TaskHomes

# As the launcher does it, which need not be built to find out.
_CHILD = ("unshare", "--user", "sh", "-c", "echo; exec cat")


def why_no_homes() -> str:
    """Why none can be made where tests keep their files. Empty: they can."""
    if os.geteuid() != 0:
        return "needs root"
    with tempfile.TemporaryDirectory(prefix="hw-homes-") as folder:
        return TaskHomes(Path(folder, "homes"), user_namespace=_CHILD).probe(store=Path(folder)).rstrip(".")
