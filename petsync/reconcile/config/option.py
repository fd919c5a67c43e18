"""Option and Table: what there is to say of one option of petsync.toml, and of one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from petsync.reconcile.config.entries import Entry
from petsync.reconcile.config.kinds import Kind

__all__ = ["Option", "Table", "TableName"]

TableName = Literal[
    "", "jobs", "guard", "notify", "templates", "report", "log", "metrics", "tracing"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of one table. `default` and `example` are TOML; a default that is no value is a
    phrase. `kind` is None where the option is a table with options of its own (`table_of`) or
    with entries that are free (`entry`). `also` are names that people try instead.
    """

    table: TableName
    name: str
    meaning: str
    kind: Kind | None = None
    entry: Entry | None = None
    default: str = ""
    example: str = ""
    is_required: bool = False
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: its header in TOML, and what it is for. `names`: it is there many times, each
    under a name of this kind.
    """

    name: TableName
    header: str
    meaning: str
    within: TableName = ""
    names: Kind | None = None
