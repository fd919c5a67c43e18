"""peek: the headers of a file, also where petsync knows none of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from sheetmaking import workbook_of

from petsync.errors import SheetError
from petsync.sheets import peek

ROWS = [["Preisliste 2026", "", ""], ["Nummer", "Tiername", "Staus"], ["7", "Rex", "sold"]]


@pytest.mark.parametrize("kind", ["xlsx", "csv"])
def test_the_row_with_most_headers_is_found(tmp_path: Path, kind: str) -> None:
    """The header row is found below a title, with the likely meaning of each header."""
    path = tmp_path / f"pets.{kind}"
    if kind == "csv":
        path.write_text("\n".join(";".join(row) for row in ROWS))
    else:
        workbook_of(ROWS).save(path)
    seen = peek(path)
    assert seen.headers == ("Nummer", "Tiername", "Staus")
    assert seen.meant == {"Nummer": "id", "Tiername": "name", "Staus": "status"}


def test_a_worksheet_is_named(tmp_path: Path) -> None:
    """All visible worksheets are listed, and the headers are those of the worksheet that is asked
    for.
    """
    book = workbook_of(ROWS)
    book.create_sheet("New").append(["Titel", "Foto"])
    book.create_sheet("Hidden").sheet_state = "hidden"
    book.save(tmp_path / "pets.xlsx")
    assert peek(tmp_path / "pets.xlsx").tab == "Pets"
    seen = peek(tmp_path / "pets.xlsx", tab="New")
    assert (seen.tab, seen.tabs, seen.headers) == ("New", ("Pets", "New"), ("Titel", "Foto"))


def test_an_empty_sheet_has_no_headers(tmp_path: Path) -> None:
    """An empty sheet has no headers and is not an error."""
    (tmp_path / "pets.csv").write_text(",\n,\n")
    assert peek(tmp_path / "pets.csv").headers == ()
    workbook_of([]).save(tmp_path / "pets.xlsx")
    assert peek(tmp_path / "pets.xlsx").headers == ()


def test_what_is_no_sheet_is_refused(tmp_path: Path) -> None:
    """A missing file is refused with the same message as in every other reader."""
    with pytest.raises(SheetError, match="there is no such file"):
        peek(tmp_path / "pets.csv")
