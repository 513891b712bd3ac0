"""What people call a card, and what its driver calls it."""

from __future__ import annotations

import pytest

from headway.model.gpu_names import is_model
from task_manager.model import Gpu, Shape
from task_manager.planning.placement import suits

SLICE = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"


@pytest.mark.parametrize(
    ("model", "wanted", "want"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100", True),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm4", True),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", True),
        ("NVIDIA H100 PCIe", "H100", True),
        ("NVIDIA GeForce RTX 3090", "RTX 3090", True),
        ("NVIDIA GeForce RTX 3090", "RTX 309", False),
        ("NVIDIA A100-SXM4-40GB", "A10", False),
        ("NVIDIA A10", "A100", False),
        ("NVIDIA A100-SXM4-40GB", "40GB A100", False),
        ("Simulated", "Simulated", True),
        ("NVIDIA A100", "-", False),
        # G4: a slice is a GPU of its own model.
        (SLICE, "A100", False),
        (SLICE, "NVIDIA A100-SXM4-40GB", False),
        (SLICE, "MIG", True),
        (SLICE, "1g.5gb", True),
        (SLICE, "MIG 1g.5gb", True),
        (SLICE, "MIG-1g.5gb", True),
        (SLICE, "A100 MIG 1g.5gb", True),
        (SLICE, "A100 MIG", True),
        (SLICE, SLICE, True),
        (SLICE, "H100 MIG 1g.5gb", False),
        (SLICE, "A100 MIG 2g.10gb", False),
        ("NVIDIA A100-SXM4-40GB", "A100 MIG", False),
    ],
)
def test_a_model_is_known_by_the_words_people_use(model: str, wanted: str, want: bool) -> None:
    assert is_model(model, wanted) is want


def test_several_slices_are_only_for_who_names_them() -> None:
    """A program sees one slice at most, so two of them are no two GPUs."""
    part = Gpu("MIG-1", SLICE, 5 << 30)
    assert suits(part, Shape(100, 0, gpus=1))
    assert not suits(part, Shape(100, 0, gpus=2))
    assert suits(part, Shape(100, 0, gpus=2, gpu_models=("1g.5gb",)))
    assert suits(Gpu("GPU-1", "NVIDIA A100", 40 << 30), Shape(100, 0, gpus=2))
