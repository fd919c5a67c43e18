"""The sheet form: open a spreadsheet, correct findings, and compare it with the store."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import lexists
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import ipywidgets

from petsync._files import PACKED, READABLE, ending_of
from petsync._sync import Task
from petsync.client.loaders import Lookups
from petsync.errors import LockedError, PetsyncError, SheetError
from petsync.plan.change import Snapshot
from petsync.plan.options import PlanKeywords
from petsync.plan.plan import Plan
from petsync.report.document import Document, Facts, Snippets, Summary, error_alert
from petsync.report.html import document_html, element, text
from petsync.report.textdiff import shorten_common
from petsync.report.views.plan import plan_view
from petsync.report.views.run import report_view
from petsync.report.views.sheet import sheet_facts, sheet_summary, sheet_view
from petsync.report.words import capital, count, shorten
from petsync.sheets import (
    EncodingError,
    HeaderNotFoundError,
    Peek,
    annotate_sheet,
    peek,
    write_corrected,
    write_sheet,
)
from petsync.sheets.results import as_path
from petsync.store import Store, checked_store
from petsync.table.cells import make_visible
from petsync.table.columns import COLUMNS, UNITS
from petsync.table.frame import unique_texts
from petsync.table.options import ReadKeywords
from petsync.table.sheet import Correction, Finding, Sheet, Suggestion
from petsync.widgets.components import (
    FILTERS_FROM,
    Files,
    Fold,
    Guarded,
    Meter,
    Pages,
    Row,
    Table,
    button,
    in_form,
    show,
    tick,
)
from petsync.widgets.form import Form, on_enter
from petsync.widgets.review_view import (
    MAX_LINKED_BYTES,
    MISSING_BOX,
    ONLY_STORE,
    TERM_OF_TWO_WAY,
    file_link,
)

if TYPE_CHECKING:
    from petsync.widgets.components import ReceivedFile
    from petsync.widgets.review import ReviewForm

__all__ = [
    "PAGE",
    "SUFFIXES",
    "Columns",
    "CorrectionTable",
    "FileChooser",
    "FindingsTable",
    "HeaderChoices",
    "Panel",
    "PlanChoices",
    "SaveForm",
    "SheetForm",
    "SheetView",
    "describe_plan",
    "describe_sheet",
    "export_workbook",
    "open_sheet",
    "read_sheet_view",
    "save_corrected",
    "save_marked",
]


# SheetView: a sheet with the facts about it that are slow to compute.


_UNCERTAIN = ("ragged-row", "broken-quote")
"""The rules of findings in rows whose cells may be in the wrong columns."""


@dataclass(frozen=True, slots=True)
class SheetView:
    """The sheet, its suggestions by address, and the addresses of the cells that a correction can
    fix.
    """

    sheet: Sheet
    suggestions: Mapping[str, Suggestion]
    fixable: frozenset[str]

    @classmethod
    def at(cls, sheet: Sheet) -> SheetView:
        return cls(
            sheet,
            {each.address: each for each in sheet.suggestions},
            frozenset(each.address for each in sheet.problems if _is_fixable(sheet, each)),
        )

    @property
    def sure(self) -> dict[str, str]:
        return {address: each.after for address, each in self.suggestions.items() if each.is_sure}


def read_sheet_view(
    store: Store,
    path: Path,
    options: ReadKeywords,
    *,
    digest: str = "",
) -> SheetView:
    """Read the sheet with these choices. Headers in `mapping` that the worksheet lacks are ignored.
    Raises SheetError if the file cannot be read, or no longer has the given digest.
    """
    try:
        sheet = store.aio.read(path, **options)
    except HeaderNotFoundError as error:
        # The columns were chosen for another worksheet.
        mapping = options.get("mapping") or {}
        rest = {name: mapped for name, mapped in mapping.items() if name not in error.missing}
        return read_sheet_view(store, path, {**options, "mapping": rest}, digest=digest)
    if digest and sheet.digest != digest:
        raise SheetError(
            f"{path}: the file has changed since it was read",
            hint="Open it again, and choose the corrections again: cells may have moved.",
        )
    return SheetView.at(sheet)


def _is_fixable(sheet: Sheet, finding: Finding) -> bool:
    return (
        finding.row != sheet.header_row
        and finding.column in sheet.columns
        and finding.rule not in _UNCERTAIN
    )


@dataclass(frozen=True, slots=True)
class HeaderChoices:
    """The headers whose meaning the user may choose, and the worksheets to choose from; `meant` has
    the likely meaning of a header, and `recognised` the columns that petsync recognises.
    """

    tab: str
    tabs: Sequence[str]
    headers: Sequence[str]
    meant: Mapping[str, str]
    recognised: frozenset[str] = frozenset()

    @classmethod
    def of_sheet(cls, sheet: Sheet) -> HeaderChoices:
        """The choices for a sheet that was read."""
        near = {
            finding.value: finding.meant
            for finding in sheet.problems
            if finding.rule in ("header-near-miss", "header-renamed") and finding.meant
        }
        from petsync.sheets.headers import own_results

        names = [str(name) for name in sheet.others.columns]
        numbers = {each.value for each in sheet.problems if each.rule == "header-numbers"}
        written = own_results(names) - numbers
        own = [name for name in names if name not in written]
        # Likely columns come first, because the form asks about only some headers if there are
        # many.
        headers = sorted(own, key=lambda name: name not in near)
        recognised = frozenset(name for name in sheet.columns if name not in own)
        return cls(sheet.tab, (sheet.tab, *sheet.tabs), headers, near, recognised)

    @classmethod
    def of_peek(cls, peek: Peek) -> HeaderChoices:
        """The choices for a file that could not be read."""
        return cls(peek.tab, peek.tabs, peek.headers, peek.meant)


# FileChooser: a file from the browser, or one on the notebook's machine.


SUFFIXES = (*(each for each in READABLE if not each.endswith(PACKED)), *PACKED)
_MAX_SHEET_BYTES = 1 << 30
_LISTED = 200
_NONE = "(choose one)"


class FileChooser:
    """The fields to choose a file, in `box`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = Files(
            label="Drop a spreadsheet here, or pick one",
            hint=(
                "Excel, OpenDocument, CSV, JSON or Parquet. A CSV that petsync exported has a "
                "second file beside it: open such a CSV by its path."
            ),
            accept=",".join(SUFFIXES),
            max_bytes=_MAX_SHEET_BYTES,
            way_out="Copy it to the machine that petsync runs on, and open it by its path.",
        )
        self.listed = ipywidgets.Dropdown(description="In this folder")
        self.path = ipywidgets.Text(
            description="Or its path", placeholder="catalogue.xlsx", continuous_update=False
        )
        self.open = button("Open", primary=True)
        self.export = button("Export a workbook")
        self.exported = ipywidgets.HTML()
        self.list()
        hint = element("p", text("No sheet yet? Export the catalogue, and edit it in Excel:"))
        self.box = ipywidgets.VBox(
            [
                self.files,
                self.listed,
                self.path,
                self.open,
                ipywidgets.HBox([ipywidgets.HTML(hint), self.export]),
                self.exported,
            ]
        )

    def list(self) -> None:
        """Show the sheets in the folder, the newest first."""
        self.listed.options = [(_NONE, ""), *((name, name) for name in _sheets(self.folder))]
        self.listed.value = ""

    @property
    def named(self) -> Path | None:
        """The file at the path, None if the field is empty."""
        text = self.path.value.strip()
        return self.folder / Path(text).expanduser() if text else None


def _sheets(folder: Path) -> list[str]:
    try:
        found = [each for each in folder.iterdir() if _is_sheet(each)]
        newest = sorted(found, key=lambda each: -each.stat().st_mtime)
    except OSError:
        return []
    return [each.name for each in newest[:_LISTED]]


def _is_sheet(path: Path) -> bool:
    is_lock = path.name.startswith(("~$", "."))
    # Saved plans are named .json too, so such a file is opened by its path.
    ending = ending_of(path)
    return ending in READABLE and ending != ".json" and not is_lock and path.is_file()


_EXPORT = "catalogue.xlsx"


async def export_workbook(store: Store, path: Path) -> str:
    """Return a link that contains a workbook with every pet. A workbook that is too large for the
    page is written to `path`, and its path is returned instead.

    Raises the errors of `Snapshot.require_whole`, and those of `write_sheet` for `path`.
    """
    aio = store.aio
    snapshot = await aio.snapshot()
    snapshot.require_whole()
    statuses = aio.api.session.profile.statuses
    return await asyncio.to_thread(_write_export, snapshot, path, statuses)


def _write_export(snapshot: Snapshot, path: Path, statuses: Sequence[str]) -> str:
    with tempfile.TemporaryDirectory(prefix="petsync-export-") as folder:
        draft = Path(folder) / path.name
        write_sheet(snapshot, draft, statuses=statuses)
        data = draft.read_bytes()
    label = f"It has {count(len(snapshot), 'pet')}."
    if len(data) > MAX_LINKED_BYTES:
        write_sheet(snapshot, path, statuses=statuses)
        label = f"It is {path}. {label}"
    return file_link(path.name, data, label)


# Columns: the worksheet to read, and the meaning of unknown headers.


_OURS = (*COLUMNS, "action")
_ASKED = 12
"""The maximum number of headers that the form asks about; other columns are not used."""
_ENCODINGS = (
    ("UTF-8", ""),
    ("Windows, Western Europe (cp1252)", "cp1252"),
    ("Windows, Central Europe (cp1250)", "cp1250"),
    ("Windows, Cyrillic (cp1251)", "cp1251"),
    ("Windows, Greek (cp1253)", "cp1253"),
    ("Windows, Turkish (cp1254)", "cp1254"),
    ("Macintosh (mac-roman)", "mac-roman"),
    ("Japanese (cp932)", "cp932"),
    ("Korean (cp949)", "cp949"),
    ("Chinese (gb18030)", "gb18030"),
    ("UTF-16 (utf-16)", "utf-16"),
    ("UTF-16, little-endian (utf-16-le)", "utf-16-le"),
    ("UTF-16, big-endian (utf-16-be)", "utf-16-be"),
    ("UTF-32 (utf-32)", "utf-32"),
)
_WORDS = (
    "petsync does not recognise these columns. It keeps them but does not use them unless you "
    "choose their meaning. It does not guess."
)
_NOTHING_KNOWN = "petsync recognises none of this sheet's headers: choose what its columns mean."


class Columns:
    """The choices of an encoding (if the file is not UTF-8), of a worksheet, and of the meaning of
    each unknown header, in `box`.
    """

    def __init__(self) -> None:
        self.encoding = ipywidgets.Dropdown(description="Encoding", options=_ENCODINGS)
        self._offered = ipywidgets.HTML()
        self._decoding = ipywidgets.VBox([self._offered, self.encoding])
        show(self._decoding, False)
        self.tab = ipywidgets.Dropdown(description="Worksheet")
        self.headers: dict[str, ipywidgets.Dropdown] = {}
        self.again = button("Read it with these columns")
        self._words = ipywidgets.HTML()
        self._chosen = ipywidgets.VBox()
        self.box = ipywidgets.VBox(
            [self._decoding, self.tab, self._words, self._chosen, self.again]
        )
        self.show(HeaderChoices("", (), (), {}), {})

    @property
    def mapping(self) -> dict[str, str]:
        """The user's choices: the petsync column for each header."""
        return {header: each.value for header, each in self.headers.items() if each.value}

    def offer(self, likely: str) -> None:
        """Ask for the encoding of a file that is not UTF-8; `likely` is the suggestion."""
        label = next((label for label, value in _ENCODINGS if value == likely), "")
        words = "The file is not UTF-8. Choose the encoding in which it was saved"
        hint = f"{words}; it may be {label}." if label and likely else f"{words}."
        self._offered.value = element("p", text(hint))
        show(self._decoding, True)
        show(self.box, True)

    def decode(self, encoding: str | None) -> None:
        """Show the encoding of the file, if the user has chosen it."""
        self._offered.value = ""
        self.encoding.value = encoding or ""
        show(self._decoding, bool(encoding))
        if encoding:
            show(self.box, True)

    def show(self, shown: HeaderChoices, mapping: Mapping[str, str]) -> None:
        """Show the worksheets and the headers; earlier choices stay visible."""
        self._show_tabs(shown)
        headers = [*mapping, *(name for name in shown.headers if name not in mapping)]
        self.headers = {name: _field(name, shown, mapping) for name in headers[:_ASKED]}
        more = len(headers) - len(self.headers)
        words = _WORDS if shown.recognised else _NOTHING_KNOWN
        rest = f" Not shown: {more:,} more." if more > 0 else ""
        self._words.value = element("p", text(words + rest)) if self.headers else ""
        # Remove hidden widgets from the browser too.
        for old in self._chosen.children:
            old.close()
        self._chosen.children = list(self.headers.values())
        show(self.again, bool(self.headers))
        show(self.box, bool(self.headers) or len(shown.tabs) > 1)

    def _show_tabs(self, shown: HeaderChoices) -> None:
        tabs = [name for name in shown.tabs if name]
        if list(self.tab.options) != tabs:
            self.tab.options = tabs
        self.tab.value = shown.tab or None
        show(self.tab, len(tabs) > 1)


def _field(name: str, shown: HeaderChoices, mapping: Mapping[str, str]) -> ipywidgets.Dropdown:
    near = shown.meant.get(name, "")
    hint = f" (may mean {near})" if near else ""
    return ipywidgets.Dropdown(
        description=f"“{name[:40]}”{hint}",
        options=[("another column, not used", ""), *((column, column) for column in _OURS)],
        value=mapping.get(name, ""),
    )


# Findings: the problems of a sheet, cell by cell, with a choice for each.


_TERMS = (
    *Form.terms,
    (r"Specify its encoding: --encoding \S+, in Python encoding=\S+\.", "Choose its encoding."),
    (
        r'Specify the worksheet with the pets: --sheet NAME, in Python tab="NAME"',
        "Choose the “Worksheet” with the pets",
    ),
    (
        r'specify the worksheet to read: --sheet NAME, in Python tab="NAME"',
        "choose the “Worksheet” to read",
    ),
    (
        r"specify it: --sheet .*?, in Python tab=(['\"]).*?\1(?=\.)",
        "choose it as the “Worksheet”",
    ),
    (
        r"If these guesses are right[^\n]*\n[^\n]*\n[^\n]*\nOtherwise map each .*",
        "Choose what its columns mean.",
    ),
    (r"\(--column .*?, in Python mapping=\{.*?: '\w+'\}\)", "(choose its meaning above)"),
    (r", or read only the statuses that it does list: .*? \(--status, .*?\)\)", ""),
    TERM_OF_TWO_WAY,
)
"""Parts of messages that name options and arguments, as regular expressions, and their
replacements.
"""

PAGE = 20
_VALUE = 60
_FINDING_COLUMNS = [
    {"key": "where", "title": "Where", "sorts": True},
    {"key": "severity", "title": "Severity", "kind": "mark", "sorts": True},
    {"key": "value", "title": "Value", "sorts": True},
    {"key": "problem", "title": "Problem", "sorts": True, "kind": "advice"},
    {"key": "choice", "title": "Correction", "kind": "choice"},
]
_WHICH = (
    ("all", "all"),
    ("errors: their rows are left out", "error"),
    ("warnings: their rows are used", "warning"),
    ("with a suggestion", "suggested"),
    ("with a correction that I chose", "chosen"),
)
_MARKS = {
    "error": {"symbol": "x", "text": "error"},
    "warning": {"symbol": "!", "text": "warning"},
}
KEEP, SUGGESTED, OWN, CHOSEN = "keep", "suggested", "own", "chosen"
ALL = "-all"
"""The end of a choice for all cells of a column with the same text."""
_CUT_FROM = 200


class FindingsTable:
    """The findings, page by page, in `box`. `chosen` contains, by address, the user's corrections
    that have not been applied to the sheet yet.
    """

    def __init__(self, guarded: Guarded, on_choice: Callable[[], object]) -> None:
        self.chosen: dict[str, str] = {}
        self._view: SheetView | None = None
        self._equal: dict[tuple[str, str], list[str]] = {}
        self._open_address = self._offered = ""
        self._is_for_all = False
        self._on_choice = on_choice
        self.which = ipywidgets.Dropdown(options=_WHICH, value="all", description="Show")
        self.table = Table(caption="Findings", columns=_FINDING_COLUMNS, empty="No findings.")
        self._pages: Pages[int] = Pages(self.table, self._row, guarded, size=PAGE)
        self.own = ipywidgets.Text(description="Text", continuous_update=False)
        self.use, self.leave = button("Use this text"), button("Cancel")
        self._own = ipywidgets.VBox([self.own, ipywidgets.HBox([self.use, self.leave])])
        show(self._own, False)
        self.which.observe(guarded(lambda _: self._filter()), "value")
        self.table.observe(guarded(lambda change: self._on_choices(change["new"])), "chosen")
        self.use.on_click(guarded(lambda _: self.take()))
        self.leave.on_click(guarded(lambda _: self._leave()))
        self.box = ipywidgets.VBox([self.which, self.table, self._own])

    def show(self, view: SheetView) -> None:
        """Show these findings, and discard the choices for earlier ones."""
        self._view, self.chosen = view, {}
        self._equal = _equal_cells(view)
        self._ask("")
        self._filter()

    def take(self) -> None:
        """Use the user's text for the open cell."""
        address, text = self._open_address, self.own.value
        if address:
            cells = self._open_addresses
            self._leave()
            self.set(cells, text)

    def take_choices(self) -> dict[str, str]:
        """Return the choices, including a text that the user has not confirmed yet."""
        if self._is_typed:
            cells, text = self._open_addresses, self.own.value
            self._ask("")
            self.set(cells, text)
        return dict(self.chosen)

    def require_none_open(self) -> None:
        """Raise SheetError if a text or a choice has not been applied to the sheet."""
        if self._is_typed:
            raise SheetError(
                f"the text for {self._open_address} is not used yet",
                hint="Press “Use this text” and then “Check again”, or press “Cancel”.",
            )
        if self.chosen:
            raise SheetError(
                "the sheet has not been read with the chosen corrections yet",
                hint="Press “Check again” first, or choose to leave these cells unchanged.",
            )

    @property
    def _is_typed(self) -> bool:
        return bool(self._open_address) and self.own.value != self._offered

    @property
    def _open_addresses(self) -> Sequence[str]:
        """The addresses of the cells for which the user types a text."""
        return self._equal_to(self._open_address) if self._is_for_all else [self._open_address]

    def _equal_to(self, address: str) -> Sequence[str]:
        """Return the addresses of the cells of the same column with the same text."""
        at = next((each for each in self._problems if each.address == address), None)
        return [address] if at is None else self._equal.get((at.column, at.value), [address])

    def set(self, addresses: Sequence[str], text: str) -> None:
        self.chosen |= dict.fromkeys(addresses, text)
        self._pages.redraw()
        self._on_choice()

    def _filter(self) -> None:
        problems = self._problems
        wanted = [n for n, each in enumerate(problems) if self._is_wanted(each)]
        show(self.which, len(problems) >= FILTERS_FROM or self.which.value != "all")
        self._pages.show(wanted, total=len(problems))

    @property
    def _problems(self) -> tuple[Finding, ...]:
        return self._view.sheet.problems if self._view else ()

    def _is_wanted(self, finding: Finding) -> bool:
        which = self.which.value
        if which in ("error", "warning"):
            return bool(finding.severity == which)
        if which == "suggested":
            return self._view is not None and finding.address in self._view.suggestions
        return which == "all" or finding.address in self.chosen

    def _row(self, number: int) -> Row:
        finding = self._problems[number]
        cells: dict[str, Any] = {
            "where": finding.address,
            "severity": _MARKS[finding.severity],
            "value": shorten(make_visible(finding.value), _VALUE),
            "problem": in_form(f"{finding.problem} {finding.suggestion}", _TERMS).strip(),
            "choice": self._choice(finding),
        }
        tone = "problem" if finding.severity == "error" else "update"
        return {"key": str(number), "label": finding.address, "cells": cells, "tone": tone}

    def _choice(self, finding: Finding) -> Any:
        view, address = self._view, finding.address
        if view is None or address not in view.fixable:
            return "Fix it in the file"
        options = [[KEEP, "Leave it unchanged"]]
        suggestion = view.suggestions.get(address)
        if suggestion is not None:
            certainty = "sure" if suggestion.is_sure else "a guess"
            options.append([SUGGESTED, f"{_quote_value(suggestion.after)} ({certainty})"])
        value = KEEP
        if address in self.chosen:
            value = SUGGESTED
            if suggestion is None or self.chosen[address] != suggestion.after:
                options.append([CHOSEN, _quote_value(self.chosen[address])])
                value = CHOSEN
        options.append([OWN, "Another text …"])
        equal = len(self._equal.get((finding.column, finding.value), ()))
        if equal > 1:
            cells = f"in all {equal:,} cells with this text"
            options += [[f"{key}{ALL}", f"{label}, {cells}"] for key, label in options]
        return {"options": options, "value": value, "label": f"Correction of {address}"}

    def _on_choices(self, chosen: dict[str, Any]) -> None:
        """Apply the user's choice in the table."""
        if not chosen or self._view is None:
            return
        for key, choice in chosen.items():
            if key.isdecimal() and int(key) < len(self._problems):
                self._choose(self._problems[int(key)].address, choice.get("choice"))
        self._pages.redraw()
        self._on_choice()

    def _choose(self, address: str, choice: object) -> None:
        view = self._view
        if view is None or address not in view.fixable:
            return
        kind = str(choice).removesuffix(ALL)
        is_for_all = kind != choice
        if kind == OWN:
            self.take_choices()
            self._ask(address, is_for_all=is_for_all)
            return
        cells = self._equal_to(address) if is_for_all else [address]
        if self._open_address in cells:
            self._ask("")
        text = self.chosen.get(address)
        if kind == SUGGESTED and address in view.suggestions:
            text = view.suggestions[address].after
        if kind == KEEP:
            for each in cells:
                self.chosen.pop(each, None)
        elif kind in (SUGGESTED, CHOSEN) and text is not None:
            self.chosen |= dict.fromkeys(cells, text)

    def _ask(self, address: str, *, is_for_all: bool = False) -> None:
        """Ask for the user's text for the cell, or for all cells with its text; "" closes the
        field.
        """
        self._open_address, self._is_for_all = address, is_for_all
        show(self._own, bool(address))
        if address:
            value = next((p.value for p in self._problems if p.address == address), "")
            more = f" and {len(self._open_addresses) - 1:,} more" if is_for_all else ""
            self.own.description = f"Text for {address}{more}"
            self._offered = self.own.value = self.chosen.get(address, value)
            self.own.focus()

    def _leave(self) -> None:
        """Close the field, and move the focus back to the cell's row."""
        rows = (row["key"] for row in self.table.rows if row["label"] == self._open_address)
        self.table.focus(next(rows, ""), "choice")
        self._ask("")


def _equal_cells(view: SheetView) -> dict[tuple[str, str], list[str]]:
    """Return the addresses of the cells that a correction can fix, by column and text. Left out are
    long texts, because a finding has only their start, and repeated ids, because one text cannot
    correct all of them.
    """
    cells: dict[tuple[str, str], dict[str, None]] = {}
    for each in view.sheet.problems:
        is_whole = len(each.value) < _CUT_FROM and each.rule != "duplicate-id"
        if each.address in view.fixable and is_whole:
            cells.setdefault((each.column, each.value), {})[each.address] = None
    return {key: [*addresses] for key, addresses in cells.items()}


def _quote_value(text: str) -> str:
    return f"“{shorten(make_visible(text), _VALUE)}”" if text else "a blank cell"


# CorrectionTable: the corrections of a sheet. The user can remove each of them.


_CORRECTION_COLUMNS = [
    {"key": "where", "title": "Where", "sorts": True},
    {"key": "change", "title": "Value in the file, and value used", "kind": "value"},
]
_CORRECTED = 300
"""The maximum width of a value in the table of corrections."""


class CorrectionTable:
    """A table of corrections; `on_back` gets the address of each removed correction."""

    def __init__(self, guarded: Guarded, on_back: Callable[[str], object]) -> None:
        self.table = Table(
            caption="Corrections: the file itself stays unchanged",
            columns=_CORRECTION_COLUMNS,
            pick="Remove",
        )
        self._pages: Pages[Correction] = Pages(self.table, _row, guarded, size=PAGE)
        self._on_back = on_back
        self.table.on_pick(guarded(self._remove_correction))
        self.box = ipywidgets.VBox([self.table])
        self.show(())

    def show(self, made: tuple[Correction, ...]) -> None:
        self._made = made
        show(self.box, bool(made))
        self._pages.show(made)

    def _remove_correction(self, address: str) -> None:
        if any(each.address == address for each in self._made):
            self._on_back(address)


def _row(made: Correction) -> Row:
    texts = make_visible(made.before), make_visible(made.after)
    values = [*shorten_common(*texts, _CORRECTED)]
    return {
        "key": made.address,
        "label": made.address,
        "cells": {"where": made.address, "change": values},
    }


# Options: how the sheet and the store are compared, in plain words.


_ROWS = (
    ("are new pets", ()),
    ("refer to the one pet with that name", ("name",)),
    ("refer to the one pet with that name and category", ("name", "category")),
)
_CONFLICT = (
    ("Keep the store's value unless I decide otherwise in the review", "store"),
    ("Send the sheet's value", "sheet"),
)
_MISSING = (
    "If ticked, the plan deletes every pet of the store that is in no row. Otherwise it deletes a "
    "pet only if its row has “delete” in the column “action”. The review shows each deletion "
    "before anything is sent, and by default the guard refuses to delete more than a tenth of the "
    "store's pets."
)
_TWO_WAY = (
    "The sheet contains the exported values, so unedited cells change nothing, and changes in the "
    "store are kept. If ticked, every filled cell counts."
)
_OWNER_CHOICES = (
    ("sheet and store: the side that changed it", "both"),
    ("the sheet: its value is sent", "sheet"),
    ("the store: nothing is sent", "store"),
    ("nobody: it is never written", "never"),
)
_OWNING = (
    "The value of a column's owner counts and is never overwritten. A column that one side owns "
    "is never in conflict. A new pet gets its name and status from its row, whoever owns them."
)
_NO_BASE = "This sheet does not contain the exported values: every filled cell counts."


class PlanChoices:
    """The options of a plan, in `box`."""

    def __init__(self) -> None:
        self.rows = ipywidgets.Dropdown(options=_ROWS, value=(), description="Rows without an id")
        self.missing = tick(MISSING_BOX)
        self.two_way = tick(ONLY_STORE)
        self.conflict = ipywidgets.RadioButtons(
            options=_CONFLICT, value="store", description="If sheet and store changed a field"
        )
        self.owners = {
            unit: ipywidgets.Dropdown(options=_OWNER_CHOICES, value="both", description=unit)
            for unit in UNITS
        }
        self._base = ipywidgets.HTML()
        self.box = ipywidgets.VBox(
            [
                self.rows,
                self.missing,
                ipywidgets.HTML(_hint(_MISSING)),
                self.two_way,
                self._base,
                self.conflict,
                Fold("Who owns a column", [ipywidgets.HTML(_hint(_OWNING)), *self.owners.values()]),
            ]
        )

    def show(self, sheet: Sheet) -> None:
        """Enable the options that apply to this sheet."""
        carries = sheet.base is not None
        self.two_way.disabled = not carries and not sheet.base_refused
        self.conflict.disabled = not carries
        if not carries and not sheet.base_refused:
            self.two_way.value = False
        self._base.value = _hint(_base(sheet))

    @property
    def chosen(self) -> PlanKeywords:
        """The options for `store.plan`."""
        return {
            "delete_missing": self.missing.value,
            "match_on": self.rows.value,
            "two_way": self.two_way.value,
            "on_conflict": self.conflict.value,
            "owners": {unit: field.value for unit, field in self.owners.items()},
        }


def _base(sheet: Sheet) -> str:
    if sheet.base_refused:
        return f"{capital(sheet.base_refused)}. If ticked, petsync compares this sheet anyway."
    return _TWO_WAY if sheet.base is not None else _NO_BASE


def _hint(words: str) -> str:
    return element("p", text(words), class_="ps-hint")


# SaveForm: saves a corrected copy of the file, and a copy with marked findings.


class SaveForm:
    """The fields to save copies, in `box`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corrected_as = ipywidgets.Text(description="Corrected copy")
        self.corrected = button("Save it")
        self.marked_as = ipywidgets.Text(description="Copy with the findings marked")
        self.marked = button("Save marked copy")
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HBox([self.corrected_as, self.corrected]),
                ipywidgets.HBox([self.marked_as, self.marked]),
            ]
        )

    def show(self, sheet: Sheet, path: Path) -> None:
        """Enable the buttons for the copies that are useful for this sheet. If no name is entered
        yet, suggest names in the folder of its file.
        """
        self.corrected.disabled = not sheet.corrections
        self.marked.disabled = not sheet.problems
        if not self.corrected_as.value:
            self.offer(path)

    def offer(self, path: Path) -> None:
        """Suggest names based on the file's name."""
        # A relative path is easier to read.
        if path.is_relative_to(self.folder):
            path = path.relative_to(self.folder)
        ending = ending_of(path)
        stem = path.name[: len(path.name) - len(ending)]
        marked = path.suffix if ending in (".xlsx", ".xlsm") else ".xlsx"
        is_text = ending.startswith((".csv", ".tsv", ".txt"))
        corrected = Path(f"a{ending}").suffixes[0] if is_text else marked
        self.corrected_as.value = str(path.with_name(f"{stem}.corrected{corrected}"))
        self.marked_as.value = str(path.with_name(f"{stem}.marked{marked}"))

    def path(self, field: ipywidgets.Text) -> Path:
        """The file that a field names. Raises SheetError if the field is empty."""
        text = field.value.strip()
        if not text:
            raise SheetError("the copy has no name", hint="Enter one in the field.")
        return self.folder / Path(text).expanduser()


def save_corrected(sheet: Sheet, path: Path) -> tuple[str, str]:
    """Save the corrected copy, and return a message and a note, which may be "". Raises SheetError
    if the copy cannot be saved.
    """
    backup = write_corrected(sheet, path)
    backup_note = f"The previous file is now {backup.name}." if backup else ""
    return f"The corrected copy is saved: {path}", backup_note


def save_marked(sheet: Sheet, path: Path) -> tuple[str, str]:
    """Save the marked copy, and return a message and a note, which may be "". Raises SheetError if
    the copy cannot be saved, or if the path exists.
    """
    if lexists(path):
        raise SheetError(f"{path} already exists", hint="Choose another name for the copy.")
    done = annotate_sheet(sheet, path)
    return f"The copy with {done.cells:,} marked cells is saved: {path}", " ".join(done.lost)


# Panel: the widgets of the sheet form; only the usable ones are shown.


class Panel:
    """The widgets to choose a file, to see its columns, findings and corrections, to save copies,
    and to compare the sheet, in `box`. `review` is the container for the plan's review.
    """

    def __init__(
        self,
        folder: Path,
        guarded: Guarded,
        on_choice: Callable[[], object],
        on_back: Callable[[str], object],
    ) -> None:
        self.choosing = FileChooser(folder)
        self.columns = Columns()
        self.findings = FindingsTable(guarded, on_choice)
        self.made = CorrectionTable(guarded, on_back)
        self.saving = SaveForm(folder)
        self.options = PlanChoices()
        self.sure = button("")
        self.again = button("Check again")
        self.compare = button("Compare with the store", primary=True)
        self.stop = button("Stop")
        self.meter = Meter(label="Progress")
        self.review = ipywidgets.VBox()
        self._status = ipywidgets.HTML()
        self._rest = self._put_together()
        self.box = ipywidgets.VBox(
            [
                self.choosing.box,
                self._status,
                self.columns.box,
                self._rest,
                self.meter,
                self.stop,
                self.review,
            ]
        )
        self.forget()
        self.busy(False)

    def _put_together(self) -> ipywidgets.VBox:
        buttons = ipywidgets.HBox([self.sure, self.again])
        return ipywidgets.VBox(
            [
                self.findings.box,
                buttons,
                self.made.box,
                Fold("Save a copy of the sheet", [self.saving.box]),
                Fold("Options: how to compare it", [self.options.box]),
                self.compare,
            ]
        )

    def show(self, view: SheetView, named: Sheet, mapping: Mapping[str, str], path: Path) -> None:
        """Show a sheet that was read; `named` is the same sheet with the user's name for it."""
        sheet = view.sheet
        self._status.value = document_html(
            Document("", [Summary(sheet_summary(sheet)), Facts(list(sheet_facts(named)))])
        )
        self.columns.show(HeaderChoices.of_sheet(sheet), mapping)
        self.findings.show(view)
        self.made.show(sheet.corrections)
        self.saving.show(sheet, path)
        self.options.show(sheet)
        self.count(view)
        show(self._rest, True)

    def count(self, view: SheetView) -> None:
        """Show how many corrections are sure, and how many are chosen."""
        sure, chosen = len(view.sure), len(self.findings.chosen)
        self.sure.disabled = not sure
        self.sure.description = (
            f"Make the {count(sure, 'sure correction')}" if sure else "No sure corrections"
        )
        rest = f", with {count(chosen, 'correction')}" if chosen else ""
        self.again.description = f"Check again{rest}"

    def forget(self) -> None:
        """Clear everything about the sheet."""
        self._status.value = ""
        show(self._rest, False)
        self.columns.show(HeaderChoices("", (), (), {}), {})

    def busy(self, is_busy: bool) -> None:
        """Show whether work is active."""
        show(self.stop, is_busy)
        self.meter.shown = is_busy

    def progress(self, text: str, done: int = 0, total: int = 0) -> None:
        with self.meter.hold_sync():
            self.meter.text, self.meter.done, self.meter.total = text, done, total


# The static view of the sheet form, and its messages.


_HOW = Snippets(
    "No sheet is open. With a live kernel, drop or choose one here; in a script:",
    [("", 'sheet = store.read("catalogue.xlsx")'), ("", "plan = store.plan(sheet)")],
)
_NEXT = Snippets(
    "To continue in a script:",
    [
        ("", "sheet = store.read(sheet, corrections=sheet.suggested_corrections())"),
        ("", "plan = store.plan(sheet)"),
    ],
)


def describe_sheet(sheet: Sheet) -> str:
    """Return the message to show after a sheet has been read."""
    rows = count(len(sheet) + len(sheet.blocked), "row")
    if not sheet.problems:
        return f"Read: {rows}, no findings."
    verb = "blocks" if sheet.errors == 1 else "block"
    blocked = f", which {verb} {count(len(sheet.blocked), 'row')}" if sheet.blocked else ""
    warnings = len(sheet.problems) - sheet.errors
    return f"Read: {rows}; {count(sheet.errors, 'error')}{blocked}; {count(warnings, 'warning')}."


def describe_plan(plan: Plan) -> str:
    """Return the message to show after a plan has been made."""
    changes = count(len(plan.changes), "change")
    return f"Compared: {changes} would be made. Nothing has been sent; review the plan first."


# SheetForm: from a file to the review of its plan.


R = TypeVar("R")


class SheetForm(Form):
    """Opens a spreadsheet, shows its findings, applies corrections, and makes its plan.

    `sheet` is the sheet as last read, None before the first read; `corrections` are those that it
    was read with; `plan` is the last plan, and `review` its form, unless a function gets the plan
    (`on_plan`).
    """

    title = "Open a sheet"
    terms = _TERMS

    def __init__(self, store: Store, path: str | Path | None = None) -> None:
        super().__init__()
        self.store = store
        self.folder = Path.cwd()
        self.path = None if path is None else self.folder / Path(path).expanduser()
        self.view: SheetView | None = None
        self.mapping: dict[str, str] = {}
        self.tab: str | None = None
        self.encoding: str | None = None
        self.problem: PetsyncError | None = None
        self.plan: Plan | None = None
        self.review: ReviewForm | None = None
        self._panel: Panel | None = None
        self._task: Task[Any] | None = None
        self._turn, self._called = 0, ""
        self._on_plan: list[Callable[[Plan], object]] = []

    @property
    def received(self) -> Sheet | None:
        """The sheet if its file was uploaded to this machine, else None."""
        return self.sheet if self._called else None

    def on_plan(self, act: Callable[[Plan], object]) -> None:
        """Call the function with each plan; the form then shows no review itself."""
        self._on_plan.append(act)

    @property
    def sheet(self) -> Sheet | None:
        """The current sheet."""
        return None if self.view is None else self.view.sheet

    @property
    def sheet_findings(self) -> Sequence[Finding]:
        """The findings of the current sheet."""
        return () if self.sheet is None else self.sheet.problems

    @property
    def corrections(self) -> dict[str, str]:
        """The corrections that the sheet is read with, by address."""
        made = () if self.sheet is None else self.sheet.corrections
        return {each.address: each.after for each in made}

    def _iter_views(self) -> Iterator[Document]:
        """Yield the sheet and its findings, with its plan or report, or how to open a sheet."""
        self._read_once()
        if self.problem is not None or self.sheet is None:
            yield Document("", [_HOW if self.problem is None else error_alert(self.problem)])
            return
        yield sheet_view(self.sheet)
        if self.review is not None and self.review.report is not None:
            yield report_view(self.review.report)
        elif self.plan is not None:
            yield plan_view(self.plan)
        else:
            yield Document("", [_NEXT])

    def open(self, path: str | Path) -> None:
        """Open another file; returns at once. Raises LockedError while a run is active in the
        review.
        """
        self._leave_review()
        self.path, self._called = self.folder / Path(path).expanduser(), ""
        self.encoding = None
        self._forget()
        if self._panel is not None:
            self._panel.saving.corrected_as.value = ""
        self._start_reading(self.path, None, {}, {})

    def close(self) -> None:
        """Stop the work, and remove the widgets."""
        self._drop_review()
        super().close()
        self._panel = None

    def _read_once(self) -> None:
        """Read the sheet now, if a path is given and it has not been read yet."""
        if self.path is None or self.view is not None or self.problem is not None:
            return
        try:
            # A relative path, because the page is saved and must not contain the machine's folders.
            folder = Path.cwd()
            path = self.path.relative_to(folder) if self.path.is_relative_to(folder) else self.path
            self.view = read_sheet_view(
                self.store, path, {"tab": self.tab, "mapping": self.mapping}
            )
        except PetsyncError as error:
            self.problem = error

    # Buttons

    def _build_body(self) -> ipywidgets.Widget:
        self._panel = panel = Panel(
            self.folder, self.work.wrap_callback, self._on_choice, self._take_back
        )
        self.files, self.listed = panel.choosing.files, panel.choosing.listed
        self.path_field = panel.choosing.path
        self.export, self.exported = panel.choosing.export, panel.choosing.exported
        self.columns, self.findings, self.made = panel.columns, panel.findings, panel.made
        self.options, self.saving = panel.options, panel.saving
        self.go, self.sure, self.again = panel.choosing.open, panel.sure, panel.again
        self.compare, self.stop = panel.compare, panel.stop
        self._connect_controls(panel)
        if self.view is not None:
            self._show(self.view)
        elif self.problem is not None:
            self.fail(self.problem)
        elif self.path is not None:
            self._start_reading(self.path, self.tab, self.mapping, {})
        return panel.box

    def _connect_controls(self, panel: Panel) -> None:
        guarded, choosing = self.work.wrap_callback, panel.choosing
        choosing.files.on_file(guarded(self._open_received))
        on_enter(choosing.path, self.work, self._open_named)
        on_enter(panel.findings.own, self.work, panel.findings.take)
        choosing.listed.observe(guarded(lambda change: self._open_listed(change["new"])), "value")
        panel.columns.encoding.observe(
            guarded(lambda change: self._change_encoding(change["new"])), "value"
        )
        panel.columns.tab.observe(guarded(lambda change: self._change_tab(change["new"])), "value")
        self.work.on_clicks(
            {
                choosing.open: self._open_named,
                choosing.export: self._export,
                panel.columns.again: self._read_so,
                panel.sure: self._correct_sure,
                panel.again: self._check_again,
                panel.saving.corrected: self._save_corrected,
                panel.saving.marked: self._save_marked,
                panel.compare: self._compare,
                panel.stop: self._stop,
            }
        )

    def _open_received(self, file: ReceivedFile) -> None:
        self.open(file.path)
        # The received copy is private and is removed with the form. The form shows only its name,
        # and saves copies in the working folder.
        self._called = file.path.name
        if self._panel is not None:
            self._panel.saving.offer(self.folder / file.path.name)

    def _open_listed(self, name: str) -> None:
        if name:
            self.path_field.value = name
            self.open(name)

    def _open_named(self) -> None:
        named = self._panel.choosing.named if self._panel else None
        if named is None:
            raise SheetError(
                "no file is chosen", hint="Drop one above, choose one, or enter its path."
            )
        self.open(named)

    def _change_tab(self, tab: str | None) -> None:
        """Read another worksheet; earlier choices of columns do not apply to it."""
        if self.path is not None and tab and tab != self.tab:
            self._leave_review()
            self._forget()
            self._start_reading(self.path, tab, {}, {})

    def _change_encoding(self, encoding: str) -> None:
        """Read the file in another encoding; earlier choices do not apply to it."""
        if self.path is not None and (encoding or None) != self.encoding:
            self._leave_review()
            self.encoding = encoding or None
            self._forget()
            self._start_reading(self.path, None, {}, {})

    def _read_so(self) -> None:
        if self._panel is not None and self.path is not None:
            mapping = self._panel.columns.mapping
            self._start_reading(self.path, self.tab, mapping, self._merge_corrections())

    def _correct_sure(self) -> None:
        if self.view is None or self.path is None:
            return
        if not self.view.sure:
            self.tell(
                "There are no sure corrections.",
                "Review the guesses, and choose corrections cell by cell.",
            )
        else:
            # The user's choice for a cell has priority over the suggestion.
            sure = {**self.corrections, **self.view.sure, **self._take_choices()}
            self.again.focus()  # the pressed button may become disabled
            self._start_reading(self.path, self.tab, self.mapping, sure)

    def _check_again(self) -> None:
        if self.path is not None:
            self._start_reading(self.path, self.tab, self.mapping, self._merge_corrections())

    def _take_back(self, address: str) -> None:
        if self.path is not None:
            rest = {
                cell: text for cell, text in self._merge_corrections().items() if cell != address
            }
            if len(self.corrections) < 2:
                self.again.focus()  # the table will be hidden
            self._start_reading(self.path, self.tab, self.mapping, rest)

    def _on_choice(self) -> None:
        if self._panel is not None and self.view is not None:
            self._panel.count(self.view)

    def _take_choices(self) -> dict[str, str]:
        return self._panel.findings.take_choices() if self._panel else {}

    def _merge_corrections(self) -> dict[str, str]:
        return {**self.corrections, **self._take_choices()}

    # Exporting

    def _export(self) -> None:
        self.exported.value = ""
        work = export_workbook(self.store, self.folder / _EXPORT)
        self._begin(work, self._show_export, doing="Reading the store")

    def _show_export(self, link: str) -> None:
        self.exported.value = link
        self.tell("The workbook is ready.", "Edit it in Excel, save it, then open it here.")

    # Reading

    def _start_reading(
        self,
        path: Path,
        tab: str | None,
        mapping: Mapping[str, str],
        corrections: Mapping[str, str],
    ) -> None:
        """Start to read the file in the background. If there are corrections, the file must not
        have changed since the user saw it.
        """
        self.mapping = dict(mapping)
        digest = self.sheet.digest if self.sheet is not None and corrections else ""
        self._begin(
            asyncio.to_thread(
                read_sheet_view,
                self.store,
                path,
                {
                    "tab": tab,
                    "mapping": mapping,
                    "corrections": corrections,
                    "encoding": self.encoding,
                },
                digest=digest,
            ),
            self._show,
            self._show_read_error,
        )

    def _show(self, view: SheetView) -> None:
        self.view, self.problem, self.tab = view, None, view.sheet.tab or None
        panel = self._panel
        if panel is not None and self.path is not None:
            panel.show(view, self._with_source_name(view.sheet), self.mapping, self.path)
            panel.columns.decode(self.encoding)
            self.tell(describe_sheet(view.sheet))

    def _show_read_error(self, error: PetsyncError) -> None:
        self.fail(error)
        if self.view is None and self.path is not None:
            self.problem = error
            if isinstance(error, EncodingError) and self._panel is not None:
                self._panel.columns.offer(error.offered)
                return
            # A file with only unknown headers can be read after the user chooses their meaning.
            self._begin(
                asyncio.to_thread(peek, self.path, tab=self.tab, encoding=self.encoding),
                lambda seen: self._show_columns(HeaderChoices.of_peek(seen)),
                lambda _: None,
            )

    def _show_columns(self, shown: HeaderChoices) -> None:
        self.tab = shown.tab or None
        if self._panel is not None:
            self._panel.columns.show(shown, self.mapping)
            self._panel.columns.decode(self.encoding)

    def _forget(self) -> None:
        """Discard the sheet that was open."""
        self.view, self.problem, self.tab, self.plan = None, None, None, None
        self._drop_review()
        if self._panel is not None:
            self._panel.forget()
            self._panel.columns.decode(self.encoding)

    # Saving and comparing

    def _save_corrected(self) -> None:
        self._save(save_corrected, "corrected_as")

    def _save_marked(self) -> None:
        self._save(save_marked, "marked_as")

    def _save(self, save: Callable[[Sheet, Path], tuple[str, str]], field: str) -> None:
        panel, sheet = self._panel, self.sheet
        if panel is None or sheet is None:
            return
        path = panel.saving.path(getattr(panel.saving, field))
        self._begin(asyncio.to_thread(save, sheet, path), self._say_saved)

    def _say_saved(self, message: tuple[str, str]) -> None:
        self.notice.say(*message, done=True)

    def _compare(self) -> None:
        panel, sheet = self._panel, self.sheet
        if panel is None or sheet is None or self.path is None:
            return
        panel.findings.require_none_open()
        self._leave_review()
        work = self._read_and_compare(self.path, sheet, panel.options.chosen)
        self._begin(work, self._show_plan, doing="Asking the store")

    async def _read_and_compare(
        self, path: Path, sheet: Sheet, options: PlanKeywords
    ) -> tuple[SheetView, Plan]:
        """Return the sheet, checked against the statuses in the store, and its plan."""
        aio = self.store.aio
        snapshot = await aio.snapshot()
        known_statuses = unique_texts(snapshot.rows, "status")
        corrections = {each.address: each.after for each in sheet.corrections}
        view = await asyncio.to_thread(
            read_sheet_view,
            self.store,
            path,
            {
                "tab": sheet.tab or None,
                "mapping": self.mapping,
                "corrections": corrections,
                "encoding": self.encoding,
                "known_statuses": known_statuses,
            },
            digest=sheet.digest,
        )
        plan = await aio.plan(
            self._with_source_name(view.sheet),
            snapshot=snapshot,
            on_progress=self._show_lookups,
            **options,
        )
        return view, plan

    def _with_source_name(self, sheet: Sheet) -> Sheet:
        """Return the sheet with the user's name for it."""
        return replace(sheet, source=self._called) if self._called else sheet

    def _show_lookups(self, lookups: Lookups) -> None:
        if self._panel is not None:
            self._panel.progress("Looking up single pets", lookups.done, lookups.total)

    def _show_plan(self, made: tuple[SheetView, Plan]) -> None:
        self._leave_review()
        view, plan = made
        self._show(view)
        self.plan = plan
        self.tell(describe_plan(plan))
        self._drop_review()
        for act in list(self._on_plan):
            act(plan)
        if not self._on_plan:
            self._review(plan)

    def _review(self, plan: Plan) -> None:
        from petsync.widgets.review import review

        self.review = review(plan, self.store, sheet=self.received, findings=self.sheet_findings)
        self.review.on_report(lambda _: self.renew())
        if self._panel is not None:
            self._panel.review.children = [self.review.widget]

    def _leave_review(self) -> None:
        """Raise LockedError if leaving the review would stop a run."""
        if self.review is not None and self.review.is_running:
            raise LockedError(
                "a run is still active below", hint="Wait for it to end, or stop it there."
            )

    def _drop_review(self) -> None:
        if self._panel is not None:
            self._panel.review.children = ()
        if self.review is not None:
            self.review.close()
            self.review = None

    # One task at a time

    def _begin(
        self,
        work: Coroutine[Any, Any, R],
        then: Callable[[R], object],
        failed: Callable[[PetsyncError], object] | None = None,
        *,
        doing: str = "Reading",
    ) -> None:
        """Start the work, and cancel earlier work, whose result is ignored. `doing` is shown with
        the progress.
        """
        if self._task is not None:
            self._task.cancel()
        self._turn += 1
        turn = self._turn
        if self._panel is not None:
            self._panel.busy(True)
            self._panel.progress(doing)

        def done(result: R) -> None:
            if turn == self._turn:
                self._show_idle()
                then(result)

        def not_done(error: PetsyncError) -> None:
            if turn == self._turn:
                self._show_idle()
                (failed or self.fail)(error)

        self._task = self.work.start(work, done, not_done)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._turn += 1
        self._show_idle()
        self.tell("Stopped. Nothing was changed in the store.")
        if self._panel is not None:
            # The pressed button was removed; move the keyboard focus here.
            self._panel.compare.focus()

    def _show_idle(self) -> None:
        self._task = None
        if self._panel is not None:
            self._panel.busy(False)


# open_sheet: the public function for the sheet form.


def open_sheet(store: Store, path: str | Path | None = None) -> SheetForm:
    """Return a form that opens a spreadsheet (the one at `path`, if given) and reviews its plan.
    `store.read(path, corrections=…)`, `store.plan(sheet, …)` and `ps.write_corrected` do the same.
    """
    store = checked_store(store, "ps.widgets.open_sheet(store)")
    return SheetForm(store, None if path is None else as_path(path))
