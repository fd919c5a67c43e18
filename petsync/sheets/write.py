"""Write a table: a workbook or a CSV file with its base, or a JSON or Parquet file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from petsync._display import type_name
from petsync._files import check_name, write_atomically
from petsync.errors import SheetError
from petsync.plan.change import Snapshot
from petsync.plan.fields import find_filled_columns
from petsync.plan.match import pets_of
from petsync.protocol.json import encode_pet
from petsync.sheets.base import base_notice, choose_base
from petsync.sheets.csv import escape_formula
from petsync.sheets.files import must_not_be_address
from petsync.sheets.records import (
    check_values,
    frame_of_stream,
    with_index_columns,
    with_tag_ids,
)
from petsync.sheets.results import as_path, backup_before_export
from petsync.sheets.sidecar import write_with_sidecar
from petsync.sheets.xlsx.contents import (
    OUT,
    Contents,
    cell_columns,
    cell_texts,
    drop_clear_ids,
    replace_texts,
)
from petsync.table.arrow import (
    SCHEMA,
    TAG_IDS,
    ArrowTable,
    PetTable,
    rows_from_table,
    table_from_frame,
)
from petsync.table.base import Base, base_of_frame
from petsync.table.cells import CellError, parse_photo_urls, parse_tags
from petsync.table.columns import CLEAR, CLEARED, COLUMNS, LISTS
from petsync.table.frame import EXTRA, pets_from_frame, plain_values
from petsync.table.lists import as_items, as_lists, lists_of
from petsync.table.options import STATUSES
from petsync.table.sheet import Sheet, rows_of

__all__ = ["csv_bytes", "parquet_bytes", "write_sheet"]


# A table as a Parquet file: ids are exact; photo URLs, tag names and tag ids are lists.


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a Parquet file with the columns of the table. The column `extra`, JSON text, is left
    out if it has no values.
    """
    if table[EXTRA].null_count == len(table):
        table = table.drop_columns(EXTRA)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


# write_sheet: a table as a workbook, a CSV, JSON or Parquet file, written completely or not at all.


_ID_COLUMNS = ("id", "category_id")
_MAX_CELL_LENGTH = 131_072


def write_sheet(
    data: Any,
    path: str | Path,
    *,
    tab: str = "Pets",
    clear: str = CLEAR,
    base: Base | Snapshot | Literal[False] | None = None,
    statuses: Sequence[str] = STATUSES,
    force: bool = False,
) -> Path | None:
    """Write a DataFrame or an Arrow table with the canonical columns, or an object with such a
    `frame`, to `path`. Return the path of a backup of the replaced file; None if no backup was
    needed.

    The suffix selects the format: `.xlsx`, `.csv`, `.tsv`, `.json` (the list of pets in the
    service's format), `.jsonl` (the same, one pet per line) or `.parquet`. Sheets have all
    canonical columns and `action`. A missing value is a blank cell. An empty category, and an empty
    list of tags or photos, are written as the `clear` marker, which empties the field; in a
    Snapshot, and where the base of the data has no value either, they are blank cells. The column
    `tag_ids`, which a Parquet export has, has the ids of the tags, and an index that is named like
    a column is this column. In a workbook, the drop-down for the
    status offers the `statuses` and those in the table. The file is written completely or not at
    all.

    A workbook, CSV or TSV file may have a base, with which a plan distinguishes the sheet's changes
    from the store's. A Snapshot is itself the base, a Sheet keeps its base; `base` is another base,
    or False for none. The base of a CSV or TSV file is in a file beside it:
    `catalogue.csv.petsync-base`.

    An existing file is replaced if it is an export that nobody edited. If it was edited since its
    export, is not an export or is open in Excel or LibreOffice, SheetError is raised, unless
    `force` is true. Raises SheetError if the file cannot be written, or if `data`, a value in it
    or `base` has another type.
    """
    file = as_path(path)
    must_not_be_address(path)
    path = file
    try:
        check_name(path)
    except OSError as error:
        raise SheetError(
            f"{str(path)!r} cannot be written: {error.strerror}", hint="Give it another name."
        ) from None
    data = _as_table(data)
    chosen_base = choose_base(data, base)
    if isinstance(data, Snapshot) and data.pets.is_edited:
        data = with_tag_ids(with_index_columns(data.frame))
    known_base = chosen_base or (base_of_frame(data) if isinstance(data, pd.DataFrame) else None)
    if chosen_base is not None:
        chosen_base = replace(chosen_base, tab=tab if path.suffix.casefold() == ".xlsx" else "")

    pets = data.pets if isinstance(data, Snapshot) else data
    is_own_base = chosen_base is not None and chosen_base.pets is pets

    def workbook() -> bytes:
        # openpyxl is loaded only for a workbook.
        from petsync.sheets.xlsx.write import workbook_bytes

        contents = Contents(
            columns=_cell_texts(data, clear, known_base, is_own_base=is_own_base),
            tab=tab,
            file=path.name,
            statuses=statuses,
            clear=clear,
            base=chosen_base,
            exact=base is not False,
        )
        return workbook_bytes(contents)

    writers: dict[str, Callable[[], bytes]] = {
        ".xlsx": workbook,
        ".csv": lambda: _csv_file(data, clear, known_base, ",", is_own_base=is_own_base),
        ".tsv": lambda: _csv_file(data, clear, known_base, "\t", is_own_base=is_own_base),
        ".json": lambda: b"[" + b",".join(_json_rows(data)) + b"]",
        ".jsonl": lambda: b"".join(row + b"\n" for row in _json_rows(data)),
        ".parquet": lambda: parquet_bytes(_parquet_table(data)),
    }
    writer = writers.get(path.suffix.casefold())
    if writer is None:
        raise SheetError(
            f"{path}: {path.suffix or 'a file without a suffix'} is not a kind of file that "
            "petsync writes",
            hint=f"petsync writes {', '.join(writers)}.",
        )
    try:
        content = writer()
        backup = backup_before_export(path, content, force=force)
        if path.suffix.casefold() in (".csv", ".tsv"):
            write_with_sidecar(path, content, _base_lines(chosen_base) or None)
        else:
            write_atomically(path, content, error=SheetError)
    except UnicodeEncodeError as error:
        raise SheetError(
            f"{path}: a text has the character {error.object[error.start]!r}, half of a "
            "surrogate pair, which no file can contain",
            hint="Correct that text.",
        ) from None
    return backup


def _as_table(data: Any) -> Any:
    """Return the Sheet, the Snapshot or the DataFrame to write. Raises SheetError if it is none, or
    if a value has no place in a file.
    """
    if isinstance(data, Snapshot | PetTable):
        # Its `frame` is large, and made when it is first used.
        return data
    if isinstance(data, ArrowTable) and not isinstance(data, pd.DataFrame):
        data = frame_of_stream(data)
    if not isinstance(getattr(data, "frame", data), pd.DataFrame):
        raise SheetError(
            f"{type_name(data)} is not a table",
            hint="Pass a DataFrame, an Arrow table, a Snapshot or a Sheet. For a list of pets: "
            "ps.frame_from_pets(…).",
        )
    if not isinstance(data, pd.DataFrame):
        return data
    check_values("the DataFrame", rows_of(data))
    return with_tag_ids(with_index_columns(data))


def csv_bytes(rows: list[list[str]], delimiter: str = ",") -> bytes:
    """Return the rows as CSV (RFC 4180) in UTF-8, with the byte order mark by which Excel detects
    UTF-8.

    Raises SheetError if a cell is too long to be read again.
    """
    for number, row in enumerate(rows, 1):
        if sum(map(len, row)) > _MAX_CELL_LENGTH and max(map(len, row)) > _MAX_CELL_LENGTH:
            raise SheetError(
                f"row {number} ({row[0]}) would have a cell of more than {_MAX_CELL_LENGTH:,} "
                "characters, and no CSV with such a cell can be read",
                hint="Write .json, .jsonl or .parquet, or shorten the text.",
            )
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    return stream.getvalue().encode("utf-8-sig")


def _json_rows(data: Any) -> list[bytes]:
    """Return the rows as JSON objects, without the lists that are missing."""
    if (pets := _arrow_table(data)) is not None:
        return list(map(encode_pet, pets_from_frame(rows_from_table(pets))))
    table = _value_table(_values(data))
    rows = list(map(encode_pet, pets_from_frame(rows_from_table(table))))
    for column, key in (("tags", "tags"), ("photo_urls", "photoUrls")):
        for row in np.flatnonzero(table[column].is_null()).tolist():
            fields = msgspec.json.decode(rows[row])
            fields.pop(key, None)
            rows[row] = msgspec.json.encode(fields)
    return rows


def _value_table(frame: pd.DataFrame) -> pa.Table:
    """Return the Arrow table of the rows, for files with values instead of cells."""
    return table_from_frame(
        frame.assign(
            **{
                name: lists_of([_parse(name, row, each) for row, each in enumerate(frame[name])])
                for name in LISTS
                if name in frame and any(isinstance(each, str) for each in frame[name])
            }
        )
    )


def _parse(column: str, row: int, value: Any) -> Any:
    """Return the items of a text, as a cell has them; any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        items = parse_tags(value) if column == "tags" else parse_photo_urls(value)
    except CellError as error:
        raise SheetError(
            f"row {row} of the DataFrame has {value[:40]!r} in {column}: {error}",
            hint="Make it a list.",
        ) from None
    return [*items] or None


def _frame(data: Any) -> pd.DataFrame:
    if isinstance(data, Sheet):
        return rows_of(as_lists(data.frame)) if data.content.is_edited else data.rows
    if isinstance(data, pd.DataFrame):
        return rows_of(data)
    return cast("pd.DataFrame", data.frame)


def _cell_texts(
    data: Any, clear: str, base: Base | None, *, is_own_base: bool
) -> Sequence[Sequence[str]]:
    table = _cell_table(data, is_own_base=is_own_base)
    if table is None:
        return cell_texts(_cell_frame(data, base), marker=clear, empty=clear)
    return [column.to_pylist() for column in cell_columns(table, marker=clear)]


def _cell_frame(data: Any, base: Base | None) -> pd.DataFrame:
    """Return the table for cells. In a Sheet, each empty value empties its field. In other data, an
    empty category, tags or photos do, unless the pet of the base has no value either: then nobody
    edited the cell. All other empty values are missing.
    """
    frame = _frame(data)
    if isinstance(data, Sheet):
        return frame
    values = {name: plain_values(frame[name].array) for name in OUT if name in frame}
    empty = {name: [n for n, each in enumerate(c) if _is_empty(each)] for name, c in values.items()}
    if not any(empty.values()):
        return frame
    missing = [None] * len(frame)
    ids = values.get("id", missing)
    wanted = {n for rows in empty.values() for n in rows if isinstance(ids[n], int)}
    pets = {} if base is None else {p.id: p for p in pets_of((ids[n] for n in wanted), base.rows)}
    numbers = values.get("category_id", missing)
    for name, rows in empty.items():
        for row in rows:
            pet = pets.get(ids[row])
            is_edited = pet is None or name in find_filled_columns(pet)
            # An empty name beside an id is a category without a name.
            is_cleared = name in LISTS or (name == "category" and numbers[row] is None)
            if not (is_edited and is_cleared):
                values[name][row] = None
    changed = {name: pd.Series(values[name], frame.index, object) for name in values if empty[name]}
    return frame.assign(**changed)


def _is_empty(value: Any) -> bool:
    return value == "" if isinstance(value, str) else as_items(value) == []


def _values(data: Any) -> pd.DataFrame:
    """Return the table with "" for a cleared category, for files with values instead of cells."""
    frame = _frame(data)
    if "category" not in frame or not (is_cleared := frame["category"] == CLEARED).any():
        return frame
    return frame.assign(category=frame["category"].mask(is_cleared, ""))


def _arrow_table(data: Any) -> pa.Table | None:
    """Return the Arrow table of pets that come from a store; None for other data."""
    pets = data.pets if isinstance(data, Snapshot) else data
    return pets.table if isinstance(pets, PetTable) else None


def _cell_table(data: Any, *, is_own_base: bool) -> pa.Table | None:
    """Return the Arrow table for cells. If the pets are their own base, which has the ids of their
    tags, the cells lack the ids of tags that their names identify.
    """
    table = _arrow_table(data)
    return table if table is None or not is_own_base else drop_clear_ids(table)


def _parquet_table(data: Any) -> pa.Table:
    table = _arrow_table(data)
    if table is not None:
        return table
    frame = _values(data)
    present = {*frame.columns, EXTRA} - {TAG_IDS} | ({TAG_IDS} if "tags" in frame else set())
    return _value_table(frame).select([name for name in SCHEMA.names if name in present])


def _base_lines(base: Base | None) -> list[str]:
    return [] if base is None else [base_notice(base), *base.to_lines()]


def _csv_file(
    data: Any, clear: str, base: Base | None, delimiter: str, *, is_own_base: bool
) -> bytes:
    table = _cell_table(data, is_own_base=is_own_base)
    if table is not None and (content := _csv_of_table(table, clear, delimiter)) is not None:
        return content
    columns = cell_texts(_cell_frame(data, base), marker=clear, empty=clear, separator=" | ")
    escaped = [
        column if name in _ID_COLUMNS else list(map(escape_formula, column))
        for name, column in zip(OUT, columns, strict=True)
    ]
    rows = [list(row) for row in zip(*escaped, strict=True)]
    return csv_bytes([list(OUT), *rows], delimiter)


def _csv_of_table(table: pa.Table, clear: str, delimiter: str) -> bytes | None:
    """Return the same bytes as `csv_bytes` for the table's cells; None if a cell may be longer than
    the limit.
    """
    *columns, _ = cell_columns(table, marker=clear, separator=" | ")
    if any((pc.max(pc.binary_length(each)).as_py() or 0) > _MAX_CELL_LENGTH for each in columns):
        return None
    fields = [
        column if name in _ID_COLUMNS else _fields_of(column, delimiter)
        for name, column in zip(COLUMNS, columns, strict=True)
    ]
    # The cells of the last column, `action`, are blank.
    end, between = pa.scalar("\r\n", pa.large_string()), pa.scalar(delimiter, pa.large_string())
    lines = pc.binary_join_element_wise(*fields, end, between)
    return csv_bytes([list(OUT)], delimiter) + _text_of(lines)


def _fields_of(texts: pa.LargeStringArray, delimiter: str) -> pa.LargeStringArray:
    """Return the texts as fields of a CSV file: escaped if a program could read a formula in them,
    and quoted if necessary.
    """
    is_plain = pc.match_substring_regex(texts, r"^[A-Za-z0-9]")
    is_error = pc.or_(pc.starts_with(texts, "Err:"), pc.match_substring(texts, "\0"))
    rows = np.flatnonzero(np.array(pc.or_(pc.invert(is_plain), is_error), dtype=bool))
    if len(rows):
        texts = replace_texts(texts, rows, [*map(escape_formula, texts.take(rows).to_pylist())])
    must_be_quoted = pc.match_substring_regex(texts, rf'[{delimiter}"\r\n]')
    if not pc.any(must_be_quoted).as_py():
        return texts
    quote, nothing = pa.scalar('"', pa.large_string()), pa.scalar("", pa.large_string())
    doubled = pc.replace_substring(texts, '"', '""')
    quoted = pc.binary_join_element_wise(quote, doubled, quote, nothing)
    return pc.if_else(must_be_quoted, quoted, texts)


def _text_of(texts: pa.LargeStringArray) -> memoryview:
    """Return all texts, one after the other, as UTF-8."""
    ends = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(texts.buffers()[2] or b"")[ends[0] : ends[-1]]
