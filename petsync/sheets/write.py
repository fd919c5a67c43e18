"""Write a table: a workbook or a CSV file with its base, or a JSON or Parquet file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from petsync._files import check_name, write_atomically
from petsync.errors import SheetError
from petsync.plan.change import Snapshot
from petsync.protocol.json import encode_pet, encode_pets
from petsync.sheets.base import base_notice, choose_base
from petsync.sheets.csv import escape_formula
from petsync.sheets.results import backup_before_export
from petsync.sheets.sidecar import write_with_sidecar
from petsync.sheets.xlsx.contents import OUT, Contents, cell_texts
from petsync.table.base import Base
from petsync.table.columns import CLEAR, CLEARED, COLUMNS
from petsync.table.frame import EXTRA, pets_from_frame
from petsync.table.options import STATUSES
from petsync.table.sheet import Sheet, rows_of

__all__ = ["csv_bytes", "parquet_bytes", "write_sheet"]


# A table as a Parquet file: exact ids, lists of URLs, tags with id and name.


_TAG = pa.struct([("id", pa.int64()), ("name", pa.string())])
_TYPES = {
    "id": pa.int64(),
    "category_id": pa.int64(),
    "tags": pa.list_(_TAG),
    "photo_urls": pa.list_(pa.string()),
}


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    """Return a Parquet file with the table's canonical columns; `extra` is JSON text."""
    columns: dict[str, Any] = {
        name: pa.array(_column_values(frame[name]), _TYPES.get(name, pa.large_string()))
        for name in COLUMNS
        if name in frame
    }
    if EXTRA in frame:
        extra = [value and msgspec.json.encode(value).decode() for value in frame[EXTRA]]
        columns[EXTRA] = pa.array(extra, pa.large_string())
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue()


def _column_values(column: pd.Series[Any]) -> list[Any]:
    if column.name == "tags":
        return [
            [{"id": tag.id, "name": tag.name} for tag in tags] if isinstance(tags, list) else None
            for tags in column
        ]
    missing = column.isna().tolist()
    values = column.tolist()
    return [
        None if is_missing else value for value, is_missing in zip(values, missing, strict=True)
    ]


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
    """Write a table of the canonical columns, or an object with such a `frame`, to `path`. Return
    the path of a backup of the replaced file; None if nothing can be lost.

    The suffix selects the format: `.xlsx`, `.csv`, `.tsv`, `.json` (the list of pets in the
    service's format), `.jsonl` (the same, one pet per line) or `.parquet`. Sheets have all
    canonical columns and `action`. A missing or empty value is a blank cell; in a Sheet, "" and []
    empty a field, and are written as the `clear` marker. The drop-down of a workbook offers the
    `statuses` and those in the table. The file is written completely or not at all.

    A workbook, CSV or TSV carries its base, with which a plan distinguishes the sheet's changes
    from the store's: a Snapshot is its own base, a Sheet keeps its base, and `base` specifies
    another base, or no base if it is False. The base of a CSV is in a file beside it,
    `catalogue.csv.petsync-base`.

    An existing file is replaced if it is an export that nobody edited. If it was edited since its
    export, is not an export or is open in Excel or LibreOffice, it is kept and SheetError is
    raised, unless `force` is true. Raises SheetError if the file cannot be written.
    """
    path = Path(path)
    try:
        check_name(path)
    except OSError as error:
        raise SheetError(
            f"{str(path)!r} cannot be written: {error.strerror}", hint="Give it another name."
        ) from None
    chosen_base = choose_base(data, base)
    if chosen_base is not None:
        chosen_base = replace(chosen_base, tab=tab if path.suffix.casefold() == ".xlsx" else "")

    def workbook() -> bytes:
        # openpyxl is loaded only for a workbook.
        from petsync.sheets.xlsx.write import workbook_bytes

        contents = Contents(
            columns=cell_texts(_frame(data), marker=clear, empty=_empty_text(data, clear)),
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
        ".csv": lambda: _csv_file(data, clear, ","),
        ".tsv": lambda: _csv_file(data, clear, "\t"),
        ".json": lambda: encode_pets(pets_from_frame(_values(data))),
        ".jsonl": lambda: b"".join(encode_pet(p) + b"\n" for p in pets_from_frame(_values(data))),
        ".parquet": lambda: parquet_bytes(_values(data)),
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
            "surrogate pair, which no file can hold",
            hint="Correct that text.",
        ) from None
    return backup


def csv_bytes(rows: list[list[str]], delimiter: str = ",") -> bytes:
    """Return the rows as UTF-8 CSV (RFC 4180), with the byte order mark by which Excel detects
    UTF-8.

    Raises SheetError if a cell exceeds the limit for reading.
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


def _frame(data: Any) -> pd.DataFrame:
    if isinstance(data, Sheet):
        return data.rows
    if isinstance(data, pd.DataFrame):
        return rows_of(data)
    frame = getattr(data, "frame", None)
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"expected a DataFrame, a Snapshot or a Sheet, not {type(data)}")
    return frame


def _values(data: Any) -> pd.DataFrame:
    """Return the table without `clear` markers, for files that hold values instead of cells."""
    frame = _frame(data)
    if "category" not in frame or not (is_cleared := frame["category"] == CLEARED).any():
        return frame
    return frame.assign(category=frame["category"].mask(is_cleared, ""))


def _base_lines(base: Base | None) -> list[str]:
    return [] if base is None else [base_notice(base), *base.to_lines()]


def _csv_file(data: Any, clear: str, delimiter: str) -> bytes:
    columns = cell_texts(
        _frame(data), marker=clear, empty=_empty_text(data, clear), separator=" | "
    )
    escaped = [
        column if name in _ID_COLUMNS else list(map(escape_formula, column))
        for name, column in zip(OUT, columns, strict=True)
    ]
    rows = [list(row) for row in zip(*escaped, strict=True)]
    return csv_bytes([list(OUT), *rows], delimiter)


def _empty_text(data: Any, clear: str) -> str:
    return clear if isinstance(data, Sheet) else ""
