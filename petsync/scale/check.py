"""Check a sheet of several files: its findings, without all rows in memory."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync._files import is_in_parts
from petsync._options import reject_unknown, show_keywords
from petsync.errors import SettingsError
from petsync.scale.parts import PartFolder, PartWriter, read_part
from petsync.scale.reduce import KEY, ORDER, ROW
from petsync.scale.sheets import FileRows, OddCells, Rest, SheetFiles, find_exported, read_status
from petsync.sheets.files import changed_error, must_not_be_address
from petsync.sheets.read import Table, as_edited, read_file
from petsync.sheets.validate.own import Observed
from petsync.table.arrow import SCHEMA, PetTable, sorted_by_id
from petsync.table.base import Base
from petsync.table.options import ReadOptions, SheetKeywords
from petsync.table.rules import RuleResult
from petsync.table.sheet import FILE_ROWS, Findings, Sheet

__all__ = ["check_files", "check_sheet"]

_Mask = npt.NDArray[np.bool_]
_PARTS = 64
_IS_NEW = "is new"
_KEYS = pa.schema([(KEY, pa.int64()), (ORDER, pa.int64()), (_IS_NEW, pa.bool_())])
"""A hash of an id, a content or a rule's key; the ORDER of the row; and whether the row makes
findings in rows with the same hash possible.
"""
_ID_SEED, _TEXT_SEED, _FIRST_RULE_SEED = 1, 2, 3
_FACTOR = np.uint64(0xD1B54A32D192ED03)


@show_keywords(SheetKeywords, ReadOptions)
def check_sheet(path: str | Path | Table | Sheet, **options: Unpack[SheetKeywords]) -> Findings:
    """Return the findings of a sheet, as `petsync check` lists them: of a file or a table, as
    `read_sheet` reads it, of a Sheet with the changes of its frame, or of all files of a folder
    (`"big"`), of a pattern (`"new/*.csv"`) or in a large Parquet file.

    The files of a folder or a pattern are Parquet, CSV or JSON Lines. They are checked in parts, so
    they need not fit into memory. Raises the errors of `read_sheet`, and SettingsError for options
    and rules that cannot apply to several files.
    """
    reject_unknown(options, "check_sheet", SheetKeywords)
    if isinstance(path, Sheet):
        if options:
            raise SettingsError(
                f"{' and '.join(options)} cannot apply to a Sheet, which is already read",
                hint="Leave the option out, or give the path of the file.",
            )
        return as_edited(path).findings
    read_options = ReadOptions.of(options)
    if not isinstance(path, str | Path) or not is_in_parts(path):
        return read_file(path, read_options).findings
    must_not_be_address(path)
    if given := [name for name in ("tab", "corrections") if options.get(name)]:
        raise SettingsError(
            f"{' and '.join(given)} cannot apply to {path}, which is checked in parts",
            hint="Leave the option out, or give the path of one file.",
        )
    return check_files(path, read_options).findings


def check_files(path: str | Path, options: ReadOptions) -> Sheet:
    """Return the sheet of several files with the findings of all rows. Its frame has only the rows
    with findings, and the rows with which they have findings together; `agreeing` is the number of
    the other rows. Its `rules` count all rows.

    The memory depends on the rows with findings, not on the others; temporary files have a few
    bytes for each row. Raises SheetError if a file cannot be read or changes meanwhile, and
    SettingsError for a rule that needs all rows at once.
    """
    for rule in options.rules:
        if rule.enabled and rule.applies_to == "sheet" and rule.problem_in_parts:
            raise SettingsError(
                f"the rule {rule.name!r} ({rule.kind}) {rule.problem_in_parts}, and {path} is "
                "checked in parts",
                hint="Read the files with pandas, and check the DataFrame (ps.read_sheet).",
            )
    with tempfile.TemporaryDirectory(prefix="petsync-") as folder:
        return _Check(SheetFiles.find(path, options), Path(folder) / "keys").run()


@dataclass(slots=True)
class _Check:
    """One check. It reads the files twice if rows of different parts may have findings together."""

    files: SheetFiles
    folder: Path
    rows: int = 0
    """The number of all rows."""
    tables: list[pa.Table] = field(default_factory=list)
    """The rows that are read together."""
    odd: dict[int, OddCells] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    """The counts of each rule for the other rows, as in `RuleResult`."""
    statuses: frozenset[str] = frozenset()
    """The statuses of the pets at the export."""

    def run(self) -> Sheet:
        """Return the sheet."""
        found = find_exported(self.files)
        base, refused = (None, found) if isinstance(found, str) else (found, "")
        self.statuses = _read_statuses(base)
        before = [read_status(path) for path in self.files.files]
        related = self._find_related()
        self._add_related(related)
        for path, status in zip(self.files.files, before, strict=True):
            if read_status(path) != status:
                raise changed_error(path)
        rows = pa.concat_tables(self.tables) if self.tables else self.files.schema.empty_table()
        rows = rows.sort_by(ROW)
        checked = self.files.read(Rest(rows=rows, odd=self.odd, statuses=self.statuses))
        if base is not None:
            own = _with_pets(base, checked.named_ids)
            rest = Rest(rows=rows, odd=self.odd, statuses=self.statuses, base=own)
            checked = replace(self.files.read(rest), base=own)
        return replace(
            checked,
            base_refused=refused,
            agreeing=self.rows - len(rows),
            rules=tuple(map(self._add_counts, checked.rules)),
        )

    def _find_related(self) -> npt.NDArray[np.int64]:
        """Collect the rows with findings. Return the other rows, by ORDER, that share a key with
        another row: together, such rows may have findings.
        """
        writer = PartWriter(self.folder, _PARTS, _KEYS, KEY)
        headless = set[int]()
        last: tuple[FileRows, int] | None = None
        taken = []
        for part, place in self._iter_parts():
            observed = Observed()
            mask = _find_noted(part, part.validate(observed))
            for position, at in observed.first_filled.items():
                if position not in headless:
                    headless.add(position)
                    mask[at] = True
            # The first and the last row of a sheet are read as such.
            mask[:1] |= last is None
            self._take(part, mask)
            taken.append(place + np.flatnonzero(mask))
            self._count(observed, ~mask, 1)
            for keys in _iter_keys(observed, place):
                writer.write(keys)
            self.rows += len(mask)
            last = part, place
        writer.close()
        related = [np.array([], np.int64), *(map(_find_shared, map(writer.read, range(_PARTS))))]
        if last is not None:
            related.append(np.array([last[1] + len(last[0].table) - 1]))
        found: npt.NDArray[np.int64] = np.setdiff1d(
            np.concatenate(related), np.concatenate([*taken, np.array([], np.int64)])
        )
        return found

    def _add_related(self, related: npt.NDArray[np.int64]) -> None:
        """Collect these rows, given by ORDER."""
        wanted = {*(related // FILE_ROWS).tolist()}
        for part, place in self._iter_parts(wanted):
            mask = np.isin(np.arange(place, place + len(part.table)), related)
            if mask.any():
                observed = Observed()
                part.validate(observed)
                self._take(part, mask)
                self._count(observed, mask, -1)

    def _iter_parts(self, wanted: set[int] | None = None) -> Iterator[tuple[FileRows, int]]:
        """Yield the parts of the files that are not empty, with ORDER of the first row of each."""
        for number, path in enumerate(self.files.files):
            if wanted is not None and number not in wanted:
                continue
            place = number * FILE_ROWS
            for part in self.files.iter_rows(path, number * FILE_ROWS, self.statuses):
                if len(part.table):
                    yield part, place
                    place += len(part.table)

    def _take(self, part: FileRows, mask: _Mask) -> None:
        if not mask.any():
            return
        table = part.table.filter(pa.array(mask))
        self.tables.append(table)
        numbers = {*table[ROW].to_pylist()}
        self.odd |= {row: odd for row, odd in part.odd.items() if row in numbers}

    def _count(self, observed: Observed, mask: _Mask, sign: int) -> None:
        for name, rule in observed.rules.items():
            counts = self.counts.setdefault(name, Counter())
            counts["rows"] += sign * int((rule.active & mask).sum())
            counts["looked"] += sign * int((rule.known & mask).sum())

    def _add_counts(self, result: RuleResult) -> RuleResult:
        counts = self.counts.get(result.name, Counter())
        return replace(
            result, rows=result.rows + counts["rows"], looked=result.looked + counts["looked"]
        )


def _find_noted(part: FileRows, sheet: Sheet) -> _Mask:
    """Return a mask of the rows with findings, and of those that are blocked."""
    rows = {*(each.row for each in sheet.problems), *sheet.blocked}
    mask: _Mask = np.isin(part.table[ROW].to_numpy(), [*rows])
    return mask


def _iter_keys(observed: Observed, place: int) -> Iterator[pa.Table]:
    """Yield the keys of rows; rows with equal keys may have findings together."""
    ids = observed.ids
    has_id = np.flatnonzero(~np.asarray(ids.isna()))
    numbers = np.asarray(ids[has_id]).astype(np.int64).view(np.uint64)
    yield _table_of(numbers, _ID_SEED, place + has_id, np.ones(len(has_id), dtype=bool))
    if observed.contents is not None:
        at = np.arange(len(observed.contents))
        yield _table_of(observed.contents, _TEXT_SEED, place + at, observed.without_id)
    for number, name in enumerate(sorted(observed.rules), _FIRST_RULE_SEED):
        rule = observed.rules[name]
        if rule.keys is not None:
            at = np.flatnonzero(rule.known)
            is_new = np.ones(len(at), dtype=bool)
            yield _table_of(rule.keys[at], number, place + at, is_new)


def _table_of(
    hashes: npt.NDArray[np.uint64], seed: int, order: npt.NDArray[np.int64], is_new: _Mask
) -> pa.Table:
    keys = ((hashes + np.uint64(seed)) * _FACTOR).view(np.int64)
    return pa.table([pa.array(keys), pa.array(order), pa.array(is_new)], schema=_KEYS)


def _find_shared(keys: pa.Table) -> npt.NDArray[np.int64]:
    """Return the rows, by ORDER, that share a key with other rows, if one of these rows is marked
    as new.
    """
    frame = pd.DataFrame({name: keys[name].to_numpy() for name in keys.column_names})
    frame = frame[frame[KEY].duplicated(keep=False)]
    is_concerned = frame.groupby(KEY)[_IS_NEW].transform("any")
    found: npt.NDArray[np.int64] = frame.loc[is_concerned, ORDER].to_numpy(np.int64)
    return found


# The pets at the export.


def _read_statuses(base: PartFolder | Base | None) -> frozenset[str]:
    tables = []
    if isinstance(base, Base):
        tables = [base.pets.table]
    elif base is not None:
        parts = range(len(base.manifest.parts))
        tables = [read_part(*base.locate(n), columns=["status"]) for n in parts]
    unique = (pc.unique(each["status"]).drop_null().to_pylist() for each in tables)
    return frozenset(itertools.chain.from_iterable(unique))


def _with_pets(base: PartFolder | Base, ids: Collection[int]) -> Base:
    """Return the base with these pets."""
    if isinstance(base, Base):
        return base.without(base.ids.difference(ids))
    wanted, manifest = pa.array([*ids], pa.int64()), base.manifest
    parts = map(base.read, range(len(manifest.parts)))
    found = [each.filter(pc.is_in(each["id"], value_set=wanted)) for each in parts]
    return Base(
        pets=PetTable(sorted_by_id(pa.concat_tables([SCHEMA.empty_table(), *found]))),
        store=manifest.store,
        taken_at=manifest.taken_at,
        statuses=manifest.coverage.statuses,
    )
