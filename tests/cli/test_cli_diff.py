"""petsync diff: the differences between two files, or a file and the store."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from commands import Shell, shop, to
from effort import list_openings
from openpyxl import load_workbook

from petsync.sandbox import Sandbox


@pytest.fixture(autouse=True)
def _files(shell: Shell) -> None:
    """Write two files into the current folder of the shell."""
    Path("a.csv").write_text("id,name,status\n1,Rex,sold\n2,Mia,sold\n", "utf-8")
    Path("b.csv").write_text("id,name,status\n1,Max,sold\n", "utf-8")


def test_differences_end_with_2_and_their_absence_with_0(shell: Shell) -> None:
    """The exit code tells a script; the text names both files, and no command changes a store."""
    done = shell("diff", "a.csv", "b.csv")
    assert done.code == 2
    assert "1 differs, 1 only in a.csv; 0 equal." in done.out
    assert "name: Rex -> Max" in done.out
    assert "petsync apply" not in done.out + done.err
    assert shell("diff", "a.csv", "a.csv").code == 0


def test_each_format_is_printed_or_saved(shell: Shell) -> None:
    """JSON, HTML and Markdown go to standard output, and every format to a file."""
    assert [row["kind"] for row in shell("diff", "a.csv", "b.csv", "--json").json["rows"]] == [
        "differs",
        "only-a",
    ]
    assert "Only in `a.csv`" in shell("diff", "a.csv", "b.csv", "--format", "md").out
    names = ["d.html", "d.xlsx", "d.json", "d.md", "d.txt"]
    done = shell("diff", "a.csv", "b.csv", *[word for name in names for word in ("-o", name)])
    assert done.code == 2
    assert all(Path(name).stat().st_size for name in names)
    again = shell("diff", "a.csv", "b.csv", *[word for name in names for word in ("-o", name)])
    assert again.code == 2


def test_no_sheet_is_replaced(shell: Shell, box: Sandbox) -> None:
    """Differences and plans replace no workbook that petsync did not write or that was changed
    since, no export, no sheet or other text, no page and no other JSON.
    """
    pd.DataFrame({"id": [1], "name": ["Rex"]}).to_excel("own.xlsx", index=False)
    assert shell("export", "e.xlsx", *to(box)).code == 0
    assert shell("export", "e.json", *to(box)).code == 0
    assert shell("diff", "a.csv", "b.csv", "-o", "d.xlsx").code == 2
    book = load_workbook("d.xlsx")
    book["Differences"]["A2"] = "mine"
    book.save("d.xlsx")
    Path("own.txt").write_text("id;name\n1;Rex\n", "utf-8")
    Path("notes.txt").write_text("Call Tom.\n", "utf-8")
    Path("README.md").write_text("# The shop\n", "utf-8")
    Path("index.html").write_text("<!doctype html>\n<html lang=en>\n", "utf-8")
    names = ("own.xlsx", "own.txt", "e.xlsx", "e.json", "d.xlsx")
    names += ("notes.txt", "README.md", "index.html")
    before = {name: Path(name).read_bytes() for name in names}
    for name in names:
        for words in (("diff", "a.csv", "b.csv"), ("plan", "a.csv", *to(box))):
            done = shell(*words, "-o", name)
            assert (done.code, "it would be overwritten" in " ".join(done.err.split())) == (
                64,
                True,
            )
        assert Path(name).read_bytes() == before[name]


def test_what_petsync_wrote_is_replaced(shell: Shell, box: Sandbox) -> None:
    """Differences, plans and their pages replace what earlier commands wrote."""
    for words, code in ((("diff", "a.csv", "b.csv"), 2), (("plan", "b.csv", *to(box)), 0)):
        for ending in ("html", "md", "txt", "xlsx", "json"):
            for _ in range(2):
                assert shell(*words, "-o", f"{words[0]}.{ending}").code == code
    for ending in ("html", "md", "txt", "xlsx"):
        for path, words in (
            ("diff", ("plan", "b.csv", *to(box))),
            ("plan", ("diff", "a.csv", "b.csv")),
        ):
            assert shell(*words, "-o", f"{path}.{ending}").code != 64


def test_the_store_is_a_side(shell: Shell, box: Sandbox) -> None:
    """`store:` is the connected store; an export of it is equal."""
    assert shell("export", "e.xlsx", *to(box)).code == 0
    done = shell("diff", "e.xlsx", "store:", *to(box))
    assert (done.code, f"No differences; {len(shop())} equal." in done.out) == (0, True)
    assert shell("diff", "store:", "a.csv", *to(box)).code == 2


def test_a_base_tells_the_sides_apart(shell: Shell) -> None:
    """--base lists what each side changed, added and removed, and the conflicts."""
    Path("c.csv").write_text("id,name,status\n1,Tom,sold\n2,Mia,sold\n", "utf-8")
    done = shell("diff", "b.csv", "c.csv", "--base", "a.csv")
    assert done.code == 2
    assert "Conflict: 1 row" in done.out
    assert "Removed in b.csv: 1 row\n  - 2  Mia\n      sold\n" in done.out
    assert "In the base: name 'Rex'." in done.out
    Path("d.csv").write_text("id,name,status\n1,Rex,sold\n2,Mo,sold\n3,Zoe,sold\n", "utf-8")
    done = shell("diff", "d.csv", "b.csv", "--base", "a.csv")
    assert "Added in d.csv: 1 row\n  + 3  Zoe" in done.out
    assert "The row was removed in b.csv. In the base: name 'Mia', status 'sold'." in done.out
    found = shell("diff", "d.csv", "b.csv", "--base", "a.csv", "--json").json
    assert [row["missing"] for row in found["rows"]] == ["b", "base", ""]


@pytest.mark.parametrize(
    "options", [["-o", "d.pdf"], ["-o", "a.csv"], ["--format", "xlsx"], ["-o", "none/d.html"]]
)
def test_options_that_make_no_sense(shell: Shell, options: list[str]) -> None:
    """An output that cannot be written is a usage error, and no input is overwritten."""
    before = Path("a.csv").read_bytes()
    assert shell("diff", "a.csv", "b.csv", *options).code == 64
    assert Path("a.csv").read_bytes() == before


def test_a_worksheet_is_that_of_the_workbook(shell: Shell) -> None:
    """--sheet applies to the sides that are workbooks; it is an error if none is. Each file is
    opened once.
    """
    with pd.ExcelWriter("c.xlsx") as book:
        pd.read_csv("b.csv").to_excel(book, sheet_name="Old", index=False)
        pd.read_csv("a.csv").to_excel(book, sheet_name="New", index=False)
    assert shell("diff", "a.csv", "c.xlsx").code == 2
    words = ("diff", "a.csv", "c.xlsx", "--sheet", "New")
    assert list_openings(lambda: shell(*words), Path()) == ["a.csv", "c.xlsx"]
    assert shell(*words).code == 0
    done = shell("diff", "a.csv", "b.csv", "--sheet", "New")
    assert (done.code, "Leave out the worksheet (--sheet New)." in done.err) == (1, True)


def test_a_missing_file_is_an_error(shell: Shell) -> None:
    """The error names the file."""
    done = shell("diff", "a.csv", "none.csv")
    assert (done.code, "none.csv" in done.err) == (1, True)
