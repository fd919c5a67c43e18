"""A slow and plain second implementation of the merge: the expected plan, by loops over pets.

It is written from the documentation alone. It shares the values (Pet, Tag, Category, CLEARED) with
petsync, and no code that compares or merges.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from petsync.models import Category, Pet, Tag
from petsync.table.columns import CLEARED

UNITS = ("name", "status", "category", "tags", "photo_urls")
CLASH = object()
Line = Mapping[str, Any]
"""A row's values by column; a missing column, or None, has no value."""


def plain(text: str | None) -> str:
    """Return the text in the form in which texts are compared."""
    return unicodedata.normalize("NFC", text or "").strip()


def once(items: Iterable[Any]) -> list[Any]:
    """Return the items in their order, without repetitions."""
    result: list[Any] = []
    for item in items:
        if item not in result:
            result.append(item)
    return result


def compared(unit: str, pet: Pet) -> Any:
    """Return the value that two pets must share to agree in a unit."""
    if unit == "name":
        return plain(pet.name)
    if unit == "status":
        return plain(pet.status).casefold()
    if unit == "category":
        return (plain(pet.category.name), pet.category.id) if pet.category else ("", None)
    if unit == "tags":
        return {(tag.id, plain(tag.name)) for tag in pet.tags}
    return once(map(plain, pet.photo_urls))


def agree(one: Pet, other: Pet) -> bool:
    """Return whether two pets agree in all units."""
    return all(compared(unit, one) == compared(unit, other) for unit in UNITS)


def other_units(pet: Pet) -> list[str]:
    """Return the units other than the name in which a pet has a value."""
    empty = Pet()
    has = {unit: compared(unit, pet) != compared(unit, empty) for unit in UNITS[1:]}
    has["category"] = pet.category is not None and bool(plain(pet.category.name))
    return [unit for unit in UNITS[1:] if has[unit]]


def differing(new: Pet, pet: Pet) -> set[str]:
    """Return those of the new pet's other units in which the pet differs; a category counts by
    name.
    """
    same = {unit: compared(unit, new) == compared(unit, pet) for unit in UNITS}
    names = [plain(each.category.name) if each.category else "" for each in (new, pet)]
    same["category"] = names[0] == names[1]
    return {unit for unit in other_units(new) if not same[unit]}


def agreed(new: Pet, pet: Pet) -> int:
    """Return the number of the new pet's other units in which the pet agrees with it."""
    return len(other_units(new)) - len(differing(new, pet))


def looks(pet: Pet) -> dict[str, Any]:
    """Return a pet's values other than its name, without the ids of category and tags."""
    return {
        "status": compared("status", pet),
        "category": plain(pet.category.name) if pet.category else "",
        "tags": {plain(tag.name) for tag in pet.tags},
        "photo_urls": compared("photo_urls", pet),
    }


def contents(pet: Pet) -> Any:
    """Return all values of a pet, without the ids that a service may assign."""
    kind = pet.category or Category()
    return {
        "name": plain(pet.name),
        "status": compared("status", pet),
        "category": plain(kind.name) or kind.id or "",
        "tags": {plain(tag.name) for tag in pet.tags} - {""},
        "photo_urls": compared("photo_urls", pet),
    }


LOOKS_ALIKE = frozenset({"looks-alike"})
WHOLE = {"name", "status", "category", "category_id", "tags", "photo_urls"}


def clears(name: str | None, number: int | None, pet: Pet) -> bool:
    """Return whether a category name cell clears the category. An empty text does not clear if the
    pet's category has exactly that name and no other number is in the row.
    """
    if name is None or plain(name):
        return False
    if name == CLEARED or pet.category is None or pet.category.name != name:
        return True
    return number not in (None, pet.category.id)


class UnknownCategoryError(Exception):
    """A category id without a name that the store does not know."""


class Words:
    """The tags and categories that the listed pets use."""

    def __init__(self, pets: Iterable[Pet]) -> None:
        self.tags: Counter[Tag] = Counter()
        self.categories: Counter[Category] = Counter()
        for pet in pets:
            self.tags.update(pet.tags)
            self.categories.update([pet.category] if pet.category else [])

    def tag(self, cell: Tag, pet: Pet) -> Tag:
        """Return the tag that is meant: the pet's, else the store's, else the tag as written."""
        if (cell.id is not None and cell.name) or cell in pet.tags:
            return cell
        for known in (Counter(pet.tags), self.tags):
            if cell.id is None:
                like = [tag for tag in known if tag.name and plain(tag.name) == plain(cell.name)]
            else:
                like = [tag for tag in known if tag.id == cell.id and tag.name]
            if like:
                return most_used(like, known)
        return cell

    def category(self, name: str | None, number: int | None, pet: Pet) -> Category | None:
        """Return the category that is meant by a name, a number or both."""
        if clears(name, number, pet):
            return None
        name = name if plain(name) else None
        used = self.categories
        named = [c for c in used if name and plain(c.name) == plain(name)]
        numbered = [c for c in used if number is not None and c.id == number]
        if name is None:
            own = pet.category
            if number is None or (own and own.id == number):
                return own
            if not numbered:
                raise UnknownCategoryError
            return most_used(numbered, used)
        if number is not None and any(c.id == number for c in named):
            return Category(number, name)
        if number is not None and not named and not numbered:
            return Category(number, name)
        own = pet.category
        if own and plain(own.name) == plain(name):
            return own
        return most_used(named, used) if named else Category(None, name)


def most_used(things: list[Any], counts: Counter[Any]) -> Any:
    """Return the most frequent thing; ties go to the lowest id, and one without an id is last."""
    return min(things, key=lambda t: (-counts[t], t.id is None, t.id or 0, t.name or ""))


def by_most_values(line: Line) -> Any:
    """Return a sort key: rows with most values come first, ties are ordered by their content."""
    values = {name: value for name, value in line.items() if value is not None and name != "action"}
    return -len(values), repr(sorted(values.items()))


def merge_tags(base: Pet, sheet: list[Tag], store: Pet, words: Words) -> tuple[Tag, ...]:
    """Return the store's tags without the sheet's removals, and with the sheet's additions."""
    in_base = [words.tag(tag, base) for tag in sheet]
    kept_or_new = [(tag.id, plain(tag.name)) for tag in in_base]
    taken = [tag for tag in base.tags if (tag.id, plain(tag.name)) not in kept_or_new]
    added = [
        tag
        for tag, meant in zip(sheet, in_base, strict=True)
        if (meant.id, plain(meant.name)) not in compared("tags", base)
    ]
    gone = {(tag.id, plain(tag.name)) for tag in taken}
    # If the store changed the id of a tag, its name identifies it. A tag that is kept counts first.
    before, now = compared("tags", base), [(tag.id, plain(tag.name)) for tag in store.tags]
    for name in {name for _, name in gone if name} - {plain(tag.name) for tag in added}:
        lost = [key for key in before if key[1] == name and key not in now]
        fresh = [key for key in now if key[1] == name and key not in {*before, *kept_or_new}]
        is_kept = [key in kept_or_new for key in lost]
        gone.update(fresh[sum(is_kept) :][: len(lost) - sum(is_kept)])
    result = [tag for tag in store.tags if (tag.id, plain(tag.name)) not in gone]
    for tag in added:
        meant = words.tag(tag, store)
        if (meant.id, plain(meant.name)) not in {(t.id, plain(t.name)) for t in result}:
            result.append(meant)
    return tuple(result)


def merged_urls(base: list[str], sheet: list[str], store: list[str]) -> Any:
    """Return the photo URLs of both sides, or CLASH."""
    keep = [url for url in base if url in sheet and url in store]
    in_sheet = [url for url in sheet if url in keep]
    in_store = [url for url in store if url in keep]
    if in_sheet in (keep, in_store):
        first, other = store, sheet
    elif in_store == keep:
        first, other = sheet, store
    else:
        return CLASH
    result = [url for url in first if url not in base or url in other]
    own = [url for url in first if url not in base and url not in other]
    for place, url in enumerate(other):
        if url in base or url in result:
            continue
        behind = 0
        for before in other[:place]:
            if before in result:
                behind = result.index(before) + 1
        while behind < len(result) and result[behind] in own:
            behind += 1
        result.insert(behind, url)
    return result


@dataclass
class Expected:
    """The expected plan.

    `conflicts`: row, pet, the rules that may be named, the units in clash; `refused`: rows whose
    cleared status never wins; `older`, `gone`: rows; `uncertain`: a row without an id may mean any
    missing pet.
    """

    adds: dict[int, Pet] = field(default_factory=dict)
    updates: dict[int, Pet] = field(default_factory=dict)
    deletes: set[tuple[int, str]] = field(default_factory=set)
    conflicts: set[tuple[int | None, int | None, frozenset[str], frozenset[str]]] = field(
        default_factory=set
    )
    unchanged: int = 0
    ignored: int = 0
    older: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    uncertain: bool = False
    recognised: dict[int, int] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    like: Mapping[int, Sequence[int]] = field(default_factory=dict)
    sure: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The pets that each row without an id may have, and of these the ones with all its values."""

    def is_as_good(self, pairs: Mapping[int, int]) -> bool:
        """Return whether these pets of rows without an id are as good as the expected ones: the
        same rows have a pet, each another one that they may have, and at least as many rows have a
        pet with all their values.
        """
        return (
            pairs.keys() == self.recognised.keys()
            and len({*pairs.values()}) == len(pairs)
            and all(number in self.like[row] for row, number in pairs.items())
            and self._count_sure(pairs) >= self._count_sure(self.recognised)
        )

    def _count_sure(self, pairs: Mapping[int, int]) -> int:
        return sum(number in self.sure[row] for row, number in pairs.items())

    def conflict(self, row: int | None, number: int | None, *rules: str, units: Any = ()) -> None:
        """Record a row that a person must decide."""
        self.conflicts.add((row, number, frozenset(rules), frozenset(units)))


@dataclass
class Reference:
    """A store, the last export, and the options of a comparison with both.

    `listed` are the pets of the snapshot, and only getPetById knows the pets in `elsewhere`; `base`
    is None for a comparison only with the store.
    """

    listed: Mapping[int, Pet]
    base: Mapping[int, Pet] | None = None
    elsewhere: Mapping[int, Pet] = field(default_factory=dict)
    covered: Sequence[str] = ("available", "pending", "sold")
    on_conflict: str = "store"
    delete_missing: bool = False
    blocked_ids: frozenset[int] = frozenset()
    owners: Mapping[str, str] = field(default_factory=dict)

    def owner(self, unit: str) -> str:
        """Return the owner of a unit."""
        return self.owners.get(unit, "both")

    def is_sent(self, unit: str) -> bool:
        """Return whether the sheet's value of a unit may be sent."""
        return self.owner(unit) in ("sheet", "both")

    def is_added(self, unit: str) -> bool:
        """Return whether a new pet gets its row's value of a unit."""
        return unit in ("name", "status") or self.is_sent(unit)

    def is_as_exported(self, old: Pet, pet: Pet) -> bool:
        """Return whether a pet is as it was, except in units that nobody writes."""
        watched = [unit for unit in UNITS if self.owner(unit) != "never"]
        return all(compared(unit, old) == compared(unit, pet) for unit in watched)

    def __post_init__(self) -> None:
        self.words = Words(self.listed.values())
        self.exported = self.base or {}

    def plan(self, lines: Mapping[int, Line]) -> Expected:
        """Return the expected plan for a sheet of these lines, by row number."""
        self.expected = Expected()
        self.lines, self.repeated = lines, dict[int, int]()
        named = {line["id"] for line in lines.values() if line.get("id") is not None}
        self.free = {n: pet for n, pet in sorted(self.listed.items()) if n not in named}
        for number in self.blocked_ids:
            self.free.pop(number, None)
        self.expected.recognised = self.recognised(lines)
        self.taken = named.union(self.expected.recognised.values())
        for number in self.expected.recognised.values():
            del self.free[number]
        for row, line in lines.items():
            self.line(row, line)
        if not named and not self.blocked_ids:
            self.without_ids(lines)
            self.renamed(lines)
            self.in_a_copy(lines)
        elif self.base is not None:
            self.find_unexpected_pets(lines)
        self.under_other_ids(lines)
        self.repeated_pets()
        if self.delete_missing or self.base is not None:
            self.lost_ids(lines)
        if self.delete_missing:
            self.missing()
        return self.expected

    def line(self, row: int, line: Line) -> None:
        """Decide one row."""
        number, action = line.get("id"), line.get("action", "merge")
        if action == "ignore":
            self.expected.ignored += 1
            self.expected.uncertain |= number is None
        elif number is None:
            self.without_id(row, line, action)
        else:
            pet = self.listed.get(number) or self.elsewhere.get(number)
            self.with_id(row, line, action, pet, self.exported.get(number))

    def without_id(self, row: int, line: Line, action: str) -> None:
        """A row without an id is unchanged if a pet has all its values, else a new pet."""
        if action in ("update", "delete"):
            self.expected.uncertain = True
            self.expected.conflict(row, None, "no-id")
            return
        if row in self.expected.recognised:
            self.expected.unchanged += 1
        else:
            self.new(row, line)

    def recognised(self, lines: Mapping[int, Line]) -> dict[int, int]:
        """Return the pets of rows without an id whose values a pet has already, in the name and the
        units that are sent: as many as possible, and first those of rows with most such values.
        They get pets with their other values, too, where possible.
        """
        sent = [unit for unit in UNITS if unit == "name" or self.is_sent(unit)]
        columns = {
            c
            for unit in sent
            for c in ({"category", "category_id"} if unit == "category" else {unit})
        }
        sure: dict[int, list[int]] = {}
        like: dict[int, list[int]] = {}
        for row, line in lines.items():
            if line.get("id") is None and line.get("name") and line.get("action") == "merge":
                named = {n: p for n, p in self.free.items() if plain(p.name) == plain(line["name"])}
                like[row] = [n for n, pet in named.items() if self.says_no_more(line, pet, sent)]
                sure[row] = [n for n in like[row] if self.says_no_more(line, named[n], UNITS)]
        order = sorted(
            like,
            key=lambda row: (
                by_most_values({c: v for c, v in lines[row].items() if c in columns})[0],
                *by_most_values(lines[row]),
            ),
        )
        chosen = self.pairs(order, like, {}).values()
        first = self.pairs([row for row in order if row in chosen], sure, {})
        rest = [row for row in order if row in chosen and row not in first.values()]
        found = {row: number for number, row in self.pairs(rest, like, first).items()}
        self.expected.like, self.expected.sure = like, sure
        return found

    def pairs(
        self, order: Iterable[int], may: Mapping[int, Sequence[int]], rows_of: Mapping[int, int]
    ) -> dict[int, int]:
        """Return the rows of pets: those that already have one, and these rows in their order."""
        rows_of = {**rows_of}

        def seat(row: int, asked: set[int]) -> bool:
            for number in may[row]:
                if number not in asked:
                    asked.add(number)
                    if number not in rows_of or seat(rows_of[number], asked):
                        rows_of[number] = row
                        return True
            return False

        for row in order:
            seat(row, set())
        return rows_of

    def without_ids(self, lines: Mapping[int, Line]) -> None:
        """In a sheet without ids, no row that looks like a pet is added."""
        edited = self.edited_in_one_column(lines)
        for row, new in list(self.expected.adds.items()):
            if lines[row]["action"] != "merge":
                continue
            photos = compared("photo_urls", new)
            near = [pet for pet in self.free.values() if plain(pet.name) == plain(new.name)]
            near += [
                p for p in self.free.values() if photos and compared("photo_urls", p) == photos
            ]
            like = [pet for pet in near if 2 * agreed(new, pet) >= len(other_units(new))]
            if not like and row in edited:
                like = [edited[row]]
            if like:
                most = max(like, key=lambda p: agreed(new, p) + (plain(p.name) == plain(new.name)))
                del self.expected.adds[row]
                self.expected.uncertain = True
                self.expected.conflict(row, most.id, "looks-alike")

    def find_unexpected_pets(self, lines: Mapping[int, Line]) -> None:
        """In an exported sheet, no row is added that looks like a pet added since the export."""
        pairs = []
        for row, new in self.expected.adds.items():
            for number, pet in self.free.items():
                agreeing = set(other_units(new)) - differing(new, pet)
                is_half = 2 * len(agreeing) >= len(other_units(new))
                is_open = lines[row].get("id") is None and lines[row]["action"] == "merge"
                is_new = number not in self.exported and plain(pet.name) == plain(new.name)
                if is_open and is_new and is_half and agreeing - {"status"}:
                    pairs.append((-len(agreeing), row, number))
        self.hold(pairs)

    def hold(self, pairs: Iterable[tuple[Any, ...]]) -> None:
        """Hold the rows of these pairs, which begin with their rank and the row and end with the
        pet. A pet is named twice only if a row has no other one.
        """
        taken: set[int] = set()
        for may_be_taken in (False, True):
            for _, row, *_, number in sorted(pairs):
                if row in self.expected.adds and (may_be_taken or number not in taken):
                    taken.add(number)
                    del self.expected.adds[row]
                    self.expected.uncertain = True
                    self.expected.conflict(row, number, "looks-alike")

    def under_other_ids(self, lines: Mapping[int, Line]) -> None:
        """No row is added under an unused id if it looks like a pet in no row."""
        adds = {
            row: new
            for row, new in self.expected.adds.items()
            if (new.id or 0) >= 1 and lines[row]["action"] == "merge"
        }
        photos = [compared("photo_urls", new) for new in adds.values()]
        pairs = []
        for row, new in adds.items():
            mine = compared("photo_urls", new)
            named = [n for n, p in self.listed.items() if plain(p.name) == plain(new.name)]
            shown = [
                n for n, p in self.listed.items() if mine and mine == compared("photo_urls", p)
            ]
            for number, pet in self.free.items():
                agreeing = set(other_units(new)) - differing(new, pet)
                is_sole = named == [number] or (shown == [number] and photos.count(mine) == 1)
                is_half = is_sole and 2 * len(agreeing) >= len(other_units(new))
                is_same = number in named and not differing(new, pet)
                if is_same or (is_half and agreeing - {"status"}):
                    count = len(agreeing) + (number in named)
                    pairs.append((-count, row, number not in named, number))
        self.hold(pairs)

    def edited_in_one_column(self, lines: Mapping[int, Line]) -> dict[int, Pet]:
        """Return the pets of the rows by name, if most rows have a pet's name and differ from it in
        at most one column.
        """
        found: dict[int, Pet] = {}
        merging = [row for row, line in lines.items() if line["action"] == "merge"]
        adds = {row: self.expected.adds[row] for row in merging if row in self.expected.adds}
        like = {
            row: [pet for pet in self.free.values() if plain(pet.name) == plain(new.name)]
            for row, new in adds.items()
        }
        for column in UNITS[1:]:
            near = {
                row: [pet for pet in like[row] if differing(new, pet) <= {column}]
                for row, new in adds.items()
            }
            ids = {pets[0].id for row, pets in near.items() if pets and len(like[row]) == 1}
            count = len(ids) + len(self.expected.recognised)
            if ids and count >= 2 and 2 * count > len(merging):
                found = {row: pets[0] for row, pets in near.items() if pets} | found
        return found

    def renamed(self, lines: Mapping[int, Line]) -> None:
        """In a sheet without ids, no row is added that may be a pet under another name: the pet
        that belongs in its place or, if no row is recognised, the only pet with all other values
        equal.
        """
        known = self.expected.recognised
        merging = [line for line in lines.values() if line["action"] == "merge"]
        if len(known) < 2 or 2 * len(known) < len(merging):
            known = {}
        is_whole = all(set(line) >= WHOLE for line in lines.values())
        free = dict(self.free)
        for row, new in list(self.expected.adds.items()):
            if lines[row]["action"] != "merge":
                continue
            stated = other_units(new)
            like = {n: p for n, p in free.items() if looks(new) == looks(p)}
            if known:
                like = {n: p for n, p in free.items() if looks(new)["status"] == looks(p)["status"]}
                above = [
                    known[at] for at in known if at < row and at == max(a for a in known if a < row)
                ]
                below = [
                    known[at] for at in known if at > row and at == min(a for a in known if a > row)
                ]
                near = [n for n in like if all(n > a for a in above) and all(n < b for b in below)]
                if not below:
                    near = sorted(near)[:1]
                if not above:
                    near = sorted(near)[-1:]
                like = {
                    n: like[n]
                    for n in near
                    if all(looks(new)[unit] == looks(like[n])[unit] for unit in stated)
                }
            elif not is_whole or not set(stated) - {"status"} or len(like) > 1:
                continue
            if like and stated:
                del self.expected.adds[row]
                self.expected.uncertain = True
                self.expected.conflict(row, next(iter(like)), "looks-alike")

    def in_a_copy(self, lines: Mapping[int, Line]) -> None:
        """In a sheet without ids in which most rows look like pets, no row is added that has all
        other values of a further pet, or its name in another case.
        """
        merging = [line for line in lines.values() if line["action"] == "merge"]
        held = [number for _, number, rules, _ in self.expected.conflicts if rules == LOOKS_ALIKE]
        if len(held) < 2 or 2 * len(held) <= len(merging):
            return
        taken = set(held)
        for row, new in list(self.expected.adds.items()):
            if lines[row]["action"] != "merge":
                continue
            name, stated = plain(new.name).casefold(), other_units(new)
            near, named = [], []
            for number, pet in self.free.items():
                other = plain(pet.name).casefold()
                is_like = all(looks(new)[unit] == looks(pet)[unit] for unit in stated)
                rank = (name != other, not (other and name.startswith(other)), number)
                if number not in taken and (name == other or is_like):
                    near.append(rank)
                if name == other:
                    named.append(rank)
            near = near or named
            if near:
                number = min(near)[2]
                taken.add(number)
                del self.expected.adds[row]
                self.expected.uncertain = True
                self.expected.conflict(row, number, "looks-alike")

    def lost_ids(self, lines: Mapping[int, Line]) -> None:
        """A new row that looks like a pet in no row is held, and so is that pet."""
        held = set()
        for row, new in list(self.expected.adds.items()):
            photos = compared("photo_urls", new)
            like = [
                number
                for number, pet in self.free.items()
                if (self.base is None or number in self.exported)
                and (
                    plain(pet.name) == plain(new.name)
                    or (photos and compared("photo_urls", pet) == photos)
                )
            ]
            if like and lines[row].get("id") is None and lines[row]["action"] == "merge":
                del self.expected.adds[row]
                self.expected.conflict(row, like[0], "lost-id")
                held.update(like)
        for number in held:
            del self.free[number]
            if self.delete_missing and not self.expected.uncertain:
                self.expected.conflict(None, number, "lost-id")

    def with_id(self, row: int, line: Line, action: str, pet: Pet | None, old: Pet | None) -> None:
        """Decide a row with an id, whether or not the store has its pet or the export had it."""
        number = line["id"]
        if action == "delete":
            if pet is None:
                self.expected.unchanged += 1
            elif old and not self.is_as_exported(old, pet):
                self.expected.conflict(row, number, "delete-changed")
            else:
                self.expected.deletes.add((number, "asked"))
        elif action == "add" and pet is not None:
            if self.says_no_more(line, pet, [unit for unit in UNITS if self.is_sent(unit)]):
                self.expected.unchanged += 1
            else:
                # If the row has another error as well, either may be named.
                self.expected.conflict(row, number, "exists", "no-category-name", "no-status")
                self.expected.uncertain |= plain(line.get("name")) != plain(pet.name)
        elif pet is not None:
            self.there(row, line, pet, old)
        elif action == "add":
            self.new(row, line)
        else:
            self.not_there(row, line, action, old)

    def not_there(self, row: int, line: Line, action: str, old: Pet | None) -> None:
        """Decide a row whose pet is not in the store, or no longer."""
        number = line["id"]
        sent = [unit for unit in UNITS if self.is_sent(unit)]
        if old is not None and any(self.is_edited(unit, line, old) for unit in sent):
            self.expected.conflict(row, number, "gone-edited", "no-such-pet")
        elif action == "update":
            self.expected.conflict(row, number, "no-such-pet")
        elif old is not None:
            self.expected.unchanged += 1
            self.expected.gone.add(row)
        else:
            self.new(row, line)

    def there(self, row: int, line: Line, pet: Pet, old: Pet | None) -> None:
        """Merge a row into its pet, unit by unit."""
        after, clashes, is_older = pet, set(), False
        try:
            for unit in UNITS:
                value = self.merged(unit, line, pet, old)
                if value is CLASH:
                    clashes.add(unit)
                    value = self.wanted(unit, line, pet, old)
                    if unit == "status" and not plain(value):
                        self.expected.refused.add(row)
                        value = pet.status
                    value = getattr(pet, unit) if self.on_conflict == "store" else value
                after = replace(after, **{unit: value})
                if old and self.owner(unit) == "both" and not self.is_edited(unit, line, old):
                    is_older |= self.says_otherwise(unit, line, pet)
        except UnknownCategoryError:
            self.expected.conflict(row, pet.id, "no-category-name")
            return
        if plain(pet.status) and not plain(after.status):
            self.expected.conflict(row, pet.id, "no-status")
            return
        if clashes:
            self.expected.conflict(row, pet.id, "both-changed", units=clashes)
        if not agree(pet, after):
            self.expected.updates[row] = after
        elif not clashes:
            self.expected.unchanged += 1
            self.expected.older |= {row} if is_older else set()

    def merged(self, unit: str, line: Line, pet: Pet, old: Pet | None) -> Any:
        """Return the value that the table gives a unit in the store; CLASH if both sides changed it
        differently.
        """
        own = getattr(pet, unit)
        if not self.says(unit, line) or not self.is_sent(unit):
            return own
        if self.owner(unit) == "sheet":
            is_known = old is not None and self.is_edited(unit, line, old)
            wanted = self.wanted(unit, line, pet, old if is_known else None)
            same = compared(unit, replace(pet, **{unit: wanted})) == compared(unit, pet)
            return own if same else wanted
        if old is not None and not self.is_edited(unit, line, old):
            return own
        wanted = self.wanted(unit, line, pet, old)
        if compared(unit, replace(pet, **{unit: wanted})) == compared(unit, pet):
            return own
        if old is None or compared(unit, old) == compared(unit, pet):
            return wanted
        if unit == "tags":
            return merge_tags(old, once(line["tags"]), pet, self.words)
        if unit == "photo_urls":
            three = old.photo_urls, line["photo_urls"], pet.photo_urls
            return merged_urls(*(once(map(plain, urls)) for urls in three))
        return CLASH

    def says(self, unit: str, line: Line) -> bool:
        """Return whether a row has a value for a unit."""
        columns = ("category", "category_id") if unit == "category" else (unit,)
        return any(line.get(column) is not None for column in columns)

    def is_edited(self, unit: str, line: Line, old: Pet) -> bool:
        """Return whether a row's value differs from the exported one."""
        if unit == "category":
            return any(self.edited_category(line, old))
        if not self.says(unit, line):
            return False
        wanted = self.wanted(unit, line, old, None)
        return compared(unit, replace(old, **{unit: wanted})) != compared(unit, old)

    def edited_category(self, line: Line, old: Pet) -> tuple[bool, bool]:
        """Return which of a category's two cells was edited."""
        name, number = line.get("category"), line.get("category_id")
        was = compared("category", old)
        if clears(name, number, old):
            # The number in the row does not matter.
            return was != ("", None), False
        return (
            name is not None and plain(name) != was[0],
            number is not None and number != was[1],
        )

    def wanted(self, unit: str, line: Line, pet: Pet, old: Pet | None) -> Any:
        """Return a row's value for a unit, completed from its pet and the store."""
        if unit == "category":
            name, number = line.get("category"), line.get("category_id")
            if old is not None:
                edited = self.edited_category(line, old)
                name, number = name if edited[0] else None, number if edited[1] else None
            return self.words.category(name, number, pet)
        if unit == "tags":
            return tuple(once(self.words.tag(tag, pet) for tag in line["tags"]))
        if unit == "photo_urls":
            return tuple(once(map(plain, line[unit])))
        return line[unit]

    def says_otherwise(self, unit: str, line: Line, pet: Pet) -> bool:
        """Return whether a row's value for a unit differs from the pet's."""
        if not self.says(unit, line):
            return False
        try:
            wanted = self.wanted(unit, line, pet, None)
        except UnknownCategoryError:
            return True
        return bool(compared(unit, replace(pet, **{unit: wanted})) != compared(unit, pet))

    def says_no_more(self, line: Line, pet: Pet, units: Sequence[str]) -> bool:
        """Return whether a pet has all values of a row in these units already."""
        return not any(self.says_otherwise(unit, line, pet) for unit in units)

    def new(self, row: int, line: Line) -> None:
        """Add a pet if the row has enough values for one."""
        rules = []
        pet = Pet(id=line.get("id"))
        for unit in UNITS:
            try:
                if self.says(unit, line) and self.is_added(unit):
                    pet = replace(pet, **{unit: self.wanted(unit, line, pet, None)})
            except UnknownCategoryError:
                rules.append("no-category-name")
        rules += [] if plain(pet.name) else ["no-name"]
        rules += [] if plain(pet.status) else ["no-status"]
        twins = [] if rules else self.twins(line, pet)
        if not rules and pet.id is None and self.is_repeated(row, line):
            self.expected.uncertain = True
            self.expected.conflict(row, None, "twin")
        elif twins and line["action"] == "add":
            self.expected.uncertain = True
            self.expected.conflict(row, twins[0], "twin")
        elif rules:
            self.expected.uncertain |= pet.id is None
            self.expected.conflict(row, pet.id, *rules)
        else:
            self.expected.adds[row] = pet
            if twins:
                self.repeated[row] = twins[0]

    def repeated_pets(self) -> None:
        """No row without an id is added that has the values of a pet."""
        for row, number in self.repeated.items():
            if self.expected.adds.pop(row, None) is not None:
                self.expected.uncertain = True
                self.expected.conflict(row, number, "twin")

    def is_repeated(self, row: int, line: Line) -> bool:
        """Return whether an earlier row without an id has the same values to send."""
        earlier = [each for at, each in self.lines.items() if at < row and each.get("id") is None]
        wanted = contents(self.sent(line))
        return any(
            contents(self.sent(each)) == wanted for each in earlier if each["action"] != "ignore"
        )

    def sent(self, line: Line, *, whole: bool = False) -> Pet:
        """Return the pet that a row would add, or the pet with all values of the row."""
        new = Pet()
        for unit in UNITS:
            if not self.says(unit, line) or not (whole or self.is_added(unit)):
                continue
            try:
                new = replace(new, **{unit: self.wanted(unit, line, new, None)})
            except UnknownCategoryError:
                new = replace(new, category=Category(line["category_id"]))
        return new

    def twins(self, line: Line, new: Pet) -> list[int]:
        """Return the pets with all values of a new pet without an id, or of its row, and otherwise
        the ids of rows with its values; first those in no row.
        """
        if new.id is not None:
            return []
        pets = {**self.listed, **{n: p for n, p in self.elsewhere.items() if n in self.taken}}
        wanted = [contents(new), contents(self.sent(line, whole=True))]
        found = [n for each in wanted for n, pet in pets.items() if contents(pet) == each]
        free = [n for n in found if n not in self.taken]
        with_ids = [each for each in self.lines.values() if each.get("id") is not None]
        named = [
            each["id"]
            for each in with_ids
            if each["action"] != "ignore" and contents(self.sent(each)) == contents(new)
        ]
        return [*free, *found] or named

    def missing(self) -> None:
        """Delete the pets that no row names, if it is certain that no row means them."""
        for number, pet in self.free.items():
            old = self.exported.get(number)
            if pet.status not in self.covered or (self.base is not None and old is None):
                continue
            if self.expected.uncertain:
                continue
            if old is not None and not self.is_as_exported(old, pet):
                self.expected.conflict(None, number, "removed-changed")
            else:
                self.expected.deletes.add((number, "missing"))
