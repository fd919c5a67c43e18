"""Texts about rounds, for every output format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from petsync._display import complete_commands, quote, with_options
from petsync.plan.options import JOB_WINNER
from petsync.plan.report import OUTCOMES, RoundReport
from petsync.plan.rounds import Counts, Difference, Mode, Round, Status
from petsync.report.document import Badge
from petsync.report.words import (
    Mark,
    capital,
    count,
    duration,
    format_timestamp,
    group_by_text,
    number,
    sentences,
    shorten,
)
from petsync.table.cells import make_visible

__all__ = [
    "KIND_NAMES",
    "LEVELS",
    "MARKS",
    "MODE_WORDS",
    "OPEN_FIELDS",
    "RETRY_STATUSES",
    "STATUS_WORDS",
    "Command",
    "DifferenceGroups",
    "Kind",
    "Level",
    "StatusWords",
    "advice_for_kind",
    "by_kind",
    "commands",
    "commands_title",
    "describe_sheet_result",
    "describe_store_result",
    "describe_written",
    "facts",
    "fields_of",
    "format_counts",
    "format_open",
    "format_open_total",
    "format_planned",
    "group_alike",
    "group_sentence",
    "headline",
    "is_from_query",
    "kind_meaning",
    "open_counts",
    "open_title",
    "reason",
    "side_facts",
    "status_badge",
    "store_facts",
    "subject_of",
]


# The status, the open differences and the commands of a round.


Level = Literal["well", "look", "bad"]
LEVELS: Mapping[Level, Mark] = {"well": "applied", "look": "warning", "bad": "blocked"}
"""The mark of each level. `well` needs no action; `bad` needs attention more urgently than
`look`.
"""
Kind = Literal["conflict", "waiting", "failed", "finding", "drift", "note"]


class StatusWords(NamedTuple):
    """The texts of a status: its title, its level, and a sign that can be understood without
    colours.
    """

    title: str
    level: Level
    sign: str


STATUS_WORDS: Mapping[Status, StatusWords] = {
    "in-sync": StatusWords("In sync", "well", "="),
    "done": StatusWords("Done", "well", "="),
    "drift": StatusWords("Differences", "look", "~"),
    "findings": StatusWords("Errors in the sheet", "look", "!"),
    "conflicts": StatusWords("Conflicts", "look", "!"),
    "waiting": StatusWords("Waiting for approval", "look", "?"),
    "locked": StatusWords("Skipped", "look", "-"),
    "failed-rows": StatusWords("Changes failed", "bad", "x"),
    "interrupted": StatusWords("Interrupted", "bad", "x"),
    "refused": StatusWords("Refused", "bad", "x"),
    "error": StatusWords("Failed", "bad", "x"),
}
MODE_WORDS: Mapping[Mode, str] = {
    "push": "push: the sheet's values are used",
    "pull": "pull: the store's values are used",
    "two-way": "two-way: the changes of both sides are merged",
    "check": "check: nothing is changed",
}
_IN_FOLDER = "Commands, to be run in the folder of petsync.toml:"
KIND_NAMES: Mapping[Kind, tuple[str, str]] = {
    "conflict": ("conflict", "conflicts"),
    "waiting": ("difference waiting for release", "differences waiting for release"),
    "failed": ("change that was not applied", "changes that were not applied"),
    "finding": ("error in the sheet", "errors in the sheet"),
    "drift": ("difference", "differences"),
    "note": ("note", "notes"),
}
"""The names, singular and plural, of the kinds of difference that a round leaves. Kinds that need
attention come first.
"""
MARKS: Mapping[Kind, Mark] = {
    "conflict": "conflict",
    "waiting": "warning",
    "failed": "blocked",
    "finding": "blocked",
    "drift": "update",
    "note": "note",
}
"""The mark of each kind of difference."""
_KIND_MEANING: Mapping[Kind, str] = {
    "conflict": "each needs a decision, and stays open until then",
    "waiting": "part of a plan over its guard's limits",
    "failed": "changes that failed or are not sent yet",
    "drift": "between sheet and store",
    "note": "for information",
}
_KIND_CURE: Mapping[Kind, str] = {
    "conflict": "Do what the line says. If both sides changed a field, write the same value on "
    f"both sides, or set {JOB_WINNER} for the job; that option applies to fields, not to whole "
    "rows.",
    "waiting": "Review the plan, and release it or fix the sheet: the next round removes a plan "
    "that is no longer needed.",
    "failed": "The next round tries again.",
    "finding": "Fix the cell that each line names.",
    "drift": "The next round handles this.",
    "note": "Nothing needs to be done, unless the line says so.",
}
_KIND_OF_STATUS: Mapping[Status, Kind] = {
    "drift": "drift",
    "findings": "finding",
    "conflicts": "conflict",
    "failed-rows": "failed",
}
"""The kind of difference that causes a status."""
_STOPPED: Sequence[Status] = ("error", "interrupted")
"""Statuses of rounds that may have ended before all planned changes were made."""
RETRY_STATUSES: Sequence[Status] = ("error", "failed-rows", "interrupted", "locked")
"""Statuses that another try may fix."""
_CHECK_CURE = "The job has the mode check: only another job, or a user, can resolve differences."
_DRY_RUN_CURE = "A round without --dry-run makes the changes."
_WAITING_DRY_RUN_CURE = (
    "A round without --dry-run saves the plan as a file, which a user can then release."
)
_REFUSED_CURE = (
    "Nothing is done, in this round or the next, until the reason for the refusal is fixed."
)
_QUERY_CURE = "Fix the data in the database that the query reads."


def status_badge(round_: Round) -> Badge:
    end = STATUS_WORDS[round_.status]
    return Badge(end.sign, end.title, LEVELS[end.level])


class Command(NamedTuple):
    """A command to enter, and its purpose."""

    purpose: str
    line: str


def headline(round_: Round) -> str:
    """Describe how the round ended, in one to three sentences."""
    dry_run_note = "This was a dry run: nothing was changed." if round_.dry_run else ""
    own_kind = _KIND_OF_STATUS.get(round_.status)
    others = format_open_total([[(kind, n) for kind, n in open_counts(round_) if kind != own_kind]])
    others_text = f"Also open: {others}" if others else ""
    return sentences(
        f"{STATUS_WORDS[round_.status].title}: {_describe_end(round_)}", others_text, dry_run_note
    )


def _describe_end(round_: Round) -> str:
    if round_.status == "done":
        changes = (
            f"{count(round_.applied, 'change')} made" if round_.applied else "nothing to change"
        )
        return f"{changes}, and sheet and store agree{_except_notes(round_.notes)}"
    differences = count(round_.unexplained, "difference")
    if round_.status == "drift" and round_.mode != "check" and not round_.dry_run:
        return f"{differences} appeared while the round was running"
    if round_.dry_run and round_.status == "waiting":
        return "the plan is over its limits, so nothing would be done until it is released"
    texts = {
        "in-sync": f"sheet and store agree{_except_notes(round_.notes)}",
        "drift": f"{differences} between sheet and store",
        "findings": f"{count(round_.findings, 'error')} in the sheet "
        f"{'keeps' if round_.findings == 1 else 'keep'} "
        f"{'all' if _is_unused(round_) else 'a part'} of it from being used",
        "conflicts": f"{count(round_.conflicts, 'conflict')}, which "
        f"{'needs' if round_.conflicts == 1 else 'need'} a decision",
        "failed-rows": f"{count(round_.failed, 'change')} could not be applied",
        "waiting": "the plan is over its limits, and nothing is done until it is released",
        "refused": "nothing is done, and the plan cannot be released",
        "locked": "another round or run was active, so nothing was done",
        "interrupted": f"{_describe_rest(round_)}the next round finishes what it started",
        "error": "the round ended with an error",
    }
    return texts[round_.status]


def _describe_rest(round_: Round) -> str:
    """Describe what a round that was interrupted did and did not send, as the start of a clause."""
    total = round_.to_store.total
    if not total or round_.backup or round_.applied >= total:
        return "it was interrupted, and "
    rest = number(total - round_.applied)
    return (
        f"{number(round_.applied)} of {count(total, 'change')} for the store "
        f"{'was' if round_.applied == 1 else 'were'} made, {rest} not yet; "
    )


def _except_notes(notes: int) -> str:
    return f", except for {_format_total('note', notes)}" if notes else ""


def reason(round_: Round) -> str:
    """Return why the round ended this way, and a hint; "" if the round has no problem."""
    problem, hint = make_visible(round_.problem, keep="\n"), make_visible(round_.hint, keep="\n")
    return sentences(capital(problem), capital(hint))


def facts(round_report: RoundReport) -> Iterator[tuple[str, str]]:
    """Yield the facts of a round, such as mode, store, sheet and time, as printable text."""
    round_ = round_report.round
    mode = MODE_WORDS[round_.mode]
    yield "mode", f"{mode} (dry run)" if round_.dry_run else mode
    if round_.store:
        yield "store", f"{make_visible(round_.store)}{_size(round_.pets, 'pet')}"
    if round_.replaced_url:
        yield "PETSYNC_URL", _describe_replaced_url(round_)
    if round_.source:
        yield "sheet", f"{make_visible(round_.source)}{_size(round_.rows, 'row')}"
    yield "started", f"{format_timestamp(round_.started)}, took {duration(round_.seconds)}"
    if round_.resumed:
        yield "resumed", f"{count(round_.resumed, 'run')} that an earlier round left unfinished"
    if round_.backup:
        yield "backup", f"{make_visible(round_.backup)}, the sheet before the round"
    yield "round", make_visible(round_.id)


def _describe_replaced_url(round_: Round) -> str:
    return f"replaces {make_visible(round_.replaced_url)}"


def store_facts(rounds: Iterable[Round]) -> Iterator[tuple[str, str]]:
    """Yield the addresses of the rounds' stores, each once, with the jobs if they differ."""
    by_store: dict[tuple[str, str], list[Round]] = {}
    for each in rounds:
        if each.store:
            by_store.setdefault((each.store, each.replaced_url), []).append(each)
    for (store, replaced), own in by_store.items():
        names = ", ".join(dict.fromkeys(each.job for each in own))
        jobs = f" ({make_visible(names)})" if len(by_store) > 1 else ""
        yield "store", f"{make_visible(store)}{jobs}"
        if replaced:
            yield "PETSYNC_URL", _describe_replaced_url(own[0])


def _size(total: int, noun: str) -> str:
    """Format a number in brackets: ` (1,240 pets)`; "" for 0, because it may not be known."""
    return f" ({count(total, noun)})" if total else ""


def format_counts(counts: Counts) -> str:
    """Format adds, updates and deletes: `+3 ~12 -1`, "0" for nothing."""
    parts = (("+", counts.add), ("~", counts.update), ("-", counts.delete))
    return " ".join(f"{sign}{number(n)}" for sign, n in parts if n) or "0"


def format_planned(round_: Round, counts: Counts) -> str:
    """Format the planned counts of one side, in brackets if the round applied none of them; "0" for
    a check. If the round was stopped before it wrote the sheet, the number of applied changes of
    the store is before them: `7 of +30`.
    """
    text = format_counts(Counts() if round_.mode == "check" else counts)
    if text == "0":
        return text
    if round_.status in _STOPPED and not round_.backup:
        applied = round_.applied if counts is round_.to_store else 0
        if applied:
            return text if applied >= counts.total else f"{number(applied)} of {text}"
        return f"({text})"
    return text if round_.applied else f"({text})"


def side_facts(round_: Round) -> Iterator[tuple[str, str]]:
    """Yield the changes planned for each side, and the number that was applied."""
    yield "for the store", _describe_counts(round_.to_store)
    yield "for the sheet", _describe_counts(round_.to_sheet)
    if total := round_.to_store.total + round_.to_sheet.total:
        yield "applied", f"{number(round_.applied)} of {number(total)}"


def _describe_counts(counts: Counts) -> str:
    if not counts.total:
        return "nothing"
    parts = (("to add", counts.add), ("to change", counts.update), ("to delete", counts.delete))
    return ", ".join(f"{number(total)} {what}" for what, total in parts if total)


OPEN_FIELDS: Mapping[Kind, str] = {
    "conflict": "conflicts",
    "finding": "findings",
    "failed": "failed",
    "drift": "unexplained",
}
"""The fields of a round with the numbers of differences that it left for the user or the next
round, by kind.
"""


def open_counts(round_: Round) -> Iterator[tuple[Kind, int]]:
    """Yield the number of differences of each kind that the round left for the user or the next
    round.
    """
    yield from ((kind, getattr(round_, field)) for kind, field in OPEN_FIELDS.items())


def format_open(round_: Round) -> str:
    """Format the open differences: `2 conflicts, 1 error in the sheet`; "" if nothing is open."""
    return format_open_total([open_counts(round_)])


def format_open_total(counts_of_rounds: Iterable[Iterable[tuple[Kind, int]]]) -> str:
    """Format the open differences of several rounds, added up."""
    totals = Counter[Kind]()
    for counts in counts_of_rounds:
        totals.update(dict(counts))
    return ", ".join(_format_total(kind, total) for kind, total in totals.items() if total)


def _format_total(kind: Kind, total: int) -> str:
    return f"{number(total)} {KIND_NAMES[kind][total != 1]}"


def open_title(kind: Kind, total: int) -> str:
    return _format_total(kind, total)


def kind_meaning(kind: Kind, differences: Sequence[Difference], round_: Round) -> str:
    """Return what the differences of a kind mean, as the continuation of their title."""
    if kind != "finding":
        return _KIND_MEANING[kind]
    if _is_unused(round_):
        return "the whole sheet is left out"
    # An error of no row and no pet is one of a header.
    headers = [each.row is None and each.pet_id is None for each in differences]
    parts = sorted({"columns" if is_header else "rows" for is_header in headers})
    return f"these {' and '.join(parts)} are left out"


def _is_unused(round_: Round) -> bool:
    """Return true if errors in the sheet kept all of it from being used, as in a strict job."""
    return round_.status == "findings" and bool(round_.problem)


def fields_of(each: Difference) -> str:
    """Return the fields of the difference; "" if its problem begins with the first field."""
    if each.fields and each.problem.startswith(f"{each.fields[0]}:"):
        return ""
    return ", ".join(each.fields)


def by_kind(differences: Sequence[Difference]) -> dict[Kind, list[Difference]]:
    """Return the differences by kind, those that need attention first; kinds without differences
    are left out.
    """
    groups: dict[Kind, list[Difference]] = {kind: [] for kind in KIND_NAMES}
    for each in differences:
        groups[each.kind].append(each)
    return {kind: members for kind, members in groups.items() if members}


def advice_for_kind(kind: Kind, round_: Round) -> str:
    """Return what to do about a kind of difference that this round left."""
    special_cases: tuple[tuple[Kind, bool, str], ...] = (
        ("drift", round_.mode == "check", _CHECK_CURE),
        ("drift", round_.status == "refused", _REFUSED_CURE),
        ("drift", round_.dry_run, _DRY_RUN_CURE),
        ("waiting", round_.dry_run, _WAITING_DRY_RUN_CURE),
        ("finding", is_from_query(round_), _QUERY_CURE),
    )
    return next(
        (cure for case_kind, applies, cure in special_cases if case_kind == kind and applies),
        _KIND_CURE[kind],
    )


def is_from_query(round_: Round) -> bool:
    """Return true if the rows come from a query instead of a file."""
    return round_.source == "query" or round_.source.startswith("query of ")


def describe_store_result(round_report: RoundReport) -> str:
    plan, report = round_report.plan, round_report.report
    if plan is None or not plan.changes:
        return "There was nothing to send to the store."
    if report is not None:
        # Rows without a change are listed separately.
        counts = Counter(each.outcome for each in report.results if each.kind != "none")
        counts_text = (f"{number(counts[o])} {o}" for o in OUTCOMES if counts[o] or o == "applied")
        return sentences(f"Sent by run {make_visible(report.run_id)}: {', '.join(counts_text)}")
    return "Nothing was sent" + (
        ": the plan waits for release." if round_report.round.waiting else "."
    )


def describe_sheet_result(round_report: RoundReport) -> str:
    if round_report.round.backup:
        backup = make_visible(round_report.round.backup)
        return (
            f"Written: {describe_written(round_report)}; the previous version of the sheet is in "
            f"{backup}."
        )
    if round_report.round.dry_run or round_report.round.mode == "check":
        return "Nothing was written."
    return "There is no backup: the sheet was not written, or it is new."


def describe_written(round_report: RoundReport) -> str:
    """Describe the changes that were written: `3 rows changed (4 cells that had another value), 1
    row new`.
    """
    kinds = Counter(change.kind for change in round_report.sheet)
    overwritten = sum(
        bool(old)
        for each in round_report.sheet
        if each.kind == "update"
        for old, _ in each.values.values()
    )
    results = () if round_report.report is None else round_report.report.results
    ids = sum(
        each.assigned_id is not None and each.row is not None and each.cause != "named-id"
        for each in results
    )
    cells = f" ({count(overwritten, 'cell')} that had another value)" if overwritten else ""
    parts = (
        (kinds["update"], f"changed{cells}"),
        (kinds["add"], "new"),
        (kinds["delete"], "removed"),
        (ids, "with the id of a new pet"),
    )
    counts = [f"{count(total, 'row')} {what}" for total, what in parts if total]
    return ", ".join(counts) or "ids of pets, in rows that had no id"


def commands_title(round_: Round) -> str:
    """Return the title of the round's commands. Those of an older round lack the options that are
    needed in another folder.
    """
    return "Commands:" if round_.common else _IN_FOLDER


def commands(round_: Round) -> Iterator[Command]:
    """Yield the commands for the waiting plan, the sheet, the runs and the job. They use the
    round's configuration, journal and store from any folder.
    """
    for purpose, line in _iter_commands(round_):
        yield Command(purpose, _complete_line(round_, line))


def _iter_commands(round_: Round) -> Iterator[tuple[str, str]]:
    if round_.waiting:
        waiting = _quote_argument(round_.waiting)
        yield "review the plan, and release it", f"petsync apply {waiting}"
    again = f"petsync reconcile --job {_quote_argument(round_.job)}"
    if round_.findings and round_.source and not is_from_query(round_):
        # `petsync check` does not know the job's rules, columns and encoding.
        yield "every error in the sheet", f"{again} --dry-run --limit 0"
    for run in round_.runs:
        yield "what a run did", f"petsync runs {_quote_argument(run)}"
        yield "undo it", f"petsync undo {_quote_argument(run)}"
    if round_.status in RETRY_STATUSES:
        yield "run the job again", f"{again} --dry-run" if round_.dry_run else again


def complete(round_: Round, text: str) -> str:
    """Return a message in which each command, such as `petsync undo RUN`, uses the round's
    configuration, journal and store.
    """
    return complete_commands(text, partial(_complete_line, round_))


def _complete_line(round_: Round, line: str) -> str:
    if line.startswith("petsync trust "):
        return line
    head, command, rest = line.partition(" reconcile")
    if command and round_.again:
        file, *options = round_.again
        line = f"{head}{command} {_quote_argument(file)}{rest}"
    else:
        options = [*round_.common]
    return with_options(line, [*map(make_visible, options)])


def _quote_argument(text: str) -> str:
    return quote(make_visible(text))


# Open differences, grouped by problem.


_EXAMPLES = 3
_NAME = 30
DifferenceGroups = list[tuple[str, list[Difference]]]
"""Problems, each with its differences."""


def group_alike(
    differences: Sequence[Difference], limit: int
) -> tuple[DifferenceGroups, list[Difference]]:
    """Return the groups of more than `limit` differences with the same problem, and the other
    differences.

    Only notes, which follow from the job's settings, are grouped; other differences are shown one
    by one.
    """
    groups = group_by_text(differences, lambda each: each.problem if each.kind == "note" else "")
    large_groups = [(problem, group) for problem, group in groups if problem and len(group) > limit]
    grouped_problems = {problem for problem, _ in large_groups}
    return large_groups, [
        each for each in differences if each.kind != "note" or each.problem not in grouped_problems
    ]


def group_sentence(problem: str, group: Sequence[Difference]) -> str:
    """Describe a group: `Is in the store, and in no row: 1,241 of them, such as pet 7 (Rex), pet 8
    (Tom)`.
    """
    examples = ", ".join(subject_of(each) for each in group[:_EXAMPLES])
    text = capital(make_visible(problem)).rstrip(".")
    return f"{text}: {number(len(group))} of them, such as {examples}"


def subject_of(each: Difference) -> str:
    """Format the subject: `pet 7 (Rex)`; without an id the name, else the address."""
    pet = "" if each.pet_id is None else f"pet {each.pet_id}"
    name = shorten(make_visible(each.name), _NAME)
    return f"{pet} ({name})" if pet and name else pet or name or make_visible(each.address)
