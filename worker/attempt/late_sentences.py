"""What could not be done after an attempt's end, where and why, and who has to do what. Pure.

A cause that the account can remove is told to the account, all others to an admin.
"""

from __future__ import annotations

import errno
from pathlib import Path

from ..model import Owner
from .home_files import NewerOutput

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (errno.EACCES, errno.EPERM)
_NO_FOLDER = (errno.ENOTDIR, errno.ELOOP)


def output_not_copied(error: Exception, folder: str, home: Path, owner: Owner) -> str:
    """Of stdout and stderr that belong into ``folder`` of the account's home."""
    return (
        f"Its output could not be copied to `{folder}` in the personal space of {owner.name}: "
        f"{_in_home(error, home, owner)}"
    )


def files_not_given(error: Exception, home: Path, owner: Owner) -> str:
    """Of what a root task left in the home."""
    if isinstance(error, OSError) and error.errno in _REFUSED:
        why = (
            f"uid 0 may not change owners in {home} ({_text(error)}). An admin has to run `chown -hR "
            f"{owner.uid}:{owner.gid} {home}` on the server of the shared folder, or let it export without root_squash."
        )
    else:
        why = f"{_text(error)}. An admin has to look at the shared folder."
    return f"Not all files that it left in the personal space could be given to {owner.name}: {why}"


def log_not_copied(problem: str, number: int | None, target: Path, node: str) -> str:
    """Of the log's copy on the shared folder."""
    if number in _FULL:
        remedy = "make room on the shared folder"
    elif number in _REFUSED or number == errno.EROFS:
        remedy = f"let the worker on {node} write there"
    else:
        remedy = f"look at the shared folder of {node}"
    return (
        f"Its log could not be copied to {target}: {problem.rstrip('.')}. An admin has to {remedy}. Until then {node} "
        "keeps the log."
    )


def container_not_removed(reason: str, node: str) -> str:
    """Of the attempt's container."""
    return (
        f"Its container could not be removed on {node}: {reason.rstrip('.')}. An admin has to look at the container "
        "engine there."
    )


def _in_home(error: Exception, home: Path, owner: Owner) -> str:
    if isinstance(error, NewerOutput):
        return f"`{error.where}` is the output of a task that ended later, and stays."
    if not isinstance(error, OSError):
        return f"{_text(error)}. An admin has to look at the shared folder."
    where = error.filename if isinstance(error.filename, str) else ""
    if error.errno == errno.EROFS:
        return "the shared folder can only be read. An admin has to make it writable."
    if error.errno in _FULL:
        return (
            f"there is no room ({_text(error)}). {owner.name} has to delete files there, or an admin has to make room "
            "on the shared folder."
        )
    if where.startswith("/"):
        return _of_the_admin(error, where, home, owner)
    if error.errno in _NO_FOLDER:
        return f"`{where}` is a file or a link, and not a folder. {owner.name} has to move it away."
    if error.errno == errno.EISDIR:
        return f"`{where}` is a folder. {owner.name} has to move it away."
    if error.errno in _REFUSED:
        return f"{owner.name} (uid {owner.uid}) may not write `{where}`. {owner.name} has to change its mode or owner."
    if error.errno == errno.ENAMETOOLONG:
        return f"the name `{where}` is too long. {owner.name} has to choose another `output_path`."
    return f"{_text(error)} (`{where}`). An admin has to look at the shared folder."


def _of_the_admin(error: OSError, where: str, home: Path, owner: Owner) -> str:
    """Something at, above or beside the home, which is Headway's."""
    if where == str(home) and error.errno in _REFUSED:
        return (
            f"{owner.name} (uid {owner.uid}) may not use {where}. An admin has to make it a folder of uid {owner.uid} "
            f"and gid {owner.gid} with mode 700."
        )
    if where == str(home) and error.errno == errno.ENOENT:
        return f"there is no folder {where}. An admin has to look why."
    if error.errno in _REFUSED:
        return f"uid 0 may not open {where}. An admin has to let it: perhaps the server squashes root."
    return f"{_text(error)} ({where}). An admin has to look at the shared folder."


def _text(error: Exception) -> str:
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return text.rstrip(".")
