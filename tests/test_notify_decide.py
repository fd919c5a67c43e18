"""Notices of rounds: which are sent, and which are not sent again."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from receiver import build_report, conflict

from petsync.plan.report import RoundReport
from petsync.plan.rounds import Difference
from petsync.reconcile.context import CODES
from petsync.reconcile.notify import Memory, Notice, decide

DAY = 86_400.0


@dataclass
class DailyRounds:
    """Rounds a day apart, and the notices of each."""

    memory: Memory = field(default_factory=Memory)
    now: float = 1_000_000.0
    remind: float = 3 * DAY

    def events(self, *rounds: RoundReport, after: float = DAY) -> list[str]:
        """Return the events of the notices."""
        return [each.event for each in self.notices(*rounds, after=after)]

    def notices(self, *rounds: RoundReport, after: float = DAY) -> tuple[Notice, ...]:
        """Return the notices."""
        self.now += after
        self.memory.limit_times(self.now)
        return decide(self.memory, rounds, self.now, self.remind)


@pytest.mark.parametrize("status", ["error", "failed-rows", "interrupted", "refused"])
def test_a_failure_is_reported_when_it_begins_and_again_after_a_while(status: str) -> None:
    """A failure is sent when it begins, and again only after `remind`, with the time when it
    began.
    """
    rounds = DailyRounds()
    failed = build_report(status, problem="the service does not answer")
    assert [rounds.events(failed) for _ in range(3)] == [["failure"], [], []]
    (reminder,) = rounds.notices(failed)
    assert reminder.since == 1_000_000.0 + DAY


def test_a_failure_for_another_reason_is_reported_at_once() -> None:
    """A failure with another status or problem is sent at once; other numbers in the same sentence
    are not.
    """
    rounds = DailyRounds()
    assert rounds.events(build_report("error", problem="no answer after 31 s, port 41234")) == [
        "failure"
    ]
    assert rounds.events(build_report("error", problem="no answer after 28 s, port 50001")) == []
    assert rounds.events(build_report("error", problem="the service said 503")) == ["failure"]
    assert rounds.events(build_report("error", problem="the service said 401")) == ["failure"]
    assert rounds.events(build_report("error", problem="the service said 401", exit_code=64)) == [
        "failure"
    ]


def test_a_violation_is_reported_when_it_begins_and_when_it_grows() -> None:
    """A violation is sent when it begins and when a conflict is new, including one that had been
    resolved; the same or fewer conflicts are not sent.
    """
    rounds = DailyRounds()
    first, second = conflict(1), conflict(2)
    assert rounds.events(build_report("conflicts", first)) == ["violation"]
    assert rounds.events(build_report("conflicts", first)) == []
    assert rounds.events(build_report("conflicts", first, second)) == ["violation"]
    assert rounds.events(build_report("conflicts", second)) == []
    assert rounds.events(build_report("conflicts", first, second)) == ["violation"]


def test_a_row_that_moves_is_no_new_violation() -> None:
    """A finding whose row number changes, because rows are inserted above it, is not a new
    violation.
    """
    rounds = DailyRounds()

    def finding(row: int) -> RoundReport:
        problem = Difference(kind="finding", problem="no such status", name="Rex", row=row)
        return build_report("findings", problem)

    assert rounds.events(finding(4)) == ["violation"]
    assert rounds.events(finding(9)) == []


def test_differences_that_only_the_numbers_tell_count_too() -> None:
    """A round that reports only the number of differences is a violation too."""
    rounds = DailyRounds()
    assert rounds.events(build_report("drift", unexplained=3)) == ["violation"]
    assert rounds.events(build_report("drift", unexplained=3)) == []
    assert rounds.events(build_report("drift", unexplained=4)) == ["violation"]


def test_a_failure_with_conflicts_is_one_notice() -> None:
    """The open conflicts are part of the notice of a failure, and are not sent again afterwards."""
    rounds = DailyRounds()
    failed = Difference(kind="failed", problem="422", pet_id=3)
    (notice,) = rounds.notices(build_report("failed-rows", failed, conflict(1)))
    assert notice.event == "failure"
    assert len(notice.new) == 1
    assert rounds.events(build_report("failed-rows", failed, conflict(1))) == []


def test_conflicts_that_stay_after_a_failure_are_reported() -> None:
    """A violation that remains after a failure is sent again, although it is no larger, to show
    that the failure is over.
    """
    rounds = DailyRounds()
    rounds.events(build_report("conflicts", conflict(1)))
    assert rounds.events(build_report("error")) == ["failure"]
    assert rounds.events(build_report("conflicts", conflict(1))) == ["violation"]
    assert rounds.events(build_report("conflicts", conflict(1))) == []


@pytest.mark.parametrize("trouble", [build_report("error"), build_report("conflicts", conflict(1))])
def test_a_recovery_is_reported_once(trouble: RoundReport) -> None:
    """A recovery is sent once, at the first round that ends with 0, and never without an earlier
    failure or violation.
    """
    rounds = DailyRounds()
    assert rounds.events(build_report("in-sync")) == []
    rounds.events(trouble)
    assert rounds.events(build_report("waiting", waiting="plan.json")) == ["waiting"]
    (recovery,) = rounds.notices(build_report("done"))
    assert recovery.event == "recovery"
    assert recovery.since == 1_000_000.0 + 2 * DAY
    assert rounds.events(build_report("done")) == []


def test_a_waiting_plan_is_reported_once_and_then_reminded_of() -> None:
    """A waiting plan is sent once and then as a reminder; another file is sent at once, and a
    failed night between changes nothing.
    """
    rounds = DailyRounds()
    assert rounds.events(build_report("waiting", waiting="a.json")) == ["waiting"]
    assert rounds.events(build_report("waiting", waiting="a.json")) == []
    assert rounds.events(build_report("error")) == ["failure"]
    (reminder,) = rounds.notices(build_report("waiting", waiting="a.json"))
    assert reminder.since == 1_000_000.0 + DAY
    assert rounds.events(build_report("waiting", waiting="b.json")) == ["waiting"]
    rounds.events(build_report("done"))
    assert rounds.events(build_report("waiting", waiting="b.json")) == ["waiting"]


def test_a_plan_that_waits_no_more_is_reported() -> None:
    """The first good round after a waiting plan was released, or became unnecessary, sends one
    recovery.
    """
    rounds = DailyRounds()
    assert rounds.events(build_report("waiting", waiting="a.json")) == ["waiting"]
    assert rounds.events(build_report("in-sync")) == ["recovery"]
    assert rounds.events(build_report("in-sync")) == []


def test_another_plan_in_the_same_file_is_news() -> None:
    """Another plan in the same file is sent again, because a job has one file for its waiting
    plan.
    """
    rounds = DailyRounds()

    def plan(*pets: int) -> RoundReport:
        each = [Difference(kind="waiting", problem="is to be deleted", pet_id=pet) for pet in pets]
        return build_report("waiting", *each, waiting="catalogue.json")

    assert rounds.events(plan(1, 2)) == ["waiting"]
    assert rounds.events(plan(2, 1)) == []
    assert rounds.events(plan(1, 2, 3)) == ["waiting"]


def test_a_lock_that_is_held_is_reported_only_when_that_takes_long() -> None:
    """A held lock is reported only when the job cannot run for the time `remind`; a shorter overlap
    is normal.
    """
    rounds = DailyRounds()
    assert [rounds.events(build_report("locked")) for _ in range(3)] == [[], [], []]
    (notice,) = rounds.notices(build_report("locked"))
    assert (notice.event, notice.since) == ("failure", 1_000_000.0 + DAY)
    assert rounds.events(build_report("locked")) == []
    assert rounds.events(build_report("done")) == ["recovery"]
    assert rounds.events(build_report("locked")) == []


def test_a_dry_run_sends_no_notice_and_is_forgotten() -> None:
    """A dry run sends no notice, and neither begins nor ends a failure."""
    rounds = DailyRounds()
    assert rounds.events(build_report("error", dry_run=True)) == []
    rounds.events(build_report("error"))
    assert rounds.events(build_report("done", dry_run=True)) == []
    assert rounds.events(build_report("error")) == []


def test_files_of_a_folder_that_fail_alike_are_reported_together() -> None:
    """Files of a folder that fail for one reason share one notice with all their names; another
    reason is another notice.
    """
    rounds = DailyRounds()
    parts = [
        build_report("error", job="inbox", part=f"{n}.csv", problem="no answer") for n in range(3)
    ]
    other = build_report("error", job="inbox", part="x.csv", problem="no sheet")
    first, second = rounds.notices(*parts, other)
    assert (first.name, first.also) == ("inbox/0.csv", ("inbox/1.csv", "inbox/2.csv"))
    assert (second.name, second.also) == ("inbox/x.csv", ())
    (recovery,) = rounds.notices(
        *(build_report("done", job="inbox", part=f"{n}.csv") for n in range(3))
    )
    assert recovery.also == ("inbox/1.csv", "inbox/2.csv", "inbox/x.csv")
    assert recovery.since == 1_000_000.0 + DAY
    assert [*rounds.memory.health_by_sheet] == ["inbox/0.csv", "inbox/1.csv", "inbox/2.csv"]


def test_differences_of_several_files_are_reported_for_the_most_urgent_one() -> None:
    """A notice on differences in several files is about the one with the most urgent exit code, and
    lists the others.
    """
    finding = Difference(kind="finding", problem="it has no name")
    files = [("conflicts", conflict(1)), ("findings", finding), ("conflicts", conflict(2))]
    (notice,) = DailyRounds().notices(
        *(build_report(s, each, job="inbox", part=f"{n}.csv") for n, (s, each) in enumerate(files))
    )
    assert (notice.name, notice.report.round.exit_code) == ("inbox/1.csv", 3)
    assert notice.also == ("inbox/0.csv", "inbox/2.csv")


def test_what_is_reported_together_began_with_the_first_of_it() -> None:
    """The recovery of several files that failed one after the other has the time of the first
    failure.
    """
    rounds = DailyRounds()
    well = [build_report("done", job="inbox", part=f"{n}.csv") for n in range(2)]
    ill = [build_report("error", job="inbox", part=f"{n}.csv") for n in range(2)]
    rounds.events(well[0], ill[1])
    rounds.events(ill[0], ill[1])
    (recovery,) = rounds.notices(*well)
    assert (recovery.name, recovery.also) == ("inbox/0.csv", ("inbox/1.csv",))
    assert recovery.since == 1_000_000.0 + DAY


def test_a_folder_that_cannot_be_read_forgets_none_of_its_files() -> None:
    """A round that fails before it reads the folder keeps the recorded status of each file."""
    rounds = DailyRounds()
    rounds.events(build_report("conflicts", conflict(1), job="inbox", part="a.csv"))
    assert rounds.events(build_report("error", job="inbox")) == ["failure"]
    assert rounds.events(build_report("conflicts", conflict(1), job="inbox", part="a.csv")) == []
    assert rounds.events(build_report("done", job="inbox", part="a.csv")) == ["recovery"]
    assert [*rounds.memory.health_by_sheet] == ["inbox/a.csv"]


def test_a_clock_that_is_set_back_silences_nothing() -> None:
    """After the clock is set back, reminders continue from the new time."""
    rounds = DailyRounds()
    rounds.events(build_report("error"), after=3650 * DAY)
    assert rounds.events(build_report("error"), after=-3650 * DAY) == []
    assert [rounds.events(build_report("error")) for _ in range(3)] == [[], [], ["failure"]]


@given(st.lists(st.tuples(st.sampled_from(sorted(CODES)), st.integers(1, 3)), max_size=25))
def test_nobody_is_left_in_the_dark(story: list[tuple[str, int]]) -> None:
    """In any order of rounds, no failure stays unreported for longer than `remind`, and a recovery
    is due from the first notice until the next good round, which sends it.
    """
    rounds = DailyRounds()
    is_owed, heard = False, {"failure": -1e9}
    for status, pet in story:
        opens = (conflict(pet),) if status == "conflicts" else ()
        events = rounds.events(
            build_report(status, *opens, waiting="p.json" if status == "waiting" else "")
        )
        heard |= dict.fromkeys(events, rounds.now)
        assert ("recovery" in events) == (is_owed and CODES[status] == 0)
        is_owed = (is_owed or bool({"failure", "violation", "waiting"} & {*events})) and CODES[
            status
        ] != 0
        if status in ("error", "failed-rows", "interrupted", "refused"):
            assert rounds.now - heard["failure"] < rounds.remind
    assert rounds.memory.health_by_sheet.get("catalogue", None) is None or (
        rounds.memory.health_by_sheet["catalogue"].awaits_recovery == is_owed
    )
