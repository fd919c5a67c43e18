"""The guard at its limits: exactly at a limit, and one above, for stores of every size."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from shop import base_of, error_at, plan_of, sheet_of, sheet_saying
from times import times

import petsync as ps
from petsync.errors import GuardError, SettingsError
from petsync.models import Category, Pet, Tag
from petsync.plan.change import Update
from petsync.plan.compare import find_shifted
from petsync.plan.guard import Guard, Limit, Refusal, Verdict
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox
from petsync.table.sheet import Sheet

SIZES = [1, 9, 10, 10_000]
FREE = Guard(max_update=Limit(1.0), max_delete=Limit(1.0), allow_empty=True)
HIDDEN = 10**6
"""The first id of pets that no query lists, so that a plan can have more changes than the snapshot
has pets.
"""


@functools.cache
def shop(size: int) -> tuple[Pet, ...]:
    """Return this number of pets."""
    return tuple(Pet(id=n, name=f"p{n}", status="sold") for n in range(1, size + 1))


def plan_to(kind: str, count: int, size: int, guard: Guard) -> Plan:
    """Return a plan of `count` changes of a kind, for a store of `size` pets."""
    if kind == "add":
        rows: list[dict[str, Any]] = [{"name": f"n{n}", "status": "sold"} for n in range(count)]
        return plan_of(shop(size), sheet_saying(*rows), guard=guard)
    cells = {"action": "delete"} if kind == "delete" else {"name": "x", "action": "update"}
    ids = [*range(1, min(count, size) + 1), *range(HIDDEN, HIDDEN + max(0, count - size))]
    hidden = {n: Pet(id=n, name="h", status="lost") for n in ids if n >= HIDDEN}
    sheet = sheet_saying(*({"id": n} | cells for n in ids))
    return plan_of(shop(size), sheet, elsewhere=hidden, guard=guard)


def overridden(plan: Plan) -> Guard:
    """Return the plan's guard after the options that its verdict names."""
    guard = plan.guard
    for refusal in plan.verdict.refusals:
        option, _, value = refusal.override.partition(" ")
        name = option.removeprefix("--").replace("-", "_")
        guard = replace(guard, **{name: Limit.parse(value, option) if value else True})
    return guard


def limits(plan: Plan) -> list[str]:
    """Return the names of the limits that a plan exceeds, in the order of its verdict."""
    return [refusal.limit for refusal in plan.verdict.refusals]


def check_edge(kind: str, size: int, most: int, guard: Guard) -> None:
    """Check that `most` changes pass, and that one more is refused but passes with the
    named option.
    """
    assert limits(plan_to(kind, most, size, guard)) == []
    over = plan_to(kind, most + 1, size, guard)
    assert limits(over) == [kind]
    assert f"{most + 1:,} {kind}" in over.verdict.refusals[0].problem
    with pytest.raises(GuardError, match=f"max_{kind}={most + 1}"):
        over.require_ok()
    assert plan_to(kind, most + 1, size, overridden(over)).verdict.ok


@pytest.mark.parametrize(("size", "most"), [(1, 10), (9, 10), (10, 10), (34, 10), (10_000, 3000)])
def test_updates_pass_up_to_30_percent_and_ten_always(size: int, most: int) -> None:
    """By default, updates of 30 % of the store, rounded down, pass, and always ten."""
    check_edge("update", size, most, Guard())


@pytest.mark.parametrize(
    ("size", "most"), [(9, 1), (10, 1), (19, 1), (20, 2), (10_000, 1000)]
)  # fmt: skip
def test_deletes_pass_up_to_10_percent_and_one_always(size: int, most: int) -> None:
    """By default, deletes of 10 % of the store, rounded down, pass, and always one."""
    check_edge("delete", size, most, Guard())


@pytest.mark.parametrize(("size", "most"), [(1, 100), (150, 100), (202, 101), (1001, 500)])
def test_adds_pass_up_to_half_of_the_store_and_100_always(size: int, most: int) -> None:
    """By default, adds of half the store pass, and always 100, so that a catalogue without ids is
    not added again.
    """
    check_edge("add", size, most, Guard(allow_empty=True))


def test_a_first_import_is_free() -> None:
    """Any number of adds passes into an empty store unless a share is set, and None means no
    limit.
    """
    assert plan_to("add", 500, 0, Guard()).verdict.ok
    assert limits(plan_to("add", 1, 0, Guard(max_add=Limit(0.5)))) == ["add"]
    assert plan_to("add", 500, 1, Guard(max_add=None)).verdict.ok


@pytest.mark.parametrize(("size", "most"), [(1, 0), (9, 4), (10, 5), (10_000, 5000)])
def test_adds_pass_up_to_a_share_that_is_asked_for(size: int, most: int) -> None:
    """A share for adds is rounded down, to zero in the smallest store."""
    # A sheet without adds has no row.
    check_edge("add", size, most, Guard(max_add=Limit(0.5), allow_empty=True))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("most", [0, 3])
@pytest.mark.parametrize("kind", ["add", "update", "delete"])
def test_a_number_is_exactly_that(kind: str, most: int, size: int) -> None:
    """A number as a limit is exact for a store of any size, and zero lets nothing pass."""
    # A delete of all pets is another limit.
    guard = replace(Guard(allow_empty=True), **{f"max_{kind}": Limit(most, is_share=False)})
    if most:
        check_edge(kind, size, most, guard)
    else:
        assert limits(plan_to(kind, 1, size, guard)) == [kind]


@pytest.mark.parametrize("size", [1, 9, 10])
def test_a_share_of_nothing_lets_the_small_numbers_pass(size: int) -> None:
    """A share of zero still lets ten updates and one delete pass."""
    none = Guard(max_update=Limit(0.0), max_delete=Limit(0.0), max_add=Limit(0.0), allow_empty=True)
    for kind, most in [("update", 10), ("delete", 1), ("add", 0)]:
        check_edge(kind, size, most, none)


@pytest.mark.parametrize("size", SIZES)
def test_never_all_pets_are_deleted(size: int) -> None:
    """A delete of every pet is refused by any limit of deletes, and passes only with
    --allow-empty.
    """
    wide = Guard(max_delete=Limit(1.0))
    if size > 1:
        assert limits(plan_to("delete", size - 1, size, wide)) == []
    everything = plan_to("delete", size, size, wide)
    assert limits(everything) == ["everything"]
    assert everything.verdict.refusals[0].override == "--allow-empty"
    with pytest.raises(GuardError, match="allow_empty=True"):
        everything.require_ok()
    assert plan_to("delete", size, size, overridden(everything)).verdict.ok


def test_the_only_pet_is_everything() -> None:
    """A delete of the only pet is a delete of every pet."""
    assert limits(plan_to("delete", 1, 1, Guard())) == ["everything"]


@pytest.mark.parametrize("size", [0, *SIZES])
def test_a_sheet_without_rows_is_refused(size: int) -> None:
    """A sheet without rows is refused as a probable wrong file; --allow-empty lets it pass."""
    empty = plan_of(shop(size), sheet_of([]), guard=Guard())
    assert limits(empty) == ["empty"]
    assert empty.changes == ()
    with pytest.raises(GuardError, match="allow_empty=True"):
        empty.require_ok()
    assert plan_of(shop(size), sheet_of([]), guard=overridden(empty)).verdict.ok
    assert plan_of(
        shop(size), sheet_saying({"name": "n", "status": "sold"}), guard=Guard()
    ).verdict.ok


def test_a_sheet_with_errors_in_every_row_deletes_no_missing_pet() -> None:
    """If every row has an error, a plan that deletes missing pets is refused, and one that changes
    nothing is not.
    """
    errors = tuple(error_at(row) for row in range(2, 21))
    sheet = sheet_saying(
        blocked=tuple(range(2, 21)), blocked_ids=frozenset(range(1, 20)), problems=errors
    )
    assert plan_of(shop(20), sheet, guard=Guard()).verdict.ok
    deleting = plan_of(shop(20), sheet, delete_missing=True, guard=Guard())
    assert [delete.pet_id for delete in deleting.deletes] == [20]
    assert limits(deleting) == ["empty"]
    assert deleting.with_guard(Guard(allow_empty=True)).verdict.ok


@pytest.mark.parametrize("size", [9, 10, 10_000])
def test_an_empty_sheet_with_missing_pets_deleted_breaks_three_limits(size: int) -> None:
    """A verdict lists all exceeded limits, each with its option, and all options together let the
    plan pass.
    """
    sheet = sheet_of([])
    plan = plan_of(shop(size), sheet, delete_missing=True, guard=Guard())
    assert limits(plan) == ["empty", "delete", "everything"]
    ways = [refusal.override for refusal in plan.verdict.refusals]
    assert ways == ["--allow-empty", f"--max-delete {size}", "--allow-empty"]
    with pytest.raises(GuardError) as caught:
        plan.require_ok()
    for refusal in plan.verdict.refusals:
        assert refusal.problem in caught.value.problem
        assert str(refusal) in caught.value.message
    for guard, left in [
        (Guard(allow_empty=True), ["delete"]),
        (Guard(max_delete=Limit(1.0)), ["empty", "everything"]),
        (overridden(plan), []),
    ]:
        assert limits(plan_of(shop(size), sheet, delete_missing=True, guard=guard)) == left


def test_every_limit_at_once() -> None:
    """A verdict lists exceeded limits of adds, updates, deletes and sentinels together."""
    rows: list[dict[str, Any]] = [{"id": n, "name": "x"} for n in range(1, 12)]
    rows += [{"id": n, "action": "delete"} for n in (12, 13)]
    rows += [{"name": "n", "status": "sold", "action": "add-another"}] * 3
    tight = Guard(max_add=Limit(2, is_share=False), max_update=Limit(0.0), sentinels=(99, 5))
    plan = plan_of(shop(13), sheet_saying(*rows), guard=tight)
    assert limits(plan) == ["add", "update", "delete", "sentinel", "sentinel"]
    assert [refusal.override for refusal in plan.verdict.refusals] == [
        "--max-add 3",
        "--max-update 11",
        "--max-delete 2",
        "",
        "",
    ]
    freed = replace(overridden(replace(plan, verdict=Verdict(plan.verdict.refusals[:3]))))
    assert limits(plan_of(shop(13), sheet_saying(*rows), guard=freed)) == ["sentinel", "sentinel"]


@given(st.integers(0, 10_000), st.integers(0, 10**7), st.integers(0, 1000))
def test_a_share_is_exact(hundredths: int, size: int, least: int) -> None:
    """A percentage is rounded down exactly, without a float's error."""
    limit = Limit.parse(f"{hundredths // 100}.{hundredths % 100:02}%", "--max-update")
    assert limit.allows(size, least) == max(hundredths * size // 10_000, least)


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "-1%", "101%", "10.5", "1e3", "10 % of all", "nan"]
)
def test_a_limit_that_cannot_be_read(text: str) -> None:
    """An invalid limit is an error that names the option, and never a wide limit."""
    with pytest.raises(SettingsError, match="--max-delete"):
        Limit.parse(text, "--max-delete")


class TestSentinels:
    """Sentinels: pets that must exist unchanged and that no plan may touch."""

    store = shop(20)
    guard = replace(FREE, sentinels=(7,))

    def plan(self, *rows: dict[str, Any], store: Any = None, **options: Any) -> Plan:
        """Return the plan for these rows."""
        base = options.pop("base", None)
        sheet = sheet_saying(*rows, base=None if base is None else base_of(base))
        pets = self.store if store is None else store
        return plan_of(pets, sheet, guard=self.guard, **options)

    def test_that_are_as_they_should_be(self) -> None:
        """A plan with unchanged sentinels passes, and carries them for the check before the run."""
        for base in (None, self.store):
            plan = self.plan({"id": 1, "name": "x"}, {"id": 7, "name": "p7"}, base=base)
            assert plan.verdict.ok
            assert plan.sentinels == (self.store[6],)

    def test_that_are_missing(self) -> None:
        """A missing sentinel is refused: the store may be another one, or its list incomplete."""
        plan = self.plan({"id": 1, "name": "x"}, store=self.store[:6])
        assert limits(plan) == ["sentinel"]
        assert "7" in plan.verdict.refusals[0].problem

    def test_that_were_found_by_id_alone_are_missing_too(self) -> None:
        """A sentinel that only getPetById finds counts as missing."""
        store, hidden = self.store[:6], {7: self.store[6]}
        plan = self.plan({"id": 7, "name": "p7"}, store=store, elsewhere=hidden)
        assert limits(plan) == ["sentinel"]

    @pytest.mark.parametrize(
        "changed",
        [{"name": "x"}, {"status": "pending"}, {"tags": (ps.Tag(1, "t"),)}, {"photo_urls": ("u",)}],
        ids=str,
    )
    def test_that_somebody_changed_since_the_export(self, changed: dict[str, Any]) -> None:
        """A sentinel that changed since the export is refused; without a base, the
        change is unknown.
        """
        store = [replace(pet, **changed) if pet.id == 7 else pet for pet in self.store]
        assert limits(self.plan({"id": 1, "name": "x"}, store=store, base=self.store)) == [
            "sentinel"
        ]
        assert self.plan({"id": 1, "name": "x"}, store=store).verdict.ok

    @pytest.mark.parametrize(
        "row",
        [{"id": 7, "name": "x"}, {"id": 7, "action": "delete"}],
        ids=["update", "delete"],
    )
    def test_that_the_plan_would_touch(self, row: dict[str, Any]) -> None:
        """A plan that updates or deletes a sentinel is refused."""
        assert limits(self.plan(row)) == ["sentinel"]
        assert self.plan({"id": 7, "action": "ignore"}).verdict.ok

    def test_that_would_be_deleted_as_missing(self) -> None:
        """A plan that deletes a sentinel as missing is refused."""
        rows = [{"id": pet.id} for pet in self.store if pet.id != 7]
        plan = self.plan(*rows, delete_missing=True)
        assert [delete.before.id for delete in plan.deletes] == [7]
        assert limits(plan) == ["sentinel"]

    def test_that_would_be_added(self) -> None:
        """A plan that adds a missing sentinel is refused."""
        plan = self.plan({"id": 7, "name": "p7", "status": "sold"}, store=self.store[:6])
        assert plan.adds
        assert set(limits(plan)) == {"sentinel"}

    def test_no_option_lets_them_pass(self) -> None:
        """No option and no wide guard lets a change of a sentinel pass."""
        plan = self.plan({"id": 7, "name": "x"})
        assert [refusal.override for refusal in plan.verdict.refusals] == [""]
        with pytest.raises(GuardError, match="7"):
            plan.require_ok()

    def test_a_sentinel_that_is_no_id_is_refused(self) -> None:
        """A sentinel that is not an id raises SettingsError."""
        guard: Any = Guard
        for wrong in (("7",), "7", (7.0,), (True,), 7, [None]):
            with pytest.raises(SettingsError, match="sentinels"):
                guard(sentinels=wrong)
        for right in ([7], np.array([7]), pd.Series([7]), {np.int8(7)}):
            assert guard(sentinels=right) == Guard(sentinels=(7,))

    def test_a_box_is_ticked_or_not(self) -> None:
        """A text as `allow_empty` or `allow_shifted` is refused: "no" would allow it."""
        guard: Any = Guard
        for name in ("allow_empty", "allow_shifted"):
            with pytest.raises(SettingsError, match=f"{name} is 'no'; it must be True or False"):
                guard(**{name: "no"})


def test_a_part_of_a_plan_is_judged_again() -> None:
    """A selected part of a plan is judged on its own and may pass."""
    plan = plan_to("update", 20, 9, Guard())
    assert limits(plan) == ["update"]
    part = plan.select(ids=range(1, 10))
    assert len(part.updates) == 9
    assert part.verdict.ok
    part.require_ok()
    assert limits(plan.select(ids=[*range(1, 10), *range(HIDDEN, HIDDEN + 1)])) == []
    assert limits(plan.select(ids=[*range(1, 10), *range(HIDDEN, HIDDEN + 2)])) == ["update"]


def test_a_part_without_the_sentinel_s_change_may_be_sent() -> None:
    """A part without the sentinel's change passes."""
    sheet = sheet_saying({"id": 1, "name": "x"}, {"id": 7, "name": "x"})
    plan = plan_of(shop(20), sheet, guard=replace(FREE, sentinels=(7,)))
    assert limits(plan) == ["sentinel"]
    assert limits(plan.select(ids=[1])) == []
    assert limits(plan.select(ids=[7])) == ["sentinel"]


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as sandbox:
        yield sandbox


@pytest.fixture
def box(_open_box: Sandbox) -> Sandbox:
    """Return a store of twenty pets."""
    _open_box.reset(list(shop(20)))
    return _open_box


@pytest.mark.parametrize(
    ("guard", "rows", "missing"),
    [
        (Guard(), [{"id": n, "name": "x"} for n in range(1, 12)], False),
        (Guard(), [{"id": n, "action": "delete"} for n in (1, 2, 3)], False),
        (Guard(max_add=Limit(0.0)), [{"name": "n", "status": "sold"}], False),
        (Guard(max_delete=Limit(1.0)), [{"name": "n", "status": "sold"}], True),
        (Guard(sentinels=(7,)), [{"id": 7, "name": "x"}], False),
        (Guard(sentinels=(7,)), [{"id": 7, "action": "delete"}], False),
        (Guard(sentinels=(999,)), [{"id": 1, "name": "x"}], False),
    ],
    ids=[
        "updates", "deletes", "adds", "everything",
        "sentinel updated", "sentinel deleted", "sentinel missing",
    ],
)  # fmt: skip
def test_a_file_whose_verdict_was_taken_out_is_refused_all_the_same(
    guard: Guard, rows: Any, missing: bool, box: Sandbox, tmp_path: Path
) -> None:
    """A plan file without its verdict is refused even with a valid fingerprint, and
    nothing is sent.
    """
    before = box.pets()
    with ps.connect(box.url, state=tmp_path / "state") as store:
        sheet = sheet_saying(*rows)
        plan = store.plan(sheet, guard=guard, delete_missing=missing)
        assert not plan.verdict.ok
        forged = replace(plan, verdict=Verdict(), sentinels=())
        forged.save(tmp_path / "plan.json")
        read = Plan.load(tmp_path / "plan.json")
        assert read.verdict.ok
        with pytest.raises(GuardError):
            store.apply(read)
    assert box.pets() == before
    assert set(box.requests) <= {"getPetById", "findPetsByStatus"}


def test_a_sentinel_that_changed_after_the_plan_stops_the_run(box: Sandbox, tmp_path: Path) -> None:
    """A sentinel that changed after the plan stops the run before anything is sent."""
    with ps.connect(box.url, state=tmp_path / "state") as store:
        sheet = sheet_saying({"id": 1, "name": "x"})
        plan = store.plan(sheet, guard=Guard(sentinels=(7,)))
        box.put(Pet(id=7, name="changed", status="sold"))
        before = box.pets()
        with pytest.raises(GuardError, match="7"):
            store.apply(plan)
    assert box.pets() == before


def test_a_verdict_reads_back_from_its_file() -> None:
    """A verdict's JSON round-trip keeps every refusal."""
    verdict = Verdict((Refusal("update", "too many", "--max-update 3"), Refusal("sentinel", "x")))
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict
    assert not verdict.ok
    assert Verdict().ok


def test_a_catalogue_without_its_ids_is_not_added_once_more() -> None:
    """A catalogue without ids is not added again: similar rows are conflicts, and the guard refuses
    many known names; a number as the limit lets them pass.
    """
    rows = [
        {"name": f"p{n}", "status": "sold", "category": "Dogs", "photo_urls": [f"u{n}"]}
        for n in range(1, 31)
    ]
    pets = [
        Pet(id=n, name=f"p{n}", status="sold", category=Category(1, "Dogs"), photo_urls=(f"u{n}",))
        for n in range(1, 31)
    ]
    edited = sheet_saying(*({**row, "status": "pending"} for row in rows))
    plan = plan_of(pets, edited, guard=Guard(), delete_missing=True)
    assert plan.changes == ()
    assert {each.rule for each in plan.conflicts} == {"looks-alike"}
    assert [each.pet_id for each in plan.conflicts] == [pet.id for pet in pets]
    renamed = sheet_saying(*({**row, "name": f"q{n}"} for n, row in enumerate(rows)))
    assert {each.rule for each in plan_of(pets, renamed).conflicts} == {"looks-alike"}
    other = {"status": "pending", "category": "Cats", "photo_urls": ["x"]}
    strange = plan_of(pets, sheet_saying(*({**row, **other} for row in rows)), guard=Guard())
    assert limits(strange) == ["add"]
    assert [add.namesake for add in strange.adds] == [pet.id for pet in pets]
    assert any("has the name of a pet" in note for note in strange.notes)
    asked = Guard(max_add=Limit(30, is_share=False))
    assert strange.with_guard(asked).verdict.ok
    assert strange.select(numbers=range(10)).verdict.ok


@pytest.mark.parametrize("delete_missing", [False, True])
@pytest.mark.parametrize("edit", [{}, {"status": "pending"}, {"category": "Cats", "tags": []}])
@pytest.mark.parametrize("ids", [range(1, 31), [1, 2, 3, 4, *range(105, 131)]])
def test_a_catalogue_under_other_ids_is_not_added_once_more(
    ids: Sequence[int], edit: dict[str, Any], delete_missing: bool
) -> None:
    """In a catalogue with new ids, each row that looks like a pet in no row is a conflict, and
    nothing is deleted.
    """
    pets = [
        Pet(
            id=100 + n,
            name=f"p{n}",
            status="sold",
            category=Category(1, "Dogs"),
            photo_urls=(f"u{n}",) if n % 2 else (),
        )
        for n in range(1, 31)
    ]
    rows = [
        {
            "id": number,
            "name": pet.name,
            "status": "sold",
            "category": "Dogs",
            "photo_urls": [*pet.photo_urls],
            **(edit if pet.photo_urls or "status" in edit else {}),
        }
        for number, pet in zip(ids, pets, strict=True)
    ]
    changed = [pet for row, pet in zip(rows, pets, strict=True) if row["id"] != pet.id]
    plan = plan_of(pets, sheet_saying(*rows), delete_missing=delete_missing)
    expected = [pet.id for pet in changed]
    assert {each.rule for each in plan.conflicts} == {"looks-alike"}
    assert (plan.adds, plan.deletes) == ((), ())
    assert [each.pet_id for each in plan.conflicts] == expected
    assert all("has the id" in each.problem for each in plan.conflicts)
    meant = [{**row, "action": "add"} if row["id"] < 100 else row for row in rows]
    plan = plan_of(pets, sheet_saying(*meant))
    assert ([add.pet_id for add in plan.adds], plan.conflicts) == (
        [row["id"] for row in rows if row["id"] < 100],
        (),
    )


def test_many_names_in_no_row_are_refused_under_other_ids() -> None:
    """Under new ids, the guard refuses adds with the names of many pets in no row, even if every
    row was edited.
    """
    pets = [
        Pet(id=100 + n, name=f"p{n}", status="sold", category=Category(1, "Dogs"))
        for n in range(1, 31)
    ]
    other = {"status": "pending", "category": "Cats", "photo_urls": ["x"]}
    rows = [{"id": n, "name": f"p{n}", **other} for n in range(1, 31)]
    plan = plan_of(pets, sheet_saying(*rows), guard=Guard())
    assert limits(plan) == ["add"]
    assert [add.namesake for add in plan.adds] == [pet.id for pet in pets]
    assert any("one that no pet has" in note for note in plan.notes)


def test_new_pets_under_ids_of_the_sheet_are_added() -> None:
    """New pets with ids are added if their names are new, or if none of several pets with the name
    is the same.
    """
    placeholder = "https://shop.example/none.jpg"
    pets = [
        Pet(
            id=n,
            name="Rex" if n > 18 else f"p{n}",
            status="available",
            category=Category(1, "Dogs"),
            photo_urls=(placeholder,),
        )
        for n in range(1, 21)
    ]
    look = {"status": "available", "category": "Dogs", "photo_urls": [placeholder]}
    new = [{"id": 500 + n, "name": f"New {n}", **look} for n in range(20)]
    plan = plan_of(pets, sheet_saying(*new), guard=Guard())
    assert (len(plan.adds), plan.conflicts, plan.verdict.ok) == (20, (), True)
    assert not any(add.namesake for add in plan.adds)
    other = {"id": 600, "name": "Rex", **look, "status": "sold"}
    plan = plan_of(pets, sheet_saying(other))
    assert ([add.namesake for add in plan.adds], plan.conflicts) == ([19], ())
    (same,) = plan_of(pets, sheet_saying({**other, "status": "available"})).conflicts
    assert (same.rule, same.pet_id) == ("looks-alike", 19)
    status_alone = {"id": 600, "name": "p1", "status": "available", "category": "Cats"}
    assert len(plan_of(pets, sheet_saying(status_alone)).adds) == 1


@pytest.mark.parametrize("way", ["unknown id", "no ids", "since the export"])
def test_the_pet_that_a_row_looks_like_is_found_among_many_namesakes(way: str) -> None:
    """A new row that looks like the last of 300 pets of one name is a conflict that names it."""
    pets = [
        Pet(
            id=n,
            name="Rex",
            status="sold",
            category=Category(1, "Dogs"),
            tags=(Tag(n, f"tag {n}"),),
            photo_urls=(f"https://shop.example/{n}.jpg",),
        )
        for n in range(1, 301)
    ]
    row: dict[str, Any] = {"name": "Rex", "status": "pending", "category": "Dogs"}
    row["tags"] = [Tag(None, "tag 300")]
    row["photo_urls"] = ["https://shop.example/new.jpg"]
    rows = [row]
    more: dict[str, Any] = {}
    if way == "unknown id":
        row |= {"id": 900, "status": "sold", "photo_urls": None}
    elif way == "since the export":
        rows.append({"id": 1, "name": "Rex"})
        more["base"] = base_of(pets[:1])
    (conflict,) = plan_of(pets, sheet_saying(*rows, **more)).conflicts
    assert (conflict.row, conflict.rule, conflict.pet_id) == (2, "looks-alike", 300)


@pytest.mark.parametrize("edit", [str.upper, str.title, "{} x".format])
def test_a_copy_of_the_catalogue_with_other_names_is_not_added(edit: Callable[[str], str]) -> None:
    """In a copy without ids in which most rows look like pets, renamed rows are conflicts too; new
    pets are added.
    """
    pets = [
        Pet(
            id=n,
            name=f"pet {n} of 30",
            status=["available", "pending", "sold"][n % 2],
            category=Category(1, "Dogs"),
            photo_urls=(f"u{n}",) if n % 3 else (),
        )
        for n in range(1, 31)
    ]
    columns = {"category_id": 1, "tags": []}
    rows = [
        {
            "name": edit(str(pet.name)),
            "status": pet.status,
            "category": "Dogs",
            "photo_urls": [*pet.photo_urls],
            **columns,
        }
        for pet in pets
    ]
    new = {**rows[0], "name": "New", "status": "sold", "category": "Cats", "category_id": 2}
    new |= {"photo_urls": []}
    plan = plan_of(pets, sheet_saying(*rows, new), delete_missing=True)
    assert [change.kind for change in plan.changes] == ["add"]
    assert plan.adds[0].after.name == "New"
    found = {each.row: each.pet_id for each in plan.conflicts}
    assert found == {row: pet.id for row, pet in enumerate(pets, 2)}
    assert {each.rule for each in plan.conflicts} == {"looks-alike"}
    assert held(*({**row, "action": "add"} for row in rows), pets=pets) == []


@pytest.mark.parametrize(("first", "by"), [(5, 1), (5, 5), (5, 8), (19, 1), (16, 5)])
def test_ids_that_moved_down_add_no_pet_again(first: int, by: int) -> None:
    """If the ids from a row on are too high, each such row is a conflict: the last of them have ids
    that no pet has, and the values of pets whose ids are in other rows.
    """
    pets = [
        Pet(
            id=n,
            name=f"p{n}",
            status=("available", "sold")[n % 2],
            photo_urls=(f"https://shop.example/{n}.jpg",),
        )
        for n in range(1, 21)
    ]
    rows = [
        {
            "id": n if n < first else n + by,
            "name": pet.name,
            "status": pet.status,
            "photo_urls": [*pet.photo_urls],
        }
        for n, pet in enumerate(pets, 1)
    ]
    plan = plan_of(pets, sheet_saying(*rows, base=base_of(pets)))
    assert plan.changes == ()
    assert [each.row for each in plan.conflicts] == [*range(first + 1, 22)]


@pytest.mark.parametrize("has_base", [False, True])
def test_two_exchanged_ids_are_noted(has_base: bool) -> None:
    """Two rows with exchanged ids get a note; a new name does not."""
    pets = [Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 13)]
    base = base_of(pets) if has_base else None
    rows = [{"id": pet.id, "name": pet.name, "status": pet.status} for pet in pets]
    swapped = [{**rows[0], "id": 2}, {**rows[1], "id": 1}, *rows[2:]]
    plan = plan_of(pets, sheet_saying(*swapped, base=base))
    (note,) = (note for note in plan.notes if "move the ids back" in note)
    assert "has the id 2 (earlier 'p2') and the values of pet 1 ('p1')" in note
    named = [{**rows[0], "name": "q1"}, {**rows[1], "name": "q2"}, *rows[2:]]
    plan = plan_of(pets, sheet_saying(*named, base=base))
    assert not any("move the ids back" in note for note in plan.notes)


def test_rows_that_are_other_pets_are_added() -> None:
    """A row is added if its action is `add`, if its namesake has its own row, or if only the name
    agrees.
    """
    pets = [Pet(id=1, name="Rex", status="sold"), Pet(id=2, name="Tom", status="sold")]
    new = {"name": "Rex", "status": "available"}
    assert plan_of(pets, sheet_saying(new | {"action": "add"})).adds[0].namesake is None
    assert plan_of(pets, sheet_saying(new, {"id": 2, "name": "Tom"})).adds[0].namesake == 1
    assert plan_of(pets, sheet_saying(new, {"id": 1, "name": "Rex"})).adds[0].namesake is None
    apart = plan_of(pets, sheet_saying(new | {"category": "Cats", "photo_urls": ["x"]}))
    assert apart.adds[0].namesake == 1
    assert plan_of(pets, sheet_saying(new), match_on=("name",)).updates[0].before == pets[0]


SHOP = [Pet(id=n, name=f"p{n}", status="available") for n in range(1, 11)]


def held(*rows: dict[str, object], pets: Sequence[Pet] = SHOP) -> list[int | None]:
    """Return the pets that the rows of a sheet look like."""
    plan = plan_of(pets, sheet_saying(*rows))
    assert {each.rule for each in plan.conflicts} <= {"looks-alike"}
    return [each.pet_id for each in plan.conflicts]


def test_pets_of_whom_the_sheet_says_name_and_status_alone_are_not_doubled() -> None:
    """If most rows share a pet's name and differ in one column, they are conflicts, not
    new pets.
    """
    sold = [{"name": f"p{n}", "status": "sold"} for n in range(1, 6)]
    assert held(*sold) == [1, 2, 3, 4, 5]
    assert held(*sold[:4], {"name": "p5", "status": "pending"}) == [1, 2, 3, 4, 5]
    assert held(*sold[:2], {"name": "New", "status": "sold"}) == [1, 2]
    assert held(*sold, pets=[*SHOP, Pet(id=11, name="p5", status="pending")]) == [1, 2, 3, 4, 5]


def test_new_arrivals_that_share_a_name_or_two_with_the_store_are_added() -> None:
    """Rows are added if few share a name with the store, if several pets have the name, or if more
    than one column differs.
    """
    new = [{"name": f"New {n}", "status": "sold"} for n in range(3)]
    assert held(*new, {"name": "p1", "status": "sold"}) == []
    assert held(*new, *({"name": f"p{n}", "status": "sold"} for n in (1, 2))) == []
    assert held({"name": "p1", "status": "sold"}) == []
    twice = [msgspec.structs.replace(pet, id=(pet.id or 0) + 20) for pet in SHOP]
    assert held(*({"name": f"p{n}", "status": "sold"} for n in (1, 2, 3)), pets=SHOP + twice) == []
    other = {"status": "sold", "category": "Cats"}
    assert held(*({"name": f"p{n}", **other} for n in (1, 2, 3))) == []
    assert held(*({"name": f"p{n}", "status": "sold", "action": "add"} for n in (1, 2, 3))) == []


NAMES = [f"{letter}{n}" for n in (3, 1, 2, 0) for letter in "DACB"]
STATUSES = [
    {"s": "sold", "a": "available", "p": "pending"}[letter]
    for letter in "sappsaspasapssapaspasppsasp"
]
MOVES: dict[str, Callable[[list[str]], list[str]]] = {
    "sorted": sorted,
    "sorted downwards": lambda values: sorted(values, reverse=True),
    "turned over": lambda values: values[::-1],
    "a cell inserted": lambda values: ["sold", *values[:-1]],
    "a cell deleted": lambda values: [*values[1:], "sold"],
    "two cells inserted far down": lambda values: [*values[:4], "sold", "sold", *values[4:-2]],
}


@pytest.mark.parametrize("move", [*MOVES])
@pytest.mark.parametrize("column", ["name", "status", "category", "tags", "photo_urls"])
def test_a_column_that_left_its_rows_is_refused(column: str, move: str) -> None:
    """A column that was sorted or shifted without its rows is refused by name. Without an export it
    is not recognised, unless all that the rows have is ids and names.
    """
    texts = STATUSES if column == "status" else NAMES
    pets = [exported(n, column, text) for n, text in enumerate(texts, 1)]
    moved = [exported(n, column, text) for n, text in enumerate(MOVES[move](texts), 1)]
    sheet = sheet_of(moved, base=base_of(pets))
    plan = plan_of(pets, sheet, guard=replace(FREE, max_update=Limit(1.0)))
    assert limits(plan) == ["shifted"]
    assert column in plan.shifted
    assert "--allow-shifted" in plan.verdict.refusals[0].override
    assert any("without its rows" in note and f"({column})" in note for note in plan.notes)
    assert plan.with_guard(replace(FREE, allow_shifted=True)).verdict.ok
    assert Plan.from_json(plan.to_json()) == plan
    without_base = plan_of(pets, replace_base(sheet))
    assert without_base.shifted == (("id",) if column == "name" else ())


def test_a_column_that_was_sorted_with_new_rows_is_shifted() -> None:
    """A name column in which only new rows' names are new is refused if it is sorted now and was
    not before; it is not refused if one of its first names is out of order.
    """
    places = 50, 100, 150, 180
    names = [f"n{n:03}" for n in range(200)]
    stored, entered = list(names), list(names)
    for place in places:
        stored[place], entered[place] = f"z{place}", f"n{place:03}x"
    pets = [Pet(id=n + 1, name=name, status="sold") for n, name in enumerate(stored)]
    added = [Pet(name=stored[place], status="sold") for place in places]
    for first, shifted in (("n000", ("name",)), ("z", ())):
        before = [replace(pets[0], name=first), *pets[1:]]
        rows = [replace(pet, name=name) for pet, name in zip(pets, entered, strict=True)]
        sheet = sheet_of([replace(rows[0], name=first), *rows[1:], *added], base=base_of(before))
        assert plan_of(before, sheet).shifted == shifted


@pytest.mark.parametrize("move", ["sorted", "sorted downwards", "turned over", "a cell inserted"])
@pytest.mark.parametrize("column", ["category", "tags"])
def test_a_column_of_few_values_that_left_its_rows_is_refused(column: str, move: str) -> None:
    """A shifted column of few values is refused, also with a new row or with several
    tags in a cell.
    """
    texts = ["shy", "calm", "", "old", "calm", "shy", "old", "calm", "", "shy"] * 2
    pets = [exported(n, column, text) for n, text in enumerate(texts, 1)]
    if column == "tags":
        pets[0] = replace(pets[0], tags=(Tag(None, "shy"), Tag(None, "old")))
    values = [(pet.category, pet.tags) for pet in pets] + [(pets[1].category, pets[1].tags)]
    texts[0] = "shy; old" if column == "tags" else "shy"
    order = MOVES[move]([f"{text} {n:02}" for n, text in enumerate([*texts, "calm"])])
    places = [int(text[-2:]) if text != "sold" else 0 for text in order]
    rows = [
        replace(pet, category=values[at][0], tags=values[at][1])
        for pet, at in zip([*pets, Pet(name="new", status="sold")], places, strict=True)
    ]
    plan = plan_of(
        pets, sheet_of(rows, base=base_of(pets)), guard=replace(FREE, max_update=Limit(1.0))
    )
    assert limits(plan) == ["shifted"]
    assert column in plan.shifted


def exchange(values: list[str]) -> list[str]:
    """Return the values, each exchanged with its neighbour."""
    pairs = zip(values[1::2], values[0::2], strict=False)
    return [*(value for pair in pairs for value in pair), *values[len(values) // 2 * 2 :]]


PARTS: dict[str, Callable[[list[str]], list[str]]] = {
    "sorted": sorted,
    "sorted downwards": lambda values: sorted(values, reverse=True),
    "sorted by a list": lambda values: sorted(values, key="pending sold available".index),
    "turned over": lambda values: values[::-1],
    "exchanged by neighbours": exchange,
}


def random_statuses(random: Random, count: int = 1240) -> list[str]:
    """Return this number of random statuses."""
    return random.choices(["available", "pending", "sold"], [5, 2, 3], k=count)


@pytest.mark.slow
@pytest.mark.parametrize("part", [(0, 100), (300, 500), (700, 1000), (1195, 1240), (20, 50)])
@pytest.mark.parametrize("move", [*PARTS])
def test_a_column_that_left_its_rows_in_a_part_of_the_sheet_is_refused(
    move: str, part: tuple[int, int]
) -> None:
    """A column that was shifted in a part of the sheet is refused despite a few other edits, and
    the note names where the part begins.
    """
    random = Random(f"{move} {part}")
    texts = random_statuses(random)
    moved = texts.copy()
    moved[slice(*part)] = PARTS[move](texts[slice(*part)])
    first = next(n for n in range(*part) if texts[n] != moved[n])
    few = moved.copy()
    for at in (*random.sample(range(*part), part[1] - part[0] >= 100), 600, 610, 640):
        few[at] = "sold"
    pets = [exported(n, "status", text) for n, text in enumerate(texts, 1)]
    for edited in (moved, few):
        rows = [exported(n, "status", text) for n, text in enumerate(edited, 1)]
        plan = plan_of(pets, sheet_of(rows, base=base_of(pets)), guard=FREE)
        assert plan.shifted == ("status",)
        if edited is moved:
            assert any(f"Pets!C{first + 2} (status)" in note for note in plan.notes)


@pytest.mark.slow
def test_no_other_edit_of_statuses_is_taken_for_a_part_that_left_its_rows() -> None:
    """Single edits, filled cells and replaced statuses are not taken for a shifted column."""
    random = Random(7)
    alarms = 0
    for _ in range(times(10)):
        texts = random_statuses(random, random.choice([20, 44, 100]))
        pets = [exported(n, "status", text) for n, text in enumerate(texts, 1)]
        sheet, base = sheet_of(pets, base=base_of(pets)), base_of(pets)
        for edit in random.choices([scatter, crowd, fill, replace_all], k=50):
            edited = edit(random, texts)
            after = [exported(n, "status", text) for n, text in enumerate(edited, 1)]
            updates = [
                Update(before=before, after=pet, row=row, source="", fields=("status",))
                for row, (before, pet) in enumerate(zip(pets, after, strict=True), 2)
                if before != pet
            ]
            alarms += bool(find_shifted(updates, sheet, base))
    assert alarms == 0


def scatter(random: Random, texts: list[str]) -> list[str]:
    """Change single statuses in 5 to 200 rows."""
    places = random.sample(range(len(texts)), min(len(texts), random.randint(5, 200)))
    return retype(random, texts, places)


def crowd(random: Random, texts: list[str]) -> list[str]:
    """Change most statuses of some consecutive rows."""
    start, stop = sorted(random.sample(range(len(texts) + 1), 2))
    places = [n for n in range(start, stop) if random.random() < 0.8]
    return retype(random, texts, places)


def retype(random: Random, texts: list[str], places: Iterable[int]) -> list[str]:
    """Write any status in each of these places."""
    new = dict(zip(places, random_statuses(random), strict=False))
    return [new.get(n, text) for n, text in enumerate(texts)]


def fill(random: Random, texts: list[str]) -> list[str]:
    """Write one status into all rows of a part, or into the rows that a filter shows."""
    start, stop = sorted(random.sample(range(len(texts) + 1), 2))
    shown, new = random.choice(["", "pending", "available"]), random.choice(["sold", "available"])
    part = [new if shown in ("", text) else text for text in texts[start:stop]]
    return [*texts[:start], *part, *texts[stop:]]


def replace_all(random: Random, texts: list[str]) -> list[str]:
    """Replace one status by another in all rows."""
    old, new = random.sample(["available", "pending", "sold"], 2)
    return [new if text == old else text for text in texts]


def test_names_that_left_their_rows_are_known_in_capitals() -> None:
    """Shifted names are recognised in capitals, and names that only became capitals are not."""
    names = [f"{letter}ex {n}" for n in (3, 1, 2) for letter in "DACB"]
    pets = [exported(n, "name", text) for n, text in enumerate(names, 1)]
    for edited, shifted in ((sorted(names), ("name",)), (names, ())):
        rows = [exported(n, "name", text.upper()) for n, text in enumerate(edited, 1)]
        assert plan_of(pets, sheet_of(rows, base=base_of(pets))).shifted == shifted


@pytest.mark.parametrize("blanks", ["first", "last"])
@pytest.mark.parametrize("lost", [[], ["category_id"]])
def test_categories_that_left_their_rows_are_known_beside_blank_cells(
    lost: list[str], blanks: str
) -> None:
    """A shifted category column is recognised although blank cells were sorted with it."""
    kinds = ["Dogs", "Cats", "Fish", "Birds", ""]
    texts = [kinds[n % 4] if n % 9 else "" for n in range(44)]
    pets = [
        Pet(id=n, name="x", category=Category(kinds.index(text), text) if text else None)
        for n, text in enumerate(texts, 1)
    ]
    sheet = sheet_of(pets, base=base_of(pets))
    order = sorted(texts, key=lambda text: ((text == "") == (blanks == "last"), text))
    rows = sheet.frame.assign(category=[text or None for text in order]).drop(columns=lost)
    plan = plan_of(pets, sheet.with_rows(rows), guard=FREE)
    assert "category" in plan.shifted


def exported(number: int, column: str, text: str) -> Pet:
    """Return a pet that has the text in a column."""
    pet = Pet(id=number, name="x", status="sold")
    if column in ("name", "status"):
        return replace(pet, **{column: text})
    value: Any = {
        "category": Category(None, text),
        "tags": (Tag(None, text),),
        "photo_urls": (text,),
    }[column]
    return replace(pet, **{column: value})


def replace_base(sheet: Sheet) -> Sheet:
    """Return the sheet without its export."""
    return dataclasses.replace(sheet, base=None)


@pytest.mark.parametrize(
    "edit",
    [
        lambda values: ["sold"] * len(values),
        lambda values: [value.lower() + "!" for value in values],
        lambda values: [values[1], values[0], *values[2:]],
        lambda values: [f"{n}" for n, _ in enumerate(values)],
    ],
    ids=["all alike", "rewritten", "two exchanged", "all new"],
)
def test_what_people_do_to_a_column_passes(edit: Callable[[list[str]], list[str]]) -> None:
    """Filled, rewritten and renumbered columns, and two exchanged cells, are not taken for shifted
    ones.
    """
    pets = [exported(n, "name", text) for n, text in enumerate(NAMES, 1)]
    moved = [exported(n, "name", text) for n, text in enumerate(edit(NAMES), 1)]
    assert plan_of(pets, sheet_of(moved, base=base_of(pets)), guard=FREE).shifted == ()


def test_the_store_is_counted_again_before_anything_is_sent(tmp_path: Path) -> None:
    """The store's pets are counted again before a run, so a plan file with a false count is refused
    and nothing is sent.
    """
    pets = [Pet(id=n, name=f"p{n}", status="sold") for n in range(1, 41)]
    with (
        Sandbox(auth=False, pets=pets) as sandbox,
        ps.connect(sandbox.url, state=tmp_path / "state") as store,
    ):
        wide = Guard(max_delete=Limit(1.0), max_update=Limit(1.0))
        gone = pd.DataFrame({"id": range(1, 21), "action": "delete"})
        plan = store.plan(gone, guard=wide)
        forged = replace(plan, pets=10**6, guard=Guard()).with_verdict()
        assert forged.verdict.ok
        path = forged.save(tmp_path / "plan.json")
        with pytest.raises(GuardError, match="20 deletes"):
            store.apply(ps.load_plan(path))
        new = pd.DataFrame({"name": [f"n{n}" for n in range(300)], "status": "sold"})
        empty = replace(store.plan(new), pets=0).with_verdict()
        assert empty.verdict.ok
        with pytest.raises(GuardError, match="300 adds"):
            store.apply(empty)
        assert sandbox.requests.keys() <= {"findPetsByStatus", "getPetById"}
        assert store.apply(plan).counts["applied"] == 20


@pytest.mark.parametrize(
    ("cells", "letters"),
    [
        ({"name": "R\u0435x", "status": "sold"}, "CYRILLIC SMALL LETTER IE"),
        ({"name": "new", "status": "sold", "tags": [Tag(None, "c\u0430lm")]}, "CYRILLIC SMALL"),
        (
            {"name": "new", "status": "sold", "category": "\u0421\u041e\u0420"},
            "the store's 'COP'",
        ),
        ({"name": "\u0412\u043e\u0432\u0430", "status": "sold"}, ""),
        ({"name": "Zo\u00eb M\u00fcller \u03b1", "status": "sold"}, ""),
        ({"name": "\u732b\u30ab\u30bf\u304b\u306a", "status": "sold"}, ""),
    ],
)
def test_letters_that_look_like_others_are_pointed_out(cells: dict[str, Any], letters: str) -> None:
    """Mixed scripts in a word, and a text that looks like one in the store, get a note; text in one
    script does not.
    """
    pets = [Pet(id=1, name="Rex", status="sold", category=Category(1, "COP"))]
    row = {"action": "add", **cells}
    notes = [note for note in plan_of(pets, sheet_saying(row)).notes if "letters" in note]
    assert len(notes) == bool(letters)
    assert letters in "".join(notes)
    update = plan_of(pets, sheet_saying({"id": 1, **cells}, base=None))
    assert len([note for note in update.notes if "letters" in note]) == bool(letters)
