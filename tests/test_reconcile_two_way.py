"""Jobs that write the sheet: two-way, where both sides merge, and pull, where the store leads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest
from msgspec.structs import replace
from scenarios import DOGS, PETS, CsvScenario, Scenario, changed, kinds
from times import times

import petsync as ps
from petsync import sheets
from petsync.plan.guard import Guard, Limit
from petsync.plan.report import RoundReport
from petsync.plan.rounds import NEW_ID
from petsync.reconcile.state import BaseFile
from petsync.report.html import document_html
from petsync.report.json import round_json
from petsync.report.views.round import rounds_page_view
from petsync.sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def scenario(_open_box: Sandbox, tmp_path: Path) -> Scenario:
    """Return a store and a sheet that agree after one round."""
    _open_box.set_faults(None)
    _open_box.reset(PETS)
    scenario = Scenario(_open_box, tmp_path, {"mode": "two-way"})
    scenario.write()
    assert scenario.run().round.status == "in-sync"
    return scenario


@pytest.fixture
def cells(_open_box: Sandbox, tmp_path: Path) -> CsvScenario:
    """Return a store and a CSV file that agree after one round, without limits of changes."""
    _open_box.set_faults(None)
    _open_box.reset(PETS)
    guard = Guard(max_delete=Limit(1.0), max_update=Limit(1.0))
    scenario = CsvScenario(_open_box, tmp_path, {"mode": "two-way", "guard": guard})
    scenario.write()
    assert scenario.run().round.status == "in-sync"
    return scenario


def test_edits_on_both_sides_merge(scenario: Scenario) -> None:
    """Edits of each side reach the other, even for one pet, and new pets become rows."""
    scenario.write(changed(changed(PETS, 1, name="Rex"), 2, status="pending"))
    scenario.box.put(changed(PETS, 2, name="Mia")[1])
    scenario.box.put(changed(PETS, 3, status="pending")[2])
    scenario.box.put(ps.Pet(id=50, name="Neu", status="available"))
    report = scenario.run()
    assert (report.round.status, report.round.applied) == ("done", 5)
    assert report.round.to_store.update == 2
    assert (report.round.to_sheet.update, report.round.to_sheet.add) == (2, 1)
    assert scenario.sheet_pets() == scenario.store_pets()
    assert scenario.store_pets()[2].name == "Mia"
    assert scenario.store_pets()[2].status == "pending"
    assert Path(report.round.backup).is_file()
    assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize("decided", ["sheet", "store"])
def test_a_conflict_stays_until_it_is_decided(scenario: Scenario, decided: str) -> None:
    """A conflict is reported in each round and both sides stay, until both have the same value."""
    scenario.write(changed(PETS, 1, name="Rex"))
    scenario.box.put(changed(PETS, 1, name="Rey")[0])
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, report.round.exit_code) == ("conflicts", 5)
        assert kinds(report) == [("conflict", 1)]
    assert (scenario.sheet_pets()[1].name, scenario.store_pets()[1].name) == ("Rex", "Rey")
    if decided == "sheet":
        scenario.box.put(changed(PETS, 1, name="Rex")[0])
    else:
        scenario.write(changed(PETS, 1, name="Rey"))
    assert scenario.run().round.status == "in-sync"


@pytest.mark.parametrize(("winner", "name"), [("store", "Rey"), ("sheet", "Rex")])
def test_a_job_may_say_who_wins(scenario: Scenario, winner: str, name: str) -> None:
    """`on_conflict` gives both sides the winner's value, and a note names the store's value that is
    replaced.
    """
    scenario.write(changed(PETS, 1, name="Rex"))
    scenario.box.put(changed(PETS, 1, name="Rey")[0])
    report = scenario.run(on_conflict=winner)
    notes = ["'Rey' was replaced with the sheet's 'Rex'" in each.problem for each in report.open]
    assert (report.round.status, notes) == ("done", [True] if winner == "sheet" else [])
    assert scenario.sheet_pets()[1].name == scenario.store_pets()[1].name == name


def test_deletions_travel_only_when_asked_for(scenario: Scenario) -> None:
    """A removed row and a deleted pet are notes without delete_missing, which say why; with it,
    both are deleted on the other side.
    """
    scenario.write(PETS[1:])
    scenario.box.remove(2)
    report = scenario.run()
    assert report.round.exit_code == 0
    assert sorted(kinds(report)) == [("note", 1), ("note", 2)]
    assert all(each.problem.endswith(": delete_missing is off") for each in report.open)
    report = scenario.run(delete_missing=True)
    assert (report.round.status, report.open) == ("done", ())
    assert set(scenario.sheet_pets()) == set(scenario.store_pets()) == set(range(3, 13))


def test_a_row_without_an_id_gets_the_one_that_its_pet_has(scenario: Scenario) -> None:
    """A new row gets the id of its pet, so later changes of the pet reach that row."""
    scenario.write([*PETS, ps.Pet(name="Neu", status="sold")])
    report = scenario.run()
    (new,) = set(scenario.store_pets()) - {pet.id for pet in PETS}
    assert report.round.status == "done"
    assert scenario.sheet_pets() == scenario.store_pets()
    scenario.box.put(ps.Pet(id=new, name="Neu!", status="sold"))
    assert scenario.run().round.status == "done"
    assert scenario.sheet_pets() == scenario.store_pets()


def test_an_edit_that_is_taken_back_is_an_edit(scenario: Scenario) -> None:
    """A value that was sent is agreed, so setting it back is an edit."""
    sheet = scenario.sheet.read_bytes()
    scenario.write(changed(PETS, 1, name="Rex"))
    assert scenario.run().round.status == "done"
    scenario.sheet.write_bytes(sheet)
    assert scenario.run().round.status == "done"
    assert scenario.store_pets()[1].name == "Pet 1"


def test_an_open_sheet_changes_nothing_on_either_side(scenario: Scenario) -> None:
    """A sheet that is open is found before anything is sent, and both sides stay unchanged."""
    scenario.write(changed(PETS, 1, name="Rex"))
    scenario.box.put(changed(PETS, 2, name="Mia")[1])
    lock = scenario.sheet.with_name(f".~lock.{scenario.sheet.name}#")
    lock.write_text(",ada,", "utf-8")
    report = scenario.run()
    assert (report.round.status, report.round.exit_code) == ("error", 1)
    assert "LibreOffice" in report.round.problem
    assert scenario.store_pets()[1].name == "Pet 1"
    lock.unlink()
    assert scenario.run().round.status == "done"


def test_pull_takes_everything_and_sends_nothing(scenario: Scenario) -> None:
    """A pull writes all values of the store into the sheet, sends nothing, and keeps a row without
    a pet, with a note.
    """
    scenario.write([*changed(PETS, 1, name="Rex"), ps.Pet(id=70, name="Nur hier", status="sold")])
    scenario.box.put(changed(PETS, 2, name="Mia")[1])
    before = scenario.box.requests
    report = scenario.run(mode="pull")
    assert report.round.status == "done"
    assert kinds(report) == [("note", 70)]
    assert set(scenario.box.requests - before) <= {"findPetsByStatus", "getPetById"}
    assert {**scenario.sheet_pets(), 70: None} == {**scenario.store_pets(), 70: None}
    scenario.sheet.unlink()
    report = scenario.run(mode="pull", name="fresh")
    assert (report.round.status, report.round.to_sheet.add) == ("done", 12)
    assert scenario.sheet_pets() == scenario.store_pets()
    assert scenario.run(mode="pull", name="fresh").round.status == "in-sync"


@pytest.mark.parametrize("ending", ["xlsx", "csv"])
def test_an_export_brings_its_own_base_once(scenario: Scenario, ending: str) -> None:
    """An export's own base is used in its first round and after each new export; between them the
    job's base is used.
    """
    sheet = scenario.folder / f"export.{ending}"
    options = {"sheet": sheet, "name": "export", "timeout": 5.0}
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        ps.write_sheet(store.snapshot(), sheet)
    scenario.box.put(changed(PETS, 1, name="Store 1")[0])
    read = ps.read_sheet(sheet)
    assert scenario.run(**options).round.to_sheet.update == 1
    assert scenario.run(**options).round.status == "in-sync"
    again = ps.read_sheet(sheet)
    assert again.base is not None
    assert again.base.taken_at != (read.base.taken_at if read.base else "")
    scenario.box.put(changed(PETS, 2, name="Store 2")[1])
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        ps.write_sheet(store.snapshot(), sheet)
    scenario.box.put(changed(PETS, 2, name="Store 2b")[1])
    report = scenario.run(**options)
    assert (report.round.status, report.round.to_sheet.update) == ("done", 1)
    assert scenario.run(**options).open == ()


def test_what_nobody_knows_the_past_of_is_a_conflict(scenario: Scenario) -> None:
    """A job that lost its state folder treats each difference as a conflict and prefers neither
    side.
    """
    scenario.box.put(changed(PETS, 1, name="Edited in the store")[0])
    scenario.write(changed(PETS, 2, name="Edited in the sheet"))
    shutil.rmtree(scenario.state)
    for _ in range(2):
        report = scenario.run()
        assert (report.round.status, kinds(report)) == (
            "conflicts",
            [("conflict", 1), ("conflict", 2)],
        )
        assert (report.round.to_store.total, report.round.to_sheet.total) == (0, 0)
        assert "it is unknown which is newer" in report.open[0].problem
    assert scenario.store_pets()[1].name == "Edited in the store"
    assert scenario.sheet_pets()[2].name == "Edited in the sheet"
    assert scenario.run(on_conflict="store").round.status == "done"
    assert scenario.run().round.status == "in-sync"
    assert scenario.sheet_pets() == scenario.store_pets()
    assert scenario.sheet_pets()[2].name == "Pet 2"


def test_a_job_of_another_name_goes_on_from_what_was_agreed_on(scenario: Scenario) -> None:
    """A renamed job continues from the base of its old name."""
    scenario.box.put(changed(PETS, 1, name="Edited in the store")[0])
    scenario.write(changed(PETS, 2, name="Edited in the sheet"))
    assert scenario.run(name="another").round.status == "done"
    assert scenario.sheet_pets() == scenario.store_pets()
    names = scenario.store_pets()[1].name, scenario.store_pets()[2].name
    assert names == ("Edited in the store", "Edited in the sheet")


@pytest.mark.parametrize("is_again", [False, True])
def test_what_the_sheet_took_is_agreed_on_before_the_base_is_kept(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, is_again: bool
) -> None:
    """Values that the sheet took are agreed even if the round is killed before it saves the base,
    and so may be the next one: the sheet takes the store's later values, and its own edits are
    sent.
    """
    scenario.box.put(changed(PETS, 1, name="First", status="sold")[0])
    scenario.box.put(ps.Pet(id=50, name="New", status="sold", category=DOGS))
    with monkeypatch.context() as patch:
        patch.setattr(BaseFile, "keep", Mock(side_effect=KeyboardInterrupt))
        assert scenario.run().round.status == "interrupted"
    assert scenario.sheet_pets()[1].name == "First"
    scenario.box.put(changed(PETS, 1, name="Second", status="sold")[0])
    scenario.box.put(ps.Pet(id=50, name="New", status="sold"))
    rows = scenario.sheet_pets()
    scenario.write(changed(rows.values(), 1, status="pending"))
    if is_again:
        with monkeypatch.context() as patch:
            patch.setattr(sheets, "write_synced", Mock(side_effect=KeyboardInterrupt))
            assert scenario.run().round.status == "interrupted"
    report = scenario.run()
    assert (report.round.status, report.open) == ("done", ())
    assert scenario.sheet_pets() == scenario.store_pets()
    assert (scenario.store_pets()[1].name, scenario.store_pets()[1].status) == ("Second", "pending")
    assert scenario.store_pets()[50].category is None


@pytest.mark.parametrize("winner", ["ask", "store"])
def test_a_killed_first_round_takes_nothing_from_the_store(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, winner: str
) -> None:
    """If a first round is killed before it writes the sheet, the next one removes no tag and no
    photo of the store that the sheet lacks, and sends no value over which the store wins.
    """
    shutil.rmtree(scenario.state)
    more = {
        "tags": (ps.Tag(1, "calm"), ps.Tag(2, "shy")),
        "photo_urls": ("https://shop.example/s",),
    }
    scenario.box.reset(changed(PETS, 1, name="Store", category=None, **more))
    with monkeypatch.context() as patch:
        patch.setattr(sheets, "write_synced", Mock(side_effect=KeyboardInterrupt))
        assert scenario.run(on_conflict=winner).round.status == "interrupted"
    assert scenario.store_pets()[1].category == DOGS
    for status in ("done", "in-sync") if winner == "store" else ("conflicts", "conflicts"):
        assert scenario.run(on_conflict=winner).round.status == status
        pet, row_pet = scenario.store_pets()[1], scenario.sheet_pets()[1]
        assert pet.name == "Store"
        assert (
            {tag.name for tag in pet.tags} == {tag.name for tag in row_pet.tags} == {"calm", "shy"}
        )
        assert (
            {*pet.photo_urls} == {*row_pet.photo_urls} == {*PETS[0].photo_urls, *more["photo_urls"]}
        )


def test_tags_that_nobody_knows_the_past_of_are_joined(scenario: Scenario) -> None:
    """Without a base, the tags of both sides are joined, because each may have been added on one
    side or removed on the other.
    """
    shutil.rmtree(scenario.state)
    scenario.write(changed(PETS, 1, tags=(ps.Tag(2, "shy"),)))
    assert scenario.run().round.status == "done"
    assert {tag.name for tag in scenario.store_pets()[1].tags} == {"calm", "shy"}
    assert {tag.name for tag in scenario.sheet_pets()[1].tags} == {"calm", "shy"}
    assert scenario.run().round.status == "in-sync"


def test_a_row_for_a_pet_that_the_base_lacks_is_a_conflict_where_it_differs(
    scenario: Scenario,
) -> None:
    """A row for a pet that the base lacks is a conflict where their values differ."""
    scenario.box.put(ps.Pet(id=77, name="New here", status="available"))
    scenario.write([*PETS, ps.Pet(id=77, name="Old name", status="available")])
    report = scenario.run()
    assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 77)])
    assert (scenario.store_pets()[77].name, scenario.sheet_pets()[77].name) == (
        "New here",
        "Old name",
    )


def test_a_number_of_an_unknown_category_stays_in_conflict(scenario: Scenario) -> None:
    """An unknown category id in a row without a base stays in conflict while the sheet takes other
    values.
    """
    shutil.rmtree(scenario.state)
    scenario.write(changed(PETS, 1, category=ps.Category(77, "Dogs")))
    for name in ("One", "Two"):
        report = scenario.run()
        assert (report.round.status, kinds(report)) == ("conflicts", [("conflict", 1)])
        category = scenario.sheet_pets()[1].category
        assert category is not None
        assert category.id == 77
        scenario.box.put(changed(PETS, 2, name=name)[1])


@pytest.mark.parametrize("profile", ["standard", "live"])
def test_a_first_round_leaves_no_number_beside_a_new_category(tmp_path: Path, profile: str) -> None:
    """In a round without a base, a new category whose row has another category's number gets what
    the store has, in new rows and in those of pets, and the next round has nothing to do.
    """
    with Sandbox(auth=False, profile=profile, pets=changed(PETS, 1, category=None)) as box:
        guard = Guard(max_update=Limit(1.0))
        scenario = CsvScenario(box, tmp_path, {"mode": "two-way", "guard": guard})
        scenario.write(changed(PETS, 1, category=ps.Category(DOGS.id, "Birds")))
        rows = scenario.rows()
        new = {"status": "sold", "category": "Birds"}
        ids = [str(DOGS.id), ""]
        more = [{"name": f"New {n}", "category_id": number, **new} for n, number in enumerate(ids)]
        scenario.save([*rows, *([each.get(name, "") for name in rows[0]] for each in more)])
        report = scenario.run()
        assert (report.round.exit_code, report.round.status, report.open) == (0, "done", ())
        report = scenario.run()
        assert (report.round.exit_code, report.round.status, report.open) == (0, "in-sync", ())
        assert {scenario.cell(number, "category_id") for number in (1, 13, 14)} <= {"", "0"}


# The preview: a dry run lists every cell that the next round writes.


_TAGS = {"calm": 1, "shy": 2, "new": None}
_CATEGORIES = {"Dogs": 1, "Cats": 2, "Birds": None}


def _edit_store(random: Random, box: Sandbox) -> None:
    for pet in box.pets():
        if random.random() < 0.06 and pet.id is not None:
            box.remove(pet.id)
        elif random.random() < 0.4:
            name = random.choice(sorted(_TAGS))
            tags = {tag.name: tag for tag in (*pet.tags, ps.Tag(_TAGS[name], name))}
            category = random.choice([None, DOGS, ps.Category(2, "Cats"), ps.Category(3, "Fish")])
            url = f"https://shop.example/s{random.randint(1, 3)}.jpg"
            edits = (
                {"name": f"Store {random.randint(1, 9)}"},
                {"status": random.choice(["available", "pending", "sold"])},
                {"category": category},
                {"tags": tuple(tags.values())},
                {"photo_urls": (*pet.photo_urls, url)},
            )
            for edit in random.sample(edits, 2):
                pet = replace(pet, **edit)
            box.put(pet)
    box.put(ps.Pet(id=random.randint(50, 60), name="Store new", status="sold"))


def _edit_sheet(random: Random, scenario: CsvScenario) -> None:
    header, *rows = scenario.rows()

    def edit(cells: dict[str, str]) -> None:
        tag, name = random.choice(sorted(_TAGS)), random.choice(sorted(_CATEGORIES))
        url = f"https://shop.example/t{random.randint(1, 3)}.jpg"
        number = random.choice(["", cells["category_id"], str(_CATEGORIES[name] or "")])
        edits = (
            {"name": f"Sheet {random.randint(1, 9)}"},
            {"status": random.choice(["available", "pending", "sold"])},
            {"category": name, "category_id": number},
            {"tags": "; ".join(filter(None, (cells["tags"], tag)))},
            {"photo_urls": " | ".join(filter(None, (cells["photo_urls"], url)))},
            {"action": random.choice(["", "update", "delete", "ignore"])},
        )
        for change in random.sample(edits, 2):
            cells.update(change)

    table = [dict(zip(header, row, strict=True)) for row in rows if random.random() > 0.05]
    for cells in table:
        if random.random() < 0.4:
            edit(cells)
    for number in range(random.randint(0, 3)):
        cells = dict.fromkeys(header, "")
        edit(cells)
        action = random.choice(["", "add", "add-another"])
        own_id = random.choice(["", "", str(80 + number)])
        cells |= {"id": own_id, "name": f"New {number}", "status": "sold", "action": action}
        table.append(cells)
    scenario.save([header, *([cells[name] for name in header] for cells in table)])


def _apply_preview(rows: list[list[str]], dry: RoundReport, real: RoundReport) -> list[list[str]]:
    """Return the rows with the cells that the dry run lists, and the ids that the store gave."""
    header, lines = rows[0], dict(enumerate(rows, 1))
    results = () if real.report is None else real.report.results
    ids = {each.row: str(each.assigned_id) for each in results if each.assigned_id is not None}
    added = []
    for change in dry.sheet:
        texts = {name: new.replace("\n", " | ") for name, (_, new) in change.values.items()}
        if change.kind == "add":
            texts = {**dict.fromkeys(header, ""), **texts, "id": str(change.pet_id)}
            added.append([texts[name] for name in header])
        elif change.kind == "delete":
            del lines[change.row or 0]
        else:
            texts = {n: ids[change.row] if text == NEW_ID else text for n, text in texts.items()}
            old = dict(zip(header, lines[change.row or 0], strict=True))
            lines[change.row or 0] = [{**old, **texts}[name] for name in header]
    return [*lines.values(), *added]


@pytest.mark.parametrize("seed", range(times(6)))
def test_a_round_writes_exactly_the_cells_of_its_dry_run(cells: CsvScenario, seed: int) -> None:
    """After edits on both sides, a dry run changes nothing, and the round after it writes the cells
    that the dry run lists, with the ids that the store gave, and no others.
    """
    random = Random(seed)
    options = {
        "delete_missing": random.random() < 0.5,
        "on_conflict": random.choice(["ask", "store", "sheet"]),
        "owners": random.choice([{}, {}, {"status": "store"}, {"tags": "never"}]),
    }
    for _ in range(2):
        _edit_store(random, cells.box)
        _edit_sheet(random, cells)
        rows, pets, files = cells.rows(), cells.box.pets(), cells.state_files()
        sheet, requests = cells.sheet.read_bytes(), cells.box.requests
        dry = cells.run(dry_run=True, **options)
        assert (cells.sheet.read_bytes(), cells.box.pets(), cells.state_files()) == (
            sheet,
            pets,
            files,
        )
        assert set(cells.box.requests - requests) <= {"findPetsByStatus", "getPetById"}
        real = cells.run(**options)
        assert _apply_preview(rows, dry, real) == cells.rows()
        assert dry.round.to_sheet == real.round.to_sheet


def test_a_dry_run_marks_the_cells_that_follow_its_requests(cells: CsvScenario) -> None:
    """The ids of new pets, the number of a category that the sheet names, and tags that both sides
    extended are listed as text, on the page and in the JSON, marked as following the requests.
    """
    cells.box.put(changed(PETS, 1, tags=(ps.Tag(1, "calm"), ps.Tag(2, "old")))[0])
    cells.box.put(changed(PETS, 3, name="Tom", category=ps.Category(2, "Cats"))[2])
    cells.type(1, tags="calm; shy")
    cells.type(2, category="Cats")
    new = [{"name": "Neu", "action": "add"}, {"name": "Two", "category": "Birds"}]
    header, *rows = cells.rows()
    rows += [[{"status": "sold", **pet}.get(name, "") for name in header] for pet in new]
    cells.save([header, *rows])
    dry = cells.run(dry_run=True)
    after = [(each.row, each.pet_id, {**each.values}) for each in dry.sheet if each.after_requests]
    assert after == [
        (2, 1, {"tags": ("calm; shy", "calm; old; shy")}),
        (3, 2, {"category_id": ("1", "2")}),
        (14, None, {"id": ("", "the new id"), "action": ("add", "merge")}),
        (15, None, {"id": ("", "the new id")}),
    ]
    (planned,) = (each for each in dry.sheet if not each.after_requests)
    assert (planned.pet_id, {*planned.values}) == (3, {"name", "category", "category_id"})
    problems = {each.address: each.problem for each in dry.open if each.kind == "drift"}
    number = "category_id: '1' -> '2' (as in the store after the requests)"
    assert problems["line 3, column 5"] == number
    for line in (14, 15):
        assert problems[f"line {line}, column 1"].endswith("and its row gets the new id")
    merge = "its action `add` is to become `merge` after the requests"
    assert problems["line 14, column 8"] == merge
    tags = "tags: 'calm; shy' -> 'calm; old; shy' (as in the store after the requests)"
    assert tags in " ".join(repr(dry).split())
    page = document_html(rounds_page_view([dry]))
    assert page.count("After the requests to the store.") == 4
    assert "The row gets the new id. The action becomes merge." in page
    assert "Cats (2)" in page
    marks = [each["after_requests"] for each in json.loads(round_json(dry))["sheet"]]
    assert marks.count(True) == 4
    (note,) = (each.problem for each in dry.open if each.kind == "note")
    assert note.endswith("into the sheet: line 15, column 5")
    assert dry.round.to_sheet.update == cells.run().round.to_sheet.update == 5


def test_a_dry_run_names_the_cells_that_the_round_cannot_write(cells: CsvScenario) -> None:
    """A cell that the file cannot contain is an error in the dry run, as in the round, and the
    other cells of its row are listed and written.
    """
    cells.box.put(changed(PETS, 2, name="a\0b", status="pending")[1])
    dry, real = cells.run(dry_run=True), cells.run()
    assert [(each.kind, each.address, each.fields) for each in dry.open] == [
        ("finding", "line 3, column 2", ("name",)),
        ("drift", "line 3, column 3", ("status",)),
    ]
    assert [{**each.values} for each in dry.sheet] == [{"status": ("sold", "pending")}]
    assert dry.round.status == real.round.status == "findings"
    assert (cells.cell(2, "name"), cells.cell(2, "status")) == ("Pet 2", "pending")


def test_a_dry_run_says_that_the_sheet_will_change_too_much(cells: CsvScenario) -> None:
    """If the changes after the requests exceed a limit for the sheet, a note in the dry run names
    it, and the round sends its plan and leaves the sheet for the next round.
    """
    for pet in PETS:
        cells.box.put(replace(pet, tags=(ps.Tag(1, "calm"), ps.Tag(2, "old"))))
        if pet.id != 12:
            cells.type(pet.id or 0, tags="calm; shy")
    guard = Guard(max_update=Limit(11, is_share=False), max_delete=Limit(1.0))
    rows = cells.rows()
    dry = cells.run(dry_run=True, guard=guard)
    assert (dry.sheet, dry.round.status) == ((), "drift")
    (note,) = (each.problem for each in dry.open if each.kind == "note")
    assert note.startswith("after its requests, the round does not write the sheet")
    assert "max_update" in note
    cells.run(guard=guard)
    assert cells.rows() == rows


@pytest.mark.parametrize("mode", ["push", "two-way"])
def test_a_dry_run_lists_the_id_of_each_new_pet(cells: CsvScenario, mode: str) -> None:
    """The ids that the rows of new pets get are in the JSON of a dry run, also in push."""
    cells.save([*cells.rows(), ["", "Neu", "sold", *[""] * 5]])
    dry, real = cells.run(mode=mode, dry_run=True), cells.run(mode=mode)
    (new,) = dry.sheet
    assert (new.row, new.pet_id, new.after_requests) == (14, None, True)
    assert (new.name, {**new.values}) == ("Neu", {"id": ("", NEW_ID)})
    assert [(each.row, each.name, each.after_requests) for each in real.sheet] == [
        (14, "Neu", False)
    ]
