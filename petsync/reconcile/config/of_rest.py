"""The options at the top of petsync.toml, and those that concern all jobs together."""

from __future__ import annotations

from petsync.reconcile.config import kinds
from petsync.reconcile.config.entries import AUTH, COLUMN, SERVICE
from petsync.reconcile.config.model import EVENTS
from petsync.reconcile.config.option import Option

__all__ = ["REST", "TOP"]

TOP: tuple[Option, ...] = (
    Option(
        table="",
        name="url",
        kind=kinds.URL,
        meaning="The service's address.",
        example='"https://shop.example/v2"',
        also=("address", "service_url", "server", "host", "endpoint", "base_url"),
    ),
    Option(
        table="",
        name="profile",
        kind=kinds.choice("standard", "live"),
        meaning="How the service behaves (profiles.md).",
        default='"standard"',
        example='"live"',
    ),
    Option(
        table="",
        name="state",
        kind=kinds.PATH,
        meaning="The folder of all that is kept: the journal, and under `reconcile/` what both "
        "sides last agreed on, the history and the plans that wait.",
        default='".petsync"',
        example='"/var/lib/petsync"',
        also=("state_dir", "state_folder"),
    ),
    Option(
        table="",
        name="allow_http",
        kind=kinds.HOSTS,
        meaning="Hosts that may get a token over plain http.",
        default="[]",
        example='["shop.internal"]',
    ),
    Option(
        table="",
        name="timeout",
        kind=kinds.SECONDS,
        meaning="How many seconds an answer is waited for.",
        default="30.0",
        example="60",
    ),
    Option(
        table="",
        name="service",
        entry=SERVICE,
        meaning="Single fields of the profile in other words (profiles.md).",
        example='{ statuses = ["available", "pending", "sold", "adopted"] }',
    ),
    Option(
        table="",
        name="columns",
        entry=COLUMN,
        meaning="What a sheet's own headers mean.",
        example='{ Tiername = "name" }',
        also=("mapping", "headers"),
    ),
    Option(
        table="",
        name="auth",
        entry=AUTH,
        meaning="Where one signs in, if the service does not say so (sign-in.md).",
        example='{ token_url = "https://login.example/token" }',
    ),
)

REST: tuple[Option, ...] = (
    Option(
        table="notify",
        name="urls",
        kind=kinds.SECRETS,
        meaning="Where notices go, as apprise writes it (notifications.md). Such addresses hold "
        "secrets, and are named by variables.",
        default="none",
        example='["${PETSYNC_NOTIFY}"]',
        also=("url", "to", "targets", "apprise"),
    ),
    Option(
        table="notify",
        name="on",
        kind=kinds.choices(EVENTS),
        meaning="What is told.",
        default='["failure", "violation", "recovery", "waiting", "digest"]',
        example='["failure", "recovery", "waiting"]',
        also=("events", "when"),
    ),
    Option(
        table="notify",
        name="digest",
        kind=kinds.CLOCK,
        meaning="From what time of day the daily digest is sent.",
        default='"07:00"',
        example='"06:30"',
    ),
    Option(
        table="notify",
        name="remind",
        kind=kinds.DURATION,
        meaning="After what time something that still stands is told again.",
        default='"24h"',
        example='"12h"',
        also=("repeat", "reminder"),
    ),
    Option(
        table="templates",
        name="title",
        kind=kinds.PLAIN,
        meaning="Its first line. `$job`, `$status` and the like are filled in (notifications.md).",
        default="petsync's own",
        example='"petsync: $job $status"',
        also=("subject",),
    ),
    Option(
        table="templates",
        name="body",
        kind=kinds.PLAIN,
        meaning="Its text.",
        default="petsync's own",
        example='"$problem"',
        also=("text", "message"),
    ),
    Option(
        table="report",
        name="folder",
        kind=kinds.PATH,
        meaning="Where the reports go, as HTML and JSON.",
        default="`reconcile/reports` in the state folder",
        example='"reports"',
        also=("path", "dir", "directory"),
    ),
    Option(
        table="report",
        name="keep",
        kind=kinds.whole(0),
        meaning="How many reports of each job are kept; 0 for all.",
        default="90",
        example="30",
    ),
    Option(
        table="log",
        name="format",
        kind=kinds.choice("text", "json"),
        meaning="Lines for people, or JSON lines.",
        default='"text"',
        example='"json"',
    ),
    Option(
        table="log",
        name="level",
        kind=kinds.choice("debug", "info", "warning", "error"),
        meaning="From which level on. Text lines on standard error are for people, who see how "
        'rounds ended anyhow: there it is `"warning"`, but for `-v` and `--every`.',
        default='"info" or "warning"',
        example='"warning"',
    ),
    Option(
        table="log",
        name="file",
        kind=kinds.PATH,
        meaning="To which file, in place of standard error.",
        default="none",
        example='"petsync.log"',
        also=("path", "filename"),
    ),
    Option(
        table="metrics",
        name="textfile",
        kind=kinds.PATH,
        meaning="The file for node_exporter's textfile collector; it ends in .prom.",
        default="none",
        example='"petsync.prom"',
        also=("file", "path"),
    ),
    Option(
        table="metrics",
        name="listen",
        kind=kinds.LISTEN,
        meaning="Where `petsync reconcile --every` answers Prometheus.",
        default="nowhere",
        example='"127.0.0.1:9464"',
        also=("port", "address", "bind"),
    ),
    Option(
        table="metrics",
        name="public",
        kind=kinds.FLAG,
        meaning="Whether `listen` may be an address that other machines reach. Anybody who "
        "reaches it can read the metrics.",
        default="false",
        example="true",
    ),
    Option(
        table="tracing",
        name="enabled",
        kind=kinds.FLAG,
        meaning="Whether spans are made and sent.",
        default="false",
        example="true",
        also=("enable", "on"),
    ),
)
