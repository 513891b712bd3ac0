"""The personal space in a real browser."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.cluster import Cluster
from tests.support.waiting import soon

from .conftest import ask, drop, slow_uploads

pytestmark = [pytest.mark.web, pytest.mark.slow]

MARKUP = "<svg onload=\"document.title='pwned'\">"


def home(headway: Cluster) -> Path:
    return headway.mount / "homes" / "admin"


def open_folder(page: Page, headway: Cluster, name: str) -> Path:
    """A new, empty folder, opened on the page."""
    ask(headway, "POST", f"/files/{name}?op=mkdir")
    page.goto(f"/files?in={name}")
    expect(page.locator(".way")).to_contain_text(name)
    return home(headway) / name


def test_dropped_files_come_down_again_as_they_were(
    page: Page, headway: Cluster, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    folder = open_folder(page, headway, "dropped")
    names = {"日本語 🎉.txt": b"one", 'quo"te;,.txt': b"two", "100% #?.txt": b"three", "-dash": b""}
    drop(page, names)
    expect(page.locator(".transfer")).to_contain_text("done")
    expect(page.locator("[data-entry]")).to_have_count(len(names))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == names
    for name, content in names.items():
        with page.expect_download() as download:
            page.get_by_role("link", name=name, exact=True).click()
        download.value.save_as(tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == content
    page.locator(".transfer").get_by_role("button", name="Dismiss").click()
    expect(page.locator(".transfer")).to_have_count(0)
    shoot(page, "files")


def test_a_folder_of_many_files_goes_up_and_comes_down_as_a_zip(page: Page, headway: Cluster, tmp_path: Path) -> None:
    folder = open_folder(page, headway, "many")
    made = tmp_path / "project"
    for number in range(120):
        path = made / f"part {number % 3}" / f"ü{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    page.locator('main input[type="file"][webkitdirectory]').set_input_files(made)
    expect(page.locator(".transfer")).to_contain_text("120 files")
    expect(page.locator(".transfer")).to_contain_text("done")
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 120
    page.get_by_role("link", name="project", exact=True).click()
    page.get_by_role("link", name="part 2", exact=True).click()
    expect(page.locator("[data-entry]").first).to_be_visible()
    assert (folder / "project" / "part 2" / "ü2.txt").read_text() == "2"
    page.locator(".way").get_by_role("link", name="many").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Zip of project").click()
    download.value.save_as(tmp_path / "zip")
    with zipfile.ZipFile(io.BytesIO((tmp_path / "zip").read_bytes())) as archive:
        files = {name for name in archive.namelist() if not name.endswith("/")}
        assert len(files) == 120
        assert archive.read(next(name for name in files if name.endswith("part 1/ü4.txt"))) == b"4"


def test_a_large_file_is_paused_and_goes_on_and_a_taken_name_is_asked_about(
    page: Page, context: BrowserContext, headway: Cluster, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    folder = open_folder(page, headway, "large")
    path = tmp_path / "large.bin"
    path.write_bytes(os.urandom(16 << 20))
    quick = slow_uploads(context, page, 4 << 20)
    choose = page.locator('main input[type="file"]:not([webkitdirectory])')
    choose.set_input_files(path)
    transfer = page.get_by_role("article", name="Upload into large")
    expect(transfer.locator(".meter")).to_contain_text("/s")
    transfer.get_by_role("button", name="Pause").click()
    expect(transfer).to_contain_text("paused")
    stored = soon(
        lambda: max((u["offset"] for u in ask(headway, "GET", "/uploads/files").json()["uploads"]), default=0),
        what="a part is stored",
    )
    assert 0 < stored < 16 << 20
    assert list(folder.iterdir()) == []
    shoot(page, "files-paused")
    page.reload()
    expect(page.locator(".transfer", has_text="unfinished")).to_contain_text("large/large.bin")
    offsets: list[int] = []
    page.on(
        "request",
        lambda r: (
            offsets.append(int(r.headers["upload-offset"])) if r.method == "PATCH" and "/uploads/" in r.url else None
        ),
    )
    quick()
    choose.set_input_files(path)
    expect(transfer).to_contain_text("done")
    assert offsets[0] >= stored
    assert (folder / "large.bin").read_bytes() == path.read_bytes()
    transfer.get_by_role("button", name="Dismiss").click()
    small = {"large.bin": b"another"}
    drop(page, small)
    expect(transfer.get_by_role("alert")).to_contain_text("large.bin")
    transfer.get_by_role("button", name="Keep what is there").click()
    assert (folder / "large.bin").stat().st_size == 16 << 20
    transfer.get_by_role("button", name="Dismiss").click()
    drop(page, small)
    expect(transfer).to_contain_text("ended")
    expect(page.locator(".transfer", has_text="unfinished")).to_have_count(0)  # it was whole long ago
    transfer.get_by_role("button", name="Replace").click()
    expect(transfer).to_contain_text("done")
    assert (folder / "large.bin").read_bytes() == b"another"


def test_rename_delete_undo_and_the_trash(page: Page, headway: Cluster, shoot: Callable[[Page, str], None]) -> None:
    folder = open_folder(page, headway, "tidy")
    page.get_by_role("button", name="New folder").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("New name").fill("a/b")
    expect(dialog).to_contain_text("slash")
    dialog.get_by_label("New name").fill("papers")
    dialog.get_by_label("New name").press("Enter")
    expect(page.get_by_role("link", name="papers", exact=True)).to_be_visible()
    drop(page, {"a.txt": b"a", "b.txt": b"b"})
    expect(page.locator("[data-entry]")).to_have_count(3)
    page.get_by_role("button", name="Rename a.txt").click()
    dialog.get_by_label("New name").fill("b.txt")
    dialog.get_by_role("button", name="Rename").click()
    expect(dialog.get_by_role("alert")).to_contain_text("b.txt")
    dialog.get_by_label("New name").fill("c ü.txt")
    dialog.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("link", name="c ü.txt")).to_be_visible()
    assert (folder / "c ü.txt").read_bytes() == b"a"
    page.get_by_label("Choose papers").check()
    page.get_by_label("Choose b.txt").check()
    page.get_by_role("button", name="Delete these").click()
    expect(page.locator("[data-entry]")).to_have_count(1)
    assert not (folder / "papers").exists()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("[data-entry]")).to_have_count(3)
    assert (folder / "b.txt").read_bytes() == b"b"
    page.get_by_role("button", name="Delete b.txt").click()
    expect(page.locator("[data-entry]")).to_have_count(2)
    page.get_by_role("link", name="Trash", exact=True).click()
    expect(page.get_by_role("row", name="tidy/b.txt")).to_be_visible()
    shoot(page, "trash")
    page.get_by_role("button", name="Restore tidy/b.txt").click()
    expect(page.get_by_role("row", name="tidy/b.txt")).to_have_count(0)
    assert (folder / "b.txt").read_bytes() == b"b"
    ask(headway, "DELETE", "/files/tidy/b.txt")
    page.reload()
    page.get_by_role("button", name="Empty the trash").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("The trash is empty.")).to_be_visible()
    assert not (folder / "b.txt").exists()


def test_strange_names_links_and_special_files_are_shown_and_harmless(
    page: Page, headway: Cluster, shoot: Callable[[Page, str], None]
) -> None:
    folder = open_folder(page, headway, "strange")
    (folder / MARKUP.replace("/", "")).write_text("x")
    (folder / "two\nlines").write_text("x")
    (folder / "photo\u202egpj.exe").write_text("x")
    (folder / "<img src=x onerror=\"document.title='pwned'\">").write_text("x")
    (folder / "می\u200cخواهم").write_text("x")
    (folder / ("ü" * 127 + "x")).write_text("x")
    no_text = os.fsencode(folder) + b"/no \xff text"
    os.mkdir(no_text)
    os.chown(no_text, folder.stat().st_uid, folder.stat().st_gid)
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    page.reload()
    expect(page.get_by_text(MARKUP)).to_be_visible()
    expect(page.locator('[data-entry="link"]')).to_contain_text("link to /etc/passwd")
    expect(page.locator('[data-entry="pipe"]')).to_contain_text("special file")
    expect(page.locator("div.folder")).to_contain_text("two\\u{a}lines")
    expect(page.locator("div.folder")).to_contain_text("photo\\u{202e}gpj.exe")
    expect(page.get_by_role("link", name="می\u200cخواهم")).to_be_visible()
    assert page.locator("svg[onload], img[onerror]").count() == 0
    with page.expect_download() as download:
        page.get_by_role("link", name="ü" * 127 + "x").click()
    assert Path(download.value.path()).read_text() == "x"
    shoot(page, "files-strange")
    page.get_by_role("link", name=re.compile("^no .* text")).click()
    expect(page.get_by_text("This folder is empty.")).to_be_visible()
    drop(page, {"inside": b"x"})
    expect(page.locator("[data-entry='inside']")).to_be_visible()
    assert Path(os.fsdecode(no_text), "inside").read_bytes() == b"x"
    page.go_back()
    page.get_by_role("button", name="Delete link").click()
    expect(page.locator('[data-entry="link"]')).to_have_count(0)
    assert Path("/etc/passwd").exists()
    assert page.title() != "pwned"


def test_a_folder_of_very_many_is_paged_while_it_is_scrolled(page: Page, headway: Cluster) -> None:
    folder = open_folder(page, headway, "crowd")
    for number in range(5000):
        os.close(os.open(folder / f"f{number:05}", os.O_CREAT | os.O_WRONLY))
    page.reload()
    expect(page.locator('[data-entry="f00000"]')).to_be_visible()
    assert page.locator("[data-entry]").count() < 100
    last = page.locator('[data-entry="f04999"]')

    def at_the_end() -> bool:
        page.locator("div.folder").evaluate("e => { e.scrollTop = e.scrollHeight }")
        page.wait_for_timeout(100)  # lets the browser's events through
        return last.is_visible()

    soon(at_the_end, within_s=60, what="the last page is there")
    assert page.locator("[data-entry]").count() < 100
