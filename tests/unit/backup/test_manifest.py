"""What a manifest may say, and which backups this version takes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from headway.backup.manifest import (
    BackupInvalid,
    BackupMember,
    Manifest,
    StoredDatabase,
    manifest_of,
    refuse_foreign,
)
from headway.backup.notes import RestoreNote

HEADS = {"job_manager": ["0001", "0002"], "httpserver": ["0001"]}
ONE = Manifest(
    "lab",
    "0.1.0",
    1_700_000_000.5,
    "/mnt/shared",
    (StoredDatabase("job_manager", "sqlite", "0002", 1_700_000_000.5),),
    (BackupMember("databases/job_manager.db", 12, "ab" * 32, 0o600, "database.job_manager"),),
)


def changed(**values: Any) -> bytes:
    return json.dumps({**json.loads(ONE.to_json()), **values}).encode()


def test_a_manifest_comes_back_as_it_was() -> None:
    assert manifest_of(ONE.to_json()) == ONE


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"format": "x"}', changed(members=[{"path": "a"}])])
def test_what_is_no_manifest_is_told_as_damage(data: bytes) -> None:
    with pytest.raises(BackupInvalid, match="damaged"):
        manifest_of(data)


def test_a_later_format_names_the_version_to_install() -> None:
    with pytest.raises(BackupInvalid, match=r"newer Headway \(0\.9\.0\)"):
        manifest_of(changed(format=2, version="0.9.0"))


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a\0b"])
@pytest.mark.parametrize("where", ["path", "below"])
def test_no_member_leads_out_of_the_places_it_belongs_to(path: str, where: str) -> None:
    member = {**json.loads(ONE.to_json())["members"][0], where: path}
    with pytest.raises(BackupInvalid, match="outside"):
        manifest_of(changed(members=[member]))


def test_older_revisions_are_taken_and_newer_ones_are_not() -> None:
    refuse_foreign(ONE, "lab", HEADS, "0.1.0")
    refuse_foreign(
        replace(ONE, databases=(StoredDatabase("job_manager", "sqlite", "0001", 0.0),)), "lab", HEADS, "0.1.0"
    )
    newer = replace(ONE, version="0.3.0", databases=(StoredDatabase("job_manager", "sqlite", "0003", 0.0),))
    with pytest.raises(
        BackupInvalid, match=r"Headway 0\.3\.0 made this backup, which is newer than this one \(0\.1\.0\)"
    ):
        refuse_foreign(newer, "lab", HEADS, "0.1.0")


def test_another_cluster_is_refused_by_name() -> None:
    with pytest.raises(BackupInvalid, match="'lab', and the configuration is of 'other'"):
        refuse_foreign(ONE, "other", HEADS, "0.1.0")


def test_the_note_counts_what_came_later() -> None:
    assert "1 job has its folder on the shared mount" in RestoreNote(0.0, 1.0, ("j1",), 1).sentence("then")
    many = RestoreNote(0.0, 1.0, ("j1", "j2"), 5).sentence("then")
    assert "5 jobs have their folders" in many
    assert many.endswith("j1, j2 and 3 more.")
    assert "j1" not in RestoreNote(0.0, 1.0, ("j1", "j2"), 5).sentence("then", ids=False)
    assert "shared mount" not in RestoreNote(0.0, 1.0).sentence("then")
