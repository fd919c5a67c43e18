"""Every difference that a look finds, each with the reason for which it stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from petsync.diff.agreed import missing_columns
from petsync.diff.change import Change, Conflict
from petsync.diff.fields import cell
from petsync.diff.known import pets_of
from petsync.diff.report import Report, Result
from petsync.diff.round import Open, SheetChange
from petsync.diff.settled import SETTLED
from petsync.reconcile.config.model import Job
from petsync.reconcile.look import Look
from petsync.sheets import Obstacle
from petsync.table.columns import COLUMNS

__all__ = ["Opens"]

Kind = Literal["conflict", "finding", "failed", "waiting", "drift", "note"]
Pending = Literal["drift", "waiting"]
_LISTED = 20
_NAMED = 5
_LONGEST = 60
"""So many characters of a value are told here; the plan has all of it."""
_TAKES = {
    "add": "is in the store, and is to become a row",
    "delete": "is gone from the store, and its row is to go",
}
_VERBS = {"add": "added", "update": "changed", "delete": "deleted"}
_CATEGORY = frozenset({"category", "category_id"})
_CHECKED = {
    "add": "is in the sheet, and the store does not have it",
    "delete": "is in the store, and in no row",
}
_IDENTITY = frozenset(
    {"id-below-one", "matches-several", "claimed-twice", "looks-alike", "lost-id", "not-looked-up"}
)
"""Conflicts about which pet a row means: they stand in any mode."""


@dataclass(frozen=True, slots=True)
class Opens:
    """What stands between sheet and store in a look. Changes that are still to be made are
    `pending`, but for those that the `report` of a run says failed. `is_before`: the look is of
    before that run, so what arrived does not stand any more. `is_refused`: they will never be
    made. `stuck` are cells that cannot be written, `unwritten` why nothing of the sheet could be.
    """

    job: Job
    look: Look
    pending: Pending = "drift"
    report: Report | None = None
    is_before: bool = False
    is_refused: bool = False
    is_first: bool = True
    stuck: tuple[Obstacle, ...] = ()
    unwritten: str = ""
    results: dict[tuple[int | None, int | None], Result] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for result in () if self.report is None else self.report.results:
            if result.kind != "none":
                self.results[result.row, result.pet_id] = result

    def all(self) -> tuple[Open, ...]:
        """All of them: what needs a person first, then the rest, in the sheet's order each."""
        said = [*self._conflicts(), *self._blocked(), *self._changes(), *self._sheet()]
        said += self._unnamed(said)
        columns = [*self._columns()]
        first = [each for each in columns if each.kind != "note"]
        return (*first, *said, *self._rest(said), *(columns if not first else ()))

    def _columns(self) -> Iterator[Open]:
        """The columns that say nothing any more: a header that has come since may be the new one of
        such a column, and then edits in it are not seen.
        """
        missing, new = missing_columns(self.look.sheet, self.look.base)
        if not missing:
            return
        names = ", ".join(column for column in (*COLUMNS, "action") if column in missing)
        there = missing <= {*self.look.sheet.columns}
        says = "is empty" if there else "is missing"
        problem = (
            f"the column {names} {says}, and was not before: when it comes back, it is "
            "compared by what it said then"
        )
        if not new:
            yield Open(kind="note", problem=problem)
            return
        headers = ", ".join(map(repr, new[:_NAMED]))
        yield Open(
            kind="finding",
            problem=f"{problem}. New headers, which petsync does not use: {headers}",
            address=self.look.sheet.address(self.look.sheet.header_row, new[0]),
            hint="Give the column its header again, or map the new one in the configuration "
            "([columns]). If the column is to stay away: leave it in the sheet, empty.",
        )

    def _conflicts(self) -> Iterator[Open]:
        base = self.look.base
        agreed = frozenset() if base is None else base.ids
        unsure = frozenset() if base is None else frozenset(base.unsure)
        for conflict in self.look.plan.open_conflicts:
            if self.job.mode == "pull" and conflict.rule not in _IDENTITY:
                continue
            if conflict.clashes and self.job.on_conflict == "store" and self._is_merged:
                continue
            yield _of_conflict(conflict, is_known=conflict.pet_id in agreed - unsure)

    def _blocked(self) -> Iterator[Open]:
        for blocked in self.look.plan.blocked:
            yield Open(
                kind="finding",
                problem=blocked.problem,
                pet_id=blocked.pet_id,
                name=blocked.name,
                row=blocked.row,
                address=blocked.source,
            )

    def _changes(self) -> Iterator[Open]:
        for change in () if self.job.mode == "pull" else self.look.plan.changes:
            result = self.results.get((change.row, change.pet_id))
            if result is None:
                yield _of_change(change, self.pending, self._to_do(change))
            elif result.outcome == "skipped" and result.cause not in SETTLED:
                yield _of_change(change, self.pending, result.message or self._to_do(change))
            elif result.outcome in ("applied", "skipped"):
                # It arrived; in a later look, somebody has changed it back meanwhile.
                if not self.is_before:
                    yield _of_change(change, self.pending, self._to_do(change))
            elif result.outcome == "conflict":
                yield _of_change(change, "drift", f"meanwhile: {result.message}")
            else:
                yield _of_change(change, "failed", result.message or "it did not arrive")

    def _sheet(self) -> Iterator[Open]:
        """What the sheet is to take, and what its rules leave."""
        if self.look.inbound is None:
            return
        stuck = {each.row: each for each in self.stuck}
        for change in self.look.inbound.changes:
            obstacle = stuck.get(change.row)
            kind: Kind = "failed" if self.unwritten else self.pending
            problem, hint = self.unwritten or self._takes(change), ""
            if "id" in change.values and change.kind == "update" and not self.unwritten:
                problem = "its row has no id, and is to get that of its pet"
            if obstacle is not None:
                kind, problem, hint = "finding", obstacle.problem, obstacle.suggestion
            yield Open(
                kind=kind,
                problem=problem,
                pet_id=change.pet_id,
                name=change.name,
                row=change.row,
                address=change.address,
                fields=tuple(change.values) if change.kind == "update" else (),
                hint=hint,
            )
        yield from self.look.inbound.notes

    def _unnamed(self, said: Sequence[Open]) -> Iterator[Open]:
        """The pets of the store that no row names, and that nothing else was said of: each by
        itself whose row was taken out; of very many that never had one, their number.
        """
        told = {each.pet_id for each in said} | self.look.sight.named
        left = [each for each in self.look.snapshot.frame["id"].tolist() if each not in told]
        known = frozenset() if self.look.base is None else frozenset(self.look.base.frame["id"])
        never = [each for each in left if each not in known] if self.is_first else []
        if len(never) > _LISTED:
            problem = f"{len(never):,} pets of the store are in no row, and never were"
            yield Open(kind="note", problem=problem, hint="Nothing happens to them.")
            never = []
        for pet in pets_of(sorted({*left} & known) + never, self.look.snapshot.frame):
            yield Open(
                kind="note",
                problem=self._why_unnamed(pet.id or 0, was_there=pet.id in known),
                pet_id=pet.id,
                name=pet.name or "",
            )

    def _why_unnamed(self, pet_id: int, *, was_there: bool) -> str:
        if not was_there:
            return "is in the store, and in no row"
        if self.job.delete_missing and pet_id in self.look.claimed:
            return (
                "is in no row here any more; it is not deleted, as another sheet may have its row"
            )
        if self.job.delete_missing:
            return "is in no row any more; it is not deleted, as the plan's notes say"
        return "is in no row any more, and delete_missing is off: it stays in the store"

    def _rest(self, said: Sequence[Open]) -> Iterator[Open]:
        """Rows that differ, and that no rule wants changed; what they are is never left out."""
        rows = {each.row for each in said}
        sight, kind = self.look.sight, "drift" if self.job.mode == "check" else "note"
        ignored = {*sight.frame.index[sight.frame["action"] == "ignore"]}
        for row, pet_id, place in zip(sight.rows, sight.ids, sight.places, strict=True):
            fields = sight.columns(row)
            if row in rows or (place >= 0 and not fields):
                continue
            problem, hint = "names a pet that the store does not have", ""
            if fields:
                problem = f"says another {', '.join(fields)} than the store, and neither is changed"
            is_unsent = self.job.mode == "push" and row not in ignored and {*fields} & _CATEGORY
            if is_unsent:
                problem = "gives the number of another category beside the name of the old one"
                hint = "Write the name of the category that is meant, or its old number again."
            yield Open(
                kind="drift" if kind == "drift" else "conflict" if is_unsent else "note",
                problem=problem,
                pet_id=pet_id,
                row=row,
                address=self.look.sheet.address(row),
                fields=fields,
                hint=hint,
            )

    def _takes(self, change: SheetChange) -> str:
        """What is to become of a row; in pull, whose value gives way there."""
        if change.kind != "update":
            return self._meant(_TAKES[change.kind])
        if self.job.mode != "pull":
            said = "; ".join(_moved(name, *texts) for name, texts in change.values.items())
            return f"{said} (the store has it so)"
        lost = (
            f"{name}: {_short(old)} gives way to {_short(new)}"
            if old
            else f"{name}: the empty cell takes {_short(new)}"
            for name, (old, new) in change.values.items()
        )
        return f"{'; '.join(lost)} (the store leads)"

    def _to_do(self, change: Change) -> str:
        """What the store is to take, before and after; of a check, how the sides differ."""
        is_check = self.job.mode == "check"
        if change.kind == "update" and change.before is not None and change.after is not None:
            pets = (change.before, change.after)
            texts = [(name, *(cell(pet, name) for pet in pets)) for name in change.fields]
            say = _apart if is_check else _moved
            return "; ".join(say(*each) for each in texts)
        if is_check and change.kind in _CHECKED:
            return _CHECKED[change.kind]
        ids = change.kind == "add" and change.pet_id is None and self._is_merged
        said = f"is to be {_VERBS[change.kind]} in the store"
        return self._meant(f"{said}, and its row gets the id" if ids else said)

    def _meant(self, said: str) -> str:
        return said.replace("is to ", "would ") if self.is_refused else said

    @property
    def _is_merged(self) -> bool:
        return self.job.mode == "two-way"


def _of_conflict(conflict: Conflict, *, is_known: bool) -> Open:
    return Open(
        kind="conflict",
        problem=_clashes(conflict, is_known=is_known) or f"{conflict.subject} {conflict.problem}",
        pet_id=conflict.pet_id,
        name=conflict.name,
        row=conflict.row,
        address=conflict.source,
        fields=tuple(clash.column for clash in conflict.clashes),
        # What is said of clashes there is about a plan that somebody reviews.
        hint="" if conflict.clashes else conflict.suggestion,
    )


def _clashes(conflict: Conflict, *, is_known: bool) -> str:
    return "; ".join(
        f"{clash.column}: the sheet says {clash.sheet!r}, the store {clash.store!r}; "
        + (
            f"both said {clash.base!r} before"
            if is_known and clash.base
            else "which is newer, nobody knows"
        )
        for clash in conflict.clashes
    )


def _of_change(change: Change, kind: Literal["drift", "waiting", "failed"], problem: str) -> Open:
    pet = change.after if change.before is None else change.before
    return Open(
        kind=kind,
        problem=problem,
        pet_id=change.pet_id,
        name=(pet.name if pet is not None else "") or "",
        row=change.row,
        address=change.source,
        fields=change.fields if change.kind == "update" else (),
    )


def _moved(column: str, before: str, after: str) -> str:
    return f"{column}: {_short(before)} -> {_short(after)}"


def _apart(column: str, store: str, sheet: str) -> str:
    return f"{column}: the sheet says {_short(sheet)}, the store {_short(store)}"


def _short(text: str) -> str:
    text = text.replace("\n", " | ")
    return repr(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...")
