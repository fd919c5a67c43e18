"""A folder that is reconciled every night: petsync.toml and the sheets of its three jobs."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from typing import Any

from _catalogue import AWKWARD, CATEGORY_ID, cells, new_pet
from _workbook import clean_workbook

__all__ = ["nightly"]

Pet = dict[str, Any]
SCOPE = "cold water"
FIELDS = ("name", "status", "category", "tags")
ARRIVED = {
    "monday.csv": ("Mistral", "Sirocco", "Zephyr", "Föhn", "Bora", "Tramontana", "Levante"),
    "tuesday.csv": ("Ylva", "Bjarke", "Černý", "Dvořák", "Éloïse II"),
}

CONFIGURATION = """\
# Three jobs on the sample store. In a copy of this folder, with the store served beside it:
#
#     export PETSYNC_URL=http://127.0.0.1:8123/v2
#     petsync serve --port 8123 --no-auth --seed ../store.json &
#     petsync reconcile petsync.toml
#
# A service that wants to know who is there gets the token of PETSYNC_TOKEN.
url = "${PETSYNC_URL}"
state = "state"

# The cold-water tanks are looked after in a workbook: what changed on one side goes to the other,
# and where both changed the same, the keepers know better.
[jobs.tanks]
mode = "two-way"
sheet = "tanks.xlsx"
on_conflict = "sheet"
tags = ["cold water"]
schedule = "0 4 * * *"

[jobs.tanks.guard]
max_update = "20%"
max_delete = 2

# Whoever takes animals in leaves a file; a name that the store knows is that pet.
[jobs.arrivals]
mode = "push"
folder = "inbox"
files = "*.csv"
match_on = ["name"]

# The window's labels are printed from a list, which is compared and never changed.
[jobs.labels]
mode = "check"
sheet = "labels.csv"

[jobs.labels.columns]
Nr = "id"
Tier = "name"
Zustand = "status"

[report]
folder = "reports"
keep = 30

[log]
file = "petsync.log"
"""


def nightly(rng: random.Random, pets: Sequence[Pet]) -> dict[str, bytes]:
    """Every file of the folder, by its path below it."""
    return {
        "petsync.toml": CONFIGURATION.encode(),
        "tanks.xlsx": clean_workbook(_tanks(rng, pets)),
        **{f"inbox/{name}": _arrivals(rng, names) for name, names in ARRIVED.items()},
        "labels.csv": _labels(rng, pets),
    }


def _tanks(rng: random.Random, pets: Sequence[Pet]) -> list[Pet]:
    """The pets of the scope but for the last two, three of them sold meanwhile, and a new one."""
    known = [pet for pet in pets if any(tag["name"] == SCOPE for tag in pet["tags"])][:-2]
    sold = {pet["id"] for pet in known if pet["status"] == "available"}
    chosen = set(rng.sample(sorted(sold), 3))
    told = [{**pet, "status": "sold"} if pet["id"] in chosen else pet for pet in known]
    (tag,) = {tag["id"] for pet in known for tag in pet["tags"] if tag["name"] == SCOPE}
    newcomer = new_pet(rng, "Undine", "Freshwater Fish")
    return [*told, {**newcomer, "tags": [{"id": tag, "name": SCOPE}]}]


def _arrivals(rng: random.Random, names: Sequence[str]) -> bytes:
    kinds = [name for name in CATEGORY_ID if "Fish" not in name]
    rows = [cells(new_pet(rng, name, rng.choice(kinds))) for name in names]
    return _csv([FIELDS, *([row[field] for field in FIELDS] for row in rows)])


def _labels(rng: random.Random, pets: Sequence[Pet]) -> bytes:
    """Thirty pets in the window; two of them were sold since the labels were printed."""
    window = [pet for pet in pets if pet["id"] < 10_000 and pet["name"] not in AWKWARD]
    dogs = [pet for pet in window if (pet.get("category") or {}).get("name") == "Dogs"]
    there = [pet for pet in dogs if pet["status"] == "available"]
    gone = [pet for pet in dogs if pet["status"] == "sold"]
    shown = sorted([*rng.sample(there, 28), *rng.sample(gone, 2)], key=lambda pet: int(pet["id"]))
    rows = [(str(pet["id"]), pet["name"], "available") for pet in shown]
    return _csv([("Nr", "Tier", "Zustand"), *rows])


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
