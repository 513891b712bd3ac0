"""The repository's own checks: names, sentences and words, on made-up folders."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest


def script(repository: Path, name: str) -> ModuleType:
    loader = SourceFileLoader(f"scripts_{name}", str(repository / "scripts" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def names(repository: Path) -> ModuleType:
    return script(repository, "names")


@pytest.fixture(scope="module")
def sentences(repository: Path) -> ModuleType:
    return script(repository, "sentences")


@pytest.fixture(scope="module")
def words(repository: Path) -> ModuleType:
    return script(repository, "words")


@pytest.fixture
def rooms(tmp_path: Path) -> Path:
    """Two services that share a name, each with a room."""
    for place, text in {
        "here/model.py": "class Node: ...\nclass Limits: ...\nclass _Row: ...\n",
        "here/rpc/things_pb2.py": "class Node: ...\nclass Reply: ...\n",
        "there/rooms/model.py": "class Limits:\n    class Node: ...\nclass _Row: ...\n",
        "there/reply.py": "def Node(): ...\nclass Reply: ...\n",
    }.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    return tmp_path


def test_a_public_class_name_of_two_modules_is_found_with_both(names: ModuleType, rooms: Path) -> None:
    found = names.shared_names([rooms / "here", rooms / "there"])
    assert found == {"Limits": [rooms / "here" / "model.py", rooms / "there" / "rooms" / "model.py"]}


def test_names_in_several_modules_fail_unless_they_are_listed_as_mirrors(
    names: ModuleType, rooms: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(rooms / "here"), str(rooms / "there")]
    assert names.main(folders, frozenset()) == 1
    assert "Limits: " in capsys.readouterr().out
    assert names.main(folders, frozenset({"Limits"})) == 0
    assert capsys.readouterr().out == ""


def test_a_mirror_that_is_none_any_more_has_to_leave_the_list(
    names: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert names.main([], names.MIRRORS | {"NoSuchThing"}) == 1
    assert "NoSuchThing" in capsys.readouterr().out


LONG = "one two three four five six seven eight nine ten " * 2 + "one two three four five six."


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (LONG, [0]),
        (f"Short one. {LONG}", [0]),
        (f"Short.\n\n* {LONG}", [2]),
        (LONG.replace("three four", "three. Four"), []),
        (f"```\n{LONG}\n```", []),
        (f"| a table | {LONG} |", []),
        (f"An example:\n\n    {LONG}\n\n    {LONG}\n\nShort again.", []),
        (f"Raises:\n    InvalidInput: {LONG}", [0]),
    ],
    ids=["alone", "second", "item", "split", "code", "table", "example", "indented behind text"],
)
def test_sentences_of_more_than_25_words_are_found_by_line(sentences: ModuleType, text: str, want: list[int]) -> None:
    assert [line for line, _, _ in sentences.long_sentences(text)] == want


def test_docstrings_count_and_code_does_not(sentences: ModuleType, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f'"""Short."""\n\n# {LONG}\n\n\ndef call():\n    """Short.\n\n    {LONG}\n    """\n')
    assert [line for line, _, _ in sentences.of_file(module)] == [9]


PYTHON = '''
"""A lease is said here to developers."""

@click.command()
def wait():
    """Wait for the next heartbeat of a machine."""
    log.info("silent for a lease")
    raise HeadwayError(f"{node} was silent for longer than its "
                       f"lease; `headway nodes drain {node}` helps.", why="lease_over")

def other():
    """A heartbeat is said here to developers."""
    raise ValueError("no lease is there")
'''
PAGE = """
// The lease of a comment.
const state = "DRAINED";
const why = discipline === "greedy" ? `It has waited for the ${n} leases` : "";
  <button title="what to close">
    Cordon
  </button>
"""


def test_only_words_that_people_read_are_judged(words: ModuleType) -> None:
    found = [(line, word) for line, word, _, _ in words.wrong_words(words.python_texts(PYTHON))]
    assert found == [(6, "heartbeat"), (8, "lease")]
    assert [(line, word) for line, word, _, _ in words.wrong_words(words.page_texts(PAGE))] == [
        (4, "leases"),
        (6, "Cordon"),
    ]
