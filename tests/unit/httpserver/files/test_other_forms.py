"""Names that were typed in another Unicode form than they are stored in."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.errors import NotAllowed, NotFound
from httpserver.files import trash_bin
from httpserver.files.space import PersonalSpace

ONE, TWO = "caf\u00e9", "cafe\u0301"  # as Linux and as macOS write the same name


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def space(home: Path) -> Iterator[PersonalSpace]:
    root = os.open(home, os.O_PATH | os.O_DIRECTORY)
    yield PersonalSpace(root)
    os.close(root)


def content(space: PersonalSpace, *path: str) -> bytes:
    found = space.open(path)
    assert found is not None
    try:
        return os.read(found.descriptor, 100)
    finally:
        os.close(found.descriptor)


@pytest.mark.parametrize(("typed", "stored"), [(ONE, TWO), (TWO, ONE)])
def test_what_reads_alike_is_found(home: Path, space: PersonalSpace, typed: str, stored: str) -> None:
    assert unicodedata.normalize("NFC", typed) == unicodedata.normalize("NFC", stored)
    (home / stored / stored).mkdir(parents=True)
    (home / stored / stored / stored).write_bytes(b"here")
    assert content(space, typed, typed, typed) == b"here"
    assert content(space, typed, stored, typed) == b"here", "each name by itself"
    assert [entry.name for entry in space.list((typed, typed), "", 10)[0]] == [stored]
    os.close(space.open_folder((typed,)))


def test_the_same_bytes_come_first(home: Path, space: PersonalSpace) -> None:
    (home / ONE).write_bytes(b"one letter")
    (home / TWO).write_bytes(b"two letters")
    assert (content(space, ONE), content(space, TWO)) == (b"one letter", b"two letters")


def test_among_several_none_is_guessed(home: Path, space: PersonalSpace) -> None:
    # Three marks have several orders, all of one look.
    typed, *stored = "a\u0323\u0307", "a\u0307\u0323", "\u1ea1\u0307"
    for name in stored:
        (home / name).write_bytes(b"")
    with pytest.raises(NotFound):
        space.open((typed,))


def test_a_new_file_lies_in_the_folder_that_reads_alike(home: Path, space: PersonalSpace) -> None:
    (home / TWO).mkdir()
    for name in ("new", ONE):
        write = space.begin((ONE, name), overwrite=True, parents=True)
        write.write(b"text")
        write.finish()
    space.make((ONE, "deeper"))
    assert sorted(os.listdir(home)) == [TWO]
    assert sorted(os.listdir(home / TWO)) == sorted(["new", ONE, "deeper"])


def test_it_is_moved_and_removed(home: Path, space: PersonalSpace) -> None:
    (home / TWO).write_bytes(b"a")
    space.move((ONE,), ("b",), overwrite=False)
    assert os.listdir(home) == ["b"]
    space.move(("b",), (TWO,), overwrite=False)
    trash_bin.put(space, (ONE,), recursive=False, now=1.0)
    assert TWO not in os.listdir(home)
    (home / TWO).write_bytes(b"a")
    space.delete((ONE,), recursive=False)
    assert TWO not in os.listdir(home)


def test_a_name_may_be_given_its_other_form(home: Path, space: PersonalSpace) -> None:
    (home / TWO).write_bytes(b"a")
    space.move((TWO,), (ONE,), overwrite=False)
    assert os.listdir(home) == [ONE]


def test_names_that_are_no_text_and_links_are_left_alone(home: Path, space: PersonalSpace, tmp_path: Path) -> None:
    os.mkdir(os.fsencode(home) + b"/\xff\xfe")
    os.symlink("/etc", home / TWO)
    with pytest.raises(NotAllowed, match="out of the personal space"):
        space.open((ONE, "no such"))
    assert [entry.name for entry in space.list((os.fsdecode(b"\xff\xfe"),), "", 10)[0]] == []
