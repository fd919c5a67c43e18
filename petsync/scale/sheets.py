"""Sheets of several files, split into parts by the id of each row."""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as types

from petsync._display import count
from petsync._files import READABLE, ending_of, has_wildcards, is_byproduct, list_files
from petsync.apply.planfile import PLAN_KEY
from petsync.errors import SettingsError, SheetError
from petsync.plan.notes import first_items
from petsync.scale.parts import BASE_FOLDER, MANIFEST, PartFolder, PartWriter, part_of, read_rows
from petsync.scale.reduce import KEY, ORDER, ROW
from petsync.sheets import csv
from petsync.sheets.base import find_base
from petsync.sheets.files import KIND_OF_PART, Source, changed_error, open_regular
from petsync.sheets.grid import CellKind, Cells, Fault, Grid
from petsync.sheets.headers import ACTION, Mapper, check_mapping, fold_header, present_headers
from petsync.sheets.read import Origin, grid_from_frame, sheet_from_frame, validate_grid
from petsync.sheets.records import CATEGORY_ID, iter_objects, with_flat_category
from petsync.sheets.validate.own import Observed
from petsync.table.arrow import SCHEMA, TAG_IDS, table_from_frame
from petsync.table.base import Base
from petsync.table.frame import EXTRA
from petsync.table.options import ReadOptions
from petsync.table.sheet import FILE_ROWS, Sheet

__all__ = [
    "FileRows",
    "OddCells",
    "Rest",
    "SheetFiles",
    "SplitFiles",
    "SplitTask",
    "choose_files",
    "find_exported",
    "find_files",
    "find_repeated",
    "read_status",
    "split_files",
]

P = TypeVar("P", bound=PurePath)

_TEXT_COLUMNS = frozenset({"name", "status", "category", ACTION})
_ADDED = [ROW, ORDER, KEY]
"""The columns that are added to those of the files."""
_BATCH_ROWS = 1 << 16
_HEAD_BYTES = 1 << 20
"""The number of bytes that are read to find the header of a CSV file."""
_EXACT = {pa.float64(): 1 << 53, pa.float32(): 1 << 24}
"""The number below which a float type represents all whole numbers."""
_TYPES = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int64Dtype()}
_TEXT = pa.large_string()
_TEXTS = pa.large_list(_TEXT)
_VALUES = pa.schema([(KEY, pa.int64()), (ORDER, pa.int64())])
"""A hash of the values of a row that must be unique, and the row's ORDER."""

Run = Callable[[Callable[[Path], Any], Sequence[Path]], Iterable[Any]]
"""Computes a pure function of each file, in order."""


def find_files(path: str | Path) -> tuple[list[Path], str]:
    """Return the files of a sheet, by name, and their kind. Raises SheetError if there are none, or
    if they are of several kinds.
    """
    there = list_files(Path(path))
    if not there and not has_wildcards(path) and not Path(path).is_dir():
        raise SheetError(f"{path}: there is no such file or folder")
    return choose_files(path, there)


def choose_files(path: str | Path, there: Sequence[P]) -> tuple[list[P], str]:
    """Return the files that belong to the sheet at `path`, and their kind: no backups and no
    results, unless there are no others. Raises SheetError as `find_files` does, and if a sheet in
    another format would be left out.
    """
    there = [each for each in there if not is_byproduct(each)] or there
    found = [each for each in there if each.suffix.casefold() in KIND_OF_PART]
    if not found:
        raise SheetError(
            f"{path} has no Parquet, CSV or JSON Lines file ({', '.join(KIND_OF_PART)})",
            hint="Name a folder with such files, or a pattern such as 'pets/*.csv'.",
        )
    files = {KIND_OF_PART[each.suffix.casefold()]: each for each in reversed(found)}
    if len(files) > 1:
        raise SheetError(
            f"{path} has files of several kinds: "
            + ", ".join(f"{each.name} ({kind})" for kind, each in sorted(files.items())),
            hint="A sheet has files of one kind. Name them with a pattern, such as 'pets/*.csv'.",
        )
    kind = next(iter(files))
    others = [
        each.name
        for each in there
        if ending_of(each) in READABLE
        and each.suffix.casefold() not in KIND_OF_PART
        and each.name != MANIFEST
    ]
    if others:
        raise SheetError(
            f"{path} has {first_items(others)} besides {count(len(found), f'{kind} file')}",
            hint="All files of a sheet need the same format. Save the others in it, or name the "
            "files with a pattern, such as 'pets/*.csv'.",
        )
    return found, kind


def find_exported(files: SheetFiles) -> PartFolder | Base | str | None:
    """Return the base of a folder or of a CSV file in it, the reason why it cannot be used, or
    None. Raises SheetError if several files have a base.
    """
    source = Path(files.source)
    folder = (source if source.is_dir() else source.parent) / BASE_FOLDER
    if folder.is_dir() and not source.is_file():
        try:
            base = PartFolder.open(folder)
        except SheetError as error:
            return error.problem
        missing = [part.file for part in base.manifest.parts if not (folder / part.file).is_file()]
        return f"{folder} lacks {first_items(missing)}" if missing else base
    found = {path: find_base(Source(path, "text", b"")) for path in files.files}
    found = {path: each for path, each in found.items() if each != (None, "")}
    if len(found) > 1:
        names = [path.name for path in found]
        raise SheetError(
            f"{files.source}: {first_items(names)} each have the records of an export, and a sheet "
            "in several files can only have the records of one",
            hint="Name each of these files separately.",
        )
    return next((base or refused for base, refused in found.values()), None)


class OddCells(NamedTuple):
    """The properties of a row besides the texts of its cells."""

    kinds: bytes
    """The `CellKind` of each cell."""
    fault: Fault | None
    is_emptied: bool
    """Whether its category is an empty text, see `Grid.emptied`."""


class _Batch(NamedTuple):
    """Consecutive rows of a file."""

    table: pa.Table
    """The columns of the sheet's schema, without those in _ADDED."""
    rows: npt.NDArray[np.int64]
    """The number of each row in the file."""
    keys: pa.Array
    """The id of each row as int64, null for a row that is compared as a whole."""
    odd: Mapping[int, OddCells] = {}
    """The rows of cells that are not plain texts, by number in the file."""
    warned: Collection[int] = ()
    """The numbers of the rows that have warnings, and a key."""
    observed: Observed | None = None
    """What the validation found, if a rule compares the values of rows."""


class FileRows(NamedTuple):
    """Consecutive rows of a file."""

    table: pa.Table
    """The columns of the sheet's schema that `SheetFiles.read` needs, with ROW."""
    odd: Mapping[int, OddCells]
    """The rows of cells that are not plain texts, by ROW."""
    validate: Callable[[Observed], Sheet]
    """Returns the sheet of these rows without the others, and fills the `Observed`."""


class _OwnPart(NamedTuple):
    """A file that has only rows of one part."""

    part: int
    rows: int
    """The number of its rows."""
    status: tuple[int, ...]
    """Its state on the disk, see `read_status`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The rows of a sheet that are compared as a whole."""

    rows: pa.Table
    """The rows in the columns of the sheet's schema, by ROW."""
    odd: Mapping[int, OddCells] = field(default_factory=dict)
    """The rows of cells that are not plain texts, by ROW."""
    statuses: frozenset[str] = frozenset()
    """The statuses of the store, and those of the rows' pets at the export."""
    base: Base | None = None
    """The pets of the rows at the export, None without a base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetFiles(ABC):
    """The files of a sheet, and their columns."""

    source: str
    """The path or pattern of the files."""
    files: Sequence[Path]
    """The files, in order."""
    schema: pa.Schema
    """The columns of the temporary files, with those in _ADDED."""
    columns: Mapping[str, str]
    """The column in `schema` with the values of each canonical column that the sheet has."""
    options: ReadOptions

    @classmethod
    def find(cls, path: str | Path, options: ReadOptions, run: Run = map) -> SheetFiles:
        """Return the files of a sheet; `run` reads their headers. Raises SheetError if a file
        cannot be read, if the files have different columns, or if there is no column of ids; and
        SettingsError for an encoding of files that are not CSV.
        """
        found, kind = find_files(path)
        files = [each.absolute() for each in found]
        if options.encoding is not None and kind != "CSV":
            raise SettingsError(
                f"--encoding (in Python encoding) cannot apply to {path}, which has {kind} files",
                hint="Leave the option out.",
            )
        kinds: Mapping[str, type[SheetFiles]] = {
            "Parquet": _ParquetFiles,
            "CSV": _CsvFiles,
            "JSON Lines": _LineFiles,
        }
        return kinds[kind].open(str(path), files, options, run)

    @classmethod
    @abstractmethod
    def open(cls, source: str, files: Sequence[Path], options: ReadOptions, run: Run) -> SheetFiles:
        """Return the files after `run` has read their headers."""

    @abstractmethod
    def iter_batches(self, path: Path) -> Iterator[_Batch]:
        """Yield the rows of a file."""

    @property
    def validator(self) -> Callable[[pa.Table, frozenset[str]], Sheet] | None:
        """A function that returns the sheet of some rows with some of their columns, given the
        known statuses; None if `iter_batches` has validated the rows.
        """
        return None

    @abstractmethod
    def read(self, rest: Rest, observed: Observed | None = None) -> Sheet:
        """Return the sheet of some rows. `observed` is that of `validate_grid`."""

    @abstractmethod
    def iter_rows(self, path: Path, start: int, statuses: frozenset[str]) -> Iterator[FileRows]:
        """Yield the rows of a file; their `validate` knows these statuses. `start` is ROW before
        the file's first row.
        """

    @property
    def has_unique(self) -> bool:
        """True if a rule compares the values of different rows."""
        return any(
            rule.kind == "unique" and rule.enabled and rule.applies_to == "sheet"
            for rule in self.options.rules
        )

    def read_all(self) -> Sheet:
        """Return the sheet of all rows, in memory."""
        tables, odd = [self.schema.empty_table()], dict[int, OddCells]()
        for number, path in enumerate(self.files):
            start = place = number * FILE_ROWS
            for batch in self.iter_batches(path):
                table = _add_columns(batch, start, place)
                tables.append(_cast(table.select(self.schema.names), self.schema, path))
                odd |= {start + row: each for row, each in batch.odd.items()}
                place += len(batch.rows)
        rows = pa.concat_tables(tables)
        return self.read(Rest(rows=rows, odd=odd))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files in addresses; () if the source is a single file."""
        is_single = self.files[0] == Path(self.source).absolute()
        return () if is_single else tuple(path.name for path in self.files)

    def tasks(self, groups: int, folder: Path, parts: int, most_warnings: int) -> list[SplitTask]:
        """Return at most `groups` tasks that split the files into `parts` in this folder, each with
        consecutive files.
        """
        count = min(groups, len(self.files))
        bounds = [round(n * len(self.files) / count) for n in range(count + 1)]
        return [
            SplitTask(
                sheet=self,
                first=first,
                files=self.files[first:end],
                folder=folder,
                parts=parts,
                most_warnings=-(-most_warnings // count),
            )
            for first, end in pairwise(bounds)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """Some files of a sheet to split."""

    sheet: SheetFiles
    first: int
    """The position of the first of these files among all files."""
    files: Sequence[Path]
    folder: Path
    """The folder for the parts, in which each attempt makes a new folder."""
    parts: int
    """The number of parts."""
    most_warnings: int
    """The maximum number of rows with warnings that are compared as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFiles:
    """Files whose rows are in temporary files, by the hash of their ids."""

    parts: Sequence[Path]
    """The temporary file of each part."""
    in_place: Sequence[tuple[int, int, Callable[[], pa.Table]]]
    """The files that were not split: the part that has all rows, ORDER before the first row, and a
    function that reads the file.
    """
    unnumbered: pa.Table
    """The rows without an id, and those whose id must be validated."""
    rows: Sequence[int]
    """The number of rows of each file."""
    digests: Sequence[str]
    """The SHA-256 of each file."""
    odd: Mapping[int, OddCells]
    """The rows of `unnumbered` that are not plain texts, by ROW."""
    unlisted: int
    """The number of rows with warnings that are not in `unnumbered`."""
    values: Sequence[Path] = ()
    """The temporary files with hashes of the values that must be unique, by the hash; () without
    such a rule.
    """


def split_files(task: SplitTask) -> SplitFiles:
    """Split the rows of some files into temporary files."""
    schema = task.sheet.schema
    lacking = [schema.empty_table()]
    counts, digests = [], []
    odd: dict[int, OddCells] = {}
    in_place = []
    left, unlisted = task.most_warnings, 0
    # The worker of an earlier attempt may have died, or may still write.
    folder = Path(tempfile.mkdtemp(dir=task.folder), "parts")
    writer = PartWriter(folder, task.parts, schema, KEY)
    values = None
    if task.sheet.has_unique:
        values = PartWriter(folder.with_name("values"), task.parts, _VALUES, KEY)
    for number, path in enumerate(task.files, task.first):
        start = place = number * FILE_ROWS
        digests.append(_digest(path))
        if isinstance(task.sheet, _ParquetFiles) and (
            own := task.sheet.find_part(path, task.parts)
        ):
            read = partial(task.sheet.read_file, path, start, own.status)
            in_place.append((own.part, start, read))
            counts.append(own.rows)
            if values is not None:
                for batch in task.sheet.iter_batches(path):
                    _write_values(values, batch.observed, place)
                    place += len(batch.rows)
            continue
        for batch in task.sheet.iter_batches(path):
            warned = sorted(batch.warned)
            listed, warned = warned[:left], warned[left:]
            left, unlisted = left - len(listed), unlisted + len(warned)
            table = _add_columns(_without_keys(batch, listed), start, place)
            table = _cast(table.select(schema.names), schema, path)
            writer.write(table)
            if values is not None:
                _write_values(values, batch.observed, place)
            if table[KEY].null_count:
                lacking.append(table.filter(table[KEY].is_null()))
            odd |= {start + row: each for row, each in batch.odd.items()}
            place += len(batch.rows)
        counts.append(place - start)
    writer.close()
    if values is not None:
        values.close()
    return SplitFiles(
        parts=writer.files,
        in_place=in_place,
        unnumbered=pa.concat_tables(lacking),
        rows=counts,
        digests=digests,
        odd=odd,
        unlisted=unlisted,
        values=() if values is None else values.files,
    )


def _write_values(writer: PartWriter, observed: Observed | None, place: int) -> None:
    """Write a hash of the values of each row for each rule `unique`, except of blank values. Other
    values may have the same hash; then their rows are compared as a whole although this is not
    necessary. `place` is ORDER of the first row.
    """
    rules = {} if observed is None else observed.rules
    for number, name in enumerate(sorted(rules)):
        rule = rules[name]
        if rule.keys is not None:
            at = np.flatnonzero(rule.known)
            keys = (rule.keys[at] + np.uint64(number)).view(np.int64)
            writer.write(pa.table([pa.array(keys), pa.array(place + at)], schema=_VALUES))


def find_repeated(files: Sequence[Path]) -> list[int]:
    """Return the rows, by ORDER, whose values are also in another row, given the `values` of all
    files with hashes of one part.
    """
    table = read_rows(files)
    is_repeated = pd.Series(table[KEY].to_numpy()).duplicated(keep=False).to_numpy()
    rows: list[int] = table[ORDER].filter(pa.array(is_repeated)).to_pylist()
    return rows


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SheetError(f"{path} cannot be read: {error.strerror or error}") from None


def _without_keys(batch: _Batch, rows: Collection[int]) -> _Batch:
    """Return the batch in which these rows have no key."""
    if not rows:
        return batch
    is_one = pa.array(np.isin(batch.rows, [*rows]))
    return batch._replace(keys=pc.if_else(is_one, pa.scalar(None, pa.int64()), batch.keys))


def _add_columns(batch: _Batch, start: int, place: int) -> pa.Table:
    """Return the rows of a file with the columns in _ADDED. `start` is ROW before the file's first
    row, and `place` is ORDER of the first of these rows.
    """
    order = np.arange(place, place + len(batch.rows))
    table = batch.table.append_column(ROW, pa.array(start + batch.rows))
    return table.append_column(ORDER, pa.array(order)).append_column(KEY, batch.keys)


def _match(source: str, header: Sequence[str], options: ReadOptions) -> dict[str, int]:
    """Return the position of each canonical column. Raises SheetError if the column of ids is
    missing, or no header is known.
    """
    mapper = Mapper.of(source, options.columns)
    check_mapping(source, options.mapping, header)
    if not mapper.score(header):
        raise mapper.unusable_error([header])
    columns = dict(mapper.match(header, [str(n) for n in range(1, len(header) + 1)]).columns)
    if "id" not in columns:
        raise SheetError(
            f"{source} has no column of ids",
            hint="A sheet of several files needs an id in the rows of the store's pets. Read it as "
            "one table, for example with pandas, and plan that.",
        )
    return columns


# Parquet files: their columns have types, and are compared unchanged.


class _ParquetFiles(SheetFiles):
    __slots__ = ()

    @classmethod
    def open(cls, source: str, files: Sequence[Path], options: ReadOptions, run: Run) -> SheetFiles:
        headers = _join_schemas(files, [*run(_read_schema, files)])
        names = [field.name for field in headers]
        if repeated := [name for name, uses in Counter((*names, *_ADDED)).items() if uses > 1]:
            raise SheetError(
                f"{source} has two columns with the same name, or one with a name that petsync "
                f"uses: {', '.join(map(repr, repeated))}",
                hint="Rename the column.",
            )
        columns = {column: names[at] for column, at in _match(source, names, options).items()}
        for column in sorted(_TEXT_COLUMNS & columns.keys()):
            kind = headers.field(columns[column]).type
            if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
                raise SheetError(
                    f"{source}: the column {columns[column]} has values of type {kind}, not texts",
                    hint="Write it with texts.",
                )
        schema = pa.schema([*headers, *((name, pa.int64()) for name in _ADDED)])
        return cls(source=source, files=files, schema=schema, columns=columns, options=options)

    def iter_batches(self, path: Path) -> Iterator[_Batch]:
        first = 1
        for batch in _open(path).iter_batches(_BATCH_ROWS):
            table = pa.Table.from_batches([batch])
            rows = np.arange(first, first + len(table), dtype=np.int64)
            batch = _Batch(table, rows, _read_keys(table[self.columns["id"]]))
            yield self._observe(batch) if self.has_unique else batch
            first += len(table)

    def _observe(self, batch: _Batch) -> _Batch:
        observed = Observed()
        self.read(Rest(rows=_add_columns(batch, 0, 0)), observed)
        return batch._replace(observed=observed)

    def iter_rows(self, path: Path, start: int, statuses: frozenset[str]) -> Iterator[FileRows]:
        kinds = pa.schema([field for field in self.schema if field.name not in _ADDED])
        first = start + 1
        for batch in _open(path).iter_batches(_BATCH_ROWS):
            table = _cast(pa.Table.from_batches([batch]), kinds, path)
            numbers = np.arange(first, first + len(table), dtype=np.int64)
            table = table.append_column(ROW, pa.array(numbers))
            rest = Rest(rows=table, statuses=statuses)
            yield FileRows(table, {}, partial(self.read, rest))
            first += len(table)

    def find_part(self, path: Path, parts: int) -> _OwnPart | None:
        """Return the part that has all rows of a file, as in an export that was edited; None if
        there is no such part, or if an id must be validated.
        """
        status = read_status(path)
        part, rows = None, 0
        for batch in _open(path).iter_batches(_BATCH_ROWS, columns=[self.columns["id"]]):
            keys = _read_keys(pa.chunked_array([batch.column(0)]))
            if keys.null_count:
                return None
            numbers = part_of(keys.to_numpy(), parts)
            part = int(numbers[0]) if part is None else part
            if (numbers != part).any():
                return None
            rows += len(keys)
        return None if part is None else _OwnPart(part, rows, status)

    def read_file(self, path: Path, start: int, status: tuple[int, ...]) -> pa.Table:
        """Return the rows of a file that has a part. Raises SheetError if it was changed."""
        table = _open(path).read(use_threads=False)
        if read_status(path) != status:
            raise changed_error(path)
        rows = np.arange(1, len(table) + 1)
        batch = _Batch(table, rows, _read_keys(table[self.columns["id"]]))
        table = _add_columns(batch, start, start).select(self.schema.names)
        return _cast(table, self.schema, path)

    @property
    def validator(self) -> Callable[[pa.Table, frozenset[str]], Sheet]:
        return self._validate

    def _validate(self, rows: pa.Table, statuses: frozenset[str]) -> Sheet:
        mapping = {h: c for h, c in self.options.mapping.items() if h in rows.column_names}
        files = replace(self, options=msgspec.structs.replace(self.options, mapping=mapping))
        return files.read(Rest(rows=rows, statuses=statuses))

    def read(self, rest: Rest, observed: Observed | None = None) -> Sheet:
        added = [name for name in _ADDED if name in rest.rows.column_names]
        return sheet_from_frame(
            rest.rows.drop_columns(added).to_pandas(types_mapper=_TYPES.get),
            mapping=self.options.mapping,
            defaults=self.options.defaults,
            statuses=self.options.statuses,
            known_statuses=[*self.options.known_statuses, *rest.statuses],
            numbers=rest.rows[ROW].to_numpy(),
            files=self.names,
            source=self.source,
            rules=self.options.rules,
            observed=observed,
        )


def read_status(path: Path) -> tuple[int, ...]:
    """Return the size of a file, and when it was changed."""
    try:
        status = path.stat()
    except OSError as error:
        raise SheetError(f"{path} cannot be read: {error.strerror or error}") from None
    return status.st_size, status.st_mtime_ns


def _read_schema(path: Path) -> pa.Schema:
    schema = _open(path).schema_arrow
    if PLAN_KEY in (schema.metadata or {}) or {"kind", "fields", "json"} <= {*schema.names}:
        raise SheetError(
            f"{path} is a saved plan, not a sheet",
            hint=f"`petsync apply {path}` applies it. Keep plans outside a sheet's folder.",
        )
    return schema.remove_metadata()


def _join_schemas(files: Sequence[Path], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the columns of the files, with the types for texts and lists of any size."""
    if len({*schemas[0].names}) < len(schemas[0].names):
        return schemas[0]
    for path, schema in zip(files, schemas, strict=True):
        if schema.names != schemas[0].names:
            raise _different_columns_error(path, schema.names, files[0], schemas[0].names)
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise SheetError(
            f"the files of {files[0].parent} have different types in the same column: {error}",
            hint="Write all files with the same types.",
        ) from None


def _different_columns_error(
    path: Path, names: Sequence[str], other: Path, other_names: Sequence[str]
) -> SheetError:
    hint = "All files of a sheet need the same columns, in the same order."
    if any(name.startswith("__index_level_") for name in (*names, *other_names)):
        hint += " pandas wrote its index as a column: write the file with index=False."
    return SheetError(
        f"{path} has the columns {', '.join(names)}, and {other} has {', '.join(other_names)}",
        hint=hint,
    )


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise SheetError(
            f"{path} cannot be read: {str(error).splitlines()[0]}",
            hint="Check that it is a Parquet file.",
        ) from None


def _cast(table: pa.Table, schema: pa.Schema, path: Path) -> pa.Table:
    """Return the rows of a file with the types of all files. Raises SheetError if that would change
    a value.
    """
    try:
        return table.cast(schema)
    except pa.ArrowException as error:
        raise SheetError(
            f"{path} has a column of another type than the other files: {error}",
            hint="Write the column with one type in all files. Whole numbers with missing values "
            "stay whole in pandas with df['id'] = df['id'].astype('Int64').",
        ) from None


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


# Files of cells: the rows are read and checked as those of one file, and their values are compared.


@dataclass(frozen=True, slots=True, kw_only=True)
class _CellFiles(SheetFiles):
    header: Sequence[str]
    header_row: int = 0
    """The number of the header's row in the first file; 0 if the files have no such row."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """The position of each canonical column in the header."""

    @classmethod
    def _with_header(
        cls,
        source: str,
        files: Sequence[Path],
        options: ReadOptions,
        header: Sequence[str],
        header_row: int = 0,
    ) -> SheetFiles:
        positions = _match(source, header, options)
        names = [name for name in SCHEMA.names if name in positions]
        names += [TAG_IDS] if "tags" in positions else []
        columns = {name: f"value {name}" for name in names}
        kinds = {name: SCHEMA.field(name).type for name in names}
        kinds[TAG_IDS] = _TEXTS
        if ACTION in positions:
            columns[ACTION], kinds[ACTION] = f"value {ACTION}", _TEXT
        schema = pa.schema(
            [
                *((_cell_name(at), _TEXT) for at in range(len(header))),
                *((columns[name], kinds[name]) for name in columns),
                *((name, pa.int64()) for name in _ADDED),
            ]
        )
        return cls(
            source=source,
            files=files,
            schema=schema,
            columns=columns,
            options=options,
            header=header,
            header_row=header_row,
            positions=positions,
        )

    @abstractmethod
    def iter_grids(self, path: Path) -> Iterator[Grid]:
        """Yield the rows of a file."""

    def iter_batches(self, path: Path) -> Iterator[_Batch]:
        for grid in self.iter_grids(path):
            yield self._make_batch(grid)

    def _make_batch(self, grid: Grid) -> _Batch:
        """Return the rows with their values. A row that has an error, equals another one, or has
        odd cells gets no key: it is read again later.
        """
        observed = Observed() if self.has_unique else None
        sheet = self._validate(grid, self._find_statuses(grid), None, observed)
        values, is_partial = _read_values(sheet)
        places = sheet.rows.index.get_indexer(pd.Index(grid.rows))
        values = values.take(pa.array(places, mask=places < 0))
        odd = dict(_find_odd(grid))
        # A row that is not used has the place -1, where the added last item is.
        is_odd = np.isin(grid.rows, [*odd]) | np.append(is_partial, True)[places]
        keys = pc.if_else(pa.array(is_odd), pa.scalar(None, pa.int64()), values["id"])
        if "name" in self.columns:
            # A row with an error is not used, but its name may be that of another pet.
            names = pc.coalesce(values["name"], grid.columns[self.positions["name"]].text)
            values = values.set_column(values.column_names.index("name"), "name", names)
        columns = {_cell_name(at): cells.text for at, cells in enumerate(grid.columns)}
        columns |= {column: values[name] for name, column in self.columns.items()}
        warned = {each.row for each in sheet.problems}.intersection(grid.rows[~is_odd].tolist())
        return _Batch(pa.table(columns), grid.rows, _flat(keys), odd, warned, observed)

    def iter_rows(self, path: Path, start: int, statuses: frozenset[str]) -> Iterator[FileRows]:
        for grid in self.iter_grids(path):
            grid = replace(grid, rows=start + grid.rows, files=self.names)
            columns = {_cell_name(at): cells.text for at, cells in enumerate(grid.columns)}
            table = pa.table({**columns, ROW: grid.rows})
            validate = partial(self._validate, grid, statuses, None)
            yield FileRows(table, dict(_find_odd(grid)), validate)

    def _find_statuses(self, grid: Grid) -> frozenset[str]:
        """Return the statuses in the cells: a row agrees only with a pet that has its status."""
        if "status" not in self.positions:
            return frozenset()
        return frozenset(pc.unique(grid.columns[self.positions["status"]].text).to_pylist())

    def _validate(
        self,
        grid: Grid,
        statuses: frozenset[str],
        base: Base | None,
        observed: Observed | None = None,
    ) -> Sheet:
        options, columns = self.options, present_headers(self.options.columns, self.header)
        known = frozenset([*options.known_statuses, *statuses])
        given = (options.statuses, known)
        origin, rules = Origin(self.source), options.rules
        sheet = validate_grid(
            grid, origin, columns, given, options.clear, base, rules=rules, observed=observed
        )
        return replace(sheet, mapping=columns, encoding=options.encoding or "")

    def read(self, rest: Rest, observed: Observed | None = None) -> Sheet:
        numbers = rest.rows[ROW].to_numpy()
        places = np.flatnonzero(np.isin(numbers, [*rest.odd])).tolist()
        marked = {at: rest.odd[int(numbers[at])] for at in places}
        kinds = np.zeros((len(self.header), len(numbers)), np.int8)
        for at, each in marked.items():
            kinds[:, at] = np.frombuffer(each.kinds, np.int8)
        grid = Grid(
            tab="",
            header=self.header,
            header_row=self.header_row,
            rows=numbers,
            columns=[
                Cells(_flat(rest.rows[_cell_name(at)]), kinds[at] if kinds[at].any() else None)
                for at in range(len(self.header))
            ],
            places=[str(n) for n in range(1, len(self.header) + 1)]
            if self.header_row
            else self.header,
            faults={at: each.fault for at, each in marked.items() if each.fault is not None},
            emptied=[at for at, each in marked.items() if each.is_emptied],
            files=self.names,
            labels=None if self.header_row else {},
        )
        return self._validate(grid, rest.statuses, rest.base, observed)


class _CsvFiles(_CellFiles):
    __slots__ = ()

    @classmethod
    def open(cls, source: str, files: Sequence[Path], options: ReadOptions, run: Run) -> SheetFiles:
        headers = [*run(partial(_read_csv_header, options=options), files)]
        header, row = headers[0]
        for path, (other, _) in zip(files, headers, strict=True):
            if other != header:
                raise _different_columns_error(path, other, files[0], header)
        return cls._with_header(source, files, options, header, row)

    def iter_grids(self, path: Path) -> Iterator[Grid]:
        for grid in csv.iter_grids(path, self.options.encoding, _mapper(path, self.options)):
            if [*grid.header] != self.header:
                raise _different_columns_error(path, grid.header, self.files[0], self.header)
            yield grid


def _read_csv_header(path: Path, options: ReadOptions) -> tuple[list[str], int]:
    """Return the header of a file, and its row."""
    grids = csv.iter_grids(path, options.encoding, _mapper(path, options), size=_HEAD_BYTES)
    first = next(grids)
    return [*first.header], first.header_row


def _mapper(path: Path, options: ReadOptions) -> Mapper:
    return Mapper.of(str(path), options.columns)


class _LineFiles(_CellFiles):
    __slots__ = ()

    @classmethod
    def open(cls, source: str, files: Sequence[Path], options: ReadOptions, run: Run) -> SheetFiles:
        keys = dict.fromkeys(itertools.chain.from_iterable(run(_read_keys_of_objects, files)))
        header = [key for key in keys if not _is_unused(key, options)]
        return cls._with_header(source, files, options, header)

    def iter_grids(self, path: Path) -> Iterator[Grid]:
        mapper = _mapper(path, self.options)
        for numbers, rows in _iter_groups(path):
            others = {key for row in rows for key in row}.difference(self.header)
            if not all(_is_unused(key, self.options) for key in others):
                raise changed_error(path)
            columns = {key: [row.get(key) for row in rows] for key in (*self.header, *others)}
            frame = pd.DataFrame(columns, dtype=object)
            grid = grid_from_frame(frame, mapper, np.array(numbers), {})
            cells = dict(zip(grid.header, grid.columns, strict=True))
            yield replace(
                grid,
                header=self.header,
                places=self.header,
                columns=[cells[key] for key in self.header],
            )


def _is_unused(key: str, options: ReadOptions) -> bool:
    """Return true for a column of a Parquet export that is read with the tags, or not at all."""
    names = {fold_header(name) for name in options.columns}
    return fold_header(key) in {fold_header(TAG_IDS), EXTRA} - names


def _read_keys_of_objects(path: Path) -> list[str]:
    """Return the keys of all objects in a file, in the order in which they first occur."""
    keys: dict[str, None] = {}
    for _, row in _iter_objects(path, msgspec.Raw):
        keys.update(dict.fromkeys(row))
        if any(_is_nested_category(key, value) for key, value in row.items()):
            keys.setdefault(CATEGORY_ID)
    return [*keys]


def _is_nested_category(key: str, value: msgspec.Raw) -> bool:
    return fold_header(key) == "category" and bytes(value).lstrip().startswith(b"{")


def _iter_groups(path: Path) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
    """Yield the objects of a file with the numbers of their lines, many at a time."""
    numbers: list[int] = []
    rows: list[dict[str, Any]] = []
    for number, row in _iter_objects(path, Any):
        numbers.append(number)
        rows.append(with_flat_category(row))
        if len(rows) == _BATCH_ROWS:
            yield numbers, rows
            numbers, rows = [], []
    if rows:
        yield numbers, rows


def _iter_objects(path: Path, kind: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects in a file, with values of this type, and the numbers of their lines."""
    with open_regular(path) as file:
        yield from iter_objects(str(path), file, kind)


def _cell_name(at: int) -> str:
    return f"cell {at}"


def _flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _find_odd(grid: Grid) -> Iterator[tuple[int, OddCells]]:
    """Yield the number and the cells of each row that is not plain text."""
    kinds = [
        np.full(len(cells), CellKind.TEXT, np.int8) if cells.kinds is None else cells.kinds
        for cells in grid.columns
    ]
    table = np.array(kinds, np.int8)
    mask = (table != CellKind.TEXT).any(axis=0)
    mask[[*grid.faults, *grid.emptied]] = True
    for at in np.flatnonzero(mask).tolist():
        is_emptied = at in grid.emptied
        odd = OddCells(table[:, at].tobytes(), grid.faults.get(at), is_emptied)
        yield int(grid.rows[at]), odd


def _read_values(sheet: Sheet) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
    """Return the values and actions of a sheet's rows, with the ids of tags as texts, and a mask of
    the rows that have a tag without a name, or ids for some of their tags only.
    """
    table = table_from_frame(sheet.rows)
    names, ids = _flat(table["tags"]), _flat(table[TAG_IDS])
    sizes = pc.fill_null(pc.list_value_length(names), 0).to_numpy()
    owners = np.repeat(np.arange(len(table)), sizes)
    named, numbered = (
        np.bincount(owners[np.array(pc.list_flatten(each).is_valid())], minlength=len(table))
        for each in (names, ids)
    )
    is_partial = (named < sizes) | ((numbered > 0) & (numbered < sizes))
    at = np.arange(len(table))
    columns = {name: table[name] for name in table.column_names}
    columns["tags"] = names.take(pa.array(at, mask=is_partial))
    numbers = ids.take(pa.array(at, mask=is_partial | (numbered == 0)))
    columns[TAG_IDS] = numbers.cast(_TEXTS)
    columns[ACTION] = pa.array(sheet.rows[ACTION], _TEXT, from_pandas=True)
    return pa.table(columns), is_partial
