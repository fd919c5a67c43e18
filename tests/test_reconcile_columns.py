"""Columns that are away while rounds are killed and runs are undone: each edit arrives or is named.

Each scene has a pet for each way to edit a cell, on each side and at each time. The scenes differ
in the columns that are away and when, in the point where a round is killed, and in the manual work
after it. The auditor of the random rounds checks every round.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pairwise import pairwise
from rounds.auditor import Auditor, Ledger, View, differences, view_of
from rounds.sheet import Service, key_of, read_grid
from scenarios import CsvScenario
from times import times

import petsync as ps
from petsync import sheets
from petsync.errors import GuardError, PlanError
from petsync.plan.guard import Guard, Limit
from petsync.reconcile import round as rounds
from petsync.reconcile.state import BaseFile
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow

DOGS, CATS, BIRDS = (ps.Category(n, name) for n, name in enumerate(("Dogs", "Cats", "Birds"), 1))
COLUMNS = ("status", "tags", "category", "category_id")
TIMES = ("first", "killed", "next", "last")
"""The rounds: before each of the first three, columns may be away; before the last, none is."""
EDITS = tuple(product(COLUMNS, ("", *TIMES[1:]), ("", *TIMES)))
"""For each pet the column, and before which round it is edited in the sheet and in the store."""
# Two categories have the name Dogs, so only the id says which one is meant.
TYPED = {"status": "sold", "tags": "{}; loud", "category": "Cats", "category_id": "77"}
STORED: dict[str, dict[str, Any]] = {
    "status": {"status": "pending"},
    "category": {"category": BIRDS},
    "category_id": {"category": ps.Category(659, "Dogs")},
}
ITEMS = {"tags": ("loud", "shy")}
FIRST, SECOND, THIRD = 901, 902, 903
"""Pets that are edited before every round, so that each round has something to send and write."""
ALL = Guard(max_update=Limit(1.0, is_share=True))


def _pets() -> Iterator[ps.Pet]:
    for number in (*range(1, len(EDITS) + 1), FIRST, SECOND, THIRD):
        yield ps.Pet(
            id=number,
            name=f"Pet k{number}",
            status="available",
            category=DOGS,
            tags=(ps.Tag(1, "calm"),),
        )
    # With these pets the store has all the categories.
    for number, category in enumerate((CATS, BIRDS, ps.Category(77, "Dogs")), 904):
        yield ps.Pet(id=number, name=f"Pet k{number}", status="sold", category=category)


def _killed(where: Any, name: str, *, at: int = 1, after: bool) -> Callable[..., None]:
    """Return a patch that kills the round before or after this call of a function."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        real, calls = getattr(where, name), count(1)

        def call(*args: Any, **options: Any) -> Any:
            is_last = next(calls) == at
            if is_last and not after:
                raise KeyboardInterrupt
            result = real(*args, **options)
            if is_last:
                raise KeyboardInterrupt
            return result

        monkeypatch.setattr(where, name, call)

    return patch


KILLS: dict[str, Callable[[pytest.MonkeyPatch], None] | None] = {
    "none": None,
    "sent": _killed(rounds._Execution, "_apply", after=True),
    "begun-to-write": _killed(sheets, "write_synced", after=False),
    "written": _killed(sheets, "write_synced", after=True),
    "base-kept": _killed(BaseFile, "keep", after=True),
}
BY_HAND = ("", "undo", "undo redo", "undo backup", "apply undo")
CUTS = (COLUMNS, ("category_id",), ("category",))


@dataclass
class Scene:
    """One scene. `away` has the cut cells by pet id, with the ledger and the step of that time, and
    `backup` has the file, the ledger, the step and both sides from before the last write.
    """

    scenario: CsvScenario
    cut: tuple[str, ...]
    auditor: Auditor = field(default_factory=Auditor)
    away: tuple[dict[str, list[str]], Ledger, int] | None = None
    backup: tuple[Path, Ledger, int, View] | None = None
    log: list[str] = field(default_factory=list)

    def view(self) -> View:
        """Return the present state of both sides."""
        return view_of(Service(self.scenario.box.url).pets(), [read_grid(self.scenario.sheet)])

    def place(self, *, is_there: bool) -> None:
        """Cut the columns, or put them back behind the last one."""
        rows, ledger = self.scenario.rows(), self.auditor.ledger
        if is_there and self.away is not None:
            cells, then, step = self.away
            more = [list(self.cut), *(cells[row[rows[0].index("id")]] for row in rows[1:])]
            self.scenario.save([[*row, *some] for row, some in zip(rows, more, strict=True)])
            self.away = None
            keys = {f"k{number}" for number in cells}
            for column in self.cut:
                self.auditor.take_back(self.view(), then, step, keys, column)
        elif not is_there and self.away is None:
            gone = self.scenario.cut(*self.cut)
            ids = [row[rows[0].index("id")] for row in rows[1:]]
            cells = dict(zip(ids, map(list, zip(*gone.values(), strict=True)), strict=True))
            self.away = cells, ledger.copy(), self.auditor.step
        self.auditor.observe(self.view())

    def edit(self, time: str) -> None:
        """Make all edits on both sides that come before a round."""
        header, stored = self.scenario.rows()[0], self.scenario.store_pets()
        ledger = self.auditor.ledger
        for number, (column, sheet_at, store_at) in enumerate(EDITS, 1):
            key, items = f"k{number}", ITEMS.get(column, ("", ""))
            if sheet_at == time and column in header:
                text = TYPED[column].format(self.scenario.cell(number, column))
                self.scenario.type(number, **{column: text})
                ledger.sheet.add((key, (column, items[0])))
            if store_at == time:
                pet = stored[number]
                fields = STORED.get(column, {"tags": (*pet.tags, ps.Tag(None, "shy"))})
                self.scenario.box.put(msgspec.structs.replace(pet, **fields))
                ledger.store.add((key, (column, items[1])))
                ledger.store |= {(key, ("category_id", ""))} if column == "category" else set()
        for number in (FIRST, SECOND):
            pet = msgspec.structs.replace(stored[number], name=f"Store {time} k{number}")
            self.scenario.box.put(pet)
            ledger.store.add((f"k{number}", ("name", "")))
        self.scenario.type(THIRD, name=f"Sheet {time} k{THIRD}")
        ledger.sheet.add((f"k{THIRD}", ("name", "")))
        self.auditor.observe(self.view())

    def round(self, monkeypatch: pytest.MonkeyPatch, kill: str = "none") -> None:
        """Run one round and check it: a difference may stay only where both sides have an edit."""
        before, ledger = self.view(), self.auditor.ledger.copy()
        backups = {*self.scenario.folder.glob("*.backup-*")}
        with monkeypatch.context() as patch:
            if (killed := KILLS[kill]) is not None:
                killed(patch)
            report = self.scenario.run()
        is_killed = report.round.status == "interrupted"
        assert is_killed == (kill != "none")
        after, code = self.view(), None if is_killed else report.round.exit_code
        opens = [msgspec.to_builtins(each) for each in report.open if each.kind != "note"]
        self.log += [f"{report.round.status}: {[(o['pet_id'], o['problem']) for o in opens]}"]
        new = {*self.scenario.folder.glob("*.backup-*")} - backups
        self.backup = (new.pop(), ledger, self.auditor.step, before) if new else None
        self.auditor.judge_round(before, after, code=code, opens=opens)
        self.auditor.observe(after)
        both = self.auditor.ledger.sheet & self.auditor.ledger.store
        for key, (column, _) in differences(after) if not is_killed else ():
            names = COLUMNS[2:] if column in COLUMNS[2:] else (column,)
            assert any(unit[0] in names for one, unit in both if one == key), f"{key} {column}"

    def work_by_hand(self, what: str) -> None:
        """Apply the sheet, undo runs, or put the backup of the round back."""
        before, undo = self.view(), ""
        with ps.connect(self.scenario.box.url, state=self.scenario.state) as store:
            for each in what.split():
                if each == "backup":
                    self._put_back()
                    continue
                try:
                    plan = store.plan(self.scenario.sheet) if each == "apply" else store.undo(undo)
                    undo = store.apply(plan, progress=False).run_id if plan.changes else ""
                except (PlanError, GuardError) as error:
                    self.log.append(f"{each}: {error.message}")
                after = self.view()
                self.auditor.note_store_edits(before, after, is_resume=False)
                self.auditor.observe(after)
                before = after
        self.log.append(what)

    def _put_back(self) -> None:
        if self.backup is None:
            return  # The round was killed before it made a backup.
        path, then, step, sides = self.backup
        is_there = self.away is None
        shutil.copy(path, self.scenario.sheet)
        has_cells = {*self.cut} <= {*self.scenario.rows()[0]}
        if has_cells:
            self.away = None
        keys = {key_of(name) or "" for name in (f"k{n}" for n in self.scenario.store_pets())}
        self.auditor.take_back(self.view(), then, step, keys, sides=sides)
        self.place(is_there=is_there)


PLAYS = pairwise(CUTS, *((True, False),) * 3, KILLS, BY_HAND, together=[(2, 3, 4)])
"""The cut columns, whether they are present in each of three rounds, where the second round is
killed, and the manual work. Each kill meets every combination of present columns in its round and
in the next one, which continues from its state.
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


# The first 15 have all choices and most pairs of choices.
@pytest.mark.parametrize(("cut", "first", "killed", "behind", "kill", "by_hand"), PLAYS[: times(9)])
def test_each_edit_arrives_or_is_named_whatever_column_was_away(
    box: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cut: tuple[str, ...],
    first: bool,
    killed: bool,
    behind: bool,
    kill: str,
    by_hand: str,
) -> None:
    """No edit is lost, sent twice or sent again after it was undone; no other value wins over an
    edit, and only what both sides edited is in conflict.
    """
    box.reset([*_pets()])
    scenario = CsvScenario(box, tmp_path, {"mode": "two-way", "guard": ALL})
    scenario.write(_pets())
    assert scenario.run().round.status == "in-sync"
    scene = Scene(scenario, cut)
    scene.auditor.observe(scene.view())
    try:
        for time, is_there in zip(TIMES, (first, killed, behind, True), strict=True):
            scene.place(is_there=is_there)
            if time == "next":
                scene.work_by_hand(by_hand)
                if "backup" in by_hand:
                    scene.round(monkeypatch)  # A round sees the backup before the next edit.
            scene.edit(time)
            scene.round(monkeypatch, kill if time == "killed" else "none")
        scene.round(monkeypatch)
    except AssertionError as error:
        error.add_note("\n".join(scene.log))
        raise
