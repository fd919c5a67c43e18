"""What a worksheet shows as a whole: headers that are nearly ours, merged and hidden cells."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from petsync.sheets.grid import Cells, Grid
from petsync.sheets.headers import OURS, RESULTS, Headers
from petsync.sheets.judge.notes import Note, Notes
from petsync.sheets.ooxml.markup import column_number

__all__ = ["note_worksheet"]

_RANGE = re.compile(r"\$?([A-Z]{1,3})\$?([0-9]{1,7}):\$?([A-Z]{1,3})\$?([0-9]{1,7})")
_LISTED, _SEARCHED = 8, 200
_WHOLE = r"^#?[0-9]{1,19}(?:\.0)?$"
_ALIKE = 0.9
"""So large a part of the numbers in a column of ids are different, duplicates by mistake apart."""


def note_worksheet(
    grid: Grid, headers: Headers, notes: Notes, renamed: Container[int] = ()
) -> None:
    """Note these problems: on the header, or on the rows that a merged range covers. Of the
    columns that are `renamed` it is known what they are.
    """
    for position, name in headers.near.items():
        if position in renamed:
            continue
        text = grid.header[position]
        problem = f"The column '{text}' is not used: no such column is known."
        hint = f"Rename it to {name} if that is meant, or map it."
        if is_there := name in headers.ours:
            problem = f"The column '{text}' is not used: the column {name} is."
            hint = f"If its values are meant, put them into {name}."
        notes.add(
            -1, text, Note("header-near-miss", text, problem, hint, None if is_there else name)
        )
    if "id" not in headers.ours:
        _note_numbers(grid, headers, notes, renamed)
    for tab in grid.elsewhere:
        problem = f"The worksheet '{tab}' has headers that petsync knows, too, and is not read."
        hint = f"Read it by its name if it is meant: --sheet '{tab}'."
        notes.add(-1, "", Note("header-elsewhere", tab, problem, hint))
    _note_headless(grid, notes)
    # Merged ranges do not overlap: together they cover no more than there is.
    room = len(grid.rows) * max(1, len(headers.ours))
    for text in grid.merged:
        room -= _note_merged(grid, headers, text, notes)
        if room < 0:
            break
    _note_hidden(grid, notes)
    _note_unseen_columns(grid, headers, notes)


def _note_numbers(grid: Grid, headers: Headers, notes: Notes, renamed: Container[int]) -> None:
    """Note the unused columns that may hold the ids that the sheet lacks."""
    others = ((n, name) for name, n in headers.others.items())
    columns = [
        (name, place)
        for n, name in itertools.islice(others, _SEARCHED)
        if n not in headers.near and n not in renamed
        if name.removeprefix(OURS) not in RESULTS and _may_be_ids(grid.columns[n])
        for place in [grid.places[n]]
    ]
    for name, place in columns[:_LISTED]:
        where = f"column {place} ('{name}')" if grid.header_row else f"column '{name}'"
        problem = f"No column is known to hold ids, and the unused {where} holds whole numbers."
        hint = f"Rename '{name}' to id if these are the pets' ids, or map it."
        notes.add(-1, name, Note("header-numbers", name, problem, hint, "id"))


def _may_be_ids(cells: Cells) -> bool:
    texts = cells.trimmed().filter(pc.invert(pa.array(cells.blank())))
    if not len(texts) or not pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py():
        return False
    return bool(pc.count_distinct(texts).as_py() >= _ALIKE * len(texts))


def _note_headless(grid: Grid, notes: Notes) -> None:
    for position, text in enumerate(grid.header):
        if text.strip():
            continue
        said = np.flatnonzero(~grid.columns[position].blank())
        if len(said):
            place, row = grid.places[position], int(grid.rows[said[0]])
            problem = f"Column {place} has values, the first in row {row}, and no header."
            notes.add(-1, place, Note("header-missing", "", problem))


def _note_merged(grid: Grid, headers: Headers, text: str, notes: Notes) -> int:
    """How many cells of the table the range covers, each of which is noted."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return 0
    noted = 0
    top, bottom = int(found[2]), int(found[4])
    start, stop = np.searchsorted(grid.rows, [top, bottom + 1]).tolist()
    covered = range(column_number(found[1]), column_number(found[3]) + 1)
    problem = f"The cell is merged with others ({text}), of which only {found[1]}{top} has a value."
    for name, position in headers.ours.items():
        place = grid.places[position]
        if start < stop and column_number(place) in covered:
            bare = (at for at in range(start, stop) if (grid.rows[at], place) != (top, found[1]))
            notes.add_all(bare, name, Note("merged-cells", text, problem))
            noted += stop - start
    return noted


def _note_hidden(grid: Grid, notes: Notes) -> None:
    hidden = sorted(set(grid.hidden) & set(grid.rows.tolist())) if grid.hidden else []
    if hidden:
        count = (
            "1 row is hidden and counts"
            if len(hidden) == 1
            else f"{len(hidden):,} rows are hidden and count"
        )
        like = "the others"
        notes.add(-1, "", Note("hidden-rows", "", f"{count} like {like}: {_listed(hidden)}."))


def _note_unseen_columns(grid: Grid, headers: Headers, notes: Notes) -> None:
    ours = {grid.places[position]: name for name, position in headers.ours.items()}
    for place in grid.hidden_columns:
        if place in ours:
            problem = (
                f"The column {place} ({ours[place]}) is hidden; its cells count like the others."
            )
            notes.add(-1, ours[place], Note("hidden-columns", "", problem))
    names = {position: name for name, position in {**headers.others, **headers.ours}.items()}
    for place in grid.filtered:
        if place in grid.places:
            name = names.get(grid.places.index(place), place)
            problem = f"The column {place} ({name}) has a filter; the rows that it hides count too."
            notes.add(-1, name, Note("filter-active", "", problem))


def _listed(numbers: Sequence[int]) -> str:
    """The numbers, with runs of them as `12-40`."""
    spans = list(_spans(numbers))
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in spans[:_LISTED]]
    return ", ".join(shown) + (", ..." if len(spans) > _LISTED else "")


def _spans(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last number of each run of consecutive ones."""
    edges = np.flatnonzero(np.diff(numbers) > 1)
    starts, ends = np.concatenate(([0], edges + 1)), np.concatenate((edges, [len(numbers) - 1]))
    yield from ((int(numbers[a]), int(numbers[b])) for a, b in zip(starts, ends, strict=True))
