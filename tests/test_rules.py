"""Rules of one's own: which rows of a sheet break them, and where the findings are."""

from __future__ import annotations

import itertools
import math
import pickle
import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sheetmaking import csv_of, sheet_of
from times import times

import petsync as ps
from petsync.errors import SettingsError
from petsync.sheets import sheet_from_frame
from petsync.table.sheet import Sheet
from petsync.trust import relevant_settings
from petsync.types import RuleResult, SheetRule

TEXT = (
    "id,name,status,tags,Price EUR,Owner\n"
    "1,Bello,available,small; young,10,ann\n"
    "2,Luna,Sold,,abc,\n"
    "3,Rex,sold,old,-3,bob\n"
    "4,Rex,sold,[clear],,ann\n"
    "5,Ann,reserved,x,12.5,(eva)\n"
)


def rule(**keys: Any) -> SheetRule:
    """Return a rule named `own`."""
    return SheetRule(**{"name": "own", **keys})


def own(sheet: Sheet) -> list[str]:
    """Return the addresses of the findings of rules, without `line` and `column`."""
    places = [each.address for each in sheet.problems if each.is_own]
    return [re.sub(r"line (\d+), column (\d+)", r"\1:\2", place) for place in places]


@pytest.mark.parametrize(
    ("keys", "places", "looked", "problem"),
    [
        ({"columns": ["Price EUR"], "required": True}, ["5:5"], 5, "is blank"),
        ({"columns": ["tags"], "required": True}, ["3:4", "5:4"], 5, "is blank"),
        ({"columns": ["name"], "unique": True}, ["4:2", "5:2"], 5, "also in line 5, column 2."),
        ({"columns": ["Owner", "status"], "unique": True}, [], 4, ""),
        ({"columns": ["name", "status"], "unique": True}, ["4:2", "5:2"], 5, "values are also in"),
        ({"columns": ["owner"], "values": ["ann", "bob"]}, ["6:6"], 4, "one of ann, bob"),
        ({"columns": ["status"], "values": ["available", "sold"]}, ["6:3"], 5, "one of available"),
        ({"columns": ["tags"], "values": ["small", "young", "x"]}, ["4:4"], 3, "Each item must be"),
        ({"columns": ["name"], "pattern": "[A-Z][a-z]{2}"}, ["2:2", "3:2"], 5, "the pattern"),
        ({"columns": ["name"], "pattern": "Bel|Luna"}, ["2:2", "4:2", "5:2", "6:2"], 5, "Bel|Luna"),
        ({"columns": ["tags"], "pattern": "[a-z]{2,}"}, ["6:4"], 3, "Each item"),
        ({"columns": ["name"], "max_length": 4}, ["2:2"], 5, "at most 4 characters"),
        ({"columns": ["name"], "min_length": 4, "max_length": 4},
            ["2:2", "4:2", "5:2", "6:2"], 5, "exactly 4 characters."),
        ({"columns": ["tags"], "max_length": 1}, ["2:4"], 3, "at most 1 item."),
        ({"columns": ["Price EUR"], "minimum": 0}, ["3:5", "4:5"], 4, "at least 0"),
        ({"columns": ["Price EUR"], "minimum": 0, "maximum": 12},
            ["3:5", "4:5", "6:5"], 4, "a number, 0 to 12"),
        ({"columns": ["id"], "maximum": 4}, ["6:1"], 5, "at most 4"),
        ({"expression": "[Price EUR] > 0 or name = 'Rex'"}, ["3:5"], 5, "breaks the condition"),
        ({"expression": "[Price EUR] > 0", "columns": ["name", "Owner"]},
            ["3:2", "3:6", "4:2", "4:6"], 4, "breaks the condition"),
        ({"check": lambda rows: rows[rows["name"] == "Rex"]}, ["4", "5"], 5, "breaks the check"),
        ({"check": lambda rows: rows.index[[0]], "columns": ["owner"]}, ["2:6"], 5, "the check"),
    ],
)  # fmt: skip
def test_a_violation_is_a_finding_at_its_cell(
    tmp_path: Path, keys: dict[str, Any], places: list[str], looked: int, problem: str
) -> None:
    """Each kind of rule finds the cells that break it, in petsync's columns and in others, and
    counts the rows with a value.
    """
    sheet = csv_of(tmp_path, TEXT, rules=[rule(**keys)])
    assert own(sheet) == [place if ":" in place else f"line {place}" for place in places]
    assert all(each.rule == "rule:own" for each in sheet.problems if each.is_own)
    assert problem in next((each.problem for each in sheet.problems if each.is_own), "")
    (result,) = sheet.rules
    rows = len({place.partition(":")[0] for place in places})
    assert result == RuleResult(name="own", severity="error", rows=5, looked=looked, broken=rows)


def test_an_error_blocks_its_row_and_a_warning_does_not(tmp_path: Path) -> None:
    """An error keeps its row out of the frame, with its id; a warning does not."""
    keys: dict[str, Any] = {"columns": ["name"], "pattern": "[^L].*"}
    sheet = csv_of(tmp_path, TEXT, rules=[rule(**keys)])
    assert (sheet.blocked, sheet.blocked_pets) == ((3, 6), {3: 2, 6: 5})
    assert sheet.frame["id"].tolist() == [1, 3, 4]
    sheet = csv_of(tmp_path, TEXT, rules=[rule(**keys, severity="warning")])
    assert (sheet.blocked, own(sheet)) == ((6,), ["3:2"])


def test_no_violation_hides_another(tmp_path: Path) -> None:
    """A cell that breaks several rules has a finding of each, also if petsync cannot read it."""
    rules = [
        SheetRule(name="a", columns=["status"], pattern="[a-z]{1,5}"),
        SheetRule(name="b", columns=["status"], values=["sold"], message="Ask Ann."),
        SheetRule(name="c", expression="status != 'reserved'", severity="warning"),
    ]
    sheet = csv_of(tmp_path, TEXT, rules=rules)
    found = [(each.rule, each.problem) for each in sheet.problems if each.row == 6]
    assert [code for code, _ in found] == ["unknown-status", "rule:a", "rule:b", "rule:c"]
    assert found[2][1] == "Ask Ann."


ACCENTS = (
    "id,name,category,tags,Größe\n"
    "1,Zoë,Café,café; shy,Über\n"
    "2,Zoe\u0308,Cafe\u0301,cafe\u0301; shy,U\u0308ber\n"
)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("keys", "places"),
    [
        ({"columns": ["name", "category", "Größe"], "values": ["Zoë", "Café", "Über"]}, []),
        ({"columns": ["tags"], "values": ["café", "shy"]}, []),
        ({"columns": ["name", "Größe"], "pattern": "Zoë|Über"}, []),
        ({"columns": ["category"], "max_length": 4}, []),
        ({"columns": ["name"], "unique": True}, ["2:2", "3:2"]),
        ({"columns": ["Größe", "category"], "unique": True}, ["2:5", "3:5"]),
        ({"expression": "name = 'Zoë' and [Größe] in ('Über') and 'café' in tags"}, []),
        ({"expression": "not (ends_with(name, 'ë') or matches(category, 'C.*é'))"}, ["2:2", "3:2"]),
    ],
)
def test_an_accent_as_a_separate_character_is_the_same_text(
    tmp_path: Path, keys: dict[str, Any], places: list[str], form: Any
) -> None:
    """Rules compare texts and headers in Unicode form NFC, however each of them is typed."""

    def in_form(value: Any) -> Any:
        if isinstance(value, str):
            return unicodedata.normalize(form, value)
        return [*map(in_form, value)] if isinstance(value, list) else value

    typed = {key: in_form(value) for key, value in keys.items()}
    assert own(csv_of(tmp_path, ACCENTS, rules=[rule(**typed)])) == places


def test_a_workbook_has_the_cells_of_its_worksheet(tmp_path: Path) -> None:
    """In a workbook, a violation is at `Pets!C2`, and numbers, dates and errors are values."""
    rows = [
        ["id", "name", "Price", "Since"],
        ["1", "Bello", 12.5, pd.Timestamp("2026-05-01")],
        ["2", "Luna", "#REF!", None],
    ]
    rules = [
        SheetRule(name="price", columns=["Price"], maximum=10),
        SheetRule(name="since", columns=["Since", "Price"], required=True),
        SheetRule(name="old", expression="Since >= '2026-06-01'"),
    ]
    sheet = sheet_of(tmp_path, rows, rules=rules)
    found = [(each.address, each.rule) for each in sheet.problems]
    assert found == [
        ("Pets!C2", "rule:price"),
        ("Pets!D2", "rule:old"),
        ("Pets!C3", "rule:price"),
        ("Pets!D3", "rule:since"),
    ] or found == [
        ("Pets!C2", "rule:price"),
        ("Pets!D2", "rule:old"),
        ("Pets!C3", "rule:price"),
        ("Pets!C3", "rule:since"),
        ("Pets!D3", "rule:since"),
    ]
    ps.annotate_sheet(sheet, tmp_path / "marked.xlsx")
    marked = openpyxl.load_workbook(tmp_path / "marked.xlsx")["Pets"]
    assert "The value must be a number, at most 10." in marked["C2"].comment.text


def test_a_value_that_was_probably_meant_is_suggested(tmp_path: Path) -> None:
    """A value similar to a permitted one gets a suggestion, which can be used as a correction."""
    text = "id,name,Size\n1,Bello,smal\n2,Luna,Large\n3,Rex,huge\n"
    sheet = csv_of(tmp_path, text, rules=[rule(columns=["Size"], values=["small", "large"])])
    assert [each.suggestion for each in sheet.problems] == [
        "Did you mean small?",
        "Did you mean large?",
        "",
    ]
    fixed = csv_of(
        tmp_path,
        text,
        corrections=sheet.suggested_corrections(guesses=True),
        rules=[rule(columns=["Size"], values=["small", "large"])],
    )
    assert own(fixed) == ["4:3"]


def test_rules_look_at_the_rows_that_are_used(tmp_path: Path) -> None:
    """Rows that are ignored, totals, repeated headers and copies are not looked at; a row that
    deletes its pet only by an expression that names the action.
    """
    text = (
        "id,name,action,Price\n1,Bello,,x\n1,Bello,,y\n2,Luna,ignore,x\n3,Rex,delete,x\n"
        "id,name,action,Price\nTotal,,,7\n"
    )
    rules = [
        SheetRule(name="price", columns=["Price"], minimum=0),
        SheetRule(name="keep", expression="action != 'delete' or name = 'Bello'"),
    ]
    sheet = csv_of(tmp_path, text, rules=rules)
    found = [(each.address, each.rule) for each in sheet.problems if each.is_own]
    assert found == [("line 2, column 4", "rule:price"), ("line 5, column 3", "rule:keep")]
    assert [(each.rows, each.broken) for each in sheet.rules] == [(1, 1), (2, 1)]


def test_a_missing_column_is_reported_and_a_required_one_blocks(tmp_path: Path) -> None:
    """A rule whose column is missing does not run and says so; a missing required column is a
    finding at the header, which blocks all rows.
    """
    rules = [
        SheetRule(name="prise", columns=["Prise EUR"], minimum=0),
        SheetRule(name="off", columns=["No"], required=True, enabled=False),
        SheetRule(name="vet", columns=["Vet"], required=True, severity="warning"),
    ]
    sheet = csv_of(tmp_path, TEXT, rules=rules)
    header = [each for each in sheet.problems if each.row == 1]
    assert [each.rule for each in header] == ["header-unchecked", "rule:vet"]
    assert "'prise' did not run: the sheet has no column 'Prise EUR'" in header[0].problem
    assert "Did you mean Price EUR?" in header[0].suggestion
    assert [each.skipped for each in sheet.rules] == [
        "the sheet has no column 'Prise EUR'",
        "it is not enabled",
        "the sheet has no column 'Vet'",
    ]
    assert sheet.blocked == (6,)
    vet = SheetRule(name="vet", columns=["Vet"], required=True, message="Ask Ann.")
    sheet = csv_of(tmp_path, TEXT, rules=[vet])
    assert sheet.blocked == (2, 3, 4, 5, 6)
    assert [each.problem for each in sheet.problems if each.is_own] == [
        "The sheet has no column 'Vet', which must have a value in each row. Ask Ann."
    ]
    errors = sheet.errors_by_row
    assert [each.rule for each in errors[2]] == ["rule:vet"]
    assert [each.rule for each in errors[6]] == ["unknown-status"]


def test_all_places_of_a_repeated_value_are_named(tmp_path: Path) -> None:
    """Each of the rows with one value has a finding, with the first of the others and their
    number.
    """
    rows = "".join(f"{n},Rex,7\n" for n in range(1, 16))
    sheet = csv_of(tmp_path, f"id,name,Chip\n{rows}", rules=[rule(columns=["Chip"], unique=True)])
    assert len(sheet.problems) == 15
    assert sheet.problems[0].problem.startswith("The same value is also in line 3, column 3; ")
    assert sheet.problems[0].problem.endswith("line 12, column 3; and 4 more.")
    assert "line 16" not in sheet.problems[14].problem


def test_rows_repeat_the_action_that_the_sheet_lacks(tmp_path: Path) -> None:
    """A sheet without an action column merges all rows, so a rule can compare their actions."""
    rules = [rule(columns=["action", "name"], unique=True)]
    sheet = csv_of(tmp_path, "id,name\n1,Rex\n2,Ida\n3,Rex\n", rules=rules)
    assert [(each.row, each.column, each.problem) for each in sheet.problems] == [
        (2, "action", "The same values are also in line 4."),
        (4, "action", "The same values are also in line 2."),
    ]


def test_a_dataframe_has_its_rows(tmp_path: Path) -> None:
    """In a DataFrame, a violation is in the row and the column; numbers stay numbers."""
    frame = pd.DataFrame({"id": [1, 2], "name": ["Bello", "Luna"], "price": [1.5, np.nan]})
    sheet = sheet_from_frame(frame, rules=[rule(columns=["price"], minimum=2)])
    assert [each.address for each in sheet.problems] == ["row 0, price"]
    sheet = sheet_from_frame(frame, rules=[rule(columns=["price"], required=True)])
    assert [each.address for each in sheet.problems] == ["row 1, price"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["frame", "file", "folder"])
def test_plan_takes_rules_as_read_does(tmp_path: Path, kind: str) -> None:
    """`rules` of plan, why and rehearse keep the rows out that break them, as those of `read` do,
    whatever the sheet is.
    """
    with ps.demo() as store:
        pet_id = int(store.pets()["id"].iloc[0])
        frame = pd.DataFrame({"id": [pet_id], "name": ["a long name"], "status": ["sold"]})
        (tmp_path / "pets").mkdir()
        frame.to_csv(tmp_path / "pets" / "pets.csv", index=False)
        places: dict[str, Any] = {
            "frame": frame,
            "file": tmp_path / "pets" / "pets.csv",
            "folder": tmp_path / "pets",
        }
        sheet = places[kind]
        rules = [rule(name="short", columns=["name"], max_length=8)]
        assert len(store.plan(sheet).changes) == 1
        plan = store.plan(sheet, rules=rules)
        assert ["at most 8 characters" in row.problem for row in plan.blocked] == [True]
        assert not plan.changes
        assert "[blocked]" in str(store.why(sheet, pet_id, rules=rules))
        assert not ps.rehearse(store, sheet, rules=rules).plan.changes
        if kind != "folder":
            assert store.plan(store.read(sheet, rules=rules)).blocked == plan.blocked
            assert store.plan(sheet, snapshot=store.snapshot(), rules=rules).blocked == plan.blocked
            with pytest.raises(SettingsError, match="rules cannot apply to a Sheet"):
                store.plan(store.read(sheet), rules=rules)


def test_a_status_of_the_store_is_known_to_rules_too(tmp_path: Path) -> None:
    """A sheet that is validated again for the store's statuses keeps its rules."""
    sheet = csv_of(tmp_path, TEXT, rules=[rule(columns=["status"], values=["reserved"])])
    again = sheet.with_statuses(["reserved"])
    assert own(again) == own(sheet) == ["2:3", "3:3", "4:3", "5:3"]
    assert again.rules == sheet.rules


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({}, "nothing to check"),
        ({"columns": ["name"]}, "nothing to check"),
        ({"required": True}, "columns: is missing"),
        ({"columns": "name", "required": True}, "columns: is 'name', and must be a list"),
        ({"columns": ["name"], "required": True, "pattern": "x"}, "pattern: the rule also has"),
        ({"columns": ["Price"], "minimum": 0, "pattern": "x"}, "minimum: the rule also has"),
        ({"columns": ["name"], "required": True, "min_length": 0}, "min_length: the rule also has"),
        ({"columns": ["name"], "pattern": "(?=a)"}, "pattern: '(?=a)' is invalid"),
        ({"columns": ["name"], "pattern": "a)(b"}, "is invalid"),
        ({"columns": ["name"], "min_length": 5, "max_length": 4}, "below min_length"),
        ({"columns": ["name"], "min_length": -1}, "must not be below 0"),
        ({"columns": ["name"], "minimum": 5, "maximum": 4.5}, "maximum: is 4.5, below minimum"),
        ({"columns": ["name"], "maximum": math.inf}, "must be a finite number"),
        ({"columns": ["name"], "maximum": "4"}, "maximum: is '4', and must be a number"),
        ({"columns": ["name"], "maximum": 10**400}, "must be a finite number"),
        (
            {"columns": ["name"], "minimum": 0, "max_length": 3},
            "minimum: the rule also has max_len",
        ),
        ({"columns": ["tags"], "unique": True}, "has tags, a list"),
        ({"columns": ["tags"], "maximum": 3}, "has tags, a list, to which maximum cannot apply"),
        ({"columns": ["name"], "values": [1]}, "values: is (1,), and must be a list of texts"),
        ({"expression": "Price >"}, "expression: column 8: the expression ends too early"),
        ({"expression": "1 = 1"}, "it names no column"),
        ({"columns": ["Price"], "minimum": 1, "applies_to": "store"}, "no column 'Price'"),
        ({"check": len, "applies_to": "store"}, "cannot apply to the store"),
        ({"check": 5}, "check: is an int"),
        ({"columns": ["name"], "required": True, "severity": "eror"}, "severity: is 'eror'"),
        ({"columns": ["name"], "required": True, "name": "a b"}, "must have only letters"),
        ({"columns": ["name"], "values": ["a", "\ud800"]}, "values: contains half of a surrogate"),
        ({"expression": "name = '\ud800'"}, "expression: contains half of a surrogate pair"),
    ],
)
def test_an_invalid_rule_is_refused(keys: dict[str, Any], problem: str) -> None:
    """An invalid rule names itself, the key, and the problem."""
    with pytest.raises(SettingsError) as caught:
        rule(**keys)
    assert str(caught.value).startswith(f"rule {keys.get('name', 'own')!r}: ")
    assert problem in str(caught.value)


def test_a_limit_may_be_a_number_of_numpy(tmp_path: Path) -> None:
    """The limits of a rule may come from a column, such as `prices.min()`."""
    limits = {"minimum": np.int64(0), "maximum": np.float64(12)}
    sheet = csv_of(tmp_path, TEXT, rules=[rule(columns=["Price EUR"], **limits)])
    assert own(sheet) == ["3:5", "4:5", "6:5"]
    assert rule(columns=["name"], min_length=np.int32(3)) == rule(columns=["name"], min_length=3)


def test_a_rule_that_is_not_enabled_needs_nothing_to_check(tmp_path: Path) -> None:
    """A job switches a rule off by its name; `check --rules` says so."""
    (result,) = csv_of(tmp_path, TEXT, rules=[SheetRule(name="own", enabled=False)]).rules
    assert (result.name, result.skipped) == ("own", "it is not enabled")


def test_other_values_than_rules_are_refused(tmp_path: Path) -> None:
    """`rules` takes rules with different names, and nothing else."""
    with pytest.raises(SettingsError, match="a dict is not a rule"):
        csv_of(tmp_path, TEXT, rules=[{"name": "a"}])
    two = [rule(columns=["name"], required=True), rule(columns=["id"], required=True, name="OWN")]
    with pytest.raises(SettingsError, match="two rules have the name 'OWN'"):
        csv_of(tmp_path, TEXT, rules=two)


def test_a_failing_check_is_named(tmp_path: Path) -> None:
    """An exception in a check, or rows that it did not get, are errors that name the rule."""
    for check, problem in (
        (lambda rows: rows["no"], "rule 'own': its check failed: KeyError: 'no'"),
        (lambda rows: [99], "its check returned the row 99"),
        (lambda rows: 5, "a value of the type int"),
        (lambda rows: None, "a value of the type NoneType"),
        (lambda rows: rows["name"] == "Rex", "a value of the type Series"),
        (lambda rows: (rows["name"] == "Rex").to_numpy(), "a value of the type ndarray"),
        (lambda rows: [["Rex"]], "does not name rows"),
        (lambda rows: rows.set_axis(rows.index + 0.5), "its check returned the row 2.5"),
        (lambda rows: rows.set_index("name"), "its check returned the row Bello"),
        (lambda rows: rows.set_axis([None, *rows.index[1:]]), "its check returned the row nan"),
    ):
        with pytest.raises(SettingsError) as caught:
            csv_of(tmp_path, TEXT, rules=[rule(check=check)])
        assert problem in str(caught.value)


def test_a_check_says_more(tmp_path: Path) -> None:
    """A check can name columns, problems and suggestions, and cannot change the sheet."""

    def check(rows: pd.DataFrame) -> pd.DataFrame:
        assert rows.columns.tolist() == [
            *("id", "name", "status", "tags", "action", "Price EUR", "Owner")
        ]
        assert rows["Owner"].isna().tolist() == [False, True, False, False, False]
        found = rows.loc[[2, 4], ["name"]].assign(
            column=["Price EUR", "no such"], problem="Too dear.", suggestion=["Ask.", None]
        )
        rows["name"] = "changed"
        return found

    sheet = csv_of(tmp_path, TEXT, rules=[rule(check=check)])
    found = [(each.address, each.problem, each.suggestion) for each in sheet.problems[::2]]
    assert ("line 2, column 5", "Too dear.", "Ask.") in found
    assert own(sheet) == ["2:5", "line 4"]
    assert "changed" not in sheet.frame["name"].tolist()


def test_the_failure_cases_of_a_schema_are_findings(tmp_path: Path) -> None:
    """Each failure of a pandera schema is a finding: of a column at its cell, of several columns
    that must be unique at each cell, of a whole row at the row, of the whole table at the header.
    """
    import pandera.pandas as pa

    no_rex = pa.Column(checks=pa.Check(lambda names: names != "Rex", name="no_rex"), nullable=True)
    checks = [
        pa.Check(lambda rows: rows["status"] != "sold", name="not_sold"),
        pa.Check(lambda rows: len(rows) > 9, name="whole"),
    ]
    schema = pa.DataFrameSchema({"name": no_rex}, checks=checks, unique=["name", "category"])
    text = "id,name,status,category\n1,Rex,sold,Dogs\n2,,sold,\n3,Mia,pending,Cats\n4,Mia,,Cats\n"
    sheet = csv_of(tmp_path, text, rules=[rule(check=schema)])
    found = [(each.address, each.value, each.problem) for each in sheet.problems if each.is_own]
    unique = "The schema's check multiple_fields_uniqueness failed."
    assert found == [
        ("line 1", "", "The schema's check whole failed: False."),
        ("line 2", "", "The schema's check not_sold failed."),
        ("line 2, column 2", "Rex", "The schema's check no_rex failed."),
        ("line 3", "", "The schema's check not_sold failed."),
        ("line 4, column 2", "Mia", unique),
        ("line 4, column 4", "Cats", unique),
        ("line 5, column 2", "Mia", unique),
        ("line 5, column 4", "Cats", unique),
    ]
    assert sheet.blocked == (2, 3, 4, 5)


def test_a_rule_can_be_sent_to_a_process() -> None:
    """A rule is equal to its copy, can be pickled, and has a hash."""
    one = rule(columns=["name"], values=["a", "b"])
    assert pickle.loads(pickle.dumps(one)) == one
    assert len({one, rule(columns=("name",), values=("a", "b"))}) == 1


def test_a_changed_rule_needs_no_new_confirmation() -> None:
    """Rules decide neither where data goes nor what is read, also in a job named `rules`."""
    rules = [{"name": "a", "columns": ["b"], "required": True}]
    content = {"url": "https://shop.example", "rules": rules, "jobs": {"a": {"rules": rules}}}
    assert relevant_settings(content) == {"url": "https://shop.example", "jobs": {"a": {}}}
    assert relevant_settings({"jobs": {"rules": {"url": "u"}}}) == {"jobs": {"rules": {"url": "u"}}}


# Random sheets beside a plain reference.


CELLS = st.sampled_from(["", " ", "a", "b", "ab", "Ab1", "1", "2", "2.0", "-3", "1e2", "x y", "é"])
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
RULES = st.one_of(
    st.just({"required": True}),
    st.just({"unique": True}),
    st.lists(st.sampled_from(["a", "b", "1", "2.0", "é"]), min_size=1).map(
        lambda values: {"values": values}
    ),
    st.sampled_from(["[ab]+", "a|ab", ".", "(?i)AB.*", "\\d+(\\.\\d+)?"]).map(
        lambda pattern: {"pattern": pattern}
    ),
    st.tuples(st.integers(0, 2), st.integers(2, 3)).map(
        lambda limits: {"min_length": limits[0], "max_length": limits[1]}
    ),
    st.tuples(st.integers(-5, 1), st.integers(2, 100)).map(
        lambda limits: {"minimum": limits[0], "maximum": limits[1]}
    ),
)


def is_kept(keys: dict[str, Any], text: str, column: list[str]) -> bool:
    """Return true if a cell keeps a rule, by a plain reference."""
    if "required" in keys or not text:
        return bool(text) or "required" not in keys
    if "unique" in keys:
        return Counter(column)[text] == 1
    if "values" in keys:
        return text in keys["values"]
    if "pattern" in keys:
        return re.fullmatch(keys["pattern"], text) is not None
    if "min_length" in keys:
        return bool(keys["min_length"] <= len(text) <= keys["max_length"])
    is_number = NUMBER.fullmatch(text) is not None
    return is_number and bool(keys["minimum"] <= float(text) <= keys["maximum"])


@settings(max_examples=times(30), deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8), st.lists(RULES, max_size=4))
def test_the_violations_equal_a_plain_reference(
    cells: list[tuple[str, str]], rules: list[dict[str, Any]]
) -> None:
    """The violations of random rules on random sheets are those of a reference that goes from cell
    to cell.
    """
    columns = {name: [row[at] for row in cells] for at, name in enumerate(("One", "Two words"))}
    frame = pd.DataFrame({"id": range(1, len(cells) + 1), "name": "Bello", **columns})
    given_rules = [
        SheetRule(name=f"r{n}", columns=[name], **keys)
        for (n, keys), name in itertools.product(enumerate(rules), ("One",))
    ] + [SheetRule(name=f"s{n}", columns=["two WORDS"], **keys) for n, keys in enumerate(rules)]
    sheet = sheet_from_frame(frame, rules=given_rules)
    expected = {
        (row, name, f"rule:{letter}{n}")
        for letter, name in (("r", "One"), ("s", "Two words"))
        for n, keys in enumerate(rules)
        for stripped in [[text.strip() for text in columns[name]]]
        for row, text in enumerate(stripped)
        if not is_kept(keys, text, stripped)
    }
    found = [(each.row, each.column, each.rule) for each in sheet.problems if each.is_own]
    assert len(found) == len(set(found))
    assert {*found} == expected
    assert {*sheet.blocked} == {row for row, _, _ in expected}
