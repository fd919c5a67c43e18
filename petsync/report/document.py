"""Documents: a view turns a value into a document; a renderer turns it into text, HTML or Markdown.

A view orders the blocks for a terminal, where readers see the end of the output first. HTML and
Markdown move the summary and the alerts to the top. Texts are plain and of any length: the
renderers escape, wrap and shorten them, and make invisible characters visible. A part between
backticks is a command or a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, overload

import msgspec
from msgspec.structs import replace

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
    "reword",
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
"""What a column contains. A `kind` column has badges, which replace the marks of the rows. In a
terminal's grid, the text of a `below` column is shown below its row, and an `extra` column is left
out.
"""


class _Part(msgspec.Struct, frozen=True):
    """A part of a document. Not a dataclass, because classes of msgspec are created faster."""


class Badge(_Part, frozen=True):
    """A status: its sign and its title, in the colour of its mark."""

    sign: str
    title: str
    mark: Mark


Cell = str | Badge | Sequence[str]
"""A text, a status, or several paragraphs."""


class Summary(_Part, frozen=True):
    """The sentence that states the result. A terminal shows it in the colour of `mark`."""

    text: str
    mark: Mark | None = None


class Note(_Part, frozen=True):
    """A paragraph."""

    text: str
    tone: Tone = ""
    mark: Mark | None = None


class Alert(_Part, frozen=True):
    """A problem, or another important message."""

    title: str
    lines: Sequence[str] = ()
    is_refusal: bool = False
    """Whether it is an error instead of a warning."""
    more: int = 0
    """The number of lines that are left out."""
    has_paths: bool = False
    """Whether the lines contain paths. Users copy paths, so a terminal avoids breaking them."""


class Facts(_Part, frozen=True):
    """Names with their values."""

    pairs: Sequence[tuple[str, str]]


class Snippets(_Part, frozen=True):
    """Commands or paths for users to copy. Each of the `lines` is the purpose of a command and the
    command, or "" and a path.
    """

    title: str
    lines: Sequence[tuple[str, str]]
    more: str = ""
    """A text about the lines that are left out; "" for none."""


class Column(_Part, frozen=True):
    """A column of a table. Its role decides how its cells are shown."""

    title: str
    role: Role = "what"


class Row(_Part, frozen=True):
    """A row of a table: a cell for each column."""

    cells: Sequence[Cell]
    mark: Mark | None = None
    tone: Tone = ""
    kind: str = ""
    """For a total of a kind of records, the kind's name, so that HTML can link to the records; else
    "".
    """


class Table(_Part, frozen=True):
    """Rows of cells.

    In a terminal, the layouts `grid` and `totals` have aligned columns; in the layout `lines`, each
    row is a sentence: `place, change of pet 7 (Rex): what`. HTML leaves out empty columns of
    `lines`, and a page can show `totals` as tiles.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    layout: Layout = "lines"
    has_titles: bool = False
    """Whether a terminal shows the column titles of a grid."""
    more: str = ""
    """A text about the rows that are left out; "" for none."""


class ComparisonRow(_Part, frozen=True):
    """A field with its value on each side. A value is a sequence of printable texts: the items of a
    list, or one text.
    """

    name: str
    sides: Sequence[Sequence[str]]
    strong: int | None = None
    """The index of the side to emphasise."""
    reason: str = ""


class Comparison(_Part, frozen=True):
    """Fields with their values on several sides, such as sheet and store. A missing value is the
    item `-`.
    """

    sides: Sequence[str]
    rows: Sequence[ComparisonRow]


class Details(_Part, frozen=True):
    """Blocks under a title. Readers of HTML can collapse them."""

    title: str
    blocks: Sequence[Block]
    is_open: bool = True
    aside: str = ""
    """A text that HTML shows after the title."""
    mark: Mark | None = None
    is_extra: bool = False
    """Whether a terminal leaves out the part."""
    is_urgent: bool = False
    """Whether HTML and Markdown show the part above the other parts."""
    badge: Badge | None = None
    """A status, such as that of a job. HTML shows a part with a status as a card."""


class Figure(_Part, frozen=True):
    """A plot, and a sentence that describes it to readers who cannot see it."""

    name: str
    """An identifier that is unique in the document."""
    title: str
    text: str
    svg: str
    """The plot: an `<svg>` element, described by the element with the id `NAME-description`."""
    legend: Sequence[tuple[str, str]] = ()
    """Signs, as `<svg>` elements or "", with their meanings."""


class Figures(_Part, frozen=True):
    """Plots side by side. Only a page shows them; other formats show their sentences."""

    figures: Sequence[Figure]


UNITS: tuple[SheetColumn, ...] = ("name", "status", "category", "tags", "photo_urls")
"""The columns under which changes are shown. `category` also stands for `category_id`."""

Value = str | tuple[str | int, ...]
"""A text; or the items of a list and, if some are left out, their number at the end."""
Field = (
    tuple[int, Value]
    | tuple[int, str, str]
    | tuple[int, Value, Value]
    | tuple[int, Value, Value, Value]
)
"""An index in `UNITS`, followed by one of these:

- the value, for a new or deleted pet
- the values before and after
- the added and the removed items of a list
- for a clash, the values in the export, the sheet and the store

If only the order of photo URLs changed, the values before and after are their numbered items, one
per line. An empty value is "" or ().
"""


class Record(msgspec.Struct, array_like=True, frozen=True):
    """A change, a conflict, a row that needs fixing, a note, a result of a run, or a picture.
    Its texts are printable. Only a conflict can have a `winner`, which is `sheet` or `store`.
    """

    kind: int
    """The index of its kind in `Records.kinds`."""
    pet_id: str
    name: str
    where: str
    fields: tuple[Field, ...] = ()
    message: str = ""
    cure: str = ""
    winner: str = ""


class RowKind(NamedTuple):
    """A kind of records: its name in links (`#kind=NAME`), its title, its mark, and the maximum
    number of its rows that a page shows without JavaScript.
    """

    name: str
    title: str
    mark: Mark
    first: int = 20


T = TypeVar("T")


class MappedRecords(_Part, Generic[T], frozen=True):
    """Records that `make` creates from `things` during iteration."""

    things: Sequence[T]
    make: Callable[[T], Record]

    def __iter__(self) -> Iterator[Record]:
        return map(self.make, self.things)

    def __len__(self) -> int:
        return len(self.things)


class _SizedRecords(Sized, Iterable[Record], Protocol):
    """An iterable of records with a length."""


class Records(_Part, frozen=True):
    """Records, one below the other. Columns that are empty in all records may be left out."""

    rows: _SizedRecords
    kinds: Sequence[RowKind]
    more: int = 0
    """The number of records that are left out."""
    kind_title: str = "Kind"
    advice: str = ""
    """How to see all records: an instruction that can end a sentence."""
    has_tools: bool = False
    """Whether a page shows the records with filters, sorting, search and pagination."""


Block = Summary | Note | Alert | Facts | Snippets | Table | Comparison | Details | Figures | Records


class Document(_Part, frozen=True):
    """A value as blocks under a title, which may be empty. Render a document only once: its blocks
    may come from a generator.
    """

    title: str
    blocks: Iterable[Block]
    badge: Badge | None = None
    """The status of the value."""


@overload
def reword(part: Document, change: Callable[[str], str]) -> Document: ...
@overload
def reword(part: object, change: Callable[[str], str]) -> Any: ...
def reword(part: object, change: Callable[[str], str]) -> Any:
    """Return the document, or a part of it, with its sentences changed. For a record, these are the
    message and the advice.
    """
    if isinstance(part, str):
        return change(part)
    if isinstance(part, Record):
        return replace(part, message=change(part.message), cure=change(part.cure))
    if isinstance(part, MappedRecords):
        return MappedRecords(part.things, lambda thing: reword(part.make(thing), change))
    if isinstance(part, Document):
        return replace(part, blocks=(reword(block, change) for block in part.blocks))
    if isinstance(part, _Part) and not isinstance(part, Badge | Column | Figures):
        texts = {name: reword(getattr(part, name), change) for name in part.__struct_fields__}
        return replace(part, **texts)
    if isinstance(part, list) or type(part) is tuple:
        return type(part)(reword(each, change) for each in part)
    return part


def error_alert(error: PetsyncError) -> Alert:
    """Return the error and its hint as an alert."""
    return Alert(error.problem, [error.cure] if error.cure else [])


def cell_text(cell: Cell) -> str:
    if isinstance(cell, Badge):
        return f"{cell.sign} {cell.title}"
    return cell if isinstance(cell, str) else " ".join(filter(None, cell))


def format_more(total: int) -> str:
    """Return `... and 1,240 more`; "" for 0."""
    return f"... and {number(total)} more" if total else ""


def format_title(part: Document | Details) -> str:
    """Return the title, followed by the status in brackets if there is one."""
    return f"{part.title} ({part.badge.title})" if part.badge else part.title


def fold_limit(limit: int | None) -> int:
    """Return the number of rows above which a part is collapsed: 10 if there is a `limit`, else
    1,000.
    """
    return 10 if limit is not None else 1_000


def order_blocks(document: Document) -> list[Block]:
    """Return the blocks in the order of HTML and Markdown, which are read from the start: the
    summary, the alerts, then the other blocks. Urgent parts come before other parts.
    """
    blocks = list(document.blocks)
    parts = [block for block in blocks if isinstance(block, Details)]
    ordered = iter(sorted(parts, key=lambda part: not part.is_urgent))
    blocks = [next(ordered) if isinstance(block, Details) else block for block in blocks]
    return sorted(
        blocks,
        key=lambda block: 0 if isinstance(block, Summary) else 1 + (not isinstance(block, Alert)),
    )
