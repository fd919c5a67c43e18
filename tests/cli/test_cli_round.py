"""An edited workbook is applied while other users change the store."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import READING, Done, Shell, to
from msgspec.structs import replace
from openpyxl import load_workbook

from petsync import Category, Pet, Tag
from petsync.apply.planfile import load_plan
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

SHEET = "catalogue.xlsx"
DOGS, CATS, BIRDS = Category(1, "Dogs"), Category(2, "Cats"), Category(3, "Birds")
SHY, OLD = Tag(1, "shy"), Tag(2, "old")
UNITS = ("name", "status", "category", "tags", "photo_urls")
CLASHING = ("name", "status", "category", "photo_urls")
Edits = Mapping[int, Mapping[str, Any]]


def catalogue() -> list[Pet]:
    """Return a thousand pets with all fields, in three categories."""
    return [
        Pet(
            id=2**53 + n,
            name=f"Pet {n}",
            status="available",
            category=DOGS if n < 980 else CATS if n < 990 else BIRDS,
            tags=(SHY,) if n < 980 else (SHY, OLD),
            photo_urls=tuple(f"https://shop.example/{n}/{photo}.jpg" for photo in (1, 2, 3)),
            extra={"chip": n},
        )
        for n in range(1000)
    ]


def by_sheet(pet: Pet, unit: str) -> Any:
    """Return the sheet's new value of a field."""
    one, two, three = pet.photo_urls
    return {
        "name": f"{pet.name} of the sheet",
        "status": "sold",
        "category": CATS,
        "tags": (*pet.tags, OLD),
        "photo_urls": (two, one, three),
    }[unit]


def by_store(pet: Pet, unit: str) -> Any:
    """Return the store's new value of a field; it conflicts with the sheet's, except for tags."""
    return {
        "name": f"{pet.name} of the store",
        "status": "pending",
        "category": BIRDS,
        "tags": (),
        "photo_urls": pet.photo_urls[::-1],
    }[unit]


@dataclass(frozen=True)
class Story:
    """The 300 edited cells, the changes of 200 pets in the store, and the fields with both."""

    edits: Edits
    moves: Edits
    clashes: Mapping[int, str]

    def now(self, pet: Pet) -> Pet:
        """Return the pet with the changes of the store."""
        return replace(pet, **self.moves.get(pet.id or 0, {}))

    def merged(self, pet: Pet, winner: str) -> Pet:
        """Return the pet as it must be after the sheet is applied."""
        edits = dict(self.edits.get(pet.id or 0, {}))
        if winner == "store":
            edits.pop(self.clashes.get(pet.id or 0, ""), None)
        return replace(self.now(pet), **edits)


def story(pets: list[Pet]) -> Story:
    """Return edits of 240 rows with one cell and 30 with two, and changes of 200 pets in the store:
    40 in the edited field, 60 in another field, and 100 in pets without an edit.
    """
    chance = random.Random(4)
    by_id = {pet.id or 0: pet for pet in pets[:980]}
    ids = chance.sample(sorted(by_id), 370)
    edits: dict[int, dict[str, Any]] = {}
    moves: dict[int, dict[str, Any]] = {}
    clashes: dict[int, str] = {}
    for place, n in enumerate(ids):
        units = chance.sample(UNITS, 3)
        if place < 40:
            first = clashes[n] = CLASHING[place % len(CLASHING)]
            units = [first, *(unit for unit in UNITS if unit != first)]
        edited = units[: 2 if 25 <= place < 55 else 1] if place < 270 else []
        moved = units[:1] if place < 40 else units[2:] if place < 100 or place >= 270 else []
        edits |= {n: {unit: by_sheet(by_id[n], unit) for unit in edited}} if edited else {}
        moves |= {n: {unit: by_store(by_id[n], unit) for unit in moved}} if moved else {}
    return Story(edits, moves, clashes)


def edit(path: Path, edits: Edits) -> int:
    """Write the edits into the workbook, and return the number of edited cells."""
    book = load_workbook(path)
    tab = book.worksheets[0]
    columns = {str(cell.value): cell.column for cell in tab[1]}
    cells = 0
    for row in range(2, tab.max_row + 1):
        for unit, value in edits.get(int(tab.cell(row, columns["id"]).value or 0), {}).items():
            tab.cell(row, columns[unit]).value = _typed(unit, value)
            cells += 1
    book.save(path)
    return cells


def _typed(unit: str, value: Any) -> str:
    if unit == "category":
        return str(value.name)
    if unit == "tags":
        return "; ".join(tag.name for tag in value)
    return "\n".join(value) if unit == "photo_urls" else str(value)


@pytest.fixture(scope="module")
def _shop() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture(scope="module")
def _edited(_shop: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an exported workbook with 300 edited cells."""
    path = tmp_path_factory.mktemp("edited") / SHEET
    _shop.reset(catalogue())
    assert Shell()("export", path, *to(_shop)).code == 0
    assert edit(path, story(catalogue()).edits) == 300
    return path


@pytest.fixture
def shop(_shop: Sandbox, _edited: Path, shell: Shell) -> Sandbox:
    """Return the store with the changes of other users; a copy of the edited workbook is in the
    folder.
    """
    shutil.copy(_edited, SHEET)
    result = story(catalogue())
    assert (len(result.moves), len(result.clashes)) == (200, 40)
    _shop.reset([result.now(pet) for pet in catalogue()])
    return _shop


def planned(shell: Shell, box: Sandbox, *options: str) -> tuple[Done, Plan]:
    """Save the plan for the workbook; return the command's result and the plan."""
    done = shell("plan", SHEET, *to(box), "-o", "plan.json", "--exit-code", *options)
    return done, load_plan("plan.json")


@pytest.mark.parametrize("winner", ["store", "sheet"])
def test_exactly_the_edits_are_planned_and_sent(shell: Shell, shop: Sandbox, winner: str) -> None:
    """The plan has exactly the sheet's edits and keeps each change of the store; the 40 fields that
    both changed are conflicts and get the winner's value.
    """
    pets = catalogue()
    result = story(pets)
    wanted = {pet.id: result.merged(pet, winner) for pet in pets}
    done, plan = planned(shell, shop, "--on-conflict", winner)
    assert done.code == 2
    before = {pet.id: result.now(pet) for pet in pets}
    updates = {update.before.id: update for update in plan.updates}
    assert updates.keys() == {n for n, pet in wanted.items() if pet != before[n]}
    assert len(plan.changes) == len(updates)
    for n, update in updates.items():
        assert (update.before, update.after) == (before[n], wanted[n])
        columns = {"category": ("category", "category_id")}
        edited = [
            u for u in result.edits[n or 0] if winner == "sheet" or result.clashes.get(n) != u
        ]
        expected = {column for unit in edited for column in columns.get(unit, (unit,))}
        assert set(update.fields) == expected
    found = {each.pet_id: [clash.column for clash in each.clashes] for each in plan.conflicts}
    assert found == {n: [unit] for n, unit in result.clashes.items()}
    assert {each.winner for each in plan.conflicts} == {winner}
    assert set(shop.requests) <= READING

    applied = shell("apply", "plan.json", *to(shop), "--yes")
    assert applied.code == (5 if winner == "store" else 0)
    assert {pet.id: pet for pet in shop.pets()} == wanted
    assert shop.requests["addPet"] == shop.requests["deletePet"] == 0

    again, left = planned(shell, shop, "--on-conflict", winner)
    assert left.changes == ()
    assert again.code == (5 if winner == "store" else 0)
    assert left.in_sync == (winner == "sheet")
    assert {each.pet_id for each in left.conflicts} == (
        set(result.clashes) if winner == "store" else set()
    )


@pytest.mark.parametrize("winner", ["store", "sheet"])
def test_one_goes_on_with_the_result_workbook(shell: Shell, shop: Sandbox, winner: str) -> None:
    """After an apply, a plan of the result workbook has no changes, and conflicts without a
    decision are still listed.
    """
    done = shell("apply", SHEET, *to(shop), "--yes", "--on-conflict", winner)
    assert done.code == (5 if winner == "store" else 0)
    Path("catalogue.results.xlsx").replace(SHEET)
    again, left = planned(shell, shop)
    assert left.changes == ()
    open_ones = {each.pet_id: [c.column for c in each.clashes] for each in left.open_conflicts}
    clashes = story(catalogue()).clashes if winner == "store" else {}
    assert open_ones == {n: [unit] for n, unit in clashes.items()}
    assert again.code == (5 if winner == "store" else 0)
