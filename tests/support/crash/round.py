"""One round of the crash test: a run is killed and resumed until it is done, then checked."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from crash.ledger import FINAL, ledger, runs
from crash.running import Nursery, Running
from crash.service import Service
from crash.story import Story, collect_contents, content, story
from shop import long_plan

from petsync.apply.planfile import save_plan

__all__ = ["Round", "check_store"]

SETTLE = 0.4
"""Longer than any request of a round can take."""
FRESH = 0.1
"""The share of rounds whose killed commands start a new Python, and can be killed while it loads.
A forked command costs a tenth of that and runs the same `main`.
"""
MOST = 14
"""The maximum number of commands for a run; more means that the run does not end."""


@dataclass
class Round:
    """One round; its seed and its profile determine everything."""

    seed: int
    profile: str
    folder: Path
    nursery: Nursery

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(f"{self.profile} {self.seed}")
        ids = rng.choice(("given", "assigned", "assigned", "mixed", "mixed"))
        self.story = story(rng, pets=rng.randint(60, 120), changes=rng.randint(25, 45), ids=ids)
        self.faults = _faults(rng)
        self.options = [
            "--concurrency",
            rng.choice((1, 4, 4, 8, 16)),
            *rng.choice(((), ("--verify",))),
        ]
        self.fresh = rng.random() < FRESH
        self.kills = rng.choice((1, 1, 1, 2, 3))
        self.state = self.folder / "state"
        self.service = Service(self.nursery, self.folder, self.story.before.values(), self.profile)
        plan = self.story.plan(self.service.url, self.profile)
        self.plan = self.folder / rng.choice(("plan.json", "plan.parquet"))
        if self.plan.suffix == ".json":
            save_plan(plan, self.plan)
        else:
            long_plan(plan, self.plan)

    def play(self) -> None:
        """Kill and resume the run until it is done, then compare store and journal with the
        story.
        """
        try:
            self.service.start(self.faults)
            self._sessions()
            check_store(self.story, self.service)
            self._check_journal()
        finally:
            self.service.close()

    def _sessions(self) -> None:
        for session in range(MOST):
            is_killed = session < self.kills
            running = self._start_command(fresh=self.fresh and is_killed)
            if is_killed:
                self._disturb(running)
            elif running.wait(60) == 0:
                return
            elif session == self.kills + 4:
                self.service.kill()
                self.service.start()
        raise AssertionError(
            f"not done after {MOST} sessions; the last one said:\n{running.output()}"
        )

    def _start_command(self, *, fresh: bool) -> Running:
        """Start apply if no run has started, else resume."""
        to = ["--url", self.service.url, "--profile", self.profile, "--state", self.state]
        to += ["--settle", SETTLE]
        begun = runs(self.state)
        if not begun:
            args = ["apply", self.plan, "--yes", *self.options, *to]
        else:
            args = ["resume", *begun, *to]
        return self.nursery(*args, folder=self.folder, fresh=fresh)

    def _disturb(self, running: Running) -> None:
        """Kill the command at a random moment, and in some cases the service before it."""
        if self.rng.random() < 0.3:
            self._wait(running)
            self.service.kill()
            time.sleep(self.rng.uniform(0, 0.2))
            self.service.start(self.faults)
        self._wait(running)
        running.kill()

    def _wait(self, running: Running) -> None:
        """Wait until a random moment of the run: by the number of writes, or by time."""
        if self.rng.random() < 0.8:
            left = self.story.total - self.service.writes()
            wanted = self.service.writes() + self.rng.randint(0, max(1, left))
            if not left or self.rng.random() < 0.1:
                running.until(lambda: bool(runs(self.state)))
            else:
                running.until(lambda: self.service.writes() >= wanted, 10)
            time.sleep(self.rng.choice((0, 0, self.rng.uniform(0, 0.03))))
        else:
            time.sleep(self.rng.uniform(0, 1.5 if self.fresh else 0.7))

    def _check_journal(self) -> None:
        (run,) = runs(self.state)
        kept = ledger(self.state, run)
        assert kept.total == self.story.total
        kept.check()
        shown = self.nursery("runs", run, "--json", "--state", self.state, folder=self.folder)
        assert shown.wait(120) == 0, shown.output()
        check_shown(shown, kept.total)


def check_shown(shown: Running, total: int) -> None:
    """Assert that `petsync runs RUN --json` of a completed run has consistent counts."""
    document = shown.json()
    assert (document["exit_code"], document["stopped"]) == (0, ""), document
    assert [result["number"] for result in document["results"]] == list(range(total))
    assert {result["outcome"] for result in document["results"]} <= FINAL
    assert sum(document["counts"].values()) == total


def check_store(story: Story, service: Service) -> None:
    """Assert that the store is as the story expects: no pet is missing, doubled or half-written, no
    other pet was deleted or changed, and no pet had an unplanned value in between.
    """
    known, new = story.expected(service.profile)
    pets = service.pets()
    wanted = collect_contents(known)
    found = {number: content(pets[number]) for number in known.keys() & pets.keys()}
    wrong = {n: (found.get(n), text) for n, text in wanted.items() if found.get(n) != text}
    assert not wrong, f"not as planned (is, should be): {wrong}"
    others = {number: content(pet) for number, pet in pets.items() if number not in known}
    have = Counter(others.values())
    assert have == new, f"missing: {new - have}; doubled, or nobody's: {have - new}"
    _check_writes(story, service, set(others))


def _check_writes(story: Story, service: Service, assigned: set[int]) -> None:
    """Assert that each planned change was made once and nothing else was written."""
    made: Counter[int] = Counter()
    known, _ = story.expected(service.profile)
    for each in service.written():
        if each.before is not None and each.after is not None:
            assert content(each.after) == content(known[each.pet_id]), each
            if content(each.before) == content(each.after):
                continue
        elif each.before is not None:
            assert each.pet_id in story.deleted, each
        made[each.pet_id] += 1
    given = {pet["id"] for pet in story.added if "id" in pet}
    planned = Counter([*given, *assigned, *story.updates, *story.deleted])
    assert made == planned, f"missing: {planned - made}; more than once: {made - planned}"


def _faults(rng: random.Random) -> str:
    """Return the faults of the service; a tenth of the rounds has latency only."""
    if rng.random() < 0.1:
        return f"latency={rng.uniform(0, 0.02):.3f}"
    kinds = rng.sample(("drop_before", "drop_after", "503", "torn"), rng.randint(1, 4))
    shares = [f"{kind}={rng.uniform(0.01, 0.07):.3f}" for kind in kinds]
    if rng.random() < 0.25:
        shares.append(f"429={rng.uniform(0.01, 0.03):.3f}")
    if rng.random() < 0.5:
        shares.append(f"late={rng.uniform(0.05, 0.3):.3f}")
    wait = rng.choice((0, 0, 0, 1))
    return ",".join(
        (
            f"latency={rng.uniform(0, 0.02):.3f}",
            *shares,
            f"retry_after={wait}",
            f"seed={rng.randrange(10**6)}",
        )
    )
