"""Exports with changed headers or missing ids: no plan is made that ignores them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from openpyxl import load_workbook
from openpyxl.worksheet.worksheet import Worksheet

import petsync as ps
from petsync.errors import GuardError
from petsync.models import Category, Pet, Tag
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

SHOP = [
    Pet(
        id=n,
        name=f"Pet {n}",
        status=("available", "sold")[n % 2],
        category=Category(n % 2 + 1, ("Dogs", "Cats")[n % 2]),
        tags=(Tag(n % 3 + 1, f"tag {n % 3}"), Tag(9, "young")),
        photo_urls=(f"https://pets.example/{n}.jpg",),
    )
    for n in range(1, 7)
]
COLUMNS = {
    name: at
    for at, name in enumerate(
        ("id", "name", "status", "category", "category_id", "tags", "photo_urls"), 1
    )
}
Edit = Callable[[Worksheet], object]


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """Yield a store of six pets that no test changes."""
    with Sandbox(auth=False, pets=SHOP) as box:
        yield box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a connection to the store."""
    with ps.connect(box.url, state=tmp_path / "state") as store:
        yield store


def edited(store: ps.Store, folder: Path, *edits: Edit) -> Path:
    """Return an exported workbook after these edits."""
    path = folder / "pets.xlsx"
    ps.write_sheet(store.snapshot(), path, force=True)
    book = load_workbook(path)
    for edit in edits:
        edit(book.worksheets[0])
    book.save(path)
    return path


def cell(at: str, value: object) -> Edit:
    """Return an edit that types into a cell."""
    return lambda sheet: sheet.__setitem__(at, value)


def without_ids(sheet: Worksheet) -> None:
    """Clear the cells of the ids."""
    for row in range(2, len(SHOP) + 2):
        sheet.cell(row, 1).value = None


@pytest.mark.parametrize(
    ("column", "header"), [*((column, "Whatever") for column in COLUMNS), ("status", "State")]
)
def test_a_header_that_was_renamed_is_a_finding(
    store: ps.Store, tmp_path: Path, column: str, header: str
) -> None:
    """A renamed header is a finding with both names and the cell: no plan is made until it is
    restored or mapped, or the sheet has a column of the old name.
    """
    at = COLUMNS[column]
    path = edited(store, tmp_path, lambda sheet: sheet.cell(1, at).__setattr__("value", header))
    sheet = store.read(path)
    (finding,) = sheet.problems
    assert (finding.rule, finding.severity) == ("header-renamed", "error")
    assert finding.address == f"Pets!{'ABCDEFG'[at - 1]}1"
    for text in (f"'{header}'", f"it was named {column}.", f"--column {header}={column},"):
        assert text in f"{finding.problem} {finding.suggestion}"
    with pytest.raises(GuardError, match=f"Pets!.1: The column '{header}' is not used") as caught:
        store.plan(path)
    assert f"--column {header}={column}, " in caught.value.cure
    assert store.plan(store.read(path, mapping={header: column})).in_sync
    path = edited(
        store,
        tmp_path,
        lambda sheet: sheet.cell(1, at).__setattr__("value", header),
        cell("I1", column),
    )
    if column not in ("id", "name"):
        assert store.plan(path).in_sync


@pytest.mark.parametrize(
    ("column", "edits"),
    [
        ("category_id", [cell("E1", "Kat-Nr"), cell("E3", 7), cell("E4", 7)]),
        ("category_id", [cell("E1", "category number"), *(cell(f"E{n}", 7) for n in range(2, 8))]),
        ("action", [cell("H1", "To do"), cell("H3", "delete")]),
        ("action", [cell("H1", "Aktion"), cell("H3", "Delete")]),
    ],
    ids=["Kat-Nr", "category number", "To do", "Aktion"],
)
def test_an_edit_below_a_header_that_was_renamed_is_not_passed_over(
    store: ps.Store, tmp_path: Path, column: str, edits: Sequence[Edit]
) -> None:
    """An edited column of category ids or actions is recognised under a renamed header, and no plan
    is made.
    """
    path = edited(store, tmp_path, *edits)
    with pytest.raises(GuardError, match=f"in the export it was named {column}"):
        store.plan(path)


def test_the_numbers_of_one_category_are_known_where_they_were(tmp_path: Path) -> None:
    """A column of equal category ids is recognised in its old place, but not in a new column."""
    dogs = Category(1, "Dogs")
    pets = [Pet(id=n, name=f"Pet {n}", status="sold", category=dogs) for n in range(1, 7)]
    with Sandbox(auth=False, pets=pets) as box, ps.connect(box.url, state=tmp_path) as store:
        path = edited(store, tmp_path, cell("E1", "Kat-Nr"), cell("E3", 2))
        with pytest.raises(GuardError, match="in the export it was named category_id"):
            store.plan(path)
        stock = [cell("H1", "Stock"), *(cell(f"H{n}", 1) for n in range(2, 8))]
        path = edited(store, tmp_path, lambda sheet: sheet.delete_cols(5), *stock)
        assert store.plan(path).in_sync


@pytest.mark.parametrize(
    "edits",
    [
        (lambda sheet: sheet.delete_cols(7), cell("H1", "Notes"), cell("H2", "a nice one")),
        (lambda sheet: sheet.delete_cols(3), cell("H1", "Shelf"), cell("H2", "3"), cell("H3", "4")),
        (lambda sheet: sheet.delete_cols(4, 4), cell("E1", "Paid"), cell("E2", "yes")),
        (cell("I1", "Old status"), cell("I2", "sold")),
        (lambda sheet: sheet.delete_cols(6, 2),),
        (
            lambda sheet: sheet.delete_cols(5),
            *(cell(f"H{row}", value) for row, value in enumerate(["Stock", 1, 1, 1, 1, 2, 1], 1)),
        ),
        (lambda sheet: sheet.delete_cols(8), cell("I1", "To do"), cell("I2", "call, then delete")),
    ],
    ids=["a note", "numbers", "several", "beside the column", "nothing else", "stock", "to do"],
)
def test_other_columns_are_no_renamed_ones(
    store: ps.Store, tmp_path: Path, edits: tuple[Edit, ...]
) -> None:
    """A person's own columns are not taken for renamed ones, also if exported columns
    are missing.
    """
    path = edited(store, tmp_path, *edits)
    assert not [each for each in store.read(path).problems if each.severity == "error"]
    assert store.plan(path).in_sync


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        (
            (lambda sheet: sheet.delete_cols(1), cell("A2", "Maximilian"), cell("F2", None)),
            "column id",
        ),
        ((without_ids, cell("B2", "Maximilian"), cell("G2", None)), "has no ids"),
    ],
    ids=["the column is gone", "its cells are empty"],
)
def test_without_their_ids_no_row_is_planned(
    store: ps.Store, tmp_path: Path, edits: tuple[Edit, ...], says: str
) -> None:
    """An export without its ids gives no plan, because a renamed row would become a second pet; the
    hint names the alternative.
    """
    path = edited(store, tmp_path, *edits)
    with pytest.raises(GuardError, match=says) as caught:
        store.plan(path)
    assert "rows without their ids would become new pets" in caught.value.hint
    with pytest.raises(GuardError, match=says):
        store.why(path, 1)
    # With `match_on`, no ids are needed.
    assert len(store.plan(path, match_on="name").adds) == 1


def test_an_export_that_was_emptied_takes_new_pets(store: ps.Store, tmp_path: Path) -> None:
    """An export without its rows can be filled with new pets, with or without the id column."""
    rows: tuple[Edit, ...] = (
        lambda sheet: sheet.delete_rows(2, len(SHOP)),
        cell("B2", "Fay"),
        cell("C2", "sold"),
    )
    assert [add.after.name for add in store.plan(edited(store, tmp_path, *rows)).adds] == ["Fay"]
    rows = (*rows, cell("H2", "add"), lambda sheet: sheet.delete_cols(1))
    assert [add.after.name for add in store.plan(edited(store, tmp_path, *rows)).adds] == ["Fay"]
