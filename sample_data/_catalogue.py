"""The store's catalogue: 1,240 pets as the service sends them."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from _names import CATEGORIES, COMMON_TAGS, FUR_TAGS, FURRY, NAMES, POPULAR, TAGS, TITLES

__all__ = ["FEATURED", "catalogue", "cells", "new_pet", "photo", "slug", "store_json", "tag_cell"]

Pet = dict[str, Any]
SIZE = 1240
CATEGORY_ID = {name: number for number, name, *_ in CATEGORIES}
FITTING = {name: tags for _, name, _, tags in CATEGORIES}
GENERAL = {
    name: (*FUR_TAGS, *COMMON_TAGS) if name in FURRY else COMMON_TAGS for name in CATEGORY_ID
}

# The pets that have a picture in images/, and what it shows.
FEATURED: dict[int, tuple[str, str, str]] = {
    1001: ("Bella", "Dogs", "dog"),
    1002: ("Zoë", "Cats", "cat"),
    1003: ("Flopsy", "Rabbits", "rabbit"),
    1004: ("Loro", "Parrots", "parrot"),
    1005: ("Goldie", "Freshwater Fish", "goldfish"),
    1006: ("Björn", "Turtles & Tortoises", "turtle"),
    1007: ("Krümel", "Hamsters & Mice", "hamster"),
    1008: ("Kaa", "Reptiles", "snake"),
    1009: ("Żabka", "Amphibians", "frog"),
    1010: ("Kiwi", "Finches & Canaries", "canary"),
    1011: ("Żaczek", "Guinea Pigs", "guinea-pig"),
    1012: ("Nemo", "Marine Fish", "clownfish"),
    1013: ("Ñandú", "Hens & Ducks", "duck"),
    1014: ("Henrietta", "Hens & Ducks", "hen"),
    1015: ("Pascal", "Reptiles", "chameleon"),
    1016: ("Axel", "Amphibians", "axolotl"),
    1017: ("Pip", "Hamsters & Mice", "mouse"),
    1018: ("Slinky", "Ferrets", "ferret"),
    1019: ("小雪", "Cats", "white-cat"),
    9007199254740993: ("O'Malley", "Dogs", "dachshund"),
}

# Names that trip spreadsheets, CSV readers and shells; each is somebody's pet.
AWKWARD = (
    "NA",
    "null",
    "=^.^=",
    "+1 (Bella's brother)",
    "@lfie",
    "Tom, the Second",
    "Salt; Pepper",
    'The "Duke"',
    "007",
    "True",
    "Coco 🐾",
    "Луна 🌙",
    "Ben & Jerry",
    "<Fluffy>",
    "50% Poodle",
    "Rex | Roy",
)

_FAR_IDS = (2147483648, 999999999999999, 9007199254740993, 9223372036854775806)


def catalogue(rng: random.Random) -> list[Pet]:
    """The pets, by id; no two have the same content."""
    ids = [*range(1001, 1001 + SIZE - len(_FAR_IDS)), *_FAR_IDS]
    statuses = _shuffled(rng, ["available"] * 769 + ["pending"] * 223 + ["sold"] * 248)
    names = _names(rng)
    pets: list[Pet] = []
    seen: set[str] = set()
    for number, status in zip(ids, statuses, strict=True):
        pet = _pet(rng, number, status, names)
        while (content := json.dumps({**pet, "id": None})) in seen:
            pet = _pet(rng, number, status, names)
        seen.add(content)
        pets.append(pet)
    return pets


def new_pet(rng: random.Random, name: str, category: str, number: int | None = None) -> Pet:
    """A pet that the store does not have yet, without an id unless one is given."""
    pet = {"category": _category(category), "name": name, "photoUrls": [], "status": "available"}
    pet["tags"] = [_tag(tag) for tag in _tags(rng, category)]
    pet["photoUrls"] = [photo(name, "new", n) for n in range(1, rng.choice((1, 2, 2, 3)))]
    return pet if number is None else {"id": number, **pet}


def store_json(pets: Sequence[Pet]) -> str:
    """A JSON list with one pet a line."""
    lines = ",\n".join(json.dumps(pet, ensure_ascii=False, separators=(",", ":")) for pet in pets)
    return f"[\n{lines}\n]\n"


def cells(pet: Pet, photo_separator: str = "\n") -> dict[str, str]:
    """The pet as the cells of a sheet."""
    category = pet.get("category") or {}
    return {
        "id": str(pet.get("id", "")),
        "name": pet["name"],
        "status": pet["status"],
        "category": category.get("name", ""),
        "category_id": str(category.get("id", "")),
        "tags": tag_cell(tag["name"] for tag in pet["tags"]),
        "photo_urls": photo_separator.join(pet["photoUrls"]),
        "action": "",
    }


def tag_cell(names: Iterator[str] | Sequence[str]) -> str:
    """Tags by plain name; one that holds a separator is quoted as in CSV."""
    return "; ".join(f'"{name}"' if ";" in name else name for name in names)


def photo(name: str, folder: int | str, number: int) -> str:
    """The address of one photo."""
    return f"https://images.petshop.example/{folder}/{slug(name)}-{number}.jpg"


def slug(name: str) -> str:
    """The name in lower-case ASCII; `pet` where nothing of it is left."""
    plain = name.translate(str.maketrans({"ł": "l", "Ł": "L", "ø": "o", "ß": "ss"}))
    ascii_only = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only.replace("'", "").lower()).strip("-") or "pet"


def _pet(rng: random.Random, number: int, status: str, names: Iterator[str]) -> Pet:
    if number in FEATURED:
        name, category, _ = FEATURED[number]
        status = "available"
    else:
        name = next(names)
        category = rng.choices([row[1] for row in CATEGORIES], [row[2] for row in CATEGORIES])[0]
    count = rng.choices(range(5), (12, 34, 28, 17, 9))[0]
    pet = {
        "id": number,
        "category": _category(category),
        "name": name,
        "photoUrls": [photo(name, number, n) for n in range(1, count + 1)],
        "tags": [_tag(tag) for tag in _tags(rng, category)],
        "status": status,
    }
    if number not in FEATURED and rng.random() < 0.006:
        del pet["category"]
    return pet


def _category(name: str) -> dict[str, Any]:
    return {"id": CATEGORY_ID[name], "name": name}


def _tag(name: str) -> dict[str, Any]:
    return {"id": TAGS[name], "name": name}


def _tags(rng: random.Random, category: str) -> list[str]:
    common = rng.sample(GENERAL[category], rng.choices(range(4), (15, 35, 35, 15))[0])
    fitting = rng.sample(FITTING[category], rng.choices(range(3), (25, 50, 25))[0])
    tags = dict.fromkeys([*common, *fitting])
    for this, other in (("senior", "young"), ("calm", "playful"), ("shy", "friendly")):
        if this in tags:
            tags.pop(other, None)
    return list(tags)


def _names(rng: random.Random) -> Iterator[str]:
    """Every name once or more, the popular ones often, the awkward ones once."""
    titled = [f"{rng.choice(TITLES)} {rng.choice((*POPULAR, *NAMES[:150]))}" for _ in range(260)]
    listed = [*AWKWARD, *NAMES, *titled]
    repeats = rng.choices(POPULAR, k=SIZE - len(FEATURED) - len(listed))
    yield from _shuffled(rng, [*listed, *repeats])
    while True:
        yield rng.choice(POPULAR)


def _shuffled(rng: random.Random, items: list[str]) -> list[str]:
    rng.shuffle(items)
    return items
