"""What images ask of the driver; the values are those of NVIDIA's public images."""

from __future__ import annotations

import pytest

from task_manager.planning.cuda import brands, is_served, phrase

# nvidia/cuda:12.4.1-base, shortened to its kinds of terms.
CUDA_12_4 = (
    "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471 brand=nvidia,driver>=470,"
    "driver<471 brand=nvidiartx,driver>=470,driver<471 brand=geforce,driver>=470,driver<471 brand=tesla,driver>=525,"
    "driver<526 brand=unknown,driver>=525,driver<526 brand=tesla,driver>=535,driver<536 brand=unknown,driver>=535,"
    "driver<536"
)
# nvidia/cuda:11.0-base.
CUDA_11_0 = "cuda>=11.0 brand=tesla,driver>=418,driver<419"
# nvidia/cuda:10.1-base.
CUDA_10_1 = "cuda>=10.1 brand=tesla,driver>=384,driver<385 brand=tesla,driver>=396,driver<397"


@pytest.mark.parametrize(
    ("require", "driver", "cuda", "model", "want"),
    [
        (CUDA_12_4, "550.54.15", "12.4", "NVIDIA A100-SXM4-40GB", True),
        (CUDA_12_4, "560.35.03", "12.6", "NVIDIA GeForce RTX 4090", True),
        # Forward compatibility: a data-centre card on an older branch that NVIDIA supports.
        (CUDA_12_4, "535.104.05", "12.2", "NVIDIA A100-SXM4-40GB", True),
        (CUDA_12_4, "535.104.05", "12.2", "Tesla T4", True),
        # The same driver under a gaming card.
        (CUDA_12_4, "535.104.05", "12.2", "NVIDIA GeForce RTX 3090", False),
        # A branch in between that is not on the list.
        (CUDA_12_4, "545.23.08", "12.3", "NVIDIA H100 80GB HBM3", False),
        (CUDA_12_4, "470.256.02", "11.4", "NVIDIA GeForce GTX 1080", True),
        (CUDA_11_0, "418.87.00", "10.1", "Tesla V100-SXM2-16GB", True),
        (CUDA_11_0, "410.48", "10.0", "Tesla V100-SXM2-16GB", False),
        (CUDA_10_1, "384.183", "9.0", "Tesla K80", True),
        (CUDA_10_1, "384.183", "9.0", "NVIDIA TITAN Xp", False),
        # Not known: NVIDIA's toolkit will say.
        (CUDA_12_4, "", "", "Simulated", True),
        (CUDA_12_4, "545.23.08", "12.3", "Somebody's card", False),
        (CUDA_12_4, "535.104.05", "12.2", "Somebody's card", True),
        ("cuda>=99 flavour=vanilla", "535.104.05", "12.2", "NVIDIA A100", True),
        ("", "410.48", "10.0", "Tesla V100", True),
        ("cuda>=12.10", "550.54", "12.9", "NVIDIA A100", False),
        ("cuda>=12", "550.54", "12.0", "NVIDIA A100", True),
        ("arch>=9.0", "550.54", "12.4", "NVIDIA A100", True),
    ],
)
def test_what_is_served(require: str, driver: str, cuda: str, model: str, want: bool) -> None:
    assert is_served(require, driver, cuda, (model,)) is want


def test_one_card_that_will_do_is_enough() -> None:
    models = ("NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 3090")
    assert is_served(CUDA_12_4, "535.104.05", "12.2", models)


@pytest.mark.parametrize(
    ("model", "want"),
    [
        ("NVIDIA A100-SXM4-40GB", "tesla"),
        ("NVIDIA L40S", "tesla"),
        ("NVIDIA GH200 480GB", "tesla"),
        ("NVIDIA RTX A6000", "nvidiartx"),
        ("Quadro RTX 8000", "quadrortx"),
        ("NVIDIA TITAN RTX", "titanrtx"),
        ("NVIDIA GeForce RTX 4090", "geforcertx"),
    ],
)
def test_brands_of_cards(model: str, want: str) -> None:
    assert want in brands(model)
    assert ("tesla" in brands(model)) is (want == "tesla")


def test_in_words() -> None:
    assert phrase(CUDA_12_4) == "a driver for CUDA 12.4 or newer"
    assert phrase("driver>=535") == "a driver with driver>=535"
