"""Journals of earlier petsync, lines of JSON, are taken over into the database once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import PETS, begun, small_plan

from petsync.apply.journal import Journal
from petsync.errors import PlanError, StalePlanError
from petsync.plan.plan import Plan

PLAN = small_plan()
OLDER = {"format": 1, "store": "http://old.example", "source": "old.csv", "news": [1]}


def lines(run: str, plan: Any, fingerprint: str, intents: int, results: int) -> list[bytes]:
    """A journal as earlier petsync wrote it."""
    started = "2026-11-18T10:00:00.000000+00:00"
    header = {"type": "plan", "run_id": run, "started": started, "fingerprint": fingerprint}
    found: list[dict[str, Any]] = [{**header, "plan": plan}]
    for number in range(max(intents, results)):
        if number < intents:
            found.append({"type": "intent", "number": number, "before": PETS[number]})
        if number < results:
            change = PLAN.changes[number]
            told = {"number": number, "kind": "update", "row": change.row, "source": change.source}
            told |= {"pet_id": change.pet_id, "outcome": "applied", "fields": change.fields}
            found.append({"type": "result", "result": {**told, "message": f"m{number}"}})
    return [msgspec.json.encode(each) + b"\n" for each in found]


def old_state(state: Path, *, results: int = 4) -> None:
    """A state folder with three runs: of today's plans, of an older one's, and one torn."""
    runs, used = state / "runs", state / "used"
    runs.mkdir(parents=True)
    used.mkdir()
    whole = b"".join(lines("old-1", PLAN, PLAN.fingerprint, 5, results))
    (runs / "old-1.jsonl").write_bytes(whole[:-20] if results < 6 else whole)
    older = {**OLDER, "changes": [{"kind": "update", "row": 2, "source": "B2", "fields": ["name"]}]}
    (runs / "old-2.jsonl").write_bytes(b"".join(lines("old-2", older, "a" * 64, 0, 1)))
    (runs / "old-3.jsonl").write_bytes(b'{"type":"plan","run_id":"old-3","sta')
    for name, run in ((PLAN.fingerprint, "old-1"), ("a" * 64, "old-2"), ("b" * 64, "old-3")):
        (used / name).write_text(run)


def contents(state: Path) -> dict[str, bytes]:
    """All files but the journal itself."""
    return {
        str(path): path.read_bytes()
        for path in sorted(state.rglob("*"))
        if path.is_file() and not path.name.startswith("journal.db")
    }


@pytest.mark.parametrize("create", [False, True])
def test_old_runs_are_taken_over(tmp_path: Path, create: bool) -> None:
    """With what each did to which pet; the last line may be torn; the files stay as they are."""
    old_state(tmp_path)
    before = contents(tmp_path)
    journal = Journal.open(tmp_path, create=create)
    one = journal.find("old-1")
    assert (one.state, one.stopped, one.total) == ("stopped", "interrupted", 6)
    assert (one.store, one.source, one.fingerprint) == (PLAN.store, PLAN.source, PLAN.fingerprint)
    assert (one.counts["applied"], one.open) == (4, 0)
    assert journal.plan("old-1") == PLAN
    entries = list(journal.entries("old-1"))
    assert [entry.outcome for entry in entries] == ["applied"] * 4
    assert [entry.before for entry in entries] == PETS[:4]
    assert [entry.after for entry in entries] == [change.after for change in PLAN.changes[:4]]
    assert (entries[1].pet_id, entries[1].fields, entries[1].message) == (2, ("name",), "m1")
    report = journal.report("old-1")
    assert [result.cause for result in report.results] == [""] * 4 + ["not-begun"] * 2
    assert contents(tmp_path) == before


def test_a_whole_run_is_done_and_an_intent_without_a_result_is_open(tmp_path: Path) -> None:
    """As it was when the process ended."""
    old_state(tmp_path, results=6)
    assert Journal.open(tmp_path, create=False).find("old-1").state == "done"
    other = tmp_path / "other"
    (other / "runs").mkdir(parents=True)
    body = b"".join(lines("cut", PLAN, PLAN.fingerprint, 2, 1))
    (other / "runs" / "cut.jsonl").write_bytes(body)
    journal = Journal.open(other, create=False)
    assert [entry.outcome for entry in journal.entries("cut")] == ["applied", None]
    assert (journal.find("cut").state, journal.find("cut").open) == ("stopped", 1)


def test_a_plan_of_an_older_format_is_kept_though_it_cannot_be_read(tmp_path: Path) -> None:
    """The run is listed, its plan's JSON is there, and the error says what to do."""
    old_state(tmp_path)
    journal = Journal.open(tmp_path, create=False)
    two = journal.find("old-2")
    assert (two.store, two.source, two.total) == ("http://old.example", "old.csv", 1)
    assert (two.state, two.counts["applied"]) == ("done", 1)
    assert msgspec.json.decode(journal.payload("old-2"))["news"] == [1]
    for question in (journal.plan, journal.report):
        with pytest.raises(PlanError, match="another format than this petsync reads") as caught:
            question("old-2")
        assert "new plan" in caught.value.hint


def test_plans_that_were_used_stay_used(tmp_path: Path) -> None:
    """Also the one of a run of which nothing else can be read."""
    old_state(tmp_path)
    journal = Journal.open(tmp_path, create=True)
    assert journal.used_by(PLAN.fingerprint) == "old-1"
    assert [journal.used_by(letter * 64) for letter in "abc"] == ["old-2", "old-3", None]
    with pytest.raises(StalePlanError, match="in run old-3"):
        begun(journal, "new", fingerprint="b" * 64)
    with pytest.raises(StalePlanError, match="in run old-1"):
        begun(journal, "new", PLAN)


def test_it_is_done_once(tmp_path: Path) -> None:
    """What comes later is not mixed with what was; a run that was resumed since stays so."""
    old_state(tmp_path)

    async def resumed() -> None:
        sitting = Journal.open(tmp_path, create=True).resume("old-1")
        await sitting.finish()
        await sitting.close()

    asyncio.run(resumed())
    body = b"".join(lines("late", small_plan(name="late"), "d" * 64, 1, 1))
    (tmp_path / "runs" / "late.jsonl").write_bytes(body)
    journal = Journal.open(tmp_path, create=True)
    assert sorted(run.run_id for run in journal.runs()) == ["old-1", "old-2"]
    assert (journal.find("old-1").state, journal.find("old-1").sittings) == ("done", 2)


def test_old_runs_come_also_into_a_journal_that_is_there(tmp_path: Path) -> None:
    """Whoever had used both finds all of it."""

    async def work() -> None:
        sitting = begun(Journal.open(tmp_path, create=True), "new")
        await sitting.close()

    asyncio.run(work())
    old_state(tmp_path)
    runs = Journal.open(tmp_path, create=False).runs()
    assert sorted(run.run_id for run in runs) == ["new", "old-1", "old-2"]


@given(
    junk=st.lists(st.binary(max_size=40) | st.sampled_from([b"{}", b'{"type":"intent"}', b"[]"]))
)
def test_whatever_the_files_hold_the_journal_opens(
    junk: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Lines that nobody wrote end what is read of a file."""
    state = tmp_path_factory.mktemp("state")
    (state / "runs").mkdir()
    (state / "used").mkdir()
    (state / "used" / "odd").write_bytes(b"".join(junk))
    head = lines("odd", PLAN, "c" * 64, 1, 1)
    for place, body in enumerate([junk, [*head, *junk], [head[0], *junk, *head[1:]]]):
        (state / "runs" / f"{place}.jsonl").write_bytes(b"\n".join(body))
    journal = Journal.open(state, create=True)
    assert [run.run_id for run in journal.runs()] == ["odd"]
    assert isinstance(journal.plan("odd"), Plan)
    assert len(list(journal.entries("odd"))) <= 1
