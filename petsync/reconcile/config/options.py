"""Every option of petsync.toml, once: what it is checked by, and what is told of it.

The checks, the JSON Schema, the tables of docs/config.md and the example that `petsync init`
writes are all made from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from petsync.reconcile.config import kinds
from petsync.reconcile.config.model import EVENTS
from petsync.reconcile.config.of_jobs import GUARD, JOB
from petsync.reconcile.config.of_rest import REST, TOP
from petsync.reconcile.config.option import Option, Table

__all__ = ["INHERITED", "OPTIONS", "TABLES", "options_of"]

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="",
            header="",
            meaning="For every command; what stands here is each job's default.",
        ),
        Table(
            name="jobs",
            header="jobs.NAME",
            meaning="A job: one source of rows, and how it is kept in agreement with the store.",
            names=kinds.JOB_NAME,
        ),
        Table(
            name="guard",
            header="jobs.NAME.guard",
            meaning="The limits of one round, on either side. Beyond them the plan waits for a "
            "person.",
            within="jobs",
        ),
        Table(name="notify", header="notify", meaning="Whom to tell what."),
        Table(
            name="templates",
            header="notify.templates.EVENT",
            meaning="The text of a notice.",
            within="notify",
            names=kinds.choice(*EVENTS),
        ),
        Table(name="report", header="report", meaning="The reports on each round."),
        Table(name="log", header="log", meaning="What is logged."),
        Table(name="metrics", header="metrics", meaning="Numbers for Prometheus."),
        Table(
            name="tracing",
            header="tracing",
            meaning="Spans for OpenTelemetry, set up by the usual `OTEL_*` variables.",
        ),
    )
}

INHERITED: Mapping[str, str] = {
    "url": "the one at the top",
    "profile": "the one at the top",
    "allow_http": "those at the top",
    "timeout": "the one at the top",
    "service": "those at the top too",
    "columns": "those at the top too",
    "auth": "the one at the top",
}
"""The options of the top that a job may have for itself, and what it has if it does not."""

_OWN = tuple(
    replace(option, table="jobs", default=INHERITED[option.name])
    for option in TOP
    if option.name in INHERITED
)

OPTIONS: tuple[Option, ...] = (*TOP, *JOB, *_OWN, *GUARD, *REST)


def options_of(table: str) -> dict[str, Option]:
    """The options of a table by name."""
    return {option.name: option for option in OPTIONS if option.table == table}
