"""Runs that are killed at an exact point: a plain resume completes the plan without double writes.

The processes are real and kill themselves at the point (tests/support/crash/doomed.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.doomed import CHANGES, KINDS
from crash.ledger import ledger, runs
from crash.round import check_store
from crash.running import Nursery, Running
from crash.service import Service
from crash.story import Json, Story, new_pet

from petsync.apply.planfile import save_plan

pytestmark = pytest.mark.slow

OF_A_RUN = ("before-begin", "after-begin", "before-known", "after-known")
AT_THE_END = ("before-finish", "after-finish", "before-close", "after-close")


class Case:
    """A small store, a plan of three changes of each kind, and the commands on it."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self.story = _three_of_each()
        self.service = Service(nursery, folder, self.story.before.values(), "standard")
        self.service.start()
        self.state = folder / "state"
        self._nursery, self._folder = nursery, folder
        save_plan(self.story.plan(self.service.url, "standard"), folder / "plan.json")

    def apply(self, doom: str = "") -> Running:
        """Apply the plan, up to the end or the point of the kill."""
        return self._run(doom, "apply", "plan.json", "--yes", "--concurrency", 1)

    def resume(self, doom: str = "") -> Running:
        """Resume the run; apply the plan if there is no run."""
        if not runs(self.state):
            return self.apply(doom)
        return self._run(doom, "resume", *runs(self.state), "--settle", 0.2, "--concurrency", 1)

    def check(self) -> None:
        """Resume without a fault, and check exit code 0, a store as planned, and one write for each
        pet.
        """
        last = self.resume()
        assert last.wait(120) == 0, last.output()
        check_store(self.story, self.service)
        assert self.service.writes() == self.story.total
        kept = ledger(self.state, *runs(self.state))
        assert kept.total == self.story.total
        kept.check()

    def _run(self, doom: str, *args: object) -> Running:
        to = ("--url", self.service.url, "--state", self.state)
        if not doom:
            return self._nursery(*args, *to, folder=self._folder)
        env = {"DOOM": doom, "STORE": str(self.service.db)}
        call = "crash.doomed:main"
        running = self._nursery(*args, *to, folder=self._folder, call=call, env=env)
        assert running.wait(120) == -9, f"{doom}: never came there\n{running.output()}"
        return running


@pytest.fixture
def case(nursery: Nursery, tmp_path: Path) -> Iterator[Case]:
    """Yield a running store and a plan for it."""
    made = Case(nursery, tmp_path)
    yield made
    made.service.close()


class TestApply:
    """The first process is killed."""

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("place", CHANGES)
    def test_killed_at_a_change(self, case: Case, place: str, kind: str) -> None:
        """A kill before or after the intent, request, answer or outcome of any change loses and
        doubles nothing.
        """
        case.apply(f"{place} {kind} 2")
        case.check()

    @pytest.mark.parametrize("kind", KINDS[1:])
    def test_killed_between_two_phases(self, case: Case, kind: str) -> None:
        """A kill between the last change of one kind and the first of the next loses and doubles
        nothing.
        """
        case.apply(f"about-to-intend {kind} 1")
        case.check()

    @pytest.mark.parametrize("place", [*OF_A_RUN, *AT_THE_END])
    def test_killed_around_the_run(self, case: Case, place: str) -> None:
        """A kill around the run's own row, the list of known pets or the end loses and doubles
        nothing.
        """
        case.apply(f"{place} - 0")
        case.check()


class TestResume:
    """The second process is killed too."""

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("place", ["intended", "sent", "told"])
    def test_killed_at_a_change(self, case: Case, place: str, kind: str) -> None:
        """A kill of the resume at a change loses and doubles nothing, although the first process
        left a change open.
        """
        case.apply("intended given 1")
        case.resume(f"{place} {kind} 2")
        case.check()

    @pytest.mark.parametrize("kind", KINDS)
    def test_killed_at_the_same_change_again(self, case: Case, kind: str) -> None:
        """A change that was carried out, but killed before its outcome, is not sent again after
        another killed resume.
        """
        case.apply(f"sent {kind} 3")
        case.resume("before-finish - 0")
        case.check()

    @pytest.mark.parametrize("place", ["before-resume", "after-resume", *AT_THE_END])
    def test_killed_around_the_session(self, case: Case, place: str) -> None:
        """A kill around the start or the end of a resume loses and doubles nothing."""
        case.apply("sent assigned 2")
        case.resume(f"{place} - 0")
        case.check()


def _three_of_each() -> Story:
    rng = random.Random(5)
    before = {number: new_pet(rng, number) for number in range(1, 13)}
    photos = ["https://photos.example/new.jpg"]
    twin: Json = new_pet(rng, None)
    updates: dict[int, Json] = {number: {"name": f"Form {number}"} for number in (1, 2, 3)}
    updates |= {number: {"photoUrls": photos} for number in (4, 5, 6)}
    return Story(
        before,
        updates=updates,
        added=[*({"id": 100 + n, **new_pet(rng, None)} for n in range(3)), twin, twin, twin],
        deleted={7, 8, 9},
    )
