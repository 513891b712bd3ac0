"""Refuses query parameters that a route does not have, with the one that was probably meant.

A filter with a slip in its name would otherwise be dropped, and the answer be taken for a filtered one.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from headway.errors import InvalidInput, Problem

from ..text import near_names

_MOST_TOLD = 10


async def refuse_unknown(request: Request) -> None:
    """A dependency of all routes.

    Raises:
        InvalidInput: the route has no parameter of this name.
    """
    if not request.scope["query_string"]:
        return
    route: APIRoute = request.scope["route"]
    known = sorted(_names(route.dependant))
    unknown = sorted({name for name in request.query_params if name not in known})
    if unknown:
        problems = [_problem(name, known) for name in unknown[:_MOST_TOLD]]
        raise InvalidInput(" ".join(problem.message for problem in problems), problems=problems)


def _names(dependant: Dependant) -> set[str]:
    own = {field.alias for field in dependant.query_params}
    return own.union(*(_names(inner) for inner in dependant.dependencies))


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
