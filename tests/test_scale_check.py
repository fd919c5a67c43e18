"""check_files: the findings of a sheet of several files are those of the same rows in one file."""

from __future__ import annotations

import random
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from times import times

import petsync as ps
from petsync.errors import SettingsError, SheetError
from petsync.scale import sheets
from petsync.scale.check import check_files
from petsync.table.options import ReadOptions
from petsync.table.sheet import Sheet
from petsync.testing import FakeService
from petsync.types import SheetRule

pytestmark = pytest.mark.slow

SEEDS = times(5)
RULES: Any = [
    SheetRule(name="name", columns=["name"], unique=True),
    SheetRule(name="id", columns=["id"], unique=True, severity="warning"),
    SheetRule(name="pair", columns=["category", "status"], unique=True, severity="warning"),
    SheetRule(name="chip", columns=["Chip", "name"], unique=True, severity="warning"),
    SheetRule(name="price", expression="Price > 3 or status = 'sold'"),
    SheetRule(name="needed", columns=["Chip"], required=True, severity="warning"),
    SheetRule(name="away", columns=["Cage"], unique=True),
    SheetRule(name="off", columns=["name"], required=True, enabled=False),
]


def test_one_call_checks_a_file_a_table_and_a_folder(tmp_path: Path) -> None:
    """`ps.check_sheet` returns the findings of a file and of a table as `read_sheet` has them, and
    those of a folder or a pattern with the name of the file; `read_sheet` and `store.read` name it.
    """
    rows = pd.DataFrame({"id": ["1", "x"], "name": ["Rex", "Mia"], "status": ["bad", "sold"]})
    for name in ("a.csv", "b.csv"):
        rows.to_csv(tmp_path / name, index=False)
    one = ps.check_sheet(tmp_path / "a.csv")
    assert one.equals(ps.read_sheet(tmp_path / "a.csv").findings)
    sheet = ps.read_sheet(rows)
    assert ps.check_sheet(rows).equals(sheet.findings)
    assert ps.check_sheet(sheet).equals(sheet.findings)
    every = ps.check_sheet(tmp_path, statuses=["bad", "sold"])
    assert every.address.str.startswith(("a.csv, line ", "b.csv, line ")).all()
    assert set(every.rule) == {"duplicate-row", "id-not-a-number"}
    assert ps.check_sheet(tmp_path / "*.csv", statuses=["bad", "sold"]).equals(every)
    with pytest.raises(SheetError, match="this is a folder") as caught:
        ps.read_sheet(tmp_path)
    assert "ps.check_sheet(path)" in caught.value.hint
    for path in (tmp_path, tmp_path / "*.csv"):
        with pytest.raises(SettingsError, match="tab cannot apply to"):
            ps.check_sheet(path, tab="Pets")
    with FakeService() as service, service.connect(state=tmp_path / "state") as store:
        with pytest.raises(SheetError) as caught:
            store.read(tmp_path)
        assert "ps.check_sheet(path)" in caught.value.hint


def random_rows(chance: random.Random, size: int) -> pd.DataFrame:
    """Return rows in which ids, names and whole rows are repeated, and cells have mistakes."""
    rows: list[dict[str, str]] = []
    odd = chance.choice([0.0, 0.1, 0.1, 1.0])
    for number in range(size):
        plain = {
            "id": chance.choice([*[str(number)] * 9, str(chance.randrange(size)), ""]),
            "name": chance.choice([*[f"Pet {number}"] * 6, "Rex", f"Pet {number // 2}"]),
            "status": "sold",
            "category": f"Kind {number}",
            "tags": "",
            "action": "",
            "Price": "5",
            "Chip": str(number),
            "": "",
        }
        row = {
            "id": str(chance.choice([number, number, number, chance.randrange(size), "", "x", -1])),
            "name": chance.choice(["Rex", " Rex", "rex", "", "Total", "name", f"Pet {number}"]),
            "status": chance.choice(["sold", "Sold", "pending", "solld", "", "lost", "available"]),
            "category": chance.choice(["Dogs", "dogs", "", "[clear]", "Cats"]),
            "tags": chance.choice(["", "a; b", "b; a", "a; a", "x,y"]),
            "action": chance.choice([*[""] * 9, "ignore", "delete", "add", "add-another", "bad"]),
            "Price": chance.choice(["", "1", "5", "much"]),
            "Chip": chance.choice(["", str(number), str(number // 3)]),
            "": "",
        }
        row = row if chance.random() < odd else plain
        rows.append(chance.choice(rows) if rows and chance.random() < 0.15 else row)
    rows[-1] = chance.choice([rows[-1], {**dict.fromkeys(rows[-1], ""), "name": "Total"}])
    frame = pd.DataFrame(rows)
    frame.loc[chance.randrange(size), ""] = "note"
    return frame


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write the rows in the format of the path's ending."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        frame.drop(columns="").to_json(path, orient="records", lines=True)
    else:
        frame.drop(columns="").to_parquet(path, index=False)


def described(sheet: Sheet, starts: list[int]) -> list[tuple[Any, ...]]:
    """Return the findings with the lines that their rows have in one file."""

    def one_line(text: str) -> str:
        return re.sub(
            r"(\d)\.\w+, (line|row) (\d+)",
            lambda found: f"{found[2]} {starts[int(found[1])] + int(found[3])}",
            text,
        )

    found = [
        (
            one_line(each.address),
            each.column,
            each.severity,
            each.rule,
            each.value,
            one_line(each.problem),
            each.suggestion,
            each.meant,
        )
        for each in sheet.problems
    ]
    return sorted(found, key=str)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_findings_of_a_folder_are_those_of_one_sheet(
    tmp_path: Path, ending: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random rows in several files have the findings, rules and counts that they have in one."""
    monkeypatch.setattr(sheets, "_BATCH_ROWS", 7)
    chance = random.Random(seed)
    frame = random_rows(chance, chance.choice([1, 2, 20, 60]))
    cuts = [0, *sorted(chance.choices(range(len(frame) + 1), k=2)), len(frame)]
    folder = tmp_path / "folder"
    folder.mkdir()
    for n in range(3):
        write(frame[cuts[n] : cuts[n + 1]], folder / f"{n}.{ending}")
    write(frame, tmp_path / f"one.{ending}")
    options = {"rules": RULES, "statuses": ("available", "pending", "sold")}
    whole = ps.read_sheet(tmp_path / f"one.{ending}", **options)
    found = check_files(folder, ReadOptions.of(options))
    assert described(found, cuts) == described(whole, cuts)
    assert len(found) + found.agreeing == len(whole)
    assert len(found.blocked) == len(whole.blocked)
    assert [asdict(each) for each in found.rules] == [asdict(each) for each in whole.rules]


def test_rows_without_findings_are_not_kept(tmp_path: Path) -> None:
    """Only rows that have findings are in the sheet; the others are counted."""
    for n in range(3):
        rows = ((1000 * n + at + 1, f"Pet {n} {at}", "sold") for at in range(500))
        frame = pd.DataFrame(rows, columns=["id", "name", "status"])
        frame.loc[7, "name"] = "Rex"
        frame.to_csv(tmp_path / f"{n}.csv", index=False)
    found = check_files(tmp_path, ReadOptions(rules=[RULES[0]]))
    assert [each.address for each in found.problems] == [
        f"{n}.csv, line 9, column 2" for n in range(3)
    ]
    # The first and the last row are read as such.
    assert len(found) + len(found.blocked) == 5
    assert len(found) + found.agreeing == 1497
    assert found.rules[0].looked == 1500


def test_an_export_is_checked_with_its_base(tmp_path: Path) -> None:
    """Values that the store had at the export are not suspicious, as in one file."""
    pets = [ps.Pet(id=1, name="#REF!", status="reserved"), ps.Pet(id=2, name="Mia", status="sold")]
    folder = tmp_path / "export"
    with FakeService() as service:
        service.reset(pets)
        with service.connect(state=tmp_path / "state") as store:
            ps.write_sheet(store.snapshot(), tmp_path / "pets.csv")
            store.export_to(folder)
    pattern = tmp_path / "p*.csv"
    assert not ps.read_sheet(tmp_path / "pets.csv").problems
    assert not check_files(pattern, ReadOptions()).problems
    assert "unknown-status" not in {
        each.rule for each in check_files(folder, ReadOptions()).problems
    }


def test_what_a_folder_cannot_have_is_refused(tmp_path: Path) -> None:
    """A function that needs all rows, and a folder without sheets, are refused by name."""
    pd.DataFrame({"id": [1], "name": ["Rex"]}).to_csv(tmp_path / "a.csv", index=False)
    rule = SheetRule(name="own", check=lambda rows: rows)
    with pytest.raises(SettingsError, match=r"the rule 'own' \(check\) needs all rows at once"):
        check_files(tmp_path, ReadOptions(rules=[rule]))
    with pytest.raises(SheetError, match="has no Parquet, CSV or JSON Lines file"):
        check_files(tmp_path / "no*.csv", ReadOptions())
