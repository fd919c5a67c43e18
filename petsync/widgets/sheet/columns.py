"""Columns: which worksheet is read, and what the headers mean that petsync does not know."""

from __future__ import annotations

from collections.abc import Mapping

import ipywidgets

from petsync.render.markup import element, text
from petsync.table.columns import COLUMNS
from petsync.widgets.sheet.look import Shown

__all__ = ["Columns"]

_OURS = (*COLUMNS, "action")
_ASKED = 12
"""So many headers are asked about; the others are a person's own columns."""
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
    "petsync does not know these columns. They are kept, and not used, unless you say what they "
    "mean. Nothing is guessed."
)
_NOTHING_KNOWN = "petsync knows none of this sheet's headers: say what its columns mean."


class Columns:
    """A choice of encodings where the file is not UTF-8, one of worksheets, one for each unknown
    header, and `box`, which has them all.
    """

    def __init__(self) -> None:
        self.encoding = ipywidgets.Dropdown(description="Encoding", options=_ENCODINGS)
        self._offered = ipywidgets.HTML()
        self._decoding = ipywidgets.VBox([self._offered, self.encoding])
        self._decoding.layout.display = "none"
        self.tab = ipywidgets.Dropdown(description="Worksheet")
        self.headers: dict[str, ipywidgets.Dropdown] = {}
        self.again = ipywidgets.Button(
            description="Read it with these columns", layout={"width": "max-content"}
        )
        self._words = ipywidgets.HTML()
        self._chosen = ipywidgets.VBox()
        self.box = ipywidgets.VBox(
            [self._decoding, self.tab, self._words, self._chosen, self.again]
        )
        self.show(Shown("", (), (), {}), {})

    @property
    def mapping(self) -> dict[str, str]:
        """What the person said: our column by header."""
        return {header: each.value for header, each in self.headers.items() if each.value}

    def offer(self, likely: str) -> None:
        """Ask for the encoding of a file that is in another one; `likely` is the one to try."""
        label = next((label for label, value in _ENCODINGS if value == likely), "")
        words = "The file is in another encoding. Choose the one that it was saved in"
        said = f"{words}; it may be {label}." if label and likely else f"{words}."
        self._offered.value = element("p", text(said))
        self._decoding.layout.display = self.box.layout.display = None

    def decode(self, encoding: str | None) -> None:
        """Show the encoding that the file is read in, where it was chosen."""
        self._offered.value = ""
        self.encoding.value = encoding or ""
        self._decoding.layout.display = None if encoding else "none"
        if encoding:
            self.box.layout.display = None

    def show(self, shown: Shown, mapping: Mapping[str, str]) -> None:
        """Show the worksheets and the headers; what was said of some stays to be seen."""
        self._show_tabs(shown)
        asked = [*mapping, *(name for name in shown.headers if name not in mapping)]
        self.headers = {name: _field(name, shown, mapping) for name in asked[:_ASKED]}
        more = len(asked) - len(self.headers)
        words = _WORDS if shown.ours else _NOTHING_KNOWN
        rest = f" There are {more:,} more." if more > 0 else ""
        self._words.value = element("p", text(words + rest)) if self.headers else ""
        # What nobody can see any more goes from the browser too.
        for old in self._chosen.children:
            old.close()
        self._chosen.children = list(self.headers.values())
        self.again.layout.display = None if self.headers else "none"
        self.box.layout.display = None if self.headers or len(shown.tabs) > 1 else "none"

    def _show_tabs(self, shown: Shown) -> None:
        tabs = [name for name in shown.tabs if name]
        if list(self.tab.options) != tabs:
            self.tab.options = tabs
        self.tab.value = shown.tab or None
        self.tab.layout.display = None if len(tabs) > 1 else "none"


def _field(name: str, shown: Shown, mapping: Mapping[str, str]) -> ipywidgets.Dropdown:
    near = shown.meant.get(name, "")
    hint = f" (may mean {near})" if near else ""
    return ipywidgets.Dropdown(
        description=f"“{name[:40]}”{hint}",
        options=[("my own, not used", ""), *((ours, ours) for ours in _OURS)],
        value=mapping.get(name, ""),
    )
