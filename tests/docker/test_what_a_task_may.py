"""The table of docs/what-a-task-may.md, walked in real containers of odd images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.client.code import upload_code
from tests.docker.conftest import Jobs, a_task
from tests.support.archives import docker_save
from tests.support.odd_images import OddImage, odd_images
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.homes, pytest.mark.slow, pytest.mark.timeout(300)]

# Each line: an answer. What is tried stays small, since it runs some fifty times.
_SCRIPT = r"""
try() { what=$1; shift; if (eval "$*") >/dev/null 2>&1; then echo "$what=yes"; else echo "$what=no"; fi; }
me=$(id -u)
echo "uid=$me"
echo "gid=$(id -g)"
echo "home=$HOME"
try 'owns its home' '[ "$(stat -c %u:%g /root)" = "$me:$(id -g)" ]'
try 'writes in its home' 'echo x > /root/new && rm /root/new'
try 'writes deep in its home' 'mkdir -p /root/.cache/a/b && echo x > /root/.cache/a/b/c && mv /root/.cache/a /root/a'
try 'makes programs' 'mkdir /root/m && cp /bin/busybox /root/m/true && chmod 700 /root/m/true && /root/m/true'
try 'reads what is old' 'grep -q old /root/.cache/old && echo new >> /root/.cache/old'
try 'follows a link' 'grep -q old /root/link'
try 'out of the home' '[ "$(readlink /root/out)" = /etc/passwd ]'
try 'runs a tool' '/root/bin/tool'
try "reads what is its user's" 'grep -q mine /root/app/x && echo more >> /root/app/x'
try "sees others'" 'cat /root/others/secret'
try "writes others'" 'echo x > /root/others/mine'
try 'writes in nfs' 'mkdir -p /root/nfs/$HEADWAY_TASK_NAME && echo x > /root/nfs/$HEADWAY_TASK_NAME/x'
try 'owns nfs' '[ "$(stat -c %u:%g /root/nfs)" = "$me:$(id -g)" ]'
try 'reads code' 'grep -q code /root/code/x'
try 'writes in code' 'echo x > /root/code/y'
try 'writes in tmp' 'echo x > /tmp/x && mkdir /tmp/d && [ "$(stat -c %a /tmp/)" = 1777 ]'
try 'has a name' 'grep -q "^[a-z0-9]*:x:$me:" /etc/passwd && [ -n "$USER" ]'
try 'has a host name' 'grep -q "^127.0.0.1[[:space:]]*$(hostname)" /etc/hosts'
try 'writes in etc' 'echo x > /etc/x'
try 'sees the spec' 'cat ${HEADWAY_ATTEMPT_DIR%/attempt}/run/spec'
try 'mounts' 'mount -t tmpfs x /root'
try 'unmounts' 'umount /root'
"""
_ALWAYS = {
    "home": "/root",
    "owns its home": "yes",
    "writes in its home": "yes",
    "writes deep in its home": "yes",
    "makes programs": "yes",
    "reads what is old": "yes",
    "follows a link": "yes",
    "out of the home": "yes",
    "runs a tool": "yes",
    "reads what is its user's": "no",
    "sees others'": "no",
    "writes others'": "no",
    "writes in nfs": "yes",
    "owns nfs": "yes",
    "reads code": "yes",
    "writes in code": "no",
    "writes in tmp": "yes",
    "has a name": "yes",
    "has a host name": "yes",
    "writes in etc": "no",
    "sees the spec": "no",
    "mounts": "no",
    "unmounts": "no",
}
# Root in the container may change the image, and sees what its modes close to others.
_OF_ROOT = {"writes in etc": "yes", "sees the spec": "yes", "writes others'": "yes"}


@pytest.fixture(scope="module")
def images(jobs: Jobs) -> Iterator[list[OddImage]]:
    """All odd images, in the engine."""
    found = list(odd_images())
    client = jobs.engine.client()
    try:
        for answer in client.api.load_image(docker_save(*(one.image() for one in found))):  # type: ignore[no-untyped-call]
            assert "error" not in answer, answer
    finally:
        client.close()
    jobs.cluster.client.change_user("admin", {"may_use_image_user": True})
    yield found
    jobs.cluster.client.change_user("admin", {"may_use_image_user": False})


def test_what_a_task_may_in_odd_images(jobs: Jobs, images: list[OddImage], tmp_path: Path) -> None:
    (tmp_path / "x").write_text("code\n")
    code = upload_code(jobs.cluster.client, tmp_path).digest
    tried = {f"{one.name}-as-{user}": (one, user) for one in images for user in one.users}
    job = jobs.run(*(_task(name, one, user, code) for name, (one, user) in tried.items()), within_s=200)
    account = jobs.home().stat()
    wrong: dict[str, Any] = {}
    for task in job["tasks"]:
        name = task["name"]
        if task["state"] != "SUCCEEDED":
            wrong[name] = task["reason"]
            continue
        said = dict(line.partition("=")[::2] for line in jobs.cluster.client.log(job["id"], name).decode().splitlines())
        want = _wanted(*tried[name], (account.st_uid, account.st_gid))
        wrong[name] = {key: said.get(key) for key, value in want.items() if said.get(key) != value}
        # Whoever it was in the container, on the disk it is the account's.
        made = jobs.home() / name / "x"
        if not made.exists() or (made.stat().st_uid, made.stat().st_gid) != (account.st_uid, account.st_gid):
            wrong[name]["on the disk"] = made.exists() and made.stat().st_uid
    assert [f"{name}: {fault}" for name, fault in wrong.items() if fault] == []
    jobs.none_is_left()
    assert _homes(jobs) == set()


def _homes(jobs: Jobs) -> set[str]:
    """Names of the homes on the worker's disk."""
    return {folder.name for folder in (jobs.cluster.folder / "workers/n1/homes").iterdir()}


def test_a_home_outlives_its_worker_and_is_removed_with_its_task(jobs: Jobs) -> None:
    """What a dead Worker left is swept, and what a task uses is not."""
    (jobs.home() / "go").unlink(missing_ok=True)
    script = (
        "echo mine > /root/x; echo ready; until [ -e /root/nfs/go ]; do sleep 0.1; done; cat /root/x /root/from-image"
    )
    job = jobs.begin(a_task(script, network="none"))
    jobs.until_it_prints(job, b"ready")
    (mine,) = _homes(jobs)
    jobs.cluster.kill9("n1")
    left = jobs.cluster.folder / "workers/n1/homes" / f"{'j' + 16 * '0'}.left.1"
    (left / "written/home/deep").mkdir(parents=True)
    jobs.cluster.start("n1")
    soon(lambda: _homes(jobs) == {mine}, within_s=40, what="what nobody owns is swept")
    (jobs.home() / "go").touch()
    task = jobs.ended(job)
    assert (task["state"], jobs.out(task)) == ("SUCCEEDED", b"ready\nmine\nkept\n")
    jobs.none_is_left()
    soon(lambda: _homes(jobs) == set(), within_s=20, what="its home is gone")


def _task(name: str, one: OddImage, user: str, code: str) -> dict[str, Any]:
    resources = {"cpus": 0.5, "memory": "64MiB"}
    return {
        "name": name,
        "image": one.tag,
        "command": _SCRIPT,
        "user": user,
        "network": "none",
        "code": code,
        "timeout": "1m",
        "resources": resources,
    }


def _wanted(one: OddImage, user: str, account: tuple[int, int]) -> dict[str, str]:
    uid, gid = account if user == "account" else one.ids
    of_root = _OF_ROOT if uid == 0 else {}
    return {**_ALWAYS, **of_root, **one.answers, "uid": str(uid), "gid": str(gid)}


def test_a_worker_that_is_killed_between_a_home_and_its_container(jobs: Jobs) -> None:
    """The home is made anew where the engine has made no container of it, and is left alone where it has."""
    assert jobs.prints("echo well", network="none") == b"well\n"  # the image is known
    jobs.none_is_left()
    soon(lambda: _homes(jobs) == set(), within_s=20, what="its home is gone")
    jobs.engine.pause()
    try:
        job = jobs.begin(a_task("cat /root/from-image; echo x > /root/x && echo written", network="none"))
        soon(lambda: len(_homes(jobs)) == 1, within_s=20, every_s=0.05, what="the home is made")
        jobs.cluster.kill9("n1")
    finally:
        jobs.engine.resume()
    jobs.cluster.start("n1")
    task = jobs.ended(job)
    assert (task["state"], len(task["attempts"]), jobs.out(task)) == ("SUCCEEDED", 1, b"kept\nwritten\n")
    jobs.none_is_left()
    soon(lambda: _homes(jobs) == set(), within_s=20, what="its home is gone")
