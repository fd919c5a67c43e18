"""Sheets in the commands: column mappings, the base of an export, and results in the sheet."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from commands import Shell, shop, to
from msgspec.structs import replace
from openpyxl import load_workbook

from petsync import Category, read_sheet
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

OWN_HEADERS = "Nummer,Tiername,Zustand\n1,Max,available\n"
MAPPED = ("--column", "Nummer=id", "--column", "Tiername=name", "--column", "Zustand=Status")
WARNED = "id,name,status\n1.0,Max,available\n"


def _sheet(text: str) -> Path:
    path = Path("pets.csv")
    path.write_text(text, "utf-8")
    return path


def _edit(path: str, cells: dict[str, Any]) -> None:
    """Write values into cells and save the workbook."""
    book = load_workbook(path)
    for address, value in cells.items():
        book.worksheets[0][address] = value
    book.save(path)


def test_headers_are_named_on_the_command_line(shell: Shell, box: Sandbox) -> None:
    """check, plan and apply use mapped headers, and a saved plan keeps the mapping for its
    results.
    """
    sheet = _sheet(OWN_HEADERS)
    assert shell("check", sheet).code == 1
    assert shell("check", sheet, *MAPPED).code == 0
    assert shell("plan", sheet, *to(box), *MAPPED, "-o", "plan.json", "--exit-code").code == 2
    done = shell("apply", "plan.json", *to(box), "--yes", "--results", "done.csv")
    assert done.code == 0
    assert box.pets()[0].name == "Max"
    assert "1,Max,available,applied" in Path("done.csv").read_text("utf-8-sig")


def test_the_command_line_comes_before_the_file(shell: Shell) -> None:
    """--column has priority over a mapping in petsync.toml."""
    Path("petsync.toml").write_text('[columns]\nTiername = "category"\nNummer = "id"\n', "utf-8")
    assert shell("check", _sheet(OWN_HEADERS)).code == 0
    done = shell("check", _sheet("Tiername\nRex\n"), "--column", "Tiername=status")
    assert "unknown-status" in done.out


@pytest.mark.parametrize("given", ["Tiername", "Tiername=nam", "=name", "Tiername="])
def test_a_mapping_that_cannot_be_is_refused(shell: Shell, given: str) -> None:
    """An invalid --column is a usage error that lists the columns."""
    done = shell("check", _sheet(OWN_HEADERS), "--column", given)
    assert done.code == 64
    assert "photo_urls" in done.err


@pytest.mark.parametrize("command", ["check", "plan", "apply"])
def test_a_mapped_header_that_is_not_there_is_refused(
    shell: Shell, box: Sandbox, command: str
) -> None:
    """--column with a header that the sheet lacks is a usage error, even if another column already
    has that name. A mapping in petsync.toml may name headers that a sheet lacks.
    """
    Path("petsync.toml").write_text('[columns]\nTiername = "name"\n', "utf-8")
    store = () if command == "check" else to(box)
    sheet = _sheet("id,name\n1,Rex\n")
    assert shell("check", sheet).code == 0
    done = shell(command, sheet, *store, "--column", "Foo=name")
    assert done.code == 64
    assert "--column Foo=name" in done.err
    assert "'id', 'name'" in done.err


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_strict_plans_nothing_beside_a_finding(shell: Shell, box: Sandbox, command: str) -> None:
    """--strict refuses a plan with a warning; without it a warning stops nothing."""
    before = box.pets()
    more = ("--yes",) if command == "apply" else ()
    done = shell(command, _sheet(WARNED), *to(box), "--strict", *more)
    assert done.code == 3
    assert "line 2, column 1" in done.err
    assert box.pets() == before
    assert shell("plan", _sheet(WARNED), *to(box), "--exit-code").code == 2


@pytest.mark.parametrize("name", ["pets.xlsx", "pets.csv"])
def test_unedited_values_stay_as_in_the_store(shell: Shell, box: Sandbox, name: str) -> None:
    """The plan of an export without edits keeps changes that the store received since."""
    assert shell("export", name, *to(box)).code == 0
    rex, *others = shop()
    box.reset([replace(rex, status="sold"), *others])
    done = shell("plan", name, *to(box), "--exit-code")
    assert done.code == 0
    assert "1 older than the store" in done.out
    assert shell("plan", name, *to(box), "--two-way", "--exit-code").code == 2


def test_both_sides_in_one_cell_are_a_conflict(shell: Shell, box: Sandbox) -> None:
    """A cell that sheet and store both changed is a conflict with all three values, and the
    store's value is kept.
    """
    shell("export", "pets.xlsx", *to(box))
    _edit("pets.xlsx", {"C2": "sold"})
    rex, *others = shop()
    box.reset([replace(rex, status="pending"), *others])
    done = shell("plan", "pets.xlsx", *to(box), "--exit-code")
    assert done.code == 5
    output = " ".join(done.out.split())
    assert "before sheet store (stays) status available sold pending" in output


def test_a_status_that_both_sides_changed_holds_nothing_else_of_its_row(
    shell: Shell, box: Sandbox
) -> None:
    """With --on-conflict sheet the row's name is sent. Its cleared status is a conflict that the
    store wins, and the reason is shown: no query can find a pet without a status.
    """
    shell("export", "pets.xlsx", *to(box))
    _edit("pets.xlsx", {"B2": "Max", "C2": "[clear]"})
    rex, *others = shop()
    box.reset([replace(rex, status="pending"), *others])
    done = shell("apply", "pets.xlsx", *to(box), "--on-conflict", "sheet", "--yes")
    assert done.code == 5
    assert next(p for p in box.pets() if p.id == 1) == replace(rex, name="Max", status="pending")
    assert (
        "status available (empty) pending The sheet's status is not sent: the pet would have no "
        in (" ".join(done.err.split()))
    )
    assert max(map(len, done.err.splitlines())) <= 80


@pytest.mark.parametrize("number", [{}, {"E2": None}], ids=["number", "no number"])
def test_clearing_a_category_without_a_name_is_an_edit(
    shell: Shell, box: Sandbox, number: dict[str, None]
) -> None:
    """Clearing a category that has only an id is planned and applied like any edit, and --why
    reports the edit.
    """
    rex, *others = shop()
    nameless = replace(rex, category=Category(7, None))
    box.reset([nameless, *others])
    shell("export", "pets.xlsx", *to(box))
    _edit("pets.xlsx", {"D2": "[clear]", "B3": "Mia the Elder", **number})
    why = " ".join(shell("plan", "pets.xlsx", *to(box), "--why", "1").out.split())
    edited = "Only the sheet changed it since the export. [edited]"
    assert f"category (empty) {edited}" in why
    assert shell("apply", "pets.xlsx", *to(box), "--yes").code == 0
    assert {p.id: (p.name, p.category) for p in box.pets() if p.id in (1, 2)} == {
        1: ("Rex", None),
        2: ("Mia the Elder", None),
    }
    assert shell("plan", "pets.xlsx", *to(box), "--exit-code").code == 0


def test_a_row_taken_out_is_no_pet_that_came_later(shell: Shell, box: Sandbox) -> None:
    """--delete-missing deletes the pets of rows removed from an export, and no pet that the export
    did not have.
    """
    shell("export", "pets.xlsx", *to(box))
    box.reset([*shop(), replace(shop()[1], id=9, name="Late")])
    book = load_workbook("pets.xlsx")
    book.worksheets[0].delete_rows(3)
    book.save("pets.xlsx")
    done = shell("apply", "pets.xlsx", *to(box), "--delete-missing", "--max-delete", "1", "--yes")
    assert done.code == 0
    names = {pet.name for pet in box.pets()}
    assert "Mia" not in names
    assert "Late" in names


def test_a_base_that_was_tampered_with_is_refused(shell: Shell, box: Sandbox) -> None:
    """A plan with a damaged base is refused; --two-way plans without the base."""
    shell("export", "pets.xlsx", *to(box))
    _tamper("pets.xlsx")
    done = shell("plan", "pets.xlsx", *to(box))
    assert done.code == 1
    assert "--two-way" in done.err
    assert shell("plan", "pets.xlsx", *to(box), "--two-way", "--exit-code").code == 0


def _tamper(path: str) -> None:
    """Change one character of the hidden worksheet."""
    book = load_workbook(path)
    hidden = next(sheet for sheet in book.worksheets if sheet.sheet_state == "veryHidden")
    cell = max(
        (cell for row in hidden.iter_rows() for cell in row), key=lambda c: len(str(c.value))
    )
    text = str(cell.value)
    cell.value = text[:10] + ("A" if text[10] != "A" else "B") + text[11:]
    book.save(path)
    assert zipfile.is_zipfile(path)


def test_the_results_go_into_the_sheet_itself_if_that_is_asked_for(
    shell: Shell, box: Sandbox
) -> None:
    """--write-back writes the results into the sheet and keeps its old bytes as a backup, without
    another copy.
    """
    sheet = _sheet("id,name,status\n1,Max,available\n,New,sold\n")
    before = sheet.read_bytes()
    done = shell("apply", sheet, *to(box), "--yes", "--write-back")
    assert done.code == 0
    (backup,) = Path().glob("pets.backup-*.csv")
    assert backup.read_bytes() == before
    assert backup.name in "".join(done.err.split())
    assert "New,sold,applied" in sheet.read_text("utf-8-sig")
    assert not list(Path().glob("*.results.*"))
    again = shell("apply", sheet, *to(box), "--yes")
    assert "In sync" in again.err


def test_without_write_back_the_sheet_is_never_written(shell: Shell, box: Sandbox) -> None:
    """Without --write-back the results are written to a copy and the sheet is unchanged."""
    sheet = _sheet("id,name,status\n1,Max,available\n")
    before = sheet.read_bytes()
    assert shell("apply", sheet, *to(box), "--yes").code == 0
    assert sheet.read_bytes() == before
    assert Path("pets.results.csv").exists()


def test_a_sheet_that_is_open_elsewhere_stops_write_back_before_anything_is_sent(
    shell: Shell, box: Sandbox
) -> None:
    """--write-back is refused before anything is sent if another program has the sheet open and
    could overwrite the results.
    """
    before = box.pets()
    sheet = _sheet("id,name,status\n1,Max,available\n")
    Path(".~lock.pets.csv#").write_text("someone,,,,;", "utf-8")
    done = shell("apply", sheet, *to(box), "--yes", "--write-back")
    assert done.code == 1
    assert "LibreOffice has the file open" in " ".join(done.err.split())
    assert box.pets() == before


@pytest.mark.parametrize("name", ["pets.csv", "pets.xlsx"])
def test_check_marks_each_finding_in_a_copy(shell: Shell, box: Sandbox, name: str) -> None:
    """--annotate writes a copy with a comment on each finding, and leaves the sheet unchanged."""
    shell("export", name, *to(box))
    if name == "pets.xlsx":
        _edit(name, {"C3": "solld"})
    else:
        text = Path(name).read_text("utf-8-sig").replace("available", "solld", 1)
        Path(name).write_text(text, "utf-8")
    before = Path(name).read_bytes()
    done = shell("check", name, "--annotate", "marked.xlsx")
    assert done.code == 3
    assert "1 cell is marked in marked.xlsx." in done.err
    assert Path(name).read_bytes() == before
    comments = [
        cell.comment.text
        for sheet in load_workbook("marked.xlsx").worksheets
        for row in sheet.iter_rows()
        for cell in row
        if cell.comment
    ]
    assert any("Write sold if you mean that" in text for text in comments)


def test_the_marked_copy_is_never_the_sheet(shell: Shell) -> None:
    """The annotated copy never replaces the sheet, and must be a workbook."""
    sheet = _sheet(WARNED)
    assert shell("check", sheet, "--annotate", sheet).code == 64
    assert shell("check", sheet, "--annotate", "marked.csv").code in (1, 64)
    assert sheet.read_text("utf-8") == WARNED


def test_a_header_that_is_not_there_is_no_silent_mistake(shell: Shell, box: Sandbox) -> None:
    """A misspelt header in --column is an error, because it would omit a whole column."""
    for command in (("check",), ("plan", *to(box))):
        name, *more = command
        done = shell(name, _sheet(OWN_HEADERS), *more, *MAPPED[:2], "--column", "Tiernam=name")
        assert done.code == 64
        assert "'Tiername'" in done.err


def test_a_marked_copy_never_replaces_one_that_may_have_been_fixed(shell: Shell) -> None:
    """An annotated copy never replaces an earlier one, which may have corrections: the second gets
    the next name.
    """
    sheet = _sheet(WARNED)
    shell("check", sheet, "--annotate", "marked.xlsx")
    first = Path("marked.xlsx").read_bytes()
    done = shell("check", sheet, "--annotate", "marked.xlsx")
    assert "marked-2.xlsx" in done.err
    assert Path("marked.xlsx").read_bytes() == first


def test_new_ids_go_into_the_sheet_alone_if_that_is_asked_for(shell: Shell, box: Sandbox) -> None:
    """--write-ids writes only new ids, and their rows' action, into the sheet; the results are in
    their own file.
    """
    sheet = _sheet("id,name,status,action,note\n1,Max,available,,a\n,New,sold,add,b\n")
    before = sheet.read_bytes()
    done = shell("apply", sheet, *to(box), "--yes", "--write-ids")
    assert done.code == 0
    (new,) = (pet for pet in box.pets() if pet.name == "New")
    expected = f"id,name,status,action,note\n1,Max,available,,a\n{new.id},New,sold,merge,b\n"
    assert sheet.read_text("utf-8") == expected
    (backup,) = Path().glob("pets.backup-*.csv")
    assert backup.read_bytes() == before
    assert "applied" in Path("pets.results.csv").read_text("utf-8")
    again = shell("apply", sheet, *to(box), "--yes", "--write-ids")
    assert "In sync" in again.err


@pytest.mark.parametrize("last", [("--no-write-ids",), ()], ids=["no-write-ids", "default"])
def test_the_last_request_decides_what_is_written(
    shell: Shell, box: Sandbox, last: tuple[str, ...]
) -> None:
    """An apply with --write-ids that starts no run leaves no request to a later one without it."""
    sheet = _sheet("id,name,status\n1,Rex,available\n,New,sold\n")
    before = sheet.read_bytes()
    assert shell("plan", sheet, *to(box), "--sentinel", "2", "-o", "plan.json").code == 0
    (old,) = (pet for pet in box.pets() if pet.id == 2)
    box.put(replace(old, status="pending"))
    assert shell("apply", "plan.json", *to(box), "--yes", "--write-ids").code == 4
    box.put(old)
    assert shell("apply", "plan.json", *to(box), "--yes", *last).code == 0
    assert "New" in {pet.name for pet in box.pets()}
    assert sheet.read_bytes() == before


def test_a_plan_that_was_applied_keeps_its_request(shell: Shell, box: Sandbox) -> None:
    """A second apply of a plan is refused, and the resume of the first writes the ids that it was
    to write.
    """
    sheet = _sheet("id,name,status\n,New,sold\n,Newer,sold\n")
    assert shell("plan", sheet, *to(box), "-o", "plan.json").code == 0
    box.set_faults("503=1,only=addPet")
    limits = ("--max-failures", "0", "--concurrency", "1")
    assert shell("apply", "plan.json", *to(box), "--yes", "--write-ids", *limits).code == 7
    box.set_faults(None)
    assert shell("apply", "plan.json", *to(box), "--yes", "--no-write-ids").code == 5
    assert shell("resume", *to(box), "--settle", "0.2").code == 0
    assert read_sheet(sheet).frame["id"].notna().all()


@pytest.mark.parametrize("option", ["--write-ids", "--write-back"])
@pytest.mark.parametrize("name", ["pets.csv", "pets.xlsx"])
def test_a_resume_writes_what_was_asked_for(
    shell: Shell, box: Sandbox, option: str, name: str
) -> None:
    """A run with --write-ids or --write-back stops at its first add; the resume writes all ids into
    the sheet, and its results replace those of the first attempt.
    """
    if name == "pets.csv":
        _sheet("id,name,status\n,New,sold\n,Newer,sold\n,Newest,sold\n")
    else:
        shell("export", name, *to(box))
        _edit(
            name, {f"{c}{8 + n}": v for n in range(3) for c, v in (("B", f"N{n}"), ("C", "sold"))}
        )
    box.set_faults("503=1,only=addPet")
    first = shell("apply", name, *to(box), "--yes", option, "--max-failures", "0")
    assert first.code == 7
    box.set_faults(None)
    done = shell("resume", *to(box), "--settle", "0.2")
    assert done.code == 0
    sheet = read_sheet(name)
    assert sheet.frame["id"].notna().all()
    assert not [*Path().glob("pets.results-*")]
    again = shell("apply", name, *to(box), "--yes")
    assert "In sync" in again.err


STDIN = {
    "CSV": "id,name,status\n,Neu,sold\n",
    "JSON": '[{"name": "Neu", "status": "sold"}]',
    "JSON Lines": '{"name": "Neu", "status": "sold"}\n',
}


@pytest.mark.parametrize("form", STDIN)
def test_a_sheet_can_come_from_standard_input(shell: Shell, box: Sandbox, form: str) -> None:
    """`-` reads standard input in the format of its content; a second apply adds no pet twice."""
    text = STDIN[form]
    assert shell("check", "-", stdin=text).code == 0
    done = shell("apply", "-", "--yes", *to(box), stdin=text)
    assert done.code == 0
    ending = "csv" if form == "CSV" else "xlsx"
    assert f"in stdin.results.{ending}" in done.err
    assert "petsync does not write into standard input" in done.err
    assert sum(pet.name == "Neu" for pet in box.pets()) == 1
    again = shell("apply", "-", "--yes", *to(box), stdin=text)
    assert again.code == 0
    assert sum(pet.name == "Neu" for pet in box.pets()) == 1


def test_a_plan_from_standard_input_is_applied_later(shell: Shell, box: Sandbox) -> None:
    """A saved plan needs no second reading; writing into standard input is refused."""
    text = STDIN["JSON"]
    refused = shell("apply", "-", "--yes", "--write-ids", *to(box), stdin=text)
    assert refused.code == 1
    assert "petsync does not write into standard input" in refused.err
    assert shell("plan", "-", "-o", "plan.json", *to(box), stdin=text).code == 0
    done = shell("apply", "plan.json", "--yes", *to(box))
    assert done.code == 0
    assert "No results file was written" in done.err
    assert sum(pet.name == "Neu" for pet in box.pets()) == 1


def test_a_list_of_pets_is_a_sheet_and_a_plan_is_a_plan(shell: Shell, box: Sandbox) -> None:
    """`apply` and `rehearse` tell a .json with pets from a saved plan by its content."""
    Path("pets.json").write_text(STDIN["JSON"])
    assert shell("rehearse", "pets.json", *to(box)).code == 0
    done = shell("apply", "pets.json", "--yes", *to(box))
    assert done.code == 0
    assert "It is a copy, because petsync does not write into a JSON file." in done.err
