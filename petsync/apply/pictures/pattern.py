"""Pattern: how a file's name tells which pet it shows, as a template that anybody can write."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from petsync.errors import SettingsError
from petsync.model import MAX_ID

__all__ = ["USUAL", "Named", "Patterns"]

USUAL = ("{id}", "{id}_{n}")
"""`7.jpg`, `7_2.png`."""

_PART = re.compile(r"(\{id\}|\{n\}|\*)")
_DIGITS = r"(?<![0-9])(?P<%s>[0-9]{1,%d})(?![0-9])"
# Digits end where no digit follows, and there is one star: no name takes long.
_REGEX = {"{id}": _DIGITS % ("id", 19), "{n}": _DIGITS % ("n", 9), "*": ".*?"}
_HINT = (
    "It is the name without its ending: {id} is the pet's id, {n} the picture's number, and * "
    "anything, once at most. For example {id}-{n}, or {id}-*."
)


class Named(NamedTuple):
    """What a name tells: the pet, and which of its pictures it is, 0 where it does not say."""

    pet_id: int
    place: int = 0


@dataclass(frozen=True, slots=True)
class Patterns:
    """Templates; the first that fits a name counts."""

    templates: tuple[str, ...]
    regexes: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, templates: str | Iterable[str]) -> Patterns:
        """The templates, read. Raises SettingsError for one that cannot be used."""
        given = (templates,) if isinstance(templates, str) else tuple(templates)
        if not given:
            raise SettingsError("there is no pattern for the files' names", hint=_HINT)
        return cls(given, tuple(map(_regex, given)))

    def read(self, stem: str) -> Named | None:
        """What a name without its ending tells; None where no template fits."""
        for regex in self.regexes:
            match = regex.fullmatch(stem)
            if match is not None and int(match["id"]) <= MAX_ID:
                place = match.groupdict().get("n")
                return Named(int(match["id"]), int(place or 0))
        return None

    def __str__(self) -> str:
        return " or ".join(self.templates)


def _regex(template: object) -> re.Pattern[str]:
    if not isinstance(template, str):
        raise SettingsError(f"the pattern {template!r} is no text", hint=_HINT)
    parts = [part for part in _PART.split(template) if part]
    holes = [part for part in parts if part in _REGEX]
    wrong = None
    if holes.count("{id}") != 1:
        wrong = "it needs {id}, once"
    elif len(holes) > len(set(holes)):
        wrong = "a part of it is there twice"
    elif any({one, two} == {"{id}", "{n}"} for one, two in pairwise(parts)):
        wrong = "something must stand between {id} and {n}"
    elif any("{" in part or "}" in part for part in parts if part not in _REGEX):
        wrong = "it has a brace that is neither {id} nor {n}"
    elif "/" in template or "\\" in template:
        wrong = "it is of a file's name, and folders are none of it"
    if wrong:
        raise SettingsError(f"the pattern {template!r} cannot be used: {wrong}", hint=_HINT)
    return re.compile("".join(_REGEX.get(p, re.escape(p)) for p in parts), re.DOTALL)
