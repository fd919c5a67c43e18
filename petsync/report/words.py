"""Texts that all reports share: counts, places, causes, outcomes."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeVar

import msgspec
from rich.cells import cell_len, chop_cells, split_graphemes

from petsync._display import count, in_terms_of_job
from petsync.models import Pet
from petsync.plan.change import Add, Blocked, Change, Conflict, Delete, job_of, release_of
from petsync.plan.guard import CAPACITY_CURE, Refusal
from petsync.plan.options import SEND_SHEET
from petsync.plan.plan import Plan, Summary, iter_stale_rows
from petsync.table.cells import make_visible
from petsync.table.sheet import FINDING_FIELDS, Finding, Findings, Sheet

if TYPE_CHECKING:
    from petsync.plan.report import Cause, Outcome, Report, Result

__all__ = [
    "BRIEF_CAUSES",
    "CAUSES",
    "EMPTY",
    "HEADING",
    "KINDS",
    "LIMITS_KEPT",
    "NO_CURE",
    "OUTCOME_MARK",
    "PLAN_REFUSED",
    "RANK",
    "SHOWN_CAUSES",
    "STOPPED_TITLE",
    "SYMBOL",
    "UNANSWERED_TITLE",
    "UNCOVERED_TITLE",
    "WHERE_TO_SEE_ALL",
    "WINNERS",
    "CauseText",
    "ClashesByRow",
    "EqualFindings",
    "FindingGroup",
    "Kind",
    "Listing",
    "Mark",
    "Place",
    "ResultGroup",
    "Winner",
    "capital",
    "changes_by_kind",
    "clashes_by_row",
    "conflicts_by_winner",
    "conflicts_title",
    "corrections_fact",
    "count",
    "count_beyond",
    "count_left",
    "count_warnings",
    "describe_applied",
    "describe_cause",
    "describe_choice",
    "describe_clashes",
    "describe_refusal",
    "describe_winner",
    "duration",
    "findings_by_rule",
    "first",
    "format_changed_fields",
    "format_need_fixing",
    "format_outcomes",
    "format_places",
    "format_timestamp",
    "group_by_text",
    "group_findings",
    "inflect_outcome",
    "iter_findings",
    "iter_unanswered",
    "make_visible",
    "name_of",
    "number",
    "origin",
    "pet_of",
    "place_of",
    "plan_facts",
    "plan_summary",
    "quote_text",
    "refusal_advice",
    "report_facts",
    "report_summary",
    "result_names",
    "results_by_cause",
    "scope_facts",
    "sentences",
    "shorten",
    "source_of",
    "totals",
    "undo_hint",
    "where_to_see_all",
    "wrap",
]


# Grouping by description.


T = TypeVar("T")


def group_by_text(things: Iterable[T], describe: Callable[[T], str]) -> list[tuple[str, list[T]]]:
    """Return the descriptions, each with its things: the largest group first; groups of equal size
    are in the order of their first things.
    """
    groups: dict[str, list[T]] = {}
    for thing in things:
        groups.setdefault(describe(thing), []).append(thing)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def count_beyond(groups: Sequence[tuple[str, list[T]]], limit: int | None) -> int:
    """Return the number of things in the groups after the first `limit`."""
    return 0 if limit is None else sum(len(things) for _, things in groups[limit:])


# Printable text (the result of `make_visible`), fitted into cells of a terminal: widths are in
# cells, not characters.


EMPTY = "(empty)"
_CUT = "..."
_MARKS_PER_CELL = 4
_AMBIGUOUS = re.compile(r"^\s|\s$|^[\"(+-]| -> ")


def quote_text(text: str) -> str:
    """Return a field's value as printable text: `(empty)` if it is empty, and in quotes if it could
    be misread.
    """
    if not text:
        return EMPTY
    shown = make_visible(text)
    return f'"{shown}"' if _AMBIGUOUS.search(shown) else shown


def shorten(text: str, width: int) -> str:
    """Return the printable text in at most `width` cells, with `...` in the middle if it is
    longer.
    """
    if len(text) <= _MARKS_PER_CELL * width and cell_len(text) <= width:
        return text
    width_left = max(width - len(_CUT), 0)
    length = _MARKS_PER_CELL * (width_left + 1) // 2
    head, tail = text[:length], text[-length:]
    first, last = split_graphemes(head)[0], split_graphemes(tail)[0][::-1]
    kept_first = _count_fitting(first, (width_left + 1) // 2)
    kept_last = _count_fitting(last, width_left // 2)
    end = first[kept_first - 1][1] if kept_first else 0
    start = last[kept_last - 1][0] if kept_last else len(tail)
    return head[:end] + _CUT[:width] + tail[start:]


def wrap(text: str, width: int) -> list[str]:
    """Return the printable text as lines of at most `width` cells, broken between words if
    possible.
    """
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cell_len(longer) <= width:
            line = longer
            continue
        lines += [line] if line else []
        *full, line = chop_cells(word, width) or [""]
        lines += full
    return [*lines, line]


def _count_fitting(graphemes: Iterable[tuple[int, int, int]], width: int) -> int:
    """Return how many of the graphemes (start, end, cells) fit into `width` cells."""
    count = 0
    for _, _, cells in graphemes:
        width -= cells
        if width < 0:
            break
        count += 1
    return count


# Texts for the causes of results.


class CauseText(NamedTuple):
    """The texts for a cause: a title, its meaning, and what to do."""

    title: str
    """The text that continues an outcome ("3 failed: ...")."""
    meaning: str
    cure: str
    """The action to take. RUN in it is replaced by the run's id."""


_RESUME = "`petsync resume RUN`"
NO_CURE = "There is nothing to do."
"""The advice if nothing needs to be done."""
_SEE_ROWS = "Each row says why."

CAUSES: Mapping[Cause, CauseText] = {
    "": CauseText(
        "as planned",
        "The service accepted the change.",
        NO_CURE,
    ),
    "confirmed": CauseText(
        "confirmed afterwards",
        "No answer arrived, or the run was interrupted. The store then showed that the change was "
        "made.",
        NO_CURE,
    ),
    "another-id": CauseText(
        "under another id",
        "The pet is in the store, but the service assigned another id.",
        "Write the new id into the sheet, as `petsync apply --write-ids` does; otherwise the next "
        "plan holds back the row.",
    ),
    "named-id": CauseText(
        "under an id that another row names",
        "The pet is in the store, under an id that another row of the sheet already contains. The "
        "id is not written into the new row, and the next plan holds back both rows.",
        "Remove the other row, or its id if it is a new pet; then plan again.",
    ),
    "already-so": CauseText(
        "the store already had the values",
        "Another user or an earlier run had already made the same change, or the store already "
        "has a pet with exactly the values of the new one.",
        NO_CURE,
    ),
    "already-gone": CauseText(
        "the pet was already deleted",
        "Another user or an earlier run had already deleted it.",
        NO_CURE,
    ),
    "not-begun": CauseText(
        "not started",
        "The run ended before these changes. Nothing was sent for them.",
        f"{_RESUME} sends them.",
    ),
    "held-back": CauseText(
        "held back",
        "Deletes come last, and none is sent if too many changes failed before them.",
        f"Fix what failed; {_RESUME} then sends the deletes too.",
    ),
    "changed-since": CauseText(
        "changed in the store since the plan",
        "Another user changed the pet after the plan was made. The store's values stay, and "
        "nothing was sent.",
        "Plan again: the new plan shows both values.",
    ),
    "gone": CauseText(
        "no longer in the store",
        "Another user deleted the pet after the plan was made.",
        "Remove the row from the sheet, or clear its id to add the pet again; then plan again.",
    ),
    "came-meanwhile": CauseText(
        "added to the store since the plan",
        "Since the plan was made, a pet with this id, or one with the name or exactly the values "
        "of a row without an id, was added to the store.",
        "Plan again: the row is then compared with that pet.",
    ),
    "superseded": CauseText(
        "left to a later run",
        "A later run has changed the pet since, or has started with the same sheet: this run adds "
        "no more rows of that sheet.",
        "Resume the later run if it was stopped; otherwise plan again from the sheet.",
    ),
    "undone": CauseText(
        "the run was undone",
        "The run was undone before these changes were made. They are never sent.",
        "To make them after all, plan again from the sheet.",
    ),
    "replanned": CauseText(
        "planned again",
        "The run was stopped before these changes were made, and the next round of its job planned "
        "them again from the sheet and the store at that time.",
        "The run of that round shows what was sent.",
    ),
    "from-plan": CauseText(
        "open since the plan",
        "Sheet and store are in conflict. The values in conflict were not sent.",
        "Do what each row says, and plan again.",
    ),
    "not-looked-up": CauseText(
        "could not be looked up",
        "The service gave no answer about the pet. Nothing was sent.",
        "Plan again once the service answers.",
    ),
    "refused": CauseText(
        "refused by the service",
        "The service does not accept this request. The same request would fail again.",
        "Correct the row as the message says, and plan again.",
    ),
    "no-permission": CauseText(
        "without permission",
        "The token is wrong, has expired, or lacks the permission.",
        "Get a token with the permission, and set it as PETSYNC_TOKEN or as the variable of the "
        f"job; {_RESUME} then continues.",
    ),
    "too-many": CauseText(
        "too many requests",
        "The service got too many requests, and refused them for longer than a run waits.",
        "`petsync resume RUN --rate 5` continues more slowly.",
    ),
    "service-error": CauseText(
        "an error in the service",
        "The service reported an internal error. Requests that are safe to repeat were sent again.",
        f"When the service works again, {_RESUME} tries them once more.",
    ),
    "no-answer": CauseText(
        "no answer",
        "The connection was lost, or the answer took too long.",
        f"{_RESUME} finds out from the store what happened, and sends what is missing.",
    ),
    "bad-answer": CauseText(
        "an answer that cannot be read",
        "The answer is incomplete, or it is another server's page.",
        f"Check the URL and any proxy; {_RESUME} then checks the store and continues.",
    ),
    "not-as-sent": CauseText(
        "not stored as sent",
        "The service accepted the change, but the pet has other values afterwards.",
        "Compare the pet with its row; a new plan shows what differs.",
    ),
    "unverified": CauseText(
        "not read back",
        "The service accepted the change, but the pet could not be read again.",
        f"{_RESUME} reads it again.",
    ),
    "same-id": CauseText(
        "not stored: the service gave its id twice",
        "The service gave the same id to another pet, which replaced this one.",
        f"{_RESUME} adds the pet again.",
    ),
    "overwrote": CauseText(
        "replaced another pet",
        "The service assigned the id of an existing pet to a new pet, which replaced the existing "
        "one.",
        "`petsync undo RUN` restores that pet. Give the row another id, and plan again.",
    ),
    "unsafe-id": CauseText(
        "not sent: it would replace another pet",
        "The service would give a new pet the id of an existing pet. Nothing was sent.",
        "Give each row a different id, and plan again.",
    ),
    "blocked": CauseText(
        "errors in the sheet",
        "The row has an error. Nothing was sent.",
        "Fix the cell that each row names, and plan again.",
    ),
    "cut-off": CauseText(
        "cut off",
        "The run ended while the request was under way.",
        f"{_RESUME} finds out from the store what happened, and sends the remaining changes.",
    ),
    "may-be-there": CauseText(
        "may be in the store, edited since",
        "No answer arrived for an add. The store does not have a pet with the sent values, but a "
        "new similar one, which may have been edited since. Nothing is sent again.",
        "Write that pet's id into the row, or write `add-another` as its action. Then plan again.",
    ),
    "unexpected": CauseText(
        "unexpected",
        "petsync does not recognise this result. This is a bug in petsync.",
        f"{_RESUME} tries again. Please report it with the output of the same command with -v.",
    ),
}
SHOWN_CAUSES: frozenset[Cause] = frozenset({"blocked", "from-plan", "not-looked-up"})
"""Causes that the plan showed before anything was sent."""
BRIEF_CAUSES: frozenset[Cause] = frozenset({"already-so", "already-gone", "not-begun", "held-back"})
"""Causes of which only a few rows are shown."""
_UNDECIDED_CAUSES: frozenset[Cause] = frozenset({"service-error", "no-answer", "bad-answer"})
"""Causes that do not say whether the change was made; the outcome does."""
_OUTCOME_MEANING: Mapping[Outcome, str] = {
    "applied": "",
    "unchanged": "",
    "not sent": "",
    "conflict": "",
    "needs fixing": "",
    "failed": "The store shows that the change was not made.",
    "unknown": "It is not known whether the change was made.",
}
_UNKNOWN_CAUSE: Mapping[Outcome, CauseText] = {
    "failed": CauseText(
        "no cause on record", _SEE_ROWS, "Plan again to see what is still to be done."
    ),
    "unknown": CauseText(
        "it is not known whether the change was made",
        "No answer arrived, and the store does not show whether the change was made.",
        f"{_RESUME} finds out from the store what happened.",
    ),
    "conflict": CauseText("a decision is needed", _SEE_ROWS, "Plan again to see both sides."),
    "not sent": CauseText("no cause on record", _SEE_ROWS, "Plan again to see what is left."),
    "unchanged": CauseText("no cause on record", _SEE_ROWS, NO_CURE),
    "needs fixing": CauseText("no cause on record", _SEE_ROWS, "Fix the cells, and plan again."),
}


_SHEET_CAUSES: frozenset[Cause] = frozenset(
    (
        "changed-since",
        "gone",
        "came-meanwhile",
        "superseded",
        "undone",
        "replanned",
        "not-looked-up",
        "refused",
        "not-as-sent",
        "another-id",
        "named-id",
        "overwrote",
        "unsafe-id",
        "may-be-there",
        "blocked",
    )
)
"""Causes that a change in the sheet, or another plan made from it, can fix."""
_UNDO_AGAIN = "`petsync undo UNDONE` again shows what is left."
_UNDO_KEPT_MEANING = (
    "The pet was changed since that run, or its values cannot be restored. Nothing was sent."
)


def describe_cause(
    outcome: Outcome, cause: Cause, run_id: str, undoes: str = "", job: str = ""
) -> CauseText:
    """Return the texts for results with this outcome and cause in a run's report. If `run_id` is
    "", there is no advice. `undoes` is the run that was undone, if the report is about an undo, and
    `job` the job whose waiting plan was applied.
    """
    words = _UNKNOWN_CAUSE[outcome] if not cause and outcome != "applied" else CAUSES[cause]
    meaning = (
        f"{words.meaning} {_OUTCOME_MEANING[outcome]}"
        if cause in _UNDECIDED_CAUSES
        else words.meaning
    )
    cure = words.cure
    if undoes and cause == "from-plan":
        meaning, cure = _UNDO_KEPT_MEANING, f"Do what each row says; {_UNDO_AGAIN}"
    elif undoes and (cause in _SHEET_CAUSES or (not cause and outcome in _PLAN_OUTCOMES)):
        cure = _UNDO_AGAIN
    if job:
        cure = in_terms_of_job(cure, job)
    cure = cure.replace("RUN", make_visible(run_id)).replace("UNDONE", make_visible(undoes))
    return CauseText(words.title, meaning.strip(), cure if run_id else "")


_PLAN_OUTCOMES: frozenset[Outcome] = frozenset(("failed", "needs fixing", "conflict", "not sent"))


# Corrected cells, as a fact of a sheet, plan or report.


_SHOWN_CELLS = 2


def corrections_fact(source: Plan | Sheet) -> Iterator[tuple[str, str]]:
    """Yield a fact about the cells that were corrected, but not in the file; nothing if there are
    none.
    """
    cells = [make_visible(each.address) for each in source.corrections]
    if cells:
        more = f" and {len(cells) - _SHOWN_CELLS:,} more" if len(cells) > _SHOWN_CELLS else ""
        shown = ", ".join(cells[:_SHOWN_CELLS])
        yield "corrected", f"{count(len(cells), 'cell')}, but not in the file: {shown}{more}"


# Groups of things, each with its size and its first things.


_MAX_BRIEF = 3
RANK: Sequence[Outcome] = (
    "failed",
    "unknown",
    "needs fixing",
    "conflict",
    "not sent",
    "applied",
    "unchanged",
)
"""The outcomes, those that usually need attention first."""

ClashesByRow = Mapping[int | None, Conflict]
"""The conflicts about single fields, by row."""


@dataclass(slots=True)
class Listing(Generic[T]):
    """The first of several things; `total` is the number of all of them."""

    shown: list[T] = field(default_factory=list)
    total: int = 0

    @property
    def more(self) -> int:
        """The number of things that are not shown."""
        return self.total - len(self.shown)


@dataclass(frozen=True, slots=True)
class ResultGroup:
    """The results with one outcome and cause, and the texts for them."""

    outcome: Outcome
    cause: Cause
    text: CauseText
    listing: Listing[Result]

    @property
    def title(self) -> str:
        """The title: `3 failed: no answer`."""
        total = self.listing.total
        outcome = (
            "in conflict" if self.outcome == "conflict" else inflect_outcome(self.outcome, total)
        )
        return f"{total:,} {outcome}: {self.text.title}"

    @property
    def is_plain(self) -> bool:
        """Whether the rows of these results need not be shown."""
        return self.outcome == "applied" and self.cause not in ("another-id", "named-id")


def first(things: Sequence[T], limit: int | None) -> Listing[T]:
    """Return the first `limit` things; all if `limit` is None."""
    return Listing(list(things[:limit]), len(things))


def changes_by_kind(plan: Plan, limit: int | None) -> Mapping[str, Listing[Change]]:
    """Return the changes by kind: `add`, `update`, `delete`. A kind without changes is included."""
    start = {kind: Listing[Change]() for kind in ("add", "update", "delete")}
    return _group_by(plan.changes, lambda change: change.kind, limit, start)


def conflicts_by_winner(plan: Plan, limit: int | None) -> Mapping[str, Listing[Conflict]]:
    """Return the conflicts by winner: "" for none, `store`, `sheet`. A winner without conflicts is
    included.
    """
    start = {winner: Listing[Conflict]() for winner in ("", "store", "sheet")}
    return _group_by(plan.conflicts, lambda conflict: conflict.winner, limit, start)


def clashes_by_row(plan: Plan) -> ClashesByRow:
    """Return the conflicts about single fields, by row. Other fields of these rows may be sent."""
    return {conflict.row: conflict for conflict in plan.conflicts if conflict.winner}


def results_by_cause(
    report: Report, limit: int | None, *, is_over: bool = False
) -> list[ResultGroup]:
    """Return the results in groups with the same outcome and cause.

    Outcomes that need attention come first; within an outcome the largest group is first, and
    causes that the plan already showed are last. Only the worst result of each row counts. For
    causes in BRIEF_CAUSES, a `limit` shows only a few rows. With `is_over`, as in a rehearsal,
    there is no advice.
    """
    run_id = "" if is_over else report.run_id
    undoes, job = report.plan.undoes, job_of(report.plan.raw_notes)
    results = report.iter_worst()
    if job:
        results = (with_terms(each, job) for each in results)
    groups = _group_by(results, lambda result: (result.outcome, result.cause), limit, {})
    ordered = sorted(
        groups, key=lambda key: (RANK.index(key[0]), key[1] in SHOWN_CAUSES, -groups[key].total)
    )
    texts = {key: describe_cause(*key, run_id, undoes, job) for key in ordered}
    return [
        ResultGroup(*key, texts[key], _limit_brief(groups[key], key[1], limit)) for key in ordered
    ]


def with_terms(result: Result, job: str) -> Result:
    """Return the result of a waiting plan of the job, with a message in the terms of the job."""
    return msgspec.structs.replace(result, message=in_terms_of_job(result.message, job))


def _limit_brief(listing: Listing[Result], cause: Cause, limit: int | None) -> Listing[Result]:
    if limit is not None and cause in BRIEF_CAUSES:
        listing.shown = listing.shown[:_MAX_BRIEF]
    return listing


def findings_by_rule(sheet: Sheet, limit: int | None) -> list[Listing[Finding]]:
    """Return the findings by rule, the most frequent rule first; among equally frequent rules,
    errors come before warnings.
    """
    groups = _group_by(sheet.problems, lambda f: (f.severity, f.rule), limit, {})
    return [groups[key] for key in sorted(groups, key=lambda k: (-groups[k].total, *k))]


K = TypeVar("K")


def _group_by(
    things: Iterable[T], key: Callable[[T], K], limit: int | None, groups: dict[K, Listing[T]]
) -> dict[K, Listing[T]]:
    for thing in things:
        group = groups.setdefault(key(thing), Listing())
        group.total += 1
        if limit is None or len(group.shown) < limit:
            group.shown.append(thing)
    return groups


# Numbers, timestamps, and the summary sentences of plans and reports.


Mark = Literal["add", "update", "delete", "conflict", "blocked", "note", "warning", "applied"]

Winner = Literal["", "store", "sheet"]
WINNERS: tuple[Winner, ...] = ("", "store", "sheet")
"""The winners of conflicts, those that need attention first: none, the store, the sheet."""
Kind = Literal["add", "update", "delete"]
KINDS: tuple[Kind, ...] = ("add", "update", "delete")
SYMBOL: Mapping[Mark, str] = {
    "add": "+",
    "update": "~",
    "delete": "-",
    "conflict": "!",
    "blocked": "x",
    "note": "*",
    "warning": "!",
    "applied": "+",
}
HEADING: Mapping[Kind, str] = {"add": "Add", "update": "Change", "delete": "Delete"}
OUTCOME_MARK: Mapping[Outcome, Mark] = {
    "applied": "applied",
    "unchanged": "note",
    "not sent": "note",
    "conflict": "conflict",
    "needs fixing": "blocked",
    "failed": "blocked",
    "unknown": "conflict",
}
STOPPED_TITLE = "Why it stopped"
PLAN_REFUSED = "The guard refuses this plan: nothing will be sent"
LIMITS_KEPT = "Guard: the plan is within every limit."
UNANSWERED_TITLE = (
    "The store did not answer every query: this plan is based only on the answered queries"
)
WHERE_TO_SEE_ALL = (
    "To see all of them: `petsync plan` with `--limit 0`, or with `-o plan.html` or .xlsx; in "
    "Python plan.to_frame()."
)
_WHERE_TO_SEE_UNDO = (
    "To see all of them: `petsync undo RUN` with `--format text --limit 0`, or with `-o plan.html` "
    "or .xlsx; in Python plan.to_frame()."
)
_WHERE_TO_SEE_WAITING = (
    "To see all of them: `petsync apply` on the same file with `--limit 0`; the report of the "
    "round has them, too."
)
UNCOVERED_TITLE = "Not covered by this plan"
_NOT_LISTED = (
    "A pet of this status is in the plan only if a row names it, and pets that are in no row are "
    "not deleted."
)
_NOT_COUNTED = "Pets of this status are not included in the store's count."
_CONFLICTS: Mapping[Winner, str] = {
    "": "nothing is sent until you decide",
    "store": "the store's value stays",
    "sheet": "the sheet's value is sent",
}


def number(value: int) -> str:
    """Format a number: `1,200`."""
    return f"{value:,}"


def format_timestamp(when: str | datetime) -> str:
    """Format a timestamp: `2026-11-20 09:30:12 UTC`. A text that is not ISO 8601 is returned as
    printable text.
    """
    try:
        value = when if isinstance(when, datetime) else datetime.fromisoformat(when)
    except ValueError:
        return make_visible(str(when))
    utc = value.astimezone(UTC) if value.tzinfo else value
    return f"{utc:%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float) -> str:
    """Format a duration: `0.8 s`, `2 min 05 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{number(minutes)} min {rest:02d} s"


def pet_of(change: Change) -> Pet:
    """Return the pet before the change; for an add, the new pet."""
    return change.after if isinstance(change, Add) else change.before


def name_of(pet: Pet) -> str:
    """Return the pet's name as printable text; `(no name)` if it has none."""
    return make_visible(pet.name) if pet.name else "(no name)"


def result_names(plan: Plan) -> Callable[[int], str]:
    """Return a function that returns the name of the pet of a run's result, by the result's number:
    first the changes have numbers, then the open conflicts, then the blocked rows. The name is ""
    for a pet without a name, and for another number.
    """
    changes = plan.changes
    rest: Sequence[Conflict | Blocked] = (*plan.open_conflicts, *plan.blocked)

    def name(number: int) -> str:
        if number < len(changes):
            return pet_of(changes[number]).name or ""
        number -= len(changes)
        return rest[number].name if number < len(rest) else ""

    return name


def sentences(*parts: str) -> str:
    """Return the parts that are not empty, each as a sentence, joined by spaces."""
    filled = (part.strip() for part in parts)
    return " ".join(part if part[-1] in ".!?" else f"{part}." for part in filled if part)


def capital(value: str) -> str:
    """Return the text with a capital first letter; a name such as updatePet stays unchanged."""
    word = value.split(maxsplit=1)[:1]
    return value[:1].upper() + value[1:] if word == [each.lower() for each in word] else value


def source_of(change: Change) -> str:
    """Return the change's address in the sheet. Without an address, return `not in the sheet` if
    the pet is deleted because it is in no row, else "".
    """
    missing = isinstance(change, Delete) and change.why == "missing"
    return change.source or ("not in the sheet" if missing else "")


def conflicts_title(total: int, winner: Winner = "") -> str:
    """Return the heading for `total` conflicts with this winner."""
    return f"{count(total, 'conflict')}: {_CONFLICTS[winner]}"


def describe_clashes(conflict: Conflict) -> str:
    """Describe the conflicting fields of a change's row: `in conflict, and not sent: name`."""
    fields = ", ".join(clash.column for clash in conflict.clashes)
    return f"in conflict, and {'' if conflict.winner == 'sheet' else 'not '}sent: {fields}"


def refusal_advice(refusal: Refusal) -> str:
    """Return what to do about a limit that a plan exceeds."""
    if refusal.override:
        return f"{refusal.cure}."
    if refusal.limit == "capacity":
        return CAPACITY_CURE
    return "No option allows it."


def describe_refusal(refusal: Refusal) -> str:
    """Return why the guard refuses a plan, and what would allow it, if anything does."""
    cure = refusal_advice(refusal)
    if refusal.override:
        cure = cure.replace(refusal.override, f"`{refusal.override}`")
    return f"{sentences(capital(refusal.problem))} {cure}"


def format_changed_fields(summary: Summary) -> str:
    """Return how many updates change each field: `name 3, status 1`."""
    return _join(f"{make_visible(name)} {number(total)}" for name, total in summary.fields.items())


def iter_unanswered(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield each failed query with its problem, and the consequence for the plan."""
    for failed in plan.coverage.failed:
        query = make_visible(failed.query)
        if plan.undoes:
            yield f"status {query}: {make_visible(failed.problem)}", _NOT_COUNTED
            continue
        if query.lstrip("-").isdigit():
            yield (
                f"pet {query}: {make_visible(failed.problem)}",
                "Nothing is sent for a row that names it.",
            )
            continue
        yield (
            f"status {query}: {make_visible(failed.problem)}",
            _NOT_LISTED,
        )


def format_need_fixing(total: int) -> str:
    """Format a number of rows: `1 row needs fixing`, `3 rows need fixing`."""
    return f"{count(total, 'row')} {inflect_outcome('needs fixing', total)}"


def inflect_outcome(outcome: str, total: int) -> str:
    """Return the outcome in the form that follows the number `total`: `needs fixing` and `conflict`
    for 1, `need fixing` and `conflicts` for 3.
    """
    plural = {"needs fixing": "need fixing", "conflict": "conflicts"}
    return plural.get(outcome, outcome) if total != 1 else outcome


def plan_facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the facts of a plan: store, sheet, comparison and time."""
    least = "at least " if plan.coverage.is_narrow else ""
    yield "store", f"{make_visible(plan.store)} ({least}{count(plan.pets, 'pet')})"
    yield origin(plan)
    yield from corrections_fact(plan)
    if plan.undoes:
        yield "compared", "with the result of that run: later changes stay"
    elif plan.base:
        yield "exported", f"{format_timestamp(plan.base)}; only what was edited since then counts"
    else:
        yield "compared", "only with the store: every filled cell counts"
    yield "made", format_timestamp(plan.created)


def origin(plan: Plan) -> tuple[str, str]:
    """Return a fact about the source of the plan: the sheet, or the run to undo."""
    if plan.undoes:
        return "undo of", f"run {make_visible(plan.undoes)} ({count(plan.rows, 'pet')})"
    return "sheet", f"{make_visible(plan.source)} ({count(plan.rows, 'row')})"


def where_to_see_all(plan: Plan) -> str:
    """Return a sentence on how to see the rows that are left out when a plan is shown."""
    if release_of(plan.raw_notes):
        return _WHERE_TO_SEE_WAITING
    if plan.undoes:
        return _WHERE_TO_SEE_UNDO.replace("RUN", plan.undoes)
    return WHERE_TO_SEE_ALL


def scope_facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield facts about the pets that the plan covers, and the changes that a selection left
    out.
    """
    if plan.coverage.ids is not None:
        yield "covers", f"only {count(len(plan.coverage.ids), 'pet')}, read one by one"
    elif plan.coverage.statuses or plan.coverage.failed:
        yield "covers", _describe_coverage(plan)
    if plan.left_out:
        left_out = f"{count(plan.left_out, 'change')} {'was' if plan.left_out == 1 else 'were'}"
        yield "selected", f"a part of a plan: {left_out} left out"


def describe_winner(plan: Plan) -> str:
    """Return a sentence that says whose value is used for a field that both sides changed since the
    export.
    """
    if plan.undoes:
        return "The store: a pet that was changed since the run stays unchanged."
    if not plan.base:
        return "The sheet: it is compared only with the store."
    if plan.options.sheet_wins:
        return "The sheet, if both changed a field to different values (an option of this plan)."
    return (
        "The store, if both changed a field to different values. To send the sheet's: "
        f"{SEND_SHEET}."
    )


def describe_choice(plan: Plan, winner: str) -> str:
    """Return a sentence on how to send the sheet's values of the fields that the store wins; "" for
    another winner.
    """
    if winner != "store" or plan.undoes or not any(each.clashes for each in plan.conflicts):
        return ""
    return f"To send the sheet's: {SEND_SHEET}."


def _describe_coverage(plan: Plan) -> str:
    failed = {lookup.query for lookup in plan.coverage.failed}
    statuses = [make_visible(status) for status in plan.coverage.statuses if status not in failed]
    answered = f"pets that are {_join_with_or(statuses)}" if statuses else "nothing"
    queries = "1 query" if len(failed) == 1 else f"{number(len(failed))} queries"
    return f"{answered}; {queries} without an answer" if failed else answered


def _join_with_or(items: Sequence[str]) -> str:
    """Join the items: `available`, `available, pending or sold`."""
    return " or ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def report_facts(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the facts of a report: store, source and time."""
    yield "store", make_visible(report.plan.store)
    name, value = origin(report.plan)
    yield name, value if report.plan.undoes else make_visible(report.plan.source)
    yield from corrections_fact(report.plan)
    yield "started", f"{format_timestamp(report.started)}, took {duration(report.seconds)}"


def plan_summary(plan: Plan, counts: Mapping[str, int]) -> str:
    """Summarize the plan in one sentence. `counts` are the numbers of changes by kind."""
    if plan.in_sync:
        warned = f" {capital(count_warnings(plan))}." if plan.warnings else ""
        return f"{_describe_in_sync(plan)}{warned}"
    still_open = len(plan.open_conflicts)
    decided_count = len(plan.conflicts) - still_open
    others = ", ".join(
        [
            *([count(still_open, "conflict")] if still_open else []),
            *([f"{count(decided_count, 'conflict')} that the sheet wins"] if decided_count else []),
            *([format_need_fixing(len(plan.blocked))] if plan.blocked else []),
            *([f"{number(plan.left_out)} left out"] if plan.left_out else []),
            *([count_warnings(plan)] if plan.warnings else []),
            *_describe_unchanged(plan),
        ]
    )
    return (
        f"{'Undo' if plan.undoes else 'Plan'}: {number(counts['add'])} to add, "
        f"{number(counts['update'])} to change, {number(counts['delete'])} to delete; {others}."
    )


def report_summary(report: Report) -> str:
    """Return how the run ended, the number of rows with each outcome and, for a stopped run, how to
    resume it.
    """
    counts = format_outcomes(report)
    if report.stopped:
        return f"Stopped early: {counts}. {_resume_hint(report)}"
    return f"{'Done with problems' if report.exit_code else 'Done'}: {counts}."


_MADE: Mapping[Kind, str] = {"add": "added", "update": "changed", "delete": "deleted"}


def describe_applied(counts: Mapping[Kind, int]) -> str:
    """Return how many pets a run changed, by kind: `2 pets were added, 1 was changed.`."""
    parts = [(total, made) for kind, made in _MADE.items() if (total := counts.get(kind, 0))]
    if not parts:
        return "Nothing was changed in the store."
    texts = [f"{number(total)} {'was' if total == 1 else 'were'} {made}" for total, made in parts]
    pets = "pet" if parts[0][0] == 1 else "pets"
    return f"{texts[0].replace(' ', f' {pets} ', 1)}{''.join(f', {text}' for text in texts[1:])}."


def _resume_hint(report: Report) -> str:
    resume = f"`petsync resume {make_visible(report.run_id)}`"
    left = count_left(report)
    if not left:
        return f"{resume} checks that nothing is left."
    return (
        f"{number(left)} {'change is' if left == 1 else 'changes are'} left: {resume} "
        "finishes the run."
    )


def count_left(report: Report) -> int:
    """Return the number of changes that a resume would make or repeat."""
    return sum(
        result.outcome in ("failed", "unknown") or result.cause in ("not-begun", "held-back")
        for result in report.results
        if result.number < len(report.plan.changes)
    )


def undo_hint(report: Report) -> str:
    """Return a sentence with the command and the call that undo the run; "" if there is nothing to
    undo or the run was stopped.
    """
    if report.stopped or not any(result.outcome == "applied" for result in report.results):
        return ""
    run_id = make_visible(report.run_id)
    return f"To undo it: `petsync undo {run_id}`, in Python `store.undo({json.dumps(run_id)})`"


def format_outcomes(report: Report) -> str:
    """Return the number of rows with each outcome, and how many of them were sent in part: `4
    applied, 2 conflicts (of these, 1 row's other edits were applied)`.
    """
    # A display of something else imports no results.
    from petsync.plan.report import OUTCOMES

    counts = report.counts
    parts = Counter(_outcomes_sent_in_part(report))
    return _join(
        f"{number(counts[o])} {inflect_outcome(o, counts[o])}{_note_applied(parts[o])}"
        for o in OUTCOMES
        if counts[o] or o == "applied"
    )


def _outcomes_sent_in_part(report: Report) -> Iterator[Outcome]:
    """Yield the outcome of each row that also has an applied result."""
    from petsync.plan.report import merge_results

    for several in report.repeated.values():
        worst = merge_results(several).outcome
        if worst != "applied" and any(result.outcome == "applied" for result in several):
            yield worst


def _note_applied(rows: int) -> str:
    whose = "1 row's" if rows == 1 else f"{number(rows)} rows'"
    return f" (of these, {whose} other edits were applied)" if rows else ""


def count_warnings(plan: Plan) -> str:
    """Return the number of the plan's warnings: `1 warning`."""
    return count(len(plan.warnings or ()), "warning")


def _describe_in_sync(plan: Plan) -> str:
    if plan.undoes and not plan.rows:
        return "Nothing to undo: the run changed no pet."
    if plan.undoes:
        pets = "its one pet is" if plan.rows == 1 else f"all {number(plan.rows)} pets are"
        return f"Nothing to undo: {pets} the same as before the run."
    if not plan.rows:
        return "Nothing to do: the sheet has no rows."
    if plan.ignored:
        return f"In sync: {', '.join(_describe_unchanged(plan))}."
    if plan.older or plan.deleted_in_store:
        return f"Nothing to send: {', '.join(_describe_unchanged(plan))}."
    rows = "the one row agrees" if plan.rows == 1 else f"all {number(plan.rows)} rows agree"
    far = ", but it did not answer every query" if plan.coverage.failed else ""
    return f"In sync: {rows} with the store{far}."


def _describe_unchanged(plan: Plan) -> list[str]:
    if plan.undoes:
        return [f"{number(plan.unchanged)} already restored"]
    ignored = [f"{number(plan.ignored)} ignored"] if plan.ignored else []
    counts: Counter[str] = Counter()
    for each in iter_stale_rows(plan):
        counts[each.words] += len(each.rows)
    lagging_counts = [f"{number(count)} {what}" for what, count in counts.items()]
    agreeing = plan.unchanged - len(plan.older) - len(plan.deleted_in_store)
    return [f"{number(agreeing)} in agreement", *lagging_counts, *ignored]


def _join(items: Iterable[str]) -> str:
    return ", ".join(items)


# The places of findings in short form: `Pets!C2:C241 (240 cells)`.


_CELL = re.compile(r"(.*!)([A-Z]{1,3})([0-9]+)", re.DOTALL)
_LINE = re.compile(r"(line|row) ([0-9]+)(?:, (.*))?", re.DOTALL)
_MAX_RANGES = 6
"""The maximum number of ranges that are listed."""


class Place(NamedTuple):
    """A cell: the text before its column (`Pets!`, `line` or `row`), its column, and its row.

    For an address of another kind, `before` is the address, and `row` is -1.
    """

    before: str
    column: str
    row: int


class _Range(NamedTuple):
    before: str
    column: str
    first: int
    last: int


def place_of(finding: Finding) -> Place:
    """Parse the address of a finding."""
    cell = _CELL.fullmatch(finding.address)
    if cell:
        return Place(cell[1], cell[2], int(cell[3]))
    line = _LINE.fullmatch(finding.address)
    if line:
        return Place(line[1], line[3] or "", int(line[2]))
    return Place(finding.address, "", -1)


def format_places(places: Iterable[Place]) -> str:
    """Format the places, with consecutive rows as ranges, and with the number of cells unless each
    cell is listed.
    """
    ranges = list(_ranges(places))
    shown = ranges[:_MAX_RANGES]
    rest = _cells(ranges[_MAX_RANGES:])
    text = _join_ranges(shown) + (f" and {number(rest)} more" if rest else "")
    is_plain = all(each.first == each.last for each in shown) and not rest
    return text if is_plain else f"{text} ({number(_cells(ranges))} cells)"


def _cells(ranges: Sequence[_Range]) -> int:
    return sum(each.last - each.first + 1 for each in ranges)


def _ranges(places: Iterable[Place]) -> Iterator[_Range]:
    """Yield the places by column, with consecutive rows as one range."""
    columns: dict[tuple[str, str], list[int]] = {}
    # Places of another kind stay in order.
    ordered = sorted(
        dict.fromkeys(places), key=lambda each: each if each.row >= 0 else Place("", "", -1)
    )
    for before, column, row in ordered:
        columns.setdefault((before, column), []).append(row)
    for (before, column), rows in columns.items():
        # Consecutive rows have the same difference from their position.
        for _, run in itertools.groupby(enumerate(rows), lambda pair: pair[1] - pair[0]):
            span = [row for _, row in run]
            yield _Range(before, column, span[0], span[-1])


def _join_ranges(ranges: Sequence[_Range]) -> str:
    """Join the ranges: `Pets!C2:C9, C12, D4`, or `column 3, lines 2-9, 12; line 4, column 5`."""
    groups: Mapping[tuple[str, str], list[_Range]] = {
        key: list(group) for key, group in itertools.groupby(ranges, lambda each: each[:2])
    }
    before = [""] + [key[0] for key in groups]
    parts = [
        _format_ranges(key, group, is_new=key[0] != last)
        for (key, group), last in zip(groups.items(), before, strict=False)
    ]
    has_words = before[-1].startswith(("line", "row"))
    return ("; " if has_words else ", ").join(parts)


def _format_ranges(key: tuple[str, str], ranges: Sequence[_Range], *, is_new: bool) -> str:
    before, column = key
    if ranges[0].first < 0:
        return make_visible(before)
    if before.endswith("!"):
        cells = ", ".join(_letters(each) for each in ranges)
        return make_visible(before) + cells if is_new else cells
    numbers = ", ".join(_numbers(each) for each in ranges)
    if _cells(ranges) == 1:
        return f"{before} {numbers}, {make_visible(column)}" if column else f"{before} {numbers}"
    return f"{make_visible(column)}, {before}s {numbers}" if column else f"{before}s {numbers}"


def _letters(cells: _Range) -> str:
    start = f"{cells.column}{cells.first}"
    return start if cells.first == cells.last else f"{start}:{cells.column}{cells.last}"


def _numbers(cells: _Range) -> str:
    return str(cells.first) if cells.first == cells.last else f"{cells.first}-{cells.last}"


# Findings grouped by rule, and within a rule by equal texts.


_VALUE = 60


@dataclass(slots=True)
class EqualFindings:
    """Findings with the same value, problem and suggestion.

    A text that is shown elsewhere is "": the value if the problem quotes it, and a problem or
    suggestion that the whole group shares.
    """

    value: str
    problem: str
    suggestion: str
    places: list[Place] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The places: `Pets!C2:C241 (240 cells)`."""
        return format_places(self.places)

    @property
    def shown(self) -> str:
        """The value as printable text in quotes; "" if there is none to show."""
        return f'"{shorten(make_visible(self.value), _VALUE)}"' if self.value else ""


@dataclass(slots=True)
class FindingGroup:
    """The findings of one rule. `problem` and `suggestion` are set only if all findings share the
    text.
    """

    severity: str
    rule: str
    total: int = 0
    problem: str = ""
    suggestion: str = ""
    same: list[EqualFindings] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The title: `14 errors: unknown-status`."""
        return f"{count(self.total, self.severity)}: {make_visible(self.rule)}"

    def more(self, shown: int) -> str:
        """Return a text about the cells after those of the first `shown` items; "" for none."""
        rest = self.same[shown:]
        cells = sum(len(each.places) for each in rest)
        return f"... and {number(cells)} more" if rest else ""


def iter_findings(findings: Findings) -> Iterable[Finding]:
    """Yield the rows of the frame as findings."""
    columns = (findings[name].tolist() for name in FINDING_FIELDS)
    for values in zip(*columns, strict=True):
        yield Finding(**dict(zip(FINDING_FIELDS, values, strict=True)))


def group_findings(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Group the findings by rule, the most frequent rule first; among equally frequent rules,
    errors come before warnings.
    """
    groups: dict[tuple[str, str], dict[tuple[str, str, str], EqualFindings]] = {}
    for finding in findings:
        texts = (finding.value, finding.problem, finding.suggestion)
        group = groups.setdefault((finding.severity, finding.rule), {})
        group.setdefault(texts, EqualFindings(*texts)).places.append(place_of(finding))
    done = [_group(*key, list(group.values())) for key, group in groups.items()]
    return sorted(done, key=lambda each: (-each.total, each.severity, each.rule))


def totals(findings: Sequence[Finding]) -> str:
    """Return the numbers of errors, warnings and affected rows, in words."""
    errors = sum(each.severity == "error" for each in findings)
    rows = len({each.row for each in findings})
    return (
        f"{count(errors, 'error')} and {count(len(findings) - errors, 'warning')} in "
        f"{count(rows, 'row')}."
    )


def _group(severity: str, rule: str, same: list[EqualFindings]) -> FindingGroup:
    """Return the group. A text that all findings share is moved from the findings to the group."""
    problem, *other_problems = {each.problem for each in same}
    suggestion, *other_suggestions = {each.suggestion for each in same}
    group = FindingGroup(severity, rule, sum(len(each.places) for each in same))
    for each in same:
        each.value = "" if each.value in each.problem else each.value
        each.problem = each.problem if other_problems else ""
        each.suggestion = each.suggestion if other_suggestions else ""
    group.problem = "" if other_problems else problem
    group.suggestion = "" if other_suggestions else suggestion
    group.same = sorted(same, key=lambda each: -len(each.places))
    return group
