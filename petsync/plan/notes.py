"""Notes of a plan: sentences on things to check that are neither changes nor conflicts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from petsync.models import Pet
from petsync.plan.fields import Unit
from petsync.plan.lineage import RestoredPet, RowRecord
from petsync.plan.options import Owner

__all__ = ["Remarks", "first_items", "is_converted"]


_SHOWN = 5
_MAX_PAIRS = 100_000
"""The maximum number of pairs of new and known tags to compare."""


@dataclass(slots=True, kw_only=True)
class Remarks:
    """Rows with remarks, collected while the plan decides what to do with each row.

    The keys, except those of `categories` and `tags`, and the items of lists are row numbers.
    """

    older: list[int] = field(default_factory=list)
    """Rows with exported values, while the store has newer ones."""
    restored: dict[int, RestoredPet] = field(default_factory=dict)
    """The rows of `older` whose pets are in the state after an undo."""
    deleted_in_store: list[int] = field(default_factory=list)
    """Unedited rows whose pets are deleted from the store."""
    undone: dict[int, str] = field(default_factory=dict)
    """The rows of `deleted_in_store` whose pets an undo deleted, with the undone run."""
    by_name: list[int] = field(default_factory=list)
    """Rows whose category's name and id contradict each other."""
    recognised: dict[int, int] = field(default_factory=dict)
    """The ids of the pets to which rows without an id were matched."""
    identical: list[int] = field(default_factory=list)
    """Rows without an id whose pets were found by equal values."""
    known: dict[int, RowRecord] = field(default_factory=dict)
    """The records of rows whose pets an earlier run added or recognised."""
    unsent: dict[int, RowRecord] = field(default_factory=dict)
    """The records of rows that a run did not reach before it stopped."""
    renamed: dict[int, tuple[RowRecord, str]] = field(default_factory=dict)
    """The records and the new names of rows that are linked to their pets only by their place."""
    replaced: list[int] = field(default_factory=list)
    """Rows in places where an earlier run found other rows."""
    uploaded: list[int] = field(default_factory=list)
    """Rows that lack photos added by uploads. These photos stay."""
    tags: dict[str, list[int]] = field(default_factory=dict)
    """New tags, each with the rows that name it."""
    categories: dict[str, list[int]] = field(default_factory=dict)
    """For each category that the store lacks, by name: the rows that name it."""
    converted: dict[int, tuple[str, str]] = field(default_factory=dict)
    """The old and new names of rows in which a program may have changed the name."""
    misnamed: dict[int, tuple[Pet, str]] = field(default_factory=dict)
    """For each row that deletes a pet but has another name: the pet, and the name in the row."""
    unsent_values: dict[Unit, list[int]] = field(default_factory=dict)
    """By field, the rows whose values are not sent because of the field's owner."""
    repeated: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Rows that make an undone change again, each with the undone run and the undo."""
    replaces_restored: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Rows that replace or delete values that an undo restored, each with the undone run and the
    undo.
    """
    initial_values: dict[Unit, list[int]] = field(default_factory=dict)
    """By field, the rows that add a pet with a value for a field that the sheet does not own."""
    overwritten: dict[Unit, dict[int, str]] = field(default_factory=dict)
    """By field that the sheet owns, the rows whose values replace a change in the store, with the
    store's text.
    """

    def forget(self, rows: Collection[int | None]) -> None:
        """Remove the remarks that apply only if the changes of these rows are sent: on
        contradictory or new categories.
        """
        self.by_name = [row for row in self.by_name if row not in rows]
        self.categories = _without_rows(self.categories, rows)
        self.tags = _without_rows(self.tags, rows)
        for texts in self.overwritten.values():
            for row in texts.keys() & rows:
                del texts[row]
        self.repeated = {row: each for row, each in self.repeated.items() if row not in rows}
        self.replaces_restored = {
            row: each for row, each in self.replaces_restored.items() if row not in rows
        }
        for unit, numbers in self.initial_values.items():
            self.initial_values[unit] = [row for row in numbers if row not in rows]

    def iter_owner_notes(
        self, owners: Mapping[Unit, Owner], address: Callable[[int, str], str]
    ) -> Iterator[str]:
        """Yield the notes on the fields that the sheet or the store owns, or nobody. `address`
        returns the address of a row's cell in a column.
        """
        for unit, owner in owners.items():
            who = f"the {owner} owns it" if owner != "never" else "it is never written"
            if texts := self.overwritten.get(unit):
                cells = [f"{address(row, unit)} ({texts[row]!r})" for row in sorted(texts)]
                yield (
                    f"{unit}: {who}, and its values replace changes that the store made since the "
                    f"export: {first_items(cells)}."
                )
            if rows := self.unsent_values.get(unit):
                yield (
                    f"{unit}: {who}. Values that differ from the store's are not sent: "
                    f"{_list_cells(rows, address, unit)}."
                )
            if rows := self.initial_values.get(unit):
                yield (
                    f"{unit}: {who}, but a new pet needs one, and gets it from its row: "
                    f"{_list_cells(rows, address, unit)}."
                )

    def notes(self, address: Callable[[int, str], str], known: Iterable[str]) -> Iterator[str]:
        """Yield the notes.

        `address` returns the address of a row's cell in a column. `known` has the names of the
        store's categories.
        """
        if self.identical:
            pairs = [f"{address(n, 'id')} = pet {self.recognised[n]}" for n in self.identical]
            yield (
                f"{first_items(pairs)}: these rows have no id, and each was matched to a pet with "
                "all values of the row. Write `add-another` in the action column to add another "
                "one."
            )
        if self.known:
            pairs = [
                f"{address(n, 'id')} = pet {self.recognised[n]} ({record.how} on {record.on})"
                for n, record in sorted(self.known.items())
            ]
            yield (
                f"{first_items(pairs)}: rows without an id that an earlier run added or recognised "
                "were matched to their pets, even if they were edited since."
            )
        yield from self._iter_renamed_notes(address)
        yield from self._iter_misnamed_notes(address)
        for run, command in {each.run_id: each.resume for each in self.unsent.values()}.items():
            rows = [row for row, each in self.unsent.items() if each.run_id == run]
            yield (
                f"{_list_cells(rows, address, 'id')}: run {run} stopped before it sent these "
                f"rows, so they count as new. Once this plan is applied, `{command}` sends none "
                "of them."
            )
        if self.replaced:
            yield (
                f"{_list_cells(self.replaced, address, 'id')}: an earlier run added other pets "
                "from rows in this place. These rows have nothing in common with them, and are "
                "new pets."
            )
        if self.uploaded:
            yield (
                f"{_list_cells(self.uploaded, address, 'photo_urls')}: these cells lack photos "
                "that `petsync upload` added; the photos stay. To remove one, export again and "
                "remove it from the cell there; [clear] removes all."
            )
        yield from self._iter_undo_notes(address)
        if older := [row for row in self.older if row not in self.restored]:
            yield (
                f"{_list_cells(older, address, 'id')}: these rows have exported values for which "
                "the store has newer ones. The store's values stay. Export again to see or change "
                "them."
            )
        yield from self._iter_missing_notes(address)
        if self.by_name:
            yield (
                f"{_list_cells(self.by_name, address, 'category_id')}: category and category_id "
                "contradict each other; the category's name counts."
            )
        yield from (
            self._note_new_category(name, address, list(known)) for name in sorted(self.categories)
        )
        yield from (
            f"{address(row, 'name')}: {old!r} became {current!r}, which a spreadsheet program may "
            "have caused when it opened the file. If this is not intended, type the name again."
            for row, (old, current) in sorted(self.converted.items())
        )

    def _iter_undo_notes(self, address: Callable[[int, str], str]) -> Iterator[str]:
        """Yield the notes on the rows whose pets an undo restored or removed. `address` returns the
        address of a row's cell in a column.
        """
        undos = {each.undo: each.run for each in self.restored.values()}
        for undo, run in undos.items():
            rows = [row for row, each in self.restored.items() if each.undo == undo]
            yield (
                f"{_list_cells(rows, address, 'id')}: the undo of run {run} restored these pets, "
                f"and they stay restored. Export again to see them. `petsync undo {undo}` "
                "reverses the undo."
            )
        for run, undo in dict.fromkeys(self.repeated.values()):
            rows = [row for row, each in self.repeated.items() if each == (run, undo)]
            yield (
                f"{_list_cells(rows, address, 'id')}: these rows make changes of run {run} again, "
                f"which the undo {undo} reversed. If they are to stay undone, export again, or "
                "remove the rows or their edits."
            )
        for run, undo in dict.fromkeys(self.replaces_restored.values()):
            rows = [row for row, each in self.replaces_restored.items() if each == (run, undo)]
            yield (
                f"{_list_cells(rows, address, 'id')}: the undo {undo} of run {run} restored "
                "values of these pets, and these rows change them again or remove the pets."
            )
        for run in dict.fromkeys(self.undone.values()):
            rows = [row for row, each in self.undone.items() if each == run]
            yield (
                f"{_list_cells(rows, address, 'id')}: the undo of run {run} removed these pets: "
                "nothing happens. Write `add` in the action column to add them again, or remove "
                "the rows."
            )

    def _iter_renamed_notes(self, address: Callable[[int, str], str]) -> Iterator[str]:
        pairs = [
            f"{address(n, 'name')} (pet {record.pet_id}, {record.how} on {record.on} as "
            f"{record.row_pet.name!r}, now {name!r})"
            for n, (record, name) in sorted(self.renamed.items())
        ]
        if pairs:
            yield (
                f"Probably renamed: {first_items(pairs)}. These rows were matched to their pets "
                "only by their position in the sheet. If a row is meant to be a new pet, write "
                "`add-another` in its action column."
            )

    def _iter_misnamed_notes(self, address: Callable[[int, str], str]) -> Iterator[str]:
        pairs = [
            f"{address(row, 'id')} deletes pet {pet.id} ({pet.name}), named {name!r} in the row"
            for row, (pet, name) in sorted(self.misnamed.items())
        ]
        if pairs:
            yield (
                f"{first_items(pairs)}: these pets have other names than their rows. A service may "
                "have given an old id to a new pet: remove the rows that refer to an earlier pet."
            )

    def _iter_missing_notes(self, address: Callable[[int, str], str]) -> Iterator[str]:
        if deleted := [row for row in self.deleted_in_store if row not in self.undone]:
            yield (
                f"{_list_cells(deleted, address, 'id')}: these pets have been deleted from the "
                "store since the export, and their rows are not edited: nothing happens."
            )

    def iter_tag_notes(
        self, address: Callable[[int, str], str], known: Sequence[str]
    ) -> Iterator[str]:
        """Yield a note on each new tag that is similar to one of the `known` tags, which the store
        uses, and one on all other new tags.
        """
        others = []
        is_short = len(known) * len(self.tags) <= _MAX_PAIRS
        for name, rows in sorted(self.tags.items()):
            where = _list_cells(rows, address, "tags")
            near = _find_near(name, known) if is_short else ""
            if near:
                yield (
                    f"{where}: new tag {name!r}, which no pet of the store has. Did you mean "
                    f"{near!r}?"
                )
            else:
                others.append(f"{name!r} ({where})")
        if others:
            tags = "new tag" if len(others) == 1 else f"{len(others):,} new tags"
            yield f"{tags}, which no pet of the store has yet: {first_items(others)}."

    def _note_new_category(
        self, name: str, address: Callable[[int, str], str], known: Sequence[str]
    ) -> str:
        near = _find_near(name, known)
        hint = f" Write {near!r} if you mean that." if near else ""
        where = _list_cells(self.categories[name], address, "category")
        return f"{where}: the store has no category {name!r} yet; it is created.{hint}"


def _find_near(name: str, known: Sequence[str]) -> str:
    """Return the most similar of the known texts, "" if none is similar."""
    folded = {each.casefold(): each for each in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.75)
    return folded[near[0]] if near else ""


def _without_rows(
    names: Mapping[str, Sequence[int]], rows: Collection[int | None]
) -> dict[str, list[int]]:
    rest = {name: [row for row in own if row not in rows] for name, own in names.items()}
    return {name: own for name, own in rest.items() if own}


def is_converted(old: str | None, new: str | None) -> bool:
    """Return true if a spreadsheet program may have made the new name from the old one.

    Such programs turn 007 into 7 and True into TRUE.
    """
    if not old or not new or old == new:
        return False
    if new in ("TRUE", "FALSE"):
        return old.casefold() == new.casefold()
    return old.isdecimal() and (old.lstrip("0") or "0") == new


def first_items(items: Sequence[str]) -> str:
    """Return the first items, and the number of further ones."""
    rest = len(items) - _SHOWN
    shown = ", ".join(items[:_SHOWN])
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def _list_cells(rows: Iterable[int], address: Callable[[int, str], str], column: str) -> str:
    return first_items([address(row, column) for row in sorted(rows)])
