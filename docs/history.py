"""Draw docs/history.png, docs/history-dark.png and docs/round-report.png, the pages of thirty
nights in Chromium: `python docs/history.py`.

The nights are real rounds on the embedded store: users edit the sheet and the store by a seed, and
some nights have a problem. The program does not wait between them: each round is dated one night
after the previous one.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import Browser

import petsync as ps
from petsync.config.model import Configuration, Job, Reports
from petsync.plan.guard import Guard, Limit
from petsync.plan.report import RoundReport
from petsync.plan.rounds import Round
from petsync.reconcile.round import reconcile_jobs
from petsync.report.html import document_page
from petsync.report.views.history import history_view
from petsync.report.views.round import round_page_view
from petsync.samples import sample_data
from petsync.sandbox import Sandbox
from petsync.table.decode import frame_from_json

sys.path.append(str(Path(__file__).parents[1] / "tests" / "browser"))

from chromium import open_chromium

__all__ = ["Shop", "draw", "run_thirty_nights"]

_HERE = Path(__file__).parent
_FIRST = datetime(2026, 10, 23, 2, tzinfo=UTC)
_STORE = "https://shop.example/v2"
_SEED = 42
_PETS = 260
_STATUSES = ("available", "pending", "sold")
_TYPOS = (9, 10, 29)
_OUTAGE, _OFF, _SLOW = 13, range(17, 20), 21
_SWEPT, _SWEPT_BACK = 24, 26
_CLASHES, _SETTLED = (5, 15, 29), (6, 17)
_PICTURES: dict[str, dict[str, Any]] = {
    "history": {"color_scheme": "light", "viewport": {"width": 1180, "height": 1180}},
    "history-dark": {"color_scheme": "dark", "viewport": {"width": 1180, "height": 1180}},
    "round-report": {"color_scheme": "light", "viewport": {"width": 1180, "height": 1330}},
}


@dataclass
class Shop:
    """A store, the users who edit its sheet and its records, and the job that runs at night."""

    box: Sandbox
    folder: Path
    draw: random.Random = field(default_factory=lambda: random.Random(_SEED))  # noqa: S311
    mistyped: dict[int, ps.Pet] = field(default_factory=dict)
    reports: list[RoundReport] = field(default_factory=list)

    @property
    def sheet(self) -> Path:
        """Return the path of the sheet that the users edit."""
        return self.folder / "catalogue.xlsx"

    def open(self) -> None:
        """Fill the store, and write the sheet from it."""
        frame = frame_from_json((sample_data() / "store.json").read_bytes()).head(_PETS)
        self.box.reset(ps.pets_from_frame(frame))
        ps.write_sheet(frame, self.sheet, base=False)

    def make_edits(self, number: int) -> None:
        """Make one day's changes in the sheet and in the store."""
        pets = self.draw.sample(self.box.pets(), 3 + self.draw.randrange(14))
        half = len(pets) // 2
        for pet in pets[:half]:
            self.box.put(self._edited(pet, number))
        if self.draw.random() < 0.5:
            self.box.put(ps.Pet(id=5_000 + number, name=f"Newcomer {number}", status="available"))
        rows = self._rows()
        for pet in pets[half:]:
            rows[pet.id or 0] = self._edited(rows.get(pet.id or 0, pet), number)
        if number % 3 == 0:
            rows[6_000 + number] = ps.Pet(
                id=6_000 + number, name=f"Arrival {number}", status="pending"
            )
        if number in _SETTLED:
            rows |= {pet.id or 0: pet for pet in self.box.pets() if pet.id in self._in_conflict()}
        if number in _CLASHES:
            self._clash(rows, number)
        if number in (_SWEPT, _SWEPT_BACK):
            self._sweep(rows, back=number == _SWEPT_BACK)
        self._write(rows, typo=number in _TYPOS)

    def run_round(self, number: int) -> None:
        """Run the job's round, and date it to its night."""
        self.box.set_faults("503=1" if number == _OUTAGE else None)
        if number == _SLOW:
            self.box.set_faults("latency=0.02")
        for report in reconcile_jobs(self._config()):
            self.reports.append(_date_report(report, _FIRST + timedelta(days=number), self))
        self.box.set_faults(None)

    def _edited(self, pet: ps.Pet, number: int) -> ps.Pet:
        if self.draw.random() < 0.3:
            return msgspec.structs.replace(
                pet, name=f"{(pet.name or 'Pet').split(' of ')[0]} of {number}"
            )
        return msgspec.structs.replace(pet, status=self.draw.choice(_STATUSES))

    def _rows(self) -> dict[int, ps.Pet]:
        frame = ps.read_sheet(self.sheet).frame
        return {pet.id or 0: pet for pet in ps.pets_from_frame(frame)} | self.mistyped

    def _in_conflict(self) -> set[int | None]:
        return {each.pet_id for each in self.reports[-1].open if each.kind == "conflict"}

    def _clash(self, rows: dict[int, ps.Pet], number: int) -> None:
        """Rename the same two pets in the store and in the sheet."""
        plain = [pet for pet in self.box.pets() if (pet.name or "").isascii()]
        for pet in plain[number : number + 2]:
            self.box.put(msgspec.structs.replace(pet, name=f"{pet.name} the Great"))
            rows[pet.id or 0] = msgspec.structs.replace(pet, name=f"Little {pet.name}")

    def _sweep(self, rows: dict[int, ps.Pet], *, back: bool) -> None:
        """Mark half of the store as sold, as a script would; two days later restore it from the
        sheet, which did not take this change.
        """
        for pet in self.box.pets()[: _PETS // 2]:
            status = rows.get(pet.id or 0, pet).status if back else "sold"
            self.box.put(msgspec.structs.replace(pet, status=status))

    def _write(self, rows: dict[int, ps.Pet], *, typo: bool) -> None:
        frame = ps.frame_from_pets(rows.values())
        self.mistyped = dict(list(rows.items())[70:73]) if typo else {}
        frame.loc[frame["id"].isin(list(self.mistyped)), "status"] = "avaliable"
        ps.write_sheet(frame, self.sheet, base=False)

    def _config(self) -> Configuration:
        state = self.folder / "state"
        job = Job(
            name="catalogue",
            mode="two-way",
            url=self.box.url,
            sheet=self.sheet,
            guard=Guard(max_update=Limit(0.3)),
        )
        return Configuration(
            path=self.folder / "petsync.toml",
            state=state,
            jobs=(job,),
            report=Reports(folder=self.folder / "reports"),
        )


def _date_report(report: RoundReport, night: datetime, shop: Shop) -> RoundReport:
    """Return the round with that night's date, and with an address and a folder for readers."""
    body = msgspec.json.encode(report).decode()
    for own, public in ((shop.box.url, _STORE), (f"{shop.folder}/", "")):
        body = body.replace(own, public)
    body = re.sub(r"\d{8}-\d{6}(?!\d)", f"{night:%Y%m%d-%H%M%S}", body)
    report = msgspec.json.decode(body, type=RoundReport)
    stamp = f"{night:%Y%m%d-%H%M%S}-{report.round.id[-4:]}"
    round_ = msgspec.structs.replace(report.round, id=stamp, started=night.isoformat())
    return msgspec.structs.replace(report, round=round_)


def run_thirty_nights(folder: Path) -> Sequence[RoundReport]:
    """Return the rounds of thirty nights, except those on which the machine was off."""
    with Sandbox(auth=False) as box:
        shop = Shop(box, folder)
        shop.open()
        for number in range(30):
            shop.make_edits(number)
            if number not in _OFF:
                shop.run_round(number)
        return shop.reports


def draw(folder: Path) -> Iterator[Path]:
    """Draw the pictures into a folder."""
    reports = run_thirty_nights(folder)
    rounds: list[Round] = [each.round for each in reports]
    now = _FIRST + timedelta(days=29, hours=6)
    history, report = folder / "history.html", folder / "round-report.html"
    pages = {
        history: (history_view(rounds, [], now=now), "Reconciliation history"),
        report: (round_page_view(reports[-1]), reports[-1].round.name),
    }
    for file, (view, heading) in pages.items():
        file.write_text(document_page(view, heading), encoding="utf-8")
    with open_chromium() as chromium:
        for name, look in _PICTURES.items():
            page = report if name == "round-report" else history
            yield _drawn(chromium, page, folder / f"{name}.png", look)


def _drawn(chromium: Browser, page: Path, picture: Path, look: dict[str, Any]) -> Path:
    context = chromium.new_context(**look)
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.screenshot(path=picture)
    context.close()
    return picture


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as drawn_here:
        for drawn in draw(Path(drawn_here)):
            (_HERE / drawn.name).write_bytes(drawn.read_bytes())
