"""Related triples: an export, a sheet made from it, and a store that changed since.

The values are few, so that sheet and store often change the same field.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as but
from random import Random
from typing import Any

import pandas as pd
from hypothesis import strategies as st
from msgspec.structs import replace
from reference import UNITS, Expected, Line, Reference
from shop import base_of, decided_of, sheet_saying

from petsync.models import Category, Pet, Tag
from petsync.plan.change import Coverage, FailedLookup
from petsync.plan.compare import Decided
from petsync.plan.explain import Explanation, explain
from petsync.plan.plan import Plan
from petsync.table.arrow import PetTable
from petsync.table.columns import CLEARED
from petsync.table.sheet import Sheet

HIDDEN = "lost"
"""A status that no query asks for, so that such pets are found by their ids alone."""
NO_EARLIER_RESULTS = 10**6
STATUSES = ("available", "pending", "sold")
NAMES = ("Rex", "Zo\u00eb", "Tom", "007")
CATEGORIES = (
    None,
    Category(1, "Dogs"),
    Category(2, "Cats"),
    Category(None, "Birds"),
    Category(7),
    Category(8, ""),
)
TAGS = (Tag(1, "shy"), Tag(2, "old"), Tag(3, "calm"), Tag(None, "new"))
URLS = ("a", "b", "c", "d", "\u00e9", "e\u0301", " a")
OWNERS = ("both", "sheet", "store", "never")
COLUMNS = ("name", "status", "category", "category_id", "tags", "photo_urls")


def row_of(pet: Pet) -> dict[str, Any]:
    """Return the row of an export; a missing value is a blank cell."""
    kind = pet.category
    return {
        "id": pet.id,
        "name": pet.name,
        "status": pet.status,
        "category": (kind.name or None) if kind else None,
        "category_id": kind.id if kind else None,
        "tags": list(pet.tags) or None,
        "photo_urls": list(dict.fromkeys(pet.photo_urls)) or None,
        "action": "merge",
    }


@dataclass(frozen=True)
class Triple:
    """An export (None for none), a sheet's lines, the store, and the options of the plan.

    `listed` are the pets that the status queries return, `elsewhere` the others.
    """

    base: Mapping[int, Pet] | None
    lines: Mapping[int, Line]
    listed: Mapping[int, Pet]
    elsewhere: Mapping[int, Pet] = field(default_factory=dict)
    covered: tuple[str, ...] = STATUSES
    delete_missing: bool = False
    on_conflict: str = "store"
    owners: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        if len(self.lines) > 9:
            return f"a triple of {len(self.lines)} rows"
        shown = ("base", "lines", "listed", "elsewhere")
        parts = [f"{name}={getattr(self, name)!r}" for name in shown]
        options = self.covered, self.delete_missing, self.on_conflict, self.owners
        return "Triple(\n    " + ",\n    ".join([*parts, repr(options)]) + ")"

    @property
    def sheet(self) -> Sheet:
        """The lines as a sheet, in their order, each with its row number."""
        sheet = sheet_saying(*self.lines.values())
        numbers = pd.Index(list(self.lines), dtype="int64", name="row")
        return but(
            sheet,
            content=PetTable(frame=sheet.frame.set_axis(numbers)),
            others=pd.DataFrame(index=numbers),
            base=None if self.base is None else base_of(self.base.values()),
        )

    @property
    def coverage(self) -> Coverage:
        """The status queries that were answered."""
        failed = tuple(FailedLookup(s, "no answer") for s in STATUSES if s not in self.covered)
        return Coverage(self.covered, failed)

    def plan(self, **changed: Any) -> Plan:
        """Return the plan for the triple with these attributes `changed`."""
        return self.decided(**changed).plan

    def decided(self, *, ids: Collection[int] = (), **changed: Any) -> Decided:
        """Return the plan with its decisions; these `ids` are looked up, too."""
        this = but(self, **changed)
        return decided_of(
            this.listed.values(),
            this.sheet,
            elsewhere=this.elsewhere,
            delete_missing=this.delete_missing,
            on_conflict=this.on_conflict,
            owners=this.owners,
            coverage=this.coverage,
            ids=ids,
        )

    def why(self, plan: Plan, number: int) -> tuple[Explanation, ...]:
        """Return the explanations of a pet in the plan."""
        decided = self.decided(ids=(number,))
        assert decided.plan.changes == plan.changes
        return explain(decided, (number,))

    def expected(self, **changed: Any) -> Expected:
        """Return the plan that the reference expects."""
        this = but(self, **changed)
        reference = Reference(
            listed=this.listed,
            base=this.base,
            elsewhere=this.elsewhere,
            covered=this.covered,
            on_conflict=this.on_conflict,
            delete_missing=this.delete_missing,
            owners=this.owners,
        )
        return reference.plan(this.lines)

    def after(self, plan: Plan) -> Triple:
        """Return the triple after a complete run of the plan; new pets get high ids."""
        every = {**self.listed, **self.elsewhere}
        for number, change in enumerate(plan.changes):
            if change.after is None:
                del every[change.before.id]
            else:
                pet = change.after
                pet = pet if pet.id is not None else replace(pet, id=NO_EARLIER_RESULTS + number)
                every[pet.id or 0] = pet
        listed = {n: pet for n, pet in every.items() if pet.status != HIDDEN}
        elsewhere = {n: pet for n, pet in every.items() if pet.status == HIDDEN}
        return but(self, listed=listed, elsewhere=elsewhere)


def value_of(unit: str, chance: Random) -> Any:
    """Return a random value of a unit; a photo may be there twice."""
    if unit == "tags":
        return tuple(chance.sample(TAGS, chance.randrange(4)))
    if unit == "photo_urls":
        return tuple(chance.choice(URLS) for _ in range(chance.randrange(5)))
    return chance.choice({"name": NAMES, "status": STATUSES, "category": CATEGORIES}[unit])


def pet_of(number: int, chance: Random) -> Pet:
    """Return a random pet."""
    return Pet(id=number, **{unit: value_of(unit, chance) for unit in UNITS})


def edited(pet: Pet, chance: Random) -> Pet:
    """Return the pet with up to three units changed."""
    units = chance.sample(UNITS, chance.randrange(1, 4))
    return replace(pet, **{unit: value_of(unit, chance) for unit in units})


def life_of(number: int, chance: Random) -> tuple[Pet | None, Pet | None]:
    """Return a pet in the export, and the same pet in the store now."""
    pet = pet_of(number, chance)
    fate = chance.choice(["same", "edited", "edited", "edited", "gone", "new", "hidden"])
    if fate == "edited":
        return pet, edited(pet, chance)
    if fate == "hidden":
        return pet, replace(edited(pet, chance), status=HIDDEN)
    return (None if fate == "new" else pet), (None if fate == "gone" else pet)


def _spelt_otherwise(column: str, value: Any) -> Any:
    """Return a value with the same meaning in another spelling."""
    if column == "tags":
        return [*[Tag(None, tag.name) for tag in reversed(value)], *value]
    if column == "photo_urls":
        return [*value, *value]
    if column == "category_id" or not value:
        return value
    value = unicodedata.normalize("NFD", value) + " "
    return value.upper() if column == "status" else value


def line_of(start: Pet, now: Pet | None, chance: Random) -> dict[str, Any]:
    """Return an edited row that started from a pet and may have the store's current values."""
    line = row_of(start)
    other = row_of(pet_of(start.id or 0, chance))
    theirs = row_of(now) if now else other
    for column in COLUMNS:
        fate = chance.choice(["as it was"] * 6 + ["other", "other", "theirs", "spelt", "", "clear"])
        if fate in ("other", "theirs"):
            line[column] = (other if fate == "other" else theirs)[column]
        elif fate == "spelt" and line[column] is not None:
            line[column] = _spelt_otherwise(column, line[column])
        elif fate == "clear" and column not in ("name", "category_id"):
            empty = chance.choice([CLEARED, ""]) if column == "category" else ""
            line[column] = [] if column in ("tags", "photo_urls") else empty
        elif fate == "":
            line[column] = None
    line["action"] = chance.choice(["merge"] * 12 + ["update", "delete", "add", "ignore"])
    return line


def stranger(number: int, chance: Random) -> dict[str, Any]:
    """Return a row that is in no export: with no id or a new one, and with unusual values."""
    line = row_of(pet_of(number, chance))
    line["id"] = chance.choice([None, None, number])
    odd: dict[str, Any] = {
        "status": None,
        "name": None,
        "category": "Fish",
        "category_id": 9,
        "tags": [Tag(None, "shy"), Tag(2), Tag(None, "odd")],
    }
    for column in chance.sample([*odd], chance.randrange(3)):
        line[column] = odd[column]
    actions = ["merge"] * 6 + ["add", "update", "ignore", "delete"]
    line["action"] = chance.choice(actions)
    return line


def triple_of(
    size: int, chance: Random, *, based: bool, strangers: int = 0, owned: bool = False
) -> Triple:
    """Return a triple of this number of pets, with rows of unknown pets; if `based`, the sheet
    carries its export; if `owned`, the fields have random owners.
    """
    history = [life_of(number, chance) for number in range(1, 1 + size)]
    rows = []
    for old, now in history:
        start = old or now
        if start is not None and chance.randrange(6):
            rows.append(line_of(start, now, chance))
    rows += [stranger(size + n, chance) for n in range(1, 1 + strangers)]
    for row in rows if based else ():
        # Only a DataFrame may have an empty category name, and it carries no export.
        row["category"] = CLEARED if row["category"] == "" else row["category"]
    silent = chance.sample(COLUMNS, chance.choice([0, 0, 1, 2]))
    rows = [{name: line[name] for name in line if name not in silent} for line in rows]
    there = [now for _, now in history if now is not None]
    return Triple(
        base={old.id or 0: old for old, _ in history if old is not None} if based else None,
        lines=dict(enumerate(rows, 2)),
        listed={pet.id or 0: pet for pet in there if pet.status != HIDDEN},
        elsewhere={pet.id or 0: pet for pet in there if pet.status == HIDDEN},
        covered=chance.choice([STATUSES, STATUSES, STATUSES[:2]]),
        delete_missing=chance.choice([False, True]),
        on_conflict=chance.choice(["store", "sheet"]),
        owners={unit: chance.choice(OWNERS) for unit in UNITS} if owned else {},
    )


def triples(*, based: bool | None = None) -> st.SearchStrategy[Triple]:
    """Return a strategy for small triples; `based` decides whether the sheet carries its export,
    None for either.
    """
    return st.builds(
        triple_of,
        st.integers(1, 4),
        st.randoms(use_true_random=False),
        based=st.booleans() if based is None else st.just(based),
        strangers=st.sampled_from([0, 0, 1, 2]),
        owned=st.booleans(),
    )
