"""The pets that an empty store begins with."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from petsync.errors import ResponseError, SettingsError
from petsync.model import Pet
from petsync.sandbox import records
from petsync.sandbox.storage import Storage
from petsync.wire import json

__all__ = ["fill", "read"]


def read(path: Path | None, pets: Sequence[Pet] = ()) -> list[Pet]:
    """The pets of a JSON list, and those given. Raises SettingsError that names file and pet."""
    found = [*(_from_file(path) if path is not None else ()), *pets]
    counts = Counter(pet.id for pet in found if pet.id is not None)
    if twice := [number for number, count in counts.items() if count > 1]:
        raise SettingsError(
            f"{path or 'pets'}: the id {twice[0]} is there {counts[twice[0]]} times",
            hint="Give every pet an id of its own, or none.",
        )
    return found


def fill(storage: Storage, pets: Sequence[Pet]) -> None:
    """Put the pets into the store, if it is empty; otherwise leave it as it is."""

    def job(connection: sqlite3.Connection) -> None:
        if connection.execute("SELECT 1 FROM pet LIMIT 1").fetchone() is None:
            records.fill(connection, [pet for pet in pets if pet.id is not None])
            for pet in pets:
                if pet.id is None:
                    records.put(connection, pet, reuse=False)

    storage.load(job)


def _from_file(path: Path) -> list[Pet]:
    try:
        return json.decode_pets(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except ResponseError as error:
        raise SettingsError(
            f"{path} is no list of pets: {error.message}",
            hint='A seed file is JSON such as [{"name": "Rex", "photoUrls": []}].',
        ) from None
