"""The table of the forms: its pages are sorted and searched, with filters from ten rows on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petsync.widgets.components import Fold, Pages, Table, fold_case, matches, sort_key

COLUMNS = [
    {"key": "name", "title": "Name", "sorts": True},
    {"key": "id", "title": "Id", "sorts": True},
    {"key": "tags", "title": "Tags", "kind": "value"},
]


def unguarded(act: Callable[..., object]) -> Callable[..., None]:
    """Return the function as a callback."""
    return lambda *arguments: (act(*arguments), None)[1]


def row(number: int) -> dict[str, Any]:
    """Return the row of an item."""
    name = ("Zoë", "ada", "Bob")[number % 3]
    cells = {
        "name": f"{name} {number}",
        "id": str(number),
        "tags": [["odd" if number % 2 else "even"]],
    }
    return {"key": f"row {number}", "label": name, "cells": cells}


@pytest.fixture
def table() -> Iterator[Table]:
    """Yield an empty table."""
    made = Table(columns=COLUMNS, tickable=True)
    yield made
    made.close()


def ids(table: Table) -> list[str]:
    """Return the ids of the visible rows."""
    return [row["cells"]["id"] for row in table.rows]


def test_a_column_is_sorted_by_its_values(table: Table) -> None:
    """Numbers are sorted by their value and names without case and accents, up or down; without a
    column the rows stay as they were given.
    """
    Pages(table, row, unguarded, size=4).show([10, 9, 2, 100])
    table.sort = "id"
    assert ids(table) == ["2", "9", "10", "100"]
    table.down = True
    assert ids(table) == ["100", "10", "9", "2"]
    table.sort, table.down = "name", False
    assert [row["cells"]["name"] for row in table.rows] == ["ada 10", "ada 100", "Bob 2", "Zoë 9"]
    table.sort = "no such column"
    assert ids(table) == ["10", "9", "2", "100"]


def test_a_search_finds_rows_on_every_page(table: Table) -> None:
    """A row is found by all words of the search, wherever they are, whatever their case and
    accents; the first page of the rows found is shown.
    """
    pages = Pages(table, row, unguarded, size=5)
    pages.show(range(30))
    table.page = 3
    table.search = "ZOE"
    assert (ids(table), table.page, table.pages) == (["0", "3", "6", "9", "12"], 0, 2)
    table.search = "Odd zoe"
    assert list(pages.found) == [3, 9, 15, 21, 27]
    assert (table.total, table.all) == (5, 30)
    table.search = "nobody"
    assert (ids(table), table.total, table.pages) == ([], 0, 1)
    table.search = " "
    assert table.total == 30


@pytest.mark.parametrize(("size", "is_long"), [(0, False), (9, False), (10, True), (400, True)])
def test_only_a_long_table_is_searched(table: Table, size: int, is_long: bool) -> None:
    """A table has a search field from ten rows on, counted before any filter."""
    pages = Pages(table, row, unguarded)
    pages.show(range(size))
    assert table.searchable is is_long
    pages.show([1], total=size)
    assert table.searchable is is_long


def test_ticks_belong_to_rows_in_every_order(table: Table) -> None:
    """A tick stays with its row when the rows are sorted or searched."""
    ticked = {3, 4}

    def tick(items: list[int], on: bool) -> None:
        ticked.update(items) if on else ticked.difference_update(items)

    pages = Pages(table, row, unguarded, size=3, ticked=lambda item: item in ticked, on_tick=tick)
    pages.show(range(12))
    assert table.ticked == []
    table.sort, table.down = "id", True
    table.page = 2
    assert (ids(table), table.ticked) == (["5", "4", "3"], ["row 4", "row 3"])
    table.ticked = ["row 5", "row 3"]
    assert ticked == {3, 5}
    table.search = "zoe"
    assert ids(table) == ["9", "6", "3"]
    assert table.ticked == ["row 3"]


def test_a_page_outside_the_table_is_the_nearest(table: Table) -> None:
    """A page that the table does not have is the last or the first one."""
    Pages(table, row, unguarded, size=5).show(range(12))
    table.page = 99
    assert (table.page, ids(table)) == (2, ["10", "11"])
    table.page = -1
    assert (table.page, ids(table)) == (0, ["0", "1", "2", "3", "4"])


def test_cells_of_a_sheet_are_sorted_by_row() -> None:
    """Cells are sorted by worksheet row and then by column, and empty texts come last. Elsewhere, a
    name that looks like a cell is a name.
    """
    cells = ["", "Pets!B10", "Pets!AA9", "Pets!B9", "in no row", "Pets!A100"]
    expected = ["Pets!B9", "Pets!AA9", "Pets!B10", "Pets!A100", "in no row", ""]
    assert sorted(cells, key=lambda text: sort_key(text, "where")) == expected
    names = ["Anna", "Bella", "CAT12", "DOG3"]
    mixed = ["DOG3", "Bella", "CAT12", "Anna"]
    assert sorted(mixed, key=lambda text: sort_key(text, "name")) == names


def test_one_click_is_one_change(table: Table) -> None:
    """A title's click changes order and page together: the rows are arranged and filled once."""
    filled = []
    pages = Pages(table, row, unguarded, size=3, on_found=lambda: filled.append(table.page))
    pages.show(range(12))
    table.page = 3
    filled.clear()
    table.set_state({"sort": "id", "down": True, "page": 0})
    assert (filled, ids(table)) == ([0], ["11", "10", "9"])


def test_a_search_stays_visible(table: Table) -> None:
    """A search that is active keeps its field, however few rows there are; new items clear it."""
    pages = Pages(table, row, unguarded, size=5)
    pages.show(range(12))
    table.search = "zoe"
    pages.show(range(5))
    assert table.searchable
    pages.show(range(5), are_new=True)
    assert (table.search, table.searchable, len(ids(table))) == ("", False, 5)


@given(st.lists(st.text() | st.integers().map(str) | st.from_regex(r"[A-Z]{1,4}\d+")))
def test_any_texts_can_be_sorted(texts: list[str]) -> None:
    """Every text has a place: sorting loses and adds none, and never fails."""
    assert sorted(sorted(texts, key=sort_key)) == sorted(texts)


@given(st.text(), st.text())
def test_every_text_is_found_by_its_words(before: str, after: str) -> None:
    """A text is found by each of its own words."""
    assert all(matches(f"{before} {after}", word) for word in fold_case(before).split())


def test_folded_options_are_shown_by_their_button() -> None:
    """Folded widgets are hidden at first; the button, or a form, shows them."""
    inner = Table()
    fold = Fold("Options", [inner])
    button, box = fold.children
    assert not fold.is_open
    assert box.layout.display == "none"
    button.is_open = True
    assert box.layout.display is None
    button.is_open = False
    assert box.layout.display == "none"
    fold.unfold()
    assert fold.is_open
    assert box.layout.display is None
