"""Takes one guard out of the text of a file. Pure."""

from __future__ import annotations

import ast
from functools import lru_cache

from .guard_list import BadList, Change, Guard


def mutated(text: str, guard: Guard) -> str:
    """The text without the guard.

    Raises:
        BadList: the quoted text does not stand there exactly once, or nothing changes, or it is no Python any more.
    """
    times = text.count(guard.quoted)
    if times != 1:
        raise BadList(f"{guard.name}: {guard.file} has {guard.quoted!r} {times} times; it has to stand there once.")
    if guard.change is Change.BECOMES:
        after = text.replace(guard.quoted, guard.becomes)
    else:
        after = _without(text, guard)
    if guard.file.endswith(".py"):
        try:
            same = ast.dump(ast.parse(after)) == _meaning(text)
        except SyntaxError as error:
            raise BadList(f"{guard.name}: {guard.file} is no Python without it: {error}.") from error
        if same:
            raise BadList(f"{guard.name}: nothing would change.")
    return after


# The guards of one file stand together in their list: what they have in common is read once.
@lru_cache(maxsize=4)
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


@lru_cache(maxsize=4)
def _meaning(text: str) -> str:
    return ast.dump(_tree(text))


def _without(text: str, guard: Guard) -> str:
    number = text.count("\n", 0, text.index(guard.quoted)) + 1
    node = next((one for one in ast.walk(_tree(text)) if isinstance(one, ast.stmt) and one.lineno == number), None)
    if node is None:
        raise BadList(f"{guard.name}: no statement begins at line {number} of {guard.file}.")
    if guard.change is Change.DELETE:
        return _replaced(text, node, "pass")
    if not isinstance(node, ast.If | ast.While):
        raise BadList(f"{guard.name}: line {number} of {guard.file} has no condition.")
    return _replaced(text, node.test, "False" if guard.change is Change.NEVER else "True")


def _replaced(text: str, node: ast.stmt | ast.expr, by: str) -> str:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    lines = text.encode().splitlines(keepends=True)
    first, last = lines[node.lineno - 1], lines[node.end_lineno - 1]
    changed = first[: node.col_offset] + by.encode() + last[node.end_col_offset :]
    return b"".join((*lines[: node.lineno - 1], changed, *lines[node.end_lineno :])).decode()
