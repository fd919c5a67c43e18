"""The rows that break a rule, by whole columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from petsync.table.arrow import list_items
from petsync.table.cells import BLANKS
from petsync.table.columns import KIND_OF
from petsync.table.expressions import Columns, RuleColumn, compose_text, full_match
from petsync.table.rules import SheetRule

__all__ = ["Broken", "columns_of_frame", "evaluate", "flat", "list_column", "with_nulls"]


Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Broken:
    """The rows that break a rule, as masks by column, and the rows for which it has a result."""

    by_column: dict[str, Bools]
    known: Bools
    groups: npt.NDArray[np.int64] | None = field(default=None)
    """For a `unique` rule, a number for each row; equal rows have equal numbers."""

    @property
    def rows(self) -> Bools:
        """A mask of the rows that break the rule."""
        mask: Bools = np.logical_or.reduce([*self.by_column.values()])
        return mask


def evaluate(rule: SheetRule, columns: Columns, active: Bools) -> Broken:
    """Return the `active` rows that break a rule other than a `check`. `columns` returns the
    columns that the rule uses, with one value for each row.
    """
    if rule.kind == "expression":
        truth = rule.parsed.evaluate(columns, len(active))
        known = np.asarray(truth.is_valid()) & active
        broken = known & ~np.asarray(pc.fill_null(truth, True))
        return Broken(dict.fromkeys(rule.marked_columns, broken), known)
    if rule.kind == "unique":
        return _find_repeats(rule, columns, active)
    by_column, all_known = {}, np.zeros(len(active), dtype=bool)
    for name in rule.used_columns:
        column = columns(name)
        kept, known = _TESTS[rule.kind](rule, column)
        by_column[name] = known & active & ~kept
        all_known |= known & active
    return Broken(by_column, all_known)


def _find_repeats(rule: SheetRule, columns: Columns, active: Bools) -> Broken:
    known = active.copy()
    read = [columns(name) for name in rule.used_columns]
    for column in read:
        known &= ~column.blank & np.asarray(column.values.is_valid())
    # The values of an encoded column are already counted.
    if any(column.is_distinct for column in sorted(read, key=lambda each: not each.is_encoded)):
        none = np.zeros(len(active), dtype=bool)
        return Broken({rule.used_columns[0]: none}, known, np.arange(len(active)))
    numbers, *others = (column.codes for column in read)
    for codes in others:
        pair = numbers * (int(codes.max(initial=0)) + 1) + codes
        numbers = pd.factorize(pair)[0].astype(np.int64)
    counts = np.bincount(numbers[known], minlength=int(numbers.max(initial=0)) + 1)
    broken = known & (counts[numbers] > 1)
    return Broken({rule.used_columns[0]: broken}, known, numbers)


def _mask(values: pa.Array) -> Bools:
    mask: Bools = np.asarray(pc.fill_null(values, False))
    return mask


def _test_required(rule: SheetRule, column: RuleColumn) -> tuple[Bools, Bools]:
    del rule
    return ~column.blank, np.ones(len(column.blank), dtype=bool)


def _test_items(test: Callable[[SheetRule, pa.Array, bool], pa.Array]) -> Any:
    """Return a test of a column. It applies `test` to the texts or, in a column of lists, to each
    item: all items of a list must pass.
    """

    def test_column(rule: SheetRule, column: RuleColumn) -> tuple[Bools, Bools]:
        known = np.asarray(column.values.is_valid())
        if column.kind != "list":
            return _mask(test(rule, column.texts, column.has_repeats)), known
        items = pc.list_flatten(column.values)
        owners = np.asarray(pc.list_parent_indices(column.values))
        kept = known.copy()
        kept[owners[~_mask(test(rule, items, True))]] = False
        return kept, known & (np.asarray(pc.list_value_length(column.values).fill_null(0)) > 0)

    return test_column


def _are_permitted(rule: SheetRule, texts: pa.Array, has_repeats: bool) -> pa.Array:
    del has_repeats
    values = pa.array([*map(compose_text, rule.values)], pa.large_string())
    return pc.is_in(texts, value_set=values)


def _are_matching(rule: SheetRule, texts: pa.Array, has_repeats: bool) -> pa.Array:
    if not has_repeats:
        return full_match(texts, rule.pattern)
    encoded = texts.dictionary_encode()
    return full_match(encoded.dictionary, rule.pattern).take(encoded.indices)


def _test_length(rule: SheetRule, column: RuleColumn) -> tuple[Bools, Bools]:
    is_list = column.kind == "list"
    sizes = pc.list_value_length(column.values) if is_list else pc.utf8_length(column.texts)
    known = np.asarray(sizes.is_valid()) & ~(column.blank & is_list)
    return _is_within(sizes.fill_null(0), rule.min_length, rule.max_length), known


def _test_range(rule: SheetRule, column: RuleColumn) -> tuple[Bools, Bools]:
    numbers = column.numbers
    known = np.asarray(numbers.is_valid())
    return _is_within(numbers.fill_null(0), rule.minimum, rule.maximum), known


def _is_within(values: pa.Array, least: float | None, most: float | None) -> Bools:
    numbers = values.to_numpy()
    kept = np.ones(len(numbers), dtype=bool) if numbers.dtype.kind != "f" else ~np.isnan(numbers)
    if least is not None:
        kept &= numbers >= least
    if most is not None:
        kept &= numbers <= most
    return kept


_TESTS: Mapping[str, Callable[[SheetRule, RuleColumn], tuple[Bools, Bools]]] = {
    "required": _test_required,
    "values": _test_items(_are_permitted),
    "pattern": _test_items(_are_matching),
    "length": _test_length,
    "range": _test_range,
}


# The columns of a DataFrame of pets.


def flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the values as one array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def null_if_blank(texts: pa.Array) -> pa.Array:
    """Return the texts with null instead of texts that have only whitespace."""
    is_blank = pc.equal(pc.utf8_trim(texts, characters=BLANKS), "")
    return pc.if_else(is_blank, pa.scalar(None, texts.type), texts)


def with_nulls(texts: pa.Array, blank: Bools) -> pa.Array:
    """Return the large strings with null for the `blank` ones, without copying the texts. The
    strings must not have nulls.
    """
    if not blank.any():
        return texts
    if texts.offset:
        return pc.if_else(pa.array(blank), pa.scalar(None, texts.type), texts)
    mask = pa.array(~blank).buffers()[1]
    return pa.Array.from_buffers(texts.type, len(texts), [mask, *texts.buffers()[1:]])


def list_column(rows: pd.DataFrame, name: str) -> RuleColumn:
    """Return a column of lists; an empty list is blank, too."""
    items, _ = list_items(rows, name)
    if items is None:
        return RuleColumn("list", pa.nulls(len(rows), pa.large_list(pa.large_string())))
    sizes = pc.list_value_length(items.names).fill_null(0)
    return RuleColumn("list", items.names, np.asarray(sizes) == 0)


def columns_of_frame(rows: pd.DataFrame) -> Columns:
    """Return the columns of pets, as in the rows of a snapshot. A missing column is blank."""

    @cache
    def column(name: str) -> RuleColumn:
        kind = KIND_OF[name]
        if kind == "list":
            return list_column(rows, name)
        of_kind = pa.int64() if kind == "number" else pa.large_string()
        if name not in rows:
            return RuleColumn(kind, pa.nulls(len(rows), of_kind))
        values = flat(pa.array(rows[name].array, of_kind, from_pandas=True))
        return RuleColumn(kind, values if kind == "number" else null_if_blank(values))

    return column
