"""The auditor: judges each round by what people did, with rules of its own.

It shares no code with petsync. For each pet and each part of it (a field, one tag, one photo) it
knows on which side people have edited it since both sides were last seen to agree. From that
follows what a round may do:

- A side changes only to what the other side says, and only where people edited the other side and
  not this one. So no edit is reverted and no value comes from nowhere.
- A pet or row disappears only where people removed it on the other side and did not edit it here,
  appears only where people added it on the other side, and exists at most once on each side.
- After a round that ends with exit code 0 both sides agree. After any other one that ran to its
  end, its report names each difference; a round that could not run changes nothing it does not
  name, and says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from rounds.sheet import BLANK, Grid, Unit, key_of, values_of_pet, values_of_row

__all__ = ["Auditor", "Ledger", "View", "view_of"]

SCALARS = ("name", "status", "category", "category_id")
LISTS = ("tags", "photo_urls")
Side = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class View:
    """Both sides at one moment: the values of each pet and row by key, and the columns that the
    sheet of a row lacks.
    """

    pets: dict[str, dict[str, Any]]
    rows: dict[str, dict[str, Any]]
    away: frozenset[tuple[str, str]] = frozenset()


def view_of(pets: Sequence[Mapping[str, Any]], grids: Sequence[Grid]) -> View:
    """Both sides by key; AssertionError where a pet or row is there twice."""
    keys = [key_of(pet.get("name") or "") for pet in pets]
    lines = [(key_of(grid.text(row, "name")), grid, row) for grid in grids for row in grid.rows]
    for name, found in (("store", keys), ("sheet", [key for key, *_ in lines])):
        doubled = {key: number for key, number in Counter(found).items() if number > 1}
        assert not doubled, f"doubled in the {name}: {doubled}"
        assert None not in found, f"a name without a key in the {name}: {found}"
    return View(
        {key: values_of_pet(pet) for key, pet in zip(keys, pets, strict=True) if key},
        {key: values_of_row(grid, row) for key, grid, row in lines if key},
        frozenset(
            (key, column)
            for key, grid, _ in lines
            for column in (*SCALARS, *LISTS)
            if key and grid.column(column) is None
        ),
    )


@dataclass
class Ledger:
    """What people did on each side since both were last seen to agree."""

    sheet: set[tuple[str, Unit]] = field(default_factory=set)
    store: set[tuple[str, Unit]] = field(default_factory=set)
    rows_added: set[str] = field(default_factory=set)
    rows_removed: set[str] = field(default_factory=set)
    pets_added: set[str] = field(default_factory=set)
    pets_removed: set[str] = field(default_factory=set)

    def copy(self) -> Ledger:
        """A copy that later edits leave as it is."""
        return deepcopy(self)

    def forget(self, key: str) -> None:
        """Nothing is left of this pet, on either side."""
        for name in ("sheet", "store"):
            pairs = getattr(self, name)
            pairs -= {pair for pair in pairs if pair[0] == key}
        for keys in (self.rows_added, self.rows_removed, self.pets_added, self.pets_removed):
            keys.discard(key)

    def has_edits(self, side: set[tuple[str, Unit]], key: str) -> bool:
        """Whether people edited anything of this pet on that side."""
        return any(pair[0] == key for pair in side)


@dataclass
class Auditor:
    """Compares what was before a round with what is after it. `renamed` are the pets whose category
    has another name, or whose row is new, until both sides have the same id beside it. `last_said`
    is what the sheet said of each unit when it last said anything: a run that a kill cut off goes
    on, and sends it while its column is away.
    """

    ledger: Ledger = field(default_factory=Ledger)
    step: int = 0
    agreed_at: dict[tuple[str, Unit], int] = field(default_factory=dict)
    agreed_on: dict[tuple[str, Unit, Any], int] = field(default_factory=dict)
    renamed: set[str] = field(default_factory=set)
    has_several_sheets: bool = False
    last_said: dict[tuple[str, Unit], Any] = field(default_factory=dict)

    def observe(self, view: View) -> None:
        """Note what both sides agree on now: nothing that people did before is open any more."""
        self.step += 1
        ledger = self.ledger
        # A killed round may have sent the new name, and not written its id beside it yet.
        open_ = ledger.sheet | ledger.store
        self.renamed |= {key for key, unit in open_ if unit == ("category", "")}
        # The number in a new row does not count either, if pets of that name have another one.
        self.renamed |= ledger.rows_added
        for key in view.pets.keys() & view.rows.keys():
            for keys in (ledger.rows_added, ledger.pets_added):
                keys.discard(key)
            ledger.rows_removed.discard(key)
            ledger.pets_removed.discard(key)
            # A tag or photo that was taken out is on neither side by now.
            edited = {unit for one, unit in open_ if one == key}
            for unit in units(view, key) | edited:
                said, has = value(view.rows, key, unit), value(view.pets, key, unit)
                if said is not BLANK:
                    self.last_said[key, unit] = said
                elif self._says_it_by_a_blank(view, key, unit):
                    ledger.store.discard((key, unit))
                if said is not BLANK and said == has:
                    ledger.sheet.discard((key, unit))
                    ledger.store.discard((key, unit))
                    self.agreed_at[key, unit] = self.agreed_on[key, unit, said] = self.step
                    if unit == ("category_id", ""):
                        self.renamed.discard(key)
        open_ = ledger.sheet | ledger.store
        known = {key for key, _ in open_} | ledger.rows_removed | ledger.pets_removed
        for key in known - view.pets.keys() - view.rows.keys():
            ledger.forget(key)

    def judge_round(
        self, before: View, after: View, *, code: int | None, opens: Sequence[Mapping[str, Any]]
    ) -> None:
        """Raise AssertionError where the round did what it may not. `code` is its exit code, None
        if it was killed; `opens` are the differences that its report names.
        """
        for key in before.pets.keys() | before.rows.keys() | after.pets.keys() | after.rows.keys():
            self._judge_presence(key, before, after)
            if all(key in side for v in (before, after) for side in (v.pets, v.rows)):
                for unit in units(before, key) | units(after, key):
                    self._judge_unit(key, unit, before, after)
        if code is not None:
            for key, unit in differences(after):
                where = f"{key} {unit}"
                is_new = not unit[0] and key in self.ledger.pets_added
                if code == 0 and is_new and self.has_several_sheets:
                    # Nobody can tell which of them it belongs into: a note, by docs/reconcile.md.
                    assert is_named(opens, after, key, unit), f"{where} is not named: {opens}"
                    continue
                assert code != 0, f"exit code 0, but {where} differs: {self._shown(after, key)}"
                assert code in (1, 4, 6, 7) or is_named(opens, after, key, unit), (
                    f"exit code {code}, but {where} is not named: {self._shown(after, key)} {opens}"
                )

    def _judge_presence(self, key: str, before: View, after: View) -> None:
        ledger = self.ledger
        told = self._shown(before, key), self._shown(after, key)
        if key in before.pets and key not in after.pets:
            assert key in ledger.rows_removed, f"pet {key} was deleted: {told}"
            assert not ledger.has_edits(ledger.store, key), f"pet {key} had changed: {told}"
        if key in after.pets and key not in before.pets:
            assert key in before.rows, f"pet {key} came from nowhere: {told}"
            assert key in ledger.rows_added, f"pet {key} came back: {told}"
        if key in before.rows and key not in after.rows:
            assert key in ledger.pets_removed, f"row {key} was removed: {told}"
            # What is in a column that was cut, no round can see.
            seen = {(one, unit) for one, unit in ledger.sheet if (one, unit[0]) not in before.away}
            assert not ledger.has_edits(seen, key), f"row {key} had edits: {told}"
        if key in after.rows and key not in before.rows:
            assert key in before.pets, f"row {key} came from nowhere: {told}"
            assert key in ledger.pets_added, f"row {key} came back: {told}"

    def _judge_unit(self, key: str, unit: Unit, before: View, after: View) -> None:
        sheet, store = (key, unit) in self.ledger.sheet, (key, unit) in self.ledger.store
        rows = value(before.rows, key, unit), value(after.rows, key, unit)
        pets = value(before.pets, key, unit), value(after.pets, key, unit)
        if unit[0] == "category_id" and self._is_renamed(key):
            return  # An id counts only with its name, and the name is another one now.
        if unit == ("category", "") and self._is_named_by_number(key, before, after):
            return
        place = f"{key} {unit}: sheet {rows[0]!r} -> {rows[1]!r}, store {pets[0]!r} -> {pets[1]!r}"
        if pets[0] != pets[1]:
            said = self.last_said.get((key, unit)) if rows[0] is BLANK else rows[0]
            assert pets[1] == said, f"{place}: nobody said so"
            assert sheet, f"{place}: nobody edited the sheet"
            assert not store, f"{place}: the store's edit is lost"
        if rows[0] is not BLANK and rows[1] is not BLANK and rows[0] != rows[1]:
            assert rows[1] == pets[0], f"{place}: nobody said so"
            assert store, f"{place}: nobody edited the store"
            is_taken_back = self.agreed_on.get((key, unit, rows[0]), -1) == self._last_agreed(
                key, unit
            )
            assert not sheet or is_taken_back, f"{place}: the sheet's edit is lost"
        if rows[0] is BLANK and rows[1] is not BLANK:
            assert rows[1] in (pets[0], pets[1]), f"{place}: nobody said so"
        if rows[0] is not BLANK and rows[1] is BLANK:
            # A tag that the sheet lacks is not lost where the last one beside it goes as well.
            is_same = rows[0] is False and pets[1] is False
            assert is_same or pets[0] in (None, False), f"{place}: the sheet's value is lost"

    def _is_named_by_number(self, key: str, before: View, after: View) -> bool:
        """Whether people gave the pet the number of a category that other pets have, and left the
        name blank: the number alone names it.
        """
        unit = ("category_id", "")
        number = value(before.rows, key, unit)
        names = {pet["category"] for pet in before.pets.values() if pet["category_id"] == number}
        return (
            number is not BLANK
            and (key, unit) in self.ledger.sheet
            and value(before.rows, key, ("category", "")) is BLANK
            and value(after.pets, key, unit) == number
            and value(after.pets, key, ("category", "")) in names
        )

    def _says_it_by_a_blank(self, view: View, key: str, unit: Unit) -> bool:
        """Whether a cell that is blank says what the store has: nothing, as what the store took
        away is away; or one of a category's cells, beside the other one that says it.
        """
        if (key, unit[0]) in view.away:
            return False
        name, number = ("category", ""), ("category_id", "")
        other = {name: number, number: name}.get(unit)
        said = BLANK if other is None else value(view.rows, key, other)
        is_said = said is not BLANK and said == value(view.pets, key, other or unit)
        return is_said or value(view.pets, key, unit) in (None, False)

    def _last_agreed(self, key: str, unit: Unit) -> int:
        """When both sides last said the same: who types that again has taken their edit back."""
        return self.agreed_at.get((key, unit), -2)

    def _is_renamed(self, key: str) -> bool:
        open_ = self.ledger.sheet | self.ledger.store
        return key in self.renamed or (key, ("category", "")) in open_

    def take_back(
        self,
        view: View,
        then: Ledger,
        step: int,
        keys: set[str],
        column: str = "",
        sides: View | None = None,
    ) -> None:
        """People put an older state of these keys' cells (of this column, "" for all) back into
        the sheet, from `step`, when `then` was the ledger and `sides` both sides. What was an open
        edit then and still is, or is not what the store has had since, is one again; anything else
        that differs from the store is older than the store's value. An edit that arrived since, and
        that somebody took back in the store, is older as well.
        """
        newer = self.ledger.sheet - then.sheet
        for key, unit in newer:  # Of a pet that is gone, too, such an edit is no longer there.
            if key in keys and key not in view.pets and column in ("", unit[0]):
                self.ledger.sheet.discard((key, unit))
        for key in keys & view.rows.keys() & view.pets.keys():
            for unit in units(view, key):
                if column not in ("", unit[0]):
                    continue
                said, has = value(view.rows, key, unit), value(view.pets, key, unit)
                pair = (key, unit)
                self.ledger.sheet.discard(pair)
                if said is BLANK or said == has:
                    continue
                is_open = pair in then.sheet or key in then.rows_added
                was = value(sides.pets, key, unit) if sides and key in sides.pets else BLANK
                # The id of a category may never have counted, beside another name.
                is_still = was == has and unit[0] != "category_id"
                is_still &= self.agreed_on.get((key, unit, said), -1) <= step
                if is_open and (is_still or self.agreed_at.get(pair, -1) <= step):
                    self.ledger.sheet.add(pair)
                else:
                    self.ledger.store.add(pair)

    def note_store_edits(self, before: View, after: View, *, is_resume: bool) -> None:
        """People changed the store with a command. What it resumed was sent for the sheet: what was
        edited there since is newer.
        """
        ledger = self.ledger
        for key in before.pets.keys() & after.pets.keys() & after.rows.keys():
            for unit in units(before, key) | units(after, key):
                was, now = value(before.pets, key, unit), value(after.pets, key, unit)
                if was != now and not (is_resume and (key, unit) in ledger.sheet):
                    ledger.store.add((key, unit))
        # Whoever adds the pet of a row again sends its category's name, as of a new row.
        self.renamed |= (after.pets.keys() - before.pets.keys()) & after.rows.keys()
        for key in before.pets.keys() - after.pets.keys():
            if key in after.rows:
                ledger.pets_removed.add(key)
            else:
                ledger.forget(key)
        for key in after.pets.keys() - before.pets.keys() - after.rows.keys():
            ledger.rows_removed.discard(key)
            ledger.pets_added.add(key)

    def _shown(self, view: View, key: str) -> str:
        return f"row {view.rows.get(key)}, pet {view.pets.get(key)}"


def units(view: View, key: str) -> set[Unit]:
    """Every field of the pet or row, and every tag and photo that either side has."""
    found: set[Unit] = {(name, "") for name in SCALARS}
    for side in (view.pets, view.rows):
        for name in LISTS:
            items = side.get(key, {}).get(name, BLANK)
            found |= {(name, item) for item in (() if items is BLANK else items)}
    return found


def value(side: Side, key: str, unit: Unit) -> Any:
    """What the side says of it: a text or None; of an item whether it is there; or BLANK."""
    name, item = unit
    found = side[key][name]
    return found if found is BLANK or name in SCALARS else item in found


def differences(view: View) -> Iterator[tuple[str, Unit]]:
    """Everything in which sheet and store differ; the unit is ("", "") for a whole pet or row."""
    for key in sorted(view.pets.keys() ^ view.rows.keys()):
        yield key, ("", "")
    for key in sorted(view.pets.keys() & view.rows.keys()):
        for unit in sorted(units(view, key)):
            said = value(view.rows, key, unit)
            if said is not BLANK and said != value(view.pets, key, unit):
                yield key, unit


def is_named(opens: Sequence[Mapping[str, Any]], view: View, key: str, unit: Unit) -> bool:
    """Whether one of the report's differences is about this pet or row, and this field."""
    wanted = "category" if unit[0] == "category_id" else unit[0]
    for each in opens:
        number = view.pets.get(key, view.rows.get(key, {})).get("id")
        about = key_of(each.get("name") or "") == key or str(each.get("pet_id")) == number
        fields = {"category" if f == "category_id" else f for f in each.get("fields", ())}
        if about and (not fields or not wanted or wanted in fields):
            return True
    return False
