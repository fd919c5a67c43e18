"""Explanations of single pets, from the decisions of the plan."""

from __future__ import annotations

from dataclasses import replace as but
from typing import Any

import pytest
from msgspec.structs import replace
from shop import base_of, decided_of, error_at, sheet_of, sheet_saying, snapshot_of

from petsync.models import Category, Pet
from petsync.plan.change import Coverage, FailedLookup
from petsync.plan.compare import Decided, compare
from petsync.plan.decide import SheetComparison
from petsync.plan.explain import Explanation, explain
from petsync.plan.lineage import Match, RenumberedPet, RestoredPet, RowRecord
from petsync.table.sheet import Sheet

REX = Pet(id=1, name="Rex", status="sold", category=Category(1, "Dogs"))
HIDDEN = Pet(id=9, name="Tom", status="lost")
SOLD_ONLY = Coverage(("sold",))


def with_(**fields: object) -> Pet:
    """Return Rex with other fields."""
    return replace(REX, **fields)


def why(decided: Decided, pet_id: int = 1) -> Explanation:
    """Return the only explanation of a pet."""
    (explanation,) = explain(decided, [pet_id])
    return explanation


def rules(explanation: Explanation) -> dict[str, str]:
    """Return the rule of each column."""
    return {each.column: each.rule for each in explanation.fields}


def test_a_row_that_is_older_than_the_store_does_not_agree_with_it() -> None:
    """A row with the exported values, whose pet changed in the store, is explained as older."""
    sheet = but(sheet_of([REX]), base=base_of([REX]))
    decided = decided_of([with_(name="Max")], sheet)
    assert decided.plan.older == (2,)
    assert (why(decided).decision, why(decided).rule) == ("unchanged", "older")
    assert rules(why(decided))["name"] == "not-edited"


def test_a_row_that_is_older_and_was_compared_in_detail() -> None:
    """So is such a row if its category is compared in detail."""
    row = with_(category=Category(7, "Dogs"))
    base = but(base_of([REX]), sheet_pets={1: row})
    decided = decided_of([with_(category=Category(2, "Cats"))], but(sheet_of([row]), base=base))
    assert why(decided).rule == "older"


@pytest.mark.parametrize(("name", "fields"), [("Dogs", ()), ("Cats", ("category", "category_id"))])
def test_a_number_that_the_categorys_name_overrules_does_not_agree(
    name: str, fields: tuple[str, ...]
) -> None:
    """A number of another category than the name beside it neither agrees nor is sent: the name
    decides.
    """
    others = [Pet(id=2, name="Tom", status="sold", category=Category(2, "Cats"))]
    row = with_(category=Category(2 if name == "Dogs" else 1, name))
    decided = decided_of([REX, *others], sheet_of([row, *others]))
    assert [change.fields for change in decided.plan.changes] == ([fields] if fields else [])
    assert rules(why(decided))["category_id"] == "together"
    assert rules(why(decided))["category"] == ("differs" if fields else "equal")


def test_a_pet_without_delete_missing_is_left_alone() -> None:
    """Without `delete_missing`, a pet in no row is left alone for this reason, whatever its
    status.
    """
    sheet = but(sheet_of([REX]), base=base_of([REX, HIDDEN]))
    for delete_missing, rule in ((False, "left-alone"), (True, "uncovered")):
        decided = decided_of(
            [REX, HIDDEN], sheet, coverage=SOLD_ONLY, delete_missing=delete_missing
        )
        assert why(decided, 9).rule == rule


def test_an_uncertain_row_keeps_all_missing_pets() -> None:
    """If a row may be any pet's, that is why a pet in no row stays, whatever its status."""
    rows = {"id": 1}, {"name": "Zoe", "action": "ignore"}
    sheet = but(sheet_saying(*rows), base=base_of([REX, HIDDEN]))
    decided = decided_of([REX, HIDDEN], sheet, coverage=SOLD_ONLY, delete_missing=True)
    assert why(decided, 9).rule == "uncertain"


def test_an_open_clash_is_explained_beside_one_that_the_sheet_wins() -> None:
    """If the sheet wins one field and cannot win another, the explanation names the open
    conflict.
    """
    sheet = sheet_saying({"id": 1, "name": "Mine", "status": ""}, base=base_of([REX]))
    now = with_(name="Yours", status="pending")
    explanation = why(decided_of([now], sheet, on_conflict="sheet"))
    assert (explanation.decision, explanation.rule) == ("update", "both-changed")
    assert "status" in explanation.sentence


def test_a_pet_without_an_answer_is_not_said_to_be_gone() -> None:
    """If the service did not answer about a pet, no field says that the store lacks it."""
    failed = {1: FailedLookup("1", "no answer")}
    sheet = sheet_saying({"id": 1, "name": "Max"})
    decided = compare(SheetComparison(snapshot_of([]), sheet, failed), created="")
    assert why(decided).rule == "not-looked-up"
    assert rules(why(decided))["name"] == "held"


def test_a_blocked_row_is_explained_by_its_error() -> None:
    """A pet whose only row is blocked has one explanation, with the error and the row's place."""
    sheet = sheet_saying({"id": 2}, blocked=(3,), blocked_pets={3: 1}, problems=(error_at(3),))
    explanation = why(decided_of([REX], sheet))
    assert (explanation.decision, explanation.rule) == ("blocked", "blocked")
    assert (explanation.row, explanation.source) == (3, "Pets!C3")
    assert "it is wrong" in explanation.sentence
    assert {*rules(explanation).values()} == {"blocked"}
    assert all(each.after == each.store for each in explanation.fields)


def test_a_known_row_is_explained_with_the_values_that_both_sides_agreed_on() -> None:
    """The base of a row that an earlier run recognised is what both sides agreed on then, and each
    field has the rule by which the plan decides.
    """
    agreed, row_pet = with_(name="Rexi"), with_(name="Rexo")
    record = RowRecord(
        run_id="r", on="2026-11-20", source="a.csv", row=2, row_pet=row_pet, pet_id=1,
        is_added=True, base="then", agreed=agreed, category=Category(5, "Dogs"),
    )  # fmt: skip
    line: dict[str, Any] = {"name": "Rexi", "category": "Dogs", "category_id": 5}
    sheet: Sheet = sheet_saying(line, base=base_of([]))
    compared = SheetComparison(
        snapshot_of([REX]), sheet, {}, matches={2: Match("certain", (record,), is_edited=True)}
    )
    decided = compare(compared, created="")
    assert decided.plan.in_sync
    explanation = why(decided)
    assert {each.column: each.base for each in explanation.fields}["name"] == "Rexi"
    assert (rules(explanation)["name"], rules(explanation)["category"]) == ("not-edited", "same")


def test_a_pet_that_a_row_means_by_another_id_is_in_its_conflict() -> None:
    """A pet that the service created under another id than the row's is explained by the conflict
    of that row.
    """
    tom = Pet(id=8, name="Tom", status="sold")
    sheet = sheet_of([replace(tom, id=5)])
    compared = SheetComparison(
        snapshot_of([tom]),
        sheet,
        {5: None},
        renumbered={5: RenumberedPet(8, "2026-11-01", sheet.source, "Tom")},
    )
    decided = compare(compared, created="2026-11-20T00:00:00+00:00")
    explanation = why(decided, 8)
    assert (explanation.decision, explanation.rule) == ("conflict", "added-renumbered")
    assert explanation.sentence.startswith(f"The row {sheet.address(2)} was added on 2026-11-01 as")


@pytest.mark.parametrize("source", ["", "other/list.csv"])
def test_a_conflict_names_the_file_of_an_earlier_row(source: str) -> None:
    """A row that may be one of another file is in a conflict that names this file, also if both
    files have the same name.
    """
    sheet = sheet_saying({"name": "Rexi"})
    named = f" from {source}" if source else ""
    source = source or sheet.source
    record = RowRecord(
        run_id="r", on="2026-11-20", source=source, row=2, row_pet=with_(name="Rexo"), pet_id=1
    )
    matches = {2: Match("doubt", (record,), is_edited=True)}
    compared = SheetComparison(snapshot_of([REX]), sheet, {}, matches=matches)
    (conflict,) = compare(compared, created="").plan.conflicts
    assert f"was added on 2026-11-20{named} as 1 ('Rexo')" in conflict.problem
    tom = Pet(id=8, name="Tom", status="sold")
    moved = {5: RenumberedPet(8, "2026-11-20", source, "Tom")}
    compared = SheetComparison(
        snapshot_of([tom]), sheet_of([replace(tom, id=5)]), {5: None}, renumbered=moved
    )
    (conflict,) = compare(compared, created="").plan.conflicts
    assert f"was added on 2026-11-20{named} as 8" in conflict.problem


def test_a_deleted_row_whose_pet_an_undo_restored_names_the_undo() -> None:
    """A row that asks for a delete, whose pet an undo restored, names the undone run."""
    sheet = but(sheet_of([REX], action="delete"), base=base_of([]))
    compared = SheetComparison(
        snapshot_of([REX]), sheet, {}, restored={1: RestoredPet("run-1", "undo-2", REX)}
    )
    explanation = why(compare(compared, created="2026-11-20T00:00:00+00:00"))
    assert explanation.decision == "unchanged"
    assert "The undo of run run-1 restored the pet" in explanation.sentence


@pytest.mark.parametrize(("day", "decision"), [(18, "delete"), (20, "unchanged")])
def test_a_delete_that_was_exported_after_the_undo_is_made(day: int, decision: str) -> None:
    """A row marked `delete` deletes the pet that an undo restored if its export, of the 19th, is
    newer than the undo.
    """
    sheet = but(sheet_of([REX], action="delete"), base=base_of([REX]))
    undo = RestoredPet("run-1", "undo-2", REX, at=f"2026-11-{day}T12:00:00+00:00", kind="delete")
    compared = SheetComparison(snapshot_of([REX]), sheet, {}, restored={1: undo})
    explanation = why(compare(compared, created="2026-11-20T00:00:00+00:00"))
    assert explanation.decision == decision
