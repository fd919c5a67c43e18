"""People who edit by day: the store, the sheets, both sides of a pet, and with mistakes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import msgspec
from nights.paper import open_paper
from nights.reading import BLANK, FIELDS, Line
from nights.world import JOBS, SCOPES, World

from petsync.models import Category, Tag
from petsync.models import Pet as Stored

__all__ = ["Editor", "row_of"]

WORDS = (
    "Rex", "Zoë", "Zoe\u0308", "Ода", "日本", "Mia 🐾", "نور", "O'Neil", "Tom & Jerry", "a;b",
    'the "King"', "-5", "Ñandú", "x" * 60, "007", "NA", "None", "1e5", "true",
)  # fmt: skip
GROUPS = ("Dogs", "Cats", "Fish & more", "Vögel", "猫")
TAGS = ("calm", "good with cats", "semi;colon", 'quo"te', "7:up", "été", "shy", "red", "old", "new")
STATUSES = ("available", "pending", "sold")
FAR = 9_223_372_036_854_775_000


class Editor:
    """Makes random edits; `deeds` lists them, and `mistakes` has its typing errors."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.deeds: list[str] = []
        self.mistakes: dict[str, tuple[str, str, str]] = {}
        self._numbers = itertools.count(1)
        self._far = itertools.count(FAR)

    def token(self) -> str:
        """Return a new text that identifies a pet in its name, and that no edit changes."""
        return f"#k{next(self._numbers)}."

    def make_pet(self, number: int | None, scope: str) -> Stored:
        """Return a new pet, as the store has it."""
        rng = self.rng
        tags = [scope] * bool(scope) + rng.sample(TAGS, rng.randrange(3))
        return Stored(
            id=number,
            name=f"{rng.choice(WORDS)} {self.token()}",
            status=rng.choice(STATUSES),
            category=self._category(),
            tags=tuple(Tag(None, tag) for tag in tags),
            photo_urls=tuple(self._photo() for _ in range(rng.randrange(3))),
        )

    def a_day(self, job: str, *, edits: int = 5) -> None:
        """Edit both sides of a job: different fields, the same field, new pets and removals."""
        rng, scope = self.rng, SCOPES[job]
        for _ in range(rng.randint(1, edits)):
            self.edit_store(scope)
        for _ in range(rng.randint(1, edits)):
            self.edit_sheet(job)
        if rng.random() < 0.6:
            self.edit_both(job, same=rng.random() < 0.3)
        if rng.random() < 0.5:
            self.bear_in_store(scope)
        if rng.random() < 0.6:
            self.bear_in_sheet(job, scope)
        if rng.random() < 0.3:
            self.kill_in_store(scope)
        if rng.random() < 0.3:
            self.remove_rows(job, 1)

    def edit_store(self, scope: str, number: int | None = None, field: str | None = None) -> int:
        """Change a field of a pet of the scope in the store, and return the pet's id."""
        pets = [pet for pet in self.world.box.pets() if number in (None, pet.id)]
        pets = [pet for pet in pets if not scope or any(tag.name == scope for tag in pet.tags)]
        if not pets:
            return 0
        pet = self.rng.choice(pets)
        field = field or self.rng.choice(FIELDS)
        change = {field: self._stored_value(pet, field, scope)}
        self.deeds.append(f"store: {pet.id} {change}")
        self.world.box.put(msgspec.structs.replace(pet, **change))
        return pet.id or 0

    def edit_sheet(self, job: str, row: Line | None = None, field: str | None = None) -> None:
        """Change a cell of a row."""
        rows = self._rows(job)
        if JOBS[job] == "push":
            # If no id is written back, an edited row without an id is a different row.
            rows = [line for line in rows if line.id is not None]
        if row is None and not rows:
            return
        line = row or self.rng.choice(rows)
        named = [name for name in FIELDS if name in line.texts]
        field = field or self.rng.choice(named)
        self._type(job, line, field, self._text(line, field, SCOPES[job]))

    def edit_both(self, job: str, *, same: bool) -> None:
        """Change the same field of a pet on both sides, to equal or to different values."""
        rows = [line for line in self._rows(job) if line.id is not None]
        pets = {pet.id: pet for pet in self.world.box.pets()}
        rows = [line for line in rows if line.id in pets]
        if not rows:
            return
        line = self.rng.choice(rows)
        field = self.rng.choice([name for name in FIELDS if name in line.texts])
        self.edit_store(SCOPES[job], line.id, field)
        if same:
            now = next(pet for pet in self.world.box.pets() if pet.id == line.id)
            self._type(job, line, field, row_of(now)[field] or "[clear]")
        else:
            self.edit_sheet(job, line, field)

    def bear_in_store(self, scope: str) -> None:
        """Add a pet to the store, sometimes with a very large id."""
        number = next(self._far) if self.rng.random() < 0.2 else None
        pet = self.world.box.put(self.make_pet(number, scope))
        self.deeds.append(f"store: new {pet}")

    def bear_in_sheet(self, job: str, scope: str) -> None:
        """Add a row, with or without an id, sometimes outside the job's scope."""
        inside = scope if self.rng.random() < 0.8 else ""
        number = next(self._far) if self.rng.random() < 0.3 else None
        texts = row_of(self.make_pet(number, inside))
        paper = open_paper(self.world.sheets[job])
        known = self._rows(job)
        paper.add({name: text for name, text in texts.items() if name in known[0].texts})
        paper.save()
        self.deeds.append(f"{job}: new row {texts}")

    def kill_in_store(self, scope: str, count: int = 1) -> None:
        """Delete pets of the scope from the store."""
        pets = [p for p in self.world.box.pets() if any(t.name == scope for t in p.tags)]
        for pet in self.rng.sample(pets, min(count, len(pets))):
            self.world.box.remove(pet.id or 0)
            self.deeds.append(f"store: {pet.id} deleted")

    def remove_rows(self, job: str, count: int) -> None:
        """Remove rows with an id."""
        rows = [line for line in self._rows(job) if line.id is not None]
        gone = self.rng.sample(rows, min(count, len(rows)))
        paper = open_paper(self.world.sheets[job])
        paper.remove({line.number for line in gone})
        paper.save()
        self.deeds.append(f"{job}: rows of {[line.id for line in gone]} out")

    def remove_numbered(self, job: str, numbers: set[int]) -> None:
        """Remove the rows with these numbers."""
        paper = open_paper(self.world.sheets[job])
        paper.remove(numbers)
        paper.save()
        self.deeds.append(f"{job}: rows {sorted(numbers)} out")

    def write_row(self, job: str, texts: dict[str, str]) -> None:
        """Add a row at the end of the sheet."""
        paper = open_paper(self.world.sheets[job])
        paper.add(texts)
        paper.save()
        self.deeds.append(f"{job}: row {texts}")

    def empty(self, job: str) -> bytes:
        """Remove all rows, as if by mistake, and return the previous content of the file."""
        path = self.world.sheets[job]
        before = path.read_bytes()
        paper = open_paper(path)
        paper.remove({line.number for line in self._rows(job)})
        paper.save()
        self.deeds.append(f"{job}: emptied")
        return before

    def mistype(self, job: str) -> None:
        """Type an error into a cell, to be corrected on another day."""
        rows = [line for line in self._rows(job) if line.id is not None]
        line = self.rng.choice(rows)
        wrong, column = self.rng.choice(
            [("avialable", "status"), ("12x", "id"), ('"open', "tags"), ("1.2E+3", "id")]
        )
        text = f"{wrong}{next(self._numbers)}" if column != "id" else f"{wrong}{line.id}"
        self.mistakes[text] = (job, column, line.texts[column])
        self._type(job, line, column, text)

    def repeat(self, job: str) -> None:
        """Copy a row with its id, and change its name."""
        rows = [line for line in self._rows(job) if line.id is not None]
        line = self.rng.choice(rows)
        name = f"copied {self.token()}"
        paper = open_paper(self.world.sheets[job])
        paper.add({**line.texts, "name": name})
        paper.save()
        self.mistakes[name] = (job, "", "")
        self.deeds.append(f"{job}: row of {line.id} copied as {name}")

    def correct(self) -> None:
        """Correct every mistake, as a person does who reads the findings."""
        for wrong, (job, column, right) in self.mistakes.items():
            path = self.world.sheets[job]
            for line in self.world.rows(job):
                if column and line.texts[column] == wrong:
                    self._type(job, line, column, right)
                elif not column and line.texts["name"] == wrong:
                    paper = open_paper(path)
                    paper.remove({line.number})
                    paper.save()
        self.mistakes.clear()

    def on_every(self, job: str, do: Callable[[Line], None]) -> None:
        """Call `do` with each row."""
        for line in self._rows(job):
            do(line)

    def type(self, job: str, line: Line, column: str, text: str) -> None:
        """Type a text into a cell of the row."""
        self._type(job, line, column, text)

    def _rows(self, job: str) -> list[Line]:
        wrong = set(self.mistakes)
        rows = self.world.rows(job)
        return [line for line in rows if not wrong & set(line.texts.values())]

    def _type(self, job: str, line: Line, column: str, text: str) -> None:
        paper = open_paper(self.world.sheets[job])
        paper.type(line.number, column, text)
        paper.save()
        self.deeds.append(f"{job}: row {line.number} ({line.id}) {column} = {text!r}")

    def _text(self, line: Line, field: str, scope: str) -> str:
        rng, value = self.rng, line.values[field]
        if field == "name":
            token = line.texts["name"].split()[-1]
            return f"{rng.choice(WORDS)} {rng.randrange(1000)} {token}"
        if field == "status":
            return rng.choice([s.title() if rng.random() < 0.2 else s for s in STATUSES])
        if field == "category":
            return rng.choice([*GROUPS, "[clear]", ""])
        if rng.random() < 0.1:
            return ""
        if field == "tags":
            return (
                _tags([*self._mixed(() if value is BLANK else sorted(value), scope)]) or "[clear]"
            )
        photos = [] if value is BLANK else [*value]
        return "\n".join(self._rearranged(photos)) or "[clear]"

    def _stored_value(self, pet: Stored, field: str, scope: str) -> Any:
        rng = self.rng
        if field == "name":
            token = (pet.name or "?").split()[-1]
            return f"{rng.choice(WORDS)} {rng.randrange(1000)} {token}"
        if field == "status":
            return rng.choice(STATUSES)
        if field == "category":
            return rng.choice([None, self._category()])
        if field == "tags":
            names = [tag.name or "" for tag in pet.tags]
            return tuple(Tag(None, name) for name in self._mixed(names, scope))
        return tuple(self._rearranged([*pet.photo_urls]))

    def _mixed(self, tags: Any, scope: str) -> list[str]:
        """Return the tags with some added and some removed; the tag of the scope stays."""
        more = self.rng.sample(TAGS, self.rng.randrange(3))
        kept = [tag for tag in tags if tag == scope or self.rng.random() < 0.7]
        return list(dict.fromkeys([*kept, *more]))

    def _rearranged(self, photos: list[str]) -> list[str]:
        rng = self.rng
        what = rng.randrange(3)
        if what == 0 or not photos:
            photos.insert(rng.randint(0, len(photos)), self._photo())
        elif what == 1:
            photos.remove(rng.choice(photos))
        else:
            rng.shuffle(photos)
        return photos

    def _photo(self) -> str:
        return f"https://photos.example/{self.rng.randrange(10**6)}.jpg"

    def _category(self) -> Category:
        place = self.rng.randrange(len(GROUPS))
        return Category(place + 1, GROUPS[place])


def row_of(pet: Stored) -> dict[str, str]:
    """Return the pet as a person writes it into a row."""
    return {
        "id": "" if pet.id is None else str(pet.id),
        "name": pet.name or "",
        "status": pet.status or "",
        "category": (pet.category.name or "") if pet.category else "",
        "tags": _tags([tag.name or "" for tag in pet.tags]),
        "photo_urls": "\n".join(pet.photo_urls),
    }


def _tags(names: list[str]) -> str:
    return "; ".join(_tag(name) for name in names)


def _tag(name: str) -> str:
    if any(c in name for c in ';"'):
        return '"' + name.replace('"', '""') + '"'
    return f":{name}" if name[:1].isdigit() and ":" in name else name
