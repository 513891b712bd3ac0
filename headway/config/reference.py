"""The reference of headway.toml, made from the sections themselves: `python -m headway.config.reference`."""

from __future__ import annotations

import types
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from .sections import HeadwayConfig

BEGIN, END = "<!-- begin reference -->", "<!-- end reference -->"


def render() -> str:
    """Markdown tables of all sections, keys, kinds, defaults and meanings."""
    return "\n".join(_section(name, field.annotation) for name, field in HeadwayConfig.model_fields.items())


def with_reference(page: str) -> str:
    """The page with everything between its two marks made anew."""
    head, _, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    return f"{head}{BEGIN}\n\n{render()}\n{END}{tail}"


def _section(name: str, model: Any) -> str:
    lines = [f"### [{name}]", "", (model.__doc__ or "").strip(), "", "| key | default | what |", "| --- | --- | --- |"]
    inner = []
    for key, field in model.model_fields.items():
        if _is_section(field.annotation):
            inner.append(_section(f"{name}.{key}", field.annotation))
        else:
            lines.append(f"| `{key}` | {_default(field)} | {_what(field)} |")
    return "\n".join([*lines, "", *inner])


def _is_section(annotation: Any) -> bool:
    return (
        isinstance(annotation, type)
        and not isinstance(annotation, types.GenericAlias)
        and issubclass(annotation, BaseModel)
    )


def _default(field: FieldInfo) -> str:
    value = field.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`" if value < 1e6 else f"`{int(value)}`"
    if value in ("", (), {}, None):
        return ""
    if isinstance(value, dict):
        return f'`"{int(value[0] // 86_400)}d"`'
    return f"`{value}`"


def _what(field: FieldInfo) -> str:
    text = (field.description or "").replace("|", "\\|")
    if get_origin(field.annotation) is Literal:
        words = ", ".join(f"`{word}`" for word in get_args(field.annotation))
        text = f"{text} ({words})"
    return text


if __name__ == "__main__":
    import sys
    from pathlib import Path

    page = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/configuration.md")
    page.write_text(with_reference(page.read_text("utf-8")), "utf-8")
