"""Explanations of a plan: they match what the plan does."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from test_plan_docs import conflict_rules
from test_plan_laws import SHORT, everything
from times import times
from triples import Triple, triples

from petsync.models import Pet
from petsync.plan.explain import FIELD_RULES, PET_RULES, Explanation, Reason
from petsync.plan.fields import cell
from petsync.plan.plan import Plan

pytestmark = pytest.mark.slow

SENT = {"differs", "edited", "merged", "undone", "clash-sheet", "owner-sheet"}
CONFLICTS = conflict_rules()


def rows_about(triple: Triple, plan: Plan, number: int) -> set[int]:
    """Return the rows that name a pet or were recognised as it."""
    named = {row for row, line in triple.lines.items() if line.get("id") == number}
    return named | {row for row, pet in plan.recognised.items() if pet == number}


def left(plan: Plan, number: int, now: Pet | None) -> Pet | None:
    """Return the pet in the store after the plan is applied."""
    change = next((each for each in plan.changes if each.pet_id == number), None)
    return now if change is None else change.after


@settings(max_examples=times(25), phases=SHORT)
@given(triples())
def test_every_explanation_is_what_the_plan_does(triple: Triple) -> None:
    """Each row of a pet, or the pet without a row, has one explanation, with the values of base,
    sheet, store and result.
    """
    plan = triple.plan()
    for number in (1, 2, 3, 4, 8, 9, 12345):
        now, old = everything(triple).get(number), (triple.base or {}).get(number)
        result = triple.why(plan, number)
        rows = rows_about(triple, plan, number)
        assert sorted(each.row or 0 for each in result) == sorted(rows or {0})
        for each in result:
            assert each.pet_id == number
            assert each.sentence
            assert each.rule in CONFLICTS | set(PET_RULES)
            check_decision(each, plan)
            for reason in each.fields:
                check_values(reason, old, now, left(plan, number, now))
                check_rule(reason, each, plan)
                line = triple.lines.get(each.row or 0, {})
                assert (reason.sheet is None) == (line.get(reason.column) is None)


def check_decision(explanation: Explanation, plan: Plan) -> None:
    """Check that decision and rule are those of the change, of the conflict, or of a row with
    neither.
    """
    place = explanation.row, explanation.pet_id
    change = {(c.row, c.pet_id): c for c in plan.changes}.get(place)
    # A row with another id is a conflict about the pet that it resembles.
    rows = {(c.row, explanation.pet_id): c for c in plan.conflicts if c.row is not None}
    # The conflict of a row without an id is about the pet that it resembles.
    similar = {(None, c.pet_id): c for c in reversed(plan.conflicts)}
    conflict = (similar | rows | {(c.row, c.pet_id): c for c in plan.conflicts}).get(place)
    if change is not None:
        assert explanation.decision == change.kind
    elif conflict is not None:
        assert (explanation.decision, explanation.rule) == ("conflict", conflict.rule)
    else:
        assert explanation.decision in ("unchanged", "ignored", "absent")
        assert explanation.rule not in CONFLICTS | {"new", "updated", "asked", "missing"}
        assert (explanation.rule == "older") == (explanation.row in plan.older)
        assert (explanation.rule == "gone") == (explanation.row in plan.deleted_in_store)
        assert (explanation.rule == "agrees") <= ("not-edited" not in changed_rules(explanation))


def changed_rules(explanation: Explanation) -> set[str]:
    """Return the rules of the fields in which sheet and store have different texts."""
    return {
        each.rule
        for each in explanation.fields
        if each.sheet and compared(each.column, each.sheet) != compared(each.column, each.store)
    }


def compared(column: str, text: str | None) -> object:
    """Return a cell's text in the form in which the name or the status is compared, else None."""
    if column not in ("name", "status"):
        return None
    return unicodedata.normalize("NFC", text or "").strip().casefold()


def check_values(reason: Reason, old: Pet | None, now: Pet | None, after: Pet | None) -> None:
    """Check that values are texts as in a cell, and None where the pet does not exist."""
    assert reason.base == (None if old is None else cell(old, reason.column))
    assert reason.store == (None if now is None else cell(now, reason.column))
    assert reason.after == (None if after is None else cell(after, reason.column))
    assert reason.rule in FIELD_RULES
    assert reason.sentence == FIELD_RULES[reason.rule]


def check_rule(reason: Reason, explanation: Explanation, plan: Plan) -> None:
    """Check that a field that is sent has a rule that sends it, that only a merge with an unchanged
    result has such a rule otherwise, and that a clash has a clash rule.
    """
    update = next((u for u in plan.updates if u.row == explanation.row), None)
    fields = update.fields if update is not None else ()
    if reason.column in fields:
        assert reason.rule in SENT | {"together"}
    elif reason.column not in ("category", "category_id"):
        assert reason.rule not in SENT - {"merged"}
    clashes = {
        clash.column for c in plan.conflicts if c.row == explanation.row for clash in c.clashes
    }
    if reason.column in clashes:
        assert reason.rule.startswith("clash-") or reason.rule == "together"
    if explanation.decision == "conflict" and not clashes:
        assert reason.rule not in SENT
        assert reason.after == reason.store
