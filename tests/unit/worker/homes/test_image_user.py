"""Whom an image's USER means."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.worker.homes.image_layers import GONE, link, make_layers
from worker.homes import ImageUser, image_user
from worker.homes.image_user import find_user

_PASSWD = b"root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/:\n1234:x:77:78::/:\nbad:x:one:two\nlast:x:9:9"
_GROUP = b"root:x:0:\nstaff:x:50:app,root\napp:x:1001:\nnumber:x:x:app\nmore:x:60:x,app\n1234:x:5:\n"


@pytest.mark.parametrize(
    ("user", "found"),
    [
        ("", ImageUser(0, 0, (50,))),
        ("root", ImageUser(0, 0, (50,))),
        ("app", ImageUser(1000, 1001, (50, 60))),
        ("1000", ImageUser(1000, 1001, (50, 60))),
        ("1000:0", ImageUser(1000, 0)),
        ("app:staff", ImageUser(1000, 50)),
        ("app:", ImageUser(1000, 1001, (50, 60))),
        (":staff", ImageUser(0, 50)),
        ("4321", ImageUser(4321, 0)),
        ("4321:4322", ImageUser(4321, 4322)),
        ("1234", ImageUser(77, 78)),  # a name before a number
        ("app:1234", ImageUser(1000, 5)),
        ("last", ImageUser(9, 9)),
        ("nobody", None),
        ("bad", None),
        ("app:none", None),
        ("app:number", None),
        ("4294967295", None),  # for setresuid: leave it as it is
        ("00000000001", None),
        ("-1", None),
        ("\u0661", None),
        ("app:staff:x", None),
    ],
)
def test_names_go_before_numbers_and_a_group_stands_alone(user: str, found: ImageUser | None) -> None:
    assert find_user(user.encode(), _PASSWD, _GROUP) == found


def test_a_table_ends_at_a_zero_byte_as_for_the_launcher() -> None:
    assert find_user(b"b", b"a:x:1:1\n\0\nb:x:2:2\n", b"") is None


@pytest.mark.root
def test_the_topmost_table_counts(tmp_path: Path) -> None:
    layers = make_layers(
        tmp_path,
        {"etc/group": GONE},
        {"etc/passwd": link("/usr/lib/passwd"), "usr/lib/passwd": "app:x:5:6::/:\n"},
        {"etc/passwd": "app:x:1:1::/:\n", "etc/group": "staff:x:50:app\n"},
    )
    assert image_user(layers, "app") == ImageUser(5, 6)
    assert image_user(layers[1:], "app") == ImageUser(5, 6, (50,))
    assert image_user(layers, "app", volumes=["/usr/lib"]) is None  # where the launcher sees the volume
    assert image_user([tmp_path / "nowhere"], "") is None
