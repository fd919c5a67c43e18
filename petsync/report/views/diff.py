"""The views of the differences between two tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from petsync.plan.change import Blocked
from petsync.plan.differences import Differences, RowDifference
from petsync.report import words
from petsync.report.document import (
    UNITS,
    Block,
    Column,
    Details,
    Document,
    Facts,
    Field,
    MappedRecords,
    Note,
    Record,
    Records,
    Row,
    RowKind,
    Summary,
    Table,
    fold_limit,
)
from petsync.report.plan import NOTE_KINDS, record_of_note, record_text, value_of, values_of
from petsync.report.words import first, number

__all__ = ["diff_page_view", "diff_title", "diff_view", "kind_titles"]


_MARKS: dict[str, words.Mark] = {
    "conflict": "conflict",
    "differs": "update",
    "only-a": "delete",
    "only-b": "add",
    "a": "update",
    "a-added": "add",
    "a-removed": "delete",
    "b": "update",
    "b-added": "add",
    "b-removed": "delete",
}
_ORDER = [*_MARKS]
_BLOCKED = "blocked"
_MAX_OPEN = 20


def diff_view(found: Differences, *, limit: int | None = 20) -> Document:
    """Return the differences with the first `limit` rows of each kind; None shows all rows."""
    return Document("", _blocks(found, limit))


def diff_page_view(found: Differences) -> Document:
    """Return the differences with every row, for a page."""
    return Document("petsync diff", _page_blocks(found))


def diff_title(found: Differences) -> str:
    """Return the title of the page."""
    return f"{found.a} and {found.b}"


def kind_titles(found: Differences) -> dict[str, str]:
    """Return the title of each kind, in their order."""
    return {
        "conflict": "Conflict",
        "differs": "Differs",
        "only-a": f"Only in {found.a}",
        "only-b": f"Only in {found.b}",
        "a": f"Changed in {found.a}",
        "a-added": f"Added in {found.a}",
        "a-removed": f"Removed in {found.a}",
        "b": f"Changed in {found.b}",
        "b-added": f"Added in {found.b}",
        "b-removed": f"Removed in {found.b}",
        _BLOCKED: "Not compared",
    }


def _kinds(found: Differences) -> list[RowKind]:
    titles = kind_titles(found)
    kinds = [RowKind(kind, titles[kind], _MARKS[kind]) for kind in _ORDER]
    return [*kinds, RowKind(_BLOCKED, titles[_BLOCKED], "blocked")]


def _blocks(found: Differences, limit: int | None) -> Iterator[Block]:
    yield _summary(found)
    yield Facts([*_facts(found)])
    kinds, counts = _kinds(found), _counts(found)
    start = more = 0
    all_rows = _rows(found)
    for kind in _ORDER:
        total = counts.get(kind, 0)
        rows = all_rows[start : start + (total if limit is None else min(total, limit))]
        start += total
        more += total - len(rows)
        title = f"{kind_titles(found)[kind]}: {words.count(total, 'row')}"
        records = Records(MappedRecords(rows, partial(_record, found)), kinds, total - len(rows))
        yield from _part(title, records, total, limit, is_urgent=kind == "conflict")
    blocked = _blocked(found)
    shown = first(blocked, limit)
    records = Records(MappedRecords(shown.shown, _record_of_blocked), kinds, shown.more)
    title = f"Not compared, because of errors: {words.count(len(blocked), 'row')}"
    yield from _part(title, records, len(blocked), limit)
    yield from _notes(found)
    if more or shown.more:
        yield Note(
            "To see all of them: `--limit 0`, or `-o diff.html`; in Python found.to_frame().",
            "quiet",
        )


def _part(
    title: str, records: Records, total: int, limit: int | None, *, is_urgent: bool = False
) -> Iterator[Details]:
    if total:
        is_open = total <= (fold_limit(None) if limit is None else _MAX_OPEN)
        yield Details(title, [records], is_open=is_open, is_urgent=is_urgent)


def _notes(found: Differences) -> Iterator[Details]:
    if found.notes:
        records = Records(MappedRecords(found.notes, record_of_note), NOTE_KINDS)
        yield Details(words.count(len(found.notes), "note"), [records])


def _page_blocks(found: Differences) -> Iterator[Block]:
    yield _summary(found)
    counts = Counter(_counts(found))
    counts[_BLOCKED] = len(_blocked(found))
    tiles = [
        Row((kind.title, number(counts[kind.name])), kind.mark, "", kind.name)
        for kind in _kinds(found)
        if counts.get(kind.name)
    ]
    if tiles:
        yield Table((Column("What", "head"), Column("Rows", "number")), tiles, "totals")
    yield Facts([*_facts(found)])
    yield from _notes(found)
    records = [
        *map(partial(_record, found), _rows(found)),
        *map(_record_of_blocked, _blocked(found)),
    ]
    if records:
        yield Records(records, _kinds(found), has_tools=True)


def _summary(found: Differences) -> Summary:
    blocked = len(_blocked(found))
    counts, titles = _counts(found), kind_titles(found)
    parts = [
        f"{number(counts[kind])} {titles[kind][:1].lower()}{titles[kind][1:]}"
        for kind in _ORDER
        if counts.get(kind)
    ]
    if found.has_other_repeats:
        repeated = (found.a, found.repeated_a), (found.b, found.repeated_b)
        parts += [f"{number(len(rows))} repeated in {name}" for name, rows in repeated if rows]
    if not parts:
        parts = ["no differences"]
    parts += [f"{number(blocked)} not compared"] if blocked else []
    parts += [f"{number(found.same)} changed in the same way"] if found.same else []
    mark: words.Mark | None = "update" if found else "blocked" if blocked else None
    return Summary(f"{words.capital(', '.join(parts))}; {number(found.equal)} equal.", mark)


def _counts(found: Differences) -> Mapping[str, int]:
    """Return the number of rows in each list."""
    # Only differences with a base have rows that are listed under more than their kind.
    if found.base:
        return Counter(row.listed_as for row in found.rows)
    return {str(kind): number for kind, number in found.counts.items()}


def _rows(found: Differences) -> Sequence[RowDifference]:
    """Return the rows in the order of their lists; without a base, in the order of their kinds."""
    if not found.base:
        return found.rows
    return sorted(found.rows, key=lambda row: _ORDER.index(row.listed_as))


def _facts(found: Differences) -> Iterator[tuple[str, str]]:
    yield "A", f"{found.a} ({words.count(found.rows_a, 'row')})"
    yield "B", f"{found.b} ({words.count(found.rows_b, 'row')})"
    if found.base:
        yield "base", found.base


def _blocked(found: Differences) -> Sequence[tuple[str, Blocked]]:
    return [
        *((found.a, each) for each in found.blocked_a),
        *((found.b, each) for each in found.blocked_b),
    ]


def _record(found: Differences, row: RowDifference) -> Record:
    listed_as = row.listed_as
    is_one_sided = listed_as not in ("conflict", "differs", "a", "b")
    is_new = row.kind == "only-b" or row.missing == "base"
    fields: list[Field] = []
    for n, column in enumerate(UNITS):
        sides = row.values.get(column)
        if sides is not None and not is_one_sided:
            fields.append((n, *values_of(column, *sides)))
        elif sides is not None and column != "name":
            fields.append((n, value_of(column, sides[is_new])))
    others = [
        f"{column}: {_describe(sides, is_one_sided=is_one_sided)}"
        for column, sides in row.values.items()
        if column not in UNITS
    ]
    if row.base:
        base = ", ".join(f"{column} {text!r}" for column, text in row.base.items())
        lacking = {"a": found.a, "b": found.b}.get(row.missing)
        removed = f"The row was removed in {lacking}. " if lacking else ""
        others.append(f"{removed}In the base: {base}.")
    where = " / ".join(dict.fromkeys(filter(None, (row.where_a, row.where_b))))
    return Record(
        _ORDER.index(listed_as),
        "" if row.pet_id is None else str(row.pet_id),
        record_text(row.name or ("(no name)" if row.pet_id is None else "")),
        record_text(where),
        tuple(fields),
        record_text("; ".join(others)),
    )


def _describe(sides: tuple[str, str], *, is_one_sided: bool) -> str:
    if is_one_sided:
        return next(filter(None, sides), "")
    return " -> ".join(text or words.EMPTY for text in sides)


def _record_of_blocked(each: tuple[str, Blocked]) -> Record:
    side, row = each
    return Record(
        len(_ORDER),
        "" if row.pet_id is None else str(row.pet_id),
        record_text(side),
        record_text(row.source),
        message=record_text(row.problem),
    )
