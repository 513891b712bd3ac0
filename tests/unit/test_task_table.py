"""A field of a task has one row, and all that handles fields goes by the rows: seen on a field that is made up."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from headway.cli.submit import _one_task_job, options_of
from headway.jobfile import JobFileLimits, JobSpec, ResourceSpec, TaskSpec, check_job, to_yaml
from headway.jobfile import fields as values
from headway.jobfile.check import Checker
from headway.jobfile.hints import elsewhere, foreign_words, nearest
from headway.jobfile.source import ObjectSource, Problems
from headway.jobfile.spec import RESOURCES, TASK
from headway.jobfile.table import REQUIRED, Form, Option, Table, row, table_of
from headway.rpc.columns import columns
from headway.rpc.v1 import common_pb2 as pb
from headway.units import GIB, format_size
from httpserver.schemas import JobFileDefaults, JobFileResources, JobFileTask
from httpserver.schemas.job_file import of_table
from tests.support.scripts import script

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class WiderResources(ResourceSpec):
    disk_bytes: int = field(
        default=GIB,
        metadata=row("disk", "a size, of `/tmp`", str, read=values.size, write=format_size, wire="disk_bytes"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WiderTask(TaskSpec):
    resources: ResourceSpec = field(
        default=WiderResources(),
        metadata=row("resources", "", None, write=ResourceSpec.to_json, default_about="", parts=WiderResources),
    )
    zeal: int = field(
        default=0,
        metadata=row(
            "zeal",
            "0 to 19; how keen it is",
            int,
            read=values.whole(19),
            foreign=("zealous",),
            wire="zeal",
            option=Option("--zeal", "How keen it is."),
            form=Form(label="Zeal", start="0"),
        ),
    )


WIDER: Table = table_of(WiderTask)


def _read(**task: Any) -> tuple[JobSpec | None, Problems]:
    problems = Problems()
    whole = {"name": "j", "tasks": [{"name": "t", "image": "i", "command": "true", "timeout": "1m", **task}]}
    return Checker(ObjectSource(whole), JobFileLimits(), problems, WIDER).job(), problems


@pytest.mark.parametrize("table", [TASK, RESOURCES], ids=["task", "resources"])
def test_every_field_has_a_row_and_every_consumer_knows_it(table: Table) -> None:
    assert [one.attribute for one in table.rows] == [one.name for one in fields(table.kind)]
    message: Any = pb.TaskSpec if table is TASK else pb.Resources
    model: Any = JobFileTask if table is TASK else JobFileResources
    # What other code reads and sends, as it is more than a value.
    own_reading = {"name", "needs", "command", "env", "datasets", "resources", "gpu_model", "secrets", "ulimits"}
    own_sending = {"needs", "command", "env", "network", "resources", "secrets", "ulimits"}
    for one in table.rows:
        assert one.about
        assert (one.read is None) == (one.key in own_reading), one.key
        assert (one.wire == "") == (one.key in own_sending), one.key
        assert not one.wire or one.wire in message.DESCRIPTOR.fields_by_name
        assert model.model_fields[one.key].description.startswith(one.about)
        assert one.shared == (one.key in JobFileDefaults.model_fields or table is RESOURCES)
        assert not (one.required and one.shared) or one.example
        for word in one.foreign:
            assert nearest(word, table.keys) == one.key
    assert set(model.model_fields) == set(table.keys)


def test_a_default_is_the_same_for_those_who_leave_a_field_out_and_those_who_write_it() -> None:
    plain = {"name": "j", "tasks": [{"name": "t", "image": "i", "command": "true", "timeout": "1m"}]}
    left_out = check_job(plain).spec_or_raise()
    written: dict[str, Any] = {}
    resources: dict[str, Any] = {}
    for table, out in ((TASK, written), (RESOURCES, resources)):
        for one in table.rows:
            if one.read and one.default not in (None, REQUIRED):
                out[one.key] = one.write(one.default) if one.write else one.default
    plain["tasks"] = [
        {"name": "t", "image": "i", "command": "true", "timeout": "1m", "resources": resources, **written}
    ]
    assert len(written) >= 7
    assert len(resources) >= 4
    assert check_job(plain).spec_or_raise() == left_out


def test_a_new_field_is_read_with_its_default_and_its_limits() -> None:
    job, problems = _read(zeal=5, resources={"disk": "2GiB"})
    assert job is not None, problems.listed()
    (task,) = job.tasks
    assert isinstance(task, WiderTask)
    assert isinstance(task.resources, WiderResources)
    assert (task.zeal, task.resources.disk_bytes) == (5, 2 * GIB)
    (plain,) = _read()[0].tasks  # type: ignore[union-attr]
    assert plain == WiderTask(name="t", image="i", command="true", timeout_s=60.0)
    (problem,) = _read(zeal=20)[1].listed()
    assert problem.message == "task 't': zeal 20 is too many; write a whole number from 0 to 19"
    (problem,) = _read(resources={"disk": "2"})[1].listed()
    assert problem.pointer == "/tasks/0/resources/disk"
    assert "zeal" in [one.word for one in check_job({"tasks": [{"zeal": 5}]}).problems], "not of the real table"


def test_a_new_field_is_written_as_json_and_yaml_and_read_again() -> None:
    job, _ = _read(zeal=5, resources={"disk": "2GiB"})
    assert job is not None
    (task,) = job.tasks
    out = task.to_json()
    assert (out["zeal"], out["resources"]) == (5, {"disk": "2GiB"})
    assert _read(**{key: out[key] for key in ("zeal", "resources")})[0] == job
    assert "zeal" not in _read()[0].tasks[0].to_json()  # type: ignore[union-attr]
    both = JobSpec("j", (task, task))
    assert to_yaml(both, WIDER).count("\n  zeal: 5\n") == 1, "under defaults, as all tasks share it"


def test_a_new_field_is_hinted_at() -> None:
    (problem,) = _read(zeel=5)[1].listed()
    assert problem.suggestion == "zeal"
    assert foreign_words(WIDER)["zealous"] == "zeal"
    assert elsewhere("grace_period", (), ("name",)) == "grace goes in a task or under defaults"


def test_a_new_field_travels() -> None:
    file = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    added = {"TaskSpec": ("zeal", "TYPE_UINT32"), "Resources": ("disk_bytes", "TYPE_UINT64")}
    for message in file.message_type:
        if message.name in added:
            name, kind = added[message.name]
            message.field.add(name=name, number=900, type=kind, label="LABEL_OPTIONAL")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    task_class, resources_class = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"headway.rpc.v1.{name}")) for name in added
    )
    task = WiderTask(name="t", image="i", command="true", timeout_s=60.0, zeal=5)
    sent = task_class(**columns(WIDER, task_class).to_wire(task))
    got = columns(WIDER, task_class).from_wire(task_class.FromString(sent.SerializeToString()))
    assert got["zeal"] == 5
    assert {name: getattr(task, name) for name in got} == got
    parts = columns(WIDER.parts["resources"], resources_class)
    resources = WiderResources(disk_bytes=3)
    assert WiderResources(**parts.from_wire(resources_class(**parts.to_wire(resources)))) == resources
    with pytest.raises(KeyError):
        columns(WIDER, pb.TaskSpec)


def test_a_new_field_is_in_the_http_schema() -> None:
    parts = of_table("Parts", WIDER.parts["resources"])
    schema = of_table("Whole", WIDER, resources=parts).model_json_schema()
    assert schema["properties"]["zeal"]["type"] == "integer"
    assert schema["properties"]["zeal"]["description"] == "0 to 19; how keen it is; default: 0"
    assert schema["$defs"]["Parts"]["properties"]["disk"]["type"] == "string"


def test_a_new_field_is_in_the_form_and_on_the_reference_page() -> None:
    render = script("render_fields")
    page = render.render_page((ROOT / "docs" / "job-file.md").read_text(), WIDER, WIDER.parts["resources"])
    assert "\n| `zeal` | 0 to 19; how keen it is | 0 |\n" in page
    assert "\n| `disk` | a size, of `/tmp` | `1GiB` |\n" in page
    inputs = render.render_inputs(WIDER)
    assert '"zeal"] as const;' in inputs
    assert inputs.index('{"key": "zeal", "under": "", "kind": "number"') > inputs.index('{"key": "working_dir"')


def test_what_is_told_of_the_fields_is_fresh() -> None:
    render = script("render_fields")
    assert render.render_page(render.PAGE.read_text()) == render.PAGE.read_text(), "run scripts/render_fields"
    assert render.render_inputs() == render.INPUTS.read_text(), "run scripts/render_fields"


def test_a_new_field_is_an_option_of_run() -> None:
    seen: dict[str, Any] = {}

    @click.command()
    @options_of(WIDER, first=True)
    @options_of(WIDER, first=False)
    def run(**options: Any) -> None:
        seen.update(options)

    assert "--zeal TEXT" in CliRunner().invoke(run, ["--help"]).output
    CliRunner().invoke(run, ["--zeal", "5"], catch_exceptions=False)
    given = {**seen, "name": None, "priority": "normal"}
    assert _one_task_job(("true",), given, WIDER)["tasks"][0]["zeal"] == 5
    with pytest.raises(click.BadParameter, match="--zeal is a number such as 2, not 'x'"):
        _one_task_job(("true",), {**given, "zeal": "x"}, WIDER)
