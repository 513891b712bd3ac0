"""Readings of a GPU that does not exist, as those of a real one would be while tasks come and go. Pure.

Utilisation and memory rise while an attempt holds the card. Power follows utilisation, and temperature follows power,
each with the delay that people know from real cards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_MOST_POWER_W = {
    "H200": 700.0, "H100": 700.0, "A100": 400.0, "V100": 300.0, "L40": 300.0, "L4": 72.0, "T4": 70.0, "5090": 575.0,
    "4090": 450.0, "3090": 350.0, "A6000": 300.0,
}  # fmt: skip
_USUAL_POWER_W = 300.0
_IDLE_SHARE = 0.14  # of the power
_ROOM_C, _RISE_C = 29.0, 47.0
LIMIT_C = 90.0  # from here on a card slows down
_BUSY, _WAVE = 0.9, 0.08
MEMORY_OF_ATTEMPT = 0.62
_LOADS_S, _WORKS_S, _POWER_S, _HEAT_S = 8.0, 5.0, 1.5, 40.0
_STEP_S = 1.0  # no longer, or a fast change is not seen by what follows slowly


@dataclass(frozen=True, slots=True)
class Load:
    """What happens to a card. ``foreign_bytes`` belong to processes outside Headway."""

    held: bool
    foreign_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Pulse:
    """A card's state between readings. ``held_s``: so long an attempt has held it."""

    utilisation: float = 0.0
    loaded: float = 0.0  # share of an attempt's memory that it has filled
    power_share: float = _IDLE_SHARE
    celsius: float = _ROOM_C + _RISE_C * _IDLE_SHARE
    held_s: float = 0.0


def beat(pulse: Pulse, load: Load, passed_s: float, phase: float) -> Pulse:
    """The card ``passed_s`` later. ``phase`` lets neighbours swing apart."""
    for _ in range(min(600, math.ceil(passed_s / _STEP_S))):
        pulse = _beat(pulse, load, min(_STEP_S, passed_s), phase)
        passed_s -= _STEP_S
    return pulse


def _beat(pulse: Pulse, load: Load, step_s: float, phase: float) -> Pulse:
    held_s = pulse.held_s + step_s if load.held else 0.0
    wave = _WAVE * (math.sin(held_s / 7.0 + phase) + 0.5 * math.sin(held_s / 2.3 + 2 * phase)) / 1.5
    wanted = _BUSY + wave if load.held else 0.55 if load.foreign_bytes else 0.0
    utilisation = _towards(pulse.utilisation, wanted, step_s, _WORKS_S)
    power = _towards(pulse.power_share, _IDLE_SHARE + (1 - _IDLE_SHARE) * utilisation, step_s, _POWER_S)
    return Pulse(
        utilisation=utilisation,
        # An ended process gives its memory back at once.
        loaded=_towards(pulse.loaded, 1.0, step_s, _LOADS_S) if load.held else 0.0,
        power_share=power,
        celsius=_towards(pulse.celsius, _ROOM_C + _RISE_C * power, step_s, _HEAT_S),
        held_s=held_s,
    )


def memory_used(pulse: Pulse, load: Load, memory_bytes: int) -> int:
    """Bytes, never more than there are."""
    own = round(memory_bytes * MEMORY_OF_ATTEMPT * pulse.loaded) if load.held else 0
    return min(memory_bytes, own + load.foreign_bytes)


def most_power_w(model: str) -> float:
    """What a card of this model draws at most, roughly."""
    return next((watt for name, watt in _MOST_POWER_W.items() if name in model), _USUAL_POWER_W)


def _towards(now: float, wanted: float, step_s: float, delay_s: float) -> float:
    return wanted + (now - wanted) * math.exp(-step_s / delay_s)
