"""The shared mount: is it there, is it this cluster's, and does it let Headway work."""

from __future__ import annotations

import threading
from pathlib import Path

from ..model.findings import Check, ok, problem, warning
from ..mount import Layout, MountKind, mount_state, read_marker, weak_options
from ..mount_rights import look_at_rights

NAME = "mount"
_RIGHTS = "mount's rights"


def other_cluster(root: str | Path, cluster: str) -> str:
    """The name of another cluster that the folder belongs to; empty: it belongs to none, or to this one."""
    found = read_marker(root)
    return found if found is not None and found != cluster else ""


def mount(root: str, cluster: str, *, timeout_s: float = 20.0) -> list[Check]:
    """Looks by really writing. A mount that hangs is told as such, and its look is left behind."""
    found: list[Check] = []

    def look() -> None:
        found.extend(_look(root, cluster))

    thread = threading.Thread(target=look, name="doctor-mount", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        return [problem(NAME, f"{root} has not answered for {timeout_s:g} s; it hangs.", "Look at its server.")]
    return found


def _look(root: str, cluster: str) -> list[Check]:
    layout = Layout(root)
    try:
        state = mount_state(layout, cluster)
        if not state.ok:
            return [problem(NAME, state.sentence, _remedy(state.kind, root, cluster))]
        found = [ok(NAME, f"{root} is the cluster's, with {state.free_bytes >> 30} GiB free.")]
        rights = look_at_rights(layout.root)
        if rights.sentence:
            found.append(problem(_RIGHTS, rights.sentence, "See above; docs/operations/several-machines.md has more."))
        else:
            found.append(ok(_RIGHTS, "Files can be made, given away, linked, locked and renamed."))
        if weak := weak_options(layout):
            found.append(warning("mount's options", weak, "Add them to /etc/fstab, then mount it anew."))
        return found
    except OSError as error:
        return [problem(NAME, f"{root} can't be looked at: {error.strerror}.", "Look at its server.")]


def _remedy(kind: MountKind, root: str, cluster: str) -> str:
    if kind is MountKind.FULL:
        return "Make room on it."
    if kind is MountKind.READ_ONLY:
        return "Export it to this machine for writing, without squashing root."
    return (
        f"Mount the share at {root}. If it is new: `headway prepare-mount {root} --cluster {cluster}`, once, on one "
        "machine."
    )
