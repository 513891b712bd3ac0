"""gpu: GPUs of this very machine, for a program that is started by hand. It loads little: it must start at once."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterable, Sequence

import click

from ..client.gpu_door import marked
from ..client.gpu_holding import HOLD_VARIABLE, STOP_SENTENCES, Holding, Wanted
from ..errors import InvalidInput

_PR_SET_PDEATHSIG = 1
_OF_KEYS = frozenset({signal.SIGINT, signal.SIGQUIT})
_PASSED = frozenset({signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, *_OF_KEYS})
_AWAITED = _PASSED | {signal.SIGCHLD}


@click.group()
def gpu() -> None:
    """GPUs of this machine, for programs that you start on it by hand."""


@gpu.command(context_settings={"allow_interspersed_args": False})
@click.option("--gpus", type=int, help="How many; 1 unless given.")
@click.option("--timeout", default="", help="For how long at most, for instance 90s, 15m, 2h. Waiting is free.")
@click.option("--model", "models", multiple=True, help="Any of these models, such as A100.")
@click.option("--ids", help="Exactly these GPUs: UUIDs or their beginnings, or numbers, with commas.")
@click.option("--grace", default="10s", help="Time from SIGTERM to SIGKILL at the timeout; 10s unless given.")
@click.option("--name", default="", help="What people see in the queue.")
@click.option("--node", default="", help="This machine's name, where several workers run on it.")
@click.option("--quiet", is_flag=True, help="Say nothing while it waits.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    context: click.Context,
    gpus: int | None,
    timeout: str,
    models: tuple[str, ...],
    ids: str | None,
    grace: str,
    name: str,
    node: str,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Queue for GPUs of this machine, and run COMMAND with them.

    It waits in the same queue as jobs, and starts at once if the GPUs are free. COMMAND sees exactly them, and has your
    terminal. The GPUs are free again when it ends. At the timeout it gets SIGTERM, then SIGKILL. Ctrl-C while it waits
    withdraws the request.

    \b
    headway gpu run --timeout 2h -- python train.py
    headway gpu run --gpus 2 --model A100 --timeout 30m -- ./bench
    """
    if not command:
        raise click.UsageError("Say what to run, as in `headway gpu run --timeout 2h -- python train.py`.", ctx=context)
    if not timeout:
        raise click.UsageError(
            "Say for how long, such as --timeout 2h: the shorter, the sooner you get the GPUs. Waiting is free.",
            ctx=context,
        )
    if why := _why_not(command[0]):
        raise click.ClickException(f"{why}, so nothing was asked for")
    if ids is not None and not any(one.strip() for one in ids.split(",")):
        raise InvalidInput("--ids names no GPU: leave it out, or name some as `headway nodes show` does.")
    if not all(any(one.strip() for one in model.split(",")) for model in models):
        raise InvalidInput("--model names no model: leave it out, or name one as `headway gpus` does.")
    program = _Program()
    wanted = Wanted(
        gpus=gpus,
        timeout=timeout,
        models=tuple(one.strip() for model in models for one in model.split(",") if one.strip()),
        ids=tuple(one.strip() for one in (ids or "").split(",") if one.strip()),
        grace=grace,
        name=name,
        node=node,
        command=command,
    )
    holding = Holding(wanted, tell=(lambda line: None) if quiet else _say, on_stop=program.end, warn=_say)
    for number in _heeded(signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    holding.acquire()
    context.exit(program.run(command, holding))


def _heeded(*numbers: signal.Signals) -> list[signal.Signals]:
    """Without those that whoever started this process has it ignore, as `nohup` does. The program ignores them too."""
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


def _interrupted(number: int, frame: object) -> None:
    raise click.exceptions.Exit(128 + number)  # the request is withdrawn on the way out


def _say(line: str) -> None:
    click.echo(f"headway: {line}", err=True)


class _Program:
    """The command in the foreground. Its terminal, group and standard streams are those of this process."""

    def __init__(self) -> None:
        self._pid = 0
        self._hold = ""

    def run(self, command: Sequence[str], holding: Holding) -> int:
        """Its exit status, as a shell would say it."""
        self._hold = holding.hold
        environment = {**os.environ, **holding.environment()}
        # This thread waits for them below. The others must not get them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _heeded(*_AWAITED))
        for number in _heeded(signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # with it ignored, nobody learns how the program ended
        parent = os.getpid()
        prctl = ctypes.CDLL(None).prctl
        self._pid = os.fork()
        if self._pid == 0:
            _become(command, environment, parent, prctl, before)
        status = self._wait()
        code, by = (None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (os.WEXITSTATUS(status), None)
        self._pid = 0
        holding.give_back(code, by)
        return code if code is not None else 128 + (by or 0)

    def _wait(self) -> int:
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return status
            info = signal.sigwaitinfo(_heeded(*_AWAITED))
            # What the keyboard sends goes to the whole group, so the program has it already.
            from_keys = info.si_signo in _OF_KEYS and info.si_code > 0
            if info.si_signo != signal.SIGCHLD and not from_keys:
                self._send(info.si_signo)

    def end(self, why: str, grace_s: float) -> None:
        """By the thread that listens: TERM, then KILL."""
        _say(f"{STOP_SENTENCES.get(why, 'It has to end.')} The program gets SIGTERM.")
        self._send_all(signal.SIGTERM)
        timer = threading.Timer(grace_s, self._send_all, (signal.SIGKILL,))
        timer.daemon = True
        timer.start()

    def _send(self, number: int) -> None:
        if self._pid:
            try:
                os.kill(self._pid, number)
            except OSError:
                pass

    def _send_all(self, number: int) -> None:
        self._send(number)
        for pid in marked(self._hold, HOLD_VARIABLE):
            try:
                if pid != self._pid:
                    os.kill(pid, number)
            except OSError:
                pass


def _become(
    command: Sequence[str], environment: dict[str, str], parent: int, prctl: object, mask: Iterable[int]
) -> None:
    """In the child: it goes with its parent, so a killed client leaves no program on the GPUs."""
    status = 126
    try:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # type: ignore[operator]
        if os.getppid() != parent:
            os._exit(137)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number in (signal.SIGPIPE, *_heeded(signal.SIGINT)):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(command[0], list(command), environment)
    except FileNotFoundError:
        status = 127
        os.write(2, f"headway: there is no program {command[0]!r}\n".encode())
    except OSError as error:
        os.write(2, f"headway: {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(status)


def _why_not(program: str) -> str:
    """Why it could never be started. Empty: it can."""
    paths = [program] if os.sep in program else [os.path.join(folder, program) for folder in os.get_exec_path()]
    there = [path for path in paths if program and os.path.exists(path)]
    if not there:
        return f"there is no program {program!r} here"
    if any(os.path.isfile(path) and os.access(path, os.X_OK) for path in there):
        return ""
    return f"{there[0]} is no program that you may run"
