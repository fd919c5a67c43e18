"""The failed rows of a run, as a workbook to fix and send again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from petsync._display import quote
from petsync._files import is_in_parts
from petsync.errors import PlanError
from petsync.plan.change import Conflict
from petsync.plan.compare import blocked_row
from petsync.plan.plan import Plan, both_sides
from petsync.plan.report import Report
from petsync.report.words import capital, describe_cause
from petsync.sheets.failed import FAILED, Advice, FailedRows, write_failed_rows
from petsync.sheets.load import STDIN
from petsync.store.runs import Outputs
from petsync.table.sheet import FRAME_NAME, Sheet

__all__ = ["save_failed_rows"]


def _name_plan(plan: Plan) -> str:
    """Return the command, and the call in Python, that plan the sheet of a plan again."""
    words: list[object] = ["petsync", "plan", Path(plan.source)]
    words += ["--sheet", plan.tab] if plan.tab else []
    words += [word for pair in plan.columns.items() for word in ("--column", "=".join(pair))]
    words += ["--encoding", plan.encoding] if plan.encoding else []
    given = {"tab": plan.tab, "mapping": dict(plan.columns), "encoding": plan.encoding}
    options = "".join(f", {name}={value!r}" for name, value in given.items() if value)
    sheet = f"store.read({plan.source!r}{options})" if options else repr(plan.source)
    return f"`{' '.join(map(quote, words))}`, in Python `store.plan({sheet})`"


def save_failed_rows(
    outputs: Outputs, report: Report, path: str | Path, statuses: tuple[str, ...]
) -> FailedRows:
    """Write the rows of the run that failed, that conflict or that need fixing into a workbook.

    Raises PlanError if the run is an undo, or if its sheet is not one file, is missing, or was
    changed since the run; and SheetError as `write_failed_rows` does.
    """
    plan = report.plan
    if plan.undoes:
        raise PlanError(
            f"run {report.run_id} is an undo, which has no rows of a sheet",
            hint=f"`petsync undo {plan.undoes}` shows what is left to undo.",
        )
    if (kind := _describe_other_sheet(plan)) is not None:
        hint = (
            f"`petsync runs {report.run_id}` shows them. Fix them, and plan the sheet again: the "
            "plan has what is still to be done."
        )
        if plan.source == FRAME_NAME:
            hint = (
                f"store.run({report.run_id!r}).to_frame() has the outcome of each row, and its "
                "position in the column `row`. Fix these rows, and plan them: "
                "store.plan(frame.iloc[rows])."
            )
        raise PlanError(
            f"run {report.run_id} was of {kind}: only the failed rows of a file become a workbook",
            hint=hint,
        )
    found = outputs.sheet_of_run(report, statuses)
    if found is None:
        raise PlanError(
            f"{plan.source} is missing, or was changed since run {report.run_id}",
            hint=f"Restore the file. Or plan the sheet as it is now ({_name_plan(plan)}): the plan "
            "has what is still to be done.",
        )
    sheet, report = found
    return write_failed_rows(sheet, report, path, _advice_of(report, sheet), statuses=statuses)


def _describe_other_sheet(plan: Plan) -> str | None:
    """Return what the sheet of a plan is, if it is not one file."""
    if plan.source == FRAME_NAME and not plan.source_digest:
        return "a DataFrame"
    if plan.source == STDIN:
        return "standard input"
    return "a sheet in several files" if is_in_parts(plan.source) else None


def _advice_of(report: Report, sheet: Sheet) -> Mapping[int, Sequence[Advice]]:
    """Return the advice for each row, in the words of the report."""
    found: dict[int, list[Advice]] = defaultdict(list)
    for finding in sheet.problems:
        if finding.severity == "error":
            advice = Advice(finding.column, finding.rule, finding.problem, finding.suggestion)
            found[finding.row].append(advice)
    errors = sheet.errors_by_row
    for blocked in report.plan.blocked:
        # The sheet was read again, without the rules with which it was planned.
        row = blocked.row
        if blocked.problem != blocked_row(sheet, row, errors.get(row, ()), {}).problem:
            column = _find_column(sheet, row, blocked.source)
            found[row].append(Advice(column, "rule", capital(blocked.problem)))
    for conflict in report.plan.open_conflicts:
        if conflict.row is not None:
            found[conflict.row] += _advice_on_conflict(conflict, sheet)
    for result in report.results:
        is_of_plan = result.kind == "none"
        if result.row is None or result.outcome not in FAILED or is_of_plan:
            continue
        words = describe_cause(result.outcome, result.cause, report.run_id)
        problem = capital(result.message or words.title)
        column = _find_column(sheet, result.row, result.source)
        found[result.row].append(Advice(column, result.cause or "failed", problem, words.cure))
    return found


def _advice_on_conflict(conflict: Conflict, sheet: Sheet) -> Iterator[Advice]:
    for clash in conflict.clashes:
        problem = f"Sheet and store both changed this since the export: {both_sides(clash)}."
        yield Advice(clash.column, conflict.rule, problem, conflict.suggestion)
    if not conflict.clashes and conflict.row is not None:
        problem = f"{capital(conflict.subject)} {conflict.problem}."
        column = _find_column(sheet, conflict.row, conflict.source)
        yield Advice(column, conflict.rule, problem, conflict.suggestion)


def _find_column(sheet: Sheet, row: int, address: str) -> str:
    """Return the name of the column of a cell; "" if the address is that of a whole row."""
    return next((name for name in sheet.columns if sheet.address(row, name) == address), "")
