"""The configuration as values: what petsync.toml says, checked, paths and secrets resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path
from typing import Any, Literal, NamedTuple

from petsync.diff.guard import Guard
from petsync.diff.round import Mode
from petsync.settings import Secret
from petsync.table.columns import Column

__all__ = [
    "EVENTS",
    "Configuration",
    "Event",
    "Job",
    "Log",
    "Metrics",
    "Notify",
    "Reports",
    "Timed",
    "Timetable",
]

Event = Literal["failure", "violation", "recovery", "waiting", "digest"]
EVENTS: tuple[Event, ...] = ("failure", "violation", "recovery", "waiting", "digest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One `[jobs.NAME]`. Exactly one of `sheet`, `folder` and `query` is given.

    `sheet` is a file; `folder` one whose `files` (a pattern) are sheets, each reconciled by itself;
    `query` an SQL query to the `database`, an SQLAlchemy address. `statuses` and `tags` are the
    scope: () is all. `columns` maps headers to columns. `rate` is requests a second.
    `schedule` is a hint in the five fields of cron, "" where there is none.
    """

    name: str
    line: int = 1
    mode: Mode
    enabled: bool = True
    sheet: Path | None = None
    tab: str | None = None
    encoding: str | None = None
    folder: Path | None = None
    files: str = "*"
    query: str = ""
    database: Secret | None = None
    url: str = ""
    profile: str = "standard"
    service: Mapping[str, Any] = field(default_factory=dict)
    auth: Mapping[str, str] = field(default_factory=dict)
    allow_http: tuple[str, ...] = ()
    timeout: float = 30.0
    token: Secret | None = None
    api_key: Secret | None = None
    client_id: str = ""
    client_secret: Secret | None = None
    statuses: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    delete_missing: bool = False
    match_on: tuple[Column, ...] = ()
    on_conflict: Literal["ask", "store", "sheet"] = "ask"
    strict: bool = False
    guard: Guard = field(default_factory=Guard)
    concurrency: int = 16
    rate: float | None = None
    verify: bool = True
    max_failures: int | None = None
    schedule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """`[notify]`: whom to tell what. `urls` are apprise's, and secret; `digest` is a time of day
    (local), `remind` the seconds after which what still stands is told again. `templates` are
    title and body by event, for `string.Template`.
    """

    urls: tuple[Secret, ...] = ()
    on: tuple[Event, ...] = EVENTS
    digest: time = time(7, 0)
    remind: float = 86_400.0
    templates: Mapping[Event, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """`[report]`: where the reports go, and how many of each job are kept (None for all).
    `is_private`: in the state folder, for its owner alone.
    """

    folder: Path
    keep: int | None = 90
    is_private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """`[log]`: what is logged as what, and to which file (None is standard error). `level` is None
    where nothing is said of it.
    """

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] | None = None
    file: Path | None = None

    @property
    def least(self) -> str:
        """The level from which on; people, who see how rounds ended anyhow, get warnings only."""
        is_for_people = self.format == "text" and self.file is None
        return self.level or ("warning" if is_for_people else "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """`[metrics]`: the file for Prometheus' node_exporter, and the address (`127.0.0.1:9464`) at
    which `petsync reconcile --every` can be asked.
    """

    textfile: Path | None = None
    listen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A whole petsync.toml; all paths are absolute. `secrets` are all that must never be
    shown, whatever it stands in.
    """

    path: Path
    state: Path
    jobs: tuple[Job, ...] = ()
    notify: Notify = field(default_factory=Notify)
    report: Reports
    log: Log = field(default_factory=Log)
    metrics: Metrics = field(default_factory=Metrics)
    tracing: bool = False
    secrets: tuple[Secret, ...] = ()


class Timed(NamedTuple):
    """Of a job, when it runs: `schedule` is "" where that is not said."""

    name: str
    schedule: str
    enabled: bool


class Timetable(NamedTuple):
    """Of a petsync.toml, which jobs run when."""

    path: Path
    jobs: tuple[Timed, ...]
