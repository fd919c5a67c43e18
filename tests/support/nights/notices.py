"""Checks that people get the notices that they need, and no others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from nights.world import ReportedRound

__all__ = ["Notices"]

_FAILED = {"error", "failed-rows", "interrupted", "refused"}
_TO_DECIDE = {"conflict", "finding", "drift"}


@dataclass
class Notices:
    """The notices that people got for each job: which job still needs a recovery notice, which file
    waits, and whether the job was well at the last notice.
    """

    owed: set[str] = field(default_factory=set)
    waiting: dict[str, str] = field(default_factory=dict)
    well: dict[str, bool] = field(default_factory=dict)

    def check(self, letters: Collection[dict[str, Any]], rounds: Collection[ReportedRound]) -> None:
        """Compare the notices of a whole night with its rounds."""
        heard = {tuple(each["title"].split("|", 1)) for each in letters}
        assert len(heard) == len(letters), f"told twice: {letters}"
        jobs = {each.job for each in rounds}
        assert {job for _, job in heard} <= jobs, letters
        for each in rounds:
            events = {event for event, job in heard if job == each.job}
            self._job(each, events, [x for x in letters if x["title"].endswith(f"|{each.job}")])

    def overheard(self, letters: Collection[dict[str, Any]]) -> None:
        """Record notices of a killed process: they may come a second time, or never."""
        for each in letters:
            event, job = each["title"].split("|", 1)
            self._heard(job, {event})
        self.well.clear()
        self.waiting.clear()

    def _job(self, round_: ReportedRound, events: set[str], letters: list[dict[str, Any]]) -> None:
        job = round_.job
        failed = round_.status in _FAILED or round_.round.get("failed", 0) > 0
        decide = [each for each in round_.open if each["kind"] in _TO_DECIDE]
        was_well = self.well.get(job)
        if "failure" in events:
            assert failed, f"a failure that was none: {letters}, {round_.round}"
        if failed and was_well:
            assert "failure" in events, f"no word of it: {round_.round}"
        if "violation" in events:
            assert decide, f"nothing to decide: {letters}"
        if decide and was_well and not failed and round_.status != "waiting":
            assert "violation" in events, f"no word of what is to be decided: {round_.open}"
        if round_.status == "waiting":
            file = round_.round["waiting"]
            if job in self.waiting and self.waiting[job] == file:
                assert "waiting" not in events, f"told twice in one day: {letters}"
            elif was_well:
                assert "waiting" in events, f"no word of what waits: {round_.round}"
                assert any(file in each["message"] for each in letters), letters
        else:
            assert "waiting" not in events, letters
        is_over = round_.code == 0 and job in self.owed
        assert ("recovery" in events) == is_over, f"{job}: owed {is_over}, told {letters}"
        self._heard(job, events)
        self.well[job] = round_.code == 0
        if round_.status == "waiting":
            self.waiting[job] = round_.round["waiting"]
        else:
            self.waiting.pop(job, None)

    def _heard(self, job: str, events: set[str]) -> None:
        if events & {"failure", "violation", "waiting"}:
            self.owed.add(job)
        if "recovery" in events:
            self.owed.discard(job)
