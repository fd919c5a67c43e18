"""petsync export: the store as a spreadsheet."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest
from commands import BIG, Shell, to
from openpyxl import load_workbook

from petsync import read_sheet
from petsync.sandbox import Sandbox


@pytest.mark.parametrize("suffix", [".xlsx", ".csv"])
def test_export_is_in_sync_with_its_store(shell: Shell, box: Sandbox, suffix: str) -> None:
    """What was exported plans to nothing, big ids and foreign letters included."""
    done = shell("export", f"a{suffix}", *to(box))
    assert (done.code, done.out) == (0, "")
    assert "6 pets" in done.err
    plan = shell("plan", f"a{suffix}", *to(box), "--exit-code")
    assert plan.code == 0
    assert "In sync: all 6 rows agree" in plan.out


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet"])
def test_export_for_programs(shell: Shell, box: Sandbox, suffix: str) -> None:
    """JSON, JSON Lines and Parquet hold every pet, with exact ids."""
    assert shell("export", f"a{suffix}", *to(box)).code == 0
    path = Path(f"a{suffix}")
    assert str(BIG) in (
        path.read_text("utf-8") if "json" in suffix else str(pd.read_parquet(path)["id"].tolist())
    )


def test_only_some_statuses_and_tags(shell: Shell, box: Sandbox) -> None:
    """--status and --tag narrow the export; of both, a pet needs one of each."""

    def ids(*options: str) -> list[int]:
        assert shell("export", "a.csv", *to(box), *options).code == 0
        return list(read_sheet("a.csv").frame["id"])

    assert ids("--status", "sold", "--status", "pending") == [3, 4, 5, BIG]
    assert ids("--tag", "calm") == [1, 3]
    assert ids("--tag", "calm", "--tag", "friendly", "--status", "sold") == [BIG]


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv"])
def test_a_choice_of_pets_carries_its_base(shell: Shell, box: Sandbox, name: str) -> None:
    """The base of a narrowed export holds the exported pets alone, and what was asked for."""
    assert shell("export", name, *to(box), "--tag", "calm", "--status", "available").code == 0
    base = read_sheet(name).base
    assert base is not None
    assert list(base.frame["id"]) == list(read_sheet(name).frame["id"])
    assert (base.store, base.tags, base.statuses) == (box.url, ("calm",), ("available",))


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv"])
def test_no_base_leaves_it_out(shell: Shell, box: Sandbox, name: str) -> None:
    """With --no-base nothing is hidden in the file or beside it, and it is in sync all the same."""
    assert shell("export", name, *to(box)).code == 0
    assert shell("export", name, *to(box), "--no-base").code == 0
    assert (read_sheet(name).base, read_sheet(name).base_refused) == (None, "")
    assert not Path(f"{name}.petsync-base").exists()
    assert shell("plan", name, *to(box), "--exit-code").code == 0


def test_the_drop_down_has_the_profiles_statuses(shell: Shell, box: Sandbox) -> None:
    """What the settings say of the service's statuses is offered, in that order."""
    Path("petsync.toml").write_text('[service]\nstatuses = ["sold", "available"]\n')
    assert shell("export", "a.xlsx", *to(box)).code == 0
    lists = load_workbook("a.xlsx")["petsync lists"]
    assert [cell.value for cell in lists["A"]][:2] == ["sold", "available"]


def test_json_says_what_was_written(shell: Shell, box: Sandbox) -> None:
    """With --json the result names the file and how many pets are in it."""
    done = shell("export", "a.xlsx", *to(box), "--json")
    assert done.json == {"file": "a.xlsx", "pets": 6, "store": box.url}


def test_unknown_ending_sends_nothing(shell: Shell, box: Sandbox) -> None:
    """A file type that cannot be written is a usage error before anything is asked."""
    assert shell("export", "a.ods", *to(box)).code == 64
    assert not box.requests


def test_failed_export_leaves_the_old_file(shell: Shell, box: Sandbox) -> None:
    """A store that fails, or refuses a status, does not cost the file that was there."""
    Path("a.csv").write_text("mine", "utf-8")
    done = shell("export", "a.csv", *to(box), "--status", "reserved")
    assert done.code == 1
    assert Path("a.csv").read_text("utf-8") == "mine"
    missing = shell("export", "no/folder/a.csv", *to(box))
    assert missing.code == 1
    assert "folder" in missing.err


def test_tab_separated_export(shell: Shell, box: Sandbox) -> None:
    """A .tsv reads back exactly, as the other sheets do."""
    assert shell("export", "b.tsv", *to(box)).code == 0
    assert "\t" in Path("b.tsv").read_text("utf-8").splitlines()[0]
    assert shell("plan", "b.tsv", *to(box), "--exit-code").code == 0


def test_export_of_nothing_replaces_nothing(shell: Shell, box: Sandbox) -> None:
    """No pets do not replace a file that has something in it, and may be put elsewhere."""
    Path("a.csv").write_text("mine", "utf-8")
    box.reset([])
    done = shell("export", "a.csv", *to(box))
    assert done.code == 1
    assert "Delete the file first" in done.err
    assert Path("a.csv").read_text("utf-8") == "mine"
    assert shell("export", "new.csv", *to(box)).code == 0


def test_export_writes_through_a_link(shell: Shell, box: Sandbox) -> None:
    """A symbolic link stays, and what it leads to is written; a pipe is left alone."""
    Path("there").mkdir()
    Path("a.csv").symlink_to("there/real.csv")
    assert shell("export", "a.csv", *to(box)).code == 0
    assert Path("a.csv").is_symlink()
    assert "Rex" in Path("there/real.csv").read_text("utf-8")
    os.mkfifo("pipe.csv")
    done = shell("export", "pipe.csv", *to(box))
    assert done.code == 1
    assert "pipe" in done.err
    assert Path("pipe.csv").is_fifo()
