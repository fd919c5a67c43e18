"""Explain a plan: the values of base, sheet and store for each field, and the deciding rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from petsync._display import as_html, as_text
from petsync.models import Pet
from petsync.plan.change import Blocked, Change, Conflict, Update
from petsync.plan.compare import Decided
from petsync.plan.decide import RowDecision
from petsync.plan.fields import COLUMNS_OF, UNITS, Unit, cell
from petsync.plan.match import Row, build_pet
from petsync.plan.plan import Plan
from petsync.table.columns import COLUMNS, Column

__all__ = ["FIELD_RULES", "PET_RULES", "Explanation", "Explanations", "Reason", "explain"]


# Explanation: the values of base, sheet and store that led to a plan's result for one pet.


DecisionKind = Literal[
    "add", "update", "delete", "conflict", "blocked", "ignored", "unchanged", "absent"
]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """The reason for the result of a field.

    Each value is written as in a cell. It is None if that side has no such pet or, on the sheet's
    side, if the row has no value.
    """

    column: Column
    """The column."""
    base: str | None
    """The text at the export."""
    sheet: str | None
    """The sheet's text."""
    store: str | None
    """The store's text."""
    after: str | None
    """The store's text after the plan is applied."""
    rule: str
    """The stable code of the rule, as in docs/plan.md."""
    sentence: str
    """The explanation of the rule."""


class Explanations(tuple["Explanation", ...]):
    """A tuple of explanations that are displayed together."""

    __slots__ = ()

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The plan's result for one pet, and the reasons."""

    pet_id: int | None
    """The pet's id."""
    name: str
    """The pet's name."""
    decision: DecisionKind
    """The decision. "absent": neither the sheet nor the store has the pet."""
    row: int | None
    """The row's number, None if the pet has no row."""
    source: str
    """The row's address, "" if the pet has no row."""
    rule: str
    """The stable code of the rule for the pet as a whole."""
    sentence: str
    """The explanation of the result."""
    fields: tuple[Reason, ...] = ()
    """The reasons for the results of the columns."""

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


# The reasons for a plan's results, from the decisions that led to it.


FIELD_RULES: Mapping[str, str] = {
    "no-column": "The sheet has no such column, so an existing value stays.",
    "blank": "The cell is blank, so an existing value stays.",
    "equal": "Sheet and store agree.",
    "differs": "Sheet and store differ. The exported value is unknown.",
    "uploaded": "The sheet lacks only photos that uploads added; these photos stay.",
    "same": "Neither side changed it since the export.",
    "not-edited": "The sheet has the exported value; the store changed it and keeps its value.",
    "edited": "Only the sheet changed it since the export.",
    "alike": "Sheet and store both changed it to the same value.",
    "merged": "Sheet and store both changed it, and both changes are kept.",
    "undone": "The sheet changed it; in the store, only an undo changed it. The sheet's value is "
    "sent.",
    "clash-store": "Sheet and store changed it differently: the store's value stays.",
    "clash-sheet": "Sheet and store changed it differently: the sheet's value is sent.",
    "owner-sheet": "Sheet and store differ. The sheet owns the field: its value is sent.",
    "owner-store": "Sheet and store differ. The store owns the field: its value stays.",
    "owner-never": "Sheet and store differ. The field is never written.",
    "together": "The category's other cell decides it.",
    "new": "The pet is new.",
    "held": "Nothing is sent for the row, because it is in conflict.",
    "ignored": "The row's action is ignore.",
    "deleted": "The pet is deleted.",
    "no-row": "No row names the pet.",
    "gone": "The store does not have the pet.",
    "blocked": "An error in the sheet excludes the row.",
}
"""The result of a field, by its rule."""

PET_RULES: Mapping[str, str] = {
    "new": "The store has no such pet, so the row adds it.",
    "updated": "The row differs from the store.",
    "asked": "The row's action is delete.",
    "missing": "No row names it, and missing pets are to be deleted.",
    "agrees": "The store already has the row's values.",
    "owned": "The row differs from the store only in fields that are not sent, because of their "
    "owner.",
    "older": "The row was not edited since the export, and the store's newer values stay.",
    "gone": "The store no longer has the pet, and its row was not edited since the export.",
    "not-there": "The row's action is delete, and the store does not have the pet.",
    "recognised": "The row has no id, but it has this pet's values: it counts as the pet's row, "
    "and changes nothing.",
    "known-row": "The row has no id, but its pet is known, and the store already has its values.",
    "ignored": "The row's action is ignore.",
    "blocked": "An error in the sheet excludes the row:",
    "left-alone": "No row names it, and missing pets are not to be deleted.",
    "not-exported": "No row names it, and it was not in the export.",
    "uncovered": "No row names it, and the plan does not cover it: no query that succeeded asks "
    "for its status, or only the pets that rows name were read. So it is not deleted.",
    "uncertain": "No row names it. It is not deleted, because a row whose id is missing or "
    "uncertain may be its row.",
    "absent": "Neither the sheet nor the store has it.",
}
"""The result of a pet without a conflict, by its rule."""


def explain(decided: Decided, pet_ids: Iterable[int]) -> Explanations:
    """Return why the plan has its results for these pets: an explanation for each row of a pet, or
    one for a pet without a row.
    """
    cases = (_Case(decided, one) for one in pet_ids)
    return Explanations(one for case in cases for one in case.explanations())


@dataclass(frozen=True)
class _Case:
    decided: Decided
    pet_id: int

    @property
    def plan(self) -> Plan:
        return self.decided.plan

    def explanations(self) -> Iterator[Explanation]:
        old = self.decided.rows.sides.find_exported(self.pet_id)
        current = self.decided.rows.pet_of(self.pet_id)
        rows = [self._of_row(each, current) for each in self.decided.rows.rows_of(self.pet_id)]
        blocked = [each for each in self.plan.blocked if each.pet_id == self.pet_id]
        yield from rows
        for each in blocked:
            sentence = f"{PET_RULES['blocked']} {each.problem}"
            yield self._without_values("blocked", "blocked", current, old, sentence, each)
        if not rows and not blocked:
            yield self._explain_unnamed(current, old)

    def _of_row(self, decision: RowDecision, current: Pet | None) -> Explanation:
        row = decision.row
        change = next((c for c in self.plan.changes if c.row == row.number), None)
        conflict = next((c for c in self.plan.open_conflicts if c.row == row.number), None)
        kind: DecisionKind
        if conflict is not None:
            kind, rule = "conflict" if change is None else change.kind, conflict.rule
            sentence = f"The row {conflict.problem}. {conflict.suggestion}"
        elif change is not None:
            kind, rule = change.kind, _RULE_OF[change.kind]
            sentence = f"{_of_change(change)}{self._describe_record(row)}"
        else:
            assert (
                decision.no_change_rule is not None
            )  # a row without a change or a conflict is kept
            rule = decision.no_change_rule
            kind = "ignored" if rule == "ignored" else "unchanged"
            sentence = f"{self._explain_stay(row, rule)}{self._describe_record(row)}"
        after = change.after if change is not None else current
        return Explanation(
            pet_id=self.pet_id,
            name=_name(current, after, decision.old),
            decision=kind,
            row=row.number,
            source=self.decided.rows.sheet.address(row.number),
            rule=rule,
            sentence=sentence,
            fields=tuple(self._reasons(decision, current, after, conflict)),
        )

    def _explain_stay(self, row: Row, rule: str) -> str:
        restored = self.decided.rows.remarks.restored.get(row.number)
        if restored is None:
            return PET_RULES[rule]
        return f"The undo of run {restored.run} restored the pet after the export, and it stays."

    def _describe_record(self, row: Row) -> str:
        """Return a sentence on the run that recorded the pet of a row without an id, "" for
        none.
        """
        record = self.decided.rows.remarks.known.get(row.number)
        if record is None:
            return ""
        return f" Run {record.run_id} {record.how} the pet of this row on {record.on}."

    def _explain_unnamed(self, current: Pet | None, old: Pet | None) -> Explanation:
        """Return the explanation of a pet that no row names."""
        if any(change.row is None and change.pet_id == self.pet_id for change in self.plan.deletes):
            return self._without_values("delete", "missing", current, old)
        found = [each for each in self.plan.conflicts if each.pet_id == self.pet_id]
        for conflict in sorted(found, key=lambda each: each.row is not None):
            # The conflict of a row with another id may be about this pet too.
            subject = f"Pet {self.pet_id}" if conflict.row is None else f"The row {conflict.source}"
            sentence = f"{subject} {conflict.problem}. {conflict.suggestion}"
            return self._without_values("conflict", conflict.rule, current, old, sentence)
        if current is None:
            return self._without_values("absent", "absent", current, old)
        rule = self.decided.find_stay_rule(self.pet_id)
        return self._without_values("unchanged", rule, current, old)

    def _without_values(
        self,
        decision: DecisionKind,
        rule: str,
        current: Pet | None,
        old: Pet | None,
        sentence: str = "",
        blocked: Blocked | None = None,
    ) -> Explanation:
        """Return the explanation of a blocked row, or of a pet that no row names."""
        after = None if decision == "delete" else current
        why = {"delete": "deleted", "blocked": "blocked"}.get(decision, "no-row")
        columns = () if blocked is None and current is None else COLUMNS[1:]
        return Explanation(
            pet_id=self.pet_id,
            name=_name(current, old),
            decision=decision,
            row=None if blocked is None else blocked.row,
            source="" if blocked is None else blocked.source,
            rule=rule,
            sentence=sentence or PET_RULES[rule],
            fields=tuple(_reason(c, old, None, current, after, why) for c in columns),
        )

    def _reasons(
        self,
        decision: RowDecision,
        current: Pet | None,
        after: Pet | None,
        conflict: Conflict | None,
    ) -> Iterator[Reason]:
        row, is_held = decision.row, conflict is not None and not conflict.clashes
        row_pet = build_pet(row.values)
        for unit in UNITS:
            for column in COLUMNS_OF[unit]:
                sheet = cell(row_pet, column) if column in row.values else None
                rule = self._rule(row, unit, column, decision.fields.get(unit, "new"))
                if row.action == "ignore":
                    rule = "ignored"
                elif after is None and not (conflict is not None and conflict.is_unanswered):
                    rule = "gone" if current is None else "deleted"
                elif is_held and rule in _SENT:
                    rule = "held"
                elif rule in ("equal", *_SENT) and _is_overruled(column, sheet, after):
                    rule = "together"
                yield _reason(column, decision.old, sheet, current, after, rule)

    def _rule(self, row: Row, unit: Unit, column: Column, rule: str) -> str:
        if column in row.values:
            return rule
        if unit == "category" and any(each in row.values for each in COLUMNS_OF[unit]):
            return "together"
        return "blank" if column in self.decided.rows.sheet.rows else "no-column"


def _is_overruled(column: Column, sheet: str | None, after: Pet | None) -> bool:
    """Return whether the cell has the number of another category than the name beside it."""
    is_number = column == "category_id" and sheet is not None
    return is_number and after is not None and cell(after, column) != sheet


def _reason(
    column: Column,
    old: Pet | None,
    sheet: str | None,
    current: Pet | None,
    after: Pet | None,
    rule: str,
) -> Reason:
    return Reason(
        column=column,
        base=None if old is None else cell(old, column),
        sheet=sheet,
        store=None if current is None else cell(current, column),
        after=None if after is None else cell(after, column),
        rule=rule,
        sentence=FIELD_RULES[rule],
    )


_SENT = ("differs", "edited", "merged", "undone", "new", "clash-sheet", "owner-sheet")
_RULE_OF = {"add": "new", "update": "updated", "delete": "asked"}


def _of_change(change: Change) -> str:
    if isinstance(change, Update):
        return f"{PET_RULES['updated']} What changes: {', '.join(change.fields)}."
    return PET_RULES[_RULE_OF[change.kind]]


def _name(*pets: Pet | None) -> str:
    return next((pet.name for pet in pets if pet is not None and pet.name), "") or ""
