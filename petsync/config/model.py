"""The models of petsync.toml: every option once, with its type, meaning, default and example.

The check of a file, its JSON Schema, the tables of docs/config.md and the example that
`petsync init` writes are all made from these models.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import time
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from petsync._files import is_in_parts
from petsync.config.schedule import Cron
from petsync.config.values import (
    FLAG,
    AuthText,
    Clock,
    ColumnName,
    Database,
    Duration,
    Encoding,
    FilePath,
    Flag,
    Header,
    Hosts,
    JobName,
    Kind,
    Listen,
    ListKind,
    Maximum,
    Number,
    PetIds,
    Plain,
    Plains,
    Rate,
    Seconds,
    Secrets,
    SecretText,
    SheetPath,
    Text,
    Texts,
    Url,
    choice,
    whole_number,
)
from petsync.plan.guard import Guard
from petsync.plan.options import MATCHABLE, OWNERS, MergeOptions, Owner, check_owners
from petsync.plan.rounds import MODES, Mode
from petsync.profile import PROFILES, ServiceProfile
from petsync.settings import AUTH, HiddenEnvironment, Secret
from petsync.table.columns import Column, Unit
from petsync.table.rules import Severity, SheetRule, Side

__all__ = [
    "EVENTS",
    "INHERITED",
    "OPTIONS",
    "TABLES",
    "Configuration",
    "ConfigurationFile",
    "Event",
    "Job",
    "JobOptions",
    "JobSchedule",
    "Log",
    "Metrics",
    "Notify",
    "Option",
    "Reports",
    "Service",
    "Table",
    "Timetable",
    "TopOptions",
    "entry_keys",
    "options_of",
    "toml_value",
    "values_set_by",
]


# Options and tables.


class Table(BaseModel):
    """A table of petsync.toml; its title is its header."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @classmethod
    def header(cls) -> str:
        """Return the header in TOML, "" for the top."""
        return cls.model_config.get("title") or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of one table, for messages, documentation and the JSON Schema."""

    table: str = ""
    name: str = ""
    meaning: str
    words: str = ""
    """A description of its values."""
    default: str
    """The default as TOML, or a phrase if the default is not a value."""
    example: str
    """An example of a value, as TOML."""
    is_required: bool = False
    also: tuple[str, ...]
    """Wrong names that users may try."""
    hides: str = ""
    """What is secret in its value; see Kind."""

    def __call__(self, schema: dict[str, Any]) -> None:
        """Add the default, if it is a value, the meaning and the example to the JSON Schema."""
        default = toml_value(self.default)
        schema |= {"default": default} if default is not None else {}
        schema["description"] = self.meaning
        schema["examples"] = [toml_value(self.example)]


def option(
    meaning: str, example: str, default: Any = None, *, usual: str | None = None, also: str = ""
) -> Any:
    """Return the field of an option. A required one has `...` as its `default`.

    `example` is a value as TOML. `usual` is a phrase for a default that is not a value of TOML.
    `also` are wrong names that users may try.
    """
    if usual is None:
        usual = "" if default in (None, ..., "") else json.dumps(default, default=str)
    notes = Option(meaning=meaning, example=example, default=usual, also=tuple(also.split()))
    return Field(default, json_schema_extra=notes)


def toml_value(text: str) -> Any:
    """Return the value of a piece of TOML, None if it is invalid."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class Inner:
    """Metadata of an option whose value is made from a table."""

    table: type[Table]
    make: Callable[[Any], Any] = field(repr=False)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler.generate_schema(self.table)
        return core_schema.with_info_wrap_validator_function(self._read, schema)

    def _read(
        self,
        value: Any,
        check: core_schema.ValidatorFunctionWrapHandler,
        info: core_schema.ValidationInfo[Any],
    ) -> Any:
        return value if info.context is None else self.make(check(value))


def values_set_by(table: Table) -> dict[str, Any]:
    """Return the values that a table sets, by name, in the order of its fields."""
    return {name: value for name, value in table if name in table.model_fields_set}


# `[service]` and `[auth]`: their keys come from other modules.


_ABOVE_0 = Kind(words="a whole number above 0", core=core_schema.int_schema(strict=True, ge=1))
_SERVICE = {
    "statuses": Kind(
        words="a list of text without commas, and not empty",
        core=core_schema.tuple_variable_schema(
            core_schema.str_schema(strict=True, pattern="^[^,]*$"), min_length=1
        ),
    ),
    "required": Kind(
        words="a list of text",
        core=core_schema.tuple_variable_schema(core_schema.str_schema(strict=True)),
    ),
    "capacity": Kind(
        words="a whole number, 0 for no limit",
        core=core_schema.no_info_after_validator_function(
            lambda number: number or None, core_schema.int_schema(strict=True, ge=0)
        ),
    ),
    "api_key_header": Kind(
        words="a header's name, as text",
        core=core_schema.str_schema(strict=True, pattern="^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    ),
    "max_answer_mb": _ABOVE_0,
    "answer_seconds": _ABOVE_0,
}
"""The types of the fields that are neither flags nor choices."""


def _service_kind(name: str, hint: Any) -> Kind:
    return FLAG if hint is bool else _SERVICE.get(name) or choice(*get_args(hint))


def _table_of(name: str, fields: Mapping[str, Any]) -> type[Table]:
    return create_model(name, __base__=Table, **fields)


Service = _table_of(
    "Service",
    {
        name: (Annotated[Any, _service_kind(name, hint)], None)
        for name, hint in get_type_hints(ServiceProfile).items()
        if name != "name"
    },
)
Auth = _table_of("Auth", dict.fromkeys(AUTH, (AuthText, "")))


# The tables.


Event = Literal["failure", "violation", "recovery", "waiting", "digest"]
EVENTS: tuple[Event, ...] = get_args(Event)
_Winner = Literal["ask", "store", "sheet"]
_Format = Literal["text", "json"]
_Level = Literal["debug", "info", "warning", "error"]


class RuleOptions(Table, title="[rules]"):
    """A rule of your own for the rows of a sheet, or for the pets of the store (rules.md)."""

    name: Plain = option(
        "The name: letters, digits, `.`, `-` and `_`. Findings have the code `rule:NAME`.",
        '"price"',
        ...,
        also="id code rule title",
    )
    columns: Plains = option(
        "The columns to check, by name or header. For an expression: the columns that its "
        "findings name.",
        '["Price EUR"]',
        (),
        usual="",
        also="column headers fields field",
    )
    severity: Annotated[Severity, choice(*get_args(Severity))] = option(
        "An `error` keeps its row out of the plan; a `warning` does not.",
        '"warning"',
        "error",
        also="level",
    )
    message: Plain = option(
        "The problem in your words.",
        '"Ask the buyers for the price."',
        "",
        usual="petsync's own",
        also="text problem description",
    )
    enabled: Flag = option("Whether the rule is applied.", "false", True, also="active disabled")
    applies_to: Annotated[Side, choice(*get_args(Side))] = option(
        "`sheet`: the rows of the sheet. `store`: the pets in the store; a plan and a round report"
        " those that break the rule.",
        '"store"',
        "sheet",
        also="side target",
    )
    required: Flag = option("No cell may be blank.", "true", False, also="not_blank nullable")
    unique: Flag = option(
        "No two rows may have the same values in all these columns together.",
        "true",
        False,
        also="distinct",
    )
    values: Plains = option(
        "The permitted values, or items of a list.",
        '["cat", "dog"]',
        (),
        usual="",
        also="allowed allowed_values isin in choices enum",
    )
    pattern: Plain = option(
        "A regular expression (RE2) that the whole value, or each item of a list, must match.",
        "'[A-Z]{2}-[0-9]{4}'",
        "",
        also="regex regexp match matches",
    )
    min_length: Annotated[int, whole_number(0)] | None = option(
        "The minimum number of characters, or of items of a list.", "2", also="length minlength"
    )
    max_length: Annotated[int, whole_number(0)] | None = option(
        "The maximum number of characters, or of items of a list.", "40", also="maxlength"
    )
    minimum: Number | None = option("The least number.", "0", also="min ge gt")
    maximum: Number | None = option("The greatest number.", "999.99", also="max le lt")
    expression: Plain = option(
        "A condition on each row; it must not be false.",
        "\"status != 'sold' or [Price EUR] > 0\"",
        "",
        also="condition check expr formula",
    )


def _make_rule(table: Table) -> SheetRule:
    return SheetRule(**values_set_by(table))


class StoreOptions(Table):
    """The options that both the top and a job have."""

    url: Url = option(
        "The service's address.",
        '"https://shop.example/v2"',
        "",
        also="address service_url server host endpoint base_url",
    )
    profile: Annotated[str, choice(*PROFILES)] = option(
        "How the service behaves (profiles.md).", '"live"', "standard"
    )
    allow_http: Hosts = option(
        "Hosts that may receive secrets over plain http.", '["shop.internal"]', (), usual="[]"
    )
    timeout: Seconds = option("How many seconds to wait for an answer.", "60", 30.0)
    service: Annotated[dict[str, Any], Inner(Service, values_set_by)] = option(
        "Fields of the profile to change for your service (profiles.md).",
        '{ statuses = ["available", "pending", "sold", "adopted"] }',
        {},
        usual="",
    )
    columns: dict[Header, ColumnName] = option(
        "The column that each of your headers means.",
        '{ Tiername = "name" }',
        {},
        usual="",
        also="mapping headers",
    )
    auth: Annotated[dict[str, str], Inner(Auth, values_set_by)] = option(
        "Where to sign in, if the service does not publish this (sign-in.md).",
        '{ token_url = "https://login.example/token" }',
        {},
        usual="",
    )
    rules: tuple[Annotated[SheetRule, Inner(RuleOptions, _make_rule)], ...] = ()


class TopOptions(StoreOptions):
    """Every command reads these options. Except for `state`, they are also defaults of the jobs."""

    state: FilePath = option(
        "The state folder: the journal, and in `reconcile/` the values both sides last agreed on,"
        " the history and the waiting plans.",
        '"/var/lib/petsync"',
        Path(".petsync"),
        also="state_dir state_folder",
    )


class GuardOptions(Table, title="jobs.NAME.guard"):
    """A round's limits on each side. A plan that exceeds one waits for approval or is refused."""

    max_delete: Maximum = option(
        "The maximum number of deletions.",
        "25",
        Guard().max_delete,
        usual='"10%"',
        also="max_deletes delete",
    )
    max_update: Maximum = option(
        "The maximum number of changed pets.",
        '"50%"',
        Guard().max_update,
        usual='"30%"',
        also="max_updates update max_change",
    )
    max_add: Maximum = option(
        "The maximum number of new pets.",
        "500",
        Guard().max_add,
        usual="50%, or 100 if that is more; no limit in an empty store or sheet",
        also="max_adds add",
    )
    allow_empty: Flag = option(
        "Whether to accept an empty sheet, or a plan that deletes everything.", "true", False
    )
    sentinels: PetIds = option(
        "Pets that must exist and must not change; otherwise the round does nothing.",
        "[1001]",
        (),
        usual="none",
        also="sentinel",
    )


_Owned = Annotated[Owner, choice(*OWNERS)]


class OwnerOptions(Table, title="jobs.NAME.owners"):
    """Who owns each field. `sheet` and `store`: this side's value counts, and is never overwritten.
    `both`: the side that changed it. `never`: the field is written on neither side.
    """

    name: _Owned = option("The owner of the names.", '"sheet"', "both")
    status: _Owned = option("The owner of the statuses.", '"store"', "both")
    category: _Owned = option(
        "The owner of the categories, name and id together.", '"sheet"', "both", also="category_id"
    )
    tags: _Owned = option("The owner of the tags.", '"sheet"', "both", also="tag_ids")
    photo_urls: _Owned = option(
        "The owner of the photo addresses.", '"never"', "both", also="photos images urls"
    )


class JobOptions(StoreOptions, title="jobs.NAME"):
    """A job: one source of rows, and how to keep it in agreement with the store."""

    mode: Annotated[Mode, choice(*MODES)] = option(
        "Which side leads. `push`: the sheet. `pull`: the store; nothing is sent to it. `two-"
        "way`: both are merged. `check`: nothing is changed, differences are reported.",
        '"two-way"',
        ...,
        also="direction type",
    )
    sheet: SheetPath | None = option(
        "The spreadsheet: .xlsx, .xlsm, .csv, .tsv or .txt. Only in push and check: .ods, .xls, "
        ".xlsb, .json, .jsonl, .parquet, text with .gz or .zst; a folder of files, or a pattern "
        "such as `big/*.parquet`; or the address of one, such as `s3://bucket/big`. A job has "
        "exactly one of `sheet`, `folder`, `query` and `query_file`.",
        '"catalogue.xlsx"',
        also="file path workbook source spreadsheet csv excel",
    )
    tab: Text | None = option(
        "The worksheet to read; only with `sheet` or `folder`.",
        '"Pets"',
        usual="the one of the last round or the export, else the first",
        also="worksheet sheet_name",
    )
    encoding: Encoding | None = option(
        "The encoding of CSV files without a byte order mark; only with `sheet` or `folder`.",
        '"cp1252"',
        usual="utf-8",
        also="charset codepage",
    )
    folder: FilePath | None = option(
        "A folder of sheets. Each sheet is reconciled separately.", '"inbox"', also="dir directory"
    )
    files: Text = option(
        "The pattern that a file name in the folder must match. Without another ending, such as "
        "`*.ods`, only .xlsx, .xlsm, .csv, .tsv and .txt files are read.",
        '"*.csv"',
        "*",
        also="pattern glob",
    )
    query: Text = option(
        "An SQL query to the `database`; its rows are the sheet. Only in push and check.",
        '"SELECT id, name, status FROM pets"',
        "",
        also="sql select",
    )
    query_file: FilePath | None = option("A file with an SQL query.", '"pets.sql"', also="sql_file")
    database: Database | None = option(
        "The SQLAlchemy URL of the database. Take a password in it from the environment.",
        '"${CATALOGUE_DB}"',
        also="db dsn connection",
    )
    enabled: Flag = option(
        "Whether the job runs when `--job` does not name it.", "false", True, also="active disabled"
    )
    token: SecretText | None = option(
        "An access token.", '"${SHOP_TOKEN}"', usual="`PETSYNC_TOKEN`", also="access_token bearer"
    )
    api_key: SecretText | None = option(
        "An API key.", '"${SHOP_API_KEY}"', usual="`PETSYNC_API_KEY`", also="apikey key"
    )
    client_id: Text = option(
        "The client id with which this job signs in; needs `client_secret`.",
        '"nightly"',
        "",
        usual="`PETSYNC_CLIENT_ID`",
    )
    client_secret: SecretText | None = option(
        "The secret of `client_id`.",
        '"${SHOP_CLIENT_SECRET}"',
        usual="`PETSYNC_CLIENT_SECRET`",
        also="secret password",
    )
    statuses: Texts = option(
        "The scope of the job in the store: pets with one of these statuses.",
        '["available", "pending"]',
        (),
        usual="all",
        also="status scope",
    )
    tags: Texts = option(
        "The scope of the job in the store: pets with one of these tags.",
        '["shop"]',
        (),
        usual="all",
        also="tag",
    )
    delete_missing: Flag = option(
        "Whether to delete what is missing on the other side: in the store (push, two-way) and in"
        " the sheet (pull, two-way).",
        "true",
        False,
        also="delete deletes prune",
    )
    match_on: Annotated[
        tuple[Annotated[Column, choice(*MATCHABLE)], ...],
        ListKind(words=f"a list of {', '.join(MATCHABLE)}"),
    ] = option(
        "The columns by which to find the pet of a row without an id.",
        '["name"]',
        (),
        usual="none",
        also="match match_by",
    )
    on_conflict: Annotated[_Winner, choice(*get_args(_Winner))] = option(
        "Which value to use for a field that both sides changed; only in two-way. `ask`: keep "
        "both until a user decides. `store`, `sheet`: the value of that side.",
        '"store"',
        "ask",
        also="conflict conflicts winner",
    )
    strict: Flag = option(
        "Whether an error in the sheet stops the job; if not, only its row is left out.",
        "true",
        False,
    )
    concurrency: Annotated[int, whole_number(1, 128)] = option(
        "The maximum number of changes at the same time.", "4", 16, also="threads workers parallel"
    )
    rate: Rate | None = option(
        "The maximum number of requests per second.",
        '"20/s"',
        usual="no limit",
        also="rate_limit max_rate",
    )
    verify: Flag = option("Whether to read each changed pet again and compare.", "false", True)
    max_failures: Annotated[int, whole_number(0)] | None = option(
        "Stop the round after more failed changes than this; the next round continues.",
        "20",
        usual="no limit",
    )
    schedule: Cron = option(
        "When the job is due: a cron expression with five fields, in local time. `--every`, "
        "`petsync config schedule` and the history use it.",
        '"0 2 * * *"',
        "",
        usual="none",
        also="cron every interval when at",
    )
    guard: Annotated[Guard, Inner(GuardOptions, lambda table: Guard(**values_set_by(table)))] = (
        Guard()
    )
    owners: Annotated[
        dict[Unit, Owner], Inner(OwnerOptions, lambda table: check_owners(values_set_by(table)))
    ] = {}

    @property
    def is_in_parts(self) -> bool:
        """True if the sheet is a folder or a pattern, which is compared in parts."""
        return self.sheet is not None and is_in_parts(self.sheet)


class Template(Table, title="notify.templates.EVENT"):
    """Your text for a notice."""

    title: Plain = option(
        "The title. It may contain placeholders such as `$job` and `$status` (notifications.md).",
        '"petsync: $job $status"',
        "",
        usual="petsync's own",
        also="subject",
    )
    body: Plain = option(
        "The text. It may contain the same placeholders.",
        '"$problem"',
        "",
        usual="petsync's own",
        also="text message",
    )


class Notify(Table, title="notify"):
    """Who is notified, and of which events."""

    urls: Secrets = option(
        "Where to send notices: apprise URLs (notifications.md). They contain secrets, so take "
        "them from variables.",
        '["${PETSYNC_NOTIFY}"]',
        (),
        usual="none",
        also="url to targets apprise",
    )
    on: Annotated[
        tuple[Annotated[Event, choice(*EVENTS)], ...],
        ListKind(words=f"a list of {', '.join(EVENTS)}", least=0),
    ] = option(
        "The events to send notices about.",
        '["failure", "recovery", "waiting"]',
        EVENTS,
        also="events when",
    )
    digest: Clock = option(
        "The time of day from which the daily digest is sent.",
        '"06:30"',
        time(7, 0),
        usual='"07:00"',
    )
    remind: Duration = option(
        "The time after which to repeat a notice about a problem that continues.",
        '"12h"',
        86_400.0,
        usual='"24h"',
        also="repeat reminder",
    )
    templates: dict[
        Annotated[Event, replace(choice(*EVENTS), is_filled=False)],
        Annotated[tuple[str, str], Inner(Template, lambda table: (table.title, table.body))],
    ] = {}


class ReportOptions(Table, title="report"):
    """The report of each round."""

    folder: FilePath | None = option(
        "The folder for the reports, as HTML and JSON.",
        '"reports"',
        usual="`reconcile/reports` in the state folder",
        also="path dir directory",
    )
    keep: Annotated[int, whole_number(0)] = option(
        "How many reports of each job to keep; 0 for all.", "30", 90
    )


class Log(Table, title="log"):
    """The log."""

    format: Annotated[_Format, choice(*get_args(_Format))] = option(
        "Text lines or JSON lines.", '"json"', "text"
    )
    level: Annotated[_Level, choice(*get_args(_Level))] | None = option(
        'The lowest level that is logged: by default `"warning"` for text on standard error if '
        'neither `-v` nor `--every` is given, otherwise `"info"`.',
        '"warning"',
        usual='"info" or "warning"',
    )
    file: FilePath | None = option(
        "The log file; without it, standard error.",
        '"petsync.log"',
        usual="none",
        also="path filename",
    )

    @property
    def least(self) -> str:
        """The lowest level that is logged.

        The default for text on standard error is "warning": its readers see the results of rounds
        anyway.
        """
        is_for_people = self.format == "text" and self.file is None
        return self.level or ("warning" if is_for_people else "info")


class Metrics(Table, title="metrics"):
    """Metrics for Prometheus."""

    textfile: FilePath | None = option(
        "The file for node_exporter's textfile collector; its name ends in .prom.",
        '"petsync.prom"',
        usual="none",
        also="file path",
    )
    listen: Listen = option(
        "The address at which `petsync reconcile --every` serves metrics.",
        '"127.0.0.1:9464"',
        "",
        usual="nowhere",
        also="port address bind",
    )
    public: Flag = option(
        "Whether `listen` may be an address that other machines can reach. Anybody who reaches it"
        " can read the metrics.",
        "true",
        False,
    )


class Tracing(Table, title="tracing"):
    """OpenTelemetry spans, configured by the standard `OTEL_*` variables."""

    enabled: Flag = option("Whether to send spans.", "true", False, also="enable on")


class ConfigurationFile(TopOptions, title="petsync.toml"):
    """A whole petsync.toml; docs/config.md explains its options."""

    jobs: dict[JobName, JobOptions] = {}
    notify: Notify = Notify()
    report: ReportOptions = ReportOptions()
    log: Log = Log()
    metrics: Metrics = Metrics()
    tracing: Annotated[bool, Inner(Tracing, lambda table: table.enabled)] = False


TABLES: Mapping[str, type[Table]] = {
    "": TopOptions,
    "jobs": JobOptions,
    "guard": GuardOptions,
    "rules": RuleOptions,
    "owners": OwnerOptions,
    "notify": Notify,
    "templates": Template,
    "report": ReportOptions,
    "log": Log,
    "metrics": Metrics,
    "tracing": Tracing,
}
INHERITED: Mapping[str, str] = {
    name: "added to the top-level ones"
    if name in ("service", "columns", "rules")
    else "the top-level value"
    for name in StoreOptions.model_fields
}
"""Top-level options that a job may override, with the text for the job's default."""


@cache
def options_of(table: str) -> dict[str, Option]:
    """Return the options of a table by name."""
    return {
        name: _describe(table, name, field, field.json_schema_extra)
        for name, field in TABLES[table].model_fields.items()
        if isinstance(field.json_schema_extra, Option)
    }


def _describe(table: str, name: str, field: FieldInfo, notes: Option) -> Option:
    inner = (
        part for arg in get_args(field.annotation) for part in getattr(arg, "__metadata__", ())
    )
    parts = field.metadata if get_origin(field.annotation) is dict else [*field.metadata, *inner]
    kind = next((part for part in parts if isinstance(part, Kind)), None)
    return replace(
        notes,
        table=table,
        name=name,
        words="a table" if kind is None else kind.words,
        default=INHERITED[name] if table == "jobs" and name in INHERITED else notes.default,
        is_required=field.is_required(),
        hides="" if kind is None else kind.hides,
    )


OPTIONS: tuple[Option, ...] = tuple(each for name in TABLES for each in options_of(name).values())


def entry_keys(option: str) -> tuple[str, ...]:
    """Return the keys that `service` or `auth` may have, () for another option."""
    entries = {"service": Service, "auth": Auth}
    return tuple(entries[option].model_fields) if option in entries else ()


# The configuration as values: checked, with absolute paths and resolved secrets.


class Job(JobOptions):
    """One `[jobs.NAME]`. Exactly one of `sheet`, `folder` and `query` is given.

    `model_fields_set` has the options that the job itself sets.
    """

    name: str
    line: int = 1
    """The line of the job's header in the file."""
    sign_in: str = ""
    """The secrets with which the job itself signs in, as `describe_sign_in` returns them."""

    @property
    def merging(self) -> MergeOptions:
        """The options for the comparison of sheet and store."""
        return MergeOptions(
            delete_missing=self.delete_missing,
            match_on=self.match_on,
            on_conflict=self.on_conflict,
            owners=check_owners(self.owners),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The folder of the reports, and how many are kept."""

    folder: Path
    keep: int | None = 90
    """How many reports of each job are kept; None for all."""
    is_private: bool = False
    """True if the folder is the default one, in the state folder; then only the owner can read its
    files.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A whole petsync.toml; all paths are absolute."""

    path: Path
    state: Path
    jobs: tuple[Job, ...] = ()
    notify: Notify = field(default_factory=Notify)
    report: Reports
    log: Log = field(default_factory=Log)
    metrics: Metrics = field(default_factory=Metrics)
    tracing: bool = False
    secrets: tuple[Secret, ...] = ()
    """The values that must never be shown."""
    in_addresses: Mapping[str, str] = field(
        default_factory=lambda: HiddenEnvironment({}), repr=False
    )
    """The values of variables in services' URLs, by `${NAME}`."""
    variables: tuple[str, ...] = ()
    """The variables that replace options at the top of the file, such as `PETSYNC_STATE`."""
    replaced_url: str = ""
    """The address at the top of the file, if PETSYNC_URL names another one, else ""."""
    env_file: Path | None = None
    """The file of variables that the command line names."""

    def again(self, job: Job) -> tuple[str, ...]:
        """Return the words after `petsync reconcile` that start a round of the job with the same
        configuration from any folder.
        """
        words = [str(self.path)]
        if self.env_file is not None:
            words += ["--env-file", str(self.env_file.absolute())]
        if "PETSYNC_STATE" in self.variables:
            words += ["--state", str(self.state)]
        for name, value in (("url", job.url), ("profile", job.profile)):
            if f"PETSYNC_{name.upper()}" in self.variables and name not in job.model_fields_set:
                words += [f"--{name}", value]
        return tuple(words)

    def common_options(self, job: Job | None, url: str) -> tuple[str, ...]:
        """Return the options with which commands find the journal and the store of a job from any
        folder. `url` is the store's address, or "".
        """
        words = ["--state", str(self.state), *(["--url", url] if url else [])]
        if job is not None:
            words += ["--profile", job.profile] if job.profile != "standard" else []
            words += [word for host in job.allow_http for word in ("--allow-http", host)]
        return tuple(words)

    def replaced_url_of(self, job: Job) -> str:
        """Return the address in the file that PETSYNC_URL replaces for the job, "" for none."""
        return "" if "url" in job.model_fields_set else self.replaced_url


class JobSchedule(NamedTuple):
    """When a job runs: `schedule` is "" if it has none."""

    name: str
    schedule: str
    enabled: bool


class Timetable(NamedTuple):
    """When the jobs of a petsync.toml run."""

    path: Path
    jobs: tuple[JobSchedule, ...]
    variables: tuple[str, ...]
    """The variables of the environment that replace options at the top, such as PETSYNC_URL."""
