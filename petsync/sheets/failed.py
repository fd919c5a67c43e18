"""write_failed_rows: a workbook with the rows of a run that failed, to fix and send again."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

import msgspec

from petsync._files import is_in_parts, write_atomically
from petsync.errors import SheetError
from petsync.models import Pet
from petsync.plan.base import advance_base
from petsync.plan.fields import Vocabulary
from petsync.plan.lineage import (
    actions_of,
    find_source_rows,
    read_row_categories,
    read_row_pets,
    slots_of,
)
from petsync.plan.plan import Plan
from petsync.plan.report import Outcome, Report
from petsync.sheets.base import BASE_TAB, base_notice
from petsync.sheets.files import Source
from petsync.sheets.grid import Grid, letter
from petsync.sheets.headers import ACTION, own_results
from petsync.sheets.load import load_unchanged
from petsync.sheets.read import Origin, read_grid, validate_grid
from petsync.sheets.results import (
    as_path,
    as_planned,
    as_sheet,
    back_up,
    check_other_path,
    id_edits,
)
from petsync.sheets.xlsx.contents import OUT
from petsync.table.arrow import SCHEMA, PetTable
from petsync.table.base import Base, SourceRow
from petsync.table.columns import ORIGINAL_ROW
from petsync.table.frame import ids_of
from petsync.table.options import STATUSES
from petsync.table.sheet import Finding, Sheet, cell_address

__all__ = ["FAILED", "Advice", "FailedRows", "write_failed_rows"]


FAILED: frozenset[Outcome] = frozenset({"failed", "conflict", "needs fixing"})
"""The outcomes of the rows that a user must fix, and that no `resume` sends."""
_TAB = "Pets"
_MARK = "?"
"""No action: it blocks a row until the user has replaced it."""
_CORRECT_SHEET = "Correct this row in the sheet itself, and plan the sheet again."
_SEE_REPORT = "`petsync plan` shows what is still to be done with the sheet as it is now."


@dataclass(frozen=True, slots=True)
class Advice:
    """A comment on a cell: the cause, and what to do."""

    column: str
    """The column; "" for the first cell of the row."""
    rule: str
    """The stable code of the cause."""
    problem: str
    suggestion: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRows:
    """The result of `write_failed_rows`."""

    path: Path | None
    """The workbook; None if no row failed, and no file was written."""
    rows: int
    """The number of its rows."""
    unsent: int = 0
    """The rows for which nothing was sent; they are not in the workbook."""
    unknown: int = 0
    """The rows whose outcome is unknown; they are not in the workbook."""
    pets: int = 0
    """The failed deletes and the conflicts of pets that are in no row."""
    backup: Path | None = None
    """The backup of the file that the workbook replaced."""


def write_failed_rows(
    sheet: Sheet,
    report: Report,
    path: str | Path,
    advice: Mapping[int, Sequence[Advice]],
    *,
    statuses: Sequence[str] = STATUSES,
) -> FailedRows:
    """Write the rows of a run that failed, that conflict or that need fixing into a new workbook.
    `advice` has their comments, by row number.

    The workbook has the columns of the sheet under petsync's names, and the column `original_row`,
    which names the row from which each row was copied. It has a base, and so it is compared three
    ways, with the owners and the `match_on` of the run. A row whose pet is known has its id. An
    existing file at `path` gets a backup.

    Raises SheetError if the sheet is not a file or has changed since the run, the report is for
    another sheet, `path` is the sheet itself or not an `.xlsx`, or the workbook cannot be written.
    """
    sheet, path = as_sheet(sheet), as_path(path)
    sheet = as_planned(sheet, report)
    if path.suffix.casefold() != ".xlsx":
        raise SheetError(
            f"{path}: comments and a base need a workbook",
            hint="Give it a name that ends in .xlsx.",
        )
    if sheet.is_table or is_in_parts(sheet.source):
        kind = "a sheet in several files"
        cure = "Write the rows into one .csv or .xlsx file, and plan that."
        if sheet.is_table:
            kind = "a DataFrame" if sheet.is_frame else "a file of records (JSON, Parquet)"
        raise SheetError(
            f"{sheet.source}: the failed rows of {kind} cannot be written into a workbook",
            hint=f"The report has the outcome of each row. {cure}",
        )
    source = load_unchanged(sheet, _SEE_REPORT)
    check_other_path(path, source)
    results = report.by_row()
    wanted = sorted(row for row, result in results.items() if result.outcome in FAILED)
    left = [result for result in report.iter_worst() if result.row not in {*wanted}]
    found = FailedRows(
        path=path if wanted else None,
        rows=len(wanted),
        unsent=sum(each.outcome == "not sent" for each in left) + report.plan.left_out,
        unknown=sum(each.outcome == "unknown" for each in left),
        pets=sum(each.row is None and each.outcome in FAILED for each in left),
    )
    if not wanted:
        return found
    backup = back_up(path)
    content = _Excerpt(sheet, report, wanted, advice, source, statuses).content()
    write_atomically(path, content, like=sheet.source, error=SheetError)
    return replace(found, backup=backup)


@dataclass(frozen=True, slots=True)
class _Excerpt:
    """The rows `wanted` of a sheet, as the content of a workbook."""

    sheet: Sheet
    report: Report
    wanted: Sequence[int]
    advice: Mapping[int, Sequence[Advice]]
    source: Source
    statuses: Sequence[str]

    def content(self) -> bytes:
        """Return the workbook with its comments."""
        grid = read_grid(
            self.source,
            self.sheet.tab or None,
            self.sheet.mapping,
            {each.address: each.after for each in self.sheet.corrections},
            self.sheet.base,
        )
        columns = self._columns(grid)
        base = self._base()
        source_rows = self._source_rows(columns, Vocabulary(base.rows))
        columns[ORIGINAL_ROW] = [*source_rows]
        base = replace(base, source_rows=source_rows)
        held = {
            n: [Advice(ACTION, "fix", "The row is not sent while this cell has a question mark.")]
            for n in self._find_released(columns, base)
        }
        for n in held:
            column = columns.setdefault(ACTION, [""] * len(self.wanted))
            was = f"write {column[n]!r} here again" if column[n] else "clear this cell"
            held[n] = [replace(held[n][0], suggestion=f"Fix the row, and {was}.")]
            column[n] = _MARK
        return self._annotated(columns, self._workbook(columns, base), held)

    def _columns(self, grid: Grid) -> dict[str, list[str]]:
        """Return the texts of the rows by column, with the ids and actions that the run gave
        them.
        """
        positions = {row: n for n, row in enumerate(grid.rows.tolist())}
        at = [positions[row] for row in self.wanted]
        places = {place: n for n, place in enumerate(grid.places)}
        headers = {name: places[place] for name, place in self.sheet.columns.items()}
        dropped = {*own_results(headers), ORIGINAL_ROW}
        order = sorted(headers.items(), key=lambda each: each[1])
        columns = {
            name: grid.columns[n].text.take(at).to_pylist()
            for name, n in order
            if name not in dropped
        }
        edits = id_edits(self.sheet, self.report)
        for n, row in enumerate(self.wanted):
            for name, text in edits.of(row).items():
                columns.setdefault(name, [""] * len(self.wanted))[n] = text
        return columns

    def _source_rows(
        self, columns: Mapping[str, Sequence[str]], vocabulary: Vocabulary
    ) -> dict[str, SourceRow]:
        """Return where each row is from, by the text of its cell of ORIGINAL_ROW, in the order of
        the rows. For a row that was itself a copy, this is the place from which it was first
        copied.
        """
        sheet, plan = self.sheet, self.report.plan
        earlier, places = find_source_rows(sheet), slots_of(sheet)
        keys = {row: str(sheet.others.at[row, ORIGINAL_ROW]).strip() for row in earlier}
        usable = [row for row in self.wanted if row in sheet.rows.index]
        pets = read_row_pets(sheet, usable, vocabulary)
        categories = read_row_categories(sheet, pets)
        actions = actions_of(sheet, self.wanted)
        doubts = _find_doubts(plan)
        found: dict[str, SourceRow] = {}
        for n, row in enumerate(self.wanted):
            above, below = places.get(row, (None, None))
            origin = earlier.get(row) or SourceRow(
                source=sheet.source,
                tab=sheet.tab,
                digest=sheet.digest,
                base="" if sheet.base is None else sheet.base.taken_at,
                row=row,
                above=above,
                below=below,
                action=actions.get(row, ""),
                row_pet=pets.get(row),
                category=categories.get(row),
            )
            key = keys.get(row, str(row))
            while key in found or (row not in earlier and key in keys.values()):
                key += "*"
            text = columns["id"][n] if "id" in columns else ""
            found[key] = msgspec.structs.replace(
                origin,
                started=self.report.started,
                pet_id=int(text) if text.isdecimal() else sheet.blocked_pets.get(row),
                may_be=doubts.get(row, ()) if not text.strip() else (),
            )
        return found

    def _base(self) -> Base:
        """Return the base of the rows: the sheet's, with what the run sent; without one, the pets
        as the store had them when the run was planned.
        """
        plan, own = self.report.plan, self.sheet.base
        base = None
        if own is not None and plan.base and own.store == plan.store:
            base = advance_base(self.sheet, self.report)
        if base is None:
            base = Base(
                pets=PetTable(SCHEMA.empty_table()), store=plan.store, taken_at=self.report.started
            ).with_pets(list(self._pets_before()))
        ids = {*self.sheet.blocked_pets.values(), *self._known_ids()}
        return replace(
            base.without(base.ids - ids),
            taken_at=self.report.started,
            tab=_TAB,
            source_rows={},
            owners={str(unit): owner for unit, owner in plan.options.owners.items()},
            match_on=plan.options.match_on,
        )

    def _pets_before(self) -> Iterable[Pet]:
        wanted = {*self.wanted}
        for result in self.report.results:
            if result.row in wanted and result.kind in ("update", "delete"):
                before = self.report.plan.changes[result.number].before
                if before is not None and not result.is_in_store:
                    yield before

    def _known_ids(self) -> Iterable[int]:
        rows = self.sheet.rows
        yield from ids_of(rows.loc[rows.index.isin(self.wanted)])
        for row, result in self.report.by_row().items():
            if row in self.report.plan.recognised:
                yield self.report.plan.recognised[row]
            if result.assigned_id is not None:
                yield result.assigned_id

    def _find_released(self, columns: Mapping[str, Sequence[str]], base: Base) -> list[int]:
        """Return the positions of the rows that a plan of the workbook would send although nobody
        has fixed them. Such a row has a number that a program has rounded: in the workbook it is
        text, which is not an error. Or the row matches several pets by the run's `match_on`, which
        the plan may not have.
        """
        grid = read_grid(
            Source(Path("x.xlsx"), "workbook", self._workbook(columns, base)), _TAB, {}
        )
        known = frozenset(base.rows["status"].dropna())
        sheet = validate_grid(grid, Origin(""), {}, (self.statuses, known), base=base)
        numbers, blocked = {*self.sheet.blocked}, {row - 2 for row in sheet.blocked}
        matched = {
            each.row for each in self.report.plan.conflicts if each.rule == "matches-several"
        }
        return [
            n
            for n, row in enumerate(self.wanted)
            if row in matched or (row in numbers and n not in blocked)
        ]

    def _workbook(self, columns: Mapping[str, Sequence[str]], base: Base) -> bytes:
        # openpyxl and the modules for workbooks are loaded only when a workbook is written.
        from petsync.sheets import exact
        from petsync.sheets.xlsx.write import hide_lines, lay_out_texts, name_base, rows_xml
        from petsync.workbook import bulk_workbook

        with bulk_workbook() as bulk:
            tab = bulk.book.create_sheet(_TAB)
            styles = lay_out_texts(tab, columns)
            hide_lines(bulk.book, BASE_TAB, [base_notice(base), *base.to_lines()])
            name_base(bulk.book)
            canonical = {name: texts for name, texts in columns.items() if name in OUT}
            if "id" in canonical and (lines := exact.exact_lines(canonical)):
                hide_lines(bulk.book, exact.TEXTS_TAB, lines)
            bulk.add_rows(
                tab,
                rows_xml(columns, styles, repeat(""), _CORRECT_SHEET),
                columns=len(columns),
                texts=f"A2:{letter(len(columns) - 1)}{len(self.wanted) + 1}",
            )
            file = io.BytesIO()
            bulk.save(file)
            return file.getvalue()

    def _annotated(
        self, columns: Mapping[str, object], data: bytes, more: Mapping[int, Sequence[Advice]]
    ) -> bytes:
        from petsync.sheets.xlsx.annotate import annotate_workbook

        letters = {name: letter(n) for n, name in enumerate(columns)}
        first = letters.get("name", "A")
        findings = [
            Finding(
                address=cell_address(_TAB, letters.get(each.column, first), n + 2),
                row=n + 2,
                column=each.column,
                severity="error",
                rule=each.rule,
                value="",
                problem=each.problem,
                suggestion=each.suggestion,
            )
            for n, row in enumerate(self.wanted)
            for each in (*self.advice.get(row, ()), *more.get(n, ()))
        ]
        workbook = Source(self.source.path, "workbook", data)
        return annotate_workbook(workbook, _TAB, findings, ".xlsx").data


def _find_doubts(plan: Plan) -> dict[int, tuple[int | tuple[str, int], ...]]:
    """Return, by row number, the pets to which rows in conflict may belong."""
    doubts = {row: slot.may_be for row, slot in plan.slots.items() if slot.may_be}
    for conflict in plan.conflicts:
        if conflict.row is not None and conflict.pet_id is not None:
            doubts.setdefault(conflict.row, (conflict.pet_id,))
    return doubts
