"""Apply the user's own rules to the rows of a sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.errors import SettingsError
from petsync.settings import find_nearest
from petsync.sheets.grid import Bools, CellKind, Cells, Grid
from petsync.sheets.headers import ACTION, Headers, fold_header
from petsync.sheets.validate.findings import Note, Notes
from petsync.sheets.validate.rows import list_places
from petsync.sheets.validate.text import nearest_choice
from petsync.table.columns import KIND_OF
from petsync.table.expressions import RuleColumn
from petsync.table.rules import RuleResult, SheetRule, describe, rule_code
from petsync.table.violations import Broken, evaluate, flat, list_column, with_nulls

__all__ = ["Checked", "Observed", "OwnRules", "RuleRows", "hash_texts"]


Hashes = npt.NDArray[np.uint64]

_NO_VALUE = (CellKind.ERROR, CellKind.UNCALCULATED)
"""The kinds of cells without a value, which `required` treats as blank."""
_AT_STORE = "it needs the store's pets: plan and reconcile apply it"
_FRAME_COLUMNS = ("column", "problem", "suggestion")


class Checked(NamedTuple):
    """The result of each rule, and a mask of the rows that an error at the header blocks, such as a
    missing column.
    """

    results: tuple[RuleResult, ...] = ()
    blocked: Bools | None = None


class RuleRows(NamedTuple):
    """The rows of a rule, for a sheet that is validated in parts."""

    active: Bools
    """A mask of the rows that the rule looked at."""
    known: Bools
    """A mask of those for which it has a result."""
    keys: Hashes | None = None
    """For a `unique` rule, a hash of each row's values; equal values have equal hashes."""


@dataclass(slots=True)
class Observed:
    """What the validation of a part of a sheet found about its rows, to find the rows of other
    parts that may have findings together with them.
    """

    ids: Any = None
    """The ids, an Int64 array."""
    without_id: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """A mask of the rows whose id is blank."""
    contents: Hashes | None = None
    """A hash of the texts in petsync's columns, except the id and the action; None if the sheet has
    no names.
    """
    first_filled: dict[int, int] = field(default_factory=dict)
    """The position of the first row with a value, by the position of each column without a header.
    """
    rules: dict[str, RuleRows] = field(default_factory=dict)
    """The results of the rules that ran, by name."""


def hash_texts(columns: Iterable[pa.Array], rows: int) -> Hashes:
    """Return a hash of the texts of each row; texts that differ only in case have equal hashes."""
    hashes = np.zeros(rows, np.uint64)
    for texts in columns:
        folded = pc.utf8_lower(texts).to_numpy(zero_copy_only=False)
        own = pd.util.hash_array(folded, categorize=False)
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + own
    return hashes


@dataclass(frozen=True, kw_only=True)
class OwnRules:
    """Applies rules to a grid whose columns are validated."""

    grid: Grid
    headers: Headers
    values: Mapping[str, Any]
    """The valid values of petsync's columns."""
    blank: Mapping[str, Bools]
    """Masks of the blank cells in petsync's columns."""
    cleared: Mapping[str, Bools]
    """Masks of the cells that empty their fields."""
    active: Bools
    """A mask of the rows that are pets and are used."""
    frame: Callable[[Bools], pd.DataFrame]
    """Returns the rows of a mask with all columns, for a `check`."""
    notes: Notes
    observed: Observed | None = None
    """Gets the rows that each rule looked at; None if nobody needs them."""
    _columns: dict[str, RuleColumn] = field(default_factory=dict, init=False)

    def apply(self, rules: Sequence[SheetRule]) -> Checked:
        """Note all violations of the rules."""
        blocked = np.zeros(len(self.grid.rows), dtype=bool)
        results = []
        for rule in rules:
            reason = self._skip(rule)
            missing = [] if reason else self._find_missing(rule)
            if missing:
                reason = f"the sheet has no column {missing[0]!r}"
                blocked |= self._note_missing(rule, missing)
            if reason:
                results.append(_result(rule, skipped=reason))
                continue
            active = self._select(rule)
            if rule.check is None:
                found = self._evaluate(rule, active)
            else:
                found, is_whole = self._check(rule, active)
                if is_whole and rule.severity == "error":
                    blocked |= active
            if self.observed is not None:
                keys = self._hash(rule) if rule.kind == "unique" else None
                self.observed.rules[rule.name] = RuleRows(active, found.known, keys)
            results.append(
                _result(
                    rule,
                    rows=int(active.sum()),
                    looked=int(found.known.sum()),
                    broken=int(found.rows.sum()),
                )
            )
        return Checked(tuple(results), blocked)

    def _skip(self, rule: SheetRule) -> str:
        if not rule.enabled:
            return "it is not enabled"
        return _AT_STORE if rule.applies_to == "store" else ""

    def _select(self, rule: SheetRule) -> Bools:
        """Return a mask of the rows that the rule looks at. A row that deletes its pet needs no
        valid values; only a condition on the action applies to it.
        """
        if rule.expression and ACTION in rule.parsed.columns:
            return self.active
        return self._kept

    @cached_property
    def _kept(self) -> Bools:
        deletes: Bools = np.asarray(self.values[ACTION] == "delete")
        return self.active & ~deletes

    # The columns.

    @cached_property
    def _names(self) -> Mapping[str, str]:
        """The sheet's own columns by their folded headers."""
        return {fold_header(name): name for name in reversed([*self.headers.others])}

    def _find_missing(self, rule: SheetRule) -> list[str]:
        return [name for name in rule.used_columns if self._find(name) is None]

    def _find(self, name: str) -> str | None:
        """Return the name of a column as the sheet has it; None if the sheet lacks it."""
        if name in KIND_OF:
            return name if name in self.values else None
        return name if name in self.headers.others else self._names.get(fold_header(name))

    def _note_missing(self, rule: SheetRule, missing: Sequence[str]) -> Bools:
        """Note the missing columns at the header, and return a mask of the rows to block."""
        none = np.zeros(len(self.grid.rows), dtype=bool)
        for name in missing:
            known = [*self.headers.columns, *self.headers.others]
            near = find_nearest(name, known)
            hint = f"Did you mean {near}?" if near else f"Its columns are {', '.join(known[:12])}."
            if rule.required:
                problem = f"The sheet has no column {name!r}, which must have a value in each row."
                # The message is about the cells of the column, not about the header.
                problem = f"{problem} {rule.message}".rstrip()
                self.notes.add(-1, "", Note(rule_code(rule), name, problem, hint))
            else:
                problem = f"The rule {rule.name!r} did not run: the sheet has no column {name!r}."
                self.notes.add(-1, "", Note("header-unchecked", name, problem, hint))
        is_blocking = rule.required and rule.severity == "error"
        return self._select(rule) if is_blocking else none

    def _column(self, name: str) -> RuleColumn:
        found = self._find(name) or name
        if found not in self._columns:
            self._columns[found] = self._read_column(found)
        return self._columns[found]

    def _read_column(self, name: str) -> RuleColumn:
        if name not in KIND_OF:
            cells = self.grid.columns[self.headers.others[name]]
            texts = cells.trim()
            blank = Cells(texts).utf8.is_empty
            return RuleColumn("cell", with_nulls(texts, blank), blank | _have_no_value(cells))
        none = np.zeros(len(self.grid.rows), dtype=bool)
        blank = self.blank.get(name, none) | self.cleared.get(name, none)
        values, kind = self.values[name], KIND_OF[name]
        if kind == "list":
            column = list_column(pd.DataFrame({name: values}, copy=False), name)
            return RuleColumn(kind, column.values, blank | (column.blank & ~self._is_invalid(name)))
        if kind == "number":
            return RuleColumn(kind, flat(pa.array(values, pa.int64(), from_pandas=True)), blank)
        texts = flat(pa.array(values, pa.large_string(), from_pandas=True))
        is_missing = np.asarray(texts.is_null())
        if name in self.headers.columns and (is_missing & ~blank).any():
            # The text of a cell that is not a valid value.
            texts = pc.coalesce(texts, self.grid.columns[self.headers.columns[name]].text)
        trimmed = Cells(texts.fill_null("") if texts.null_count else texts).trim()
        return RuleColumn(kind, with_nulls(trimmed, blank | Cells(trimmed).utf8.is_empty))

    def _hash(self, rule: SheetRule) -> Hashes:
        texts = (self._column(name).texts.fill_null("") for name in rule.used_columns)
        return hash_texts(texts, len(self.grid.rows))

    def _is_invalid(self, name: str) -> Bools:
        """Return a mask of the cells that have no valid value although they are not blank."""
        is_missing: Bools = np.asarray(pd.isna(self.values[name]))
        return is_missing & ~self.blank[name] & ~self.cleared[name]

    # Violations.

    def _evaluate(self, rule: SheetRule, active: Bools) -> Broken:
        found = evaluate(rule, self._column, active)
        for name, broken in found.by_column.items():
            column = self._find(name) or name
            rows = np.flatnonzero(broken)
            if not len(rows):
                continue
            notes = self._describe(rule, column, rows, found)
            for at, note in zip(rows.tolist(), notes, strict=True):
                self.notes.add(at, column, note)
        return found

    def _describe(
        self, rule: SheetRule, column: str, rows: np.ndarray[Any, Any], found: Broken
    ) -> Iterator[Note]:
        """Yield the notes of these rows' cells."""
        code, problem = rule_code(rule), describe(rule, is_list=KIND_OF.get(column) == "list")
        texts = self._texts_at(column, rows)
        if found.groups is not None:
            yield from self._describe_repeats(rule, column, rows, found.groups, texts)
        elif rule.values and KIND_OF.get(column) != "list":
            meant = {text: _find_meant(text, rule.values) for text in set(texts)}
            for text in texts:
                near = meant[text]
                hint = f"Did you mean {near}?" if near else ""
                yield Note(code, text, problem, hint, near or None)
        else:
            yield from (Note(code, text, problem) for text in texts)

    def _texts_at(self, column: str, rows: np.ndarray[Any, Any]) -> list[str]:
        position = self._position(column)
        if position is None:
            return [""] * len(rows)
        texts: list[str] = self.grid.columns[position].text.take(pa.array(rows)).to_pylist()
        return texts

    def _position(self, column: str) -> int | None:
        """Return the position of a column; None for the action of a sheet without this column."""
        return {**self.headers.others, **self.headers.columns}.get(column)

    def _describe_repeats(
        self,
        rule: SheetRule,
        column: str,
        rows: np.ndarray[Any, Any],
        groups: np.ndarray[Any, np.dtype[np.int64]],
        texts: Sequence[str],
    ) -> Iterator[Note]:
        members: dict[int, list[int]] = {}
        for at, group in zip(rows.tolist(), groups[rows].tolist(), strict=True):
            members.setdefault(group, []).append(at)
        position = self._position(column)
        place = "" if position is None else self.grid.places[position]
        what = "value is" if len(rule.used_columns) == 1 else "values are"
        for at, text in zip(rows.tolist(), texts, strict=True):
            same = members[int(groups[at])]
            # list_places shows the first ones, so the others need no address.
            others = [row for row in same[:12] if row != at]
            shown = [self.grid.address(place, int(self.grid.rows[row])) for row in others]
            where = list_places(shown, more=len(same) - 1 - len(shown))
            yield Note(rule_code(rule), text, rule.message or f"The same {what} also in {where}.")

    # Checks in Python.

    def _check(self, rule: SheetRule, active: Bools) -> tuple[Broken, bool]:
        """Note the violations of a check. Return them, and whether the whole sheet breaks it."""
        frame = self.frame(active)
        try:
            broken = _run_check(rule, frame)
        except SettingsError:
            raise
        except Exception as error:
            raise SettingsError(
                f"rule {rule.name!r}: its check failed: {type(error).__name__}: {error}"
            ) from error
        mask = np.zeros(len(active), dtype=bool)
        places = dict(zip(frame.index.tolist(), np.flatnonzero(active).tolist(), strict=True))
        for each in broken:
            if each.row is not None and each.row not in places:
                raise SettingsError(
                    f"rule {rule.name!r}: its check returned the row {each.row}, which it did not "
                    "get",
                    hint="Keep the index of the DataFrame, which has the numbers of the rows.",
                )
            self._note_check(rule, -1 if each.row is None else places[each.row], each)
            if each.row is None:
                mask |= active
            else:
                mask[places[each.row]] = True
        return Broken({"": mask}, active), any(each.row is None for each in broken)

    def _note_check(self, rule: SheetRule, at: int, found: _Violation) -> None:
        column = self._find(found.column) or "" if found.column else ""
        if not column and rule.columns:
            column = self._find(rule.marked_columns[0]) or ""
        value = found.value
        if not value and column and at >= 0:
            value = self._texts_at(column, np.array([at]))[0]
        problem = rule.message or found.problem or describe(rule)
        self.notes.add(at, column, Note(rule_code(rule), value, problem, found.suggestion))


class _Violation(NamedTuple):
    """A violation of a check."""

    row: Any
    """The number of the row that breaks the check; None if the whole sheet does."""
    column: str = ""
    value: str = ""
    problem: str = ""
    suggestion: str = ""


def _run_check(rule: SheetRule, frame: pd.DataFrame) -> list[_Violation]:
    if hasattr(rule.check, "validate"):
        return [*_validate(rule.check, frame)]
    found = rule.check(frame.copy())
    if isinstance(found, pd.DataFrame):
        return [*_of_frame(found, [each for each in _FRAME_COLUMNS if each not in frame])]
    if isinstance(found, Iterable) and not isinstance(found, pd.Series | str):
        rows = [*found]
        if not any(isinstance(row, bool | np.bool_) for row in rows):
            with suppress(TypeError):
                return [_Violation(index(row)) for row in rows]
    raise SettingsError(
        f"rule {rule.name!r}: its check returned a value of the type {type(found).__name__}, "
        "which does not name rows",
        hint="Return the rows that break the rule: a DataFrame of pandas with the index that the "
        "check got, or a list of row numbers, which may be empty. For a mask, return "
        "rows.index[mask].",
    )


def _of_frame(found: pd.DataFrame, extra: Sequence[str]) -> Iterator[_Violation]:
    rows = found["row"] if "row" in found.columns else found.index
    texts = [
        found[name].astype(object).where(found[name].notna(), "").map(str).tolist()
        if name in found.columns and name in extra
        else [""] * len(found)
        for name in _FRAME_COLUMNS
    ]
    for row, column, problem, suggestion in zip(rows, *texts, strict=True):
        yield _Violation(_row_of(row), column, "", problem, suggestion)


def _row_of(label: Any) -> Any:
    """Return the number of a row; a label that is not a whole number stays as it is."""
    if isinstance(label, float | np.floating) and label.is_integer():
        return int(label)
    # None would be the whole sheet.
    return float("nan") if label is None else label


def _validate(schema: Any, frame: pd.DataFrame) -> Iterator[_Violation]:
    """Yield the violations of a pandera schema, which is not imported here."""
    try:
        validated = schema.validate(frame.copy(), lazy=True)
    except Exception as error:
        cases = getattr(error, "failure_cases", None)
        if not isinstance(cases, pd.DataFrame):
            raise
        yield from _of_failure_cases(cases, frame)
        return
    # A schema may drop invalid rows instead of reporting them.
    for row in frame.index.difference(validated.index):
        yield _Violation(int(row))


def _of_failure_cases(cases: pd.DataFrame, frame: pd.DataFrame) -> Iterator[_Violation]:
    names = {str(name) for name in frame.columns}
    # A check of whole rows has a case for each cell that is not missing.
    filled = cases["index"].map(frame.notna().sum(axis="columns"))
    sizes = cases.groupby(["index", "check"])["column"].transform("nunique")
    is_whole = (
        (cases["schema_context"] == "DataFrameSchema")
        & cases["check_number"].notna()
        & (sizes >= filled)
    )
    columns = (cases[name].tolist() for name in ("index", "column", "check", "failure_case"))
    seen = set()
    for row, column, check, case, is_row in zip(*columns, is_whole.tolist(), strict=True):
        number = None if pd.isna(row) else int(row)
        name = str(column) if str(column) in names and not is_row else ""
        if (number, name, check) in seen:
            continue
        seen.add((number, name, check))
        value = "" if not name or number is None or pd.api.types.is_list_like(case) else str(case)
        detail = f": {case}" if number is None else ""
        yield _Violation(number, name, value, f"The schema's check {check} failed{detail}.")


def _result(rule: SheetRule, **values: Any) -> RuleResult:
    return RuleResult(name=rule.name, severity=rule.severity, applies_to=rule.applies_to, **values)


def _have_no_value(cells: Cells) -> Bools:
    if cells.kinds is None:
        return np.zeros(len(cells), dtype=bool)
    return np.isin(cells.kinds, _NO_VALUE)


def _find_meant(text: str, values: Sequence[str]) -> str:
    folded = {value.casefold(): value for value in values}
    return folded.get(nearest_choice(text.strip().casefold(), folded)[0], "")
