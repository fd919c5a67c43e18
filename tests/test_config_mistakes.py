"""Mistakes in petsync.toml: all are reported at once with file, line, key and suggestion."""

from __future__ import annotations

import re
import shlex
import tomllib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from configured import JOB, configured, file_with
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.pretty import pretty_repr
from times import times

from petsync.config.load import load
from petsync.config.tools import example
from petsync.errors import ConfigurationError, Problem

SECRET = "s3cr3t-value-of-a-variable"


@dataclass(frozen=True)
class Mistake:
    """A mistake (its name), its place, and its message and suggestion; `text` follows JOB, whose
    last line is 5, unless it is `whole`. `schema`: whether a JSON Schema can find it; None if no
    validator in Python gets so far.
    """

    name: str
    text: str
    line: int
    key: str
    says: str
    suggests: str
    whole: bool = False
    schema: bool | None = True

    @property
    def file(self) -> str:
        """The whole file."""
        return self.text if self.whole else f"{JOB}{self.text}"


def other(lines: str) -> str:
    """Return a whole file with one job with these options."""
    return f'url = "https://shop.example/v2"\n[jobs.catalogue]\n{lines}\n'


MISTAKES = (
    Mistake("unknown mode", other('mode = "tow-way"\nsheet = "a.csv"'), 3, "jobs.catalogue.mode",
            'is "tow-way"', 'mode = "two-way"', whole=True),
    Mistake("no mode", other('sheet = "a.csv"'), 2, "jobs.catalogue", "mode is missing",
            "Write mode =", whole=True),
    Mistake("misspelt option", 'shedule = "0 2 * * *"', 6, "jobs.catalogue.shedule",
            "no such option", "schedule"),
    Mistake("option by another name", 'cron = "0 2 * * *"', 6, "jobs.catalogue.cron",
            "no such option", "Did you mean schedule?"),
    Mistake("misspelt table", '[notfy]\nurls = ["${X}"]', 6, "notfy", "no such option",
            "Did you mean notify?"),
    Mistake("limit outside of the guard", 'max_delete = "5%"', 6, "jobs.catalogue.max_delete",
            "no such option here", "under [jobs.catalogue.guard]"),
    Mistake("state in a job", 'state = "x"', 6, "jobs.catalogue.state", "no such option here",
            "at the top of the file"),
    Mistake("option nowhere near", "xyz = 1", 6, "jobs.catalogue.xyz", "no such option",
            "The options are: allow_http"),
    Mistake("misspelt option of a rule", '[[rules]]\nname = "a"\ncolums = ["b"]\nunique = true', 8,
            "rules[1].colums", "no such option", "Did you mean columns?"),
    Mistake("pattern of the second rule",
            '[[rules]]\nname = "a"\ncolumns = ["b"]\nunique = true\n'
            '[[rules]]\nname = "c"\ncolumns = ["b"]\npattern = "(?=a)"', 13,
            "rules[2].pattern", "is invalid", "without lookaheads", schema=False),
    Mistake("position in an expression",
            '[[rules]]\nname = "a"\nexpression = "Price > 0 and lenght(name) > 2"', 8,
            "rules[1].expression", "column 15: unknown function 'lenght'", "Did you mean length?",
            schema=False),
    Mistake("column that the store lacks",
            '[[rules]]\nname = "a"\napplies_to = "store"\nexpression = "statsu = \'sold\'"', 9,
            "rules[1].expression", "the store has no column 'statsu'", "Did you mean status?",
            schema=False),
    Mistake("two conditions in a rule",
            '[[jobs.catalogue.rules]]\nname = "a"\ncolumns = ["b"]\nunique = true\nminimum = 2', 10,
            "jobs.catalogue.rules[1].minimum", "also has unique", "Make two rules", schema=False),
    Mistake("rule without a condition", '[[rules]]\nname = "a"\ncolumns = ["b"]', 6,
            "rules[1]", "nothing to check", "Write one of required = true", schema=False),
    Mistake("rule without a name", '[[rules]]\ncolumns = ["b"]\nunique = true', 6,
            "rules[1]", "name is missing", "Write name ="),
    Mistake("name of a rule", '[[rules]]\nname = "a b"\ncolumns = ["b"]\nunique = true', 7,
            "rules[1].name", "must have only letters", 'Write name = "a-b"', schema=False),
    Mistake("two rules with one name",
            '[[rules]]\nname = "a"\ncolumns = ["b"]\nunique = true\n'
            '[[rules]]\nname = "A"\ncolumns = ["b"]\nrequired = true', 11,
            "rules[2].name", "two rules have the name 'A'", "Rename", schema=False),
    Mistake("column as text", '[[rules]]\nname = "a"\ncolumns = "b"\nunique = true', 8,
            "rules[1].columns", "must be a list of text", 'Write columns = ["b"]'),
    Mistake("rules as one table", '[rules]\nname = "a"\ncolumns = ["b"]\nunique = true', 6,
            "rules", "must be a list of tables", "Write [[rules]]"),
    Mistake("rules as texts", f'rules = ["a"]\n{JOB}', 1, "rules[1]",
            "is text, and must be a list of tables", "Write [[rules]]", whole=True),
    Mistake("a job's rules as lists", 'rules = [[1]]', 6, "jobs.catalogue.rules[1]",
            "is a list, and must be a list of tables", "Write [[jobs.catalogue.rules]]"),
    Mistake("number of very many digits", f'timeout = 1{"0" * 5000}', 6, "",
            "too many digits", "shorter", schema=None),
    Mistake("very long number", f'timeout = 0x{"f" * 5000}', 6, "jobs.catalogue.timeout",
            "is a very long number", "timeout = 30", schema=None),
    Mistake("lists in lists", f'tags = {"[" * 3000}{"]" * 3000}', 6, "",
            "nested too deep", "fewer levels", schema=None),
    Mistake("switch for no rule",
            f'rules = [{{ name = "price", columns = ["b"], unique = true }}]\n{JOB}'
            '[[jobs.catalogue.rules]]\nname = "prcie"\nenabled = false', 7,
            "jobs.catalogue.rules[1]", "no rule 'prcie' at the top", "Did you mean price?",
            whole=True, schema=False),
    Mistake("limits of a rule", '[[rules]]\nname = "a"\ncolumns = ["b"]\nminimum = "much"', 9,
            "rules[1].minimum", "must be a number", "Write, for example, minimum = 0."),
    Mistake("no job", 'url = "https://shop.example/v2"', 1, "", "there is no job",
            "Only `petsync reconcile` needs a job.", whole=True, schema=False),
    Mistake("job without a name", '[jobs]\nmode = "push"', 2, "jobs.mode",
            "belongs to one of the jobs", "Write [jobs.NAME] above it, with the job's name",
            whole=True),
    Mistake("list of jobs", '[[jobs]]\nname = "a"', 1, "jobs", "is a list, and must be a table",
            "Write [jobs.NAME] in its place", whole=True),
    Mistake("list for a job", '[[jobs.b]]\nmode = "push"', 6, "jobs.b",
            "is a list, and must be a table", "Write [jobs.b] in its place"),
    Mistake("limit below zero", "[jobs.catalogue.guard]\nmax_delete = -1", 7,
            "jobs.catalogue.guard.max_delete", "is -1", "Write, for example, max_delete = 25."),
    Mistake("name of a job", '[jobs."new pets"]\nmode = "check"\nsheet = "b.csv"', 6,
            "jobs.new pets", "letters, digits", "[jobs.new-pets]"),
    Mistake("names that differ by case", '[jobs.Catalogue]\nmode = "check"\nsheet = "b.csv"', 6,
            "jobs.Catalogue", "only in letter case", "another name", schema=False),
    Mistake("no source", other('mode = "push"'), 2, "jobs.catalogue", "nothing to compare",
            'sheet = "catalogue.xlsx"', whole=True),
    Mistake("two sources", 'folder = "inbox"', 6, "jobs.catalogue.folder", "also has sheet",
            "Keep sheet or folder"),
    Mistake("query in two-way",
            other('mode = "two-way"\nquery = "SELECT 1"\ndatabase = "sqlite:///a.db"'), 4,
            "jobs.catalogue.query", "never writes to a database", 'mode = "push"',
            whole=True),
    Mistake("query without a database", other('mode = "push"\nquery = "SELECT 1"'), 4,
            "jobs.catalogue.query", "no effect without database", "Write database too", whole=True),
    Mistake("query file that is not there",
            other('mode = "push"\nquery_file = "no.sql"\ndatabase = "sqlite:///a.db"'), 4,
            "jobs.catalogue.query_file", "no such file", "Write the SELECT", whole=True,
            schema=False),
    Mistake("database without a query", 'database = "sqlite:///a.db"', 6,
            "jobs.catalogue.database", "no effect without query", "remove database"),
    Mistake("files without a folder", 'files = "*.csv"', 6, "jobs.catalogue.files",
            "no effect without folder", "Write folder too"),
    Mistake("conflicts in push",
            other('mode = "push"\nsheet = "a.csv"\non_conflict = "store"'), 5,
            "jobs.catalogue.on_conflict", "it has no effect in mode", 'mode = "two-way"',
            whole=True),
    Mistake("Parquet files that a job writes",
            other('mode = "two-way"\nsheet = "big/*.parquet"'), 3, "jobs.catalogue.mode",
            "never writes to several files", 'mode = "check"', whole=True, schema=False),
    Mistake("scope with Parquet files",
            other('mode = "push"\nsheet = "big/*.parquet"\nstatuses = ["sold"]'), 5,
            "jobs.catalogue.statuses", "cannot apply to a folder or a pattern",
            "Remove statuses", whole=True, schema=False),
    Mistake("match of Parquet files without the name",
            other('mode = "push"\nsheet = "big/*.parquet"\nmatch_on = ["status"]'), 5,
            "jobs.catalogue.match_on", "cannot be matched without the name",
            'match_on = ["name"]', whole=True, schema=False),
    Mistake("winner of conflicts", 'on_conflict = "shet"', 6, "jobs.catalogue.on_conflict",
            'is "shet"', 'on_conflict = "sheet"'),
    Mistake("kind of sheet", other('mode = "push"\nsheet = "pets.xlx"'), 4,
            "jobs.catalogue.sheet", ".xlx is not a supported sheet format",
            'sheet = "pets.xlsx"', whole=True, schema=False),
    Mistake("two-way with a format that is not written", other('mode = "two-way"\nsheet = "a.ods"'),
            3, "jobs.catalogue.mode", "petsync does not write into .ods files",
            'Write mode = "push" or mode = "check", or save the sheet as .xlsx or .csv.',
            whole=True, schema=False),
    Mistake("sheet without an ending", other('mode = "push"\nsheet = "../a.b/cat"'), 4,
            "jobs.catalogue.sheet", "a file without an ending", 'sheet = "../a.b/cat.xlsx"',
            whole=True, schema=False),
    Mistake("kind of sheet in a variable", other('mode = "push"\nsheet = "a/${OLD_SHEET}"'), 4,
            "jobs.catalogue.sheet", "the format of the file is not supported; the supported",
            "Save it as one of these.", whole=True, schema=False),
    Mistake("kind of files", other('mode = "push"\nfolder = "a"\nfiles = "*.odt"'), 5,
            "jobs.catalogue.files", ".odt is not a supported sheet format", "Save it as",
            whole=True, schema=False),
    Mistake("token in the clear", f'token = "{SECRET}"', 6, "jobs.catalogue.token",
            "a secret does not belong in a file", 'token = "${SHOP_TOKEN}"'),
    Mistake("token at the top", f'token = "{SECRET}"\n{JOB}', 1, "token",
            "does not belong at the top", "PETSYNC_TOKEN", whole=True),
    Mistake("password in the address", JOB.replace("shop", f"me:{SECRET}@shop"), 1, "url",
            "a password does not belong", "Remove the user and the", whole=True, schema=False),
    Mistake("user in the address", JOB.replace("shop", "me@shop"), 1, "url",
            "must be an address without user and password", "Remove the user and the", whole=True,
            schema=False),
    Mistake("database whose password has an @",
            other('mode = "push"\nquery = "SELECT 1"\ndatabase = "pg://u:${AT_SIGN}@host/db"'), 5,
            "jobs.catalogue.database", "one @, in front of the host", "as %40",
            schema=False, whole=True),
    Mistake("job named as another's plan for its sheet",
            '[jobs."catalogue.sheet"]\nmode = "check"\nsheet = "b.csv"', 6, "jobs.catalogue.sheet",
            'a state file of job "catalogue"', "another name", schema=False),
    Mistake("job named as a file of another's folder",
            other('mode = "push"\nfolder = "in"')
            + '[jobs."catalogue--a.csv"]\nmode = "check"\nsheet = "b.csv"', 5,
            "jobs.catalogue--a.csv", 'a state file of job "catalogue"', "another name", whole=True,
            schema=False),
    Mistake("password of a database",
            other(f'mode = "push"\nquery = "SELECT 1"\ndatabase = "pg://u:{SECRET}@host/db"'), 5,
            "jobs.catalogue.database", "a password does not belong", 'database = "${CATALOGUE_DB}"',
            whole=True, schema=False),
    Mistake("address of notices in the clear", f'[notify]\nurls = ["slack://{SECRET}"]', 7,
            "notify.urls", "a secret does not belong in a file", 'urls = ["${PETSYNC_NOTIFY}"]'),
    Mistake("variable that is not set", 'token = "${NOT_SET}"', 6, "jobs.catalogue.token",
            "variable NOT_SET is not set", "Set NOT_SET", schema=False),
    Mistake("variable that is empty", 'tags = ["${EMPTY}"]', 6, "jobs.catalogue.tags",
            "variable EMPTY is empty", "Set EMPTY", schema=False),
    Mistake("variable without a name", 'tags = ["${shop-tag}"]', 6, "jobs.catalogue.tags",
            "names no environment variable", "letters, digits and _", schema=False),
    Mistake("variable as a shell writes it", 'token = "$SHOP_KEY"', 6, "jobs.catalogue.token",
            "a secret does not belong", 'token = "${SHOP_KEY}"'),
    Mistake("two ways to sign in",
            'token = "${SHOP_KEY}"\nclient_id = "me"\nclient_secret = "${SHOP_KEY}"', 8,
            "jobs.catalogue.client_secret", "another way to sign in", "Keep one", schema=False),
    Mistake("secret of nobody", 'client_secret = "${SHOP_KEY}"', 6,
            "jobs.catalogue.client_secret", "no effect without client_id", "Write client_id too",
            schema=False),
    Mistake("secret over http",
            other('mode = "push"\nsheet = "a.csv"\ntoken = "${SHOP_KEY}"').replace("https", "http"),
            2, "jobs.catalogue", "unencrypted", 'allow_http = ["shop.example"]', whole=True,
            schema=False),
    Mistake("no service", '[jobs.catalogue]\nmode = "push"\nsheet = "a.csv"', 1,
            "jobs.catalogue", "no service is named", "PETSYNC_URL", whole=True, schema=False),
    Mistake("address that is none", JOB.replace("https://", ""), 1, "url",
            "base URL of a service", 'Write, for example, url = "https://shop.example/v2"',
            whole=True, schema=False),
    Mistake("profile", f'profile = "alive"\n{JOB}', 1, "profile", 'is "alive"', '"live"',
            whole=True),
    Mistake("field of the profile", '[service]\narray_stile = "csv"', 7, "service.array_stile",
            "no such option", "Did you mean array_style?"),
    Mistake("value of the profile", '[service]\nmedia = "jsn"', 7, "service.media",
            'is "jsn"', 'media = "json"'),
    Mistake("number of the profile", '[service]\ncapacity = "x"', 7, "service.capacity",
            'is "x", and must be a whole number', "docs/profiles.md explains it"),
    Mistake("address that is no text", "[auth]\ntoken_url = 3", 7, "auth.token_url", "must be text",
            "docs/sign-in.md explains it"),
    Mistake("where one signs in", '[auth]\ntoken_uri = "https://a.example"', 7,
            "auth.token_uri", "no such option", "token_url"),
    Mistake("column of a sheet", '[jobs.catalogue.columns]\nTier = "nam"', 7,
            "jobs.catalogue.columns.Tier", 'is "nam"', 'Tier = "name"', schema=False),
    Mistake("two headers for a column",
            '[jobs.catalogue.columns]\nTier = "name"\nPet = "name"', 6,
            "jobs.catalogue.columns", "mapped to the column name", "Keep the header", schema=False),
    Mistake("status that the service lacks", 'statuses = ["avalable"]', 6,
            "jobs.catalogue.statuses", 'no status "avalable"', 'mean "available"', schema=False),
    Mistake("text in place of a list", 'tags = "shop"', 6, "jobs.catalogue.tags",
            "must be a list of text", 'tags = ["shop"]'),
    Mistake("empty list", "statuses = []", 6, "jobs.catalogue.statuses", "not empty",
            "remove the line"),
    Mistake("twice in a list", 'tags = ["shop", "shop"]', 6, "jobs.catalogue.tags",
            "must be there only once", "Remove the second"),
    Mistake("column to match on", 'match_on = ["nane"]', 6, "jobs.catalogue.match_on",
            'has "nane"', 'Write "name" there'),
    Mistake("text in place of a number", 'concurrency = "16"', 6, "jobs.catalogue.concurrency",
            "a whole number from 1 to 128", "concurrency = 16"),
    Mistake("number that is too large", "concurrency = 999", 6, "jobs.catalogue.concurrency",
            "is 999", "concurrency = 128"),
    Mistake("text in place of true", 'strict = "yes"', 6, "jobs.catalogue.strict",
            "must be true or false", "strict = true"),
    Mistake("rate", 'rate = "fast"', 6, "jobs.catalogue.rate", "requests per second",
            'rate = "20/s"'),
    Mistake("timeout", "timeout = 0", 6, "jobs.catalogue.timeout", "seconds above 0",
            "timeout = 30"),
    Mistake("too few fields", 'schedule = "@daily"', 6, "jobs.catalogue.schedule",
            "it has 1 field", 'schedule = "0 0 * * *"'),
    Mistake("hour of a schedule", 'schedule = "0 25 * * *"', 6, "jobs.catalogue.schedule",
            "field 2, the hour", "for example 2", schema=False),
    Mistake("day that never comes", 'schedule = "0 2 30 2 *"', 6, "jobs.catalogue.schedule",
            "never", "does not have that day", schema=False),
    Mistake("day that only some crons know", 'schedule = "0 2 L * *"', 6,
            "jobs.catalogue.schedule", "field 3, the day of the month", "In place of L",
            schema=False),
    Mistake("share as a fraction", "[jobs.catalogue.guard]\nmax_update = 0.1", 7,
            "jobs.catalogue.guard.max_update", "is 0.1", 'max_update = "10%"'),
    Mistake("share above all", '[jobs.catalogue.guard]\nmax_delete = "150%"', 7,
            "jobs.catalogue.guard.max_delete", 'is "150%"', 'max_delete = "100%"', schema=False),
    Mistake("sentinel", '[jobs.catalogue.guard]\nsentinels = ["7"]', 7,
            "jobs.catalogue.guard.sentinels", 'has "7"', "Write 7 there"),
    Mistake("event", '[notify]\non = ["failures"]', 7, "notify.on", 'has "failures"',
            'Write "failure" there'),
    Mistake("time of the digest", '[notify]\ndigest = "25:00"', 7, "notify.digest",
            "a time of day", 'digest = "07:00"'),
    Mistake("duration", '[notify]\nremind = "1 day"', 7, "notify.remind", "with its unit",
            'remind = "1d"'),
    Mistake("event of a template", '[notify.templates.failed]\ntitle = "a"', 6,
            "notify.templates.failed", "the name must be", "failure"),
    Mistake("name in a template", '[notify.templates.failure]\ntitle = "$jbo"', 7,
            "notify.templates.failure.title", "$jbo", "notifications.md", schema=False),
    Mistake("how many reports", '[report]\nkeep = "all"', 7, "report.keep",
            "a whole number from 0", "keep = 30"),
    Mistake("format of the log", '[log]\nformat = "jsn"', 7, "log.format", 'is "jsn"',
            'format = "json"'),
    Mistake("file of the metrics", '[metrics]\ntextfile = "a.txt"', 7, "metrics.textfile",
            "end in .prom", 'textfile = "a.prom"', schema=False),
    Mistake("log into a sheet", '[log]\nfile = "./catalogue.xlsx"', 7, "log.file",
            'from which job "catalogue" reads', 'file = "petsync.log"', schema=False),
    Mistake("log among the sheets",
            '[jobs.b]\nmode = "check"\nfolder = "in"\n[log]\nfile = "in/a.txt"', 10,
            "log.file", 'from which job "b" reads', 'file = "petsync.log"', schema=False),
    Mistake("log among the sheets, in capitals",
            '[jobs.b]\nmode = "check"\nfolder = "in"\n[log]\nfile = "in/A.TXT"', 10,
            "log.file", 'from which job "b" reads', 'file = "petsync.log"', schema=False),
    Mistake("metrics for everybody", '[metrics]\nlisten = "0.0.0.0:9464"', 7, "metrics.listen",
            "other machines can read", "127.0.0.1:9464", schema=False),
    Mistake("metrics without a port", '[metrics]\nlisten = "localhost"', 7, "metrics.listen",
            "must be HOST:PORT", '"127.0.0.1:9464"'),
    Mistake("text in place of a list of variables", '[notify]\nurls = "${SHOP_KEY}"', 7,
            "notify.urls", "must be a list", 'urls = ["${SHOP_KEY}"]'),
    Mistake("table in a job", '[jobs.catalogue.notify]\non = ["failure"]', 6,
            "jobs.catalogue.notify", "no such option here", "under [notify]"),
    Mistake("guard at the top", "[guard]\nmax_add = 5", 6, "guard", "no such option here",
            "under [jobs.NAME.guard]"),
    Mistake("tracing", '[tracing]\nenabled = "on"', 7, "tracing.enabled", "true or false",
            "enabled = true"),
    Mistake("secret in the place of a job", f'[jobs]\ncatalogue = "https://me:{SECRET}@shop"', 2,
            "jobs.catalogue", "is text, and must be a table", "Write [jobs.catalogue] in its place",
            whole=True),
    Mistake("secret in the place of a table", f'notify = "slack://{SECRET}/a/b"\n{JOB}', 1,
            "notify", "is text, and must be a table", "Write [notify] in its place", whole=True),
    Mistake("table that is none", f"report = 5\n{JOB}", 1, "report", "must be a table",
            "[report]", whole=True),
    Mistake("two jobs with one sheet",
            '[jobs.again]\nmode = "push"\nsheet = "./catalogue.xlsx"', 8, "jobs.again.sheet",
            "works with the same sheet", "a different sheet", schema=False),
    Mistake("a folder that has the sheet", '[jobs.all]\nmode = "push"\nfolder = "."', 8,
            "jobs.all.folder", "works with the same sheet", "a different sheet", schema=False),
    Mistake("the same twice",
            other('mode = "push"\nsheet = "a.csv"')
            + '[jobs.again]\nmode = "push"\nsheet = "a.csv"', 7, "jobs.again.sheet",
            "sends the same sheet", "Remove one of the two", whole=True, schema=False),
    Mistake("the same twice, and the address is written in two ways",
            other('mode = "push"\nsheet = "a.csv"') + '[jobs.again]\nmode = "push"\n'
            'sheet = "a.csv"\nurl = "https://Shop.example:443/v2/"', 7, "jobs.again.sheet",
            "sends the same sheet", "Remove one of the two", whole=True, schema=False),
    Mistake("jobs that lead against one another",
            'delete_missing = true\n[jobs.new]\nmode = "push"\nsheet = "new.csv"', 8,
            "jobs.new.mode", "adds again", "statuses, tags", schema=False),
)  # fmt: skip

SYNTAX = (
    Mistake("path in double quotes", r'tab = "C:\shop\pets"', 6, "", "a \\ begins",
            "single quotes"),
    Mistake("missing quote", 'tab = "Pets', 6, "", "a quotation mark", "begins and ends"),
    Mistake("quotes that curl", "tab = “Pets”", 6, "", "typographic", "straight"),
    Mistake("time with a dot", "[notify]\ndigest = 06.30", 7, "", "in quotes",
            'Write digest = "06.30"'),
    Mistake("no equals sign", 'tab "Pets"', 6, "", "there is no =", 'tab = "Pets"'),
    Mistake("as in YAML", "tab: Pets", 6, "", "YAML", 'tab = "Pets"'),
    Mistake("word without quotes", "tab = Pets", 6, "", "in quotes", 'tab = "Pets"'),
    Mistake("true in capitals", "strict = True", 6, "", "a flag must be true or false",
            "strict = true"),
    Mistake("no value", "tab =", 6, "", "no value", "remove the line"),
    Mistake("table twice", '[log]\nlevel = "info"\n[log]\nformat = "json"', 8, "log",
            "is defined twice, first on line 6", "Join both"),
    Mistake("key twice", 'mode = "push"', 6, "mode", "is defined twice, first on line 4",
            "Keep one"),
    Mistake("header that is open", "[log", 6, "", "] is missing", "Write ] at its end"),
    Mistake("list that is open", 'tags = ["shop",\nstrict = true', 6, "", "a list is not closed",
            '["a", "b"]'),
    Mistake("table that is open", 'columns = { Tier = "name"\nstrict = true', 6, "",
            "{ } is not closed", '{ a = "b" }'),
    Mistake("time without quotes", "[notify]\nremind = 24h", 7, "", "in quotes", 'remind = "24h"'),
    Mistake("share without quotes", "guard.max_add = 10%", 6, "", "in quotes",
            'guard.max_add = "10%"'),
    Mistake("as in JSON", '"strict": true,', 6, "", "YAML", "strict = true"),
    Mistake("comment of another language", "// nothing", 6, "", "not a comment", "begins with #"),
    Mistake("header with a space", '[columns]\nPet name = "name"', 7, "", "in quotes",
            '"Pet name" ='),
    Mistake("header beyond a to z", '[columns]\nGröße = "name"', 7, "", "in quotes", '"Größe" ='),
    Mistake("job with a space", "[jobs.new pets]", 6, "", "must not have spaces",
            "[jobs.new-pets]"),
    Mistake("key twice, over two lines",
            f'[notify]\nurls = ["${{A}}"]\nurls = [\n"{SECRET}"]\n\n', 8, "urls",
            "is defined twice, first on line 7", "Keep one"),
    Mistake("address alone", f"https://me:{SECRET}@shop.example/v2?a=b", 6, "", "not TOML",
            "petsync init"),
    Mistake("list alone", f'["{SECRET}"', 6, "", "] is missing", "at its end"),
    Mistake("secret without quotes", f"token = {SECRET}", 6, "", "in quotes", 'token = "…"'),
)  # fmt: skip
_ALL = re.sub(r"^#(?=[\w\[])", "", example(), flags=re.MULTILINE)
_ALL = re.sub(r"^#.*\n|\n(?=\n)", "", _ALL, flags=re.MULTILINE)
_ALL_SET = dict.fromkeys(re.findall(r"\$\{(\w+)\}", _ALL), SECRET)
ENVIRON = {"EMPTY": "", "SHOP_KEY": SECRET, "AT_SIGN": f"p@{SECRET}", "OLD_SHEET": "pets.xlx"}


def problems(folder: Path, text: str) -> tuple[Problem, ...]:
    """Return the problems of the file."""
    with pytest.raises(ConfigurationError) as caught:
        configured(folder, text, ENVIRON)
    assert caught.value.exit_code == 64
    assert SECRET not in f"{caught.value} {caught.value.problems!r}"
    assert caught.value.__context__ is None
    assert SECRET not in text or not [*_iter_frames_with_secret(caught.value)]
    return caught.value.problems


def _iter_frames_with_secret(error: BaseException) -> Iterator[str]:
    """Yield the functions of petsync whose local variables show the secret of a file."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        is_own = "/petsync/config/" in frame.f_code.co_filename
        if is_own and SECRET in pretty_repr(dict(frame.f_locals)):
            yield frame.f_code.co_qualname


@pytest.mark.parametrize("mistake", [*MISTAKES, *SYNTAX], ids=lambda mistake: mistake.name)
def test_a_mistake_is_reported(tmp_path: Path, mistake: Mistake) -> None:
    """A mistake is reported with file, line, key, problem and suggestion, and no other problem."""
    (result,) = problems(tmp_path, mistake.file)
    assert (result.file, result.key) == (str(tmp_path / "petsync.toml"), mistake.key)
    assert result.line == mistake.line
    assert mistake.says in result.message
    assert mistake.suggests in result.suggestion


def test_there_are_many_mistakes() -> None:
    """The lists have more than 80 mistakes, each once."""
    names = [mistake.name for mistake in (*MISTAKES, *SYNTAX)]
    assert len(set(names)) == len(names) > 80


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    """Mistakes of several jobs and tables are reported together, in the order of the file."""
    text = (
        'url = "https://shop.example/v2"\n[jobs.a]\nmode = "tow-way"\nsheet = "a.xlx"\n'
        '[jobs.b]\nmode = "push"\n[notify]\non = ["failures"]\nurls = ["${NOT_SET}"]\n'
    )
    result = problems(tmp_path, text)
    assert [each.key for each in result] == [
        "jobs.a.mode",
        "jobs.a.sheet",
        "jobs.b",
        "notify.on",
        "notify.urls",
    ]
    assert [each.line for each in result] == [3, 4, 5, 8, 9]


@pytest.mark.parametrize("key", ["mode", "sheet", "tab", "profile", "schedule", "rate", "url"])
def test_what_the_environment_adds_is_not_shown(tmp_path: Path, key: str) -> None:
    """A message about a value with a variable shows the variable's name and never its content."""
    lines = {"mode": '"push"', "sheet": '"a.csv"', "url": '"https://shop.example"'}
    lines[key] = '"x ${SHOP_KEY}\\ty"'
    text = "".join(f"{name} = {value}\n" for name, value in lines.items())
    text = f"[jobs.a]\n{text}[report]\nkeep = -1\n"
    assert problems(tmp_path, text)


@settings(max_examples=times(30), deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_reported(data: st.DataObject) -> None:
    """A randomly damaged file is either read or reported with problems; each has an existing line
    and a suggestion, and no secret.
    """
    text = _ALL
    for _ in range(data.draw(st.integers(1, 3))):
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        piece = text[start : min(end, start + 40)]
        put = data.draw(st.integers(0, len(text)))
        kept = data.draw(st.booleans())
        text = text if kept else text[:start] + text[start + len(piece) :]
        text = text[:put] + piece + text[put:]
    with TemporaryDirectory() as folder:
        found = mistakes_in(Path(folder), text)
    for result in found or ():
        assert 1 <= result.line <= text.count("\n") + 1
        assert result.suggestion
        assert SECRET not in repr(result)
    assert found != ()


def mistakes_in(folder: Path, text: str) -> tuple[Problem, ...] | None:
    """Return all mistakes of a file; None if it is valid."""
    try:
        configured(folder, text, _ALL_SET)
    except ConfigurationError as error:
        return error.problems
    return None


def test_a_long_list_is_not_parsed_again_for_each_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of a mistake behind a list of 2,000 lines is found without 2,000 attempts."""
    attempts = []
    loads = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: attempts.append(text) or loads(text))
    values = "".join(f'  "{number}",\n' for number in range(2_000))
    rule = f'[[rules]]\nname = "a"\ncolumns = ["id"]\nvalues = [\n{values}]\nsevrity = "error"\n'
    (result,) = problems(tmp_path, f"{JOB}{rule}")
    assert (result.line, result.key) == (2_011, "rules[1].sevrity")
    assert len(attempts) < 100


def test_a_line_of_many_is_found(tmp_path: Path) -> None:
    """The line is correct after multi-line values, inline tables, dotted keys and quoted names."""
    text = (
        '# first\nurl = """\\\n   https://shop.example/v2"""\n\njobs.a.mode = "push"\n'
        'jobs.a.sheet = "a.csv"\njobs.a.tags = [\n  "one", # a ] in a comment\n  "two",\n]\n'
        "jobs.a.guard = { max_add = 1,\n max_delete = -1 }\n"
        '["jobs" . \'b c\']\n"mode" = "check"\nsheet = "b.csv"\nrate = 0\n'
    ).replace(",\n max_delete", ", max_delete")
    result = problems(tmp_path, text)
    assert [(each.line, each.key) for each in result] == [
        (11, "jobs.a.guard.max_delete"),
        (12, "jobs.b c"),
        (15, "jobs.b c.rate"),
    ]


def test_a_sheet_is_no_configuration(tmp_path: Path) -> None:
    """A sheet that is named in place of a petsync.toml is an error that says how to use it."""
    for name, data in (("pets.xlsx", b"PK\x03\x04\x81"), ("my pets.csv", b"id,name\n7,Rex\n")):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ConfigurationError, match="is a sheet, not a configuration") as caught:
            load(path, {})
        assert f"`petsync plan {shlex.quote(str(path))}`" in caught.value.cure


@pytest.mark.parametrize(
    ("data", "line", "says"),
    [
        ("url = 'ä'".encode("latin-1"), 1, "byte 0xe4 is not UTF-8"),
        (b"\n\nurl = '\xff'", 3, "byte 0xff is not UTF-8"),
        ("url = 'a'".encode("utf-16"), 1, "UTF-16"),
    ],
)
def test_a_file_that_is_no_text(tmp_path: Path, data: bytes, line: int, says: str) -> None:
    """A file that is not UTF-8 is reported with the first invalid line."""
    path = tmp_path / "petsync.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigurationError) as caught:
        load(path, {})
    (result,) = caught.value.problems
    assert result.line == line
    assert says in result.message
    assert "UTF-8" in result.suggestion


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The error for a missing file names `petsync init`."""
    with pytest.raises(ConfigurationError, match="petsync init"):
        load(tmp_path, {})


def test_a_variable_of_petsync_is_checked_too(tmp_path: Path) -> None:
    """PETSYNC_PROFILE is checked like the file's `profile`, and the advice names the variable."""
    with pytest.raises(ConfigurationError) as caught:
        load(file_with(tmp_path, JOB), {"PETSYNC_PROFILE": "alive"})
    (result,) = caught.value.problems
    assert (result.key, result.line) == ("PETSYNC_PROFILE", 1)
    assert result.suggestion == 'Write PETSYNC_PROFILE = "live".'


@pytest.mark.parametrize("value", [SECRET, SECRET * 10, f'{SECRET}"\\', "k3y"])
def test_the_address_of_a_variable_is_not_shown(tmp_path: Path, value: str) -> None:
    """A mistake in PETSYNC_URL is reported without its value, which may be a misplaced secret."""
    with pytest.raises(ConfigurationError) as caught:
        load(file_with(tmp_path, JOB), {"PETSYNC_URL": value})
    (result,) = caught.value.problems
    assert (result.key, result.line) == ("PETSYNC_URL", 1)
    assert "base URL of a service" in result.message
    assert "PETSYNC_URL" in result.suggestion
    assert value[:12] not in f"{caught.value} {result!r}"


def test_a_key_like_pydantic_s_own_is_a_key(tmp_path: Path) -> None:
    """A key named `[key]` is reported as the file has it."""
    with pytest.raises(ConfigurationError) as caught:
        load(file_with(tmp_path, f'"[key]" = 1\ncolumns = {{ "[key]" = "bogus" }}\n{JOB}'), {})
    first, second = caught.value.problems
    assert (first.key, first.message) == ("[key]", "there is no such option")
    assert second.key == "columns.[key]"
    assert "bogus" in second.message
