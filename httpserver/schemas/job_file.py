"""A job file, for people and generated clients.

The document itself is read by headway.jobfile, which tells every problem with its place; these models are the contract
and are not used to read.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import ConfigDict, Field, create_model

from headway.jobfile.spec import RESOURCES, TASK
from headway.jobfile.table import Table, TaskField

from .base import ApiRequest, ApiResponse, NeedOn, Priority


def _without_null(schema: dict[str, Any]) -> None:
    """The reader takes no null: a field is given or left out."""
    for field in schema.get("properties", {}).values():
        kinds = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
        if len(kinds) == 1:
            del field["anyOf"]
            field.update(kinds[0])
        elif kinds:
            field["anyOf"] = kinds
        if "default" in field and field["default"] is None:
            del field["default"]


class _Read(ApiRequest):
    """Of what the reader of job files takes."""

    model_config = ConfigDict(json_schema_extra=_without_null)


def of_table(name: str, table: Table, **others: Any) -> Any:
    """A model of the fields that ``defaults`` may have too, none of them required; ``others``: types of those that
    the table leaves to other code."""
    fields: dict[str, Any] = {}
    for row in table.rows:
        if not row.shared:
            continue
        kind = _kind(row, others)
        # An empty list would be an example too.
        told: dict[str, Any] = {"examples": list(row.examples)} if row.examples else {}
        fields[row.key] = (kind | None, Field(None, description=_about(row), **told))
    return create_model(name, __base__=_Read, **fields)


def _kind(row: TaskField, others: dict[str, Any]) -> Any:
    kind: Any = others.get(row.key, row.value)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return Literal[tuple(word.value for word in kind)]  # an enum would get a schema of its own
    return kind


def _shown(name: str, table: Table, **others: Any) -> Any:
    """A model of all fields as a job file spells them, each present; null: not set."""
    fields: dict[str, Any] = {}
    for row in table.rows:
        kind = _kind(row, others)
        may_miss = row.default is None or row.attribute == "shell"
        fields[row.key] = (kind | None if may_miss else kind, Field(description=row.about))
    return create_model(name, __base__=ApiResponse, **fields)


def _about(row: TaskField) -> str:
    if row.required:
        return f"{row.about}; required here or in defaults" if row.shared else row.about
    return f"{row.about}; default: {row.told_default}" if row.told_default else row.about


class JobFileResources(of_table("_Resources", RESOURCES)):  # type: ignore[misc]
    pass


class JobFileDefaults(of_table("_Defaults", TASK, resources=JobFileResources)):  # type: ignore[misc]
    pass


class JobFileTask(JobFileDefaults):
    name: str = Field(description=_about(TASK["name"]))
    needs: list[str] | dict[str, NeedOn] | None = Field(None, description=_about(TASK["needs"]))


class JobFile(_Read):
    """A job file; docs/interfaces.md says what each field means."""

    version: Literal[1]
    name: str
    priority: Priority | None = None
    defaults: JobFileDefaults | None = None
    tasks: list[JobFileTask]


class SubmittedResources(_shown("_SubmittedResources", RESOURCES)):  # type: ignore[misc]
    pass


_Whole: Any = _shown("_SubmittedTask", TASK, resources=SubmittedResources, needs=list[str] | dict[str, NeedOn])


class SubmittedTask(_Whole):  # type: ignore[misc]
    """What was submitted of a task, as a job file spells it, with every default filled in; null: not set."""
