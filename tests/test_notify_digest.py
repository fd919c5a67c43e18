"""The digest: sent once a day, with every job, also when all is well."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from time import tzset

import pytest
from hypothesis import given
from hypothesis import strategies as st
from receiver import build_report, configured, conflict

from petsync.config.model import Job
from petsync.config.schedule import is_overdue, last_due, next_due
from petsync.reconcile.notify import Memory, decide, digest_lines, find_due_day, note_digest

SEVEN = time(7)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    """Return a local time in November 2026."""
    return datetime(2026, 11, day, hour, minute).astimezone()


def days(memory: Memory, *moments: datetime) -> list[str]:
    """Return the days whose digests the rounds at these moments send."""
    dates = []
    for moment in moments:
        if day := find_due_day(memory, SEVEN, moment):
            note_digest(memory, day, moment)
            dates.append(day[-2:])
    return dates


def test_a_digest_comes_with_the_first_round_after_its_time() -> None:
    """One digest a day is sent by the first round after the set time; the next round sends the
    digest of a day without rounds.
    """
    memory = Memory()
    assert days(memory, at(1, 2), at(1, 6, 59)) == []
    assert days(memory, at(1, 7), at(1, 7, 15), at(1, 23)) == ["01"]
    assert days(memory, at(2, 2), at(2, 9)) == ["02"]
    assert days(Memory(), at(1, 7)) == ["01"]
    assert days(memory, at(4, 2), at(4, 2, 15), at(4, 8)) == ["03", "04"]


def test_a_clock_that_is_set_back_sends_no_day_twice() -> None:
    """A clock that is set back by hours or days sends no day's digest twice, and a clock that was
    years ahead suppresses no digest.
    """
    memory = Memory()
    assert days(memory, at(5, 8), at(5, 6), at(5, 8)) == ["05"]
    assert days(memory, at(6, 8), at(7, 8), at(5, 9), at(6, 9), at(7, 9), at(8, 9)) == [
        "06",
        "07",
        "08",
    ]
    ahead = Memory()
    note_digest(ahead, "2036-01-01", at(1, 8))
    assert days(ahead, at(2, 8), at(2, 9), at(3, 8)) == ["02", "03"]


@given(st.lists(st.integers(-30, 30), max_size=30))
def test_no_two_digests_are_of_one_day(hours: list[int]) -> None:
    """For any changes of the clock within a week, no day has two digests."""
    memory, moment, dates = Memory(), at(15, 12), list[str]()
    for step in hours:
        moment = max(at(13, 0), min(at(18, 0), moment + timedelta(hours=step)))
        dates += days(memory, moment)
    assert len(dates) == len({*dates})


def test_a_digest_has_a_line_for_each_job(tmp_path: Path) -> None:
    """Each enabled job has a line with its last status, its changes since the last digest, its open
    conflicts, its waiting plans and its next or overdue round.
    """
    nightly = Job(name="nightly", mode="push", schedule="0 2 * * *")
    inbox, off = Job(name="inbox", mode="check"), Job(name="off", mode="push", enabled=False)
    config = configured(tmp_path, nightly, inbox, off, Job(name="fresh", mode="pull"))
    memory, start = Memory(), at(3, 2).isoformat()
    rounds = [
        build_report("done", job="nightly", started=start, applied=3),
        build_report("conflicts", conflict(1), job="inbox", part="a.csv", started=start),
        build_report("waiting", job="inbox", part="b.csv", started=start, waiting="p.json"),
    ]
    decide(memory, rounds, at(3, 2).timestamp(), 86_400)
    assert digest_lines(memory, config, at(3, 7)) == (
        (
            "nightly: done; 1 round, 1 successful; 3 changes; last began 2026-11-03 02:00; "
            "next due 2026-11-04 02:00"
        ),
        (
            "inbox: waiting (2 sheets); 2 rounds, 0 successful; 1 to resolve; 1 plan waiting; "
            "last began 2026-11-03 02:00"
        ),
        "fresh: no round yet",
    )
    note_digest(memory, "2026-11-03", at(3, 7))
    late, *_ = digest_lines(memory, config, at(4, 8))
    assert late == (
        "nightly: done; 0 rounds, 0 successful; last began 2026-11-03 02:00; "
        "overdue (schedule: 0 2 * * *)"
    )


def test_a_schedule_says_when_a_job_was_and_is_due() -> None:
    """A schedule gives the last and the next due time: the exact minute counts as due, less than an
    hour's delay is not overdue, and without a valid schedule no time is given.
    """
    assert last_due("0 2 * * *", at(3, 2)) == at(3, 2)
    assert last_due("0 2 * * *", at(3, 1, 59)) == at(2, 2)
    assert next_due("0 2 * * *", at(3, 2)) == at(4, 2)
    assert not is_overdue("0 2 * * *", at(2, 2), at(3, 2, 59))
    assert is_overdue("0 2 * * *", at(2, 2), at(3, 3))
    assert (last_due("", at(3, 2)), next_due("61 * * * *", at(3, 2))) == (None, None)


@pytest.fixture
def _in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        tzset()
        yield
    tzset()


@pytest.mark.usefixtures("_in_berlin")
@pytest.mark.parametrize(
    ("schedule", "day", "expected"),
    [
        ("30 2 * * *", "2026-03-29", "01:30"),
        ("30 2 * * *", "2026-10-25", "00:30"),
        ("0 1,3 * * *", "2026-03-29", "00:00 01:00"),
        ("0 1,3 * * *", "2026-10-25", "23:00 02:00"),
        ("*/20 1-3 * * *", "2026-03-29", "00:00 00:20 00:40 01:00 01:20 01:40"),
        ("*/20 1-3 * * *", "2026-10-25", "23:00 23:20 23:40 00:00 00:20 00:40 02:00 02:20 02:40"),
    ],
)
def test_a_job_runs_once_at_each_time_when_the_clock_changes(
    schedule: str, day: str, expected: str
) -> None:
    """In a night with a change to or from daylight saving time, a time in the skipped hour is an
    hour later, and a time in the repeated hour counts once. The next time is never in the past.
    """
    last = start = datetime.fromisoformat(f"{day}T00:30").astimezone(UTC)
    runs = []
    for now in (start + timedelta(minutes=n) for n in range(5 * 60)):
        due, following = last_due(schedule, now), next_due(schedule, now)
        assert due is not None
        assert following is not None
        assert due <= now < following
        if due > last:
            last = now
            runs.append(f"{now:%H:%M}")
    assert " ".join(runs) == expected
