"""Modules that say they are pure are the ones that import-linter holds to it."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def test_the_contract_names_every_pure_module():
    config = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    (contract,) = (one for one in config["contracts"] if one["name"].startswith("httpserver: pure modules"))
    pure = set()
    for path in (REPOSITORY / "httpserver").glob("*/*.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        if re.search(r"\bPure\b", docstring):
            pure.add(f"httpserver.{path.parent.name}.{path.stem}")
    assert pure == {name for name in contract["source_modules"] if name.count(".") == 2}
