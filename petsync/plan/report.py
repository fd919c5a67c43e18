"""Report: what became of each change of a run; and the report of a round."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec
import pandas as pd

from petsync._display import as_html, as_text
from petsync.errors import InterruptedRunError
from petsync.models import Pet
from petsync.plan.change import Change
from petsync.plan.plan import Plan
from petsync.plan.rounds import Counts, Difference, Round, SheetChange, exit_code_of
from petsync.protocol.operations import Traffic
from petsync.table.columns import Column

__all__ = [
    "OUTCOMES",
    "Cause",
    "Entry",
    "Outcome",
    "PastRun",
    "Progress",
    "Report",
    "Result",
    "RoundReport",
    "Rounds",
    "RunKind",
    "has_left",
    "left_in",
    "result_of",
    "runs_of",
    "taken_back",
    "undone_by",
    "without_request",
]


# Report: what became of every row of a plan.


Outcome = Literal[
    "applied", "unchanged", "not sent", "conflict", "needs fixing", "failed", "unknown"
]
"""`unchanged`: nothing was to be done. `not sent`: nothing was sent for it, so far or ever.
`needs fixing`: an error in the sheet blocks the row. `unknown`: no answer came, and asking the
store did not settle whether it happened.
"""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_WORST: tuple[Outcome, ...] = (
    "unchanged",
    "applied",
    "not sent",
    "conflict",
    "needs fixing",
    "unknown",
    "failed",
)

Cause = Literal[
    "",
    "confirmed",
    "another-id",
    "named-id",
    "already-so",
    "already-gone",
    "not-begun",
    "held-back",
    "changed-since",
    "gone",
    "came-meanwhile",
    "superseded",
    "undone",
    "replanned",
    "from-plan",
    "not-looked-up",
    "refused",
    "no-permission",
    "too-many",
    "service-error",
    "no-answer",
    "bad-answer",
    "not-as-sent",
    "unverified",
    "same-id",
    "overwrote",
    "unsafe-id",
    "blocked",
    "cut-off",
    "may-be-there",
    "unexpected",
]
"""Why a result is what it is, as a stable code: docs/reliability.md says what each means."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one change, conflict or blocked row. `number` is its place in the plan."""

    number: int
    kind: Literal["add", "update", "delete", "none"]
    row: int | None
    source: str
    pet_id: int | None
    outcome: Outcome
    message: str = ""
    assigned_id: int | None = None
    """The id that the service gave a new pet."""
    fields: tuple[Column, ...] = ()
    cause: Cause = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A run's results in the plan's order, and its totals.

    Rows in the sheet plus missing pets = applied + unchanged + not sent + conflict + needs fixing +
    failed + unknown.
    `stopped` says why a run ended early, "" if it did not; times are ISO 8601 in UTC.
    """

    run_id: str
    plan: Plan
    started: str
    seconds: float
    results: tuple[Result, ...]
    stopped: str = ""

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """How many rows had each outcome. Rows that agree or are ignored are `unchanged`, those
        that were left out of the plan `not sent`. A row with several results counts once, by the
        worst.
        """
        counts = Counter(result.outcome for result in self.results if result.row is None)
        counts.update(result.outcome for result in self.by_row().values())
        counts["unchanged"] += self.plan.unchanged + self.plan.ignored
        counts["not sent"] += self.plan.left_out
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    def by_row(self) -> dict[int, Result]:
        """One result for each row that has any: of several the worst, with all their messages."""
        rows: dict[int, Result] = {}
        for result in self.results:
            if result.row is not None:
                known = rows.get(result.row)
                rows[result.row] = result if known is None else _merge_results(known, result)
        return rows

    @property
    def exit_code(self) -> int:
        """0 done, 3 some rows failed or need fixing, 5 conflicts, 7 stopped early."""
        counts = self.counts
        if self.stopped:
            return InterruptedRunError.exit_code
        if counts["failed"] or counts["needs fixing"] or counts["unknown"]:
            return 3
        return 5 if counts["conflict"] else 0

    def to_frame(self) -> pd.DataFrame:
        """The results: row, source, kind, id, outcome, message, assigned_id; one a result."""
        names = ["row", "source", "kind", "id", "outcome", "message", "assigned_id"]
        rows = [
            [r.row, r.source, r.kind, r.pet_id, r.outcome, r.message, r.assigned_id]
            for r in self.results
        ]
        integers = dict.fromkeys(("row", "id", "assigned_id"), "Int64")
        # As objects first: beside a missing one, pandas would round an id to a float.
        frame = pd.DataFrame(rows, columns=names, dtype=object)
        return frame.astype(integers).infer_objects()

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def result_of(
    number: int,
    change: Change,
    outcome: Outcome,
    cause: Cause,
    message: str,
    assigned_id: int | None = None,
) -> Result:
    """The result of a change."""
    return Result(
        number=number,
        kind=change.kind,
        row=change.row,
        source=change.source,
        pet_id=change.pet_id,
        outcome=outcome,
        message=message,
        assigned_id=assigned_id,
        fields=change.fields,
        cause=cause,
    )


def without_request(plan: Plan) -> Iterator[Result]:
    """Results for the rows that were no change: conflicts, rows whose pets could not be looked up,
    and rows that errors block.
    """
    number = len(plan.changes)
    for conflict in plan.open_conflicts:
        yield Result(
            number=number,
            kind="none",
            row=conflict.row,
            source=conflict.source,
            pet_id=conflict.pet_id,
            outcome="failed" if conflict.is_unanswered else "conflict",
            cause="not-looked-up" if conflict.is_unanswered else "from-plan",
            message=f"{conflict.subject} {conflict.problem}. {conflict.suggestion}",
        )
        number += 1
    for blocked in plan.blocked:
        yield Result(
            number=number,
            kind="none",
            row=blocked.row,
            source=blocked.source,
            pet_id=blocked.pet_id,
            outcome="needs fixing",
            cause="blocked",
            message=blocked.problem,
        )
        number += 1


def _merge_results(one: Result, other: Result) -> Result:
    worse = max(one, other, key=lambda result: _WORST.index(result.outcome))
    texts = [_describe(result) for result in (one, other)]
    return msgspec.structs.replace(
        worse,
        message=". ".join(text.rstrip(".") for text in texts if text),
        assigned_id=one.assigned_id if one.assigned_id is not None else other.assigned_id,
    )


def _describe(result: Result) -> str:
    if result.outcome != "applied":
        return result.message
    return "; ".join(filter(None, (f"applied: {', '.join(result.fields)}", result.message)))


# What a journal knows of the past: runs, and what each did to which pet.


RunKind = Literal["apply", "undo", "upload"]


class PastRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: `state` is `running` while a living process is at work on it, `stopped` where it
    ended before its last change (`stopped` says why, "killed" where nothing could be written any
    more), and `done`. Times are ISO 8601 in UTC, `ended` is "" while it runs; `seconds` are those
    of all sittings. `total` is the number of changes, `counts` how many have each outcome, and
    `open` how many were begun and have none. `undoes` is the run that it takes back,
    `pets` how many pets what was applied is of.
    """

    run_id: str
    kind: RunKind = "apply"
    store: str
    source: str
    fingerprint: str = ""
    undoes: str = ""
    started: str
    ended: str = ""
    seconds: float = 0.0
    state: Literal["running", "stopped", "done"] = "running"
    stopped: str = ""
    total: int = 0
    counts: Mapping[Outcome, int] = {}
    open: int = 0
    pets: int = 0
    sittings: int = 1


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What a run intended with one pet, and what became of it.

    `before` is the pet as it was read just before the request, `after` as it was to be, or as the
    service said that it is then; None where there is no pet. `intended` is the moment (ISO 8601)
    at which the request was about to be sent, "" where none was; `seconds` how long it took.
    `outcome` is None where the run ended before it was known. `source` is the cell's address.
    `digest` is the SHA-256 of an image, "" for all but uploads.
    """

    number: int
    kind: Literal["add", "update", "delete", "upload"]
    row: int | None = None
    source: str = ""
    pet_id: int | None = None
    fields: tuple[Column, ...] = ()
    before: Pet | None = None
    after: Pet | None = None
    intended: str = ""
    seconds: float = 0.0
    attempts: int = 0
    outcome: Outcome | None = None
    cause: Cause = ""
    message: str = ""
    assigned_id: int | None = None
    digest: str = ""


# Progress: how far a run is, for whoever shows it.


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` changes have a result, `problems` of them one that a person has to look at
    (failed, unknown, conflict); `last` is the newest, and `traffic` how the requests go.
    """

    done: int
    total: int
    last: Result
    problems: int = 0
    traffic: Traffic = Traffic()  # noqa: RUF009 - frozen


# RoundReport: all that there is to tell of a round.


class RoundReport(msgspec.Struct, frozen=True, kw_only=True):
    """A round, every difference that it left, what was planned for either side, and what became of
    it.

    `plan` is what the store was to take, None where the round ended before it was made; `report`
    is None where nothing was sent. `sheet` is what the sheet was to take.
    """

    round: Round
    open: tuple[Difference, ...] = ()
    plan: Plan | None = None
    report: Report | None = None
    sheet: tuple[SheetChange, ...] = ()

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


# Rounds: what one reconciliation made, job by job.


class Rounds(tuple[RoundReport, ...]):
    """The rounds of one reconciliation, in the configuration's order, as a tuple."""

    __slots__ = ()

    @property
    def exit_code(self) -> int:
        """That of the round that a person should hear of first; 0 where there is none."""
        return exit_code_of(report.round.exit_code for report in self)

    def to_frame(self) -> pd.DataFrame:
        """The rounds with the fields of `Round`, one a row; `started` is a moment in UTC, and
        `to_store` and `to_sheet` are numbers of pets.
        """
        rows = [_row(report.round) for report in self]
        frame = pd.DataFrame(rows, columns=list(Round.__struct_fields__))
        return frame.assign(started=pd.to_datetime(frame["started"], utc=True, format="ISO8601"))

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def _row(round_: Round) -> dict[str, object]:
    row = msgspec.structs.asdict(round_)
    return {k: v.total if isinstance(v, Counts) else v for k, v in row.items()}


# Which runs stand, and which are taken back by one that stands.


def undone_by(runs: Iterable[PastRun]) -> dict[str, PastRun]:
    """For each run that is taken back, the newest run that did so and is not taken back itself; one
    that may have, as nobody knows its outcome yet, counts too. `runs` are those of a store, or of
    several, the newest first.
    """
    found: dict[str, PastRun] = {}
    for run in runs:
        has_begun = run.open or run.counts.get("applied") or run.counts.get("unknown")
        if run.undoes and has_begun and run.run_id not in found:
            found.setdefault(run.undoes, run)
    return found


def taken_back(
    runs: Iterable[PastRun], entries: Callable[[str], Iterable[Entry]]
) -> Mapping[str, frozenset[int]]:
    """For each run that is taken back, in whole or in part, the pets that are; what an undo did
    that was itself taken back does not count. `runs` are the newest first, and `entries` gives a
    run's.
    """
    found: defaultdict[str, frozenset[int]] = defaultdict(frozenset)
    for run in runs:
        if run.undoes:
            # Whatever takes this run back is newer, and was met before.
            found[run.undoes] |= _pets(entries(run.run_id)) - found[run.run_id]
    return found


def runs_of(runs: Sequence[PastRun], rounds: Iterable[Round]) -> list[PastRun]:
    """Those of the runs (the newest first) that these rounds made or finished, those by which
    somebody applied their sheet, or a plan of it that waited, to their store, and what took any of
    these back.
    """
    rounds = list(rounds)
    ids = {run for each in rounds for run in each.runs}
    sides = {(each.store, each.source) for each in rounds}
    for run in reversed(runs):
        if run.undoes in ids or (not run.undoes and (run.store, run.source) in sides):
            ids.add(run.run_id)
    return [run for run in runs if run.run_id in ids]


def has_left(run: PastRun) -> bool:
    """Whether anything of a run is left that was not done, or that nobody knows the end of."""
    return run.state != "done" or left_in(run) > 0


def left_in(run: PastRun) -> int:
    """How many changes of a run were not done, or have an unknown outcome."""
    return run.total - run.counts.get("applied", 0) - run.counts.get("unchanged", 0)


def _pets(entries: Iterable[Entry]) -> frozenset[int]:
    ids = (entry.pet_id for entry in entries if entry.outcome == "applied")
    return frozenset(pet_id for pet_id in ids if pet_id is not None)
