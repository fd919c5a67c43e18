"""failed_rows: the failed rows of a run as a workbook that is fixed, applied, and then in sync."""

import csv
import random
import shlex

import httpx
import openpyxl
import pandas as pd
import pytest
from msgspec.structs import replace
from times import times

import petsync as ps
from petsync._terms import in_shell
from petsync.client.retry import RetryPolicy
from petsync.errors import GuardError, PlanError, SheetError
from petsync.models import Category, Pet, Tag
from petsync.store import connect
from petsync.testing import FakeService

pytestmark = pytest.mark.slow

RUNS = times(3)
STATUSES = ("available", "pending", "sold")
HEADERS = ["id", "name", "status", "category", "tags", "action", "Price"]


class Guarded(httpx.AsyncBaseTransport):
    """A transport to a service that refuses names with REFUSED; while `lost` has numbers, it does
    not answer the writes with these numbers.
    """

    def __init__(self, service):
        self._inner, self._writes = service.transport, 0
        self.lost, self.is_guarded = frozenset(), True

    async def handle_async_request(self, request):
        """Answer 400 for a guarded value, lose an answer, or pass the request on."""
        body = await request.aread()
        if self.is_guarded and b"REFUSED" in body:
            return httpx.Response(400, json={"message": "the name is guarded"}, request=request)
        self._writes += request.method != "GET"
        if request.method != "GET" and self._writes in self.lost:
            await self._inner.handle_async_request(request)
            raise httpx.ReadError("the answer was lost", request=request)
        return await self._inner.handle_async_request(request)


class Shop:
    """A service with a few pets, a store, and an edited sheet of them."""

    def __init__(self, folder, pets, service):
        self.folder, self.service = folder, service
        service.reset(pets)
        self.transport = Guarded(service)
        self.store = connect(
            service.url,
            auth=ps.auth.bearer(service.token(), api_key=service.api_key),
            profile="standard",
            state=folder / "state",
            environ={},
            retry=RetryPolicy(attempts=1),
            transport=self.transport,
        )

    def sheet(self, name, rows, *, base=True):
        """Write an export, with these rows in place of its own, and the columns of HEADERS."""
        path = self.folder / name
        ps.write_sheet(self.store.snapshot(), path, base=None if base else False)
        if path.suffix == ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([HEADERS, *rows])
            return path
        book = openpyxl.load_workbook(path)
        tab = book["Pets"]
        tab.delete_rows(1, tab.max_row)
        for row in [HEADERS, *rows]:
            tab.append([value if value != "" else None for value in row])
        book.save(path)
        return path

    def apply(self, path):
        """Plan and apply the sheet without limits."""
        return self.store.apply(self.store.plan(path, **NO_LIMITS))

    def names(self):
        """Return the names of the pets in the store."""
        return [pet.name for pet in self.service.pets()]


NO_LIMITS = {"max_update": "100%", "max_delete": "100%", "allow_empty": True}


@pytest.fixture
def shop(tmp_path):
    """Return a shop with three pets."""
    with FakeService() as service:
        yield Shop(tmp_path, [pet(1, "Rex"), pet(2, "Mia"), pet(3, "Leo")], service)


def pet(number, name, status="available"):
    """Return a pet with a category and tags."""
    return Pet(
        id=number,
        name=name,
        category=Category(1, "Dogs"),
        tags=(Tag(number, f"tag {number}"),),
        status=status,
    )


def row_of(each, **more):
    """Return the row of a pet, in the order of HEADERS."""
    values = {
        "id": each.id or "",
        "name": each.name,
        "status": each.status,
        "category": each.category.name if each.category else "",
        "tags": "; ".join(tag.name for tag in each.tags),
        "action": "",
        "Price": 9.5,
    }
    return [{**values, **more}[name] for name in HEADERS]


def edit(path, change):
    """Call `change` for each row of the workbook of failed rows with its cells by column, and its
    comments by column; a row for which it returns False is removed.
    """
    book = openpyxl.load_workbook(path)
    tab = book["Pets"]
    names = [cell.value for cell in tab[1]]
    for number in range(tab.max_row, 1, -1):
        cells = dict(zip(names, tab[number], strict=True))
        notes = {name: cell.comment.text for name, cell in cells.items() if cell.comment}
        if change(cells, notes) is False:
            tab.delete_rows(number)
    book.save(path)


def fix(statuses):
    """Return a function that fixes a row as its comments say. `statuses` has those of pets that
    others changed since the export, by id: another status would be a conflict.
    """

    def change(cells, notes):
        text = " ".join(notes.values())
        if "(unknown-status)" in text:
            cells["status"].value = statuses.get(str(cells["id"].value), "sold")
        if "guarded" in text:
            cells["name"].value = cells["name"].value.replace("REFUSED ", "")
        if "(both-changed)" in text:
            for name in notes:
                store = notes[name].partition("store: '")[2].partition("'")[0]
                cells[name].value = store
        if "(no-such-pet)" in text or "(duplicate-id)" in text or "(delete-changed)" in text:
            return False
        if "(added-before)" in text or "(looks-alike)" in text:
            cells["action"].value = "add-another"
        return True

    return change


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_fixed_workbook_is_in_sync_after_it_was_applied(tmp_path, seed):
    """After a random run with refusals, conflicts, lost answers and mistakes, the fixed workbook of
    its failed rows is applied; then it is in sync, no pet is doubled, and the sheet itself adds
    nothing again and undoes no fix.
    """
    dice = random.Random(seed)
    pets = [pet(n, f"Pet {dice.randrange(10**6)}", dice.choice(STATUSES)) for n in range(1, 13)]
    with FakeService() as service:
        shop = Shop(tmp_path, pets, service)
        rows = [*_random_rows(dice, pets)]
        name = dice.choice(["pets.xlsx", "pets.csv"])
        path = shop.sheet(name, rows, base=dice.random() < 0.6)
        for each in pets:
            if dice.random() < 0.2:
                service.put(replace(each, name=f"Store {each.id}", status=dice.choice(STATUSES)))
        shop.transport.lost = frozenset(dice.sample(range(1, 12), 2))
        report = shop.apply(path)
        shop.transport.lost = frozenset()
        if report.counts["unknown"] or report.stopped:
            report = shop.store.resume(report.run_id)
        if dice.random() < 0.5 and report.plan.source_digest == ps.read_sheet(path).digest:
            ps.write_back(shop.store.read(path), report, only_ids=dice.random() < 0.5)
        found = shop.store.failed_rows(report.run_id, tmp_path / "failed.xlsx")
        assert found.rows == sum(
            report.counts[each] for each in ("failed", "conflict", "needs fixing")
        )
        if found.path is None:
            return
        changed = [each for each in service.pets() if each.name.startswith("Store ")]
        edit(found.path, fix({str(each.id): each.status for each in changed}))
        sent = shop.apply(found.path)
        assert not {*sent.counts.items()} & {("failed", 1), ("unknown", 1)}
        again = shop.store.plan(found.path, **NO_LIMITS)
        assert again.in_sync, str(again)
        fixed = {each.id: each for each in service.pets()}
        _must_have_no_double(service, rows)
        shop.transport.is_guarded = False
        shop.apply(path)
        if dice.random() < 0.5:
            _replace_text(path, "availabel", "pending")
            shop.apply(path)
        _must_have_no_double(service, rows)
        for result in sent.results:
            pet_id = result.assigned_id or result.pet_id
            if result.outcome == "applied" and result.kind != "delete":
                assert _pet(service, pet_id) == fixed[pet_id]


def _random_rows(dice, pets):
    for each in pets:
        kinds = [
            [row_of(each, status="availabel")],
            [row_of(each, name=f"REFUSED {each.name}")],
            [row_of(each, name=f"New {each.name}")],
            [row_of(each, status=dice.choice(STATUSES), tags="one; two")],
            [row_of(each, action="delete")],
            [row_of(each), row_of(each, name="Twice")],
        ]
        yield from dice.choices([*kinds, [row_of(each)]], [2, 2, 2, 2, 2, 1, 8])[0]
    if dice.random() < 0.5:
        yield row_of(pet(99, "Ghost"), action="update")
    for n in range(dice.randrange(5)):
        new = replace(pet(None, f"Added {n} {dice.randrange(10**6)}"), tags=(Tag(None, f"a{n}"),))
        kinds = [
            row_of(new, name=f"REFUSED {new.name}"),
            row_of(new, status="availabel"),
            row_of(new),
        ]
        yield dice.choice(kinds)


def _replace_text(path, old, new):
    if path.suffix == ".csv":
        path.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))
        return
    book = openpyxl.load_workbook(path)
    for cell in (cell for row in book["Pets"] for cell in row):
        if cell.value == old:
            cell.value = new
    book.save(path)


def _must_have_no_double(service, rows):
    names = [each.name.replace("REFUSED ", "") for each in service.pets()]
    added = {row[1].replace("REFUSED ", "") for row in rows if not row[0]}
    assert all(names.count(name) <= 1 for name in added), sorted(names)


def _pet(service, pet_id):
    return next(each for each in service.pets() if each.id == pet_id)


NEW = Pet(name="Kim", status="sold", tags=(Tag(None, "kind"),))


def failed(shop, path, name="failed.xlsx"):
    """Apply the sheet, and return the path of the workbook of its failed rows."""
    return shop.store.failed_rows(shop.apply(path).run_id, shop.folder / name).path


def test_the_workbook_has_only_failed_rows_with_their_comments_and_own_columns(shop):
    """A row that is in agreement is left out; the cells to fix have the cause and the way out."""
    rows = [row_of(pet(1, "Rex"), status="solld"), row_of(pet(2, "REFUSED Mia")), row_of(NEW)]
    path = failed(shop, shop.sheet("pets.xlsx", rows))
    tab = openpyxl.load_workbook(path)["Pets"]
    assert [cell.value for cell in tab[1]] == [*HEADERS, "original_row"]
    assert [[cell.value for cell in row] for row in tab.iter_rows(min_row=2)] == [
        ["1", "Rex", "solld", "Dogs", "tag 1", None, "9.5", "2"],
        ["2", "REFUSED Mia", "available", "Dogs", "tag 2", None, "9.5", "3"],
    ]
    assert "Write sold if you mean that." in tab["C2"].comment.text
    assert "guarded" in tab["B3"].comment.text
    book = openpyxl.load_workbook(path)
    assert book["petsync base"].sheet_state == "veryHidden"
    assert not [note for note in shop.store.plan(path).notes if "lacks the column" in note]


def test_a_conflict_of_one_cell_is_at_that_cell(shop):
    """The cell to correct is red, not the id of its row, and the plan names it too."""
    rows = [
        row_of(pet(1, "Rex"), category="dogs"),
        row_of(pet(2, "Mia"), tags="Tag 2"),
        row_of(NEW, status=""),
        row_of(pet(9, "Ghost"), action="update"),
    ]
    path = shop.sheet("pets.xlsx", rows)
    plan = shop.store.plan(path, **NO_LIMITS)
    assert [(each.source, each.rule) for each in plan.conflicts] == [
        ("Pets!D2", "category-spelling"),
        ("Pets!E3", "tag-spelling"),
        ("Pets!C4", "no-status"),
        ("Pets!A5", "no-such-pet"),
    ]
    tab = openpyxl.load_workbook(failed(shop, path))["Pets"]
    commented = [cell.coordinate for row in tab for cell in row if cell.comment]
    assert commented == ["D2", "E3", "C4", "A5"]


def test_own_columns_keep_their_names_in_the_workbook(shop):
    """A header that looks like a formula or an escape, or has a character that XML lacks, is text
    in the workbook, and is read as it was.
    """
    own = ["=1+1", "+x", "_x0041_", "a\0b", "a&b"]
    with (shop.folder / "pets.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [["id", "name", "status", *own], ["1", "Rex", "solld", *"abcde"], ["", "A", "x", *own]]
        )
    path = failed(shop, shop.folder / "pets.csv")
    assert {cell.data_type for cell in openpyxl.load_workbook(path)["Pets"][1]} == {"s"}
    fixed = {"Pets!C2": "sold", "Pets!C3": "sold"}
    others = shop.store.read(path, corrections=fixed).others
    assert others.drop(columns="original_row").to_dict("list") == {
        name: [letter, name] for name, letter in zip(own, "abcde", strict=True)
    }


def test_an_error_of_the_cells_kind_is_not_lost_with_the_kind(shop):
    """An id that a program has rounded is text in the new workbook; its row stays blocked."""
    path = shop.sheet("pets.xlsx", [row_of(pet(1, "Rex"), id=12345678901234567, action="add")])
    path = failed(shop, path)
    tab = openpyxl.load_workbook(path)["Pets"]
    assert tab["F2"].value == "?"
    assert "write 'add' here again" in tab["F2"].comment.text
    plan = shop.store.plan(path, **NO_LIMITS)
    assert len(plan.blocked) == 1
    assert not plan.changes


def test_a_row_that_was_fixed_in_the_sheet_too_is_not_added_twice(shop):
    """If the sheet was fixed and applied first, the row of the workbook is in conflict."""
    path = shop.sheet("pets.xlsx", [row_of(pet(1, "Rex")), row_of(NEW, status="solld")])
    workbook = failed(shop, path)
    _replace_text(path, "solld", "sold")
    _replace_text(path, "Kim", "Kimba")
    assert shop.apply(path).counts["applied"] == 1
    edit(workbook, fix({}))
    plan = shop.store.plan(workbook, **NO_LIMITS)
    assert not plan.changes
    assert [each.rule for each in plan.conflicts] == ["added-before"]


def test_a_row_that_was_fixed_in_the_same_way_in_the_sheet_is_recognised(shop):
    """If the sheet was fixed in the same way and applied first, nothing is left to do."""
    path = shop.sheet("pets.csv", [row_of(NEW, status="solld")], base=False)
    workbook = failed(shop, path)
    _replace_text(path, "solld", "sold")
    shop.apply(path)
    edit(workbook, fix({}))
    assert shop.store.plan(workbook, **NO_LIMITS).in_sync


def test_a_workbook_of_failed_rows_deletes_no_missing_pet(shop):
    """A workbook of failed rows is no list of all pets: deletes of missing ones are refused, and
    no note proposes them.
    """
    rows = [row_of(NEW, name="Ada"), row_of(NEW, name="Bo", status="solld")]
    workbook = failed(shop, shop.sheet("pets.xlsx", rows))
    for two_way in (False, True):
        with pytest.raises(PlanError, match="delete_missing=True") as caught:
            shop.store.plan(workbook, delete_missing=True, two_way=two_way, **NO_LIMITS)
        assert "has only the rows of a run that failed" in caught.value.message
    edit(workbook, fix({}))
    plan = shop.store.plan(workbook, **NO_LIMITS)
    assert [each.kind for each in plan.changes] == ["add"]
    assert not [note for note in plan.notes if "of the store" in note]
    with pytest.raises(PlanError, match="delete_missing=True"):
        shop.store.plan(failed_again(shop, workbook), delete_missing=True, **NO_LIMITS)


def failed_again(shop, workbook):
    """Apply the workbook of failed rows with a new mistake, and return that of its failed rows."""
    edit(workbook, fill("status", "solld"))
    return failed(shop, workbook, "again.xlsx")


def fill(column, text):
    """Return a change for `edit` that writes the text into each cell of the column."""

    def change(cells, _notes):
        cells[column].value = text

    return change


@pytest.mark.parametrize("again", [False, True], ids=["first", "second"])
def test_a_workbook_of_failed_rows_has_the_owners_and_the_matches_of_its_run(shop, again):
    """A field that the store owns is not sent from the workbook either, and a row that means a pet
    by its name adds none; an owner of the command replaces that of the run.
    """
    rows = [
        row_of(pet(1, "Rexy"), status="sold", category="dogs"),
        row_of(pet(2, "Mia"), id="", status="solld"),
    ]
    path = shop.sheet("pets.csv", rows, base=False)
    given = {"owners": {"status": "store"}, "match_on": ["name"]}
    run = shop.store.apply(shop.store.plan(path, **given, **NO_LIMITS))
    assert dict(run.counts)["applied"] == 0
    workbook = shop.store.failed_rows(run.run_id, shop.folder / "failed.xlsx").path
    if again:
        workbook = failed_again(shop, workbook)
    edit(workbook, fix({}))
    edit(workbook, fill("category", "Dogs"))
    plan = shop.store.plan(workbook, **NO_LIMITS)
    assert [(each.pet_id, each.fields) for each in plan.updates] == [(1, ("name",))]
    assert not plan.adds
    assert plan.options.owners == {"status": "store"}
    other = shop.store.plan(workbook, owners={"status": "sheet"}, **NO_LIMITS)
    assert (1, ("name", "status")) in [(each.pet_id, each.fields) for each in other.updates]


@pytest.mark.parametrize("name", ["pets.csv", "pets.xlsx"])
@pytest.mark.parametrize("status", ["available", "solld"], ids=["refused", "blocked"])
@pytest.mark.parametrize("category", ["Birds", "dogs", "[clear]"])
def test_a_name_beside_another_number_is_no_edit_after_the_fix(shop, name, status, category):
    """The category's number in the row of a fixed pet, or of a fixed new pet, stays what it was at
    the failed run: the sheet's next plan does not take the fixed category back.
    """
    path = shop.folder / name
    more = {"category": category, "category_id": 1, "status": status}
    rows = [
        {"id": 2, "name": "REFUSED Mia", **more},
        {"id": None, "name": "REFUSED Kim", **more},
    ]
    frame = pd.DataFrame(rows).astype({"id": "Int64"})
    (frame.to_csv if path.suffix == ".csv" else frame.to_excel)(path, index=False)
    workbook = failed(shop, path)
    edit(workbook, fill("category", "Birds"))
    edit(workbook, fill("status", "available"))
    shop.transport.is_guarded = False
    assert shop.apply(workbook).counts["applied"] == 2
    fixed = {each.name: each for each in shop.service.pets()}
    plan = shop.store.plan(path, **NO_LIMITS)
    assert not plan.changes
    assert not [each for each in plan.conflicts if each.rule != "both-changed"]
    assert {each.name: each for each in shop.service.pets()} == fixed


def test_resume_of_the_run_does_not_send_a_fixed_row_again(shop):
    """A failed add of the run is not tried again after the workbook has added its pet."""
    report = shop.apply(shop.sheet("pets.xlsx", [row_of(NEW, name="REFUSED Kim")]))
    workbook = shop.store.failed_rows(report.run_id, shop.folder / "failed.xlsx").path
    edit(workbook, fix({}))
    shop.apply(workbook)
    shop.transport.is_guarded = False
    shop.store.resume(report.run_id)
    assert shop.names() == ["Rex", "Mia", "Leo", "Kim"]


def test_a_plan_that_was_made_before_the_fix_adds_no_pet_twice(shop):
    """A plan of the sheet is older than the run of the workbook: the row is not sent again."""
    path = shop.sheet("pets.xlsx", [row_of(NEW, name="REFUSED Kim")])
    workbook = failed(shop, path)
    old = shop.store.plan(path, **NO_LIMITS)
    edit(workbook, fix({}))
    older = shop.store.plan(workbook, **NO_LIMITS)
    shop.apply(workbook)
    shop.transport.is_guarded = False
    shop.store.apply(old)
    shop.store.apply(older)
    assert shop.names() == ["Rex", "Mia", "Leo", "Kim"]


def test_a_plan_of_the_workbook_that_was_made_before_the_fix_adds_no_pet_twice(shop):
    """A plan of the workbook is older than a run of the sheet, which was fixed in the meantime."""
    path = shop.sheet("pets.csv", [row_of(NEW, status="solld")], base=False)
    workbook = failed(shop, path)
    edit(workbook, fix({}))
    plan = shop.store.plan(workbook, **NO_LIMITS)
    _replace_text(path, "solld", "sold")
    shop.apply(path)
    assert shop.store.apply(plan).counts["unchanged"] == 1
    assert shop.names() == ["Rex", "Mia", "Leo", "Kim"]


def test_the_failed_rows_of_a_workbook_of_failed_rows_keep_their_first_sheet(shop):
    """A second workbook, made of the first one, is fixed: neither the sheet nor the first workbook
    adds the pet again.
    """
    path = shop.sheet("pets.xlsx", [row_of(NEW, name="REFUSED Kim", status="solld")])
    first = failed(shop, path)
    edit(first, lambda cells, notes: fix({})(cells, {"status": "(unknown-status)"}))
    second = failed(shop, first, "second.xlsx")
    edit(second, fix({}))
    assert shop.apply(second).counts["applied"] == 1
    shop.transport.is_guarded = False
    _replace_text(path, "solld", "sold")
    for each in (second, first, path):
        shop.apply(each)
    assert shop.names() == ["Rex", "Mia", "Leo", "Kim"]


def test_a_workbook_without_its_column_of_rows_is_refused(shop):
    """Without the column, a later plan of the sheet could add a pet twice."""
    workbook = failed(shop, shop.sheet("pets.xlsx", [row_of(NEW, status="solld")]))
    edit(workbook, fix({}))
    book = openpyxl.load_workbook(workbook)
    book["Pets"].delete_cols(8)
    book.save(workbook)
    with pytest.raises(GuardError, match="lost the column 'original_row'"):
        shop.store.plan(workbook)


def test_rows_that_resume_sends_are_not_in_the_workbook(shop):
    """Rows with an unknown outcome are counted, and left to `resume`."""
    path = shop.sheet("pets.xlsx", [row_of(NEW), row_of(pet(1, "Rex"), status="solld")])
    shop.transport.lost = frozenset([1])
    report = shop.apply(path)
    found = shop.store.failed_rows(report.run_id, shop.folder / "failed.xlsx")
    assert found.rows == 1
    assert found.unknown == report.counts["unknown"]


def test_an_existing_workbook_gets_a_backup(shop):
    """A workbook that may have been edited is never lost."""
    report = shop.apply(shop.sheet("pets.xlsx", [row_of(NEW, status="solld")]))
    first = shop.store.failed_rows(report.run_id, shop.folder / "failed.xlsx")
    content = first.path.read_bytes()
    again = shop.store.failed_rows(report.run_id, shop.folder / "failed.xlsx")
    assert first.backup is None
    assert again.backup.read_bytes() == content


@pytest.mark.parametrize("name", ["pets.xlsx", "pets.csv"])
def test_results_in_the_sheet_itself_do_not_count_as_a_change(shop, name):
    """After `write_back`, the failed rows can be written until something else changes the sheet."""
    path = shop.sheet(name, [row_of(NEW), row_of(pet(1, "Rex"), status="solld")])
    sheet = shop.store.read(path)
    report = shop.store.apply(shop.store.plan(sheet, **NO_LIMITS))
    ps.write_back(sheet, report)
    found = shop.store.failed_rows(report.run_id, shop.folder / "failed.xlsx")
    assert [cell.value for cell in openpyxl.load_workbook(found.path)["Pets"]["C"]] == [
        "status",
        "solld",
    ]
    _replace_text(path, "Kim", "Kimba")
    with pytest.raises(PlanError, match="was changed since run"):
        shop.store.failed_rows(report.run_id, shop.folder / "failed.xlsx")


def test_what_cannot_become_a_workbook_says_why(shop):
    """A changed sheet, a DataFrame, another ending and an undo are refused with the way out."""
    path = shop.sheet("pets.xlsx", [row_of(NEW), row_of(pet(1, "Rex"), status="solld")])
    report = shop.apply(path)
    with pytest.raises(SheetError, match=r"ends in \.xlsx"):
        shop.store.failed_rows(report.run_id, shop.folder / "failed.csv")
    _replace_text(path, "solld", "sold")
    with pytest.raises(PlanError, match="was changed since run") as refused:
        shop.store.failed_rows(report.run_id, shop.folder / "failed.xlsx")
    command = in_shell(refused.value.cure).split("`")[1]
    assert shlex.split(command) == ["petsync", "plan", str(path), "--sheet", "Pets"]
    plan = eval(str(refused.value).split("`")[1], {"store": shop.store})
    assert (plan.source, plan.tab, plan.in_sync) == (str(path), "Pets", False)
    frame = ps.frame_from_pets([pet(1, "Rex", status="solld"), pet(2, "Mia", status="sold")])
    of_frame = shop.store.apply(shop.store.plan(frame, **NO_LIMITS))
    with pytest.raises(PlanError, match="was of a DataFrame") as refused:
        shop.store.failed_rows(of_frame.run_id, shop.folder / "failed.xlsx")
    assert "frame.iloc" in refused.value.hint
    results = of_frame.to_frame()
    rows = results.loc[results["outcome"] == "needs fixing", "row"]
    assert [each.name for each in ps.pets_from_frame(frame.iloc[rows])] == ["Rex"]
    path = shop.folder / "pets.jsonl.gz"
    frame[["id", "name", "status"]].to_json(path, orient="records", lines=True)
    of_records = shop.apply(path)
    with pytest.raises(SheetError, match=r"a file of records \(JSON, Parquet\) cannot"):
        shop.store.failed_rows(of_records.run_id, shop.folder / "failed.xlsx")
    undo = shop.store.apply(shop.store.undo(report.run_id))
    with pytest.raises(PlanError, match="is an undo"):
        shop.store.failed_rows(undo.run_id, shop.folder / "failed.xlsx")


def test_a_row_that_breaks_a_rule_has_its_message_as_a_comment(shop):
    """A row that a rule of one's own kept out of the plan has the rule's message at its cell, also
    beside another mistake.
    """
    path = shop.sheet(
        "prices.xlsx",
        [
            row_of(pet(1, "Rex"), Price="ask"),
            row_of(pet(2, "Mia"), Price="ask", status="lost"),
            row_of(pet(3, "Max")),
        ],
    )
    rule = ps.types.SheetRule(name="price", columns=["Price"], minimum=1, message="Ask the buyers.")
    sheet = shop.store.read(path, rules=[rule])
    report = shop.store.apply(shop.store.plan(sheet, **NO_LIMITS))
    shop.store.failed_rows(report.run_id, shop.folder / "fixed.xlsx")
    found = {}

    def note(cells, notes):
        found[cells["id"].value] = {name: text for name, text in notes.items() if "petsync" in text}

    edit(shop.folder / "fixed.xlsx", note)
    assert "'ask': Ask the buyers." in found["1"]["Price"]
    assert "(unknown-status)" in found["2"]["status"]
    assert "Ask the buyers." in found["2"]["status"]
