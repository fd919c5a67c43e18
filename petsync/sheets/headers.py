"""Headers: which row they stand in, and which of the table's columns they mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from petsync.errors import SheetError
from petsync.table.cells import BLANKS, trim
from petsync.table.columns import COLUMNS

__all__ = ["ACTION", "RESULTS", "Headers", "Mapper", "loose"]

ACTION = "action"
RESULTS = ("outcome", "message", "assigned_id", "row")
"""The columns that a result sheet has beyond the user's own."""

_OURS = (*COLUMNS, ACTION)
_LOOSE = re.compile(f"[{re.escape(BLANKS)}_-]+")
_SEARCHED = 20
_NEAR = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """Which column of the file is which: positions by our names, and the others by their own.

    `near` holds, for a header that is nearly one of ours, its position and our name.
    """

    ours: Mapping[str, int]
    others: Mapping[str, int]
    near: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Mapper:
    """Matches headers without regard to case, spaces, underscores and hyphens.

    `mapping` gives our column for each header that is known, in its loose spelling.
    """

    source: str
    mapping: Mapping[str, str]

    @classmethod
    def of(cls, source: str, mapping: Mapping[str, str] | None) -> Mapper:
        """A mapper for one file. Raises SheetError where `mapping` names no column of ours."""
        known = {loose(ours): ours for ours in _OURS}
        table = dict(known)
        for theirs, ours in (mapping or {}).items():
            if loose(ours) not in known:
                raise SheetError(
                    f"the mapping of {theirs!r} names {ours!r}, which is no column of petsync",
                    hint=f"The columns are: {', '.join(_OURS)}.",
                )
            table[loose(theirs)] = known[loose(ours)]
        return cls(source, table)

    def score(self, cells: Iterable[str]) -> int:
        """How many of our columns these cells name."""
        return len({self.mapping[key] for cell in cells if (key := loose(cell)) in self.mapping})

    def header_row(self, rows: Sequence[Sequence[str]]) -> int | None:
        """Where the header is among the first rows: the one that names most of our columns."""
        scores = [self.score(row) for row in rows[:_SEARCHED]]
        best = max(scores, default=0)
        return scores.index(best) if best else None

    def match(self, header: Sequence[str], places: Sequence[str]) -> Headers:
        """The meaning of each header. Raises SheetError where two mean the same."""
        ours: dict[str, int] = {}
        others: dict[str, int] = {}
        for position, text in enumerate(header):
            name = self.mapping.get(loose(text))
            if name is None:
                if trim(text):
                    others[_unused(trim(text), others)] = position
            elif name in ours:
                raise self._twice(name, ours[name], position, header, places)
            else:
                ours[name] = position
        return Headers(ours=ours, others=others, near=self._near(ours, others))

    def unusable(self, rows: Sequence[Sequence[str]], where: str = "") -> SheetError:
        """The error for a sheet without any header of ours: what was found, what may be meant."""
        found = next(([trim(c) for c in row if trim(c)] for row in rows if any(row)), [])
        meant = [f"{text!r} may mean {near}" for text in found if (near := self._nearest(text))]
        listed = ", ".join(repr(text[:40]) for text in found[:12]) or "nothing"
        return SheetError(
            f"{self.source}{where}: no column has a header that petsync knows; the first row "
            f"holds {listed}",
            hint=". ".join([*meant, f"The columns are {', '.join(_OURS)}; map others to these"])
            + ".",
        )

    def _near(self, ours: Mapping[str, int], others: Mapping[str, int]) -> dict[int, str]:
        near = {at: self._nearest(text) for text, at in others.items() if text not in RESULTS}
        return {at: name for at, name in near.items() if name and name not in ours}

    def _nearest(self, text: str) -> str:
        match = difflib.get_close_matches(loose(text), self.mapping, n=1, cutoff=_NEAR)
        return self.mapping[match[0]] if match else ""

    def _twice(
        self, name: str, first: int, second: int, header: Sequence[str], places: Sequence[str]
    ) -> SheetError:
        return SheetError(
            f"{self.source}: two columns mean {name}: {header[first]!r} in column "
            f"{places[first]} and {header[second]!r} in column {places[second]}",
            hint="Delete one of them, or give it another header.",
        )


def loose(text: str) -> str:
    """A header as it is compared: without regard to case, spaces, underscores and hyphens."""
    return _LOOSE.sub("", text).casefold()


def _unused(name: str, taken: Mapping[str, int]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free
