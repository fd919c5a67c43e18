"""The other sheets of the same store: rows that moved between sheets, and lost files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from petsync.config.model import Job
from petsync.errors import PetsyncError
from petsync.models import Pet
from petsync.plan.base import compare_rows, with_missing
from petsync.plan.change import Snapshot
from petsync.plan.fields import COLUMNS_OF, UNITS, Unit, Vocabulary, cell, normalize
from petsync.plan.intake import mask_in_scope
from petsync.plan.lineage import actions_of, find_alike, read_row_pets, slots_of
from petsync.plan.match import pets_of
from petsync.plan.rounds import Difference
from petsync.reconcile.compare import Comparer, Comparison
from petsync.reconcile.context import Reconciliation, RoundContext
from petsync.reconcile.sources import Source, sources_of
from petsync.reconcile.start import (
    RoundStart,
    SheetStateFiles,
    is_before,
    with_lost,
    with_unsure,
)
from petsync.reconcile.state import (
    BaseFile,
    StatePaths,
    StoredBase,
    find_older_copy,
    find_pets_lacking_id,
    find_reverted,
    find_written_cells,
)
from petsync.settings import is_same_address
from petsync.store import Store
from petsync.table.arrow import PetTable
from petsync.table.base import Base
from petsync.table.frame import (
    frame_from_pets,
    has_id_in,
    ids_of,
    join_rows,
    lacks_id,
    pets_at,
    pets_from_frame,
)
from petsync.table.sheet import Sheet

__all__ = [
    "find_last_restore",
    "find_left_pets",
    "find_rows_elsewhere",
    "note_second_rows",
    "remove_moved_pets",
    "sources_of_other_jobs",
    "with_claims",
    "with_last_bases",
    "with_siblings",
]


# Rows that moved to another sheet: their pets are not missing, and belong to that sheet's base.


_LISTED = 3


def with_claims(
    context: RoundContext, sheet: Sheet, snapshot: Snapshot, start: RoundStart, comparer: Comparer
) -> RoundStart:
    """Return the start with `claimed`: the pets of its base that are in no row but may have a row
    in another sheet of the store.

    A pet is claimed if a row of another sheet may be its row, if the other sheets cannot be read,
    or if it was in a file that is no longer in its folder. If an older copy of another sheet was
    restored, the rows of the other missing pets may have moved to that sheet: these pets become
    `lost`.
    """
    base, job = start.base, context.job
    own = frozenset[int]() if base is None else base.ids
    start = replace(start, own=own if start.own is None else own & start.own)
    if job.mode not in ("two-way", "push"):
        return start
    files = _note_lost_files(context, sheet, snapshot, comparer)
    start = replace(start, notes=(*start.notes, *files))
    if base is None or not (job.mode == "two-way" or job.delete_missing):
        return start
    ids = base.ids - sheet.named_ids - comparer.elsewhere
    missing_pets = {pet.id or 0: pet for pet in pets_of(sorted(ids), base.rows)}
    there = {*ids_of(snapshot.rows)}
    problem, found, elsewhere = "", dict[int, str](), dict[int, Path]()
    lost_ids, restored = frozenset[int](), list[str]()
    try:
        for source in _iter_other_sources(context, comparer.store.url) if missing_pets else ():
            claims = _iter_named_ids(source.read(comparer.store), missing_pets, base.unnumbered)
            found |= dict.fromkeys(claims, source.name)
        elsewhere = (
            _find_orphaned_pets(context, comparer.store.url, missing_pets.keys() - found.keys())
            if missing_pets
            else {}
        )
        problem = _describe_moved({i: found[i] for i in sorted(found.keys() & there)})
        lost_ids = frozenset(missing_pets.keys() & there - found.keys() - elsewhere.keys())
        lost_ids -= find_pets_lacking_id(sheet, lost_ids, base)
        restored = [*_iter_backups_since(context, comparer, base)] if lost_ids else []
    except PetsyncError as error:
        found = dict.fromkeys(missing_pets, "")
        problem = (
            "no pet is deleted as missing, because its row may be in a sheet that could not be "
            f"read: {error.problem}"
        )
    lost_notes = [Difference(kind="note", problem=problem)] if problem else []
    if restored:
        more = [_note_lost_row(job, pet_id, restored[0]) for pet_id in sorted(lost_ids)]
        start = replace(
            start,
            base=with_lost(base, lost_ids),
            lost=start.lost | lost_ids,
            lost_notes=(*start.lost_notes, *(more if job.delete_missing else ())),
            before_loss=start.before_loss or base,
        )
    notes = (*start.notes, *(lost_notes if job.delete_missing else ()))
    return replace(start, claimed=frozenset({*found, *elsewhere}), notes=notes)


def remove_moved_pets(
    context: RoundContext, base: Base, own: frozenset[int], named_ids: frozenset[int]
) -> None:
    """Remove pets that are new in this sheet's `base` from the bases of the folder's other sheets.

    Pets in `own` stay. Pets in `named_ids` are also removed from the bases of files that are no
    longer in the folder. Raises PetsyncError if the folder, or a base, cannot be read or written.
    """
    job = context.job
    if job.folder is None:
        return
    new, named_ids = base.ids - own, base.ids & named_ids
    away = _find_orphaned_bases(context, job)
    path_of_own = context.owner.paths.base(job.name, context.round.part)
    for path in (*away, *context.owner.paths.bases(job.name)) if new else away:
        ids = new | named_ids if path in away else new
        file = BaseFile(path)
        memory = file.load(set_aside=False) if path != path_of_own else StoredBase()
        if memory.base is not None and not memory.is_older and ids & memory.base.ids:
            file.keep(memory.base.without(ids), memory.carried, memory.runs, memory.checksum)


def _find_orphaned_bases(context: RoundContext, job: Job) -> dict[Path, str]:
    """Return the base files whose sheet is no longer in the folder, each with the sheet's name.
    Raises PetsyncError.
    """
    paths = context.owner.paths
    there = {paths.base(job.name, each.part) for each in sources_of(job)}
    return {path: part for path, part in paths.bases(job.name).items() if path not in there}


def _find_orphaned_pets(context: RoundContext, store: str, ids: Iterable[int]) -> dict[int, Path]:
    """Return the given pets that were in a file that is no longer in its folder, each with the path
    of that file's base. Raises PetsyncError.
    """
    wanted, found = {*ids}, dict[int, Path]()
    for job in _iter_leading_jobs(context, store):
        for path in _find_orphaned_bases(context, job) if wanted and job.folder is not None else ():
            base = BaseFile(path).load(set_aside=False).base
            if base is not None and is_same_address(base.store, store):
                found |= dict.fromkeys(wanted & base.ids, path)
    return found


def sources_of_other_jobs(owner: Reconciliation, job: Job) -> Iterator[Source]:
    """Yield the files of the other enabled jobs of the job's store, except those that only check,
    each with the base of its last round.
    """
    for other in owner.config.jobs:
        is_other = other.enabled and other.mode != "check" and other.name != job.name
        if is_other and is_same_address(other.url, job.url):
            with suppress(PetsyncError):
                files = [each for each in sources_of(other) if each.path is not None]
                yield from with_last_bases(owner.paths, files)


def find_rows_elsewhere(
    others: Iterable[Source], store: Store, ids: Collection[int]
) -> dict[int, str]:
    """Return the sheets in `others` that have rows for these pets, each with its job, by pet id.

    A sheet is read only if its last round had one of the pets. Sheets that cannot be read are left
    out.
    """
    found: dict[int, str] = {}
    for source in others:
        with suppress(PetsyncError):
            base = None if source.last is None else source.last()
            if base is None or not is_same_address(base.store, store.url):
                continue
            if wanted := base.ids & ({*ids} - found.keys()):
                named = wanted & source.read(store).named_ids
                found |= dict.fromkeys(named, f"{source.name} (job {source.job.name})")
    return found


def note_second_rows(context: RoundContext, comparison: Comparison) -> Iterator[Difference]:
    """Yield a note on each row whose pet, after the plan, is not among the pets that this job
    covers, but among those for which another job adds rows to its own sheet. Jobs that cover all
    pets are left out: they have second rows anyway.
    """
    job, seen = context.job, comparison.seen.rows
    others = [
        each
        for each in context.owner.config.jobs
        if each.enabled and each.name != job.name and each.sheet is not None
        if each.mode in ("two-way", "pull") and (each.statuses or each.tags)
        if is_same_address(each.url, job.url)
    ]
    if not others or not (job.statuses or job.tags):
        return
    sight, inside = comparison.row_comparison, mask_in_scope(seen, job.statuses, job.tags)
    places = {
        row: place
        for row, place in zip(sight.rows, sight.places, strict=True)
        if place >= 0 and not inside[place]
    }
    pets = dict(zip(places, pets_at(seen, [*places.values()]), strict=True))
    planned = ((each.row, each.after) for each in comparison.plan.changes)
    pets |= {row: pet for row, pet in planned if row is not None and pet is not None}
    frame = frame_from_pets([*pets.values()])
    is_left = ~mask_in_scope(frame, job.statuses, job.tags)
    masks = [(each, is_left & mask_in_scope(frame, each.statuses, each.tags)) for each in others]
    for at, (row, pet) in enumerate(pets.items()):
        covering = [f"job {each.name} ({each.sheet})" for each, mask in masks if mask[at]]
        if covering:
            tags = f" and the tags {cell(pet, 'tags')!r}" if job.tags else ""
            yield Difference(
                kind="note",
                problem=f"with the status {pet.status!r}{tags}, the pet is not among those that "
                "this job covers, and its row stays in this sheet. It has or gets another row in "
                f"the sheet of {' and '.join(covering)}",
                pet_id=pet.id,
                name=pet.name or "",
                row=row,
                address=comparison.sheet.address(row, "status"),
                hint="To keep only that row, remove this one after the round: a job does not "
                "delete a pet that it does not cover.",
            )


def find_last_restore(
    context: RoundContext, sheet: Sheet, start: RoundStart, comparer: Comparer
) -> str:
    """For a two-way job with a folder, return when an older copy of another sheet of the store was
    last restored, in ISO 8601, if rows without an id may come from that sheet; else return "". A
    sheet that cannot be read counts as an older copy.
    """
    base, found = start.base, ""
    if comparer.folder is None or context.job.mode != "two-way" or base is None:
        return found
    if not slots_of(sheet):
        return found
    try:
        for source in _iter_other_sources(context, comparer.store.url):
            files = SheetStateFiles.for_sheet(context.owner.paths, source.job.name, source.part)
            found = max([found, *(each.undone_at for each in files.versions.all())])
        is_restored = any(_iter_backups_since(context, comparer, base))
    except PetsyncError:
        is_restored = True
    return context.round.started if is_restored else found


def find_left_pets(
    context: RoundContext, sheet: Sheet, start: RoundStart, comparer: Comparer
) -> dict[int, Pet]:
    """Return pets that other sheets of the store had in their last round and that no row names
    now, as those sheets had them.

    A row without an id in this sheet may be the row of such a pet, moved here and edited. A pet of
    another job is included only if it has the same name as a row without an id. Sheets of another
    job that cannot be read are ignored.
    """
    slots = slots_of(sheet) if context.job.mode in ("push", "two-way") else {}
    store = comparer.store.url
    if not slots:
        return {}
    own = sheet.named_ids | comparer.elsewhere
    own |= frozenset() if start.base is None else start.base.ids
    rows = sheet.rows.loc[sorted(slots)]
    names = {normalize(name) for name in rows["name"].dropna()} if "name" in rows else set[str]()
    found: dict[int, Pet] = {}
    for job in _iter_leading_jobs(context, store):
        of_others: dict[int, Pet] = {}
        paths = (context.owner.paths.base(job.name), *context.owner.paths.bases(job.name))
        for base in _iter_bases(paths, store):
            frame = base.sheet_rows[~has_id_in(base.sheet_rows, own)]
            if job.name != context.job.name:
                frame = frame[frame["name"].map(normalize, na_action="ignore").isin(names)]
            of_others |= {pet.id or 0: pet for pet in pets_from_frame(frame)}
        if of_others and job.name != context.job.name:
            for pet_id in _find_readable_ids(job, comparer):
                of_others.pop(pet_id, None)
        found |= of_others
    return found


def _find_readable_ids(job: Job, comparer: Comparer) -> set[int]:
    """Return the ids that the job's sheets name. Sheets that cannot be read are skipped."""
    found: set[int] = set()
    with suppress(PetsyncError):
        for source in sources_of(job):
            with suppress(PetsyncError):
                found |= source.read(comparer.store).named_ids
    return found


def _iter_backups_since(context: RoundContext, comparer: Comparer, base: Base) -> Iterator[str]:
    """Yield the names of the store's other sheets that were replaced by an older copy since a round
    stored this sheet's base. Raises PetsyncError.
    """
    for source in _iter_other_sources(context, comparer.store.url):
        if _is_restored(context, source, comparer, base.taken_at):
            yield source.name


def _note_lost_row(job: Job, pet_id: int, sheet: str) -> Difference:
    return Difference(
        kind="note",
        problem="its row is no longer in the sheet, and the pet is not deleted: the row may have "
        f"moved to {sheet}, where an older copy was restored",
        pet_id=pet_id,
        hint="" if job.folder is not None else "To remove the pet, delete it in the store.",
    )


def _is_restored(context: RoundContext, source: Source, comparer: Comparer, since: str) -> bool:
    """Return true if the sheet is a restored older copy, or was one in a round after `since`."""
    files = SheetStateFiles.for_sheet(context.owner.paths, source.job.name, source.part)
    versions = files.versions.all()
    for each in versions:
        if each.is_back or (each.undone_at and is_before(since, each.undone_at)):
            return True
    memory = files.base.load(set_aside=False)
    if memory.base is None or not versions:
        return False
    sheet = source.read(comparer.store)
    if comparer.folder is not None and source.job == context.job:
        sheet = comparer.folder.with_moved_rows(source.part, sheet, memory.base.ids)
    carried = memory.digest_carried(sheet.base)
    other = carried if carried != memory.carried else ""
    return bool(find_older_copy(sheet, versions, memory.base, other).versions)


def _note_lost_files(
    context: RoundContext, sheet: Sheet, snapshot: Snapshot, comparer: Comparer
) -> Iterator[Difference]:
    """Yield a conflict for each file that is no longer in the folder and had pets of the store that
    no row names now. Raises PetsyncError.
    """
    if context.job.folder is None or not comparer.is_first:
        return
    listed = {*ids_of(snapshot.rows)} - sheet.named_ids
    for path, name in _find_orphaned_bases(context, context.job).items():
        base = BaseFile(path).load(set_aside=False).base
        if base is None or not is_same_address(base.store, comparer.store.url):
            continue
        missing_pets = {pet.id or 0: pet for pet in pets_of(sorted(base.ids & listed), base.rows)}
        if not missing_pets:
            continue
        sheets_now = [
            sheet,
            *(each.read(comparer.store) for each in _iter_other_sources(context, base.store)),
        ]
        named = {pet_id for each in sheets_now for pet_id in _iter_named_ids(each, missing_pets)}
        if ids := sorted(missing_pets.keys() - named):
            yield _note_lost_file(path, name, ids)


def _note_lost_file(path: Path, name: str, ids: Sequence[int]) -> Difference:
    some = ", ".join(map(str, ids[:_LISTED]))
    more = f" and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
    pets = "pet" if len(ids) == 1 else "pets"
    return Difference(
        kind="conflict",
        problem=f"the file {name} is no longer in the folder: its pets that are now in no row are "
        f"not deleted ({pets} {some}{more})",
        hint="Restore the file, or move its rows into another file. To delete these pets: remove "
        f"{path}, which records the file's rows, and delete the pets in the store.",
    )


def _iter_other_sources(context: RoundContext, store: str) -> Iterator[Source]:
    """Yield the other sheets of jobs that send to the store."""
    own = (context.job.name, context.round.part)
    for job in _iter_leading_jobs(context, store):
        others = [each for each in sources_of(job) if (job.name, each.part) != own]
        yield from with_last_bases(context.owner.paths, others)


def with_last_bases(paths: StatePaths, sources: Iterable[Source]) -> Iterator[Source]:
    """Yield the sources, each with the base of its last round."""
    for source in sources:
        file = BaseFile(paths.base(source.job.name, source.part))
        yield replace(source, last=partial(_load_base, file))


def _load_base(file: BaseFile) -> Base | None:
    return file.load(set_aside=False).base


def _iter_leading_jobs(context: RoundContext, store: str) -> Iterator[Job]:
    """Yield this job and the enabled jobs, without those that do not send to the store."""
    for job in context.owner.config.jobs:
        is_included = job.enabled or job.name == context.job.name
        if is_included and job.mode in ("push", "two-way") and is_same_address(job.url, store):
            yield job


def _iter_named_ids(
    sheet: Sheet, pets: Mapping[int, Pet], unnumbered: Collection[int] = frozenset()
) -> Iterator[int]:
    """Yield the given pets to which a row refers or may refer: by its id or, without an id, by its
    name or by similar values. A pet may be yielded several times.

    A row without an id may also belong to any pet in `unnumbered`.
    """
    yield from sheet.named_ids & pets.keys()
    frame = sheet.rows
    rows = frame.index[lacks_id(frame)]
    row_pets = read_row_pets(sheet, rows, Vocabulary(frame_from_pets([*pets.values()])))
    names = {normalize(each.name) for each in row_pets.values()} - {""}
    yield from (pet_id for pet_id, pet in pets.items() if normalize(pet.name) in names)
    yield from (pet.id or 0 for pet in find_alike(row_pets, pets.values()).values())
    if "" in actions_of(sheet, row_pets).values():
        yield from pets.keys() & unnumbered


def _describe_moved(found: Mapping[int, str]) -> str:
    if not found:
        return ""
    some = ", ".join(f"pet {pet_id} ({name})" for pet_id, name in [*found.items()][:_LISTED])
    more = f" and {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
    return f"not missing, because another sheet has, or may have, the row: {some}{more}"


# Rows that came from another sheet: their agreed values come from that sheet's base. Without that
# base, each cell of a moved row, or of a renamed file or job, would count as an edit.


def with_siblings(
    context: RoundContext, comparison: Comparison, start: RoundStart, comparer: Comparer
) -> RoundStart:
    """Return the start; its base also has pets from the bases of other sheets, if rows of this
    sheet refer to them.

    If an older copy of another sheet was restored, their values are marked unsure. A pet that was
    missing on both sides is not added again from a row unless a user requests it.
    """
    if context.job.mode != "two-way":
        return start
    base, store = start.base, comparer.store.url
    own = frozenset[int]() if base is None else base.ids
    sight = comparison.row_comparison
    # A row whose pet is not in the store counts as different, too: for this sheet's base it would
    # be a new pet.
    unlisted = {i for i, at in zip(sight.ids, sight.places, strict=True) if at < 0}
    wanted = unlisted - own
    if sight.differing:
        pairs = zip(sight.rows, sight.ids, strict=True)
        wanted |= {i for row, i in pairs if row in sight.differing} - own
    # Only a base shows which of a category's cells was edited.
    wanted |= sight.cells.keys() - own
    new = {*sight.ids} - own if comparer.folder is not None else set[int]()
    others = [*_iter_other_bases(context, store)] if wanted or new else []
    # A moved row may have had values in a column that is empty or missing here. They count again
    # once the column has values.
    left = frozenset[str]()
    for each in others:
        lacking = (each.columns or frozenset()) - sight.filled_columns - {"id", "action"}
        if lacking and new & each.ids:
            wanted |= new & each.ids
            left |= lacking
    parts = _select_bases(comparison, others, wanted)
    missing_since = {
        i: on
        for each in (*others, base)
        if each is not None
        for i, on in each.missing_since.items()
    }
    forgotten = missing_since.keys() & unlisted - own - {i for each in parts for i in each.ids}
    if forgotten and base is not None:
        # The agreed values are unknown now: in every field, both sides may have changed.
        base = base.with_pets([Pet(id=i) for i in sorted(forgotten)])
        base = replace(
            base, missing_since={**base.missing_since, **{i: missing_since[i] for i in forgotten}}
        )
        start = replace(start, base=base)
    if not parts:
        return start
    count = sum(map(len, parts))
    first = base or replace(parts[0].without(parts[0].ids), taken_at=context.round.started)
    frame = join_rows([each.rows for each in (first, *parts)])
    frame = frame.sort_values("id", kind="stable", ignore_index=True)
    sheet_pets = {
        pet_id: pet for each in (*parts, first) for pet_id, pet in each.sheet_pets.items()
    }
    unsure = {
        pet_id: units for each in (*parts, first) for pet_id, units in each.unsure_units.items()
    }
    columns = None if first.columns is None else first.columns | left
    merged = replace(
        first,
        pets=PetTable(frame=frame),
        sheet_pets=sheet_pets,
        unsure_units=unsure,
        columns=columns,
    )
    merged = with_missing(merged, comparison.sheet) or merged
    moved_ids = frozenset(i for each in parts for i in each.ids)
    if comparer.folder is not None and any(_iter_backups_since(context, comparer, first)):
        merged = with_unsure(merged, dict.fromkeys(moved_ids, UNITS))
    merged = with_unsure(merged, _find_older_values(context, comparison.sheet, merged, moved_ids))
    rows = "1 row is new here, and is" if count == 1 else f"{count:,} rows are new here, and are"
    note = Difference(
        kind="note", problem=f"{rows} compared using the values agreed on with another sheet"
    )
    return replace(start, base=merged, notes=(*start.notes, note))


def _find_older_values(
    context: RoundContext, sheet: Sheet, base: Base, ids: Collection[int]
) -> dict[int, tuple[Unit, ...]]:
    """Return, by pet, the units in which a row that moved here has an old value, from before a
    round wrote the row in another file of the folder. Such a row may come from an older copy of the
    file.
    """
    found: dict[int, tuple[Unit, ...]] = {}
    for source in sources_of(context.job) if ids and context.job.folder is not None else ():
        if source.part == context.round.part:
            continue
        name = (context.job.name, source.part)
        versions = SheetStateFiles.for_sheet(context.owner.paths, *name).versions.all()
        cells = {cell for cell in find_written_cells(versions) if cell[0] in ids}
        columns = {column for _, column in cells if column is not None}
        if not columns:
            continue
        moved = base.without(base.ids - {pet_id for pet_id, _ in cells})
        for pet_id, units in find_reverted(sheet, versions, moved, columns).items():
            written = [u for u in units if any((pet_id, c) in cells for c in COLUMNS_OF[u])]
            found[pet_id] = (*found.get(pet_id, ()), *written)
    return {pet_id: units for pet_id, units in found.items() if units}


def _select_bases(comparison: Comparison, others: Sequence[Base], wanted: set[int]) -> list[Base]:
    """Return the other bases, limited to the wanted pets. Each pet is in only one of them: in a
    base whose values the pet's row still has, or else in the newest.
    """
    parts: list[Base] = []
    # A pet without a status is lost in that base (see `with_lost`): the base has no agreed values
    # for it.
    known = [other.without(ids_of(other.rows[other.rows["status"].isna()])) for other in others]
    for is_any in (False, True):
        for other in known:
            found = other.without(other.ids - wanted)
            if not is_any:
                seen = replace(comparison.seen, pets=PetTable(frame=found.sheet_rows))
                sight = compare_rows(comparison.sheet, seen, comparison.pet_ids, found)
                pairs = zip(sight.rows, sight.ids, strict=True)
                found = found.without({i for row, i in pairs if sight.differing.get(row)})
            wanted = wanted - found.ids
            parts += [found] if len(found) else []
    return parts


def _iter_other_bases(context: RoundContext, store: str) -> Iterator[Base]:
    """Yield the bases of the store's other sheets, the newest first; then the previous bases,
    limited to pets that the bases before them lack.
    """
    own = context.owner.paths.base(context.job.name, context.round.part)
    there = [path for path in own.parent.glob("*.base") if path != own]
    before = [BaseFile(path).previous for path in there]
    known: set[int] = set()
    for paths in (there, before):
        for base in sorted(_iter_bases(paths, store), key=lambda b: b.taken_at, reverse=True):
            yield base.without(known) if paths is before else base
            known |= base.ids


def _iter_bases(paths: Iterable[Path], store: str) -> Iterator[Base]:
    """Yield the bases of this store in these files; files that cannot be read are left out."""
    for path in paths:
        try:
            base = BaseFile(path).load(set_aside=False).base
        except PetsyncError:
            continue
        if base is not None and is_same_address(base.store, store):
            yield base
