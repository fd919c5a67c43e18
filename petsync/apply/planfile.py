"""Plan files: JSON or Parquet, readable only by the owner, written atomically.

A Parquet file has a row for each change, conflict and blocked row, so that other programs can query
it. petsync reads the changes from it block by block: they need not fit into memory.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

import msgspec

from petsync._files import checked_path, find_target, is_file, write_atomically
from petsync._json import decoder_of
from petsync.errors import PlanError
from petsync.plan.arguments import checked_plan
from petsync.plan.change import Blocked, Change, Conflict, LongChanges
from petsync.plan.plan import Plan, build_changed_error, decode_saved_plan, decode_store

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = [
    "PLAN_KEY",
    "copy_long_plan",
    "is_plan_file",
    "is_replaceable",
    "load_plan",
    "read_long_plan",
    "read_store",
    "save_plan",
    "write_long_plan",
]

_PARQUET = ".parquet"
"""The suffix of plan files in Parquet."""
_DOCUMENTS = (".html", ".htm", ".xlsx", ".csv", ".md", ".txt")
"""The suffixes of documents to read, from which no plan can be loaded."""
PLAN_KEY, _BLOCKS = b"petsync.plan", b"petsync.blocks"
"""The names of the file's metadata: the plan without its lists, and the number of row groups with
changes.
"""
_BLOCK = 2_048
"""The number of changes in a row group."""

_DAMAGE = (ValueError, LookupError, TypeError, NotImplementedError)
"""The errors of a damaged file, besides OSError without an errno."""

R = TypeVar("R", Conflict, Blocked)


def save_plan(plan: Plan, path: str | Path) -> Path:
    """Write the plan to a file that only its owner can read, and return the path: as Parquet if the
    path ends with `.parquet`, else as JSON.

    Raises PlanError if the path has the suffix of a document, another file than a plan has this
    name, the file cannot be written, or an argument has another type.
    """
    plan, target = checked_plan(plan), checked_path(path, "plan.json", PlanError)
    if target.suffix.casefold() in _DOCUMENTS:
        raise PlanError(
            f"{target}: a plan that can be applied is saved as .json or .parquet",
            hint="To read the plan, write a page (`petsync plan SHEET -o plan.html`) or a workbook "
            "(-o plan.xlsx).",
        )
    if not is_replaceable(target):
        raise PlanError(
            f"{target} is not a plan: it would be overwritten",
            hint="Name another file, or remove this one.",
        )
    if target.suffix.casefold() == _PARQUET:
        write_atomically(
            target, lambda file: write_long_plan(plan, file), private=True, error=PlanError
        )
    else:
        write_atomically(target, plan.to_json(), private=True, error=PlanError)
    return target


def is_replaceable(path: Path) -> bool:
    """Return false if the file at the path is not a plan: writing a plan would lose its content."""
    if not is_file(path) or not path.stat().st_size:
        return True
    if path.suffix.casefold() == _PARQUET:
        return is_plan_file(path)
    try:
        with path.open("rb") as file:
            return _PLAN_START.match(file.read(64)) is not None
    except OSError:
        # Writing the plan raises the error.
        return True


_PLAN_START = re.compile(rb'\s*\{\s*"fingerprint"\s*:')


def load_plan(path: str | Path) -> Plan:
    """Return the plan in a file.

    Raises PlanError if the file cannot be read, was edited, or has no plan in the format of this
    version of petsync.
    """
    source = checked_path(path, "plan.json", PlanError)
    try:
        if source.exists():
            find_target(source)
        if source.suffix.casefold() == _PARQUET:
            return read_long_plan(source, str(source))
        return Plan.from_json(source.read_bytes(), str(source))
    except OSError as error:
        raise PlanError(
            f"{source} cannot be read: {error.strerror or error}",
            hint="Make a plan with `petsync plan SHEET -o PLAN.json`.",
        ) from None


def read_store(path: Path) -> str:
    """Return the address of the store that a plan names. Checks the plan only if it cannot be read:
    raises the errors of `load_plan` then.
    """
    try:
        if path.suffix.casefold() != _PARQUET:
            return decode_store(path.read_bytes())
        return decode_store(_open(path).schema_arrow.metadata[PLAN_KEY])
    except (OSError, RecursionError, *_DAMAGE):
        return load_plan(path).store


def is_plan_file(path: str | Path) -> bool:
    """Return true if the file is a plan by its name (.json) or, as Parquet, by its content. A JSON
    file that begins with a list is a sheet.
    """
    source = Path(path)
    if source.suffix.casefold() == ".json":
        return not _is_list(source)
    if source.suffix.casefold() != _PARQUET or not is_file(source):
        return False
    try:
        return PLAN_KEY in (_open(source).schema_arrow.metadata or {})
    except (OSError, *_DAMAGE):
        return False


def _is_list(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4096).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")
    except OSError:
        return False


# Plans in Parquet.


def write_long_plan(plan: Plan, file: IO[bytes], block: int = _BLOCK) -> None:
    """Write the plan as Parquet, with at most `block` changes in each row group."""
    import pyarrow.parquet as pq

    rest = msgspec.structs.replace(plan, changes=(), conflicts=(), blocked=())
    saved = msgspec.json.encode({"fingerprint": plan.fingerprint, "plan": rest})
    blocks = -(-len(plan.changes) // block)
    schema = _build_schema().with_metadata({PLAN_KEY: saved, _BLOCKS: str(blocks)})
    with pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer:
        for first in range(0, len(plan.changes), block):
            changes = plan.changes[first : first + block]
            pets = [change.after if change.before is None else change.before for change in changes]
            _write_rows(
                writer,
                changes,
                kinds=[change.kind for change in changes],
                names=[pet.name for pet in pets],
                fields=[change.fields for change in changes],
            )
        if conflicts := plan.conflicts:
            _write_rows(
                writer,
                conflicts,
                kinds=["conflict"] * len(conflicts),
                names=[each.name for each in conflicts],
                fields=[[clash.column for clash in each.clashes] for each in conflicts],
            )
        if rows := plan.blocked:
            _write_rows(
                writer,
                rows,
                kinds=["blocked"] * len(rows),
                names=[row.name for row in rows],
                fields=[()] * len(rows),
            )


def read_long_plan(source: Path | bytes, where: str, *, is_trusted: bool = False) -> Plan:
    """Return the plan in a Parquet file, or in its content. The file stays open, so that the plan
    can be used after the file was replaced or deleted. If it `is_trusted`, its fingerprint is not
    checked.

    Raises PlanError if the file is damaged or was edited, or has no plan in the format of this
    version of petsync.
    """
    with _refuse_damage(where):
        file = _open(source)
        metadata = file.schema_arrow.metadata or {}
        if PLAN_KEY not in metadata:
            raise PlanError(
                f"{where} is not a plan of petsync",
                hint="Make a plan with `petsync plan SHEET -o PLAN.parquet`.",
            )
        fingerprint, plan = decode_saved_plan(metadata[PLAN_KEY], where)
        blocks, groups = int(metadata[_BLOCKS]), file.metadata
        if (
            not file.schema_arrow.equals(_build_schema())
            or not 0 <= blocks <= groups.num_row_groups
        ):
            raise ValueError("its columns or row groups are not those of a plan")
        sizes = [groups.row_group(number).num_rows for number in range(blocks)]
        rest = range(blocks, groups.num_row_groups)
        plan = msgspec.structs.replace(
            plan,
            changes=LongChanges(sizes, partial(_read_block, file, where)),
            conflicts=tuple(_decode_rows(file, rest, "conflict", Conflict)),
            blocked=tuple(_decode_rows(file, rest, "blocked", Blocked)),
        )
    if is_trusted:
        plan.remember_fingerprint(fingerprint)
    elif plan.fingerprint != fingerprint:
        raise build_changed_error(where)
    return plan


def copy_long_plan(plan: Plan) -> Plan:
    """Return a plan with `LongChanges` that reads a copy of the file in memory. Raises
    PlanError if the file has changed since the plan was loaded.
    """
    file = BytesIO()
    write_long_plan(plan, file)
    copy = read_long_plan(file.getvalue(), "the plan file")
    if isinstance(copy.changes, LongChanges):
        copy.changes.packed = copy.fingerprint, file.getvalue()
    return copy


def _build_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("kind", pa.string()),
            ("id", pa.int64()),
            ("name", pa.string()),
            ("row", pa.int64()),
            ("source", pa.string()),
            ("fields", pa.list_(pa.string())),
            ("json", pa.large_string()),
        ]
    )


def _open(source: Path | bytes) -> pq.ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    opened = pa.BufferReader(source) if isinstance(source, bytes) else pa.OSFile(str(source))
    return pq.ParquetFile(opened, page_checksum_verification=True)


def _read_block(file: pq.ParquetFile, where: str, number: int) -> bytes:
    """Return the changes in a row group as JSON, with commas between them."""
    with _refuse_damage(where):
        return ",".join(_read_column(file, number, "json")).encode()


def _read_column(file: pq.ParquetFile, group: int, column: str) -> list[str]:
    texts: list[str] = file.read_row_group(group, columns=[column]).column(0).to_pylist()
    return texts


def _decode_rows(
    file: pq.ParquetFile, groups: Iterable[int], kind: str, row_type: type[R]
) -> Iterator[R]:
    """Yield the rows of a kind in these row groups. All rows of a group have the same kind."""
    decoder = decoder_of(row_type)
    for group in groups:
        if _read_column(file, group, "kind")[0] == kind:
            yield from map(decoder.decode, _read_column(file, group, "json"))


@contextmanager
def _refuse_damage(where: str) -> Iterator[None]:
    """In the block, raise PlanError if the file is damaged. An OSError of the system stays."""
    try:
        yield
    except (OSError, *_DAMAGE) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = (str(error).splitlines() or [""])[0]
        raise PlanError(f"{where} is damaged: {reason}", hint="Make the plan again.") from None


def _write_rows(
    writer: pq.ParquetWriter,
    rows: Sequence[Change | Conflict | Blocked],
    *,
    kinds: Sequence[str],
    names: Sequence[str | None],
    fields: Sequence[Sequence[str]],
) -> None:
    import pyarrow as pa

    columns = {
        "kind": kinds,
        "id": [row.pet_id for row in rows],
        "name": names,
        "row": [row.row for row in rows],
        "source": [row.source for row in rows],
        "fields": fields,
        "json": [msgspec.json.encode(row).decode() for row in rows],
    }
    writer.write_table(pa.table(columns, schema=writer.schema), row_group_size=len(rows))
