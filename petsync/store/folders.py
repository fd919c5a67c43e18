"""Sheets in folders: compare the parts of sheet and store one by one, and the remaining rows
together.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from petsync.client.api import AsyncApi
from petsync.errors import SheetError
from petsync.models import Category, Tag
from petsync.plan import lineage
from petsync.plan.change import Snapshot
from petsync.plan.compare import appearance
from petsync.plan.fields import Usage, normalize
from petsync.scale.executors import LocalProcesses, Workers
from petsync.scale.parts import BASE_FOLDER, PartFolder, measure_files, part_of, write_part
from petsync.scale.reduce import (
    KEY,
    ORDER,
    ROW,
    PartFiles,
    Reduced,
    Wanted,
    are_equal,
    are_wanted,
    find_named,
    reduce_part,
)
from petsync.scale.sheets import (
    Rest,
    SheetFiles,
    SplitFiles,
    find_exported,
    find_files,
    find_repeated,
    split_files,
)
from petsync.scale.snapshot import PARTS, snapshot_to
from petsync.store.runs import RunHistory
from petsync.table.arrow import SCHEMA, PetTable, sorted_by_id
from petsync.table.base import Base
from petsync.table.columns import COLUMNS
from petsync.table.lists import TextSet
from petsync.table.options import ReadOptions
from petsync.table.sheet import FILE_ROWS, Sheet

__all__ = ["FolderComparer"]

_MOST_WARNINGS = 100_000
"""The maximum number of rows that agree and whose warnings are listed."""
_MOST_BESIDE = 400_000
"""The maximum number of rows that agree and are compared because the row next to them differs: they
show whether a column was sorted or shifted without its rows.
"""
_MIN_EDITS, _MIN_KNOWN = 3, 2
"""The minimum number of edits in a column that was sorted or shifted, and how many of them are
values of other rows that differ.
"""
_GROUPS = 16
"""The maximum number of groups of files that are split at the same time, and of parts that are
searched for names.
"""

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class FolderComparer:
    """Compares sheets in folders with one store."""

    api: AsyncApi
    history: RunHistory

    async def read(
        self,
        path: str | Path,
        options: ReadOptions,
        statuses: Sequence[str],
        *,
        store: PartFolder | None = None,
        keep: Iterable[int] = (),
        with_unnamed: bool = True,
        executor: Executor | None = None,
    ) -> tuple[Snapshot, Sheet]:
        """Return a snapshot of the store and the sheet, both without the rows that agree with their
        pets and have nothing in common with other rows and pets.

        Without `with_unnamed`, the snapshot also lacks most pets that are in no row and have
        nothing in common with a row, if they are many. If no row has an id, any pet may be a row's
        pet.

        `store` is a snapshot of the store; without one, the store is read. The pets with
        the ids in `keep` stay. `executor` computes the parts; without one, processes on this
        machine do. Temporary files take the space of both sides. Raises SheetError if the sheet
        cannot be read, and the errors of `snapshot`.
        """
        size, number = 0, 1
        if executor is None or isinstance(executor, LocalProcesses):
            size, number = await asyncio.to_thread(_measure, Path(path), store)
        with (
            # After an error, parts that are computed elsewhere may still write into the folder.
            tempfile.TemporaryDirectory(prefix="petsync-", ignore_cleanup_errors=True) as temporary,
            Workers(executor, size, number) as workers,
        ):
            files = await asyncio.to_thread(SheetFiles.find, path, options, workers.run)
            exported = await asyncio.to_thread(find_exported, files)
            number = _find_number(path, exported, store)
            folder = Path(temporary)
            (folder / "sheet").mkdir()
            groups = _GROUPS if workers.has_workers else 1
            tasks = files.tasks(groups, folder / "sheet", number, _MOST_WARNINGS)
            now, split = await _both(
                self._take_snapshot(store, statuses, folder / "store", number),
                asyncio.to_thread(lambda: [*workers.run(split_files, tasks)]),
            )
            if store is None:
                workers.start_early(max(size, await asyncio.to_thread(now.measure)))
            base = await asyncio.to_thread(_split_base, exported, folder / "base", number)
            has_ids = any(sum(each.rows) > len(each.unnumbered) for each in split)
            with_unnamed = with_unnamed or not has_ids
            most_unnamed = sys.maxsize if with_unnamed else _find_share(number)
            parts = [
                PartFiles(
                    sheet=tuple(each.parts[n] for each in split),
                    in_place=tuple(
                        (first, read)
                        for each in split
                        for part, first, read in each.in_place
                        if part == n
                    ),
                    schema=files.schema,
                    columns=files.columns,
                    store=now.locate(n),
                    base=None if base is None else base.parts[n],
                    validate=files.validator,
                    has_rules=any(each.applies_to == "sheet" for each in options.rules),
                    most=-(-_MOST_WARNINGS // number),
                    most_unnamed=most_unnamed,
                )
                for n in range(number)
            ]
            whole = _Whole(now, files, split, base and base.about, parts, workers)
            await asyncio.to_thread(whole.reduce)
            repeated = await asyncio.to_thread(whole.find_repeated)
            ids = await asyncio.to_thread(self._find_recorded_ids, base and base.about)
            await asyncio.to_thread(whole.add_named, {*keep, *ids}, repeated)
            refused = exported if isinstance(exported, str) else ""
            # The rules looked at more rows than are in this sheet.
            return whole.snapshot, replace(whole.sheet, base_refused=refused, rules=())

    async def _take_snapshot(
        self, store: PartFolder | None, statuses: Sequence[str], folder: Path, number: int
    ) -> PartFolder:
        return store or await snapshot_to(self.api, statuses, folder, number)

    def _find_recorded_ids(self, base: Base | None) -> set[int]:
        """Return the ids about which the journal has information that the sheet, its base and the
        store lack.
        """
        journal, url = self.history.journal, self.api.session.base_url
        renumbered = journal.read_renumbered(url)
        ids: set[int | None] = {*journal.read_reused(url), *journal.read_removed(url)}
        ids |= {*renumbered, *(each.pet_id for each in renumbered.values())}
        ids |= {*journal.read_restored(url)}
        ids |= {each.pet_id for each in journal.read_row_records(url, with_undone=True)}
        if base is not None:
            ids |= {*journal.read_changed_ids(url, base.taken_at)}
        return {each for each in ids if each is not None}


async def _both(first: Awaitable[T], second: Awaitable[U]) -> tuple[T, U]:
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _measure(path: Path, store: PartFolder | None) -> tuple[int, int]:
    """Return the uncompressed size of the larger side in bytes, and the number of the parts. A base
    that cannot be read counts as none: the plan reports it.
    """
    files, kind = find_files(path)
    folder = (path if path.is_dir() else path.parent) / BASE_FOLDER
    base = None
    if folder.is_dir() and not path.is_file():
        with suppress(SheetError):
            base = PartFolder.open(folder)
    sides = [each for each in (base, store) if each is not None]
    is_parquet = kind == "Parquet"
    own = measure_files(files) if is_parquet else sum(each.stat().st_size for each in files)
    number = len(sides[0].manifest.parts) if sides else PARTS
    return max([own, *(each.measure() for each in sides)]), number


def _find_number(
    path: str | Path, base: PartFolder | Base | str | None, store: PartFolder | None
) -> int:
    """Return the number of parts. Raises SheetError if the base and the store differ in it."""
    given = [each for each in (base, store) if isinstance(each, PartFolder)]
    numbers = {len(each.manifest.parts) for each in given}
    if len(numbers) > 1:
        raise SheetError(
            f"{path} and the snapshot have different numbers of parts: "
            f"{' and '.join(map(str, sorted(numbers)))}",
            hint="Take the snapshot with `partitions` as in the export.",
        )
    return numbers.pop() if numbers else PARTS


class _BaseParts(NamedTuple):
    """A base in parts."""

    about: Base
    """The base without its pets."""
    parts: Sequence[tuple[Path, str]]
    """The path and the SHA-256 of each part."""


def _find_share(number: int) -> int:
    """Return the maximum number of pets in each of this number of parts, if all parts together have
    at most MAX_LOST_PAIRS. Above that number, a row is not compared with pets of other names.
    """
    mean = lineage.MAX_LOST_PAIRS / number
    # Ten standard deviations: the hash spreads the pets at random.
    return int(mean + 10 * math.sqrt(mean))


def _split_base(
    base: PartFolder | Base | str | None, folder: Path, number: int
) -> _BaseParts | None:
    """Return the base in this number of parts; a CSV file's base is written into a new folder."""
    none = PetTable(SCHEMA.empty_table())
    if isinstance(base, PartFolder):
        manifest = base.manifest
        about = Base(
            pets=none,
            store=manifest.store,
            taken_at=manifest.taken_at,
            statuses=manifest.coverage.statuses,
        )
        return _BaseParts(about, [base.locate(n) for n in range(number)])
    if not isinstance(base, Base):
        return None
    folder.mkdir()
    table = sorted_by_id(base.pets.table)
    owners = part_of(table["id"].to_numpy(), number)
    parts = []
    for n in range(number):
        path = folder / f"{n:05d}.parquet"
        parts.append((path, write_part(path, table.filter(pa.array(owners == n))).sha256))
    return _BaseParts(replace(base, pets=none), parts)


class _Whole:
    """The comparison as a whole: the rows and pets of all parts that do not simply agree."""

    def __init__(
        self,
        store: PartFolder,
        files: SheetFiles,
        split: Sequence[SplitFiles],
        base: Base | None,
        parts: Sequence[PartFiles],
        workers: Workers,
    ) -> None:
        self._store, self._files, self._split = store, files, split
        counts = [rows for each in split for rows in each.rows]
        names = [path.name for path in files.files]
        self._starts = np.cumsum([0, *counts])
        """The position of each file's first row among the rows of all files, and their number."""
        self._total = int(self._starts[-1])
        digests = [digest for each in split for digest in each.digests]
        text = "".join(f"{name}\n{digest}\n" for name, digest in zip(names, digests, strict=True))
        self._digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        self._odd = {row: odd for each in split for row, odd in each.odd.items()}
        self._base, self._parts, self._workers = base, parts, workers
        self._found: list[Reduced] = []

    def reduce(self) -> None:
        """Compare the parts."""
        self._add([*self._workers.run(reduce_part, self._parts)])

    def _add(self, found: Sequence[Reduced]) -> None:
        if found:
            self._found += found
            for name in ("_rows", "_pets", "sheet"):
                self.__dict__.pop(name, None)

    def find_repeated(self) -> frozenset[int]:
        """Return the rows, by ORDER, that may break a rule `unique`."""
        parts = [*zip(*(each.values for each in self._split), strict=True)]
        return frozenset(itertools.chain.from_iterable(self._workers.run(find_repeated, parts)))

    def add_named(self, ids: Iterable[int], rows: frozenset[int]) -> None:
        """Add the pets with these ids, those of these rows, by ORDER, and the pets that have a name
        or a photo in common with the rows.
        """
        wanted = self._find_wanted(ids)
        wanted = replace(wanted, rows=wanted.rows | rows)
        find = partial(find_named, wanted=wanted)
        found = self._workers.run(find, self._parts, groups=_GROUPS)
        self._add([each for each in found if each.rows or each.pets or each.base])

    def _find_wanted(self, ids: Iterable[int]) -> Wanted:
        """Return what other pets may have in common with the rows without a pet, and with the rows
        whose pet has another name.
        """
        rows, pets, sheet = self._rows, self._pets, self.sheet
        keys = pc.fill_null(rows[KEY], 0).to_numpy()
        places = pd.Index(pets["id"].to_numpy()).get_indexer(pd.Index(keys))
        places[np.array(rows[KEY].is_null())] = -1
        is_new = places < 0
        names, photos = set[str](), set[str]()
        if (header := self._files.columns.get("name")) is not None:
            own = pets["name"].take(pa.array(np.where(is_new, 0, places))) if len(pets) else None
            cells = rows[header].cast(pa.large_string())
            is_other = is_new
            if own is not None:
                is_other = is_new | np.array(pc.fill_null(pc.not_equal(cells, own), True))
            names = {*map(normalize, pc.unique(cells.filter(pa.array(is_other))).to_pylist())}
            names |= {appearance(name) for name in names if not name.isascii()}
        if (header := self._files.columns.get("photo_urls")) is not None:
            for cell in rows[header].filter(pa.array(is_new)).to_pylist():
                urls = cell.split() if isinstance(cell, str) else cell or ()
                photos |= {normalize(url) for url in urls}
        wanted = Wanted(
            names=TextSet(names - {""}),
            photos=TextSet(photos - {""}),
            ids=frozenset({*ids, *self._read_uncertain_ids(sheet)}),
            rows=self._find_neighbours(sheet) | self._find_beside(sheet.base),
        )
        renamed = pa.concat_tables([each.renamed for each in self._found])
        more = renamed["id"].filter(pa.array(are_wanted(renamed, wanted))).to_pylist()
        return replace(wanted, ids=wanted.ids.union(more))

    def _read_uncertain_ids(self, sheet: Sheet) -> set[int]:
        """Return the ids in the rows that are not in a part, because their ids must be validated.
        Other rows may have the same ids.
        """
        rows = [row for each in self._split for row in each.unnumbered[ROW].to_pylist()]
        found = {sheet.blocked_pets[row] for row in rows if row in sheet.blocked_pets}
        if "id" in sheet.rows:
            found.update(sheet.rows["id"].reindex(rows).dropna().tolist())
        return found

    def _find_neighbours(self, sheet: Sheet) -> frozenset[int]:
        """Return, by ORDER, the nearest rows above and below the rows without a usable id, if these
        neighbours agree with their pets.
        """
        frame = sheet.rows
        has_id = frame.index[frame["id"].notna()] if "id" in frame else frame.index[:0]
        here = self._find_positions()
        lacking = np.sort(here[~np.isin(self._rows[ROW].to_numpy(), has_id)])
        is_start = np.diff(lacking, prepend=-2) > 1
        is_end = np.diff(lacking, append=self._total + 2) > 1
        around = np.concatenate((lacking[is_start] - 1, lacking[is_end] + 1))
        around = around[(around >= 0) & (around < self._total)]
        return self._find_orders(np.setdiff1d(around, here))

    def _find_beside(self, base: Base | None) -> frozenset[int]:
        """Return, by ORDER, the rows that agree and are next to rows that differ, if a column may
        have been sorted or shifted, and they are not too many.
        """
        if base is None or not self._may_be_moved(base.pets.table):
            return frozenset()
        here = self._find_positions()
        beside = np.setdiff1d(np.concatenate((here - 1, here + 1)), here)
        beside = beside[(beside >= 0) & (beside < self._total)]
        return self._find_orders(beside[:0] if len(beside) > _MOST_BESIDE else beside)

    def _may_be_moved(self, base: pa.Table) -> bool:
        """Return true if a column has several edits, and two of them are values that the rows had
        at the export.
        """
        rows = self._rows
        ids = pd.Index(pc.fill_null(rows[KEY], 0).to_numpy())
        places = pd.Index(base["id"].to_numpy()).get_indexer(ids)
        at = np.flatnonzero(places >= 0)
        for column, header in self._files.columns.items():
            if column not in COLUMNS or column == "id":
                continue
            cells = rows[header].take(pa.array(at)).combine_chunks()
            values = base[column].take(pa.array(places[at])).combine_chunks()
            is_edited = ~are_equal(cells, values)
            if is_edited.sum() < _MIN_EDITS:
                continue
            new, old = _fold(cells.filter(pa.array(is_edited))), _fold(values)
            if (
                new is None
                or old is None
                or types.is_nested(cells.type) != types.is_nested(values.type)
            ):
                return True
            if np.count_nonzero(pc.is_in(new, value_set=pc.unique(old))) >= _MIN_KNOWN:
                return True
        return False

    def _find_positions(self) -> npt.NDArray[np.int64]:
        """Return the positions of the rows among the rows of all files."""
        files, positions = np.divmod(self._rows[ORDER].to_numpy(), FILE_ROWS)
        found: npt.NDArray[np.int64] = self._starts[files] + positions
        return found

    def _find_orders(self, positions: npt.NDArray[np.int64]) -> frozenset[int]:
        """Return the rows at these positions among the rows of all files, by ORDER."""
        files = np.searchsorted(self._starts, positions, side="right") - 1
        return frozenset((files * FILE_ROWS + positions - self._starts[files]).tolist())

    @cached_property
    def _rows(self) -> pa.Table:
        return _join(
            [*(each.unnumbered for each in self._split), *(each.rows for each in self._found)], ROW
        )

    @cached_property
    def _pets(self) -> pa.Table:
        return sorted_by_id(_join([each.pets for each in self._found], "id"))

    @cached_property
    def sheet(self) -> Sheet:
        """The sheet, with its base."""
        statuses = {*itertools.chain.from_iterable(each.statuses for each in self._found)}
        base = None
        if self._base is not None:
            pets = PetTable(sorted_by_id(_join([each.base for each in self._found], "id")))
            base = replace(self._base, pets=pets)
        rows = self._rows.sort_by(ROW)
        rest = Rest(rows=rows, odd=self._odd, statuses=frozenset(statuses), base=base)
        sheet = self._files.read(rest)
        return replace(
            sheet,
            source=self._files.source,
            base=base,
            digest=self._digest,
            agreeing=self._total - len(rows),
            unlisted=sum(each.unlisted for each in self._split)
            + sum(each.unlisted for each in self._found),
        )

    def _count_unnamed(self) -> tuple[int, int]:
        """Return the number of the store's other pets that are in no row, and how many of these the
        base lacks.
        """
        reduced, named = self._found[: len(self._parts)], self._found[len(self._parts) :]
        unnamed, unexported = (
            sum(getattr(each, name) for each in reduced) for name in ("unnamed", "unexported")
        )
        if unnamed and named:
            known = pa.concat_tables([each.pets for each in reduced])["id"]
            added = _join([each.pets for each in named], "id")["id"]
            rows = pa.concat_tables([each.rows for each in named])[KEY]
            base = pa.concat_tables([each.base for each in named])["id"]
            added = _leave_out(_leave_out(added, known), rows)
            unnamed -= len(added)
            unexported -= len(_leave_out(added, base))
        return unnamed, unexported

    @property
    def snapshot(self) -> Snapshot:
        """The store's pets."""
        manifest, pets = self._store.manifest, self._pets
        categories, tags = Counter[Category](), Counter[Tag]()
        for each in self._found:
            categories += each.categories
            tags += each.tags
        unnamed, unexported = self._count_unnamed()
        return Snapshot(
            pets=PetTable(pets),
            coverage=manifest.coverage,
            source=manifest.store,
            taken_at=datetime.fromisoformat(manifest.taken_at),
            reread=manifest.reread,
            left_out=manifest.pets - len(pets),
            unnamed=unnamed,
            unexported=unexported,
            usage=Usage(categories, tags),
        )


def _fold(values: pa.Array) -> pa.Array | None:
    """Return texts that are equal for equal values, in any case; None for values of other types."""
    kind = values.type
    try:
        if types.is_nested(kind):
            lists = values.cast(pa.large_list(pa.large_string()))
            texts = pc.binary_join(lists, pa.scalar("\n", pa.large_string()))
        else:
            texts = values.cast(pa.large_string())
    except pa.ArrowException:
        return None
    return pc.utf8_lower(pc.utf8_trim_whitespace(texts))


def _leave_out(ids: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    is_other = pc.is_in(ids, value_set=others.combine_chunks())
    return ids.filter(pc.invert(is_other))


def _join(tables: Sequence[pa.Table], key: str) -> pa.Table:
    """Return the rows of all tables, one of each key."""
    joined = pa.concat_tables(tables)
    is_repeated = pd.Series(joined[key].to_numpy()).duplicated().to_numpy()
    return joined.filter(pa.array(~is_repeated)).combine_chunks()
