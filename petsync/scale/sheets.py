"""Sheets of several Parquet files, split into parts by the id of each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as types

from petsync.errors import SheetError
from petsync.scale.parts import PartWriter
from petsync.scale.reduce import KEY, ORDER, ROW
from petsync.sheets.files import PARQUET
from petsync.sheets.headers import ACTION, Mapper, check_mapping
from petsync.sheets.read import sheet_from_frame
from petsync.table.options import ReadOptions
from petsync.table.sheet import FILE_ROWS, Sheet

__all__ = ["SheetFiles", "SplitFiles", "SplitTask", "find_files", "split_files"]

_TEXT_COLUMNS = frozenset({"name", "status", "category", ACTION})
_ADDED = [ROW, ORDER, KEY]
"""The columns that are added to those of the files."""
_BATCH_ROWS = 1 << 16
_EXACT = {pa.float64(): 1 << 53, pa.float32(): 1 << 24}
"""The number below which a float type represents all whole numbers."""
_TYPES = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int64Dtype()}


def find_files(path: str | Path) -> list[Path]:
    """Return the Parquet files of a sheet, by name. Raises SheetError if there are none."""
    given = Path(path)
    if given.is_dir():
        there = (each for each in given.iterdir() if not each.name.startswith("."))
        found = sorted(each for each in there if each.suffix.casefold() == PARQUET)
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
class SheetFiles:
    """The files of a sheet, and their columns."""

    source: str
    """The path or pattern of the files."""
    files: Sequence[Path]
    """The files, in order."""
    schema: pa.Schema
    """The columns, with those in _ADDED."""
    columns: Mapping[str, str]
    """The header of each canonical column that the sheet has."""

    @classmethod
    def find(cls, path: str | Path, options: ReadOptions) -> SheetFiles:
        """Return the files of a sheet. Raises SheetError if a file cannot be read, if the files
        have different columns, or if there is no column of ids.
        """
        files = [each.absolute() for each in find_files(path)]
        headers = _read_headers(files)
        names = [field.name for field in headers]
        if len({*names, *_ADDED}) < len(names) + len(_ADDED):
            raise SheetError(
                f"{path} has two columns with the same name, or one named {', '.join(_ADDED)}",
                hint="Rename the column.",
            )
        mapper = Mapper.of(str(path), {**options.defaults, **options.mapping})
        check_mapping(str(path), options.mapping, names)
        if not mapper.score(names):
            raise mapper.unusable_error([names])
        columns = {column: names[at] for column, at in mapper.match(names, names).columns.items()}
        if "id" not in columns:
            raise SheetError(
                f"{path} has no column of ids",
                hint="A sheet of several files needs an id in the rows of the store's pets. Read "
                "it as one table, for example with pandas.read_parquet, and plan that.",
            )
        for column in sorted(_TEXT_COLUMNS & columns.keys()):
            kind = headers.field(columns[column]).type
            if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
                raise SheetError(
                    f"{path}: the column {columns[column]} has values of type {kind}, not texts",
                    hint="Write it with texts.",
                )
        schema = pa.schema([*headers, *((name, pa.int64()) for name in _ADDED)])
        return cls(source=str(path), files=files, schema=schema, columns=columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files in addresses; () if the source is a single file."""
        is_single = self.files[0] == Path(self.source).absolute()
        return () if is_single else tuple(path.name for path in self.files)

    def tasks(self, groups: int, folder: Path, parts: int) -> list[SplitTask]:
        """Return at most `groups` tasks that split the files into `parts`, each with consecutive
        files and its own folder in `folder`.
        """
        count = min(groups, len(self.files))
        bounds = [round(n * len(self.files) / count) for n in range(count + 1)]
        return [
            SplitTask(
                sheet=self,
                first=first,
                files=self.files[first:end],
                folder=folder / str(number),
                parts=parts,
            )
            for number, (first, end) in enumerate(pairwise(bounds))
        ]

    def read(
        self, rows: pa.Table, options: ReadOptions, statuses: frozenset[str], total: int
    ) -> Sheet:
        """Return the sheet of these rows out of a `total`. `statuses` are those of the store."""
        rows = rows.sort_by(ROW)
        frame = rows.drop_columns(_ADDED).to_pandas(types_mapper=_TYPES.get)
        sheet = sheet_from_frame(
            frame,
            mapping=options.mapping,
            defaults=options.defaults,
            statuses=options.statuses,
            known_statuses=[*options.known_statuses, *statuses],
            numbers=rows[ROW].to_numpy(),
            files=self.names,
        )
        return replace(sheet, source=self.source, agreeing=total - len(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """Some files of a sheet to split."""

    sheet: SheetFiles
    first: int
    """The position of the first of these files among all files."""
    files: Sequence[Path]
    folder: Path
    """The folder for the parts, which must not exist."""
    parts: int
    """The number of parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFiles:
    """Files whose rows are in temporary files, by the hash of their ids."""

    parts: Sequence[Path]
    """The temporary file of each part."""
    unnumbered: pa.Table
    """The rows without an id, or with one that needs a careful look."""
    rows: Sequence[int]
    """The number of rows of each file."""


def split_files(task: SplitTask) -> SplitFiles:
    """Split the rows of some files into temporary files."""
    schema, header = task.sheet.schema, task.sheet.columns["id"]
    lacking = [schema.empty_table()]
    counts = []
    writer = PartWriter(task.folder, task.parts, schema, KEY)
    for number, path in enumerate(task.files, task.first):
        start = place = number * FILE_ROWS
        for batch in _iter_batches(path):
            keys = _read_keys(batch[header])
            order = np.arange(place, place + len(batch))
            table = batch.append_column(ROW, pa.array(order + 1))
            table = table.append_column(ORDER, pa.array(order)).append_column(KEY, keys)
            writer.write(table)
            if keys.null_count:
                lacking.append(table.filter(keys.is_null()).cast(schema))
            place += len(batch)
        counts.append(place - start)
    writer.close()
    return SplitFiles(
        parts=writer.files,
        unnumbered=pa.concat_tables(lacking),
        rows=counts,
    )


def _read_headers(files: Sequence[Path]) -> pa.Schema:
    """Return the columns of the files, with the types of texts and lists that hold any size."""
    schemas = [_open(path).schema_arrow.remove_metadata() for path in files]
    if len({*schemas[0].names}) < len(schemas[0].names):
        return schemas[0]
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


def _iter_batches(path: Path) -> Iterator[pa.Table]:
    for batch in _open(path).iter_batches(_BATCH_ROWS):
        yield pa.Table.from_batches([batch])


def _read_keys(cells: pa.ChunkedArray) -> pa.Array:
    """Return the ids as int64, null for cells that are not certainly an integer, such as texts that
    a program formatted, and floats that may be rounded.
    """
    column = cells.combine_chunks()
    if types.is_string(column.type) or types.is_large_string(column.type):
        is_certain = pc.match_substring_regex(column, r"^(0|-?[1-9][0-9]{0,17})$")
    elif types.is_floating(column.type):
        column = column.cast(pa.float64())
        exact = _EXACT.get(cells.type, 0)
        is_certain = pc.and_(pc.less(pc.abs(column), exact), pc.equal(column, pc.trunc(column)))
    elif types.is_uint64(column.type):
        is_certain = pc.less(column, pa.scalar(1 << 63, pa.uint64()))
    elif types.is_integer(column.type):
        return column.cast(pa.int64())
    else:
        return pa.nulls(len(column), pa.int64())
    return pc.if_else(is_certain, column, pa.scalar(None, column.type)).cast(pa.int64())
