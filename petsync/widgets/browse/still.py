"""A catalogue where nobody can press anything: its numbers, and the first pets."""

from __future__ import annotations

from rich.cells import cell_len

from petsync import _show
from petsync.errors import PetsyncError
from petsync.model import Pet
from petsync.render import markup
from petsync.render.visible import shorten, visible, wrap
from petsync.render.words import number
from petsync.widgets.catalogue import Catalogue, Places, row_of

__all__ = ["html", "text"]

_MOST = 10
_CODE = 'store.snapshot().frame; plan = store.edit(7, status="sold"); store.apply(plan)'
_HOW = "In a live notebook this is a form. In plain Python:"
_UNREAD = "The store is not read yet."
_COLUMNS = {"Id": "id", "Name": "name", "Status": "status", "Category": "category", "Tags": "tags"}
_WIDTHS = {"id": 8, "name": 22, "status": 10, "category": 12, "tags": 20}


def html(title: str, catalogue: Catalogue | PetsyncError | None, places: Places) -> str:
    """The form as an HTML fragment."""
    parts = [markup.element("h3", markup.text(title))]
    if not isinstance(catalogue, Catalogue):
        parts += [markup.element("p", markup.text(line)) for line in _why(catalogue)]
    else:
        pets = catalogue.pets(places[:_MOST])
        table = markup.table(list(_COLUMNS), map(_row, pets)) + _more(len(places) - len(pets))
        parts += [_show.as_html(catalogue.snapshot), markup.fragment([table])]
    code = markup.element("code", markup.text(_CODE))
    return "\n".join([*parts, markup.element("p", f"{markup.text(_HOW)} {code}")])


def text(title: str, catalogue: Catalogue | PetsyncError | None, places: Places) -> str:
    """The form as plain text of at most 80 columns."""
    lines = [title]
    if not isinstance(catalogue, Catalogue):
        lines += [line for said in _why(catalogue) for line in wrap(said, 80)]
    else:
        pets = catalogue.pets(places[:_MOST])
        lines += [_show.as_text(catalogue.snapshot), "", _line({v: k for k, v in _COLUMNS.items()})]
        lines += [_line(row_of(pet)["cells"]) for pet in pets]
        lines += [f"... and {number(more)} more"] if (more := len(places) - len(pets)) else []
    return "\n".join([*lines, "", _HOW, f"  {_CODE}"])


def _why(problem: PetsyncError | None) -> list[str]:
    if problem is None:
        return [_UNREAD]
    return [line for line in (problem.message, problem.hint) if line]


def _row(pet: Pet) -> str:
    cells = row_of(pet)["cells"]
    return markup.element("tr", "".join(markup.cell(cells[key]) for key in _COLUMNS.values()))


def _line(cells: dict[str, str]) -> str:
    told = (shorten(visible(cells[key]), width) for key, width in _WIDTHS.items())
    return "  ".join(
        part + " " * (width - cell_len(part))
        for part, width in zip(told, _WIDTHS.values(), strict=True)
    ).rstrip()


def _more(total: int) -> str:
    return markup.element("p", f"... and {number(total)} more") if total else ""
