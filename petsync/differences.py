"""diff: the differences between two sheets, snapshots, folders or plans, without a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Unpack

import msgspec
import numpy as np
import pandas as pd

from petsync._collector import pause_collection
from petsync._display import count, quote, type_name
from petsync._files import is_address, is_file, is_in_parts
from petsync._options import reject_unknown, show_keywords
from petsync.apply.planfile import is_plan_file, load_plan
from petsync.errors import SheetError
from petsync.models import Pet
from petsync.plan.change import Blocked, Snapshot
from petsync.plan.differences import Differences, RepeatedRow, Side, find_differences
from petsync.plan.notes import first_items
from petsync.plan.options import PlanOptions
from petsync.plan.plan import Plan
from petsync.settings import checked_address, checked_encoding
from petsync.sheets.common import OwnLines, leave_out_common_lines
from petsync.sheets.files import TEXT_SUFFIXES
from petsync.sheets.headers import ACTION, own_results
from petsync.sheets.load import load, load_among, load_content
from petsync.sheets.read import as_edited, read_file, read_source, sheet_from_frame
from petsync.sheets.records import frame_of_stream, suggest_collect
from petsync.table.arrow import ArrowTable, rows_from_pets
from petsync.table.cells import parse_id
from petsync.table.columns import CLEARED, COLUMNS, Column
from petsync.table.frame import has_action, lacks_id, texts, unique_texts
from petsync.table.options import ReadKeywords, ReadOptions
from petsync.table.sheet import Sheet

__all__ = ["Comparable", "diff"]


Comparable = Sheet | Snapshot | Plan | pd.DataFrame | ArrowTable | str | Path
"""What can be compared; a path is that of a sheet, an export, a folder or a saved plan. Sheets and
folders may be at an address.
"""
_CHANGE = "change"
_LARGE = 1 << 20
"""The bytes of a CSV file from which the lines that both files have are left out."""


@show_keywords(ReadKeywords)
def diff(
    a: Comparable,
    b: Comparable,
    base: Comparable | None = None,
    *,
    match_on: Column | Iterable[Column] = (),
    **options: Unpack[ReadKeywords],
) -> Differences:
    """Return the differences between two tables of pets; a notebook displays them. Needs no store,
    and changes nothing.

    Each side is a Sheet, a Snapshot, a Plan, a DataFrame, a table with the Arrow PyCapsule
    interface, such as one of polars or pyarrow, or the path of a sheet, of an export (`.json`,
    `.jsonl` and `.parquet` too), of a folder or pattern of such files, or of a saved plan. For an
    address of Parquet, CSV or JSON Lines files, such as s3://bucket/pets, copies of the files are
    compared. With a `base`, the result has the changes of A, the changes of B, and their conflicts.

    Rows are paired by their ids. A row without an id is paired with a row of the same values, else
    with the only row of the same name, or of the same values in the columns `match_on`. Values are
    compared as in a plan, except that a blank cell differs from a filled one; the sheets' own
    columns and actions are compared as texts. Any status is valid. Rows with an error are listed
    but not compared. Columns that one side lacks are named in `notes`.

    A plan is compared by what it would write: two plans by their changes, a plan and another table
    only by the pets that the plan is about.

    `encoding` is for the text files that are not UTF-8. `mapping` maps headers that at least one
    side must have. Raises SheetError or PlanError if a
    side cannot be read or has another type.
    """
    reject_unknown(options, "diff", ReadKeywords)
    columns = (*match_on,) if isinstance(match_on, Iterable) else match_on
    on = PlanOptions(match_on=(match_on,) if isinstance(match_on, str) else columns).match_on
    mapping = dict(options.pop("mapping", None) or {})
    given = ReadOptions.of({**options, "defaults": mapping, "any_status": True})
    if given.encoding:
        given = msgspec.structs.replace(given, encoding=checked_encoding(given.encoding))
    values = [a, b] if base is None else [a, b, base]
    with pause_collection():
        if not any(map(is_address, values)):
            found = _compare(values, values, given, on)
        else:
            # Most files are on this machine.
            from petsync.scale.remote import make_copies

            names = [checked_address(each) if is_address(each) else each for each in values]
            with make_copies(None) as copies:
                found = _compare(
                    names,
                    [copies.copy_sheet(each) if is_address(each) else each for each in names],
                    given,
                    on,
                )
        if found.rows and not all(isinstance(value, str | Path) for value in values):
            # Later, the caller may change a list in a frame.
            found = msgspec.structs.replace(found, rows=[*found.rows])
        return found


def _compare(
    values: Sequence[Comparable],
    copies: Sequence[Comparable],
    options: ReadOptions,
    match_on: Sequence[Column],
) -> Differences:
    """Return the differences between the values. `copies` are the same values, with copies on this
    machine in place of addresses.
    """
    has_base = len(values) > 2
    with ThreadPoolExecutor(len(values)) as pool:
        # Most of the time, Arrow reads, which other threads do not wait for.
        read: list[_Read] | None = None
        if not has_base:
            read = _read_own_lines(copies[0], copies[1], options, pool)
        if read is None:
            read = _with_statuses([*pool.map(partial(_read, options=options), copies)])
    _must_have_headers(options.defaults, read)
    if options.tab and not any(isinstance(each, Sheet) and each.tab for each in read):
        raise SheetError(
            "no side is a workbook, so none has a worksheet",
            hint=f"Leave out the worksheet (--sheet {quote(options.tab)}, "
            f"in Python tab={options.tab!r}).",
        )
    if options.encoding and not any(isinstance(each, Sheet) and _is_text(each) for each in read):
        raise SheetError(
            "no side is a text file, so none has an encoding",
            hint=f"Leave out the encoding (--encoding {quote(options.encoding)}, "
            f"in Python encoding={options.encoding!r}).",
        )
    if not has_base and (equal := _find_equal_files(values, read)) is not None:
        return equal
    are_plans = all(isinstance(each, Plan) for each in read)
    names = _names(values, read)
    sides = [_side(each, name, are_plans) for each, name in zip(read, names, strict=True)]
    sides = [
        replace(side, notes=(*side.notes, *_iter_notes(each, side.name, options)))
        for each, side in zip(read, sides, strict=True)
    ]
    return find_differences(*sides, match_on=match_on)


_Read = Sheet | Plan | Snapshot


def _is_text(sheet: Sheet) -> bool:
    """Return true if the sheet is a CSV file, or files."""
    return not (sheet.tab or sheet.is_table)


def _iter_notes(value: _Read, name: str, options: ReadOptions) -> Iterator[str]:
    """Yield a note if the side is a text file that was not read in the encoding, or a workbook that
    has pets in another worksheet, unless the caller names the worksheet.
    """
    if not isinstance(value, Sheet):
        return
    if options.encoding and _is_text(value) and value.encoding != options.encoding:
        used = value.encoding or "UTF-8"
        yield f"{name} is {used}: it was not read in the encoding {options.encoding}."
    if value.ids_elsewhere and not options.tab:
        tabs = first_items([*map(repr, value.ids_elsewhere)])
        way = '--sheet NAME, in Python tab="NAME"'
        yield f"{name}: only {value.tab!r} was read. Other worksheets with ids: {tabs} ({way})."


def _read(value: object, options: ReadOptions) -> _Read:
    if isinstance(value, Sheet):
        return as_edited(value)
    if isinstance(value, Plan | Snapshot):
        return value
    if isinstance(value, pd.DataFrame):
        return sheet_from_frame(value, defaults=options.defaults, statuses=options.statuses)
    if isinstance(value, str | Path):
        return _read_path(Path(value), options)
    if isinstance(value, ArrowTable):
        return _read(frame_of_stream(value), options)
    hint = suggest_collect(value) or (
        "Pass a path, a DataFrame, an Arrow table, a Sheet, a Snapshot or a Plan (of a store: "
        "store.snapshot())."
    )
    raise SheetError(f"{type_name(value)} cannot be compared", hint=hint)


def _read_own_lines(
    a: object, b: object, options: ReadOptions, pool: ThreadPoolExecutor
) -> list[_Read] | None:
    """Return two large CSV files as sheets without the lines that both have; None for other sides,
    and if a line that is left out might matter.
    """
    paths = [Path(each) for each in (a, b) if isinstance(each, str | Path)]
    if len(paths) < 2 or options.encoding or options.corrections:
        return None
    if not all(each.suffix.casefold() in TEXT_SUFFIXES and _is_large(each) for each in paths):
        return None
    own = leave_out_common_lines(paths, pool)
    if own is None:
        return None
    try:
        sources = [*map(load_content, paths, (each.data for each in own))]
        if any(each.kind != "text" for each in sources):
            return None
        one, two = pool.map(read_source, sources, repeat(options))
    except SheetError:
        # The places in its message are not those of the whole file.
        return None
    named = np.fromiter(one.named_ids | two.named_ids, np.int64)
    if (
        one.blocked
        or two.blocked
        or (one.columns, one.header_row) != (two.columns, two.header_row)
        or one.columns.get("id") != "1"
        or np.isin(named, own[0].left_out).any()
    ):
        return None
    if own[0].data == own[1].data and lacks_id(one.rows).any():
        # Files with the same bytes are equal, however their rows without an id are paired.
        return None
    return [_renumber(sheet, each) for sheet, each in zip((one, two), own, strict=True)]


def _is_large(path: Path) -> bool:
    return is_file(path) and path.stat().st_size >= _LARGE


def _renumber(sheet: Sheet, own: OwnLines) -> Sheet:
    """Return the sheet with the numbers that its rows have in the whole file."""
    index = pd.Index(own.numbers[sheet.others.index.to_numpy() - 1], name=sheet.others.index.name)
    renumbered = sheet.with_rows(sheet.content.rows.set_axis(index))
    rows = [int(own.numbers[each.row - 1]) for each in sheet.problems]
    problems = tuple(
        replace(each, row=row, address=sheet.address(row, each.column))
        for each, row in zip(sheet.problems, rows, strict=True)
    )
    return replace(
        renumbered,
        others=sheet.others.set_axis(index),
        problems=problems,
        agreeing=len(own.left_out),
        digest="",
        validate_again=None,
    )


def _read_path(path: Path, options: ReadOptions) -> _Read:
    if is_plan_file(path):
        return load_plan(path)
    if is_in_parts(path):
        # Most sheets are one file.
        from petsync.scale.sheets import SheetFiles, find_files

        if options.encoding and find_files(path)[1] != "CSV":
            options = msgspec.structs.replace(options, encoding=None)
        return SheetFiles.find(path, options).read_all()
    if not (options.tab or options.encoding):
        return read_file(path, options)
    source = load_among(path, options.encoding) if options.encoding else load(path)
    if source.kind != "workbook":
        options = msgspec.structs.replace(options, tab=None)
    return read_source(source, options)


def _with_statuses(read: Sequence[_Read]) -> list[_Read]:
    """Return the sides, each of which accepts the statuses of all of them."""
    known = {
        finding.value.strip()
        for each in read
        if isinstance(each, Sheet)
        for finding in each.problems
        if finding.rule == "unknown-status"
    }
    for each in read:
        if not isinstance(each, Plan):
            known.update(unique_texts(each.rows, "status") if "status" in each.rows else ())
    return [each.with_statuses(known) if isinstance(each, Sheet) else each for each in read]


def _must_have_headers(mapping: Mapping[str, str], read: Sequence[_Read]) -> None:
    """Raise SheetError if no side has one of the headers."""
    there = {header for each in read if isinstance(each, Sheet) for header in each.mapping}
    lacking = [header for header in mapping if header not in there]
    if lacking:
        raise SheetError(
            f"no side has the header {lacking[0]!r}",
            hint="Correct the mapping, or leave it out.",
        )


def _find_equal_files(values: Sequence[object], read: Sequence[_Read]) -> Differences | None:
    """Return the result for two files with the same bytes; None for any others."""
    a, b = read
    if not (isinstance(a, Sheet) and isinstance(b, Sheet)):
        return None
    if not a.digest or a.digest != b.digest or (a.tab, a.corrections) != (b.tab, b.corrections):
        return None
    repeated = _find_repeated(a)
    rows = len(a.rows) + len(a.blocked)
    sources = [
        value if is_address(value) else each.source
        for value, each in zip(values, (a, b), strict=True)
    ]
    return Differences(
        a=sources[0],
        b=sources[1],
        rows_a=rows + len(repeated),
        rows_b=rows + len(repeated),
        equal=rows,
        repeated_a=repeated,
        repeated_b=repeated,
    )


def _names(values: Sequence[object], read: Sequence[_Read]) -> list[str]:
    """Return a name for each side: the name of its file or, if they are not unique, its path."""
    letters = ("A", "B", "the base")
    paths = [str(each) if isinstance(each, str | Path) else "" for each in values]
    paths = [
        path or (each.source if isinstance(each, Sheet) and not each.is_table else "")
        for path, each in zip(paths, read, strict=True)
    ]
    short = [Path(path).name for path in paths]
    names = short if len({*short}) == len(short) else paths
    return [
        name or (each.source if isinstance(each, Snapshot) else letter)
        for name, each, letter in zip(names, read, letters, strict=False)
    ]


def _side(value: _Read, name: str, are_plans: bool) -> Side:
    if isinstance(value, Plan):
        return _side_of_plan(value, name, are_plans)
    if isinstance(value, Sheet):
        return _side_of_sheet(value, name)
    frame = value.rows
    notes = []
    if value.coverage.failed:
        failed = ", ".join(each.query for each in value.coverage.failed)
        notes.append(f"{name}: the pets of the status {failed} could not be listed.")
    return Side(name=name, frame=frame[[*COLUMNS]], notes=tuple(notes))


def _side_of_sheet(sheet: Sheet, name: str) -> Side:
    rows = sheet.rows
    frame = rows[[column for column in COLUMNS if column in rows]]
    if "category" in frame:
        category = frame["category"]
        frame = frame.assign(category=category.mask(category == CLEARED))
    others = sheet.others.drop(columns=[*own_results(sheet.others.columns)])
    if ACTION in sheet.columns:
        others = others.assign(action=rows[ACTION].mask(has_action(rows, "merge"), ""))
    return Side(
        name=name,
        frame=frame,
        others=others,
        address=partial(sheet.address, column=""),
        blocked=_find_blocked(sheet),
        repeated=_find_repeated(sheet),
        agreeing=sheet.agreeing,
    )


def _find_blocked(sheet: Sheet) -> tuple[Blocked, ...]:
    if not sheet.blocked:
        return ()
    # Most sheets have no errors.
    from petsync.plan.compare import blocked_row

    errors = sheet.errors_by_row
    return tuple(blocked_row(sheet, row, errors[row], {}) for row in sheet.blocked)


def _find_repeated(sheet: Sheet) -> tuple[RepeatedRow, ...]:
    return tuple(
        RepeatedRow(pet_id=parse_id(each.value), where=sheet.address(each.row, ""))
        for each in sheet.problems
        if each.rule == "duplicate-row"
    )


def _side_of_plan(plan: Plan, name: str, are_plans: bool) -> Side:
    """Return the pets as the plan would leave them. If all sides are plans, a delete is a row, too,
    and the kind of the change is a column.
    """
    changes = [each for each in plan.changes if are_plans or each.after is not None]
    pets = [each.after or each.before or Pet() for each in changes]
    frame = rows_from_pets(pets)[[*COLUMNS]]
    kinds = pd.DataFrame({_CHANGE: texts([each.kind for each in changes])}, index=frame.index)
    notes = []
    if plan.conflicts:
        notes.append(f"{name}: {count(len(plan.conflicts), 'conflict')} of the plan: left out.")
    ids = frozenset(each.pet_id for each in plan.changes if each.pet_id is not None)
    return Side(
        name=name,
        frame=frame,
        others=kinds if are_plans else pd.DataFrame(index=frame.index),
        address=lambda at: changes[at].source,
        blocked=plan.blocked,
        scope=None if are_plans else ids,
        notes=tuple(notes),
    )
