"""Drop-downs that help to fill a cell, and forbid nothing that petsync would take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from openpyxl import Workbook
from openpyxl.workbook.defined_name import DefinedName
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.worksheet import Worksheet

from petsync.sheets.export.contents import Contents
from petsync.sheets.export.text import OUT
from petsync.sheets.grid import letter
from petsync.sheets.headers import ACTION
from petsync.table.columns import ACTIONS

__all__ = ["LISTS", "SPARE", "offer"]

LISTS = "petsync lists"
"""The hidden worksheet that holds what the drop-downs offer."""

SPARE = 500
"""So many rows below the pets are made ready for new ones."""

_MOST = 5_000
_LONGEST = 255
_ESCAPE = re.compile(r"_x[0-9A-Fa-f]{1,4}_")
_ACTION_HELP = (
    "Blank (or merge): change the pet, or add it if it is new.\n"
    "add: only if it is new.\n"
    "add-another: add one that is just like another.\n"
    "update: only if it exists.\n"
    "delete: remove it from the store.\n"
    "ignore: pass over this row."
)


def offer(book: Workbook, sheet: Worksheet, contents: Contents) -> None:
    """Give the columns status, category and action their drop-downs."""
    texts = contents.by_name
    clear = [contents.clear] if contents.clear else []
    known = [*contents.statuses, *_others(texts["status"], contents.statuses, clear)]
    categories = _others(texts["category"], (), clear)
    lists = book.create_sheet(LISTS)
    lists.sheet_state = "hidden"
    for n, (name, values) in enumerate((("status", known), ("category", categories))):
        _fill(lists, n, [*values, *clear])
        place = letter(n)
        book.defined_names[f"petsync_{name}"] = DefinedName(
            f"petsync_{name}",
            attr_text=f"'{LISTS}'!${place}$1:${place}${max(1, len(values) + len(clear))}",
        )
    _validate(sheet, "status", contents.rows, _status())
    _validate(sheet, "category", contents.rows, _category())
    _validate(sheet, ACTION, contents.rows, _action())


def _others(texts: Sequence[str], known: Sequence[str], clear: Sequence[str]) -> list[str]:
    """The texts that occur and are not known yet, as far as a list can offer them."""
    found = set(texts) - {"", *known, *clear}
    return sorted(filter(_can_be_offered, found), key=lambda text: (text.casefold(), text))[:_MOST]


def _can_be_offered(text: str) -> bool:
    return len(text) <= _LONGEST and text.isprintable() and not _ESCAPE.search(text)


def _fill(lists: Worksheet, column: int, values: Iterable[str]) -> None:
    for row, value in enumerate(values, 1):
        # Text, even where it begins like a formula.
        lists.cell(row, column + 1, value).data_type = "s"


def _validate(sheet: Worksheet, name: str, rows: int, validation: DataValidation) -> None:
    place = letter(OUT.index(name))
    validation.add(f"{place}2:{place}{rows + 1 + SPARE}")
    sheet.add_data_validation(validation)


def _status() -> DataValidation:
    return DataValidation(
        type="list",
        formula1="petsync_status",
        allow_blank=True,
        showErrorMessage=True,
        errorStyle="warning",
        errorTitle="A status that is not in the list",
        error="petsync takes a new status only if the store has it already. Is it spelt right?",
    )


def _category() -> DataValidation:
    return DataValidation(
        type="list", formula1="petsync_category", allow_blank=True, showErrorMessage=False
    )


def _action() -> DataValidation:
    return DataValidation(
        type="list",
        formula1=f'"{",".join(ACTIONS)}"',
        allow_blank=True,
        showErrorMessage=True,
        errorStyle="warning",
        errorTitle="Not an action",
        error=f"petsync knows {', '.join(ACTIONS)}. With any other word it "
        "leaves the row out and tells you so.",
        showInputMessage=True,
        promptTitle="What is to be done?",
        prompt=_ACTION_HELP,
    )
