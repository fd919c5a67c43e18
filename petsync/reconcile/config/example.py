"""The petsync.toml that `petsync init` writes: every option once, explained, most of them off."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from petsync.reconcile.config.option import Option
from petsync.reconcile.config.options import INHERITED, TABLES, options_of

__all__ = ["example"]

_HEAD = """\
# petsync.toml: the service that petsync works with, and the jobs of `petsync reconcile`.
#
# What is commented out shows what there is; `petsync config check` reads all of it
# and says what it means. ${NAME} is the environment variable NAME: secrets are
# written so, and never in full. Paths start at this file's folder.
# docs/config.md explains every option.

"""
_WIDTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A job of the example: its options, and the values that are not the table's examples."""

    name: str
    meaning: str
    options: tuple[str, ...]
    values: Mapping[str, str] = field(default_factory=dict)
    is_on: bool = False
    guard: bool = False


_JOBS = (
    _Job(
        name="catalogue",
        meaning="A job: a spreadsheet and the store, merged. Try it with "
        "`petsync reconcile --job catalogue --dry-run`, which changes nothing.",
        options=(
            *("mode", "sheet", "schedule", "tab", "encoding", "enabled", "statuses", "tags"),
            *("delete_missing", "match_on", "on_conflict", "strict", "token"),
            *("concurrency", "rate", "verify", "max_failures"),
        ),
        is_on=True,
        guard=True,
    ),
    _Job(
        name="arrivals",
        meaning="Another job: all sheets of a folder, brought into another store.",
        options=("mode", "folder", "files", *INHERITED, "api_key"),
        values={"mode": '"push"', "url": '"https://branch.example/v2"'},
    ),
    _Job(
        name="warehouse",
        meaning="And one that only tells how far a database and the store are apart.",
        options=("mode", "query", "database", "client_id", "client_secret"),
        values={"mode": '"check"'},
    ),
    _Job(
        name="stock",
        meaning="The same, with the query in a file.",
        options=("mode", "query_file", "database"),
        values={"mode": '"check"'},
    ),
)
_ON = ("mode", "sheet")
_NOTHING = ("", "[]", "none", "nowhere")
"""Defaults that go without saying."""


def example() -> str:
    """The text of the file; it can be read as it is, and its job run once url and sheet are
    right.
    """
    told: set[str] = set()
    parts = [_HEAD, *_options(options_of("").values(), told, on=("url",))]
    for job in _JOBS:
        parts += _job(job, told)
    for table in TABLES.values():
        if table.name not in ("", "jobs", "guard"):
            header = table.header.replace("EVENT", "failure")
            parts.append(f"\n{_comment(table.meaning)}#[{header}]\n")
            parts += _options(options_of(table.name).values(), set())
    return "".join(parts)


def _job(job: _Job, told: set[str]) -> Iterator[str]:
    mark = "" if job.is_on else "#"
    yield f"\n{_comment(job.meaning)}{mark}[jobs.{job.name}]\n"
    options = options_of("jobs")
    chosen = [options[name] for name in job.options]
    yield from _options(chosen, told, on=_ON if job.is_on else (), values=job.values)
    if job.guard:
        yield f"\n{_comment(TABLES['guard'].meaning)}#[jobs.{job.name}.guard]\n"
        yield from _options(options_of("guard").values(), told)


def _options(
    options: Iterable[Option],
    told: set[str],
    *,
    on: Collection[str] = (),
    values: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """The options, each explained where its name is not among those that were `told`."""
    for option in options:
        usual = "" if option.default in _NOTHING else f" Without it: {option.default}."
        comment = "" if option.name in told else _comment(option.meaning + usual)
        mark = "" if option.name in on else "#"
        value = (values or {}).get(option.name, option.example)
        yield f"{comment}{mark}{option.name} = {value}\n" + ("" if mark else "\n")
        told.add(option.name)


def _comment(text: str) -> str:
    plain = text.replace("`", "")
    lines = textwrap.wrap(
        plain, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
    return "".join(f"{line}\n" for line in lines)
