"""Documents as HTML fragments and as pages."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from petsync.report.document import (
    UNITS,
    Badge,
    Block,
    Column,
    Details,
    Document,
    Field,
    Figures,
    Record,
    Records,
    Row,
    RowKind,
    Summary,
    Table,
    Value,
    format_more,
    order_blocks,
)
from petsync.report.textdiff import Piece, mark_differences
from petsync.report.words import SYMBOL, capital, number, shorten
from petsync.table.cells import make_visible

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "FRAGMENT_STYLE",
    "TABLE_SCRIPTS",
    "asset",
    "bdi",
    "blocks_html",
    "document_html",
    "document_page",
    "element",
    "record_html",
    "records_html",
    "source_hash",
    "style",
    "text",
]


# Inline styles and scripts of a page, and the hashes that allow only these.


@cache
def asset(name: str) -> str:
    """Return the text of a file in the `assets` folder, after a line break."""
    return "\n" + files(__package__).joinpath("assets", name).read_text("utf-8")


def style(name: str) -> str:
    """Return the asset in a `<style>` element."""
    return f"<style>{asset(name)}</style>"


def source_hash(name: str) -> str:
    """Return the hash with which a content security policy allows this style or script."""
    digest = hashlib.sha256(asset(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


# HTML elements.


FRAGMENT_STYLE = "blocks.css"
TABLE_SCRIPTS = ("dom.js", "table.js", "page.js")
"""The scripts for filtering, sorting, searching and paginating the rows of a page."""
_MAX_TEXT_CELLS = 2_000
"""The maximum length of one text, in cells of a terminal."""
_MARK_TITLE = '<span class="ps-hidden">Kind</span>'


def text(value: str) -> str:
    """Return the escaped text, shortened, with invisible characters made visible."""
    return escape(_visible(value))


def element(tag: str, inner: str, **attributes: str) -> str:
    """Return the element with this content, which must be HTML. In attribute names, a trailing `_`
    is removed and any other `_` becomes `-`. An attribute with an empty value is omitted.
    """
    attribute_text = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(v)}"'
        for name, v in attributes.items()
        if v
    )
    return f"<{tag}{attribute_text}>{inner}</{tag}>"


def bdi(value: str) -> str:
    """Return the text, isolated so that its direction does not affect the text around it."""
    return f"<bdi>{text(value)}</bdi>"


# Documents as HTML, with the templates in the `assets` folder.


def document_html(document: Document) -> str:
    """Return the document as an HTML fragment with its style, for a notebook's cell."""
    return style(FRAGMENT_STYLE) + "\n" + _fragment(document.title, order_blocks(document))


def blocks_html(*blocks: Block) -> str:
    """Return the blocks, in the given order, as an HTML fragment without a style. The page needs
    `FRAGMENT_STYLE`.
    """
    return _fragment("", blocks)


def _fragment(title: str, blocks: Sequence[Block]) -> str:
    return _render("fragment.html", title=title, blocks=blocks)


_STYLES = (FRAGMENT_STYLE, "page.css")


def document_page(value: Document, heading: str) -> str:
    """Return the document as a complete HTML page with this heading, which is plain text. The page
    is light or dark, as the reader prefers.

    The page loads nothing. Its content security policy allows only the page's styles and scripts,
    by their hashes, and prevents scripts from turning text into markup.
    """
    blocks = order_blocks(value)
    inner = list(_flatten(blocks))
    has_rows = any(isinstance(block, Records) and block.has_tools for block in inner)
    scripts = TABLE_SCRIPTS if has_rows else ()
    return _render(
        "page.html",
        title=value.title,
        heading=heading,
        status=value.badge,
        top=[block for block in blocks if isinstance(block, Summary)],
        blocks=[block for block in blocks if not isinstance(block, Summary)],
        has_rows=has_rows,
        has_figures=any(isinstance(block, Figures) for block in inner),
        policy=_format_policy(scripts),
        styles=list(map(asset, _STYLES)),
        scripts=list(map(asset, scripts)),
    )


def _format_policy(scripts: Sequence[str]) -> str:
    rules = [
        "default-src 'none'",
        f"style-src {' '.join(map(source_hash, _STYLES))}",
        *([f"script-src {' '.join(map(source_hash, scripts))}"] if scripts else []),
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return "; ".join(rules)


def _flatten(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from _flatten(block.blocks)


def _render(template: str, **values: object) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    """Return the environment of the templates. jinja2 is imported only when it is needed."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda name: asset(name).lstrip()),
        autoescape=True,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "capital": capital,
        "filled_columns": _find_filled_columns,
        "record_table": _record_table,
        "records": records_html,
        "more": format_more,
        "prose": lambda value: _Markup(_prose(value)),
        "kind": lambda block: type(block).__name__,
        "symbol": lambda mark: SYMBOL[mark] if mark else "",
        "visible": _visible,
    }
    return environment


def _visible(value: str) -> str:
    return shorten(make_visible(value), _MAX_TEXT_CELLS)


def _find_filled_columns(table: Table) -> list[int]:
    """Return the indexes of the columns to show: all of a grid, else those that are not empty."""
    return [
        n
        for n in range(len(table.columns))
        if table.layout in ("grid", "totals") or any(row.cells[n] for row in table.rows)
    ]


def _prose(value: str) -> str:
    """Return the escaped text, with `<code>` around parts between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(value))


class _Markup(str):
    """HTML, which templates do not escape again."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def _record_table(part: Records, has_badges: bool) -> Table:
    has_badges = has_badges and len(part.kinds) > 1
    rows = [
        _record_row(record, part.kinds[record.kind], has_badge=has_badges) for record in part.rows
    ]
    columns = [Column(part.kind_title, "kind"), *_RECORD_COLUMNS]
    return Table(columns if has_badges else _RECORD_COLUMNS, rows, more=format_more(part.more))


def _record_row(record: Record, kind: RowKind, *, has_badge: bool) -> Row:
    badges = [Badge(SYMBOL[kind.mark], kind.title, kind.mark)] if has_badge else []
    content = _Markup(record_html(record))
    return Row((*badges, record.pet_id, record.name, content, record.where), kind.mark)


_RECORD_COLUMNS = (
    Column("Id", "id"),
    Column("Pet", "name"),
    Column("What"),
    Column("Where", "where"),
)


# The description of a record. `assets/page.js` makes the same HTML in the browser.


_SIDES_CELL = ("Before", "Sheet", "Store")
_WINS_CELL = {"store": "stays", "sheet": "is sent"}
_EMPTY = element("span", "(empty)", class_="ps-empty")
_ARROW_CELL = element("span", " &rarr; ", aria_hidden="true")


def record_html(record: Record) -> str:
    """Return the description of a record: its message, clashes, advice and fields."""
    clashes = [field for field in record.fields if len(field) == 4]
    fields = [field for field in record.fields if len(field) != 4]
    return "".join(
        [
            element("p", _prose(record.message)) if record.message else "",
            _clashes(clashes, record.winner) if clashes else "",
            element("p", _prose(record.cure), class_="ps-cure") if record.cure else "",
            element("dl", "".join(map(_field, fields)), class_="ps-fields") if fields else "",
        ]
    )


def _field(field: Field) -> str:
    name = element("dt", text(UNITS[field[0]]))
    return element("div", name + element("dd", _field_value(field)))


def _field_value(field: Field) -> str:
    values = field[1:]
    if len(values) == 1:
        return _single_value(values[0])
    before, after = values[0], values[1]
    if isinstance(before, str) and isinstance(after, str):
        return _change_cell(before, after)
    added, removed = (
        _items_cell("ins", "+", "added", before),
        _items_cell("del", "-", "removed", after),
    )
    return element("ul", "".join([*added, *removed]), class_="ps-items")


def _single_value(value: Value) -> str:
    if isinstance(value, str):
        return bdi(value)
    return element("ul", "".join(_items_cell("span", "", "", value)), class_="ps-items")


def _items_cell(tag: str, sign: str, word: str, items: Value) -> Iterator[str]:
    for item in items:
        if isinstance(item, int):
            yield element("li", f"and {number(item)} more {word}".rstrip())
            continue
        signs = element("span", sign, class_="ps-sign", aria_hidden="true") if sign else ""
        hidden_word = _screen_reader_text(f"{word} ") if word else ""
        yield element("li", element(tag, signs + hidden_word + bdi(item), class_="ps-item"))


def _change_cell(before: str, after: str) -> str:
    old, new = mark_differences(before, after)
    listed = " ps-listed" if "\n" in before + after else ""
    left = _screen_reader_text("from ") + _value_cell("del", old)
    right = _screen_reader_text("to ") + _value_cell("ins", new)
    return (
        element("span", left, class_=f"ps-old{listed}")
        + _ARROW_CELL
        + element("span", right, class_=f"ps-new{listed}")
    )


def _value_cell(tag: str, pieces: Iterable[Piece]) -> str:
    # The parts are printable, and line breaks separate the items of a list whose order changed.
    parts = [
        element(tag, escape(part)) if is_marked else escape(part) for part, is_marked in pieces
    ]
    return element("bdi", "".join(parts)) if parts else _EMPTY


def _clashes(clashes: Iterable[Field], winner: str) -> str:
    heads = [element("th", "Field", scope="col"), *(_side(side, winner) for side in _SIDES_CELL)]
    body = "".join(_conflict_cell(clash, winner) for clash in clashes)
    inner = f"<thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody>"
    return element("table", inner, class_="ps-clash")


def _side(side: str, winner: str) -> str:
    if side.lower() != winner:
        return element("th", side, scope="col")
    return element(
        "th", f"{side} {element('span', _WINS_CELL[winner], class_='ps-tag')}", scope="col"
    )


def _conflict_cell(clash: Field, winner: str) -> str:
    texts = zip(_SIDES_CELL, clash[1:], strict=True)
    cells = (_clash_cell(value, side.lower() == winner) for side, value in texts)
    return element("tr", element("th", text(UNITS[clash[0]]), scope="row") + "".join(cells))


def _clash_cell(value: Value, wins: bool) -> str:
    return element(
        "td", _single_value(value) if value else _EMPTY, class_="ps-wins" if wins else ""
    )


def _screen_reader_text(words_: str) -> str:
    return element("span", words_, class_="ps-hidden")


# These characters are escaped in JSON, so that no text can end the `<script>` element.
_SCRIPT_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def records_html(part: Records) -> str:
    """Return the records as a table. Without `TABLE_SCRIPTS` it shows only the first rows of each
    kind, and has no filters, sorting, search or pagination.
    """
    data = {
        "kinds": [[kind.name, SYMBOL[kind.mark], kind.title, kind.mark] for kind in part.kinds],
        "units": UNITS,
        "rows": list(part.rows),
    }
    return _render(
        "rows.html",
        part=part,
        units=UNITS,
        columns=(Column(part.kind_title, "kind"), *_RECORD_COLUMNS),
        first_rows=list(_first_rows(part)),
        data=msgspec.json.encode(data).decode().translate(_SCRIPT_ESCAPES),
    )


def _first_rows(part: Records) -> Iterator[tuple[Row, str]]:
    """Yield the first rows of each kind, each with its HTML id. Links to a kind lead to the id of
    its first row; the id of other rows is "".
    """
    counts: Counter[int] = Counter()
    for record in part.rows:
        kind = part.kinds[record.kind]
        counts[record.kind] += 1
        if counts[record.kind] <= kind.first:
            target = f"kind={kind.name}" if counts[record.kind] == 1 else ""
            yield _record_row(record, kind, has_badge=True), target
