"""The journal's file: refused and damaged files, and a full disk."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from journals import PETS, STORE, begin_run, intended, other_process, result, small_plan
from times import times

from petsync.apply.journal import Journal
from petsync.errors import PetsyncError
from petsync.images.upload import uploads_to
from petsync.plan.plan import Plan
from petsync.plan.report import Entry

pytestmark = pytest.mark.slow

PLAN = small_plan()
OTHER = small_plan(name="other")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a state folder that does not exist yet."""
    return tmp_path / "state"


def files(state: Path) -> dict[str, bytes]:
    """Return the content of every file in the state folder."""
    return {path.name: path.read_bytes() for path in sorted(state.iterdir())}


def filled(state: Path) -> Journal:
    """Return a journal with three runs: one with open changes, and one of uploads."""

    async def work() -> None:
        journal = Journal.open(state, create=True)
        for run, plan in (("run-1", PLAN), ("run-2", OTHER)):
            session = begin_run(journal, run, plan, options={"of": run})
            for number, change in enumerate(plan.changes):
                await intended(session, number, change)
                if run == "run-1" or number < 3:
                    session.record_result(result(number, change, message=f"{run} {number}"))
            await session.record_known_ids(range(100))
            await session.finish(stopped="" if run == "run-1" else "interrupted")
            await session.close()
        session = begin_run(journal, "run-3", kind="upload", payload=b"payload" * 100, total=1)
        entry = Entry(number=0, kind="upload", pet_id=3, digest="ab" * 32)
        await session.record_image_intent(entry)
        session.record_image_result(msgspec.structs.replace(entry, outcome="applied"))
        await session.finish()
        await session.close()

    asyncio.run(work())
    return Journal.open(state, create=False)


def answer_questions(journal: Journal) -> Iterator[tuple[str, Any]]:
    """Yield each question to a journal with its answer; PetsyncError if it has none."""
    for run in ("run-1", "run-2", "run-3"):
        yield f"entries {run}", _or_error(lambda run=run: _sealed(journal.entries(run)))
        yield f"payload {run}", _or_error(lambda run=run: journal.payload(run))
        yield f"options {run}", _or_error(lambda run=run: journal.options(run))
        if run != "run-3":
            yield f"plan {run}", _or_error(lambda run=run: journal.plan(run))
            yield f"report {run}", _or_error(lambda run=run: journal.report(run).run_id)
    yield "uploaded", _or_error(lambda: _sealed(_uploaded(journal)))
    for plan in (PLAN, OTHER):
        yield (
            plan.fingerprint,
            _or_error(lambda plan=plan: journal.find_run_of_plan(plan.fingerprint)),
        )
    facts = ("run_id", "kind", "store", "source", "fingerprint", "started", "total")
    yield "runs", _or_error(lambda: [[getattr(r, f) for f in facts] for r in journal.runs()])


def _or_error(question: Any) -> Any:
    try:
        return question()
    except PetsyncError:
        return PetsyncError


def _uploaded(journal: Journal) -> list[Entry]:
    """Return the applied uploads."""
    return [each.entry for each in uploads_to(journal, STORE).applied.values()]


def _sealed(entries: Any) -> list[Entry]:
    """Return the entries without their count of attempts, which has no checksum."""
    return [msgspec.structs.replace(entry, attempts=0) for entry in entries]


def database(path: Path, *statements: str) -> None:
    """Run statements in a database, as another program does."""
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("wal", [False, True])
@pytest.mark.parametrize("create", [False, True])
def test_another_programs_database_is_left_as_it_is(state: Path, create: bool, wal: bool) -> None:
    """Another program's database is refused, and no byte of its folder changes."""
    database(
        state / "journal.db",
        f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}",
        "CREATE TABLE a (b)",
        "INSERT INTO a VALUES (1)",
    )
    before = files(state)
    with pytest.raises(PetsyncError, match="another program's database") as caught:
        Journal.open(state, create=create)
    assert "--state" in caught.value.cure
    assert files(state) == before


def test_a_journal_of_petsync_0_2_is_read_and_continued(state: Path) -> None:
    """A journal of petsync 0.2 (version 2) is read, and new runs are added to it."""
    journal = filled(state)
    before = dict(answer_questions(journal))
    used = "CREATE TABLE used (fingerprint TEXT PRIMARY KEY, run TEXT, seal INTEGER) WITHOUT ROWID"
    database(journal.path, used, "PRAGMA user_version = 2")
    journal = Journal.open(state, create=True)
    assert dict(answer_questions(journal)) == before
    assert journal.find_run_of_plan(PLAN.fingerprint) == "run-1"
    asyncio.run(begin_run(journal, "run-4", small_plan(name="fourth")).close())
    assert journal.runs()[0].run_id == "run-4"


def test_a_newer_petsyncs_journal_is_left_as_it_is(state: Path) -> None:
    """A newer petsync's journal is refused and not changed."""
    filled(state)
    database(state / "journal.db", "PRAGMA user_version = 4", "DROP TABLE lock")
    before = files(state)
    with pytest.raises(PetsyncError, match="version 4; this petsync can use versions 2 to 3"):
        Journal.open(state, create=True)
    assert files(state) == before


def test_a_newer_journal_with_its_log_beside_it_keeps_both(state: Path) -> None:
    """A newer petsync's journal with a log is refused, and both files stay unchanged."""
    journal = filled(state)
    with closing(sqlite3.connect(journal.path)) as connection:
        connection.execute("PRAGMA user_version = 4")
        connection.commit()
        kept = files(state)
        copy = state.with_name("copy")
        copy.mkdir()
        for name in ("journal.db", "journal.db-wal"):
            (copy / name).write_bytes(kept[name])
    with pytest.raises(PetsyncError, match="can use versions 2 to 3"):
        Journal.open(copy, create=True)
    after = files(copy)
    assert after["journal.db"] == kept["journal.db"]
    assert after["journal.db-wal"] == kept["journal.db-wal"]


@pytest.mark.parametrize("content", [b"no database at all", b"SQLite format 3\0" + bytes(5000)])
def test_a_damaged_journal_is_set_aside(state: Path, content: bytes) -> None:
    """A damaged journal is renamed and reported with a hint, and the next run begins a new one."""
    state.mkdir()
    (state / "journal.db").write_bytes(content)
    for _ in range(2):
        with pytest.raises(PetsyncError, match="is damaged") as caught:
            Journal.open(state, create=True)
        aside = [path for path in state.iterdir() if path.name.startswith("journal.damaged-")]
        assert any(str(path) in caught.value.message for path in aside)
        for text in ("Nothing was sent", "cannot be resumed", "plan again", "new journal"):
            assert text in caught.value.hint
        assert Journal.open(state, create=True).runs() == []
        (state / "journal.db").write_bytes(content)
    assert len(aside) == 2
    assert {path.read_bytes() for path in aside} == {content}


def test_a_damaged_journal_takes_its_log_with_it(state: Path) -> None:
    """The log of a damaged journal is renamed too, so that the new journal does not use it."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        assert other.ask("intend", 0) == "ok"
    log = (state / "journal.db-wal").read_bytes()
    assert log
    path = state / "journal.db"
    path.write_bytes(b"garbage" * 2000)
    # The log has every page, so SQLite could repair the file; without the log's header it cannot.
    (state / "journal.db-wal").write_bytes(bytes(32) + log[32:])
    with pytest.raises(PetsyncError, match="renamed to"):
        Journal.open(state, create=True)
    assert not [name for name in files(state) if name.startswith("journal.db")]
    assert log[32:] in [body[32:] for body in files(state).values()]
    assert Journal.open(state, create=True).runs() == []


def test_a_run_whose_lock_file_cannot_be_made_changes_nothing(state: Path) -> None:
    """A run whose lock file cannot be created is refused before it locks the store."""
    journal = Journal.open(state, create=True)
    (state / "journal.1.lock").symlink_to(state / "elsewhere")
    with pytest.raises(PetsyncError, match="symbolic link"):
        begin_run(journal, "run-1", PLAN)
    assert journal.runs() == []
    (state / "journal.1.lock").unlink()
    asyncio.run(begin_run(journal, "run-1", PLAN).close())
    assert [run.run_id for run in journal.runs()] == ["run-1"]


def test_a_state_folder_of_another_user_is_an_error(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that this user may not enter is an error with the journal's path and the way out."""

    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    # The tests may run as root, who may enter every folder.
    monkeypatch.setattr(Path, "exists", refuse)
    for create in (False, True):
        verb = "written" if create else "read"
        with pytest.raises(PetsyncError, match=rf"journal\.db cannot be {verb}") as raised:
            Journal.open(state, create=create)
        assert "Get the permission" in raised.value.hint
        assert "state=" in raised.value.hint


def test_a_damaged_journal_in_use_is_not_moved(state: Path) -> None:
    """A damaged journal that another process uses is not renamed."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        content = (state / "journal.db").read_bytes()
        with (state / "journal.db").open("r+b") as file:
            file.write(b"garbage" * 3)
        (state / "journal.db-wal").write_bytes(b"")
        with pytest.raises(PetsyncError, match="another process still uses it"):
            Journal.open(state, create=True)
        assert "journal.db" in files(state)
        with (state / "journal.db").open("r+b") as file:
            file.write(content)


def test_a_journal_in_use_by_this_process_is_not_moved(state: Path) -> None:
    """A damaged journal that this process uses is not renamed."""

    async def work() -> None:
        session = begin_run(Journal.open(state, create=True), "run")
        await session.flush()
        with (state / "journal.db").open("r+b") as file:
            file.truncate(5000)
        (state / "journal.db-wal").write_bytes(b"")
        with pytest.raises(PetsyncError, match=r"damaged|cannot be"):
            Journal.open(state, create=True)
        assert "journal.db" in files(state)
        await session.close()

    asyncio.run(work())


def test_damage_in_the_middle_of_a_run_reaches_the_waiters(state: Path) -> None:
    """Damage in mid-run is an error for each waiting intent, and the file is not renamed."""

    async def work() -> None:
        journal = Journal.open(state, create=True)
        session = begin_run(journal, "run", PLAN)
        for number in range(100):
            await intended(session, number, PLAN.changes[number % 6])
        with closing(sqlite3.connect(journal.path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with journal.path.open("r+b") as file:
            size = file.seek(0, 2)
            file.seek(0)
            file.write(os.urandom(size))
        many = [intended(session, number, PLAN.changes[number % 6]) for number in range(100, 900)]
        errors = [e for e in await asyncio.gather(*many, return_exceptions=True) if e]
        assert errors
        assert all(isinstance(e, PetsyncError) and "damaged" in e.message for e in errors)
        assert len({id(error) for error in errors}) == len(errors)
        await session.close()
        assert "journal.db" in files(state)

    asyncio.run(work())


def test_a_missing_table_is_damage(state: Path) -> None:
    """A journal without one of its tables is refused as damaged."""
    filled(state)
    database(state / "journal.db", "DROP TABLE sitting")
    with pytest.raises(PetsyncError, match="it has no table sitting"):
        Journal.open(state, create=True)


def test_a_run_goes_on_only_in_the_file_that_it_began_with(state: Path) -> None:
    """If the journal is deleted, moved or replaced in mid-run, the next intent fails."""

    async def work(spoil: Any) -> None:
        journal = Journal.open(state, create=True)
        session = begin_run(journal, "run", PLAN)
        await intended(session, 0, PLAN.changes[0])
        spoil()
        with pytest.raises(PetsyncError, match="cannot be written") as caught:
            await intended(session, 1, PLAN.changes[1])
        message = caught.value.message
        assert (
            "while in use" in message or "while it was in use" in message or "disk I/O" in message
        )
        await session.close()
        shutil.rmtree(state, ignore_errors=True)

    def replaced() -> None:
        shutil.copy(state / "journal.db", state / "new")
        (state / "new").rename(state / "journal.db")

    asyncio.run(work(lambda: shutil.rmtree(state)))
    asyncio.run(work(lambda: state.rename(state.with_name("moved"))))
    asyncio.run(work(replaced))


@pytest.mark.skipif(os.name == "nt", reason="limits are POSIX's")
def test_a_full_disk_stops_the_run_before_anything_is_sent(state: Path) -> None:
    """On a full disk, intents fail and earlier entries stay; with free space, the run continues."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        assert other.ask("intend", 0) == "ok"
        assert other.ask("limit", 4096) == "ok"
        refused = [other.ask("intend", number) for number in range(1, 4)]
        assert all("cannot be written" in answer for answer in refused)
        assert other.ask("finish").startswith("PetsyncError")
        assert other.ask("done", 0).startswith("PetsyncError")
        assert other.ask("limit", 10**9) == "ok"
        assert other.ask("intend", 4) == other.ask("finish") == other.ask("close") == "ok"
    found = {e.number: e.outcome for e in Journal.open(state, create=False).entries("first")}
    # The result that could not be written was kept, and was written with the next group.
    assert found == {0: "applied", 4: None}


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path, what: str) -> None:
    """A state folder that cannot be written is an error whose hint names --state."""
    state = tmp_path / "state"
    if what == "file":
        state.write_text("in the way")
    else:
        (state / "journal.db").mkdir(parents=True)
    with pytest.raises(PetsyncError, match=r"the journal .* cannot be written") as caught:
        Journal.open(state, create=True)
    assert "--state" in caught.value.cure


def test_a_journal_that_a_killed_process_left_opens(state: Path) -> None:
    """A journal of a killed process opens with its log."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        for number in range(6):
            assert other.ask("intend", number) == "ok"
    assert (state / "journal.db-wal").stat().st_size > 0
    (state / "journal.db-shm").unlink()
    assert len(list(Journal.open(state, create=True).entries("first"))) == 6


def test_a_torn_log_is_no_damage(state: Path) -> None:
    """A truncated log is not damage: all complete groups before the end are read."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        for number in range(6):
            assert other.ask("intend", number) == "ok"
    log = (state / "journal.db-wal").read_bytes()
    seen = set()
    for size in range(len(log), 0, -1001):
        copy = state.with_name(f"torn{size}")
        copy.mkdir()
        shutil.copy(state / "journal.db", copy)
        (copy / "journal.db-wal").write_bytes(log[:size])
        journal = Journal.open(copy, create=True)
        if journal.runs():
            numbers = [entry.number for entry in journal.entries("first")]
            assert numbers == list(range(len(numbers)))
            seen.add(len(numbers))
    assert seen == set(range(7))


@pytest.mark.parametrize("seed", range(times(6)))
def test_no_damage_is_taken_for_the_truth(state: Path, seed: int) -> None:
    """With any damage, each answer is correct or an error, and no byte of the file is lost."""
    truth = dict(answer_questions(filled(state)))
    body = (state / "journal.db").read_bytes()
    chance = random.Random(seed)
    refused = 0
    for case in range(60):
        copy = state.with_name(f"case{case}")
        copy.mkdir()
        spoilt = _spoilt(body, chance)
        (copy / "journal.db").write_bytes(spoilt)
        try:
            journal = Journal.open(copy, create=True)
        except PetsyncError:
            refused += 1
            assert spoilt in files(copy).values()
            continue
        for question, answer in answer_questions(journal):
            assert answer in (truth[question], PetsyncError), (seed, case, question)
        shutil.rmtree(copy)
    assert refused > 5


def _spoilt(body: bytes, chance: random.Random) -> bytes:
    spoilt = bytearray(body)
    place = chance.randrange(len(body))
    match chance.randrange(5):
        case 0:
            return bytes(spoilt[:place]) or b"x"
        case 1:
            size = chance.choice([16, 512, 4096])
            spoilt[place : place + size] = bytes(len(spoilt[place : place + size]))
        case 2:
            spoilt[place : place + 64] = chance.randbytes(len(spoilt[place : place + 64]))
        case _:
            for _ in range(chance.choice([1, 1, 2, 8])):
                spoilt[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    return bytes(spoilt)


def test_a_plan_that_was_damaged_is_no_plan(state: Path) -> None:
    """A run, plan or change that does not match its checksum is refused."""
    journal = filled(state)
    with closing(sqlite3.connect(journal.path)) as connection, connection:
        connection.execute("UPDATE run SET plan = CAST(x'00' || plan AS BLOB) WHERE id = 'run-1'")
        connection.execute("UPDATE change SET before = replace(before, 'pet', 'pat')")
        connection.execute("UPDATE run SET store = 'x' WHERE id = 'run-3'")
    for question in (journal.plan, journal.report, lambda run: list(journal.entries(run))):
        with pytest.raises(PetsyncError, match="does not match its checksum"):
            question("run-1")
    with pytest.raises(PetsyncError, match="run run-3 does not match its checksum"):
        journal.runs()
    with pytest.raises(PetsyncError, match="change 0 of run run-2 does not match its checksum"):
        list(journal.entries("run-2"))
    assert isinstance(journal.plan("run-2"), Plan)


def test_known_ids_that_were_damaged_are_not_used(state: Path) -> None:
    """Known ids that do not match their checksum are refused by a report and by a resume."""
    journal = filled(state)
    assert journal.find_known_ids("run-2") == frozenset(range(100))
    with closing(sqlite3.connect(journal.path)) as connection, connection:
        connection.execute(
            "UPDATE known SET ids = CAST(replace(CAST(ids AS TEXT), '42,', '') AS BLOB) "
            "WHERE run = 'run-2'"
        )
    for question in (journal.find_known_ids, journal.resume):
        with pytest.raises(PetsyncError, match="run run-2 does not match its checksum"):
            question("run-2")
    assert journal.find_known_ids("run-1") == frozenset(range(100))


def test_a_change_of_no_run_may_be_anybodys(state: Path) -> None:
    """A change of a missing run is damage, because any run may lack it."""
    journal = filled(state)
    assert len(list(journal.entries("run-1"))) == 6
    with closing(sqlite3.connect(journal.path)) as connection, connection:
        connection.execute("UPDATE change SET run = 'run-9' WHERE run = 'run-1' AND number = 2")
    with pytest.raises(PetsyncError, match="it has changes of a missing run run-9"):
        list(journal.entries("run-1"))


def test_a_damaged_log_ends_where_the_damage_begins(state: Path) -> None:
    """The entries before the damage in a log are read, complete and correct, and no others."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
        for number in range(6):
            assert other.ask("intend", number) == other.ask("done", number) == "ok"
    log = (state / "journal.db-wal").read_bytes()
    chance = random.Random(5)
    for case in range(60):
        spoilt = bytearray(log)
        spoilt[chance.randrange(len(log))] ^= 1 << chance.randrange(8)
        copy = state.with_name(f"log{case}")
        copy.mkdir()
        shutil.copy(state / "journal.db", copy)
        (copy / "journal.db-wal").write_bytes(spoilt)
        journal = Journal.open(copy, create=True)
        found = list(journal.entries("first")) if journal.runs() else []
        assert [entry.number for entry in found] == list(range(len(found)))
        assert [entry.outcome for entry in found[:-1]] == ["applied"] * (len(found) - 1)
        assert all(entry.before == PETS[entry.number] for entry in found)


def test_an_open_beside_a_busy_writer_finds_no_damage(state: Path) -> None:
    """Opening a journal while another connection writes finds no damage."""
    with other_process(state, "first") as other:
        assert other.answer() == "sat"
    before = files(state)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            altering = closing(sqlite3.connect(state / "journal.db", timeout=120))
            with altering as connection, connection:
                connection.execute("UPDATE lock SET heartbeat = heartbeat + 1")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(200):
            assert Journal.open(state, create=True).runs()[0].run_id == "first"
    finally:
        stop.set()
        thread.join()
    assert {name.split("-")[0] for name in files(state)} == {name.split("-")[0] for name in before}
