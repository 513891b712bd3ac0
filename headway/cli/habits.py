"""What people type out of habit from other tools, and what Headway calls it. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from . import slurm

# Word typed: what to type here. Hints and no commands of their own, since options and answers differ.
HABITS: Final = {
    **dict.fromkeys(("list", "ls", "job", "qstat", "history"), "ps"),
    **dict.fromkeys(("status", "info", "describe", "inspect", "scontrol", "stat", "get"), "show ID"),
    **dict.fromkeys(("kill", "stop", "abort", "scancel", "qdel", "delete-job", "terminate", "end"), "cancel ID"),
    **dict.fromkeys(("rm", "remove", "prune"), "delete ID"),
    **dict.fromkeys(
        ("sbatch", "qsub", "create", "apply", "add", "enqueue", "deploy", "dstack", "bsub", "launch"), "submit FILE"
    ),
    **dict.fromkeys(
        ("srun", "salloc", "exec", "docker", "podman", "bash", "sh", "python", "python3"),
        "run --image IMAGE -- COMMAND",
    ),
    **dict.fromkeys(("squeue", "waiting", "sprio", "pending", "slurm"), "queue"),
    **dict.fromkeys(("sinfo", "machines", "hosts", "df", "fleet", "fleets", "cluster", "workers"), "nodes"),
    **dict.fromkeys(("gpustat", "nvidia-smi", "nvtop", "top", "htop"), "gpus"),
    **dict.fromkeys(("sacct", "sshare", "sreport", "accounting", "stats"), "usage"),
    **dict.fromkeys(("log", "output", "cat"), "logs ID"),
    **dict.fromkeys(("tail", "attach", "follow"), "logs -f ID"),
    **dict.fromkeys(("start", "serve-all", "daemon"), "up"),
    **dict.fromkeys(("restart", "rerun", "resubmit", "requeue"), "retry ID"),
    **dict.fromkeys(("pause", "suspend"), "hold ID"),
    **dict.fromkeys(("resume", "unhold", "continue"), "release ID"),
    **dict.fromkeys(("why", "reason"), "explain ID"),
    **dict.fromkeys(("sstat",), "show ID"),
    **dict.fromkeys(("sattach",), "logs -f ID"),
    **dict.fromkeys(("sacctmgr",), "accounts"),
    **dict.fromkeys(("sbcast",), "files put FILE"),
    **dict.fromkeys(("rmi",), "images rm NAME:TAG"),
    # Which says the address of the page.
    **dict.fromkeys(("open", "web", "ui", "dashboard", "browser", "url", "server"), "whoami"),
    **dict.fromkeys(("signin", "auth"), "login URL"),
    **dict.fromkeys(("signout",), "logout"),
    **dict.fromkeys(("me", "id", "who"), "whoami"),
    **dict.fromkeys(("password", "chpasswd"), "passwd"),
    **dict.fromkeys(("token",), "tokens"),
    **dict.fromkeys(("session",), "sessions"),
    **dict.fromkeys(("push", "build"), "images push NAME:TAG"),
    **dict.fromkeys(("pull",), "images pull NAME:TAG"),
    **dict.fromkeys(("cp", "copy", "upload", "put", "scp"), "files put FILE"),
    **dict.fromkeys(("download",), "files get FILE"),
    **dict.fromkeys(("user", "account"), "accounts"),
    **dict.fromkeys(("dataset", "data"), "datasets"),
    **dict.fromkeys(("image",), "images"),
    **dict.fromkeys(("file", "space"), "files"),
    **dict.fromkeys(("node",), "nodes"),
    **dict.fromkeys(("version",), "--version"),
    **dict.fromkeys(("autocomplete", "completions"), "completion bash"),
    **dict.fromkeys(("settings", "configure"), "config show"),
    **dict.fromkeys(("latest",), "last"),
}


# What else may have been meant, where one answer is too few.
_OR: Final = {"sprio": "explain ID", "deploy": "up", "dstack": "run --image IMAGE -- COMMAND", "docker": "images"}

_LIST: Final = ("list", "ls", "ll", "dir", "all")
# The commands inside of groups, by what people call them: the first that the group has is meant.
_INSIDE: Final = (
    (_LIST, ("ls", "show")),
    (("show", "info", "inspect", "describe", "status", "view", "get", "stat", "details"), ("show", "ls")),
    (("delete", "del", "remove", "rm", "rmi", "revoke", "unlink", "destroy", "drop", "erase"), ("rm", "remove", "end")),
    (("end", "kill", "stop", "close", "revoke", "logout"), ("end", "rm", "cordon", "disable")),
    (("cp", "copy", "upload", "push", "put", "send", "scp", "add", "import", "save"), ("put", "push", "publish")),
    (("download", "get", "pull", "fetch", "cat", "export", "save"), ("get", "pull")),
    (("add", "create", "new", "make", "invite", "mk"), ("add", "create", "publish", "push", "mkdir", "login")),
    (("rename", "mv", "move", "retag"), ("mv", "tag")),
    (("du", "df", "quota", "usage", "size"), ("space",)),
    (("build",), ("build-base", "push")),
    (("pause", "disable", "suspend", "lock", "off"), ("cordon", "disable")),
    (("open", "resume", "enable", "unlock", "on"), ("uncordon", "enable")),
    (("undelete", "recover", "undo"), ("restore",)),
    (("edit", "change", "update", "config", "modify"), ("set", "describe")),
    (("password", "passwd"), ("reset-password",)),
)


def inside(group: str, typed: str, known: Iterable[str], *, lists: bool, outside: Iterable[str]) -> str:
    """What was probably meant by an unknown command of a group, as a sentence; empty: nobody knows.

    Args:
        group: the group's own name, such as `files trash`.
        lists: the group by itself lists what it has.
        outside: the commands that stand beside the group.
    """
    has, word = list(known), typed.lower()
    meant = next((one for words, ours in _INSIDE if word in words for one in ours if one in has), "")
    if word in has:
        meant = word
    if group == "jobs":
        # Its single commands stand outside: `headway cancel ID`.
        found = HABITS.get(word, "") or (f"{word} ID" if word in outside else "")
        if found or not meant:
            return f"Did you mean `headway {found}`?" if found else ""
    if not meant and lists and word in (*_LIST, "show", "status"):
        return f"Did you mean `headway {group}`?"
    if not meant:
        near = difflib.get_close_matches(word[:100], has, n=1)
        meant = near[0] if near else ""
    return f"Did you mean `headway {group} {meant}`?" if meant else ""


def advice(typed: str, commands: Iterable[str]) -> str:
    """What was probably meant, as a sentence; empty: nobody knows."""
    known = list(commands)
    word = typed.lower()
    if word in known:
        meant = word
    elif word in HABITS:
        meant = HABITS[word]
    else:
        near = difflib.get_close_matches(word[:100], [*known, *HABITS], n=1)
        meant = HABITS.get(near[0], near[0]) if near else ""
    other = f", or `headway {_OR[word]}`" if word in _OR else ""
    return f"Did you mean `headway {meant}`{other}?" if meant else ""


_TIMES: Final = "`headway logs -t ID` puts its time before each line, and `--tail BYTES` prints the end"
_SUBMIT: Final = {"--gpus": "gpus", "--timeout": "timeout", "--memory": "memory", "--cpus": "cpus", "--name": "name"}


def option(command: str, typed: str, value: str) -> str:
    """What to do instead of an option that a command has not, as a sentence; empty: nobody knows."""
    if command == "logs" and typed in ("--since", "--until", "--since-time"):
        return f"A log has no such filter: {_TIMES}."
    if command == "logs" and typed in ("-n", "--lines", "--last"):
        return f"A log is cut by bytes: {_TIMES}."
    if command == "submit":
        meant = slurm.meaning(typed, value) or (f"{typed} {value or 'VALUE'}" if typed in _SUBMIT else "")
        flag, _, wish = meant.partition(" ")
        if flag in _SUBMIT:
            return f"Write `--set {_SUBMIT[flag]}={wish.partition(' ')[0]}`, or put it into the file."
    return ""
