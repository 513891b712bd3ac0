#!/usr/bin/env python3
"""An example of the hook for growth: it starts and stops machines by two commands of yours.

Usage: hook.py SETTINGS.toml, with the message of TaskManager on stdin (docs/operations/growth.md). SETTINGS.toml holds

    url = "https://headway.example.org"            # the page
    token_file = "/etc/headway/growth.token"       # of an admin's API token, mode 600
    start = ["/etc/headway/start-machine"]         # gets the node's name as its last argument
    stop = ["/etc/headway/stop-machine"]           # likewise; it may be called for a machine that is gone
    tasks_per_machine = 4                          # so many waiting tasks are worth one more machine
    prefix = "grown-"                              # names of the machines that it made; it stops no others
    state_file = "/var/lib/headway/growth.json"    # which it has started, since when
    join_s = 600                                   # after so long a machine that did not join is given up

It needs nothing but Python and the `headway` command. What one call does not finish, the next one does.
"""

import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

NOTE = "leaves: nothing to do here (growth)"


def main() -> int:
    settings = tomllib.loads(Path(sys.argv[1]).read_text())
    message = json.load(sys.stdin)
    if message["version"] != 1:
        print(f"this hook knows version 1 of the message, and not {message['version']}")
        return 1
    os.environ["HEADWAY_URL"] = settings["url"]
    os.environ["HEADWAY_TOKEN"] = Path(settings["token_file"]).read_text().strip()
    nodes = {node["id"]: node for node in json.loads(headway("nodes", "ls", "-o", "json"))}
    prefix = settings["prefix"]
    if message["want"] == "grow":
        grow(settings, message, nodes)
        return 0
    for one in message["idle"]:
        if one["node"].startswith(prefix):
            headway("nodes", "drain", one["node"], "--reason", NOTE, "--yes")
    leaving = {one["node"] for one in message["idle"]} | {name for name, node in nodes.items() if node["note"] == NOTE}
    for name in sorted(leaving):
        if name.startswith(prefix):
            leave(settings, name)
    return 0


def grow(settings: dict[str, Any], message: dict[str, Any], nodes: dict[str, Any]) -> None:
    """Starts as many machines as the waiting tasks are worth, and no more than there may be. Those that it has started,
    and that have not joined yet, count."""
    file = Path(settings["state_file"])
    started = json.loads(file.read_text()) if file.exists() else {}
    recent = {name: at for name, at in started.items() if name not in nodes and time.time() - at < settings["join_s"]}
    waiting = sum(lack["count"] for lack in message["lacks"])
    # By the list of now: since the message was made, machines may have joined.
    alive = sum(node["health"] != "DOWN" for node in nodes.values())
    room = message["nodes"]["max"] - alive - len(recent)
    wanted = min(room, -(-waiting // settings["tasks_per_machine"]) - len(recent))
    names = (f"{settings['prefix']}{number}" for number in range(1, 100_000))
    free = (name for name in names if name not in nodes and name not in recent)
    for _ in range(wanted):
        name = next(free)
        recent[name] = time.time()  # noted first: one that failed half way is not started twice
        file.write_text(json.dumps(recent))
        subprocess.run([*settings["start"], name], check=True, stdin=subprocess.DEVNULL)


def leave(settings: dict[str, Any], name: str) -> None:
    """Empties a machine, stops it and takes it off the list. A task that came in between ends before."""
    headway("nodes", "drain", name, "--reason", NOTE, "--yes", "--wait")
    subprocess.run([*settings["stop"], name], check=True, stdin=subprocess.DEVNULL)
    headway("nodes", "forget", name, "--wait")


def headway(*words: str) -> str:
    """What the command line prints; a failure ends the hook, and TaskManager shows what it said."""
    program = os.environ.get("HEADWAY_COMMAND", "headway").split()
    done = subprocess.run([*program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"headway {' '.join(words)}: {done.stderr.strip()}")
        sys.exit(1)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
