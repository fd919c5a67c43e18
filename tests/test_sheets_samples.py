"""The sample sheets: every planted mistake is found, and nothing else."""

import json
from pathlib import Path

import pandas as pd
import pytest
from sheetmaking import assert_same_frames
from shop import plan_of

from petsync.plan.change import Add
from petsync.protocol.json import decode_pets
from petsync.sheets import read_sheet, write_sheet
from petsync.sheets.validate.rules import RULES
from petsync.table.columns import COLUMNS
from petsync.table.frame import frame_from_pets

SAMPLES = Path(__file__).parent.parent / "sample_data"
ALL = json.loads((SAMPLES / "mistakes.json").read_text())
MISTAKES = [each for each in ALL if each["seen_by"] == "check"]


@pytest.fixture(scope="module")
def edited():
    """Return the sheet of the edited workbook."""
    return read_sheet(SAMPLES / "catalogue_edited.xlsx")


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each["address"])
def test_every_planted_mistake_is_found(edited, mistake):
    """Each planted mistake has a finding at its address, by its rule, and is an error only if it
    blocks.
    """
    findings = edited.findings
    hits = findings[findings["address"] == mistake["address"]]
    assert mistake["rule_hint"] in set(hits["rule"])
    assert (RULES[mistake["rule_hint"]].severity == "error") == mistake["blocks"]
    assert hits["suggestion"].all()


def test_a_plan_says_of_the_others_what_is_planted(edited):
    """A mistake that needs the store is a conflict if it blocks; otherwise its row is an addition
    or changes nothing.
    """
    plan = plan_of(decode_pets((SAMPLES / "store.json").read_bytes()), edited)
    conflicts = {each.source for each in plan.conflicts}
    additions = {each.source for each in plan.changes if isinstance(each, Add)}
    others = [each for each in ALL if each["seen_by"] == "plan"]
    assert conflicts == {each["address"] for each in others if each["blocks"]}
    chosen = {each["address"] for each in others if each["rule_hint"] == "chosen-id"}
    assert len(chosen) == 3
    assert chosen <= additions
    (same,) = (each["address"] for each in others if each["rule_hint"] == "add-of-known-id")
    assert same not in {each.source for each in plan.changes}
    assert int(same.removeprefix("Pets!A")) in edited.frame.index


def _suggested(edited, address):
    return " ".join(each.suggestion for each in edited.problems if each.address == address)


@pytest.mark.parametrize(
    ("address", "suggestion"),
    [
        ("Pets!B68", '"May 1", "5/1" or "1/5" was typed'),
        ("Pets!B1316", '"Feb 1", "2/1" or "1/2" was typed'),
        (
            "Pets!C99",
            "The store's statuses are available, pending, sold: write one of them, perhaps pending",
        ),
        ("Pets!C107", "Write sold if"),
        ("Pets!C128", "Write pending if"),
        ("Pets!C816", "Write available if"),
        ("Pets!A156", "Write 1153."),
        ("Pets!A221", "Give each row the id of its pet, and clear the id of a new pet."),
        ("Pets!C257", "Type the value in, or leave the cell blank"),
        ("Pets!B875", "Fix the formula"),
        ("Pets!B217", "save it, and read it again"),
        ("Pets!A296", "It was about 1200; look the number up"),
        ("Pets!C222", "Write available."),
        ("Pets!J640", "Write delete if"),
        ("Pets!J900", "Write delete if"),
        ("Pets!E1136", "Write the category's number"),
        ("Pets!A1254", "Format the column as text and type the whole number again."),
        ("Pets!A1314", "leave the cell blank to add a pet"),
        ("Pets!B1312", "Write the pet's name; write its id if it is not new"),
    ],
)
def test_the_suggestion_is_one_that_helps(edited, address, suggestion):
    """The suggestion of a planted mistake fits its cell."""
    assert suggestion in _suggested(edited, address)


def test_nothing_else_is_found(edited):
    """Other cells have no finding, except the other row of a duplicate id."""
    planted = {each["address"] for each in MISTAKES}
    others = [each for each in edited.problems if each.address not in planted]
    assert [each for each in others if each.rule != "duplicate-id"] == []


@pytest.mark.parametrize(
    ("name", "rows"),
    [("catalogue_clean.xlsx", 1240), ("new_arrivals.csv", 60), ("from_excel_bom.csv", 120)],
)
def test_clean_sheets_have_no_finding(name, rows):
    """Correct sheets have no finding."""
    sheet = read_sheet(SAMPLES / name)
    assert sheet.problems == ()
    assert len(sheet) == rows


def test_the_price_list_is_only_spelt_in_capitals():
    """A semicolon file with capital statuses and German prices is read with no blocked row."""
    sheet = read_sheet(SAMPLES / "price_list_semicolon.csv")
    assert {each.rule for each in sheet.problems} == {"status-spelling"}
    assert not sheet.blocked
    assert list(sheet.others.columns) == ["Preis", "Regal"]


def test_the_whole_store_goes_through_a_workbook(tmp_path):
    """The sample store that is exported and read again is the same table."""
    frame = frame_from_pets(decode_pets((SAMPLES / "store.json").read_bytes()))
    write_sheet(frame, tmp_path / "store.xlsx")
    sheet = read_sheet(tmp_path / "store.xlsx", known_statuses=set(frame["status"].dropna()))
    assert not sheet.errors
    read = sheet.frame[list(COLUMNS)].reset_index(drop=True)
    for name in ("tags", "photo_urls"):
        read[name] = pd.Series([items or [] for items in read[name]], dtype=object)
    assert_same_frames(read, frame[list(COLUMNS)])
