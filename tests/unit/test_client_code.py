"""What of a folder goes along as its snapshot."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from headway.client import code
from headway.client.code import CodeRefused, pack
from headway.client.code_cache import HashCache
from headway.errors import TooLarge
from headway.snapshot import SnapFile, SnapLink, digest_of, link_stays_inside, problems

TREE = {
    ".gitignore": "*.log\n!keep.log\n/build/\ndata/**\n!data/keep\nnode_modules/\n# comment\n\\#odd\n",
    "a.log": "",
    "keep.log": "",
    "build/x": "",
    "src/build/x": "",
    "data/big": "",
    "data/keep": "",
    "src/node_modules/m/index.js": "",
    "#odd": "",
    "src/.gitignore": "!a.log\n/only-here\n",
    "src/a.log": "",
    "src/only-here": "",
    "src/deep/only-here": "",
    "deep/er/.gitignore": "*\n!.gitignore\n",
    "deep/er/x": "",
    "größe 日本.py": "",
}


def make(root: Path, tree: dict[str, str]) -> Path:
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names(root: Path) -> set[str]:
    packed = pack(root)
    return {file.path for file in packed.files} | {link.path for link in packed.links}


def test_git_and_headway_leave_out_the_same_files(tmp_path: Path) -> None:
    make(tmp_path, TREE)
    git = ["git", "-C", str(tmp_path), "-c", "core.quotepath=off", "-c", "core.excludesFile=/dev/null"]
    subprocess.run([*git, "init", "-q"], check=True)
    words = [*git, "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(words, check=True, capture_output=True)
    want = set(filter(None, listed.stdout.decode().split("\0")))
    assert names(tmp_path) == want
    assert {"src/a.log", "data/keep", "src/build/x"} <= want
    assert not {"a.log", "build/x", "data/big", "deep/er/x", "src/only-here"} & want
    # A part of a repository is ignored by the files above it, too.
    assert names(tmp_path / "src") == {n.removeprefix("src/") for n in want if n.startswith("src/")}


def test_headwayignore_has_the_last_word(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "*.bin\n", ".headwayignore": "!w.bin\ntests/\n", "w.bin": "", "tests/t": "", "a": ""})
    make(tmp_path, {".git/config": "", "sub/.git": "gitdir: elsewhere"})
    assert names(tmp_path) == {".gitignore", ".headwayignore", "w.bin", "a"}


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        ("l", "a/b", True),
        ("l", "./a", True),
        ("d/l", "../a", True),
        ("d/e/l", "../../a", True),
        ("l", "missing", True),
        ("l", "..", False),
        ("d/l", "../../a", False),
        ("l", "/etc/passwd", False),
        ("l", "d/../a", False),  # d may be a link itself
        ("d/l", "../d/../../x", False),
        ("l", "", False),
    ],
)
def test_a_link_that_could_lead_out_is_told_by_its_text(path: str, target: str, inside: bool) -> None:
    assert link_stays_inside(path, target) is inside


def test_links_out_are_refused_by_name_and_links_in_stay_links(tmp_path: Path) -> None:
    make(tmp_path, {"a": "x"})
    (tmp_path / "in").symlink_to("a")
    assert pack(tmp_path).links == (SnapLink("in", "a"),)
    (tmp_path / "out").symlink_to("/etc/passwd")
    with pytest.raises(CodeRefused, match=r"out -> /etc/passwd"):
        pack(tmp_path)


def test_too_much_is_refused_with_the_biggest_folders(tmp_path: Path) -> None:
    make(tmp_path, {"src/a.py": "x" * 10, "weights/model.bin": "x" * 5000, "weights/old/m": "x" * 900})
    with pytest.raises(TooLarge, match=r"biggest parts: weights \(4.9 KiB\), weights/old"):
        pack(tmp_path, max_bytes=1000)
    with pytest.raises(TooLarge, match=r"3 files and 2 are allowed"):
        pack(tmp_path, max_files=2)


def test_a_name_that_is_no_utf8_and_an_empty_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(CodeRefused, match="nothing in"):
        pack(tmp_path)
    (tmp_path / os.fsdecode(b"\xff")).write_text("")
    with pytest.raises(CodeRefused, match=r"\\xff"):
        pack(tmp_path)


def test_the_digest_says_what_and_not_when(tmp_path: Path) -> None:
    one = make(tmp_path / "1", {"a": "1", "b/c": "2"})
    two = make(tmp_path / "2", {"b/c": "2", "a": "1"})
    os.utime(two / "a", (1, 1))
    assert pack(one).digest == pack(two).digest
    (two / "a").chmod(0o755)
    assert pack(one).digest != pack(two).digest
    files = [SnapFile("a", "0" * 64, 1, False)]
    assert digest_of(files, [SnapLink("b", "a")]) != digest_of(files, [SnapLink("a\0b", "a")])


def test_the_digest_of_a_snapshot_never_changes() -> None:
    files = [SnapFile("b/c", "1" * 64, 1, True), SnapFile("a", "0" * 64, 1, False)]
    want = "sha256:867bf454c7168278a21f8d06ee783ed1d3e33126c73607e27f65d1d23ddaebe8"
    assert digest_of(files, [SnapLink("l", "b/c")]) == want


def test_unchanged_files_are_not_read_again_and_changed_ones_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make(tmp_path / "code", {"a": "1", "b": "2", "new": "3"})
    for name in ("a", "b"):
        os.utime(root / name, (1, 1))
    read: list[str] = []
    original = code._hash
    monkeypatch.setattr(code, "_hash", lambda path: (read.append(path.name), original(path))[1])
    first = pack(root, cache=HashCache(tmp_path / "cache.json"))
    assert sorted(read) == ["a", "b", "new"]
    read.clear()
    # `new` is so young that it could be written again without a trace in its time.
    assert pack(root, cache=HashCache(tmp_path / "cache.json")).digest == first.digest
    assert read == ["new"]
    read.clear()
    (root / "b").write_text("4")
    assert pack(root, cache=HashCache(tmp_path / "cache.json")).digest != first.digest
    assert read == ["b", "new"]
    (tmp_path / "cache.json").write_text("[1, nonsense")
    pack(root, cache=HashCache(tmp_path / "cache.json"))


def test_batches_are_small_but_for_what_is_large_alone() -> None:
    sizes = [40 << 20, 30 << 20, 200 << 20, 1, 2]
    files = [SnapFile(str(i), "0" * 64, size, False) for i, size in enumerate(sizes)]
    assert [[f.path for f in batch] for batch in code.batches(files)] == [["0"], ["1"], ["2"], ["3", "4"]]


@pytest.mark.parametrize(
    ("paths", "clause"),
    [
        (["../x"], "plain relative"),
        (["/x"], "plain relative"),
        (["a//b"], "plain relative"),
        (["a/./b"], "plain relative"),
        (["a\0b"], "NUL"),
        (["x" * 256], "longer than 255"),
        (["/".join(["y" * 200] * 11)], "longer than"),
        (["a", "a"], "twice"),
        (["a", "a/b"], "no folder"),
    ],
)
def test_paths_that_cant_be_are_told(paths: list[str], clause: str) -> None:
    found = list(problems([SnapFile(path, "0" * 64, 1, False) for path in paths], []))
    assert len(found) == 1
    assert clause in found[0][1]
