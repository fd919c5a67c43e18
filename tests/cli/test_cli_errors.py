"""Errors of the command line: exit codes, messages, hints, and no secrets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from commands import COMMANDS, PROGRAM, READING, Shell, finished, process, to
from scripted import ScriptedServer, answer

from petsync.apply.journal.rows import note_journal
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

TOKEN = "s3cret-t0ken"


def test_error_goes_to_stderr_with_its_hint(shell: Shell) -> None:
    """An error is one line with a hint, without a traceback; stdout stays empty."""
    done = shell("doctor")
    assert (done.code, done.out) == (64, "")
    first, *hint = done.err.splitlines()
    assert first == "error: no service is given"
    assert "PETSYNC_URL" in " ".join(hint)
    assert "Traceback" not in done.err


def test_json_error_is_the_one_document(shell: Shell) -> None:
    """With --json an error is the only document on stdout."""
    done = shell("check", "nowhere.xlsx", "--json")
    assert done.code == 1
    assert done.json["error"].keys() == {"type", "message", "hint", "exit_code"}
    assert done.json["error"]["type"] == "SheetError"
    assert "nowhere.xlsx" in done.json["error"]["message"]


@pytest.mark.parametrize(
    "command",
    ["apply", "plan", "check", "rehearse", "export", "upload", "diff", "reconcile", "trust"],
)
def test_an_empty_name_is_not_the_current_folder(shell: Shell, box: Sandbox, command: str) -> None:
    """A name that is empty, such as that of an unset variable in a script, is a usage error: the
    files of the current folder are neither read nor sent.
    """
    Path("new.csv").write_text("name,status,photo_urls\nRex,sold,https://x/1.jpg\n", "utf-8")
    Path("petsync.toml").write_text('[jobs.a]\nmode = "push"\nsheet = "new.csv"\n', "utf-8")
    before = box.pets()
    more = ["new.csv"] if command == "diff" else []
    more += ["--yes"] if command in ("apply", "upload", "trust") else []
    done = shell(command, "", *to(box), *more)
    assert (done.code, box.pets()) == (64, before)
    assert "the name is empty" in done.err


@pytest.mark.parametrize(
    "args",
    [["--json"], ["--json", "plna"], ["plan", "--json"], ["check", "x.csv", "--no-such", "--json"]],
)
def test_json_usage_error(shell: Shell, args: list[str]) -> None:
    """With --json a usage error is JSON too."""
    done = shell(*args)
    assert done.code == 64
    assert done.json["error"]["type"] == "UsageError"
    assert done.json["error"]["exit_code"] == 64
    assert "--help" in done.json["error"]["hint"]


_WITHOUT_A_STORE = ("demo", "serve", "app", "resume", "undo", "runs", "upload", "login", "logout")
_WITHOUT_A_STORE += ("reconcile", "init", "config", "trust", "completion")
"""Commands with their own store, or that first read the journal, the disk, the keyring or
petsync.toml.
"""


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in _WITHOUT_A_STORE])
def test_store_that_is_not_there(shell: Shell, command: str) -> None:
    """Each command reports a service that cannot be reached as a typed error."""
    Path("a.csv").write_text("id,name\n1,Rex\n", "utf-8")
    named = {"doctor": [], "whoami": [], "export": ["a.xlsx"], "diff": ["a.csv", "store:"]}
    args = named.get(command, ["a.csv"])
    done = shell(command, *args, "--url", "http://127.0.0.1:1/v2")
    if command == "check":
        assert done.code == 0
    else:
        assert done.code == 1
        assert "http://127.0.0.1:1/v2 cannot be reached" in " ".join((done.out + done.err).split())


def test_verbose_shows_the_traceback(shell: Shell) -> None:
    """-v shows an error's traceback."""
    assert "Traceback" in shell("check", "nowhere.xlsx", "-v").err
    assert "Traceback" in shell("-v", "check", "nowhere.xlsx").err


def test_verbose_tells_of_repeats(shell: Shell, box: Sandbox) -> None:
    """-v logs the requests that were sent again; without it nothing is logged."""
    box.set_faults("503=1,first=1")
    assert "503" in shell("export", "a.csv", *to(box), "-v").err
    box.set_faults("503=1,first=1")
    assert ": 503" not in shell("export", "a.csv", *to(box)).err


def test_no_output_ever_holds_the_token(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused token is in no message, log or traceback, at the highest verbosity."""
    monkeypatch.setenv("PETSYNC_TOKEN", TOKEN)
    monkeypatch.setenv("PETSYNC_API_KEY", TOKEN + "-key")
    for command in (["plan", "a.csv"], ["doctor"], ["export", "a.csv"]):
        done = shell(*command, *to(guarded), "-vv")
        assert done.code == 1
        assert "401" in done.out + done.err
        assert TOKEN not in done.out + done.err


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (307, {"location": "http://me:pw-s3cret@{host}/v2/pet/findByStatus"}),
        (503, {"retry_after": "Wed, 21 Oct 99999999999 07:28:00 GMT"}),
    ],
)
def test_no_traceback_of_an_odd_answer_holds_the_token(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, status: int, headers: dict[str, str]
) -> None:
    """A redirect with a password and a date that overflows are ordinary errors; with -vv the
    traceback contains no secret.
    """
    monkeypatch.setenv("PETSYNC_TOKEN", TOKEN)
    with ScriptedServer(b"") as server:
        host = server.url.removeprefix("http://").partition("/")[0]
        there = {name: value.format(host=host) for name, value in headers.items()}
        server._script = [answer(status, **there)]
        done = shell("export", "a.csv", "--url", server.url, "-vv")
    assert server.requests
    assert TOKEN in server.requests[0]
    assert (done.code, "fault in petsync" in done.err) == (1, False)
    assert "Traceback" in done.err
    assert not [secret for secret in (TOKEN, "pw-s3cret") if secret in done.err]


def test_unexpected_failure_is_one_line(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in petsync itself is reported as one line that names -v, and exits with 1."""
    Path("a.csv").write_text("id,name\n1,Rex\n", "utf-8")

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setattr("petsync.report.views.sheet.sheet_view", broken)
    done = shell("check", "a.csv")
    assert done.code == 1
    assert done.err.startswith("error: unexpected: ZeroDivisionError: one two\n")
    assert "-v" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("where", ["before", "after"])
def test_common_options_on_either_side(shell: Shell, box: Sandbox, where: str) -> None:
    """The options of every command work before the command's name and after it."""
    common = [*to(box), "--json"]
    args = [*common, "doctor"] if where == "before" else ["doctor", *common]
    assert shell(*args).json["url"] == box.url


def test_later_common_option_counts(shell: Shell, box: Sandbox) -> None:
    """If a common option is given twice, the later one is used."""
    assert shell("--url", "http://127.0.0.1:1/v2", "doctor", *to(box)).code == 0


def test_environment_stands_in_for_options(
    shell: Shell, guarded: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PETSYNC_URL, PETSYNC_PROFILE and PETSYNC_TOKEN are used if no option is given."""
    monkeypatch.setenv("PETSYNC_URL", guarded.url)
    monkeypatch.setenv("PETSYNC_TOKEN", guarded.token())
    monkeypatch.setenv("PETSYNC_PROFILE", "live")
    done = shell("doctor", "--json")
    assert (done.json["url"], done.json["profile"]) == (guarded.url, "live")
    assert shell("doctor", "--profile", "standard", "--json").json["profile"] == "standard"


def test_settings_file_stands_in_for_options(shell: Shell, box: Sandbox) -> None:
    """petsync.toml in the current folder names the service; a secret in it is refused."""
    Path("petsync.toml").write_text(f'url = "{box.url}"\n', "utf-8")
    assert shell("doctor", "--json").json["url"] == box.url
    Path("petsync.toml").write_text('token = "abc"\n', "utf-8")
    refused = shell("doctor")
    assert refused.code == 64
    assert "petsync.toml:1: token: it does not belong at the top" in refused.err
    assert "Set PETSYNC_TOKEN" in refused.err


def test_unknown_profile_is_a_usage_error(shell: Shell, box: Sandbox) -> None:
    """An unknown profile is reported with the known ones."""
    done = shell("doctor", *to(box), "--profile", "lvie")
    assert done.code == 64
    assert "'lvie'" in done.err
    assert "standard, live" in done.err


def test_token_from_a_file(shell: Shell, guarded: Sandbox) -> None:
    """--token-file reads the token from a file that only its owner can read, without a warning."""
    Path("token").write_text(guarded.token() + "\n", "utf-8")
    Path("token").chmod(0o600)
    done = shell("export", "a.csv", *to(guarded), "--token-file", "token")
    assert done.code == 0
    assert "warning" not in done.err


def test_token_file_that_others_can_read(shell: Shell, guarded: Sandbox) -> None:
    """A token file that others can read is used, with a warning."""
    Path("token").write_text(guarded.token(), "utf-8")
    Path("token").chmod(0o644)
    done = shell("export", "a.csv", *to(guarded), "--token-file", "token")
    assert done.code == 0
    assert "chmod 600" in done.err


def test_token_from_standard_input(shell: Shell, guarded: Sandbox) -> None:
    """--token-file - reads the token from standard input."""
    args = ["export", "a.csv", *to(guarded), "--token-file", "-"]
    assert shell(*args, stdin=guarded.token() + "\n").code == 0


@pytest.mark.parametrize("text", ["", "two words", "a\nb"])
def test_file_that_holds_no_token(shell: Shell, guarded: Sandbox, text: str) -> None:
    """A file that is not one word contains no token, and its content is not shown."""
    Path("token").write_text(text, "utf-8")
    Path("token").chmod(0o600)
    done = shell("doctor", *to(guarded), "--token-file", "token")
    assert done.code == 64
    assert "--token-file" in done.err
    assert text == "" or text not in done.err
    for name in ("eyJhbGciOi.tfxbk", 300 * "tfxbk"):
        # The token itself instead of a file is not shown.
        done = shell("doctor", *to(guarded), "--token-file", name)
        assert "--token-file cannot be read" in done.err
        assert "tfxbk" not in done.err


def test_token_over_plain_http_is_refused(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is not sent to another host over http; --allow-http must name this host."""
    monkeypatch.setenv("PETSYNC_TOKEN", TOKEN)
    done = shell("export", "a.csv", "--url", "http://shop.invalid/v2")
    assert done.code == 64
    assert "--allow-http shop.invalid" in done.err
    allowed = shell("export", "a.csv", "--url", "http://shop.invalid/v2", "--allow-http", "x")
    assert allowed.code == 64


@pytest.mark.parametrize("form", ["text", "json"])
def test_reader_that_goes_away_is_no_error(box: Sandbox, tmp_path: Path, form: str) -> None:
    """`petsync plan … | head` ends without an error message when the pipe is closed."""
    sheet = tmp_path / "a.csv"
    sheet.write_text("id,name,status\n1,Max,available\n", "utf-8")
    with process("plan", sheet, *to(box), "--format", form) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(120) == 1


@pytest.mark.parametrize("args", [["plan"], ["plan", "--json"], ["check", "--json"]])
def test_full_disk_is_one_line(shell: Shell, box: Sandbox, args: list[str]) -> None:
    """Output that cannot be written, also an error as JSON, ends with one line and exit code 1."""
    Path("a.csv").write_text("id,name\n1,Max\n", "utf-8")
    for name in ("a.csv", "nowhere.csv"):
        with Path("/dev/full").open("w") as full:
            done = finished(*args, name, *to(box), stdout=full)
        assert done.code == 1
        message = "no such file" if args == ["plan"] and name == "nowhere.csv" else "No space left"
        assert done.err.startswith("error: ")
        assert message in done.err
        assert "Traceback" not in done.err


@pytest.mark.parametrize("closed", [">&-", ">&- <&-", ">&- 2>&-"])
def test_closed_output_is_one_line(shell: Shell, box: Sandbox, closed: str) -> None:
    """With a closed standard output no request is sent; the error is on stderr, unless that is
    closed too.
    """
    Path("a.csv").write_text("id,name\n1,Max\n", "utf-8")
    args = [*PROGRAM, "apply", "a.csv", *to(box), "--yes"]
    script = ["sh", "-c", f'"$@" {closed}', "sh", *args]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert ("standard output is closed" in done.stderr) == ("2>" not in closed)
    assert "Traceback" not in done.stderr
    assert not box.requests


def test_errors_fit_the_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors and hints are wrapped between words; a word, such as a path, is never broken."""
    path = "folder/" + "x" * 90 + ".csv"
    lines = shell("check", path).err.splitlines()
    assert any(path in line for line in lines)
    assert all(len(line) <= 80 or " " not in line.strip() for line in lines)
    lines = shell("plan", "a.csv").err.splitlines()
    assert max(map(len, lines)) <= 80
    monkeypatch.setenv("COLUMNS", "40")
    assert max(map(len, shell("plan", "a.csv").err.splitlines())) <= 40


@pytest.mark.parametrize("value", ["5", "true", '["id"]', '"nummer"', '""'])
def test_mapping_to_no_column_is_a_usage_error(shell: Shell, value: str) -> None:
    """[columns] maps to petsync's columns; any other value is an error that names its key."""
    Path("a.csv").write_text("Nr\n1\n", "utf-8")
    Path("petsync.toml").write_text(f"[columns]\nNr = {value}\n", "utf-8")
    done = shell("check", "a.csv")
    assert done.code == 64
    says = (
        f"petsync.toml:2: columns.Nr: is {value}, and must be one of the columns id, name, status"
    )
    assert says in " ".join(done.err.split())


def test_interrupt_while_reading(box: Sandbox, tmp_path: Path) -> None:
    """Ctrl-C in a command that only reads ends it with 130 and one line."""
    box.set_faults("latency=20")
    with process("export", tmp_path / "a.csv", *to(box)) as running:
        while not box.requests:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert (out, err.strip()) == ("", "error: interrupted")
    assert not (tmp_path / "a.csv").exists()


def test_service_cannot_steer_the_terminal(shell: Shell) -> None:
    """Control characters in a service's error are shown by name."""
    reply = answer(500, b"\x1b]0;owned\x07 \xe2\x80\xaetxt", content_type="text/plain")
    with ScriptedServer(reply) as server:
        done = shell("export", "a.csv", "--url", server.url, "-v")
    assert done.code == 1
    assert "[ESC]]0;owned" in done.err
    assert "\x1b" not in done.err
    assert "\u202e" not in done.err


def test_no_colour_in_a_pipe(box: Sandbox, tmp_path: Path) -> None:
    """Output that does not go to a terminal has no escape sequence."""
    sheet = tmp_path / "a.csv"
    sheet.write_text("id,name,status\n1,Max,available\n", "utf-8")
    done = finished("plan", sheet, *to(box), env={"TERM": "xterm-256color"})
    assert "1 to change" in done.out
    assert "\x1b" not in done.out + done.err


def test_name_that_the_terminal_cannot_show(box: Sandbox, tmp_path: Path) -> None:
    """A stream whose encoding is ASCII gets escapes, not a traceback."""
    sheet = tmp_path / "a.csv"
    sheet.write_text("id,name\n4,Одаː\n", "utf-8")
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    program = [*PROGRAM, "plan", str(sheet), *to(box)]
    done = subprocess.run(program, env=env, capture_output=True, check=False)
    assert done.returncode == 0
    assert b"\\u041e" in done.stdout


def test_json_is_utf8_everywhere(box: Sandbox, tmp_path: Path) -> None:
    """JSON on stdout is UTF-8 whatever encoding the terminal has."""
    sheet = tmp_path / "a.csv"
    sheet.write_text("id,name\n4,Одаː\n", "utf-8")
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    program = [*PROGRAM, "plan", str(sheet), *to(box), "--json"]
    done = subprocess.run(program, env=env, capture_output=True, check=True)
    assert json.loads(done.stdout)["plan"]["changes"][0]["after"]["name"] == "Одаː"


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "last"),
        ("runs",),
        ("resume",),
        ("undo", "last"),
        ("plan", "pets.csv"),
        ("apply", "pets.csv", "--yes"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("problem", ["folder", "unreadable"])
def test_a_journal_that_cannot_be_read_is_named(
    shell: Shell, box: Sandbox, words: tuple[str, ...], problem: str
) -> None:
    """A folder in place of the journal, or a state folder that the system refuses, is an error that
    names the file and the way out, and nothing is sent.
    """
    Path("pets.csv").write_text("id,name\n1,Max\n", "utf-8")
    # The system refuses this name to every user, and a folder without permission not to root.
    state, cure = Path("x" * 300), "Use a shorter name"
    if problem == "folder":
        state, cure = Path(".petsync"), "Remove or rename what is there"
        (state / "journal.db").mkdir(parents=True)
    done = shell(*words, "--state", state, *to(box))
    text = " ".join(done.err.split())
    assert done.code == 1
    assert f"{state}/" in text
    assert "cannot be read" in text
    assert cure in text or "Make sure that you may read" in text
    assert "--state" in text
    assert not set(box.requests) - READING


def test_other_journals_that_cannot_be_read_stop_no_plan(
    shell: Shell, box: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A plan leaves out the runs of a state folder that the user may no longer read, and the notes
    on such folders if their own folder cannot be read.
    """
    Path("pets.csv").write_text("id,name\n1,Max\n", "utf-8")
    note_journal(box.url, Path("x" * 300).absolute())
    assert shell("plan", "pets.csv", *to(box)).code == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("x" * 300)))
    assert shell("plan", "pets.csv", *to(box)).code == 0
