"""Base: the records of the store at the time of an export, and their encoding in a sheet."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync._json import decoder_of
from petsync.errors import ResponseError
from petsync.models import Category, Pet, Tag
from petsync.protocol.json import decode_pets, encode_pets
from petsync.table.arrow import (
    SCHEMA,
    TAG_IDS,
    PetTable,
    frame_from_table,
    rows_from_pets,
    rows_from_table,
    sorted_by_id,
    without_duplicates,
)
from petsync.table.columns import COLUMNS, LISTS
from petsync.table.frame import (
    EXTRA,
    has_id_in,
    ids_of,
    join_rows,
    pets_from_frame,
    plain_values,
)
from petsync.table.lists import join_items

__all__ = [
    "LINE",
    "Base",
    "ParcelError",
    "SourceRow",
    "base_of_frame",
    "carry_base",
    "frame_with_base",
    "pack",
    "pets_by_id",
    "unpack",
    "verify",
]


# Parcel: data as lines of plain ASCII, which the cells of a spreadsheet keep unchanged.
#
# The first line has `petsync-base`, the version, the number of further lines, and a SHA-256 of
# these three and the packed content; the further lines are the packed content in base64. Lines that
# begin with `#` are comments, and are ignored. In version 2, the packed content is the data
# compressed with Zstandard, or a zero byte and the data; in version 1, which petsync 0.2 wrote, it
# is the data compressed with zlib.


LINE = 30_000
"""The maximum length of a line. A cell in Excel has at most 32,767 characters."""

_VERSION, _OLD_VERSION = 2, 1
_PLAIN, _ZSTD = b"\0", b"\x28\xb5\x2f\xfd"
_LABEL = re.compile(r"petsync-base ([0-9]{1,9}) ([0-9]{1,9}) ([0-9a-f]{64})")
_ANY_LABEL = re.compile(r"petsync-base ")
# Data may be unpacked to this many bytes, or to this many times its packed size if that is more.
_MIN_LIMIT, _MAX_RATIO = 1 << 24, 64
_TEXT = pa.large_string()
_ESCAPED = r"[\x00-\x1f\"\\]"
"""Matches the characters that JSON escapes."""
_ALIGNMENT = 64


class ParcelError(ValueError):
    """Packed records cannot be used. The message is the reason, to be shown after "the records
    cannot be used: ".
    """


def pack(data: bytes | pa.Buffer) -> list[str]:
    """Return the lines that contain `data`; `unpack` reverses this."""
    data = pa.py_buffer(data)
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    if data.size > _compute_size_limit(packed):
        packed = _PLAIN + data.to_pybytes()
    text = base64.b64encode(packed).decode()
    chunks = [text[start : start + LINE] for start in range(0, len(text), LINE)]
    digest = _digest(_VERSION, len(chunks), packed)
    return [f"petsync-base {_VERSION} {len(chunks)} {digest}", *chunks]


def unpack(lines: Iterable[str]) -> bytes:
    """Return the data in the lines. Raises ParcelError if they are not a complete, unchanged result
    of `pack`.
    """
    data: bytes = _unpack(lines).data.to_pybytes()
    return data


class _Unpacked(NamedTuple):
    version: int
    checksum: str
    data: pa.Buffer


def _unpack(lines: Iterable[str]) -> _Unpacked:
    version, checksum, packed = _decode_lines(lines)
    data = pa.py_buffer(_inflate(packed)) if version == _OLD_VERSION else _expand(packed)
    return _Unpacked(version, checksum, data)


def verify(lines: Iterable[str]) -> None:
    """Raise ParcelError if the lines are not a complete, unchanged result of `pack`. For large
    data this is much faster than `unpack`.
    """
    _decode_lines(lines)


def _decode_lines(lines: Iterable[str]) -> tuple[int, str, bytes]:
    stripped = map(str.strip, lines)
    label, *chunks = [line for line in stripped if line and not line.startswith("#")] or [""]
    version, count, digest = _read_label(label)
    if version not in (_VERSION, _OLD_VERSION):
        raise ParcelError(
            f"they are in format {version}, which this version of petsync does not support"
        )
    if len(chunks) < count:
        raise ParcelError(f"only {len(chunks)} of their {count} parts are present")
    try:
        packed = base64.b64decode("".join(chunks), validate=True)
    except ValueError:
        raise ParcelError("they were changed") from None
    if _digest(version, count, packed) != digest:
        raise ParcelError("they were changed")
    return version, digest, packed


def _read_label(label: str) -> tuple[int, int, str]:
    match = _LABEL.fullmatch(label)
    if match is None:
        raise ParcelError(
            "they were changed" if _ANY_LABEL.match(label) else "their first line is missing"
        )
    return int(match[1]), int(match[2]), match[3]


def _digest(version: int, count: int, packed: bytes) -> str:
    digest = hashlib.sha256(f"petsync-base {version} {count}\n".encode())
    digest.update(packed)
    return digest.hexdigest()


def _expand(packed: bytes) -> pa.Buffer:
    if packed.startswith(_PLAIN):
        return pa.py_buffer(packed).slice(len(_PLAIN))
    size = _read_content_size(packed)
    if size > _compute_size_limit(packed):
        raise ParcelError("they are far too large when unpacked")
    try:
        # Raises OSError if the content has another size.
        return pa.decompress(packed, decompressed_size=size, codec="zstd")
    except OSError:
        raise ParcelError("they cannot be unpacked") from None


def _read_content_size(frame: bytes) -> int:
    """Return the size of the content that the header of a Zstandard frame gives (RFC 8878, section
    3.1.1.1), or 0.
    """
    if not frame.startswith(_ZSTD) or len(frame) <= len(_ZSTD):
        return 0
    descriptor = frame[len(_ZSTD)]
    flag, is_single, dictionary = descriptor >> 6, descriptor >> 5 & 1, descriptor & 3
    start = len(_ZSTD) + 1 + (not is_single) + (0, 1, 2, 4)[dictionary]
    length = (is_single, 2, 4, 8)[flag]
    return int.from_bytes(frame[start : start + length], "little") + (256 if length == 2 else 0)


def _inflate(packed: bytes) -> bytes:
    bound = _compute_size_limit(packed)
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(packed, bound)
    except zlib.error:
        raise ParcelError("they cannot be unpacked") from None
    if not inflater.eof:
        more = bool(inflater.unconsumed_tail)
        raise ParcelError("they are far too large when unpacked" if more else "they are cut short")
    return data


def _compute_size_limit(packed: bytes) -> int:
    return max(_MIN_LIMIT, len(packed) * _MAX_RATIO)


# Base: the store's records at the time of a sheet's export.


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a sheet, from which a row of a workbook of failed rows was copied."""

    source: str
    """The sheet's file."""
    tab: str = ""
    """The worksheet, "" for CSV."""
    digest: str = ""
    """The checksum of the sheet's file."""
    base: str = ""
    """The time of the sheet's export; "" for none."""
    started: str = ""
    """The start of the run in which the row failed, ISO 8601 in UTC."""
    row: int
    """The row's number."""
    above: int | None = None
    """The nearest id in a row above, None if there is none."""
    below: int | None = None
    """The nearest id in a row below, None if there is none."""
    action: str = ""
    """The row's action; "" for `merge`."""
    pet_id: int | None = None
    """The id of the row's pet, None if it is unknown."""
    row_pet: Pet | None = None
    """The row's values; None if an error blocks the row."""
    category: Category | None = None
    """The row's category cells, if they differ from the category in `row_pet`."""
    may_be: tuple[int | tuple[str, int], ...] = ()
    """The pets to which the row may belong: each by its id or, if the id is unknown, by the run
    that began to add it and by its row.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Base:
    """The store's records when a sheet was exported. Both sheet and store are compared with them.

    In a reconciliation, these are the last values on which sheet and store agreed. The fields from
    `sheet_pets` on then describe the sheet.
    """

    pets: PetTable
    """The pets, one row each."""
    store: str
    """The service's base URL."""
    taken_at: str
    """The time at which the store was read, ISO 8601 in UTC."""
    statuses: tuple[str, ...] = ()
    """The statuses that were queried; () for all, or if they are not known."""
    tags: tuple[str, ...] = ()
    """The tags that were queried; () for all, or if they are not known."""
    tab: str = ""
    """The worksheet with the pets; "" for CSV, or if it is not known."""
    sheet_pets: Mapping[int, Pet] = field(default_factory=dict)
    """By id, the pets whose last values in the sheet differ from those in `pets`, with the sheet's
    values. For example, a column was missing from the sheet when the store changed.
    """
    columns: frozenset[str] | None = None
    """The columns in which the sheet has had values so far; None if they are not known."""
    missing: frozenset[str] = frozenset()
    """The columns of `columns` that had no values in the last round."""
    headers: tuple[str, ...] = ()
    """The sheet's headers that petsync does not use."""
    unnumbered: frozenset[int] = frozenset()
    """The ids of the pets whose rows have no id."""
    missing_since: Mapping[int, str] = field(default_factory=dict)
    """By id, the time (ISO 8601 in UTC) at which petsync found that a pet was neither in the sheet
    nor in the store any more.
    """
    unsure_units: Mapping[int, Collection[str]] = field(default_factory=dict)
    """By id, the units (`petsync.plan.fields.UNITS`) of the pet's row that may come from a backup:
    their values may be older than the store's.
    """
    source_rows: Mapping[str, SourceRow] = field(default_factory=dict)
    """In a workbook of failed rows: where each row is from, by the text in its cell of the column
    `original_row`.
    """
    owners: Mapping[str, str] = field(default_factory=dict)
    """In a workbook of failed rows: the owners of fields in the plan of their run."""
    match_on: tuple[str, ...] = ()
    """In a workbook of failed rows: the columns by which that plan matched rows without an id."""
    whole_order: pd.Series[Any] | None = field(default=None, compare=False, repr=False)
    """The ids of all rows in their order, if `pets` are only some of them; otherwise None."""
    _sheet_rows: list[pd.DataFrame] = field(default_factory=list, init=False, repr=False)
    _ids: list[frozenset[int]] = field(default_factory=list, init=False, repr=False)
    _digests: list[str] = field(default_factory=list, init=False, repr=False)
    _checksums: list[str] = field(default_factory=list, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.pets)

    @property
    def frame(self) -> pd.DataFrame:
        """The pets as a DataFrame, see `PetTable.frame`."""
        return self.pets.frame

    @property
    def rows(self) -> pd.DataFrame:
        """The pets for comparisons, see `PetTable.rows`."""
        return self.pets.rows

    @property
    def order(self) -> pd.Series[Any]:
        """The ids of all rows in their order."""
        return self.rows["id"] if self.whole_order is None else self.whole_order

    @property
    def ids(self) -> frozenset[int]:
        """The ids of the base's pets."""
        if not self._ids:  # Cached, because a round uses it many times.
            self._ids.append(frozenset(ids_of(self.rows)))
        return self._ids[0]

    @property
    def sheet_rows(self) -> pd.DataFrame:
        """`rows`, but with the pets of `sheet_pets`."""
        if not self.sheet_pets:
            return self.rows
        if not self._sheet_rows:  # Cached, too.
            ids = self.ids
            pets = [pet for pet_id, pet in self.sheet_pets.items() if pet_id in ids]
            self._sheet_rows.append(self.with_pets(pets).rows if pets else self.rows)
        return self._sheet_rows[0]

    def without(self, ids: Collection[int]) -> Base:
        """Return the base without these pets."""
        keep = ~has_id_in(self.rows, ids)
        if keep.all():
            return self
        sheet_pets = {pet_id: pet for pet_id, pet in self.sheet_pets.items() if pet_id not in ids}
        unsure = {pet_id: units for pet_id, units in self.unsure_units.items() if pet_id not in ids}
        return replace(
            self,
            pets=pets_by_id(self.rows[keep]),
            sheet_pets=sheet_pets,
            unsure_units=unsure,
        )

    def with_pets(self, pets: Sequence[Pet]) -> Base:
        """Return the base with these pets. Each replaces the base's pet with the same id."""
        if not pets:
            return self
        others = self.rows[~has_id_in(self.rows, {pet.id for pet in pets})]
        return replace(self, pets=pets_by_id(join_rows([others, rows_from_pets(pets)])))

    @property
    def digest(self) -> str:
        """The SHA-256 of the base as JSON. It does not depend on the format of `to_lines`."""
        if not self._digests:  # Cached, too.
            pets = _encode_pets(self.pets)
            parts = [msgspec.json.encode(self._header()), pets]
            parts += [self._encode_sheet_pets()] if self.sheet_pets else []
            self._digests.append(hashlib.sha256(b"\n".join(parts)).hexdigest())
        return self._digests[0]

    @property
    def checksum(self) -> str:
        """The checksum of the lines from which the base was read; "" for any other base."""
        return self._checksums[0] if self._checksums else ""

    def to_lines(self) -> list[str]:
        """Return the base as lines of plain ASCII that fit into cells."""
        first, second = msgspec.json.encode(self._header()), self._encode_sheet_pets()
        # Arrow reads the table faster if it is aligned.
        padding = b" " * (-(len(first) + len(second) + 2) % _ALIGNMENT)
        lines = b"\n".join([first + padding, second, b""])
        table = sorted_by_id(self.pets.table).combine_chunks()
        # Compute the size first, because a growing buffer would be copied repeatedly.
        sizer = pa.MockOutputStream()
        _write_table(table, sizer)
        data = pa.allocate_buffer(len(lines) + sizer.size())
        with pa.FixedSizeBufferWriter(data) as writer:
            writer.write(lines)
            _write_table(table, writer)
        return pack(data)

    def _encode_sheet_pets(self) -> bytes:
        return encode_pets([pet for _, pet in sorted(self.sheet_pets.items())])

    def _header(self) -> _Header:
        return _Header(
            store=self.store,
            taken_at=self.taken_at,
            pets=len(self),
            statuses=self.statuses,
            tags=self.tags,
            tab=self.tab or msgspec.UNSET,
            columns=msgspec.UNSET if self.columns is None else sorted(self.columns),
            missing=sorted(self.missing) or msgspec.UNSET,
            headers=self.headers or msgspec.UNSET,
            unnumbered=sorted(self.unnumbered) or msgspec.UNSET,
            gone=dict(sorted(self.missing_since.items())) or msgspec.UNSET,
            unsure={i: sorted(units) for i, units in sorted(self.unsure_units.items())}
            or msgspec.UNSET,
            source_rows=dict(self.source_rows) or msgspec.UNSET,
            owners=dict(self.owners) or msgspec.UNSET,
            match_on=self.match_on or msgspec.UNSET,
        )

    @staticmethod
    def read_store(lines: Iterable[str]) -> str:
        """Return the address of the store in lines that `to_lines` wrote. Raises ParcelError as
        `from_lines` does.
        """
        head, *_ = _split_lines(_unpack(lines).data)
        try:
            return decoder_of(_Header).decode(head).store
        except _UNREADABLE:
            raise ParcelError("they are not pets") from None

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> Base:
        """Return the base that `to_lines` wrote. Raises ParcelError if the lines are incomplete,
        changed, or not those of a base.
        """
        unpacked = _unpack(lines)
        head, first, second = _split_lines(unpacked.data)
        try:
            header = decoder_of(_Header).decode(head)
            if unpacked.version == _OLD_VERSION:
                # Few exports are as old as that.
                from petsync.table.decode import table_from_json

                pets = decode_pets(second.to_pybytes() or b"[]")
                table = table_from_json(first.to_pybytes())
            else:
                table, pets = _decode_table(second), decode_pets(first.to_pybytes())
        except _UNREADABLE:
            raise ParcelError("they are not pets") from None
        if len(table) != header.pets:
            raise ParcelError(f"they have {len(table):,} pets instead of {header.pets:,}")
        base = cls(
            pets=PetTable(table),
            store=header.store,
            taken_at=header.taken_at,
            statuses=header.statuses,
            tags=header.tags,
            tab=header.tab or "",
            sheet_pets={pet.id: pet for pet in pets if pet.id is not None},
            columns=None if header.columns is msgspec.UNSET else frozenset(header.columns),
            missing=frozenset(header.missing or ()),
            headers=header.headers or (),
            unnumbered=frozenset(header.unnumbered or ()),
            missing_since=header.gone or {},
            unsure_units=header.unsure or {},
            source_rows=header.source_rows or {},
            owners=header.owners or {},
            match_on=header.match_on or (),
        )
        base._checksums.append(unpacked.checksum)
        return base


def _split_lines(data: pa.Buffer) -> list[pa.Buffer]:
    """Return the first two lines and the other lines, without copying them. Missing parts are
    empty.
    """
    ends = [match.start() for match in itertools.islice(re.finditer(b"\n", data), 2)]
    ends += [data.size] * (3 - len(ends))
    starts = [0, *(min(end + 1, data.size) for end in ends)]
    return [data.slice(start, end - start) for start, end in zip(starts, ends, strict=False)]


def pets_by_id(frame: pd.DataFrame) -> PetTable:
    """Return the pets in the order of their ids."""
    is_sorted = frame["id"].is_monotonic_increasing
    ordered = frame if is_sorted else frame.sort_values("id", kind="stable")
    return PetTable(frame=ordered.reset_index(drop=True))


_UNREADABLE = (
    msgspec.DecodeError,
    UnicodeDecodeError,
    ResponseError,
    pa.ArrowException,
    OSError,  # Arrow raises it for a stream in another format.
    # Raised if the unknown fields of a pet do not have the format of SCHEMA's `extra`.
    AttributeError,
    IndexError,
    TypeError,
    ValueError,
)


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a base. Unset fields are omitted, so that a new field does not change the
    digest of an export.
    """

    store: str
    taken_at: str
    pets: int
    statuses: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    tab: str | msgspec.UnsetType = msgspec.UNSET
    columns: list[str] | msgspec.UnsetType = msgspec.UNSET
    missing: list[str] | msgspec.UnsetType = msgspec.UNSET
    headers: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    unnumbered: list[int] | msgspec.UnsetType = msgspec.UNSET
    gone: dict[int, str] | msgspec.UnsetType = msgspec.UNSET
    unsure: dict[int, list[str]] | msgspec.UnsetType = msgspec.UNSET
    source_rows: dict[str, SourceRow] | msgspec.UnsetType = msgspec.UNSET
    owners: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    match_on: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class _Label(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    id: int | None = None
    name: str | None = None


class _Row(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    tags: list[_Label]
    photo_urls: list[str] = msgspec.field(name="photoUrls")
    id: int | None = None
    name: str | None = None
    status: str | None = None
    category: _Label | None = None


def _encode_pets(pets: PetTable) -> bytes:
    """Return the pets as JSON, sorted by id."""
    frame = pets.rows
    if EXTRA in frame or not set(COLUMNS) <= set(frame):
        return encode_pets(pets_from_frame(frame.sort_values("id", kind="stable")))
    table = sorted_by_id(pets.table)
    if table[EXTRA].null_count < len(table):
        return encode_pets(pets_from_frame(rows_from_table(table)))
    tags, urls = (pc.list_flatten(table[name]) for name in LISTS)
    texts = (tags, urls, table["name"], table["status"], table["category"])
    if any(pc.any(pc.match_substring_regex(each, _ESCAPED)).as_py() for each in texts):
        values = rows_from_table(table)
        # Encode the rows one by one, because the garbage collector would repeatedly traverse a list
        # of all rows.
        rows = map(_json_row, *(plain_values(values[name].array) for name in COLUMNS))
        return b"[" + b",".join(map(msgspec.json.encode, rows)) + b"]"
    labels = _labels(pc.list_flatten(table[TAG_IDS]), tags)
    category = _labels(table["category_id"], table["category"])
    has_category = pc.or_(table["category_id"].is_valid(), table["category"].is_valid())
    lines = _concat(
        '{"tags":[',
        join_items(table["tags"], labels, ","),
        '],"photoUrls":[',
        join_items(table["photo_urls"], _concat('"', urls, '"'), ","),
        "]",
        _present(_concat(',"id":', table["id"].cast(_TEXT))),
        _present(_concat(',"name":"', table["name"], '"')),
        _present(_concat(',"status":"', table["status"], '"')),
        pc.if_else(has_category, _concat(',"category":', category), pa.scalar("", _TEXT)),
        "}",
    )
    flat = lines.combine_chunks()
    every = pa.LargeListArray.from_arrays(pa.array([0, len(flat)], pa.int64()), flat)
    joined: bytes = pc.binary_join(every, pa.scalar(",", _TEXT))[0].as_buffer().to_pybytes()
    return b"[" + joined + b"]"


def _concat(*parts: Any) -> Any:
    """Join the parts, columns or single texts, to one text for each row; null if a part is null."""
    columns = (pa.scalar(each, _TEXT) if isinstance(each, str) else each for each in parts)
    return pc.binary_join_element_wise(*columns, pa.scalar("", _TEXT))


def _present(column: Any) -> Any:
    return column.fill_null("")


def _labels(ids: Any, names: Any) -> Any:
    """Return categories or tags as JSON objects, without missing fields."""
    both = pc.and_(ids.is_valid(), names.is_valid())
    comma = pc.if_else(both, pa.scalar(",", _TEXT), pa.scalar("", _TEXT))
    number = _present(_concat('"id":', ids.cast(_TEXT)))
    return _concat("{", number, comma, _present(_concat('"name":"', names, '"')), "}")


def _json_row(
    number: int | None,
    name: str | None,
    status: str | None,
    category: str | None,
    category_id: int | None,
    tags: Sequence[Tag] | None,
    photo_urls: Sequence[str] | None,
) -> _Row:
    group = None if category is None and category_id is None else _Label(category_id, category)
    labels = [_Label(tag.id, tag.name) for tag in tags or ()]
    return _Row(labels, list(photo_urls or ()), number, name, status, group)


def _write_table(table: pa.Table, data: pa.NativeFile) -> None:
    with pa.ipc.new_stream(data, SCHEMA) as writer:
        writer.write_table(table)


def _decode_table(data: pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        if reader.schema != SCHEMA:
            raise ParcelError("they are not pets")
        table = reader.read_all()
    table.validate(full=True)
    # `to_lines` writes the name and the id of each tag, and does not compress the stream.
    are_pairs = pc.list_value_length(table["tags"]).equals(pc.list_value_length(table[TAG_IDS]))
    if not are_pairs or table.nbytes > data.size:
        raise ParcelError("they are not pets")
    if table[EXTRA].null_count < len(table):
        rows_from_table(table)  # fails if the unknown fields are malformed
    return without_duplicates(table)


# The base of a DataFrame: pandas keeps `attrs` in most frames that are made from one with them.


_ATTRIBUTE = "petsync base"


class _FrameBase(str):
    """The base of a DataFrame. It is a text that describes the base, because pandas writes `attrs`
    into Parquet as JSON; a frame that is read from there has no base.
    """

    base: Base

    def __new__(cls, base: Base) -> Self:
        made = super().__new__(cls, f"{len(base)} pets of {base.store}, read at {base.taken_at}")
        made.base = base
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[Base]]:
        return type(self), (self.base,)

    def __deepcopy__(self, _: object) -> Self:
        """Return the text itself: pandas copies `attrs` in each operation."""
        return self


def frame_with_base(base: Base) -> pd.DataFrame:
    """Return the base's pets as a DataFrame that a user may change, and that carries the base."""
    table = base.pets.table
    return carry_base(frame_from_table(table), replace(base, pets=PetTable(table=table)))


def carry_base(frame: pd.DataFrame, base: Base) -> pd.DataFrame:
    """Return the DataFrame itself, which carries the base from now on, unless it carries one."""
    if _ATTRIBUTE not in frame.attrs:
        frame.attrs[_ATTRIBUTE] = _FrameBase(base)
    return frame


def base_of_frame(frame: pd.DataFrame) -> Base | None:
    """Return the base that the frame carries, None if it carries none."""
    found = frame.attrs.get(_ATTRIBUTE)
    return found.base if isinstance(found, _FrameBase) else None
