"""Rules of one's own in plans, runs and rounds, for the sheet and for the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scenarios import PETS, CsvScenario
from shop import snapshot_of

import petsync as ps
from petsync.errors import PlanError, SettingsError
from petsync.plan.drift import find_drift
from petsync.sandbox import Sandbox
from petsync.types import SheetRule

pytestmark = pytest.mark.slow

SHORT = SheetRule(name="short", columns=["name"], max_length=6)
SOLD = SheetRule(
    name="sold", columns=["status"], values=["available", "pending"], applies_to="store"
)


@pytest.fixture(scope="module")
def _open_box() -> Iterator[Sandbox]:
    with Sandbox(auth=False) as box:
        yield box


@pytest.fixture
def scenario(_open_box: Sandbox, tmp_path: Path) -> CsvScenario:
    """Return a store with twelve pets, and a sheet of them."""
    _open_box.set_faults(None)
    _open_box.reset(PETS)
    scenario = CsvScenario(_open_box, tmp_path)
    scenario.write()
    return scenario


@pytest.fixture
def store(scenario: CsvScenario) -> Iterator[ps.Store]:
    """Yield the store, with a state folder of its own."""
    with ps.connect(scenario.box.url, state=scenario.state) as store:
        yield store


def with_rules(store: ps.Store, *rules: SheetRule) -> ps.Store:
    """Give the store these rules, as a petsync.toml does."""
    store.aio.settings = dataclasses.replace(store.aio.settings, rules=rules)
    return store


def test_an_error_keeps_its_row_out_of_the_plan(store: ps.Store, scenario: CsvScenario) -> None:
    """A row that breaks an error is blocked, with the message, and is not sent; the report and the
    results name it.
    """
    scenario.type(1, name="Far too long", status="sold")
    scenario.type(2, name="Other")
    with_rules(store, SHORT)
    plan = store.plan(scenario.sheet)
    assert [(each.pet_id, each.fields) for each in plan.changes] == [(2, ("name",))]
    (blocked,) = plan.blocked[:1]
    assert (blocked.row, blocked.pet_id) == (2, 1)
    assert "It must have at most 6 characters." in blocked.problem
    report = store.apply(plan)
    assert report.counts["needs fixing"] == len(plan.blocked) == 1
    assert scenario.store_pets()[1].name == "Pet 1"
    assert scenario.store_pets()[2].name == "Other"
    sheet = store.read(scenario.sheet)
    ps.write_results(sheet, report, scenario.folder / "results.csv")
    text = (scenario.folder / "results.csv").read_text("utf-8-sig")
    assert "It must have at most 6 characters." in text


def test_a_blocked_row_is_not_a_missing_row(store: ps.Store, scenario: CsvScenario) -> None:
    """The pet of a row that breaks a rule is not deleted as missing, also if the rule is for ids,
    or if a column is missing.
    """
    for rule in (
        SheetRule(name="ids", columns=["id"], maximum=6),
        SheetRule(name="vet", columns=["Vet"], required=True),
    ):
        plan = store.plan(store.read(scenario.sheet, rules=[rule]), delete_missing=True)
        assert plan.changes == ()
        assert len(plan.blocked) == (6 if rule.name == "ids" else 12)
        assert all(each.problem for each in plan.blocked)


def test_the_frame_of_a_sheet_deletes_no_pet_of_a_blocked_row(
    store: ps.Store, scenario: CsvScenario
) -> None:
    """`delete_missing` refuses the frame of a sheet with blocked rows, also after a selection, and
    takes it again once it has these rows.
    """
    scenario.type(1, name="Far too long")
    scenario.type(2, status="solld")
    sheet = store.read(scenario.sheet, rules=[SHORT])
    frame = sheet.frame.sort_values("name")
    for table in (sheet.frame, frame, frame.copy()):
        with pytest.raises(PlanError, match="rows of pet 1, of pet 2 need fixing"):
            store.plan(table, delete_missing=True)
    assert store.plan(frame).changes == ()
    fixed = pd.concat([frame, pd.DataFrame({"id": [1, 2], "name": ["One", "Two"]})])
    fixed.attrs = frame.attrs
    plan = store.plan(fixed, delete_missing=True)
    assert [(each.kind, each.pet_id) for each in plan.changes] == [("update", 1), ("update", 2)]
    scenario.type(3, id="x")
    sheet = store.read(scenario.sheet, rules=[SHORT])
    with pytest.raises(PlanError, match="of pet 2, without an id need fixing"):
        store.plan(sheet.frame, delete_missing=True)
    assert store.plan(sheet, delete_missing=True).deletes == ()


def test_a_sheet_keeps_its_rules(store: ps.Store, scenario: CsvScenario) -> None:
    """`rules=[]` reads without the rules of petsync.toml; a Sheet takes no others."""
    scenario.type(1, name="Far too long")
    with_rules(store, SHORT)
    assert len(store.plan(store.read(scenario.sheet, rules=[])).changes) == 1
    sheet = store.read(scenario.sheet)
    assert len(store.plan(sheet).blocked) == 1
    corrected = store.read(sheet, corrections={"line 2, column 2": "Short"})
    assert (len(corrected.blocked), len(corrected.rules)) == (0, 1)
    for others in ([SHORT], []):
        with pytest.raises(SettingsError, match="rules cannot apply to a Sheet"):
            store.read(sheet, rules=others)


def test_a_plan_names_the_pets_that_break_a_rule_of_the_store(
    store: ps.Store, scenario: CsvScenario
) -> None:
    """A plan notes the pets that break a rule in the store, and which of them it corrects; no row
    is blocked.
    """
    scenario.type(2, status="available")
    plan = store.plan(store.read(scenario.sheet, rules=[SOLD]))
    assert plan.blocked == ()
    notes = [note for note in plan.notes if "rule sold" in note]
    problem = "The rule sold (The value must be one of available, pending) is broken in the store"
    assert notes == [
        f"{problem} by 3 pets: 5, 8, 11.",
        f"{problem} by 1 pet: 2; the plan corrects this.",
    ]


def test_drift_is_that_of_the_pets_after_the_plan() -> None:
    """A deleted or corrected pet is corrected drift; `unique` and lists work on pets too."""
    pets = [ps.Pet(id=n, name=f"P{n % 2}", tags=(ps.Tag(None, "a"),) * (n > 1)) for n in (1, 2, 3)]
    frame = snapshot_of(pets).rows
    unique = SheetRule(name="u", columns=["name"], unique=True, applies_to="store")
    tagged = SheetRule(name="t", expression="count(tags) > 0 and id < 3", applies_to="store")
    need = SheetRule(name="n", columns=["category", "tags"], required=True, applies_to="store")
    found = [(each.rule.name, each.ids) for each in find_drift([unique, tagged, need], frame)]
    assert found == [("u", (1, 3)), ("t", (1, 3)), ("n", (1, 2, 3))]


@pytest.mark.parametrize("mode", ["push", "two-way", "check"])
def test_a_round_keeps_the_rules_of_its_job(scenario: CsvScenario, mode: str) -> None:
    """A round reports a row that breaks a rule, sends nothing for it, and lists each pet of the
    store that breaks a rule as a note.
    """
    scenario.type(1, name="Far too long")
    report = scenario.run(mode=mode, rules=(SHORT, SOLD))
    (finding,) = [each for each in report.open if each.kind == "finding"]
    assert (finding.row, "at most 6 characters" in finding.problem) == (2, True)
    drift = [each for each in report.open if each.problem.startswith("rule sold: ")]
    assert {each.kind for each in drift} == {"note"}
    assert [each.pet_id for each in drift] == [2, 5, 8, 11]
    assert scenario.store_pets()[1].name == "Pet 1"


@pytest.mark.parametrize("mode", ["push", "pull", "two-way", "check"])
def test_a_round_notes_the_warnings_of_rules(scenario: CsvScenario, mode: str) -> None:
    """A round notes each cell that breaks a rule with the severity `warning`, and a rule that did
    not run; its row is used all the same, and the round is in order.
    """
    long = SheetRule(name="long", columns=["name"], max_length=5, severity="warning")
    vet = SheetRule(name="vet", columns=["Vet"], values=["Ann"])
    report = scenario.run(mode=mode, rules=(long, vet))
    assert {each.kind for each in report.open} == {"note"}
    assert [(each.problem, each.name, each.address) for each in report.open] == [
        ("The rule 'vet' did not run: the sheet has no column 'Vet'.", "", "line 1"),
        *(
            ("rule long: It must have at most 5 characters.", f"Pet {n}", f"line {n + 1}, column 2")
            for n in (10, 11, 12)
        ),
    ]
    assert report.round.exit_code == 0


def files_of(folder: Path, kind: str, frame: pd.DataFrame) -> Path:
    """Return a folder with the rows in two files of a kind."""
    folder = folder / kind
    folder.mkdir()
    for n, part in enumerate((frame[:5], frame[5:])):
        if kind == "csv":
            part.to_csv(folder / f"{n}.csv", index=False)
        elif kind == "jsonl":
            part.to_json(folder / f"{n}.jsonl", orient="records", lines=True)
        else:
            part.to_parquet(folder / f"{n}.parquet", index=False)
    return folder


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_sheet_in_parts_keeps_the_rules_for_rows(
    store: ps.Store, tmp_path: Path, kind: str
) -> None:
    """In a folder of files, each row is checked with its own columns, also if it agrees with its
    pet; the plan is that of the sheet in one piece.
    """
    frame = pd.DataFrame([{"id": pet.id, "name": pet.name, "status": pet.status} for pet in PETS])
    frame["Price"] = [str(n) for n in range(12)]
    frame.loc[[2, 11], "name"] = "Far too long"
    price = SheetRule(name="price", expression="Price > 0 and Price < 10 and Price != 5")
    wide = SheetRule(name="wide", columns=["Price"], max_length=1, severity="warning")
    off: Any = SheetRule(name="off", columns=["name"], unique=True, enabled=False)
    with_rules(store, price, SHORT, wide, SOLD, off)
    whole = store.plan(frame)
    with ThreadPoolExecutor(1) as executor:
        plan = store.plan(files_of(tmp_path, kind, frame), executor=executor)
    assert [each.pet_id for each in plan.blocked] == [1, 3, 6, 11, 12]
    assert [each.pet_id for each in plan.blocked] == [each.pet_id for each in whole.blocked]
    assert (plan.rows, plan.changes) == (12, ())
    assert any("2 cells were read with a warning" in note for note in plan.notes)
    assert any("rule sold was not applied to the store" in note for note in plan.notes)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_values_are_unique_across_the_files_of_a_folder(
    store: ps.Store, tmp_path: Path, kind: str
) -> None:
    """A value of the sheet's own columns that is also in another file blocks both rows, as in the
    sheet in one piece: with spaces around it, in several columns, without an id, and in a row with
    another mistake; a blank value is no value.
    """
    frame = pd.DataFrame([{"id": pet.id, "name": pet.name, "status": pet.status} for pet in PETS])
    frame["Chip"] = ["a", "b", "", "", "c", "d", "e", " b", "f", "g", "a", "c"]
    frame["Box"] = ["1", "1", "2", "2", "3", "3", "3", "4", "1", "4", "1", "5"]
    frame["Chip No"] = [str(n) for n in range(12)]
    frame.loc[4, "status"] = "lost"
    new = {"id": None, "name": "New", "status": "sold", "Chip": "d", "Box": "9", "Chip No": "99"}
    frame = pd.concat([frame, pd.DataFrame([new])], ignore_index=True).astype({"id": "Int64"})
    chip = SheetRule(name="chip", columns=["Chip"], unique=True)
    both = SheetRule(name="both", columns=["chip", "Box"], unique=True, severity="warning")
    number = SheetRule(name="number", columns=["Chip No"], unique=True)
    missing = SheetRule(name="missing", columns=["Cage"], unique=True)
    with_rules(store, chip, both, number, missing)
    whole = store.plan(frame)
    with ThreadPoolExecutor(1) as executor:
        plan = store.plan(files_of(tmp_path, kind, frame), executor=executor)
    assert [each.pet_id for each in whole.blocked] == [1, 2, 5, 6, 8, 11, 12, None]
    assert [each.pet_id for each in plan.blocked] == [each.pet_id for each in whole.blocked]
    assert all("The same value is also in" in each.problem for each in plan.blocked)
    assert plan.changes == whole.changes
    assert any("2 cells were read with a warning" in note for note in plan.notes)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_petsyncs_columns_are_unique_across_the_files_of_a_folder(
    store: ps.Store, tmp_path: Path, kind: str
) -> None:
    """A value of petsync's columns, and of columns of any type, that is also in another file blocks
    both rows, as in the sheet in one piece.
    """
    frame = pd.DataFrame([{"id": pet.id, "name": pet.name, "status": pet.status} for pet in PETS])
    frame["Weight"] = [n + 0.5 for n in range(12)]
    frame.loc[1, "name"] = " Pet 12 "
    frame.loc[9, "Weight"] = 0.5
    name = SheetRule(name="name", columns=["name"], unique=True)
    weight = SheetRule(name="weight", columns=["Weight", "status"], unique=True)
    alone = SheetRule(name="alone", columns=["Weight"], unique=True, severity="warning")
    with_rules(store, name, weight, alone)
    whole = store.plan(frame)
    with ThreadPoolExecutor(1) as executor:
        plan = store.plan(files_of(tmp_path, kind, frame), executor=executor)
    assert [each.pet_id for each in whole.blocked] == [1, 2, 10, 12]
    assert [each.pet_id for each in plan.blocked] == [1, 2, 10, 12]
    assert plan.changes == whole.changes
    assert any("2 cells were read with a warning" in note for note in plan.notes)


def test_a_rule_for_all_rows_is_refused_in_parts(tmp_path: Path) -> None:
    """A rule that needs all rows at once is refused before files and store are read."""
    folder = files_of(tmp_path, "csv", pd.DataFrame({"id": range(9), "name": "Rex"}))
    own = SheetRule(name="own", check=lambda rows: rows)
    with (
        ps.connect("http://127.0.0.1:1/v2", state=tmp_path / "state") as nowhere,
        pytest.raises(SettingsError, match=r"the rule 'own' \(check\) needs all rows at once"),
    ):
        with_rules(nowhere, own).plan(folder)
