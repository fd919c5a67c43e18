"""Random two-way rounds: people edit both sides between them, and processes are killed.

Kills are at events that the seed draws, so that a play can be repeated. With some seeds (4, 9, 14)
they are at points in time, which cannot be repeated: each test run plays one of the other seeds.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

from crash.running import Nursery, Running

from petsync.sandbox import Sandbox
from rounds.auditor import Auditor, Ledger, View, differences, view_of
from rounds.events import EVENTS
from rounds.sheet import (
    BLANK,
    COLUMNS,
    Grid,
    Service,
    key_of,
    read_grid,
    values_of_pet,
    values_of_row,
)

__all__ = ["Play"]

STATUSES = ("available", "pending", "sold")
CATEGORIES = ("Birds", "Cats", "Dogs", "Fish", "Horses", "Snakes")
TAGS = ("calm", "friendly", "loud", "old", "shy", "small", "young")
WORDS = ("Ada", "Bella", "Coco", "Dora", "Emil", "Fritz", "Gus", "Hugo", "Ida", "Juno")
AWAY = ("status", "category", "category_id", "tags", "photo_urls")
PATIENCE_S = 90.0
MAXIMUM_ROUNDS_TO_SETTLE = 12

_TOML = """\
url = "{url}"
state = "state"
timeout = 5

[jobs.catalogue]
mode = "two-way"
{source}
delete_missing = true
guard = {{ max_add = 1000, max_update = 1000, max_delete = 1000 }}
"""


class Play:
    """A play that follows from the seed.

    Processes are killed at counted events, or with every fifth seed at points in time. `log` lists
    the steps. With `has_commands`, people also apply, undo and resume by hand between the rounds.
    """

    def __init__(
        self, seed: int, folder: Path, nursery: Nursery, *, has_commands: bool = True
    ) -> None:
        self.rng, self._is_timed = random.Random(f"rounds {seed}"), seed % 5 == 4
        self.log = [f"seed {seed}"]
        self._numbers: set[int] = set()
        self.folder, self._nursery, self._has_commands = folder, nursery, has_commands
        self.box = Sandbox(auth=False).start()
        self.service = Service(self.box.url)
        kind = ("xlsx", "csv")[seed % 2]
        self.is_folder = seed % 4 >= 2
        names = [f"sheets/a.{kind}", f"sheets/b.{kind}"] if self.is_folder else [f"pets.{kind}"]
        self.paths = [folder / name for name in names]
        source = 'folder = "sheets"' if self.is_folder else f'sheet = "{names[0]}"'
        (folder / "sheets").mkdir()
        (folder / "petsync.toml").write_text(_TOML.format(url=self.box.url, source=source), "utf-8")
        self.auditor = Auditor(has_several_sheets=self.is_folder)
        self.keys = 0
        self.away: dict[Path, tuple[str, dict[str, str], Ledger, int] | None] = {}
        self.renamed: dict[Path, tuple[str, str, Ledger, int] | None] = {}
        self.has_kill_behind = False
        self._has_stopped = False
        self._states: dict[bytes, tuple[Ledger, int, View]] = {}
        self._put_back: dict[bytes, int] = {}
        self._is_unseen = False
        self._reported = 0

    @property
    def ledger(self) -> Ledger:
        """People's edits that are still open."""
        return self.auditor.ledger

    def play(self, rounds: int) -> None:
        """Play this number of rounds, and then rounds until both sides agree."""
        try:
            self._open()
            for number in range(1, rounds + 1):
                self.log.append(f"-- round {number}")
                self._edit()
                self._round(kill=self.rng.random() < 0.5, lock=self.rng.random() < 0.15)
            self._settle()
        except BaseException as error:
            last = [self.log[0], *self.log[-45:], f"all of it: {self.folder}/rounds.log"]
            error.add_note("\n".join(last))
            raise
        finally:
            (self.folder / "rounds.log").write_text("\n".join(self.log), "utf-8")
            self.box.stop()

    # The rounds

    def _open(self) -> None:
        """Create a store of 24 pets and the same rows; the first round finds both in agreement."""
        for _ in range(24):
            self._send_pet(self._new_key())
        pets = self.service.pets()
        half = len(pets) // len(self.paths)
        for place, path in enumerate(self.paths):
            mine = pets[place * half : (place + 1) * half]
            Grid(path, [*COLUMNS], [self._cells(pet) for pet in mine]).save()
        view = self.view()
        self.auditor.observe(view)
        assert self._round(kill=False, lock=False) == 0

    def view(self) -> View:
        """Return both sides in their current state; a renamed column counts as missing."""
        return view_of(self.service.pets(), [read_grid(path) for path in self.paths])

    def _round(self, *, kill: bool, lock: bool) -> int | None:
        """Run and judge one round; return its exit code, None if the process was killed."""
        before = self.view()
        files = {path: path.read_bytes() for path in self.paths}
        for data in files.values():
            self._states[data] = (self.ledger.copy(), self.auditor.step, before)
        unnumbered = self._unnumbered_keys()
        moment = self._moment()
        locks = [path.with_name(f"~${path.name}") for path in self.paths] if lock else []
        events = [self._event("lock", *locks)] if lock else []
        events += [self._event("kill")] if kill and not self._is_timed else []
        running = self._start("reconcile", events=events)
        if kill and self._is_timed:
            self._wait(running, moment)
            running.kill()
        else:
            running.wait(PATIENCE_S)
        for each in locks:
            each.unlink(missing_ok=True)
        self._wait_until_still()
        code = None if running.code == -9 else running.code
        after = self.view()
        opens = self._opens()
        result = [" ".join(event.split("\t")[:4]) for event in events]
        result += [f"kill at {moment[0]}"] if kill and self._is_timed else []
        self.log.append("; ".join([f"   {'killed' if code is None else f'exit {code}'}", *result]))
        if code not in (None, 0):
            self.log += [f"   {each}" for each in opens] or [f"   {running.output()[-600:]}"]
        self.auditor.judge_round(before, after, code=code, opens=opens)
        assert code != 0 or not unnumbered, "the id column was away"
        for key, (old, new) in product(unnumbered, zip(_sides(before), _sides(after), strict=True)):
            assert old.get(key) == new.get(key), f"{key}: the id column was away"
        if code is not None and code not in (0, 2, 3, 5):
            assert opens or running.output().strip(), f"exit code {code} without a reason"
        self.auditor.observe(after)
        self.has_kill_behind = code is None
        self._is_unseen &= code is None and not self._has_seen_backup()
        return code

    def _has_seen_backup(self) -> bool:
        """Return whether a killed round had seen that a backup was put back. From then on, no edit
        may hide it.
        """
        marks = (self.folder / "state" / "reconcile" / "versions").rglob("back")
        return any(path.read_bytes() != b"[]" for path in marks)

    def _unnumbered_keys(self) -> set[str]:
        """Return the rows of the sheets whose id column has another header: neither they nor their
        pets may change. Each sheet of a folder is a separate round.
        """
        paths = [path for path, was in self.renamed.items() if was and was[0] == "id"]
        grids = map(read_grid, paths)
        return {key_of(grid.text(row, "name")) or "" for grid in grids for row in grid.rows}

    def _settle(self) -> None:
        """Restore the columns, decide the conflicts, and run rounds until both sides agree."""
        for path in self.paths:
            self._bring_back(path)
        for _ in range(MAXIMUM_ROUNDS_TO_SETTLE):
            self.log.append("-- to settle")
            code = self._round(kill=False, lock=False)
            self._decide(everything=True)
            if code == 5:
                self._answer()
            if code == 0 and not [*differences(self.view())]:
                break
        self.log.append("-- the end")
        before = {path: path.read_bytes() for path in self.paths}
        assert self._round(kill=False, lock=False) == 0
        assert not [*differences(self.view())]
        assert before == {path: path.read_bytes() for path in self.paths}

    # The edits

    def _edit(self) -> None:
        if self._is_unseen:
            self.log.append("nobody edits before a round has seen the backup")
            return
        self._decide(everything=False)
        for path in self.paths:
            if self.rng.random() < 0.5:
                self._bring_back(path)
        if self.rng.random() < 0.12 and self._restore():
            return
        deeds = [
            self._edit_cell, self._edit_cell, self._edit_cell, self._edit_category,
            self._edit_category, self._edit_pet, self._edit_pet, self._edit_pet, self._add_row,
            self._add_row, self._add_pet, self._remove_row, self._remove_pet, self._sort_rows,
            self._take_away, self._rename, self._move_row, self._edit_new_row,
        ]  # fmt: skip
        for _ in range(self.rng.randrange(6)):
            self.rng.choice(deeds)()
        if self._has_commands and self.rng.random() < 0.5:
            for _ in range(self.rng.randrange(1, 4)):
                self._work_by_hand()
                for _ in range(self.rng.randrange(3)):
                    self.rng.choice(deeds)()
        if self.has_kill_behind:
            self._edit_new_row()
            self._move_row()
        self.auditor.observe(self.view())

    def _grid(self) -> Grid:
        return read_grid(self.rng.choice(self.paths))

    def _row(self) -> tuple[Grid, list[str], str] | None:
        grid = self._grid()
        if not grid.rows:
            return None
        row = self.rng.choice(grid.rows)
        key = key_of(grid.text(row, "name"))
        assert key is not None
        return grid, row, key

    def _edit_cell(self, row_: tuple[Grid, list[str], str] | None = None) -> None:
        """Change a name, status, tag or photo in a row."""
        found = row_ or self._row()
        if found is None:
            return
        grid, row, key = found
        columns = [c for c in ("name", "status", "tags", "photo_urls") if c in grid.head]
        column = self.rng.choice(columns)
        value = values_of_row(grid, row)[column]
        if column == "name":
            self._write(grid, row, key, "name", self._name(key), [("name", "")])
        elif column == "status":
            self._write(grid, row, key, "status", self.rng.choice(STATUSES), [("status", "")])
        else:
            items = set() if value is BLANK else set(value)
            item = self._item(column, items)
            items ^= {item}
            text = ("; " if column == "tags" else "\n").join(sorted(items)) or "[clear]"
            if value is BLANK:  # The blank cell had no value; now it has exactly these items.
                pet = self.view().pets.get(key, {})
                edited = [(column, each) for each in {item, *pet.get(column, ())}]
            else:
                edited = [(column, item)]
            self._write(grid, row, key, column, text, edited)

    def _edit_category(self) -> None:
        """Change a category's name, its id, or both."""
        found = self._row()
        if found is None or not {"category", "category_id"} <= set(found[0].head):
            return
        grid, row, key = found
        what = self.rng.choice(("name", "name", "name", "both", "both", "id"))
        if what != "id":
            name = self.rng.choice(CATEGORIES)
            if name == grid.text(row, "category"):
                return
            self._write(grid, row, key, "category", name, [("category", "")])
        elif not grid.text(row, "category").strip("[clear]"):
            return
        if what != "name":
            number = str(self._category_number())
            self._write(grid, row, key, "category_id", number, [("category_id", "")])
        if what == "both":
            # With a new name, an id that does not belong to that name does not count.
            self.auditor.renamed.add(key)

    def _category_number(self) -> int:
        """Return an unused category id: a used one would bring its category's name with it."""
        while (number := self.rng.randrange(100, 1000)) in self._numbers:
            pass
        self._numbers.add(number)
        return number

    def _write(
        self, grid: Grid, row: list[str], key: str, column: str, text: str, edited: list[Any]
    ) -> None:
        place = grid.column(column)
        assert place is not None
        if row[place] == text:
            return
        row[place] = text
        grid.save()
        self.ledger.sheet |= {(key, unit) for unit in edited}
        if column == "category_id":
            self.auditor.renamed.discard(key)
        self.log.append(f"sheet: {key} {column} = {text!r}")
        self.auditor.observe(self.view())

    def _add_row(self) -> None:
        grid = self._grid()
        key = self._new_key()
        place = self.rng.randrange(len(grid.rows) + 1)
        texts = self._texts(key)
        grid.rows.insert(place, [texts.get(name, "") for name in grid.head])
        grid.save()
        self.ledger.rows_added.add(key)
        self.log.append(f"sheet: row {key} added at {place}")

    def _edit_new_row(self) -> None:
        """Edit a row without an id, perhaps after a killed round added its pet."""
        for path in self.paths:
            grid = read_grid(path)
            if grid.column("id") is None:
                continue
            for row in grid.rows:
                key = key_of(grid.text(row, "name"))
                if not grid.text(row, "id") and key and self.rng.random() < 0.7:
                    self._edit_cell((grid, row, key))
                    break

    def _remove_row(self) -> None:
        found = self._row()
        if found is None or self.rng.random() < 0.5:
            return
        grid, row, key = found
        grid.rows.remove(row)
        grid.save()
        if key in self.view().pets:
            self.ledger.rows_removed.add(key)
        else:
            self.ledger.forget(key)
        self.log.append(f"sheet: row {key} removed")

    def _sort_rows(self) -> None:
        grid = self._grid()
        self.rng.shuffle(grid.rows)
        grid.save()
        self.log.append(f"sheet: rows of {grid.path.name} in another order")

    def _move_row(self) -> None:
        """Move a row to the other sheet of the folder, and sometimes edit it there."""
        if len(self.paths) < 2:
            return
        here, there = map(read_grid, self.rng.sample(self.paths, 2))
        if here.head != there.head or not here.rows:
            return
        row = self.rng.choice(here.rows)
        here.rows.remove(row)
        there.rows.append(row)
        there.save()
        here.save()
        name = here.text(row, "name")
        self.log.append(f"sheet: row {key_of(name)} moved to {there.path.name}")
        if self.rng.random() < 0.4:
            self._edit_cell((there, row, key_of(name) or ""))

    def _take_away(self) -> None:
        """Cut a column; keep its cells by row, as on a clipboard."""
        grid = self._grid()
        column = self.rng.choice(AWAY)
        place = grid.column(column)
        if self._is_out(grid.path) or place is None:
            return
        cells = {key_of(grid.text(row, "name")) or "": row[place] for row in grid.rows}
        for line in (grid.head, *grid.rows):
            del line[place]
        grid.save()
        if grid.path.suffix == ".xlsx":
            grid.save()
        self.away[grid.path] = (column, cells, self.ledger.copy(), self.auditor.step)
        self.log.append(f"sheet: column {column} of {grid.path.name} cut")

    def _rename(self) -> None:
        """Rename a header; the cells stay."""
        grid = self._grid()
        column = self.rng.choice(("id", *AWAY))
        place = grid.column(column)
        if self._is_out(grid.path) or place is None:
            return
        grid.head[place] = f"Zettel {self.rng.randrange(100)}"
        grid.save()
        self.renamed[grid.path] = (column, grid.head[place], self.ledger.copy(), self.auditor.step)
        self.log.append(f"sheet: header {column} of {grid.path.name} is {grid.head[place]}")

    def _is_out(self, path: Path) -> bool:
        return any(each.get(path) for each in (self.away, self.renamed))

    def _bring_back(self, path: Path) -> None:
        """Restore the column that was cut, or the header that was renamed."""
        grid = read_grid(path)
        if was := self.away.get(path):
            column, cells, then, step = was
            grid.head.append(column)
            for row in grid.rows:
                row.append(cells.get(key_of(grid.text(row, "name")) or "", ""))
            self.away[path] = None
        elif renamed := self.renamed.get(path):
            column, head, then, step = renamed
            grid.head[grid.head.index(head)] = column
            self.renamed[path] = None
        else:
            return
        grid.save()
        self.log.append(f"sheet: column {column} of {path.name} is back")
        keys = {key_of(grid.text(row, "name")) or "" for row in grid.rows}
        if column != "id":
            self.auditor.take_back(self.view(), then, step, keys, column)
        self.auditor.observe(self.view())

    def _restore(self) -> bool:
        """Put one of petsync's last backups in place of the sheet; return whether that was
        possible.
        """
        path = self.rng.choice(self.paths)
        if self._is_out(path):
            return False
        found = path.parent.glob(f"{path.stem}.backup-*{path.suffix}")
        backups = sorted(found, key=lambda each: each.stat().st_mtime_ns)[-3:]
        known = [each for each in backups if each.read_bytes() in self._states]
        if not known:
            return False
        backup = self.rng.choice(known)
        now, then = read_grid(path), read_grid(backup)
        if now.head != then.head or (self.is_folder and self._rows_moved(path, then)):
            return False
        if self._is_meant(now, then, backup.read_bytes()):
            return False
        was, step, sides = self._states[backup.read_bytes()]
        had = {key_of(now.text(row, "name")) or "" for row in now.rows}
        path.write_bytes(backup.read_bytes())
        pets = self.view().pets
        has = {key_of(then.text(row, "name")) or "" for row in then.rows}
        for key in had - has:  # Rows added after the backup, with their edits.
            self.ledger.sheet -= {pair for pair in self.ledger.sheet if pair[0] == key}
            if key in pets:
                self.ledger.pets_added.add(key)
            else:
                self.ledger.forget(key)
        for key in has - had:  # Rows removed after the backup.
            self.ledger.rows_removed.discard(key)
            if key not in pets:
                self.ledger.pets_removed.add(key)
        if self.is_folder:
            # Any row that was removed from the other sheet may have moved to this one before.
            self.ledger.pets_added |= self.ledger.rows_removed & pets.keys()
        self.auditor.take_back(self.view(), was, step, has, sides=sides)
        self._is_unseen = True
        self.log.append(f"sheet: {backup.name} put back")
        self.auditor.observe(self.view())
        return True

    def _is_meant(self, now: Grid, then: Grid, data: bytes) -> bool:
        """Return whether this backup was put back before and differs in one row. By
        docs/reconcile.md, a second restore of one pet is intended if the sheet is a CSV file.
        """
        sides = [
            {key_of(g.text(row, "name")): row for row in g.rows if g.text(row, "id")}
            for g in (now, then)
        ]
        differing = sum(sides[0].get(key) != sides[1].get(key) for key in {**sides[0], **sides[1]})
        is_second = data in self._put_back
        fewest = min(differing, self._put_back.setdefault(data, differing))
        return is_second and fewest < 2 and now.path.suffix == ".csv"

    def _rows_moved(self, path: Path, then: Grid) -> bool:
        """Return whether a row of the backup is now in another sheet."""
        there: set[str] = set()
        for other in self.paths:
            if other != path:
                grid = read_grid(other)
                there |= {key_of(grid.text(row, "name")) or "" for row in grid.rows}
        return any((key_of(then.text(row, "name")) or "") in there for row in then.rows)

    def _add_pet(self) -> None:
        if self.is_folder:
            return  # New pets of the store get no rows in a folder's sheets.
        key = self._new_key()
        self._send_pet(key)
        self.ledger.pets_added.add(key)
        self.log.append(f"store: pet {key} added")

    def _remove_pet(self) -> None:
        if self.rng.random() < 0.5:
            return
        body = self.rng.choice(self.service.pets())
        key = key_of(body["name"]) or ""
        self.service.delete(body["id"])
        if key in self.view().rows:
            self.ledger.pets_removed.add(key)
        else:
            self.ledger.forget(key)
        self.log.append(f"store: pet {key} ({body['id']}) deleted")

    def _edit_pet(self) -> None:
        body = self.rng.choice(self.service.pets())
        key = key_of(body["name"]) or ""
        before = deepcopy(body)
        what = self.rng.choice(("name", "status", "category", "category_id", "tags", "photo_urls"))
        edited: list[tuple[str, str]] = [(what, "")]
        if what == "name":
            body["name"] = self._name(key)
        elif what == "status":
            body["status"] = self.rng.choice(STATUSES)
        elif what == "category":
            name = self.rng.choice(CATEGORIES)
            body["category"] = {"id": CATEGORIES.index(name) + 1, "name": name}
            edited.append(("category_id", ""))
        elif what == "category_id":
            if not body.get("category"):
                return
            body["category"]["id"] = self._category_number()
            self.auditor.note_number_in_store(key)
        elif what == "tags":
            names = {tag["name"] for tag in body.get("tags") or ()}
            item = self._item("tags", names)
            kept = [tag for tag in body.get("tags") or () if tag["name"] != item]
            body["tags"] = kept if item in names else [*kept, {"name": item}]
            edited = [("tags", item)]
        else:
            photos = [*body["photoUrls"]]
            item = self._item("photo_urls", set(photos))
            body["photoUrls"] = (
                [p for p in photos if p != item] if item in photos else [*photos, item]
            )
            edited = [("photo_urls", item)]
        # An unchanged value is not an edit, and the sheet's edit may still arrive.
        old, new = values_of_pet(before), values_of_pet(body)
        edited = [unit for unit in edited if old[unit[0]] != new[unit[0]]]
        if not edited:
            return
        self.service.send("PUT", body)
        if key in self.view().rows:
            self.ledger.store |= {(key, unit) for unit in edited}
        self.log.append(f"store: {key} ({body['id']}) {what} = {body.get(what, edited)!r}")
        self.auditor.observe(self.view())

    def _work_by_hand(self) -> None:
        """Apply a sheet, undo a run or a round, or resume a stopped run; sometimes with a kill. For
        the rounds, each of these is an edit of the store.
        """
        what = self.rng.choice(("undo", "apply", "apply"))
        if self._has_stopped and self.rng.random() < 0.7:
            what = "resume"
        path = self.rng.choice(self.paths)
        results = ("--results", f"by-hand{path.suffix}")
        if what == "undo":
            args = [what, "--yes", *self._older_run()]
        elif what == "resume":
            args = [what, "--settle", "0", *results]
        elif any(map(self._is_out, self.paths)):
            return
        else:
            ids = self.rng.choice(("--write-ids", "--no-write-ids"))
            args = [what, str(path.relative_to(self.folder)), "--yes", *results, ids]
        before = self.view()
        event = self._event("kill")
        events = [event] if self.rng.random() < 0.4 else []
        running = self._start(*args, events=events)
        running.wait(PATIENCE_S)
        self._wait_until_still()
        self._has_stopped = running.code == -9
        result = "".join(f"; {' '.join(each.split())}" for each in events)
        self.log.append(f"by hand: {' '.join(args)}: exit {running.code}{result}")
        assert running.code in (-9, 0, 1, 2, 3, 4, 5, 6), running.output()
        if running.code not in (-9, 0):
            self.log.append(f"   {running.output()[-300:]}")
        self.auditor.note_store_edits(before, self.view(), is_resume=what == "resume")
        self.auditor.observe(self.view())

    def _older_run(self) -> list[str]:
        """Return one of the last runs, or nothing, which means the newest that is not undone."""
        if self.rng.random() < 0.5:
            return []
        running = self._nursery("runs", "--json", "--limit", "4", folder=self.folder)
        assert running.wait(PATIENCE_S) == 0, running.output()
        runs = [each["run_id"] for each in running.json()["runs"]]
        return [self.rng.choice(runs)] if runs else []

    def _decide(self, *, everything: bool) -> None:
        """Make some or all differences equal: the sheet takes the store's value."""
        view = self.view()
        for key, unit in differences(view):
            if not everything and self.rng.random() < 0.6:
                continue
            is_conflict = (key, unit) in self.ledger.sheet and (key, unit) in self.ledger.store
            if unit == ("", ""):
                self._decide_presence(key, view)
                if everything:
                    self._decide_whose(key, view)
            elif is_conflict or everything:
                self._give_way(key, unit)
        self.auditor.observe(self.view())

    def _decide_presence(self, key: str, view: View) -> None:
        """Remove a pet or row that was removed on the other side, although it was edited."""
        if key in view.rows and key in self.ledger.pets_removed:
            for path in self.paths:
                grid = read_grid(path)
                if (row := grid.row_of(key)) is not None:
                    grid.rows.remove(row)
                    grid.save()
            self.ledger.forget(key)
            self.log.append(f"decided: row {key} goes")
        elif key in view.pets and key in self.ledger.rows_removed:
            self.service.delete(int(view.pets[key]["id"]))
            self.ledger.forget(key)
            self.log.append(f"decided: pet {key} goes")

    def _decide_whose(self, key: str, view: View) -> None:
        """Mark a row as a separate pet; add a row for a pet without one."""
        ledger = self.ledger
        if key in view.rows and key in ledger.rows_added:
            grid = next(g for g in map(read_grid, self.paths) if g.row_of(key) is not None)
            row = grid.row_of(key)
            assert row is not None
            if grid.column("action") is None:
                grid.head.append("action")
                for each in grid.rows:
                    each.append("")
            row[grid.head.index("action")] = "add-another"
            status = grid.column("status")
            if status is not None and not row[status]:
                row[status] = "sold"
            if grid.text(row, "category_id") and not grid.text(row, "category"):
                row[grid.head.index("category_id")] = ""
            self.log.append(f"decided: row {key} is a pet of its own")
        elif key in view.pets and key in ledger.pets_added:
            grid = read_grid(self.paths[0])
            cells = dict(zip(COLUMNS, self._cells(self._body(key)), strict=True))
            grid.rows.append([cells.get(name, "") for name in grid.head])
            self.log.append(f"decided: pet {key} becomes a row")
        else:
            return
        grid.save()

    def _answer(self) -> None:
        """Write the pet's id into a row that may be that pet, unless the row is new. If photos
        differ only in order, the sheet takes the store's.
        """
        view = self.view()
        for key in sorted((view.pets.keys() & view.rows.keys()) - self.ledger.rows_added):
            photos = view.pets[key]["photo_urls"]
            if len(photos) > 1 and photos == view.rows[key]["photo_urls"]:
                self._give_way(key, ("photo_urls", min(photos)))
            for grid in map(read_grid, self.paths):
                row, place = grid.row_of(key), grid.column("id")
                if row is not None and place is not None and not row[place]:
                    row[place] = view.pets[key]["id"]
                    grid.save()
                    self.log.append(f"decided: row {key} gets the id {row[place]}")

    def _give_way(self, key: str, unit: tuple[str, str]) -> None:
        for path in self.paths:
            grid = read_grid(path)
            row = grid.row_of(key)
            place = grid.column(unit[0])
            pet = self.view().pets[key][unit[0]]
            if row is None or place is None:
                continue
            if isinstance(pet, frozenset):
                text = self._items_of(key, unit[0]) or "[clear]"
                edited = [(key, (unit[0], item)) for item in pet]
            else:
                # With a name, an empty cell means that there is no number.
                is_named = unit[0] == "category_id" and self.view().pets[key]["category"]
                text = pet or ("" if is_named else "[clear]")
                edited = [(key, unit)]
            row[place] = text
            grid.save()
            self.ledger.sheet |= {*edited, (key, unit)}
            self.log.append(f"decided: {key} {unit[0]} = {text!r}")

    # The written values

    def _new_key(self) -> str:
        self.keys += 1
        return f"k{self.keys}"

    def _name(self, key: str) -> str:
        return f"{self.rng.choice(WORDS)} {self.rng.randrange(10**6)} {key}"

    def _item(self, column: str, there: set[str]) -> str:
        if there and self.rng.random() < 0.4:
            return self.rng.choice(sorted(there))
        if column == "tags":
            return self.rng.choice(TAGS)
        return f"https://photos.example/{self.rng.randrange(10**6)}.jpg"

    def _texts(self, key: str) -> dict[str, str]:
        name = self.rng.choice(CATEGORIES)
        return {
            "name": self._name(key),
            "status": self.rng.choice(STATUSES),
            "category": name,
            "category_id": str(CATEGORIES.index(name) + 1),
            "tags": "; ".join(self.rng.sample(TAGS, 2)),
            "photo_urls": self._item("photo_urls", set()),
        }

    def _send_pet(self, key: str) -> None:
        texts = self._texts(key)
        self.service.send(
            "POST",
            {
                "name": texts["name"],
                "status": texts["status"],
                "category": {"id": int(texts["category_id"]), "name": texts["category"]},
                "tags": [{"name": name} for name in texts["tags"].split("; ")],
                "photoUrls": [texts["photo_urls"]],
            },
        )

    def _items_of(self, key: str, column: str) -> str:
        """Return the store's tags or photos of a pet in their order, as a cell's text."""
        body = self._body(key)
        if column == "tags":
            return "; ".join(tag["name"] for tag in body.get("tags") or ())
        return "\n".join(body.get("photoUrls") or ())

    def _body(self, key: str) -> dict[str, Any]:
        return next(pet for pet in self.service.pets() if key_of(pet["name"]) == key)

    def _cells(self, pet: dict[str, Any]) -> list[str]:
        return [
            str(pet["id"]), pet["name"], pet["status"], pet["category"]["name"],
            str(pet["category"]["id"]), "; ".join(tag["name"] for tag in pet["tags"]),
            "\n".join(pet["photoUrls"]),
        ]  # fmt: skip

    # The moments of faults

    def _event(self, what: str, *paths: Path) -> str:
        """Return an action for the next process, at an event that the process counts."""
        event = self.rng.choice([*EVENTS])
        number = self.rng.randint(1, self.rng.choice((4, EVENTS[event])))
        when = self.rng.choice(("before", "after"))
        return "\t".join((event, str(number), when, what, *map(str, paths)))

    def _start(self, *args: str, events: Sequence[str]) -> Running:
        env, call = {"EVENT": "\n".join(events)}, "rounds.events:main"
        return self._nursery(*args, folder=self.folder, call=call, env=env)

    def _moment(self) -> tuple[str, Callable[[], bool], float]:
        """Return an event that has not happened yet, and a delay in seconds after it."""
        sends = self.box.requests.total() + self.rng.randint(1, 25)
        stamps = {path: self._stamp(path) for path in self.paths}
        state = self.folder / "state"
        seen = {path: self._stamp(path) for path in state.rglob("*")} if state.exists() else {}
        backups = self._backups()
        moments: dict[str, Callable[[], bool]] = {
            "request": lambda: self.box.requests.total() >= sends,
            "backup": lambda: self._backups() > backups,
            "sheet": lambda: any(self._stamp(path) != old for path, old in stamps.items()),
            "base": lambda: self._has_news(state, seen, ".base"),
            "begun": lambda: self._has_news(state, seen, ".json"),
            "history": lambda: self._has_news(state, seen, ".jsonl"),
            "time": lambda: True,
        }
        name = self.rng.choice([*moments])
        later = self.rng.choice((0.0, 0.0, self.rng.uniform(0, 0.02)))
        return name, moments[name], self.rng.uniform(0, 1.0) if name == "time" else later

    def _wait(self, running: Running, moment: tuple[str, Callable[[], bool], float]) -> None:
        _, has_come, later = moment
        running.until(has_come)
        running.ended(later)

    def _has_news(self, state: Path, seen: dict[Path, Any], suffix: str) -> bool:
        return any(self._stamp(path) != seen.get(path) for path in state.rglob(f"*{suffix}"))

    def _backups(self) -> int:
        return sum(len([*path.parent.glob("*.backup-*")]) for path in self.paths[:1])

    @staticmethod
    def _stamp(path: Path) -> tuple[int, int]:
        try:
            found = path.stat()
        except OSError:
            return (0, 0)
        return (found.st_ino, found.st_mtime_ns)

    def _wait_until_still(self) -> None:
        """Wait until the store has finished the requests of a killed process."""
        while True:
            before = self.service.pets()
            time.sleep(0.05)
            if before == self.service.pets():
                return

    def _opens(self) -> list[dict[str, Any]]:
        """Return the differences that the reports of the newest rounds name."""
        path = self.folder / "state" / "reconcile" / "history.jsonl"
        text = path.read_text("utf-8") if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == "\n"]
        new, self._reported = lines[self._reported :], len(lines)
        found: list[dict[str, Any]] = []
        for line in new:
            if line.get("problem"):
                found.append({"problem": line["problem"]})
            report = line.get("report")
            if report:
                output = json.loads((self.folder / report).with_suffix(".json").read_bytes())
                found += output.get("open", [])
        return found


def _sides(view: View) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    return view.pets, view.rows
