"""How things are said: numbers, moments, and the sentence that sums a plan or a report up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from petsync.diff.change import Add, Change, Conflict, Delete
from petsync.diff.guard import CAPACITY_CURE, Refusal
from petsync.diff.plan import Plan
from petsync.diff.released import release_of
from petsync.diff.report import OUTCOMES, Outcome, Report
from petsync.diff.summary import Summary, lagging
from petsync.model import Pet
from petsync.render.corrected import corrections_fact
from petsync.render.visible import visible

__all__ = [
    "HEADING",
    "KEPT",
    "KINDS",
    "OUTCOME_MARK",
    "REFUSED",
    "STOPPED",
    "SYMBOL",
    "TO_LOOK_AT",
    "UNANSWERED",
    "WHERE_TO_SEE_ALL",
    "WINNERS",
    "Kind",
    "Mark",
    "Winner",
    "blocked_title",
    "conflicts_title",
    "count",
    "duration",
    "fields_changed",
    "held_back",
    "left_to_do",
    "moment",
    "name_of",
    "named_in",
    "number",
    "origin",
    "outcomes",
    "pet_of",
    "plan_facts",
    "plan_summary",
    "report_facts",
    "report_summary",
    "scope_facts",
    "sentences",
    "source_of",
    "unanswered",
    "way_back",
    "way_out",
    "where_to_see_all",
    "who_wins",
]

Mark = Literal["add", "update", "delete", "conflict", "blocked", "note", "warning", "applied"]

Winner = Literal["", "store", "sheet"]
WINNERS: tuple[Winner, ...] = ("", "store", "sheet")
"""The sorts of conflicts, what needs a person first: nobody has won, the store, the sheet."""
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
    "skipped": "note",
    "conflict": "conflict",
    "failed": "blocked",
    "unknown": "conflict",
}
TO_LOOK_AT: tuple[Outcome, ...] = ("failed", "unknown", "conflict", "skipped")
"""The outcomes of which a person wants to see the rows, the worst first."""
STOPPED = "Why it stopped"
REFUSED = "The guard refuses this plan: nothing will be sent"
KEPT = "Guard: the plan keeps every limit."
UNANSWERED = "The store did not answer all that was asked: this plan is of what it answered"
WHERE_TO_SEE_ALL = (
    "All of them: `petsync plan` with `--limit 0`, or with `-o plan.html` or .xlsx; in Python "
    "plan.to_frame()."
)
_ALL_THAT_WAITED = (
    "All of them: `petsync apply` of the same file with `--limit 0`; the report of the round has "
    "them, too."
)
_UNSEEN = (
    "A pet of this status is in the plan only if a row names it, and none is deleted for being "
    "in no row."
)
_UNCOUNTED = "Pets of this status are not counted among the store's."
_CONFLICTS: Mapping[Winner, str] = {
    "": "nothing is sent until a person decides",
    "store": "the store's value stays",
    "sheet": "the sheet's value is sent",
}


def number(value: int) -> str:
    """`1,200`."""
    return f"{value:,}"


def count(value: int, noun: str) -> str:
    """`1 pet`, `1,200 pets`."""
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"


def moment(when: str | datetime) -> str:
    """`2026-11-20 09:30:12 UTC`; a text that is no ISO 8601 as it is."""
    try:
        given = when if isinstance(when, datetime) else datetime.fromisoformat(when)
    except ValueError:
        return visible(str(when))
    utc = given.astimezone(UTC) if given.tzinfo else given
    return f"{utc:%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float) -> str:
    """`0.8 s`, `2 min 05 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{number(minutes)} min {rest:02d} s"


def pet_of(change: Change) -> Pet:
    """The pet as people know it: as it is now, or, if it is not there yet, as it will be."""
    return change.after if isinstance(change, Add) else change.before


def name_of(pet: Pet) -> str:
    """The pet's name, visible."""
    return visible(pet.name) if pet.name else "(no name)"


def named_in(plan: Plan) -> tuple[str, ...]:
    """The names of the pets that a run's results are about, by the results' numbers: of the
    changes, the conflicts that are open, and the blocked rows; "" where there is none.
    """
    return (
        *(pet_of(change).name or "" for change in plan.changes),
        *(conflict.name for conflict in plan.open_conflicts),
        *(row.name for row in plan.blocked),
    )


def sentences(*parts: str) -> str:
    """The parts that say anything, each with a full stop, behind each other."""
    said = (part.strip() for part in parts)
    return " ".join(part if part[-1] in ".!?" else f"{part}." for part in said if part)


def source_of(change: Change) -> str:
    """The change's address in the sheet, or that it has none."""
    missing = isinstance(change, Delete) and change.why == "missing"
    return change.source or ("not in the sheet" if missing else "")


def conflicts_title(total: int, winner: Winner = "") -> str:
    """The heading of `total` conflicts that have this winner."""
    return f"{count(total, 'conflict')}: {_CONFLICTS[winner]}"


def held_back(conflict: Conflict) -> str:
    """What a change says of the fields of its row in which sheet and store clash."""
    fields = ", ".join(clash.column for clash in conflict.clashes)
    return f"in conflict, and {'' if conflict.winner == 'sheet' else 'not '}sent: {fields}"


def way_out(refusal: Refusal) -> str:
    """What a person can do about a limit that a plan breaks."""
    if refusal.override:
        return f"{refusal.override} would let it pass."
    if refusal.limit == "capacity":
        return CAPACITY_CURE
    return "No option lets it pass."


def fields_changed(summary: Summary) -> str:
    """Of how many updates each field is a part: `name 3, status 1`."""
    return _list(f"{visible(name)} {number(total)}" for name, total in summary.fields.items())


def unanswered(plan: Plan) -> Iterator[tuple[str, str]]:
    """What the store was asked in vain, with what went wrong, and what follows from that."""
    for failed in plan.coverage.failed:
        asked = visible(failed.asked)
        if plan.undoes:
            yield f"status {asked}: {visible(failed.problem)}", _UNCOUNTED
            continue
        if asked.lstrip("-").isdigit():
            yield (
                f"pet {asked}: {visible(failed.problem)}",
                "Nothing is sent for a row that names it.",
            )
            continue
        yield (
            f"status {asked}: {visible(failed.problem)}",
            _UNSEEN,
        )


def blocked_title(total: int) -> str:
    """The heading of `total` blocked rows."""
    return f"{count(total, 'row')} blocked by errors in the sheet"


def plan_facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """What was compared, and when."""
    yield "store", f"{visible(plan.store)} ({count(plan.pets, 'pet')})"
    yield origin(plan)
    yield from corrections_fact(plan)
    if plan.undoes:
        yield "compared", "with what that run left: what was changed since stays"
    elif plan.base:
        yield "exported", f"{moment(plan.base)}; only what was edited since then counts"
    else:
        yield "compared", "with the store alone: every filled cell counts"
    yield "made", moment(plan.created)


def origin(plan: Plan) -> tuple[str, str]:
    """What the plan was made from, with the name of that: a sheet and its rows, or a run."""
    if plan.undoes:
        return "undo of", f"run {visible(plan.undoes)} ({count(plan.rows, 'pet')})"
    return "sheet", f"{visible(plan.source)} ({count(plan.rows, 'row')})"


def where_to_see_all(plan: Plan) -> str:
    """How to see what was left out where a plan was shown."""
    if release_of(plan.notes):
        return _ALL_THAT_WAITED
    return WHERE_TO_SEE_ALL.replace(
        "petsync plan", "petsync undo" if plan.undoes else "petsync plan"
    )


def scope_facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Of which pets the plan knows, and whether it is a part of one."""
    if plan.coverage.statuses or plan.coverage.failed:
        yield "covers", _covered(plan)
    if plan.left_out:
        left_out = f"{count(plan.left_out, 'change')} {'was' if plan.left_out == 1 else 'were'}"
        yield "selected", f"a part of a plan: {left_out} left out"


def who_wins(plan: Plan) -> str:
    """Whose value a field takes that sheet and store both changed since the export."""
    if plan.undoes:
        return "The store: a pet that was changed since the run is kept as it is."
    if not plan.base:
        return "The sheet: it is compared with the store alone."
    if plan.options.on_conflict == "sheet":
        return "Where both changed a field apart, the sheet (--on-conflict sheet)."
    return "Where both changed a field apart, the store; --on-conflict sheet sends the sheet's."


def _covered(plan: Plan) -> str:
    failed = {question.asked for question in plan.coverage.failed}
    asked = [visible(status) for status in plan.coverage.statuses if status not in failed]
    said = f"pets that are {_either(asked)}" if asked else "nothing"
    return f"{said}; {count(len(failed), 'question')} without an answer" if failed else said


def _either(items: Sequence[str]) -> str:
    """`available`, `available, pending or sold`."""
    return " or ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def report_facts(report: Report) -> Iterator[tuple[str, str]]:
    """What was brought into agreement, and when."""
    yield "store", visible(report.plan.store)
    name, said = origin(report.plan)
    yield name, said if report.plan.undoes else visible(report.plan.source)
    yield from corrections_fact(report.plan)
    yield "begun", f"{moment(report.started)}, took {duration(report.seconds)}"


def plan_summary(plan: Plan, counts: Mapping[str, int]) -> str:
    """One sentence; `counts` says how many changes of each kind there are."""
    if plan.in_sync:
        return _in_sync(plan)
    still_open = len(plan.open_conflicts)
    decided = len(plan.conflicts) - still_open
    rest = ", ".join(
        [
            *([count(still_open, "conflict")] if still_open else []),
            *([f"{count(decided, 'conflict')} that the sheet wins"] if decided else []),
            *([f"{count(len(plan.blocked), 'row')} blocked"] if plan.blocked else []),
            *([f"{number(plan.left_out)} left out"] if plan.left_out else []),
            *_settled(plan),
        ]
    )
    return (
        f"{'Undo' if plan.undoes else 'Plan'}: {number(counts['add'])} to add, "
        f"{number(counts['update'])} to change, {number(counts['delete'])} to delete; {rest}."
    )


def report_summary(report: Report) -> str:
    """One sentence: how the run ended, and how many rows had each outcome."""
    said = outcomes(report)
    if report.stopped:
        return f"Stopped early: {said}. {_rest(report)}"
    return f"{'Done with problems' if report.exit_code else 'Done'}: {said}."


def _rest(report: Report) -> str:
    resume = f"`petsync resume {visible(report.run_id)}`"
    left = left_to_do(report)
    if not left:
        return f"{resume} checks that nothing is left."
    return f"{number(left)} {'change is' if left == 1 else 'changes are'} left: {resume} does them."


def left_to_do(report: Report) -> int:
    """How many changes a resume would do, or do again."""
    return sum(
        result.outcome in ("failed", "unknown") or result.cause in ("not-begun", "held-back")
        for result in report.results
        if result.number < len(report.plan.changes)
    )


def way_back(report: Report) -> str:
    """How to take a run back that did all it could, "" where there is nothing to take back."""
    if report.stopped or not any(result.outcome == "applied" for result in report.results):
        return ""
    return f"To take it back: `petsync undo {visible(report.run_id)}`"


def outcomes(report: Report) -> str:
    """How many rows had each outcome, and how many of those that need a person were sent in part:
    `4 applied, 2 conflict (of these, 1 row's other edits were applied)`.
    """
    counts = report.counts
    parts = Counter(_in_part(report))
    return _list(
        f"{number(counts[o])} {o}{_besides(parts[o])}"
        for o in OUTCOMES
        if counts[o] or o == "applied"
    )


def _in_part(report: Report) -> Iterator[Outcome]:
    """The outcome of each row that has another one besides `applied`."""
    sent = {result.row for result in report.results if result.outcome == "applied"}
    for row, result in report.by_row().items():
        if row in sent and result.outcome != "applied":
            yield result.outcome


def _besides(rows: int) -> str:
    whose = "1 row's" if rows == 1 else f"{number(rows)} rows'"
    return f" (of these, {whose} other edits were applied)" if rows else ""


def _in_sync(plan: Plan) -> str:
    if plan.undoes and not plan.rows:
        return "Nothing to undo: the run changed no pet."
    if plan.undoes:
        pets = "its one pet is" if plan.rows == 1 else f"all {number(plan.rows)} pets are"
        return f"Nothing to undo: {pets} as before the run."
    if not plan.rows:
        return "Nothing to do: the sheet has no rows."
    if plan.ignored:
        return f"In sync: {', '.join(_settled(plan))}."
    if plan.older or plan.gone:
        return f"Nothing to send: {', '.join(_settled(plan))}."
    rows = "the one row agrees" if plan.rows == 1 else f"all {number(plan.rows)} rows agree"
    far = ", as far as it answered" if plan.coverage.failed else ""
    return f"In sync: {rows} with the store{far}."


def _settled(plan: Plan) -> list[str]:
    if plan.undoes:
        return [f"{number(plan.unchanged)} as before already"]
    ignored = [f"{number(plan.ignored)} ignored"] if plan.ignored else []
    counts: Counter[str] = Counter()
    for each in lagging(plan):
        counts[each.words] += len(each.rows)
    told = [f"{number(count)} {what}" for what, count in counts.items()]
    agreeing = plan.unchanged - len(plan.older) - len(plan.gone)
    return [f"{number(agreeing)} in agreement", *told, *ignored]


def _list(items: Iterable[str]) -> str:
    return ", ".join(items)
