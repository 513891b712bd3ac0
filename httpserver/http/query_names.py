"""Refuses query parameters that a route does not have, with the one that was probably meant, and repeated ones.

A filter with a slip in its name would otherwise be dropped, and the answer be taken for a filtered one. So would be all
but the last value of a parameter that takes one.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from headway.errors import InvalidInput, Problem

from ..text import near_names

_MOST_TOLD = 10
_TAKES_ANY = frozenset({"finish_by_provider"})  # providers add names of their own to their answer


async def refuse_unknown(request: Request) -> None:
    """A dependency of all routes.

    Raises:
        InvalidInput: the route has no parameter of this name, or takes one value of it and not several.
    """
    route: APIRoute = request.scope["route"]
    if not request.scope["query_string"] or route.name in _TAKES_ANY:
        return
    several = _names(route.dependant)
    known = sorted(several)
    given = Counter(name for name, _ in request.query_params.multi_items())
    unknown = sorted(name for name in given if name not in several)
    repeated = sorted(name for name, count in given.items() if count > 1 and not several.get(name, True))
    problems = [_problem(name, known) for name in unknown] + [_repeated(name, given[name]) for name in repeated]
    if problems:
        told = problems[:_MOST_TOLD]
        raise InvalidInput(" ".join(problem.message for problem in told), problems=told)


def _names(dependant: Dependant) -> dict[str, bool]:
    """The parameters, and whether each may come several times."""
    names = {field.alias: _is_list(field.field_info.annotation) for field in dependant.query_params}
    for inner in dependant.dependencies:
        names |= _names(inner)
    return names


def _is_list(annotation: Any) -> bool:
    return any(get_origin(one) is list for one in (annotation, *get_args(annotation)))


def _repeated(name: str, count: int) -> Problem:
    return Problem("", f"The query parameter `{name}` takes one value, and {count} were given; leave one.", word=name)


def _problem(name: str, known: list[str]) -> Problem:
    told = f"There is no query parameter `{name[:64]}` here"
    meant = near_names.word(name, known)
    if not known:
        sentence = f"{told}: this address takes none."
    elif meant:
        sentence = f"{told}; did you mean `{meant}`?"
    else:
        sentence = f"{told}; there are {', '.join(f'`{one}`' for one in known)}."
    return Problem("", sentence, word=name[:64], allowed=tuple(known), suggestion=meant)
