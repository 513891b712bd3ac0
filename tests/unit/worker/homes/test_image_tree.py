"""Which layers have part in a folder of an image, and where its links lead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.worker.homes.image_layers import GONE, Entry, folder, link, make_layers
from worker.homes.image_tree import FoundKind, ImageTree, LayerMark, counting
from worker.homes.model import HomeImpossible

M = LayerMark


@pytest.mark.parametrize(
    ("marks", "kind", "layers"),
    [
        ([], FoundKind.MISSING, ()),
        ([M.MISSING, M.FOLDER, M.MISSING, M.FOLDER], FoundKind.FOLDER, (1, 3)),
        ([M.FOLDER, M.OPAQUE, M.FOLDER], FoundKind.FOLDER, (0, 1)),
        ([M.FOLDER, M.WHITEOUT, M.FOLDER], FoundKind.FOLDER, (0,)),
        ([M.WHITEOUT, M.FOLDER], FoundKind.MISSING, ()),
        ([M.MISSING, M.LINK, M.FOLDER], FoundKind.LINK, (1,)),
        ([M.OTHER, M.FOLDER], FoundKind.OTHER, (0,)),
        ([M.FOLDER, M.LINK, M.FOLDER], FoundKind.FOLDER, (0,)),
        ([M.FOLDER, M.OTHER, M.FOLDER], FoundKind.FOLDER, (0,)),
    ],
)
def test_layers_below_what_hides_them_do_not_count(
    marks: list[LayerMark], kind: FoundKind, layers: tuple[int, ...]
) -> None:
    assert counting(marks) == (kind, layers)


@pytest.mark.root
def test_a_path_is_seen_as_in_a_container(tmp_path: Path) -> None:
    layers = make_layers(
        tmp_path,
        {
            "gone": GONE,
            "opaque": folder(opaque=True),
            "etc/passwd": "new",
            "a/link": link("../b/./c"),
        },
        {"gone/x": "", "opaque/x": "", "etc/passwd": "old", "etc/group": "old", "b/c/x": "1", "abs": link("/b/c")},
        {"b/c/y": "2", "a/link": "hidden", "up": link("../../../../../etc"), "out": link("/proc/self/root")},
    )
    tree = ImageTree(layers, closed=("/proc",))
    top, middle, bottom = layers

    assert tree.look("/gone").kind is FoundKind.MISSING
    assert tree.look("gone/x").kind is FoundKind.MISSING
    assert tree.look("opaque").layers == (top,)
    assert tree.look("opaque/x").kind is FoundKind.MISSING
    assert tree.look("a/link").path == "b/c"
    assert tree.look("a/link").layers == (middle, bottom)
    assert tree.look("abs/new/er").path == "b/c/new/er"
    assert tree.look("up/passwd").path == "etc/passwd"  # no link leads out of the image
    assert tree.look("out/x").kind is FoundKind.MISSING
    assert tree.look("etc/passwd/x").kind is FoundKind.MISSING
    assert tree.read("etc/passwd", 100) == b"new"
    assert tree.read("etc/group", 2) == b"ol"
    assert tree.read("etc", 100) is None


@pytest.mark.root
@pytest.mark.timeout(20)
def test_links_that_lead_nowhere_end(tmp_path: Path) -> None:
    tree = ImageTree(make_layers(tmp_path, {"loop": link("loop"), "a": link("b/x"), "b": link("a")}))
    for name in ("loop", "a", "b/y"):
        with pytest.raises(OSError, match="too many links"):
            tree.look(name)


@pytest.mark.root
def test_nothing_outside_of_a_layer_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (layer,) = make_layers(tmp_path, {"etc/passwd": link(str(tmp_path / "secret")), "etc/group": Entry("pipe")})
    tree = ImageTree([layer])
    assert tree.read("etc/passwd", 100) is None
    assert tree.read("etc/group", 100) is None  # and a pipe is not waited for


def test_a_layer_that_is_not_here_is_told(tmp_path: Path) -> None:
    with pytest.raises(HomeImpossible, match="nowhere can't be read on this machine"):
        ImageTree([tmp_path, tmp_path / "nowhere"]).check()
    assert os.listdir(tmp_path) == []
