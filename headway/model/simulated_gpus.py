"""GPUs that are only simulated, for rehearsals: how they are asked for, and how everybody knows them."""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST = 1_024
_MARK = "GPU-simulated-"  # no driver gives such a UUID: theirs have hex digits there
_ASKED = re.compile(r"([0-9]+)(?:\s*[xX×]\s*(.*))?", re.DOTALL)
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+()/-]{0,99}")
_SHOWN = 60
_EXAMPLES = "write a number such as 4, or a number and a model such as 4xA100"


@dataclass(frozen=True, slots=True)
class SimulatedGpusAsked:
    """``model`` None: as it is configured."""

    count: int
    model: str | None = None


def read_simulated_gpus(text: str) -> SimulatedGpusAsked:
    """Read `4` or `4xA100`. Raises ValueError with a sentence."""
    asked = text.strip()
    found = _ASKED.fullmatch(asked)
    if found is None:
        if "," in asked and all(_ASKED.fullmatch(part.strip()) for part in asked.split(",")):
            raise ValueError(_one_model(text))
        raise ValueError(f"{_shown(text)} is no number of GPUs: {_EXAMPLES}.")
    digits, model = found.groups()
    count = int(digits) if len(digits) <= 9 else MOST + 1
    if count > MOST:
        raise ValueError(f"{_shown(text)} is too many GPUs: at most {MOST} can be simulated.")
    if model is None:
        return SimulatedGpusAsked(count)
    if "," in model:
        raise ValueError(_one_model(text))
    if not model:
        raise ValueError(f"{_shown(text)} names no model behind the x: {_EXAMPLES}.")
    if not _MODEL.fullmatch(model):
        raise ValueError(
            f"{_shown(text)} has no name of a GPU model behind the x: up to 100 letters, digits, spaces and ._+()/- "
            "make one, such as A100."
        )
    if not count:
        raise ValueError(f"{_shown(text)} names a model for no GPU: write 0 to simulate none.")
    return SimulatedGpusAsked(count, model)


def simulated_uuid(node_id: str, index: int) -> str:
    """The UUID of a simulated GPU."""
    return f"{_MARK}{node_id}-{index}"


def is_simulated(uuid: str) -> bool:
    """Whether the GPU of this UUID is only simulated, so that no device stands behind it."""
    return uuid.startswith(_MARK)


def _one_model(text: str) -> str:
    return f"{_shown(text)} names several models: all simulated GPUs of a machine are of one, such as 4xA100."


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")
