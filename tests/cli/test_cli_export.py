"""petsync export: the store as a spreadsheet."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from commands import BIG, Shell, to
from openpyxl import load_workbook
from openpyxl.comments import Comment
from openpyxl.styles import PatternFill

from petsync import read_sheet
from petsync.models import Pet
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
def test_export_is_in_sync_with_its_store(shell: Shell, box: Sandbox, suffix: str) -> None:
    """The plan of an unchanged export is empty, also with big ids and non-Latin letters."""
    done = shell("export", f"a{suffix}", *to(box))
    assert (done.code, done.out) == (0, "")
    assert "6 pets" in done.err
    plan = shell("plan", f"a{suffix}", *to(box), "--exit-code")
    assert plan.code == 0
    assert "In sync: all 6 rows agree" in plan.out


def test_tags_are_their_names(shell: Shell, box: Sandbox) -> None:
    """The cells of an export have the names of tags, because its base has their ids; without a
    base, the cells have them.
    """
    assert shell("export", "a.csv", *to(box)).code == 0
    assert shell("export", "b.csv", *to(box), "--no-base").code == 0
    named, numbered = (pd.read_csv(name)["tags"].dropna().tolist() for name in ("a.csv", "b.csv"))
    assert "calm" in named[0]
    assert not [text for text in named if ":" in text]
    assert all(":" in text for text in numbered)


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet"])
def test_export_for_programs(shell: Shell, box: Sandbox, suffix: str) -> None:
    """JSON, JSON Lines and Parquet exports have exact ids."""
    assert shell("export", f"a{suffix}", *to(box)).code == 0
    path = Path(f"a{suffix}")
    assert str(BIG) in (
        path.read_text("utf-8") if "json" in suffix else str(pd.read_parquet(path)["id"].tolist())
    )


def test_only_some_statuses_and_tags(shell: Shell, box: Sandbox) -> None:
    """--status and --tag filter the export; with both, a pet must match one of each."""

    def ids(*options: str) -> list[int]:
        assert shell("export", "a.csv", *to(box), *options).code == 0
        return list(read_sheet("a.csv").frame["id"])

    assert ids("--status", "sold", "--status", "pending") == [3, 4, 5, BIG]
    assert ids("--tag", "calm") == [1, 3]
    assert ids("--tag", "calm", "--tag", "friendly", "--status", "sold") == [BIG]


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv"])
def test_a_choice_of_pets_carries_its_base(shell: Shell, box: Sandbox, name: str) -> None:
    """The base of a filtered export has only the exported pets, and records the filters."""
    assert shell("export", name, *to(box), "--tag", "calm", "--status", "available").code == 0
    base = read_sheet(name).base
    assert base is not None
    assert list(base.frame["id"]) == list(read_sheet(name).frame["id"])
    assert (base.store, base.tags, base.statuses) == (box.url, ("calm",), ("available",))


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv"])
def test_no_base_leaves_it_out(shell: Shell, box: Sandbox, name: str) -> None:
    """With --no-base no base is written, neither in the file nor beside it, and the file is still
    in sync.
    """
    assert shell("export", name, *to(box)).code == 0
    assert shell("export", name, *to(box), "--no-base").code == 0
    assert (read_sheet(name).base, read_sheet(name).base_refused) == (None, "")
    assert not Path(f"{name}.petsync-base").exists()
    assert shell("plan", name, *to(box), "--exit-code").code == 0


def test_the_drop_down_has_the_profiles_statuses(shell: Shell, box: Sandbox) -> None:
    """The drop-down lists the statuses of the settings, in their order."""
    Path("petsync.toml").write_text('[service]\nstatuses = ["sold", "available"]\n')
    assert shell("export", "a.xlsx", *to(box)).code == 0
    lists = load_workbook("a.xlsx")["petsync lists"]
    assert [cell.value for cell in lists["A"]][:2] == ["sold", "available"]


def test_json_says_what_was_written(shell: Shell, box: Sandbox) -> None:
    """With --json the result names the file and the number of pets."""
    done = shell("export", "a.xlsx", *to(box), "--json")
    assert done.json == {"file": "a.xlsx", "pets": 6, "store": box.url}


def test_unknown_ending_sends_nothing(shell: Shell, box: Sandbox) -> None:
    """A file type that cannot be written is a usage error before any request."""
    assert shell("export", "a.ods", *to(box)).code == 64
    assert not box.requests


def test_failed_export_leaves_the_old_file(shell: Shell, box: Sandbox) -> None:
    """A failed export keeps the existing file."""
    assert shell("export", "a.csv", *to(box)).code == 0
    before = Path("a.csv").read_bytes()
    done = shell("export", "a.csv", *to(box), "--status", "reserved")
    assert done.code == 1
    assert Path("a.csv").read_bytes() == before
    missing = shell("export", "no/folder/a.csv", *to(box))
    assert missing.code == 1
    assert "folder" in missing.err


EDITS = {
    "a changed cell": lambda text: text.replace("Rex", "Max"),
    "an emptied cell": lambda text: text.replace("Rex", ""),
    "a row fewer": lambda text: "\r\n".join(text.split("\r\n")[:-2]) + "\r\n",
    "a new row": lambda text: text + ",New,sold\r\n",
    "an action": lambda text: text.replace("\r\n", "delete\r\n").replace("actiondelete", "action"),
    "a column of one's own": lambda text: text.replace("\r\n", ",\r\n").replace(
        "action,", "action,mine"
    ),
    "a broken id": lambda text: text.replace("\r\n1,", "\r\n1.5,"),
    "something else": lambda text: "mine",
}


def names() -> set[str]:
    """Return the names of the files in the folder."""
    return {path.name for path in Path().iterdir() if path.is_file()}


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
@pytest.mark.parametrize("edit", [*EDITS])
def test_an_edited_export_is_not_replaced(
    shell: Shell, box: Sandbox, edit: str, suffix: str
) -> None:
    """An edited export, or a file that is not an export, is not replaced. With --force it is kept
    as a backup, and the new export has its own base.
    """
    path = Path(f"a{suffix}")
    edited = edited_file(shell, box, path, EDITS[edit])
    requests = len(box.requests)
    done = shell("export", path.name, *to(box))
    assert done.code == 1
    assert "use --force; petsync then keeps a backup" in " ".join(done.err.split())
    assert path.read_bytes() == edited
    assert len(box.requests) == requests
    there = names()
    assert shell("export", path.name, *to(box), "--force").code == 0
    backups = [Path(name) for name in names() - there if name.endswith(suffix)]
    assert [backup.read_bytes() for backup in backups] == [edited]
    assert shell("plan", path.name, *to(box), "--exit-code").code == 0
    assert read_sheet(path).base is not None


def edited_file(shell: Shell, box: Sandbox, path: Path, edit: Callable[[str], str]) -> bytes:
    """Write an export with this edit in its cells, and return its bytes."""
    assert shell("export", "plain.csv", *to(box)).code == 0
    text = edit(Path("plain.csv").read_bytes().decode("utf-8-sig"))
    assert shell("export", path.name, *to(box)).code == 0
    if path.suffix == ".csv":
        path.write_bytes(text.encode())
        return path.read_bytes()
    book = load_workbook(path)
    sheet = book["Pets"]
    sheet.delete_rows(1, sheet.max_row)
    for row in csv.reader(io.StringIO(text)):
        sheet.append([cell or None for cell in row])
    book.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv", "a.tsv"])
def test_an_unedited_export_is_replaced(shell: Shell, box: Sandbox, name: str) -> None:
    """An export without edits is replaced without a backup, also if the store has changed."""
    assert shell("export", name, *to(box)).code == 0
    there = names()
    box.reset([Pet(id=1, name="Another", status="sold")])
    assert shell("export", name, *to(box)).code == 0
    assert names() == there
    assert list(read_sheet(name).frame["name"]) == ["Another"]


@pytest.mark.parametrize("user", ["Anna", ""])
def test_a_workbook_that_another_program_saved_is_kept(
    shell: Shell, box: Sandbox, user: str
) -> None:
    """A workbook that another program saved may have colours and comments. It is kept as a backup,
    which is named, even if the program does not record the user's name.
    """
    assert shell("export", "a.xlsx", *to(box)).code == 0
    book = load_workbook("a.xlsx")
    if user:
        book.properties.lastModifiedBy = user
    book["Pets"]["B3"].comment = Comment("call the vet", "Anna")
    book["Pets"]["B3"].fill = PatternFill("solid", fgColor="FF0000")
    book.save("a.xlsx")
    saved = Path("a.xlsx").read_bytes()
    done = shell("export", "a.xlsx", *to(box), "--json")
    assert done.code == 0
    assert Path(done.json["backup"]).read_bytes() == saved


def test_a_workbook_that_a_part_was_put_into_is_kept(shell: Shell, box: Sandbox) -> None:
    """A workbook with an added part is kept as a backup, even if all else is unchanged."""
    assert shell("export", "a.xlsx", *to(box)).code == 0
    with zipfile.ZipFile("a.xlsx", "a") as book:
        book.writestr("xl/media/photo.png", b"a picture")
    saved = Path("a.xlsx").read_bytes()
    done = shell("export", "a.xlsx", *to(box), "--json")
    assert done.code == 0
    assert Path(done.json["backup"]).read_bytes() == saved


def test_an_export_that_is_open_is_not_replaced(shell: Shell, box: Sandbox) -> None:
    """An export that Excel has open is not replaced, because Excel would later overwrite the new
    file.
    """
    assert shell("export", "a.xlsx", *to(box)).code == 0
    Path("~$a.xlsx").write_bytes(b"\x04Anna")
    done = shell("export", "a.xlsx", *to(box))
    assert done.code == 1
    assert "Excel has the file open (Anna)" in done.err


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.parquet", "plain.csv"])
def test_an_export_without_a_base_is_kept(shell: Shell, box: Sandbox, name: str) -> None:
    """Edits to an export without a base cannot be detected: it is kept as a backup if it would
    change. Another file with that name is not replaced.
    """
    arguments = ("export", name, *to(box), "--no-base")
    assert shell(*arguments).code == 0
    before, there = Path(name).read_bytes(), names()
    assert shell(*arguments).code == 0
    assert names() == there
    assert shell(*arguments, "--status", "sold").code == 0
    (backup,) = names() - there
    assert Path(backup).read_bytes() == before
    Path(name).write_bytes(b'{"mine": 1')
    assert shell(*arguments).code == 1
    assert Path(name).read_bytes() == b'{"mine": 1'


def test_no_plan_is_saved_over_an_export(shell: Shell, box: Sandbox) -> None:
    """A plan is not written over an export, and the table of a rehearsal is not written over an
    edited export.
    """
    for name in ("a.xlsx", "b.xlsx"):
        assert shell("export", name, *to(box)).code == 0
    before = Path("b.xlsx").read_bytes()
    done = shell("plan", "a.xlsx", *to(box), "-o", "b.xlsx")
    assert (done.code, "is an export" in done.err) == (64, True)
    book = load_workbook("b.xlsx")
    book["Pets"]["B2"] = "Max"
    book.save("b.xlsx")
    edited = Path("b.xlsx").read_bytes()
    assert edited != before
    done = shell("rehearse", "a.xlsx", *to(box), "-o", "b.xlsx")
    assert done.code == 1
    assert Path("b.xlsx").read_bytes() == edited


def test_tab_separated_export(shell: Shell, box: Sandbox) -> None:
    """A .tsv export reads back exactly."""
    assert shell("export", "b.tsv", *to(box)).code == 0
    assert "\t" in Path("b.tsv").read_text("utf-8").splitlines()[0]
    assert shell("plan", "b.tsv", *to(box), "--exit-code").code == 0


def test_export_of_nothing_replaces_nothing(shell: Shell, box: Sandbox) -> None:
    """An export without pets does not replace an export that has pets, but may be written to a new
    file.
    """
    assert shell("export", "a.csv", *to(box)).code == 0
    before = Path("a.csv").read_bytes()
    box.reset([])
    done = shell("export", "a.csv", *to(box), "--force")
    assert done.code == 1
    assert "delete the file first" in done.err
    assert Path("a.csv").read_bytes() == before
    assert shell("export", "new.csv", *to(box)).code == 0


def test_export_writes_through_a_link(shell: Shell, box: Sandbox) -> None:
    """A symbolic link stays and its target is written; a pipe is refused."""
    Path("there").mkdir()
    Path("a.csv").symlink_to("there/real.csv")
    assert shell("export", "a.csv", *to(box)).code == 0
    assert Path("a.csv").is_symlink()
    assert "Rex" in Path("there/real.csv").read_text("utf-8")
    os.mkfifo("pipe.csv")
    done = shell("export", "pipe.csv", *to(box))
    assert done.code == 1
    assert "pipe" in done.err
    assert Path("pipe.csv").is_fifo()
