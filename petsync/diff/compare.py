"""The comparison itself: a snapshot and a sheet become a plan. Pure: same input, same plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from petsync.diff import align
from petsync.diff.alike import (
    come_since,
    exchanged_note,
    has_ids,
    in_a_copy,
    looking_alike,
    namesakes,
    namesakes_note,
    open_rows,
    renamed,
    under_other_ids,
)
from petsync.diff.change import Add, Blocked, Change, Conflict, Update
from petsync.diff.decide import Decisions, Found
from petsync.diff.guard import Guard, Verdict
from petsync.diff.known import pets_of
from petsync.diff.letters import strange_letters
from petsync.diff.lineage import Match, Renumbered, Restored, Slot, actions_of, said_in, slots_of
from petsync.diff.missing import missing
from petsync.diff.plan import Plan, PlanOptions
from petsync.diff.resolve import notes_of
from petsync.diff.sentinel import moved_since
from petsync.diff.shifted import shifted
from petsync.diff.sides import Sides
from petsync.diff.since import base_of
from petsync.diff.snapshot import Snapshot
from petsync.diff.units import COLUMNS_OF, UNITS
from petsync.diff.uploads import Uploads
from petsync.profile import STANDARD, ServiceProfile
from petsync.table.base import Base
from petsync.table.columns import COLUMNS, Column
from petsync.table.frame import no_collection
from petsync.table.sheet import Finding, Sheet

__all__ = ["compare", "unproved"]

_ORDER = {"add": 0, "update": 2, "delete": 3}
_CORRECTED = 200
_DEFAULT_OPTIONS = PlanOptions()
_DEFAULT_GUARD = Guard()

unproved = align.unproved


def compare(
    snapshot: Snapshot,
    sheet: Sheet,
    *,
    found: Found,
    created: str,
    options: PlanOptions = _DEFAULT_OPTIONS,
    guard: Guard = _DEFAULT_GUARD,
    profile: ServiceProfile = STANDARD,
    uploads: Uploads | None = None,
    matches: Mapping[int, Match] | None = None,
    undone: Mapping[int, str] | None = None,
    restored: Mapping[int, Restored] | None = None,
    renumbered: Mapping[int, Renumbered] | None = None,
) -> Plan:
    """The plan that brings the store to what the sheet says.

    `found` answers, for every id of `unproved(sheet.frame, snapshot.frame)`, what getPetById
    says: the pet, or None for a 404. `created` is the moment, ISO 8601. Photos that `uploads`
    added are not taken away by a sheet that does not know of them. `matches` says which rows
    without an id earlier runs know, as `identify` finds them. `undone` gives, for the pets that
    undos took away, the run that was undone, and `restored` those that undos changed, as these left
    them; `renumbered` the pets that the store has under another id than they were added with.

    By the base that the sheet carries, what was edited since the export is told from what was
    not. Raises PlanError where it carries one that cannot be used, unless `options.two_way`.
    """
    with no_collection():
        known = {} if matches is None else matches
        base = base_of(sheet, snapshot.source, two_way=options.two_way)
        decisions = Decisions(
            snapshot,
            sheet,
            found,
            options,
            profile,
            base,
            uploads,
            known,
            undone,
            restored,
            renumbered,
        )
        return _compared(snapshot, sheet, decisions, created, options, guard, profile, base, known)


def _compared(
    snapshot: Snapshot,
    sheet: Sheet,
    decisions: Decisions,
    created: str,
    options: PlanOptions,
    guard: Guard,
    profile: ServiceProfile,
    base: Base | None,
    matches: Mapping[int, Match],
) -> Plan:
    decided, lookalikes = decisions.changes(), list[Conflict]()
    unnamed = snapshot.frame[~decisions.sides.named]
    if not options.match_on and not has_ids(sheet):
        remarks = decisions.remarks
        identical = {row: remarks.recognised[row] for row in remarks.identical}
        decided, lookalikes = looking_alike(decided, sheet, unnamed, identical)
        decided, others = renamed(decided, sheet, unnamed, identical)
        lookalikes += others
        decided, rest = in_a_copy(decided, sheet, unnamed, lookalikes)
        lookalikes += rest
        decisions.forget(lookalikes)
    elif not options.match_on and base is not None:
        if not base.statuses or {*snapshot.coverage.statuses} <= {*base.statuses}:
            decided, lookalikes = come_since(decided, sheet, unnamed, base)
        decisions.forget(lookalikes)
    decided, strangers = under_other_ids(decided, sheet, snapshot.frame, ~decisions.sides.named)
    decisions.forget(strangers)
    lookalikes += strangers
    decided = namesakes(decided, unnamed, sheet)
    below = [each for each in decided if isinstance(each, Add) and _is_below_one(each.pet_id)]
    gone = missing(
        snapshot,
        decisions.sides.named,
        [*decisions.uncertain, *(each.source for each in below)],
        decided,
        options,
        base,
        open_rows=open_rows(sheet),
    )
    decisions.forget(each for each in gone.conflicts if each.row in gone.held)
    refused = [_below_one(each) for each in below if each.row not in gone.held]
    decisions.forget(refused)
    held = {*gone.held, *(each.row for each in refused)}
    decided = [each for each in decided if not (isinstance(each, Add) and each.row in held)]
    changes: list[Change] = sorted([*decided, *gone.deletes], key=_order)
    conflicts = (*decisions.conflicts, *lookalikes, *refused, *gone.conflicts)
    moved = shifted(decided, sheet, base)
    before = snapshot.frame if base is None else base.said_frame
    edited = _edited(decided, conflicts)
    watched = pets_of(guard.sentinels, snapshot.frame)
    plan = Plan(
        created=created,
        store=snapshot.source,
        profile=profile.name,
        source=sheet.source,
        tab=sheet.tab,
        places={name: at for name, at in sheet.columns.items() if name in COLUMNS},
        source_digest=sheet.digest,
        columns=dict(sheet.mapping),
        encoding=sheet.encoding,
        base="" if base is None else base.taken_at,
        options=options,
        guard=guard,
        changes=tuple(changes),
        conflicts=conflicts,
        blocked=_blocked(sheet, decisions.sides),
        unchanged=decisions.unchanged,
        recognised=decisions.remarks.recognised,
        slots=_slots(sheet, decided, decisions, matches),
        older=tuple(sorted(decisions.remarks.older)),
        gone=tuple(sorted(decisions.remarks.gone)),
        undone=decisions.remarks.undone
        | {row: each.run for row, each in decisions.remarks.restored.items()},
        ignored=decisions.sides.ignored,
        rows=len(sheet.frame) + len(sheet.blocked),
        pets=len(snapshot),
        capacity=profile.capacity,
        notes=(
            *_silent(sheet, base, edited.values()),
            *_warned(sheet),
            *decisions.notes(),
            *gone.notes,
            *namesakes_note(decided),
            *([moved.note] if moved.note else exchanged_note(edited, sheet, before)),
            *strange_letters(decided, snapshot.frame),
            *notes_of(conflicts),
            *_corrected(sheet),
        ),
        coverage=snapshot.coverage,
        sentinels=watched,
        verdict=Verdict(tuple(moved_since(watched, base))),
        corrections=sheet.corrections,
        shifted=tuple(moved),
    )
    return plan.judged()


def _is_below_one(pet_id: int | None) -> bool:
    return pet_id is not None and pet_id < 1


def _below_one(add: Add) -> Conflict:
    """An add that a service may store under another id, so that the next plan adds it again."""
    return Conflict(
        row=add.row,
        source=add.source,
        pet_id=add.pet_id,
        name=add.after.name or "",
        rule="id-below-one",
        problem=f"has the id {add.pet_id}, which no pet has, and a service may replace an id below "
        "1 by one of its own",
        suggestion="Leave the id blank if it is a new pet, or give the id of its pet.",
    )


def _slots(
    sheet: Sheet, changes: Iterable[Change], decisions: Decisions, matches: Mapping[int, Match]
) -> dict[int, Slot]:
    """Where the rows without an id stand that have a pet or get one, and what those say that have
    one, unless an earlier run has written that down.
    """
    remarks = decisions.remarks
    kept = {row for row in remarks.known if not matches[row].is_edited}
    says = said_in(sheet, remarks.recognised.keys() - kept, decisions.vocabulary)
    added = {change.row for change in changes if isinstance(change, Add)}
    places = slots_of(sheet)
    actions = actions_of(sheet, places)
    slots = {}
    for row, place in places.items():
        is_told = place != (None, None) or bool(actions[row])
        if row in remarks.recognised or (row in added and is_told):
            record = remarks.known.get(row)
            slots[row] = Slot(
                above=place[0],
                below=place[1],
                said=says.get(row),
                run="" if record is None else record.run_id,
                on="" if record is None else record.on,
                action=actions[row],
            )
    return slots


def _edited(
    changes: Iterable[Change], conflicts: Iterable[Conflict]
) -> dict[int, frozenset[Column]]:
    """By row, the columns in which it says something else than its pet, whoever wins a clash."""
    edited: dict[int, frozenset[Column]] = {}
    for each in changes:
        if isinstance(each, Update) and each.row is not None:
            edited[each.row] = frozenset(each.fields)
    for held in conflicts:
        units = {clash.column for clash in held.clashes}
        if held.row is not None and units:
            columns = {c for unit in UNITS if unit in units for c in COLUMNS_OF[unit]}
            edited[held.row] = edited.get(held.row, frozenset()) | columns
    return edited


def _silent(sheet: Sheet, base: Base | None, edited: Iterable[frozenset[Column]]) -> Iterator[str]:
    """Of an export, the columns that it has lost: a header that was renamed, more likely."""
    lost = [column for column in COLUMNS if base is not None and column not in sheet.frame]
    if lost:
        own = ", ".join(repr(str(name)) for name in sheet.others.columns)
        unused = f" Columns that are not used: {own}." if own else ""
        hint = " Map a header that was renamed (--column HEADER=COLUMN)." if own else ""
        which = "column" if len(lost) == 1 else "columns"
        sent = frozenset[Column]().union(*edited)
        kept = [column for column in lost if column != "id" and column not in sent]
        stay = f"; the plan leaves {', '.join(kept)} as the store has it" if kept else ""
        if "category_id" in lost and "category_id" in sent:
            stay += "; category_id changes with a category that was edited"
        if "category" in lost and "category" in sent:
            stay += "; category changes with a category_id that was edited"
        yield f"The sheet lacks the {which} {', '.join(lost)} of its export{stay}.{unused}{hint}"


def _warned(sheet: Sheet) -> Iterator[str]:
    """What the sheet's warnings come to; a header that is nearly one of ours in full, as its whole
    column says nothing.
    """
    warnings = [finding for finding in sheet.problems if finding.severity == "warning"]
    headers = [finding for finding in warnings if finding.rule.startswith("header")]
    for finding in headers:
        yield f"{finding.address}: {finding.value!r}: {finding.problem} {finding.suggestion}"
    rest = len(warnings) - len(headers)
    if rest:
        cells = "1 cell was" if rest == 1 else f"{rest:,} cells were"
        yield f"{cells} read with a warning; `petsync check` and sheet.findings list them."


def _corrected(sheet: Sheet) -> Iterator[str]:
    """Each cell that says something else here than in the file; of very many the first ones."""
    rest = len(sheet.corrections) - _CORRECTED
    for each in sheet.corrections[:_CORRECTED]:
        after = f"as '{each.after[:60]}'" if each.after else "as a blank cell"
        yield (
            f"{each.address}: read {after}, as somebody corrected it; the file says "
            f"'{each.before[:60]}'."
        )
    if rest > 0:
        yield f"{rest:,} further cells were corrected as well; plan.corrections lists them all."


def _order(change: Change) -> int:
    """Adds first, and of these the ones with an id, before the service gives that id away."""
    is_unnumbered = change.kind == "add" and change.pet_id is None
    return _ORDER[change.kind] + is_unnumbered


def _blocked(sheet: Sheet, sides: Sides) -> tuple[Blocked, ...]:
    errors: dict[int, list[Finding]] = defaultdict(list)
    for finding in sheet.problems:
        if finding.severity == "error":
            errors[finding.row].append(finding)
    names = sides.names(sheet.blocked_pets.values())
    return tuple(_blocked_row(sheet, row, errors[row], names) for row in sheet.blocked)


def _blocked_row(
    sheet: Sheet, row: int, errors: Sequence[Finding], names: Mapping[int, str]
) -> Blocked:
    """The row under its first error's address, with what is wrong in every cell, and the cure."""
    said = [_said(finding) for finding in errors]
    rest = [
        f"{finding.address}: {text}" for finding, text in zip(errors[1:], said[1:], strict=True)
    ]
    source = errors[0].address if errors else sheet.address(row)
    pet_id = sheet.blocked_pets.get(row)
    return Blocked(
        row=row,
        source=source,
        problem="; ".join([*said[:1], *rest]),
        pet_id=pet_id,
        name="" if pet_id is None else names.get(pet_id, ""),
    )


def _said(finding: Finding) -> str:
    value = f"{finding.value[:60]!r}: " if finding.value.strip() else ""
    return f"{value}{finding.problem} {finding.suggestion}".rstrip()
