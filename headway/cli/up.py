"""up: all five services on this machine."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from ..model.simulated_gpus import SimulatedGpusAsked, read_simulated_gpus
from ..units import counted

if TYPE_CHECKING:
    from ..up.prepare import PreparedConfig


_PATIENCE_S = 10.0


class _RuntimeName(click.ParamType):  # type: ignore[type-arg]
    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from .. import plugins

        try:
            return plugins.find(plugins.RUNTIMES, value).name
        except plugins.NoSuchPlugin as error:
            self.fail(f"The runtime {error}.", param, ctx)


class _SimulatedGpus(click.ParamType):  # type: ignore[type-arg]
    name = "n[xmodel]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> SimulatedGpusAsked:
        try:
            return read_simulated_gpus(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for databases, logs and settings [$XDG_STATE_HOME/headway].",
)
@click.option(
    "--port", type=click.IntRange(1, 65_535), help="Port of the web page and the API [8080, or as at the last start]."
)
@click.option(
    "--mount",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for homes, logs of jobs, images and datasets [`mount` in the state folder].",
)
@click.option(
    "--simulated-gpus",
    type=_SimulatedGpus(),
    help="Pretend to have this many GPUs, for rehearsals: 4, or 4xA100. 0: none any more. Tasks get no device.",
)
@click.option(
    "--runtime",
    type=_RuntimeName(),
    help="What runs tasks: docker, or one that a package adds. scripted: start no containers; tasks only do what their "
    "environment variables say.",
)
@click.option(
    "--reset-password",
    "reset",
    metavar="NAME",
    help="Give the account NAME another password, once, and enable it: the way back after the last one was lost.",
)
@click.option("--metrics", is_flag=True, help="Open `GET /metrics` of all services, from now on, on ports of loopback.")
def up(
    state: Path | None,
    port: int | None,
    mount: Path | None,
    simulated_gpus: SimulatedGpusAsked | None,
    runtime: str | None,
    reset: str | None,
    metrics: bool,
) -> None:
    """Start all of Headway on this machine and keep it running.

    Ctrl-C or SIGTERM stops the services; running tasks go on, and the next start finds them.
    """
    from ..config import default_state
    from ..up import checks, prepare

    wishes = prepare.UpOptions(
        port=port,
        mount=mount,
        simulated_gpus=simulated_gpus.count if simulated_gpus else None,
        simulated_gpu_model=simulated_gpus.model if simulated_gpus else None,
        runtime=runtime,
        metrics=metrics,
    )
    prepared = prepare.prepare(state or default_state(), wishes, _say)
    checks.engine(prepared.config)
    prepare.write_lock(prepared)
    if reset is not None and not prepared.config.httpserver.first_admin_file:
        raise click.UsageError("--reset-password needs httpserver.first_admin_file, where it writes the password")
    sys.exit(asyncio.run(_run(prepared, reset)))


async def _run(prepared: PreparedConfig, reset: str | None = None) -> int:
    from ..notify import notify
    from ..up import prepare
    from ..up.supervisor import PortsMoved, Supervisor

    def supervised() -> Supervisor:
        return Supervisor(prepared.config_path, prepared.state / "logs", lock_fd=prepared.lock_fd, say=_say)

    supervisor = supervised()
    stopping = False

    def on_signal() -> None:
        nonlocal stopping
        if not stopping:
            _say("Stopping the services; running tasks go on. Once more kills.")
        stopping = True
        supervisor.request_stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    _say(f"Starting Headway (state in {prepared.state}).")
    before = _first_admin(prepared)
    if reset is not None:
        file = Path(prepared.config.httpserver.first_admin_file)
        # The page's service reads it at its start.
        file.with_name(f"{file.name}.reset").write_text(f"{reset}\n", "utf-8", "surrogateescape")
    for tries_left in (2, 1, 0):
        try:
            await supervisor.start()
            break
        except PortsMoved:
            if stopping or not tries_left:
                raise
            prepared = prepare.again(prepared)
            supervisor = supervised()
    if not stopping:
        done = reset is not None and _first_admin(prepared) != before
        await _greet(prepared, signs_in=done)
        if reset is not None:
            _say(_reset_told(reset, done))
        notify("READY=1")
    await supervisor.keep()
    _say("Stopped.")
    return 0


def _reset_told(name: str, done: bool) -> str:
    if done:
        return f"The account {name} has another password and is enabled; its sessions and tokens have ended."
    return f"There is no account {name[:64]!r}, so no password was reset."


async def _greet(prepared: PreparedConfig, *, signs_in: bool = False) -> None:
    config = prepared.config
    signed_in = await asyncio.to_thread(_sign_in, prepared, signs_in)
    first_admin = await asyncio.to_thread(_first_admin_told, prepared)
    what = "nothing really runs: scripted runtime" if config.cluster.simulated else f"node {config.worker.node_id}"
    _say(f"Headway is ready at {prepared.url} ({what}).")
    if count := config.worker.simulated_gpus:
        model = config.worker.simulated_gpu_model
        verb = "is" if count == 1 else "are"
        _say(f"Its {counted(count, f'{model} GPU')} {verb} only simulated: no task gets a device.")
    if urls := prepared.metrics_urls:
        _say(f"Numbers for Prometheus: {' '.join(urls)}")
    if signed_in:
        _say(signed_in)
    if first_admin:
        _say(first_admin)


def _first_admin(prepared: PreparedConfig) -> tuple[str, str] | None:
    """The name and the password of the file of the first start."""
    try:
        name, password, *_ = Path(prepared.config.httpserver.first_admin_file).read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return None
    return name, password


def _first_admin_told(prepared: PreparedConfig) -> str:
    """A line about that file, which may open nothing any more."""
    from ..client import Client, Profile, Refused
    from ..errors import HeadwayError

    found, file = _first_admin(prepared), prepared.config.httpserver.first_admin_file
    if found is None:
        return ""
    name = found[0]
    try:
        with Client(Profile(url=prepared.url), timeout_s=_PATIENCE_S, tries=1) as http:
            token = http.login(*found)["token"]
        with Client(Profile(url=prepared.url, token=token), timeout_s=_PATIENCE_S, tries=1) as http:
            http.logout()
    except Refused as refused:
        if refused.status == 401:
            advice = f"`headway up --reset-password {name}` gives {name} another password."
            return f"{file} opens nothing now: {refused.message} {advice}"
    except HeadwayError:
        pass  # nobody can tell
    return f"Name and password of {'the first admin' if name == 'admin' else name} are in {file}."


def _sign_in(prepared: PreparedConfig, anew: bool = False) -> str:
    """Signs in the one who ran this, as the first admin; returns a line about it. ``anew``: its session has ended."""
    from ..client.profile import Profile, profile_path

    path = profile_path()
    known = Profile.stored()
    elsewhere = known.token and known.url != prepared.url
    host = urlsplit(known.url).hostname or ""
    if elsewhere and host not in ("127.0.0.1", "localhost", "::1"):
        return f"The command line stays signed in at {known.url} ({path}); HEADWAY_URL={prepared.url} reaches this one."
    if known.token and not elsewhere and not prepared.first and not anew:
        return ""
    found = _first_admin(prepared)
    if found is None:
        return f"Sign in with `headway login {prepared.url}`."
    name, password = found
    done = subprocess.run(
        [sys.executable, "-m", "headway", "login", prepared.url, "--user", name, "--password-stdin"],
        input=f"{password}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        return f"Sign in with `headway login {prepared.url}` ({(done.stderr.strip().splitlines() or ['failed'])[-1]})."
    instead = f", and no longer at {known.url}: `headway login {known.url}` goes back" if elsewhere else ""
    # Such as a variable that wins over it.
    but = "".join(f" {line}" for line in done.stderr.splitlines())
    return f"The command line is signed in as {name} at {prepared.url} ({path}){instead}.{but}"


def _say(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()
