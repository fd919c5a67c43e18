"""The pet store as a separate process that can be killed, with a log of its writes.

SQLite triggers write the log, not the store's code: each write of a pet adds a row to another table
in the same transaction.
"""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crash.running import Nursery, Running
from ports import free_port

from petsync.protocol.json import decode_pets
from petsync.sandbox import storage as records
from petsync.sandbox.storage import Storage

__all__ = ["Service", "Written"]

_TRIGGERS = """
CREATE TABLE written (number INTEGER PRIMARY KEY, pet_id INTEGER, before BLOB, after BLOB);
CREATE TRIGGER one AFTER INSERT ON pet
    BEGIN INSERT INTO written (pet_id, after) VALUES (NEW.id, NEW.body); END;
CREATE TRIGGER two AFTER UPDATE ON pet
    BEGIN INSERT INTO written (pet_id, before, after) VALUES (NEW.id, OLD.body, NEW.body); END;
CREATE TRIGGER three AFTER DELETE ON pet
    BEGIN INSERT INTO written (pet_id, before) VALUES (OLD.id, OLD.body); END;
"""


@dataclass(frozen=True)
class Written:
    """One committed write of a pet; `before` or `after` is None if there was or is no pet."""

    pet_id: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Service:
    """A pet store served as a process, which a test can start and kill."""

    def __init__(
        self, nursery: Nursery, folder: Path, pets: Iterable[dict[str, Any]], profile: str
    ) -> None:
        self.folder, self.profile = folder, profile
        self.db = folder / "store.db"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/v2"
        self._nursery = nursery
        self._running: Running | None = None
        _fill(self.db, pets)
        self._reader = sqlite3.connect(self.db, isolation_level=None)

    def start(self, faults: str = "", *, fresh: bool = False) -> None:
        """Serve on the same port and file as before, with these faults."""
        args: list[object] = ["--port", self.port, "--db", self.db, "--no-auth"]
        args += ["--profile", self.profile, *(["--faults", faults] if faults else [])]
        self._running = self._nursery("serve", *args, folder=self.folder, fresh=fresh)
        assert self._running.until(self._answers), self._running.output()

    def kill(self) -> None:
        """Kill the service, whatever it does."""
        if self._running is not None:
            self._running.kill()
            self._running = None

    def close(self) -> None:
        """Kill the service and close its database."""
        self.kill()
        self._reader.close()

    def written(self) -> list[Written]:
        """Return each write since the beginning, in order."""
        rows = self._reader.execute("SELECT pet_id, before, after FROM written ORDER BY number")
        return [Written(pet_id, _read(before), _read(after)) for pet_id, before, after in rows]

    def writes(self) -> int:
        """Return the number of writes since the beginning."""
        return int(self._reader.execute("SELECT count(*) FROM written").fetchone()[0])

    def pets(self) -> dict[int, dict[str, Any]]:
        """Return each stored pet by id."""
        rows = self._reader.execute("SELECT id, body FROM pet")
        return {number: json.loads(body) for number, body in rows}

    def _answers(self) -> bool:
        with socket.socket() as end:
            end.settimeout(1)
            return end.connect_ex(("127.0.0.1", self.port)) == 0


def _fill(path: Path, pets: Iterable[dict[str, Any]]) -> None:
    storage = Storage(path)
    body = json.dumps(list(pets)).encode()
    storage.load(lambda connection: records.replace_all(connection, decode_pets(body)))
    storage.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_TRIGGERS)


def _read(body: bytes | None) -> dict[str, Any] | None:
    return None if body is None else json.loads(body)
