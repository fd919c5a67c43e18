"""From a workbook with mistakes to a plan that is applied, stopped, continued and undone, in both
front ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest
from fronts import View, serious
from playwright.sync_api import Locator, expect

import petsync as ps
from petsync.models import Category, Pet, Tag
from petsync.sandbox import Sandbox

MANY = 150
_DOGS, _SHY = Category(1, "Dogs"), Tag(1, "shy")


def _pet(n: int) -> Pet:
    return Pet(
        id=n, name=f"Pet {n}", status="available", category=_DOGS, tags=(_SHY,), photo_urls=()
    )


@pytest.fixture
def workbook(box: Sandbox, tmp_path: Path) -> Path:
    """Return an edited export: 60 pets set to sold, one status misspelt, one name changed in the
    sheet and in the store.
    """
    box.reset(_pet(n) for n in range(1, MANY + 1))
    file = tmp_path / "pets.xlsx"
    with ps.connect(box.url, auth=ps.auth.bearer(box.token()), state=tmp_path) as store:
        ps.write_sheet(store.snapshot(), file)
    book = openpyxl.load_workbook(file)
    sheet = book["Pets"] if "Pets" in book.sheetnames else book.worksheets[0]
    titles = [str(cell.value).lower() for cell in sheet[1]]
    name, status = titles.index("name") + 1, titles.index("status") + 1
    for row in range(2, 62):
        sheet.cell(row, status).value = "sold"
    sheet.cell(10, status).value = "solld"
    sheet.cell(100, name).value = "Sheet's name"
    book.save(file)
    result = sheet.cell(100, titles.index("id") + 1).value
    box.put(Pet(**{**_fields(_pet(int(result))), "name": "Store's name"}))
    return file


def _fields(pet: Pet) -> dict[str, object]:
    return {name: getattr(pet, name) for name in pet.__struct_fields__}


def _form(view: View, name: str) -> Locator:
    return view.root.get_by_role("region", name=name)


def _press(form: Locator, name: str) -> None:
    form.get_by_role("button", name=re.compile(name)).click()


def _confirm(form: Locator, name: str) -> None:
    """Press a button of the question. The form scrolls to its heading when it asks, and a press
    before that could miss the button.
    """
    expect(form.get_by_role("heading").first).to_be_focused()
    _press(form, name)


@pytest.mark.parametrize(("front", "kernel"), [("lab", "6.31"), ("voila", "7.3"), ("lab", "7.4")])
def test_from_workbook_to_undo(
    open_in: Callable[..., View],
    signed_in: str,
    workbook: Path,
    box: Sandbox,
    front: str,
    kernel: str,
) -> None:
    """A misspelt status is corrected in the form, one change is deselected, and the sheet wins a
    conflict. Stop ends the run; Continue sends the other changes; Undo reverts all of them.
    """
    form = "form = ps.widgets.open_sheet(store)\nform"
    view = open_in(front, signed_in, _VERSION, form, kernel=kernel)
    expect(view.root).to_contain_text(f"ipykernel {kernel}.")
    sheet = _form(view, "Open a sheet")
    with view.page.expect_file_chooser() as chosen:
        _press(sheet, "Choose a file")
    chosen.value.set_files(workbook)
    expect(sheet).to_contain_text("solld")
    sheet.get_by_label(re.compile("Correction of .*10$")).select_option(label="“sold” (a guess)")
    _press(sheet, "Check again")
    expect(sheet).to_contain_text("Read: 150 rows, no findings.")
    assert serious(view) == []
    _press(sheet, "Compare with the store")

    review = _form(view, "Review the plan")
    expect(review).to_contain_text("60 changes will be sent")
    review.get_by_role("checkbox", name="Select change 3 Pet 3", exact=True).uncheck()
    expect(review).to_contain_text("59 of 60")
    review.get_by_label(re.compile("^Which name 99 .* gets")).select_option("sheet")
    review.get_by_role("checkbox", name=re.compile("^Update 60 pets anyway")).check()
    assert serious(view) == []
    _press(review, "^Apply")
    box.set_faults("latency=0.4")
    _confirm(review, "^Send 60 changes")
    expect(review.get_by_role("progressbar")).to_have_attribute("value", re.compile("[1-9]"))
    reacted, ended = view.page.evaluate(_STOP)
    box.set_faults(None)
    sold = _sold(box)
    assert reacted <= ended < 60_000
    assert 0 < sold < 59

    _press(review, "^Continue")
    expect(review.get_by_role("button", name=re.compile("^Continue"))).to_be_hidden()
    expect(review.get_by_role("table", name="The result of each row")).to_be_visible()
    assert _sold(box) == 59
    pets = {pet.id: pet for pet in box.pets()}
    assert pets[99].name == "Sheet's name"
    assert pets[3].status == "available"
    assert serious(view) == []

    _press(review, "^Undo")
    back = _form(view, "Review the undo of a run")
    expect(back).to_contain_text("60 changes will be sent")
    _press(back, "^Apply")
    _confirm(back, "^Send 60 changes")
    expect(back.get_by_role("button", name=re.compile("^Undo"))).to_be_visible()
    assert _sold(box) == 0
    assert {pet.id: pet.name for pet in box.pets()}[99] == "Store's name"


_VERSION = "import ipykernel\nprint('ipykernel', ipykernel.__version__)"


def _sold(box: Sandbox) -> int:
    return sum(pet.status == "sold" for pet in box.pets())


# Milliseconds from the click until the button shows that it stops, and until the run has ended.
_STOP = """async () => {
  const named = (text) => [...document.querySelectorAll("button")].find(
    (each) => each.checkVisibility() && each.textContent.trim().startsWith(text));
  const stop = named("Stop");
  const start = performance.now();
  const until = async (isSo) => {
    while (!isSo() && performance.now() - start < 120000)
      await new Promise((go) => setTimeout(go, 5));
    return performance.now() - start;
  };
  stop.click();
  const reacted = await until(() => stop.textContent.startsWith("Stopping") && stop.disabled);
  return [reacted, await until(() => named("Continue"))];
}"""
