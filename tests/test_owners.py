"""Owners of fields: a plan sends nothing that the sheet does not own, and a run neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qs

import httpx
import pandas as pd
import pytest
from msgspec.structs import replace
from openpyxl import load_workbook
from picturing import png_of
from reference import UNITS, compared
from scenarios import DOGS, PETS, changed
from shop import base_of, plan_of, sheet_saying
from times import times
from triples import OWNERS, row_of, value_of

import petsync as ps
from petsync.cli import main
from petsync.errors import SettingsError
from petsync.models import Category, Pet, Tag
from petsync.plan.options import PlanOptions
from petsync.plan.plan import Plan
from petsync.testing import FakeService

pytestmark = pytest.mark.slow

CATS = Category(2, "Cats")
OTHERS: Mapping[str, Any] = {
    "name": "Bello",
    "status": "sold",
    "category": CATS,
    "tags": (Tag(2, "old"),),
    "photo_urls": ("https://shop.example/other.jpg",),
}
REX = Pet(
    id=1,
    name="Rex",
    status="available",
    category=DOGS,
    tags=(Tag(1, "calm"),),
    photo_urls=("https://shop.example/1.jpg",),
)
TOM = Pet(id=9, name="Tom", status="pending", category=CATS, tags=(Tag(2, "old"),))


def plan(row: Pet, store: Pet, *, base: Pet | None = None, **owners: str) -> Plan:
    """Return the plan of one row beside an unchanged one; `base` is the exported pet."""
    more = {} if base is None else {"base": base_of([base, TOM])}
    sheet = sheet_saying(row_of(row), row_of(TOM), **more)
    return plan_of([store, TOM], sheet, owners=owners)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("base", [None, REX], ids=["no base", "base"])
def test_the_sheet_overwrites_the_store_in_its_field(unit: str, base: Pet | None) -> None:
    """The value of an unedited cell is sent, and a note lists the change that it replaces."""
    moved = replace(REX, **{unit: OTHERS[unit]})
    made = plan(REX, moved, base=base, **{unit: "sheet"})
    (update,) = made.updates
    assert compared(unit, update.after) == compared(unit, REX)
    assert made.conflicts == ()
    notes = [note for note in made.notes if note.startswith(f"{unit}: the sheet owns it")]
    assert len(notes) == (base is not None)


@pytest.mark.parametrize("unit", UNITS)
def test_edits_of_both_sides_are_no_conflict_in_a_field_of_one_side(unit: str) -> None:
    """A field of the sheet takes exactly its value, and nothing is sent for one of the store."""
    third: Mapping[str, Any] = {
        "name": "Max",
        "status": "pending",
        "category": Category(9, "Fish"),
        "tags": (Tag(3, "shy"),),
        "photo_urls": ("https://shop.example/3.jpg",),
    }
    edited = replace(REX, **{unit: third[unit]})
    moved = replace(REX, **{unit: OTHERS[unit]})
    (update,) = plan(edited, moved, base=REX, **{unit: "sheet"}).updates
    assert compared(unit, update.after) == compared(unit, edited)
    for owner in ("store", "never"):
        made = plan(edited, moved, base=REX, **{unit: owner})
        assert (made.changes, made.conflicts, made.in_sync) == ((), (), True)
        assert made.unchanged == 2
        assert [n for n in made.notes if n.startswith(f"{unit}: ")] != []


def test_the_explanation_names_the_owner() -> None:
    """`why` has the rule of the owner for a field that it decided, and `equal` for the others."""
    owners = {"name": "sheet", "status": "store", "tags": "never", "category": "store"}
    with FakeService([REX, TOM]) as service, service.connect() as store:
        row = replace(REX, name="Max", status="sold", tags=())
        (why,) = store.why(ps.frame_from_pets([row]), 1, owners=owners)
        rules = {reason.column: reason.rule for reason in why.fields}
        assert (rules["name"], rules["status"]) == ("owner-sheet", "owner-store")
        assert (rules["tags"], rules["category"]) == ("owner-never", "equal")
        (why,) = store.why(ps.frame_from_pets([replace(REX, status="sold")]), 1, owners=owners)
        assert (why.decision, why.rule) == ("unchanged", "owned")
        new = ps.frame_from_pets([replace(REX, id=5, name="Neu", photo_urls=("x",))])
        (why,) = store.why(new, 5, owners=owners)
        rules = {reason.column: reason.rule for reason in why.fields}
        assert (rules["status"], rules["category"], rules["tags"]) == (
            "new",
            "owner-store",
            "owner-never",
        )


@pytest.mark.parametrize("owner", ["store", "never"])
def test_a_new_pet_has_only_the_fields_that_it_needs(owner: str, tmp_path: Path) -> None:
    """A new pet gets name and status from its row, whoever owns them, and no other field of the
    store; the next plan knows the pet, with the journal and without.
    """
    owners = dict.fromkeys(UNITS, owner)
    rows = ps.frame_from_pets([replace(REX, id=None), TOM])
    with FakeService([TOM]) as service, service.connect(state=tmp_path / "a") as store:
        made = store.plan(rows, owners=owners)
        (add,) = made.adds
        assert add.fields == ("name", "status")
        assert sum("a new pet needs one" in note for note in made.notes) == 2
        store.apply(made, progress=False)
        (new,) = (pet for pet in service.pets() if pet.id != TOM.id)
        assert (new.category, new.tags, new.photo_urls) == (None, (), ())
        assert store.plan(rows, owners=owners).changes == ()
        # Without the owner, the values that were not sent are still edits of the row.
        (update,) = store.plan(rows).updates
        assert (update.pet_id, update.after.category) == (new.id, DOGS)
        with service.connect(state=tmp_path / "b") as other:
            assert other.plan(rows, owners=owners).changes == ()


def test_a_twin_is_not_added_twice() -> None:
    """A row with the action `add` is a conflict if a pet has all its values, or those to send."""
    line = {**row_of(replace(REX, id=None)), "action": "add"}
    for twin in (REX, Pet(id=1, name="Rex", status="available")):
        owners = {"category": "store", "tags": "store", "photo_urls": "never"}
        made = plan_of([twin, TOM], sheet_saying(line, row_of(TOM)), owners=owners)
        assert [each.rule for each in made.conflicts] == ["twin"]
        assert made.changes == ()


def test_rows_that_add_the_same_pet_are_told_from_pets_by_what_is_sent() -> None:
    """The pet of a new row belongs to this row, not to one with fewer values, although it lacks the
    row's values that are not sent.
    """
    rows = [
        {"name": "Rex", "category": "Cats"},
        {"name": "Rex", "status": "sold", "category": "Cats", "tags": [Tag(1, "shy")]},
    ]
    added = Pet(id=5, name="Rex", status="sold", category=CATS)
    for lines in (rows, rows[::-1]):
        made = plan_of([added, TOM], sheet_saying(*lines, row_of(TOM)), owners={"tags": "store"})
        assert made.changes == ()
        assert made.recognised == {2 + lines.index(rows[1]): 5}


@pytest.mark.parametrize("owner", ["store", "never"])
def test_a_status_that_the_store_changed_adds_no_pet_again(owner: str) -> None:
    """A row without an id means the pet with its name and all its values that are sent, also after
    the store changed the status with which it was added; a note says that the status is not sent.
    """
    line = row_of(replace(REX, id=None))
    sold = replace(REX, status="sold")
    for rows in ([line, row_of(TOM)], [line]):
        made = plan_of([sold, TOM], sheet_saying(*rows), owners={"status": owner})
        assert made.changes == made.conflicts == ()
        assert made.recognised == {2: 1}
        assert [note for note in made.notes if note.startswith("status: ")] != []


def test_a_row_prefers_the_pet_with_its_values_that_are_not_sent() -> None:
    """Of two pets that are equal in all that is sent, each row means the one with its tags."""
    shy, old = (replace(REX, tags=(Tag(n, word),)) for n, word in ((1, "shy"), (2, "old")))
    rows = [row_of(replace(pet, id=None)) for pet in (old, shy)]
    made = plan_of([shy, replace(old, id=2)], sheet_saying(*rows), owners={"tags": "store"})
    assert made.recognised == {2: 2, 3: 1}


def test_a_column_to_match_on_that_is_not_sent_adds_no_pet_twice() -> None:
    """If a row matches no pet because its key is not sent, a pet in no row with its name and its
    values that are sent is a conflict, for each such row; other rows are added.
    """
    options: Any = {"match_on": ["name", "category"], "owners": {"category": "store"}}
    line = row_of(replace(REX, id=None))
    other_row = {**line, "name": "Bello"}
    sheet = sheet_saying(line, line, other_row, row_of(TOM))
    first = plan_of([TOM], sheet, **options)
    assert [add.row for add in first.adds] == [2, 4]
    assert [(c.row, c.rule) for c in first.conflicts] == [(3, "twin")]
    added = replace(REX, category=None)
    made = plan_of([added, TOM], sheet, **options)
    assert [(c.row, c.rule, c.pet_id) for c in made.conflicts] == [
        (2, "looks-alike", 1),
        (3, "looks-alike", 1),
    ]
    assert [add.row for add in made.adds] == [4]
    # A row that matches a pet by its key means this pet.
    made = plan_of([REX, TOM], sheet_saying(line, row_of(TOM)), **options)
    assert made.changes == made.conflicts == ()


@pytest.mark.parametrize("is_export", [True, False])
def test_each_row_that_looks_like_a_pet_is_held(is_export: bool) -> None:
    """If several new rows look like one pet because their differences are not sent, each of them is
    a conflict.
    """
    rows = [
        row_of(replace(REX, id=None if is_export else number, tags=(Tag(number, f"tag {number}"),)))
        for number in (11, 12)
    ]
    base = {"base": base_of([TOM])} if is_export else {}
    sheet = sheet_saying(*rows, row_of(TOM), **base)
    store = [replace(REX, photo_urls=() if is_export else REX.photo_urls), TOM]
    made = plan_of(store, sheet, owners={"tags": "store"})
    # The rows without an id are also equal in all that is sent.
    rules = ["twin", "looks-alike"] if is_export else ["looks-alike", "looks-alike"]
    assert sorted(each.rule for each in made.conflicts) == sorted(rules)
    assert made.adds == ()


def test_a_field_that_nobody_writes_holds_no_delete() -> None:
    """A change of the store in a field of `never` does not hold back a delete; any other does."""
    line = {**row_of(REX), "action": "delete"}
    moved = replace(REX, status="sold")
    for owner, deletes in (("never", 1), ("store", 0), ("sheet", 0), ("both", 0)):
        for sheet in (
            sheet_saying(line, row_of(TOM), base=base_of([REX, TOM])),
            sheet_saying(row_of(TOM), base=base_of([REX, TOM])),
        ):
            made = plan_of([moved, TOM], sheet, owners={"status": owner}, delete_missing=True)
            assert (len(made.deletes), len(made.conflicts)) == (deletes, 1 - deletes)


def test_an_edit_that_is_not_sent_asks_for_nothing() -> None:
    """If the pet is gone, only an edit that could be sent is a conflict."""
    for owner, rules in (("store", []), ("both", ["gone-edited"])):
        row = row_of(replace(REX, status="sold"))
        sheet = sheet_saying(row, row_of(TOM), base=base_of([REX, TOM]))
        made = plan_of([TOM], sheet, owners={"status": owner})
        assert [each.rule for each in made.conflicts] == rules


def test_sorted_ids_are_found_without_names() -> None:
    """Rows with the values of other pets are conflicts, also if their names are not sent."""
    pets = [replace(REX, id=n, name=f"Pet {n}", status=s, category=c) for n, s, c in _THREE]
    rows = [row_of(replace(pet, id=other)) for pet, other in zip(pets, (2, 3, 1), strict=True)]
    for owners in ({}, {"name": "store"}):
        sheet = sheet_saying(*rows, base=base_of(pets))
        made = plan_of(pets, sheet, owners=owners)
        assert any("ids had been moved without their rows" in note for note in made.notes)


@pytest.mark.parametrize("unit", ["name", "tags"])
def test_values_that_nobody_edited_are_not_shifted(unit: str) -> None:
    """A field of the sheet that the store changed in all pets does not count as sorted or shifted;
    values that the sheet really moved to other rows do.
    """
    pets = [
        Pet(id=n, name=f"Pet {n}", status="sold", tags=(Tag(n, f"tag {n}"),)) for n in range(1, 41)
    ]
    shifted = [replace(pet, **{unit: getattr(pets[at - 1], unit)}) for at, pet in enumerate(pets)]
    for rows, store, columns in ((pets, shifted, ()), (shifted, pets, (unit,))):
        sheet = sheet_saying(*map(row_of, rows), base=base_of(pets))
        made = plan_of(store, sheet, owners={unit: "sheet"})
        assert len(made.updates) == len(pets)
        assert made.shifted == columns


_THREE = [(1, "available", DOGS), (2, "sold", CATS), (3, "pending", Category(3, "Birds"))]


def test_a_photo_that_was_uploaded_since_the_export_stays(tmp_path: Path) -> None:
    """The sheet's list of photos keeps what `petsync upload` added after the export, and removes
    what the row had and lacks now.
    """
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    (pictures / "1.png").write_bytes(png_of(2, 2))
    owners = {"photo_urls": "sheet"}
    with FakeService([REX, TOM]) as service, service.connect(state=tmp_path / "s") as store:
        base = base_of([REX, TOM], url=store.url)
        store.upload(store.pictures(pictures))
        (now,) = (pet for pet in service.pets() if pet.id == 1)
        assert len(now.photo_urls) == 2
        row = row_of(replace(REX, photo_urls=("https://shop.example/new.jpg",)))
        (update,) = store.plan(sheet_saying(row, row_of(TOM), base=base), owners=owners).updates
        assert set(update.after.photo_urls) == {*row["photo_urls"], *now.photo_urls[1:]}
        unedited = sheet_saying(row_of(REX), row_of(TOM), base=base)
        assert store.plan(unedited, owners=owners).changes == ()


# Runs: the store's log.


class Log(httpx.AsyncBaseTransport):
    """Passes requests to a service, and records the units that each request changes."""

    def __init__(self, service: FakeService) -> None:
        self._service, self._inner = service, service.transport
        self.changes: list[tuple[str, set[str]]] = []
        self.forms: list[tuple[Pet, dict[str, str]]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the service's response."""
        if request.method == "GET":
            return await self._inner.handle_async_request(request)
        before = {pet.id: pet for pet in self._service.pets()}
        response = await self._inner.handle_async_request(request)
        for pet in self._service.pets():
            old = before.get(pet.id, Pet())
            units = {unit for unit in UNITS if compared(unit, old) != compared(unit, pet)}
            if units:
                kind = "add" if pet.id not in before else request.method
                self.changes.append((kind, units))
        if request.url.path.rsplit("/", 1)[-1].isdigit() and request.method == "POST":
            sent = {k: v[0] for k, v in parse_qs(request.content.decode()).items()}
            self.forms.append((before[int(request.url.path.rsplit("/", 1)[-1])], sent))
        return response


def random_pet(number: int, chance: Random) -> Pet:
    """Return a random pet with a plain category."""
    values = {unit: value_of(unit, chance) for unit in UNITS}
    values["category"] = chance.choice([DOGS, CATS, Category(3, "Birds")])
    values["photo_urls"] = tuple(dict.fromkeys(url.strip() for url in values["photo_urls"]))
    return Pet(id=number, **values)


def other(pet: Pet, units: list[str], chance: Random) -> Pet:
    """Return the pet with random values in some of these units."""
    fresh = random_pet(pet.id or 0, chance)
    some = chance.sample(units, chance.randrange(len(units) + 1))
    return replace(pet, **{unit: getattr(fresh, unit) for unit in some})


@pytest.mark.parametrize("seed", range(times(8)))
def test_no_request_changes_a_field_of_the_store(seed: int, tmp_path: Path) -> None:
    """A run changes nothing but fields of the sheet, by the form and by PUT, while others change
    the store's fields between plan and run; these are neither conflicts nor failures.
    `benchmarks/owners.py` does this for more runs.
    """
    assert check_log(seed, tmp_path)


def check_log(seed: int, state: Path) -> int:
    """Make and apply a random plan with a new folder `state`, and check each request. Return the
    number of requests that changed a pet.
    """
    chance = Random(seed)
    owners = {unit: chance.choice(OWNERS) for unit in UNITS}
    # Half of the runs send forms.
    few = ["name", "status"] if seed % 2 else [*UNITS]
    unsent = {unit for unit in UNITS if owners[unit] in ("store", "never")}
    exported = [random_pet(number, chance) for number in range(1, 31)]
    with FakeService(exported) as service:
        log = Log(service)
        with service.connect(state=state, transport=log) as store:
            rows = [other(pet, few, chance) for pet in exported]
            lines = [row_of(pet) for pet in rows]
            base = base_of(exported, url=store.url) if seed % 3 else None
            lines += [row_of(replace(random_pet(0, chance), id=None, name=f"New {seed}"))]
            for pet in exported:
                service.put(other(pet, few, chance))
            made = store.plan(sheet_saying(*lines, base=base), owners=owners, **UNLIMITED)
            for pet in service.pets():
                service.put(other(pet, [*unsent], chance))
            recheck = chance.choice(["each", "bulk"])
            report = store.apply(made, progress=False, verify=True, recheck=recheck)
        outcomes = {result.outcome for result in report.results if result.kind != "none"}
        assert outcomes <= {"applied", "unchanged"}
        assert {units for kind, each in log.changes if kind != "add" for units in each} <= (
            {*UNITS} - unsent
        )
        for kind, units in log.changes:
            assert kind != "add" or not units & unsent - {"name", "status"}
        for before, sent in log.forms:
            for unit in unsent.intersection(sent):
                assert sent[unit] == getattr(before, unit)
        assert bool(log.forms) >= (seed % 2 and bool({"name", "status"} - unsent) and not base)
        return len(log.changes)


UNLIMITED: Any = {"max_update": "100%", "max_add": "100%", "allow_shifted": True}


class Overloaded(httpx.AsyncBaseTransport):
    """Answers the first request that changes a pet with 503, while the store sells the pet."""

    def __init__(self, service: FakeService) -> None:
        self._service, self._inner, self.refused = service, service.transport, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the service's response, or the error."""
        if request.method == "GET" or self.refused:
            return await self._inner.handle_async_request(request)
        self.refused += 1
        self._service.put(replace(REX, status="sold"))
        return httpx.Response(503, headers={"Retry-After": "0"}, request=request)


@pytest.mark.parametrize("edit", [{"name": "Max"}, {"tags": (Tag(3, "shy"),)}], ids=["form", "put"])
def test_a_field_of_the_store_may_change_while_a_request_is_repeated(edit: Any) -> None:
    """A request that is repeated after an error sends the store's value of this moment."""
    with FakeService([REX, TOM]) as service:
        transport = Overloaded(service)
        with service.connect(transport=transport) as store:
            row = ps.frame_from_pets([replace(REX, **edit)])
            made = store.plan(row, owners={"status": "store"})
            report = store.apply(made, progress=False, verify=True)
        assert transport.refused == 1
        assert [each.outcome for each in report.results] == ["applied"]
        (pet,) = (each for each in service.pets() if each.id == 1)
        assert pet == replace(REX, status="sold", **edit)


def test_undo_restores_what_was_sent_beside_newer_values_of_the_store(tmp_path: Path) -> None:
    """An undo restores the fields of an update although the store has changed its own since; an
    add is only undone if nothing changed.
    """
    with FakeService([REX, TOM]) as service, service.connect(state=tmp_path) as store:
        new = Pet(name="Neu", status="available")
        rows = ps.frame_from_pets([replace(REX, name="Max", status="sold"), new])
        report = store.apply(store.plan(rows, owners={"status": "store"}), progress=False)
        (added,) = (pet for pet in service.pets() if pet.name == "Neu")
        for pet in service.pets():
            service.put(replace(pet, status="pending"))
        undo = store.undo(report.run_id)
        assert [each.pet_id for each in undo.updates] == [1]
        assert [each.pet_id for each in undo.conflicts] == [added.id]
        store.apply(undo, progress=False)
        (pet,) = (each for each in service.pets() if each.id == 1)
        assert (pet.name, pet.status) == ("Rex", "pending")


_EDIT = "Pet 1,pending", "Max,sold"


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_the_results_remember_what_was_not_sent(ending: str, tmp_path: Path) -> None:
    """An edit that was not sent stays an edit in the results: the next plan without the owner
    sends it, and the field that was sent is no edit any more.
    """
    with FakeService(PETS) as service, service.connect(state=tmp_path / "s") as store:
        path = tmp_path / f"e.{ending}"
        ps.write_sheet(store.snapshot(), path)
        if ending == "csv":
            path.write_text(path.read_text("utf-8-sig").replace(*_EDIT), "utf-8")
        else:
            book = load_workbook(path)
            book.active["B2"], book.active["C2"] = "Max", "sold"
            book.save(path)
        edited = store.read(path)
        report = store.apply(store.plan(edited, owners={"status": "store"}), progress=False)
        results = tmp_path / f"results.{ending}"
        ps.write_results(edited, report, results)
        service.put(replace(next(p for p in service.pets() if p.id == 1), name="Elsewhere"))
        again = store.plan(results)
        assert [each.fields for each in again.updates] == [("status",)]
        assert again.conflicts == ()
        assert store.plan(results, owners={"status": "store"}).changes == ()


# Options.


def test_owners_are_checked_and_columns_of_one_field_have_one_owner() -> None:
    """Owners are fields in the table's order without `both`; mistakes name the column."""
    given: Any = {"tag_ids": "never", "category_id": "sheet", "category": "sheet", "name": "both"}
    options = PlanOptions(owners=given)
    assert list(options.owners.items()) == [("category", "sheet"), ("tags", "never")]
    mistakes: list[tuple[Any, str]] = [
        ({"id": "sheet"}, "'id' is not a column"),
        ({"status": "shop"}, "status is 'shop'"),
        ({"category": "sheet", "category_id": "store"}, "both are one field"),
        ("status=store", "a mapping of columns"),
    ]
    for wrong, words in mistakes:
        with pytest.raises(SettingsError, match=words):
            PlanOptions(owners=wrong)


def test_a_plan_keeps_its_owners(tmp_path: Path) -> None:
    """A saved plan has the owners, and applies with them; the JSON and Parquet files are equal."""
    with FakeService([REX, TOM]) as service, service.connect(state=tmp_path) as store:
        made = store.plan(
            ps.frame_from_pets([replace(REX, name="Max")]), owners={"category_id": "store"}
        )
        for ending in ("json", "parquet"):
            path = tmp_path / f"plan.{ending}"
            made.save(path)
            assert Plan.load(path) == made
            assert Plan.load(path).options.owners == {"category": "store"}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the address of a store, with a sheet in the working folder."""
    from petsync.sandbox import Sandbox

    monkeypatch.chdir(tmp_path)
    with Sandbox(pets=PETS, auth=False) as box:
        ps.write_sheet(
            ps.frame_from_pets(changed(PETS, 1, name="Max", status="sold")), tmp_path / "pets.csv"
        )
        yield box.url


def test_the_command_line_has_owners(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--owner` can be repeated, contradictions and mistakes are named, and the next command that
    plan suggests repeats it.
    """

    def code(*options: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["plan", "pets.csv", "--url", shop, *options])
        return int(ended.value.code or 0)

    assert code("--owner", "status=store", "--owner", "Photo-URLs=never") == 0
    shown = capsys.readouterr()
    assert "status: the store owns it" in shown.out
    assert "--owner status=store" in shown.err
    assert code("--owner", "status") == 64
    assert "must be COLUMN=OWNER" in capsys.readouterr().err
    assert code("--owner", "category=store", "--owner", "category_id=sheet") == 64
    assert "contradict each other" in capsys.readouterr().err
    assert code("--owner", "status=store", "--why", "1") == 0
    assert "[owner-store]" in capsys.readouterr().out


def test_a_large_frame_is_compared_by_columns() -> None:
    """Rows that differ only in a field of the store are not compared one by one."""
    frame = pd.DataFrame({"id": range(1, 2001), "status": ["sold"] * 2000})
    pets = [Pet(id=n, name=f"P {n}", status="available") for n in range(1, 2001)]
    with FakeService(pets) as service, service.connect() as store:
        made = store.plan(frame, owners={"status": "store"})
    assert (made.changes, made.unchanged) == ((), 2000)
    assert "and 1,995 more" in made.notes[0]
