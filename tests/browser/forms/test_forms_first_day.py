"""The steps of docs/first-day, taken without pictures."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from fronts import Lab
from outside import Outside
from playwright.sync_api import Browser

from petsync.sandbox import Sandbox

PAGES = Path(__file__).parents[3] / "docs" / "first-day"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """Return the script that draws the pictures."""
    return runpy.run_path(str(PAGES / "make.py"))


def counted(person: str) -> list[int]:
    """Return the numbers of steps that the overview has for this person."""
    row = re.search(rf"^\| \[{person}\]\(\w+\.md\) \| ([^|]+) \|", _overview(), re.MULTILINE)
    assert row is not None
    return [int(number) for number in re.findall(r"\d+", row[1])]


def _overview() -> str:
    return (PAGES / "index.md").read_text("utf-8")


def test_shop_staff(
    script: dict[str, Any], browser: Browser, outside: Outside, box: Sandbox, tmp_path: Path
) -> None:
    """Shop staff export a workbook on the page and apply their edits. The next day, the same
    workbook changes nothing, with or without the new ids.
    """
    first, second = script["Day"](), script["Day"]()
    with script["home"](tmp_path, outside.url) as house:
        script["staff"](browser, house, box, first)
        pets = {pet.id: pet for pet in box.pets()}
        script["staff_again"](browser, house, second)
    assert {pet.id: pet for pet in box.pets()} == pets
    assert len(pets) == 1252
    assert pets[1003].name == "Flopsy the Great"
    assert (pets[1004].status, pets[1005].status) == ("sold", "sold")
    assert counted("Shop staff") == [len(first.steps), len(second.steps)]


def test_analyst(script: dict[str, Any], lab: Lab, box: Sandbox) -> None:
    """An analyst signs in, changes pets in a DataFrame and undoes the run, after which the store is
    as it was before.
    """
    day = script["Day"]()
    before = box.pets()
    script["analyst"](lab, box, day)
    assert box.requests["updatePetWithForm"] == 20
    assert box.pets() == before
    assert counted("Analyst") == [len(day.steps)]


def test_operator(script: dict[str, Any], outside: Outside, box: Sandbox, tmp_path: Path) -> None:
    """An operator sets up a job in a shell, decides a conflict and undoes a run. Each command ends
    with its exit code; only the other user's change stays.
    """
    day = script["Day"]()
    before = {pet.id: pet for pet in box.pets()}
    with script["home"](tmp_path, outside.url) as house:
        script["operator"](house, box, day)
    after = {pet.id: pet for pet in box.pets()}
    assert [number for number in after | before if after.get(number) != before.get(number)] == [
        1003
    ]
    assert after[1003].name == "Flopsy the Great"
    assert counted("Operator") == [len(day.steps)]
