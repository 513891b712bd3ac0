"""How long a job is kept, as its page says it: pinned, deleted, and gone while somebody looks at it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from headway.client import Refused
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

from .conftest import ask

pytestmark = [pytest.mark.web, pytest.mark.slow]

DAY_S = 86_400.0


@pytest.fixture(scope="module")
def headway(web_folder: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Jobs are kept for 90 days."""
    with a_cluster(tmp_path_factory.mktemp("headway"), worker__cpus=4, retention__days=90) as cluster:
        yield cluster


def ended(headway: Cluster, name: str) -> str:
    job = str(headway.client.submit(a_job(scripted_task(), name=name))["id"])
    headway.client.wait(job, timeout_s=60)
    return job


def shown(page: Page, job: str, name: str) -> None:
    page.goto(f"/jobs/{job}")
    expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()


def test_a_job_says_until_when_it_is_kept_and_is_pinned_and_unpinned(page: Page, headway: Cluster) -> None:
    job = ended(headway, "to keep")
    shown(page, job, "to keep")
    facts = page.locator("p.facts").first
    until = datetime.fromtimestamp(headway.client.job(job)["kept_until"], UTC)
    expect(facts).to_contain_text(re.compile(rf"kept until .*{until.day}"))
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(facts).to_contain_text("pinned: kept until it is unpinned")
    expect(page.get_by_role("button", name="Delete …")).to_have_count(0)
    assert headway.client.job(job)["pinned"]
    page.get_by_role("button", name="Unpin").click()
    expect(facts).to_contain_text("kept until ")
    expect(facts).not_to_contain_text("pinned")
    expect(page.get_by_role("button", name="Delete …")).to_be_visible()


def test_an_ended_job_is_deleted_once_that_is_confirmed(page: Page, headway: Cluster) -> None:
    job = ended(headway, "to delete")
    shown(page, job, "to delete")
    page.get_by_role("button", name="Delete …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Delete the job to delete?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    assert headway.client.job(job)["state"] == "SUCCEEDED"
    page.get_by_role("button", name="Delete …").click()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="Jobs")).to_be_visible()
    expect(page.get_by_role("link", name="to delete")).to_have_count(0)
    soon(lambda: not (headway.mount / "jobs" / job).exists(), what="its folder is gone")
    page.goto(f"/jobs/{job}")
    expect(page.get_by_role("alert")).to_contain_text(
        re.compile(rf"{job} (is being deleted|was deleted on \d{{4}}-\d\d-\d\d \(UTC\) by admin\.)")
    )


def test_a_job_that_runs_has_no_button_to_delete_it(page: Page, headway: Cluster) -> None:
    job = str(headway.client.submit(a_job(scripted_task(run_s=600.0), name="runs"))["id"])
    shown(page, job, "runs")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    expect(page.get_by_role("button", name="Delete …")).to_have_count(0)
    expect(page.locator("p.facts").first).not_to_contain_text("kept until")
    headway.client.act("cancel", job)


def test_a_job_that_was_pinned_meanwhile_is_not_deleted(page: Page, headway: Cluster) -> None:
    job = ended(headway, "pinned elsewhere")
    shown(page, job, "pinned elsewhere")
    page.get_by_role("button", name="Delete …").click()
    dialog = page.get_by_role("dialog")
    ask(headway, "POST", f"/jobs/{job}/pin")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("is pinned and can't be deleted: unpin it first")
    assert headway.client.job(job)["state"] == "SUCCEEDED"


def test_who_looks_at_a_job_that_goes_elsewhere_is_told_and_reads_on(page: Page, headway: Cluster) -> None:
    job = ended(headway, "seen twice")
    other = page.context.new_page()
    shown(other, job, "seen twice")
    shown(page, job, "seen twice")
    page.get_by_role("button", name="Delete …").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    told = (
        r"This job was deleted \(at .*\); what you see is from before\. .*(is being deleted|was deleted on .* by admin)"
    )
    expect(other.get_by_role("alert")).to_contain_text(re.compile(told))
    expect(other.get_by_role("heading", level=1, name="seen twice")).to_be_visible()
    expect(other.get_by_role("button", name="Delete …")).to_have_count(0)


def test_a_link_to_a_job_that_the_rules_removed_says_so(page: Page, headway: Cluster) -> None:
    job = ended(headway, "old")
    headway.stop("job_manager")
    with closing(sqlite3.connect(headway.folder / "state" / "job_manager.db")) as db:
        db.execute("update job set ages_from = ages_from - ? where id = ?", (91 * DAY_S, job))
        db.commit()
    headway.start("job_manager")
    headway.wait_ready()
    page.goto(f"/jobs/{job}")
    soon(lambda: not (headway.mount / "jobs" / job).exists(), within_s=60, what="the rules removed it")
    told = re.compile(
        rf"{job} was deleted on \d{{4}}-\d\d-\d\d \(UTC\) by the rules of retention, 90 days after its end\."
    )
    soon(lambda: told.search(_refused(headway, job)), what="JobManager has dropped its rows")
    page.goto(f"/jobs/{job}")
    expect(page.get_by_role("alert")).to_contain_text(told)
    page.goto("/jobs/j0000000000000001")
    expect(page.get_by_role("alert")).to_contain_text("Jobs are kept for 90 days after their end.")


def _refused(headway: Cluster, job: str) -> str:
    with pytest.raises(Refused) as refused:
        headway.client.job(job)
    return str(refused.value)
