"""Reader: sheets as they are read for one store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from petsync import sheets
from petsync.errors import SheetError
from petsync.table.sheet import Sheet

__all__ = ["Reader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads sheets with a store's `statuses`, and with the `columns` that petsync.toml maps."""

    statuses: Sequence[str]
    columns: Mapping[str, str]

    def read(
        self,
        sheet: Sheet | pd.DataFrame | str | Path,
        tab: str | None,
        mapping: Mapping[str, str] | None,
        corrections: Mapping[str, str] | None,
        known: Collection[str],
        encoding: str | None = None,
    ) -> Sheet:
        """The sheet. Raises SheetError where it cannot be read, or is none."""
        if isinstance(sheet, Sheet):
            if corrections:
                return self._again(sheet, corrections, known)
            return sheet.knowing(known) if known else sheet
        if isinstance(sheet, pd.DataFrame):
            return self._frame(sheet, mapping, corrections, known)
        if not isinstance(sheet, str | Path):
            raise SheetError(
                f"a {type(sheet).__name__} is no sheet",
                hint="Give the path of a file, a DataFrame, or what read_sheet returns.",
            )
        return self._file(sheet, tab, mapping, self.columns, corrections, known, encoding)

    def _file(
        self,
        path: str | Path,
        tab: str | None,
        mapping: Mapping[str, str] | None,
        defaults: Mapping[str, str],
        corrections: Mapping[str, str] | None,
        known: Collection[str],
        encoding: str | None,
    ) -> Sheet:
        return sheets.read_sheet(
            path,
            tab=tab,
            mapping=mapping,
            defaults=defaults,
            statuses=self.statuses,
            known_statuses=known,
            corrections=corrections,
            encoding=encoding,
        )

    def _frame(
        self,
        frame: pd.DataFrame,
        mapping: Mapping[str, str] | None,
        corrections: Mapping[str, str] | None,
        known: Collection[str],
    ) -> Sheet:
        if corrections:
            raise SheetError(
                "a DataFrame is read from no file, so no cell of it is corrected",
                hint="Change the DataFrame itself.",
            )
        return sheets.sheet_from_frame(
            frame,
            mapping=mapping,
            defaults=self.columns,
            statuses=self.statuses,
            known_statuses=known,
        )

    def _again(self, sheet: Sheet, corrections: Mapping[str, str], known: Collection[str]) -> Sheet:
        """The sheet's file with further corrections."""
        before = {each.address: each.after for each in sheet.corrections}
        given = {**before, **corrections}
        again = self._file(
            sheet.source,
            sheet.tab or None,
            None,
            sheet.mapping,
            given,
            known,
            sheet.encoding or None,
        )
        if again.digest != sheet.digest:
            raise SheetError(
                f"{sheet.source}: the file has changed since it was read", hint="Read it again."
            )
        return again
