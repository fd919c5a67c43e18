"""The rules of undo: the result for each kind of change of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from shop import URL

from petsync.apply.undo import CurrentPet, build_undo_plan, find_effects
from petsync.errors import GuardError
from petsync.models import Category, Pet, Tag
from petsync.plan.change import Add, Delete, FailedLookup, Update
from petsync.plan.guard import Guard, Limit
from petsync.plan.plan import Plan
from petsync.plan.report import Entry, PastRun

ROOT = Path(__file__).parents[1]
RUN = "20261121-093000-4f2a"
replace = msgspec.structs.replace
REX = Pet(
    id=7,
    name="Rex",
    status="available",
    category=Category(1, "Dogs"),
    tags=(Tag(1, "calm"),),
    photo_urls=("/1.png",),
    extra={"chip": 5},
)
MAX = replace(REX, name="Max")


def entry(kind: str, **more: Any) -> Entry:
    """Return the journal entry of one change to Rex in row 2."""
    values: dict[str, Any] = {
        "number": 0,
        "kind": kind,
        "row": 2,
        "source": "Pets!B2",
        "pet_id": 7,
        "intended": "2026-11-21T09:30:00+00:00",
        "outcome": "applied",
    }
    return Entry(**{**values, **more})


ADDED = entry("add", after=REX)
RENAMED = entry("update", fields=("name",), before=REX, after=MAX)
DELETED = entry("delete", before=REX)
SHOWN = entry("upload", before=REX, after=replace(REX, photo_urls=("/1.png", "/2.png")))


def undone(
    *entries: Entry, now: CurrentPet = None, past: PastRun | None = None, **more: Any
) -> Plan:
    """Return the undo plan of a run whose pets all are `now`."""
    values: dict[str, Any] = {
        "store": URL,
        "profile": "standard",
        "pets": 100,
        "created": "2026-11-21T10:00:00+00:00",
        "guard": Guard(),
    }
    ids = {e.pet_id if e.assigned_id is None else e.assigned_id for e in entries} - {None}
    found = {number: now for number in ids if number is not None}
    known = past or PastRun(run_id=RUN, store=URL, source="a.xlsx", started="", state="done")
    return build_undo_plan(known, entries, found, **{**values, **more})


def rule_of(plan: Plan) -> str:
    """Return the rule of the only conflict of a plan without changes."""
    assert plan.changes == ()
    (conflict,) = plan.conflicts
    assert conflict.is_open
    return conflict.rule


def test_an_add_is_deleted() -> None:
    """A pet that the run added is deleted; the delete keeps the address of the row."""
    (change,) = undone(ADDED, now=REX).changes
    assert change == Delete(row=2, source="Pets!B2", before=REX, why="asked")


def test_an_add_is_deleted_by_the_id_that_it_was_given() -> None:
    """An added pet is deleted by its assigned id, even if the row had another id."""
    given = replace(REX, id=99)
    unnumbered = replace(ADDED, pet_id=None, assigned_id=99)
    (change,) = undone(unnumbered, now=given).changes
    assert change.pet_id == 99
    renumbered = replace(ADDED, assigned_id=99, cause="another-id")
    (change,) = undone(renumbered, now=given).changes
    assert change.pet_id == 99


def test_an_update_is_set_back_in_its_fields_alone() -> None:
    """An undone update restores only the run's fields; unknown fields keep their current values."""
    now = replace(MAX, extra={"chip": 6})
    (change,) = undone(RENAMED, now=now).changes
    assert change == Update(
        row=2, source="Pets!B2", fields=("name",), before=now, after=replace(now, name="Rex")
    )


def test_unknown_fields_keep_their_current_values() -> None:
    """An undone update keeps the current unknown fields of the tags and the category that the pet
    had before the run and has now; a removed tag is restored with its fields.
    """

    def with_fields_(mark: int, *tags: Tag, category: str) -> Pet:
        fields = {"mark": mark}
        kept = (Tag(1, "calm", fields), *tags)
        return replace(REX, tags=kept, category=Category(1, category, fields))

    old = Tag(2, "old", {"mark": 1})
    before = with_fields_(1, old, category="Dogs")
    after, now = (with_fields_(mark, category="Cats") for mark in (1, 2))
    done = entry("update", fields=("category", "tags"), before=before, after=after)
    (change,) = undone(done, now=now).changes
    assert change.after == with_fields_(2, old, category="Dogs")


def test_a_delete_is_added_whole() -> None:
    """A deleted pet is added again with its id and its unknown fields."""
    (change,) = undone(DELETED, now=None).changes
    assert isinstance(change, Add)
    assert change.after == REX
    assert change.fields == ("name", "status", "category", "category_id", "tags", "photo_urls")


@pytest.mark.parametrize(
    ("done", "now"), [(ADDED, None), (RENAMED, REX), (DELETED, REX), (SHOWN, REX), (SHOWN, None)]
)
def test_what_is_as_before_already_is_left(done: Entry, now: Pet | None) -> None:
    """A pet that already has its earlier values is unchanged."""
    plan = undone(done, now=now)
    assert plan.in_sync
    assert (plan.unchanged, plan.rows) == (1, 1)


def test_an_update_that_somebody_took_back_is_left() -> None:
    """An update that was already reverted is unchanged, even if another field changed since."""
    assert undone(RENAMED, now=replace(REX, status="sold")).in_sync


@pytest.mark.parametrize("done", [ADDED, RENAMED, SHOWN])
def test_a_pet_that_was_changed_since_is_kept(done: Entry) -> None:
    """A pet with any field changed since the run is a conflict that shows both values."""
    assert done.after is not None
    plan = undone(done, now=replace(done.after, status="sold"))
    assert rule_of(plan) == "changed-since-run"
    (conflict,) = plan.conflicts
    assert "status is 'sold' (after the run: 'available')" in conflict.problem
    assert (conflict.pet_id, conflict.source) == (7, "Pets!B2")


SOLD = replace(MAX, status="sold")
LATER = replace(RENAMED, fields=("status",), before=MAX, after=SOLD)
GONE_LATER = replace(DELETED, before=MAX)


@pytest.mark.parametrize(
    ("now", "did", "is_named"),
    [
        (SOLD, LATER, True),
        (replace(MAX, status="pending"), LATER, False),
        (replace(SOLD, name="Mine"), LATER, False),
        (replace(MAX, name="Mine"), LATER, False),
        (None, GONE_LATER, True),
        (None, LATER, False),
    ],
)
def test_a_later_run_is_named(now: Pet | None, did: Entry, is_named: bool) -> None:
    """The suggestion names a later run only if the pet still has the values of that run."""
    later = [("20261121-110000-beef", deed) for deed in find_effects([did])]
    (conflict,) = undone(RENAMED, now=now, later_effects={7: later}).conflicts
    first = "Run 20261121-110000-beef changed it later: undo that run first."
    assert (conflict.suggestion == first) is is_named
    assert ("beef" in conflict.suggestion) is is_named


def test_a_later_run_is_named_although_the_service_filled_in_ids() -> None:
    """A value of a later run is still its value after the service assigned ids to it."""
    sent = replace(MAX, category=Category(None, "Birds"), tags=(Tag(None, "shy"),))
    now = replace(MAX, category=Category(5, "Birds"), tags=(Tag(6, "shy"),))
    fields = ("category", "category_id", "tags")
    later = entry("update", fields=fields, before=MAX, after=sent)
    effects = [("20261121-110000-beef", each) for each in find_effects([later])]
    (conflict,) = undone(RENAMED, now=now, later_effects={7: effects}).conflicts
    assert conflict.suggestion == "Run 20261121-110000-beef changed it later: undo that run first."


def test_a_pet_that_is_gone_stays_gone() -> None:
    """The undo of an update does not add a pet that was deleted since the run."""
    assert rule_of(undone(RENAMED, now=None)) == "gone-since-run"


def test_a_pet_that_came_instead_is_kept() -> None:
    """The undo of a delete does not overwrite another pet with the same id."""
    assert rule_of(undone(DELETED, now=replace(REX, name="Nero"))) == "came-since-run"


@pytest.mark.parametrize("outcome", [None, "unknown"])
def test_what_is_not_settled_waits_for_a_resume(outcome: Any) -> None:
    """A change with an unknown outcome is a conflict that suggests `petsync resume`."""
    plan = undone(replace(RENAMED, outcome=outcome), now=MAX)
    assert rule_of(plan) == "not-settled"
    assert f"petsync resume {RUN}" in plan.conflicts[0].suggestion
    assert "may have been changed by the run" in plan.conflicts[0].problem
    deleted = undone(replace(DELETED, outcome=outcome), now=REX)
    assert "may have been deleted by the run" in deleted.conflicts[0].problem


@pytest.mark.parametrize("outcome", ["unchanged", "not sent", "conflict", "failed"])
def test_what_was_not_done_is_not_taken_back(outcome: Any) -> None:
    """A change that the run did not make is not part of its undo."""
    assert undone(replace(RENAMED, outcome=outcome), now=MAX).rows == 0


def test_what_the_service_made_something_else_of_is_a_deed() -> None:
    """A failed change that the service stored with other values is part of the undo."""
    done = replace(RENAMED, outcome="failed", cause="not-as-sent")
    assert rule_of(undone(done, now=replace(REX, name="MAX!"))) == "changed-since-run"
    assert len(undone(done, now=MAX).changes) == 1


def test_an_add_without_any_id_cannot_be_found() -> None:
    """An add without a known id is a conflict of its row."""
    plan = undone(replace(ADDED, pet_id=None))
    assert rule_of(plan) == "no-id-known"
    assert plan.conflicts[0].row == 2


def test_a_pet_that_could_not_be_looked_up_is_kept() -> None:
    """A pet that could not be looked up is a conflict with the reason."""
    plan = undone(RENAMED, now=FailedLookup("7", "getPetById: the service answered 503"))
    assert rule_of(plan) == "not-looked-up"
    assert "503" in plan.conflicts[0].problem


@pytest.mark.parametrize("done", [ADDED, RENAMED, DELETED, SHOWN])
def test_what_the_journal_does_not_say_cannot_be_taken_back(done: Entry) -> None:
    """A change whose pet is not recorded in the journal is a conflict."""
    assert rule_of(undone(replace(done, before=None, after=None), now=MAX)) == "not-recorded"


def test_ids_that_the_service_fills_in_are_no_change() -> None:
    """Ids that the service assigned to tags or a category since the run are not a later change."""
    sent = replace(REX, tags=(Tag(None, "shy"),), category=Category(None, "Birds"))
    now = replace(REX, tags=(Tag(8, "shy"),), category=Category(9, "Birds"))
    fields: Any = ("category", "category_id", "tags")
    done = entry("update", fields=fields, before=REX, after=sent)
    (change,) = undone(done, now=now).changes
    assert change.after == REX
    other = replace(now, category=Category(9, "Fish"))
    assert rule_of(undone(done, now=other)) == "changed-since-run"


def test_images_of_one_pet_go_together() -> None:
    """One change removes all photo addresses that a run added to a pet; its other photos stay."""
    two, three = ("/1.png", "/2.png"), ("/1.png", "/2.png", "/3.png")
    second = entry("upload", number=1, before=SHOWN.after, after=replace(REX, photo_urls=three))
    plan = undone(SHOWN, second, now=replace(REX, photo_urls=three))
    (change,) = plan.changes
    assert change.after is not None
    assert change.after.photo_urls == ("/1.png",)
    assert (change.fields, plan.rows) == (("photo_urls",), 1)
    assert any("image files themselves stay" in note for note in plan.notes)
    assert rule_of(undone(SHOWN, second, now=replace(REX, photo_urls=two))) == "changed-since-run"


def test_an_image_s_address_may_be_written_differently() -> None:
    """A photo address with outer white space is still the one that the upload added."""
    (change,) = undone(SHOWN, now=replace(REX, photo_urls=("/1.png", " /2.png "))).changes
    assert change.after == REX


def test_an_image_whose_address_was_not_read_is_reported() -> None:
    """An upload whose photo address was not recorded is a conflict, and the photo stays."""
    unread = entry("upload", before=REX, after=None)
    plan = undone(unread, now=replace(REX, photo_urls=("/1.png", "/2.png")))
    assert rule_of(plan) == "not-recorded"
    assert "the journal does not have its address" in plan.conflicts[0].problem


def test_a_service_that_chooses_ids_may_do_so_again() -> None:
    """A note warns of new ids for added pets if the run shows that the service assigns ids."""
    renumbered = entry("add", number=1, pet_id=8, after=REX, assigned_id=99, cause="another-id")
    notes = undone(DELETED, renumbered, now=None).notes
    assert any("new ids" in note for note in notes)
    assert not undone(DELETED, now=None).notes


def test_a_stopped_run_says_so() -> None:
    """The undo of a stopped run has a note that the rest of the run is no longer sent."""
    past = PastRun(run_id=RUN, store=URL, source="a.xlsx", started="", state="stopped")
    plan = undone(RENAMED, now=MAX, past=past)
    assert len(plan.changes) == 1
    assert any("the rest of that run is no longer sent" in note for note in plan.notes)


def test_the_guard_judges_an_undo() -> None:
    """An undo with too many deletes is refused until the limit is raised; no message mentions an
    empty sheet, even for a run without changes.
    """
    entries = [entry("add", number=n, pet_id=n, after=replace(REX, id=n)) for n in range(1, 31)]
    found = {n: replace(REX, id=n) for n in range(1, 31)}
    plan = build_undo_plan(
        PastRun(run_id=RUN, store=URL, source="a.xlsx", started=""),
        entries,
        found,
        store=URL,
        profile="standard",
        pets=100,
        created="",
        guard=Guard(),
    )
    with pytest.raises(GuardError, match=r"30 deletes are more than max_delete 10 %") as caught:
        plan.require_ok()
    assert "max_delete=30" in caught.value.message
    assert "sheet" not in str(caught.value)
    raised = msgspec.structs.replace(plan, guard=Guard(max_delete=Limit(30, is_share=False)))
    raised.with_verdict().require_ok()
    undone().require_ok()


def test_an_undo_of_all_pets_is_refused() -> None:
    """An undo that deletes all pets is refused unless allow_empty is set."""
    plan = undone(ADDED, now=REX, pets=1)
    with pytest.raises(GuardError, match="the only pet would be deleted"):
        plan.require_ok()
    undone(
        ADDED, now=REX, pets=1, guard=Guard(allow_empty=True, max_delete=Limit(1.0))
    ).require_ok()


def test_a_sentinel_is_not_undone() -> None:
    """An undo that changes a sentinel is refused."""
    plan = undone(RENAMED, now=MAX, guard=Guard(sentinels=(7,)), sentinels=(MAX,))
    with pytest.raises(GuardError, match="would update sentinel 7"):
        plan.require_ok()


def rules() -> set[str]:
    """Return the rules of undo conflicts from the source code."""
    code = (ROOT / "petsync" / "apply" / "undo.py").read_text("utf-8")
    return set(re.findall(r'_build_conflict\(\s*effect,\s*"([a-z-]+)"', code))


def test_every_rule_is_described() -> None:
    """docs/undo.md describes exactly the rules of the source code."""
    page = (ROOT / "docs" / "undo.md").read_text("utf-8")
    table = page.partition("\n## Conflicts")[2].partition("\n## ")[0]
    result = set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE))
    assert result == rules()
    assert len(result) == 8
