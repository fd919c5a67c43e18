"""petsync plan: the plan is shown or saved, and nothing is sent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import BIG, READING, Shell, to
from openpyxl import load_workbook

from petsync import Pet, load_plan
from petsync.sandbox import Sandbox

SAME = "id,name\n1,Rex\n"
CHANGED = "id,name,status\n1,Max,available\n,New,sold\n"
CONFLICT = "id,name,action\n99,Nobody,update\n"
BLOCKED = "id,name\nx,Rex\n1,Rex\n"


def _sheet(text: str) -> Path:
    path = Path("pets.csv")
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "code"),
    [(SAME, 0), (CHANGED, 2), (CONFLICT, 5), (BLOCKED, 3), (CHANGED + "x,y,sold\n", 2)],
)
def test_exit_code_on_request(shell: Shell, box: Sandbox, text: str, code: int) -> None:
    """--exit-code distinguishes in sync, pending changes, conflicts and blocked rows; without it
    the code is 0.
    """
    sheet = _sheet(text)
    assert shell("plan", sheet, *to(box), "--exit-code").code == code
    assert shell("plan", sheet, *to(box)).code == 0


def test_plan_only_reads(shell: Shell, box: Sandbox) -> None:
    """A plan only reads from the store, in every output format."""
    before = box.pets()
    sheet = _sheet(CHANGED + "77,Ghost,sold\n")
    outputs = ["-o", "p.json", "-o", "p.html", "-o", "p.xlsx"]
    assert shell("plan", sheet, *to(box), "--delete-missing", *outputs).code == 4
    assert box.pets() == before
    assert set(box.requests) <= READING


def test_text_goes_to_stdout(shell: Shell, box: Sandbox) -> None:
    """The plan is on stdout, and only the next command on stderr."""
    done = shell("plan", _sheet(CHANGED), *to(box))
    assert "name: Rex -> Max" in done.out
    assert "1 to add, 1 to change, 0 to delete" in done.out
    assert done.err.startswith("Next: petsync apply ")
    assert done.err.count("\n") == 1


def test_saved_plan_is_what_json_prints(shell: Shell, box: Sandbox) -> None:
    """--json prints the same document that -o saves; only its owner can read the saved plan."""
    done = shell("plan", _sheet(CHANGED), *to(box), "--json", "-o", "p.json")
    assert Path("p.json").read_text("utf-8").strip() == done.out.strip()
    assert len(load_plan("p.json").changes) == 2
    assert Path("p.json").stat().st_mode & 0o777 == 0o600 or os.name != "posix"
    assert "Saved p.json" in done.err


def test_one_plan_in_several_files(shell: Shell, box: Sandbox) -> None:
    """-o takes the format from each file's extension, and the text is still printed."""
    outputs = ["-o", "p.json", "-o", "p.html", "-o", "p.xlsx"]
    done = shell("plan", _sheet(CHANGED), *to(box), *outputs)
    assert "Rex -> Max" in done.out
    assert "<title>Plan for pets.csv</title>" in Path("p.html").read_text("utf-8")
    assert "Changes" in load_workbook("p.xlsx").sheetnames


def test_html_on_stdout_or_in_a_file(shell: Shell, box: Sandbox) -> None:
    """--format html prints a whole page; with -o the page is written to the file and nothing is
    printed.
    """
    sheet = _sheet(CHANGED)
    assert shell("plan", sheet, *to(box), "--format", "html").out.startswith("<!doctype html>")
    done = shell("plan", sheet, *to(box), "--format", "html", "-o", "page")
    assert done.out == ""
    assert Path("page").read_text("utf-8").startswith("<!doctype html>")


def test_html_lists_every_change(shell: Shell, box: Sandbox) -> None:
    """The HTML page lists every change, where the text is cut."""
    rows = "".join(f",Pet number {n},sold\n" for n in range(40))
    shell("plan", _sheet("id,name,status\n" + rows), *to(box), "-o", "p.html")
    page = Path("p.html").read_text("utf-8")
    assert all(f"Pet number {n}" in page for n in range(40))


@pytest.mark.parametrize(
    "args", [["--format", "xlsx"], ["--json", "--format", "html"], ["--match-on", "id"]]
)
def test_options_that_cannot_be_met(shell: Shell, box: Sandbox, args: list[str]) -> None:
    """Options that contradict each other are a usage error before any request."""
    assert shell("plan", _sheet(SAME), *to(box), *args).code == 64
    assert not box.requests


def test_sheet_is_never_overwritten(shell: Shell, box: Sandbox) -> None:
    """-o on the sheet itself, by any path, is refused."""
    sheet = _sheet(SAME)
    done = shell("plan", sheet, *to(box), "-o", sheet.resolve(), "--format", "html")
    assert done.code == 64
    assert sheet.read_text("utf-8") == SAME


def test_guard_refuses(shell: Shell, box: Sandbox) -> None:
    """A plan over a limit is shown with the reason and exits with 4, with or without --exit-code;
    the option that it names allows the plan.
    """
    sheet = _sheet("id,name\n1,Rex\n")
    for more in ([], ["--exit-code"]):
        done = shell("plan", sheet, *to(box), "--delete-missing", *more)
        assert done.code == 4
        assert "--max-delete" in done.out
        assert "guard refuses" in done.err
    assert shell("plan", sheet, *to(box), "--delete-missing", "--max-delete", "5").code == 0
    assert shell("plan", sheet, *to(box), "--delete-missing", "--max-delete", "84%").code == 0
    assert shell("plan", sheet, *to(box), "--delete-missing", "--max-delete", "4").code == 4


def test_guard_refusal_is_in_the_json(shell: Shell, box: Sandbox) -> None:
    """With --json the only document is the plan with the guard's verdict."""
    done = shell("plan", _sheet(SAME), *to(box), "--delete-missing", "--json")
    assert done.code == 4
    assert done.json["plan"]["verdict"]["refusals"]


@pytest.mark.parametrize("option", ["--max-delete", "--max-update", "--max-add"])
def test_limit_that_cannot_be_read(shell: Shell, box: Sandbox, option: str) -> None:
    """A limit that is neither a number nor a percentage is an error that names the option."""
    done = shell("plan", _sheet(SAME), *to(box), option, "some")
    assert done.code == 64
    assert option in done.err


def test_empty_sheet(shell: Shell, box: Sandbox) -> None:
    """A sheet without rows is refused unless --allow-empty is given."""
    sheet = _sheet("id,name\n")
    assert shell("plan", sheet, *to(box)).code == 4
    assert shell("plan", sheet, *to(box), "--allow-empty", "--exit-code").code == 0


def test_match_on_name(shell: Shell, box: Sandbox) -> None:
    """--match-on finds the pet of a row without an id."""
    sheet = _sheet("name,status\nRex,sold\n")
    done = shell("plan", sheet, *to(box), "--match-on", "name")
    assert "0 to add, 1 to change" in done.out
    assert "1 to add, 0 to change" in shell("plan", sheet, *to(box)).out


def test_status_that_only_the_store_has(shell: Shell) -> None:
    """A status outside the profile that the pet already has blocks no row."""
    from petsync import Pet

    with Sandbox(auth=False, profile="live", pets=[Pet(id=1, name="Rex", status="lost")]) as box:
        Path("petsync.toml").write_text('[service]\nstatuses = ["lost"]\n', "utf-8")
        done = shell("plan", _sheet("id,status\n1,lost\n"), *to(box), "--exit-code")
    assert done.code == 0


@pytest.mark.parametrize("name", ["x.pdf", "x.csv", "x", "no/x.json", "pipe.json"])
def test_output_that_cannot_be_written(shell: Shell, box: Sandbox, name: str) -> None:
    """An output with an unknown extension, in a missing folder or that is a pipe is an error before
    any request.
    """
    os.mkfifo("pipe.json")
    done = shell("plan", _sheet(CHANGED), *to(box), "-o", name)
    assert done.code == 64
    assert name in done.err
    endings = ".json, .parquet, .html, .htm, .xlsx, .md, .txt"
    assert "." in name[-5:] or endings in " ".join(done.err.split())
    assert not Path("x.pdf").exists()
    assert Path("pipe.json").is_fifo()
    assert not box.requests


def test_a_plan_in_parquet_is_the_plan(shell: Shell, box: Sandbox) -> None:
    """A plan in Parquet is rehearsed and applied as one in JSON, once, and its run is resumed and
    undone like any.
    """
    before = box.pets()
    sheet = _sheet(CHANGED + "x,y,sold\n")
    done = shell("plan", sheet, *to(box), "-o", "p.parquet", "-o", "p.json")
    assert (done.code, load_plan("p.parquet")) == (0, load_plan("p.json"))
    assert shell("rehearse", "p.parquet", *to(box)).code == 3
    applied = shell("apply", "p.parquet", *to(box), "--yes", "--json")
    assert applied.code == 3, applied.err
    assert [each["outcome"] for each in applied.json["results"]] == [
        "applied",
        "applied",
        "needs fixing",
    ]
    assert shell("apply", "p.json", *to(box), "--yes").code == 5
    assert "2 applied" in shell("resume", applied.json["run_id"], *to(box)).out
    names = [pet.name for pet in box.pets()]
    assert {"Max", "New"} < {*names}
    assert shell("undo", *to(box), "-o", "undo.parquet").code == 0
    assert shell("apply", "undo.parquet", *to(box), "--yes").code == 0
    assert box.pets() == before


@pytest.mark.slow
def test_files_that_are_no_plans_stay(shell: Shell, box: Sandbox) -> None:
    """-o replaces no JSON or Parquet file other than a plan, and puts no plan among a sheet's
    files.
    """
    sheet = _sheet(CHANGED)
    for name in ("pets.json", "pets.parquet"):
        assert shell("export", name, *to(box)).code == 0
        exported = Path(name).read_bytes()
        done = shell("plan", sheet, *to(box), "-o", name)
        assert (done.code, "is not a plan" in done.err) == (64, True)
        assert Path(name).read_bytes() == exported
    for name in ("plan.json", "plan.parquet"):
        assert [shell("plan", sheet, *to(box), "-o", name).code for _ in range(2)] == [0, 0]
    Path("empty.json").touch()
    assert shell("plan", sheet, *to(box), "-o", "empty.json").code == 0
    assert shell("export", "big", "--format", "parquet", *to(box)).code == 0
    for files, target in (("big", "big/p.parquet"), ("big/*.parquet", "big/p.parquet")):
        done = shell("plan", files, *to(box), "-o", target)
        assert (done.code, "a part of the sheet" in done.err) == (64, True)
        assert not Path(target).exists()
    for _ in range(2):
        assert shell("plan", "big", *to(box), "-o", "p.parquet").code == 0
    Path("big/p.parquet").write_bytes(Path("p.parquet").read_bytes())
    for files in ("p.parquet", "big"):
        done = shell("plan", files, *to(box))
        told = " ".join(done.err.split())
        assert (done.code, "p.parquet is a saved plan, not a sheet" in told) == (1, True)


def test_plan_as_text_and_through_links(shell: Shell, box: Sandbox) -> None:
    """-o x.txt saves the printed text; each format is written through a symbolic link."""
    for ending in ("txt", "json", "html", "xlsx", "md"):
        Path(f"link.{ending}").symlink_to(f"real.{ending}")
        done = shell("plan", _sheet(CHANGED), *to(box), "-o", f"link.{ending}")
        assert done.code == 0
        assert Path(f"link.{ending}").is_symlink()
        assert Path(f"real.{ending}").stat().st_size > 100
    assert "name: Rex -> Max" in Path("real.txt").read_text("utf-8")


def test_markdown_on_stdout_or_in_a_file(shell: Shell, box: Sandbox) -> None:
    """--format md prints what -o x.md saves: a heading and tables."""
    sheet = _sheet(CHANGED)
    done = shell("plan", sheet, *to(box), "--format", "md", "-o", "p.md")
    assert done.out == ""
    text = Path("p.md").read_text("utf-8")
    assert text.startswith("## Plan: 1 to add, 1 to change, 0 to delete;")
    assert "| `1` | `Rex` | name | `Rex` | `Max` |" in text
    printed = shell("plan", sheet, *to(box), "--format", "md").out
    assert printed.splitlines()[0] == text.splitlines()[0]


@pytest.mark.parametrize(
    ("asked", "shown"), [([], 20), (["--limit", "3"], 3), (["--limit", "0"], 40)]
)
def test_limit_says_how_many_rows(shell: Shell, box: Sandbox, asked: list[str], shown: int) -> None:
    """Twenty rows of each kind are printed, or the number in --limit; 0 prints all."""
    rows = "".join(f",Pet number {n},sold\n" for n in range(40))
    done = shell("plan", _sheet("id,name,status\n" + rows), *to(box), *asked)
    assert done.out.count("Pet number") == shown
    assert ("--limit 0" in done.out) is (shown < 40)


def test_limit_holds_for_markdown_too(shell: Shell, box: Sandbox) -> None:
    """Markdown prints a hundred rows, or the number in --limit; a saved text has all rows."""
    rows = "".join(f",Pet number {n},sold\n" for n in range(140))
    sheet = _sheet("id,name,status\n" + rows)
    for asked, shown in (([], 100), (["--limit", "3"], 3), (["--limit", "0"], 140)):
        done = shell("plan", sheet, *to(box), "--format", "md", *asked, "-o", "p.txt")
        assert done.out.count("Pet number") == shown
    shell("plan", sheet, *to(box), "-o", "p.txt")
    assert Path("p.txt").read_text("utf-8").count("Pet number") == 140


def test_why_explains_any_pet(shell: Shell, box: Sandbox) -> None:
    """--why explains a pet that changes, an unchanged one and a missing one by values and rule, and
    exits with 0.
    """
    sheet = _sheet(CHANGED)
    done = shell("plan", sheet, *to(box), "--why", "1", "--why", "2", "--why", "4711")
    assert (done.code, done.err) == (0, "")
    assert "~ Pet 1, Rex (line 2, column 1): it will be changed." in done.out
    assert "[differs]" in done.out
    assert "* Pet 2, Mia: nothing changes." in done.out
    assert "[left-alone]" in done.out
    assert "* Pet 4711: there is no such pet." in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_why_by_name(shell: Shell, box: Sandbox) -> None:
    """--why finds a pet by its name in the sheet or in the store, in any case."""
    sheet = _sheet(CHANGED)
    by_id = shell("plan", sheet, *to(box), "--why", "1", "--why", BIG)
    for name in ("Max", "rex"):
        done = shell("plan", sheet, *to(box), "--why", name, "--why", "o'malley ")
        assert (done.code, done.out) == (0, by_id.out)


def test_why_as_json(shell: Shell, box: Sandbox) -> None:
    """With --json each explanation has its rule, and each field its values and its rule."""
    done = shell("plan", _sheet(CHANGED), *to(box), "--why", "1", "--json")
    (one,) = done.json["explanations"]
    assert (one["pet_id"], one["decision"], one["rule"]) == (1, "update", "updated")
    name = next(field for field in one["fields"] if field["column"] == "name")
    assert (name["sheet"], name["store"], name["after"], name["rule"]) == (
        "Max",
        "Rex",
        "Max",
        "differs",
    )
    assert (
        shell("plan", _sheet(CHANGED), *to(box), "--why", "1", "--format", "json").json == done.json
    )


def test_why_with_the_options_of_the_plan(shell: Shell, box: Sandbox) -> None:
    """--why explains the plan that the other options make."""
    sheet = _sheet(SAME)
    done = shell("plan", sheet, *to(box), "--why", "2", "--delete-missing")
    assert "- Pet 2, Mia: it will be deleted." in done.out
    assert "[missing]" in done.out


@pytest.mark.parametrize(
    "more", [["-o", "p.json"], ["--format", "html"], ["--format", "md"], ["--exit-code"]]
)
def test_why_shows_no_plan(shell: Shell, box: Sandbox, more: list[str]) -> None:
    """Options that show or save the plan cannot be used with --why."""
    done = shell("plan", _sheet(SAME), *to(box), "--why", "1", *more)
    assert done.code == 64
    assert more[0] in done.err
    assert not box.requests


TWO = "id,name,status\n1,Max,sold\n2,Moe,sold\n,New,sold\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "changed", "others"),
    [
        (("--only", "1"), {1: ("Max", "sold")}, 2),
        (("--only", "1", "--only", "moe"), {1: ("Max", "sold"), 2: ("Moe", "sold")}, 1),
        (("--only", "2", "--only-field", "name"), {2: ("Moe", None)}, 2),
        (("--only-field", "status"), {1: (None, "sold"), 2: (None, "sold")}, 1),
    ],
)
def test_a_part_of_a_plan(
    shell: Shell,
    box: Sandbox,
    options: tuple[str, ...],
    changed: dict[int, tuple[str | None, str | None]],
    others: int,
) -> None:
    """--only and --only-field leave out all other changes, and count those that have nothing left.
    The saved plan, the next command and `apply` have the same part; a later run applies the others.
    """
    sheet = _sheet(TWO)
    expected = {pet.id: (pet.name, pet.status) for pet in box.pets()}
    for pet_id, (name, status) in changed.items():
        expected[pet_id] = (name or expected[pet_id][0], status or expected[pet_id][1])
    done = shell("plan", sheet, *to(box), *options, "-o", "part.json")
    assert f"{others} left out" in done.out
    part = load_plan("part.json")
    assert {change.pet_id for change in part.changes} == {*changed}
    listed = shell("plan", sheet, *to(box), *options)
    assert " ".join(options) in listed.err
    whole = shell("plan", sheet, *to(box), "-o", "whole.json")
    assert "left out" not in whole.out
    copy = box.pets()
    for source in (sheet, "whole.json", "part.json"):
        box.reset(copy)
        chosen = () if source == "part.json" else options
        assert shell("apply", source, *to(box), *chosen, "--yes").code == 0
        assert {pet.id: (pet.name, pet.status) for pet in box.pets()} == expected
    assert shell("apply", sheet, *to(box), "--yes").code == 0
    names = [pet.name for pet in box.pets() if pet.status == "sold"]
    assert sorted(names) == ["Max", "Moe", "New", "O'Malley", "Tom"]


def test_other_rows_of_a_part_are_counted(shell: Shell, box: Sandbox) -> None:
    """With --only, and --id of an undo, the conflicts and errors of other rows are one line, in the
    plan and in the report; those of the selected pets are shown.
    """
    sheet = _sheet("id,name,status\n1,Max,\n2,Moe,foo\nx1,Bo,\nx2,Mo,\n99,U,\n")
    others = "Not selected: 1 conflict, 3 rows need fixing."
    shell("plan", sheet, *to(box), "--only", "1", "-o", "part.json")
    for words in (
        ("plan", sheet, "--only", "1"),
        ("plan", sheet, "--only", "1", "--format", "md"),
        ("apply", "part.json", "--yes"),
        ("apply", sheet, "--only", "1", "--yes"),
    ):
        done = shell(*words, *to(box))
        output = " ".join((done.err + done.out).split())
        assert output.count(others) == 1, words
        assert "x1" not in output
        assert "without a status" not in output
    assert "1 in conflict: open since the plan. " in output
    done = shell("plan", sheet, *to(box), "--only", "1", "--only", "2")
    output = " ".join(done.out.split())
    assert "'foo': petsync knows no such status" in output
    assert "Not selected: 1 conflict, 2 rows need fixing." in output
    (blocked,) = [pet.name for pet in box.pets() if pet.id == 2]
    done = shell("plan", sheet, *to(box), "--only", str(blocked))
    assert "line 3, column 3, pet 2" in done.out
    assert "'foo': petsync knows no such status" in " ".join(done.out.split())
    run = shell("apply", _sheet("id,name\n1,Ma\n2,Mi\n3,Zo\n"), *to(box), "--yes", "--json")
    box.put(Pet(id=2, name="Theirs", status="available"))
    for options in ((), ("--yes",)):
        undone = shell("undo", run.json["run_id"], "--id", "1", *options, *to(box))
        assert "Not selected: 1 conflict." in undone.err
        assert "Theirs" not in undone.err + undone.out


def test_a_part_that_does_not_exist(shell: Shell, box: Sandbox) -> None:
    """A name that no pet or only a row without an id has, a column that does not exist, and --why
    are errors; a pet without a change gets a note, and nothing is sent.
    """
    sheet = _sheet(TWO)
    done = shell("plan", sheet, *to(box), "--only", "Mox")
    assert done.code == 64
    assert "no pet in the plan or the sheet has this name. Is it" in done.err.replace("\n", " ")
    done = shell("plan", sheet, *to(box), "--only", "New")
    assert (done.code, "is the name of a row without an id" in done.err) == (64, True)
    assert "(line 4, column 1)" in done.err
    blocked = _sheet("id,name,status\n1,Max,sold\n,Maxi,solld\n1x,Maxim,sold\n")
    shell("plan", blocked, *to(box), "-o", "blocked.json")
    for words in (("plan", blocked), ("apply", "blocked.json", "--yes")):
        for name, place in (("Maxi", "line 3, column 1"), ("Maxim", "line 4, column 1")):
            done = shell(*words, *to(box), "--only", name)
            wanted = f"'{name}' is the name of a row without an id ({place}): --only needs an id."
            assert (done.code, wanted in " ".join(done.err.split())) == (64, True)
    Path(blocked).rename("other.csv")
    done = shell("apply", "blocked.json", "--yes", *to(box), "--only", "Maxi")
    assert (done.code, "row without an id (line 3, column 3)" in done.err) == (64, True)
    Path("other.csv").rename(blocked)
    done = shell("plan", blocked, *to(box), "--why", "Maxi")
    wanted = "'Maxi' is the name of a row without an id (line 3, column 1): --why needs an id."
    assert (done.code, wanted in " ".join(done.err.split())) == (64, True)
    pet = box.pets()[0]
    for text in (
        f"id,name,status\n{pet.id},{pet.name},{pet.status}\n",
        f"id,status\n{pet.id},{pet.status}\n",
    ):
        for name in (str(pet.name), str(pet.id)):
            done = shell("plan", _sheet(text), *to(box), "--only", name)
            assert "Selected ids without a change in the plan: 1." in " ".join(done.out.split())
    sheet = _sheet(TWO)
    assert shell("apply", sheet, *to(box), "--only-field", "colour", "--yes").code == 64
    done = shell("plan", sheet, *to(box), "--why", "1", "--only", "1")
    assert (done.code, "leave --only out" in done.err) == (64, True)
    done = shell("apply", sheet, *to(box), "--only", "4711", "--yes")
    assert done.code == 0
    assert "without a change in the plan: 4711" in done.err.replace("\n", " ")
    assert set(box.requests) <= READING


def test_plan_scope_rows(shell: Shell, box: Sandbox) -> None:
    """With --scope rows, only the pets of the sheet are read, and the plan says what it does not
    cover.
    """
    Path("few.csv").write_text("id,name\n1,Max\n99,New\n", encoding="utf-8")
    done = shell("plan", "few.csv", "--scope", "rows", *to(box))
    assert done.code == 0, done.err
    assert box.requests == {"getPetById": 2}
    assert "only 2 pets, read one by one" in done.out
    assert "Not covered by this plan" in done.out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["plan", "few.csv", "--delete-missing"], "--delete-missing cannot apply to --scope rows"),
        (["plan", "few.csv", "--match-on", "name"], "--match-on cannot apply to --scope rows"),
        (["rehearse", "few.csv"], "a rehearsal copies every pet"),
    ],
)
def test_plan_scope_refused(shell: Shell, box: Sandbox, options: list[str], why: str) -> None:
    """What needs every pet is refused with --scope rows, before a request."""
    Path("few.csv").write_text("id,name\n1,Max\n", encoding="utf-8")
    done = shell(*options, "--scope", "rows", *to(box))
    assert done.code == 64
    assert why in done.err
    assert not box.requests
