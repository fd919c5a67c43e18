"""petsync.toml as a Configuration: every option arrives, in the right order of precedence."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable
from datetime import time
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from configured import JOB, configured, file_with

from petsync._files import EDITABLE, READABLE
from petsync.config.load import load
from petsync.config.model import OPTIONS, TABLES, Configuration, Job, toml_value
from petsync.config.settings import read_settings
from petsync.config.tools import example
from petsync.errors import ConfigurationError
from petsync.plan.guard import Guard, Limit
from petsync.settings import Secret, Settings
from petsync.table.rules import SheetRule

ENVIRON = {
    "SHOP_TOKEN": "t0ken-of-the-shop",
    "SHOP_API_KEY": "k3y-of-the-shop",
    "SHOP_CLIENT_SECRET": "s3cret-of-the-client",
    "CATALOGUE_DB": "postgresql://me:pa55word@db.example/pets",
    "PETSYNC_NOTIFY": "json://hook.example/s3cret",
}
ADOPTED = ["available", "pending", "sold", "adopted"]
SQL = "SELECT id, name, status FROM pets"
QUERY = 'query = "SELECT 1"\ndatabase = "sqlite:///a.db"'


class Arrives(NamedTuple):
    """The place of an option's example in the configuration, and its value; `beside` are other
    options that it needs, in place of a sheet if they are a source.
    """

    at: str | Callable[[Configuration, Path], Any]
    value: Any
    beside: str = ""


def job(name: str, value: Any, beside: str = "") -> Arrives:
    """Return an option of the job with the same name."""
    return Arrives(lambda config, _: getattr(config.jobs[0], name), value, beside)


def path(name: str, file: str, beside: str = "") -> Arrives:
    """Return an option whose path is relative to the file's folder."""
    return Arrives(lambda config, folder: attrgetter(name)(config) == folder / file, True, beside)


def _of_job(name: str, file: str) -> Arrives:
    return Arrives(lambda config, folder: getattr(config.jobs[0], name) == folder / file, True)


def rule(name: str, value: Any, beside: str = 'name = "price"\ncolumns = ["Price EUR"]') -> Arrives:
    """Return an option of the first rule of the job, with the same name."""
    return Arrives(lambda config, _: getattr(config.jobs[0].rules[0], name), value, beside)


CHECKED = 'columns = ["Price EUR"]\nrequired = true'
RULE = f'name = "price"\n{CHECKED}'
ARRIVES = {
    ("", "url"): job("url", "https://shop.example/v2"),
    ("", "profile"): job("profile", "live"),
    ("", "state"): Arrives("state", Path("/var/lib/petsync")),
    ("", "allow_http"): job("allow_http", ("shop.internal",)),
    ("", "timeout"): job("timeout", 60.0),
    ("", "service"): job("service", {"statuses": tuple(ADOPTED)}),
    ("", "columns"): job("columns", {"Tiername": "name"}),
    ("", "auth"): job("auth", {"token_url": "https://login.example/token"}),
    ("jobs", "url"): job("url", "https://shop.example/v2"),
    ("jobs", "profile"): job("profile", "live"),
    ("jobs", "allow_http"): job("allow_http", ("shop.internal",)),
    ("jobs", "timeout"): job("timeout", 60.0),
    ("jobs", "service"): job("service", {"statuses": tuple(ADOPTED)}),
    ("jobs", "columns"): job("columns", {"Tiername": "name"}),
    ("jobs", "auth"): job("auth", {"token_url": "https://login.example/token"}),
    ("jobs", "mode"): job("mode", "two-way"),
    ("jobs", "sheet"): _of_job("sheet", "catalogue.xlsx"),
    ("jobs", "tab"): job("tab", "Pets"),
    ("jobs", "encoding"): job("encoding", "cp1252"),
    ("jobs", "folder"): _of_job("folder", "inbox"),
    ("jobs", "files"): job("files", "*.csv", 'folder = "inbox"'),
    ("jobs", "query"): job("query", SQL, 'database = "sqlite:///a.db"'),
    ("jobs", "query_file"): job("query", "SELECT 2", 'database = "sqlite:///a.db"'),
    ("jobs", "database"): job("database", Secret(ENVIRON["CATALOGUE_DB"]), 'query = "SELECT 1"'),
    ("jobs", "enabled"): job("enabled", False),
    ("jobs", "token"): job("token", Secret("t0ken-of-the-shop")),
    ("jobs", "api_key"): job("api_key", Secret("k3y-of-the-shop")),
    ("jobs", "client_id"): job("client_id", "nightly"),
    ("jobs", "client_secret"): job(
        "client_secret", Secret("s3cret-of-the-client"), 'client_id = "nightly"'
    ),
    ("jobs", "statuses"): job("statuses", ("available", "pending")),
    ("jobs", "tags"): job("tags", ("shop",)),
    ("jobs", "delete_missing"): job("delete_missing", True),
    ("jobs", "match_on"): job("match_on", ("name",)),
    ("jobs", "on_conflict"): job("on_conflict", "store"),
    ("jobs", "strict"): job("strict", True),
    ("jobs", "concurrency"): job("concurrency", 4),
    ("jobs", "rate"): job("rate", 20.0),
    ("jobs", "verify"): job("verify", False),
    ("jobs", "max_failures"): job("max_failures", 20),
    ("jobs", "schedule"): job("schedule", "0 2 * * *"),
    ("guard", "max_delete"): job("guard", Guard(max_delete=Limit(25, is_share=False))),
    ("guard", "max_update"): job("guard", Guard(max_update=Limit(0.5))),
    ("guard", "max_add"): job("guard", Guard(max_add=Limit(500, is_share=False))),
    ("guard", "allow_empty"): job("guard", Guard(allow_empty=True)),
    ("guard", "sentinels"): job("guard", Guard(sentinels=(1001,))),
    ("rules", "name"): rule("name", "price", CHECKED),
    ("rules", "columns"): rule("columns", ("Price EUR",), 'name = "price"\nrequired = true'),
    ("rules", "severity"): rule("severity", "warning", RULE),
    ("rules", "message"): rule("message", "Ask the buyers for the price.", RULE),
    ("rules", "enabled"): rule("enabled", False, RULE),
    ("rules", "applies_to"): rule("applies_to", "store", RULE.replace("Price EUR", "category")),
    ("rules", "required"): rule("required", True),
    ("rules", "unique"): rule("unique", True),
    ("rules", "values"): rule("values", ("cat", "dog")),
    ("rules", "pattern"): rule("pattern", "[A-Z]{2}-[0-9]{4}"),
    ("rules", "min_length"): rule("min_length", 2),
    ("rules", "max_length"): rule("max_length", 40),
    ("rules", "minimum"): rule("minimum", 0.0),
    ("rules", "maximum"): rule("maximum", 999.99),
    ("rules", "expression"): rule(
        "expression", "status != 'sold' or [Price EUR] > 0", 'name = "price"'
    ),
    ("owners", "name"): job("owners", {"name": "sheet"}),
    ("owners", "status"): job("owners", {"status": "store"}),
    ("owners", "category"): job("owners", {"category": "sheet"}),
    ("owners", "tags"): job("owners", {"tags": "sheet"}),
    ("owners", "photo_urls"): job("owners", {"photo_urls": "never"}),
    ("notify", "urls"): Arrives("notify.urls", (Secret("json://hook.example/s3cret"),)),
    ("notify", "on"): Arrives("notify.on", ("failure", "recovery", "waiting")),
    ("notify", "digest"): Arrives("notify.digest", time(6, 30)),
    ("notify", "remind"): Arrives("notify.remind", 43_200.0),
    ("templates", "title"): Arrives(
        lambda config, _: config.notify.templates["failure"][0], "petsync: $job $status"
    ),
    ("templates", "body"): Arrives(
        lambda config, _: config.notify.templates["failure"][1], "$problem"
    ),
    ("report", "folder"): path("report.folder", "reports"),
    ("report", "keep"): Arrives("report.keep", 30),
    ("log", "format"): Arrives("log.format", "json"),
    ("log", "level"): Arrives("log.level", "warning"),
    ("log", "file"): path("log.file", "petsync.log"),
    ("metrics", "textfile"): path("metrics.textfile", "petsync.prom"),
    ("metrics", "listen"): Arrives("metrics.listen", "127.0.0.1:9464"),
    ("metrics", "public"): Arrives("metrics.listen", "0.0.0.0:9464", 'listen = "0.0.0.0:9464"'),
    ("tracing", "enabled"): Arrives("tracing", True),
}
SOURCES = ("sheet", "folder", "query", "query_file")


def of_shop(settings: Settings) -> bool:
    """Return true if the settings have the url of the shop, and otherwise the defaults."""
    usual = Settings(url="https://shop.example/v2")
    return dataclasses.replace(settings, unconfirmed=False) == usual


def text_with(table: str, name: str, example: str, beside: str) -> str:
    """Return a file with the example of the option, and little else."""
    lines = {"url": 'url = "https://shop.example/v2"'}
    source = 'sheet = "catalogue.xlsx"'
    is_source = table == "jobs" and any(
        re.search(rf"^{each}\b", f"{name}\n{beside}", re.MULTILINE) for each in SOURCES
    )
    mode = "push" if "database" in f"{name}{beside}" else "two-way"
    of_job = {"mode": f'mode = "{mode}"', "source": "" if is_source else source}
    own = {"own": f"{name} = {example}\n{beside}"}
    if table == "":
        lines |= {name: f"{name} = {example}"}
    elif table == "jobs":
        of_job |= {"mode": f'mode = "{mode}"'} | (own if name != "mode" else {})
    text = "\n".join([*lines.values(), "[jobs.catalogue]", *of_job.values()])
    if table in ("", "jobs"):
        return text
    header = TABLES[table].header().replace("NAME", "catalogue").replace("EVENT", "failure")
    return f"{text}\n[{header}]\n{own['own']}"


def test_every_option_has_its_test() -> None:
    """The list of this module has all options."""
    assert set(ARRIVES) == {(option.table, option.name) for option in OPTIONS}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: f"{option.table}.{option.name}")
def test_an_option_arrives(tmp_path: Path, option: Any) -> None:
    """The example of an option, which differs from the default, arrives in the configuration."""
    arrives = ARRIVES[option.table, option.name]
    (tmp_path / "pets.sql").write_text("SELECT 2", encoding="utf-8")
    text = text_with(option.table, option.name, option.example, arrives.beside)
    found = configured(tmp_path, text, ENVIRON)
    at = arrives.at
    assert (attrgetter(at)(found) if isinstance(at, str) else at(found, tmp_path)) == arrives.value


def test_defaults_are_those_of_the_values(tmp_path: Path) -> None:
    """The documented default of an option is the Configuration's default."""
    plain = configured(tmp_path, JOB)
    texts = [
        (option, option.default)
        for option in OPTIONS
        if option.words != "a table" and toml_value(option.default) is not None
    ]
    assert len(texts) > 20
    for option, default in texts:
        if (option.table, option.name) == ("metrics", "public"):
            continue
        if option.table == "rules":
            assert getattr(SheetRule(name="a", columns=["b"], required=True), option.name) in (
                toml_value(default),
                option.name == "required",
            )
            continue
        beside = ARRIVES[option.table, option.name].beside
        if "folder" in beside:
            assert plain.jobs[0].files == toml_value(default)
            continue
        found = configured(tmp_path, text_with(option.table, option.name, default, beside))
        assert dataclasses.replace(found, jobs=()) == dataclasses.replace(plain, jobs=())
        lines = [each.jobs[0].model_copy(update={"line": 1}) for each in (found, plain)]
        assert lines[0] == lines[1], option.name


def test_the_top_is_the_default_of_each_job(tmp_path: Path) -> None:
    """The top level has the defaults of each job; `service` and `columns` are merged key by key."""
    text = (
        'url = "https://shop.example/v2"\ntimeout = 5\nprofile = "live"\n'
        '[service]\nmedia = "xml"\nany_status = false\n[columns]\nTier = "name"\nNr = "id"\n'
        '[jobs.a]\nmode = "push"\nsheet = "a.csv"\n'
        '[jobs.b]\nmode = "check"\nsheet = "b.csv"\ntimeout = 9\nprofile = "standard"\n'
        'url = "https://other.example/v2/"\nservice = { any_status = true }\n'
        '[jobs.b.columns]\n"Pet name" = "Name"\n'
    )
    first, second = configured(tmp_path, text).jobs
    assert (first.url, first.timeout, first.profile) == ("https://shop.example/v2", 5.0, "live")
    assert first.columns == {"Tier": "name", "Nr": "id"}
    assert (second.url, second.timeout) == ("https://other.example/v2", 9.0)
    assert second.profile == "standard"
    assert second.service == {"media": "xml", "any_status": True}
    assert second.columns == {"Nr": "id", "Pet name": "name"}
    assert (first.line, second.line) == (10, 13)


def test_a_rule_of_a_job_replaces_the_one_of_the_same_name(tmp_path: Path) -> None:
    """A job has the rules of the top and its own; its own replace those with the same name."""
    text = (
        'url = "https://shop.example/v2"\n'
        '[[rules]]\nname = "price"\ncolumns = ["Price"]\nminimum = 1\n'
        '[[rules]]\nname = "owner"\ncolumns = ["Owner"]\nrequired = true\n'
        '[jobs.a]\nmode = "push"\nsheet = "a.csv"\n'
        '[jobs.b]\nmode = "check"\nsheet = "b.csv"\n'
        '[[jobs.b.rules]]\nname = "Price"\ncolumns = ["Price"]\nminimum = 2\nenabled = false\n'
    )
    first, second = configured(tmp_path, text).jobs
    assert [(rule.name, rule.minimum) for rule in first.rules] == [("price", 1.0), ("owner", None)]
    assert [rule.name for rule in second.rules] == ["owner", "Price"]
    assert (second.rules[1].minimum, second.rules[1].enabled) == (2.0, False)
    assert [rule.name for rule in read_settings({}, {}, tmp_path).rules] == ["price", "owner"]


def test_a_rule_has_no_variables(tmp_path: Path) -> None:
    """`${NAME}` in a rule stays as it is: no variable reaches a finding."""
    text = f'{JOB}[[rules]]\nname = "a"\ncolumns = ["${{HOME}}"]\nvalues = ["${{HOME}}"]\n'
    text += 'message = "${HOME} $5"\n'
    (made,) = configured(tmp_path, text, {"HOME": "secret"}).jobs
    (rule,) = made.rules
    assert (rule.columns, rule.values, rule.message) == (("${HOME}",), ("${HOME}",), "${HOME} $5")


def test_the_environment_comes_before_the_top_and_after_the_job(tmp_path: Path) -> None:
    """PETSYNC_URL replaces the file's top `url` but not a job's; PETSYNC_STATE is relative to the
    working directory.
    """
    text = f'{JOB}[jobs.own]\nmode = "check"\nsheet = "b.csv"\nurl = "https://own.example/v2"\n'
    environ = {"PETSYNC_URL": "https://env.example/v2", "PETSYNC_STATE": "kept"}
    found = configured(tmp_path, text, environ)
    assert [each.url for each in found.jobs] == ["https://env.example/v2", "https://own.example/v2"]
    assert found.state == Path.cwd() / "kept"
    assert configured(tmp_path, JOB).state == tmp_path / ".petsync"


def test_a_secret_of_the_environment_goes_to_its_own_store_alone(tmp_path: Path) -> None:
    """PETSYNC_TOKEN and the top's [auth] go only to the store that the top names."""
    text = (
        f'{JOB}[jobs.other]\nmode = "check"\nsheet = "b.csv"\nurl = "https://other.example/v2"\n'
        '[auth]\nissuer = "https://login.example"\n'
    )
    environ = {"PETSYNC_TOKEN": " t0ken ", "PETSYNC_CLIENT_ID": "nightly"}
    first, second = configured(tmp_path, text, environ).jobs
    assert (first.token, first.client_id) == (Secret("t0ken"), "nightly")
    assert (second.token, second.client_id) == (None, "")
    assert (first.auth, second.auth) == ({"issuer": "https://login.example"}, {})


def test_a_secret_of_the_environment_goes_to_the_only_store(tmp_path: Path) -> None:
    """If the jobs name one store only, PETSYNC_TOKEN goes to it, except to a job with its own way
    to sign in.
    """
    url = 'url = "https://own.example/v2"\n'
    text = f'[jobs.a]\nmode = "check"\nsheet = "a.csv"\n{url}'
    text += f'[jobs.b]\nmode = "check"\nsheet = "b.csv"\n{url}api_key = "${{SHOP_API_KEY}}"\n'
    first, second = configured(tmp_path, text, {**ENVIRON, "PETSYNC_TOKEN": "t0ken"}).jobs
    assert (first.token, first.api_key) == (Secret("t0ken"), None)
    assert (second.token, second.api_key) == (None, Secret("k3y-of-the-shop"))


def test_secrets_are_known_and_never_shown(tmp_path: Path) -> None:
    """Every secret is in `secrets`, a database's password on its own too, and no repr shows one."""
    text = (
        f'{JOB}token = "${{SHOP_TOKEN}}"\n[jobs.db]\nmode = "check"\n'
        'query = "SELECT 1"\ndatabase = "${CATALOGUE_DB}"\n[notify]\nurls = ["${PETSYNC_NOTIFY}"]\n'
    )
    found = configured(tmp_path, text, ENVIRON)
    known = {secret.reveal() for secret in found.secrets}
    assert {ENVIRON[name] for name in ("SHOP_TOKEN", "CATALOGUE_DB", "PETSYNC_NOTIFY")} <= known
    assert "pa55word" in known
    assert not [text for text in known if text in repr(found)]


def test_names_of_the_environment_are_filled_in(tmp_path: Path) -> None:
    """`${NAME}` is replaced anywhere in a text; `$$` is a dollar, and templates keep theirs."""
    text = (
        'url = "https://${HOST}/v2"\n[jobs.a]\nmode = "push"\nsheet = "${NAME}.csv"\n'
        'tags = ["$$5", "$6", "${NAME}"]\n[notify.templates.failure]\ntitle = "${job} $$"\n'
    )
    found = configured(tmp_path, text, {"HOST": "shop.example", "NAME": "pets"})
    (made,) = found.jobs
    assert (made.url, made.sheet) == ("https://shop.example/v2", tmp_path / "pets.csv")
    assert made.tags == ("$5", "$6", "pets")
    assert found.notify.templates["failure"][0] == "${job} $$"


@pytest.mark.parametrize("beside", ["", "\ufeff"])
def test_a_file_is_read_as_editors_write_it(tmp_path: Path, beside: str) -> None:
    """A file with a byte order mark or Windows line ends is read, also by its folder's name."""
    text = f"{beside}{JOB}".replace("\n", "\r\n")
    (tmp_path / "petsync.toml").write_bytes(text.encode())
    found = load(tmp_path, {})
    assert found.path == tmp_path / "petsync.toml"
    assert found.jobs[0].line == 3
    assert of_shop(read_settings({}, {}, tmp_path))


@pytest.mark.parametrize(
    ("header", "line"),
    [("[jobs.a]", 2), ("[ jobs . 'a' ]", 2), ("[jobs]\na.mode = 'check'\n[jobs.a.guard]", 3)],
)
def test_a_job_knows_its_line(tmp_path: Path, header: str, line: int) -> None:
    """A job knows its line in the file, in every form of its table."""
    text = f'url = "https://shop.example/v2"\n{header}\nmode = "check"\nsheet = "a.csv"\n'
    if "guard" in header:
        text = text.replace('mode = "check"\nsheet = "a.csv"', "max_add = 1")
        text = text.replace("a.mode", "a.sheet = 'a.csv'\na.mode")
    assert configured(tmp_path, text).jobs[0].line == line


def test_the_other_commands_leave_the_new_tables_alone(tmp_path: Path) -> None:
    """A file with jobs serves every command; an unknown key gets a suggestion."""
    file_with(tmp_path, f'{JOB}[notify]\nurls = ["nonsense"]\n[tracing]\nenabled = 5\n')
    assert of_shop(read_settings({}, {}, tmp_path))
    file_with(tmp_path, "jbos = 5")
    with pytest.raises(ValueError, match=r"Did you mean jobs\?"):
        read_settings({}, {}, tmp_path)


def test_the_kinds_of_sheets_are_those_that_are_read(tmp_path: Path) -> None:
    """The configuration accepts every format that is read, and a job that writes into its sheet
    only the formats that are written.
    """
    for ending in READABLE:
        job = f'url = "https://shop.example/v2"\n[jobs.a]\nsheet = "a{ending}"\n'
        assert configured(tmp_path, f'{job}mode = "push"\n').jobs
        if ending in EDITABLE:
            assert configured(tmp_path, f'{job}mode = "two-way"\n').jobs
            continue
        with pytest.raises(ConfigurationError, match="petsync does not write into"):
            configured(tmp_path, f'{job}mode = "two-way"\n')


def uncommented(text: str) -> str:
    """Return the example with all its options enabled."""
    return re.sub(r"^#(?=[\w\[])", "", text, flags=re.MULTILINE)


def test_the_example_can_be_used_as_it_is(tmp_path: Path) -> None:
    """The example with a url is valid, and has one job with the documented mode and sheet."""
    found = configured(tmp_path, example("https://shop.example/v2"))
    (made,) = found.jobs
    assert isinstance(made, Job)
    assert (made.name, made.mode, made.sheet) == (
        "catalogue",
        "two-way",
        tmp_path / "catalogue.xlsx",
    )
    assert max(map(len, example().splitlines())) <= 90


def test_the_example_has_every_option(tmp_path: Path) -> None:
    """The example has every option, and is valid with all of them enabled."""
    (tmp_path / "pets.sql").write_text("SELECT 2", encoding="utf-8")
    text = uncommented(example())
    assert len(configured(tmp_path, text, ENVIRON).jobs) == 4
    content = tomllib.loads(text)
    shown = {("", name) for name in content} | {
        (table, name)
        for table, content in [
            *(("jobs", each) for each in content["jobs"].values()),
            *((name, content["jobs"]["catalogue"][name]) for name in ("guard", "owners")),
            ("templates", content["notify"]["templates"]["failure"]),
            *(("rules", each) for each in content["rules"]),
            *((name, content[name]) for name in ("notify", "report", "log", "metrics", "tracing")),
        ]
        for name in content
    }
    assert {(option.table, option.name) for option in OPTIONS} <= shown
