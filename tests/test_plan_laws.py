"""Laws that hold for every plan, for any export, sheet and store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace as but
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest
from hypothesis import Phase, assume, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from reference import UNITS, compared
from times import times
from triples import STATUSES, Triple, row_of, triple_of, triples

import petsync as ps
from petsync.models import Pet, Tag
from petsync.plan.change import Clash, Conflict
from petsync.plan.fields import normalize
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

SHORT = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
brief = settings(max_examples=times(25), phases=SHORT)


def always(law: Callable[[Triple], None]) -> Callable[[], None]:
    """Return a test of the law with many small triples, and with catalogues of hundreds of pets,
    with and without their export, whose rows are compared by whole columns.
    """
    tested: Callable[[], None] = given(triple=triples())(law)
    for triple in CATALOGUES:
        tested = example(triple=triple)(tested)
    return brief(tested)


# Rows without an id can hold back all deletes, so two catalogues have none.
CATALOGUES = [
    but(
        triple_of(600, Random(seed), based=based, strangers=strangers, owned=seed > 1),
        covered=STATUSES if strangers else STATUSES[:2],
        delete_missing=True,
    )
    for seed, (based, strangers) in enumerate(product([False, True], [0, 30]))
]
CATALOGUES.append(but(CATALOGUES[2], owners={}))


def comparable_values(pet: Pet | None) -> Any:
    """Return all values of a pet that a comparison uses."""
    if pet is None:
        return None
    counted = {unit: compared(unit, pet) for unit in UNITS}
    return {"id": pet.id, **counted, "tags": sorted(counted["tags"], key=str)}


def effect(plan: Plan, labels: Mapping[int, int] | None = None) -> Any:
    """Return the content of a plan, independent of the order of its rows. `labels` replace the
    numbers of rows.
    """
    names = labels or {}
    changes = [
        (
            names.get(change.row or 0, change.row),
            change.kind,
            comparable_values(change.before),
            comparable_values(change.after),
            change.fields,
        )
        for change in plan.changes
    ]
    conflicts = [
        (
            names.get(each.row or 0, each.row),
            each.pet_id,
            each.rule,
            sorted(clash.column for clash in each.clashes),
        )
        for each in plan.conflicts
    ]
    counts = plan.unchanged, plan.ignored, plan.rows, plan.older, plan.deleted_in_store
    return sorted(changes, key=str), sorted(conflicts, key=str), counts


def everything(triple: Triple) -> dict[int, Pet]:
    """Return all pets of a triple's store, by their ids."""
    return {**triple.listed, **triple.elsewhere}


@always
def test_the_plan_is_the_reference_merge(triple: Triple) -> None:
    """Every change, conflict and count equals that of a simple loop over the documented rules.
    `benchmarks/owners.py` does this for 1,000,000 rows with random owners.
    """
    check_against_reference(triple)


def check_against_reference(triple: Triple) -> bool:
    """Check every change, conflict and count of a plan. Return false where the reference has no
    rule: if rows seem to have moved without their ids, or if rows without an id are other pets that
    are as good.
    """
    plan = triple.plan()
    expected = triple.expected()
    if any(each.rule == "misplaced-id" for each in plan.conflicts):
        return False
    assert expected.is_as_good(plan.recognised)
    if sorted(plan.recognised.values()) != sorted(expected.recognised.values()):
        return False
    adds = {add.row: comparable_values(add.after) for add in plan.adds}
    assert adds == {row: comparable_values(pet) for row, pet in expected.adds.items()}
    updates = {update.row: comparable_values(update.after) for update in plan.updates}
    assert updates == {row: comparable_values(pet) for row, pet in expected.updates.items()}
    assert {(delete.before.id, delete.why) for delete in plan.deletes} == expected.deletes
    conflicts: defaultdict[tuple[int | None, int | None], list[Conflict]] = defaultdict(list)
    for each in plan.conflicts:
        conflicts[each.row, each.pet_id].append(each)
    wanted = {(row, number): (rules, units) for row, number, rules, units in expected.conflicts}
    assert conflicts.keys() == wanted.keys()
    for place, (rules, clashes) in wanted.items():
        found = conflicts[place]
        assert {each.rule for each in found} <= rules
        sides = {clash.column: each.winner for each in found for clash in each.clashes}
        assert sum(len(each.clashes) for each in found) == len(sides)
        winners = dict.fromkeys(clashes, triple.on_conflict)
        if place[0] in expected.refused and "status" in clashes:
            winners["status"] = "store"
        assert sides == winners
        assert len(found) == max(1, len({*winners.values()}))
        assert clashes or found[0].winner == ""
    assert (plan.unchanged, plan.ignored) == (expected.unchanged, expected.ignored)
    assert set(plan.older) == expected.older
    assert set(plan.deleted_in_store) == expected.gone
    return True


@always
def test_a_second_plan_has_nothing_left_to_change(triple: Triple) -> None:
    """After a plan was applied, the same sheet gives no further change; its conflicts stay."""
    # An add without an id always adds another pet.
    numbered = {
        row: line
        for row, line in triple.lines.items()
        if line.get("id") is not None or line["action"] != "add"
    }
    # A category id that is not in the store may be one that another row adds, and one that another
    # category has may be free after the plan.
    unsure = {each.row for each in triple.plan().conflicts if each.rule == "no-category-name"}
    used = {
        pet.category.id: pet.category.name for pet in everything(triple).values() if pet.category
    }
    unsure |= {
        row
        for row, line in numbered.items()
        if line.get("category_id") in used
        and normalize(line.get("category")) != normalize(used[line.get("category_id")])
    }
    sure = {row: line for row, line in numbered.items() if row not in unsure}
    triple = but(triple, lines=sure)
    plan = triple.plan()
    after = triple.after(plan)
    again = after.plan()
    assert again.changes == ()
    assert again.pets == len(after.listed)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """Yield an empty store."""
    with Sandbox(auth=False) as box:
        yield box


@pytest.mark.parametrize("seed", range(times(8)))
def test_a_second_plan_of_each_of_several_frames_has_nothing_left_to_change(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """If DataFrames without ids are applied and planned again in random order, a further plan of
    one of them has no change or conflict, except for rows that its first plan held as conflicts.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))
    box.reset([])
    chance = Random(seed)
    frames = [
        pd.DataFrame(
            [
                {
                    "name": chance.choice(["Ada", "Bo", "Cy", "Dot"]),
                    "status": chance.choice(STATUSES[:2]),
                    "tags": chance.choice([[], ["a"], ["b"]]),
                    "action": chance.choice(["", "", "", "add-another"]),
                }
                for _ in range(chance.randint(1, 4))
            ]
        )
        for _ in range(3)
    ]
    held: dict[int, set[int | None]] = {}
    with ps.connect(box.url, state=tmp_path / "state") as store:
        for number in chance.choices(range(3), k=6):
            plan = store.plan(frames[number])
            if number in held:
                assert {each.row for each in (*plan.changes, *plan.conflicts)} <= held[number]
            elif not plan.updates:
                store.apply(plan, progress=False)
                held[number] = {each.row for each in plan.conflicts}


@always
def test_a_plan_changes_what_it_says_and_nothing_else(triple: Triple) -> None:
    """An update names exactly the fields in which the pet differs and changes no other, and each
    pet is changed once.
    """
    plan = triple.plan()
    numbers = [change.pet_id for change in plan.changes if change.pet_id is not None]
    assert len(numbers) == len(set(numbers))
    store = everything(triple)
    for update in plan.updates:
        assert update.before == store[update.before.id or 0]
        of_category = {"category": "category", "category_id": "category"}
        touched = {of_category.get(column, column) for column in update.fields}
        assert touched == {
            unit for unit in UNITS if compared(unit, update.before) != compared(unit, update.after)
        }
        for unit in {*UNITS, "extra", "id"} - touched:
            assert getattr(update.after, unit) == getattr(update.before, unit)
    for delete in plan.deletes:
        assert delete.before == store[delete.before.id or 0]


@always
def test_no_pet_is_deleted_that_is_not_proved_missing(triple: Triple) -> None:
    """A pet is deleted as missing only on request, if its status was queried, no row names it, and
    it is unchanged since the export.
    """
    plan = triple.plan(delete_missing=True)
    named = {line.get("id") for line in triple.lines.values()}
    asked = {line.get("id") for line in triple.lines.values() if line["action"] == "delete"}
    for delete in plan.deletes:
        number = delete.before.id or 0
        if delete.why == "asked":
            assert number in asked
            continue
        assert number in triple.listed
        assert number not in named
        assert triple.listed[number].status in triple.covered
        watched = [unit for unit in UNITS if triple.owners.get(unit) != "never"]
        if triple.base is not None:
            old, now = triple.base[number], triple.listed[number]
            assert all(compared(unit, old) == compared(unit, now) for unit in watched)
    assert {d.before.id for d in triple.plan(delete_missing=False).deletes} <= asked


@always
def test_blank_cells_and_missing_columns_change_nothing(triple: Triple) -> None:
    """A blank cell or a missing column leaves the pet's value unchanged."""
    silences = (
        lambda line: {**dict.fromkeys(line), "id": line["id"], "action": "merge"},
        lambda line: {"id": line["id"], "action": "merge"},
    )
    there = {
        row: line for row, line in triple.lines.items() if line.get("id") in everything(triple)
    }
    for silence in silences:
        silent = {row: silence(line) for row, line in there.items()}
        plan = triple.plan(lines=silent, delete_missing=False)
        assert (plan.changes, plan.conflicts) == ((), ())
        assert plan.unchanged == len(silent)


@brief
@given(triples(), st.sampled_from([*UNITS]))
def test_a_silent_unit_is_no_change_s_field(triple: Triple, unit: str) -> None:
    """A missing column removes the planned change of its unit, and of no other."""
    columns = ("category", "category_id") if unit == "category" else (unit,)
    without = {
        row: {name: line[name] for name in line if name not in columns}
        for row, line in triple.lines.items()
        if line.get("id") in everything(triple) and line["action"] == "merge"
    }
    whole = triple.plan(lines={row: triple.lines[row] for row in without})
    part = triple.plan(lines=without)
    updates = {update.row: update for update in whole.updates}
    held = {conflict.row for conflict in whole.conflicts if not conflict.clashes}
    for update in part.updates:
        assert not set(update.fields) & set(columns)
        if update.row not in held:
            rest = [name for name in updates[update.row].fields if name not in columns]
            assert list(update.fields) == rest


NEW = {"name": "Rex", "status": "sold"}


@brief
@given(triples(), st.randoms(use_true_random=False))
@example(Triple(base=None, lines={2: {**NEW}, 3: {**NEW}}, listed={}), Random(3))
def test_the_order_of_rows_changes_nothing(triple: Triple, chance: Any) -> None:
    """A sheet in another order gives the same changes, conflicts and counts. Of new rows with the
    same values, the first one is added.
    """
    rows = list(triple.lines.items())
    chance.shuffle(rows)
    labels = {
        row: next(n for n, other in triple.lines.items() if other == line) for row, line in rows
    }
    moved = triple.plan(lines=dict(rows))
    assert effect(moved, labels) == effect(triple.plan(), labels)


@pytest.mark.parametrize("is_turned", [False, True])
def test_rows_without_an_id_find_their_pets_in_any_order(is_turned: bool) -> None:
    """In any order, a row without an id does not take the only pet that matches another row."""
    old = Pet(id=1, name="Rex", status="sold", tags=(Tag(2, "old"),))
    rows = [
        {"name": "Rex", "status": "sold"},
        {"name": "Rex", "status": "sold", "tags": list(old.tags)},
    ]
    lines = dict(enumerate(reversed(rows) if is_turned else rows, 2))
    listed = {1: old, 2: replace(old, id=2, tags=())}
    plan = Triple(base=None, lines=lines, listed=listed).plan()
    assert plan.changes == ()
    assert plan.unchanged == 2


@brief
@given(triples(based=True))
def test_unedited_values_change_nothing(triple: Triple) -> None:
    """An unedited export gives no change and no conflict, for any state of the store, in fields
    that the sheet does not own.
    """
    assert triple.base is not None
    owners = {unit: owner for unit, owner in triple.owners.items() if owner != "sheet"}
    triple = but(triple, owners=owners)
    untouched = {row: row_of(pet) for row, pet in enumerate(triple.base.values(), 2)}
    plan = triple.plan(lines=untouched, delete_missing=True)
    assert (plan.changes, plan.conflicts) == ((), ())
    assert plan.unchanged == len(untouched)


@brief
@given(triples(based=True))
def test_an_unchanged_store_needs_no_base(triple: Triple) -> None:
    """If the store is unchanged since the export, plans with and without the base have the same
    changes, except where a category id is left beside an edited name.
    """
    assert triple.base is not None
    lines = {
        row: line
        for row, line in triple.lines.items()
        if line["action"] == "merge" and line.get("category_id") is None
    }
    still = but(triple, lines=lines, listed=triple.base, elsewhere={})
    # Only a base shows that a row may have lost its id.
    lost = {each.row for each in still.plan().conflicts if each.rule == "lost-id"}
    still = but(still, lines={row: line for row, line in lines.items() if row not in lost})
    three, two = still.plan(), still.plan(base=None)
    assert effect(three)[0] == effect(two)[0]
    assert not any(conflict.clashes for conflict in three.conflicts)


def clashes_of(plan: Plan, held: Collection[int | None]) -> dict[int | None, dict[str, Clash]]:
    """Return the clashes by row and column, without those of held rows."""
    rows: defaultdict[int | None, dict[str, Clash]] = defaultdict(dict)
    for conflict in plan.conflicts:
        if conflict.row not in held:
            rows[conflict.row] |= {clash.column: clash for clash in conflict.clashes}
    return dict(rows)


@brief
@given(triples(based=True))
def test_conflicts_are_listed_whoever_wins(triple: Triple) -> None:
    """The winner decides only whose value is used in the clashing fields; the same conflicts are
    listed.
    """
    store, sheet = triple.plan(on_conflict="store"), triple.plan(on_conflict="sheet")
    winners = {
        "store": {c.winner for c in store.conflicts if c.clashes},
        "sheet": {
            c.winner for c in sheet.conflicts if any(not clash.refused for clash in c.clashes)
        },
    }
    assert all(found <= {name} for name, found in winners.items())
    held = {conflict.row for conflict in sheet.conflicts if not conflict.clashes}
    listed = clashes_of(store, held)
    assert listed == clashes_of(sheet, held)
    fields = {update.row: set(update.fields) for update in store.updates}
    for update in sheet.updates:
        clashing = {*listed.get(update.row, ())}
        more = set(update.fields) - fields.get(update.row, set())
        assert more <= clashing | ({"category_id"} if "category" in clashing else set())
        assert fields.get(update.row, set()) <= set(update.fields)


@brief
@given(triples(based=True))
def test_where_the_sheet_wins_it_is_in_sync_afterwards(triple: Triple) -> None:
    """If all rows are edits and the sheet wins, a second plan is in sync and has no conflict."""
    lines = {
        row: line
        for row, line in triple.lines.items()
        if line["action"] == "merge" and line.get("id") in everything(triple)
    }
    triple = but(triple, lines=lines, on_conflict="sheet", delete_missing=False)
    plan = triple.plan()
    assume(not plan.open_conflicts)
    again = triple.after(plan).plan()
    assert again.in_sync
    assert again.conflicts == ()


@always
def test_every_row_is_one_thing(triple: Triple) -> None:
    """Each row is changed, in conflict, ignored or unchanged; a row with a clash can also be
    changed.
    """
    plan = triple.plan()
    changed = [change.row for change in plan.changes if change.row is not None]
    clashing = {conflict.row for conflict in plan.conflicts if conflict.clashes}
    held = [c.row for c in plan.conflicts if not c.clashes and c.row is not None]
    assert not set(changed) & set(held)
    rows = {*changed, *clashing, *held}
    assert plan.rows == len(triple.lines) == len(rows) + plan.unchanged + plan.ignored


@always
def test_a_plan_is_a_value(triple: Triple) -> None:
    """The same input gives an equal plan with the same fingerprint, and its file reads back
    equal.
    """
    one, other = triple.plan(), triple.plan()
    assert one == other
    read = Plan.from_json(one.to_json())
    assert read == one
    assert read.fingerprint == one.fingerprint == other.fingerprint
