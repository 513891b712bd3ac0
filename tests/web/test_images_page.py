"""The image market in a real browser: a real upload that is cut, resumed, refused and shared."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.archives import Entry, TinyImage, docker_save, tiny_image
from tests.support.cluster import Cluster
from tests.support.waiting import soon

from .conftest import ask, drop, sign_in, slow_uploads

pytestmark = [pytest.mark.web, pytest.mark.slow]

MARKUP = "<svg onload=\"document.title='pwned'\">"


def an_image(word: str, *, filling: int = 0, **settings: Any) -> TinyImage:
    """An image of its own content, ``filling`` bytes larger than small."""
    files = [Entry("bin/sh", b"#!", 0o755), Entry("word", word.encode()), Entry("filling", os.urandom(filling))]
    return tiny_image(files, tags=(f"inner/{word}:1",), env={"PATH": "/bin", "WORD": MARKUP}, settings=settings)


def archive(folder: Path, name: str, *images: TinyImage) -> Path:
    path = folder / name
    path.write_bytes(docker_save(*images))
    return path


def choose_file(page: Page, path: Path) -> None:
    page.locator('main input[type="file"]').set_input_files(path)


def upload(page: Page, path: Path, name: str, tag: str = "latest") -> None:
    """By the form, from the list of images."""
    choose_file(page, path)
    form = page.get_by_role("form", name="Upload an image")
    form.get_by_label("Image name").fill(name)
    form.get_by_label("Tag", exact=True).fill(tag)
    form.get_by_role("button", name="Upload").click()


def test_an_image_is_dropped_named_looked_into_and_described(
    page: Page, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    image = an_image("seen", Entrypoint=["/bin/sh"], Cmd=["-c", "true"], User="1000", WorkingDir="/work")
    path = archive(tmp_path, "My Seen.tar", image)
    page.get_by_role("link", name="Images", exact=True).click()
    drop(page, {path.name: path.read_bytes()})
    form = page.get_by_role("form", name="Upload an image")
    expect(form.get_by_label("Image name")).to_have_value("my-seen")
    form.get_by_label("Image name").fill("Bad Name")
    expect(form.get_by_role("alert")).to_contain_text("lower-case")
    expect(form.get_by_role("button", name="Upload")).to_be_disabled()
    form.get_by_label("Image name").fill("seen")
    form.get_by_label("Tag", exact=True).fill("2.5")
    form.get_by_label("Description").fill(
        f"**Bold** {MARKUP} [link](javascript:alert(1)) ![p](http://127.0.0.1:1/x.png)"
        " <javascript:alert(1)> [data](data:text/html,x) [inside](/api/v1/me) [case](JaVaScRiPt:alert(1))"
    )
    shoot(page, "images-form")
    form.get_by_role("button", name="Upload").click()
    expect(page.locator(".transfer")).to_contain_text("done")
    page.get_by_role("link", name="Look at admin/seen:2.5").click()
    expect(page.get_by_role("heading", name="admin/seen")).to_be_visible()
    inside = page.get_by_role("region", name="Inside admin/seen:2.5")
    for fact in (image.digest, "linux/amd64", "1 layer", "/bin/sh", "-c true", "1000", "/work"):
        expect(inside).to_contain_text(fact)
    inside.get_by_text("Environment").click()
    expect(inside).to_contain_text(MARKUP)
    description = page.get_by_role("region", name="Description")
    expect(description.locator("strong")).to_have_text("Bold")
    expect(description).to_contain_text(MARKUP)
    expect(description).to_contain_text("link")
    expect(description.locator("a")).to_have_count(0)
    assert page.locator("svg[onload], .markdown img").count() == 0
    page.get_by_role("button", name="Edit the description").click()
    page.get_by_role("textbox", name=re.compile("Description")).fill("# Now another\n\n[kept](https://example.org/)")
    page.get_by_role("button", name="Save").click()
    expect(description.locator("h2")).to_have_text("Now another")
    expect(description.locator("a")).to_have_attribute("rel", re.compile("noopener"))
    inside.get_by_label("Another tag for this content").fill("stable")
    inside.get_by_role("button", name="Add").click()
    expect(page.get_by_role("table", name="Tags").get_by_role("link", name="stable")).to_be_visible()
    shoot(page, "image")
    assert "pwned" not in page.title()


def test_an_upload_is_paused_cut_by_a_killed_server_and_ends_whole(
    page: Page, context: BrowserContext, headway: Cluster, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    image = an_image("cut", filling=24 << 20)
    page.goto("/images")
    quick = slow_uploads(context, page, 4 << 20)
    upload(page, archive(tmp_path, "cut.tar", image), "cut")
    transfer = page.locator(".transfer", has_text="cut:latest")
    meter = transfer.locator(".meter")
    expect(meter).to_contain_text("/s")
    expect(meter).to_contain_text(re.compile(r"^[1-9]\d? %"))
    transfer.get_by_role("button", name="Pause").click()
    expect(transfer).to_contain_text("paused")
    shoot(page, "images-paused")
    kept = soon(lambda: _offset(headway), what="some of it is stored")
    assert 0 < kept < 24 << 20
    transfer.get_by_role("button", name="Resume").click()
    expect(transfer).to_contain_text("sending")
    expect(meter).to_contain_text("/s")
    headway.kill9("httpserver")
    expect(transfer).to_contain_text("goes on by itself")
    headway.start("httpserver")
    quick()
    expect(transfer).to_contain_text("done", timeout=60_000)
    page.get_by_role("link", name="Look at admin/cut:latest").click()
    expect(page.get_by_role("region", name="Inside admin/cut:latest")).to_contain_text(image.digest)


def _offset(headway: Cluster) -> int:
    uploads = ask(headway, "GET", "/uploads/images").json()["uploads"]
    return max((u["offset"] for u in uploads if u["state"] == "receiving"), default=0)


def test_after_a_reload_the_same_file_goes_on_where_it_stopped(
    page: Page, context: BrowserContext, headway: Cluster, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    image = an_image("again", filling=24 << 20)
    path = archive(tmp_path, "again.tar", image)
    page.goto("/images")
    quick = slow_uploads(context, page, 4 << 20)
    upload(page, path, "again", "7")
    expect(page.locator(".transfer .meter")).to_contain_text(re.compile(r"^[1-9]\d? %"))
    page.reload()
    unfinished = page.locator(".transfer", has_text="unfinished")
    expect(unfinished).to_contain_text("again:7")
    expect(unfinished).to_contain_text("Choose the same file again")
    shoot(page, "images-unfinished")
    quick()
    before = _offset(headway)
    assert before > 0
    offsets: list[int] = []
    page.on(
        "request",
        lambda r: (
            offsets.append(int(r.headers["upload-offset"])) if r.method == "PATCH" and "/uploads/" in r.url else None
        ),
    )
    choose_file(page, path)
    page.get_by_role("button", name="Continue from there").click()
    expect(page.locator(".transfer", has_text="again:7")).to_contain_text("done")
    assert offsets[0] >= before
    page.get_by_role("link", name="Look at admin/again:7").click()
    expect(page.get_by_role("region", name="Inside admin/again:7")).to_contain_text(image.digest)


def test_what_is_no_image_is_refused_in_the_servers_sentence_and_several_are_chosen_among(
    page: Page, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    bad = tmp_path / "pictures.tar"
    bad.write_bytes(b"PK\x03\x04" + b"x" * 1000)
    page.goto("/images")
    upload(page, bad, "pictures")
    failed = page.locator(".transfer", has_text="pictures:latest")
    expect(failed.get_by_role("alert")).to_contain_text("zip")
    failed.get_by_role("button", name="Dismiss").click()
    expect(failed).to_have_count(0)
    one, two = an_image("one"), an_image("two")
    upload(page, archive(tmp_path, "both.tar", one, two), "both")
    both = page.locator(".transfer", has_text="both:latest")
    expect(both).to_contain_text("Which is it?")
    shoot(page, "images-choose")
    both.get_by_role("button", name="inner/two:1").click()
    expect(both).to_contain_text("done")
    both.get_by_role("link").click()
    expect(page.get_by_role("region", name="Inside admin/both:latest")).to_contain_text(two.digest)


def test_sharing_with_another_account(
    page: Page, context: BrowserContext, headway: Cluster, browser: Any, tmp_path: Path
) -> None:
    headway.client.create_user(name="bea", password="a password of bea")
    page.goto("/images")
    upload(page, archive(tmp_path, "shared.tar", an_image("shared")), "shared")
    page.get_by_role("link", name="Look at admin/shared:latest").click()
    with browser.new_context(base_url=headway.url) as other:
        theirs = other.new_page()
        sign_in(theirs, "bea", "a password of bea")
        theirs.goto("/images/admin/shared")
        expect(theirs.get_by_role("alert")).to_be_visible()
        page.get_by_role("button", name="Share").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("People", exact=True).fill("nobody-here")
        dialog.get_by_label("People", exact=True).press("Enter")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("alert")).to_contain_text("nobody-here")
        dialog.get_by_role("button", name="Not with nobody-here").click()
        dialog.get_by_label("People", exact=True).fill("bea")
        dialog.get_by_role("button", name="Add to people").click()
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_have_count(0)
        expect(page.locator(".title-row .facts")).to_contain_text("shared with bea")
        theirs.goto("/images")
        theirs.get_by_label("Show").select_option("shared with me")
        theirs.get_by_role("link", name="admin/shared").click()
        expect(theirs.get_by_role("heading", name="admin/shared")).to_be_visible()
        expect(theirs.get_by_role("button", name="Delete")).to_have_count(0)
        expect(theirs.get_by_role("button", name="Share")).to_have_count(0)


def test_a_job_picks_an_image_shows_its_digest_and_holds_it(
    page: Page, headway: Cluster, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    image = an_image("picked")
    page.goto("/images")
    upload(page, archive(tmp_path, "picked.tar", image), "picked")
    page.get_by_role("link", name="Look at admin/picked:latest").click()
    page.get_by_role("button", name="Use in a job").click()
    expect(page.get_by_label("Image", exact=True)).to_have_value("admin/picked:latest")
    page.get_by_label("Image", exact=True).click()
    suggested = page.get_by_role("group", name="Your images").get_by_role("option", name="admin/picked:latest")
    expect(suggested).to_be_visible()
    shoot(page, "submit-images")
    page.get_by_label("Image", exact=True).fill("nothing")
    suggested.wait_for(state="detached")
    page.get_by_label("Image", exact=True).fill("PICK")
    suggested.click()
    expect(page.get_by_label("Image", exact=True)).to_have_value("admin/picked:latest")
    page.get_by_label("Job name").fill("with an image of the market")
    page.get_by_label(re.compile("^Command")).fill("true")
    page.get_by_text("Environment").click()
    page.get_by_role("button", name="Add a variable").click()
    page.get_by_label("Variable name").fill("HEADWAY_SCRIPTED_RUN_S")
    page.get_by_label("Variable value").fill("600")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile("/jobs/"))
    expect(page.locator(".task-panel")).to_contain_text(image.digest.removeprefix("sha256:")[:12])
    job = page.url.rpartition("/")[2]
    page.goto("/images/admin/picked")
    page.get_by_role("button", name="Delete …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert")).to_contain_text(job)
    shoot(page, "image-needed")
    dialog.get_by_role("button", name="Delete when they have ended").click()
    expect(page).to_have_url(re.compile("/images$"))
    expect(page.get_by_role("link", name="admin/picked")).to_have_count(0)
    headway.client.act("cancel", job)
