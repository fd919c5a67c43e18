"""Pets in the store's file: each as the JSON that is sent, beside what it is searched by."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from petsync.errors import InvalidInputError
from petsync.model import MAX_ID, Pet
from petsync.wire import json, xml

__all__ = [
    "Order",
    "Selection",
    "batches",
    "by_status",
    "by_tags",
    "everything",
    "fill",
    "find",
    "is_xml",
    "keep_within",
    "next_id",
    "put",
    "remove",
    "replace_all",
    "save",
    "unwritable",
]

BATCH = 1000
_SEQUENCE = 2**31 - 1
_SUSPECT = re.compile(rb"\\[ubf]|\xef\xbf[\xbe\xbf]")


@dataclass(frozen=True, slots=True)
class Selection:
    """A query for pets, in the order in which they are sent."""

    sql: str
    values: tuple[str, ...] = ()


Order = Literal["id", "arrived"]
"""Of a list's pets: by their ids, or by when they were added."""


def by_status(statuses: Sequence[str], order: Order = "id") -> Selection:
    """The pets of these statuses."""
    if len(statuses) == 1:
        return _of("SELECT body, xml, id FROM pet WHERE status IN (?)", statuses, order)
    # With the plus the table is read in the order of ids, and nothing has to be sorted.
    return _of("SELECT body, xml, id FROM pet WHERE +status IN (?)", statuses, order)


def by_tags(names: Sequence[str], *, once_per_tag: bool, order: Order = "id") -> Selection:
    """The pets with any of these tags: each once, or once for each tag that matches."""
    joined = "SELECT body, xml, id FROM tag JOIN pet ON id = pet_id WHERE name IN (?)"
    listed = "SELECT body, xml, id FROM pet WHERE id IN (SELECT pet_id FROM tag WHERE name IN (?))"
    return _of(joined if once_per_tag else listed, names, order)


def batches(connection: sqlite3.Connection, selection: Selection) -> Iterator[list[bytes]]:
    """The selected pets' JSON in lists of `BATCH`, the last one shorter."""
    cursor = connection.execute(selection.sql, selection.values)
    while rows := cursor.fetchmany(BATCH):
        yield [row[0] for row in rows]


def unwritable(connection: sqlite3.Connection, selection: Selection) -> int | None:
    """The first selected pet that XML cannot carry, by its id."""
    if connection.execute("SELECT 1 FROM pet WHERE xml = 0 LIMIT 1").fetchone() is None:
        return None
    rows = connection.execute(selection.sql, selection.values)
    return next((number for _, is_fine, number in rows if not is_fine), None)


def find(connection: sqlite3.Connection, number: int) -> bytes | None:
    """A pet's JSON."""
    row = connection.execute("SELECT body FROM pet WHERE id = ?", (number,)).fetchone()
    return None if row is None else bytes(row[0])


def everything(connection: sqlite3.Connection) -> list[Pet]:
    """Every pet, by id."""
    rows = connection.execute("SELECT body FROM pet ORDER BY id")
    return json.decode_pets(b"[" + b",".join(row[0] for row in rows) + b"]")


def save(connection: sqlite3.Connection, pet: Pet, nulls: Collection[str] = frozenset()) -> bytes:
    """The JSON under which the pet, new or known, is now stored. It must have an id.

    The lists named in `nulls` are left out.
    """
    body = json.encode_pet(pet)
    if nulls:
        plain = msgspec.json.decode(body)
        body = msgspec.json.encode({k: value for k, value in plain.items() if k not in nulls})
    changed = connection.execute(
        "UPDATE pet SET status = ?, xml = ?, body = ? WHERE id = ?",
        (pet.status, is_xml(pet, body), body, pet.id),
    )
    if changed.rowcount:
        connection.execute("DELETE FROM tag WHERE pet_id = ?", (pet.id,))
    else:
        connection.execute(
            "INSERT INTO pet (id, status, xml, body, arrived)"
            " VALUES (?, ?, ?, ?, (SELECT coalesce(max(arrived), 0) + 1 FROM pet))",
            (pet.id, pet.status, is_xml(pet, body), body),
        )
    tags = [(pet.id, tag.name) for tag in pet.tags if tag.name is not None]
    connection.executemany("INSERT INTO tag (pet_id, name) VALUES (?, ?)", tags)
    return body


def fill(connection: sqlite3.Connection, pets: Sequence[Pet]) -> None:
    """Put pets with ids of their own into an empty store: several times as fast as one by one."""
    bodies = ((place, pet, json.encode_pet(pet)) for place, pet in enumerate(pets, 1))
    connection.executemany(
        "INSERT INTO pet (id, status, xml, body, arrived) VALUES (?, ?, ?, ?, ?)",
        ((pet.id, pet.status, is_xml(pet, body), body, place) for place, pet, body in bodies),
    )
    connection.executemany(
        "INSERT INTO tag (pet_id, name) VALUES (?, ?)",
        ((pet.id, tag.name) for pet in pets for tag in pet.tags if tag.name is not None),
    )


def put(connection: sqlite3.Connection, pet: Pet, *, reuse: bool) -> Pet:
    """The pet as it is now stored, new or in another's place; an id is assigned if it has none."""
    if pet.id is None:
        pet = msgspec.structs.replace(pet, id=next_id(connection, reuse=reuse))
    save(connection, pet)
    return pet


def keep_within(connection: sqlite3.Connection, capacity: int | None) -> None:
    """Drop the pet that was added first, if the store has more pets than its capacity."""
    if capacity is None:
        return
    (count,) = connection.execute("SELECT count(*) FROM pet").fetchone()
    if count > capacity:
        oldest = connection.execute("SELECT id FROM pet ORDER BY arrived LIMIT 1").fetchone()
        remove(connection, oldest[0])


def remove(connection: sqlite3.Connection, number: int) -> bool:
    """Whether there was such a pet; its id is remembered, so that it is not assigned again."""
    if not connection.execute("DELETE FROM pet WHERE id = ?", (number,)).rowcount:
        return False
    connection.execute("DELETE FROM tag WHERE pet_id = ?", (number,))
    if number <= _SEQUENCE:
        _raise_counter(connection, "highest", number)
    return True


def next_id(connection: sqlite3.Connection, *, reuse: bool) -> int:
    """The id for a pet that came without one: above the highest.

    That is the highest one present (`reuse`), which at 2^63-1 is assigned again, or the highest
    that was ever present below 2^31: a shop's own sequence goes on where it was, whatever far ids
    were brought along. Where nothing is left above it, the lowest free one that was not assigned
    this way before.
    """
    limit = MAX_ID if reuse else _SEQUENCE
    row = connection.execute("SELECT max(id) FROM pet WHERE id <= ?", (limit,)).fetchone()
    highest = max(0, row[0] or 0, 0 if reuse else _counter(connection, "highest"))
    if reuse or highest < limit:
        return min(highest + 1, limit)
    number = _gap(connection, _counter(connection, "gap") + 1)
    _raise_counter(connection, "gap", number)
    return number


def replace_all(connection: sqlite3.Connection, pets: Iterable[Pet]) -> None:
    """Forget every pet and image and start anew with these; ids are assigned where none are."""
    for table in ("pet", "tag", "counter", "image"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608  the names stand above
    for pet in pets:
        put(connection, pet, reuse=False)


def is_xml(pet: Pet, body: bytes) -> bool:
    """Whether XML can carry the pet. `body` is its JSON, where nearly all need no closer look."""
    labels = (pet, *pet.tags, *(() if pet.category is None else (pet.category,)))
    if not _SUSPECT.search(body) and all(thing.extra is None for thing in labels):
        return True
    try:
        xml.encode_pet(pet)
    except InvalidInputError:
        return False
    return True


def _of(sql: str, values: Sequence[str], order: Order) -> Selection:
    distinct = tuple(dict.fromkeys(values))
    marks = f"({','.join('?' * len(distinct))})"
    return Selection(f"{sql.replace('(?)', marks)} ORDER BY {order}", distinct)


def _gap(connection: sqlite3.Connection, start: int) -> int:
    for (taken,) in connection.execute("SELECT id FROM pet WHERE id >= ? ORDER BY id", (start,)):
        if taken != start:
            break
        start += 1
    return start


def _counter(connection: sqlite3.Connection, name: str) -> int:
    row = connection.execute("SELECT value FROM counter WHERE name = ?", (name,)).fetchone()
    return 0 if row is None else int(row[0])


def _raise_counter(connection: sqlite3.Connection, name: str, value: int) -> None:
    connection.execute(
        "INSERT INTO counter VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
        (name, value),
    )
