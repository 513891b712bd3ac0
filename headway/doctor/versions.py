"""Versions of what Headway runs on."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from ..model.findings import Check, ok, problem, warning
from ..trust.joining import version_refusal

_KERNEL = (5, 19)


def python(version: Sequence[int] | None = None) -> Check:
    version = tuple(sys.version_info[:3]) if version is None else version
    shown = ".".join(str(number) for number in version[:3])
    if tuple(version[:2]) < (3, 11):
        return problem("Python", f"Version {shown} is too old.", "Install Python 3.11 or later.")
    return ok("Python", f"Version {shown}.")


def kernel(release: str) -> Check:
    """``release`` as `uname -r` says it."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    if numbers is None or (int(numbers[1]), int(numbers[2])) >= _KERNEL:
        return ok("kernel", f"Linux {release}.")
    return warning(
        "kernel",
        f"Linux {release} can't show an image's files in /root as a task's own.",
        "Use Linux 5.19 or later, such as that of Debian 12.",
    )


def headway(mine: str, clusters: str) -> Check:
    """This machine's version beside the cluster's."""
    if refusal := version_refusal(clusters, mine):
        return problem("Headway", refusal, f"`pip install headway-server=={clusters}`")
    if mine != clusters:
        return warning(
            "Headway", f"{mine} here, {clusters} in the cluster.", f"`pip install headway-server=={clusters}`, soon."
        )
    return ok("Headway", f"Version {mine}, as in the cluster.")
