"""What the shop's people made of the exported catalogue, mistakes included."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Literal

from _catalogue import (
    AWKWARD,
    CATEGORY_ID,
    FEATURED,
    FITTING,
    GENERAL,
    cells,
    new_pet,
    photo,
    tag_cell,
)
from _names import NEWCOMERS

__all__ = ["Broken", "Mistake", "Row", "edited"]

Pet = dict[str, Any]
NBSP = "\u00a0"


@dataclass(frozen=True)
class Broken:
    """A cell that is no text: an Excel error, or a formula that was never calculated."""

    text: str


Value = str | int | float | date | Broken


@dataclass(frozen=True)
class Mistake:
    """One planted mistake: the column it is in, a short name, and what happened.

    `blocks` says that the row must not be applied; `seen_by` whether the sheet alone shows it
    (`check`) or the store is needed (`plan`).
    """

    column: str
    rule: str
    blocks: bool
    what: str
    seen_by: Literal["check", "plan"] = "check"


@dataclass(eq=False)
class Row:
    """One row of the sheet: `mark` colours it, `touched` are the cells that somebody changed."""

    cells: dict[str, Value]
    mark: Literal["", "changed", "new", "gone"] = ""
    touched: tuple[str, ...] = ()
    mistakes: list[Mistake] = field(default_factory=list)


Edit = Callable[[random.Random, Pet], dict[str, Value]]


def edited(rng: random.Random, pets: Sequence[Pet]) -> list[Row | None]:
    """The sheet's rows in order; None is an empty row."""
    rows = {pet["id"]: Row(dict(cells(pet, " | "))) for pet in pets}
    plain = [pet for pet in pets if _is_plain(pet)]
    rng.shuffle(plain)
    pool = iter(plain)
    _remove(rows, pool)
    _update(rng, rows, pool)
    _ignore(rows, pool)
    _blunder(rows, pool)
    twins = _clashing(rows, pool)
    repeated = [rows[next(pool)["id"]] for _ in range(2)]
    _special(rows)
    newcomers = iter(_newcomers(rng))
    listed: list[Row | None] = list(rows.values())
    _insert(rng, listed, twins)
    _insert(rng, listed, [next(newcomers) for _ in range(9)])
    _repeat(rng, listed, repeated)
    return [*listed, None, *newcomers, *_mistaken_newcomers(rng)]


def _is_plain(pet: Pet) -> bool:
    return (
        pet["id"] not in FEATURED
        and pet["id"] < 10_000
        and pet["name"] not in AWKWARD
        and "category" in pet
    )


def _remove(rows: Mapping[int, Row], pool: Iterator[Pet]) -> None:
    for _ in range(40):
        row = rows[next(pool)["id"]]
        row.cells["action"] = "delete"
        row.mark = "gone"


def _ignore(rows: Mapping[int, Row], pool: Iterator[Pet]) -> None:
    for n in range(6):
        row = rows[next(pool)["id"]]
        row.cells |= {"action": "ignore", "status": ("sold", "pending")[n % 2]}
        row.cells["name"] = f"{row.cells['name']} (ask Petra)"
        row.touched = ("name", "status")


def _update(rng: random.Random, rows: Mapping[int, Row], pool: Iterator[Pet]) -> None:
    for edit, count in EDITS.items():
        for _ in range(count):
            pet = next(pool)
            row = rows[pet["id"]]
            new = edit(rng, pet)
            row.cells |= new
            row.cells["action"] = rng.choices(("", "update", "merge"), (88, 9, 3))[0]
            row.touched = tuple(new)
            row.mark = "changed" if rng.random() < 0.7 else ""


def _status(rng: random.Random, pet: Pet) -> dict[str, Value]:
    onward = {"available": ("pending", "sold"), "pending": ("sold", "available")}
    return {"status": rng.choice(onward.get(pet["status"], ("available",)))}


def _rename(rng: random.Random, pet: Pet) -> dict[str, Value]:
    endings = ("{} II", "{} Rose", "Mr {}", "{} vom Lindenhof", "{}, reserved for Ana", "{}-Bär")
    return {"name": rng.choice(endings).format(pet["name"])}


def _move(rng: random.Random, pet: Pet) -> dict[str, Value]:
    others = [name for name in CATEGORY_ID if name != pet["category"]["name"]]
    name = rng.choice(others)
    return {"category": name, "category_id": str(CATEGORY_ID[name])}


def _tag_more(rng: random.Random, pet: Pet) -> dict[str, Value]:
    has = [tag["name"] for tag in pet["tags"]]
    kind = pet["category"]["name"]
    fitting = (*FITTING[kind], *GENERAL[kind])
    return {"tags": tag_cell([*has, rng.choice([tag for tag in fitting if tag not in has])])}


def _tag_other(rng: random.Random, pet: Pet) -> dict[str, Value]:
    """One tag less; where that would leave a blank cell, another tag instead."""
    kept = [tag["name"] for tag in pet["tags"]][1:]
    return {"tags": tag_cell(kept)} if kept else _tag_more(rng, pet)


def _photo_more(rng: random.Random, pet: Pet) -> dict[str, Value]:
    number = len(pet["photoUrls"]) + 1
    urls = [*pet["photoUrls"], photo(pet["name"], pet["id"], number)]
    return {"photo_urls": rng.choice((" | ", "\n")).join(urls)}


def _status_and_tag(rng: random.Random, pet: Pet) -> dict[str, Value]:
    return _status(rng, pet) | _tag_more(rng, pet)


def _no_category(_: random.Random, __: Pet) -> dict[str, Value]:
    return {"category": "[clear]", "category_id": "[clear]"}


def _no_tags(rng: random.Random, pet: Pet) -> dict[str, Value]:
    return {"tags": "[clear]"} if pet["tags"] else _tag_more(rng, pet)


EDITS: dict[Edit, int] = {
    _status: 104,
    _rename: 28,
    _move: 18,
    _tag_more: 24,
    _tag_other: 14,
    _photo_more: 14,
    _status_and_tag: 10,
    _no_category: 4,
    _no_tags: 6,
}


def _hurt(row: Row, column: str, value: Value, mistake: Mistake) -> None:
    row.cells[column] = value
    row.mistakes.append(mistake)


def _blunder(rows: Mapping[int, Row], pool: Iterator[Pet]) -> None:
    """One mistake in each of these rows; a text may quote the row's own cells."""
    for column, value, rule, blocks, what in BLUNDERS:
        row = rows[next(pool)["id"]]
        new = value.format(**row.cells) if isinstance(value, str) else value
        _hurt(row, column, new, Mistake(column, rule, blocks, what))
    row = rows[next(pool)["id"]]
    half = float(str(row.cells["id"])) + 0.5
    _hurt(row, "id", half, Mistake("id", "id-fraction", True, "The id is a fraction."))
    row = rows[next(pool)["id"]]
    what = (
        "The row says `add`, but the pet is there already. The rest of the row is as the pet is, "
        "so a plan has nothing to do; if it said anything else, it would be a conflict."
    )
    _hurt(row, "action", "add", Mistake("id", "add-of-known-id", False, what, "plan"))


BLUNDERS: tuple[tuple[str, Value, str, bool, str], ...] = (
    ("status", "availabel", "unknown-status", True, "A typing error in `available`."),
    ("status", "pendng", "unknown-status", True, "A letter is missing in `pending`."),
    ("status", "solld", "unknown-status", True, "A letter too many in `sold`."),
    ("status", "reserved", "unknown-status", True, "The store has no status `reserved`."),
    ("status", "Sold ", "status-spelling", False, "Capital letter and a space after `sold`."),
    ("status", "AVAILABLE", "status-spelling", False, "`available` in capital letters."),
    ("status", "{status}" + NBSP, "no-break-space", False, "A no-break space after the status."),
    ("tags", NBSP + "calm;" + NBSP + "shy", "no-break-space", False, "No-break spaces in tags."),
    ("id", NBSP + "{id}", "no-break-space", False, "A no-break space before the id."),
    ("id", "{id}.0", "id-decimal", False, "The id went through a program that made it a decimal."),
    ("id", "{id}.0", "id-decimal", False, "The id went through a program that made it a decimal."),
    ("id", "1.2E+3", "id-scientific", True, "The id is in scientific notation, as text."),
    ("name", date(2026, 5, 1), "date-instead-of-text", True, "The name `May 1` has become a date."),
    (
        "status",
        date(2026, 3, 14),
        "date-instead-of-text",
        True,
        "A date was filled down over the status.",
    ),
    ("name", Broken("#REF!"), "error-cell", True, "The name is an Excel error."),
    ("category", Broken("#N/A"), "error-cell", True, "A look-up of the category found nothing."),
    ("status", Broken("#N/A"), "error-cell", True, "A look-up of the status found nothing."),
    ("name", Broken('=PROPER("minka")'), "formula-without-value", True, "Never calculated."),
    ("status", Broken('=IF(I2>0,"sold","")'), "formula-without-value", True, "Never calculated."),
    ("action", "remove", "unknown-action", True, "The action for this is called `delete`."),
    ("action", "del", "unknown-action", True, "The action for this is called `delete`."),
    ("name", "[clear]", "clear-refused", True, "A name cannot be emptied."),
    (
        "name",
        "{name} - very sweet, found on the car park behind the shop in March. " * 9,
        "name-long",
        False,
        "Somebody pasted the whole description into the name.",
    ),
    ("tags", "friendly;vaccinated;;shy ;", "tags-separators", False, "Semicolons too many."),
    ("tags", "friendly; calm; friendly", "tag-repeated", False, "A tag is in the list twice."),
    ("photo_urls", "see Dropbox", "photo-not-an-address", False, "No address of a photo."),
    (
        "photo_urls",
        r"C:\Photos\{name}.jpg",
        "photo-not-an-address",
        False,
        "A file on somebody's computer.",
    ),
    ("category_id", "dogs", "id-not-a-number", True, "A word where a number belongs."),
)


def _clashing(rows: Mapping[int, Row], pool: Iterator[Pet]) -> list[Row]:
    """Further rows, with different values, of two pets that have a row."""
    extra: list[Row] = []
    changes: list[list[dict[str, Value]]] = [
        [{"status": "sold", "name": "Bruno"}],
        [{"status": "pending", "tags": "calm"}, {"name": "Bruno (the brown one)"}],
    ]
    clash = Mistake("id", "duplicate-id", True, "Other rows have this id and different values.")
    for group in changes:
        row = rows[next(pool)["id"]]
        twins = [replace(row, cells=row.cells | change, mistakes=[]) for change in group]
        for each in (row, *twins):
            each.mistakes.append(clash)
        extra += twins
    return extra


def _repeat(rng: random.Random, listed: list[Row | None], rows: Sequence[Row]) -> None:
    """The same rows once more, further down."""
    same = Mistake("id", "duplicate-row", False, "The row is identical to another one.")
    for row in rows:
        twin = replace(row, cells=dict(row.cells), mistakes=[same])
        listed.insert(rng.randrange(listed.index(row) + 2, len(listed)), twin)


def _special(rows: Mapping[int, Row]) -> None:
    what = "Excel keeps 15 digits of a number: the last digit of this id is lost."
    _hurt(rows[9007199254740993], "id", 9007199254740992, Mistake("id", "id-imprecise", True, what))
    rows[999999999999999].cells["id"] = 999999999999999
    what = "Typed on a Mac: the accent is a separate character. The same name."
    zoe = unicodedata.normalize("NFD", "Zoë")
    _hurt(rows[1002], "name", zoe, Mistake("name", "decomposed-characters", False, what))


def _newcomers(rng: random.Random) -> list[Row]:
    names = NEWCOMERS[:64]
    rows = [_newcomer(rng, name) for name in names]
    for row in rng.sample(rows, 9):
        row.cells["action"] = "add"
    # Tags that the store has never seen.
    rows[20].cells["tags"] = "friendly; summer sale"
    rows[41].cells["tags"] = "summer sale; has a blog"
    return rows


def _newcomer(rng: random.Random, name: str, number: int | None = None) -> Row:
    category = rng.choice(tuple(CATEGORY_ID))
    return Row(
        dict(cells(new_pet(rng, name, category, number), "\n")),
        mark="new" if rng.random() < 0.85 else "",
    )


def _mistaken_newcomers(rng: random.Random) -> list[Row]:
    rows = []
    for n, (column, value, rule, blocks, what) in enumerate(MISTAKEN_NEWCOMERS):
        row = _newcomer(rng, f"{NEWCOMERS[64 + n]} Junior")
        _hurt(row, column, value, Mistake(column, rule, blocks, what))
        rows.append(row)
    rows.append(_newcomer(rng, "Phantom", 4711))
    what = "The row says `update`, but the store has no pet with this id."
    _hurt(rows[-1], "action", "update", Mistake("id", "update-of-unknown-id", True, what, "plan"))
    for number, name in ((5001, "Castor"), (5002, "Pollux"), (5003, "Électre")):
        rows.append(_newcomer(rng, name, number))
        what = "Somebody chose the id. The store has no such pet, so it is added."
        rows[-1].mistakes.append(Mistake("id", "chosen-id", False, what, "plan"))
    return rows


MISTAKEN_NEWCOMERS: tuple[tuple[str, Value, str, bool, str], ...] = (
    ("name", "", "name-missing", True, "An addition without a name."),
    ("name", " ", "name-missing", True, "An addition whose name is a space."),
    ("id", "new", "id-not-a-number", True, "A word where an id belongs; blank would be right."),
    ("id", "abc", "id-not-a-number", True, "Letters where an id belongs."),
    ("name", date(2026, 2, 1), "date-instead-of-text", True, "The name `1/2` has become a date."),
)


def _insert(rng: random.Random, listed: list[Row | None], rows: Sequence[Row]) -> None:
    """People put a new row where they happen to be."""
    for row in rows:
        listed.insert(rng.randrange(12, len(listed)), row)
