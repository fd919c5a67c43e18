"""Five days of work in one workbook: the store has exactly one pet for each of its rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from openpyxl.worksheet.worksheet import Worksheet

import petsync as ps
from petsync.cli import main
from petsync.models import Category, Pet, Tag
from petsync.sandbox import Sandbox
from petsync.widgets.review import ReviewForm
from petsync.widgets.sheet import SheetForm

pytestmark = pytest.mark.slow

SHOP = [
    Pet(
        id=n,
        name=f"Pet {n}",
        status=("available", "pending", "sold")[n % 3],
        category=Category(n % 2 + 1, ("Dogs", "Cats")[n % 2]),
        tags=(Tag(n % 3, f"tag {n % 3}"),),
    )
    for n in range(1, 13)
]
NAMES = ("Aruna", "Bodo", "Cleo", "Dasha", "Emil", "Fritz", "Gisa", "Hektor", "Ines", "Jonas")
WIDTH = 8


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def box(_open_box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Return a store of twelve pets, and change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    _open_box.reset(SHOP)
    return _open_box


def by_cli(box: Sandbox, path: Path, *, writes: bool) -> None:
    """Apply the workbook with the command."""
    options = ["--write-ids"] if writes else []
    with pytest.raises(SystemExit) as ended:
        main(["apply", str(path), "--url", box.url, "--yes", "--max-update", "100%", *options])
    assert ended.value.code == 0


def by_api(box: Sandbox, path: Path, *, writes: bool) -> None:
    """Apply the workbook as in a notebook."""
    with ps.connect(box.url) as store:
        sheet = store.read(path)
        plan = store.plan(sheet, guard=ps.Guard(max_update=ps.Limit(1.0)))
        report = store.apply(plan, progress=False)
        assert report.exit_code == 0
        if writes:
            ps.write_back(sheet, report, only_ids=True)


def by_forms(box: Sandbox, path: Path, *, writes: bool) -> None:
    """Apply the workbook in the forms of the app, with or without writing the ids."""
    with ps.connect(box.url) as store:
        form = SheetForm(store, path)
        assert form.widget is not None
        assert form.work.wait()
        form.compare.click()
        assert form.work.wait()
        review = form.review
        assert isinstance(review, ReviewForm), form.notice.text
        assert review.work.wait()
        for box_ in review.overrides.values():
            box_.value = True
        if review.apply.disabled:
            assert review.plan.in_sync
            return
        review.apply.click()
        assert review.work.wait()
        review.write_ids.value = writes and review.write_ids.value
        review.send.click()
        assert review.work.wait()
        assert review.report is not None, review.notice.text
        assert review.report.exit_code == 0
        assert "download=" in review.files.value
        form.close()
        assert form.work.wait()


def rows_of(sheet: Worksheet) -> list[list[Any]]:
    """Return the rows with a name."""
    rows = [[cell.value for cell in row[:WIDTH]] for row in sheet.iter_rows(min_row=2)]
    return [row for row in rows if row[1]]


def edited(path: Path, day: int, random_: random.Random) -> None:
    """Make a person's edits of one day: new rows, new values in new and old rows, another order."""
    book = load_workbook(path)
    sheet = book.worksheets[0]
    rows = rows_of(sheet)
    new = [row for row in rows if not row[0]] or rows
    random_.choice(new)[2] = random_.choice(("available", "pending", "sold"))
    for row in random_.sample(rows, 3):
        row[5] = f"seen on day {day}"
    if day == 2:
        next(row for row in rows if row[1] == NAMES[0])[1] = "Aruna the Elder"
    if day == 3:
        rows.sort(key=lambda row: str(row[1]))
    if day == 4:
        rows.insert(1, [None, NAMES[8], "sold", "Cats", None, "late", None, None])
    if day < 5:
        both = NAMES[2 * (day - 1) : 2 * day]
        rows += [[None, name, "available", "Dogs", None, "new", None, None] for name in both]
    write(sheet, rows)
    book.save(path)


def write(sheet: Worksheet, rows: list[list[Any]]) -> None:
    """Write exactly these rows into the sheet."""
    blank = [[None] * WIDTH] * max(0, sheet.max_row - 1 - len(rows))
    for at, values in enumerate([*rows, *blank], 2):
        for column, value in enumerate(values, 1):
            sheet.cell(at, column).value = value


@pytest.mark.parametrize("writes", [True, False], ids=["ids", "no ids"])
@pytest.mark.parametrize("way", [by_cli, by_api, by_forms])
def test_five_days_in_one_workbook(box: Sandbox, way: Callable[..., None], writes: bool) -> None:
    """After each day of edits and an apply, the pets in the store are the rows of the workbook."""
    path = Path("catalogue.xlsx").resolve()
    with ps.connect(box.url) as store:
        ps.write_sheet(store.snapshot(), path)
    random_ = random.Random(5)
    for day in range(1, 6):
        edited(path, day, random_)
        way(box, path, writes=writes)
        rows = rows_of(load_workbook(path).worksheets[0])
        pets = box.pets()
        assert sorted(row[1] for row in rows) == sorted(pet.name or "" for pet in pets)
        if writes:
            assert sorted(int(row[0]) for row in rows) == sorted(pet.id or 0 for pet in pets)
        statuses = {row[1]: row[2] for row in rows}
        assert {pet.name: pet.status for pet in pets} == statuses
    assert len(box.pets()) == len(SHOP) + 9
