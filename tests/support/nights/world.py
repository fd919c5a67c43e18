"""A shop with a store, four sheets and a petsync.toml, for nights with faults."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash.running import Nursery, Running
from nights.paper import written
from nights.postbox import Postbox
from nights.reading import Line, Pet, lines_of, pet_of
from ports import free_port

from petsync.models import Pet as Stored
from petsync.sandbox import Sandbox

__all__ = ["DAY", "JOBS", "Look", "ReportedRound", "World"]

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
    """Both sides at one moment: the store's pets, each job's rows, and its file's bytes."""

    pets: dict[int, Pet]
    rows: dict[str, list[Line]]
    files: dict[str, bytes]


@dataclass(frozen=True)
class ReportedRound:
    """One round in the history and in its report."""

    round: dict[str, Any]
    open: list[dict[str, Any]] = field(default_factory=list)

    @property
    def job(self) -> str:
        """The name of the job."""
        return str(self.round["job"])

    @property
    def code(self) -> int:
        """The exit code."""
        return int(self.round.get("exit_code", 0))

    @property
    def status(self) -> str:
        """The status of the round."""
        return str(self.round.get("status", "done"))


class World:
    """The store, the sheets and the configuration in one folder; `close` stops the store."""

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
            db=folder / "store.db", pets=pets, port=free_port(), profile=profile
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
        """Stop the store."""
        self.box.stop()

    def new_sheet(self, job: str, rows: list[dict[str, str]]) -> None:
        """Write a sheet as a person makes it."""
        written(self.sheets[job], rows)

    def look(self) -> Look:
        """Return both sides in their current state."""
        there = {job: path for job, path in self.sheets.items() if path.exists()}
        return Look(
            pets=self.pets(),
            rows={job: self.rows(job) for job in there},
            files={job: path.read_bytes() for job, path in there.items()},
        )

    def rows(self, job: str) -> list[Line]:
        """Return the current rows of a job's sheet; none if the sheet does not exist."""
        path = self.sheets[job]
        if not path.exists():
            return []
        data = path.read_bytes()
        if self._read.get(job, (b"", []))[0] != data:
            self._read[job] = (data, lines_of(path))
        return self._read[job][1]

    def pets(self) -> dict[int, Pet]:
        """Return every pet in the store's file, by id, read with SQLite alone."""
        with self._reader() as connection:
            rows = connection.execute("SELECT id, body FROM pet").fetchall()
        return {number: pet_of(json.loads(body)) for number, body in rows}

    def writes(self) -> int:
        """Return the number of pet writes that the store has committed so far."""
        with self._reader() as connection:
            return int(connection.execute("SELECT count(*) FROM written").fetchone()[0])

    def overwritten(self, since: int) -> list[tuple[int, Pet, Pet | None]]:
        """Return each write after `since` that replaced or deleted a pet: before and after."""
        sql = "SELECT pet_id, before, after FROM written WHERE number > ? AND before IS NOT NULL"
        with self._reader() as connection:
            rows = connection.execute(f"{sql} ORDER BY number", (since,)).fetchall()
        return [
            (number, pet_of(json.loads(before)), pet_of(json.loads(after)) if after else None)
            for number, before, after in rows
        ]

    def released(self, file: str) -> Running:
        """Start the command with which a signed-in person applies a waiting plan."""
        to = ("--url", self.box.url, "--state", self.state)
        return self._start("apply", file, "--yes", *to, PETSYNC_TOKEN=self.token)

    def _start(self, *args: object, offset: float = 0.0, **env: str) -> Running:
        env |= {"NIGHT": str(self.ahead + offset)}
        return self._nursery(*args, folder=self.folder, call="nights.clock:main", env=env)

    def reconcile(self, *args: object, offset: float = 0.0) -> Running:
        """Start the scheduled command; its only secrets are those of its configuration."""
        env = {
            "SHOP_TOKEN": self.token,
            "PETSYNC_NOTIFY": self.post.address,
            "PETSYNC_VARIABLES": "SHOP_TOKEN",
        }
        return self._start("reconcile", self.config, *args, offset=offset, **env)

    def rounds(self) -> list[ReportedRound]:
        """Return the rounds that the history gained since the last call."""
        lines = self.history()
        new, self._rounds = lines[self._rounds :], len(lines)
        return [ReportedRound(line, self._open(line)) for line in new]

    def history(self) -> list[dict[str, Any]]:
        """Return every complete line of the history."""
        path = self.state / "reconcile" / "history.jsonl"
        text = path.read_text("utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == "\n"]

    def _open(self, line: dict[str, Any]) -> list[dict[str, Any]]:
        report = line.get("report", "")
        assert report, f"a round without a report: {line}"
        path = (self.folder / report).with_suffix(".json")
        assert path.exists(), f"the report is not there: {path}"
        document: dict[str, Any] = json.loads(path.read_bytes())
        opens: list[dict[str, Any]] = document.get("open", [])
        return opens

    def _reader(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self.folder / "store.db", timeout=120))


def waited(holds: Callable[[], bool], seconds: float = 120) -> bool:
    """Return whether the condition becomes true within the time limit."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if holds():
            return True
        time.sleep(0.005)
    return holds()
