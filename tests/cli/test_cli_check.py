"""petsync check: the mistakes in a sheet, found without a store."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Shell, to

from petsync import sample_data
from petsync.sandbox import Sandbox

CLEAN = "id,name,status\n1,Rex,available\n,Mia,sold\n"
WARNED = "id,name,status\n1.0,Rex,available\n"
WRONG = "id,name,status\n1,Rex,reserved\n2,Mia,sold\n3,Tom,reserved\nx,Zoe,sold\n"


def _sheet(text: str) -> Path:
    path = Path("pets.csv")
    path.write_text(text, "utf-8")
    return path


def test_clean_sheet(shell: Shell) -> None:
    """A sheet without a mistake exits with 0."""
    done = shell("check", _sheet(CLEAN))
    assert done.code == 0
    assert "2 rows, no findings" in done.out


def test_errors_exit_with_three_and_are_grouped(shell: Shell) -> None:
    """Rows that errors block exit with 3; the most frequent mistake is first, with its cells."""
    done = shell("check", _sheet(WRONG))
    assert done.code == 3
    assert done.out.index("2 errors: unknown-status") < done.out.index("1 error: id-not-a-number")
    assert "column 3, lines 2, 4" in done.out
    assert done.err == "Next: petsync plan pets.csv\n"


def test_all_findings_can_be_listed(shell: Shell) -> None:
    """Five findings of a kind are listed, or as many as --limit says."""
    rows = "".join(f"{n},Rex,nope{n}\n" for n in range(1, 10))
    sheet = _sheet("id,name,status\n" + rows)
    for options, listed in ((), 5), (("--limit", "2"), 2), (("--limit", "0"), 9):
        assert shell("check", sheet, *options).out.count("column 3") == listed


def test_equal_mistakes_are_corrected_at_once(shell: Shell) -> None:
    """--correct reads another text instead of that of one cell, or of all equal cells."""
    sheet = _sheet(WRONG)
    hint = " ".join(shell("check", sheet).out.split())
    assert "2 cells by --correct status:reserved=STATUS" in hint
    fixes = ("--correct", "status:reserved=pending", "--correct", "line 5, column 1=3=4")
    done = shell("check", sheet, *fixes)
    assert "1 error: id-not-a-number" in done.out
    assert "unknown-status" not in done.out
    assert "corrected  3 cells, but not in the file" in done.out
    refused = shell("check", sheet, "--correct", "status:reserved")
    assert refused.code == 64
    assert "must be CELL=TEXT" in refused.err


def test_foreign_headers_get_an_option_line_that_works(shell: Shell) -> None:
    """The error proposes a mapping as one line, which is not folded."""
    sheet = _sheet("Nummer,Tiername,Zustand,Bilder\n1,Rex,sold,https://x.example/1.jpg\n")
    done = shell("check", sheet)
    assert done.code == 1
    (line,) = [line for line in done.err.splitlines() if line.startswith("--column")]
    assert line.endswith("--column Zustand=status --column Bilder=photo_urls")
    assert shell("check", sheet, *shlex.split(line)).code == 0


@pytest.mark.parametrize(
    ("edit", "reason", "code", "next_step"),
    [
        (
            lambda text: text.replace("status,category", "Zustand,Tierart"),
            "Write status as the header again, or map it (--column Zustand=status)",
            4,
            "check a.csv --column Zustand=status --column Tierart=category",
        ),
        (
            lambda text: re.sub(r"^[0-9]+", "", text, flags=re.MULTILINE),
            "a.csv has no ids, but had the ids of 6 pets",
            4,
            "check a.csv",
        ),
        (None, "a.csv: the records of its export cannot be used", 1, "check a.csv"),
    ],
    ids=["renamed headers", "no ids", "damaged base"],
)
def test_a_sheet_that_a_plan_refuses_has_no_row_that_can_be_used(
    shell: Shell,
    box: Sandbox,
    edit: Callable[[str], str] | None,
    reason: str,
    code: int,
    next_step: str,
) -> None:
    """`check` says of a whole sheet what `plan` says: no row of it can be used. It proposes the
    headers that fit, as one command, and both then accept the sheet.
    """
    assert shell("export", "a.csv", *to(box)).code == 0
    path = Path("a.csv") if edit else Path("a.csv.petsync-base")
    text = path.read_text("utf-8")
    path.write_text(edit(text) if edit else text[: len(text) // 2], "utf-8")
    done, plan = shell("check", "a.csv"), shell("plan", "a.csv", *to(box))
    assert (done.code, plan.code) == (3, code)
    for text in (done.out, plan.err):
        assert reason in " ".join(text.split())
    assert "no plan of this sheet is made, so none of its 6 rows can be used" in " ".join(
        done.out.split()
    )
    assert done.err == f"Next: petsync {next_step}\n"
    found = shell("check", "a.csv", "--json").json
    assert (found["rows"], found["refused"][:5]) == (0, "a.csv")
    words = next_step.split()
    if "--column" in words:
        assert shell(*words).code == 0
        assert shell("plan", *words[1:], *to(box)).code == 0


RULES = """
[[rules]]
name = "price"
columns = ["Price EUR"]
minimum = 0
message = "Ask Ann \\u001b[31mnow."

[[rules]]
name = "chip"
columns = ["Chip"]
unique = true

[[rules]]
name = "store"
columns = ["name"]
required = true
applies_to = "store"
"""


def test_rules_of_petsync_toml_are_checked_and_listed(shell: Shell) -> None:
    """`check` has the violations of [[rules]]; --rules also lists which ran, on how many rows, and
    why others did not.
    """
    Path("petsync.toml").write_text(RULES, "utf-8")
    sheet = _sheet("id,name,Price EUR\n1,Rex,-1\n2,Mia,5\n3,Tom,\n")
    done = shell("check", sheet)
    assert done.code == 3
    assert "1 error: rule:price" in done.out
    assert "\x1b" not in done.out
    assert "Rules of your own" not in done.out
    listed = " ".join(shell("check", sheet, "--rules").out.split())
    assert "price error 2 of 3 broken in 1 row" in listed
    assert "chip error did not run: the sheet has no column 'Chip'" in listed
    assert "store error did not run: it needs the store's pets" in listed
    rules = json.loads(shell("check", sheet, "--json").out)["rules"]
    assert [(each["name"], each["looked"], each["broken"]) for each in rules] == [
        ("price", 2, 1),
        ("chip", 0, 0),
        ("store", 0, 0),
    ]
    Path("petsync.toml").unlink()
    assert "No rules of your own" in shell("check", sheet, "--rules").out


def test_a_mistake_in_a_rule_is_named_before_anything_is_read(shell: Shell) -> None:
    """An invalid rule ends the command with the file, the line, the key and a suggestion."""
    text = RULES.replace("minimum = 0", 'expression = "[Price EUR] > 0 nd lenght(name) > 1"')
    Path("petsync.toml").write_text(text, "utf-8")
    done = shell("check", "no-such-sheet.csv")
    assert done.code == 64
    assert "petsync.toml:5: rules[1].expression: column 17: unexpected nd" in done.err


def test_strict_counts_warnings(shell: Shell) -> None:
    """A warning alone exits with 0, with --strict it exits with 3."""
    sheet = _sheet(WARNED)
    assert shell("check", sheet).code == 0
    assert shell("check", sheet, "--strict").code == 3


def test_json_lists_every_finding(shell: Shell) -> None:
    """--json and --format json give the same document, with a finding for each mistake."""
    sheet = _sheet(WRONG)
    done = shell("check", sheet, "--json")
    assert done.code == 3
    assert done.json["errors"] == len(done.json["findings"]) == 3
    assert done.json["rows"] == 1
    assert shell("check", sheet, "--format", "json").json == done.json


def test_statuses_of_the_settings_are_known(shell: Shell) -> None:
    """A status that petsync.toml names is not a mistake."""
    Path("petsync.toml").write_text('[service]\nstatuses = ["sold", "reserved"]\n', "utf-8")
    done = shell("check", _sheet("id,name,status\n1,Rex,reserved\n"))
    assert done.code == 0


def test_unreadable_file_exits_with_one(shell: Shell) -> None:
    """A file that cannot be read at all is an error, not a finding."""
    Path("pets.xlsx").write_bytes(b"PK no workbook")
    done = shell("check", "pets.xlsx")
    assert done.code == 1
    assert done.out == ""
    assert "pets.xlsx" in done.err


def test_named_tab(shell: Shell) -> None:
    """--sheet selects the worksheet; if it does not exist, the error names the existing
    worksheets.
    """
    workbook = sample_data() / "catalogue_clean.xlsx"
    assert shell("check", workbook, "--sheet", "Pets").code == 0
    done = shell("check", workbook, "--sheet", "Pts")
    assert done.code == 1
    assert "Pets" in done.err


def test_a_pipe_is_not_waited_for(shell: Shell) -> None:
    """A pipe with the name of a sheet is refused and not read."""
    os.mkfifo("pipe.csv")
    done = shell("check", "pipe.csv")
    assert done.code == 1
    assert "pipe.csv: this is a device or a pipe" in done.err


def test_an_unknown_encoding_is_a_usage_error(shell: Shell) -> None:
    """An unknown encoding is a usage error of each command, even for a file with a byte order
    mark.
    """
    Path("pets.csv").write_text(CLEAN, "utf-8-sig")
    for command in (["check"], ["plan"], ["apply"], ["upload", "--column", "picture"]):
        done = shell(*command, "pets.csv", "--encoding", "klingon")
        assert done.code == 64
        assert "there is no text encoding 'klingon'" in done.err


def test_an_encoding_that_the_file_contradicts_is_an_error(shell: Shell) -> None:
    """An encoding that contradicts the file's byte order mark is an error that names the mark's
    encoding.
    """
    Path("pets.csv").write_text(CLEAN, "utf-8-sig")
    assert shell("check", "pets.csv", "--encoding", "UTF8").code == 0
    done = shell("check", "pets.csv", "--encoding", "cp1252")
    assert done.code == 1
    assert "byte order mark of UTF-8, so it is not cp1252" in " ".join(done.err.split())


def test_a_copy_never_replaces_the_base_of_the_sheet(shell: Shell) -> None:
    """A copy with the name of the sheet, or of its base, is an error that says which of them it
    would replace.
    """
    sheet = _sheet("name\nRex\n")
    base = Path(f"{sheet}.petsync-base")
    base.touch()
    for path, what in ((sheet, "the input"), (base, "the base of the input")):
        done = shell("check", str(sheet), "--annotate", str(path))
        assert done.code == 64
        assert f"{path} is {what}: it would be overwritten" in " ".join(done.err.split())
