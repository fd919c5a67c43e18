"""Thirty nights: people edit both sides by day, petsync reconciles at night, and faults happen."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from crash.running import Nursery
from nights.auditor import Auditor
from nights.editor import Editor, row_of
from nights.moments import Moment, is_still
from nights.notices import Notices
from nights.postbox import Postbox
from nights.reading import FIELDS, pets_at
from nights.world import DAY, JOBS, Look, ReportedRound, World, waited

__all__ = ["Nights"]

_KINDS: tuple[Mapping[str, str], ...] = (
    {"catalogue": "xlsx", "mirror": "csv"},
    {"catalogue": "csv", "mirror": "xlsx"},
    {"catalogue": "xlsx", "mirror": "xlsx", "stall": "xlsx"},
)
_FAULTS = (
    "503=0.15",
    "429=0.1,retry_after=1,first=40",
    "drop_before=0.15",
    "drop_after=0.2",
    "torn=0.15",
    "latency=0.03,drop_after=0.1,503=0.05",
    "html=0.1,only=addPet+updatePet+updatePetWithForm",
    "twice=0.1,stale=0.1",
)
_PATIENCE = 90.0
_WELL = {0, 2, 3, 5}
"""The exit codes of a night in which nothing fails: only people's edits remain."""


class Nights:
    """A play of nights that follows from the seed, except for the moments of kills."""

    def __init__(self, seed: int, folder: Path, nursery: Nursery, post: Postbox) -> None:
        self.rng = rng = random.Random(f"nights {seed}")
        kinds = _KINDS[seed % len(_KINDS)]
        self.world = World(folder, nursery, post, (), profile="standard", kinds=dict(kinds))
        self.editor = Editor(self.world, rng)
        self.auditor = Auditor(self.world)
        self.notices = Notices()
        self.log: list[str] = []
        self.rounds: list[ReportedRound] = []
        self._files: dict[str, bytes] = {}

    def play(self) -> None:
        """Play every night, and the end, at which both sides agree."""
        try:
            self.open()
            for number, name in enumerate(self._order(), 1):
                self.world.night, self.world.ahead = number, number * DAY
                self.log.append(f"-- night {number}: {name}")
                getattr(self, f"_{name}")()
            self._end()
        except BaseException as error:
            self._note("")
            (self.world.folder / "nights.log").write_text("\n".join(self.log), "utf-8")
            deeds = "\n".join(self.log[-40:])
            error.add_note(f"{deeds}\nall of it is in {self.world.folder}/nights.log")
            raise
        finally:
            self.world.close()

    def _order(self) -> list[str]:
        """Return the nights' names: the first one first, the others in a random valid order."""
        groups = [
            ["quiet"], ["mistakes", "corrected"], ["outage", "recovery"], ["overlap"],
            ["emptied", "refilled"], ["clock_ahead", "clock_back"], ["pets_gone", "released"],
            ["rows_gone", "released"], ["pets_gone", "brought_back"], ["in_use", "quiet"],
            ["people_at_work"], *[["faults"]] * 4, *[["killed"]] * 5,
        ]  # fmt: skip
        self.rng.shuffle(groups)
        return ["first", *(name for group in groups for name in group), "decided"]

    def open(self) -> None:
        """Create a store with pets of three scopes, and the sheets as people first make them."""
        box, editor = self.world.box, self.editor
        scopes = ["shop"] * 36 + ["stall"] * 14 + [""] * 10
        box.reset(editor.make_pet(number, scope) for number, scope in enumerate(scopes, 1))
        shop = [pet for pet in box.pets() if any(tag.name == "shop" for tag in pet.tags)]
        stall = [pet for pet in box.pets() if any(tag.name == "stall" for tag in pet.tags)]
        self.world.new_sheet("catalogue", [row_of(pet) for pet in shop[2:]])
        self.world.new_sheet("stall", [row_of(pet) for pet in stall])
        self.world.new_sheet("watch", [row_of(pet) for pet in shop])

    # The nights

    def _first(self) -> None:
        """Nothing was reconciled before; both sides agree except for pets and rows on one side."""
        self.editor.bear_in_sheet("catalogue", "shop")
        self._slept(_WELL)
        assert self.world.sheets["mirror"].exists(), "pull makes its sheet"

    def _quiet(self) -> None:
        self._day()
        self._slept(_WELL)

    def _mistakes(self) -> None:
        self._day()
        self.editor.mistype("catalogue")
        self.editor.mistype("stall")
        self.editor.repeat("catalogue")
        self._slept({3})

    def _corrected(self) -> None:
        self._day(2)
        self.editor.correct()
        self._slept(_WELL)

    def _faults(self) -> None:
        self._day()
        faults = f"{self.rng.choice(_FAULTS)},seed={self.rng.randrange(1000)}"
        self._note(faults)
        self.world.box.set_faults(faults)
        self._slept({*_WELL, 1, 7})
        self.world.box.set_faults(None)

    def _outage(self) -> None:
        """The service is not available: nothing changes, and people are notified."""
        self._day()
        before = self.world.look()
        self.world.box.stop()
        result = self._slept({1}, before=before)
        assert {each.job for each in result} == set(JOBS)
        assert {each.status for each in result} == {"error"}
        after = self.world.look()
        assert (before.pets, before.files) == (after.pets, after.files)
        self.world.box.start()

    def _recovery(self) -> None:
        self._day()
        self._slept(_WELL)

    def _overlap(self) -> None:
        """One of two processes works, and the other ends with exit code 6."""
        self._day()
        before, since = self.world.look(), self.world.writes()
        self.world.box.set_faults("latency=0.1")
        asked = self.world.box.requests.total()
        first = self.world.reconcile("--job", "catalogue")
        assert first.until(lambda: self.world.box.requests.total() > asked), first.output()
        second = self.world.reconcile("--job", "catalogue")
        code = second.wait(_PATIENCE)
        assert code == 6, second.output()
        assert first.wait(_PATIENCE) in _WELL, first.output()
        self.world.box.set_faults(None)
        self.notices.overheard(self.world.post.taken())
        result = self._news()
        assert sorted(each.status == "locked" for each in result) == [False, True], result
        self._audit(before, since, [each for each in result if each.status != "locked"])

    def _emptied(self) -> None:
        """A sheet without rows is refused, and no pet is deleted."""
        self._files["catalogue"] = self.editor.empty("catalogue")
        before = self.world.look()
        result = self._slept({4}, before=before)
        mine = next(each for each in result if each.job == "catalogue")
        assert mine.status == "refused", mine
        shop = {n: p for n, p in before.pets.items() if "shop" in p["tags"]}
        assert shop == {n: p for n, p in self.world.pets().items() if "shop" in p["tags"]}
        assert before.files["catalogue"] == self.world.look().files["catalogue"]

    def _refilled(self) -> None:
        self.world.sheets["catalogue"].write_bytes(self._files.pop("catalogue"))
        self._slept(_WELL)

    def _clock_ahead(self) -> None:
        """The machine's clock is four hundred days ahead."""
        self._day()
        self._slept(_WELL, offset=400 * DAY)

    def _clock_back(self) -> None:
        """The clock is corrected: every stored time is now in the future."""
        self._day()
        result = self._slept(_WELL)
        assert {each.job for each in result} == set(JOBS)

    def _pets_gone(self) -> None:
        """A third of the pets is deleted in the store: the sheets keep their rows."""
        self._resolved()
        self._slept(_WELL)
        self._gone = list(self.world.box.pets())
        self.editor.kill_in_store("shop", 14)
        result = self._waits({"catalogue", "mirror"})
        again = self._waits({"catalogue", "mirror"})
        files = [
            {each.round["waiting"] for each in some if each.code == 4} for some in (result, again)
        ]
        assert files[0] == files[1], files

    def _rows_gone(self) -> None:
        """A third of the rows is removed: the store keeps its pets."""
        self._resolved()
        self._slept(_WELL)
        self.editor.remove_rows("catalogue", 14)
        self._waits({"catalogue"})

    def _released(self) -> None:
        """The next day, a person reviews the waiting plans and applies them."""
        for _ in range(3):
            waiting = [each.round["waiting"] for each in self.rounds if each.code == 4]
            for name in waiting:
                before, since = self.world.look(), self.world.writes()
                done = self.world.released(name)
                # A pet that changed since then is reported and left unchanged.
                assert done.wait(_PATIENCE) in (0, 5), done.output()
                self._audit(before, since, [])
            # The deletes may exceed what a sheet may lose without confirmation.
            self._slept({*_WELL, 4})
            if not any(each.code == 4 for each in self.rounds):
                return
            assert waiting
        raise AssertionError(f"it waits for ever: {self.rounds}")

    def _brought_back(self) -> None:
        """The pets are in the store again: no plan waits."""
        waiting = [Path(each.round["waiting"]) for each in self.rounds if each.code == 4]
        there = {pet.id for pet in self.world.box.pets()}
        for pet in self._gone:
            if pet.id not in there:
                self.world.box.put(pet)
        self._slept(_WELL)
        assert not any((self.world.folder / path).exists() for path in waiting)

    def _in_use(self) -> None:
        """The catalogue is open in LibreOffice: its job changes nothing."""
        self.editor.bear_in_store("shop")
        path = self.world.sheets["catalogue"]
        lock = path.with_name(f".~lock.{path.name}#")
        lock.write_text(",mia,desk,20.11.2026 17:00,file:///home/mia;", "utf-8")
        before = self.world.look()
        result = self._slept({1}, before=before)
        mine = next(each for each in result if each.job == "catalogue")
        assert mine.status == "error", mine
        assert "LibreOffice" in mine.round["problem"], mine
        shop = {n: p for n, p in before.pets.items() if "shop" in p["tags"]}
        assert shop == {n: p for n, p in self.world.pets().items() if "shop" in p["tags"]}
        lock.unlink()

    def _people_at_work(self) -> None:
        """Pets and cells are edited while the process works; no edit is lost."""
        self._day()
        before, since = self.world.look(), self.world.writes()
        self.world.box.set_faults("latency=0.05")
        asked = self.world.box.requests.total() + self.rng.randrange(8)
        running = self.world.reconcile("--job", "catalogue")
        running.until(lambda: self.world.box.requests.total() > asked)
        edited = self.editor.edit_store("shop")
        self.editor.edit_sheet("catalogue")
        middle = self.world.look()
        assert running.wait(_PATIENCE) in {*_WELL, 1}, running.output()
        self.world.box.set_faults(None)
        self.notices.overheard(self.world.post.taken())
        kept = {path.read_bytes() for path in self.world.folder.glob("*.backup-*")}
        now = self.world.look()
        mine = middle.files["catalogue"]
        assert mine == now.files["catalogue"] or mine in kept, "what a person saved is lost"
        self.auditor.check_night(
            Look(before.pets, before.rows, now.files), since, self._news(), touched={edited}
        )

    def _killed(self) -> None:
        """SIGKILL at some moment, up to three times; then the rest of the night."""
        self._day()
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            before, since = self.world.look(), self.world.writes()
            if self.rng.random() < 0.5:
                self.world.box.set_faults(f"latency=0.03,seed={self.rng.randrange(99)}")
            moment = Moment.drawn(self.world, self.rng)
            running = self.world.reconcile()
            self._note(f"to be killed: {moment.name}")
            moment.come(running)
            code = running.kill()
            self._note(f"killed: {code}")
            self.world.box.set_faults(None)
            waited(lambda: is_still(self.world))
            self.notices.overheard(self.world.post.taken())
            self._audit(before, since, self._news())
            if self.rng.random() < 0.5:
                self._day(2)
        self._slept(_WELL)

    def _decided(self) -> None:
        """A person decides every conflict."""
        self._resolved()
        self._slept(_WELL)

    # The parts of a night

    def _day(self, edits: int = 3) -> None:
        """Make the edits of one day."""
        self.editor.a_day("catalogue", edits=edits)
        if self.rng.random() < 0.7:
            self.editor.a_day("stall", edits=1)
        if self.rng.random() < 0.4:
            self.editor.edit_sheet("mirror")
        if self.rng.random() < 0.3:
            self.editor.edit_store("")

    def _slept(
        self, codes: set[int], *, before: Look | None = None, offset: float = 0.0
    ) -> list[ReportedRound]:
        """Run a whole night and return its rounds, after the auditor has checked them."""
        before, since = before or self.world.look(), self.world.writes()
        running = self.world.reconcile(offset=offset)
        code = running.wait(_PATIENCE)
        result = self._news()
        self._note(f"exit code {code}: {[(t.job, t.status) for t in result]}")
        assert code in codes, running.output()
        assert "Traceback" not in running.output(), running.output()
        assert sorted(each.job for each in result) == sorted(JOBS), result
        self.auditor.exit_code(code, result)
        self.notices.check(self.world.post.taken(), result)
        self.rounds = result
        self._audit(before, since, result)
        return result

    def _waits(self, jobs: set[str]) -> list[ReportedRound]:
        """Run a night in which these jobs' plans wait, and people are notified once."""
        before = self.world.look()
        result = self._slept({4}, before=before)
        for each in result:
            assert (each.status == "waiting") == (each.job in jobs), each.round
            if each.job in jobs:
                assert (self.world.folder / each.round["waiting"]).exists(), each.round
                name = self.world.sheets[each.job].name
                assert self.world.sheets[each.job].read_bytes() == before.files[each.job], name
        return result

    def _audit(self, before: Look, since: int, rounds: list[ReportedRound]) -> None:
        self.log += self.editor.deeds
        self.editor.deeds.clear()
        self.auditor.wrong = set(self.editor.mistakes)
        self.auditor.check_night(before, since, rounds)

    def _resolved(self) -> None:
        """Decide every open difference: the sheet takes the store's value."""
        self.editor.correct()
        self.auditor.wrong = set()
        for job in ("catalogue", "stall"):
            look = self.world.look()
            rows = {line.number: line for line in look.rows[job]}
            # From the bottom, because a text of several lines moves the rows below it.
            places = self.auditor.differences(job, look)
            for number, row, name in sorted(places, key=lambda place: -(place[1] or 0)):
                if row is not None and name:
                    stored = next(p for p in self.world.box.pets() if p.id == number)
                    text = row_of(stored)[name] or "[clear]"
                    self.editor.type(job, rows[row], name, text)
            look = self.world.look()
            lost = {
                row
                for number, row, name in self.auditor.differences(job, look)
                if row is not None and number is not None and not name
            }
            if lost:
                self.editor.remove_numbered(job, lost)
            self._restored(job)

    def _restored(self, job: str) -> None:
        """Write a row for pets of the scope that lost theirs; petsync adds rows of new pets."""
        look = self.world.look()
        for number, row, name in self.auditor.differences(job, look):
            known = all((number, each) in self.auditor.agreed[job] for each in FIELDS)
            if row is None and number is not None and not name and (known or job == "stall"):
                stored = next(p for p in self.world.box.pets() if p.id == number)
                self.editor.write_row(job, row_of(stored))

    def _news(self) -> list[ReportedRound]:
        return self.world.rounds()

    def _note(self, text: str) -> None:
        self.log += self.editor.deeds
        self.editor.deeds.clear()
        self.log.append(text)

    def _end(self) -> None:
        """Everything is decided: both sides agree, and one more round changes nothing."""
        rows = [row_of(p) for p in self.world.box.pets() if any(t.name == "shop" for t in p.tags)]
        for _ in range(4):
            self._resolved()
            shop = [p for p in self.world.box.pets() if any(t.name == "shop" for t in p.tags)]
            rows = [row_of(pet) for pet in shop]
            self.world.new_sheet("watch", rows)
            if all(each.code == 0 for each in self._slept(_WELL)):
                break
        before = self.world.look()
        result = self._slept({0})
        assert {each.status for each in result} == {"in-sync"}, result
        after = self.world.look()
        assert (before.pets, before.files) == (after.pets, after.files)
        assert after.pets == pets_at(self.world.box.url, self.world.token)
        for job in JOBS:
            assert not self.auditor.differences(job, after), job
