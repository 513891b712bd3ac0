"""What is kept: layers once, images whole or not at all, also when several work at once or one is killed."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path

import pytest

from headway.archive import ImageDamaged, ImageInfo, ImageStore, IngestCancelled, ingest, omittable
from headway.errors import InvalidInput, MountUnavailable, NotFound, StoreFull
from headway.mount import Layout
from tests.support.archives import Entry, docker_save, members_of, oci_layout, packed, tiny_image
from tests.support.small_disks import small_disks

Take = Callable[..., ImageInfo]
_BASE = [Entry("base", os.urandom(50_000))]
_ONE, _TWO = (tiny_image(_BASE, [Entry(name, name.encode())]) for name in ("one", "two"))


def test_layers_are_kept_once_and_go_with_the_last_image(
    take: Take, store: ImageStore, left: Callable[[], list[str]]
) -> None:
    take(docker_save(_ONE))
    take(docker_save(_TWO))
    assert len([name for name in left() if name.startswith("layers/")]) == 3
    assert store.remove(_ONE.digest) > 10_000
    assert store.list() == [_TWO.digest]
    assert len(b"".join(store.compose(_TWO.digest).chunks())) > 50_000
    assert store.remove(_TWO.digest) > 60_000
    assert left() == []
    assert store.remove(_TWO.digest) == 0


def test_the_config_is_kept_to_the_byte_and_files_are_readable_but_not_listed(take: Take, layout: Layout) -> None:
    old = os.umask(0o077)
    try:
        take(docker_save(_ONE))
    finally:
        os.umask(old)
    folder = layout.image(_ONE.digest)
    assert (folder / "config.json").read_bytes() == _ONE.config
    layer = layout.image_layer(_ONE.diff_ids[0]).with_suffix(".tar")
    assert layer.read_bytes() == _ONE.layers[0]
    assert {path.stat().st_mode & 0o777 for path in (layer, folder / "config.json", folder / "image.json")} == {0o644}
    assert {path.stat().st_mode & 0o777 for path in (folder, layer.parent)} == {0o711}
    assert {path.stat().st_uid for path in (layer, folder)} == {os.geteuid()}


@pytest.mark.parametrize(("packing", "suffix"), [("", ".tar"), ("gzip", ".tar.gz"), ("zstd", ".tar")])
def test_gzip_stays_and_zstd_becomes_plain(
    take: Take, store: ImageStore, left: Callable[[], list[str]], packing: str, suffix: str
) -> None:
    take(oci_layout(_ONE, layers=packing))
    assert all(name.endswith(suffix) for name in left() if name.startswith("layers/"))
    # Which way it came first doesn't matter to who brings it again.
    take(docker_save(_ONE))
    take(oci_layout(_ONE))
    assert all(name.endswith(suffix) for name in left() if name.startswith("layers/"))
    assert len(b"".join(store.compose(_ONE.digest).chunks())) == store.compose(_ONE.digest).size


def test_what_is_composed_has_no_name_or_the_one_asked_for(take: Take, store: ImageStore) -> None:
    take(docker_save(_ONE))
    assert b'"RepoTags": null' in b"".join(store.compose(_ONE.digest).chunks())
    assert b'"RepoTags": ["a/b:1"]' in b"".join(store.compose(_ONE.digest, tag="a/b:1").chunks())
    without = store.compose(_ONE.digest, omit=[_ONE.diff_ids[0]])
    content = b"".join(without.chunks())
    assert len(content) == without.size
    assert _ONE.layers[0] not in content
    assert _ONE.layers[1] in content
    assert len([name for name in members_of(content) if name.endswith(".tar")]) == 1
    for wrong in ("UPPER:1", "no-tag", "a:b\n"):
        with pytest.raises(InvalidInput):
            store.compose(_ONE.digest, tag=wrong)
    with pytest.raises(NotFound):
        store.compose(_TWO.digest)


def test_a_damaged_image_says_so_and_heals_with_the_next_upload(take: Take, store: ImageStore, layout: Layout) -> None:
    take(docker_save(_ONE))
    layer = layout.image_layer(_ONE.diff_ids[0]).with_suffix(".tar")
    good = store.compose(_ONE.digest)
    os.truncate(layer, 1000)
    with pytest.raises(ImageDamaged, match="1000 bytes instead of"):
        store.compose(_ONE.digest)
    with pytest.raises(ImageDamaged, match="1000 bytes instead of"):
        b"".join(good.chunks())
    layer.unlink()
    with pytest.raises(ImageDamaged, match="is gone"):
        store.compose(_ONE.digest)
    with pytest.raises(ImageDamaged, match="is gone"):
        b"".join(good.chunks())
    layer.write_bytes(b"damaged")
    take(docker_save(_ONE))
    assert layer.read_bytes() == _ONE.layers[0]
    (layout.image(_ONE.digest) / "image.json").write_text("{")
    with pytest.raises(ImageDamaged):
        store.info(_ONE.digest)
    assert store.sweep() == 0
    assert take(docker_save(_ONE)) == store.info(_ONE.digest)


def test_omitted_are_layers_of_a_common_beginning_only() -> None:
    assert omittable("abc", ["abx", "xbc", "a"]) == {"a", "b"}
    assert omittable("aba", ["ab"]) == {"b"}
    assert omittable("abc", []) == frozenset()
    assert omittable("abc", ["abcd"]) == {"a", "b", "c"}


def test_a_sweep_that_comes_while_a_folder_is_made_leaves_it(
    store: ImageStore, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep looks for the lock, and the maker makes it before the sweep's next step."""
    folder = layout.root / "images" / ".ingest" / "0123456789abcdef"
    folder.mkdir(parents=True)
    real, locks = Path.rmdir, []

    def late(path: Path) -> None:
        if path == folder and not locks:
            locks.append(os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            fcntl.flock(locks[0], fcntl.LOCK_EX)
            (folder / "layer-0").write_bytes(b"x")
        real(path)

    monkeypatch.setattr(Path, "rmdir", late)
    assert store.sweep() == 0
    assert (folder / "layer-0").exists()
    os.close(locks[0])
    assert store.sweep() == 1, "its maker has been killed"
    assert not folder.exists()


def test_many_at_once_with_removals_and_sweeps_end_whole(tmp_path: Path, store: ImageStore) -> None:
    images = [tiny_image(_BASE, [Entry(f"{number}", b"x" * 5000)]) for number in range(4)]
    problems: list[BaseException] = []
    stop = threading.Event()

    def run(act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as error:
            problems.append(error)

    def come_and_go(number: int) -> None:
        upload = tmp_path / f"up{number}"
        upload.write_bytes(docker_save(images[number % 4], layers="gzip" if number > 3 else ""))
        for _ in range(6):
            ingest(upload, store)
            store.remove(images[number % 4].digest)
        ingest(upload, store)

    def sweep() -> None:
        while not stop.is_set():
            store.sweep()

    sweeper = threading.Thread(target=run, args=(sweep,))
    sweeper.start()
    workers = [threading.Thread(target=run, args=(lambda n=number: come_and_go(n),)) for number in range(6)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    stop.set()
    sweeper.join()
    assert problems == []
    for image in images:
        upload = tmp_path / "again"
        upload.write_bytes(docker_save(image))
        ingest(upload, store)
        archive = store.compose(image.digest)
        assert len(b"".join(archive.chunks())) == archive.size
        store.remove(image.digest)
    assert store.sweep() == 0


def test_a_sweep_in_the_middle_of_an_ingest_takes_nothing_of_it(
    tmp_path: Path, take: Take, store: ImageStore, layout: Layout
) -> None:
    take(docker_save(_ONE))
    upload = tmp_path / "up"
    upload.write_bytes(docker_save(_TWO))

    def meanwhile(done: int, total: int) -> None:
        # The image that has the common layer goes, while the other one counts on it.
        store.remove(_ONE.digest)
        store.sweep()

    ingest(upload, store, on_progress=meanwhile)
    assert _TWO.layers[0] in b"".join(store.compose(_TWO.digest).chunks())
    assert ImageStore(layout).sweep() == 0


def test_a_cancelled_ingest_leaves_nothing(tmp_path: Path, store: ImageStore, left: Callable[[], list[str]]) -> None:
    upload = tmp_path / "up"
    upload.write_bytes(packed(docker_save(_ONE), "gzip"))
    for after in range(4):
        asked = chain([False] * after, repeat(True))
        with pytest.raises(IngestCancelled):
            ingest(upload, store, cancelled=asked.__next__)
        assert left() == []


def test_progress_never_goes_back_and_ends_at_the_end(tmp_path: Path, store: ImageStore) -> None:
    for packing in ("", "gzip"):
        heard: list[tuple[int, int]] = []
        upload = tmp_path / "up"
        upload.write_bytes(packed(docker_save(_ONE), packing))

        def hear(done: int, total: int, heard: list[tuple[int, int]] = heard) -> None:
            heard.append((done, total))

        ingest(upload, store, on_progress=hear)
        assert [done for done, _ in heard] == sorted(done for done, _ in heard)
        assert heard[-1][0] == heard[-1][1]


_KILLED = """
import os, signal, sys
from pathlib import Path
from headway.archive import ImageStore, ingest
from headway.mount import Layout
steps = int(sys.argv[3])
def step(name, *rest):
    global steps
    ours = any(word in str(rest) for word in (".ingest", "layers", "sha256-"))
    if ours and name in ("open", "os.link", "os.rename", "os.mkdir", "os.remove"):
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.stdout.write("ready\\n")
store = ImageStore(Layout(sys.argv[1]))
sys.addaudithook(step)
ingest(Path(sys.argv[2]), store)
"""


@pytest.mark.slow
def test_killed_at_any_step_it_leaves_what_a_sweep_takes_away(
    tmp_path: Path, take: Take, store: ImageStore, layout: Layout, left: Callable[[], list[str]]
) -> None:
    take(docker_save(_ONE))
    before = left()
    upload = tmp_path / "up"
    upload.write_bytes(docker_save(_TWO))
    kills = 0
    for steps in range(0, 100, 2):
        command = [sys.executable, "-c", _KILLED, str(layout.root), str(upload), str(steps)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        kills += 1
        if store.info(_TWO.digest) is not None:
            # Killed after it was published: then it is whole.
            assert _TWO.layers[1] in b"".join(store.compose(_TWO.digest).chunks())
            store.remove(_TWO.digest)
        store.sweep()
        assert left() == before
        assert os.listdir(layout.root / "images" / ".ingest") == []
    assert kills > 5
    assert store.list() == sorted([_ONE.digest, _TWO.digest])


@pytest.mark.root
def test_a_full_disk_is_said_and_gives_its_space_back(tmp_path: Path) -> None:
    upload = tmp_path / "up"
    big = tiny_image([Entry("big", os.urandom(3 << 20))], [Entry("small", b"x")])
    with small_disks((tmp_path / "small", 2)) as (disk,):
        layout = Layout(disk.at)
        (disk.at / "images").mkdir()
        store = ImageStore(layout)
        # Seen before anything is written; and only while writing, where the archive doesn't tell the size.
        for content in (docker_save(big), oci_layout(tiny_image([Entry("big", bytes(3 << 20))]), layers="zstd")):
            upload.write_bytes(content)
            with pytest.raises(StoreFull):
                ingest(upload, store)
            assert [path for path in disk.at.rglob("*") if path.is_file() and path.name != ".lock"] == []
        upload.write_bytes(docker_save(_ONE))
        assert ingest(upload, store).digest == _ONE.digest
        store.remove(_ONE.digest)
        disk.fill()
        with pytest.raises(StoreFull):
            ingest(upload, store)
        assert store.sweep() == 0


def test_without_the_mount_nothing_is_written(tmp_path: Path) -> None:
    upload = tmp_path / "up"
    upload.write_bytes(docker_save(_ONE))
    (tmp_path / "bare").mkdir()
    store = ImageStore(Layout(tmp_path / "bare"))
    with pytest.raises(MountUnavailable):
        ingest(upload, store)
    assert list((tmp_path / "bare").iterdir()) == []
    assert store.list() == []
    assert store.sweep() == 0
    with pytest.raises(MountUnavailable):
        ingest(tmp_path / "gone", store)
