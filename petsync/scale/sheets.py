"""Sheets of several Parquet files, split into parts by the id of each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as types

from petsync.errors import SheetError
from petsync.scale.parts import PartWriter
from petsync.scale.reduce import KEY, ROW
from petsync.sheets.files import PARQUET
from petsync.sheets.headers import Mapper, check_mapping
from petsync.sheets.read import sheet_from_frame
from petsync.table.options import ReadOptions
from petsync.table.sheet import Sheet

__all__ = ["SplitSheet", "find_files", "split_sheet"]

_BATCH_ROWS = 1 << 16
_TYPES = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int64Dtype()}


def find_files(path: str | Path) -> list[Path]:
    """Return the Parquet files of a sheet, by name. Raises SheetError if there are none."""
    given = Path(path)
    if given.is_dir():
        found = sorted(each for each in given.iterdir() if each.suffix.casefold() == PARQUET)
    elif given.exists():
        found = [given]
    else:
        found = sorted(given.parent.glob(given.name))
    if not found:
        raise SheetError(
            f"{path} has no Parquet file (*{PARQUET})",
            hint="Name a folder with Parquet files, a file, or a pattern such as 'pets/*.parquet'.",
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSheet:
    """A sheet whose rows are in temporary files, by the hash of their ids."""

    source: str
    """The path or pattern of the files."""
    columns: Mapping[str, str]
    """The header of each canonical column that the sheet has."""
    parts: Sequence[Path]
    """The temporary file of each part, with KEY and ROW."""
    unnumbered: pa.Table
    """The rows without an id that can be read."""
    neighbours: frozenset[int]
    """The nearest ids above and below these rows."""
    rows: int
    """The number of all rows."""

    def read(self, rows: pa.Table, options: ReadOptions, statuses: frozenset[str]) -> Sheet:
        """Return the sheet of these rows only. `statuses` are those of the store."""
        rows = rows.sort_by(ROW)
        frame = rows.drop_columns([ROW, KEY]).to_pandas(types_mapper=_TYPES.get)
        sheet = sheet_from_frame(
            frame,
            mapping=options.mapping,
            defaults=options.defaults,
            statuses=options.statuses,
            known_statuses=[*options.known_statuses, *statuses],
            numbers=rows[ROW].to_numpy(),
        )
        return replace(sheet, source=self.source, agreeing=self.rows - len(rows))


def split_sheet(path: str | Path, options: ReadOptions, folder: Path, parts: int) -> SplitSheet:
    """Split the rows of Parquet files into temporary files in a new `folder`.

    The rows are numbered from 1 on, over all files in the order of their names. Raises SheetError
    if a file cannot be read, if the files have different columns, or if no column is a canonical
    one.
    """
    files = find_files(path)
    headers = _read_headers(files)
    names = [field.name for field in headers]
    mapper = Mapper.of(str(path), {**options.defaults, **options.mapping})
    check_mapping(str(path), options.mapping, names)
    if not mapper.score(names):
        raise mapper.unusable_error([names])
    columns = {column: names[at] for column, at in mapper.match(names, names).columns.items()}
    if "id" not in columns:
        raise SheetError(
            f"{path} has no column of ids",
            hint="A sheet of several files needs an id in the rows of the store's pets. Read it as "
            "one table, for example with pandas.read_parquet, and plan that.",
        )
    schema = headers.append(pa.field(ROW, pa.int64())).append(pa.field(KEY, pa.int64()))
    lacking = [schema.empty_table()]
    neighbours = _Neighbours()
    total = 0
    with PartWriter(folder, parts, schema, KEY) as writer:
        for batch in _iter_batches(files):
            keys = _read_keys(batch[columns["id"]])
            numbers = pa.array(np.arange(total + 1, total + len(batch) + 1))
            table = batch.append_column(ROW, numbers).append_column(KEY, keys)
            neighbours.add(keys)
            writer.write(table.cast(schema))
            if keys.null_count:
                lacking.append(table.filter(keys.is_null()).cast(schema))
            total += len(batch)
    return SplitSheet(
        source=str(path),
        columns=columns,
        parts=writer.files,
        unnumbered=pa.concat_tables(lacking),
        neighbours=frozenset(neighbours.ids),
        rows=total,
    )


def _read_headers(files: Sequence[Path]) -> pa.Schema:
    """Return the columns of the files, with the types of texts and lists that hold any size."""
    schemas = [_open(path).schema_arrow.remove_metadata() for path in files]
    for path, schema in zip(files, schemas, strict=True):
        if schema.names != schemas[0].names:
            raise SheetError(
                f"{path} has the columns {', '.join(schema.names)}, and {files[0]} has "
                f"{', '.join(schemas[0].names)}",
                hint="All files of a sheet need the same columns, in the same order.",
            )
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise SheetError(
            f"the files of {files[0].parent} have different types in the same column: {error}",
            hint="Write all files with the same types.",
        ) from None


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise SheetError(
            f"{path} cannot be read: {str(error).splitlines()[0]}", hint="Is it a Parquet file?"
        ) from None


def _iter_batches(files: Sequence[Path]) -> Iterator[pa.Table]:
    for path in files:
        for batch in _open(path).iter_batches(_BATCH_ROWS):
            yield pa.Table.from_batches([batch])


def _read_keys(cells: pa.ChunkedArray) -> pa.Array:
    """Return the ids as int64, null for cells that are not an integer."""
    column = cells.combine_chunks()
    if types.is_string(column.type) or types.is_large_string(column.type):
        is_number = pc.match_substring_regex(column, r"^-?[0-9]{1,18}$")
        return pc.if_else(is_number, column, pa.scalar(None, column.type)).cast(pa.int64())
    if types.is_integer(column.type) or types.is_floating(column.type):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            pass
    return pa.nulls(len(column), pa.int64())


class _Neighbours:
    """Collects the nearest ids above and below the rows without an id."""

    def __init__(self) -> None:
        self.ids: set[int] = set()
        self._last: int | None = None
        self._is_open = False

    def add(self, keys: pa.Array) -> None:
        """Take the ids of the next rows."""
        is_valid = np.array(keys.is_valid())
        places = np.flatnonzero(is_valid)
        values = keys.drop_null().to_numpy()
        if len(places) and self._is_open:
            self.ids.add(int(values[0]))
            self._is_open = False
        lacking = np.flatnonzero(~is_valid)
        if len(lacking):
            after = np.searchsorted(places, lacking)
            self.ids.update(values[after[after > 0] - 1].tolist())
            self.ids.update(values[after[after < len(places)]].tolist())
            if (after == 0).any() and self._last is not None:
                self.ids.add(self._last)
            self._is_open = self._is_open or bool((after == len(places)).any())
        if len(values):
            self._last = int(values[-1])
