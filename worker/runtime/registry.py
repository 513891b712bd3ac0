"""Finds the runtime that ``worker.runtime`` names, whichever package gives it, and looks whether it can be one.

Headway's own two are entry points of the group ``headway.runtimes`` like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

from headway import plugins
from headway.errors import ConfigInvalid, HeadwayError

from ..ports import Runtime
from .setup import RuntimeKind, RuntimeParts, RuntimeSetup

if TYPE_CHECKING:
    from headway.config import HeadwayConfig

_OURS = frozenset({"docker", "scripted"})
# Plain attributes of ``ports.Runtime``, and their kinds.
_TRAITS = {"simulates": bool, "any_image": bool}


class RuntimeUnusable(ConfigInvalid):
    """The package of a runtime is at fault; the sentence names it."""

    slug = "runtime-unusable"
    title = "This runtime can't be used"


def check(config: HeadwayConfig) -> None:
    """Whether the configured runtime could be made here, as far as its class tells. Nothing is made.

    Headway's own are tested with it. Their modules would only take memory from a process that runs no Worker.

    Raises:
        ConfigInvalid: no package gives it, two do, or what one gives is no runtime.
    """
    if config.worker.runtime in _OURS:
        _find(config.worker.runtime)
    else:
        kind_of(config.worker.runtime)


def make(name: str, setup: RuntimeSetup) -> RuntimeParts:
    """A new runtime of this name.

    Raises:
        ConfigInvalid: as for ``check``, or the package's code failed.
        HeadwayError: what the runtime itself says of these settings.
    """
    plugin, kind = _find(name), kind_of(name)
    try:
        parts = kind.from_setup(setup)
    except HeadwayError:
        raise
    except (Exception, SystemExit) as error:
        raise _unusable(plugin, f"can't be made: {_words(error)}") from error
    if not isinstance(parts, RuntimeParts):
        raise _unusable(plugin, f"can't be made: its from_setup gave {type(parts).__name__} instead of RuntimeParts")
    if missing := ", ".join(_missing(parts.runtime)):
        raise _unusable(plugin, f"lacks what worker.ports.Runtime asks for: {missing}")
    return parts


def kind_of(name: str) -> RuntimeKind:
    """The class that the entry point of this name has, imported and looked at.

    Raises:
        ConfigInvalid: as for ``check``.
    """
    plugin = _find(name)
    try:
        kind = plugin.entry.load()
    except (Exception, SystemExit) as error:
        raise _unusable(plugin, f"can't be imported from {plugin.entry.value}: {_words(error)}") from error
    if missing := ", ".join((*_missing(kind), *(() if _callable(kind, "from_setup") else ("from_setup",)))):
        raise _unusable(plugin, f"lacks what worker.ports.Runtime asks for: {missing}")
    if kind.name != name:
        raise _unusable(plugin, f"calls itself {kind.name!r}: the class's `name` must be that of its entry point")
    return cast(RuntimeKind, kind)


def methods() -> list[str]:
    """The names of the methods that every runtime has."""
    return [name for name, value in vars(Runtime).items() if not name.startswith("_") and callable(value)]


def _missing(runtime: object) -> Iterator[str]:
    yield from (name for name in methods() if not _callable(runtime, name))
    for name, kind in {"name": str, **_TRAITS}.items():
        if not isinstance(getattr(runtime, name, None), kind):
            yield name


def _callable(thing: object, name: str) -> bool:
    value: Callable[..., object] | None = getattr(thing, name, None)
    return callable(value)


def _find(name: str) -> plugins.Plugin:
    try:
        return plugins.find(plugins.RUNTIMES, name)
    except plugins.NoSuchPlugin as error:
        raise ConfigInvalid(f"[worker] runtime {error}.") from error


def _unusable(plugin: plugins.Plugin, what: str) -> RuntimeUnusable:
    return RuntimeUnusable(
        f"[worker] runtime {plugin.name!r} of the package {plugin.package} {what.rstrip('.')}. Mend or uninstall that "
        "package, or name another runtime."
    )


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
