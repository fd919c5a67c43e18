"""What a person should look at in a plan that is no change and no conflict, in a sentence each."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from petsync.models import Pet
from petsync.plan.lineage import RestoredPet, RowRecord

__all__ = ["Remarks", "is_converted", "some"]


_SHOWN = 5


@dataclass(slots=True, kw_only=True)
class Remarks:
    """Row numbers, gathered while rows are decided: `older` say what was exported where the store
    has something newer, of which `restored` gives those whose pets are as an undo left them;
    `gone` are rows nobody edited of pets that are not there any more, of which `undone` gives those
    that an undo took away, with the run that was undone;
    `by_name` have a category whose name and id contradict each other. `recognised` gives the pet
    of rows without an id, and `identical` those that were found by saying just the same; `twins`
    are rows that add a pet which says just what another one says; `known` gives the record of rows
    that became their pets in an earlier run, `unsent` that of rows to which a run did not come
    before it stopped, and `replaced` the rows in whose place an earlier run found another one;
    `renamed` gives the record and the new name of rows that only their place ties to their pets;
    `uploaded` are rows that lack photos which uploads added, and which stay;
    `categories` the rows that name a category which the store does not have; `converted` the rows
    in which a program may have changed a name, with what it was and is; `misnamed` the rows that
    delete a pet under another name, with the pet and that name.
    """

    older: list[int] = field(default_factory=list)
    restored: dict[int, RestoredPet] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    undone: dict[int, str] = field(default_factory=dict)
    by_name: list[int] = field(default_factory=list)
    recognised: dict[int, int] = field(default_factory=dict)
    identical: list[int] = field(default_factory=list)
    twins: list[int] = field(default_factory=list)
    known: dict[int, RowRecord] = field(default_factory=dict)
    unsent: dict[int, RowRecord] = field(default_factory=dict)
    renamed: dict[int, tuple[RowRecord, str]] = field(default_factory=dict)
    replaced: list[int] = field(default_factory=list)
    uploaded: list[int] = field(default_factory=list)
    categories: dict[str, list[int]] = field(default_factory=dict)
    converted: dict[int, tuple[str, str]] = field(default_factory=dict)
    misnamed: dict[int, tuple[Pet, str]] = field(default_factory=dict)

    def forget(self, rows: Collection[int | None]) -> None:
        """Leave out what is said of the adds of these rows."""
        self.by_name = [row for row in self.by_name if row not in rows]
        self.twins = [row for row in self.twins if row not in rows]
        rest = {
            name: [row for row in own if row not in rows] for name, own in self.categories.items()
        }
        self.categories = {name: own for name, own in rest.items() if own}

    def notes(self, address: Callable[[int, str], str], known: Iterable[str]) -> Iterator[str]:
        """The sentences. `address` gives a row's address in a column, `known` are the store's
        categories.
        """
        if self.identical:
            pairs = [f"{address(n, 'id')} = pet {self.recognised[n]}" for n in self.identical]
            yield (
                f"{some(pairs)}: rows without an id that say just what a pet already says were "
                "taken as that pet. Write `add-another` in the action column to add another one."
            )
        if self.known:
            pairs = [
                f"{address(n, 'id')} = pet {self.recognised[n]} ({record.how} on {record.on})"
                for n, record in sorted(self.known.items())
            ]
            yield (
                f"{some(pairs)}: rows without an id that an earlier run added or recognised were "
                "taken as their pets, whatever was edited since."
            )
        yield from self._iter_renamed_notes(address)
        yield from self._iter_misnamed_notes(address)
        for run, command in {each.run_id: each.resume for each in self.unsent.values()}.items():
            rows = [row for row, each in self.unsent.items() if each.run_id == run]
            yield (
                f"{_at(rows, address, 'id')}: run {run} stopped before it added these, and they "
                f"are new pets. `{command}` adds none of them once this plan is applied."
            )
        if self.replaced:
            yield (
                f"{_at(self.replaced, address, 'id')}: an earlier run added other pets from rows "
                "in this place. These rows have nothing in common with them, and are new pets."
            )
        if self.twins:
            yield (
                f"{_at(self.twins, address, 'id')}: the store has a pet that is just so, and "
                "another one would be added. If that is not meant, take the row out, or give it "
                "the pet's id."
            )
        if self.uploaded:
            yield (
                f"{_at(self.uploaded, address, 'photo_urls')}: kept: added by uploads. These cells "
                "lack photos that `petsync upload` added, and those stay. To take one away, export "
                "again and take it out of the cell there; [clear] takes all away."
            )
        undos = {each.undo: each.run for each in self.restored.values()}
        for undo, run in undos.items():
            rows = [row for row, each in self.restored.items() if each.undo == undo]
            yield (
                f"{_at(rows, address, 'id')}: the undo of run {run} set these pets back, and that "
                f"stays. Export again to see it. `petsync undo {undo}` takes the undo back."
            )
        if older := [row for row in self.older if row not in self.restored]:
            yield (
                f"{_at(older, address, 'id')}: where these rows say what was exported, the "
                "store has something newer, which stays. Export again to see it, or to set it "
                "back."
            )
        yield from self._iter_gone_notes(address)
        if self.by_name:
            yield (
                f"{_at(self.by_name, address, 'category_id')}: category and category_id contradict "
                "each other; the category's name was taken."
            )
        yield from (self._new(name, address, list(known)) for name in sorted(self.categories))
        yield from (
            f"{address(row, 'name')}: {old!r} became {current!r}, which a spreadsheet program may "
            "have done when it opened the file. If nobody meant it, type the name again."
            for row, (old, current) in sorted(self.converted.items())
        )

    def _iter_renamed_notes(self, address: Callable[[int, str], str]) -> Iterator[str]:
        pairs = [
            f"{address(n, 'name')} (pet {record.pet_id}, {record.how} on {record.on} as "
            f"{record.row_pet.name!r}, now {name!r})"
            for n, (record, name) in sorted(self.renamed.items())
        ]
        if pairs:
            yield (
                f"Renamed: {some(pairs)}. Only their places show which pets these rows mean. For a "
                "new pet, write `add-another` in the action column."
            )

    def _iter_misnamed_notes(self, address: Callable[[int, str], str]) -> Iterator[str]:
        pairs = [
            f"{address(row, 'id')} deletes pet {pet.id} ({pet.name}) as {name!r}"
            for row, (pet, name) in sorted(self.misnamed.items())
        ]
        if pairs:
            yield (
                f"{some(pairs)}: these pets have other names than their rows. A service may have "
                "given an id of old to a new pet: take out the rows that mean an earlier one."
            )

    def _iter_gone_notes(self, address: Callable[[int, str], str]) -> Iterator[str]:
        for run in dict.fromkeys(self.undone.values()):
            rows = [row for row, each in self.undone.items() if each == run]
            yield (
                f"{_at(rows, address, 'id')}: the undo of run {run} took these pets away: nothing "
                "happens. Write `add` in the action column to add them again, or take the rows out."
            )
        if gone := [row for row in self.gone if row not in self.undone]:
            yield (
                f"{_at(gone, address, 'id')}: these pets are gone from the store since the "
                "export, and their rows are as they were exported: nothing happens."
            )

    def _new(self, name: str, address: Callable[[int, str], str], known: Sequence[str]) -> str:
        folded = {each.casefold(): each for each in known}
        near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.75)
        hint = f" Write {folded[near[0]]!r} if that is meant." if near else ""
        where = _at(self.categories[name], address, "category")
        return f"{where}: the store has no category {name!r} yet; it is made.{hint}"


def is_converted(old: str | None, new: str | None) -> bool:
    """Whether the new name is what a spreadsheet program makes of the old one: 7 of 007, TRUE of
    True.
    """
    if not old or not new or old == new:
        return False
    if new in ("TRUE", "FALSE"):
        return old.casefold() == new.casefold()
    return old.isdecimal() and old.lstrip("0") == new


def some(items: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    rest = len(items) - _SHOWN
    shown = ", ".join(items[:_SHOWN])
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def _at(rows: Iterable[int], address: Callable[[int, str], str], column: str) -> str:
    return some([address(row, column) for row in sorted(rows)])
