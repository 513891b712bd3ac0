"""What happens to simulated GPUs, and when: the script of a rehearsal. See docs/gpus.md, "A script".

A script is read once, when the Worker starts. Its times count from then on.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from headway.errors import ConfigInvalid
from headway.jobfile.hints import nearest
from headway.units import BadValue, counted, parse_duration, parse_size, shown

from ..ports import GpuProcess

if TYPE_CHECKING:
    from headway.config import HeadwayConfig

_MOST_BYTES, _MOST_STEPS = 1 << 20, 1_000
_VERSION = re.compile(r"[0-9]{1,5}(\.[0-9]{1,5}){0,3}")
_XID_OFF_THE_BUS = 79
_FIRST_PID = 1 << 22  # Linux gives no process such a number
_MOST_XID, _MOST_CELSIUS, _MOST_TEXT = 999, 150, 60


class Deed(StrEnum):
    """What a step does."""

    FAULT = "fault"
    VANISH = "vanish"
    RETURN = "return"
    PROCESS = "process"
    HEAT = "heat"
    ECC = "ecc"
    DRIVER = "driver"
    HANG = "hang"
    TAKE = "take"


_FIELDS: Final[Mapping[Deed, frozenset[str]]] = {
    Deed.FAULT: frozenset({"gpu", "xid", "for"}),
    Deed.VANISH: frozenset({"gpu", "for"}),
    Deed.RETURN: frozenset({"gpu"}),
    Deed.PROCESS: frozenset({"gpu", "owner", "command", "memory", "for"}),
    Deed.HEAT: frozenset({"gpu", "celsius", "for"}),
    Deed.ECC: frozenset({"gpu", "errors"}),
    Deed.DRIVER: frozenset({"version", "cuda"}),
    Deed.HANG: frozenset({"for"}),
    Deed.TAKE: frozenset({"gpu", "task", "memory", "for"}),
}
_NEEDED: Final[Mapping[Deed, tuple[str, ...]]] = {
    Deed.FAULT: ("xid",),
    Deed.PROCESS: ("owner", "memory"),
    Deed.HEAT: ("celsius",),
    Deed.TAKE: ("task", "memory"),
}


class BadScript(ValueError):
    """One sentence without its dot: where, and what is wrong."""


@dataclass(frozen=True, slots=True)
class Step:
    """``gpus`` None: all. ``lasts_s`` None: until the machine's restart, which is the deed ``return``."""

    at_s: float
    deed: Deed
    gpus: frozenset[int] | None = None
    lasts_s: float | None = None
    xid: int = 0
    celsius: float = 0.0
    errors: int = 0
    process: GpuProcess | None = None
    taken: tuple[str, int] = ("", 0)  # the name of a task, and how much of the GPU's memory it takes
    version: str = ""
    cuda: str = ""

    def is_of(self, gpu: int) -> bool:
        return self.gpus is None or gpu in self.gpus

    def holds(self, at_s: float) -> bool:
        return self.at_s <= at_s and (self.lasts_s is None or at_s < self.at_s + self.lasts_s)


@dataclass(frozen=True, slots=True)
class GpuPlot:
    """How the script has left one GPU. ``celsius`` None: as hot as its work makes it."""

    vanished: bool = False
    lost: bool = False
    celsius: float | None = None
    errors: int = 0
    processes: tuple[GpuProcess, ...] = ()
    taken: tuple[tuple[str, int], ...] = ()  # by tasks that share it, as the script says: names and bytes


@dataclass(frozen=True, slots=True)
class GpuScript:
    """``steps`` by their time."""

    steps: tuple[Step, ...] = ()

    def gpu(self, index: int, at_s: float) -> GpuPlot:
        """One GPU, so long after the start."""
        plot = GpuPlot()
        for step in self.steps:
            if step.at_s > at_s:
                break
            if step.is_of(index):
                plot = _after(plot, step, at_s)
        return plot

    def xids(self, index: int, after_s: float, until_s: float) -> tuple[int, ...]:
        """The faults that the driver reports of a GPU in this time."""
        return tuple(
            step.xid
            for step in self.steps
            if step.deed is Deed.FAULT and step.is_of(index) and after_s < step.at_s <= until_s
        )

    def driver(self, at_s: float) -> tuple[str, str]:
        """The driver's version and CUDA's. Empty: the script says nothing of it."""
        version = cuda = ""
        for step in self.steps:
            if step.deed is Deed.DRIVER and step.at_s <= at_s:
                version, cuda = step.version or version, step.cuda or cuda
        return version, cuda

    def hangs(self, at_s: float) -> bool:
        """Whether the driver gives no answer."""
        last_return = max((s.at_s for s in self.steps if s.deed is Deed.RETURN and s.at_s <= at_s), default=-1.0)
        return any(s.deed is Deed.HANG and s.holds(at_s) and s.at_s > last_return for s in self.steps)


def _after(plot: GpuPlot, step: Step, at_s: float) -> GpuPlot:
    """``step`` has begun by then. One that is over ends nothing that an earlier one does for longer."""
    holds = step.holds(at_s)
    match step.deed:
        case Deed.RETURN:
            return GpuPlot(errors=plot.errors)
        case Deed.VANISH if holds:
            return replace(plot, vanished=True)
        case Deed.FAULT if holds and step.xid == _XID_OFF_THE_BUS:
            return replace(plot, lost=True)
        case Deed.HEAT if holds:
            return replace(plot, celsius=step.celsius)
        case Deed.ECC:
            return replace(plot, errors=plot.errors + step.errors)
        case Deed.PROCESS if holds and step.process is not None:
            return replace(plot, processes=(*plot.processes, step.process))
        case Deed.TAKE if holds:
            return replace(plot, taken=(step.taken, *plot.taken))  # the last one counts
    return plot


# --- reading ----------------------------------------------------------------------------------------------


def load(path: str, count: int) -> GpuScript:
    """The script in this file, for so many GPUs. An empty path: nothing happens.

    Raises:
        ConfigInvalid: with one sentence that says where.
    """
    if not path:
        return GpuScript()
    try:
        return read(_text(Path(path)), count, toml=not path.endswith((".yaml", ".yml", ".json")))
    except BadScript as error:
        end = "" if str(error).endswith("?") else "."
        raise ConfigInvalid(f"[worker] simulated_gpu_script: {path}: {error}{end}") from error


def check(config: HeadwayConfig) -> None:
    """Whether the configured script can be read. Raises ConfigInvalid."""
    if config.worker.simulated_gpus:
        load(config.worker.simulated_gpu_script, config.worker.simulated_gpus)


def read(text: str, count: int, *, toml: bool = True) -> GpuScript:
    """A script in TOML, or else in YAML. Pure. Raises BadScript."""
    try:
        said = tomllib.loads(text) if toml else yaml.safe_load(text)
    except (tomllib.TOMLDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadScript(f"it is no {'TOML' if toml else 'YAML'}: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(said, Mapping):
        raise BadScript("it needs a list `steps`")
    for key in said:
        if key not in ("driver", "cuda", "steps"):
            raise BadScript(_unknown(str(key), ("driver", "cuda", "steps")))
    steps = said.get("steps", [])
    if not isinstance(steps, list):
        raise BadScript("`steps` is no list")
    if len(steps) > _MOST_STEPS:
        raise BadScript(f"it has {len(steps)} steps, and {_MOST_STEPS} may be")
    found = [_Reader(number, step, count).step() for number, step in enumerate(steps, 1)]
    first = {name: said[key] for key, name in (("driver", "version"), ("cuda", "cuda")) if key in said}
    if first:
        found.insert(0, _Reader(0, {"do": Deed.DRIVER.value, **first}, count).step())
    return GpuScript(tuple(sorted(found, key=lambda step: step.at_s)))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise BadScript("it is larger than 1 MiB")
        return data.decode("utf-8")
    except OSError as error:
        raise BadScript(f"it can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadScript("it is not in UTF-8") from error


@dataclass(slots=True)
class _Reader:
    """Reads one step. ``number`` counts from 1; 0: what stands above the steps."""

    number: int
    said: Any
    count: int
    deed: Deed = field(init=False)

    def step(self) -> Step:
        if not isinstance(self.said, Mapping):
            raise self._bad("it is no table, such as {at = '1m', gpu = 0, do = 'vanish'}")
        self.deed = self._deed()
        allowed = ("at", "do", *sorted(_FIELDS[self.deed]))
        for key in self.said:
            if key not in allowed:
                raise self._bad(f"{_unknown(str(key), allowed)} (it does {self.deed.value})")
        for key in _NEEDED.get(self.deed, ()):
            if key not in self.said:
                raise self._bad(f"a {self.deed.value} needs `{key}`")
        if self.deed is Deed.DRIVER and not {"version", "cuda"} & set(self.said):
            raise self._bad("a driver needs `version` or `cuda`")
        return Step(
            at_s=self._value("at", parse_duration, 0.0),
            deed=self.deed,
            gpus=self._gpus(),
            lasts_s=self._value("for", parse_duration, None),
            xid=self._whole_number("xid", 1, _MOST_XID),
            celsius=self._number("celsius", 0, _MOST_CELSIUS),
            errors=self._whole_number("errors", 1, 1_000_000),
            process=self._process(),
            taken=self._taken(),
            version=self._version("version"),
            cuda=self._version("cuda"),
        )

    def _deed(self) -> Deed:
        word = self.said.get("do")
        try:
            return Deed(word)
        except ValueError:
            words = [deed.value for deed in Deed]
            if word is None:
                raise self._bad(f"it needs `do`, which is one of {', '.join(words)}") from None
            near = nearest(str(word), words)
            hint = f"did you mean {near}?" if near else f"it is one of {', '.join(words)}"
            raise self._bad(f"`do` is {shown(str(word))}: {hint}") from None

    def _gpus(self) -> frozenset[int] | None:
        if "gpu" not in self.said or self.said["gpu"] == "all":
            return None
        value = self.said["gpu"]
        several = value if isinstance(value, list) else [value]
        for one in several:
            if not isinstance(one, int) or isinstance(one, bool):
                raise self._bad(f"`gpu` is {shown(str(value))}: write a number, a list of numbers, or all")
            if not 0 <= one < self.count:
                there = "GPU 0" if self.count == 1 else f"0 to {self.count - 1}"
                raise self._bad(f"there is no GPU {one}: {counted(self.count, 'GPU')} are simulated ({there})")
        return frozenset(several)

    def _process(self) -> GpuProcess | None:
        if self.deed is not Deed.PROCESS:
            return None
        return GpuProcess(
            pid=_FIRST_PID + self.number,
            owner=self._text("owner"),
            command=self._text("command"),
            memory_used_bytes=self._value("memory", parse_size, None),
        )

    def _taken(self) -> tuple[str, int]:
        if self.deed is not Deed.TAKE:
            return "", 0
        return self._text("task"), self._value("memory", parse_size, 0)

    def _value(self, key: str, parse: Callable[[str], Any], otherwise: Any) -> Any:
        if key not in self.said:
            return otherwise
        try:
            return parse(str(self.said[key]))
        except BadValue as error:
            raise self._bad(f"`{key}`: {error}") from error

    def _whole_number(self, key: str, least: int, most: int) -> int:
        value = self.said.get(key, least)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._bad(f"`{key}` is {shown(str(value))}: write a whole number from {least} to {most}")
        return value

    def _number(self, key: str, least: int, most: int) -> float:
        value = self.said.get(key, least)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise self._bad(f"`{key}` is {shown(str(value))}: write a number from {least} to {most}")
        return value

    def _text(self, key: str) -> str:
        value = self.said.get(key, "")
        if not isinstance(value, str) or not value.isprintable() or len(value) > _MOST_TEXT:
            raise self._bad(f"`{key}` is {shown(str(value))}: write up to {_MOST_TEXT} printable characters")
        return value

    def _version(self, key: str) -> str:
        value = self.said.get(key, "")
        if value != "" and not (isinstance(value, str) and _VERSION.fullmatch(value)):
            raise self._bad(f'`{key}` is {shown(str(value))}: write a version in quotes, such as "550.54.15"')
        return str(value)

    def _bad(self, what: str) -> BadScript:
        return BadScript(f"step {self.number}: {what}" if self.number else what)


def _unknown(key: str, allowed: Sequence[str]) -> str:
    near = nearest(key, list(allowed))
    return f"it has no {shown(key)}: " + (f"did you mean {near}?" if near else f"there are {', '.join(allowed)}")
