"""The user's reference stays true: its example is a job file, its tables are what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headway.jobfile import parse_job, to_yaml
from headway.jobfile.check import JOB_KEYS
from headway.jobfile.task_fields import RESOURCE_KEYS, TASK_KEYS
from headway.units import BadValue, parse_duration, parse_size

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "job-file.md").read_text()


def _yaml_blocks(text: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page", ["job-file.md", "interfaces.md"])
def test_the_examples_are_job_files(page: str) -> None:
    blocks = _yaml_blocks((DOCS / page).read_text())
    assert blocks
    if page == "interfaces.md":
        # That page shows all fields on one task to save room, also the one that goes with a text only.
        blocks = [block.replace("    shell: bash ", "    # shell: bash ") for block in blocks[:1]]
    for block in blocks:
        job = parse_job(block.encode())
        assert parse_job(to_yaml(job).encode()) == job


def test_the_example_shows_every_key() -> None:
    (block,) = _yaml_blocks(PAGE)
    for key in (*JOB_KEYS, *TASK_KEYS, *RESOURCE_KEYS):
        assert re.search(rf"\b{key}:", block), key


def test_every_key_has_its_row() -> None:
    for key in (*JOB_KEYS, *TASK_KEYS, *RESOURCE_KEYS):
        assert f"\n| `{key}` |" in PAGE, key


def _rows(heading: str) -> list[tuple[list[str], str]]:
    table = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")][2:]
    return [(re.findall(r"`([^`]*)`", written), meaning.strip()) for written, meaning in rows]


@pytest.mark.parametrize(("heading", "read"), [("Durations", parse_duration), ("Sizes", parse_size)])
def test_the_tables_of_units_say_what_is_taken_and_what_is_not(heading: str, read: object) -> None:
    assert callable(read)
    rows = _rows(heading)
    assert len(rows) >= 8
    for written, meaning in rows:
        for index, text in enumerate(written):
            if not meaning.startswith("refused"):
                assert read(text) > 0
                continue
            with pytest.raises(BadValue) as caught:
                read(text)
            if "right spelling" in meaning:
                assert caught.value.suggestion == re.findall(r"`([^`]*)`", meaning)[index]


@pytest.mark.parametrize(
    ("text", "want"), [("8GiB", 8_589_934_592), ("8Gi", 8_589_934_592), ("8GB", 8_000_000_000), ("4096B", 4096)]
)
def test_the_numbers_of_the_table(text: str, want: int) -> None:
    assert parse_size(text) == want
    assert text in PAGE
