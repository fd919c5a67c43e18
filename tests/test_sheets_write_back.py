"""write_back: the results in the user's own file, completely or not at all, with a backup."""

import datetime as dt
import json
import os
import subprocess
import sys

import openpyxl
import pandas as pd
import pytest
from books import plain, rich

from petsync import _files
from petsync.errors import SheetError
from petsync.sheets import must_take_results, read_sheet, write_back
from petsync.sheets.results import create_backup
from petsync.sheets.sidecar import sidecar_path

pytestmark = pytest.mark.slow

NOW = dt.datetime(2026, 11, 21, 10, 30, tzinfo=dt.UTC)
RESULTS = pd.DataFrame(
    {"outcome": ["applied"], "message": [""], "assigned_id": pd.array([pd.NA], "Int64")}, index=[2]
)


@pytest.fixture
def book(tmp_path):
    """Return a workbook of pets."""
    return rich(tmp_path / "pets.xlsx")


def names(book):
    """Return the names of the files in its folder."""
    return sorted(each.name for each in book.parent.iterdir())


def test_the_file_gets_the_results_and_the_backup_is_the_file(book):
    """The file gets the result columns, and its backup is the old file byte for byte."""
    before = book.read_bytes()
    book.chmod(0o640)
    backup = write_back(read_sheet(book), RESULTS, now=NOW)
    assert backup == book.with_name("pets.backup-20261121-103000.xlsx")
    assert backup.read_bytes() == before
    assert backup.stat().st_mode & 0o777 == book.stat().st_mode & 0o777 == 0o640
    assert openpyxl.load_workbook(book)["Pets"]["F2"].value == "applied"
    assert names(book) == sorted([book.name, backup.name])


def test_nobody_else_can_read_a_backup_while_it_is_written(book, monkeypatch):
    """The temporary file of a backup is private, whatever the mode of the sheet."""
    book.chmod(0o640)
    modes = []
    finish = _files._flush_and_close

    def look(file):
        modes.append(os.fstat(file.fileno()).st_mode & 0o777)
        finish(file)

    monkeypatch.setattr(_files, "_flush_and_close", look)
    create_backup(book, book.read_bytes(), NOW)
    assert modes == [0o600]


def test_no_earlier_backup_is_replaced(book):
    """Two backups of one second get different names, and none is replaced."""
    before = book.read_bytes()
    names = [write_back(read_sheet(book), RESULTS, now=NOW).name for _ in range(3)]
    stem = "pets.backup-20261121-103000"
    assert names == [f"{stem}.xlsx", f"{stem}-2.xlsx", f"{stem}-3.xlsx"]
    assert book.with_name(names[0]).read_bytes() == before


def test_a_csv_is_written_back_with_its_sidecar(tmp_path):
    """The backup of a CSV file has a copy of its sidecar."""
    path = tmp_path / "pets.csv"
    path.write_text("id,name\n1,Rex\n")
    sidecar_path(path).write_text("petsync-base 1 1 0\nAAAA\n")
    backup = write_back(read_sheet(path), RESULTS, now=NOW)
    assert backup.read_text() == "id,name\n1,Rex\n"
    assert (
        sidecar_path(backup).read_text()
        == sidecar_path(path).read_text()
        == "petsync-base 1 1 0\nAAAA\n"
    )
    assert path.read_text().splitlines()[1] == "1,Rex,applied,,,2"


def test_a_link_stays_a_link(book, tmp_path):
    """Through a link its target is written, and the backup is beside the target."""
    (tmp_path / "desk").mkdir()
    link = tmp_path / "desk" / "today.xlsx"
    link.symlink_to(book)
    backup = write_back(read_sheet(link), RESULTS, now=NOW)
    assert link.is_symlink()
    assert backup.parent == book.parent
    assert read_sheet(book).others["outcome"].iloc[0] == "applied"


@pytest.mark.parametrize(
    ("lock", "content", "program"),
    [
        ("~$pets.xlsx", b"\x04Anna" + b" " * 50, r"Excel has the file open \(Anna\)"),
        (".~lock.pets.xlsx#", b",anna,desk,21.11.2026;", "LibreOffice has the file open"),
        (".~lock.pets.xlsx#", b"Anna B,anna,desk;", r"LibreOffice has the file open \(Anna B\)"),
        ("~$pets.xlsx", b"", "Excel has the file open"),
    ],
)
def test_a_file_that_is_open_is_left_alone(book, lock, content, program):
    """A file with a lock of Excel or LibreOffice is not written, and the error names the user and
    the lock.
    """
    sheet, before = read_sheet(book), book.read_bytes()
    book.with_name(lock).write_bytes(content)
    for refused in (
        lambda: must_take_results(sheet),
        lambda: write_back(sheet, RESULTS, now=NOW),
    ):
        with pytest.raises(SheetError, match=program) as caught:
            refused()
        assert lock in caught.value.hint
    assert book.read_bytes() == before
    assert len(names(book)) == 2


@pytest.mark.parametrize("lock", ["~$pets.xlsx", ".~lock.pets.xlsx#"])
def test_a_pipe_in_the_place_of_a_lock_file_is_not_read(book, lock):
    """A pipe in place of a lock file is not read, and the file counts as open."""
    os.mkfifo(book.with_name(lock))
    with pytest.raises(SheetError, match="has the file open"):
        must_take_results(read_sheet(book))


def test_a_lock_beside_a_link_counts_too(book, tmp_path):
    """A lock beside the link counts like a lock beside the file."""
    (tmp_path / "desk").mkdir()
    link = tmp_path / "desk" / "today.xlsx"
    link.symlink_to(book)
    sheet = read_sheet(link)
    (tmp_path / "desk" / ".~lock.today.xlsx#").write_text("Anna,")
    with pytest.raises(SheetError, match="LibreOffice"):
        must_take_results(sheet)


def test_a_file_that_changed_meanwhile_is_left_alone(book):
    """A file that changed since it was read is not overwritten, and no backup is made."""
    sheet = read_sheet(book)
    plain(book, [["id"], ["1"]])
    saved = book.read_bytes()
    with pytest.raises(SheetError, match="changed since it was read") as caught:
        write_back(sheet, RESULTS, now=NOW)
    assert caught.value.hint == "The report has the outcome of each row."
    with pytest.raises(SheetError, match="changed since it was read") as caught:
        must_take_results(sheet)
    assert caught.value.hint == "Read it again."
    assert book.read_bytes() == saved
    assert names(book) == [book.name]


def test_a_read_only_file_is_left_alone(book):
    """A read-only file is refused and never replaced."""
    sheet = read_sheet(book)
    book.chmod(0o444)
    with pytest.raises(SheetError, match="read-only"):
        must_take_results(sheet)
    with pytest.raises(SheetError, match="read-only"):
        write_back(sheet, RESULTS, now=NOW)
    assert names(book) == [book.name]


def test_a_sheet_that_is_free_is_reported_to_be(book):
    """must_take_results raises nothing and writes nothing where write_back would work."""
    must_take_results(read_sheet(book))
    assert names(book) == [book.name]


_KILLED = """
import datetime as dt, os, shutil, signal, sys
from pathlib import Path
import pandas as pd
from petsync.sheets import read_sheet, write_back

path, kept = Path(sys.argv[1]), Path(sys.argv[2])
results = pd.DataFrame({"outcome": ["applied"], "message": [""], "assigned_id": [None]}, index=[2])
sheet = read_sheet(path)
write_back(sheet, results, now=dt.datetime(2026, 11, 21))   # everything is imported now
seen = 0

def until(number):
    def hook(event, args):
        global seen
        if event in ("open", "os.rename", "os.link", "os.remove", "os.chmod", "os.chown"):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
    return hook

number = 0
while True:
    number += 1
    folder = kept / str(number)
    folder.mkdir()
    for each in path.parent.iterdir():
        if "backup" in each.name:
            shutil.copy(each, folder / each.name.replace(".backup-20261121-000000", ""))
    sheet = read_sheet(folder / path.name)
    child = os.fork()
    if not child:
        sys.addaudithook(until(number))
        write_back(sheet, results, now=dt.datetime(2026, 11, 21))
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print(number)
"""


@pytest.mark.parametrize("name", ["pets.xlsx", "pets.csv"])
def test_killed_at_any_point_the_old_or_the_new_file_is_there(tmp_path, name):
    """Killed before any step on the disk, the file is complete: the old file, or the new file with
    a complete backup and its sidecar.
    """
    home, kept = tmp_path / "home", tmp_path / "kept"
    home.mkdir()
    kept.mkdir()
    path = home / name
    if path.suffix == ".csv":
        path.write_text("id,name\n1,Rex\n")
        sidecar_path(path).write_text("petsync-base 1 1 0\nAAAA\n")
    else:
        plain(path, [["id", "name"], ["1", "Rex"]])
    old = path.read_bytes()
    run = [sys.executable, "-c", _KILLED, path, kept]
    done = subprocess.run(run, check=True, capture_output=True, timeout=120)
    new, points = path.read_bytes(), json.loads(done.stdout)
    assert points > 8
    found = {"old": 0, "new": 0}
    for number in range(1, points + 1):
        folder = kept / str(number)
        now = (folder / name).read_bytes()
        assert now in (old, new)
        found["old" if now == old else "new"] += 1
        backups = [each for each in folder.glob("*.backup-*") if not each.name.startswith(".")]
        for backup in backups:
            whole = old if backup.suffix == path.suffix else sidecar_path(path).read_bytes()
            assert backup.read_bytes() == whole
        if now == new:
            assert len(backups) == (2 if path.suffix == ".csv" else 1)
    assert found["old"] > 4
    assert found["new"] > 0
