"""What a plan's rows say, as HTML. `assets/rows.js` makes the same for the rows of other pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from petsync.render import words
from petsync.render.marked import Piece, marked
from petsync.render.markup import bdi, element, prose, text
from petsync.render.records import KINDS, UNITS, Field, Kind, Record, Value

__all__ = ["NAMES", "badge", "line", "page_row", "what"]

NAMES: Mapping[Kind, str] = {
    "conflict": "Conflict",
    "blocked": "Blocked",
    "add": "Add",
    "update": "Change",
    "delete": "Delete",
}
_SIDES = ("As exported", "Sheet", "Store")
_WINS = {"store": "stays", "sheet": "is sent"}
_EMPTY = element("span", "(empty)", class_="ps-empty")
_ARROW = element("span", " &rarr; ", aria_hidden="true")


def page_row(record: Record, said: str = "") -> str:
    """The record as a row of the page's table; with something else (HTML) said of it, where that
    is given.
    """
    kind = KINDS[record.kind]
    shown = badge(words.SYMBOL[kind], NAMES[kind])
    return line(kind, shown, record.pet_id, record.name, said or what(record), record.where)


def badge(sign: str, title: str, *, kind: str = "") -> str:
    """A sign and what it stands for (texts); coloured by the row that it is in, or by its kind."""
    symbol = element("span", text(sign), class_="ps-sign", aria_hidden="true")
    return element("span", f"{symbol}{text(title)}", class_=f"ps-badge {kind}".rstrip())


def line(kind: str, shown: str, pet_id: str, name: str, said: str, where: str) -> str:
    """A row of a page's table: a badge (HTML), a pet, what there is to say of it (HTML), and where
    it stands in the sheet.
    """
    cells = (
        _cell("td", shown, "ps-kind"),
        _cell("td", bdi(pet_id), "ps-id"),
        _cell("th", bdi(name), "ps-name") if name else _cell("td", "", "ps-name"),
        _cell("td", said, "ps-what"),
        _cell("td", bdi(where), "ps-where"),
    )
    return element("tr", "".join(cells), class_=f"ps-{kind}", role="row")


def what(record: Record) -> str:
    """What is to happen, or why nothing is."""
    clashes = [field for field in record.fields if len(field) == 4]
    fields = [field for field in record.fields if len(field) != 4]
    return "".join(
        [
            element("p", prose(record.said)) if record.said else "",
            _clashes(clashes, record.winner) if clashes else "",
            element("p", prose(record.cure), class_="ps-cure") if record.cure else "",
            element("dl", "".join(map(_field, fields)), class_="ps-fields") if fields else "",
        ]
    )


def _cell(tag: str, inner: str, kind: str) -> str:
    if tag == "th":
        return element("th", inner, class_=kind, scope="row", role="rowheader")
    return element("td", inner, class_=kind, role="cell")


def _field(field: Field) -> str:
    name = element("dt", text(UNITS[field[0]]))
    return element("div", name + element("dd", _said(field)))


def _said(field: Field) -> str:
    values = field[1:]
    if len(values) == 1:
        return _held(values[0])
    before, after = values[0], values[1]
    if isinstance(before, str) and isinstance(after, str):
        return _change(before, after)
    come, gone = _items("ins", "+", "added", before), _items("del", "-", "removed", after)
    return element("ul", "".join([*come, *gone]), class_="ps-items")


def _held(value: Value) -> str:
    if isinstance(value, str):
        return bdi(value)
    return element("ul", "".join(_items("span", "", "", value)), class_="ps-items")


def _items(tag: str, sign: str, word: str, items: Value) -> Iterator[str]:
    for item in items:
        if isinstance(item, int):
            yield element("li", f"and {words.number(item)} more {word}".rstrip())
            continue
        signs = element("span", sign, class_="ps-sign", aria_hidden="true") if sign else ""
        told = _hidden(f"{word} ") if word else ""
        yield element("li", element(tag, signs + told + bdi(item), class_="ps-item"))


def _change(before: str, after: str) -> str:
    old, new = marked(before, after)
    left = element("span", _hidden("from ") + _value("del", old), class_="ps-old")
    right = element("span", _hidden("to ") + _value("ins", new), class_="ps-new")
    return left + _ARROW + right


def _value(tag: str, pieces: Iterable[Piece]) -> str:
    parts = [element(tag, text(part)) if is_marked else text(part) for part, is_marked in pieces]
    return element("bdi", "".join(parts)) if parts else _EMPTY


def _clashes(clashes: Iterable[Field], winner: str) -> str:
    heads = [element("th", "Field", scope="col"), *(_side(side, winner) for side in _SIDES)]
    body = "".join(_clash(clash, winner) for clash in clashes)
    inner = f"<thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody>"
    return element("table", inner, class_="ps-clash")


def _side(side: str, winner: str) -> str:
    if side.lower() != winner:
        return element("th", side, scope="col")
    return element("th", f"{side} {element('span', _WINS[winner], class_='ps-tag')}", scope="col")


def _clash(clash: Field, winner: str) -> str:
    texts = zip(_SIDES, clash[1:], strict=True)
    cells = (_clash_cell(str(value), side.lower() == winner) for side, value in texts)
    return element("tr", element("th", text(UNITS[clash[0]]), scope="row") + "".join(cells))


def _clash_cell(value: str, wins: bool) -> str:
    return element("td", bdi(value) if value else _EMPTY, class_="ps-wins" if wins else "")


def _hidden(words_: str) -> str:
    return element("span", words_, class_="ps-hidden")
