"""Images that hold something where the platform mounts: none of them steers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docker.conftest import Jobs
from tests.support import images
from tests.support.hostile_images import SPEC
from tests.support.images import Entry

pytestmark = pytest.mark.docker


def _image(jobs: Jobs, name: str, *more: Entry, without: str = "", changes: tuple[str, ...] = ()) -> str:
    """Busybox with more in it, in the engine."""
    entries = [entry for entry in images.busybox_entries() if entry.path != without]
    client = jobs.engine.client()
    try:
        return images.import_image(client, f"headway-test/{name}:1", images.layer([*entries, *more]), changes)
    finally:
        client.close()


def _task(jobs: Jobs, image: str) -> tuple[str, str]:
    """State and sentence of a task of this image. It must not have become root."""
    (jobs.home() / "owned").unlink(missing_ok=True)
    task = jobs.task("id -u", image=image)
    assert not (jobs.home() / "owned").exists(), (jobs.home() / "owned").read_text()
    assert len(task["attempts"]) == 1
    if task["state"] == "SUCCEEDED":
        assert jobs.out(task) != b"0\n"
        return "", ""
    return task["reason"]["word"], task["reason"]["sentence"]


@pytest.fixture(autouse=True)
def a_home(jobs: Jobs) -> None:
    """The first task makes it."""
    if not jobs.home().is_dir():
        assert jobs.prints("echo well") == b"well\n"


def _executable(path: Path) -> None:
    path.write_text("#!/bin/sh\nid -u > /root/nfs/owned\nsleep 1\n")
    path.chmod(0o755)


def test_a_link_to_the_home_in_the_launchers_old_place(jobs: Jobs) -> None:
    image = _image(jobs, "link-headway", Entry("headway", link_to="/root/nfs"))
    _executable(jobs.home() / "launcher")
    assert _task(jobs, image) == ("", "")


def test_a_link_from_the_home_to_the_boxs_old_place(jobs: Jobs) -> None:
    image = _image(jobs, "link-nfs", Entry("root/nfs", link_to="/headway/run"))
    (jobs.home() / "spec").write_bytes(SPEC)
    word, detail = _task(jobs, image)
    assert word == "image_bad"
    assert "/root/nfs" in detail
    assert "link" in detail


@pytest.mark.parametrize("place", ["/headway/run", "/headway"])
def test_a_volume_in_the_boxs_old_place(jobs: Jobs, place: str) -> None:
    image = _image(
        jobs,
        f"volume{place.replace('/', '-')}",
        Entry("headway"),
        Entry("headway/run"),
        Entry("headway/run/spec", SPEC, mode=0o600),
        changes=(f"VOLUME {place}",),
    )
    assert _task(jobs, image) == ("", "")
