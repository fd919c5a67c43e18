"""Sheets in several files on the command line: exported, edited, planned, applied, and by Dask."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import Shell

import petsync as ps
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox
from petsync.scale.executors import LocalProcesses, Workers
from petsync.scale.parts import BASE_FOLDER, PartFolder
from petsync.sheets.sidecar import sidecar_path

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_parts")]

SUPPORT = Path(__file__).parents[1] / "support"


def edit(folder: Path, pet_id: int, name: str) -> None:
    """Give a pet in one of the files another name."""
    for path in folder.glob("[!.]*.parquet"):
        table = pq.read_table(path)
        rows = table.to_pylist()
        for row in rows:
            if row["id"] == pet_id:
                row["name"] = name
        pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


def test_a_folder_is_exported_edited_planned_and_applied(box: Sandbox, shell: Shell) -> None:
    """A folder takes the place of a sheet: it agrees after the export, its edits are planned with
    their rows, and after the run it agrees again.
    """
    done = shell("export", "big", "--format", "parquet", "--url", box.url)
    assert "6 pets" in done.err
    assert "all 6 rows agree" in shell("plan", "big", "--url", box.url).out
    Path("big/.part-00000.parquet").write_bytes(b"a copy that a program left")
    edit(Path("big"), 2, "Mia II")
    pattern = shell("plan", "big/*.parquet", "--url", box.url)
    assert "exported" in pattern.out  # with the base of the folder
    plan = shell("plan", "big", "--url", box.url, "-o", "plan.json")
    assert "name: Mia -> Mia II" in plan.out
    assert "1 to change" in plan.out
    assert shell("apply", "plan.json", "--url", box.url, "--yes").code == 0
    assert {pet.id: pet.name for pet in box.pets()}[2] == "Mia II"
    assert "all 6 rows agree" in shell("plan", "big", "--url", box.url).out


def test_a_new_row_of_a_folder_is_added_once(box: Sandbox, shell: Shell) -> None:
    """A row without an id adds its pet in the first run, and no pet in the second one."""
    shell("export", "big", "--format", "parquet", "--url", box.url)
    path = sorted(Path("big").glob("*.parquet"))[5]
    table = pq.read_table(path)
    new = {**dict.fromkeys(table.column_names), "name": "Newcomer", "status": "available"}
    pq.write_table(pa.Table.from_pylist([*table.to_pylist(), new], table.schema), path)
    assert "1 to add" in shell("plan", "big", "--url", box.url).out
    done = shell("apply", "big", "--url", box.url, "--yes")
    assert done.code == 0, done.err
    assert "0 to add" not in shell("plan", "big", "--url", box.url, "--exit-code").out
    assert shell("plan", "big", "--url", box.url, "--exit-code").code == 0
    assert [pet.name for pet in box.pets()].count("Newcomer") == 1


def test_a_change_names_its_file_and_row(box: Sandbox, shell: Shell) -> None:
    """Changes, conflicts and findings of a folder name the file and the row in this file, also in
    a saved plan, and after a part of it was selected.
    """
    Path("big").mkdir()
    rows = {
        "id": pa.array([1, 2, None, 4]),
        "name": ["Rex", "Mia", "New", "Bob II"],
        "status": ["available", "gone", "sold", None],
    }
    table = pa.table(rows)
    for start in (0, 2):
        pq.write_table(table.slice(start, 2), f"big/part-{start}.parquet")
    done = shell("plan", "big", "--url", box.url, "-o", "plan.json")
    text = " ".join(done.out.split())
    assert "part-0.parquet, row 2, status" in text
    assert "part-2.parquet, row 1" in text
    plan = Plan.load("plan.json")
    assert [plan.address(each, "name") for each in plan.changes] == [
        "part-2.parquet, row 1, name",
        "part-2.parquet, row 2, name",
    ]
    assert "part-2.parquet, row 2, name" in plan.select(ids=4).to_frame()["source"].tolist()
    shell("plan", "big/part-2.parquet", "--url", box.url, "-o", "one.json")
    assert [each.source for each in Plan.load("one.json").changes] == ["row 1, id", "row 2, name"]
    # In 80 columns, only the names of files and pets are shortened.
    for length in (20, 60):
        Path(f"{length}").mkdir()
        name = f"{'north-branch-' * 9}{'x' * 60}"[-length:]
        for pet in ("A", "Bob with a name of about forty characters"):
            Path(f"{length}/{name}-{pet[0]}.csv").write_text(f"id,name\n1,Rex\n4,{pet}\n")
            line = next(
                line
                for line in shell("plan", f"{length}/*-{pet[0]}.csv", "--url", box.url).out.split(
                    "\n"
                )
                if line.startswith("  ~ 4  ")
            )
            assert line.endswith(f"-{pet[0]}.csv, line 3, column 2")
            assert len(line) == 80


def test_a_folder_is_applied(box: Sandbox, shell: Shell) -> None:
    """`apply` takes the folder itself, and --why explains one of its pets."""
    shell("export", "big", "--format", "parquet", "--url", box.url)
    edit(Path("big"), 1, "Rex II")
    assert "Rex II" in shell("plan", "big", "--url", box.url, "--why", "1").out
    done = shell("apply", "big", "--url", box.url, "--yes", "--report", "report.html")
    assert done.code == 0
    assert {pet.id: pet.name for pet in box.pets()}[1] == "Rex II"
    assert "Rex II" in Path("report.html").read_text(encoding="utf-8")


def test_rows_are_edited_again_after_a_run(box: Sandbox, shell: Shell) -> None:
    """The values that a run sent are no changes of the store: the next edit is sent, also one that
    sets the value back.
    """
    shell("export", "big", "--format", "parquet", "--url", box.url)
    edit(Path("big"), 3, "Rex II")
    for name in ("Mia II", "Mia III", "Mia"):
        edit(Path("big"), 2, name)
        done = shell("apply", "big", "--url", box.url, "--yes")
        assert done.code == 0, done.out
        assert {pet.id: pet.name for pet in box.pets()}[2] == name
    assert shell("plan", "big", "--url", box.url, "--exit-code").code == 0


@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        (
            lambda folder: [each.unlink() for each in folder.glob("*.parquet")],
            "no Parquet, CSV or JSON Lines file",
        ),
        (lambda folder: (folder / "part-00000.parquet").write_bytes(b"x"), "cannot be read"),
        (lambda folder: rename(folder, "id", "number"), "no column of ids"),
        (lambda folder: rename(folder, "status", "petsync row"), "Rename the column"),
        (lambda folder: rename(folder, "status", "name"), "Rename the column"),
        (
            lambda folder: rename(folder, "name", "call", only="part-00001.parquet"),
            "has the columns",
        ),
        (lambda folder: next((folder / BASE_FOLDER).glob("*.parquet")).write_bytes(b""), "changed"),
        (lambda folder: (folder / BASE_FOLDER / "petsync.json").write_text("{}"), "manifest"),
        (lambda folder: (folder / BASE_FOLDER / "petsync.json").unlink(), "cannot be read"),
    ],
)
def test_a_broken_folder_is_an_error(
    break_it: object, text: str, box: Sandbox, shell: Shell
) -> None:
    """A folder that cannot be read completely is an error that names it; nothing is planned."""
    shell("export", "big", "--format", "parquet", "--url", box.url)
    assert callable(break_it)
    break_it(Path("big"))
    done = shell("plan", "big", "--url", box.url)
    assert done.code in (1, 3)
    assert text in done.err.replace("\n", " ")
    assert "big" in done.err


def rename(folder: Path, column: str, name: str, only: str = "*.parquet") -> None:
    """Rename a column in the files."""
    for path in folder.glob(only):
        table = pq.read_table(path)
        pq.write_table(table.rename_columns({column: name}), path)


def test_a_csv_export_is_compared_in_parts(box: Sandbox, shell: Shell) -> None:
    """A CSV export that a folder or a pattern names is compared in parts, with its base: it agrees,
    its edits are planned with their lines, and newer values of the store stay.
    """
    Path("big").mkdir()
    shell("export", "big/pets.csv", "--url", box.url)
    for sheet in ("big", "big/p*.csv"):
        assert "all 6 rows agree" in shell("plan", sheet, "--url", box.url).out
    with ps.connect(box.url) as store:
        store.apply(store.edit(3, name="Newer"))
    path = Path("big/pets.csv")
    more = Path("big/more.csv")
    text = path.read_text(encoding="utf-8")
    header = text.splitlines()[0]
    more.write_text(f"{header}\n,Newcomer,available,,,,,\n", encoding="utf-8")
    path.write_text(text.replace(",Mia,", ",Mia II,"), encoding="utf-8")
    done = shell("plan", "big", "--url", box.url, "-o", "plan.json")
    assert "name: Mia -> Mia II" in done.out
    assert {each.source for each in Plan.load("plan.json").changes} == {
        "more.csv, line 2, column 1",
        "pets.csv, line 3, column 2",
    }
    assert "Newer" not in {each.after.name for each in Plan.load("plan.json").updates}
    assert shell("apply", "plan.json", "--url", box.url, "--yes").code == 0
    assert {"Newer", "Mia II", "Newcomer"} <= {pet.name for pet in box.pets()}
    done = shell("plan", "big", "--url", box.url, "--exit-code")
    assert done.code == 0, done.out


def test_an_encoding_applies_to_csv_files_only(box: Sandbox, shell: Shell) -> None:
    """--encoding reads the CSV files of a folder, and is an error for other files."""
    Path("big").mkdir()
    Path("big/1.csv").write_text("id;name\n3;Zoë II\n", encoding="cp1252")
    done = shell("plan", "big", "--url", box.url)
    shown = " ".join(done.err.split())
    assert "1.csv: byte 13 of the file (0xEB) is not UTF-8" in shown
    assert "as Windows-1252 it reads '3;Zoë II'" in shown
    done = shell("plan", "big", "--url", box.url, "--encoding", "cp1252")
    assert "Zoë II" in done.out
    Path("big/1.csv").write_text("id;name\n3;Zoë III\n", encoding="utf-16")
    assert "the file is UTF-16" in " ".join(shell("plan", "big", "--url", box.url).err.split())
    done = shell("plan", "big", "--url", box.url, "--encoding", "utf-16")
    assert "Zoë III" in done.out
    Path("big/1.csv").rename("big/1.jsonl")
    done = shell("plan", "big", "--url", box.url, "--encoding", "cp1252")
    assert "--encoding cannot apply to big, which has JSON Lines files" in done.err


def test_json_lines_are_compared(box: Sandbox, shell: Shell) -> None:
    """Each line of a JSON Lines file is a row: an absent key and null change nothing, and lists are
    lists.
    """
    Path("big").mkdir()
    rows = [{"id": 1, "tags": ["calm", "new"]}, {"id": 2, "name": None, "status": "sold"}]
    for number, row in enumerate(rows):
        Path(f"big/{number}.ndjson").write_text(f"\n{json.dumps(row)}\n", encoding="utf-8")
    assert shell("plan", "big", "--url", box.url, "-o", "plan.json").code == 0
    changes = Plan.load("plan.json").updates
    assert [(each.pet_id, each.fields) for each in changes] == [(1, ("tags",)), (2, ("status",))]
    assert [each.source for each in changes] == ["0.ndjson, row 2, tags", "1.ndjson, row 2, status"]
    assert [tag.name for tag in changes[0].after.tags] == ["calm", "new"]


def test_parquet_files_with_other_types_keep_each_id(box: Sandbox, shell: Shell) -> None:
    """An id that the type of another file cannot hold is an error that names its file: pandas makes
    ids with a missing value floats.
    """
    Path("big").mkdir()
    for name, ids in (("a", [1.0, None]), ("b", [2**63 - 2, *range(2, 50)])):
        rows = pd.DataFrame({"id": ids, "name": "Zed"})
        rows.to_parquet(f"big/{name}.parquet", index=False)
    for command in (["plan", "big", "--url", box.url], ["check", "big"], ["diff", "big", "big"]):
        done = shell(*command)
        assert done.code == 1
        text = " ".join(done.err.split())
        assert "b.parquet has a column of another type than the other files" in text
        assert "astype('Int64')" in text


def test_the_index_of_pandas_is_named(shell: Shell) -> None:
    """pandas writes the index of a filtered table as a column, which the other files lack."""
    Path("big").mkdir()
    rows = pd.DataFrame({"id": [1, 2, 3, 4, 5], "name": "Zed"})
    rows.to_parquet("big/a.parquet")
    rows[rows["id"].isin([1, 2, 5])].to_parquet("big/b.parquet")
    assert "write the file with index=False" in " ".join(shell("check", "big").err.split())


def test_what_petsync_writes_beside_a_sheet_is_no_part_of_it(box: Sandbox, shell: Shell) -> None:
    """The backups and results of the files in a folder, which have older values, are left out, and
    so is the lock of a spreadsheet program; a pattern that has only these files reads them.
    """
    Path("big").mkdir()
    for name, content in (
        ("a.csv", "id,name\n1,Zed\n"),
        ("a.backup-20261130-043212.csv", "id,name\n2,Old\n"),
        ("a.results.csv", "id,name,result\n1,Zed,done\n"),
        ("a.results-2.csv", "id,name,result\n1,Zed,done\n"),
        ("~$a.xlsx", "x"),
    ):
        Path("big", name).write_text(content, encoding="utf-8")
    for path, changed in (("big", 1), ("big/*", 1), ("big/*.backup-*", 2)):
        assert shell("plan", path, "--url", box.url, "-o", "plan.json").code == 0
        assert [each.pet_id for each in Plan.load("plan.json").updates] == [changed]


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"a.csv": "id,name\n", "b.jsonl": '{"id": 1}'}, "files of several kinds: a.csv (CSV), b"),
        ({"a.csv": "id,name\n", "b.csv": "id,status\n"}, "b.csv has the columns id, status, and"),
        ({"a.csv": "name,status\n"}, "big has no column of ids"),
        ({"a.csv": "what,ever\n"}, "a.csv: no column has a header that petsync recognises"),
        ({"a.csv": 'id,name\n1,"Rex\n'}, "a.csv: a cell that begins in the record at line 2"),
        ({"a.jsonl": '{"id": 1}\n\n[1]\n'}, "a.jsonl: line 3 is not a JSON object"),
        ({"a.jsonl": '{"id": 1, "satus": "sold"}'}, "a.jsonl has columns that petsync does not"),
        ({"a.jsonl": '{"id": 1, "colour": "red"}'}, "a.jsonl has no known column except the ids"),
        ({"a.xlsx": "x"}, "big has no Parquet, CSV or JSON Lines file"),
        ({"a.csv": "id,name\n", "b.xlsx": "x"}, "big has b.xlsx besides 1 CSV file"),
        ({"a.csv": "id,name\n", "b.csv.gz": "x", "c.json": "{}"}, "big has b.csv.gz, c.json be"),
    ],
)
def test_files_that_cannot_be_read_are_named(
    files: dict[str, str], text: str, box: Sandbox, shell: Shell
) -> None:
    """The error of a folder names the folder or the file, and never a DataFrame."""
    Path("big").mkdir()
    for name, content in files.items():
        Path("big", name).write_text(content, encoding="utf-8")
    done = shell("plan", "big", "--url", box.url)
    assert done.code == 1
    assert text in " ".join(done.err.split())
    assert "DataFrame" not in done.err


def test_a_value_of_another_type_blocks_its_row(box: Sandbox, shell: Shell) -> None:
    """In JSON Lines, a value that its column cannot have is a finding of its row, as in one file;
    the other rows are planned, and its pet is not missing.
    """
    Path("big").mkdir()
    lines = '{"id": 1, "name": {"a": 1}}\n{"id": 2, "name": "Tom"}\n'
    Path("big/a.jsonl").write_text(lines, encoding="utf-8")
    for path in ("big", "big/a.jsonl"):
        words = ("plan", path, "--url", box.url, "--delete-missing", "-o", "plan.json")
        assert shell(*words).code in (0, 2, 4)
        plan = Plan.load("plan.json")
        assert [each.pet_id for each in plan.updates] == [2]
        (blocked,) = plan.blocked
        assert "name" in blocked.source
        assert 1 not in [each.pet_id for each in plan.deletes]


def test_files_may_have_no_usable_row(box: Sandbox, shell: Shell) -> None:
    """A file may be empty, have a header only, or only rows with errors."""
    Path("big").mkdir()
    Path("big/1.csv").write_text("id,name\n", encoding="utf-8")
    Path("big/2.csv").write_text("id,name\nx,Rex\n7\n", encoding="utf-8")
    done = shell("plan", "big", "--url", box.url)
    assert done.code == 0, done.err
    assert "2 rows need fixing" in done.out
    assert "2.csv, line 2, column 1" in done.out
    Path("lines").mkdir()
    Path("lines/1.jsonl").write_text("\n", encoding="utf-8")
    Path("lines/2.jsonl").write_text('{"id": "x", "name": "Rex"}', encoding="utf-8")
    assert "1 row needs fixing" in shell("plan", "lines", "--url", box.url).out
    Path("lines/2.jsonl").unlink()
    done = shell("plan", "lines", "--url", box.url)
    assert "its columns have no names" in " ".join(done.err.split())


def test_a_misspelt_folder_is_an_error(box: Sandbox, shell: Shell) -> None:
    """A name without a file extension may be meant as a folder."""
    done = shell("plan", "bgi", "--url", box.url)
    assert "bgi: there is no such file or folder" in done.err
    done = shell("plan", "bgi/*.csv", "--url", box.url)
    assert "bgi/*.csv has no Parquet, CSV or JSON Lines file" in done.err


def test_two_exports_are_no_sheet_in_several_files(box: Sandbox, shell: Shell) -> None:
    """Values of several exports cannot be told from edits, so several bases are an error."""
    Path("big").mkdir()
    for name in ("a", "b"):
        shell("export", f"big/{name}.csv", "--url", box.url)
    done = shell("plan", "big", "--url", box.url)
    assert "a.csv, b.csv each have the records of an export" in " ".join(done.err.split())
    sidecar_path(Path("big/b.csv")).unlink()
    Path("big/b.csv").unlink()
    sidecar_path(Path("big/a.csv")).write_text("petsync-base", encoding="utf-8")
    done = shell("plan", "big", "--url", box.url)
    assert "the records of its export cannot be used" in " ".join(done.err.split())


def test_an_export_needs_an_empty_folder(box: Sandbox, shell: Shell) -> None:
    """An export never mixes its files with others."""
    Path("big").mkdir()
    Path("big/mine.txt").write_text("mine")
    done = shell("export", "big", "--format", "parquet", "--url", box.url)
    assert done.code == 1
    assert "big is not empty" in done.err
    assert [each.name for each in Path("big").iterdir()] == ["mine.txt"]
    assert shell("export", "b", "--format", "parquet", "--force", "--url", box.url).code == 64


def test_a_plan_of_one_file_loads_nothing_for_folders(box: Sandbox, shell: Shell) -> None:
    """A plan of a small sheet imports neither Dask nor fsspec nor what folders need."""
    shell("export", "pets.csv", "--url", box.url)
    code = (
        "import sys; from petsync.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print({'dask', 'distributed', 'fsspec', 'petsync.scale'} & {*sys.modules})\n"
    )
    command = [sys.executable, "-c", code, "plan", "pets.csv", "--url", box.url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "all 6 rows agree" in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_failed_export_can_be_repeated(box: Sandbox, shell: Shell) -> None:
    """An export that fails leaves no files behind, so that the next one finds an empty folder."""
    url = f"{box.url}/nowhere"
    assert shell("export", "big", "--format", "parquet", "--url", url).code != 0
    assert [*Path("big").iterdir()] == []
    assert shell("export", "big", "--format", "parquet", "--url", box.url).code == 0


@pytest.mark.parametrize("partitions", [0, -1, 100_000])
def test_the_number_of_parts_is_checked(partitions: int, box: Sandbox, tmp_path: Path) -> None:
    """A number of parts that cannot be used is an error before anything is written."""
    with ps.connect(box.url) as store, pytest.raises(ps.errors.SettingsError, match="partitions="):
        store.snapshot_to(tmp_path / "now", partitions=partitions)
    assert not (tmp_path / "now").exists()


def test_there_may_be_more_parts_than_open_files(box: Sandbox, tmp_path: Path) -> None:
    """The number of parts is not limited by the number of files that a process may open."""
    with ps.connect(box.url) as store:
        store.snapshot_to(tmp_path / "now", partitions=3_000)
    parts = PartFolder.open(tmp_path / "now")
    assert sum(len(parts.read(number)) for number in range(3_000)) == 6


def test_a_folder_is_checked_like_a_sheet(box: Sandbox, shell: Shell) -> None:
    """`petsync check` lists the findings of all files of a folder or a pattern, with the file and
    the line, the rules, and the exit code of one sheet; it names what cannot apply to a folder.
    """
    shell("export", "big", "--format", "parquet", "--url", box.url)
    assert "no findings" in shell("check", "big").out
    assert shell("rehearse", "big", "--url", box.url).code == 0
    Path("petsync.toml").write_text(
        '[[rules]]\nname = "names"\ncolumns = ["name"]\nunique = true\n', encoding="utf-8"
    )
    Path("pets").mkdir()
    for name, rows in (("a", "1,Rex,sold\n2,Mia,lost\n"), ("b", "3,Leo,sold\n4,Rex,sold\n")):
        Path(f"pets/{name}.csv").write_text(f"id,name,status\n{rows}", encoding="utf-8")
    done = shell("check", "pets/*.csv", "--rules", "--format", "text")
    assert done.code == 3
    text = " ".join(done.out.split())
    assert "names error 4 of 4 broken in 2 rows" in text
    assert '"Rex": The same value is also in b.csv, line 3, column 2' in text
    assert "1 row can be used, 3 rows need fixing; 3 errors, 0 warnings" in text
    found = json.loads(shell("check", "pets", "--json").out)
    assert (found["rows"], found["errors"], found["rules"][0]["broken"]) == (1, 3, 2)
    for option in (
        ["--annotate", "m.xlsx"],
        ["--sheet", "Pets"],
        ["--correct", "status:lost=sold"],
    ):
        assert shell("check", "pets", *option).code == 64
    assert shell("check", "s3://shop/pets").code == 64
    done = shell("export", "b.parquet", "--format", "parquet", "--url", box.url)
    assert "leave out .parquet" in done.err
    assert not Path("b.parquet").exists()


def test_dask_needs_a_folder_and_a_scheduler(box: Sandbox, shell: Shell) -> None:
    """--dask for a file, and an address without a scheduler, are errors."""
    shell("export", "pets.csv", "--url", box.url)
    assert shell("plan", "pets.csv", "--url", box.url, "--dask", "tcp://127.0.0.1:9").code == 64
    shell("export", "big", "--format", "parquet", "--url", box.url)
    done = shell("plan", "big", "--url", box.url, "--dask", "nowhere.json")
    assert "neither the address of a Dask scheduler" in done.err
    why = shell("plan", "big", "--url", box.url, "--dask", "nowhere.json", "--why", "1")
    assert "neither the address of a Dask scheduler" in why.err
    shell("plan", "big", "--url", box.url, "-o", "plan.json")
    saved = shell("apply", "plan.json", "--url", box.url, "--dask", "nowhere.json")
    assert "leave out --dask" in saved.err


def test_a_killed_process_changes_no_result(tmp_path: Path) -> None:
    """If the process of a part dies, another one computes the part; and no process runs the script
    of the caller a second time.
    """
    code = (
        "from dying import square; from petsync.scale.executors import Workers; import sys\n"
        "print('begin', flush=True)\n"
        "with Workers(None, size=10**9) as workers:\n"
        "    print(*workers.run(square, [(n, sys.argv[1]) for n in range(10)]))\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    marks = tmp_path / "marks"
    marks.mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{SUPPORT}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [sys.executable, str(script), str(marks)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["begin", *(str(n * n) for n in range(10))]
    assert {each.name for each in marks.iterdir()} == {"3", "8"}


def test_an_executor_of_the_caller_is_used() -> None:
    """The parts are computed by the executor that the caller gives."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as executor, Workers(executor) as workers:
        assert list(workers.run(abs, [-1, 2])) == [1, 2]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """A Dask cluster with two workers on this machine; its scheduler file."""
    file = tmp_path / "scheduler.json"
    environment = {
        **os.environ,
        "PYTHONPATH": f"{SUPPORT}:{os.environ.get('PYTHONPATH', '')}",
        "DASK_DISTRIBUTED__WORKER__DAEMON": "False",
    }
    shared = ["--scheduler-file", str(file), "--no-dashboard"]
    commands = [
        ["scheduler", "--host", "127.0.0.1", "--port", "0", *shared],
        *[["worker", "--host", "127.0.0.1", "--nthreads", "1", *shared]] * 2,
    ]
    with ExitStack() as stack:
        for kind, *options in commands:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "dask", kind, *options],
                    env=environment,
                    cwd=tmp_path,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            stack.callback(process.terminate)
        end = time.monotonic() + 120
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.1)
        yield file


def test_a_dask_cluster_makes_the_same_plan(
    box: Sandbox, shell: Shell, cluster: Path, tmp_path: Path
) -> None:
    """The plan of two workers of a Dask cluster is that of this machine, the workers send nothing,
    and a killed worker changes no result.
    """
    shell("export", "big", "--format", "parquet", "--url", box.url)
    edit(Path("big"), 2, "Mia II")
    here = shell("plan", "big", "--url", box.url, "-o", "here.json")
    before = Counter(box.requests)
    there = shell("plan", "big", "--url", box.url, "-o", "d.json", "--dask", str(cluster))
    assert (here.code, there.code) == (0, 0), there.err
    plans = [Plan.load(name) for name in ("here.json", "d.json")]
    assert plans[0].changes == plans[1].changes != ()
    assert box.requests - before == {"findPetsByStatus": 1}
    code = (
        "from dying import square; from petsync.scale.executors import connect_dask; import sys\n"
        "with connect_dask(sys.argv[1]) as executor:\n"
        "    print(*executor.map(square, [(n, sys.argv[2]) for n in range(10)]))\n"
    )
    marks = tmp_path / "marks"
    marks.mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{SUPPORT}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(cluster), str(marks)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(n * n) for n in range(10)]
    assert {each.name for each in marks.iterdir()} == {"3", "8"}


def test_the_memory_limits_the_processes(box: Sandbox, shell: Shell) -> None:
    """With --memory, a folder is compared in fewer processes; a size that is too small, or no size,
    is an error, and so is --memory for a file.
    """
    shell("export", "big", "--format", "parquet", "--url", box.url)
    assert "all 6 rows agree" in shell("plan", "big", "--memory", "300MiB", "--url", box.url).out
    small = shell("plan", "big", "--memory", "200MB", "--url", box.url)
    assert small.code == 64
    assert "A process needs more than 250 MiB" in small.err.replace("\n", " ")
    next(Path("big", BASE_FOLDER).glob("*.parquet")).write_bytes(b"")
    damaged = shell("plan", "big", "--memory", "300MiB", "--url", box.url)
    assert "was changed" in damaged.err.replace("\n", " ")
    shutil.rmtree("big")
    shell("export", "big", "--format", "parquet", "--url", box.url)
    assert "is not a size" in shell("plan", "big", "--memory", "much", "--url", box.url).err
    shell("export", "pets.csv", "--url", box.url)
    assert shell("plan", "pets.csv", "--memory", "1GB", "--url", box.url).code == 64
    both = shell("plan", "big", "--memory", "1GB", "--dask", "x.json", "--url", box.url)
    assert "leave out --dask" in both.err
    with ps.connect(box.url) as store:
        assert store.plan("big", memory="0.5GiB").summary().unchanged == 6


def test_an_error_names_the_number_of_parts_that_fit() -> None:
    """If no part fits, the error names a number of parts of which one fits, but not one less."""
    size, memory = 10**9, LocalProcesses("500MB")
    with pytest.raises(ps.errors.SettingsError) as error:
        memory.count(size, 64)
    assert "not even one of the 64 parts fits" in error.value.message
    (parts,) = map(int, re.findall(r"partitions=(\d+)", error.value.hint))
    assert memory.count(size, parts) == 1
    with pytest.raises(ps.errors.SettingsError):
        memory.count(size, parts - 1)
    with Workers(memory, size, parts) as workers:
        assert list(workers.run(abs, [-1, 2])) == [1, 2]


def test_rows_without_an_id_are_known_again(box: Sandbox, shell: Shell) -> None:
    """A row without an id that a run added and that was renamed is no new pet, and a pattern knows
    the runs of its folder: it does not revert what somebody changed in the store since.
    """
    shell("export", "big", "--format", "parquet", "--url", box.url)
    path = min(Path("big").glob("*.parquet"))
    table = pq.read_table(path)

    def write(name: str, status: str) -> None:
        new = {**dict.fromkeys(table.column_names), "name": name, "status": status}
        rows = [new, *table.to_pylist()]
        pq.write_table(pa.Table.from_pylist(rows, table.schema), path)

    write("Newbie", "sold")
    edit(Path("big"), 2, "Mia II")
    assert shell("apply", "big", "--url", box.url, "--yes").code == 0
    write("Renamed", "pending")
    edit(Path("big"), 2, "Mia II")
    with ps.connect(box.url) as store:
        store.api.update_pet_with_form(2, name="Mia III")
    for sheet in ("big", "big/*.parquet"):
        done = shell("plan", sheet, "--url", box.url)
        assert "0 to add" in done.out, done.out
        assert "Mia III ->" not in done.out


def test_workers_end_with_a_killed_command(box: Sandbox, shell: Shell) -> None:
    """If `petsync plan` is killed, its processes end too."""
    shell("export", "big", "--format", "parquet", "--url", box.url)
    command = [sys.executable, "-m", "petsync", "plan", "big", "--url", box.url]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        workers: list[psutil.Process] = []
        while not any(map(has_started, workers)) and process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                workers = psutil.Process(process.pid).children()
        process.kill()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive


def has_started(worker: psutil.Process) -> bool:
    """Whether the process has loaded what it needs."""
    with suppress(psutil.Error):
        return any("libparquet" in each.path for each in worker.memory_maps())
    return False
