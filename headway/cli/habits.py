"""What people type out of habit from other tools, and what Headway calls it. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

# Word typed: what to type here. Hints and no commands of their own, since options and answers differ.
HABITS: Final = {
    **dict.fromkeys(("list", "ls", "job", "qstat", "history"), "ps"),
    **dict.fromkeys(("status", "info", "describe", "inspect", "scontrol", "stat", "get"), "show ID"),
    **dict.fromkeys(("kill", "stop", "abort", "scancel", "qdel", "delete-job"), "cancel ID"),
    **dict.fromkeys(("rm", "remove", "prune"), "delete ID"),
    **dict.fromkeys(("sbatch", "qsub", "create", "apply", "add", "enqueue"), "submit FILE"),
    **dict.fromkeys(("srun", "salloc", "exec"), "run --image IMAGE -- COMMAND"),
    **dict.fromkeys(("squeue", "waiting"), "queue"),
    **dict.fromkeys(("sinfo", "machines", "hosts", "df"), "nodes"),
    **dict.fromkeys(("gpu", "gpustat", "nvidia-smi", "nvtop", "top", "htop"), "gpus"),
    **dict.fromkeys(("sacct", "sreport", "accounting", "stats"), "usage"),
    **dict.fromkeys(("log", "output", "cat"), "logs ID"),
    **dict.fromkeys(("tail", "attach", "follow"), "logs -f ID"),
    **dict.fromkeys(("start", "serve-all", "init", "daemon"), "up"),
    **dict.fromkeys(("restart", "rerun", "resubmit", "requeue"), "retry ID"),
    **dict.fromkeys(("pause", "suspend"), "hold ID"),
    **dict.fromkeys(("resume", "unhold", "continue"), "release ID"),
    **dict.fromkeys(("why", "reason"), "explain ID"),
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
    return f"Did you mean `headway {meant}`?" if meant else ""
