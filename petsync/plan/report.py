"""Reports: the result of each change of a run, and the report of a round."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Literal, get_args

import msgspec
import numpy as np
import pandas as pd

from petsync._display import as_html, as_text
from petsync.errors import InterruptedRunError
from petsync.models import Pet
from petsync.plan.change import Change, LongChanges, LongSequence
from petsync.plan.plan import Plan
from petsync.plan.rounds import Counts, Difference, Round, SheetChange, exit_code_of
from petsync.protocol.operations import Traffic
from petsync.table.columns import Column
from petsync.table.dtypes import infer_texts, time_column, typed_frame

__all__ = [
    "NOT_STARTED",
    "OUTCOMES",
    "Cause",
    "Entry",
    "LongResults",
    "Outcome",
    "PastRun",
    "Progress",
    "Report",
    "Result",
    "RoundReport",
    "Rounds",
    "RunKind",
    "RunResults",
    "collect_results",
    "collect_undone_pets",
    "count_remaining",
    "expect_report",
    "find_undoing_runs",
    "has_remaining",
    "is_resumable",
    "merge_results",
    "result_of",
    "runs_of",
    "without_request",
]


# Report: the result of every row of a plan.


Outcome = Literal[
    "applied", "unchanged", "not sent", "conflict", "needs fixing", "failed", "unknown"
]
"""`unchanged`: there was nothing to do.

`not sent`: nothing was sent for the row, at least not yet. `needs fixing`: an error in the sheet
blocks the row. `unknown`: no answer arrived, and a look-up in the store did not show if the change
was made.
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
"""The stable code of the reason for a result. docs/causes.md explains each."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a change, conflict or blocked row."""

    number: int
    """The position in the plan."""
    kind: Literal["add", "update", "delete", "none"]
    """The kind of the change; "none" for a conflict or a blocked row."""
    row: int | None
    """The sheet's row, None for a pet in no row."""
    source: str
    """The row's address, "" for a pet in no row."""
    pet_id: int | None
    """The pet's id, None if it is unknown."""
    outcome: Outcome
    """The outcome."""
    message: str = ""
    """The outcome's explanation."""
    assigned_id: int | None = None
    """The id that the service assigned to a new pet."""
    fields: tuple[Column, ...] = ()
    """The changed columns."""
    cause: Cause = ""
    """The stable code of the reason."""

    @property
    def is_in_store(self) -> bool:
        """True if the store has the change after the run, which applied it or found it there."""
        return self.outcome == "applied" or self.cause in ("already-so", "already-gone")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a run, and its totals.

    Rows in the sheet plus pets in no row that have a result = applied + unchanged + not sent +
    conflict + needs fixing + failed + unknown.
    """

    run_id: str
    """The run's id."""
    plan: Plan
    """The plan that was applied."""
    started: str
    """The start, ISO 8601 in UTC."""
    seconds: float
    """The duration in seconds."""
    results: Sequence[Result]
    """The results, in the plan's order: a tuple or, for a long plan, a `LongResults`."""
    stopped: str = ""
    """The reason why the run ended early, "" if it did not."""

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """The number of rows, and of pets in no row, with each outcome.

        Rows that agree or are ignored are `unchanged`. Rows that were left out of the plan are `not
        sent`. A row with several results counts once, with the worst one.
        """
        if isinstance(self.results, LongResults):
            counts = self.results.outcomes.copy()
        else:
            counts = Counter(result.outcome for result in self.iter_worst())
        counts["unchanged"] += self.plan.unchanged + self.plan.ignored
        counts["not sent"] += self.plan.left_out
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    def iter_worst(self) -> Iterator[Result]:
        """Yield the results in their order, one for each row: the worst of several, with all their
        messages.
        """
        return _iter_worst(self.results, self.repeated)

    @property
    def repeated(self) -> Mapping[int, Sequence[Result]]:
        """The results of each row that has several, by row number."""
        if isinstance(self.results, LongResults):
            return self.results.repeated
        return _find_repeated(self.results)

    def by_row(self) -> dict[int, Result]:
        """Return a result for each row that has one: the worst of several, with all their
        messages.
        """
        return {result.row: result for result in self.iter_worst() if result.row is not None}

    @property
    def exit_code(self) -> int:
        """The exit code of the run.

        0: done; 3: some rows failed, need fixing or have an unknown outcome; 5: conflicts; 7:
        stopped early.
        """
        counts = self.counts
        if self.stopped:
            return InterruptedRunError.exit_code
        if counts["failed"] or counts["needs fixing"] or counts["unknown"]:
            return 3
        return 5 if counts["conflict"] else 0

    def to_frame(self) -> pd.DataFrame:
        """Return the results as a frame with one row per result.

        Its columns are row, source, kind, id, outcome, message and assigned_id.
        """
        names = ["row", "source", "kind", "id", "outcome", "message", "assigned_id"]
        rows = [
            [r.row, r.source, r.kind, r.pet_id, r.outcome, r.message, r.assigned_id]
            for r in self.results
        ]
        return typed_frame(rows, names, integers=("row", "id", "assigned_id"))

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def _find_repeated(results: Sequence[Result]) -> dict[int, list[Result]]:
    """Return the results of each row that has several, by row number."""
    numbers = (-1 if result.row is None else result.row for result in results)
    rows, counts = np.unique(np.fromiter(numbers, np.int64, len(results)), return_counts=True)
    repeated = set(rows[(counts > 1) & (rows >= 0)].tolist())
    found = defaultdict[int, list[Result]](list)
    for result in results if repeated else ():
        if result.row is not None and result.row in repeated:
            found[result.row].append(result)
    return found


def _iter_worst(
    results: Iterable[Result], repeated: Mapping[int, Sequence[Result]]
) -> Iterator[Result]:
    for result in results:
        several = () if result.row is None else repeated.get(result.row, ())
        if not several:
            yield result
        elif result.number == several[0].number:
            yield merge_results(several)


def merge_results(several: Iterable[Result]) -> Result:
    """Return the worst of a row's results, with the messages of all."""
    return reduce(_merge_two, several)


class RunResults(MutableMapping[int, Result]):
    """The results of a plan's changes, by number. They take one byte each if few of them have a
    message.
    """

    def __init__(self, changes: Sequence[Change], results: Mapping[int, Result] = {}) -> None:
        self._changes = changes
        self._codes = bytearray(len(changes))
        self._kinds: list[tuple[Outcome, Cause, str] | None] = [None]
        self._code_of: dict[tuple[Outcome, Cause, str] | None, int] = {}
        self._assigned_ids: dict[int, int] = {}
        self._others: dict[int, Result] = {}
        self._size = 0
        if isinstance(results, RunResults):
            self._codes, self._kinds = results._codes.copy(), results._kinds.copy()
            self._code_of, self._others = results._code_of.copy(), results._others.copy()
            self._assigned_ids, self._size = results._assigned_ids.copy(), results._size
        else:
            self.update(results)

    def __getitem__(self, number: int) -> Result:
        if (result := self._others.get(number)) is not None:
            return result
        kind = self._kinds[self._codes[number]] if number in range(len(self._codes)) else None
        if kind is None:
            raise KeyError(number)
        assigned_id = self._assigned_ids.get(number)
        return result_of(number, self._changes[number], *kind, assigned_id)

    def __setitem__(self, number: int, result: Result) -> None:
        kind = result.outcome, result.cause, result.message
        code = self._code_of.get(kind)
        if code is None and len(self._kinds) <= _MAX_CODE:
            code = self._code_of[kind] = len(self._kinds)
            self._kinds.append(kind)
        self._discard(number)
        self._size += 1
        if code is None:
            self._others[number] = result
            return
        self._codes[number] = code
        if result.assigned_id is not None:
            self._assigned_ids[number] = result.assigned_id

    def __delitem__(self, number: int) -> None:
        if number not in self:
            raise KeyError(number)
        self._discard(number)

    def __contains__(self, number: object) -> bool:
        is_coded = isinstance(number, int) and self._codes[number : number + 1] > b"\0"
        return is_coded or number in self._others

    def __iter__(self) -> Iterator[int]:
        return (number for number in range(len(self._codes)) if number in self)

    def __len__(self) -> int:
        return self._size

    def count_outcomes(self) -> Counter[Outcome]:
        """Return the number of results with each outcome."""
        counts = Counter(result.outcome for result in self._others.values())
        for code, kind in enumerate(self._kinds):
            if kind is not None:
                counts[kind[0]] += self._codes.count(code)
        return counts

    def find(self, outcome: Outcome) -> list[int]:
        """Return the numbers of the changes with this outcome."""
        codes = [c for c, kind in enumerate(self._kinds) if kind is not None and kind[0] == outcome]
        found = np.flatnonzero(np.isin(np.frombuffer(self._codes, np.uint8), codes)).tolist()
        return sorted([*found, *(n for n, each in self._others.items() if each.outcome == outcome)])

    @property
    def assigned_ids(self) -> set[int]:
        """The ids that the service assigned."""
        others = {each.assigned_id for each in self._others.values()} - {None}
        return {*self._assigned_ids.values(), *(each for each in others if each is not None)}

    def _discard(self, number: int) -> None:
        self._size -= number in self
        self._codes[number] = 0
        self._assigned_ids.pop(number, None)
        self._others.pop(number, None)


_MAX_CODE = 255


class LongResults(LongSequence[Result]):
    """The results of a long plan: those of its changes, and the `rest` without a change."""

    def __init__(self, changes: Sequence[Change], results: RunResults, rest: Sequence[Result]):
        self._changes, self._results, self._rest = changes, results, tuple(rest)

    def __len__(self) -> int:
        return len(self._changes) + len(self._rest)

    def make(self, number: int) -> Result:
        changes = len(self._changes)
        return self._results[number] if number < changes else self._rest[number - changes]

    @cached_property
    def repeated(self) -> Mapping[int, Sequence[Result]]:
        """The results of each row that has several, by row number."""
        return _find_repeated(self)

    @cached_property
    def outcomes(self) -> Counter[Outcome]:
        """The number of rows, and of pets in no row, with each outcome."""
        counts = self._results.count_outcomes()
        counts.update(result.outcome for result in self._rest)
        for several in self.repeated.values():
            counts.subtract(result.outcome for result in several)
            counts[merge_results(several).outcome] += 1
        return counts


NOT_STARTED = "not started, because the run was stopped"
"""The message of a change whose request was not sent before the run was stopped."""


def collect_results(plan: Plan, results: RunResults, stopped: str) -> Sequence[Result]:
    """Return the results of all changes, followed by those for which nothing is sent. Changes that
    `results` lacks were not started; `stopped` is why the run ended early, or "".
    """
    why = NOT_STARTED if stopped else "not started"
    for number, change in enumerate(plan.changes if len(results) < len(plan.changes) else ()):
        if number not in results:
            results[number] = result_of(number, change, "not sent", "not-begun", why)
    rest = without_request(plan)
    if isinstance(plan.changes, LongChanges):
        return LongResults(plan.changes, results, tuple(rest))
    return (*results.values(), *rest)


def expect_report(plan: Plan, known_ids: Iterable[int]) -> Report:
    """Return the report of a run that makes every change of the plan. New pets get ids below 0 that
    are not in `known_ids`.
    """
    ids = itertools.count(min(0, *known_ids) - 1, -1)
    results = RunResults(plan.changes)
    for number, change in enumerate(plan.changes):
        is_new = change.kind == "add" and change.pet_id is None
        pet_id = next(ids) if is_new else None
        results[number] = result_of(number, change, "applied", "", "", pet_id)
    return Report(
        run_id="",
        plan=plan,
        started=plan.created,
        seconds=0.0,
        results=collect_results(plan, results, ""),
    )


def result_of(
    number: int,
    change: Change,
    outcome: Outcome,
    cause: Cause,
    message: str,
    assigned_id: int | None = None,
) -> Result:
    """Return the result of a change."""
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
    """Yield the results for which nothing is sent: those of open conflicts, of rows whose pets
    could not be looked up, and of blocked rows.
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


def _merge_two(one: Result, other: Result) -> Result:
    worse = max(one, other, key=lambda result: _WORST.index(result.outcome))
    texts = [_describe(result) for result in (one, other)]
    return msgspec.structs.replace(
        worse,
        message="; ".join(text.rstrip(".") for text in texts if text),
        assigned_id=one.assigned_id if one.assigned_id is not None else other.assigned_id,
    )


def _describe(result: Result) -> str:
    if result.outcome != "applied":
        return result.message
    return "; ".join(filter(None, (f"applied: {', '.join(result.fields)}", result.message)))


# A journal's records: past runs, and the effect of each run on each pet.


RunKind = Literal["apply", "undo", "upload"]


class PastRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the journal."""

    run_id: str
    """The run's id."""
    kind: RunKind = "apply"
    """The kind of the run."""
    store: str
    """The service's address."""
    source: str
    """The sheet's file, or the folder of images."""
    fingerprint: str = ""
    """The fingerprint of the applied plan or pictures."""
    undoes: str = ""
    """The run that this run undoes, "" if it is not an undo."""
    started: str
    """The start, ISO 8601 in UTC."""
    ended: str = ""
    """The end, ISO 8601 in UTC; "" while it runs, or if the end is unknown."""
    seconds: float = 0.0
    """The total duration of its sessions in seconds."""
    state: Literal["running", "stopped", "done"] = "running"
    """`running` while a live process works on it, `stopped` if it ended before its last change,
    `done` otherwise.
    """
    stopped: str = ""
    """The reason why it stopped; "killed" if the process could not record one."""
    total: int = 0
    """The number of changes."""
    counts: Mapping[Outcome, int] = {}
    """The number of changes with each outcome."""
    open: int = 0
    """The number of changes that began and have no outcome."""
    pets: int = 0
    """The number of pets with an applied change."""
    sessions: int = 1
    """The number of its sessions: the first one and each resumption."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A run's change of one pet, and its outcome."""

    number: int
    """The position in the plan."""
    kind: Literal["add", "update", "delete", "upload"]
    """The kind of the change."""
    row: int | None = None
    """The sheet's row, None for a pet in no row."""
    source: str = ""
    """The address of the row, or of the cell that names the image; "" if there is none."""
    pet_id: int | None = None
    """The pet's id, None if it is unknown."""
    fields: tuple[Column, ...] = ()
    """The changed columns."""
    before: Pet | None = None
    """The pet that was read before the request; None if there was no pet."""
    after: Pet | None = None
    """The pet that was sent, or the one in the service's response; None if there is no pet."""
    intended: str = ""
    """The time just before the request was sent, ISO 8601; "" if there was no request."""
    seconds: float = 0.0
    """The duration of the request in seconds."""
    attempts: int = 0
    """The number of attempts."""
    outcome: Outcome | None = None
    """The outcome, None if the run ended before it was known."""
    cause: Cause = ""
    """The stable code of the reason."""
    message: str = ""
    """The outcome's explanation."""
    assigned_id: int | None = None
    """The id that the service assigned to a new pet."""
    digest: str = ""
    """The SHA-256 of an uploaded image, "" for other changes."""


# Progress: the state of a run, for display.


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run."""

    done: int
    """The number of changes with a result other than `unknown`."""
    total: int
    """The number of all changes."""
    last: Result
    """The newest result."""
    problems: int = 0
    """The number of results that need the user's attention: failed, unknown or conflict."""
    traffic: Traffic = Traffic()  # noqa: RUF009 - frozen
    """The statistics of the requests."""


# RoundReport: the complete report of a round.


class RoundReport(msgspec.Struct, frozen=True, kw_only=True):
    """A round with its plans, its results and the differences that remain."""

    round: Round
    """The round."""
    open: tuple[Difference, ...] = ()
    """The differences that remain."""
    plan: Plan | None = None
    """The plan for the store, None if the round ended before there was one."""
    report: Report | None = None
    """The report of the run, None if nothing was sent."""
    sheet: tuple[SheetChange, ...] = ()
    """The planned changes of the sheet."""

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


# Rounds: the results of one reconciliation, by job.


class Rounds(tuple[RoundReport, ...]):
    """The rounds of one reconciliation, as a tuple in the configuration's order."""

    __slots__ = ()

    @property
    def exit_code(self) -> int:
        """The most urgent exit code of the rounds, 0 if there are none."""
        return exit_code_of(report.round.exit_code for report in self)

    def to_frame(self) -> pd.DataFrame:
        """Return the rounds as a frame with one row per round. The columns are the fields of
        `Round` in JSON.

        `started` is a time in UTC. `to_store` and `to_sheet` are numbers of pets.
        """
        rows = [_row(report.round) for report in self]
        frame = infer_texts(pd.DataFrame(rows, columns=list(Round.__struct_encode_fields__)))
        return frame.assign(started=time_column(frame["started"]))

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def _row(round_: Round) -> dict[str, object]:
    row = zip(Round.__struct_encode_fields__, msgspec.structs.astuple(round_), strict=True)
    return {k: v.total if isinstance(v, Counts) else v for k, v in row}


# Runs that are in effect, and runs that were undone.


def find_undoing_runs(runs: Iterable[PastRun]) -> dict[str, PastRun]:
    """Return, for each undone run, the newest run that undid it and was not undone itself.

    An undo with an unknown outcome counts too, and so does the undo of a run that was stopped
    before its end even if it had nothing to revert: no more of that run may be sent. `runs` are
    from one or more stores, the newest first.
    """
    every = [*runs]
    stopped = {run.run_id for run in every if run.state != "done"}
    found: dict[str, PastRun] = {}
    for run in every:
        has_started = run.open or run.counts.get("applied") or run.counts.get("unknown")
        ends_run = run.state == "done" and not run.total and run.undoes in stopped
        if run.undoes and (has_started or ends_run) and run.run_id not in found:
            found.setdefault(run.undoes, run)
    return found


def collect_undone_pets(
    runs: Iterable[PastRun], entries: Callable[[str], Iterable[Entry]]
) -> Mapping[str, frozenset[int]]:
    """Return, for each run that was undone in whole or in part, the ids of the pets whose changes
    were undone.

    An undo that was itself undone does not count. `runs` starts with the newest, and `entries`
    returns the entries of a run.
    """
    found: defaultdict[str, frozenset[int]] = defaultdict(frozenset)
    for run in runs:
        if run.undoes:
            # An undo of this run is newer, so the loop has already passed it.
            found[run.undoes] |= _pets(entries(run.run_id)) - found[run.run_id]
    return found


def runs_of(runs: Sequence[PastRun], rounds: Iterable[Round]) -> list[PastRun]:
    """Return the runs that belong to these rounds.

    These are the runs that the rounds made or finished, other runs that applied a round's sheet to
    the round's store, and the undos of all these runs. `runs` starts with the newest.
    """
    rounds = list(rounds)
    ids = {run for each in rounds for run in each.runs}
    sides = {(each.store, each.source) for each in rounds}
    for run in reversed(runs):
        if run.undoes in ids or (not run.undoes and (run.store, run.source) in sides):
            ids.add(run.run_id)
    return [run for run in runs if run.run_id in ids]


def has_remaining(run: PastRun) -> bool:
    """Return true if a run has changes that were not made, or have an unknown outcome."""
    return run.state != "done" or count_remaining(run) > 0


def is_resumable(past: PastRun) -> bool:
    """Return true if the run did not end, or if some of its changes failed or have an unknown
    outcome. This includes a run in progress, which can be resumed when its process has ended.
    """
    trouble = past.counts.get("failed", 0) + past.counts.get("unknown", 0)
    return past.state != "done" or bool(past.open or trouble)


def count_remaining(run: PastRun) -> int:
    """Return the number of a run's changes that were not made, or have an unknown outcome."""
    return run.total - run.counts.get("applied", 0) - run.counts.get("unchanged", 0)


def _pets(entries: Iterable[Entry]) -> frozenset[int]:
    ids = (entry.pet_id for entry in entries if entry.outcome == "applied")
    return frozenset(pet_id for pet_id in ids if pet_id is not None)
