"""The files that a run leaves: the ids in the sheet, and the results to download."""

from __future__ import annotations

import base64
import dataclasses
import tempfile
from pathlib import Path

from petsync.diff.plan import Plan
from petsync.diff.report import Report
from petsync.errors import PetsyncError
from petsync.render import markup
from petsync.sheets import must_take_results, write_results
from petsync.sheets.planned import sheet_of
from petsync.store import Store
from petsync.store.outputs import Outputs, default_results, gives_ids
from petsync.table.sheet import Sheet

__all__ = ["LeftFiles"]

MOST = 16 * 1024 * 1024
"""The most bytes of a file that is part of the page; a larger one is named by its path."""


class LeftFiles:
    """Writes them once a run has ended. `received` is the sheet where its file was sent to this
    machine; `html` says what was written, and offers the results.
    """

    def __init__(self, store: Store, received: Sheet | None) -> None:
        self.outputs = Outputs(store.aio.history)
        self.html = ""
        self._statuses = store.api.aio.session.profile.statuses
        self._received = received

    def can_write(self, plan: Plan) -> bool:
        """Whether rows get new ids, and the sheet's own file can take them."""
        if self._received is not None or plan.undoes or not gives_ids(plan):
            return False
        sheet = sheet_of(plan, statuses=self._statuses)
        if sheet is None:
            return False
        try:
            must_take_results(sheet)
        except PetsyncError:
            return False
        return True

    def write(self, report: Report) -> None:
        """Write the results, and the ids that were asked for; what fails is said."""
        self.html = ""
        plan = report.plan
        if plan.undoes or not plan.changes:
            return
        if self._received is not None and self._received.digest != plan.source_digest:
            return  # an earlier run that was finished, of the sheet as it was then
        sheet = self._received or self.outputs.sheet(plan, self._statuses)
        if sheet is None:
            return
        parts = []
        try:
            parts.append(self._results(sheet, report))
            wanted = self.outputs.wanted(plan).into_sheet
            if wanted:
                backup = self.outputs.write_into_sheet(sheet, report, wanted)
                said = f"The new ids are in {sheet.source}; as it was before it is in {backup}."
                parts.append(markup.element("p", markup.text(said)))
        except PetsyncError as error:
            parts.append(markup.alert(error.message, [markup.text(error.hint)]))
        self.html = markup.element("div", "".join(parts), class_="petsync")

    def _results(self, sheet: Sheet, report: Report) -> str:
        """Write the results; a link to the file, which goes with the page."""
        if self._received is None:
            path = default_results(sheet)
            self.outputs.write_results(sheet, report, path)
            return _link(path.name, path.read_bytes(), f"The results are in {path}.")
        name = default_results(dataclasses.replace(sheet, source=report.plan.source)).name
        with tempfile.TemporaryDirectory(prefix="petsync-results-") as folder:
            path = Path(folder) / name
            write_results(sheet, report, path)
            return _link(name, path.read_bytes(), "Go on with this file: it has the new ids.")


def _link(name: str, data: bytes, said: str) -> str:
    if len(data) > MOST:
        return markup.element("p", markup.text(said))
    body = base64.b64encode(data).decode()
    link = markup.element(
        "a",
        markup.text(f"Download {name}"),
        href=f"data:application/octet-stream;base64,{body}",
        download=name,
    )
    return markup.element("p", f"{link} {markup.text(said)}")
