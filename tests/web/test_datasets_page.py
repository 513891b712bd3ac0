"""Datasets and code in a real browser: published, picked in the submit form, shown by the job."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.cluster import Cluster

from .conftest import ask, sign_in

pytestmark = [pytest.mark.web, pytest.mark.slow]


def fill_space(headway: Cluster, folder: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        ask(headway, "PUT", f"/files/{folder}/{name}?parents=true", content=text.encode())


def publish(page: Page) -> None:
    """Says yes to a copy where the file system can't share."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Publish", exact=True).click()
    copy = dialog.get_by_role("button", name="Copy and publish")
    expect(copy.or_(page.get_by_role("table", name="Versions"))).to_be_visible()
    if copy.count():
        expect(dialog.get_by_role("alert")).to_be_visible()
        copy.click()


def open_dataset(page: Page, headway: Cluster, name: str) -> None:
    """A published one, opened on the page."""
    fill_space(headway, f"data/{name}", {"train.csv": "1,2\n", "test.csv": "3,4\n"})
    ask(headway, "POST", "/datasets", json={"name": name, "path": f"data/{name}", "copy": True})
    page.goto(f"/datasets/{name}")
    expect(page.get_by_role("row", name=re.compile(f"{name}@1"))).to_contain_text("ready")


def fill_job(page: Page, name: str) -> None:
    """A job that goes on until it is cancelled."""
    page.get_by_label("Job name").fill(name)
    page.get_by_label("Image", exact=True).fill("scripted")
    page.get_by_label(re.compile("^Command")).fill("true")
    page.get_by_text("Environment").click()
    page.get_by_role("button", name="Add a variable").click()
    page.get_by_label("Variable name").fill("HEADWAY_SCRIPTED_RUN_S")
    page.get_by_label("Variable value").fill("600")


def test_a_folder_of_the_files_page_becomes_a_dataset_that_is_shared(
    page: Page, headway: Cluster, browser: Browser, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    fill_space(headway, "data/digits", {"train.csv": "1,2\n", "test.csv": "3,4\n"})
    page.goto("/files?in=data")
    page.get_by_role("button", name="Publish digits as dataset").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Folder in your space")).to_have_value("data/digits")
    expect(dialog.get_by_label("Dataset name")).to_have_value("digits")
    shoot(page, "dataset-publish")
    publish(page)
    expect(page).to_have_url(re.compile("/datasets/digits$"))
    version = page.get_by_role("row", name=re.compile("digits@1"))
    expect(version).to_contain_text("ready")
    with page.expect_download() as download:
        version.get_by_role("link").click()
    download.value.save_as(tmp_path / "sums")
    assert "train.csv" in (tmp_path / "sums").read_text()
    headway.client.create_user(name="dan", password="a password of dan")
    with browser.new_context(base_url=headway.url) as other:
        theirs = other.new_page()
        sign_in(theirs, "dan", "a password of dan")
        theirs.goto("/datasets/digits")
        expect(theirs.get_by_role("alert")).to_be_visible()
        page.get_by_role("button", name="Share").click()
        dialog.get_by_label("Public").check()
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_have_count(0)
        theirs.goto("/datasets")
        theirs.get_by_role("link", name="digits").click()
        expect(theirs.get_by_role("button", name="Use in a job")).to_be_visible()
        expect(theirs.get_by_role("button", name="Delete")).to_have_count(0)
    page.get_by_role("button", name="New version").click()
    dialog.get_by_label("Folder in your space").fill("data/")
    expect(dialog.get_by_role("option", name="data/digits")).to_be_visible()
    dialog.get_by_label("Folder in your space").fill("data/nothing")
    dialog.get_by_role("button", name="Publish", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("data/nothing")
    dialog.get_by_role("button", name="Cancel").click()
    shoot(page, "dataset")


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_a_folder_of_this_computer_goes_with_a_job_as_its_code(
    page: Page, headway: Cluster, tmp_path: Path, scheme: str, shoot: Callable[[Page, str], None]
) -> None:
    if scheme == "http":  # as browsers treat a page that neither came by TLS nor from localhost
        page.add_init_script("Object.defineProperty(Crypto.prototype, 'subtle', {value: undefined})")
        page.reload()
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "train.py").write_text("print('hello')\n")
    (project / "data" / "big.bin").write_text("left out")
    (project / ".gitignore").write_text("data/\n")
    page.get_by_role("link", name="Submit", exact=True).click()
    fill_job(page, "with code")
    page.locator('main input[type="file"][webkitdirectory]').set_input_files(project)
    code = page.get_by_role("group", name="Code")
    expect(code).to_contain_text("project: 2 files")
    digest = str(code.locator(".chip").get_attribute("title"))
    assert page.evaluate("crypto.subtle === undefined") is (scheme == "http")
    expect(page.locator(".preview")).to_contain_text(digest)
    shoot(page, "submit-code")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile("/jobs/"))
    expect(page.get_by_label("Versions in use")).to_contain_text(digest.removeprefix("sha256:")[:12])
    job = page.url.rpartition("/")[2]
    assert digest in ask(headway, "GET", f"/jobs/{job}/spec").text
    headway.client.act("cancel", job)


def test_datasets_are_picked_by_keys_alone_as_many_as_one_likes(page: Page, headway: Cluster) -> None:
    open_dataset(page, headway, "birds")
    ask(headway, "POST", "/datasets", json={"name": "birds", "path": "data/birds", "copy": True})
    open_dataset(page, headway, "fish")
    page.goto("/submit")
    field = page.get_by_role("combobox", name="Add a dataset")
    options = page.get_by_role("listbox", name="Add a dataset").get_by_role("option")
    field.focus()
    page.keyboard.press("ArrowDown")
    expect(options.filter(has_text="birds@2")).to_be_visible()
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    page.keyboard.type("bird")
    expect(options).to_have_count(3)  # by its name, and its two versions
    page.keyboard.press("ArrowUp")
    expect(field).to_have_attribute("aria-activedescendant", str(options.last.get_attribute("id")))
    page.keyboard.press("Enter")
    expect(page.get_by_label("Remove dataset birds@1")).to_be_visible()
    page.keyboard.type("fish")
    expect(options).to_have_count(2)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type("not/there")
    page.keyboard.press("Enter")
    chosen = page.get_by_role("group", name="Datasets")
    for name in ("birds@1", "fish", "not/there"):
        expect(chosen.get_by_label(f"Remove dataset {name}", exact=True)).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(options.filter(has_text="birds")).to_have_count(0)  # no second version of one
    page.get_by_label(re.compile("^Command")).fill("true")
    page.get_by_role("button", name="Check").click()
    expect(chosen).to_contain_text("'not/there' is not a dataset's name")


def test_a_job_picks_a_dataset_says_its_version_and_holds_it(
    page: Page, headway: Cluster, shoot: Callable[[Page, str], None]
) -> None:
    open_dataset(page, headway, "letters")
    page.get_by_role("button", name="Use in a job").click()
    expect(page.get_by_label("Remove dataset letters")).to_be_visible()
    fill_job(page, "reads letters")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page).to_have_url(re.compile("/jobs/"))
    expect(page.get_by_label("Versions in use")).to_contain_text("letters@1")
    shoot(page, "job-pinned")
    job = page.url.rpartition("/")[2]
    page.goto("/datasets/letters")
    page.get_by_role("button", name="Delete …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text(job)
    dialog.get_by_role("button", name="Delete when they have ended").click()
    expect(page).to_have_url(re.compile("/datasets$"))
    expect(page.get_by_role("link", name="letters")).to_have_count(0)
    headway.client.act("cancel", job)
