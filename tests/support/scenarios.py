"""Reconciliation jobs on a sandbox."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import petsync as ps
from petsync.config.model import Configuration, Job, Reports
from petsync.plan.report import RoundReport
from petsync.reconcile.context import Watcher
from petsync.reconcile.round import reconcile_jobs
from petsync.sandbox import Sandbox

DOGS = ps.Category(1, "Dogs")
PETS = [
    ps.Pet(
        id=number,
        name=f"Pet {number}",
        status=("available", "pending", "sold")[number % 3],
        category=DOGS,
        tags=(ps.Tag(1, "calm"),),
        photo_urls=(f"https://shop.example/{number}.jpg",),
    )
    for number in range(1, 13)
]


@dataclass
class Scenario:
    """A store, a sheet, and a job that reconciles them."""

    box: Sandbox
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sheet(self) -> Path:
        """The job's sheet."""
        return self.folder / "catalogue.csv"

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / "state"

    def config(self, *jobs: Job, **options: Any) -> Configuration:
        """Return a configuration of these jobs; by default of the one job."""
        given = {"report": Reports(folder=self.folder / "reports"), **options}
        return Configuration(
            path=self.folder / "petsync.toml", state=self.state, jobs=jobs or (self.job(),), **given
        )

    def job(self, name: str = "catalogue", **options: Any) -> Job:
        """Return the job with these options."""
        given = {"mode": "push", "url": self.box.url, **self.options, **options}
        if not {"sheet", "folder", "query"} & set(given):
            given["sheet"] = self.sheet
        return Job(name=name, **given)

    def run(
        self,
        *,
        dry_run: bool = False,
        moved: bool = False,
        watchers: Iterable[Watcher] = (),
        **options: Any,
    ) -> RoundReport:
        """Run one round of the job, and return its report."""
        config = self.config(self.job(**options))
        (report,) = reconcile_jobs(config, dry_run=dry_run, moved=moved, watchers=watchers)
        return report

    def write(self, pets: Iterable[ps.Pet] = PETS) -> None:
        """Write the sheet without a base."""
        ps.write_sheet(ps.frame_from_pets(pets), self.sheet, base=False)

    def sheet_pets(self) -> dict[int, ps.Pet]:
        """Return the pets of the sheet's rows by id. A tag without an id gets that of the store."""
        return {pet.id or 0: pet for pet in read_pets(self.sheet, self.box)}

    def store_pets(self) -> dict[int, ps.Pet]:
        """Return the store's pets by id."""
        return {pet.id or 0: pet for pet in self.box.pets()}

    def state_files(self) -> set[str]:
        """Return the path of each file in the state folder."""
        return {str(p.relative_to(self.state)) for p in self.state.rglob("*") if p.is_file()}


class CsvScenario(Scenario):
    """A scenario whose sheet is a CSV file that is edited cell by cell."""

    def rows(self) -> list[list[str]]:
        """Return the cells, the header first."""
        with self.sheet.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.reader(file))

    def save(self, rows: list[list[str]]) -> None:
        """Write these cells."""
        with self.sheet.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)

    def type(self, pet_id: int, **cells: str) -> None:
        """Write into cells of a pet's row."""
        rows = self.rows()
        row = next(row for row in rows if row[rows[0].index("id")] == str(pet_id))
        for name, text in cells.items():
            row[rows[0].index(name)] = text
        self.save(rows)

    def cell(self, pet_id: int, name: str) -> str:
        """Return the text of a cell."""
        rows = self.rows()
        row = next(row for row in rows if row[rows[0].index("id")] == str(pet_id))
        return row[rows[0].index(name)]

    def rename(self, old: str, new: str) -> None:
        """Rename a column's header."""
        header, *rows = self.rows()
        self.save([[new if name == old else name for name in header], *rows])

    def cut(self, *names: str) -> dict[str, list[str]]:
        """Remove columns, and return their cells."""
        header, *rows = self.rows()
        at = [header.index(name) for name in names]
        cells = {name: [row[n] for row in rows] for name, n in zip(names, at, strict=True)}
        self.save([[c for n, c in enumerate(row) if n not in at] for row in (header, *rows)])
        return cells

    def paste(self, columns: dict[str, list[str]]) -> None:
        """Append columns."""
        header, *rows = self.rows()
        more = zip(*columns.values(), strict=True)
        self.save([[*header, *columns], *([*a, *b] for a, b in zip(rows, more, strict=True))])


class FirstRounds:
    """Jobs whose sheet and store agree after a first round. The round is run once for each kind of
    sheet, then its files are copied.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._origins: dict[str, Path] = {}

    def begin(self, scenario: Scenario, pets: Sequence[ps.Pet]) -> None:
        """Put the pets into the store, and a reconciled sheet of them into the job's folder."""
        scenario.box.set_faults(None)
        scenario.box.reset(pets)
        copy = self._folder / scenario.sheet.suffix
        if copy.exists():
            shutil.copytree(copy, scenario.folder, dirs_exist_ok=True)
            origin = str(self._origins[copy.name])
            for file in (scenario.folder / "state").rglob("*.jsonl"):
                text = file.read_text("utf-8").replace(origin, str(scenario.folder))
                file.write_text(text, "utf-8")
            return
        scenario.write(pets)
        assert scenario.run().round.status == "in-sync"
        self._origins[copy.name] = scenario.folder
        shutil.copytree(scenario.folder, copy)


def read_pets(sheet: Path, box: Sandbox) -> list[ps.Pet]:
    """Return the pets of a sheet's rows. A tag without an id gets that of the store."""
    known = {tag.name: tag for pet in box.pets() for tag in pet.tags}

    def read_tag(tag: ps.Tag) -> ps.Tag:
        return tag if tag.id is not None else known.get(tag.name, tag)

    pets = ps.pets_from_frame(ps.read_sheet(sheet).frame)
    return [replace(pet, tags=tuple(map(read_tag, pet.tags))) for pet in pets]


def changed(pets: Iterable[ps.Pet], pet_id: int, **fields: Any) -> list[ps.Pet]:
    """Return the pets, one of them with other values."""
    return [_with(pet, **fields) if pet.id == pet_id else pet for pet in pets]


def _with(pet: ps.Pet, **fields: Any) -> ps.Pet:
    from msgspec.structs import replace as other

    return other(pet, **fields)


def kinds(report: RoundReport) -> list[tuple[str, int | None]]:
    """Return the kind and the pet id of each open difference."""
    return [(each.kind, each.pet_id) for each in report.open]
