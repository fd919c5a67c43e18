"""What is said of rounds, whatever the format: how they ended, what they left, and what to type."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from petsync.diff.report import OUTCOMES
from petsync.diff.round import Counts, Mode, Open, Round, Status
from petsync.diff.round_report import RoundReport
from petsync.render.markup import capital
from petsync.render.visible import visible
from petsync.render.words import (
    Mark,
    count,
    duration,
    moment,
    number,
    sentences,
)

__all__ = [
    "ENDS",
    "LEFT",
    "LEVELS",
    "MARKS",
    "MODES",
    "TYPED",
    "Command",
    "End",
    "Kind",
    "Level",
    "brief",
    "brief_of",
    "by_kind",
    "commands",
    "counted",
    "facts",
    "fields_of",
    "headline",
    "is_of_query",
    "kept_title",
    "left_open",
    "open_title",
    "planned",
    "reason",
    "sheet_said",
    "sides_said",
    "store_said",
    "way_out",
    "written",
]

Level = Literal["well", "look", "bad"]
LEVELS: Mapping[Level, Mark] = {"well": "applied", "look": "warning", "bad": "blocked"}
"""How much a person has to do with it, and the mark that says so."""
Kind = Literal["conflict", "waiting", "failed", "finding", "drift", "note"]


class End(NamedTuple):
    """A status in words: its name, how much it matters, and its sign where there is no colour."""

    title: str
    level: Level
    sign: str


ENDS: Mapping[Status, End] = {
    "in-sync": End("In sync", "well", "="),
    "done": End("Done", "well", "="),
    "drift": End("Differences", "look", "~"),
    "findings": End("Errors in the sheet", "look", "!"),
    "conflicts": End("Conflicts", "look", "!"),
    "waiting": End("Waiting for a person", "look", "?"),
    "locked": End("Not its turn", "look", "-"),
    "failed-rows": End("Changes failed", "bad", "x"),
    "interrupted": End("Interrupted", "bad", "x"),
    "refused": End("Refused", "bad", "x"),
    "error": End("Failed", "bad", "x"),
}
MODES: Mapping[Mode, str] = {
    "push": "push: the sheet leads",
    "pull": "pull: the store leads",
    "two-way": "two-way: both sides merge",
    "check": "check: nothing is changed",
}
TYPED = "To be typed in the folder of petsync.toml:"
LEFT: Mapping[Kind, tuple[str, str]] = {
    "conflict": ("conflict", "conflicts"),
    "waiting": ("difference that waits", "differences that wait"),
    "failed": ("change that did not arrive", "changes that did not arrive"),
    "finding": ("error in the sheet", "errors in the sheet"),
    "drift": ("difference", "differences"),
    "note": ("note", "notes"),
}
"""What a round leaves, what needs a person first."""
MARKS: Mapping[Kind, Mark] = {
    "conflict": "conflict",
    "waiting": "warning",
    "failed": "blocked",
    "finding": "blocked",
    "drift": "update",
    "note": "note",
}
"""The mark of each kind of difference."""
_KEPT: Mapping[Kind, str] = {
    "conflict": "a person has to decide; until then both sides stay as they are",
    "waiting": "part of a plan over its guard's limits",
    "failed": "sent, or meant to be sent",
    "finding": "these rows are kept out, the others are not",
    "drift": "between sheet and store",
    "note": "what is left as it is, mostly as the job's settings say",
}
_WAYS: Mapping[Kind, str] = {
    "conflict": "Do what the line says. Where both sides changed a field, write the same on both, "
    "or set on_conflict for the job; it decides fields, not whole rows.",
    "waiting": "Look at the plan, and release it or mend the sheet: a plan whose reason is gone "
    "goes away by itself.",
    "failed": "The next round tries again.",
    "finding": "Mend the cell; `petsync check` names each with a suggestion.",
    "drift": "The next round takes it up.",
    "note": "Nothing is to be done, unless it should be otherwise.",
}
_COUNTED: Mapping[Status, Kind] = {
    "drift": "drift",
    "findings": "finding",
    "conflicts": "conflict",
    "failed-rows": "failed",
}
"""How a round ends by the number of what it left."""
_AGAIN: Sequence[Status] = ("error", "failed-rows", "interrupted", "locked")
"""What another try may mend."""
_SETTLED = "The job is of the mode check: nothing changes them but another job, or a person."
_REHEARSED = "A round without --dry-run does it."
_HELD = "A round without --dry-run keeps the plan as a file, and waits until a person releases it."
_REFUSED = "Nothing of it is done, in this round or the next, until what refuses it is mended."
_QUERIED = "Mend it where the query finds it."


class Command(NamedTuple):
    """What can be typed, and what for."""

    purpose: str
    line: str


def headline(round_: Round) -> str:
    """How the round ended, in one sentence or two."""
    rest = "This was a dry run: nothing was changed." if round_.dry_run else ""
    own = _COUNTED.get(round_.status)
    others = brief_of([[(kind, n) for kind, n in left_open(round_) if kind != own]])
    besides = f"Besides: {others}" if others else ""
    return sentences(f"{ENDS[round_.status].title}: {_ended(round_)}", besides, rest)


def _ended(round_: Round) -> str:
    if round_.status == "done":
        arrived = (
            f"{count(round_.applied, 'change')} made" if round_.applied else "nothing to change"
        )
        return f"{arrived}, and sheet and store agree{_but(round_.notes)}"
    differences = count(round_.left, "difference")
    if round_.status == "drift" and round_.mode != "check" and not round_.dry_run:
        return f"{differences} came up while the round was at work"
    if round_.dry_run and round_.status == "waiting":
        return "the plan is over its limits, so a round would wait until somebody releases it"
    said = {
        "in-sync": f"sheet and store agree{_but(round_.notes)}",
        "drift": f"{differences} between sheet and store",
        "findings": f"{count(round_.findings, 'row')} of the sheet cannot be used as "
        f"{'it stands' if round_.findings == 1 else 'they stand'}",
        "conflicts": f"{count(round_.conflicts, 'conflict')}, which a person has to decide",
        "failed-rows": f"{count(round_.failed, 'change')} did not arrive",
        "waiting": "the plan is over its limits, and nothing is done until somebody releases it",
        "refused": "nothing is done, and nobody can release it",
        "locked": "another round of this job was at work, so that this one did nothing",
        "interrupted": "it was cut off, and the next round finishes what it began",
        "error": "the round could not be done",
    }
    return said[round_.status]


def _but(notes: int) -> str:
    return f", but for {_named('note', notes)}" if notes else ""


def reason(round_: Round) -> str:
    """Why it ended so, and the way out; "" where the headline and what is open say it."""
    if round_.status in _COUNTED:
        return ""
    problem, hint = visible(round_.problem, keep="\n"), visible(round_.hint, keep="\n")
    return sentences(capital(problem), capital(hint))


def facts(told: RoundReport) -> Iterator[tuple[str, str]]:
    """What was reconciled, how, and when; visible."""
    round_ = told.round
    mode = MODES[round_.mode]
    yield "mode", f"{mode} (dry run)" if round_.dry_run else mode
    if round_.store:
        yield "store", f"{visible(round_.store)}{_size(round_.pets, 'pet')}"
    if round_.source:
        yield "sheet", f"{visible(round_.source)}{_size(round_.rows, 'row')}"
    yield "begun", f"{moment(round_.started)}, took {duration(round_.seconds)}"
    if round_.resumed:
        yield "resumed", f"{count(round_.resumed, 'run')} that an earlier round had left"
    if round_.backup:
        yield "backup", f"{visible(round_.backup)}, the sheet as it was"
    yield "round", visible(round_.id)


def _size(total: int, noun: str) -> str:
    """` (1,240 pets)`; nothing where a round did not come as far as to know."""
    return f" ({count(total, noun)})" if total else ""


def counted(counts: Counts) -> str:
    """`+3 ~12 -1`, "0" for nothing: adds, updates, deletes."""
    parts = (("+", counts.add), ("~", counts.update), ("-", counts.delete))
    return " ".join(f"{sign}{number(n)}" for sign, n in parts if n) or "0"


def planned(round_: Round, counts: Counts) -> str:
    """The same of one side of a round, in brackets where nothing of it was made. A check is never
    to change anything.
    """
    told = counted(Counts() if round_.mode == "check" else counts)
    return told if told == "0" or round_.applied else f"({told})"


def sides_said(round_: Round) -> Iterator[tuple[str, str]]:
    """What was planned for either side, and how much arrived."""
    yield "for the store", _planned(round_.to_store)
    yield "for the sheet", _planned(round_.to_sheet)
    if total := round_.to_store.total + round_.to_sheet.total:
        yield "arrived", f"{number(round_.applied)} of {number(total)}"


def _planned(counts: Counts) -> str:
    if not counts.total:
        return "nothing"
    parts = (("to add", counts.add), ("to change", counts.update), ("to delete", counts.delete))
    return ", ".join(f"{number(total)} {what}" for what, total in parts if total)


def left_open(round_: Round) -> Iterator[tuple[Kind, int]]:
    """How many of each kind the round left for a person or the next round."""
    yield "conflict", round_.conflicts
    yield "finding", round_.findings
    yield "failed", round_.failed
    yield "drift", round_.left


def brief(round_: Round) -> str:
    """`2 conflicts, 1 error in the sheet`; "" where nothing is open."""
    return brief_of([left_open(round_)])


def brief_of(lefts: Iterable[Iterable[tuple[Kind, int]]]) -> str:
    """The same of several rounds, added up."""
    totals = Counter[Kind]()
    for left in lefts:
        totals.update(dict(left))
    return ", ".join(_named(kind, total) for kind, total in totals.items() if total)


def _named(kind: Kind, total: int) -> str:
    return f"{number(total)} {LEFT[kind][total != 1]}"


def open_title(kind: Kind, total: int) -> str:
    """`2 conflicts`."""
    return _named(kind, total)


def kept_title(kind: Kind) -> str:
    """Why such a difference stands, to go on from its title."""
    return _KEPT[kind]


def fields_of(each: Open) -> str:
    """The fields that it is about, "" where what is said of it begins with them anyhow."""
    if each.fields and each.problem.startswith(f"{each.fields[0]}:"):
        return ""
    return ", ".join(each.fields)


def by_kind(opens: Sequence[Open]) -> dict[Kind, list[Open]]:
    """The differences by their kinds, what needs a person first; only kinds that there are."""
    groups: dict[Kind, list[Open]] = {kind: [] for kind in LEFT}
    for each in opens:
        groups[each.kind].append(each)
    return {kind: found for kind, found in groups.items() if found}


def way_out(kind: Kind, round_: Round) -> str:
    """What can be done about a kind of difference that this round left."""
    own: tuple[tuple[Kind, bool, str], ...] = (
        ("drift", round_.mode == "check", _SETTLED),
        ("drift", round_.status == "refused", _REFUSED),
        ("drift", round_.dry_run, _REHEARSED),
        ("waiting", round_.dry_run, _HELD),
        ("finding", is_of_query(round_), _QUERIED),
    )
    return next((said for of, holds, said in own if of == kind and holds), _WAYS[kind])


def is_of_query(round_: Round) -> bool:
    """Whether its rows are no file's."""
    return round_.source == "query" or round_.source.startswith("query of ")


def store_said(told: RoundReport) -> str:
    """What became of the plan for the store as a whole."""
    plan, report = told.plan, told.report
    if plan is None or not plan.changes:
        return "The store was to take nothing."
    if report is not None:
        # Rows of which nothing was to be sent are told by themselves.
        became = Counter(each.outcome for each in report.results if each.kind != "none")
        told_ = (f"{number(became[o])} {o}" for o in OUTCOMES if became[o] or o == "applied")
        return sentences(f"Sent by run {visible(report.run_id)}: {', '.join(told_)}")
    return "Nothing of it was sent" + (": the plan waits." if told.round.waiting else ".")


def sheet_said(told: RoundReport) -> str:
    """What became of the sheet's changes as a whole."""
    if told.round.backup:
        backup = visible(told.round.backup)
        return f"Written: {written(told)}; as it was before, the sheet is {backup}."
    if told.round.dry_run or told.round.mode == "check":
        return "Nothing was written."
    return "The sheet that was there is in no backup: it was not written, or it is new."


def written(told: RoundReport) -> str:
    """What the sheet took: `3 rows change (4 cells that said something else), 1 row is new`."""
    kinds = Counter(change.kind for change in told.sheet)
    over = sum(
        bool(old) for each in told.sheet if each.kind == "update" for old, _ in each.values.values()
    )
    results = () if told.report is None else told.report.results
    ids = sum(each.assigned_id is not None and each.row is not None for each in results)
    cells = f" ({count(over, 'cell')} that said something else)" if over else ""
    parts = (
        (kinds["update"], f"changed{cells}"),
        (kinds["add"], "new"),
        (kinds["delete"], "taken out"),
        (ids, "with the id of a new pet"),
    )
    said = [f"{count(total, 'row')} {what}" for total, what in parts if total]
    return ", ".join(said) or "ids of pets that rows lacked"


def commands(round_: Round) -> Iterator[Command]:
    """What a person can type now: for the plan that waits, the sheet, the runs, the job."""
    if round_.waiting:
        yield Command(
            "look at the plan, and release it", f"petsync apply {_quoted(round_.waiting)}"
        )
    if round_.findings and round_.source and not is_of_query(round_):
        yield Command("every error in the sheet", f"petsync check {_quoted(round_.source)}")
    for run in round_.runs:
        yield Command("what a run did", f"petsync runs {_quoted(run)}")
        yield Command("take it back", f"petsync undo {_quoted(run)}")
    if round_.status in _AGAIN:
        again = f"petsync reconcile --job {_quoted(round_.job)}"
        yield Command("the job once more", f"{again} --dry-run" if round_.dry_run else again)


def _quoted(text: str) -> str:
    return shlex.quote(visible(text))
