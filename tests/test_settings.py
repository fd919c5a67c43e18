"""Settings: argument > PETSYNC_* > petsync.toml > default; and the service's profile."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from petsync import trust
from petsync._files import make_state_folder
from petsync.apply.journal import Journal
from petsync.cli import main
from petsync.client import auth
from petsync.config.load import load
from petsync.config.settings import read_settings
from petsync.config.variables import read_variables
from petsync.errors import ConfigurationError, PetsyncError, SettingsError
from petsync.profile import LIVE, STANDARD, ServiceProfile, profile_from
from petsync.settings import Secret, Settings, resolve


def toml(folder: Path, text: str) -> Path:
    """Write a petsync.toml with this text, and return its folder."""
    (folder / "petsync.toml").write_text(text, encoding="utf-8")
    return folder


def test_an_argument_stands_before_a_variable_before_the_file_before_the_default(
    tmp_path: Path,
) -> None:
    """Each key takes the value of the first source that has it."""
    text = 'url = "https://file.example"\nprofile = "live"\nstate = "file-state"\ntimeout = 5'
    environ = {"PETSYNC_URL": "variable", "PETSYNC_STATE": "variable-state"}
    arguments = {"url": "argument", "profile": None}
    settings = read_settings(arguments, environ, toml(tmp_path, text))
    assert (settings.url, settings.profile, settings.timeout) == ("argument", "live", 5)
    assert settings.state == Path("variable-state")
    assert read_settings({}, {}, tmp_path / "empty") == resolve({}, {}) == Settings()


def test_secrets_come_from_the_environment_and_never_show() -> None:
    """Secrets from the environment are trimmed and are masked in every text of the settings."""
    environ = {"PETSYNC_TOKEN": " t0ken\n", "PETSYNC_API_KEY": "k3y"}
    settings = resolve({}, environ)
    assert settings.token == Secret("t0ken")
    assert settings.api_key is not None
    assert settings.api_key.reveal() == "k3y"
    assert "t0ken" not in repr(settings)
    assert "k3y" not in f"{settings}"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    with pytest.raises(TypeError):
        pickle.dumps(settings)


def test_a_table_in_the_wrong_place_is_refused(tmp_path: Path) -> None:
    """A limit that would not apply is a mistake for every command: `[guard]` belongs to a job."""
    with pytest.raises(ConfigurationError, match=r"jobs\.NAME\.guard"):
        read_settings({}, {}, toml(tmp_path, 'url = "https://a.example"\n[guard]\nmax_delete = 1'))
    tables = toml(tmp_path, '[jobs.nightly]\nsheet = "a.csv"\n[log]\nlevel = "debug"')
    assert read_settings({}, {}, tables) == Settings()


def test_a_file_that_cannot_be_looked_at_is_an_error(tmp_path: Path) -> None:
    """A petsync.toml that is a circle of links is not ignored."""
    (tmp_path / "petsync.toml").symlink_to("petsync.toml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_settings({}, {}, tmp_path)


def test_the_environment_completes_the_file(tmp_path: Path) -> None:
    """${NAME} in any text of the file is replaced and $$ is a dollar; an unset variable is an error
    that names it, unless another source overrides the key.
    """
    text = 'url = "https://${HOST}/v2"\nallow_http = ["${HOST}"]\ncolumns = { "$$" = "name" }'
    toml(tmp_path, text)
    environ = {"HOST": "shop.example", "PETSYNC_VARIABLES": "HOST"}
    settings = read_settings({}, environ, tmp_path)
    assert (settings.url, settings.allow_http) == ("https://shop.example/v2", ("shop.example",))
    for unset in ({}, {"HOST": ""}):
        says = r"petsync.toml:1: url: the environment variable HOST is"
        with pytest.raises(SettingsError, match=says):
            read_settings({}, {**environ, "HOST": "", **unset}, tmp_path)
    given = {"url": "https://a.example", "allow_http": []}
    assert read_settings(given, {}, tmp_path).url == "https://a.example"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("url = 5", 'url: is 5, and must be text\n  Write url = "5".'),
        ("timeout = true", "timeout: is true, and must be a number of seconds above 0"),
        ("allow_http = 'host'", 'must be a list of hosts\n  Write allow_http = ["host"].'),
        ("colour = 'red'", "colour: there is no such option\n  Did you mean columns?"),
        ("token = 'abc123'", "token: it does not belong at the top of a file that is shared"),
        ("url = ", "there is no value after the ="),
        ("timeout = 0", "timeout: is 0, and must be a number of seconds above 0"),
        ("timeout = nan", "timeout: is nan, and must be"),
        ("timeout = inf", "timeout: is inf, and must be"),
        ("state = ''", 'state: is "", and must be text that is not empty'),
        ("allow_http = [5]", "allow_http: has 5, which must be text"),
        ("columns = { Nr = 5 }", "columns.Nr: is 5, and must be one of the columns id, name"),
        ("columns = { Nr = 'nummer' }", 'columns.Nr: is "nummer", and must be one of'),
        ("jobs = 5", "jobs: is 5, and must be a table\n  Write [jobs.NAME] in its place"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_key(tmp_path: Path, text: str, says: str) -> None:
    """The error names file, line, key, value and expected type, and shows no token."""
    with pytest.raises(SettingsError) as caught:
        read_settings({}, {}, toml(tmp_path, text))
    assert says in str(caught.value)
    assert f"{tmp_path / 'petsync.toml'}:1: " in str(caught.value)
    assert "abc123" not in str(caught.value)
    assert caught.value.exit_code == 64


def test_a_mapping_may_name_each_column(tmp_path: Path) -> None:
    """A header can be mapped to every column of a sheet, in any spelling that a header may have."""
    from petsync.sheets.headers import ACTION
    from petsync.table.columns import COLUMNS

    for column in (*COLUMNS, ACTION, "Photo URLs", "category-id"):
        text = f"[columns]\nNr = '{column}'"
        named = read_settings({}, {}, toml(tmp_path, text)).columns["Nr"]
        assert named == column.lower().replace(" ", "_").replace("-", "_")


def test_an_argument_is_checked_as_the_file_is() -> None:
    """An invalid value of an argument is refused like one of the file."""
    for given in (
        {"timeout": -1.0},
        {"timeout": "5"},
        {"state": ""},
        {"state": 5},
        {"allow_http": "a.example"},
        {"allow_http": 5},
    ):
        with pytest.raises(SettingsError, match="must be"):
            resolve(given, {})


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    """A file in another encoding is an error, not a guess."""
    (tmp_path / "petsync.toml").write_bytes(b"url = '\xff'")
    with pytest.raises(SettingsError, match="byte 0xff is not UTF-8"):
        read_settings({}, {}, tmp_path)


def test_single_fields_of_a_profile_can_be_set(tmp_path: Path) -> None:
    """[service] replaces single fields of the named profile."""

    def profile(text: str) -> ServiceProfile:
        settings = read_settings({}, {}, toml(tmp_path, text))
        return profile_from(settings.profile, settings.service)

    own = profile('profile = "live"\nservice = { array_style = "csv", statuses = ["new", "old"] }')
    assert (own.array_style, own.statuses) == ("csv", ("new", "old"))
    assert own.required == LIVE.required
    assert profile("") == STANDARD
    assert profile("service = { capacity = 50 }").capacity == 50
    assert profile('profile = "live"\nservice = { capacity = 0 }').capacity is None


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ("colour = 1", "service.colour: there is no such option"),
        ("media = 'yaml'", 'service.media: is "yaml", and must be "json" or "xml"'),
        ("any_status = 'yes'", "must be true or false\n  Write any_status = true."),
        ("statuses = 'sold'", 'is "sold", and must be a list of text'),
        ("statuses = ['a', 1]", "must be a list of text"),
        ("api_key_header = 5", "is 5, and must be a header's name"),
        ("api_key_header = 'a b'", 'is "a b", and must be a header\'s name'),
        ("api_key_header = ''", "must be a header's name"),
        ("statuses = []", "not empty"),
        ("statuses = ['a,b']", "without commas"),
        ("capacity = -1", "is -1, and must be a whole number, 0 for no limit"),
        ("capacity = true", "a whole number, 0 for no limit"),
        ("assigns_unique_ids = 1", "must be true or false"),
    ],
)
def test_a_field_that_cannot_be_is_named(tmp_path: Path, service: str, says: str) -> None:
    """The error of an invalid field of the profile names it and its valid values."""
    with pytest.raises(SettingsError) as caught:
        read_settings({}, {}, toml(tmp_path, f"[service]\n{service}"))
    assert says in str(caught.value)


def test_an_unknown_profile_is_named() -> None:
    """The error of an unknown profile names it and the known ones."""
    with pytest.raises(SettingsError, match="profile 'mine' is unknown\nKnown: standard, live"):
        profile_from("mine")


@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
def test_a_file_that_never_ends_is_refused(kind: str, tmp_path: Path) -> None:
    """A petsync.toml that is a pipe, a device or a file of 20 MB is refused by every reader."""
    path = tmp_path / "petsync.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(b"#" * 20_000_000)
    why = "larger than 16 MB" if kind == "large" else "not a regular file"
    with pytest.raises(SettingsError, match=why):
        read_settings({}, {}, tmp_path)
    with pytest.raises(ConfigurationError, match=why):
        load(path, {})


_READERS: dict[str, Callable[[Path], object]] = {"from_file": auth.from_file, "env": read_variables}


@pytest.mark.parametrize("name", _READERS)
def test_a_pipe_with_settings_or_secrets_is_refused(name: str, tmp_path: Path) -> None:
    """A pipe is refused before it is opened, because a pipe without a writer blocks for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingsError, match="not a regular file"):
        _READERS[name](tmp_path / "pipe")


@pytest.mark.parametrize("args", [["trust", "pipe"], ["doctor", "--token-file", "pipe"]])
def test_a_pipe_in_a_command_is_refused(
    args: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command that is given a pipe reports it and ends with exit code 64."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(SystemExit) as ended:
        main([*args, *(["--url", "http://127.0.0.1:9/v2"] if "doctor" in args else [])])
    assert ended.value.code == 64
    assert "not a regular file" in capsys.readouterr().err


def test_a_pipe_in_place_of_the_records_of_confirmed_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe in place of trusted.json is an error, and no file counts as confirmed."""
    monkeypatch.setenv("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "petsync").mkdir()
    os.mkfifo(trust.record_path())
    with pytest.raises(SettingsError, match=r"trusted\.json cannot be read"):
        trust.is_confirmed(tmp_path / "petsync.toml", {})


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "sign-in.json", "deep/memory"])
def test_a_pipe_in_the_state_folder_is_refused(name: str, tmp_path: Path) -> None:
    """A pipe in place of any file of the state folder is refused."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match=f"{name} in the state folder is not a regular file"):
        make_state_folder(tmp_path)
    for create in (False, True):
        with pytest.raises(PetsyncError, match="not a regular file"):
            Journal.open(tmp_path, create=create)


def test_a_journal_that_becomes_a_pipe_is_refused(tmp_path: Path) -> None:
    """A journal that is replaced by a pipe after the check of its folder is refused."""
    Journal.open(tmp_path, create=True)
    path = tmp_path / "journal.db"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(PetsyncError, match="not a regular file"):
        Journal.open(tmp_path, create=False)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:pw@h:8080/v2", "https://***@h:8080/v2"),
        ("https://me:p@w@h/x@y", "https://***@h/x@y"),
        ("me:pw@h/v2", "***@h/v2"),
        ("http://me:a/pw@h", "http://***@h"),
        ("http://me:a?pw@h", "http://***@h"),
        ("http://[me:a#pw@h/v2?key=pw", "http://***@h/v2?***"),
        ("https://h/v2?key=pw", "https://h/v2?***"),
    ],
)
def test_an_address_hides_what_may_be_a_password(url: str, shown: str) -> None:
    """User and password, query and fragment of an address are hidden at once, also without a scheme
    and in an address that cannot be read.
    """
    assert resolve({"url": url}, {}).url == shown


@pytest.mark.parametrize("url", ["https://h/v2//x@y/z", "http://h:80/@", "h/v2", " https://h/v2/"])
def test_an_address_without_a_password_stays(url: str) -> None:
    """An address that has no user, password, query or fragment is used as it is."""
    assert resolve({"url": url}, {}).url == url


def test_a_refused_file_shows_no_secret_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No frame of an error has a secret of the file: neither if its state folder is refused, nor if
    the confirmations cannot be read.
    """
    path = toml(tmp_path, 'url = "https://me:s3cret@h/v2"\nstate = "/elsewhere"')
    given = {"url": "https://h/v2"}
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for says in ("outside of the file's folder", "cannot be read"):
        with pytest.raises(SettingsError, match=says) as caught:
            read_settings(given, {}, path)
        for frame, _ in traceback.walk_tb(caught.value.__traceback__):
            is_own = "/petsync/" in frame.f_code.co_filename
            assert not is_own or "s3cret" not in pretty_repr(dict(frame.f_locals))
        trust.record_path().parent.mkdir(parents=True, exist_ok=True)
        trust.record_path().write_text("no JSON")
