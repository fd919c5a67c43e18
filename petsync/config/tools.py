"""Tools for petsync.toml: explain it, write an example and the schema, and schedule its jobs."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from petsync.config.load import ENVIRONMENT_TOO, NEEDS, SOURCES
from petsync.config.model import (
    INHERITED,
    TABLES,
    Configuration,
    ConfigurationFile,
    Job,
    JobSchedule,
    Option,
    Timetable,
    options_of,
)
from petsync.config.schedule import next_due, on_calendar
from petsync.plan.guard import Guard
from petsync.settings import as_written

__all__ = [
    "ENVIRONMENT",
    "Unit",
    "as_data",
    "crontab",
    "example",
    "lines",
    "schedule_notes",
    "scheduled_jobs",
    "schema",
    "schema_text",
    "units",
]


# Explain a configuration, as text and as data, without secrets.


_MODES = {
    "push": "the sheet leads, and the store follows",
    "pull": "the store leads, and the sheet follows; nothing is sent",
    "two-way": "both sides are merged",
    "check": "nothing is changed, drift is reported",
}
_CONFLICTS = {
    "ask": "both sides stay until a value is chosen",
    "store": "the store's value is used",
    "sheet": "the sheet's value is used",
}
_SECRETS = {"token": "a token", "api_key": "an API key", "client_secret": "a client secret"}


def lines(configuration: Configuration, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield (label, text) pairs: a summary, then each job, then the settings for all jobs. A label
    may be "".
    """
    count = len(configuration.jobs)
    jobs = "1 job" if count == 1 else f"{count} jobs"
    yield "", f"{configuration.path}: {jobs}, no mistakes"
    for job in configuration.jobs:
        yield "", ""
        off = "" if job.enabled else ", off"
        yield "", f"{job.name} (line {job.line}{off}): {job.mode}, {_MODES[job.mode]}"
        yield from ((name, text) for name, text in _describe_job(job, configuration, now) if text)
    yield "", ""
    yield from ((label, text) for label, text in _rest(configuration) if text)


def _describe_job(
    job: Job, configuration: Configuration, now: datetime
) -> Iterator[tuple[str, str]]:
    yield _source(job)
    secrets = [words for name, words in _SECRETS.items() if getattr(job, name)]
    means = f" with {' and '.join(secrets)}" if secrets else ""
    yield (
        "store",
        f"{_address(job, configuration)}{_origin('url', configuration, job)}{means}"
        + ("" if job.profile == "standard" else f" ({job.profile})")
        + _origin("profile", configuration, job),
    )
    scopes = (("status", job.statuses), ("tagged", job.tags))
    yield (
        "pets",
        "; ".join(f"{word} {', '.join(names)}" for word, names in scopes if names) or "all",
    )
    yield "deletions", "are synced too" if job.delete_missing else "are not synced"
    yield "conflicts", _CONFLICTS[job.on_conflict] if job.mode == "two-way" else ""
    owners = job.merging.owners.items()
    yield "owners", ", ".join(f"{unit}: {owner}" for unit, owner in owners)
    yield "guard", _guard(job.guard) if job.mode != "check" else ""
    yield "rules", ", ".join(rule.name for rule in job.rules if rule.enabled)
    yield "when", _when(job, now)


def _origin(option: str, configuration: Configuration, job: Job | None = None) -> str:
    """Return where an option of the top comes from, "" if it comes from the file."""
    variable = f"PETSYNC_{option.upper()}"
    is_own = job is not None and option in job.model_fields_set
    return f" (from {variable})" if variable in configuration.variables and not is_own else ""


def _address(job: Job, configuration: Configuration) -> str:
    """Return the URL of the job's store, with variables after the host as `${NAME}`."""
    host = re.match(r"[^:/]*://[^/]*", job.url)
    at = host.end() if host else 0
    return job.url[:at] + as_written(job.url[at:], configuration.in_addresses)


def _source(job: Job) -> tuple[str, str]:
    tab = f", tab {job.tab}" if job.tab else ""
    tab += f", {job.encoding}" if job.encoding else ""
    if job.folder is not None:
        return "folder", f"{job.folder}, each {job.files}{tab}"
    return ("sheet", f"{job.sheet}{tab}") if job.sheet is not None else ("query", _short(job.query))


def _short(query: str) -> str:
    text = " ".join(query.split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def _guard(guard: Guard) -> str:
    most = f"at most {guard.max_delete} deleted, {guard.max_update} changed"
    least = guard.max_add.at_least if guard.max_add is not None else 0
    at_least = f" (or {least}, if that is more)" if least else ""
    added = f", {guard.max_add} added{at_least}" if guard.max_add is not None else ""
    empty = "; an empty sheet is accepted" if guard.allow_empty else ""
    ids = ", ".join(map(str, guard.sentinels))
    return f"{most}{added}{empty}" + (f"; sentinels: {ids}" if ids else "")


def _when(job: Job, now: datetime) -> str:
    due = next_due(job.schedule, now)
    return f"{job.schedule}, next {due:%Y-%m-%d %H:%M}" if due else "whenever it is started"


def _rest(configuration: Configuration) -> Iterator[tuple[str, str]]:
    yield "state", f"{configuration.state}{_origin('state', configuration)}"
    notify, count = configuration.notify, len(configuration.notify.urls)
    where = "1 address" if count == 1 else f"{count} addresses"
    digest = f", from {notify.digest:%H:%M}" if "digest" in notify.on else ""
    yield "notices", f"to {where}: {', '.join(notify.on)}{digest}" if count else "none"
    keep = configuration.report.keep
    kept = "all are kept" if keep is None else f"the last {keep} of each job"
    yield "reports", f"{configuration.report.folder}, {kept}"
    log = configuration.log
    yield "log", f"{log.format}, {log.least}" + (f", to {log.file}" if log.file else "")
    metrics = configuration.metrics
    yield "metrics", " and ".join(filter(None, [str(metrics.textfile or ""), metrics.listen]))
    yield "tracing", "on" if configuration.tracing else ""


def as_data(configuration: Configuration) -> dict[str, Any]:
    """Return the configuration as data; for a secret, only that it is set."""
    metrics = configuration.metrics
    return {
        "file": str(configuration.path),
        "state": str(configuration.state),
        "variables": list(configuration.variables),
        "jobs": [_job_data(job, _address(job, configuration)) for job in configuration.jobs],
        "notify": {
            "addresses": len(configuration.notify.urls),
            "on": list(configuration.notify.on),
            "digest": f"{configuration.notify.digest:%H:%M}",
            "remind": configuration.notify.remind,
        },
        "report": {
            "folder": str(configuration.report.folder),
            "keep": configuration.report.keep,
        },
        "log": {
            **configuration.log.model_dump(mode="json"),
            "level": configuration.log.least,
        },
        "metrics": {"textfile": _path(metrics.textfile), "listen": metrics.listen or None},
        "tracing": configuration.tracing,
    }


_JOB_DATA = {
    *("name", "line", "mode", "enabled", "sheet", "tab", "encoding", "folder", "profile"),
    *("statuses", "tags", "columns", "delete_missing", "match_on", "on_conflict", "strict"),
    *("concurrency", "rate", "verify", "max_failures"),
}
"""The options of a job that are shown unchanged; none is a secret."""


def _job_data(job: Job, address: str) -> dict[str, Any]:
    guard = job.guard
    limits = {name: getattr(guard, name) for name in ("max_delete", "max_update", "max_add")}
    return {
        **job.model_dump(mode="json", include=_JOB_DATA),
        "files": job.files if job.folder else None,
        "query": job.query or None,
        "url": address,
        "secrets": [name for name in (*_SECRETS, "database") if getattr(job, name)],
        "guard": {
            **{name: None if limit is None else str(limit) for name, limit in limits.items()},
            "allow_empty": guard.allow_empty,
            "sentinels": list(guard.sentinels),
        },
        "owners": dict(job.merging.owners),
        "schedule": job.schedule or None,
        "rules": [rule.name for rule in job.rules if rule.enabled],
    }


def _path(path: object) -> str | None:
    return None if path is None else str(path)


# The petsync.toml that `petsync init` writes: every option with its meaning, most commented out.


_HEAD = """\
# petsync.toml: the service that petsync works with, and the jobs of `petsync reconcile`.
#
# Remove the # before an option to set it. `petsync config check` lists every mistake
# and shows what the file means. Write a secret as ${NAME}, an environment variable,
# never as text. Paths are relative to the folder of this file.
# docs/config.md explains every option.

"""
_WIDTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A job of the example: its options, and values other than the options' examples."""

    name: str
    meaning: str
    options: tuple[str, ...]
    values: Mapping[str, str] = field(default_factory=dict)
    is_on: bool = False
    inner: tuple[str, ...] = ()


_INHERITED_OPTIONS = tuple(name for name in INHERITED if name in options_of(""))

_JOBS = (
    _Job(
        name="catalogue",
        meaning="A job: merge a spreadsheet and the store. Try it with "
        "`petsync reconcile --job catalogue --dry-run`, which changes nothing.",
        options=(
            *("mode", "sheet", "schedule", "tab", "encoding", "enabled", "statuses", "tags"),
            *("delete_missing", "match_on", "on_conflict", "strict", "token"),
            *("concurrency", "rate", "verify", "max_failures"),
        ),
        is_on=True,
        inner=("guard", "owners"),
    ),
    _Job(
        name="arrivals",
        meaning="Another job: push all sheets of a folder to another store.",
        options=("mode", "folder", "files", *_INHERITED_OPTIONS, "api_key"),
        values={"mode": '"push"', "url": '"https://branch.example/v2"'},
    ),
    _Job(
        name="warehouse",
        meaning="A job that only reports differences between a database and the store.",
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
"""Defaults that are not worth mentioning."""


def example(url: str = "") -> str:
    """Return the text of an example petsync.toml. Its job runs once url and sheet are correct.
    Without `url`, this line is a comment: other commands use the address in the file too.
    """
    explained: set[str] = set()
    values = {"url": f'"{url}"'} if url else {}
    parts = [_HEAD, *_options(options_of("").values(), explained, on=values, values=values)]
    for job in _JOBS:
        parts += _example_job(job, explained)
    parts += _example_rules(explained)
    for name, table in TABLES.items():
        if name not in ("", "jobs", "rules", *_JOBS[0].inner):
            header = table.header().replace("EVENT", "failure")
            parts.append(f"\n{_comment(table.__doc__ or '')}#[{header}]\n")
            parts += _options(options_of(name).values(), set())
    return "".join(parts)


def _example_job(job: _Job, explained: set[str]) -> Iterator[str]:
    mark = "" if job.is_on else "#"
    yield f"\n{_comment(job.meaning)}{mark}[jobs.{job.name}]\n"
    options = options_of("jobs")
    chosen = [options[name] for name in job.options]
    yield from _options(chosen, explained, on=_ON if job.is_on else (), values=job.values)
    for name in job.inner:
        yield f"\n{_comment(TABLES[name].__doc__ or '')}#[jobs.{job.name}.{name}]\n"
        yield from _options(options_of(name).values(), explained if name == "guard" else set())


_RULES = (
    ("name", "columns", "minimum", "maximum", "severity", "message", "enabled"),
    ("name", "columns", "required"),
    ("name", "columns", "unique"),
    ("name", "columns", "values", "applies_to"),
    ("name", "columns", "pattern"),
    ("name", "columns", "min_length", "max_length"),
    ("name", "expression"),
)
"""The options of each rule in the example: a rule checks one thing."""


def _example_rules(explained: set[str]) -> Iterator[str]:
    options = options_of("rules")
    yield f"\n{_comment(TABLES['rules'].__doc__ or '')}"
    for names in _RULES:
        name = next(each for each in names if each not in ("name", "columns"))
        values = {"name": f'"{name.replace("_", "-")}"'}
        if "applies_to" in names:
            values["columns"] = '["category"]'
        yield f"#[{TABLES['rules'].header()}]\n"
        yield from _options([options[each] for each in names], explained, values=values)


def _options(
    options: Iterable[Option],
    explained: set[str],
    *,
    on: Collection[str] = (),
    values: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Yield each option, with an explanation if its name is not yet in `explained`."""
    for option in options:
        usual = "" if option.default in _NOTHING else f" Default: {option.default}."
        comment = "" if option.name in explained else _comment(option.meaning + usual)
        mark = "" if option.name in on else "#"
        value = (values or {}).get(option.name, option.example)
        yield f"{comment}{mark}{option.name} = {value}\n" + ("" if mark else "\n")
        explained.add(option.name)


def _comment(text: str) -> str:
    plain = " ".join(text.replace("`", "").split())
    lines = textwrap.wrap(
        plain, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
    return "".join(f"{line}\n" for line in lines)


# Files for cron and systemd for the jobs with a schedule.


ENVIRONMENT = "petsync.env"
"""The file beside petsync.toml that has the secrets as NAME=value, readable by its owner only."""
_SETTLED = "2 3 5 6 7"
"""Exit codes that do not count as a failure of the unit.

Notices report what needs a decision, a locked job is already running, and the next round continues
an interrupted round.
"""


class Unit(NamedTuple):
    """A file for systemd: its name and its text."""

    name: str
    text: str


def scheduled_jobs(table: Timetable) -> tuple[JobSchedule, ...]:
    """Return the enabled jobs that have a schedule."""
    return tuple(job for job in table.jobs if job.schedule and job.enabled)


def crontab(table: Timetable, program: Sequence[str]) -> str:
    """Return a crontab with a line for each scheduled job; `program` is the command for petsync."""
    head = (
        "# For `crontab -e`; times are this machine's. Write secrets as NAME='value' into\n"
        f"# {ENVIRONMENT}, beside {table.path.name}; make it private (chmod 600).\n"
        f"# In a terminal: petsync reconcile {table.path.name} --env-file {ENVIRONMENT}\n"
        "# cron mails all output, even of successful rounds. If [notify] sends "
        "notices, write\n"
        "# >>petsync.log 2>&1 at the end of a line.\n"
    )
    lines = (_line(table, job, program) for job in scheduled_jobs(table))
    return "".join((head, *(f"# {each}\n" for each in schedule_notes(table)), *lines))


def schedule_notes(table: Timetable) -> Iterator[str]:
    """Yield a line on the enabled jobs without a schedule, if there are any, and one on each
    variable that this shell sets and the scheduler does not.
    """
    names = [job.name for job in table.jobs if job.enabled and not job.schedule]
    if names:
        yield f"Jobs that are left out because they have no schedule: {', '.join(names)}."
    for name in table.variables:
        yield f"{name} is set in this shell only. Write it into {ENVIRONMENT}: {name}='…'"


def _line(table: Timetable, job: JobSchedule, program: Sequence[str]) -> str:
    folder = shlex.quote(str(table.path.parent))
    secrets = f"{{ [ ! -f {ENVIRONMENT} ] || . ./{ENVIRONMENT}; }}"
    call = shlex.join([*program, "reconcile", table.path.name, "--job", job.name])
    command = f"cd {folder} && set -a && {secrets} && exec {call}"
    # In a crontab % is a line break.
    return f"{job.schedule} {command}\n".replace("%", r"\%")


def units(table: Timetable, program: Sequence[str]) -> Iterator[Unit]:
    """Yield a .service and a .timer for each job with a schedule."""
    for job in scheduled_jobs(table):
        name = f"petsync-{job.name}"
        yield Unit(f"{name}.service", _service(table, job, program))
        yield Unit(f"{name}.timer", _timer(job))


def _service(table: Timetable, job: JobSchedule, program: Sequence[str]) -> str:
    folder = table.path.parent
    words = [*program, "reconcile", str(table.path), "--job", job.name]
    return f"""\
[Unit]
Description=petsync: reconcile {job.name}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
WorkingDirectory={_escape(folder)}
EnvironmentFile=-{_escape(folder / ENVIRONMENT)}
ExecStart={" ".join(map(_quote, words))}
# Not failures: notices report what is to be decided, and the next run continues.
SuccessExitStatus={_SETTLED}
NoNewPrivileges=yes
PrivateTmp=yes
"""


def _timer(job: JobSchedule) -> str:
    calendar = "".join(f"OnCalendar={line}\n" for line in on_calendar(job.schedule))
    return f"""\
[Unit]
Description=petsync: reconcile {job.name} ({job.schedule})

[Timer]
{calendar}# A run that was due while the machine was off is started later.
Persistent=true

[Install]
WantedBy=timers.target
"""


def _escape(path: Path) -> str:
    return str(path).replace("%", "%%")


def _quote(word: str) -> str:
    """Return a word of a command, quoted for systemd."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return text if re.fullmatch(r"[\w./=:@+,%-]+", text) else f'"{text}"'


# The JSON Schema of petsync.toml, for editors and generators.


class _Schema(GenerateJsonSchema):
    """The schema of a TOML file: it has no null, and an option documents its own default."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: the name of an option says enough."""
        del schema
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> dict[str, Any]:
        """Return the schema of a value that is not None."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        """Return the schema without the default of Python."""
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        """Return the schema of a table with free keys."""
        keys, values = schema["keys_schema"], schema["values_schema"]
        return {
            "type": "object",
            "propertyNames": self.generate_inner(keys),
            "additionalProperties": self.generate_inner(values),
        }


def schema() -> dict[str, Any]:
    """Return the schema, draft 2020-12.

    `petsync config check` also checks what a schema cannot: variables, combinations of jobs, and
    the service's statuses.
    """
    made = ConfigurationFile.model_json_schema(schema_generator=_Schema)
    job = made["$defs"]["JobOptions"]
    for name in INHERITED:
        job["properties"][name].pop("default", None)
    job |= _rules()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _rules() -> dict[str, Any]:
    """Return the rules for combinations of a job's options that a schema can express."""
    only_two_way = {"properties": {"mode": {"not": {"enum": ["push", "pull", "check"]}}}}
    needed = {key: names for key, names in NEEDS.items() if key not in ENVIRONMENT_TOO}
    return {
        "oneOf": [{"required": [key]} for key in SOURCES],
        "dependentSchemas": {key: _any_of(names) for key, names in needed.items()}
        | {"on_conflict": only_two_way},
        "if": {"properties": {"mode": {"enum": ["pull", "two-way"]}}, "required": ["mode"]},
        "then": {"not": _any_of(("query", "query_file"))},
    }


def _any_of(names: Iterable[str]) -> dict[str, Any]:
    return {"anyOf": [{"required": [name]} for name in names]}
