"""What differs on Windows, by simulation: names of files, quotes, and what its Python lacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import PROGRAM, Done, Shell, to

from petsync._display import quote
from petsync._files import check_name
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

_LACKING = """
import os, signal, sys, time

for module, names in {
    os: "O_NOFOLLOW O_DIRECTORY O_CLOEXEC getuid geteuid chown sched_getaffinity",
    signal: "SIGHUP SIGALRM setitimer",
    time: "tzset",
}.items():
    for name in names.split():
        delattr(module, name)

def refuse(*_):
    raise OSError(1, "there are no links here")

os.link = refuse
signal.SIGBREAK = signal.SIGUSR1
from petsync.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    "name",
    [
        "con.xlsx",
        "NUL",
        "aux .csv",
        "Com1.csv",
        "lpt\u00b9.csv",
        "a:b.csv",
        "a?.csv",
        "a.csv.",
        "b ",
    ],
)
def test_a_name_that_windows_reserves_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """A file is not written under the name of a device or to another stream of a file, where it
    would be lost. The same name is valid elsewhere.
    """
    paths = (tmp_path / name, tmp_path / name / "pets.csv")
    for path in paths:
        check_name(path)
    monkeypatch.setattr(os, "name", "nt")
    for path in paths:
        with pytest.raises(OSError, match="Windows reserves"):
            check_name(path)


@pytest.mark.parametrize("name", ["console.csv", "com.csv", "com10.csv", "a.con", "..", ".petsync"])
def test_other_names_are_valid_on_windows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Names that only look like those of devices are valid."""
    path = tmp_path / name
    monkeypatch.setattr(os, "name", "nt")
    check_name(path)


def test_commands_to_copy_have_the_quotes_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path with backslashes stays as it is on Windows, and one with a space gets double quotes,
    because its shells do not know single ones.
    """
    assert quote("a b.csv") == "'a b.csv'"
    monkeypatch.setattr(os, "name", "nt")
    assert quote("C:\\pets\\a.csv") == "C:\\pets\\a.csv"
    assert quote("C:\\my pets\\a.csv") == '"C:\\my pets\\a.csv"'


def test_modes_of_files_mean_nothing_on_windows(
    shell: Shell, guarded: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file has the permissions of its folder on Windows, so its mode is no reason to warn."""
    file = tmp_path / "token.txt"
    file.write_text(guarded.token(), "utf-8")
    file.chmod(0o644)
    words = ("whoami", *to(guarded), "--token-file", file)
    assert "other users can read" in shell(*words).err
    monkeypatch.setattr("petsync.cli.context.os", SimpleNamespace(**{**vars(os), "name": "nt"}))
    done = shell(*words)
    assert (done.code, done.err) == (0, "")


def test_commands_need_nothing_that_windows_lacks(box: Sandbox, tmp_path: Path) -> None:
    """Export, check, plan, apply, undo and a round work without Unix's signals, links, flags and
    user numbers, and with the line ends and the console's encoding of Windows.
    """
    sheet = tmp_path / "pets.csv"
    before = box.pets()
    store = to(box)

    def run(*words: object) -> Done:
        done = subprocess.run(
            [sys.executable, "-c", _LACKING, *map(str, words)],
            env={**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"},
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        texts = [each.decode("cp1252") for each in (done.stdout, done.stderr)]
        assert "Traceback" not in "".join(texts)
        return Done(done.returncode, *texts)

    assert run("export", sheet, *store).code == 0
    text = sheet.read_text("utf-8").replace("Rex", "J\u00fcrgen \U0001f415")
    sheet.write_bytes(text.replace("\n", "\r\n").encode())
    assert run("check", sheet).code == 0
    shown = run("plan", sheet, *store, "-o", "plan.json")
    assert shown.code == 0
    assert "J\u00fcrgen \\U0001f415" in shown.out
    assert run("apply", "plan.json", "--yes", *store).code == 0
    assert [pet.name for pet in box.pets() if pet not in before] == ["J\u00fcrgen \U0001f415"]
    assert run("undo", "--yes", *store).code == 0
    assert box.pets() == before
    settings = f'url = "{box.url}"\r\n[jobs.pets]\r\nmode = "push"\r\nsheet = "pets.csv"\r\n'
    (tmp_path / "petsync.toml").write_bytes(settings.encode())
    assert run("reconcile", "petsync.toml").code == 0
    assert [pet.name for pet in box.pets() if pet not in before] == ["J\u00fcrgen \U0001f415"]


def test_a_closed_console_stops_a_run(box: Sandbox, tmp_path: Path) -> None:
    """SIGBREAK, which Windows sends for Ctrl-Break and a closed console, stops a run that can be
    resumed, without what Windows lacks.
    """
    rows = "".join(f",Pet {number},sold\n" for number in range(60))
    (tmp_path / "pets.csv").write_text(f"id,name,status\n{rows}", "utf-8")
    box.set_faults("latency=0.2,only=addPet")
    words = ["apply", "pets.csv", *to(box), "--yes", "--concurrency", "2"]
    command = [sys.executable, "-c", _LACKING, *words]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        while box.requests["addPet"] < 4:
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGUSR1)
        _, shown = running.communicate(timeout=120)
    assert running.returncode == 7, shown
    assert "was stopped" in shown
    assert "Traceback" not in shown
    box.set_faults(None)
    before = len(box.pets())
    done = subprocess.run([*PROGRAM, "resume", *to(box)], cwd=tmp_path, check=False)
    assert done.returncode == 0
    names = [pet.name for pet in box.pets()]
    assert before < len(names) == len({*names})
