"""The store's database file: which files are refused, what it stores, and how writes are
committed.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petsync.errors import SettingsError
from petsync.models import Pet, Tag
from petsync.sandbox import Sandbox
from petsync.sandbox import storage as records
from petsync.sandbox.storage import Storage
from petsync.sandbox.tokens import TokenBook


def refused(path: Path) -> str:
    """Return the error for this path; assert that the file is unchanged."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(SettingsError) as caught:
        Sandbox(db=path).start()
    assert before is None or path.read_bytes() == before
    assert caught.value.hint
    assert str(path) in caught.value.message
    return caught.value.message


def test_a_file_that_is_no_database(tmp_path):
    """A text file is refused and not changed."""
    path = tmp_path / "store.db"
    path.write_text("id,name\n1,Rex\n" * 1000)
    assert "not a database" in refused(path)


def test_another_programs_database(tmp_path):
    """A database of another program is refused and not changed."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customer (id)")
    assert "not a sandbox's store" in refused(path)


def test_a_newer_version(tmp_path):
    """A file of a newer format is refused."""
    path = tmp_path / "store.db"
    Storage(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert "newer version" in refused(path)


def test_a_damaged_file(tmp_path):
    """A damaged store is refused."""
    path = tmp_path / "store.db"
    with Sandbox(db=path, pets=[Pet(id=n, name="x" * 500) for n in range(200)]):
        pass
    content = bytearray(path.read_bytes())
    content[8192 : 8192 + 4096 * 10] = b"\xa5" * 40960
    path.write_bytes(content)
    refused(path)


@pytest.mark.parametrize("name", ["missing/store.db", ""])
def test_a_path_that_cannot_be_opened(tmp_path, name):
    """A missing folder, or a folder in place of the file, is refused."""
    assert "cannot be opened" in refused(tmp_path / name)


def test_an_empty_file_becomes_a_store(tmp_path):
    """An empty file becomes a store."""
    path = tmp_path / "store.db"
    path.touch()
    with Sandbox(db=path, pets=[Pet(name="Rex")]) as sandbox:
        assert [pet.id for pet in sandbox.pets()] == [1]


def test_everything_outlives_the_server(tmp_path):
    """After a restart the pets exist, and ids of deleted pets are not assigned again."""
    path = tmp_path / "store.db"
    rex = Pet(id=7, name="Rex", tags=(Tag(1, "a", {"x": [1]}),), extra={"age": 3})
    with Sandbox(db=path, pets=[rex, Pet(id=8, name="Max")]) as sandbox:
        assert sandbox.remove(8)
        assert not sandbox.remove(8)
    with Sandbox(db=path, pets=[Pet(id=1, name="unused")]) as sandbox:
        assert sandbox.pets() == [rex]
        assert sandbox.put(Pet(name="Neu")).id == 9


def test_jobs_fail_alone(tmp_path):
    """A job that raises before it writes does not affect the other jobs of its batch."""

    def refuse(_: sqlite3.Connection) -> None:
        raise LookupError("refused")

    async def run(storage: Storage) -> list[object]:
        jobs = [lambda c, n=n: records.save(c, Pet(id=n)) for n in range(3)]
        work = map(storage.write, [jobs[0], refuse, *jobs[1:]])
        return await asyncio.gather(*work, return_exceptions=True)

    with closing(Storage(tmp_path / "store.db")) as storage:
        results = asyncio.run(run(storage))
        assert [type(result) for result in results] == [bytes, LookupError, bytes, bytes]
        assert [pet.id for pet in records.read_all(storage.reader)] == [0, 1, 2]


def test_a_failing_file_takes_the_whole_batch_back(tmp_path):
    """If the file fails, each job of the batch fails and nothing is written; later jobs work."""

    def fail(connection: sqlite3.Connection) -> None:
        records.save(connection, Pet(id=2))
        raise sqlite3.OperationalError("disk I/O error")

    async def run(storage: Storage) -> list[object]:
        work = (storage.write(lambda c: records.save(c, Pet(id=1))), storage.write(fail))
        failed = await asyncio.gather(*work, return_exceptions=True)
        await storage.write(lambda c: records.save(c, Pet(id=3)))
        return failed

    with closing(Storage(tmp_path / "store.db")) as storage:
        results = asyncio.run(run(storage))
        assert [type(result) for result in results] == [sqlite3.OperationalError] * 2
        assert [pet.id for pet in records.read_all(storage.reader)] == [3]


def test_a_failing_file_keeps_the_tokens_as_they_were(tmp_path):
    """If the file fails, a revoked token stays valid, in this server and after a restart."""

    def fail(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    async def run(storage: Storage, tokens: TokenBook) -> tuple[str, str]:
        kept = (await tokens.issue("x", ["read:pets"])).access_token
        ended = (await tokens.issue("x", ["read:pets"])).access_token
        work = (tokens.revoke(kept, "x"), storage.write(fail))
        failed = await asyncio.gather(*work, return_exceptions=True)
        assert [type(result) for result in failed] == [sqlite3.OperationalError] * 2
        await tokens.revoke(ended, "x")
        return kept, ended

    with closing(Storage(tmp_path / "store.db")) as storage:
        tokens = TokenBook(storage, lifetime=60.0)
        kept, ended = asyncio.run(run(storage, tokens))
        before = [tokens.find(token) is not None for token in (kept, ended)]
    with closing(Storage(tmp_path / "store.db")) as storage:
        tokens = TokenBook(storage, lifetime=60.0)
        assert [tokens.find(token) is not None for token in (kept, ended)] == before
    assert before == [True, False]


def test_a_snapshot_stays_as_it_is(tmp_path):
    """A snapshot does not show later writes."""
    with closing(Storage(tmp_path / "store.db")) as storage:
        storage.load(lambda c: records.replace_all(c, [Pet(id=1)]))
        with storage.snapshot() as connection:
            assert records.find(connection, 1) is not None
            storage.load(lambda c: records.replace_all(c, []))
            assert records.find(connection, 1) is not None
        assert records.find(storage.reader, 1) is None


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(st.lists(st.tuples(text, st.lists(text, max_size=3)), max_size=6), text)
def test_any_text_is_found_again(things, wanted):
    """Status and tags are found by exactly their text, whatever Unicode it contains."""
    pets = [
        Pet(id=n, status=status, tags=tuple(Tag(None, name) for name in names))
        for n, (status, names) in enumerate(things)
    ]
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(
            "CREATE TABLE pet"
            " (id INTEGER PRIMARY KEY, status TEXT, xml INTEGER, body BLOB, arrived INTEGER);"
            "CREATE TABLE tag (pet_id INTEGER, name TEXT);"
        )
        for pet in pets:
            records.save(connection, pet)
        for value in {wanted, *(thing[0] for thing in things)}:
            found = records.batches(connection, records.by_status([value]))
            assert sum(map(len, found)) == sum(pet.status == value for pet in pets)
        for value in {wanted, *(name for thing in things for name in thing[1])}:
            selection = records.by_tags([value], once_per_tag=False)
            found = records.batches(connection, selection)
            assert sum(map(len, found)) == sum(value in map(str, pet.tags) for pet in pets)
