"""The auditor: after each night, checks that nothing is lost and every difference is explained.

It shares no code with petsync's comparison: it reads both sides itself, and its rules come from the
documents.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from nights.reading import BLANK, FIELDS, Line, Pet, agree, pet_of
from nights.rules import outcomes
from nights.world import JOBS, SCOPES, Look, ReportedRound, World

__all__ = ["Auditor"]

WHOLE = ""
"""The field of a difference that concerns a whole pet or row."""

Place = tuple[int | None, int | None, str]
"""A difference: the pet's id, the row's number, and the field."""

_FINISHED = {"in-sync", "done", "findings", "failed-rows", "conflicts", "drift"}
_TOKEN = re.compile(r"#k\d+\.")
_CODES = {
    "in-sync": 0, "done": 0, "drift": 2, "findings": 3, "failed-rows": 3, "waiting": 4,
    "refused": 4, "conflicts": 5, "locked": 6, "interrupted": 7, "error": 1,
}  # fmt: skip
_WORST = (64, 1, 7, 4, 3, 5, 6, 2, 0)


@dataclass
class Auditor:
    """Remembers the values on which both sides last agreed, and checks each night."""

    world: World
    agreed: dict[str, dict[tuple[int, str], list[Any]]] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.agreed = {job: {} for job in JOBS}

    def check_night(
        self,
        before: Look,
        since: int,
        rounds: Collection[ReportedRound],
        *,
        touched: Collection[int] = (),
    ) -> Look:
        """Check a night and return both sides after it. `before` and `since` are both sides, and
        the count of the store's writes, at its start. `touched` are the pets that people edited
        during the night.
        """
        after = self.world.look()
        last = {each.job: each for each in rounds}
        self._rounds(rounds)
        for job in JOBS:
            finished = job in last and last[job].status in _FINISHED
            if not touched:
                self._merged(job, before, after, last.get(job))
            if job in last and not touched:
                self._explained(last[job], after)
            self._remember(job, before, after, finished=finished)
        self._nothing_lost(before, after, since, touched)
        self._nothing_doubled(after)
        self._no_secrets()
        return after

    def exit_code(self, code: int, rounds: Collection[ReportedRound]) -> None:
        """Check that the exit code of the process is that of the worst round."""
        codes = [each.code for each in rounds]
        worst = min(codes, key=_WORST.index, default=0)
        assert code == worst, f"exit code {code} of rounds that ended with {codes}"

    def differences(self, job: str, look: Look) -> set[Place]:
        """Return every difference between the job's sheet and its scope of the store."""
        rows = look.rows.get(job, [])
        named = {line.id for line in rows if line.id is not None}
        found: set[Place] = set()
        free = [number for number in look.pets if number not in named]
        for line in rows:
            if self.is_wrong(line, rows) or line.action == "ignore":
                continue
            if line.id is None:
                like = next((n for n in free if _says(line, look.pets[n])), None)
                if like is None:
                    found.add((None, line.number, WHOLE))
                else:
                    free.remove(like)
            elif line.id not in look.pets:
                found.add((line.id, line.number, WHOLE))
            else:
                pet = look.pets[line.id]
                found |= {
                    (line.id, line.number, name)
                    for name in FIELDS
                    if not agree(line.values[name], pet[name])
                }
        left = [number for number in free if _in_scope(look.pets[number], SCOPES[job])]
        return found | {(number, None, WHOLE) for number in left}

    def is_wrong(self, line: Line, rows: Iterable[Line]) -> bool:
        """Return whether the row has an error that a person typed."""
        if self.wrong & set(line.texts.values()):
            return True
        return line.id is not None and sum(each.id == line.id for each in rows) > 1

    def _rounds(self, rounds: Collection[ReportedRound]) -> None:
        for each in rounds:
            line = each.round
            assert line["id"] not in self.ids, f"two rounds of one id: {line}"
            self.ids.add(line["id"])
            assert each.code == _CODES[each.status], line
            assert line.get("mode", "check") == JOBS[each.job], line
            open_ = Counter(each["kind"] for each in each.open)
            counted = {"conflict": "conflicts", "note": "notes", "failed": "failed"}
            for kind, name in counted.items():
                if each.status in _FINISHED:
                    assert open_[kind] == line.get(name, 0), (kind, line, each.open)

    def _explained(self, round_: ReportedRound, after: Look) -> None:
        """Check that every difference is reported, and that every reported difference exists."""
        if round_.status in {"error", "locked", "interrupted"}:
            assert round_.round.get("problem"), round_.round
            return
        differences = self.differences(round_.job, after)
        if round_.status == "refused":
            assert round_.round.get("problem"), round_.round
            return
        # A change of the store that the sheet's value replaced is no difference any more.
        opens = [each for each in round_.open if " was replaced with " not in each["problem"]]
        unexplained = [place for place in differences if not _covers(opens, place)]
        # If very many pets were never in a row, the report names only their number.
        strangers = [place for place in unexplained if place[1] is None]
        if any(f"{len(strangers):,} pets" in each["problem"] for each in round_.open):
            unexplained = [place for place in unexplained if place[1] is not None]
        assert not unexplained, (
            f"{round_.job}: not explained: {self._shown(round_.job, unexplained, after)}\n"
            f"told: {round_.open}\n{round_.round}"
        )
        rows = after.rows.get(round_.job, [])
        errors = {line.number for line in rows if self.is_wrong(line, rows)}
        for open_ in opens:
            if open_["kind"] == "finding":
                assert open_.get("row") in errors, f"{round_.job}: no error: {open_}"
            elif open_["kind"] != "note" or open_.get("fields"):
                assert _is_real(open_, differences, errors), (
                    f"{round_.job}: no difference: {open_}\n{differences}"
                )

    def _shown(self, job: str, places: Iterable[Place], look: Look) -> list[Any]:
        shown = []
        for number, row, name in places:
            line = next((each for each in look.rows.get(job, []) if each.number == row), None)
            pet = look.pets.get(number) if number is not None else None
            value = line and (line.values[name] if name else line.texts)
            shown.append((number, row, name, value, pet and (pet[name] if name else pet)))
        return shown

    def _merged(self, job: str, before: Look, after: Look, round_: ReportedRound | None) -> None:
        """Check that each pet and field follows the rules of the merge, or is unchanged."""
        opens = round_.open if round_ else []
        is_final = round_ is not None and round_.status in _FINISHED
        for number in sorted(before.pets.keys() | after.pets.keys()):
            was, is_ = before.pets.get(number), after.pets.get(number)
            if JOBS[job] in ("push", "two-way"):
                self._store_side(job, number, was, is_, before)
        if JOBS[job] == "two-way":
            self._both(job, before, after, opens, is_final=is_final)
        elif JOBS[job] == "push":
            self._numbered(job, before, after)
        elif JOBS[job] != "pull":
            assert before.files[job] == after.files[job], f"{job}: its sheet was written"

    def _store_side(
        self, job: str, number: int, was: Pet | None, is_: Pet | None, before: Look
    ) -> None:
        """Check that a pet is added only for a row and deleted only if its row was removed."""
        rows = before.rows.get(job, [])
        line = next((each for each in rows if each.id == number), None)
        mine = _in_scope(was or is_ or {}, SCOPES[job])
        if was is not None and is_ is None and mine:
            known = [(name, self.agreed[job].get((number, name))) for name in FIELDS]
            assert line is None, f"{job}: {number} was deleted, and is in row {line}"
            assert all(values for _, values in known), f"{job}: {number} was deleted unseen"
            assert all(was[name] in (values or ()) for name, values in known), (
                f"{job}: {number} was deleted though it changed: {was}, {known}"
            )
        if was is None and is_ is not None and mine:
            like = [each for each in rows if each.id in (None, number) and _says(each, is_)]
            assert like, f"{job}: {number} {is_} was added, and no row asks for it"

    def _numbered(self, job: str, before: Look, after: Look) -> None:
        """Check that a sheet that leads gets only ids of existing pets, in rows that lack one."""
        old, new = before.rows.get(job, []), after.rows.get(job, [])
        assert len(old) == len(new), f"{job}: its rows are others"
        for was, is_ in zip(old, new, strict=True):
            own = {"id": is_.texts.get("id", "")} if was.id is None and is_.id is not None else {}
            assert {**was.texts, **own} == is_.texts, f"{job}: {was} was written: {is_}"
            assert not own or is_.id in after.pets, f"{job}: {is_} has the id of no pet"

    def _both(
        self, job: str, before: Look, after: Look, opens: list[dict[str, Any]], *, is_final: bool
    ) -> None:
        old = {line.id: line for line in before.rows[job] if line.id is not None}
        new = {line.id: line for line in after.rows[job] if line.id is not None}
        for number in sorted(old.keys() & new.keys() & before.pets.keys() & after.pets.keys()):
            if self.is_wrong(old[number], before.rows[job]) or old[number].action:
                assert old[number].texts == new[number].texts, f"{number}: a row with an error"
                continue
            for name in FIELDS:
                cell, has = old[number].values[name], before.pets[number][name]
                now = (new[number].values[name], after.pets[number][name])
                candidates = self.agreed[job].get((number, name), ())
                allowed = outcomes(name, candidates, cell, has)
                result = _covers(opens, (number, new[number].number, name))
                self._field((job, number, name), allowed, (cell, has), now, result or not is_final)
        for number in old.keys() - new.keys():
            assert number not in before.pets, f"{job}: the row of {number} was taken out"
            known = [self.agreed[job].get((number, name), ()) for name in FIELDS]
            assert all(known), f"{job}: the row of {number}, never reconciled, was taken out"
        for number in new.keys() - old.keys():
            assert number in after.pets, f"{job}: a row for {number}, which is not a pet"

    def _field(
        self,
        place: Any,
        allowed: list[Any],
        was: tuple[Any, Any],
        now: tuple[Any, Any],
        is_listed: bool,
    ) -> None:
        """Check one field; if the round did not finish, each side may also be unchanged."""
        for sheet, store in allowed:
            stayed = (sheet, store) == was
            fits = (now[0] is BLANK or now[0] == sheet) and now[1] == store
            if fits and (is_listed or not stayed or agree(*was)):
                return
            if is_listed and now[0] in (was[0], sheet) and now[1] in (was[1], store):
                return
            if is_listed and now[0] is BLANK and now[1] in (was[1], store):
                return
        raise AssertionError(f"{place}: sheet and store were {was}, are {now}; allowed {allowed}")

    def _remember(self, job: str, before: Look, after: Look, *, finished: bool) -> None:
        """Record the values on which both sides now agree.

        A value that the store took always counts, as the journal keeps it even if petsync was
        killed. A value that the sheet took may count or not, if the round did not finish.
        """
        known = self.agreed[job]
        lines = self._by_pet(job, after)
        for number, line in lines.items():
            if number not in after.pets:
                continue
            old = before.pets.get(number, {})
            for name in FIELDS:
                has = after.pets[number][name]
                if agree(line.values[name], has):
                    candidates = known.setdefault((number, name), [])
                    if finished or old.get(name) != has:
                        candidates[:] = [has]
                    elif has not in candidates:
                        candidates.append(has)
        if finished:
            for number, name in [*known]:
                if number not in lines and number not in after.pets:
                    del known[number, name]

    def _by_pet(self, job: str, look: Look) -> dict[int, Line]:
        """Return the row of each pet; a row without an id belongs to a pet with the same values."""
        rows = look.rows.get(job, [])
        found = {line.id: line for line in rows if line.id is not None}
        for line in rows:
            if line.id is None and not self.is_wrong(line, rows):
                free = (number for number in look.pets if number not in found)
                like = next((number for number in free if _says(line, look.pets[number])), None)
                if like is not None:
                    found[like] = line
        return found

    def _nothing_lost(
        self, before: Look, after: Look, since: int, touched: Collection[int]
    ) -> None:
        """Check that an overwritten sheet is in a backup, and an overwritten pet in the journal."""
        kept = {path.read_bytes() for path in self.world.folder.glob("*.backup-*")}
        for job, data in before.files.items():
            if after.files.get(job) != data:
                assert data in kept, f"{job}: the sheet as it was is in no backup"
        journal = self._journal()
        for number, was, is_ in self.world.overwritten(since):
            if number in touched:
                continue
            names = [name for name in FIELDS if is_ is None or was[name] != is_[name]]
            for name in names:
                assert any(old[name] == was[name] for old in journal.get(number, ())), (
                    f"{number} {name} was {was[name]!r}, which no journal has"
                )

    def _journal(self) -> dict[int, list[Pet]]:
        """Return each pet's versions before its changes, as the journal has them."""
        path = self.world.state / "journal.db"
        found: dict[int, list[Pet]] = {}
        if not path.exists():
            return found
        with closing(sqlite3.connect(path, timeout=120)) as connection:
            sql = "SELECT pet_id, before FROM change WHERE before IS NOT NULL"
            for number, text in connection.execute(sql):
                body = json.loads(text)
                body = {**body, "photoUrls": body.get("photo_urls", body.get("photoUrls"))}
                found.setdefault(number, []).append(pet_of(body))
        return found

    def _nothing_doubled(self, look: Look) -> None:
        """Check that each pet exists at most once, in the store and in each sheet."""
        stored = Counter(t for pet in look.pets.values() for t in _TOKEN.findall(pet["name"]))
        assert not (twice := {t: n for t, n in stored.items() if n > 1}), f"doubled: {twice}"
        for job, rows in look.rows.items():
            names = [line.texts.get("name", "") for line in rows if not self.is_wrong(line, rows)]
            tokens = Counter(t for name in names for t in _TOKEN.findall(name))
            assert not (twice := {t: n for t, n in tokens.items() if n > 1}), f"{job}: {twice}"

    def _no_secrets(self) -> None:
        """Check that the token is in no file that petsync wrote, and in no notice."""
        secret = self.world.token.encode()
        for path in self.world.folder.rglob("*"):
            if path.is_file() and not path.name.startswith("store.db"):
                assert secret not in path.read_bytes(), f"the token is in {path}"
        assert self.world.token not in json.dumps(self.world.post.letters)


def _in_scope(pet: Mapping[str, Any], tag: str) -> bool:
    return not tag or tag in pet.get("tags", ())


def _says(line: Line, pet: Pet) -> bool:
    return all(agree(line.values[name], pet[name]) for name in FIELDS)


def _covers(opens: Iterable[Mapping[str, Any]], place: Place) -> bool:
    """Return whether a reported difference concerns the place: its pet or row, and its field."""
    number, row, name = place
    for each in opens:
        about = (number is not None and each.get("pet_id") == number) or (
            row is not None and each.get("row") == row
        )
        fields = {"category" if f == "category_id" else f for f in each.get("fields", ())}
        if about and (not fields or name == WHOLE or name in fields):
            return True
    return False


def _is_real(open_: Mapping[str, Any], differences: set[Place], errors: set[int]) -> bool:
    fields = {"category" if f == "category_id" else f for f in open_.get("fields", ())}
    for number, row, name in differences:
        about = (number is not None and open_.get("pet_id") == number) or (
            row is not None and open_.get("row") == row
        )
        if about and (not fields or name == WHOLE or name in fields):
            return True
    return open_.get("row") in errors
