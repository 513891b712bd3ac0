"""What people call a card, and what its driver calls it."""

from __future__ import annotations

import pytest

from headway.model.gpu_names import is_model


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
    ],
)
def test_a_model_is_known_by_the_words_people_use(model: str, wanted: str, want: bool) -> None:
    assert is_model(model, wanted) is want
