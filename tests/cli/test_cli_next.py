"""The command that a command suggests next: it can be copied, and it works as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from commands import PROGRAM, Done, Shell, finished, shop, to
from disks import full_disk
from sheetmaking import workbook_of

from petsync.apply.journal import RunSession
from petsync.cli import run
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


def suggested(done: Done, title: str = "Next") -> list[str]:
    """Return the words of the suggested command, which is the last line on stderr."""
    line = next(line for line in reversed(done.err.splitlines()) if line.startswith(f"{title}: "))
    program, *words = shlex.split(line.removeprefix(f"{title}: "))
    assert program == "petsync"
    return words


def _edit(path: Path, cell: str, text: str) -> None:
    from openpyxl import load_workbook

    book = load_workbook(path)
    book.worksheets[0][cell] = text
    book.save(path)


def test_a_whole_day_by_copying(shell: Shell, box: Sandbox) -> None:
    """From the export on, each command names the next one, without --url, until the undo has
    restored the store.
    """
    words = suggested(shell("export", "my pets.xlsx", *to(box)))
    assert words == ["plan", "my pets.xlsx"]
    _edit(Path("my pets.xlsx"), "B2", "Max")
    planned = shell(*words)
    assert planned.code == 0
    asked = shell(*suggested(planned))
    assert asked.code == 2
    applied = shell(*suggested(asked))
    assert applied.code == 0
    assert box.pets()[0].name == "Max"
    shown = shell(*suggested(applied, "To undo it"))
    assert shown.code == 2
    undone = shell(*suggested(shown))
    assert undone.code == 0
    assert box.pets() == shop()
    assert suggested(undone, "To undo it")[0] == "undo"


def test_options_are_repeated(shell: Shell, box: Sandbox) -> None:
    """The next command repeats the options of the comparison and of every command, quoted; --url
    only if its input does not name the store.
    """
    Path("-pets.csv").write_text("nr;name;status\n1;Max;available\n", "utf-8")
    given = ["--state", "a folder", "--column", "nr=id", "--max-update", "50%", "--strict"]
    planned = shell("plan", *given, *to(box), "--limit", 3, "--", "-pets.csv")
    words = suggested(planned)
    assert words[:2] == ["apply", "./-pets.csv"]
    assert sorted(words[2:]) == sorted([*given, *to(box)])
    asked = shell(*words)
    assert sorted(suggested(asked)[2:]) == sorted([*given, *to(box), "--yes"])
    applied = shell(*suggested(asked))
    assert applied.code == 0
    undo = suggested(applied, "To undo it")
    assert undo[2:] == ["--state", "a folder"]
    preview = shell(*undo, "--id", 1, "--format", "text")
    assert suggested(preview)[2:] == ["--id", "1", "--state", "a folder"]
    saved = shell(*undo, "-o", "undo.json")
    assert suggested(saved) == ["apply", "undo.json", "--state", "a folder"]
    assert shell(*suggested(saved), "--yes").code == 0
    assert box.pets() == shop()


def test_commands_in_messages_find_the_same_state(
    shell: Shell, box: Sandbox, guarded: Sandbox
) -> None:
    """A command that a message names has the state folder that was given, once and quoted; a
    sign-in also has the store's address.
    """
    Path("new.csv").write_text("id,name\n1,Max\n2,Mo\n", "utf-8")
    state = ["--state", "a folder"]
    box.set_faults("portal=1,only=updatePetWithForm")
    failed = shell("apply", "new.csv", *to(box), *state, "--yes", "--max-failures", 0)
    box.set_faults(None)
    run = suggested(failed)[1]
    listed = shell("runs", *state)
    line = f"petsync resume {run} --state 'a folder'"
    assert f"`{line}`" in " ".join(listed.err.split())
    unknown = shell("undo", "nope", *state, "--json")
    assert "`petsync runs --state 'a folder'`" in unknown.json["error"]["hint"]
    assert shell(*shlex.split(line)[1:]).code == 0
    refused = shell("plan", "new.csv", *to(guarded), *state, "--json")
    hint = refused.json["error"]["hint"]
    assert f"`petsync login --url {guarded.url} --state 'a folder'`" in hint


def test_a_saved_plan_is_applied(shell: Shell, box: Sandbox) -> None:
    """After a plan is saved, that file is applied; the file has the options."""
    Path("new.csv").write_text("name,status\nMax,sold\n", "utf-8")
    planned = shell("plan", "new.csv", *to(box), "--max-add", 5, "-o", "p.html", "-o", "plan.json")
    assert suggested(planned) == ["apply", "plan.json"]
    assert shell(*suggested(planned), "--yes").code == 0


def test_mistakes_are_marked_then_listed(shell: Shell, box: Sandbox) -> None:
    """A check with errors suggests a copy with marked cells, then a plan; a plan or a run with rows
    that need fixing suggests a check.
    """
    workbook_of([["id", "name", "status"], ["1", "Max", "sold"], ["x", "Mia", "sold"]]).save(
        "a.xlsx"
    )
    checked = shell("check", "a.xlsx", "--sheet", "Pets")
    words = suggested(checked)
    assert words == ["check", "a.xlsx", "--annotate", "a.marked.xlsx", "--sheet", "Pets"]
    assert suggested(shell(*words)) == ["plan", "a.xlsx", "--sheet", "Pets"]
    assert Path("a.marked.xlsx").exists()
    applied = shell("apply", "a.xlsx", *to(box), "--yes")
    assert suggested(applied) == ["check", "a.xlsx"]
    assert suggested(shell("plan", "a.xlsx", *to(box))) == ["check", "a.xlsx"]


def test_a_run_with_failures_is_resumed(shell: Shell, box: Sandbox) -> None:
    """After failures, the run is finished with `petsync resume` and its id."""
    Path("new.csv").write_text("id,name\n1,Max\n2,Mo\n", "utf-8")
    box.set_faults("portal=1,only=updatePetWithForm")
    failed = shell("apply", "new.csv", *to(box), "--yes", "--max-failures", 0)
    box.set_faults(None)
    assert failed.code in (3, 7)
    assert suggested(failed)[0] == "resume"
    assert shell(*suggested(failed)).code == 0


_ROOM = 40_000
"""The size in bytes of a file that SQLite needs to read the journal, and a little more."""
_IDS = "the new ids were not written into {}: "
_OUTCOMES = "the outcome of each row was not written into {}: "
_NOTHING = "neither results nor ids were written: the journal "


@pytest.mark.parametrize(
    ("option", "size", "code", "missing"),
    [
        ("--write-ids", _ROOM, 1, _IDS),
        ("--write-back", _ROOM, 1, _OUTCOMES),
        ("--write-ids", 30, 1, _NOTHING),
        ("--write-ids", _ROOM, 7, _IDS),
    ],
    ids=["ids", "outcomes", "nothing", "journal"],
)
def test_a_disk_that_is_full_after_the_last_change(
    shell: Shell,
    box: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    size: int,
    code: int,
    missing: str,
) -> None:
    """If the disk is full after the last change, the messages say what was applied and what was not
    written, and name the command that writes it once there is space. Only if the journal could not
    be written, the run counts as stopped.
    """
    sheet, note = Path("pets.csv"), "x" * _ROOM
    sheet.write_text(f"id,name,status,note\n1,Max,available,{note}\n,New,sold,\n", "utf-8")
    before = sheet.read_text("utf-8")
    finish, finish_run = RunSession.finish, run.finish_run

    async def finish_on_full_disk(session: RunSession, *, stopped: str = "") -> None:
        with full_disk(size):
            await finish(session, stopped=stopped)

    def finish_run_on_full_disk(*args: Any, **options: Any) -> int:
        with full_disk(size):
            return finish_run(*args, **options)

    with monkeypatch.context() as patch:
        if code == 7:
            patch.setattr(RunSession, "finish", finish_on_full_disk)
        patch.setattr(run, "finish_run", finish_run_on_full_disk)
        done = shell("apply", sheet, *to(box), "--yes", option, "--report", "r.html")
    assert done.code == code, done.err
    assert "2 applied" in done.out
    text = " ".join(done.err.split())
    assert f"error: {missing.format(sheet)}" in text
    assert "r.html cannot be written: " in text
    assert "2 of 2 changes were applied. Once the cause is removed, a resume " in text
    assert sheet.read_text("utf-8") == before
    writes = box.requests["addPet"], box.requests["updatePet"]
    resumed = shell(*suggested(done))
    assert resumed.code == 0
    assert (box.requests["addPet"], box.requests["updatePet"]) == writes
    new = next(pet for pet in box.pets() if pet.name == "New")
    assert f"\n{new.id},New,sold" in sheet.read_text("utf-8")
    assert Path("r.html").exists()
    assert Path("pets.results.csv").exists() == (option == "--write-ids")
    assert shell("plan", sheet, *to(box), "--exit-code").code == 0


def test_the_job_begins_by_copying(shell: Shell, box: Sandbox) -> None:
    """`petsync init` writes the address that it knows; then each command names the next one, up to
    the first round.
    """
    assert shell("export", "catalogue.xlsx", *to(box)).code == 0
    written = shell("init", *to(box))
    assert f"It is for {box.url}" in written.err
    assert suggested(written) == ["config", "check"]
    checked = shell(*suggested(written))
    assert suggested(checked)[:2] == ["reconcile", "petsync.toml"]
    _edit(Path("catalogue.xlsx"), "B2", "Max")
    tried = shell(*suggested(checked))
    assert tried.code == 2
    assert shell(*suggested(tried)).code == 0
    assert box.pets()[0].name == "Max"


def test_mistakes_of_a_configuration_are_corrected_then_checked_again(shell: Shell) -> None:
    """After mistakes in a configuration, the same check is the next command, with its files; not if
    only variables are not set, because it would end in the same way.
    """
    path = Path("petsync.toml")
    path.write_text('ulr = "x"\n', "utf-8")
    Path("my.env").write_text("A=b\n", "utf-8")
    Path("my.env").chmod(0o600)
    wrong = shell("config", "check")
    assert (wrong.code, "Did you mean url?" in wrong.err) == (64, True)
    assert suggested(wrong) == ["config", "check"]
    unset = Path("unset.toml")
    unset.write_text('[jobs.a]\nmode = "push"\nsheet = "a.csv"\nurl = "${SHOP}"\n', "utf-8")
    done = shell("config", "check", unset)
    assert (done.code, "SHOP is not set" in " ".join(done.err.split())) == (64, True)
    assert "Next: " not in done.err
    path.rename("my jobs.toml")
    given = ["config", "check", "my jobs.toml", "--env-file", "my.env"]
    assert suggested(shell(*given)) == given
    assert "Next: " not in shell(*given, "--json").err


def test_a_failed_round_is_run_again_with_its_files(shell: Shell, box: Sandbox) -> None:
    """The report of a round that failed names the command that runs it again, with the
    configuration and the variables that were given; a dry run stays one. Nothing repeats it.
    """
    Path("my jobs.toml").write_text(
        'url = "${U}"\n[jobs.a]\nmode = "push"\nsheet = "a.csv"\n', "utf-8"
    )
    Path("my.env").write_text(f"U={box.url}\n", "utf-8")
    Path("my.env").chmod(0o600)
    given = ["my jobs.toml", "--env-file", "my.env", "--job", "a"]
    again = []
    for options in ([], ["--dry-run"]):
        failed = shell("reconcile", *given, *options)
        assert (failed.code, "Next: " in failed.err) == (1, False)
        (line,) = re.findall(r"^  petsync (reconcile .*)$", failed.out, re.MULTILINE)
        again.append(shlex.split(line))
    assert ["--dry-run" in words for words in again] == [False, True]
    assert shell("export", "a.csv", *to(box)).code == 0
    assert [shell(*words).code for words in again] == [0, 0]


def test_no_command_uses_an_address_that_nobody_gave(shell: Shell) -> None:
    """If `petsync init` knows no address, the file names none: the next commands say that no
    service is given, and what to write. With the line uncommented, they use it.
    """
    written = shell("init")
    assert "Set url and sheet in it" in written.err
    path = Path("petsync.toml")
    assert "url" not in tomllib.loads(path.read_text("utf-8"))
    for words in (["doctor"], ["export", "pets.csv"]):
        done = shell(*words)
        assert done.code == 64
        assert "no service is given" in done.err
    assert "Write url = " in shell(*suggested(written)).err
    path.write_text(path.read_text("utf-8").replace("\n#url = ", "\nurl = ", 1), "utf-8")
    assert shell(*suggested(written)).code == 0


@pytest.mark.parametrize("words", [["--json"], ["--format", "json"], ["--format", "md"]])
def test_programs_get_no_suggestion(shell: Shell, box: Sandbox, words: list[str]) -> None:
    """With --json, and with a format for programs, nothing is suggested."""
    Path("new.csv").write_text("id,name\n1,Max\n", "utf-8")
    done = shell("plan", "new.csv", *to(box), *words)
    assert done.code == 0
    assert "Next: " not in done.err + done.out
    assert "Next: " not in shell("export", "a.csv", *to(box), "--json").err


def test_rows_are_listed_once(shell: Shell, box: Sandbox) -> None:
    """If the plan and the report go to one reader, the report does not list the rows again that
    need fixing; if only the report goes to a file, it does.
    """
    Path("a.csv").write_text("id,name\n1,Max\nx1,Mia\nx2,Mo\n", "utf-8")
    words = ["apply", "a.csv", *to(box), "--yes"]
    command = [*PROGRAM, *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    both = subprocess.run(command, text=True, **pipes).stdout
    assert both.count("x1") == 1
    assert "2 need fixing: errors in the sheet. The plan above lists them." in both
    apart = finished(*words)
    assert apart.err.count("x1") == apart.out.count("x1") == 1
