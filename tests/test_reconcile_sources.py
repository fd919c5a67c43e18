"""The sources of a job's rows: a sheet, a folder of sheets, a database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from effort import list_openings
from scenarios import PETS, Scenario
from shop import base_of

import petsync as ps
from petsync.config.model import Job
from petsync.reconcile.sources import Folder, sources_of
from petsync.sandbox import Sandbox
from petsync.settings import Secret

BIG = 2**63 - 2


@pytest.fixture(scope="module")
def store() -> Iterator[ps.Store]:
    """Yield a store to read sheets for."""
    with Sandbox() as box, ps.connect(box.url, environ={}) as store:
        yield store


def _database(folder: Path, rows: list[tuple[Any, ...]]) -> Secret:
    with closing(sqlite3.connect(folder / "pets.db")) as connection, connection:
        connection.execute("CREATE TABLE pets (number INTEGER, name TEXT, status TEXT)")
        connection.executemany("INSERT INTO pets VALUES (?, ?, ?)", rows)
    return Secret(f"sqlite:///{folder / 'pets.db'}")


def _job(**given: Any) -> Job:
    return Job(name="catalogue", mode="push", **given)


def test_a_query_keeps_ids_exact_and_null_says_nothing(store: ps.Store, tmp_path: Path) -> None:
    """In a query's rows an id beside a NULL stays an integer, "NA" is a name, NULL is a blank cell,
    and an empty text clears.
    """
    rows = [(BIG, "Rex", "sold"), (None, "NA", None), (3, "Mia", "")]
    job = _job(
        query="SELECT number AS nr, name, status FROM pets",
        database=_database(tmp_path, rows),
        columns={"nr": "id"},
    )
    (source,) = sources_of(job)
    sheet = source.read(store)
    assert sheet.source == source.name == f"query of sqlite:///{tmp_path}/pets.db"
    assert sheet.frame["id"].tolist()[0] == BIG
    assert sheet.address(sheet.frame.index[0], "status") == "row 1, status"
    assert sheet.frame["id"].isna().tolist() == [False, True, False]
    assert sheet.frame["name"].tolist() == ["Rex", "NA", "Mia"]
    assert sheet.frame["status"].isna().tolist() == [False, True, False]
    assert sheet.frame["status"].tolist()[2] == ""


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_an_unchanged_file_is_read_once(store: ps.Store, tmp_path: Path, ending: str) -> None:
    """A source reads its file again only after the file, or the base beside it, has changed."""
    path = tmp_path / f"pets.{ending}"
    rex, mia = ps.Pet(id=1, name="Rex"), ps.Pet(id=2, name="Mia")
    ps.write_sheet(ps.frame_from_pets([rex]), path, base=base_of([rex]))
    (source,) = sources_of(_job(sheet=path))
    first = source.read(store)
    assert source.read(store) is first
    assert source.read(store, {"asleep"}) is not first
    sidecar = Path(f"{path}.petsync-base")
    if ending == "csv":
        sidecar.unlink()
        assert source.read(store).base is None
    ps.write_sheet(ps.frame_from_pets([rex, mia]), path, base=False)
    assert source.read(store).frame["name"].tolist() == ["Rex", "Mia"]


def test_a_query_without_rows_is_an_empty_sheet(store: ps.Store, tmp_path: Path) -> None:
    """A query without rows is an empty sheet and no error; the guard refuses it later."""
    job = _job(query="SELECT number AS id FROM pets", database=_database(tmp_path, []))
    assert len(sources_of(job)[0].read(store)) == 0


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ("DELETE FROM pets", "Check the query, the values"),
        ("UPDATE pets SET number = NULL", "Let the query return the ids"),
        ("UPDATE pets SET number = 13 - number", "Fix the data that the query reads"),
    ],
)
def test_a_refused_query_gets_advice_for_a_query(tmp_path: Path, change: str, advice: str) -> None:
    """If the rows of a query are refused, the advice is about the query, and not about a sheet with
    backups.
    """
    database = _database(tmp_path, [(pet.id, pet.name, pet.status) for pet in PETS])
    query = "SELECT number AS id, name, status FROM pets"
    with Sandbox(auth=False, pets=PETS) as box:
        scenario = Scenario(box, tmp_path, {"query": query, "database": database})
        assert scenario.run().round.status == "in-sync"
        with closing(sqlite3.connect(tmp_path / "pets.db")) as connection, connection:
            connection.execute(change)
        round_ = scenario.run().round
    assert round_.status == "refused"
    assert advice in round_.hint
    assert "backup" not in round_.hint
    assert "SHEET" not in round_.hint


def test_a_query_changes_nothing(store: ps.Store, tmp_path: Path) -> None:
    """A query that changes the database is refused with an error and changes nothing."""
    database = _database(tmp_path, [(1, "Rex", "sold")])
    (source,) = sources_of(_job(query="DELETE FROM pets", database=database))
    with pytest.raises(ps.errors.SheetError, match=r"failed: .*readonly database"):
        source.read(store)
    with closing(sqlite3.connect(tmp_path / "pets.db")) as connection:
        assert connection.execute("SELECT count(*) FROM pets").fetchone() == (1,)


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM pets RETURNING number AS id",
        "INSERT INTO pets VALUES (2, 'Mia', 'sold') RETURNING number AS id",
    ],
)
def test_the_connection_is_read_only(store: ps.Store, tmp_path: Path, query: str) -> None:
    """A query that changes data and returns rows is refused by the database, because the connection
    is read-only.
    """
    (source,) = sources_of(_job(query=query, database=_database(tmp_path, [(1, "Rex", "sold")])))
    with pytest.raises(ps.errors.SheetError, match="readonly database"):
        source.read(store)


@pytest.mark.parametrize(
    "query",
    [
        "VACUUM INTO '{out}'",
        "VACUUM",
        "ATTACH '{out}' AS e",
        "attach database 'file:{out}?mode=rwc' as e",
        "PRAGMA journal_mode = WAL",
        "PRAGMA query_only = OFF",
        "PRAGMA user_version = 5",
        "SELECT * FROM pragma_journal_mode('WAL')",
        "SELECT load_extension('{out}')",
        "CREATE TEMP TABLE t (a)",
        "BEGIN IMMEDIATE",
    ],
)
def test_a_query_writes_no_file(store: ps.Store, tmp_path: Path, query: str) -> None:
    """A query writes no file: no copy of the database, no other database and no mode of the
    database.
    """
    out = tmp_path / "out.db"
    database = _database(tmp_path, [(1, "Rex", "sold")])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (source,) = sources_of(_job(query=query.format(out=out), database=database))
    with pytest.raises(ps.errors.SheetError, match="failed"):
        source.read(store)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("address", ["sqlite:///{}", "sqlite:///file:{}?uri=true&mode=rwc"])
def test_no_database_is_made(store: ps.Store, tmp_path: Path, address: str) -> None:
    """A missing database file is an error and is not created."""
    path = tmp_path / "none.db"
    (source,) = sources_of(_job(query="SELECT 1 AS id", database=Secret(address.format(path))))
    with pytest.raises(ps.errors.SheetError, match="there is no such file"):
        source.read(store)
    assert not path.exists()


@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE n(id) AS (SELECT 1 UNION SELECT id FROM n) SELECT id, name FROM n, pets",
        "SELECT value AS id, 'Rex' AS name FROM json_each('[1]')",
        "SELECT rowid AS id, name FROM words WHERE words MATCH 'rex'",
        "SELECT max(number) OVER () AS id, name FROM (SELECT * FROM pets) AS p",
        "SELECT 1 AS id, 'Rex' AS name FROM pragma_table_info('pets') LIMIT 1",
        "SELECT id, name FROM shown",
    ],
)
def test_whatever_reads_is_a_query(store: ps.Store, tmp_path: Path, query: str) -> None:
    """A query can use recursion, functions, windows, views, virtual tables and table
    information.
    """
    database = _database(tmp_path, [(1, "Rex", "sold")])
    with closing(sqlite3.connect(tmp_path / "pets.db")) as connection:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(name)")
        connection.execute("INSERT INTO words VALUES ('Rex')")
        connection.execute("CREATE VIEW shown AS SELECT number AS id, name FROM pets")
        connection.commit()
    (source,) = sources_of(_job(query=query, database=database))
    sheet = source.read(store)
    assert sheet.frame[["id", "name"]].to_numpy().tolist() == [[1, "Rex"]]


@pytest.mark.parametrize(
    "address",
    [
        "nosuchdriver://petra:geheim@db.example/pets?sslpassword=geheim",
        "sqlite:////geheim/there/is/none.db?password=geheim",
        "no address geheim at all",
    ],
)
def test_no_error_tells_the_password(store: ps.Store, address: str) -> None:
    """An error never contains the password of the address, with any text from the driver."""
    (source,) = sources_of(_job(query="SELECT 1 AS id", database=Secret(address)))
    with pytest.raises(ps.errors.SheetError) as caught:
        source.read(store)
    path = "/geheim/there/is/none.db"  # the database's own name is not a secret
    result = f"{source.name} {caught.value} {source!r}"
    assert "geheim" not in result.replace(path, "")


def test_a_folder_has_other_formats_only_if_it_names_them(tmp_path: Path) -> None:
    """JSON or .ods beside the sheets of a folder is read only if the pattern has its ending."""
    for name in ("cats.csv", "cats.json", "cats.ods", "cats.csv.gz"):
        (tmp_path / name).touch()
    assert [each.part for each in sources_of(_job(folder=tmp_path))] == ["cats.csv"]
    for name in ("cats.json", "cats.ods", "cats.csv.gz"):
        files = f"*.{name.partition('.')[2]}"
        found = sources_of(_job(folder=tmp_path, files=files))
        assert [each.part for each in found] == [name]


def test_a_folder_gives_its_sheets_and_nothing_else(tmp_path: Path) -> None:
    """A folder gives its sheets, sorted by name, and no lock file, backup, result, sidecar file or
    subfolder.
    """
    for name in (
        "cats.csv",
        "dogs.xlsx",
        "cats.csv.petsync-base",
        "dogs.backup-20261121-020000.xlsx",
        "dogs.backup-20261121-020000-2.xlsx",
        "dogs.results.xlsx",
        "dogs.results-2.xlsx",
        "~$dogs.xlsx",
        ".~lock.dogs.xlsx#",
        "notes.docx",
    ):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "more.csv").mkdir()
    assert [each.part for each in sources_of(_job(folder=tmp_path))] == ["cats.csv", "dogs.xlsx"]
    assert [each.part for each in sources_of(_job(folder=tmp_path, files="*.csv"))] == ["cats.csv"]


@pytest.mark.parametrize("name", ["", "missing"])
def test_a_folder_without_a_sheet_is_an_error(tmp_path: Path, name: str) -> None:
    """A folder that is empty or missing is an error, because its drive may not be connected."""
    with pytest.raises(ps.errors.SheetError, match="job catalogue"):
        sources_of(_job(folder=tmp_path / name))


def test_a_name_that_is_no_text_is_reported(tmp_path: Path) -> None:
    """A file name that is not UTF-8 is an error that names the file, because no report can contain
    the name.
    """
    (tmp_path / os.fsdecode(b"dogs\xff.csv")).write_bytes(b"")
    with pytest.raises(ps.errors.SheetError, match=r"dogs\\xff\.csv has a name that is not UTF-8"):
        sources_of(_job(folder=tmp_path))


def test_a_pet_in_two_files_of_a_folder_is_held_in_both(store: ps.Store, tmp_path: Path) -> None:
    """A pet in two files of a folder is held in both: each row names the other place, a row with
    another error too, and the other rows are read.
    """
    (tmp_path / "a.csv").write_text("id,name,status\n7,Rex,sold\n8,Mia,availble\n", "utf-8")
    (tmp_path / "b.csv").write_text("id,name\n9,Tom\n7,Max\n8,Mio\n", "utf-8")
    held, read = _held(store, tmp_path)
    assert [sheet.blocked for sheet in held.values()] == [(2, 3), (3, 4)]
    assert held["b.csv"].frame["name"].tolist() == ["Tom"]
    assert held["b.csv"].blocked_pets == {3: 7, 4: 8}
    problems = [each.problem for each in held["b.csv"].problems]
    assert problems == [
        "The pet also has a row in a.csv (line 2, column 1).",
        "The pet also has a row in a.csv (line 3, column 1).",
    ]
    assert held["b.csv"].with_statuses(["adopted"]).blocked == (3, 4)
    assert Folder().block_twins("a.csv", read["a.csv"]).blocked == (3,)


@pytest.mark.parametrize(
    ("one", "other", "match_on", "is_held"),
    [
        ("Quux,sold,Dogs,", "Quux,sold,Dogs,", (), True),
        ("Quux,sold,Dogs,", " Quux,sold,,", (), True),
        ("Quux,sold,Dogs,", "Quux,available,Dogs,", (), False),
        ("Quux,sold,Dogs,", "Quux,available,Dogs,", ("name",), True),
        ("Quux,sold,Dogs,", "Zorro,sold,Dogs,", (), False),
        ("Quux,sold,Dogs,add", "Quux,sold,Dogs,", (), True),
        ("Quux,sold,Dogs,", "Quux,sold,Dogs,add-another", (), False),
        ("Quux,sold,Dogs,ignore", "Quux,sold,Dogs,", (), False),
    ],
)
def test_new_rows_of_two_files_that_may_be_one_pet_are_held(
    store: ps.Store, tmp_path: Path, one: str, other: str, match_on: Sequence[Any], is_held: bool
) -> None:
    """New rows of two files are held if they have one name and no different values, or match on the
    configured columns.
    """
    for name, line in (("a.csv", one), ("b.csv", other)):
        (tmp_path / name).write_text(f"id,name,status,category,action\n,{line}\n", "utf-8")
    held, _ = _held(store, tmp_path, match_on)
    assert [sheet.blocked for sheet in held.values()] == [(2,) if is_held else ()] * 2
    assert [sheet.unidentified for sheet in held.values()] == [(2,) if is_held else ()] * 2


def _held(
    store: ps.Store, folder: Path, match_on: Sequence[Any] = ()
) -> tuple[dict[str, ps.Sheet], dict[str, ps.Sheet]]:
    """Return the sheets of a folder with held rows, and the sheets as they were read."""
    read = {each.part: each.read(store) for each in sources_of(_job(folder=folder))}
    files = Folder(match_on)
    for part, sheet in read.items():
        files.note(part, sheet)
    return {part: files.block_twins(part, sheet) for part, sheet in read.items()}, read


def test_files_of_a_folder_are_in_the_encoding_of_the_job(store: ps.Store, tmp_path: Path) -> None:
    """The job's encoding applies to text files without a byte order mark; the other files have
    their own. Each file is opened once.
    """
    text = "id,name\n1,Zoë\n"
    (tmp_path / "old.csv").write_bytes(text.encode("cp1252"))
    (tmp_path / "unicode.csv").write_bytes(text.encode("utf-8-sig"))
    (tmp_path / "wide.csv").write_bytes(text.encode("utf-16"))
    ps.write_sheet(ps.read_sheet(tmp_path / "unicode.csv"), tmp_path / "book.xlsx")
    read = [one.read(store) for one in sources_of(_job(folder=tmp_path, encoding="cp1252"))]
    assert [sheet.frame["name"].tolist() for sheet in read] == [["Zoë"]] * 4
    assert [sheet.encoding for sheet in read] == ["", "cp1252", "", "utf-16"]
    # A worksheet is that of the workbooks.
    jobs = sources_of(_job(folder=tmp_path, encoding="cp1252", tab="Pets"))
    files = ["book.xlsx", "old.csv", "unicode.csv", "wide.csv"]
    assert list_openings(lambda: [one.read(store) for one in jobs], tmp_path) == files
    assert [one.read(store).tab for one in jobs] == ["Pets", "", "", ""]
    (single,) = sources_of(_job(sheet=tmp_path / "unicode.csv", tab="Pets"))
    with pytest.raises(ps.errors.SheetError, match="a text file, which has no worksheets"):
        single.read(store)
    (old, *_) = sources_of(_job(sheet=tmp_path / "old.csv"))
    with pytest.raises(ps.errors.SheetError, match="is not UTF-8"):
        old.read(store)
