"""The CSV files: three offices, three habits."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from typing import Any

from _catalogue import AWKWARD, CATEGORY_ID, cells, new_pet
from _names import NEWCOMERS

__all__ = ["from_excel", "new_arrivals", "price_list"]

Pet = dict[str, Any]
FIELDS = ("name", "status", "category", "category_id", "tags", "photo_urls")
ONWARD = {"available": "pending", "pending": "sold", "sold": "available"}


def new_arrivals(rng: random.Random) -> bytes:
    """Sixty pets without an id: comma, UTF-8."""
    rows = []
    for name in NEWCOMERS[72:132]:
        pet = new_pet(rng, name, rng.choice(tuple(CATEGORY_ID)))
        rows.append([cells(pet, " | ")[field] for field in FIELDS])
    return _csv([FIELDS, *rows]).encode()


def price_list(rng: random.Random, pets: Sequence[Pet]) -> bytes:
    """A German price list of 240 pets: semicolon, decimal comma, its own spelling of headers.

    Every twelfth pet has moved on to its next status.
    """
    head = [
        "ID",
        "Name",
        "Status",
        "Category",
        "Category ID",
        "Tags",
        "Photo URLs",
        "Preis",
        "Regal",
    ]
    rows: list[Sequence[str]] = [head]
    for n, pet in enumerate(_some(rng, pets, 240)):
        row = cells(pet, " | ")
        status = ONWARD[row["status"]] if n % 12 == 0 else row["status"]
        price = f"{rng.randint(8, 640)},{rng.choice((0, 50, 90)):02d} €"
        shelf = f"{rng.choice('ABCDEFGH')}{rng.randint(1, 24)}"
        rows.append(
            [row["id"], row["name"], status.capitalize()]
            + [row[field] for field in FIELDS[2:]]
            + [price, shelf]
        )
    return _csv(rows, delimiter=";").encode()


def from_excel(rng: random.Random, pets: Sequence[Pet]) -> bytes:
    """Excel's "CSV UTF-8" of 120 pets: BOM, CRLF, line breaks inside photo_urls.

    Every tenth pet has one photo more, or has got its first.
    """
    rows: list[Sequence[str]] = [("id", *FIELDS)]
    for n, pet in enumerate(_some(rng, pets, 120)):
        row = cells(pet)
        if n % 10 == 0:
            extra = f"https://images.petshop.example/{pet['id']}/spring-2026.jpg"
            row["photo_urls"] = "\n".join([*pet["photoUrls"], extra])
        rows.append([row["id"], *(row[field] for field in FIELDS)])
    return b"\xef\xbb\xbf" + _csv(rows, ending="\r\n").encode()


def _some(rng: random.Random, pets: Sequence[Pet], count: int) -> list[Pet]:
    plain = [pet for pet in pets if pet["id"] < 10_000 and pet["name"] not in AWKWARD]
    return sorted(rng.sample(plain, count), key=lambda pet: int(pet["id"]))


def _csv(rows: Sequence[Sequence[str]], *, delimiter: str = ",", ending: str = "\n") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=ending).writerows(rows)
    return text.getvalue()
