"""petsync undo: a run is reverted after its undo was shown."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from commands import PROGRAM, READING, Done, Shell, shop, to

from petsync import Pet, load_plan
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

SHEET = (
    "id,name,status,action\n1,Max,available,\n,New,sold,\n2,Mia,pending,\n3,,,delete\n5,Tim,sold,\n"
)


def _applied(shell: Shell, box: Sandbox) -> str:
    """Apply five changes, and return the run's id."""
    Path("pets.csv").write_text(SHEET, "utf-8")
    done = shell("apply", "pets.csv", *to(box), "--yes", "--json", *_roomy("--max-update"))
    assert done.json["counts"]["applied"] == 5
    run: str = done.json["run_id"]
    return run


def _roomy(*names: str) -> list[str]:
    return [part for name in ("--max-delete", *names) for part in (name, "90%")]


def _meddle(box: Sandbox, number: int) -> Pet:
    """Change the pet in the store as another user, and return it."""
    mine = msgspec.structs.replace(
        next(pet for pet in box.pets() if pet.id == number), name="Mine", status="sold"
    )
    box.reset([mine if pet.id == number else pet for pet in box.pets()])
    return mine


def test_undo_gives_everything_back(shell: Shell, box: Sandbox) -> None:
    """The undo of the newest run is shown, restores the store, and is reported with the run's
    id.
    """
    run = _applied(shell, box)
    done = shell("undo", *to(box), "--yes")
    assert done.code == 0
    assert box.pets() == shop()
    assert f"The run to undo: {run}, pets.csv, started" in done.err
    assert "Undo: 1 to add, 3 to change, 1 to delete" in done.err
    assert "name: Max -> Rex" in done.err
    assert f"run {run}" in done.out
    assert "5 applied" in done.out
    assert "results file" not in done.err
    assert "sheet" not in done.out + done.err


def test_an_undo_is_undone_by_its_id(shell: Shell, box: Sandbox) -> None:
    """The undo of an undo restores the run's changes, ids included; if no run is left to undo, the
    command exits with 1.
    """
    _applied(shell, box)
    after = box.pets()
    undone = shell("undo", *to(box), "--yes", "--json").json["run_id"]
    assert shell("undo", undone, *to(box), "--yes").code == 0
    assert box.pets() == after
    shell("undo", *to(box), "--yes")
    none = shell("undo", *to(box), "--yes")
    assert none.code == 1
    assert "petsync runs" in none.err


def test_without_terminal_and_yes_nothing_is_sent(shell: Shell, box: Sandbox) -> None:
    """Without a terminal and --yes the undo is shown, nothing is sent, and the exit code is 2."""
    _applied(shell, box)
    after, asked = box.pets(), Counter(box.requests)
    done = shell("undo", *to(box))
    assert (done.code, done.out) == (2, "")
    assert "dry run" in done.err
    assert box.pets() == after
    assert set(Counter(box.requests) - asked) <= READING
    output = shell("undo", *to(box), "--json").json
    assert (output["adds"], output["updates"], output["deletes"]) == (1, 3, 1)


def test_what_was_changed_since_is_kept_and_reported(shell: Shell, box: Sandbox) -> None:
    """A pet that changed after the run is a conflict and stays; the others are reverted, and the
    exit code is 5.
    """
    _applied(shell, box)
    mine = _meddle(box, 1)
    done = shell("undo", *to(box), "--yes")
    assert done.code == 5
    assert box.pets() == [mine, *shop()[1:]]
    output = " ".join(done.out.split())
    assert "Pet 1 was changed since the run, and stays unchanged: name is 'Mine'" in output


def test_a_saved_undo_is_applied_once(shell: Shell, box: Sandbox) -> None:
    """-o saves the undo and sends nothing; `petsync apply` applies it once."""
    run = _applied(shell, box)
    after = box.pets()
    files = ["undo.json", "undo.html", "undo.xlsx", "undo.md", "undo.txt"]
    done = shell("undo", run[:17], *to(box), *(part for f in files for part in ("-o", f)))
    assert done.code == 0
    assert box.pets() == after
    assert all(Path(file).stat().st_size for file in files)
    assert "Undo of run" in Path("undo.html").read_text("utf-8")
    assert load_plan("undo.json").undoes == run
    rehearsed = shell("rehearse", "undo.json", *to(box))
    assert rehearsed.code == 0
    assert "the plan is an undo and has no sheet" in " ".join(rehearsed.out.split())
    applied = shell("apply", "undo.json", *to(box), "--yes")
    assert applied.code == 0
    assert "sheet" not in applied.err
    assert box.pets() == shop()
    assert shell("apply", "undo.json", *to(box), "--yes").code == 5


@pytest.mark.parametrize("form", ["json", "md", "html", "text"])
def test_a_format_is_printed_and_nothing_sent(shell: Shell, box: Sandbox, form: str) -> None:
    """--format prints the undo as `petsync plan` does and sends nothing, even with --yes."""
    run = _applied(shell, box)
    after = box.pets()
    done = shell("undo", *to(box), "--yes", "--format", form, "--limit", "0")
    assert done.code == 0
    assert run in done.out
    assert box.pets() == after
    if form == "json":
        assert done.json["plan"]["undoes"] == run


@pytest.mark.parametrize(
    ("options", "come", "gone"),
    [
        (["--id", 1, "--id", 3], {"Rex", "Zoë"}, {"Max"}),
        (["--kind", "delete"], set(), {"New"}),
        (["--kind", "add", "--kind", "delete"], {"Zoë"}, {"New"}),
        (["--query", "kind == 'update' and column == 'name'"], {"Rex", "Tom"}, {"Max", "Tim"}),
    ],
)
def test_a_part_of_an_undo(
    shell: Shell, box: Sandbox, options: list[object], come: set[str], gone: set[str]
) -> None:
    """--id, --kind and --query select a part of an undo; the rest can be undone later."""
    _applied(shell, box)
    before = {pet.name for pet in box.pets()}
    assert shell("undo", *to(box), "--yes", *options).code == 0
    assert {pet.name for pet in box.pets()} == (before | come) - gone
    assert box.pets() != shop()
    shell("undo", *to(box), "--yes")
    assert box.pets() == shop()


def test_the_guard_refuses_a_big_undo(shell: Shell, box: Sandbox) -> None:
    """An undo over a given limit exits with 4, names the option that allows it, and sends
    nothing.
    """
    Path("new.csv").write_text("name,status\nA,sold\nB,sold\nC,sold\n", "utf-8")
    shell("apply", "new.csv", *to(box), "--yes")
    limit = ("--max-delete", 2)
    done = shell("undo", *to(box), "--yes", *limit)
    assert done.code == 4
    assert "--max-delete 3" in done.err
    assert "sheet" not in done.err
    assert shell("undo", *to(box), "-o", "undo.json", *limit).code == 4
    assert len(box.pets()) == 9
    assert shell("undo", *to(box), "--yes", "--max-delete", 3).code == 0
    assert box.pets() == shop()


@pytest.mark.parametrize("pets", [shop(), []], ids=["some", "empty"])
def test_a_permitted_run_can_be_undone_as_printed(
    shell: Shell, box: Sandbox, pets: list[Pet]
) -> None:
    """The undo that a report prints takes back what the run was permitted to do, also if it deletes
    more pets than the default limit, or all pets of a store that was empty before; so does a saved
    one.
    """
    box.reset(pets)
    rows = "".join(f"New {number},sold\n" for number in range(40))
    Path("new.csv").write_text(f"name,status\n{rows}", "utf-8")
    done = shell("apply", "new.csv", *to(box), "--yes")
    words = done.err.rpartition("To undo it: petsync ")[2].split()
    assert shell(*words, *to(box), "-o", "undo.json").code == 0
    assert shell(*words, *to(box), "--yes").code == 0
    assert box.pets() == pets


def test_nothing_to_undo_needs_no_yes(shell: Shell, box: Sandbox) -> None:
    """If all pets are already the same as before the run, no confirmation is needed."""
    run = _applied(shell, box)
    shell("undo", *to(box), "--yes")
    done = shell("undo", run, *to(box))
    assert done.code == 0
    assert "Nothing to undo: all 5 pets are the same as before the run." in done.err


def test_an_unknown_run_is_reported_with_the_newest(shell: Shell, box: Sandbox) -> None:
    """An unknown run is an error that lists the newest runs; an ambiguous prefix is an error."""
    runs = [_applied(shell, box), shell("undo", *to(box), "--yes", "--json").json["run_id"]]
    done = shell("undo", "19990101", *to(box), "--yes")
    assert done.code == 1
    assert all(run in done.err for run in runs)
    assert "2 runs begin with '2" in shell("undo", "2", *to(box), "--yes").err


def _refused(done: Done) -> bool:
    return done.code == 64 and done.out == ""


def test_options_that_make_no_sense(shell: Shell, box: Sandbox) -> None:
    """Invalid options are a usage error before any request."""
    asked = Counter(box.requests)
    assert _refused(shell("undo", *to(box), "--format", "xlsx"))
    assert _refused(shell("undo", *to(box), "-o", "undo.pdf"))
    assert _refused(shell("undo", *to(box), "--kind", "all"))
    assert _refused(shell("undo", *to(box), "--max-delete", "many"))
    assert _refused(shell("undo", *to(box), "--report", "report.txt"))
    assert Counter(box.requests) == asked


def test_a_query_that_cannot_be_answered(shell: Shell, box: Sandbox) -> None:
    """A query with an unknown name is an error that lists the known names, and nothing is sent."""
    _applied(shell, box)
    done = shell("undo", *to(box), "--yes", "--query", "colour == 'red'")
    assert done.code == 1
    assert "column, before, after" in done.err


def test_the_report_is_left(shell: Shell, box: Sandbox) -> None:
    """--report writes the HTML report of the undo."""
    run = _applied(shell, box)
    shell("undo", *to(box), "--yes", "--report", "report.html")
    assert run in Path("report.html").read_text("utf-8")


def test_a_terminal_is_asked(shell: Shell, box: Sandbox, tmp_path: Path) -> None:
    """In a terminal the undo is shown first, and sent after a yes."""
    _applied(shell, box)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, "undo", *to(box)], stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path
    ) as running:
        os.close(theirs)
        assert "Undo: 1 to add" in _until(ours, "[y/N]")
        assert len(box.pets()) == 6
        os.write(ours, b"y\n")
        _until(ours)
        assert running.wait(120) == 0
    os.close(ours)
    assert box.pets() == shop()


def _until(end: int, wanted: str = "\0") -> str:
    """Return the terminal's output until `wanted`, or until the command closes the terminal."""
    seen = b""
    while wanted.encode() not in seen and select.select([end], [], [], 30)[0]:
        try:
            seen += os.read(end, 4096)
        except OSError:
            break
    return seen.decode("utf-8", "replace")


def test_json_is_one_document(shell: Shell, box: Sandbox) -> None:
    """With --json the report is the only document on stdout."""
    run = _applied(shell, box)
    done = shell("undo", *to(box), "--yes", "--json")
    assert json.loads(done.out)["source"] == f"run {run}"
    assert done.json["counts"]["applied"] == 5
