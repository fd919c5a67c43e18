"""The journal: the records of each request, and how they are read later."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import stat
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from queue import Empty
from random import Random
from typing import Any

import msgspec
import pytest
from effort import steps
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import PETS, STARTED, STORE, begin_run, intended, result, small_plan
from shop import error_at, plan_of, sheet_saying
from times import times

from petsync.apply.journal import Journal, RunSession, build_row_payload
from petsync.apply.journal.writer import _Queue
from petsync.errors import InterruptedRunError, PetsyncError, PlanError, StalePlanError
from petsync.images.upload import uploads_to
from petsync.models import Category, Pet, Tag
from petsync.plan.report import Entry


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Return a new journal."""
    return Journal.open(tmp_path / "state", create=True)


async def closed(session: RunSession, *, stopped: str | None = "") -> None:
    """Finish and close a session."""
    if stopped is not None:
        await session.finish(stopped=stopped)
    await session.close()


def test_what_a_run_did_is_read_back_as_it_was_written(journal: Journal) -> None:
    """Each change's intent and outcome is read back, with the pet before and after."""
    plan = small_plan(PETS[:3])
    first, second, third = plan.changes
    found = msgspec.structs.replace(PETS[0], name="as the service said")

    async def work() -> None:
        session = begin_run(journal, "run", plan, options={"concurrency": 4})
        await asyncio.gather(intended(session, 0, first), intended(session, 1, second))
        session.record_result(result(0, first), after=found)
        session.record_result(
            result(2, third, "unchanged", cause="already-so", message="so already")
        )
        await closed(session)

    asyncio.run(work())
    one, two, three = journal.entries("run")
    assert (one.number, one.kind, one.pet_id, one.fields) == (0, "update", 1, ("name",))
    assert (one.row, one.source) == (first.row, first.source)
    assert (one.before, one.after, one.outcome) == (PETS[0], found, "applied")
    assert one.intended.endswith("+00:00")
    assert one.seconds >= 0
    assert (two.before, two.after, two.outcome) == (PETS[1], second.after, None)
    assert (three.outcome, three.cause, three.message) == ("unchanged", "already-so", "so already")
    assert (three.intended, three.attempts, one.attempts) == ("", 0, 1)
    assert journal.options("run") == {"concurrency": 4}
    assert journal.plan("run") == plan


def test_two_runs_of_one_second_that_drew_the_same_end_have_their_own_ids(
    journal: Journal,
) -> None:
    """Two runs with the same generated id get different ids."""

    async def work() -> list[str]:
        sessions = []
        for _ in range(2):
            sessions.append(begin_run(journal, "20261121-080000-ab12", total=1))
            await closed(sessions[-1])
        return [session.run_id for session in sessions]

    first, second = asyncio.run(work())
    assert first == "20261121-080000-ab12"
    assert second.startswith("20261121-080000-")
    assert {first, second} == {run.run_id for run in journal.runs(STORE)}
    assert len({first, second}) == 2


def test_an_intent_is_on_disk_when_it_returns(journal: Journal, tmp_path: Path) -> None:
    """Another connection sees an intent before its request can be sent."""
    plan = small_plan()

    async def work() -> None:
        session = begin_run(journal, "run", plan)
        for number, change in enumerate(plan.changes):
            await intended(session, number, change)
            with sqlite3.connect(journal.path) as seen:
                rows = seen.execute("SELECT number FROM change WHERE outcome IS NULL").fetchall()
            seen.close()
            assert rows == [(n,) for n in range(number + 1)]
        await closed(session)

    asyncio.run(work())


def test_changes_that_run_together_share_a_transaction(journal: Journal) -> None:
    """Intents that are recorded together share a few transactions."""
    plan = small_plan()

    def commits() -> int:
        # Each transaction appends every page that it changed to the log.
        return Path(f"{journal.path}-wal").stat().st_size

    async def work() -> None:
        session = begin_run(journal, "run", plan)
        alone = commits()
        await intended(session, 0, plan.changes[0])
        one = commits() - alone
        many = [intended(session, n, plan.changes[n % 6]) for n in range(1, 101)]
        await asyncio.gather(*many)
        assert commits() - alone - one < 20 * one
        await closed(session)

    asyncio.run(work())


def test_a_result_without_an_intent_is_kept(journal: Journal) -> None:
    """A result without an intent, of a change that was never sent, is kept."""
    plan = small_plan(PETS[:1])

    async def work() -> None:
        session = begin_run(journal, "run", plan)
        session.record_result(result(0, plan.changes[0], "conflict", cause="gone", message="gone"))
        await closed(session)

    asyncio.run(work())
    (entry,) = journal.entries("run")
    assert (entry.outcome, entry.cause, entry.attempts, entry.before) == (
        "conflict",
        "gone",
        0,
        None,
    )


def test_a_later_result_takes_the_place_of_an_earlier_one(journal: Journal) -> None:
    """The last result of a change replaces an earlier one."""
    change = small_plan(PETS[:1]).changes[0]

    async def work() -> None:
        session = begin_run(journal, "run", total=1)
        await intended(session, 0, change)
        session.record_result(result(0, change, "unknown", cause="no-answer", message="lost"))
        session.record_result(result(0, change, "applied", cause="confirmed"))
        await closed(session)

    asyncio.run(work())
    (entry,) = journal.entries("run")
    assert (entry.outcome, entry.cause, entry.message) == ("applied", "confirmed", "")
    assert entry.before == PETS[0]


def test_a_change_that_is_intended_again_is_open_again(journal: Journal) -> None:
    """A change with a new intent is open again, without the result of its earlier attempt."""
    change = small_plan(PETS[:1]).changes[0]
    seen = msgspec.structs.replace(PETS[0], status="sold")

    async def work() -> None:
        session = begin_run(journal, "run", total=1)
        await intended(session, 0, change)
        session.record_result(
            result(0, change, "failed", cause="refused", message="no"), after=seen
        )
        await session.record_intent(0, change, before=seen, after=change.after)
        await closed(session, stopped="interrupted")

    asyncio.run(work())
    (entry,) = journal.entries("run")
    assert (entry.outcome, entry.cause, entry.message, entry.attempts) == (None, "", "", 2)
    assert (entry.before, entry.after) == (seen, change.after)


def test_repeated_requests_are_counted_and_reported(journal: Journal) -> None:
    """Each repeated request is counted, with its reason."""
    change = small_plan(PETS[:1]).changes[0]

    async def work() -> None:
        session = begin_run(journal, "run", total=1)
        await intended(session, 0, change)
        session.record_retry(0, "503 Service Unavailable")
        session.record_retry(0, "connection reset")
        session.record_result(result(0, change))
        await closed(session)

    asyncio.run(work())
    assert [entry.attempts for entry in journal.entries("run")] == [3]
    with sqlite3.connect(journal.path) as seen:
        rows = seen.execute("SELECT number, attempt, why FROM attempt").fetchall()
    seen.close()
    assert rows == [(0, 2, "503 Service Unavailable"), (0, 3, "connection reset")]


OPS = st.lists(
    st.tuples(
        st.sampled_from(["intend", "repeat", "applied", "failed", "conflict", "flush", "sit"]),
        st.integers(0, 3),
    ),
    max_size=30,
)


@pytest.mark.slow
@settings(max_examples=times(25))
@given(ops=OPS)
def test_the_rows_say_what_was_last_handed_over(
    ops: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The journal keeps the order of records across groups and sessions."""
    journal = Journal.open(tmp_path_factory.mktemp("state"), create=True)
    changes = small_plan(PETS[:4]).changes
    wanted: dict[int, tuple[str | None, int]] = {}

    async def work() -> None:
        session = begin_run(journal, "run", total=4)
        waiting = []
        for what, number in ops:
            outcome, attempts = wanted.get(number, (None, 0))
            if what == "sit":
                await asyncio.gather(*waiting)
                waiting = []
                await session.close()
                session = journal.resume("run")
            elif what == "flush":
                await session.flush()
            elif what == "repeat":
                session.record_retry(number, "503")
                if number in wanted:
                    wanted[number] = (outcome, attempts + 1)
            elif what == "intend":
                waiting.append(asyncio.ensure_future(intended(session, number, changes[number])))
                await asyncio.sleep(0)
                wanted[number] = (None, attempts + 1)
            else:
                session.record_result(result(number, changes[number], what))
                wanted[number] = (what, attempts)
        await asyncio.gather(*waiting)
        await closed(session)

    asyncio.run(work())
    found = {e.number: (e.outcome, e.attempts) for e in journal.entries("run")}
    assert found == wanted


def test_a_plan_is_used_once(journal: Journal) -> None:
    """A second run of a plan is refused, and the error names the first run. While that run is
    active, the error does not say that the plan was applied: the run may still be refused. If it
    was stopped, the error says what it applied, and names the way to finish it.
    """
    plan = small_plan()

    async def work() -> None:
        first = begin_run(journal, "20261121-one", plan)
        with pytest.raises(StalePlanError, match="is being applied, in run 20261121-one") as caught:
            begin_run(journal, "20261121-two", plan)
        assert "Wait until that run has ended" in caught.value.hint
        with pytest.raises(StalePlanError, match="is being applied, in run 20261121-one"):
            journal.check_unused(plan.fingerprint)
        await first.close()
        for match in (
            "one of this plan was stopped before it sent anything",
            r"applied 1 of its \d",
        ):
            with pytest.raises(StalePlanError, match=match) as caught:
                begin_run(journal, "20261121-two", plan)
            assert '`store.resume("20261121-one")` finishes it' in caught.value.hint
            session = journal.resume("20261121-one")
            await intended(session, 0, plan.changes[0])
            session.record_result(result(0, plan.changes[0], "applied"))
            await session.close()
        await closed(journal.resume("20261121-one"))
        with pytest.raises(StalePlanError, match="already applied, in run 20261121-one") as caught:
            begin_run(journal, "20261121-two", plan)
        assert "resume" not in caught.value.hint

    asyncio.run(work())
    assert journal.find_run_of_plan(plan.fingerprint) == "20261121-one"
    assert journal.find_run_of_plan("0" * 64) is None
    assert [past.run_id for past in journal.runs()] == ["20261121-one"]


@pytest.mark.parametrize("is_intended", [False, True])
def test_only_a_run_without_an_intent_can_be_withdrawn(journal: Journal, is_intended: bool) -> None:
    """A run that recorded results, but no intent, is withdrawn with all its records: its plan is
    unused. After an intent the run stays, because its request may have been sent.
    """
    plan = small_plan(PETS[:2])

    async def work() -> None:
        session = begin_run(journal, "first", plan)
        await session.record_known_ids([1, 2])
        session.record_result(result(0, plan.changes[0], "failed", cause="no-permission"))
        if is_intended:
            await intended(session, 1, plan.changes[1])
        await session.withdraw()
        await session.close()
        assert [past.run_id for past in journal.runs()] == ["first"] * is_intended
        assert journal.find_run_of_plan(plan.fingerprint) == ("first" if is_intended else None)
        journal.check_free(STORE)
        if not is_intended:
            with closing(sqlite3.connect(journal.path)) as connection:
                for table in ("change", "attempt", "known", "sitting"):
                    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
            await closed(begin_run(journal, "second", plan))

    asyncio.run(work())


def test_a_refused_beginning_leaves_no_lock(journal: Journal) -> None:
    """A run that is refused for its used plan leaves no lock."""
    plan = small_plan()

    async def work() -> None:
        await closed(begin_run(journal, "one", plan))
        with pytest.raises(StalePlanError):
            begin_run(journal, "two", plan)
        await closed(begin_run(journal, "three", small_plan(name="other")))

    asyncio.run(work())
    assert len(journal.runs()) == 2


def test_an_unreadable_plan_of_an_undo_is_made_again_by_an_undo(journal: Journal) -> None:
    """If a plan cannot be read, the advice is a new plan from the sheet, or the undo again."""

    async def work() -> None:
        await closed(begin_run(journal, "first"))
        await closed(begin_run(journal, "second", kind="undo", undoes="first"))

    asyncio.run(work())
    for run, advice in (("first", "from the sheet"), ("second", '`store.undo("first")` again')):
        with pytest.raises(PlanError, match="cannot read") as caught:
            journal.plan(run)
        assert advice in str(caught.value.hint)


def test_runs_are_reported_the_newest_first_and_by_store(journal: Journal) -> None:
    """Runs are listed with the newest first, by store, with their start, end and counts."""
    change = small_plan().changes[0]

    async def work() -> None:
        for number, (store, stopped) in enumerate([(STORE, ""), ("other", "interrupted")]):
            started = f"2026-11-2{number}T08:00:00+00:00"
            more = {"store": store, "started": started, "total": 3, "undoes": "x" * number}
            session = begin_run(journal, f"run{number}", **more)
            await intended(session, 0, change)
            await intended(session, 1, change)
            session.record_result(result(1, change, "failed"))
            await closed(session, stopped=stopped)

    asyncio.run(work())
    new, old = journal.runs()
    assert (new.run_id, new.store, new.state, new.stopped) == (
        "run1",
        "other",
        "stopped",
        "interrupted",
    )
    assert (old.run_id, old.store, old.state, old.stopped) == ("run0", STORE, "done", "")
    assert (new.total, new.open, new.counts["failed"], new.counts["applied"]) == (3, 1, 1, 0)
    assert (new.undoes, new.sessions, new.kind) == ("x", 1, "apply")
    assert new.ended > new.started
    assert [past.run_id for past in journal.runs(STORE)] == ["run0"]


def test_the_newest_run_is_the_last_to_begin_whatever_the_clock_says(journal: Journal) -> None:
    """If the clock is set back between two runs, the later one is still the newest run, and the
    later one of their sheet.
    """
    plan = plan_of([], sheet_saying({"name": "a", "status": "sold"}))
    plan = msgspec.structs.replace(plan, source_digest="d")

    async def work() -> None:
        for number, run in enumerate(["first", "second"]):
            more = {"started": f"2026-11-2{9 - number}T08:00:00+00:00", "fingerprint": ""}
            await closed(begin_run(journal, run, plan, payload=build_row_payload(plan), **more))

    asyncio.run(work())
    assert [past.run_id for past in journal.runs()] == ["second", "first"]
    assert journal.find("last").run_id == "second"
    later = journal.find_later_run("first")
    assert later is not None
    assert later.run_id == "second"
    assert journal.find_later_run("second") is None


def test_a_run_is_found_by_the_beginning_of_its_id(journal: Journal) -> None:
    """A run is found by a unique prefix of its id."""

    async def work() -> None:
        for run in ("20261121-0800-ab", "20261121-0900-cd", "20261121-0900-cde"):
            await closed(begin_run(journal, run))

    asyncio.run(work())
    assert journal.find("20261121-08").run_id == "20261121-0800-ab"
    assert journal.find("20261121-0900-cd").run_id == "20261121-0900-cd"
    with pytest.raises(PlanError, match=r"3 runs begin with '2026'.*0800"):
        journal.find("2026")
    for name in ("", "2025", "' OR 1=1 --"):
        with pytest.raises(PlanError, match="there is no run"):
            journal.find(name)
    with pytest.raises(PlanError, match="there is no run"):
        journal.find("20261121-0800-ab", store="another")
    for question in (journal.plan, journal.payload, journal.options, journal.report):
        with pytest.raises(PlanError, match="there is no run 'none'"):
            question("none")
    with pytest.raises(PlanError, match="there is no run 'none'"):
        journal.resume("none")
    with pytest.raises(PlanError, match="there is no run 'none'"):
        list(journal.entries("none"))


def test_a_report_is_made_again_from_the_journal(journal: Journal) -> None:
    """A report from the journal has every row of the plan: done, open, not begun, in conflict and
    blocked.
    """
    rows = [{"id": pet.id, "name": "x"} for pet in PETS[:3]]
    problems = {"blocked": (9,), "problems": (error_at(9),)}
    sheet = sheet_saying(*rows, {"id": 99, "action": "update"}, **problems)
    plan = plan_of(PETS, sheet)

    async def work() -> None:
        session = begin_run(journal, "run", plan)
        await intended(session, 0, plan.changes[0])
        await intended(session, 1, plan.changes[1])
        session.record_result(result(0, plan.changes[0], assigned_id=7, message="so"))
        await closed(session, stopped="interrupted")

    asyncio.run(work())
    report = journal.report("run")
    assert (report.run_id, report.started, report.stopped) == ("run", STARTED, "interrupted")
    assert [r.outcome for r in report.results] == [
        "applied",
        "unknown",
        "not sent",
        "conflict",
        "needs fixing",
    ]
    causes = [r.cause for r in report.results]
    assert causes == ["", "cut-off", "not-begun", "from-plan", "blocked"]
    assert [r.number for r in report.results] == list(range(5))
    assert (report.results[0].assigned_id, report.results[0].message) == (7, "so")
    assert report.results[2].message == "not started, because the run was stopped"
    assert sum(report.counts.values()) == plan.rows
    assert report.exit_code == InterruptedRunError.exit_code


def test_what_petsync_0_2_called_skipped_is_unchanged_or_not_sent(journal: Journal) -> None:
    """The outcome `skipped` of petsync 0.2 is read as unchanged or not sent, by its cause."""
    stored = {
        "already-so": "unchanged",
        "already-gone": "unchanged",
        "not-begun": "not sent",
        "held-back": "not sent",
        "undone": "not sent",
        "replanned": "not sent",
        "": "not sent",
    }
    change = small_plan(PETS[:1]).changes[0]

    async def work() -> None:
        session = begin_run(journal, "run", total=len(stored) + 1)
        for number, cause in enumerate(stored):
            session.record_result(result(number, change, "skipped", cause=cause))
        await closed(session)

    asyncio.run(work())
    with closing(sqlite3.connect(journal.path)) as seen:
        assert seen.execute("SELECT DISTINCT outcome FROM change").fetchall() == [("skipped",)]
    assert {each.cause: each.outcome for each in journal.entries("run")} == stored
    (past,) = journal.runs()
    counts = {name: total for name, total in past.counts.items() if total}
    assert (counts, past.open) == ({"unchanged": 2, "not sent": 6}, 0)


def test_times_of_all_sessions_add_up(journal: Journal) -> None:
    """The time of a run is the sum of its sessions, without the breaks."""

    async def work() -> float:
        start = time.monotonic()
        session = begin_run(journal, "run")
        await asyncio.sleep(0.05)
        await session.close()
        paused = time.monotonic()
        await asyncio.sleep(0.2)
        paused = time.monotonic() - paused
        session = journal.resume("run")
        await asyncio.sleep(0.05)
        await closed(session)
        return time.monotonic() - start - paused

    at_work = asyncio.run(work())
    (past,) = journal.runs()
    assert (past.sessions, past.state) == (2, "done")
    # The journal counts in milliseconds.
    assert 0.1 <= past.seconds <= at_work + 0.005


def test_a_session_that_says_nothing_leaves_the_run_stopped(journal: Journal) -> None:
    """A session that closes without an end leaves the run stopped and resumable."""

    async def work() -> None:
        session = begin_run(journal, "run")
        assert journal.find("run").state == "running"
        await session.close()
        await session.close()

    asyncio.run(work())
    past = journal.find("run")
    assert (past.state, past.stopped) == ("stopped", "interrupted")


def test_a_session_that_is_forgotten_gives_its_lock_back(journal: Journal) -> None:
    """A session that is garbage collected releases its lock."""

    async def work() -> None:
        begin_run(journal, "one")

    asyncio.run(work())
    asyncio.run(closed_run(journal, "two"))
    assert [past.state for past in journal.runs()] == ["done", "stopped"]


async def closed_run(journal: Journal, run: str) -> None:
    """Begin and finish a run."""
    await closed(begin_run(journal, run))


def test_the_ids_known_before_are_there_in_a_later_session(journal: Journal) -> None:
    """A later session reads the known ids, with every id that an int64 holds."""
    ids = {1, -5, 2**63 - 1, -(2**63)}

    async def work() -> None:
        session = begin_run(journal, "run")
        assert session.get_known_ids() is None
        await session.record_known_ids(iter(ids))
        assert set(session.get_known_ids() or ()) == ids
        await session.close()
        session = journal.resume("run")
        assert set(session.get_known_ids() or ()) == ids
        await session.record_known_ids([])
        await session.close()
        session = journal.resume("run")
        assert list(session.get_known_ids() or ()) == []
        assert session.get_known_ids() is not None
        await closed(session)

    asyncio.run(work())


def test_images_are_kept_with_their_digest(journal: Journal) -> None:
    """Applied uploads are found by pet and digest; failed and open ones are not."""
    entry = Entry(number=0, kind="upload", pet_id=2**62, source="2.jpg", digest="ab" * 32)
    lost = Entry(number=1, kind="upload", pet_id=3, digest="cd" * 32)
    after = Pet(id=2**62, name="x", photo_urls=("a", "b"))

    async def work(run: str, store: str) -> None:
        session = begin_run(
            journal, run, kind="upload", store=store, payload=b"\x00list", total=2, started=run
        )
        await asyncio.gather(session.record_image_intent(entry), session.record_image_intent(lost))
        ended = msgspec.structs.replace(entry, outcome="applied", after=after, message=run)
        session.record_image_result(ended)
        await closed(session)

    for run in ("one", "two"):
        asyncio.run(work(run, STORE))
    asyncio.run(work("zzz", "another"))
    assert journal.payload("one") == b"\x00list"
    found = uploads_to(journal, STORE).applied
    assert list(found) == [(2**62, "ab" * 32)]
    kept = found[2**62, "ab" * 32].entry
    assert (kept.message, kept.after, kept.attempts, kept.kind) == ("two", after, 1, "upload")
    assert kept.intended
    open_one = list(journal.entries("one"))[1]
    assert (open_one.outcome, open_one.digest) == (None, "cd" * 32)
    with pytest.raises(PlanError, match="is an upload of images, which has no plan"):
        journal.plan("one")
    assert uploads_to(journal, "nowhere").applied == {}


def test_any_pet_comes_back_as_it_was(journal: Journal) -> None:
    """Any pet is read back unchanged: large ids, unknown fields and any text."""
    odd = Pet(
        id=2**63 - 1,
        name='\x00 "quoted" \u2028 \U0001f436',
        status="",
        category=Category(None, "x", extra={"depth": [1.5, None, {"a": 2**60}]}),
        tags=(Tag(1, None, extra={"z": "\n"}),),
        extra={"weight": 1e300, "when": "2026"},
    )
    change = small_plan(PETS[:1]).changes[0]

    async def work() -> None:
        session = begin_run(journal, "run", total=1)
        await session.record_intent(0, change, before=odd, after=None)
        session.record_result(result(0, change, message='\x00"\n'), after=odd)
        await closed(session)

    asyncio.run(work())
    (entry,) = journal.entries("run")
    assert entry.before == odd == entry.after
    assert entry.message == '\x00"\n'


def test_the_journal_is_for_this_user_alone(tmp_path: Path) -> None:
    """Only the user can read the folder and its files, SQLite's own files included."""
    journal = Journal.open(tmp_path / "a" / "state", create=True)

    async def work() -> None:
        session = begin_run(journal, "run")
        folder = journal.path.parent
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        names = ("journal.db", "journal.db-wal", "journal.db-shm", "journal.1.lock")
        assert modes == dict.fromkeys(names, 0o600)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        await closed(session)
        assert {path.name for path in folder.iterdir()} == {"journal.db", "journal.1.lock"}

    asyncio.run(work())


def test_without_a_journal_there_is_an_empty_one_and_no_file(tmp_path: Path) -> None:
    """Reading a missing journal gives an empty one and creates no file."""
    state = tmp_path / "state"
    journal = Journal.open(state, create=False)
    assert journal.runs() == []
    assert journal.find_run_of_plan("0") is None
    assert uploads_to(journal, STORE).applied == {}
    assert not state.exists()
    asyncio.run(closed_run(journal, "run"))
    assert [past.run_id for past in journal.runs()] == ["run"]


def test_each_transaction_is_on_disk_before_it_is_confirmed(journal: Journal) -> None:
    """SQLite waits for the disk at each commit, and the file has petsync's application id."""
    from petsync.apply.journal.schema import connect

    connection = connect(journal.path)
    asked = ("journal_mode", "synchronous", "application_id", "user_version")
    found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in asked]
    connection.close()
    assert found == ["wal", 2, 0x70657473, 3]


def test_the_journal_is_read_in_any_thread_while_a_run_writes(journal: Journal) -> None:
    """Other threads can read the journal while a run writes."""
    plan = small_plan()
    seen: list[int] = []

    def look() -> None:
        for _ in range(30):
            seen.append(sum(1 for _ in journal.entries("run")))
            assert journal.runs()[0].state == "running"

    async def work() -> None:
        session = begin_run(journal, "run", plan)
        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        number = 0
        while any(thread.is_alive() for thread in threads):
            await intended(session, number, plan.changes[number % 6])
            session.record_result(result(number, plan.changes[number % 6]))
            number += 1
        await closed(session)

    asyncio.run(work())
    assert len(seen) == 60
    assert max(seen) > 0


def test_who_no_longer_waits_is_not_written(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An intent that is cancelled before its group is written is not written; the others are."""
    changes = small_plan().changes
    writes, may_write = threading.Event(), threading.Event()

    async def work() -> None:
        session = begin_run(journal, "run", total=6)
        write = session._writer._write

        def write_later(items: Any) -> None:
            writes.set()
            assert may_write.wait(120)
            write(items)

        monkeypatch.setattr(session._writer, "_write", write_later)
        first = asyncio.ensure_future(intended(session, 0, changes[0]))
        await asyncio.to_thread(writes.wait, 120)
        task = asyncio.ensure_future(intended(session, 1, changes[1]))
        others = [asyncio.ensure_future(intended(session, n, changes[n])) for n in range(2, 6)]
        await asyncio.sleep(0)
        task.cancel()
        may_write.set()
        await asyncio.gather(first, *others)
        with pytest.raises(asyncio.CancelledError):
            await task
        await closed(session)

    asyncio.run(work())
    assert [entry.number for entry in journal.entries("run")] == [0, 2, 3, 4, 5]


def test_a_thousand_changes_cost_the_loop_little_and_no_memory(journal: Journal) -> None:
    """The event loop does little work per change, and memory does not grow with their number."""
    import tracemalloc

    changes = small_plan().changes

    async def many(session: RunSession, count: int) -> None:
        numbers = iter(range(count))

        async def worker() -> None:
            for number in numbers:
                await intended(session, number, changes[number % 6])
                session.record_result(result(number, changes[number % 6]))

        await asyncio.gather(*(worker() for _ in range(32)))
        await session.flush()

    async def alone(run: str, count: int) -> None:
        session = begin_run(journal, run, total=count)
        await many(session, count)
        await closed(session)

    def cost(count: int) -> int:
        return steps(lambda: asyncio.run(alone(f"run of {count}", count)))

    # Lines of Python in the loop's thread per change, asyncio's included.
    assert (cost(2000) - cost(1000)) / 1000 < 300

    async def work() -> None:
        session = begin_run(journal, "run", total=1000)
        await many(session, 1000)
        tracemalloc.start()
        await many(session, 1000)
        before, _ = tracemalloc.get_traced_memory()
        await many(session, 1000)
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert after - before < 200_000
        await closed(session)

    asyncio.run(work())


def test_a_short_wait_for_the_next_item_ends() -> None:
    """The writer waits for further items for what is left of a millisecond, also if that is less
    than the wait takes to begin. `queue.SimpleQueue` waits forever then.
    """
    queue, random = _Queue(), Random(1)
    ended = threading.Event()

    def work() -> None:
        for _ in range(100_000):
            queue.put((None, None))
            assert queue.get() == (None, None)
            with suppress(Empty):
                queue.get(random.random() * 1e-6)
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    assert ended.wait(120)


def test_the_queue_gives_each_item_once_and_in_order() -> None:
    """However the two threads meet: no item is lost, none comes twice, and none waits."""
    queue, random = _Queue(), Random(2)
    items: list[Any] = [(None, object()) for _ in range(20_000)]

    def fill() -> None:
        for item in items:
            queue.put(item)
            if random.random() < 0.1:
                time.sleep(random.random() * 1e-4)

    thread = threading.Thread(target=fill)
    thread.start()
    taken = [queue.get(60) for _ in items]
    thread.join()
    assert taken == items
    with pytest.raises(Empty):
        queue.get()


def test_what_cannot_be_written_down_is_reported_and_never_waited_for(journal: Journal) -> None:
    """A value that cannot be stored is an error, not an endless wait, and the lock is released."""
    change = small_plan().changes[0]
    bad = msgspec.structs.replace(PETS[0], name="\ud800")

    async def work() -> None:
        session = begin_run(journal, "run", total=1)
        with pytest.raises(PetsyncError, match="cannot be written"):
            await session.record_intent(0, change, before=bad, after=None)
        with pytest.raises(PetsyncError, match="cannot be written"):
            await session.record_intent(2**70, change, before=None, after=None)
        await intended(session, 1, change)
        session.record_result(result(2**70, change))
        with pytest.raises(PetsyncError, match="cannot be written"):
            await session.finish()
        await session.close()

    asyncio.run(asyncio.wait_for(work(), 120))
    asyncio.run(closed_run(journal, "next"))
    assert [entry.number for entry in journal.entries("run")] == [1]


def test_after_its_end_a_session_writes_nothing(journal: Journal) -> None:
    """A closed session refuses further writes at once."""
    change = small_plan().changes[0]

    async def work() -> None:
        session = begin_run(journal, "run", total=1)
        waiting = asyncio.ensure_future(intended(session, 0, change))
        await asyncio.sleep(0)
        await session.close()
        await waiting
        with pytest.raises(PetsyncError, match="was closed"):
            await intended(session, 1, change)
        session.record_result(result(0, change))
        with pytest.raises(PetsyncError, match="was closed"):
            await session.flush()

    asyncio.run(asyncio.wait_for(work(), 120))
    assert [entry.outcome for entry in journal.entries("run")] == [None]


def test_methods_have_their_own_name_and_signature() -> None:
    """A method that reads the journal is described as a method, without a connection."""
    assert str(inspect.signature(Journal.runs)).startswith("(self, /, store: ")
    assert (Journal.runs.__name__, Journal.runs.__qualname__) == ("runs", "Journal.runs")
    assert [*inspect.signature(Journal.read_removed).parameters] == ["self", "store"]
    assert "other state folders count" in str(Journal.read_removed.__doc__)
