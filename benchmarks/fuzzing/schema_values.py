"""Values as a schema of the OpenAPI document allows them, and now and then ones that it does not. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

_TEXTS = (
    "", "a", "../..", "%2e%2e/", "\x00", "\n", "é" * 40, "\ud800", "a" * 300, "-1", "null", "{}", "' or 1=1 --",
    "sha256:" + "0" * 64, "latest", "\N{RIGHT-TO-LEFT OVERRIDE}x", "1e999", " ",
)  # fmt: skip
_NUMBERS = (0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e300)
_DEEPEST = 6
_WRONG = 0.12  # of all values


class SchemaValues:
    """Draws values; ``known`` are words that mean something to the server: names and ids of what is there."""

    def __init__(self, document: Mapping[str, Any], chance: random.Random, known: tuple[str, ...] = ()) -> None:
        self._schemas = document["components"]["schemas"]
        self._chance = chance
        self._known = known

    def value(self, schema: Mapping[str, Any], depth: int = 0) -> Any:
        """One value."""
        chance = self._chance
        if chance.random() < _WRONG or depth > _DEEPEST:
            return self.anything()
        if "$ref" in schema:
            return self.value(self._schemas[schema["$ref"].rpartition("/")[2]], depth + 1)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self.value(chance.choice(schema[several]), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return chance.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                return [self.value(schema.get("items", {}), depth + 1) for _ in range(chance.randint(0, 3))]
            case "integer" | "number":
                low, high = schema.get("minimum", -5), schema.get("maximum", 1000)
                return chance.choice((low, high, chance.uniform(low, min(high, 1e9)), 1, int(low) + 1))
            case "boolean":
                return chance.random() < 0.5
            case "null":
                return None
            case "string":
                return self.text()
        return self.anything()

    def text(self) -> str:
        """A word that is known, or one that is trouble."""
        words = self._known if self._known and self._chance.random() < 0.6 else _TEXTS
        return self._chance.choice(words)

    def anything(self) -> Any:
        """Any JSON at all."""
        draw = self._chance.choice
        return draw((None, True, self.text(), draw(_NUMBERS), [], [None], {}, {"": None}, [[[[]]]], {self.text(): 1}))

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        wanted = set(schema.get("required", ()))
        out = {
            name: self.value(field, depth + 1)
            for name, field in schema.get("properties", {}).items()
            if self._chance.random() < (0.95 if name in wanted else 0.4)
        }
        if self._chance.random() < 0.05:
            out[self.text()] = self.anything()
        return out
