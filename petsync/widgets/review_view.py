"""The view of the review form: draft, rows, pages, and messages."""

from __future__ import annotations

import base64
import dataclasses
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import ipywidgets
import msgspec
import numpy as np
import numpy.typing as npt

from petsync.errors import PetsyncError
from petsync.plan.change import Blocked, Change, Clash, Conflict, Kind
from petsync.plan.fields import UNITS, Unit, cell
from petsync.plan.guard import CAPACITY_CURE, Limit, Refusal, Verdict
from petsync.plan.plan import Plan
from petsync.plan.report import Outcome, PastRun, Report, Result, count_remaining
from petsync.report import html, words
from petsync.report.document import (
    Alert,
    Block,
    Details,
    Document,
    Facts,
    Note,
    Record,
    Records,
    Summary,
    error_alert,
)
from petsync.report.html import blocks_html, document_html
from petsync.report.plan import (
    KINDS as KINDS_OF_RECORDS,
)
from petsync.report.plan import (
    NAMES,
    NOTE_KINDS,
    ROW_KINDS,
    record_of_blocked,
    record_of_change,
    record_of_conflict,
    record_of_note,
)
from petsync.report.views.run import group_details
from petsync.report.words import ResultGroup, capital, results_by_cause
from petsync.sheets import must_take_results, write_results
from petsync.sheets.read import sheet_of
from petsync.sheets.results import back_up, build_results
from petsync.store import Store
from petsync.store.runs import Outputs, assigns_ids, default_results_path
from petsync.table.sheet import Finding, Sheet
from petsync.widgets.components import (
    FILTERS_FROM,
    Guarded,
    Meter,
    Pages,
    Row,
    Table,
    button,
    fold_case,
    in_form,
    show,
    sort_key,
    tick,
)

__all__ = [
    "ANY",
    "CHANGE_COLUMNS",
    "KINDS",
    "MAX_LINKED_BYTES",
    "MISSING_BOX",
    "ONLY_STORE",
    "PLAN_AGAIN",
    "TERM_OF_TWO_WAY",
    "TITLES",
    "WAIT",
    "Draft",
    "DraftTally",
    "Finder",
    "LeftFiles",
    "Numbers",
    "Panel",
    "ReportView",
    "ReviewTable",
    "Warnings",
    "as_button_text",
    "box_label",
    "change_row",
    "changed",
    "clash_columns",
    "clash_row",
    "continue_label",
    "describe_other_run",
    "describe_tally",
    "facts",
    "file_link",
    "finish_label",
    "guard",
    "held_row",
    "overview",
    "problems",
    "render_question",
    "result_columns",
    "result_row",
    "title_of",
    "warnings_of",
]


# Draft: a plan with the user's decisions: what to send, whose value wins, which limits to override.


KINDS = ("add", "update", "delete")
Numbers = npt.NDArray[np.intp]
Side = Literal["store", "sheet"]
Key = tuple[int, str]


@dataclass(frozen=True, slots=True)
class DraftTally:
    """How many changes of each kind are sent, and how many are left out."""

    add: int
    update: int
    delete: int
    left_out: int

    @property
    def sent(self) -> int:
        return self.add + self.update + self.delete


class Draft:
    """A plan with the user's ticks (initially all set), choices and overrides. For each change,
    `kinds` has the index of its kind in KINDS, and `units` has a bit for each of the UNITS that it
    changes.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.ticked = np.ones(len(plan.changes), dtype=bool)
        self.kinds = np.array([KINDS.index(c.kind) for c in plan.changes], dtype=np.int8)
        self.units = np.array([_bits(c.fields) for c in plan.changes], dtype=np.uint8)
        self.choices: dict[Key, Side] = {}
        self._allowed: dict[str, int] = {}
        self._rows = _by_row(plan)
        self._clashing: defaultdict[int | None, list[Conflict]] = defaultdict(list)
        for conflict in plan.conflicts:
            if conflict.clashes:
                self._clashing[conflict.row].append(conflict)
        self._places = {c.pet_id: c.row for many in self._clashing.values() for c in many}

    def tick(self, numbers: Iterable[int] | Numbers, on: bool) -> None:
        """Include these changes, or leave them out."""
        self.ticked[np.fromiter(numbers, dtype=np.intp)] = on

    def winner(self, conflict: Conflict, clash: Clash) -> Side:
        """The side, sheet or store, whose value the field currently gets."""
        chosen = self.choices.get((conflict.pet_id or 0, clash.column))
        if chosen is not None:
            return chosen
        return "sheet" if conflict.winner == "sheet" and self._is_sent(conflict.row) else "store"

    def choose(self, conflict: Conflict, clash: Clash, side: Side) -> None:
        """Choose whether the field gets the value of the sheet or of the store. The sheet can be
        chosen only if its value can be sent.
        """
        key = conflict.pet_id or 0, clash.column
        self.choices.pop(key, None)
        if self.winner(conflict, clash) != side and not (side == "sheet" and clash.refused):
            self.choices[key] = side

    def tally(self) -> DraftTally:
        """The counts of the plan that `build_plan` returns, and of the changes left out."""
        add, update, delete = (int((self.kinds[self.ticked] == n).sum()) for n in range(3))
        left_out = len(self.ticked) - int(self.ticked.sum())
        return DraftTally(add, update + self._more(), delete, left_out)

    def refusals(self) -> tuple[Refusal, ...]:
        """The refusals of the plan's guard for the current draft."""
        return self._judge(self.plan).refusals

    def allows(self, refusal: Refusal) -> bool:
        """Whether the user has overridden this refusal, and the number of changes has not increased
        since.
        """
        return self._over(refusal) <= self._allowed.get(refusal.limit, -1)

    def allow(self, refusal: Refusal, on: bool) -> None:
        """Override the refusal for the current number of changes, or remove the override. Some
        refusals, such as those because of sentinels, cannot be overridden.
        """
        self._allowed.pop(refusal.limit, None)
        if on and refusal.override:
            self._allowed[refusal.limit] = self._over(refusal)

    @property
    def is_ok(self) -> bool:
        """Whether the guard permits the draft, with the user's overrides."""
        return all(self.allows(refusal) for refusal in self.refusals())

    def build_plan(self) -> Plan:
        """The plan to apply; the unchanged plan if nothing was left out, decided or overridden."""
        plan = self.plan
        if not self.ticked.all():
            plan = plan.select(numbers=np.flatnonzero(self.ticked).tolist())
        plan = plan.resolve(self.choices)
        allowed_refusals = [refusal for refusal in self.refusals() if self.allows(refusal)]
        return _raise_limits(plan, allowed_refusals, self._allowed) if allowed_refusals else plan

    def _is_sent(self, row: int | None) -> bool:
        return any(self.ticked[number] for number in self._rows.get(row, ()))

    def _more(self) -> int:
        """The number of updates that the choices add, minus the number that they remove."""
        more = 0
        for row in {self._places[pet_id] for pet_id, _ in self.choices}:
            ticked = [n for n in self._rows.get(row, ()) if self.ticked[n]]
            bits = int(self.units[ticked[0]]) if ticked else 0
            for conflict in self._clashing[row]:
                for clash in conflict.clashes:
                    bit = _BIT[clash.column]
                    won = self.winner(conflict, clash) == "sheet"
                    bits = bits | bit if won else bits & ~bit
            more += bool(bits) - bool(ticked)
        return more

    def _judge(self, plan: Plan) -> Verdict:
        is_of_part = plan.shifted or any(add.namesake for add in plan.adds)
        if plan.guard.sentinels or plan.capacity is not None or is_of_part:
            # Some refusals, such as those because of sentinels, depend on which changes are
            # selected, so the selected part of the plan is checked.
            part = plan.select(numbers=np.flatnonzero(self.ticked).tolist())
            return part.resolve(self.choices).verdict
        tally = self.tally()
        return plan.guard.judge(
            pets=plan.pets,
            rows=plan.count_rows_for_guard(tally.delete),
            adds=tally.add,
            updates=tally.update,
            deletes=tally.delete,
            sentinels=[each for each in plan.verdict.refusals if each.of_store],
            is_least=plan.coverage.is_narrow,
        )

    def _over(self, refusal: Refusal) -> int:
        return int(getattr(self.tally(), refusal.limit, 1))


def _raise_limits(plan: Plan, refusals: Iterable[Refusal], allowed: Mapping[str, int]) -> Plan:
    raised: dict[str, object] = {}
    for refusal in refusals:
        if refusal.limit in KINDS:
            raised[f"max_{refusal.limit}"] = Limit(allowed[refusal.limit], is_share=False)
        else:
            raised["allow_shifted" if refusal.limit == "shifted" else "allow_empty"] = True
    return plan.with_guard(msgspec.structs.replace(plan.guard, **raised))


def _by_row(plan: Plan) -> Mapping[int | None, list[int]]:
    """The indexes of the changes of each row that also has a conflict."""
    rows = {conflict.row for conflict in plan.conflicts if conflict.clashes}
    found: defaultdict[int | None, list[int]] = defaultdict(list)
    for number, change in enumerate(plan.changes if rows else ()):
        if change.row in rows:
            found[change.row].append(number)
    return found


def _bits(fields: Iterable[str]) -> int:
    bits = 0
    for field in fields:
        bits |= _BIT[field]
    return bits


_BIT: dict[str, int] = {unit: 1 << n for n, unit in enumerate(UNITS)}
_BIT["category_id"] = _BIT["category"]
_BIT["id"] = 0
_UNIT_OF: dict[str, Unit] = {**{unit: unit for unit in UNITS}, "category_id": "category"}


# A plan's changes, conflicts and blocked rows, and a report's results, as rows of a Table.


TITLES: dict[str, str] = {
    "name": "Name",
    "status": "Status",
    "category": "Category",
    "tags": "Tags",
    "photo_urls": "Photos",
}
CHANGE_COLUMNS: list[Row] = [
    {"key": "kind", "title": "Kind", "kind": "mark", "sorts": True},
    {"key": "id", "title": "Id", "sorts": True},
    {"key": "pet", "title": "Pet", "sorts": True},
    {"key": "what", "title": "What", "kind": "fields"},
    {"key": "where", "title": "Where", "sorts": True},
]
"""The columns of the rows of a plan, as on its page."""
_LONGEST = 2_000
"""The maximum number of characters of a value that are sent to the browser."""
_TONES = {
    "applied": "done",
    "unchanged": "muted",
    "not sent": "muted",
    "conflict": "conflict",
    "needs fixing": "problem",
    "failed": "problem",
    "unknown": "problem",
}
Warnings = Mapping[int | None, Mapping[Unit, str]]
"""The warnings about a sheet's cells, by row and by field."""


def warnings_of(findings: Iterable[Finding]) -> Warnings:
    """Return the warnings among a sheet's findings."""
    found: defaultdict[int | None, dict[Unit, str]] = defaultdict(dict)
    for finding in findings:
        unit = _UNIT_OF.get(finding.column)
        if finding.severity == "warning" and unit is not None:
            told = found[finding.row].get(unit, "")
            found[finding.row][unit] = words.sentences(told, finding.problem)
    return found


def change_row(number: int, change: Change, warnings: Warnings) -> Row:
    """The row of a change: the changed fields of an update, or the fields of an add or delete.
    A cell of the sheet with a warning has a badge.
    """
    record = record_of_change(change)
    left = dict(warnings.get(change.row, {}))
    fields: list[Row] = []
    for unit, *values in record.fields:
        fields.append({"name": TITLES[UNITS[unit]], "values": values})
        if text := left.pop(UNITS[unit], ""):
            fields[-1]["warning"] = text
    fields += [
        {"name": TITLES[unit], "values": [""], "warning": text} for unit, text in left.items()
    ]
    label = f"{words.HEADING[change.kind].lower()} {_name(change.pet_id, record.name)}"
    return _record_row(str(number), record, fields, label, change.kind)


def held_row(key: str, held: Conflict | Blocked) -> Row:
    """The row of a conflict that offers no choice between values, or of a sheet row that an error
    blocks.
    """
    if isinstance(held, Conflict):
        record, cure, tone = record_of_conflict(held), held.suggestion, "conflict"
    else:
        record, tone = record_of_blocked(held), "problem"
        cure = "Correct the cell, and open the sheet again."
    texts = capital(words.sentences(record.message)), as_button_text(cure)
    fields: list[Row] = [{"text": text} for text in texts if text]
    return _record_row(key, record, fields, _name(held.pet_id, held.name), tone)


def _record_row(key: str, record: Record, fields: Sequence[Row], label: str, tone: str) -> Row:
    kind = KINDS_OF_RECORDS[record.kind]
    cells: Row = {
        "kind": {"symbol": words.SYMBOL[kind], "text": NAMES[kind]},
        "id": record.pet_id,
        "pet": record.name,
        "what": fields,
        "where": record.where,
    }
    return {"key": key, "label": label, "cells": cells, "tone": tone}


def clash_columns() -> list[Row]:
    return [
        {"key": "pet", "title": "Pet", "sorts": True},
        {"key": "field", "title": "Field", "sorts": True},
        {"key": "base", "title": "Before"},
        {"key": "sheet", "title": "Sheet"},
        {"key": "store", "title": "Store"},
        {"key": "winner", "title": "Your choice", "kind": "choice"},
        {"key": "where", "title": "Where", "sorts": True},
    ]


def clash_row(key: str, conflict: Conflict, clash: Clash, winner: str) -> Row:
    """The row of a field that the sheet and the store both changed: both values, and the choice
    between them.
    """
    name = _name(conflict.pet_id, conflict.name)
    options = [["store", "Keep the store's"], ["sheet", "Send the sheet's"]]
    cells: Row = {
        "pet": name,
        "field": TITLES[clash.column],
        "base": _value(clash.base),
        "sheet": _value(clash.sheet),
        "store": _value(clash.store),
        "where": conflict.source,
    }
    if clash.refused:
        cells["winner"] = f"The store's value stays: {clash.refused}."
    else:
        label = f"Which {TITLES[clash.column].lower()} {name} gets"
        cells["winner"] = {"options": options, "value": winner, "label": label}
    return {"key": key, "label": f"{clash.column} of {name}", "cells": cells, "tone": "conflict"}


def result_columns() -> list[Row]:
    return [
        {"key": "outcome", "title": "Outcome", "kind": "mark", "sorts": True},
        {"key": "id", "title": "Id", "sorts": True},
        {"key": "pet", "title": "Pet", "sorts": True},
        {"key": "kind", "title": "Change", "sorts": True},
        {"key": "message", "title": "What happened", "kind": "advice"},
        {"key": "where", "title": "Where", "sorts": True},
    ]


def result_row(key: str, result: Result, name: str) -> Row:
    mark = words.OUTCOME_MARK[result.outcome]
    pet_id = result.pet_id if result.assigned_id is None else result.assigned_id
    cells = {
        "outcome": {"symbol": words.SYMBOL[mark], "text": result.outcome},
        "where": result.source,
        "kind": "" if result.kind == "none" else words.HEADING[result.kind],
        "id": "" if pet_id is None else str(pet_id),
        "pet": _short(name),
        "message": _short(result.message),
    }
    label = _name(pet_id, name)
    return {"key": key, "label": label, "cells": cells, "tone": _TONES[result.outcome]}


def _name(pet_id: int | None, name: str) -> str:
    """The id and the name of a pet, such as `7 Rex`."""
    number = "" if pet_id is None else str(pet_id)
    return _short(" ".join(part for part in (number, name) if part) or "(no name)", 200)


def _value(text: str) -> str:
    return _short(text) if text else "(empty)"


def _short(text: str, longest: int = _LONGEST) -> str:
    """The text without its middle if it is too long for a form."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]} ... {text[-half:]}"


# ReportView: a run's report, with its results in groups.


_ALL = -1
_NAMED = 20
"""The maximum number of pets that a text of the form names."""


class ReportView:
    """A report for display. Creating it is slow for a large report."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.groups: list[ResultGroup] = results_by_cause(report, _NAMED)
        self.applied: Counter[Kind] = Counter()
        """The number of changes of each kind that were made."""
        self.first_applied: list[Record] = []
        self.names = words.result_names(report.plan)
        for result in report.results:
            if result.outcome == "applied" and result.kind != "none":
                self.applied[result.kind] += 1
                if len(self.first_applied) < _NAMED:
                    self.first_applied.append(_applied_record(result, report.plan))

    @property
    def views(self) -> list[tuple[str, int]]:
        """The title of each view, which shows everything or one group, and its number for
        `results`.
        """
        titles = [(group.title, number) for number, group in enumerate(self.groups)]
        return [(f"Everything ({words.number(len(self.report.results))})", _ALL), *titles]

    def results(self, view: int) -> Sequence[Result]:
        return self.report.results if view == _ALL else self._group(view)

    def row(self, result: Result) -> Row:
        return result_row(str(result.number), result, self.names(result.number))

    @property
    def can_resume(self) -> bool:
        """Whether resuming the run may change anything."""
        return bool(self.report.stopped or words.count_left(self.report))

    @property
    def can_undo(self) -> bool:
        """Whether anything can be undone."""
        return bool(self.applied)

    @cached_property
    def is_pressed(self) -> bool:
        """Whether the service asked for fewer requests."""
        return any(group.cause == "too-many" for group in self.groups)

    def _group(self, view: int) -> Sequence[Result]:
        group = self.groups[view]
        key = (group.outcome, group.cause)
        return [r for r in self.report.results if (r.outcome, r.cause) == key]


def _applied_record(result: Result, plan: Plan) -> Record:
    """The record of the change that was made; a new pet has the id that the store assigned."""
    record = record_of_change(plan.changes[result.number])
    new_id = result.assigned_id
    return record if new_id is None else msgspec.structs.replace(record, pet_id=str(new_id))


# Finder: filters a draft's changes.


ANY = ""
"""The value of a filter that matches everything."""


class Finder:
    """Finds changes by action, by field, by whether they are sent, and by text."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def numbers(self, *, action: str, field: str, sent: str) -> list[int]:
        """The indexes of the changes that match all filters; `sent` is "in", "out" or ANY."""
        draft = self._draft
        mask = np.ones(len(draft.ticked), dtype=bool)
        if action:
            mask &= draft.kinds == KINDS.index(action)
        if field:
            mask &= (draft.units & (1 << UNITS.index(field))) > 0
        if sent:
            mask &= draft.ticked == (sent == "in")
        found: list[int] = np.flatnonzero(mask).tolist()
        return found

    def search(self, numbers: Iterable[int], text: str) -> list[int]:
        """The indexes of those changes that contain each word of the text."""
        sought = fold_case(text).split()
        texts = self._texts
        return [n for n in numbers if all(word in texts[n] for word in sought)]

    def sort_key(self, number: int, column: str) -> Any:
        """The key to sort a change by, in one of the CHANGE_COLUMNS."""
        change = self._draft.plan.changes[number]
        if column == "kind":
            return number
        if column == "id":
            return change.pet_id is None, change.pet_id or 0
        text = change.source if column == "where" else words.pet_of(change).name or ""
        return sort_key(text, column)

    @cached_property
    def _texts(self) -> list[str]:
        return [fold_case(_text(change)) for change in self._draft.plan.changes]


def _text(change: Change) -> str:
    """The searchable text: id, name, address, and the values before and after."""
    pets = [pet for pet in (change.before, change.after) if pet is not None]
    parts = ["" if change.pet_id is None else str(change.pet_id), change.source]
    parts += [pet.name or "" for pet in pets]
    fields = change.fields or ("status", "category", "tags", "photo_urls")
    parts += [cell(pet, field) for pet in pets for field in fields if field not in ("id", "name")]
    return "\n".join(parts)


# The files of a run: the sheet with the new ids, and the results to download.


MAX_LINKED_BYTES = 16 * 1024 * 1024
"""The maximum size of a file that is part of the page; of a larger file, only the path is shown."""


class LeftFiles:
    """Writes the files after a run. `received` is the sheet if its file was uploaded; `html` says
    what was written, and offers the results for download.
    """

    def __init__(self, store: Store, received: Sheet | None) -> None:
        self.outputs = Outputs(store.aio.history)
        self.html = ""
        self._statuses = store.api.aio.session.profile.statuses
        self._received = received

    def can_write(self, plan: Plan) -> bool:
        """Whether rows get new ids that can be written into the sheet's file."""
        if self._received is not None or plan.undoes or not assigns_ids(plan):
            return False
        sheet = sheet_of(plan, statuses=self._statuses)
        if sheet is None:
            return False
        try:
            must_take_results(sheet)
        except PetsyncError:
            return False
        return True

    def write(self, report: Report) -> None:
        """Write the results and the requested ids, and set `html`; if they cannot be written,
        `html` contains the error.
        """
        self.html = ""
        plan = report.plan
        if plan.undoes or not plan.changes:
            return
        if self._received is not None and self._received.digest != plan.source_digest:
            return  # the report is of an earlier run, of an earlier version of the sheet
        try:
            sheet = self._received or self.outputs.sheet(plan, self._statuses)
        except PetsyncError as error:
            message = f"neither results nor ids were written: {error.problem}"
            self.html = blocks_html(error_alert(PetsyncError(message, hint=error.cure)))
            return
        if sheet is None:
            return
        parts = []
        for write in (self._results, self._into_sheet):
            try:
                parts.append(write(sheet, report))
            except PetsyncError as error:
                parts.append(blocks_html(error_alert(error)))
        self.html = "".join(parts)

    def offer(self, report: Report) -> None:
        """Set `html` to a link with the results of an earlier run: the sheet with the outcome of
        each row if only runs have changed it, else a workbook of the outcomes. Writes no file.
        """
        found = None if report.plan.undoes else self.outputs.sheet_of_run(report, self._statuses)
        name = f"{report.run_id}.xlsx" if found is None else default_results_path(found[0]).name
        try:
            with tempfile.TemporaryDirectory(prefix="petsync-results-") as folder:
                path = Path(folder) / name
                if found is None:
                    # openpyxl is loaded when a workbook is written.
                    from petsync.report.workbook import report_workbook

                    report_workbook(report, path)
                else:
                    write_results(*found, path)
                label = f"The results of run {report.run_id}."
                self.html = file_link(name, path.read_bytes(), label)
        except PetsyncError as error:
            self.html = blocks_html(error_alert(error))

    def _into_sheet(self, sheet: Sheet, report: Report) -> str:
        """Write the new ids into the sheet if that was requested, and return a link to it, else
        "".
        """
        into_sheet = self.outputs.read_request(report.plan).into_sheet
        if not into_sheet:
            return ""
        backup = self.outputs.write_into_sheet(sheet, report, into_sheet)
        written = Path(sheet.source)
        message = f"The new ids are in {sheet.source}; the previous version is in {backup}."
        return file_link(written.name, written.read_bytes(), message)

    def _results(self, sheet: Sheet, report: Report) -> str:
        """Write the results, and return a link that contains the file, or a paragraph with its path
        if the file is too large.
        """
        if self._received is None:
            path = default_results_path(sheet)
            self.outputs.write_results(sheet, report, path)
            return file_link(path.name, path.read_bytes(), f"The results are in {path}.")
        name = default_results_path(dataclasses.replace(sheet, source=report.plan.source)).name
        with tempfile.TemporaryDirectory(prefix="petsync-results-") as folder:
            path = Path(folder) / name
            write_results(sheet, report, path)
            if path.stat().st_size <= MAX_LINKED_BYTES:
                label = "Continue with this file: it has the new ids."
                return file_link(name, path.read_bytes(), label)
        # The folder is gone, so a file that is too large for the page needs another place.
        path = Path(name).absolute()
        copy = build_results(sheet, report, path)
        if not path.is_symlink():
            back_up(path)
        copy.write(follow=False)
        return blocks_html(Note(f"Continue with {path}: it has the new ids."))


def file_link(name: str, data: bytes, label: str) -> str:
    """Return a link that contains the file, with a label; only the label if the file is larger than
    `MAX_LINKED_BYTES`.
    """
    if len(data) > MAX_LINKED_BYTES:
        return blocks_html(Note(label))
    body = base64.b64encode(data).decode()
    link = html.element(
        "a",
        html.text(f"Download {name}"),
        href=f"data:application/octet-stream;base64,{body}",
        download=name,
    )
    paragraph = html.element("p", f"{link} {html.text(label)}")
    return html.element("div", paragraph, class_="petsync")


# The texts of the review form, as HTML with escaped text, and as plain sentences.


ONLY_STORE = "Compare only with the store"
"""The option of a comparison without the exported values."""
TERM_OF_TWO_WAY = (r"\(--two-way, in Python two_way=True\)", f"(“{ONLY_STORE}” in the options)")
SHIFTED_BOX = "Use the column as in the sheet"
MISSING_BOX = "Delete the pets that are in no row of the sheet"
"""The option of the sheet form for `delete_missing`."""
WAIT = "This form sent nothing. It shows the report when the run has ended."
"""The hint if another form or program applies the plan."""
_COMPARE_AGAIN = "ompare the sheet again (“Open a sheet”, then “Compare with the store”)"
PLAN_AGAIN = f"C{_COMPARE_AGAIN} to see the remaining changes."
"""The next step after an earlier run of the sheet was finished."""
_BY_HAND = "The user pressed Stop or closed the form."
_URGENT: Sequence[Outcome] = ("failed", "unknown", "needs fixing", "conflict")
"""The outcomes that need attention, in the order of the results."""
TERMS = (
    (r"`petsync resume \S+ --rate 5`", "“Continue”, with “Send slowly” ticked,"),
    (r"`petsync resume [^`]+`", "“Continue”"),
    (r"`petsync undo [^`]+` again", "“Undo” again"),
    (r"`petsync undo [^`]+`", "“Undo”"),
    (r", and set it as PETSYNC_TOKEN or as the variable of the job;", " and sign in with it;"),
    (r" with the output of the same command with -v", ""),
    (
        r"--delete-missing, in Python \S+, would delete (it|them)",
        rf"“{MISSING_BOX}” among the options of the sheet deletes \1",
    ),
    (r" \(--column HEADER=COLUMN, in Python [^)]*\)", ""),
    (r"`petsync check` \(in Python sheet\.\w+\) lists them", "The form of the sheet lists them"),
    (r"raise the limit \(in Python [^)]*\) and plan again", "raise the limit"),
    (r" \(--max-failures, in Python max_failures\)", ""),
    (r'name it: --sheet NAME, in Python tab="NAME"', "choose it as the sheet's “Worksheet”"),
    (r" \(--sheet .*?, in Python tab=(['\"]).*?\1\)", ""),
    (r", as `petsync apply --write-ids` does;", ";"),
    (r"--allow-shifted \(in Python [^)]*\) allows it", f"tick “{SHIFTED_BOX}”"),
    TERM_OF_TWO_WAY,
    (r'plan with the whole store: --scope all \(in Python scope="all"\)', "plan a whole sheet"),
    (r"--max-(?:add|update|delete) ([\d.e+]+(?: %)?)", r"the limit of \1"),
    (r"\bPlan again\b(?: from the sheet)?", f"C{_COMPARE_AGAIN}"),
    (r"\bplan again\b(?: from the sheet)?", f"c{_COMPARE_AGAIN}"),
)
"""Parts of messages that refer to commands, and the texts that replace them in the form."""


def describe_other_run(run: PastRun) -> str:
    """The message that another form or program is applying the same plan."""
    return f"Another form or program is applying this plan, as run {run.run_id}"


def finish_label(past: PastRun) -> str:
    """The label of the button that finishes a stopped run of the same sheet."""
    return f"Finish run {past.run_id} ({words.count(count_remaining(past), 'change')} left)"


def title_of(plan: Plan, past: ReportView | None = None) -> str:
    if past is not None:
        return f"Run {past.report.run_id}"
    return "Review the undo of a run" if plan.undoes else "Review the plan"


def overview(plan: Plan, unfinished: PastRun | None = None) -> str:
    """The plan's summary, facts and notes. `unfinished` is the run of the same sheet that the form
    offers to finish.
    """
    run = "" if unfinished is None else unfinished.run_id
    summary = plan.summary()
    counts = {"add": summary.adds, "update": summary.updates, "delete": summary.deletes}
    blocks: list[Block] = [
        Summary(words.plan_summary(plan, counts)),
        Facts([*words.plan_facts(plan), *words.scope_facts(plan)]),
    ]
    if plan.coverage.failed:
        lines = [words.sentences(*texts) for texts in words.iter_unanswered(plan)]
        blocks.append(Alert(words.UNANSWERED_TITLE, lines))
    if plan.uncovered:
        blocks.append(Alert(words.UNCOVERED_TITLE, plan.uncovered))
    if plan.raw_notes:
        notes = [record_of_note(_in_plan(note, run)) for note in plan.raw_notes]
        title = f"For your attention: {words.count(len(notes), 'note')}"
        records = Records(notes, NOTE_KINDS)
        blocks.append(Details(title, [records], is_open=len(notes) <= _NAMED))
    return document_html(Document("", blocks))


def describe_tally(tally: DraftTally, *, is_ok: bool = True) -> str:
    """How many changes are sent: `142 of 150 changes will be sent; 8 are left out.`."""
    once = "" if is_ok else ", once you override the guard"
    if not tally.left_out:
        if not tally.sent:
            return "There is nothing to send."
        changes = (
            "The one change" if tally.sent == 1 else f"All {words.count(tally.sent, 'change')}"
        )
        return f"{changes} will be sent{once}."
    all_ = words.count(tally.sent + tally.left_out, "change")
    sent = f"{words.number(tally.sent)} of {all_}" if tally.sent else f"None of {all_}"
    out = words.number(tally.left_out)
    return f"{sent} will be sent{once}; {out} {'is' if tally.left_out == 1 else 'are'} left out."


def guard(draft: Draft) -> str:
    """The guard's message about the draft."""
    refusals = draft.refusals()
    if not refusals:
        return blocks_html(Note(words.LIMITS_KEPT, "quiet")) if draft.tally().sent else ""
    if draft.is_ok:
        title = "Over the guard's limits, which you override for this plan only"
        return blocks_html(Alert(title, [f"{_problem(each)}." for each in refusals]))
    lines = [_describe_refusal(each, is_allowed=draft.allows(each)) for each in refusals]
    return blocks_html(Alert(words.PLAN_REFUSED, lines, is_refusal=True))


def _problem(refusal: Refusal) -> str:
    return as_button_text(capital(refusal.problem))


def _describe_refusal(refusal: Refusal, *, is_allowed: bool) -> str:
    problem = f"{_problem(refusal)}."
    if is_allowed:
        return f"{problem} You override this limit."
    if refusal.limit == "capacity":
        return f"{problem} {CAPACITY_CURE}"
    if not refusal.override:
        return f"{problem} This cannot be overridden: find out what happened to this pet first."
    return (
        f"{problem} Check these changes; leave some out, or tick the box below to send them anyway."
    )


def box_label(refusal: Refusal, tally: DraftTally) -> str:
    """The label of the checkbox for a refusal, which depends on the limit."""
    limit = refusal.limit
    if limit == "empty":
        return "Continue although the sheet has no usable row (allow_empty)"
    if limit == "everything":
        return "Delete every pet of the store (allow_empty)"
    if limit == "shifted":
        return f"{SHIFTED_BOX} (allow_shifted)"
    number = getattr(tally, limit)
    return f"{capital(limit)} {words.count(number, 'pet')} anyway (max_{limit})"


def render_question(draft: Draft, plan: Plan) -> str:
    """The question before the plan is sent; it names the pets to delete."""
    tally = draft.tally()
    each = (
        f"{words.number(tally.add)} to add, {words.number(tally.update)} to change, "
        f"{words.number(tally.delete)} to delete, in {plan.store}."
    )
    blocks: list[Block] = [Summary(describe_tally(tally)), Note(each)]
    blocks += map(Note, _describe_conflicts(plan))
    if refusals := draft.refusals():
        lines = [f"{_problem(refusal)}." for refusal in refusals]
        blocks.append(Alert("You override the guard", lines))
    if deletes := words.first(plan.deletes, _NAMED).shown:
        title = f"{words.count(len(plan.deletes), 'pet')} will be deleted"
        names = [f"{each.pet_id} {words.name_of(each.before)}" for each in deletes]
        more = len(plan.deletes) - len(names)
        blocks.append(Alert(title, names, is_refusal=True, more=more))
    name = (
        f"This is plan {plan.fingerprint[:12]}. Only this plan is sent, and it can be sent only "
        "once."
    )
    return blocks_html(*blocks, Note(name))


def _describe_conflicts(plan: Plan) -> Iterator[str]:
    clashes = [(each.winner, len(each.clashes)) for each in plan.conflicts if each.clashes]
    effects = {"sheet": "the sheet's value is sent", "store": "the store's value stays"}
    for winner, effect in effects.items():
        number = sum(count for side, count in clashes if side == winner)
        if number:
            yield f"For {words.count(number, 'field')} in conflict {effect}."
    held_rows = sum(not each.clashes for each in plan.conflicts)
    if held_rows or plan.blocked:
        rest = [words.count(held_rows, "conflict")] if held_rows else []
        rest += [f"{words.count(len(plan.blocked), 'row')} to fix"] if plan.blocked else []
        yield f"Nothing is sent for {' and '.join(rest)}."


def changed(ended: ReportView) -> str:
    """What the run changed: the number of pets by kind of change, and the first of them."""
    total = ended.applied.total()
    blocks: list[Block] = [Summary(words.describe_applied(ended.applied))]
    if total:
        more = total - len(ended.first_applied)
        blocks.append(Records(ended.first_applied, ROW_KINDS, more))
    return blocks_html(*blocks)


def problems(ended: ReportView) -> str:
    """Why the run stopped, if it did, and the results by cause, except ordinary successes, each
    with its meaning and what to do; those that need attention come first. "" if there are none.
    """
    stopped = ended.report.stopped
    blocks: list[Block] = []
    if stopped:
        reason = _BY_HAND if stopped == "interrupted" else as_button_text(stopped)
        blocks.append(Alert(words.STOPPED_TITLE, reason.splitlines()))
    if counts := [f"{number} {name}" for name, number in _count_urgent(ended.groups)]:
        blocks.append(Summary(f"Needs your attention: {', '.join(counts)}."))
    for group in ended.groups:
        if not group.is_plain:
            text = group.text._replace(
                meaning=as_button_text(group.text.meaning), cure=as_button_text(group.text.cure)
            )
            details = group_details(dataclasses.replace(group, text=text), ended.names, _NAMED)
            is_open = details.is_open or group.outcome in _URGENT
            blocks.append(msgspec.structs.replace(details, is_open=is_open))
    return blocks_html(*blocks) if blocks else ""


def _count_urgent(groups: Iterable[ResultGroup]) -> Iterator[tuple[str, str]]:
    totals: Counter[Outcome] = Counter()
    for group in groups:
        totals[group.outcome] += group.listing.total
    for outcome in _URGENT:
        if total := totals[outcome]:
            yield words.inflect_outcome(outcome, total), words.number(total)


def facts(report: Report) -> str:
    """The run's id, store, source and time."""
    return blocks_html(Facts([("run", report.run_id), *words.report_facts(report)]))


def continue_label(report: Report) -> str:
    """The label of the button that continues."""
    remaining = words.count_left(report)
    if not remaining:
        return "Continue"
    return f"Continue with the remaining changes ({words.number(remaining)})"


def _in_plan(note: str, run: str) -> str:
    """A plan's note with the form's buttons in place of commands. Only the run that the form offers
    to finish has a button.
    """
    for found in set(re.findall(r"`petsync resume [^`]+`", note)):
        if run and found == f"`petsync resume {run}`":
            note = note.replace(found, "“Finish run”")
    return in_form(note, TERMS[2:])


def as_button_text(text: str) -> str:
    """The text with this form's buttons in place of commands."""
    return in_form(text, TERMS)


# Panel: the widgets of the review form; only the usable ones are shown.


_ACTIONS = [("Every change", ANY), ("Add", "add"), ("Change", "update"), ("Delete", "delete")]
_SENT = [("Sent or left out", ANY), ("Will be sent", "in"), ("Left out", "out")]
_HALF = {"width": "30rem"}
LIMITS = ("add", "update", "delete", "everything", "empty", "shifted")


class Panel:
    """All widgets of the form; the form decides which of them are visible."""

    def __init__(self) -> None:
        self.overview, self.finish = ipywidgets.HTML(), button("")
        self._clashes()
        self._changes()
        self._guard()
        self._build_send_controls()
        self._results()
        self.box = ipywidgets.VBox(
            [
                self.overview,
                self.finish,
                self.both,
                self.review_box,
                self.held,
                self.limits,
                self.count,
                self.apply,
                self.ask,
                self.meter,
                self.stop,
                self.done,
            ]
        )

    def _clashes(self) -> None:
        self.clashes = Table(
            caption="The sheet and the store both changed these fields: choose a value for each"
        )
        self.clashes.columns = clash_columns()
        self.to_sheet = button("Send all values of the sheet")
        self.to_store = button("Keep all values of the store")
        self.sides = ipywidgets.HBox([self.to_store, self.to_sheet])
        self.both = ipywidgets.VBox([self.clashes, self.sides])
        self.held = Table(caption="Nothing is sent for these", columns=CHANGE_COLUMNS)

    def _changes(self) -> None:
        fields = [("Any field", ANY), *((title, unit) for unit, title in TITLES.items())]
        self.action = ipywidgets.Dropdown(description="Action", options=_ACTIONS, layout=_HALF)
        self.field = ipywidgets.Dropdown(description="Field", options=fields, layout=_HALF)
        self.sent = ipywidgets.Dropdown(description="Ticks", options=_SENT, layout=_HALF)
        self.filters = ipywidgets.HBox([self.action, self.field, self.sent])
        self.tick_all, self.untick_all = button(""), button("")
        self.ticks = ipywidgets.HBox([self.tick_all, self.untick_all])
        self.changes = Table(caption="Changes", columns=CHANGE_COLUMNS, tickable=True)
        self.review_box = ipywidgets.VBox([self.filters, self.changes, self.ticks])

    def _guard(self) -> None:
        self.verdict = ipywidgets.HTML()
        self.overrides = {limit: tick() for limit in LIMITS}
        self.limits = ipywidgets.VBox([self.verdict, *self.overrides.values()])

    def _build_send_controls(self) -> None:
        self.count = ipywidgets.HTML()
        self.apply = button("Apply...", primary=True)
        self.question = ipywidgets.HTML()
        self.sure = tick()
        self.send, self.back = button("", primary=True), button("Back to the plan")
        self.write_ids = tick()
        self.ask = ipywidgets.VBox(
            [self.question, self.write_ids, self.sure, ipywidgets.HBox([self.send, self.back])]
        )
        self.meter = Meter(label="Sending changes")
        self.stop = button("Stop")

    def _results(self) -> None:
        self.changed, self.problems = ipywidgets.HTML(), ipywidgets.HTML()
        self.outcome = ipywidgets.Dropdown(description="Show", options=[("", -1)])
        self.results = Table(caption="The result of each row")
        self.results.columns = result_columns()
        self.resume, self.undo = button("", primary=True), button("Undo...")
        self.gentle = tick("Send slowly (5 requests per second)")
        row = ipywidgets.HBox([self.resume, self.undo])
        self.files, self.facts = ipywidgets.HTML(), ipywidgets.HTML()
        self.done = ipywidgets.VBox(
            [
                self.changed,
                self.problems,
                self.files,
                self.gentle,
                row,
                self.outcome,
                self.results,
                self.facts,
            ]
        )

    def show_boxes(self, refusals: Iterable[tuple[Refusal, str, bool]]) -> None:
        """Show a checkbox for each refusal that can be overridden, with its label and state."""
        labels: dict[str, tuple[str, bool]] = {}
        labels |= {each.limit: (label, on) for each, label, on in refusals if each.override}
        for limit, box in self.overrides.items():
            label, on = labels.get(limit, ("", False))
            box.description, box.value = label, on
            show(box, limit in labels)

    def say(self, text: str) -> None:
        """Show how many changes are sent."""
        self.count.value = blocks_html(Summary(text))


# ReviewTable: fills the tables of the review form, and applies the user's input.


_FEW = 10
"""The number of rows per page in the tables of conflicts."""


class ReviewTable:
    """Fills the panel's tables from a draft or a report. The user's input can change the draft;
    after each change of the draft, `changed` is called.
    """

    def __init__(self, panel: Panel, guarded: Guarded, changed: Callable[[], object]) -> None:
        self._panel, self._tell = panel, changed
        self._filling = False
        self._changes: Pages[int] = Pages(
            panel.changes,
            self._change,
            guarded,
            key=lambda number, column: self._finder.sort_key(number, column),
            find=lambda numbers, text: self._finder.search(numbers, text),
            on_found=self._name_buttons,
            ticked=self._is_ticked,
            on_tick=self._tick,
        )
        self._clashes: Pages[int] = Pages(panel.clashes, self._clash, guarded, size=_FEW)
        self._held_pages: Pages[int] = Pages(panel.held, self._held_row, guarded, size=_FEW)
        self._results: Pages[Result] = Pages(panel.results, self._result, guarded)
        for control in (panel.action, panel.field, panel.sent):
            control.observe(guarded(lambda _: self._filter()), "value")
        panel.tick_all.on_click(guarded(lambda _: self._tick_all(True)))
        panel.untick_all.on_click(guarded(lambda _: self._tick_all(False)))
        panel.clashes.observe(guarded(lambda _: self._choose()), "chosen")
        panel.to_sheet.on_click(guarded(lambda _: self._choose_all("sheet")))
        panel.to_store.on_click(guarded(lambda _: self._choose_all("store")))
        panel.outcome.observe(guarded(lambda _: self._view()), "value")
        for limit, box in panel.overrides.items():
            box.observe(guarded(lambda _, limit=limit: self._override(limit)), "value")

    def open(self, draft: Draft, warnings: Warnings) -> None:
        """Show this draft, unfiltered, with the warnings about its sheet's cells."""
        self._draft, self._finder, self._warnings = draft, Finder(draft), warnings
        plan = draft.plan
        self._pairs: list[tuple[Conflict, Clash]] = [
            (conflict, clash) for conflict in plan.conflicts for clash in conflict.clashes
        ]
        self._stuck: list[Conflict | Blocked] = [
            *(c for c in plan.conflicts if not c.clashes),
            *plan.blocked,
        ]
        panel = self._panel
        self._filling = True
        for control in (panel.action, panel.field, panel.sent):
            control.value = ANY
        self._filling = False
        show(panel.filters, len(plan.changes) >= FILTERS_FROM)
        panel.changes.empty = "No change matches." if plan.changes else "There are no changes."
        self._clashes.show(range(len(self._pairs)))
        self._held_pages.show(range(len(self._stuck)))
        self._filter(are_new=True)
        self._judge()

    def open_report(self, ended: ReportView) -> None:
        """Show a run's results, and the choice of a group if there are several."""
        self._ended = ended
        self._filling = True
        self._panel.outcome.options = ended.views
        self._panel.outcome.value = _ALL
        self._filling = False
        show(self._panel.outcome, len(ended.groups) > 1)
        self._view()

    # Changes ------------------------------------------------------------------------------------

    def _change(self, number: int) -> Row:
        return change_row(number, self._draft.plan.changes[number], self._warnings)

    def _is_ticked(self, number: int) -> bool:
        return bool(self._draft.ticked[number])

    def _tick(self, numbers: list[int], on: bool) -> None:
        self._draft.tick(numbers, on)
        self._refresh()

    def _filter(self, *, are_new: bool = False) -> None:
        if self._filling:
            return
        panel = self._panel
        numbers = self._finder.numbers(
            action=panel.action.value, field=panel.field.value, sent=panel.sent.value
        )
        self._changes.show(numbers, total=len(self._draft.ticked), are_new=are_new)

    def _name_buttons(self) -> None:
        shown = len(self._changes.found)
        rows = f"all {words.number(shown)}" if shown != 1 else "the one"
        for each, verb in ((self._panel.tick_all, "Tick"), (self._panel.untick_all, "Untick")):
            each.description = f"{verb} {rows} shown"
            each.disabled = not shown

    def _tick_all(self, on: bool) -> None:
        self._draft.tick(self._changes.found, on)
        self._changes.redraw()
        self._refresh()

    # Conflicts ----------------------------------------------------------------------------------

    def _clash(self, number: int) -> Row:
        conflict, clash = self._pairs[number]
        winner = self._draft.winner(conflict, clash)
        return clash_row(str(number), conflict, clash, winner)

    def _held_row(self, number: int) -> Row:
        return held_row(str(number), self._stuck[number])

    def _choose(self) -> None:
        chosen: dict[str, Any] = self._panel.clashes.chosen
        moved = False
        for key, cells in chosen.items():
            number, side = _number(key, len(self._pairs)), cells.get("winner")
            if number is None or side not in ("store", "sheet"):
                continue
            conflict, clash = self._pairs[number]
            if self._draft.winner(conflict, clash) != side:
                self._draft.choose(conflict, clash, side)
                moved = True
        if moved:
            self._refresh()

    def _choose_all(self, side: Any) -> None:
        for conflict, clash in self._pairs:
            self._draft.choose(conflict, clash, side)
        self._clashes.redraw()
        self._refresh()

    # The guard ----------------------------------------------------------------------------------

    def _refresh(self) -> None:
        self._judge()
        self._tell()

    def _judge(self) -> None:
        draft, tally = self._draft, self._draft.tally()
        self._filling = True
        self._panel.show_boxes(
            (each, box_label(each, tally), draft.allows(each)) for each in draft.refusals()
        )
        self._filling = False

    def _override(self, limit: str) -> None:
        if self._filling:
            return
        for refusal in self._draft.refusals():
            if refusal.limit == limit:
                self._draft.allow(refusal, self._panel.overrides[limit].value)
        self._tell()

    # The report ---------------------------------------------------------------------------------

    def _view(self) -> None:
        if not self._filling:
            ended = self._ended
            shown = ended.results(self._panel.outcome.value)
            self._results.show(shown, total=len(ended.report.results))

    def _result(self, result: Result) -> Row:
        return self._ended.row(result)


def _number(key: str, end: int) -> int | None:
    return int(key) if key.isascii() and key.isdigit() and int(key) < end else None
