"""petsync config and petsync init: check, explain, schedule and create a configuration."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Shell, to

from petsync.config.tools import schema_text
from petsync.sandbox import Sandbox

JOB = """\
url = "https://shop.example/v2"

[jobs.catalogue]
mode = "two-way"
sheet = "catalogue.xlsx"
"""
TIMED = JOB + 'schedule = "30 2 1 * 1-5"\n'


def written(text: str, name: str = "petsync.toml") -> Path:
    """Write a file with this text in the shell's folder, and return its path."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_mistakes_are_listed(shell: Shell) -> None:
    """Each mistake is shown with its place and its fix, in 80 columns, on stderr; the exit code is
    64.
    """
    written(JOB.replace("two-way", "tow-way") + 'token = "s3cret"\n')
    done = shell("config", "check")
    assert (done.code, done.out) == (64, "")
    assert "error: petsync.toml has 2 mistakes\n" in done.err
    assert 'petsync.toml:4: jobs.catalogue.mode: is "tow-way"' in done.err
    assert '\n  Write mode = "two-way".\n' in done.err
    assert "s3cret" not in done.err
    assert max(map(len, done.err.splitlines())) <= 80


def test_mistakes_are_shown_in_json(shell: Shell) -> None:
    """--json has each mistake as an object, on stdout."""
    written(JOB.replace("two-way", "tow-way"))
    done = shell("config", "check", "--json")
    assert (done.code, done.err) == (64, "")
    (problem,) = done.json["problems"]
    assert done.json["ok"] is False
    assert (problem["file"], problem["line"]) == ("petsync.toml", 4)
    assert (problem["key"], problem["suggestion"]) == (
        "jobs.catalogue.mode",
        'Write mode = "two-way".',
    )


def test_a_file_that_is_not_there(shell: Shell) -> None:
    """A missing file is an error that names the command that writes one; --json reports it too."""
    assert "petsync init" in shell("config", "check").err
    assert shell("config", "check", "--json").json["error"]["type"] == "ConfigurationError"


def test_the_next_step_works(shell: Shell, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """`config check` suggests to confirm a file whose variables a round would refuse, to export a
    sheet that does not exist, and then to run the jobs.
    """
    monkeypatch.setenv("XDG_CONFIG_HOME", str(Path("config").absolute()))
    url, hook = f'url = "{box.url}"\n', '[notify]\nurls = ["${HOOK}"]\n'
    monkeypatch.setenv("HOOK", "json://127.0.0.1:9/hook")
    job = '[jobs.catalogue]\nmode = "two-way"\nsheet = "new.csv"\n'
    written(f"{url}{job}{hook}")
    assert shell("config", "check").err == "Next: petsync trust\n"
    assert "may not use" in shell("reconcile", "petsync.toml", "--dry-run").err
    shell("trust", "--yes")
    err = shell("config", "check").err
    export = f"petsync export new.csv --url {box.url}"
    assert f"catalogue: the sheet new.csv does not exist.\nNext: {export}\n" in err
    assert shell(*export.split()[1:]).code == 0
    *_, line = shell("config", "check").err.splitlines()
    assert line == "Next: petsync reconcile petsync.toml --dry-run"
    assert shell(*line.split()[2:]).code == 0


def test_the_meaning_is_shown(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job is explained in a few lines, without its secrets."""
    monkeypatch.setenv("SHOP_TOKEN", "t0ken-of-the-shop")
    monkeypatch.setenv("HOOK", "json://hook.example/s3cret")
    written(
        TIMED
        + 'token = "${SHOP_TOKEN}"\ntags = ["shop"]\ndelete_missing = true\n'
        + '[jobs.catalogue.guard]\nmax_add = 5\nsentinels = [7]\n[notify]\nurls = ["${HOOK}"]\n'
        + '[jobs.db]\nmode = "check"\nenabled = false\nquery = "SELECT\\n1"\n'
        + 'database = "sqlite:///a.db"\n[metrics]\nlisten = "127.0.0.1:9464"\n'
    )
    done = shell("config", "check")
    assert done.code == 0
    assert "the sign-in of these jobs once you\nconfirm the file: `petsync trust`.\n" in done.err
    assert done.err.endswith("\nNext: petsync trust\n")
    for line in (
        "catalogue (line 3): two-way, both sides are merged",
        "  store       https://shop.example/v2 with a token",
        "  pets        tagged shop",
        "  deletions   are synced too",
        "  guard       at most 10 % deleted, 30 % changed, 5 added; sentinels: 7",
        "db (line 15, off): check, nothing is changed, drift is reported",
        "  query       SELECT 1",
        "  metrics     127.0.0.1:9464",
    ):
        assert f"{line}\n" in done.out
    assert "  when        30 2 1 * 1-5, next 20" in done.out
    assert "to 1 address: failure" in done.out
    assert "t0ken" not in done.out
    assert "s3cret" not in done.out


def test_the_limits_that_hold_by_default_are_reported(shell: Shell) -> None:
    """The default limits are shown, with the least number of new pets that pass."""
    written(JOB)
    line = "at most 10 % deleted, 30 % changed, 50 % added (or 100, if that is more)"
    assert line in " ".join(shell("config", "check").out.split())


def test_a_variable_that_replaces_an_option_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`config check` names the variable of a value that does not come from the file."""
    own = 'url = "https://own.example/v2"\nprofile = "live"\n'
    written(f'{JOB}[jobs.own]\nmode = "check"\nsheet = "b.csv"\n{own}')
    assert "(from" not in shell("config", "check").out
    monkeypatch.setenv("PETSYNC_URL", "https://other.example/v2")
    monkeypatch.setenv("PETSYNC_PROFILE", "live")
    monkeypatch.setenv("PETSYNC_STATE", "kept")
    text = " ".join(shell("config", "check").out.split())
    assert "https://other.example/v2 (from PETSYNC_URL) (live) (from PETSYNC_PROFILE)" in text
    assert "https://own.example/v2 (live) pets" in text
    assert f"{tmp_path / 'kept'} (from PETSYNC_STATE)" in text
    names = shell("config", "check", "--json").json["variables"]
    assert names == ["PETSYNC_URL", "PETSYNC_PROFILE", "PETSYNC_STATE"]


def test_the_meaning_is_shown_in_json(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """--json explains each job as data; of a secret it has only the name."""
    monkeypatch.setenv("SHOP_TOKEN", "t0ken-of-the-shop")
    path = written(TIMED + 'token = "${SHOP_TOKEN}"\n', "sub/petsync.toml")
    done = shell("config", "check", "sub/petsync.toml", "--json")
    (job,) = done.json["jobs"]
    assert done.json["ok"] is True
    assert (job["name"], job["mode"], job["secrets"]) == ("catalogue", "two-way", ["token"])
    assert job["sheet"] == str(path.parent.resolve() / "catalogue.xlsx")
    assert job["guard"]["max_delete"] == "10 %"
    assert "t0ken" not in done.out


def test_the_schema_is_printed(shell: Shell) -> None:
    """`config schema` prints the schema in docs/."""
    done = shell("config", "schema")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == json.loads(schema_text())


def test_a_crontab_is_printed(shell: Shell, tmp_path: Path) -> None:
    """Each job with a schedule has a crontab line that a shell can parse and cron does not cut."""
    written(TIMED + '[jobs.other]\nmode = "check"\nsheet = "b.csv"\n', "50% off/petsync.toml")
    done = shell("config", "schedule", "50% off/petsync.toml")
    assert (done.code, done.err) == (0, "")
    (line,) = [line for line in done.out.splitlines() if not line.startswith("#")]
    assert line.startswith("30 2 1 * 1-5 cd ")
    assert r"50\% off" in line
    words = shlex.split(line.replace(r"\%", "%"))
    assert words[6] == str(tmp_path / "50% off")
    assert words[-4:] == ["reconcile", "petsync.toml", "--job", "catalogue"]
    called = shlex.join(words[words.index("exec") + 1 : -4])
    subprocess.run(["sh", "-n", "-c", line.partition("cd ")[2]], check=True)
    assert subprocess.run([*shlex.split(called), "--version"], check=False).returncode == 0


def test_systemd_units_are_printed(shell: Shell, tmp_path: Path) -> None:
    """A job has a service and a timer that systemd accepts, with the times of its schedule."""
    text = TIMED.replace("[jobs.catalogue]", '[jobs."the.catalogue-2"]')
    written(text, "50% off $HOME/petsync.toml")
    file = "50% off $HOME/petsync.toml"
    done = shell("config", "schedule", file, "--for", "systemd", "--into", "units")
    assert (done.code, done.out) == (0, "")
    assert "enable --now petsync-the.catalogue-2.timer" in done.err
    units = sorted(Path("units").iterdir())
    assert [unit.suffix for unit in units] == [".service", ".timer"]
    timer = units[1].read_text("utf-8")
    assert "OnCalendar=*-*-01 02:30:00\nOnCalendar=Mon,Tue,Wed,Thu,Fri *-*-* 02:30:00\n" in timer
    command = ["systemd-analyze", "verify", *map(str, units)]
    verified = subprocess.run(command, capture_output=True, text=True)
    assert verified.returncode == 0, verified.stderr
    assert "petsync-" not in verified.stderr
    shown = shell("config", "schedule", file, "--for", "systemd")
    assert shown.out.count("[Service]") == 1
    assert timer in shown.out
    assert (
        shell("config", "schedule", file, "--for", "systemd", "--json").json["units"][
            "petsync-the.catalogue-2.timer"
        ]
        == timer
    )


def test_units_are_written_and_shown_as_data(shell: Shell) -> None:
    """With --json, `config schedule --into` writes the units, and shows them as JSON."""
    written(TIMED)
    done = shell("config", "schedule", "--for", "systemd", "--into", "units", "--json")
    assert done.code == 0
    assert done.json["units"] == {
        unit.name: unit.read_text("utf-8") for unit in Path("units").iterdir()
    }


def test_an_edited_unit_is_kept_as_a_backup(shell: Shell) -> None:
    """`config schedule --into` keeps a unit that was edited as a backup, and no equal one."""
    written(TIMED)
    words = ("config", "schedule", "--for", "systemd", "--into", "units")
    assert shell(*words).code == 0
    before = {unit.name: unit.read_bytes() for unit in Path("units").iterdir()}
    edited = min(Path("units").iterdir())
    edited.write_bytes(b"[Service]\n")
    done = shell(*words)
    (backup,) = Path("units").glob(f"{edited.name}.backup-*")
    assert (done.code, backup.read_bytes()) == (0, b"[Service]\n")
    assert str(backup) in done.err
    assert shell(*words).code == 0
    backup.unlink()
    assert {unit.name: unit.read_bytes() for unit in Path("units").iterdir()} == before


def test_cron_as_data(shell: Shell) -> None:
    """--json has the crontab lines in one text."""
    written(TIMED)
    assert "30 2 1" in shell("config", "schedule", "--json").json["crontab"]


@pytest.mark.parametrize(
    ("text", "arguments", "says"),
    [
        (JOB, [], "no enabled job of petsync.toml has a schedule"),
        (TIMED + "enabled = false\n", [], "no enabled job of petsync.toml has a schedule"),
        (TIMED, ["--into", "units"], "--into works only with --for systemd"),
        (TIMED, ["--for", "systemd", "--into", "petsync.toml/a"], "cannot be written"),
    ],
)
def test_what_cannot_be_scheduled(shell: Shell, text: str, arguments: list[str], says: str) -> None:
    """A schedule that cannot be printed or written is an error with exit code 64."""
    written(text)
    done = shell("config", "schedule", *arguments)
    assert done.code == 64
    assert says in done.err


def test_init_writes_a_file_that_can_be_used(shell: Shell) -> None:
    """With an address, the new file has no mistake, and `init` never replaces an existing file."""
    done = shell("init", "new/folder", "--url", "https://shop.example/v2")
    assert (done.code, done.out) == (0, "")
    assert "petsync config check new/folder/petsync.toml" in done.err
    assert shell("config", "check", "new/folder/petsync.toml").code == 0
    assert "petsync config check 'a b/petsync.toml'" in shell("init", "a b").err
    written("mine", "new/folder/petsync.toml")
    again = shell("init", "new/folder")
    assert again.code == 64
    assert "already exists, and was not changed" in again.err
    assert Path("new/folder/petsync.toml").read_text("utf-8") == "mine"


def test_the_job_of_a_new_file_runs(shell: Shell, box: Sandbox) -> None:
    """After url and sheet are set, the new file's job runs: the store and its export are in
    sync.
    """
    assert shell("init").code == 0
    assert shell("export", "pets.xlsx", *to(box)).code == 0
    text = Path("petsync.toml").read_text("utf-8")
    text = text.replace('#url = "https://shop.example/v2"', f'url = "{box.url}"', 1)
    written(text.replace("catalogue.xlsx", "pets.xlsx"))
    done = shell("reconcile")
    assert done.code == 0
    assert "catalogue" in done.out


@pytest.mark.parametrize(
    ("url", "has_sheet", "says"),
    [
        ("", False, "Set url and sheet in it."),
        ("", True, "It is for catalogue.xlsx: set url in it."),
        ("http://127.0.0.1:1/v2", False, "It is for http://127.0.0.1:1/v2: set sheet in it."),
        ("http://127.0.0.1:1/v2", True, "It is for http://127.0.0.1:1/v2 and catalogue.xlsx."),
    ],
)
def test_init_says_what_is_to_be_set(shell: Shell, url: str, has_sheet: bool, says: str) -> None:
    """`init` names the address and the sheet that the new file has, and asks only for the rest."""
    if has_sheet:
        Path("catalogue.xlsx").touch()
    assert shell("init", *(["--url", url] if url else [])).err.startswith(
        f"petsync.toml was written. {says}\n"
    )
    assert '\nsheet = "catalogue.xlsx"\n' in Path("petsync.toml").read_text("utf-8")


def test_init_here_and_for_machines(shell: Shell) -> None:
    """Without a folder `init` writes to the current one; a place that cannot be written is
    reported.
    """
    assert shell("init", "--json").json == {"file": "petsync.toml"}
    assert "no service is named" in shell("config", "check").err
    assert "cannot be written" in shell("init", "petsync.toml/a").err


def test_long_paths_are_shown_in_80_columns(shell: Shell, tmp_path: Path) -> None:
    """No line is longer than 80 columns, except a longer path, which has its own line."""
    for length in (50, 70, 79, 120):
        folder = Path(f"/{'x' * (length - 1)}")
        log, text = tmp_path / "log", tmp_path / "petsync.toml"
        text.write_text(
            f'url = "https://shop.example/v2"\nstate = "{folder}"\n[jobs.catalogue]\n'
            f'mode = "push"\nsheet = "{folder}.csv"\n[report]\nfolder = "{folder}"\n'
            f'[metrics]\ntextfile = "{folder}.prom"\n[log]\nfile = "{log}"\n',
            "utf-8",
        )
        done = shell("config", "check", text)
        assert done.code == 0, done.err
        for line in done.out.splitlines():
            assert len(line) <= 80 or " " not in line, line
        assert str(folder) in done.out


@pytest.mark.parametrize("name", ["check", "schema", "schedule"])
def test_help_of_each(shell: Shell, name: str) -> None:
    """The help of each command fits 80 columns and has examples."""
    done = shell("config", name, "--help")
    assert done.code == 0
    assert f"petsync config {name}" in done.out.partition("Examples:")[2]
    assert max(map(len, done.out.splitlines())) <= 80


def test_cron_needs_no_secret(shell: Shell) -> None:
    """The crontab is printed before a variable is set. Other mistakes are still reported, also a
    schedule whose variable is not set.
    """
    written(TIMED + 'url = "${SHOP}"\ntoken = "${NO}"\n[notify]\nurls = ["${HOOK}"]\n')
    done = shell("config", "schedule")
    assert (done.code, done.err) == (0, "")
    assert "--job catalogue" in done.out
    written(TIMED + 'tokn = "${NO}"\n')
    assert "Did you mean token?" in shell("config", "schedule").err
    written(JOB + 'schedule = "${WHEN}"\n')
    unset = " ".join(shell("config", "schedule").err.split())
    assert "WHEN is not set" in unset
    assert "--env-file" not in unset  # `config schedule` has no such option.


@pytest.mark.parametrize("kind", ["cron", "systemd"])
def test_jobs_without_a_schedule_are_named(shell: Shell, kind: str) -> None:
    """Jobs without a schedule are named, because nothing starts them; a disabled job is not
    named.
    """
    off = '[jobs.off]\nmode = "check"\nsheet = "c.csv"\nenabled = false\n'
    written(TIMED + '[jobs.other]\nmode = "check"\nsheet = "b.csv"\n' + off)
    message = "Jobs that are left out because they have no schedule: other."
    assert f"# {message}\n" in shell("config", "schedule", "--for", kind).out
    assert message in shell("config", "schedule", "--for", "systemd", "--into", "units").err


@pytest.mark.parametrize("kind", ["cron", "systemd"])
def test_variables_of_the_shell_are_named(
    shell: Shell, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that decides in this shell is named, because cron and systemd do not set it. The
    job has no address without it.
    """
    monkeypatch.setenv("PETSYNC_URL", "https://shop.example/v2")
    note = "PETSYNC_URL is set in this shell only. Write it into petsync.env: PETSYNC_URL='…'"
    written(TIMED)
    assert "PETSYNC_URL" not in shell("config", "schedule", "--for", kind).out
    written(TIMED.partition("\n\n")[2])
    assert f"# {note}\n" in shell("config", "schedule", "--for", kind).out
    written_units = shell("config", "schedule", "--for", "systemd", "--into", "units")
    assert note in " ".join(written_units.err.split())


def test_variables_come_from_a_file(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables come from a file, which is suggested once; the environment has priority. A
    file that other users can read is a warning.
    """
    written(JOB.replace("https://shop.example/v2", "${SHOP}") + 'token = "${SHOP_TOKEN}"\n')
    unset = " ".join(shell("config", "check").err.split())
    assert (unset.count("is not set"), unset.count("--env-file FILE")) == (2, 1)
    file = written("# Ours\n\nSHOP=https://file.example/v2\nSHOP_TOKEN='s3 cret'\n", "our own.env")
    file.chmod(0o640)
    done = shell("config", "check", "--env-file", "our own.env")
    assert (done.code, "https://file.example/v2 with a token" in done.out) == (0, True)
    message = "other users can read our own.env; `chmod 600 'our own.env'` makes it private"
    assert message in " ".join(done.err.split())
    file.chmod(0o600)
    monkeypatch.setenv("SHOP", "https://mine.example/v2")
    done = shell("config", "check", "--env-file", "our own.env")
    assert "warning" not in done.err
    assert "https://mine.example/v2" in done.out


def test_a_variable_in_an_address_is_shown_by_its_name(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable behind the host, which may be a key, is shown by its name in text and in JSON."""
    monkeypatch.setenv("SHOP_KEY", "s3cret-key")
    written(JOB.replace("https://shop.example/v2", "https://shop.example/${SHOP_KEY}/v2"))
    outputs = [shell("config", "check").out, shell("config", "check", "--json").out]
    assert all("https://shop.example/${SHOP_KEY}/v2" in text for text in outputs)
    assert not any("s3cret" in text for text in outputs)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("TOKEN=s3cret&x\n", "petsync.env:1: a shell would read the value of TOKEN differently"),
        ('A=1\nTOKEN="$s3cret"\n', "petsync.env:2: a shell would read the value of TOKEN"),
        ("TOKEN=~/s3cret\n", "petsync.env:1: a shell would read the value of TOKEN"),
        ("A=a~1\nTOKEN=a:~s3cret\n", "petsync.env:2: a shell would read the value of TOKEN"),
        ("TOKEN='s3cret\n", "petsync.env:1: a shell would read the value of TOKEN"),
        ("export TOKEN=s3cret\n", "Remove the word export"),
        ("TOKEN = s3cret\n", "petsync.env:1: this is not NAME=value"),
        (None, "--env-file petsync.env cannot be read: No such file or directory"),
    ],
)
def test_a_file_of_variables_that_cannot_be_used(shell: Shell, text: str | None, says: str) -> None:
    """A file of variables that cannot be used is reported with its line and without its content."""
    written(JOB)
    if text is not None:
        written(text, "petsync.env")
    done = shell("config", "check", "--env-file", "petsync.env")
    assert done.code == 64
    assert says in " ".join(done.err.split())
    assert "s3cret" not in done.err


def test_check_needs_no_pandas(shell: Shell) -> None:
    """`config check` loads neither pandas nor apprise."""
    written(JOB)
    code = "import sys; sys.argv[1:] = ['config', 'check']; import atexit; atexit.register("
    code += "lambda: print(*(n for n in ('pandas', 'apprise') if n in sys.modules)))"
    code += "; from petsync.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_the_package_is_a_program() -> None:
    """`python -m petsync` is the command line."""
    done = subprocess.run(
        [sys.executable, "-m", "petsync", "--version"], capture_output=True, check=True
    )
    assert done.stdout.startswith(b"petsync ")


def test_a_notice_that_could_go_nowhere_is_warned_of(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notice address that is not usable is a warning that shows its number, not the address; the
    file is still valid.
    """
    monkeypatch.setenv("GOOD", "json://hook.example/s3cret")
    monkeypatch.setenv("BAD", "nosuch://hook.example/s3cret")
    written(JOB + '[notify]\nurls = ["${GOOD}", "${BAD}"]\n')
    done = shell("config", "check")
    assert (done.code, "s3cret" in done.err) == (0, False)
    assert done.err.startswith("warning: notify.urls, address 2: ")
