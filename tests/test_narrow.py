"""Plans for which only the pets that rows name are read, instead of the store's lists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace as but
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from openpyxl import load_workbook
from rendering import plan_text
from shop import NO_LIMITS, decided_of, sheet_saying, snapshot_of
from times import times
from triples import STATUSES, Triple, triples

import petsync as ps
from petsync.cli.plan import save
from petsync.errors import GuardError, SettingsError
from petsync.models import Category, Pet, Tag
from petsync.plan.change import Coverage
from petsync.plan.compare import Decided, compare
from petsync.plan.decide import SheetComparison
from petsync.plan.options import PlanOptions
from petsync.plan.plan import Plan
from petsync.plan.scope import find_ids_to_read, has_unlisted_status, needs_all
from petsync.profile import STANDARD
from petsync.sandbox import Sandbox
from petsync.store import Store

pytestmark = pytest.mark.slow

many = settings(
    max_examples=times(25),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def narrow_plan(triple: Triple) -> Decided:
    """Return the plan of a triple for which only the pets that rows name were read."""
    sheet, every = triple.sheet, {**triple.listed, **triple.elsewhere}
    ids = find_ids_to_read(sheet)
    found = {each: every.get(each) for each in ids}
    pets = [pet for pet in found.values() if pet is not None]
    now = snapshot_of(pets, coverage=Coverage(ids=tuple(ids)))
    return compare(
        SheetComparison(now, sheet, {each: None for each, pet in found.items() if pet is None}),
        options=PlanOptions(scope="rows", on_conflict=triple.on_conflict, owners=triple.owners),
        guard=NO_LIMITS,
        profile=STANDARD,
        created="2026-11-20T00:00:00+00:00",
    )


def changes_of(decided: Decided) -> Mapping[Any, Any]:
    """Return the changes of a plan by row, without the namesakes that adds mention."""
    return {each.row: each for each in decided.plan.changes}


def open_rows(decided: Decided) -> set[int | None]:
    """Return the rows that a conflict holds back as a whole."""
    return {each.row for each in decided.plan.conflicts if not each.clashes}


@many
@given(triples())
def test_narrow_same(triple: Triple) -> None:
    """A narrow plan without a gap has the same changes, conflicts, counts and notes as the plan of
    the whole store.
    """
    triple = but(triple, covered=STATUSES, delete_missing=False)
    assume(not needs_all(triple.sheet, PlanOptions()))
    narrow, whole = narrow_plan(triple), triple.decided()
    named = find_ids_to_read(triple.sheet)
    every: dict[int, Pet] = {**triple.listed, **triple.elsewhere}
    pets = [pet for number, pet in every.items() if number in named]
    is_listed = not has_unlisted_status(snapshot_of(pets).pets, STATUSES)
    event(f"gaps: {bool(narrow.gaps)}, listed: {is_listed}")
    assume(not narrow.gaps and is_listed)
    for name in ("changes", "conflicts", "unchanged", "ignored", "rows", "older", "categories"):
        assert getattr(narrow.plan, name) == getattr(whole.plan, name), name
    unnamed = ("in no row", "not in the export")
    assert narrow.plan.notes == tuple(
        note for note in whole.plan.notes if not any(each in note for each in unnamed)
    )


@many
@given(triples())
def test_narrow_never_guesses(triple: Triple) -> None:
    """A change of a narrow plan is the same in the plan of the whole store, unless that plan finds
    a reason to hold the row back, which the narrow plan says it has not looked for.
    """
    triple = but(triple, covered=STATUSES, delete_missing=False)
    narrow, whole = narrow_plan(triple), triple.decided()
    expected, held = changes_of(whole), open_rows(whole)
    for row, change in changes_of(narrow).items():
        if row in held:
            assert change.kind == "add"
            assert any(change.source in gap for gap in narrow.gaps)
        else:
            assert (change.kind, change.fields, change.after) == (
                expected[row].kind,
                expected[row].fields,
                expected[row].after,
            )
    for row, change in expected.items():
        assert row in changes_of(narrow) or row in open_rows(narrow), change


# Against a store whose list is long enough to be left unread.


SIZE = 2_400
LIST, LOOK_UP = "findPetsByStatus", "getPetById"


def stored(number: int) -> Pet:
    """Return a pet of the large store."""
    return Pet(
        id=number,
        name=f"Pet {number}",
        status=STATUSES[number % 3],
        category=Category(number % 5 + 1, f"Kind {number % 5}"),
        tags=(Tag(number % 7 + 1, f"tag {number % 7}"),),
        photo_urls=("https://images.example/1.jpg",),
    )


@pytest.fixture(scope="module")
def _box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def box(_box: Sandbox) -> Sandbox:
    """The large store, with no requests so far."""
    _box.set_faults(None)
    _box.reset([stored(number) for number in range(1, SIZE + 1)])
    return _box


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[Store]:
    with ps.connect(box.url, environ={}, state=tmp_path / "state") as store:
        yield store


def renamed(*ids: int) -> pd.DataFrame:
    """Return a sheet that renames these pets."""
    return pd.DataFrame({"id": ids, "name": [f"New {number}" for number in ids]})


def test_narrow_owned_category() -> None:
    """Whether another number of a category is a difference depends on the other pets, also if the
    sheet does not own the category.
    """
    pet = Pet(id=2, name="Rex", status="available", category=Category(2, "Cats"))
    sheet = sheet_saying({"id": 2, "name": "Rex", "category": "Cats", "category_id": 1})
    owners = {"category": "store"}
    assert decided_of([pet], sheet, owners=owners).plan.notes == ()
    narrow = decided_of([pet], sheet, owners=owners, coverage=Coverage(ids=(2,)))
    assert narrow.gaps == ("Pets!D2: not compared with the categories of the pets in no row.",)
    named = sheet_saying({"id": 2, "name": "Rex", "category": "Dogs"})
    narrow = decided_of([pet], named, owners=owners, coverage=Coverage(ids=(2,)))
    assert (len(narrow.plan.notes), narrow.gaps) == (1, ())


def test_narrow_log(store: Store, box: Sandbox) -> None:
    """A plan of a few rows asks for the beginning of the list and for the pets that rows name, and
    says so.
    """
    plan = store.plan(renamed(3, 1, 9_999_999, 2).assign(action=["", "", "delete", ""]))
    assert box.requests == {LIST: 1, LOOK_UP: 4}
    assert plan.coverage == Coverage(ids=(3, 1, 9_999_999, 2))
    assert 2_000 < plan.pets <= SIZE
    assert [each.pet_id for each in plan.updates] == [3, 1, 2]
    assert plan.verdict.ok
    (sentence,) = plan.uncovered
    assert f"the store has {plan.pets:,} pets or more" in sentence
    text = " ".join(plan_text(plan).split())
    assert f"(at least {plan.pets:,} pets)" in text
    assert "only 4 pets, read one by one" in text
    assert f"Not covered by this plan: {sentence}" in text
    saved = json.loads(plan.to_json())["plan"]
    assert saved["coverage"]["ids"] == [3, 1, 9_999_999, 2]
    assert saved["uncovered"] == [sentence]


def test_narrow_rows(store: Store, box: Sandbox) -> None:
    """With scope rows, no list is asked for; the guard knows only the pets that were found."""
    ids = range(1, 21)
    plan = store.plan(renamed(*ids), scope="rows")
    assert box.requests == {LOOK_UP: 20}
    (refusal,) = plan.verdict.refusals
    assert "(10 of at least 20 pets)" in refusal.problem
    assert store.plan(renamed(*ids), scope="rows", max_update=20).verdict.ok


def test_narrow_small(store: Store, box: Sandbox) -> None:
    """A store with a short list is listed, as is one whose list a plan asks for."""
    assert not store.plan(renamed(1), scope="all").coverage.is_narrow
    assert box.requests == {LIST: 1}
    box.reset([stored(number) for number in range(1, 20)])
    plan = store.plan(renamed(1))
    assert box.requests == {LIST: 1}
    assert (plan.pets, plan.uncovered, plan.coverage.ids) == (19, (), None)


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ({"id": 1, "tags": "tag 5"}, {}),
        ({"id": 1, "category": "Kind 3"}, {}),
        ({"id": 1, "category_id": 4}, {}),
        ({"id": 1, "category": "Kind 1", "category_id": 77}, {}),
        ({"id": 5_000, "name": "Pet 7", "status": "sold"}, {}),
        ({"id": None, "name": "Pet 7", "status": "sold"}, {}),
        ({"id": 1, "status": "lost"}, {}),
        ({"id": 1, "name": "\u0420\u0435\u0445"}, {}),
        ({"id": 1, "name": "Rex"}, {"delete_missing": True, "max_delete": "100%"}),
        ({"id": 1, "name": "Rex"}, {"match_on": "name"}),
        ({"id": 1, "name": "Rex"}, {"max_update": 0}),
    ],
)
def test_narrow_needs_all(
    store: Store, box: Sandbox, row: dict[str, Any], options: dict[str, Any]
) -> None:
    """What may depend on other pets makes a plan read all of them."""
    sheet = pd.DataFrame([row]).convert_dtypes()
    plan, whole = store.plan(sheet, **options), store.plan(sheet, scope="all", **options)
    assert plan.coverage.statuses == STATUSES
    assert (plan.pets, plan.uncovered) == (SIZE, ())
    for name in ("changes", "conflicts", "blocked", "notes", "verdict"):
        assert getattr(plan, name) == getattr(whole, name)


def test_narrow_held_rows(store: Store, box: Sandbox, tmp_path: Path) -> None:
    """With scope rows, a row that needs more than its own pet is a conflict, and the plan names
    what it does not cover.
    """
    sheet = pd.DataFrame(
        {
            "id": [1, 2, 3, None, 7_000],
            "name": ["A", None, None, "D", "E"],
            "status": [None, None, None, "sold", "sold"],
            "category": [None, "Kind 4", None, None, None],
            "tags": [None, None, "tag 6; tag 3", None, None],
        }
    ).convert_dtypes()
    plan = store.plan(sheet, scope="rows")
    assert LIST not in box.requests
    assert {each.row for each in plan.changes} == {0, 4}
    assert {each.row: each.rule for each in plan.conflicts} == dict.fromkeys(
        (1, 2, 3), "not-covered"
    )
    assert "'Kind 4'" in plan.conflicts[0].problem
    assert "--scope all" in plan.conflicts[0].suggestion
    assert len(plan.uncovered) == 3
    for name in ("plan.xlsx", "plan.html", "plan.md"):
        save(plan, tmp_path / name)
    page = " ".join((tmp_path / "plan.html").read_text(encoding="utf-8").split())
    book = load_workbook(tmp_path / "plan.xlsx")["Summary"]
    cells = {str(cell) for row in book.iter_rows(values_only=True) for cell in row}
    for sentence in plan.uncovered:
        assert escape(sentence, quote=False) in page
        assert sentence in cells
    assert "not compared with the pets in no row" in plan.uncovered[2]
    assert "Not covered by this plan" in plan_text(plan)


@pytest.mark.parametrize("cells", [{"category": ""}, {"category": "", "category_id": 7_000}])
def test_narrow_cleared_category(
    store: Store, box: Sandbox, tmp_path: Path, cells: dict[str, Any]
) -> None:
    """A row that empties the category needs only its own pet, in a file and in a DataFrame."""
    frame = pd.DataFrame({"id": [1, 2], **cells})
    file = tmp_path / "cleared.csv"
    frame.replace("", "[clear]").to_csv(file, index=False)
    for sheet in (frame, file):
        assert store.plan(sheet, scope="rows").changes == store.plan(sheet, scope="all").changes
        assert len(store.plan(sheet, scope="rows").changes) == 2
    assert box.requests[LIST] == 2


def test_narrow_capacity(tmp_path: Path) -> None:
    """With scope rows, no pet is added to a service that might drop another one for it."""
    sheet = pd.DataFrame({"id": [5], "name": ["New"], "status": ["sold"], "action": ["add"]})
    with (
        Sandbox(profile="live", auth=False) as box,
        ps.connect(box.url, environ={}, profile="live", state=tmp_path) as store,
    ):
        (conflict,) = store.plan(sheet, scope="rows").conflicts
    assert conflict.rule == "not-covered"
    assert "keeps 1,000" in conflict.problem


@pytest.mark.parametrize("option", [{"delete_missing": True}, {"match_on": "name"}])
def test_narrow_refused(store: Store, box: Sandbox, option: dict[str, Any]) -> None:
    """Options that need all pets are refused with scope rows, before a request."""
    with pytest.raises(SettingsError, match='cannot apply to scope="rows"'):
        store.plan(renamed(1), scope="rows", **option)
    with pytest.raises(SettingsError, match="it must be 'auto', 'rows' or 'all'"):
        store.plan(renamed(1), scope="few")
    assert not box.requests


def test_narrow_without_answer(store: Store, box: Sandbox) -> None:
    """A failed look-up holds back its row with scope rows."""
    box.set_faults("html=1,only=getPetById")
    plan = store.plan(renamed(1), scope="rows")
    assert not plan.changes
    assert [each.rule for each in plan.conflicts] == ["not-looked-up"]


@pytest.mark.parametrize("recheck", ["each", "bulk"])
def test_narrow_apply(store: Store, box: Sandbox, recheck: str) -> None:
    """A run of a narrow plan reads the pets of the plan, and a list only for the guard."""
    few, many = store.plan(renamed(1, 2)), store.plan(renamed(*range(11, 31)))
    before = box.requests
    assert store.apply(few, recheck=recheck, verify=True).exit_code == 0
    assert box.requests[LIST] == before[LIST]
    assert box.requests[LOOK_UP] == before[LOOK_UP] + 4
    assert store.apply(many, recheck=recheck).exit_code == 0
    assert box.requests[LIST] == before[LIST] + 1
    assert box.pets()[29].name == "New 30"


def test_narrow_apply_smaller(store: Store, box: Sandbox) -> None:
    """The size of the store is not taken from a plan: a store that has lost its pets since refuses
    the run.
    """
    plan = store.plan(renamed(*range(1, 21)))
    assert plan.verdict.ok
    box.reset([stored(number) for number in range(1, 22)])
    with pytest.raises(GuardError, match="20 updates are more than"):
        store.apply(plan)


def test_narrow_why(store: Store, box: Sandbox) -> None:
    """The reasons for a pet in a row need no list; those for another pet do."""
    sheet = renamed(1, 2)
    assert store.why(sheet, 2)[0].rule == "updated"
    assert box.requests == {LIST: 1, LOOK_UP: 2}
    assert store.why(sheet, 77)[0].rule == "left-alone"
    (unread,) = store.why(sheet, 77, scope="rows")
    assert unread.rule == "uncovered"
    assert "only the pets that rows name were read" in unread.sentence


def test_narrow_sentinel(store: Store, box: Sandbox) -> None:
    """Sentinels in no row are looked up, too."""
    plan = store.plan(renamed(1), sentinels=(2,))
    assert plan.coverage.ids == (1, 2)
    assert [each.id for each in plan.sentinels] == [2]
    assert plan.verdict.ok


def test_narrow_given(store: Store, box: Sandbox) -> None:
    """A plan with a snapshot of all pets reads nothing else, whatever the scope."""
    snapshot = store.snapshot()
    plan: Plan = store.plan(renamed(1), snapshot=snapshot, scope="rows")
    assert box.requests == {LIST: 1}
    assert plan.pets == SIZE


def test_narrow_export(store: Store, tmp_path: Path) -> None:
    """A few rows of an export are merged three ways, as with the whole list."""
    path = tmp_path / "pets.csv"
    ps.write_sheet(store.snapshot(), path)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame.loc[0, "name"] = "Rex"
    frame.loc[3, "tags"] = "tag 4; 99:own"
    frame[:40].to_csv(path, index=False)
    store.apply(store.edit(2, name="Elsewhere"))
    plan, whole = store.plan(path), store.plan(path, scope="all")
    assert plan.coverage.is_narrow
    assert plan.changes == whole.changes
    assert [each.pet_id for each in plan.changes] == [1, 4]
    assert plan.older == whole.older != ()


def test_narrow_lost_id(store: Store, tmp_path: Path) -> None:
    """A row of an export with an id below 1 may be the row of any pet, so all pets are read."""
    path = tmp_path / "pets.csv"
    ps.write_sheet(store.snapshot(), path)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)[["id", "name", "status"]]
    frame.loc[6, "id"] = "-7"
    frame[:10].to_csv(path, index=False)
    plan, whole = store.plan(path), store.plan(path, scope="all")
    assert plan.conflicts == whole.conflicts
    (conflict,) = plan.conflicts
    assert (conflict.rule, conflict.pet_id) == ("lost-id", 7)
    part = store.plan(path, scope="rows")
    assert [each.rule for each in part.conflicts] == ["id-below-one"]
    assert "not compared with the pets in no row" in part.uncovered[-1]


def test_narrow_undo(store: Store, box: Sandbox) -> None:
    """An undo of a few changes looks up their pets, and restores them."""
    sheet = renamed(1, 2, 3).assign(action=["", "", "delete"])
    report = store.apply(store.plan(sheet))
    before = box.requests
    undo = store.undo(report.run_id)
    assert box.requests - before == {LIST: 1, LOOK_UP: 3}
    assert undo.coverage == Coverage(ids=(1, 2, 3))
    assert (undo.verdict.ok, undo.conflicts) == (True, ())
    assert store.apply(undo).exit_code == 0
    assert box.pets() == [stored(number) for number in range(1, SIZE + 1)]


def test_narrow_resume(store: Store, box: Sandbox) -> None:
    """A resumed run of a narrow plan needs no list either."""
    plan = store.plan(renamed(1, 2, 3))
    box.set_faults("portal=1,only=updatePetWithForm")
    report = store.apply(plan)
    assert report.counts["failed"] + report.counts["unknown"] == 3
    box.set_faults(None)
    before = box.requests
    assert store.resume(report.run_id).exit_code == 0
    assert box.requests[LIST] == before[LIST]
    assert [each.name for each in box.pets()[:3]] == ["New 1", "New 2", "New 3"]


def test_narrow_rehearsed(store: Store, box: Sandbox, tmp_path: Path) -> None:
    """A narrow plan is rehearsed on a copy of all pets."""
    rehearsal = ps.rehearse(store, store.plan(renamed(1)))
    assert (rehearsal.ok, len(rehearsal.before)) == (True, SIZE)
