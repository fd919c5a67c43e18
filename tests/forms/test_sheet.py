"""The sheet form, driven by its traits, with a running sandbox and the sample data."""

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import ipywidgets
import openpyxl
import pytest
from effort import steps
from sheetmaking import workbook_of

import petsync as ps
from petsync.plan.plan import Plan
from petsync.sandbox import Sandbox
from petsync.widgets.components import Fold, Table
from petsync.widgets.sheet import PAGE, SheetForm, open_sheet

pytestmark = pytest.mark.slow

SAMPLES = ps.sample_data()
ROWS = [
    ["id", "name", "status", "Categorie", "tags"],
    ["1002", "Rex", "solld", "x", "calm; calm"],
    ["1003", "Mia", "unheard", "y", ""],
    ["1004", "Tom", "Sold", "z", ""],
]


@pytest.fixture
def store() -> Iterator[ps.Store]:
    """Yield the embedded store with its 1,240 pets."""
    with ps.demo() as demo:
        yield demo


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the notebook's folder, with a small sheet that has mistakes."""
    monkeypatch.chdir(tmp_path)
    workbook_of(ROWS).save(tmp_path / "pets.xlsx")
    return tmp_path


@pytest.fixture
def form(store: ps.Store, here: Path) -> Iterator[SheetForm]:
    """Yield the form, live, without an open sheet."""
    one = open_sheet(store)
    assert one.widget is not None
    yield one
    one.close()
    assert one.work.wait(60)


def open_file(form: SheetForm, path: str | Path) -> SheetForm:
    """Open this file in the form, and return the form."""
    form.path_field.value = str(path)
    form.go.click()
    assert form.work.wait(60)
    return form


def choose(form: SheetForm, address: str, how: str) -> None:
    """Choose a correction in the table."""
    row = next(row for row in form.findings.table.rows if row["cells"]["where"] == address)
    form.findings.table.chosen = {row["key"]: {"choice": how}}


def press(form: SheetForm, button: str) -> None:
    """Press a button and wait for the result."""
    getattr(form, button).click()
    assert form.work.wait(120)


def test_a_rule_of_ones_own_is_shown_at_its_cell(form: SheetForm, here: Path) -> None:
    """The form lists violations of rules of petsync.toml at their cells, those of own columns too,
    and offers the value that is probably meant as a correction.
    """
    aio = form.store.aio
    rules = (
        ps.types.SheetRule(name="kind", columns=["name"], values=["Rex", "Mia", "Tomm"]),
        ps.types.SheetRule(name="group", columns=["Categorie"], pattern="[xy]"),
    )
    aio.settings = dataclasses.replace(aio.settings, rules=rules)
    open_file(form, here / "pets.xlsx")
    rows = {row["cells"]["where"]: row for row in form.findings.table.rows}
    assert "must be one of Rex, Mia, Tomm" in str(rows["Pets!B4"])
    assert "must match the pattern" in str(rows["Pets!D4"])
    choose(form, "Pets!B4", "suggested")
    press(form, "again")
    rows = {row["cells"]["where"]: row for row in form.findings.table.rows}
    assert "must be one of" not in str(rows.get("Pets!B4", ""))


def enter(field: ipywidgets.Text, text: str) -> None:
    """Type a text and press Enter, in the order of a browser's events."""
    field._handle_custom_msg({"event": "submit"}, [])
    field.value = text


def heard_by(part: Table) -> list[dict[str, Any]]:
    """Return the list of messages to the component's script from now on."""
    messages: list[dict[str, Any]] = []
    part.send = lambda content, buffers=None: messages.append(content)
    return messages


class TestExporting:
    """The workbook that the form makes for a user who has none."""

    def test_is_complete_and_can_be_opened(self, form: SheetForm, here: Path) -> None:
        """The downloaded workbook has every pet and its base: without an edit, nothing changes. The
        form writes no file into the folder.
        """
        before = set(here.iterdir())
        press(form, "export")
        assert set(here.iterdir()) == before
        assert form.notice.text == "The workbook is ready."
        assert "It has 1,240 pets." in form.exported.value
        (body,) = re.findall(r"base64,([\w+/=]+)", form.exported.value)
        (here / "catalogue.xlsx").write_bytes(base64.b64decode(body))
        open_file(form, "catalogue.xlsx")
        press(form, "compare")
        assert form.plan is not None
        assert (form.plan.changes, form.plan.summary().unchanged) == ((), 1240)

    def test_a_large_one_is_a_file(
        self, form: SheetForm, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A workbook that is too large for the page is written into the folder, and replaces no
        workbook that a user edited.
        """
        monkeypatch.setattr("petsync.widgets.sheet.MAX_LINKED_BYTES", 1000)
        monkeypatch.setattr("petsync.widgets.review_view.MAX_LINKED_BYTES", 1000)
        press(form, "export")
        path = here / "catalogue.xlsx"
        assert f"It is {path}. It has 1,240 pets." in unescape(form.exported.value)
        book = openpyxl.load_workbook(path)
        book["Pets"]["B2"] = "Edited"
        book.save(path)
        press(form, "export")
        assert "was edited" in form.notice.text
        assert form.exported.value == ""
        assert openpyxl.load_workbook(path)["Pets"]["B2"].value == "Edited"

    def test_an_incomplete_one_is_refused(self, tmp_path: Path) -> None:
        """If the store does not list a status, no workbook is made, and the form says so in its own
        words.
        """
        once = ps.RetryPolicy(attempts=1)
        with (
            Sandbox(auth=False, faults="503=1,status=sold", seed=SAMPLES / "store.json") as box,
            ps.connect(box.url, environ={}, state=tmp_path, retry=once) as store,
        ):
            form = open_sheet(store)
            assert form.widget is not None
            press(form, "export")
            assert form.exported.value == ""
            assert "the status sold would be missing" in form.notice.text
            assert form.notice.hint == "Try again when the store answers."
            form.close()
            assert form.work.wait(60)


class TestOpening:
    """Ways to open a file."""

    def test_by_its_path(self, form: SheetForm) -> None:
        """A file opened by its path is read, and its findings are listed by cell."""
        open_file(form, "pets.xlsx")
        assert form.sheet is not None
        assert form.sheet.source.endswith("pets.xlsx")
        cells = [row["cells"]["where"] for row in form.findings.table.rows]
        assert cells == ["Pets!D1", "Pets!C2", "Pets!E2", "Pets!C3", "Pets!C4"]
        assert "2 errors" in form.notice.text

    def test_in_another_encoding(self, form: SheetForm, here: Path) -> None:
        """A file that is not UTF-8 can be read in a suggested encoding, and its plan uses that
        encoding.
        """
        (here / "old.csv").write_bytes("id,name\n1002,Zoë\n".encode("cp1252"))
        open_file(form, "old.csv")
        assert form.sheet is None
        assert "as Windows-1252 it reads" in form.notice.text
        assert form.notice.hint.startswith("Choose its encoding. Or save it again")
        choice = form.columns.encoding
        assert form.columns.box.layout.display is None
        words = form.columns.box.children[0].children[0].value
        assert "may be Windows, Western Europe (cp1252)" in words
        choice.value = "cp1252"
        assert form.work.wait(60)
        assert form.sheet is not None
        assert form.sheet.frame["name"].tolist() == ["Zoë"]
        press(form, "compare")
        assert form.plan is not None
        assert form.plan.encoding == "cp1252"
        open_file(form, "pets.xlsx")
        assert form.encoding is None
        assert choice.value == ""

    def test_by_enter_in_the_field(self, form: SheetForm) -> None:
        """Enter in the path field opens the file."""
        enter(form.path_field, "pets.xlsx")
        assert form.work.wait(60)
        assert form.sheet is not None

    def test_from_the_list_of_the_folder(self, form: SheetForm) -> None:
        """The folder's sheets are listed, and a selected one is opened."""
        assert [value for _, value in form.listed.options] == ["", "pets.xlsx"]
        form.listed.value = "pets.xlsx"
        assert form.work.wait(60)
        assert form.sheet is not None
        assert form.path_field.value == "pets.xlsx"

    def test_dropped_in_the_browser(self, form: SheetForm, here: Path) -> None:
        """An uploaded file is read, and its copies are saved in the notebook's folder."""
        content = (here / "pets.xlsx").read_bytes()
        assert form.files.put("my pets.xlsx", content) is not None
        assert form.work.wait(60)
        assert form.sheet is not None
        assert len(form.sheet.problems) == 5
        assert here / form.saving.corrected_as.value == here / "my pets.corrected.xlsx"
        plans: list[Plan] = []
        form.on_plan(plans.append)
        press(form, "sure")
        press(form, "compare")
        assert plans[0].source == "my pets.xlsx"
        form.saving.corrected.click()
        assert form.work.wait(60)
        assert form.notice.tone == "done"

    def test_given_beforehand(self, store: ps.Store, here: Path) -> None:
        """`open_sheet(store, path)` reads the file at once."""
        one = open_sheet(store, "pets.xlsx")
        assert one.widget is not None
        assert one.work.wait(60)
        assert one.sheet is not None
        one.close()

    def test_nothing_is_named(self, form: SheetForm) -> None:
        """Open without a path is reported with a fix."""
        press(form, "go")
        assert form.notice.tone == "problem"
        assert "Drop one above" in form.notice.hint

    @pytest.mark.parametrize("name", ["nowhere.xlsx", ".", "x.pdf"])
    def test_what_cannot_be_read_is_reported(self, form: SheetForm, name: str, here: Path) -> None:
        """A missing file, a folder or another file type is reported with a fix, and the form can
        still be used.
        """
        (here / "x.pdf").write_bytes(b"%PDF-1.7")
        open_file(form, name)
        assert form.notice.tone == "problem"
        assert form.notice.hint
        assert form.sheet is None
        open_file(form, "pets.xlsx")
        assert form.sheet is not None

    def test_what_is_gone_from_the_form_is_forgotten(self, form: SheetForm, here: Path) -> None:
        """Opening another sheet clears the corrections of the last one."""
        open_file(form, "pets.xlsx")
        press(form, "sure")
        assert form.corrections
        (here / "other.csv").write_text("id,name\n1002,Rex\n")
        open_file(form, "other.csv")
        assert form.corrections == {}
        assert not form.made.table.rows
        assert form.saving.corrected_as.value.endswith("other.corrected.csv")


class TestColumns:
    """Mapping of headers to columns."""

    def test_a_near_miss_is_suggested_and_never_guessed(self, form: SheetForm, here: Path) -> None:
        """A similar header is only suggested: `Staus` is not used as status until the user selects
        it.
        """
        workbook_of([["id", "Staus"], ["1002", "sold"]]).save(here / "near.xlsx")
        open_file(form, "near.xlsx")
        field = form.columns.headers["Staus"]
        assert (field.value, field.description) == ("", "“Staus” (may mean status)")
        assert form.sheet is not None
        assert "status" not in form.sheet.frame
        field.value = "status"
        form.columns.again.click()
        assert form.work.wait(60)
        assert form.sheet.frame["status"].tolist() == ["sold"]
        assert form.columns.headers["Staus"].value == "status"

    def test_a_sheet_with_no_known_header_can_be_opened(self, form: SheetForm, here: Path) -> None:
        """For a sheet without a known header the user maps the headers, and the sheet is read."""
        (here / "katalog.csv").write_text("Nummer;Tiername;Zustand\n1002;Rex;sold\n")
        open_file(form, "katalog.csv")
        assert form.sheet is None
        assert list(form.columns.headers) == ["Nummer", "Tiername", "Zustand"]
        for header, column in (("Nummer", "id"), ("Tiername", "name"), ("Zustand", "status")):
            form.columns.headers[header].value = column
        form.columns.again.click()
        assert form.work.wait(60)
        assert form.sheet is not None
        assert form.sheet.frame["id"].tolist() == [1002]

    def test_another_worksheet(self, form: SheetForm, here: Path) -> None:
        """The selected worksheet is read."""
        book = workbook_of(ROWS)
        tabs = ["New", "Tom's \"new. (2)"]
        for tab in tabs:
            more = book.create_sheet(tab)
            more.append(["id", "name"])
            more.append(["1005", "Bo"])
        book.save(here / "two.xlsx")
        open_file(form, "two.xlsx")
        assert list(form.columns.tab.options) == ["Pets", *tabs]
        problems = [row["cells"]["problem"] for row in form.findings.table.rows]
        hint = "To read it instead, choose it as the “Worksheet”."
        assert sum(each.endswith(hint) for each in problems) == 2
        assert not any("--" in each for each in problems)
        form.columns.tab.value = "New"
        assert form.work.wait(60)
        assert form.sheet is not None
        assert (form.sheet.tab, form.columns.tab.value) == ("New", "New")
        assert form.sheet.frame["name"].tolist() == ["Bo"]


def test_a_sheet_of_another_store_leads_to_the_option(
    form: SheetForm, here: Path, store: ps.Store
) -> None:
    """If a sheet was exported from another store, the form names its own option."""
    with ps.demo() as other:
        ps.write_sheet(other.snapshot(), here / "other.xlsx")
    open_file(form, "other.xlsx")
    press(form, "compare")
    assert "compare only with this store (“Compare only with the store” in the options)" in (
        form.notice.hint
    )


def test_a_renamed_column_leads_to_its_meaning(
    form: SheetForm, here: Path, store: ps.Store
) -> None:
    """The advice for a renamed column names the form's choice of its meaning."""
    ps.write_sheet(store.snapshot(), here / "export.xlsx")
    book = openpyxl.load_workbook(here / "export.xlsx")
    head = next(cell for cell in book.worksheets[0][1] if cell.value == "tags")
    head.value = "Words"
    book.save(here / "export.xlsx")
    open_file(form, "export.xlsx")
    (problem,) = [
        row["cells"]["problem"]
        for row in form.findings.table.rows
        if "Words" in row["cells"]["problem"]
    ]
    assert "Write tags as the header again, or map it (choose its meaning above)." in problem


class TestFindings:
    """Findings, and a correction for each."""

    def test_a_suggestion_a_text_of_ones_own_and_leaving_it(self, form: SheetForm) -> None:
        """Each cell gets the correction that the user chose for it: the suggestion, an own text or
        none.
        """
        open_file(form, "pets.xlsx")
        choose(form, "Pets!C2", "suggested")
        choose(form, "Pets!C3", "own")
        assert form.findings.own.description == "Text for Pets!C3"
        assert form.findings.own.value == "unheard"
        form.findings.own.value = "pending"
        form.findings.use.click()
        choose(form, "Pets!C4", "suggested")
        choose(form, "Pets!C4", "keep")
        assert form.again.description == "Check again, with 2 corrections"
        press(form, "again")
        assert form.corrections == {"Pets!C2": "sold", "Pets!C3": "pending"}
        assert form.sheet is not None
        assert form.sheet.errors == 0
        made = [row["cells"]["change"] for row in form.made.table.rows]
        assert made == [
            ["solld", "sold"],
            ["unheard", "pending"],
        ]

    def test_findings_are_sorted(self, form: SheetForm) -> None:
        """Findings are sorted by cell or by severity; only ten or more have filters."""
        open_file(form, "pets.xlsx")
        table = form.findings.table
        table.sort = "severity"
        assert [row["cells"]["severity"]["text"] for row in table.rows][:2] == ["error", "error"]
        table.sort = "where"
        table.down = True
        assert [row["cells"]["where"] for row in table.rows][-1] == "Pets!D1"
        assert form.findings.which.layout.display == "none"
        assert not table.searchable
        open_file(form, SAMPLES / "catalogue_edited.xlsx")
        assert form.findings.which.layout.display is None
        assert table.searchable
        assert [column["title"] for column in table.columns][1:3] == ["Severity", "Value"]

    def test_options_are_folded(self, form: SheetForm) -> None:
        """The options of the comparison and the copies are folded until the user wants them."""
        open_file(form, "pets.xlsx")
        folds = [each for each in form._panel._rest.children if isinstance(each, Fold)]  # type: ignore[union-attr]
        assert [fold.is_open for fold in folds] == [False, False]
        assert form.options.box in folds[1].children[1].children
        (inner,) = (each for each in form.options.box.children if isinstance(each, Fold))
        assert not inner.is_open
        assert {*form.options.owners.values()} <= {*inner.children[1].children}

    def test_warnings_reach_the_review(self, form: SheetForm, here: Path) -> None:
        """A changed cell with a warning has a badge in the review of the sheet's plan."""
        workbook_of([ROWS[0], ["1002", "Rex", "Sold", "", "calm; calm"]]).save(here / "pets.xlsx")
        open_file(form, "pets.xlsx")
        press(form, "compare")
        assert form.review is not None
        (row,) = form.review.changes.rows
        warned = {
            each["name"]: each["warning"] for each in row["cells"]["what"] if "warning" in each
        }
        assert "only in case or spaces" in warned["Status"]
        assert warned["Tags"]

    def test_enter_takes_a_text(self, form: SheetForm) -> None:
        """Enter in the text field uses the text, and the focus returns to the row."""
        open_file(form, "pets.xlsx")
        choose(form, "Pets!C3", "own")
        sent = heard_by(form.findings.table)
        enter(form.findings.own, "pending")
        assert form.work.wait(60)
        assert form.findings.chosen == {"Pets!C3": "pending"}
        assert sent == [{"focus": "choice choice 3"}]

    @pytest.mark.parametrize("button", ["again", "sure"])
    def test_a_text_that_was_typed_is_taken(self, form: SheetForm, button: str) -> None:
        """A typed text is used by each button that reads the sheet again."""
        open_file(form, "pets.xlsx")
        choose(form, "Pets!C3", "own")
        form.findings.own.value = "pending"
        press(form, button)
        assert form.corrections["Pets!C3"] == "pending"

    def test_another_cell_loses_no_text(self, form: SheetForm) -> None:
        """A typed text is kept when the user goes to another cell."""
        open_file(form, "pets.xlsx")
        choose(form, "Pets!C3", "own")
        form.findings.own.value = "pending"
        choose(form, "Pets!C2", "own")
        assert form.findings.chosen == {"Pets!C3": "pending"}
        assert form.findings.own.description == "Text for Pets!C2"

    def test_comparing_names_the_text_that_was_typed(self, form: SheetForm) -> None:
        """A typed text that is not used yet prevents the comparison."""
        open_file(form, "pets.xlsx")
        choose(form, "Pets!C3", "own")
        form.findings.own.value = "pending"
        press(form, "compare")
        assert form.plan is None
        assert "Pets!C3" in form.notice.text
        form.findings.leave.click()
        press(form, "compare")
        assert form.plan is not None

    def test_leaving_it_leaves_the_cell(self, form: SheetForm) -> None:
        """Cancel keeps the cell as it is and discards the typed text; so does the choice to keep
        the cell.
        """
        open_file(form, "pets.xlsx")
        choose(form, "Pets!C3", "own")
        form.findings.own.value = "pending"
        form.findings.leave.click()
        assert form.findings.chosen == {}
        choose(form, "Pets!C3", "own")
        choose(form, "Pets!C3", "keep")
        form.findings.use.click()
        assert form.findings.chosen == {}

    def test_what_was_chosen_is_shown(self, form: SheetForm) -> None:
        """The table shows each choice on every page and in every filter."""
        open_file(form, "pets.xlsx")
        choose(form, "Pets!C2", "suggested")
        form.findings.set(["Pets!C3"], "")
        form.findings.which.value = "chosen"
        choices = {
            row["label"]: (row["cells"]["choice"]["value"], row["cells"]["choice"]["options"])
            for row in form.findings.table.rows
        }
        assert choices["Pets!C2"][0] == "suggested"
        assert ["suggested", "“sold” (a guess)"] in choices["Pets!C2"][1]
        assert ["chosen", "a blank cell"] in choices["Pets!C3"][1]
        assert list(choices) == ["Pets!C2", "Pets!C3"]

    def test_equal_cells_at_once(self, form: SheetForm, here: Path) -> None:
        """One choice corrects all cells of a column with the same text, and takes that back."""
        rows = [[str(1200 + n), "Rex", "pendng"] for n in range(25)]
        workbook_of([ROWS[0][:3], *rows, ["1300", "Tom", "solld"]]).save(here / "pets.xlsx")
        open_file(form, "pets.xlsx")
        options = dict(form.findings.table.rows[0]["cells"]["choice"]["options"])
        assert options["suggested-all"] == "“pending” (a guess), in all 25 cells with this text"
        assert "--correct" not in form.findings.table.rows[0]["cells"]["problem"]
        choose(form, "Pets!C2", "suggested-all")
        assert form.findings.chosen == {f"Pets!C{n}": "pending" for n in range(2, 27)}
        choose(form, "Pets!C3", "keep")
        assert "Pets!C3" not in form.findings.chosen
        choose(form, "Pets!C3", "keep-all")
        assert form.findings.chosen == {}
        choose(form, "Pets!C4", "own-all")
        assert form.findings.own.description == "Text for Pets!C4 and 24 more"
        form.findings.own.value = "sold"
        press(form, "again")
        assert form.sheet is not None
        assert form.sheet.frame["status"].tolist() == ["sold"] * 25

    def test_repeated_ids_are_corrected_one_by_one(self, form: SheetForm, here: Path) -> None:
        """No choice corrects all cells of a repeated id; clearing one of them makes a new pet."""
        rows = [["1001", "Bella", "sold"], ["1001", "Bella's copy", "available"]]
        workbook_of([ROWS[0][:3], *rows]).save(here / "pets.xlsx")
        open_file(form, "pets.xlsx")
        for row in form.findings.table.rows:
            options = dict(row["cells"]["choice"]["options"])
            assert [key for key in options if key.endswith("-all")] == []
            assert "clear the id of a new pet" in row["cells"]["problem"]
        choose(form, "Pets!A3", "own")
        form.findings.own.value = ""
        press(form, "again")
        assert form.sheet is not None
        assert not form.sheet.blocked
        assert form.sheet.frame["id"].isna().tolist() == [False, True]

    def test_the_sure_ones_at_once(self, form: SheetForm) -> None:
        """The button makes only sure corrections; guesses need a choice."""
        open_file(form, "pets.xlsx")
        assert form.sure.description == "Make the 2 sure corrections"
        assert not form.sure.disabled
        press(form, "sure")
        assert form.corrections == {"Pets!E2": "calm", "Pets!C4": "sold"}
        assert form.sheet is not None
        assert form.sheet.errors == 2
        assert form.sure.disabled
        assert form.sure.description == "No sure corrections"

    def test_a_correction_is_taken_back(self, form: SheetForm) -> None:
        """When a correction is removed, the cell has the file's value again and its finding
        returns.
        """
        open_file(form, "pets.xlsx")
        press(form, "sure")
        form.made.table.press("Pets!C4")
        assert form.work.wait(60)
        assert form.corrections == {"Pets!E2": "calm"}
        assert "Pets!C4" in [row["label"] for row in form.findings.table.rows]

    def test_what_is_wrong_with_the_header_is_not_corrected_in_a_cell(
        self, form: SheetForm
    ) -> None:
        """A finding in the header has no choice, and a forged choice is ignored."""
        open_file(form, "pets.xlsx")
        assert form.findings.table.rows[0]["cells"]["choice"] == "Fix it in the file"
        form.findings.table.chosen = {"0": {"choice": "own"}, "99": {"choice": "own"}, "x": {}}
        assert form.findings.chosen == {}

    def test_by_severity(self, form: SheetForm) -> None:
        """The filter shows errors, warnings, or findings with a suggestion."""
        open_file(form, SAMPLES / "catalogue_edited.xlsx")
        counts = {}
        for which in ("all", "error", "warning", "suggested"):
            form.findings.which.value = which
            counts[which] = form.findings.table.total
        assert counts["all"] == counts["error"] + counts["warning"] == 43
        assert counts["suggested"] == 14

    def test_a_file_that_changed_gets_no_correction(self, form: SheetForm, here: Path) -> None:
        """If the file has changed since it was read, its corrections are refused."""
        open_file(form, "pets.xlsx")
        choose(form, "Pets!C2", "suggested")
        workbook_of([ROWS[0], ["1002", "Rex", "pendng"]]).save(here / "pets.xlsx")
        press(form, "again")
        assert "changed since it was read" in form.notice.text
        assert form.corrections == {}


class TestSaving:
    """Copies of the sheet."""

    def test_a_corrected_copy(self, form: SheetForm, here: Path) -> None:
        """The corrected copy has the corrections, and the file is unchanged; a second copy keeps
        the first as a backup.
        """
        before = (here / "pets.xlsx").read_bytes()
        open_file(form, "pets.xlsx")
        assert form.saving.corrected.disabled
        press(form, "sure")
        form.saving.corrected.click()
        assert form.work.wait(60)
        assert form.notice.tone == "done"
        assert (here / "pets.xlsx").read_bytes() == before
        saved = openpyxl.load_workbook(here / "pets.corrected.xlsx")["Pets"]
        assert (saved["C4"].value, saved["E2"].value) == ("sold", "calm")
        form.saving.corrected.click()
        assert form.work.wait(60)
        assert "is now pets.corrected.backup-" in form.notice.hint

    def test_a_marked_copy(self, form: SheetForm, here: Path) -> None:
        """Findings are marked in a copy, which replaces no existing file."""
        open_file(form, "pets.xlsx")
        form.saving.marked.click()
        assert form.work.wait(60)
        assert (here / "pets.marked.xlsx").is_file()
        form.saving.marked.click()
        assert form.work.wait(60)
        assert "already exists" in form.notice.text

    def test_never_over_the_sheet_itself(self, form: SheetForm, here: Path) -> None:
        """A copy with the sheet's own name is refused."""
        before = (here / "pets.xlsx").read_bytes()
        open_file(form, "pets.xlsx")
        press(form, "sure")
        form.saving.corrected_as.value = "pets.xlsx"
        form.saving.corrected.click()
        assert form.work.wait(60)
        assert "the sheet itself" in form.notice.text
        assert (here / "pets.xlsx").read_bytes() == before


class TestComparing:
    """From the sheet to its plan."""

    def test_the_plan_goes_to_whoever_wants_it(self, form: SheetForm, store: ps.Store) -> None:
        """A listener gets the plan of store.plan with the same corrections, and nothing is sent."""
        plans: list[Plan] = []
        form.on_plan(plans.append)
        open_file(form, SAMPLES / "catalogue_edited.xlsx")
        press(form, "sure")
        press(form, "compare")
        (plan,) = plans
        assert form.plan is plan
        assert form.review is None
        sheet = store.read(SAMPLES / "catalogue_edited.xlsx")
        expected = store.plan(store.read(sheet, corrections=sheet.suggested_corrections()))
        assert plan.changes == expected.changes
        assert plan.corrections == expected.corrections
        assert len(plan.corrections) == 9
        assert len(store.runs()) == 0

    def test_its_review_is_shown_below(self, form: SheetForm) -> None:
        """Without a listener the form shows the review of the plan; a new plan replaces it."""
        open_file(form, "pets.xlsx")
        press(form, "compare")
        first = form.review
        assert first is not None
        assert first.widget.comm is not None
        press(form, "compare")
        assert form.review is not None
        assert form.review is not first

    def test_what_became_of_it_is_kept(self, form: SheetForm, here: Path) -> None:
        """After the run the form's static view shows the report instead of the plan."""
        calls: list[None] = []
        (here / "few.csv").write_text("id,name\n1001,Rex\n", "utf-8")
        open_file(form, "few.csv")
        press(form, "compare")
        review = form.review
        assert review is not None
        assert review.work.wait(60)
        form._still.renew = lambda: calls.append(None)  # type: ignore[method-assign]
        review.apply.click()
        assert review.work.wait(60)
        review.sure.value = True
        review.send.click()
        assert review.work.wait(60)
        assert review.report is not None
        assert review.report.run_id in form.text()
        assert review.report.run_id in form.html()
        assert calls

    def test_a_run_in_the_review_is_not_cut_off(self, form: SheetForm) -> None:
        """An active run in the review cannot be replaced by a new comparison or sheet."""
        open_file(form, SAMPLES / "catalogue_edited.xlsx")
        press(form, "compare")
        review = form.review
        assert review is not None
        assert review.work.wait(60)
        review.apply.click()
        assert review.work.wait(60)
        review.sure.value = True
        review.send.click()
        for act in (form.compare.click, form.go.click):
            act()
            assert form.work.wait(60)
            assert form.notice.text == "a run is still active below"
            assert form.review is review
            assert form.sheet is not None
        review.stop.click()
        assert review.work.wait(60)
        press(form, "compare")
        assert form.review is not review

    def test_the_options_are_those_of_the_plan(self, form: SheetForm) -> None:
        """The options in the form are the options of the plan."""
        plans: list[Plan] = []
        form.on_plan(plans.append)
        open_file(form, SAMPLES / "catalogue_clean.xlsx")
        assert not form.options.missing.value
        form.options.missing.value = True
        form.options.rows.value = ("name",)
        if not form.options.conflict.disabled:
            form.options.conflict.value = "sheet"
        assert {field.value for field in form.options.owners.values()} == {"both"}
        form.options.owners["status"].value = "store"
        press(form, "compare")
        options = plans[0].options
        assert options.delete_missing
        assert options.match_on == ("name",)
        assert options.owners == {"status": "store"}

    def test_an_export_is_compared_with_what_was_exported(
        self, form: SheetForm, store: ps.Store, here: Path
    ) -> None:
        """A sheet with a base offers a conflict winner and a comparison without the base."""
        plans: list[Plan] = []
        form.on_plan(plans.append)
        ps.write_sheet(store.snapshot(), here / "export.xlsx")
        open_file(form, "export.xlsx")
        assert not form.options.two_way.disabled
        form.options.conflict.value = "sheet"
        press(form, "compare")
        assert plans[-1].base
        assert plans[-1].options.on_conflict == "sheet"
        form.options.two_way.value = True
        press(form, "compare")
        assert not plans[-1].base

    def test_what_is_chosen_and_not_checked_yet_stands_in_the_way(self, form: SheetForm) -> None:
        """A correction that is chosen but not checked yet prevents the plan."""
        open_file(form, "pets.xlsx")
        choose(form, "Pets!C2", "suggested")
        press(form, "compare")
        assert form.plan is None
        assert "Check again" in form.notice.hint

    def test_a_status_that_only_the_store_knows_is_no_error_then(
        self, form: SheetForm, store: ps.Store, here: Path
    ) -> None:
        """The plan validates the sheet with the statuses of the store's pets."""
        plans: list[Plan] = []
        form.on_plan(plans.append)
        open_file(form, "pets.xlsx")
        press(form, "compare")
        expected = store.plan(here / "pets.xlsx")
        assert plans[0].changes == expected.changes
        assert plans[0].blocked == expected.blocked

    def test_without_a_store_it_says_so(self, here: Path) -> None:
        """If the service does not answer, the comparison reports it and the sheet stays open."""
        with ps.connect("http://127.0.0.1:9/v2", state=here / "state") as gone:
            one = open_file(_live(open_sheet(gone)), "pets.xlsx")
            press(one, "compare")
            assert one.notice.tone == "problem"
            assert one.plan is None
            assert one.sheet is not None
            one.close()

    def test_it_can_be_stopped(self, form: SheetForm) -> None:
        """Stop ends a comparison, and no plan is made."""
        open_file(form, SAMPLES / "catalogue_edited.xlsx")
        form.compare.click()
        form.stop.click()
        assert form.notice.text == "Stopped. Nothing was changed in the store."
        assert form.work.wait(60)
        assert form.plan is None


def _live(form: SheetForm) -> SheetForm:
    assert form.widget is not None
    return form


class TestLarge:
    """A sheet of 100,000 rows."""

    def test_it_stays_usable(self, form: SheetForm, here: Path) -> None:
        """100,000 findings are shown in pages, and filters execute only a few lines for each."""
        rows = "".join(f"{n},Pet {n},Sold\n" for n in range(1, 100_001))
        (here / "large.csv").write_text(f"id,name,status\n{rows}9,Rex,solld\n")
        open_file(form, "large.csv")
        table = form.findings.table
        assert len(table.rows) == PAGE
        assert table.total > 100_000

        def look() -> None:
            form.findings.which.value = "error"
            table.page = table.pages - 1
            form.findings.which.value = "all"
            table.page = 4_000

        # Two passes over all findings. Rendering each would execute hundreds of lines.
        assert steps(look) < 100 * table.total
        assert table.rows[0]["cells"]["where"].startswith("line 80")
        assert form.sure.description == "Make the 100,000 sure corrections"


class TestWithoutAKernel:
    """HTML and text without a live kernel."""

    def test_a_sheet_is_shown_with_its_findings(self, store: ps.Store, here: Path) -> None:
        """A saved notebook shows the sheet, its findings and the next step."""
        form = open_sheet(store, "pets.xlsx")
        for shown in (form.text(), form.html()):
            assert "unknown-status" in shown
            assert "store.plan(sheet)" in shown
        assert max(map(len, form.text().splitlines())) <= 80
        assert "<button" not in form.html()

    def test_without_a_sheet_it_says_how(self, store: ps.Store) -> None:
        """Without a sheet the form shows the equivalent functions."""
        form = open_sheet(store)
        assert 'store.read("catalogue.xlsx")' in form.text()
        assert 'store.read("catalogue.xlsx")' in unescape(form.html())

    def test_what_cannot_be_read_is_reported(self, store: ps.Store, here: Path) -> None:
        """If the sheet cannot be read, the form shows the error."""
        form = open_sheet(store, "nowhere.xlsx")
        assert "there is no such file" in form.text()
        assert "there is no such file" in form.html()

    def test_what_a_sheet_says_is_text(self, store: ps.Store, here: Path) -> None:
        """Markup in a cell or a header is shown as text."""
        evil = "<img src=x onerror=alert(1)>"
        workbook_of([["id", "status", evil], ["1002", evil, evil]]).save(here / "evil.xlsx")
        form = open_file(_live(open_sheet(store)), "evil.xlsx")
        assert "<img" not in form.html()
        for each in _all(form.widget):
            if type(each).__name__ == "HTML":
                assert "<img" not in each.value
        form.close()


def _all(widget: object) -> Iterator[object]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from _all(child)
