"""`python -m benchmarks guards`, on a made-up package; and the real lists, which have to fit the code."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from benchmarks.guards import command, guard_list
from benchmarks.guards.guard_list import BadList, Change, Guard
from benchmarks.guards.mutation import mutated

CODE = """
def pay(amount: int, balance: int) -> int:
    if amount > balance:
        raise ValueError("too much")
    if amount < 0:
        raise ValueError("less than nothing")
    return balance - amount
"""
TESTS = """
import pytest
from shop import pay

def test_pay():
    assert pay(1, 3) == 2
    with pytest.raises(ValueError):
        pay(4, 3)
"""
HELD = """
[[guard]]
name = "too-much"
file = "shop.py"
never = "if amount > balance:"
tests = ["test_shop.py"]
promise = "Nobody pays more than there is."
"""
NOT_HELD = """
[[guard]]
name = "negative"
file = "shop.py"
never = "if amount < 0:"
tests = ["test_shop.py"]
promise = "Nobody pays less than nothing."
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "lists").mkdir(parents=True)
    (root / "shop.py").write_text(CODE)
    (root / "test_shop.py").write_text(TESTS)
    (root / "pytest.ini").write_text("[pytest]\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def run(shop: Path, guards: str, *words: str) -> int:
    (shop / "lists" / "shop.toml").write_text(guards)
    return command.main(words, root=shop, lists=shop / "lists", limit_s=120)


@pytest.mark.slow
def test_a_guard_that_a_test_holds_is_killed(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shop, HELD) == 0
    printed = capsys.readouterr().out
    assert "1 guards" in printed
    assert "1 killed" in printed
    assert "test_shop.py::test_pay" in printed
    assert (shop / "shop.py").read_text() == CODE, "the checkout itself is never changed"


@pytest.mark.slow
def test_a_survivor_fails_the_run(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shop, HELD + NOT_HELD) == 1
    assert "1 killed, 1 SURVIVED" in capsys.readouterr().out


@pytest.mark.slow
def test_a_reason_beside_a_survivor_is_accepted(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shop, HELD + NOT_HELD + 'survives = "The caller checks it."\n') == 0
    assert "The caller checks it." in capsys.readouterr().out


@pytest.mark.slow
def test_a_red_baseline_fails_the_run_and_kills_nothing(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "test_shop.py").write_text(TESTS + "    assert False\n")
    assert run(shop, HELD) == 2
    printed = capsys.readouterr().out
    assert "baseline fails" in printed
    assert "killed" not in printed


@pytest.mark.slow
@pytest.mark.parametrize("tests", ["test_gone.py", "test_shop.py::test_gone"])
def test_a_test_that_is_not_there_fails_the_run(shop: Path, tests: str) -> None:
    assert run(shop, HELD.replace("test_shop.py", tests)) == 2


@pytest.mark.slow
def test_tests_that_can_not_even_be_imported_say_nothing_of_a_guard(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = '[[guard]]\nname = "gone"\nfile = "shop.py"\nline = "def pay("\nbecomes = "def give("\n'
    assert run(shop, gone + 'tests = ["test_shop.py"]\npromise = "None."\n') == 2
    assert "1 BROKEN" in capsys.readouterr().out


@pytest.mark.slow
def test_tests_that_do_not_end_fail_the_run(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "test_shop.py").write_text(TESTS + "    try:\n        pay(-1, 3)\n    except ValueError:\n        pass\n")
    hangs = NOT_HELD.replace("never =", "line =") + 'becomes = "while amount < 0:\\n        continue\\n    if False:"\n'
    (shop / "lists" / "shop.toml").write_text(hangs)
    assert command.main((), root=shop, lists=shop / "lists", limit_s=15) == 1
    assert "1 TOO LONG" in capsys.readouterr().out


@pytest.mark.slow
def test_a_list_that_no_longer_fits_the_code_fails_the_run(shop: Path) -> None:
    assert run(shop, HELD.replace("amount > balance", "amount > limit")) == 2


@pytest.mark.slow
def test_words_choose_guards(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shop, HELD + NOT_HELD, "much") == 0
    assert "1 guards" in capsys.readouterr().out
    assert run(shop, HELD, "nothing-like-this") == 2


def a_guard(change: Change, quoted: str, becomes: str = "") -> Guard:
    return Guard("g", "shop.py", quoted, change, becomes, ("t",), "p")


def test_each_change_takes_away_what_it_names() -> None:
    assert "if False:\n" in mutated(CODE, a_guard(Change.NEVER, "if amount > balance:"))
    assert "if True:\n" in mutated(CODE, a_guard(Change.ALWAYS, "if amount > balance:"))
    assert "        pass\n    if amount < 0" in mutated(CODE, a_guard(Change.DELETE, 'raise ValueError("too much")'))
    assert "amount >= balance" in mutated(CODE, a_guard(Change.BECOMES, "> balance:", ">= balance:"))


@pytest.mark.parametrize(
    "guard",
    [
        a_guard(Change.DELETE, "raise ValueError"),  # stands there twice
        a_guard(Change.NEVER, "return balance"),  # has no condition
        a_guard(Change.BECOMES, "> balance:", ">  balance:"),  # changes nothing
        a_guard(Change.BECOMES, "> balance:", "> balance"),  # is no Python
    ],
)
def test_a_change_that_makes_no_sense_is_refused(guard: Guard) -> None:
    with pytest.raises(BadList):
        mutated(CODE, guard)


def test_an_entry_that_lacks_something_is_refused(tmp_path: Path) -> None:
    for entry in (HELD.replace("promise", "hope"), HELD.replace("never", "maybe"), HELD + HELD):
        (tmp_path / "shop.toml").write_text(entry)
        with pytest.raises(BadList):
            guard_list.load(tmp_path)


def test_the_lists_fit_the_code(repository: Path) -> None:
    """A guard that is changed has to be changed in its list too, and its tests have to be there."""

    @cache
    def text_of(file: str) -> str:
        return (repository / file).read_text("utf-8")

    for guard in sorted(guard_list.load(), key=lambda guard: guard.file):
        mutated(text_of(guard.file), guard)
        for test in guard.tests:
            path, _, name = test.partition("::")
            assert f"def {name}" in text_of(path), f"{guard.name}: {test}"
