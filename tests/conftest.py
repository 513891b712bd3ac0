"""Fixtures for all tests, and which tests this machine can run.

A test that needs a real part carries its marker (docker, web, postgres, gluster, prometheus, root). Where the
part can't be had, those tests are left out and the closing summary says how many and why. With CI set in the
environment a missing part is an error, so that a green run means that everything ran.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from playwright.sync_api import Browser

from tests.support import images, shared_data
from tests.support.browser import chromium
from tests.support.clock import FakeClock
from tests.support.databases import KINDS, postgresql_for_files
from tests.support.dockerd import Engine, start_engine
from tests.support.gluster import Gluster
from tests.support.homes import why_no_homes
from tests.support.nvml import PretendGpus
from tests.support.postgres import Postgres

REPOSITORY = Path(__file__).resolve().parent.parent
_left_out: Counter[str] = Counter()


def _missing(marker: str) -> str:
    """Why tests with this marker can't run here, or an empty string."""
    root = os.geteuid() == 0
    match marker:
        case "root":
            return "" if root else "needs root"
        case "docker" if not root:
            return "needs root"
        case "docker":
            return _programs("dockerd", "docker-registry", "ip", "iptables", "busybox")
        case "homes":
            return why_no_homes()
        case "gluster" if not root:
            return "needs root"
        case "gluster":
            return _programs("glusterd", "glusterfs", "ip")
        case "nfs" if not root:
            return "needs root"
        case "nfs":
            return _programs("fusermount3") if os.path.exists("/dev/fuse") else "needs /dev/fuse"
        case "proxies":
            return _programs("nginx", "caddy")
        case "postgres":
            found = list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
            return "" if found else "needs the Debian package postgresql"
        case "web":
            return _programs("chromium")
        case "prometheus":
            return _programs("prometheus", "promtool")
    return ""


def _programs(*names: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    absent = [name for name in names if shutil.which(name, path=path) is None]
    return f"needs {', '.join(absent)}" if absent else ""


def pytest_configure() -> None:
    # Ended from outside, a run still takes its engines, servers and mounts down. (An interrupt would do the same,
    # but is ignored in whatever a shell started in the background.)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = {mark.name for item in items for mark in item.iter_markers()}
    parts = ("docker", "gluster", "homes", "nfs", "postgres", "prometheus", "proxies", "root", "web")
    reasons = {marker: _missing(marker) for marker in parts if marker in asked}
    kept, dropped = [], []
    without_data = shared_data.find() is None
    for item in items:
        if without_data and shared_data.FIXTURE in getattr(item, "fixturenames", ()):
            # Data is no part that a machine could lack: it is not ours to give away, so CI goes without it.
            config.hook.pytest_deselected(items=[item])
            continue
        why = next((reasons[mark.name] for mark in item.iter_markers() if reasons.get(mark.name)), "")
        if why:
            _left_out[why] += 1
            dropped.append(item)
        else:
            kept.append(item)
    if not dropped:
        items[:] = kept
        return
    if os.environ.get("CI"):
        raise pytest.UsageError("; ".join(f"{count} tests can't run here: {why}" for why, count in _left_out.items()))
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for why, count in _left_out.items():
        terminalreporter.write_line(f"left out: {count} tests, {why}", yellow=True)
    if shared_data.find() is None:
        terminalreporter.write_line("not run: tests with real traces and workflows, data not there", yellow=True)


@pytest.fixture
def clock() -> FakeClock:
    """A clock that only moves when the test says so."""
    return FakeClock()


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root."""
    return REPOSITORY


@pytest.fixture(scope="session", name=shared_data.FIXTURE)
def the_shared_data() -> Path:
    """The folder with real traces and workflows; a test that asks for it is not run where it is not there."""
    found = shared_data.find()
    assert found is not None
    return found


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[Engine]:
    """A Docker Engine of the tests' own, with the images of tests/support/images.py. Leave it running."""
    with start_engine() as engine:
        yield engine


@pytest.fixture
def docker_client(docker_engine: Engine) -> Iterator[docker.DockerClient]:
    """A client of the tests' engine; whatever containers the test left are removed after it."""
    client = docker_engine.client()
    yield client
    client.close()
    docker_engine.remove_containers()


@pytest.fixture
def own_engine() -> Iterator[Engine]:
    """An engine for this test alone, to be killed, stopped or made to hang."""
    with start_engine() as engine:
        yield engine


@pytest.fixture
def pretend_gpus(tmp_path: Path) -> PretendGpus:
    """A stand-in for NVIDIA's library: pass its ``environment()`` to the process that shall see the GPUs."""
    return PretendGpus(tmp_path)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server of the tests' own; take a ``new_database()`` each and leave it running."""
    folder = Path(tempfile.mkdtemp(prefix="pg", dir=os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
    server = Postgres(folder)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def postgres_url(postgres: Postgres) -> str:
    """The URL of a new, empty PostgreSQL database."""
    return postgres.url(postgres.new_database())


@pytest.fixture(scope="module", params=KINDS)
def both_databases(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a module's tests on each kind of database. A rig that opens one must take this, too."""
    if request.param == "sqlite":
        yield
        return
    with postgresql_for_files(request.getfixturevalue("postgres")):
        yield


@pytest.fixture(scope="session")
def python_image(docker_engine: Engine) -> str:
    """The base image with Python and scikit-learn, in the tests' engine (made once, then kept under .cache)."""
    images.build_base(docker_engine.url)
    return "base/python:1"


@pytest.fixture
def gluster() -> Iterator[Gluster]:
    """A GlusterFS volume of this test's own, mounted."""
    folder = Path(tempfile.mkdtemp(prefix="gl", dir=os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
    server = Gluster(folder)
    try:
        yield server.start()
    finally:
        server.close()


# Not for the session: Playwright's synchronous API keeps an event loop running, and no coroutine test could run
# beside it.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium; make a context of your own with ``browser.new_context()``."""
    with chromium() as started:
        yield started
