"""A shop with a store, four sheets and a petsync.toml, in which nights can go wrong."""

from __future__ import annotations

import json
import secrets
import socket
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash.running import Nursery, Running
from nights.paper import written
from nights.postbox import Postbox
from nights.reading import Line, Pet, lines_of, pet_of

from petsync.models import Pet as Stored
from petsync.sandbox import Sandbox

__all__ = ["DAY", "JOBS", "Look", "Told", "World"]

DAY = 86_400.0
JOBS = {"catalogue": "two-way", "stall": "push", "mirror": "pull", "watch": "check"}
SCOPES = {"catalogue": "shop", "stall": "stall", "mirror": "", "watch": "shop"}

_TOML = """\
url = "{url}"
profile = "{profile}"
state = "state"
timeout = 2

[notify]
urls = ["${{PETSYNC_NOTIFY}}"]
on = ["failure", "violation", "recovery", "waiting"]
remind = "72h"

[notify.templates.failure]
title = "$event|$job"

[notify.templates.violation]
title = "$event|$job"

[notify.templates.recovery]
title = "$event|$job"

[notify.templates.waiting]
title = "$event|$job"

[report]
folder = "reports"

[jobs.catalogue]
mode = "two-way"
sheet = "{catalogue}"
tags = ["shop"]
delete_missing = true
token = "${{SHOP_TOKEN}}"

[jobs.stall]
mode = "push"
sheet = "{stall}"
tags = ["stall"]
delete_missing = true
token = "${{SHOP_TOKEN}}"
guard = {{ max_delete = 5, max_update = 30 }}

[jobs.mirror]
mode = "pull"
sheet = "{mirror}"
delete_missing = true
token = "${{SHOP_TOKEN}}"

[jobs.watch]
mode = "check"
sheet = "{watch}"
tags = ["shop"]
token = "${{SHOP_TOKEN}}"
"""

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
class Look:
    """Both sides at one moment: the store's pets, each job's rows, and its file to the byte."""

    pets: dict[int, Pet]
    rows: dict[str, list[Line]]
    files: dict[str, bytes]


@dataclass(frozen=True)
class Told:
    """What the history and the report say of one round."""

    round: dict[str, Any]
    open: list[dict[str, Any]] = field(default_factory=list)

    @property
    def job(self) -> str:
        """Of which job."""
        return str(self.round["job"])

    @property
    def code(self) -> int:
        """How it ended."""
        return int(self.round.get("exit_code", 0))

    @property
    def status(self) -> str:
        """The word for that."""
        return str(self.round.get("status", "done"))


class World:
    """Everything in one folder. `close` ends it."""

    def __init__(
        self,
        folder: Path,
        nursery: Nursery,
        post: Postbox,
        pets: Iterable[Stored],
        *,
        profile: str = "standard",
        kinds: dict[str, str] | None = None,
    ) -> None:
        self.folder, self.post, self.profile = folder, post, profile
        self._nursery = nursery
        self.night = 0
        self.ahead = 0.0
        self.box = Sandbox(
            db=folder / "store.db", pets=pets, port=_free_port(), profile=profile
        ).start()
        self.token = self.box.token(expires_in=90 * DAY)
        with closing(sqlite3.connect(folder / "store.db", timeout=120)) as connection:
            connection.executescript(_TRIGGERS)
        self.sheets = {job: folder / f"{job}.{(kinds or {}).get(job, 'csv')}" for job in JOBS}
        names = {job: path.name for job, path in self.sheets.items()}
        text = _TOML.format(url=self.box.url, profile=profile, **names)
        self.config = folder / "petsync.toml"
        self.config.write_text(text, "utf-8")
        self.state = folder / "state"
        self._rounds = 0
        self._read: dict[str, tuple[bytes, list[Line]]] = {}

    def close(self) -> None:
        """End the store."""
        self.box.stop()

    def new_sheet(self, job: str, rows: list[dict[str, str]]) -> None:
        """A sheet made by a person."""
        written(self.sheets[job], rows)

    def look(self) -> Look:
        """Both sides as they are now."""
        there = {job: path for job, path in self.sheets.items() if path.exists()}
        return Look(
            pets=self.pets(),
            rows={job: self.rows(job) for job in there},
            files={job: path.read_bytes() for job, path in there.items()},
        )

    def rows(self, job: str) -> list[Line]:
        """The rows of a job's sheet as they are now; none where there is no sheet."""
        path = self.sheets[job]
        if not path.exists():
            return []
        data = path.read_bytes()
        if self._read.get(job, (b"", []))[0] != data:
            self._read[job] = (data, lines_of(path))
        return self._read[job][1]

    def pets(self) -> dict[int, Pet]:
        """Every pet in the store's file, by id; read by SQLite alone."""
        with self._reader() as connection:
            rows = connection.execute("SELECT id, body FROM pet").fetchall()
        return {number: pet_of(json.loads(body)) for number, body in rows}

    def writes(self) -> int:
        """How many writes of pets the store has committed since the beginning."""
        with self._reader() as connection:
            return int(connection.execute("SELECT count(*) FROM written").fetchone()[0])

    def overwritten(self, since: int) -> list[tuple[int, Pet, Pet | None]]:
        """Each write since then that took something away: the pet before, and after."""
        sql = "SELECT pet_id, before, after FROM written WHERE number > ? AND before IS NOT NULL"
        with self._reader() as connection:
            rows = connection.execute(f"{sql} ORDER BY number", (since,)).fetchall()
        return [
            (number, pet_of(json.loads(before)), pet_of(json.loads(after)) if after else None)
            for number, before, after in rows
        ]

    def released(self, file: str) -> Running:
        """A plan that waits, applied by a person, who is signed in."""
        to = ("--url", self.box.url, "--state", self.state)
        return self._start("apply", file, "--yes", *to, PETSYNC_TOKEN=self.token)

    def _start(self, *args: object, offset: float = 0.0, **env: str) -> Running:
        env |= {"NIGHT": str(self.ahead + offset)}
        return self._nursery(*args, folder=self.folder, call="nights.clock:main", env=env)

    def reconcile(self, *args: object, offset: float = 0.0) -> Running:
        """The scheduled command, begun; of secrets it has those of its configuration."""
        env = {
            "SHOP_TOKEN": self.token,
            "PETSYNC_NOTIFY": self.post.address,
            "PETSYNC_VARIABLES": "SHOP_TOKEN",
        }
        return self._start("reconcile", self.config, *args, offset=offset, **env)

    def rounds(self) -> list[Told]:
        """What the history has gained since it was asked last."""
        lines = self.history()
        new, self._rounds = lines[self._rounds :], len(lines)
        return [Told(line, self._open(line)) for line in new]

    def history(self) -> list[dict[str, Any]]:
        """Every whole line of the history."""
        path = self.state / "reconcile" / "history.jsonl"
        text = path.read_text("utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == "\n"]

    def _open(self, line: dict[str, Any]) -> list[dict[str, Any]]:
        report = line.get("report", "")
        assert report, f"a round without a report: {line}"
        path = (self.folder / report).with_suffix(".json")
        assert path.exists(), f"the report is not there: {path}"
        told: dict[str, Any] = json.loads(path.read_bytes())
        opens: list[dict[str, Any]] = told.get("open", [])
        return opens

    def _reader(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self.folder / "store.db", timeout=120))


def _free_port() -> int:
    """A port that no connection of a client is given meanwhile: below those that systems assign."""
    while True:
        port = secrets.randbelow(20000) + 12000
        with socket.socket() as end, suppress(OSError):
            end.bind(("127.0.0.1", port))
            return port


def waited(holds: Callable[[], bool], seconds: float = 120) -> bool:
    """Whether it came to hold within the time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if holds():
            return True
        time.sleep(0.005)
    return holds()
