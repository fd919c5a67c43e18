"""What a plan's page is worked with: filters, order, pages. Hidden until its script runs."""

from __future__ import annotations

from collections.abc import Iterator

from petsync.render.markup import element, text
from petsync.render.plan_cells import NAMES
from petsync.render.records import KINDS, UNITS, Kind
from petsync.render.words import SYMBOL

__all__ = ["head", "pager", "tools"]

_SORTED = (("kind", "Kind"), ("id", "Id"), ("name", "Pet"), ("", "What"), ("where", "Where"))
_SIZES = (25, 50, 100, 250)
_SIZE = 50
_STEPS = (("first", "First"), ("previous", "Previous"), ("next", "Next"), ("last", "Last"))


def tools() -> str:
    """The filters."""
    return element(
        "form",
        "".join([_kinds(), _fields(), _search()]),
        id="tools",
        class_="ps-tools",
        role="search",
        aria_label="Filter the rows",
        hidden="hidden",
    )


def head() -> str:
    """The table's head; the script makes what sorts into buttons."""
    cells = (
        element(
            "th",
            title,
            scope="col",
            role="columnheader",
            data_sort=key,
            class_=f"ps-{key or 'what'}",
        )
        for key, title in _SORTED
    )
    row = element("tr", "".join(cells), role="row")
    return element("thead", row, role="rowgroup")


def pager(place: str) -> str:
    """The buttons that turn pages; the upper ones come with how many rows there are."""
    inner = "".join(_pager(place))
    nav = element("nav", inner, aria_label=f"Pages, {place} the rows", class_="ps-pages")
    status = _status() if place == "above" else ""
    return element("div", status + nav, class_="ps-bar", hidden="hidden")


def _status() -> str:
    told = element("p", "", id="status", role="status")
    reset = element("button", "Show all", type="button", id="reset", hidden="hidden")
    return element("div", told + reset, class_="ps-status")


def _kinds() -> str:
    boxes = "".join(map(_kind, KINDS))
    return element("fieldset", element("legend", "Kind") + boxes, class_="ps-kinds")


def _kind(kind: Kind) -> str:
    box = f'<input type="checkbox" name="kind" value="{kind}">'
    name = NAMES[kind]
    sign = element("span", text(SYMBOL[kind]), class_="ps-sign", aria_hidden="true")
    count = element("span", "", class_="ps-count")
    return element("label", f"{box}{sign}{name} {count}", class_=f"ps-chip ps-{kind}")


def _fields() -> str:
    options = "".join(element("option", text(unit), value=unit) for unit in UNITS)
    select = f'<select id="field"><option value="">any</option>{options}</select>'
    return element("p", f'<label for="field">Changed field</label>{select}')


def _search() -> str:
    box = '<input type="search" id="text" autocomplete="off" spellcheck="false" '
    box += 'aria-describedby="hint">'
    hint = element("span", "id, name, value or cell", id="hint", class_="ps-hint")
    return element("p", f'<label for="text">Search {hint}</label>{box}', class_="ps-search")


def _pager(place: str) -> Iterator[str]:
    for step, title in _STEPS[:2]:
        yield _step(step, title)
    number = f'<input type="number" class="ps-page-number" id="page-{place}" min="1" value="1">'
    of = element("span", "", class_="ps-page-count")
    yield element("span", f'<label for="page-{place}">Page</label> {number} {of}')
    for step, title in _STEPS[2:]:
        yield _step(step, title)
    sizes = "".join(
        f"<option{' selected' if size == _SIZE else ''}>{size}</option>" for size in _SIZES
    )
    select = f'<select id="size-{place}" class="ps-size">{sizes}</select>'
    yield element("span", f'<label for="size-{place}">Rows a page</label> {select}')


def _step(step: str, title: str) -> str:
    return element("button", title, type="button", data_step=step)
