"""Folders of Parquet files, the parts of a table of pets, split by a hash of the id."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as types

from petsync._files import write_atomically
from petsync._json import decoder_of
from petsync.errors import SheetError
from petsync.plan.change import Coverage
from petsync.table.arrow import SCHEMA

__all__ = [
    "ENCODED",
    "MANIFEST",
    "Manifest",
    "Part",
    "PartFolder",
    "PartReader",
    "PartWriter",
    "measure_files",
    "part_of",
    "write_part",
]


MANIFEST = "petsync.json"
"""The name of the file that describes the parts of a folder."""
BASE_FOLDER = ".petsync-base"
"""The folder in an export with the pets at the export."""
_FORMAT = 1
_BUFFERED_ROWS = 1 << 18
"""The number of rows that a `PartWriter` keeps in memory."""
_GROUP_ROWS = 1 << 16
_CODES = pa.dictionary(pa.int32(), pa.large_string())
ENCODED = pa.schema(
    {
        **{field.name: field.type for field in SCHEMA},
        "status": _CODES,
        "category": _CODES,
        "tags": pa.large_list(_CODES),
    }
)
"""SCHEMA with dictionaries for the columns that have few different texts."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a folder."""

    file: str
    """The file's name."""
    rows: int
    """The number of its rows."""
    sha256: str
    """The SHA-256 of its bytes, in hexadecimal."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a folder of parts."""

    format: int = _FORMAT
    """The version of the format."""
    store: str
    """The service's base URL."""
    taken_at: str
    """The time (ISO 8601 in UTC) before the first query."""
    coverage: Coverage
    """The status queries."""
    pets: int
    """The number of pets in all parts."""
    reread: tuple[int, ...] = ()
    """The ids of pets whose copies differed, and that were read again by id."""
    parts: tuple[Part, ...]
    """The parts. A pet is in the part whose number is the hash of its id modulo their number."""


class PartFolder(msgspec.Struct, frozen=True):
    """A folder with a manifest."""

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: Path, url: str = "") -> PartFolder:
        """Return the folder. Raises SheetError if it has no manifest that can be read, or is not
        from the store at `url`, if given.
        """
        file = path / MANIFEST
        try:
            manifest = decoder_of(Manifest).decode(file.read_bytes())
        except OSError as error:
            raise SheetError(
                f"{file} cannot be read: {error.strerror or error}",
                hint="A folder of `petsync export` has this file. Export again.",
            ) from None
        except msgspec.DecodeError as error:
            raise SheetError(
                f"{file} is not the manifest of an export: {error}", hint="Export again."
            ) from None
        if manifest.format != _FORMAT:
            raise SheetError(
                f"{file} is in format {manifest.format}, which this version of petsync does not "
                "support",
                hint="Export again.",
            )
        if url and manifest.store != url:
            raise SheetError(f"{path} is from {manifest.store}, but this store is {url}")
        return cls(path, manifest)

    def read(self, number: int) -> pa.Table:
        """Return the table of a part, with the columns of SCHEMA. Raises SheetError if its file
        cannot be read or was changed.
        """
        return read_part(*self.locate(number))

    def locate(self, number: int) -> tuple[Path, str]:
        """Return the path and the SHA-256 of a part."""
        part = self.manifest.parts[number]
        return (self.path / part.file).absolute(), part.sha256

    def measure(self) -> int:
        """Return the number of bytes of all parts without compression."""
        return measure_files([self.path / part.file for part in self.manifest.parts])


def measure_files(paths: Sequence[Path]) -> int:
    """Return the number of bytes in Parquet files without compression. A file that cannot be read
    counts as 0: the comparison reports it.
    """
    size = 0
    for path in paths:
        with suppress(OSError, pa.ArrowException):
            found = pq.read_metadata(path)
            size += sum(found.row_group(n).total_byte_size for n in range(found.num_row_groups))
    return size


def read_part(path: Path, sha256: str, columns: Sequence[str] = tuple(SCHEMA.names)) -> pa.Table:
    """Return these columns of a part. Raises SheetError as `read_bytes`
    does.
    """
    return PartReader(path, sha256).read(columns)


class PartReader:
    """Reads a part from its bytes, which are in memory. Raises SheetError as `read_bytes` does."""

    def __init__(self, path: Path, sha256: str) -> None:
        self._content = pa.py_buffer(read_bytes(path, sha256))
        self._file = pq.ParquetFile(pa.BufferReader(self._content))

    def read(self, columns: Sequence[str] = tuple(SCHEMA.names)) -> pa.Table:
        """Return these columns."""
        return _cast(self._file.read([*columns], use_threads=False), columns)

    def read_encoded(self) -> pa.Table:
        """Return the pets with the types of ENCODED, which are read and checked faster."""
        few = [field.name for field in ENCODED if field.type != SCHEMA.field(field.name).type]
        schema = self._file.schema
        paths = [schema.column(n).path for n in range(self._file.metadata.num_columns)]
        file = pq.ParquetFile(
            pa.BufferReader(self._content),
            metadata=self._file.metadata,
            read_dictionary=[path for path in paths if path.split(".")[0] in few],
        )
        empty = file.schema_arrow.empty_table().select(few)
        if not all(map(_has_codes, empty.schema.types)):
            return self.read().cast(ENCODED)
        # Arrow cannot read lists of encoded texts from several groups of rows at once.
        groups = [
            file.read_row_group(n, few, use_threads=False) for n in range(file.num_row_groups)
        ]
        encoded = pa.concat_tables([empty, *groups]).combine_chunks()
        table = file.read([name for name in SCHEMA.names if name not in few], use_threads=False)
        for name in few:
            table = table.append_column(name, encoded[name])
        return table.select(SCHEMA.names).cast(ENCODED)

    def read_beside(self, other: PartReader, pets: pa.Table) -> pa.Table:
        """Return the part, given the pets of another one. Values that have the same bytes in both
        files are not read again.
        """
        files = self._file, other._file
        is_alike = files[0].schema.equals(files[1].schema)
        is_alike = is_alike and files[0].schema_arrow.equals(files[1].schema_arrow)
        there = dict(other._find_chunks()) if is_alike else {}
        tables = [SCHEMA.empty_table()]
        for number, ((start, rows), chunks) in enumerate(self._find_chunks()):
            near = there.get((start, rows), {})
            others = [name for name in SCHEMA.names if chunks[name] != near.get(name)]
            read = self._file.read_row_group(number, others, use_threads=False)
            same, read = pets.slice(start, rows), _cast(read, others)
            tables.append(pa.table({n: read[n] if n in others else same[n] for n in SCHEMA.names}))
        return pa.concat_tables(tables)

    def _find_chunks(self) -> Iterator[tuple[tuple[int, int], dict[str, list[object]]]]:
        """Yield the first row of each group of rows, and the number of its rows; with the bytes of
        each column and what is needed to decode them, except the schema.
        """
        start = 0
        for number in range(self._file.num_row_groups):
            group = self._file.metadata.row_group(number)
            chunks = dict[str, list[object]]()
            for n in range(group.num_columns):
                chunk = group.column(n)
                first = min(chunk.data_page_offset, chunk.dictionary_page_offset or sys.maxsize)
                content = self._content.slice(first, chunk.total_compressed_size)
                found = chunks.setdefault(chunk.path_in_schema.split(".")[0], [])
                found.append((chunk.compression, chunk.num_values, content))
            yield (start, group.num_rows), chunks
            start += group.num_rows


def _cast(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    return table.select([*columns]).cast(pa.schema([SCHEMA.field(name) for name in columns]))


def _has_codes(kind: pa.DataType) -> bool:
    """Return true for a type of texts, or lists of texts, in a dictionary."""
    kind = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else kind
    texts = (pa.string(), pa.large_string())
    return bool(types.is_dictionary(kind) and kind.value_type in texts)


def read_bytes(path: Path, sha256: str) -> bytes:
    """Return the bytes of a part. Raises SheetError if the file cannot be read, or has another
    SHA-256.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SheetError(
            f"{path} cannot be read: {error.strerror or error}", hint="Export again."
        ) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise SheetError(f"{path} was changed after petsync wrote it", hint="Export again.")
    return content


def part_of(ids: npt.NDArray[np.int64], parts: int) -> npt.NDArray[np.intp]:
    """Return the number of the part of each id.

    The hash is the finalizer of SplitMix64, so that consecutive ids are in different parts.
    """
    mixed = ids.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    numbers: npt.NDArray[np.intp] = (mixed % np.uint64(parts)).astype(np.intp)
    return numbers


def write_part(path: Path, table: pa.Table) -> Part:
    """Write a Parquet file atomically, and return its entry for the manifest. Raises SheetError."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=_GROUP_ROWS)
    content = sink.getvalue().to_pybytes()
    write_atomically(path, content, error=SheetError)
    return Part(file=path.name, rows=len(table), sha256=hashlib.sha256(content).hexdigest())


class PartWriter:
    """Splits tables by the id of each row into temporary files, in bounded memory.

    `key` is the column of the ids; rows without an id are left out. Close the writer before the
    parts are read. Between two writes no file is open, so there may be any number of parts.
    """

    def __init__(
        self, folder: Path, parts: int, schema: pa.Schema = SCHEMA, key: str = "id"
    ) -> None:
        self.files = [folder / f"{number:05d}.arrow" for number in range(parts)]
        """The file of each part."""
        self._schema, self._key = schema, key
        self._waiting: list[list[pa.Table]] = [[] for _ in range(parts)]
        self._rows = 0
        folder.mkdir()
        for path in self.files:
            self._append(path, schema.empty_table())

    def write(self, table: pa.Table) -> None:
        """Add the rows of a table. Its texts and lists may have offsets of 32 bits."""
        table = table.select(self._schema.names).cast(self._schema)
        if table[self._key].null_count:
            table = table.filter(table[self._key].is_valid())
        numbers = part_of(table[self._key].to_numpy(), len(self.files))
        table = table.take(pa.array(np.argsort(numbers, kind="stable")))
        ends = np.cumsum(np.bincount(numbers, minlength=len(self.files))).tolist()
        start = 0
        for waiting, end in zip(self._waiting, ends, strict=True):
            if end > start:
                waiting.append(table.slice(start, end - start))
            start = end
        self._rows += len(table)
        if self._rows >= _BUFFERED_ROWS:
            self.close()

    def close(self) -> None:
        """Write all rows that are still in memory."""
        for path, waiting in zip(self.files, self._waiting, strict=True):
            if waiting:
                self._append(path, pa.concat_tables(waiting).combine_chunks())
                waiting.clear()
        self._rows = 0

    def _append(self, path: Path, table: pa.Table) -> None:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with (
            path.open("ab") as file,
            pa.ipc.new_stream(file, self._schema, options=options) as stream,
        ):
            stream.write_table(table)

    def read(self, number: int) -> pa.Table:
        """Return the rows of a part, in the order in which they were written."""
        return read_rows([self.files[number]])


def read_rows(files: Sequence[Path]) -> pa.Table:
    """Return the rows in temporary files of `PartWriter`s with the same schema."""
    tables = []
    for path in files:
        with pa.OSFile(str(path)) as file:
            while file.tell() < file.size():
                with pa.ipc.open_stream(file) as stream:
                    tables.append(stream.read_all())
    return pa.concat_tables(tables)
