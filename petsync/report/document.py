"""Documents: what a view makes of a value, and what text and HTML are made from.

A view lists the blocks in the order of a terminal, where the end is seen first. HTML and Markdown
move the summary and the alerts to the top. Texts are plain and of any length: the renderers escape,
wrap and shorten them, and make invisible characters visible. A part between backticks is a command
or a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from petsync.errors import PetsyncError
from petsync.report.words import Mark, number
from petsync.table.columns import Column as SheetColumn

__all__ = [
    "UNITS",
    "Alert",
    "Badge",
    "Block",
    "Cell",
    "Column",
    "Comparison",
    "ComparisonRow",
    "Details",
    "Document",
    "Facts",
    "Field",
    "Figure",
    "Figures",
    "Layout",
    "MappedRecords",
    "Note",
    "Record",
    "Records",
    "Role",
    "Row",
    "RowKind",
    "Snippets",
    "Summary",
    "Table",
    "Tone",
    "Value",
    "cell_text",
    "error_alert",
    "fold_limit",
    "format_more",
    "format_title",
    "order_blocks",
]


Tone = Literal["", "quiet", "strong"]
Layout = Literal["grid", "lines", "totals"]
Role = Literal[
    "kind",
    "head",
    "number",
    "where",
    "id",
    "name",
    "change",
    "field",
    "value",
    "what",
    "below",
    "extra",
]
"""The kind of a column. `kind` has badges instead of the row's mark; in a terminal, `below` is
shown below the row of a grid, and `extra` is not shown.
"""


@dataclass(frozen=True, slots=True)
class Badge:
    """A status: its sign and its name, in the colour of its mark."""

    sign: str
    title: str
    mark: Mark


Cell = str | Badge | Sequence[str]
"""A text, a status, or several paragraphs."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The sentence that states the result, in the colour of `mark`."""

    text: str
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph."""

    text: str
    tone: Tone = ""
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """A problem, or another important message."""

    title: str
    lines: Sequence[str] = ()
    is_refusal: bool = False
    """Whether it is an error, not a warning: a long text repeats its title at the end."""
    more: int = 0
    """The number of lines that are left out."""
    has_paths: bool = False
    """Whether the lines have paths, which users copy: a terminal does not break them."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Snippets:
    """Purposes with their commands, or "" with a path. Each command or path is on one line, because
    users copy it.
    """

    title: str
    lines: Sequence[tuple[str, str]]
    more: str = ""
    """The number of lines that are left out, in words."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Its role decides where a terminal shows its cells, and how wide it is in
    HTML.
    """

    title: str
    role: Role = "what"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: a cell for each column."""

    cells: Sequence[Cell]
    mark: Mark | None = None
    tone: Tone = ""
    kind: str = ""
    """The kind of the records that the row counts, if it is a total on their page; else ""."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells. HTML leaves out the columns of `lines` that have no text.

    In a terminal, `grid` and `totals` have aligned columns. A page shows `totals` as tiles. In a
    terminal, each row of `lines` is a sentence, `place, change of pet 7 (Rex): what`.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    layout: Layout = "lines"
    has_titles: bool = False
    """Whether a terminal shows the titles of a grid."""
    more: str = ""
    """The number of rows that are left out, in words."""


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """A field with its value on each side, as the items of a list or one printable text."""

    name: str
    sides: Sequence[Sequence[str]]
    strong: int | None = None
    """The position of the side that is emphasised."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Fields with their values on several sides. A side without a value has the item `-`."""

    sides: Sequence[str]
    rows: Sequence[ComparisonRow]


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks under a title, which HTML can fold."""

    title: str
    blocks: Sequence[Block]
    is_open: bool = True
    aside: str = ""
    """A text after the title of the folded part."""
    mark: Mark | None = None
    is_extra: bool = False
    """Whether a terminal leaves out the part."""
    is_urgent: bool = False
    """Whether HTML and Markdown show the part above the other parts."""
    badge: Badge | None = None
    """The status of the part's subject, such as a job. With a badge, a page shows a card."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot, with its result in a sentence for readers who cannot see it."""

    name: str
    """An identifier that is unique in the document."""
    title: str
    text: str
    svg: str
    """The plot: an `<svg>` element, described by the element with the id `NAME-said`."""
    legend: Sequence[tuple[str, str]] = ()
    """Signs, as `<svg>` elements or "", with their meanings."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Plots side by side, which only a page shows; other formats have their sentences."""

    figures: Sequence[Figure]


UNITS: tuple[SheetColumn, ...] = ("name", "status", "category", "tags", "photo_urls")
"""The columns in which a change is shown. `category` includes `category_id`, which changes with the
name.
"""

Value = str | tuple[str | int, ...]
"""Text; or the items of a list, followed by the number of items left out."""
Field = (
    tuple[int, Value]
    | tuple[int, str, str]
    | tuple[int, Value, Value]
    | tuple[int, Value, Value, Value]
)
"""A unit's number and its value; or its values before and after, with the numbered items on
separate lines if only the order of a list changed; or the added and the removed items of a list;
or, for a clash, its values in export, sheet and store. An empty value is "" or ().
"""


class Record(msgspec.Struct, array_like=True, frozen=True):
    """A change, a conflict, a row that needs fixing, a note, a result of a run, or a picture.
    Invisible characters are replaced by their names. Only a conflict has a `winner`.
    """

    kind: int
    """The position of its kind in the kinds of the block."""
    pet_id: str
    name: str
    where: str
    fields: tuple[Field, ...] = ()
    message: str = ""
    cure: str = ""
    winner: str = ""


class RowKind(NamedTuple):
    """A kind of rows: its name in links (`#kind=NAME`), its title, its mark, and the number of its
    rows that a page shows without its script.
    """

    name: str
    title: str
    mark: Mark
    first: int = 20


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MappedRecords(Generic[T]):
    """The records of things, each made when it is rendered."""

    things: Sequence[T]
    make: Callable[[T], Record]

    def __iter__(self) -> Iterator[Record]:
        return map(self.make, self.things)

    def __len__(self) -> int:
        return len(self.things)


class _SizedRecords(Sized, Iterable[Record], Protocol):
    """Records whose number is known."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records, one below the other; the columns that are empty in all of them are left out."""

    rows: _SizedRecords
    kinds: Sequence[RowKind]
    more: int = 0
    """The number of records that are left out."""
    kind_title: str = "Kind"
    advice: str = ""
    """What to do to see all records: an instruction that ends a sentence."""
    has_tools: bool = False
    """Whether a page shows the records with filters, sorting, search and pagination."""


Block = Summary | Note | Alert | Facts | Snippets | Table | Comparison | Details | Figures | Records


@dataclass(frozen=True, slots=True)
class Document:
    """A value as blocks under a title, which may be empty. It is rendered once, and the blocks may
    be made while it is rendered.
    """

    title: str
    blocks: Iterable[Block]
    badge: Badge | None = None
    """The status of the value."""


def error_alert(error: PetsyncError) -> Alert:
    """Return the error and its hint as an alert."""
    return Alert(error.message, [error.hint] if error.hint else [])


def cell_text(cell: Cell) -> str:
    """Return the cell as one text."""
    if isinstance(cell, Badge):
        return f"{cell.sign} {cell.title}"
    return cell if isinstance(cell, str) else " ".join(filter(None, cell))


def format_more(total: int) -> str:
    """Return the number of things that are left out, in words; "" for 0."""
    return f"... and {number(total)} more" if total else ""


def format_title(part: Document | Details) -> str:
    """Return the title, with the status in brackets."""
    return f"{part.title} ({part.badge.title})" if part.badge else part.title


def fold_limit(limit: int | None) -> int:
    """Return the number of rows above which a part is collapsed: 10 if there is a `limit`, else
    1,000.
    """
    return 10 if limit is not None else 1_000


def order_blocks(document: Document) -> list[Block]:
    """Return the blocks in the order of HTML and Markdown, which are read from the start: the
    summary, the alerts, the others, with the urgent parts above the other parts.
    """
    blocks = list(document.blocks)
    parts = [block for block in blocks if isinstance(block, Details)]
    ordered = iter(sorted(parts, key=lambda part: not part.is_urgent))
    blocks = [next(ordered) if isinstance(block, Details) else block for block in blocks]
    return sorted(
        blocks,
        key=lambda block: 0 if isinstance(block, Summary) else 1 + (not isinstance(block, Alert)),
    )
