"""The options of a job, and of its guard."""

from __future__ import annotations

from petsync.diff.round import MODES
from petsync.reconcile.config import kinds
from petsync.reconcile.config.cron import CRON
from petsync.reconcile.config.option import Option
from petsync.table.columns import COLUMNS

__all__ = ["GUARD", "JOB"]

_SCOPE = "Which pets of the store concern this job: those with one of these"

JOB: tuple[Option, ...] = (
    Option(
        table="jobs",
        name="mode",
        kind=kinds.choice(*MODES),
        meaning="Who leads. `push`: the sheet. `pull`: the store, to which nothing is sent. "
        "`two-way`: both are merged. `check`: nothing is changed anywhere, drift is told.",
        is_required=True,
        example='"two-way"',
        also=("direction", "type"),
    ),
    Option(
        table="jobs",
        name="sheet",
        kind=kinds.PATH,
        meaning="The spreadsheet: .xlsx, .xlsm, .csv, .tsv or .txt. Each job has one of `sheet`, "
        "`folder`, `query` and `query_file`.",
        example='"catalogue.xlsx"',
        also=("file", "path", "workbook", "source", "spreadsheet", "csv", "excel"),
    ),
    Option(
        table="jobs",
        name="tab",
        kind=kinds.TEXT,
        meaning="The worksheet to read; with `sheet` and `folder`.",
        default="the first",
        example='"Pets"',
        also=("worksheet", "sheet_name"),
    ),
    Option(
        table="jobs",
        name="encoding",
        kind=kinds.ENCODING,
        meaning="The encoding of CSV files without a byte order mark; with `sheet` and `folder`.",
        default="utf-8",
        example='"cp1252"',
        also=("charset", "codepage"),
    ),
    Option(
        table="jobs",
        name="folder",
        kind=kinds.PATH,
        meaning="A folder whose sheets are reconciled one by one.",
        example='"inbox"',
        also=("dir", "directory"),
    ),
    Option(
        table="jobs",
        name="files",
        kind=kinds.TEXT,
        meaning="Which files of the folder are its sheets.",
        default='"*"',
        example='"*.csv"',
        also=("pattern", "glob"),
    ),
    Option(
        table="jobs",
        name="query",
        kind=kinds.TEXT,
        meaning="An SQL query whose rows are compared, to the `database`; only with push and "
        "check.",
        example='"SELECT id, name, status FROM pets"',
        also=("sql", "select"),
    ),
    Option(
        table="jobs",
        name="query_file",
        kind=kinds.PATH,
        meaning="The same, in a file.",
        example='"pets.sql"',
        also=("sql_file",),
    ),
    Option(
        table="jobs",
        name="database",
        kind=kinds.DATABASE,
        meaning="The database as SQLAlchemy writes it. A password in it comes from the "
        "environment.",
        example='"${CATALOGUE_DB}"',
        also=("db", "dsn", "connection"),
    ),
    Option(
        table="jobs",
        name="enabled",
        kind=kinds.FLAG,
        meaning="Whether the job runs unless it is named by `--job`.",
        default="true",
        example="false",
        also=("active", "disabled"),
    ),
    Option(
        table="jobs",
        name="token",
        kind=kinds.SECRET,
        meaning="An access token.",
        default="`PETSYNC_TOKEN`",
        example='"${SHOP_TOKEN}"',
        also=("access_token", "bearer"),
    ),
    Option(
        table="jobs",
        name="api_key",
        kind=kinds.SECRET,
        meaning="An api key.",
        default="`PETSYNC_API_KEY`",
        example='"${SHOP_API_KEY}"',
        also=("apikey", "key"),
    ),
    Option(
        table="jobs",
        name="client_id",
        kind=kinds.TEXT,
        meaning="The program as which this job signs in, with `client_secret`.",
        default="`PETSYNC_CLIENT_ID`",
        example='"nightly"',
    ),
    Option(
        table="jobs",
        name="client_secret",
        kind=kinds.SECRET,
        meaning="Its secret.",
        default="`PETSYNC_CLIENT_SECRET`",
        example='"${SHOP_CLIENT_SECRET}"',
        also=("secret", "password"),
    ),
    Option(
        table="jobs",
        name="statuses",
        kind=kinds.TEXTS,
        meaning=f"{_SCOPE} statuses.",
        default="all",
        example='["available", "pending"]',
        also=("status", "scope"),
    ),
    Option(
        table="jobs",
        name="tags",
        kind=kinds.TEXTS,
        meaning=f"{_SCOPE} tags.",
        default="all",
        example='["shop"]',
        also=("tag",),
    ),
    Option(
        table="jobs",
        name="delete_missing",
        kind=kinds.FLAG,
        meaning="Whether deletions travel: to the store in push and two-way, to the sheet in pull "
        "and two-way.",
        default="false",
        example="true",
        also=("delete", "deletes", "prune"),
    ),
    Option(
        table="jobs",
        name="match_on",
        kind=kinds.choices(tuple(column for column in COLUMNS if column != "id"), least=1),
        meaning="The columns by which the pet of a row without an id is found.",
        default="none",
        example='["name"]',
        also=("match", "match_by"),
    ),
    Option(
        table="jobs",
        name="on_conflict",
        kind=kinds.choice("ask", "store", "sheet"),
        meaning="What becomes of a field that both sides changed; only in two-way. `ask`: both "
        "stay until a person decides. `store`, `sheet`: that side's value.",
        default='"ask"',
        example='"store"',
        also=("conflict", "conflicts", "winner"),
    ),
    Option(
        table="jobs",
        name="strict",
        kind=kinds.FLAG,
        meaning="Whether any error in the sheet stops the job; else only its row is left out.",
        default="false",
        example="true",
    ),
    Option(
        table="jobs",
        name="concurrency",
        kind=kinds.whole(1, 128),
        meaning="The most changes at a time.",
        default="16",
        example="4",
        also=("threads", "workers", "parallel"),
    ),
    Option(
        table="jobs",
        name="rate",
        kind=kinds.RATE,
        meaning="The most requests a second.",
        default="no limit",
        example='"20/s"',
        also=("rate_limit", "max_rate"),
    ),
    Option(
        table="jobs",
        name="verify",
        kind=kinds.FLAG,
        meaning="Whether every changed pet is read back.",
        default="true",
        example="false",
    ),
    Option(
        table="jobs",
        name="max_failures",
        kind=kinds.whole(0),
        meaning="After more failed changes than this the round stops; the next one resumes it.",
        default="no limit",
        example="20",
    ),
    Option(
        table="jobs",
        name="schedule",
        kind=CRON,
        meaning="When the job is due, in the five fields of cron, in local time: what `--every`, "
        "`petsync config schedule` and the history go by.",
        default="none",
        example='"0 2 * * *"',
        also=("cron", "every", "interval", "when", "at"),
    ),
)
"""What only a job has; it also has those at the top of the file that are its own business."""

GUARD: tuple[Option, ...] = (
    Option(
        table="guard",
        name="max_delete",
        kind=kinds.LIMIT,
        meaning="The most deletions.",
        default='"10%"',
        example="25",
        also=("max_deletes", "delete"),
    ),
    Option(
        table="guard",
        name="max_update",
        kind=kinds.LIMIT,
        meaning="The most pets that change.",
        default='"30%"',
        example='"50%"',
        also=("max_updates", "update", "max_change"),
    ),
    Option(
        table="guard",
        name="max_add",
        kind=kinds.LIMIT,
        meaning="The most new pets.",
        default="50%, or 100; any number where there are none yet",
        example="500",
        also=("max_adds", "add"),
    ),
    Option(
        table="guard",
        name="allow_empty",
        kind=kinds.FLAG,
        meaning="Whether an empty sheet, or a plan that deletes everything, may pass.",
        default="false",
        example="true",
    ),
    Option(
        table="guard",
        name="sentinels",
        kind=kinds.IDS,
        meaning="Pets that must be there, and that nobody may change; else nothing is done.",
        default="none",
        example="[1001]",
        also=("sentinel",),
    ),
)
