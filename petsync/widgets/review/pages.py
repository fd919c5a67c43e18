"""Pages: a Table filled page by page from a long list, of which only the page travels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from petsync.widgets.parts.table import Table
from petsync.widgets.review.draft import Numbers

__all__ = ["Pages"]


class Pages:
    """Turns the table's pages of `size` rows. `row` makes the row of a number, and `ticked` says
    whether it has a tick; a person's ticks go to `on_tick` with the numbers of the rows and whether
    they are on.
    """

    def __init__(
        self,
        table: Table,
        row: Callable[[int], dict[str, Any]],
        guarded: Callable[[Callable[..., object]], Callable[..., None]],
        *,
        size: int = 25,
        ticked: Callable[[int], bool] | None = None,
        on_tick: Callable[[list[int], bool], object] | None = None,
    ) -> None:
        self.table, self._row, self._size = table, row, size
        self._ticked, self._on_tick = ticked, on_tick
        self._numbers: Sequence[int] | Numbers = ()
        self._filling = False
        table.observe(guarded(self._turned), "page")
        table.observe(guarded(self._changed), "ticked")

    @property
    def here(self) -> list[int]:
        """The numbers of the rows on the page that is shown."""
        start = self.table.page * self._size
        return [int(number) for number in self._numbers[start : start + self._size]]

    def show(self, numbers: Sequence[int] | Numbers, *, keep: bool = False) -> None:
        """Show these rows, from the first page on, or the same page if `keep`."""
        self._numbers = numbers
        pages = max(-(-len(numbers) // self._size), 1)
        self._fill(min(self.table.page, pages - 1) if keep else 0, pages)

    def _turned(self, _: object) -> None:
        if not self._filling:
            page = min(max(self.table.page, 0), self.table.pages - 1)
            self._fill(page, self.table.pages)

    def _fill(self, page: int, pages: int) -> None:
        self._filling = True
        try:
            with self.table.hold_sync():
                self.table.page, self.table.pages = page, pages
                self.table.total = len(self._numbers)
                self.table.chosen = {}
                self.table.rows = [self._row(number) for number in self.here]
                self._put_ticks()
        finally:
            self._filling = False

    def _put_ticks(self) -> None:
        ticked = self._ticked
        self.table.ticked = [str(n) for n in self.here if ticked(n)] if ticked else []

    def _changed(self, _: object) -> None:
        if self._filling or self._on_tick is None or self._ticked is None:
            return
        here, said = self.here, set(self.table.ticked)
        if not said <= {str(number) for number in here}:
            # A tick on a page that was turned meanwhile; it must not count for this one.
            self._again()
            return
        for on in (True, False):
            moved = [n for n in here if (str(n) in said) is on and self._ticked(n) is not on]
            if moved:
                self._on_tick(moved, on)

    def _again(self) -> None:
        self._filling = True
        try:
            self._put_ticks()
        finally:
            self._filling = False
