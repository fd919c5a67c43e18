"""Look: a sheet as a form looks at it, with what takes a while to find out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from petsync.errors import SheetError
from petsync.sheets import HeaderNotFoundError, Peek
from petsync.store import Store
from petsync.table.correction import Suggestion
from petsync.table.sheet import Finding, Sheet

__all__ = ["Look", "Shown", "looked"]

_UNCERTAIN = ("ragged-row", "broken-quote")
"""What is wrong with a row whose cells may be in wrong columns."""


@dataclass(frozen=True, slots=True)
class Look:
    """The sheet, its suggestions by address, and the findings whose cell a text can mend."""

    sheet: Sheet
    suggestions: Mapping[str, Suggestion]
    mendable: frozenset[str]

    @classmethod
    def at(cls, sheet: Sheet) -> Look:
        """What there is to see of the sheet."""
        return cls(
            sheet,
            {each.address: each for each in sheet.suggestions},
            frozenset(each.address for each in sheet.problems if _is_mendable(sheet, each)),
        )

    @property
    def sure(self) -> dict[str, str]:
        """The sure corrections by address."""
        return {at: each.after for at, each in self.suggestions.items() if each.is_sure}


def looked(
    store: Store,
    path: Path,
    tab: str | None,
    mapping: Mapping[str, str],
    corrections: Mapping[str, str],
    *,
    encoding: str | None = None,
    known: Collection[str] = (),
    digest: str = "",
) -> Look:
    """The sheet as it is read so; `known` are the store's own statuses. Raises SheetError where the
    file is not of this digest any more, if one is given.
    """
    try:
        sheet = store.aio.read(
            path,
            tab=tab,
            mapping=mapping,
            corrections=corrections,
            known_statuses=known,
            encoding=encoding,
        )
    except HeaderNotFoundError as error:
        # The columns were chosen for another worksheet.
        rest = {name: ours for name, ours in mapping.items() if name not in error.missing}
        return looked(
            store, path, tab, rest, corrections, encoding=encoding, known=known, digest=digest
        )
    if digest and sheet.digest != digest:
        raise SheetError(
            f"{path}: the file has changed since it was read",
            hint="Open it again, and choose the corrections anew: cells may have moved.",
        )
    return Look.at(sheet)


def _is_mendable(sheet: Sheet, finding: Finding) -> bool:
    return (
        finding.row != sheet.header_row
        and finding.column in sheet.columns
        and finding.rule not in _UNCERTAIN
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """The headers that a person may have to say the meaning of, and the worksheets to choose from;
    `meant` is what a header may mean.
    """

    tab: str
    tabs: Sequence[str]
    headers: Sequence[str]
    meant: Mapping[str, str]
    ours: frozenset[str] = frozenset()

    @classmethod
    def of_sheet(cls, sheet: Sheet) -> Shown:
        """Those of a sheet that was read."""
        near = {
            finding.value: finding.meant
            for finding in sheet.problems
            if finding.rule in ("header-near-miss", "header-renamed") and finding.meant
        }
        own = [str(name) for name in sheet.others.columns if not _is_result(str(name))]
        # What may mean one of ours comes first; of many columns only some are asked for.
        headers = sorted(own, key=lambda name: name not in near)
        ours = frozenset(name for name in sheet.columns if name not in own)
        return cls(sheet.tab, (sheet.tab, *sheet.tabs), headers, near, ours)

    @classmethod
    def of_peek(cls, seen: Peek) -> Shown:
        """Those of a file that could not be read as it is."""
        return cls(seen.tab, seen.tabs, seen.headers, seen.meant)


def _is_result(name: str) -> bool:
    from petsync.sheets.headers import OURS, RESULTS

    return name.removeprefix(OURS) in RESULTS
