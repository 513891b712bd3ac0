"""scripts/release, on a made-up checkout: one version, its changelog, its tag."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.scripts import script


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return script("release")


@pytest.fixture
def checkout(repository: Path, tmp_path: Path, release: ModuleType) -> Path:
    (tmp_path / "server").mkdir()
    for name in ("pyproject.toml", "server/pyproject.toml"):
        shutil.copy(repository / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n* A thing.\n")
    release.prepare(tmp_path, "1.2.0", "2026-01-02")
    return tmp_path


def test_a_version_is_written_everywhere_and_what_was_unreleased_is_its_section(
    release: ModuleType, checkout: Path
) -> None:
    assert release.version(checkout) == "1.2.0"
    assert '\n    "headway==1.2.0",\n' in (checkout / "server" / "pyproject.toml").read_text()
    log = (checkout / "CHANGELOG.md").read_text()
    assert log == "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-02\n\n* A thing.\n"
    assert release.problems(checkout, ["v1.2.0"]) == []
    release.prepare(checkout, "1.2.0", "2026-01-03")
    assert (checkout / "CHANGELOG.md").read_text() == log


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("server/pyproject.toml", 'version = "1.2.0"', 'version = "1.2.1"', "server/pyproject.toml: "),
        ("server/pyproject.toml", '"headway==1.2.0"', '"headway==1.2.1"', "server/pyproject.toml: "),
        ("server/pyproject.toml", '"headway==1.2.0"', '"headway>=1.2.0"', "server/pyproject.toml: "),
        ("pyproject.toml", 'version = "1.2.0"', 'version = "1.2"', "is no version of the form"),
        ("CHANGELOG.md", "[Unreleased]", "[Coming]", "there is no section ## [Unreleased]"),
        ("CHANGELOG.md", "[1.2.0] - 2026-01-02", "[1.2.0]", "v1.2.0 has no section"),
    ],
)
def test_what_does_not_agree_is_told(
    release: ModuleType, checkout: Path, file: str, old: str, new: str, says: str
) -> None:
    text = (checkout / file).read_text()
    assert old in text
    (checkout / file).write_text(text.replace(old, new, 1))
    assert any(says in problem for problem in release.problems(checkout, ["v1.2.0"]))


def test_a_tag_of_another_version_is_told(release: ModuleType, checkout: Path) -> None:
    (problem,) = release.problems(checkout, ["v1.1.0"])
    assert problem == "this commit has the tag v1.1.0, and pyproject.toml says 1.2.0"


def test_only_versions_are_taken(release: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["1.2"], ["v1.2.0"], ["--check"], ["1.2.0", "1.2.1"], ["01.2.0"]):
        assert release.main(words) == 2
        assert "Usage" in capsys.readouterr().err
