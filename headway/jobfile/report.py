"""How a check says what is wrong: at which place, with which word, and with what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.errors import Problem
from headway.jobfile.changes import as_typed
from headway.jobfile.fields import kind_of
from headway.jobfile.hints import elsewhere, nearest
from headway.jobfile.source import Path, Problems, Source, pointer_of, printable, quoted
from headway.units import BadValue


class Report:
    """The problems of one document."""

    def __init__(self, source: Source, problems: Problems) -> None:
        self.source = source
        self._problems = problems

    def __bool__(self) -> bool:
        return bool(self._problems)

    @property
    def total(self) -> int:
        return self._problems.total

    def room(self) -> bool:
        """Whether the next problem will be kept; lets costly hints be left out when not."""
        return self._problems.room()

    def skip(self) -> None:
        """Counts a problem that is not worth wording any more."""
        self._problems.total += 1

    def keys(self, raw: dict[str, Any], path: Path, known: tuple[str, ...], where: str) -> None:
        for key in raw:
            if key not in known:
                self.unknown_key(key, path, known, where)

    def unknown_key(self, key: Any, path: Path, known: tuple[str, ...], where: str) -> None:
        if not isinstance(key, str):
            self.add(path, f"{where}: a key is {kind_of(key)}; keys are texts", allowed=known)
            return
        suggestion = nearest(key, known) if self.room() else None
        if advice := elsewhere(key, path, known):
            hint = advice
        elif suggestion:
            hint = f"did you mean {quoted(suggestion)}?"
        else:
            hint = f"known are {', '.join(known)}"
        self.add(
            (*path, key),
            f"{where}: unknown key {quoted(key)}; {hint}",
            of_key=True,
            word=key,
            allowed=known,
            suggestion=suggestion,
        )

    def attempt(self, check: Callable[[Any], Any], raw: Any, path: Path, label: str) -> Any:
        """The checked value; None, and a problem more, when the check refuses it."""
        try:
            return check(raw)
        except BadValue as bad:
            self.bad(bad, path, label)
            return None

    def bad(self, bad: BadValue, path: Path, label: str, *, of_key: bool = False) -> None:
        """A check's refusal, in terms of what was typed: 1.10 and 0x1F are other words than 1.1 and 31."""
        if bad.retold is not None and self.room() and (typed := self.source.written(path)) is not None:
            bad = bad.retold(typed)
        self.add(path, f"{label} {bad.message}", of_key=of_key, allowed=bad.allowed, suggestion=bad.suggestion)

    def wrong_kind(self, path: Path, label: str, raw: Any, wanted: str) -> None:
        self.add(path, f"{label} is {kind_of(raw)}; write {wanted}")

    def add(
        self,
        path: Path,
        message: str,
        *,
        of_key: bool = False,
        word: str | None = None,
        allowed: tuple[str, ...] = (),
        suggestion: str | None = None,
    ) -> None:
        if not self.room():
            self.skip()
            return
        place = self.source.place(path, of_key=of_key)
        if origin := self.source.origin(path):
            message = f"--set {quoted(origin)}: {as_typed(message, origin)}"
        if word is None:
            word = str(path[-1]) if of_key else self.source.written(path)
        self._problems.add(
            Problem(
                # What was set has no place in the file.
                pointer="" if origin else printable(pointer_of(path), 500),
                message=printable(message, 2_000),
                line=place.line,
                column=place.column,
                word=printable(word or ""),
                allowed=allowed,
                suggestion=printable(suggestion or ""),
            )
        )
