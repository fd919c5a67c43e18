"""Validate rows: duplicates, merged and hidden cells, rows that are not pets, suspicious texts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync._display import quote
from petsync.sheets.grid import Bools, CellKind, Cells, Grid, column_number
from petsync.sheets.headers import ACTION, Headers, fold_header, mapping_hint, own_results
from petsync.sheets.validate import text
from petsync.sheets.validate.columns import Numbers
from petsync.sheets.validate.findings import Note, Notes
from petsync.table.cells import trim

__all__ = [
    "find_copies",
    "list_places",
    "note_non_data",
    "note_repeated",
    "note_suspects",
    "note_worksheet",
]


# Equal rows: with an id they count as one row, without an id each adds a pet.


_Rows = np.ndarray[Any, np.dtype[np.intp]]
_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_MAX_PLACES = 10


def find_copies(
    grid: Grid, known_columns: Mapping[str, int], ids: Numbers, active: Bools, notes: Notes
) -> Bools:
    """Note repeated ids, and return a mask of the rows that repeat an earlier row: all texts in
    petsync's columns are equal.

    `known_columns` has the positions of these columns, `ids` the rows' ids. Rows that are not
    `active` are ignored.
    """
    repeats = np.zeros(len(ids), dtype=bool)
    rows_with_id = np.flatnonzero(active & ~np.asarray(ids.isna()))
    numbers = ids[rows_with_id].to_numpy(dtype=np.int64)
    if (numbers[1:] > numbers[:-1]).all():
        return repeats
    is_repeated = pd.Series(numbers).duplicated(keep=False).to_numpy()
    rows, numbers = rows_with_id[is_repeated], numbers[is_repeated]
    if not len(rows):
        return repeats
    place = grid.places[known_columns["id"]]
    codes = {
        name: _text_codes(grid.columns[at].take(rows).text) for name, at in known_columns.items()
    }
    contents = _combine(list(codes.values()))
    for group in _groups(numbers):
        addresses = {at: grid.address(place, int(grid.rows[at])) for at in rows[group].tolist()}
        number = str(numbers[group[0]])
        if (contents[group] == contents[group[0]]).all():
            _note_copies(number, addresses, notes, repeats)
        else:
            _note_differing(number, addresses, _differing_columns(codes, group), notes)
    return repeats


def note_repeated(
    grid: Grid, known_columns: Mapping[str, int], without_id: Bools, active: Bools, notes: Notes
) -> None:
    """Note rows without an id (`without_id`) that equal another `active` row, unless their action
    says that they add another pet.
    """
    if "name" not in known_columns or not without_id.any():
        return
    rows = _rows_with_same_name(grid.columns[known_columns["name"]], without_id, active)
    if not len(rows):
        return
    compared = [
        grid.columns[known_columns[name]] for name in known_columns if name not in ("id", ACTION)
    ]
    wants_another = np.zeros(len(without_id), dtype=bool)
    if ACTION in known_columns:
        actions = pc.utf8_lower(grid.columns[known_columns[ACTION]].trim())
        wants_another |= np.array(pc.equal(actions, "add-another"))
    for group in _groups(_combine([_text_codes(cells.take(rows).trim()) for cells in compared])):
        at = [each for each in rows[group].tolist() if not wants_another[each]]
        if len(at) > 1:
            _note_group(grid, known_columns, at, without_id, notes)


def _rows_with_same_name(names: Cells, without_id: Bools, active: Bools) -> _Rows:
    """Return the rows whose name occurs more than once, at least once in a row of `without_id`."""
    codes = pc.dictionary_encode(names.trim()).indices.to_numpy(zero_copy_only=False)
    counts = np.bincount(codes[active], minlength=codes.max(initial=0) + 1)
    is_wanted = np.zeros(len(counts), dtype=bool)
    is_wanted[codes[without_id]] = True
    is_wanted &= counts > 1
    return np.flatnonzero(is_wanted[codes] & active & ~names.find_blank())


def _text_codes(text: Any) -> _Numbers:
    """Return a number for each cell of an Arrow array; equal texts have equal numbers."""
    codes: _Numbers = pc.dictionary_encode(text).indices.to_numpy().astype(np.int64)
    return codes


def _combine(columns: Sequence[_Numbers]) -> _Numbers:
    """Return a number for each row; rows that are equal in every column have equal numbers."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for codes in columns:
        pair = number * (codes.max(initial=0) + 1) + codes
        number = np.unique(pair, return_inverse=True)[1]
    return number


def _groups(numbers: _Numbers) -> Iterator[_Rows]:
    """Yield the positions of each repeated number, in the order of the numbers."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    ends = np.append(starts[1:], len(order))
    for n in np.flatnonzero(ends - starts > 1).tolist():
        yield order[starts[n] : ends[n]]


def _note_group(
    grid: Grid,
    known_columns: Mapping[str, int],
    group: Sequence[int],
    without_id: Bools,
    notes: Notes,
) -> None:
    reference = next((at for at in group if not without_id[at]), group[0])
    row = grid.address(grid.places[known_columns["name"]], int(grid.rows[reference]))
    reference_note = "has no id either" if without_id[reference] else "has an id"
    problem = f"The row has the same values as {row}, which {reference_note}."
    repeats = (at for at in group if without_id[at] and at != reference)
    notes.add_all(
        repeats, "name", Note("row-repeated", _name(grid, known_columns, reference), problem)
    )


def _name(grid: Grid, known_columns: Mapping[str, int], at: int) -> str:
    text: str = grid.columns[known_columns["name"]].text[at].as_py()
    return text


def _note_differing(
    number: str, addresses: Mapping[int, str], differing: Sequence[str], notes: Notes
) -> None:
    problem = (
        f"The id {number} is in {len(addresses)} rows with different values "
        f"({', '.join(differing)}): {list_places(addresses.values())}."
    )
    notes.add_all(addresses, "id", Note("duplicate-id", number, problem))


def _note_copies(number: str, addresses: Mapping[int, str], notes: Notes, repeats: Bools) -> None:
    first, *copies = addresses
    problem = f"The row is the same as {addresses[first]} in petsync's columns; it is used once."
    repeats[copies] = True
    notes.add_all(copies, "id", Note("duplicate-row", number, problem))


def _differing_columns(codes: Mapping[str, _Numbers], group: _Rows) -> list[str]:
    names = [name for name, each in codes.items() if (each[group] != each[group[0]]).any()]
    return [name for name in names if name != "id"] or names


def list_places(places: Iterable[str], *, more: int = 0) -> str:
    """Return the first places, and the number of the others; `more` are not in `places`."""
    every = list(places)
    shown, rest = every[:_MAX_PLACES], len(every[_MAX_PLACES:]) + more
    # The place of a cell in a text file or a DataFrame has a comma: `line 2, column 1`.
    mark = ";" if any("," in place for place in shown) else ","
    return f"{mark} ".join([*shown, *([f"and {rest:,} more"] if rest else [])])


# Findings of a whole worksheet: headers similar to petsync's, merged and hidden cells.


_RANGE = re.compile(r"\$?([A-Z]{1,3})\$?([0-9]{1,7}):\$?([A-Z]{1,3})\$?([0-9]{1,7})")
_MAX_RANGES, _MAX_COLUMNS = 8, 200
_WHOLE = r"^#?[0-9]{1,19}(?:\.0)?$"
_MIN_DISTINCT = 0.9
"""The minimum share of distinct numbers in a column of ids, which may have some duplicates."""


def note_worksheet(
    grid: Grid, headers: Headers, notes: Notes, renamed: Container[int] = ()
) -> None:
    """Note similar and missing headers, columns that may have the ids, other worksheets with known
    headers, filters, and merged and hidden cells. `renamed` has the positions of columns whose
    headers get no note, because they already have one.
    """
    for position, name in headers.near.items():
        if position in renamed:
            continue
        text = grid.header[position]
        problem = f"The column '{text}' is not used: no such column is known."
        way = mapping_hint(trim(text), name)
        hint = f"Rename it to {name} if it is that column, or map it {way}."
        if is_there := name in headers.columns:
            problem = f"The column '{text}' is not used: the column {name} is used instead."
            hint = f"To use its values, move them into the column {name}."
        notes.add(
            -1, text, Note("header-near-miss", text, problem, hint, None if is_there else name)
        )
    if "id" not in headers.columns:
        _note_numbers(grid, headers, notes, renamed)
    for tab in grid.elsewhere:
        what = "which also has headers that petsync recognises,"
        if tab in grid.copies:
            what = f"a copy of it that differs from {grid.copies[tab]} on,"
        problem = (
            f"Only the worksheet '{grid.tab}' is read. '{tab}', {what} is not read: edits in it "
            "have no effect."
        )
        hint = f"To read it instead, specify it: --sheet {quote(tab)}, in Python tab={tab!r}."
        notes.add(-1, "", Note("header-elsewhere", tab, problem, hint))
    _note_headless(grid, notes)
    # Merged ranges do not overlap, so together they cover each cell at most once.
    remaining_cells = len(grid.rows) * max(1, len(headers.columns))
    for text in grid.merged:
        remaining_cells -= _note_merged(grid, headers, text, notes)
        if remaining_cells < 0:
            break
    _note_hidden(grid, notes)
    _note_hidden_columns(grid, headers, notes)


def _note_numbers(grid: Grid, headers: Headers, notes: Notes, renamed: Container[int]) -> None:
    """Note the unused columns that may have the ids that the sheet lacks."""
    # Among result columns, `row` has row numbers of the file; `assigned_id` has ids.
    written = {name for name in own_results(headers.others) if not name.endswith("assigned_id")}
    others = ((n, name) for name, n in headers.others.items())
    columns = [
        (name, place)
        for n, name in itertools.islice(others, _MAX_COLUMNS)
        if n not in headers.near and n not in renamed
        if name not in written and _may_be_ids(grid.columns[n])
        for place in [grid.places[n]]
    ]
    for name, place in columns[:_MAX_RANGES]:
        where = f"column {place} ('{name}')" if grid.header_row else f"column '{name}'"
        problem = f"No column has a known id header, and the unused {where} contains whole numbers."
        way = mapping_hint(name, "id")
        hint = f"Rename '{name}' to id if these are the pets' ids, or map it {way}."
        notes.add(-1, name, Note("header-numbers", name, problem, hint, "id"))


def _may_be_ids(cells: Cells) -> bool:
    texts = cells.trim().filter(pc.invert(pa.array(cells.find_blank())))
    if not len(texts) or not pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py():
        return False
    return bool(pc.count_distinct(texts).as_py() >= _MIN_DISTINCT * len(texts))


def _note_headless(grid: Grid, notes: Notes) -> None:
    for position, header in enumerate(grid.header):
        if header.strip():
            continue
        filled = np.flatnonzero(~grid.columns[position].find_blank())
        if len(filled):
            place, row = grid.places[position], int(grid.rows[filled[0]])
            first = f"row {row}" if grid.tab else grid.address("", row)
            where = place if grid.header_row else repr(place)
            problem = f"Column {where} has values, the first in {first}, and no header."
            notes.add(-1, place, Note("header-missing", "", problem))


def _note_merged(grid: Grid, headers: Headers, text: str, notes: Notes) -> int:
    """Note each cell in petsync's columns that the range covers, except the one with the value.
    Return the number of covered cells.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        return 0
    count = 0
    top, bottom = int(match[2]), int(match[4])
    start, stop = np.searchsorted(grid.rows, [top, bottom + 1]).tolist()
    columns = range(column_number(match[1]), column_number(match[3]) + 1)
    problem = f"The cell is part of merged cells ({text}); only {match[1]}{top} has a value."
    for name, position in headers.columns.items():
        place = grid.places[position]
        if start < stop and column_number(place) in columns:
            other_rows = (
                at for at in range(start, stop) if (grid.rows[at], place) != (top, match[1])
            )
            notes.add_all(other_rows, name, Note("merged-cells", text, problem))
            count += stop - start
    return count


def _note_hidden(grid: Grid, notes: Notes) -> None:
    hidden = sorted(set(grid.hidden) & set(grid.rows.tolist())) if grid.hidden else []
    if hidden:
        count = (
            "1 row is hidden and is used"
            if len(hidden) == 1
            else f"{len(hidden):,} rows are hidden and are used"
        )
        others = "the others"
        notes.add(
            -1, "", Note("hidden-rows", "", f"{count} like {others}: {_format_ranges(hidden)}.")
        )


def _note_hidden_columns(grid: Grid, headers: Headers, notes: Notes) -> None:
    known_columns = {grid.places[position]: name for name, position in headers.columns.items()}
    for place in grid.hidden_columns:
        if place in known_columns:
            problem = (
                f"The column {place} ({known_columns[place]}) is hidden; it is used like the "
                "others."
            )
            notes.add(-1, known_columns[place], Note("hidden-columns", "", problem))
    names = {position: name for name, position in {**headers.others, **headers.columns}.items()}
    for place in grid.filtered:
        if place in grid.places:
            name = names.get(grid.places.index(place), place)
            problem = (
                f"The column {place} ({name}) has a filter; the rows that it hides are used too."
            )
            notes.add(-1, name, Note("filter-active", "", problem))


def _format_ranges(numbers: Sequence[int]) -> str:
    """Return the numbers, with consecutive ones as `12-40`."""
    spans = list(_spans(numbers))
    shown = [
        str(first) if first == last else f"{first}-{last}" for first, last in spans[:_MAX_RANGES]
    ]
    return ", ".join(shown) + (", ..." if len(spans) > _MAX_RANGES else "")


def _spans(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last number of each sequence of consecutive numbers."""
    edges = np.flatnonzero(np.diff(numbers) > 1)
    starts, ends = np.concatenate(([0], edges + 1)), np.concatenate((edges, [len(numbers) - 1]))
    yield from ((int(numbers[a]), int(numbers[b])) for a, b in zip(starts, ends, strict=True))


# Rows that are not pets: a repeated header, and rows of totals.


_TOTALS = (
    "total|totals|grand total|subtotal|sum|count|average|"
    "summe|gesamt|gesamtsumme|anzahl|somme|totale|suma|suma total"
)
_TOTAL = re.compile(rf"(?:{_TOTALS})(?: (?:of )?(?:pets|animals|rows))?[\s:=(]*[0-9.,]*\)?", re.I)
# Some words for totals are left out here: a pet may be called Count.
_NO_NAME = re.compile(r"(?:grand )?totals?\b.*|subtotal|summe|gesamt|gesamtsumme|totale", re.I)
_INITIALS = bytes({ord(char) for word in _TOTALS.split("|") for char in word[0] + word[0].upper()})


def note_non_data(grid: Grid, headers: Headers, notes: Notes) -> list[int]:
    """Note repeated headers and rows of totals, and drop the other notes on these rows, which are
    not pets. Return their positions.
    """
    column = "id" if "id" in headers.columns else next(iter(headers.columns), "")
    notes_by_row = {at: Note("totals-row", text) for at, text in _totals(grid, headers)}
    notes_by_row |= {at: Note("header-repeated", text) for at, text in _headers(grid, headers)}
    notes.forget(notes_by_row)
    for at, note in notes_by_row.items():
        notes.add(at, column, note)
    return [*notes_by_row]


def _headers(grid: Grid, headers: Headers) -> Iterator[tuple[int, str]]:
    """Yield the rows whose filled cells in petsync's columns all repeat their headers, with the
    text in the id column, else in the first of these columns.
    """
    if len(headers.columns) < 2:
        return
    position = headers.columns.get("id", min(headers.columns.values()))
    first_letter = trim(grid.header[position])[:1].encode()
    if not first_letter:
        return
    initials = first_letter[:1].lower() + first_letter[:1].upper()
    for at in grid.columns[position].utf8.rows_starting_with(initials).tolist():
        texts = {n: text for n in headers.columns.values() if (text := trim(_text(grid, n, at)))}
        if len(texts) > 1 and all(
            fold_header(grid.header[n]) == fold_header(texts[n]) for n in texts
        ):
            yield at, texts[position]


def _totals(grid: Grid, headers: Headers) -> Iterator[tuple[int, str]]:
    """Yield the rows with a word for totals instead of an id, and the last row if its name is such
    a word and it has no other value.
    """
    ids, name = headers.columns.get("id"), headers.columns.get("name")
    if ids is not None:
        for at in grid.columns[ids].utf8.rows_starting_with(_INITIALS).tolist():
            if _is_total(_text(grid, ids, at)):
                yield at, _text(grid, ids, at)
    others = [position for position in headers.columns.values() if position != name]
    last = len(grid.rows) - 1
    if name is None or not others or last < 1:
        return
    text = trim(_text(grid, name, last))
    if _NO_NAME.fullmatch(text) and not any(trim(_text(grid, n, last)) for n in others):
        yield last, text


def _is_total(text: str) -> bool:
    return _TOTAL.fullmatch(trim(text)) is not None


def _text(grid: Grid, column: int, at: int) -> str:
    text: str = grid.columns[column].text[at].as_py()
    return text


# Texts that are valid, but are probably mistakes.


_CONVERTED = ("name", "category", "tags")
_UNSEEN = ("id", "name", "status", "category", "category_id", "tags", "action")


def note_suspects(grid: Grid, headers: Headers, notes: Notes) -> None:
    """Note texts that look like errors, like dates or numbers that a program converted, or that
    contain invisible characters.
    """
    is_csv = not grid.tab and grid.header_row > 0
    for name, position in headers.columns.items():
        cells = grid.columns[position]
        for at in text.errors(cells):
            if _is_text(cells, at):
                _note(cells, at, name, notes, "error-text")
        if is_csv and name in _CONVERTED:
            for at in text.find_converted(cells):
                _note(cells, at, name, notes, "looks-converted")
        if name in _UNSEEN:
            for at, characters in text.find_invisible(cells):
                if cells.kinds is not None and cells.kinds[at] == CellKind.DAMAGED:
                    continue
                problem = (
                    f"There is a character that cannot be seen: {text.name_characters(characters)}."
                )
                seen = cells.text[at].as_py().translate(dict.fromkeys(map(ord, characters)))
                _note(cells, at, name, notes, "invisible-characters", problem, seen)


def _is_text(cells: Cells, at: int) -> bool:
    return cells.kinds is None or cells.kinds[at] in (CellKind.TEXT, CellKind.FORMULA)


def _note(
    cells: Cells,
    at: int,
    name: str,
    notes: Notes,
    rule: str,
    problem: str = "",
    meant: str | None = None,
) -> None:
    notes.add(at, name, Note(rule, cells.text[at].as_py(), problem, "", meant))
