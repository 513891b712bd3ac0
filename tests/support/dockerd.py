"""A Docker Engine of the tests' own.

It has its own folders, socket, containerd, cgroup parent and network namespace. So it never meets an engine that
runs on the machine already: a second engine in the same network namespace would rewrite the first one's firewall
chains and, with ``--bridge none``, delete its bridge. All that it made goes with :meth:`Engine.close`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import docker
from docker.errors import DockerException

from tests.support import cgroups, images, mounts, processes
from tests.support.namespaces import new_network_namespace
from tests.support.waiting import soon

# The name of the program by which Docker Engine knows, at its start, that it can serve requests for GPUs.
GPU_HOOK = "nvidia-container-runtime-hook"
_CONTAINERD_CONFIG = """version = 2
disabled_plugins = ["io.containerd.grpc.v1.cri"]
"""
# Goes on for a while after runc has started the program: in this time the program runs, and dockerd has not noted it.
_SLOW_RUNTIME = """#!/bin/sh
runc "$@"
rc=$?
case " $* " in *" start "*) sleep {slow_s};; esac
exit $rc
"""
_SBIN = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Engine:
    """One Docker Engine with live-restore: containers outlive its restarts, as quickstart sets it up.

    ``url`` is what a Worker or ``docker -H`` takes. ``folder`` must have a short path, for the sockets in it.

    Args:
        live_restore: False: the engine ends its containers when it stops, as Docker does by default.
        slow_start_s: seconds by which its runtime ends later than it has started a program.
        runtime: the text of a program that stands for ``runc`` and calls it.
        network: a descriptor of a network namespace to be in; it stays the caller's.
    """

    def __init__(
        self,
        folder: Path,
        *,
        gpu_hook: bool = True,
        live_restore: bool = True,
        slow_start_s: float = 0.0,
        runtime: str = "",
        network: int = -1,
        options: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.url = f"unix://{self.socket}"
        self.log = folder / "dockerd.log"
        self.gpu_calls = folder / "gpu-calls"
        self.cgroup = f"{os.environ.get('HEADWAY_TESTS_RUN', 'hwt')}-{folder.name}-{os.getpid()}"
        self._options = [*(["--live-restore"] if live_restore else []), *options]
        self._dockerd: subprocess.Popen[bytes] | None = None
        self._paused = False
        self._closed = False
        folder.mkdir(parents=True, exist_ok=True)
        runtime = runtime or (_SLOW_RUNTIME.format(slow_s=slow_start_s) if slow_start_s else "")
        if runtime:
            program = folder / "other-runc"
            program.write_text(runtime)
            program.chmod(0o755)
            self._options += [f"--add-runtime=other={program}", "--default-runtime=other"]
        self._path = _SBIN
        if gpu_hook:
            self._path = f"{self._make_gpu_hook()}:{_SBIN}"
        self._network = new_network_namespace() if network < 0 else os.dup(network)
        self._containerd: subprocess.Popen[bytes] | None = None
        self.start_containerd()

    @property
    def pid(self) -> int:
        """The pid of the running dockerd."""
        assert self._dockerd is not None, "the engine is not running"
        return self._dockerd.pid

    def start(self, *, within_s: float = 60) -> Engine:
        """Start dockerd and wait until it answers."""
        assert self._dockerd is None, "the engine is running already"
        # A killed dockerd leaves its pid file, and the pid may be somebody else's by now.
        (self.folder / "docker.pid").unlink(missing_ok=True)
        command = [
            "dockerd",
            f"--data-root={self.folder / 'data'}",
            f"--exec-root={self.folder / 'exec'}",
            f"--pidfile={self.folder / 'docker.pid'}",
            f"--host={self.url}",
            f"--containerd={self.folder / 'containerd.sock'}",
            f"--cgroup-parent=/{self.cgroup}",
            "--exec-opt=native.cgroupdriver=cgroupfs",
            f"--config-file={self._empty_config()}",
            *self._options,
        ]
        self._dockerd = self._spawn(command, self.log)
        soon(self._answers, within_s=within_s, every_s=0.05, what=f"dockerd answers; its log is {self.log}")
        return self

    def stop(self, *, within_s: float = 30) -> None:
        """End dockerd gracefully; with live-restore its containers go on."""
        if self._dockerd is None:
            return
        self.resume()
        self._dockerd.terminate()
        try:
            self._dockerd.wait(within_s)
        except subprocess.TimeoutExpired:
            self._dockerd.kill()
            self._dockerd.wait()
        self._dockerd = None

    def kill9(self) -> None:
        """End dockerd at once, as a crash does; its containers go on."""
        assert self._dockerd is not None, "the engine is not running"
        self._dockerd.kill()
        self._dockerd.wait()
        self._dockerd = None
        self._paused = False

    def power_off(self) -> None:
        """End engine, containerd, shims and containers at once, as a machine without power does."""
        for pid in (*self._pids(), *cgroups.processes(self.cgroup), *processes.naming(str(self.folder))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in (self._dockerd, self._containerd):
            if process is not None:
                process.wait()
        self._dockerd = self._containerd = None
        self._paused = False
        cgroups.remove(self.cgroup)

    def _pids(self) -> list[int]:
        return [process.pid for process in (self._dockerd, self._containerd) if process is not None]

    def kill9_containerd(self) -> None:
        """End containerd at once; shims and containers go on."""
        assert self._containerd is not None, "containerd is not running"
        self._containerd.kill()
        self._containerd.wait()
        self._containerd = None

    def restart(self) -> None:
        """Stop gracefully and start again."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Make the engine hang: connections are taken and never answered."""
        os.kill(self.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Undo :meth:`pause`."""
        if self._paused:
            os.kill(self.pid, signal.SIGCONT)
            self._paused = False

    def client(self, *, timeout_s: int = 60) -> docker.DockerClient:
        """A client of the docker SDK; the caller closes it."""
        return docker.DockerClient(base_url=self.url, timeout=timeout_s)

    def remove_containers(self) -> None:
        """Remove every container, whatever state it is in."""
        client = self.client()
        try:
            for container in client.containers.list(all=True, ignore_removed=True):
                try:
                    container.remove(force=True, v=True)
                except DockerException:
                    # Being removed already, or gone: the next line of close() deals with what stays.
                    continue
        finally:
            client.close()

    def close(self) -> None:
        """Remove containers, engine, mounts, cgroups and files. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._dockerd is not None:
            self.resume()
            try:
                self.remove_containers()
            except DockerException:
                pass  # an engine that doesn't answer any more; its processes are ended below
        self.stop()
        if self._containerd is not None:
            self._containerd.terminate()
            try:
                self._containerd.wait(10)
            except subprocess.TimeoutExpired:
                self._containerd.kill()
                self._containerd.wait()
        cgroups.remove(self.cgroup)
        # A container's shim outlives containerd by design.
        for pid in processes.naming(str(self.folder)):
            os.kill(pid, signal.SIGKILL)
        os.close(self._network)
        mounts.unmount_below(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Engine:
        return self.start() if self._dockerd is None else self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answers(self) -> bool:
        assert self._dockerd is not None
        if self._dockerd.poll() is not None:
            raise RuntimeError(f"dockerd ended:\n{self.log.read_text(errors='replace')[-2000:]}")
        try:
            client = self.client(timeout_s=5)
            try:
                return bool(client.ping())
            finally:
                client.close()
        except (DockerException, OSError):
            return False

    def _empty_config(self) -> Path:
        """A configuration file, so that the machine's own /etc/docker/daemon.json is not read."""
        path = self.folder / "daemon.json"
        path.write_text("{}\n")
        return path

    def _make_gpu_hook(self) -> Path:
        bin_dir = self.folder / "bin"
        bin_dir.mkdir()
        hook = bin_dir / GPU_HOOK
        # Docker calls it before the container's program starts, with the container's state on standard input.
        hook.write_text(f'#!/bin/sh\n{{ echo "$*"; cat; echo; }} >>{self.gpu_calls}\n')
        hook.chmod(0o755)
        return bin_dir

    @contextlib.contextmanager
    def gpu_hook_does(self, script: str) -> Iterator[None]:
        """Let the stand-in for NVIDIA's hook do that meanwhile. In the end nothing of it runs."""
        hook = self.folder / "bin" / GPU_HOOK
        well = hook.read_text()
        still = self.folder / "hook-broken"
        still.touch()
        hook.write_text(f"#!/bin/sh\nSTILL={still}\n{script}\n")
        try:
            yield
        finally:
            still.unlink()
            hook.write_text(well)

    def start_containerd(self) -> None:
        """Start containerd and wait until it listens."""
        assert self._containerd is None, "containerd is running already"
        config = self.folder / "containerd.toml"
        config.write_text(_CONTAINERD_CONFIG)
        address = self.folder / "containerd.sock"
        address.unlink(missing_ok=True)
        self._containerd = self._spawn(
            [
                "containerd",
                f"--config={config}",
                f"--root={self.folder / 'containerd'}",
                f"--state={self.folder / 'containerd-state'}",
                f"--address={address}",
                "--log-level=warn",
            ],
            self.folder / "containerd.log",
        )
        soon(address.exists, within_s=30, what="containerd listens")

    @property
    def network_inode(self) -> int:
        """Of the engine's network namespace."""
        return os.fstat(self._network).st_ino

    def _spawn(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PATH": self._path, "TMPDIR": str(self.folder)}
        enter = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self._network}", "--"]
        output: IO[bytes]
        with log.open("ab") as output:
            return subprocess.Popen(
                [*enter, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )


def start_engine(
    scratch: Path | None = None,
    *,
    gpu_hook: bool = True,
    live_restore: bool = True,
    slow_start_s: float = 0.0,
    options: Sequence[str] = (),
) -> Engine:
    """A running engine with the tests' small images in it, in a new folder under ``scratch`` (default: /tmp)."""
    folder = Path(tempfile.mkdtemp(prefix="d", dir=scratch or os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
    engine = Engine(folder, gpu_hook=gpu_hook, live_restore=live_restore, slow_start_s=slow_start_s, options=options)
    try:
        engine.start()
        client = engine.client()
        try:
            images.import_busybox(client)
            images.import_static(client)
        finally:
            client.close()
    except BaseException:
        engine.close()
        raise
    return engine


def wait_until_exited(container_id: str | None, engine: Engine, *, within_s: float = 30) -> int:
    """Wait for a container's end by asking, which also works across restarts of the engine; its exit code."""
    assert container_id is not None
    client = engine.client()
    give_up_at = time.monotonic() + within_s
    try:
        while time.monotonic() < give_up_at:
            state = client.api.inspect_container(container_id)["State"]
            if state["Status"] == "exited":
                return int(state["ExitCode"])
            time.sleep(0.05)
    finally:
        client.close()
    raise AssertionError(f"container {container_id[:12]} did not end within {within_s:g} s")
