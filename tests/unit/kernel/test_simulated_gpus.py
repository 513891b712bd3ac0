"""How simulated GPUs are asked for."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from headway.cli.up import up
from headway.model.simulated_gpus import SimulatedGpusAsked, is_simulated, read_simulated_gpus, simulated_uuid


@pytest.mark.parametrize(
    ("text", "count", "model"),
    [
        ("4", 4, None),
        ("0", 0, None),
        (" 1024 ", 1024, None),
        ("4xA100", 4, "A100"),
        ("1xRTX 4090", 1, "RTX 4090"),
        ("2x4090", 2, "4090"),
        ("8 X NVIDIA A100-SXM4-40GB", 8, "NVIDIA A100-SXM4-40GB"),
    ],
)
def test_a_number_or_a_number_and_a_model(text: str, count: int, model: str | None) -> None:
    assert read_simulated_gpus(text) == SimulatedGpusAsked(count, model)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "'' is no number of GPUs: write a number such as 4, or a number and a model such as 4xA100."),
        ("-1", "'-1' is no number of GPUs"),
        ("four", "'four' is no number of GPUs"),
        ("1.5", "'1.5' is no number of GPUs"),
        ("x4", "'x4' is no number of GPUs"),
        ("xA100", "'xA100' is no number of GPUs"),
        ("A100x4", "'A100x4' is no number of GPUs"),
        ("٤", "is no number of GPUs"),
        ("4x", "'4x' names no model behind the x"),
        ("0xA100", "'0xA100' names a model for no GPU: write 0 to simulate none."),
        ("1025", "'1025' is too many GPUs: at most 1024 can be simulated."),
        ("1000000", "'1000000' is too many GPUs"),
        ("9" * 5000 + "xA100", "is too many GPUs"),
        ("2xA100,2xV100", "'2xA100,2xV100' names several models"),
        ("4,4", "'4,4' names several models"),
        ("4xA\n100", "'4xA\\n100' has no name of a GPU model behind the x"),
        ('4x"A100"', "has no name of a GPU model behind the x"),
        ("4x\x1b[31m", "has no name of a GPU model behind the x"),
        ("4x" + "A" * 101, "has no name of a GPU model behind the x"),
    ],
)
def test_anything_else_is_refused_in_one_sentence(text: str, want: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        read_simulated_gpus(text)
    sentence = str(refused.value)
    assert want in sentence
    assert len(sentence) < 250
    assert sentence.isprintable()


def test_the_command_says_it_before_anything_is_made() -> None:
    done = CliRunner().invoke(up, ["--simulated-gpus", "x4", "--state", "/nonexistent/state"])
    assert done.exit_code == 2
    assert "Invalid value for '--simulated-gpus': 'x4' is no number of GPUs" in done.output


def test_a_simulated_gpu_is_known_by_its_uuid() -> None:
    assert is_simulated(simulated_uuid("n1", 3))
    assert not is_simulated("GPU-11111111-aaaa-bbbb-cccc-000000000001")
