"""Query parameters that a route does not have are refused, with the one that was meant."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

import httpserver.app
from tests.integration.http_rig import a_rig

DOCUMENT = json.loads(Path(httpserver.app.__file__).with_name("openapi.json").read_text("utf-8"))
# It would end the session of this test; and providers add names of their own to their answer.
OTHERS = {("/api/v1/session", "delete"), ("/api/v1/session/provider/callback", "get")}
METHODS = ("get", "put", "post", "patch", "delete")


async def test_every_route_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        ann = await rig.client("ann", admin=True)
        taken, tried = [], 0
        for template, operations in DOCUMENT["paths"].items():
            if not template.startswith("/api/v1/"):
                continue
            path = template.removeprefix("/api/v1").replace("{", "x").replace("}", "")
            for method in METHODS:
                if method not in operations or (template, method) in OTHERS:
                    continue
                answer = await ann.request(method, path, params={"no_such_thing": "1"})
                tried += 1
                if answer.status_code != 400 or "`no_such_thing`" not in answer.json()["detail"]:
                    taken.append(f"{method} {path}: {answer.status_code}")
        assert taken == []
        assert tried > 60


KNOWN = "`job`, `limit`, `offset`, `owner`, `running`"


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("ownr=ann", "There is no query parameter `ownr` here; did you mean `owner`?"),
        ("Owner=ann", "There is no query parameter `Owner` here; did you mean `owner`?"),
        ("=1", f"There is no query parameter `` here; there are {KNOWN}."),
        (
            "limit=5&page=2",
            "There is no query parameter `page` here; there are `job`, `limit`, `offset`, `owner`, `running`.",
        ),
        (
            "job_id=j&offst=1",
            f"There is no query parameter `job_id` here; there are {KNOWN}. "
            "There is no query parameter `offst` here; did you mean `offset`?",
        ),
        ("owner=bob&owner=me", "The query parameter `owner` takes one value, and 2 were given; leave one."),
        ("limit=1&limit=1&limit=1", "The query parameter `limit` takes one value, and 3 were given; leave one."),
    ],
)
async def test_the_nearest_known_one_is_named(tmp_path: Path, query: str, sentence: str) -> None:
    async with a_rig(tmp_path) as rig:
        answer = await (await rig.client("ann")).get(f"/queue?{query}")
        assert (answer.status_code, answer.json()["detail"]) == (400, sentence)


async def test_odd_names_and_many_of_them_get_a_short_answer(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        ann = await rig.client("ann")
        names = ["%ff", "%00", "a" * 500, quote("käse"), *(f"n{number}" for number in range(200))]
        answer = await ann.get("/queue?" + "&".join(f"{name}=1" for name in names))
        assert answer.status_code == 400
        assert len(answer.json()["errors"]) == 10
        assert len(answer.content) < 4_000
        answer = await ann.get("/me?x=1")
        assert answer.json()["detail"] == "There is no query parameter `x` here: this address takes none."


async def test_known_ones_still_pass(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        ann = await rig.client("ann")
        assert (await ann.get("/queue?limit=5&owner=me")).status_code == 200
        assert (await ann.get("/jobs?state=RUNNING&state=FAILED&owner=me")).status_code == 200
        # Probes of load balancers add what they like.
        assert (await ann.get(f"{rig.url}/healthz?probe=1")).status_code == 200


async def test_no_route_takes_a_number_that_is_none(tmp_path: Path) -> None:
    """`until=nan` was refused as too large."""
    async with a_rig(tmp_path) as rig:
        ann = await rig.client("ann", admin=True)
        said: dict[str, set[str]] = {}
        for template, operations in DOCUMENT["paths"].items():
            for parameter in operations.get("get", {}).get("parameters", ()):
                kinds = {one.get("type") for one in (parameter["schema"], *parameter["schema"].get("anyOf", ()))}
                if parameter["in"] != "query" or not kinds & {"number", "integer"}:
                    continue
                path = template.removeprefix("/api/v1").replace("{number}", "1").replace("{", "x").replace("}", "")
                for value in ("nan", "inf", "-inf", "NaN", "1e999"):
                    answer = await ann.get(path, params={parameter["name"]: value})
                    assert answer.status_code == 400, (path, parameter["name"], value)
                    begin = f"The parameter `{parameter['name']}` "  # other parts of the address may be wrong, too
                    (sentence,) = [p["message"] for p in answer.json()["errors"] if p["message"].startswith(begin)]
                    said.setdefault("number" if "number" in kinds else "integer", set()).add(
                        sentence.removeprefix(begin)
                    )
        assert said == {
            "number": {"must be a plain number, not nan or infinity."},
            "integer": {"must be a whole number."},
        }
