"""The review form: a plan is reviewed, changed, sent, stopped, continued and undone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from interrupting import interrupt_in
from msgspec.structs import replace
from openpyxl import load_workbook
from shop import base_of, sheet_saying

import petsync as ps
from petsync.client.retry import RetryPolicy
from petsync.errors import InterruptedRunError, PlanError
from petsync.models import Pet
from petsync.plan.guard import Guard, Limit
from petsync.plan.report import Report
from petsync.sandbox import Sandbox
from petsync.table.base import Base
from petsync.table.sheet import Finding, Sheet
from petsync.widgets.review import ReviewForm, review
from petsync.widgets.review_view import as_button_text

pytestmark = pytest.mark.slow

SHOP = [Pet(id=n, name=f"Pet {n}", status="available", photo_urls=()) for n in range(1, 61)]
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def box() -> Iterator[Sandbox]:
    """Yield a store with sixty pets."""
    with Sandbox(auth=False, pets=SHOP) as running:
        yield running


@pytest.fixture
def store(box: Sandbox, tmp_path: Path) -> Iterator[ps.Store]:
    """Yield a connection to the store."""
    once = RetryPolicy(attempts=1)
    with ps.connect(box.url, environ={}, state=tmp_path / "state", retry=once) as connected:
        yield connected


@pytest.fixture
def open_form(store: ps.Store) -> Iterator[Callable[..., ReviewForm]]:
    """Yield a function that opens a form; close the forms afterwards."""
    forms = []

    def open_(plan: ps.types.Plan, of: ps.Store | None = None) -> ReviewForm:
        form = review(plan, of or store)
        forms.append(form)
        assert form.widget is not None
        assert form.work.wait()
        return form

    yield open_
    for form in forms:
        form.close()
        assert form.work.wait()


def test_an_undo_after_a_search_opens(
    open_form: Callable[..., ReviewForm], store: ps.Store
) -> None:
    """Another plan, such as an undo, opens without the search that was made in the plan before."""
    form = open_form(store.plan(renaming(*range(1, 21)), max_update=30))
    form.changes.search = "New 1"
    assert len(form.changes.rows) > 1
    form.review(store.plan(renaming(5)))
    assert form.work.wait()
    assert form.notice.tone != "problem", form.notice.text
    assert (form.changes.search, len(form.changes.rows)) == ("", 1)


def test_few_results_can_all_be_seen(open_form: Callable[..., ReviewForm], store: ps.Store) -> None:
    """All results are shown first, and the choice of a group is visible, also with few results."""
    sheet = sheet_saying({"id": 1, "name": "New"}, {"id": 999, "name": "X", "action": "update"})
    form = open_form(store.plan(sheet))
    send(form)
    finish(form)
    assert len(form.results.rows) == 2
    panel = form._panel
    assert panel is not None
    assert panel.outcome.layout.display != "none"
    panel.outcome.value = 0
    assert len(form.results.rows) == 1


def renaming(*numbers: int, to: str = "New") -> Sheet:
    """Return a sheet that renames these pets."""
    return sheet_saying(*({"id": n, "name": f"{to} {n}"} for n in numbers))


def slow(box: Sandbox, latency: float) -> None:
    """Make each request take about this many seconds."""
    box.set_faults(f"latency={latency}" if latency else None)


def send(form: ReviewForm) -> None:
    """Apply the plan and confirm everything."""
    form.apply.click()
    assert form.work.wait()
    assert form.ready is not None, form.notice.text
    form.sure.value = True
    form.send.click()


def finish(form: ReviewForm) -> Report:
    """Wait for the end of the run, and return its report."""
    assert form.work.wait()
    assert form.report is not None, form.notice.text
    return form.report


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.005)


def names(store: ps.Store) -> dict[int, str]:
    """Return the names of the store's pets by id."""
    frame = store.snapshot().frame
    return dict(zip(frame["id"].tolist(), frame["name"].tolist(), strict=True))


def shown(widget: Any) -> bool:
    """Return true if the widget is displayed."""
    return bool(widget.layout.display != "none")


def untick(form: ReviewForm, *keys: str) -> None:
    """Untick these rows."""
    form.changes.ticked = [key for key in form.changes.ticked if key not in keys]


def counted(form: ReviewForm) -> str:
    """Return the sentence with the number of changes to send."""
    return str(form.count.value)


FormOpener = Callable[..., ReviewForm]


def test_a_plan_is_shown_whole(store: ps.Store, open_form: FormOpener) -> None:
    """Each change has a ticked row that shows its action, its pet, its values and its cell."""
    sheet = sheet_saying(
        {"name": "Neu", "status": "sold"},
        {"id": 1, "name": "Rex"},
        {"id": 2, "action": "delete"},
    )
    form = open_form(store.plan(sheet))
    add, update, delete = form.changes.rows
    assert [row["tone"] for row in (add, update, delete)] == ["add", "update", "delete"]
    assert form.changes.ticked == ["0", "1", "2"]
    assert update["cells"]["what"] == [{"name": "Name", "values": ["Pet 1", "Rex"]}]
    assert update["cells"]["where"] == "Pets!A3"
    assert add["cells"]["what"] == [{"name": "Status", "values": ["sold"]}]
    assert delete["cells"]["pet"] == "Pet 2"
    assert delete["cells"]["what"] == [{"name": "Status", "values": ["available"]}]
    assert update["label"] == "change 1 Pet 1"
    assert "All 3 changes will be sent" in counted(form)
    assert "1 to add, 1 to change, 1 to delete" in form.overview.value
    assert not form.apply.disabled
    assert not shown(form.clashes_box)
    assert not shown(form.held)


def test_what_is_unticked_is_not_sent(store: ps.Store, open_form: FormOpener) -> None:
    """An unticked change is named beforehand, is not sent, and is counted in the report."""
    form = open_form(store.plan(renaming(1, 2, 3)))
    untick(form, "1")
    assert "2 of 3 changes will be sent; 1 is left out." in counted(form)
    send(form)
    report = finish(form)
    assert {name: n for name, n in report.counts.items() if n} == {"applied": 2, "not sent": 1}
    assert [names(store)[n] for n in (1, 2, 3)] == ["New 1", "Pet 2", "New 3"]
    assert form.notice.tone == "done"


def test_adds_without_an_id_are_distinguished(store: ps.Store, open_form: FormOpener) -> None:
    """Of several new pets without an id, only the unticked one is not sent."""
    form = open_form(store.plan(sheet_saying(*({"name": n, "status": "sold"} for n in "ABC"))))
    untick(form, "1")
    send(form)
    finish(form)
    assert {"A", "C"} <= set(names(store).values())
    assert "B" not in names(store).values()


def test_the_plan_that_was_shown_last_is_the_one_that_is_sent(
    store: ps.Store, open_form: FormOpener
) -> None:
    """The confirmation shows the plan's fingerprint, and exactly this plan is sent."""
    form = open_form(store.plan(renaming(1, 2, 3)))
    untick(form, "0")
    form.apply.click()
    assert form.work.wait()
    plan = form.ready
    assert plan is not None
    assert plan.fingerprint[:12] in form.question.value
    # A tick after the confirmation was shown has no effect.
    form.changes.ticked = ["0", "1", "2"]
    form.send.click()
    assert finish(form).plan.fingerprint == plan.fingerprint
    assert names(store)[1] == "Pet 1"


def test_an_untouched_plan_is_sent_as_it_is(store: ps.Store, open_form: FormOpener) -> None:
    """If nothing was unticked, the run has the original plan."""
    plan = store.plan(renaming(1))
    form = open_form(plan)
    send(form)
    assert finish(form).plan.fingerprint == plan.fingerprint


def test_nothing_is_sent_before_the_last_word(store: ps.Store, open_form: FormOpener) -> None:
    """Apply shows a confirmation and sends nothing, and Back hides it."""
    form = open_form(store.plan(renaming(1)))
    form.send.click()
    form.apply.click()
    assert form.work.wait()
    assert shown(form.question_box)
    assert form.send.description == "Send 1 change"
    form.back.click()
    form.send.click()
    assert form.work.wait()
    assert (form.ready, form.report) == (None, None)
    assert not shown(form.question_box)
    assert names(store)[1] == "Pet 1"


def test_deletes_are_named_before_they_are_sent(store: ps.Store, open_form: FormOpener) -> None:
    """The confirmation names the pets to delete and requires another tick."""
    form = open_form(store.plan(sheet_saying({"id": 3, "action": "delete"})))
    form.apply.click()
    assert form.work.wait()
    assert "1 pet will be deleted" in form.question.value
    assert "3 Pet 3" in form.question.value
    assert form.sure.description == "Yes, delete this pet"
    assert form.send.disabled
    form.send.click()
    assert form.report is None
    form.sure.value = True
    assert not form.send.disabled
    form.send.click()
    finish(form)
    assert 3 not in names(store)


def test_filters_and_what_they_show(store: ps.Store, open_form: FormOpener) -> None:
    """Changes are found by action, field, text and tick; hidden rows keep their ticks."""
    sheet = sheet_saying(
        {"id": 1, "name": "Rex"}, {"id": 2, "status": "sold"}, {"name": "N", "status": "sold"}
    )
    form = open_form(store.plan(sheet))
    form.action.value = "update"
    assert [row["cells"]["id"] for row in form.changes.rows] == ["1", "2"]
    form.field.value = "status"
    assert [row["cells"]["id"] for row in form.changes.rows] == ["2"]
    assert form.untick_all.description == "Untick the one shown"
    form.untick_all.click()
    assert form.changes.ticked == []
    form.action.value = form.field.value = ""
    assert form.changes.ticked == ["0", "1"]
    form.sent.value = "out"
    assert [row["cells"]["id"] for row in form.changes.rows] == ["2"]
    form.sent.value, form.changes.search = "", "rex"
    assert [row["cells"]["id"] for row in form.changes.rows] == ["1"]
    form.changes.search = "nothing like it"
    assert form.changes.rows == []
    assert form.untick_all.disabled
    assert "2 of 3 changes will be sent" in counted(form)


def test_filters_are_for_many_changes(store: ps.Store, open_form: FormOpener) -> None:
    """The form has filters and a search from ten changes on."""
    few, many = (open_form(store.plan(renaming(*range(1, n)))) for n in (10, 11))
    assert (few.changes.searchable, shown(few._panel.filters)) == (False, False)  # type: ignore[union-attr]
    assert (many.changes.searchable, shown(many._panel.filters)) == (True, True)  # type: ignore[union-attr]


def test_changes_are_sorted(store: ps.Store, open_form: FormOpener) -> None:
    """Changes are sorted by kind, id, pet or cell; each tick stays with its change."""
    sheet = sheet_saying(
        {"id": 10, "name": "B"}, {"id": 2, "name": "A"}, {"name": "C", "status": "sold"}
    )
    form = open_form(store.plan(sheet))
    form.changes.sort = "id"
    assert [row["cells"]["id"] for row in form.changes.rows] == ["2", "10", "new"]
    untick(form, form.changes.rows[0]["key"])
    form.changes.sort = "where"
    assert [row["cells"]["where"] for row in form.changes.rows] == ["Pets!B2", "Pets!B3", "Pets!A4"]
    assert form.changes.ticked == [form.changes.rows[n]["key"] for n in (0, 2)]


def test_tags_come_and_go_one_by_one(store: ps.Store, open_form: FormOpener) -> None:
    """A change of tags shows the added and the removed ones, and not those that stay."""
    calm, old = ps.Tag(1, "calm"), ps.Tag(2, "old")
    store.api.update_pet(replace(SHOP[0], tags=(calm, old)))
    form = open_form(store.plan(sheet_saying({"id": 1, "tags": [calm, ps.Tag(None, "shy")]})))
    (change,) = form.changes.rows
    assert change["cells"]["what"] == [{"name": "Tags", "values": [("shy",), ("old",)]}]


def test_a_cell_with_a_warning_has_a_badge(store: ps.Store) -> None:
    """A changed cell that was read with a warning shows the warning, and so does another cell of
    the same row; other rows and errors have no badge.
    """
    sheet = sheet_saying({"id": 1, "name": "Rex"}, {"id": 2, "name": "Max"})

    def finding(row: int, column: str, severity: Any) -> Finding:
        return Finding(
            address=f"Pets!X{row}",
            row=row,
            column=column,
            severity=severity,
            rule="some-rule",
            value="",
            problem=f"the {column} looks odd",
        )

    findings = [
        finding(2, "name", "warning"),
        finding(2, "category_id", "warning"),
        finding(3, "name", "error"),
        finding(2, "unknown header", "warning"),
    ]
    form = review(store.plan(sheet), store, findings=findings)
    assert form.widget
    assert form.work.wait()
    first, second = (row["cells"]["what"] for row in form.changes.rows)
    assert first == [
        {"name": "Name", "values": ["Pet 1", "Rex"], "warning": "the name looks odd."},
        {"name": "Category", "values": [""], "warning": "the category_id looks odd."},
    ]
    assert second == [{"name": "Name", "values": ["Pet 2", "Max"]}]
    form.close()


def test_pages_keep_their_ticks(store: ps.Store, open_form: FormOpener) -> None:
    """A page has 25 rows. Ticks are kept on every page, and a button ticks all rows that match the
    filters on every page.
    """
    form = open_form(store.plan(renaming(*range(1, 61)), guard=Guard(max_update=Limit(1.0))))
    assert (len(form.changes.rows), form.changes.pages, form.changes.total) == (25, 3, 60)
    untick(form, "7")
    form.changes.page = 1
    assert [row["key"] for row in form.changes.rows] == [str(n) for n in range(25, 50)]
    untick(form, "35")
    form.changes.page = 0
    assert "7" not in form.changes.ticked
    assert "58 of 60 changes" in counted(form)
    form.untick_all.click()
    assert form.changes.ticked == []
    assert "None of 60 changes will be sent" in counted(form)
    assert form.apply.disabled
    form.tick_all.click()
    assert "All 60 changes" in counted(form)


def test_a_tick_of_a_page_that_was_turned_counts_for_no_other(
    store: ps.Store, open_form: FormOpener
) -> None:
    """A late message about the previous page changes no tick of the current page."""
    form = open_form(store.plan(renaming(*range(1, 61)), guard=Guard(max_update=Limit(1.0))))
    before = form.changes.ticked
    form.changes.page = 1
    form.changes.ticked = before[1:]
    assert form.changes.ticked == [str(n) for n in range(25, 50)]
    assert "All 60 changes" in counted(form)


def exported(store: ps.Store) -> Base:
    """Return the base of a sheet that was exported before any change."""
    return base_of(SHOP, url=store.url)


def conflicting(store: ps.Store) -> ps.types.Plan:
    """Return a plan with conflicts in name and status of pet 1 and the name of pet 2, a row in
    conflict as a whole, and an update of pet 3.
    """
    for number, name in ((1, "Theirs 1"), (2, "Theirs 2")):
        store.api.update_pet(replace(SHOP[number - 1], name=name, status="sold"))
    store.api.delete_pet(4)
    sheet = sheet_saying(
        {"id": 1, "name": "Ours 1", "status": "pending"},
        {"id": 2, "name": "Ours 2"},
        {"id": 3, "name": "Ours 3"},
        {"id": 4, "name": "Ours 4"},
        base=exported(store),
    )
    return store.plan(sheet)


def test_conflicts_have_a_choice_each(store: ps.Store, open_form: FormOpener) -> None:
    """Each conflict shows the values of export, sheet and store, and the user chooses the
    winner.
    """
    form = open_form(conflicting(store))
    assert shown(form.clashes_box)
    cells = [row["cells"] for row in form.clashes.rows]
    assert [(c["pet"], c["field"], c["base"], c["sheet"], c["store"]) for c in cells] == [
        ("1 Theirs 1", "Name", "Pet 1", "Ours 1", "Theirs 1"),
        ("1 Theirs 1", "Status", "available", "pending", "sold"),
        ("2 Theirs 2", "Name", "Pet 2", "Ours 2", "Theirs 2"),
    ]
    assert [c["winner"]["value"] for c in cells] == ["store"] * 3
    assert "All 1 change" not in counted(form)
    form.clashes.chosen = {"0": {"winner": "sheet"}}
    assert "All 2 changes will be sent" in counted(form)
    form.clashes.chosen = {"0": {"winner": "sheet"}, "2": {"winner": "sheet"}}
    form.clashes.chosen = {"0": {"winner": "sheet"}, "2": {"winner": "store"}}
    send(form)
    report = finish(form)
    assert report.counts["applied"] + report.counts["conflict"] == 4
    pets = {n: store.api.get_pet_by_id(n) for n in (1, 2, 3)}
    assert (pets[1].name, pets[1].status) == ("Ours 1", "sold")
    assert pets[2].name == "Theirs 2"
    assert pets[3].name == "Ours 3"


def test_all_conflicts_at_once(store: ps.Store, open_form: FormOpener) -> None:
    """One button gives all fields in conflict to the sheet, another to the store; the confirmation
    reports the choice.
    """
    form = open_form(conflicting(store))
    form.to_sheet.click()
    assert [row["cells"]["winner"]["value"] for row in form.clashes.rows] == ["sheet"] * 3
    assert "All 3 changes will be sent" in counted(form)
    form.apply.click()
    assert form.work.wait()
    assert "For 3 fields in conflict the sheet&#x27;s value is sent." in form.question.value
    form.back.click()
    form.to_store.click()
    assert "The one change will be sent" in counted(form)


def test_rows_that_are_held_say_why(store: ps.Store, open_form: FormOpener) -> None:
    """A row that is in conflict as a whole has no choice; it shows the reason and the fix."""
    form = open_form(conflicting(store))
    assert shown(form.held)
    (row,) = form.held.rows
    assert row["cells"]["where"] == "Pets!A5"
    problem, cure = (each["text"] for each in row["cells"]["what"])
    assert "pet 4 has been deleted from the store since the export" in problem
    assert cure.startswith("Write `add`")


def test_a_value_that_cannot_be_sent_is_no_choice(store: ps.Store, open_form: FormOpener) -> None:
    """If the sheet clears a status in conflict, the store's value is kept and the form shows
    why.
    """
    store.api.update_pet(replace(SHOP[0], status="sold"))
    base = exported(store)
    form = open_form(store.plan(sheet_saying({"id": 1, "status": ""}, base=base)))
    (row,) = form.clashes.rows
    assert "would have no status" in row["cells"]["winner"]
    form.clashes.chosen = {"0": {"winner": "sheet"}}
    form.to_sheet.click()
    assert "There is nothing to send" in counted(form)


def test_the_guard_is_overridden_by_name(store: ps.Store, open_form: FormOpener) -> None:
    """A plan over a limit cannot be sent. A tick that names the limit allows exactly this number of
    changes, and the plan of the run has this guard.
    """
    form = open_form(store.plan(renaming(*range(1, 31))))
    assert form.apply.disabled
    assert "All 30 changes will be sent, once you override the guard." in counted(form)
    assert "30 updates are more than the limit of 30 % allows" in form.verdict.value
    box = form.overrides["update"]
    assert [name for name, each in form.overrides.items() if shown(each)] == ["update"]
    assert box.description == "Update 30 pets anyway (max_update)"
    box.value = True
    assert not form.apply.disabled
    assert "All 30 changes will be sent." in counted(form)
    untick(form, "0")
    assert not form.apply.disabled
    box.value = False
    assert form.apply.disabled
    box.value = True
    form.apply.click()
    assert form.work.wait()
    assert "You override the guard" in form.question.value
    form.send.click()
    report = finish(form)
    assert report.plan.guard.max_update == Limit(29, is_share=False)
    assert report.counts["applied"] == 29


def test_a_shifted_column_is_overridden_by_name(store: ps.Store, open_form: FormOpener) -> None:
    """The refusal of a column that was moved without its rows has a box, and its tick allows the
    plan.
    """
    base = exported(store)
    rows = [{"id": n, "name": f"Pet {n % 60 + 1}"} for n in range(1, 61)]
    form = open_form(store.plan(sheet_saying(*rows, base=base), max_update=60))
    assert "tick the box below" in form.verdict.value
    assert [name for name, each in form.overrides.items() if shown(each)] == ["shifted"]
    box = form.overrides["shifted"]
    assert box.description == "Use the column as in the sheet (allow_shifted)"
    assert form.apply.disabled
    box.value = True
    assert not form.apply.disabled
    assert form.draft.build_plan().guard.allow_shifted


def test_fewer_changes_need_no_override(store: ps.Store, open_form: FormOpener) -> None:
    """If enough changes are unticked, no override of the guard is needed."""
    form = open_form(store.plan(renaming(*range(1, 31))))
    untick(form, *(str(n) for n in range(20)))
    assert not form.apply.disabled
    assert not any(map(shown, form.overrides.values()))


def stop(form: ReviewForm) -> None:
    """Press Stop after some changes of the run, and wait for its end."""
    before = form.report.counts["applied"] if form.report else 0
    until(lambda: form.meter.done >= before + 2)
    form.stop.click()
    assert (form.stop.disabled, form.stop.description) == (True, "Stopping...")
    assert form.work.wait()


def test_stop_and_go_on(box: Sandbox, store: ps.Store, open_form: FormOpener) -> None:
    """Stop responds at once and ends the run with changes left; Continue sends these, and no pet is
    changed twice.
    """
    form = open_form(store.plan(renaming(*range(1, 61)), guard=Guard(max_update=Limit(1.0))))
    slow(box, 0.3)
    reports: list[Report] = []
    form.on_report(reports.append)
    send(form)
    stop(form)
    report = finish(form)
    done = report.counts["applied"]
    assert 0 < done < 60
    assert report.stopped
    assert (form.notice.tone, shown(form.stop)) == ("problem", False)
    assert "petsync resume" not in form.notice.text
    assert "“Continue” finishes the run" in form.notice.text
    assert form.resume.description == f"Continue with the remaining changes ({60 - done})"
    assert sum(name.startswith("New") for name in names(store).values()) == done
    form.resume.click()
    stop(form)
    slow(box, 0)
    form.resume.click()
    report = finish(form)
    assert (report.counts["applied"], report.stopped) == (60, "")
    assert not shown(form.resume)
    assert len({each.run_id for each in reports}) == 1
    assert len(reports) == 3
    assert box.requests["updatePetWithForm"] == 60


def stopped_elsewhere(box: Sandbox, folder: Path, sheet: Path) -> str:
    """Stop a run of the sheet with a long Retry-After of the service, and return its id."""
    with ps.connect(box.url, environ={}, state=folder / "state") as other:
        plan = other.plan(sheet, guard=Guard(max_update=Limit(1.0)))
        box.set_faults("429=1,only=addPet+updatePetWithForm,retry_after=600")
        with pytest.raises(InterruptedRunError) as caught:
            other.apply(plan, concurrency=1)
        box.set_faults(None)
    assert isinstance(caught.value.report, Report)
    return caught.value.report.run_id


def test_a_stopped_run_of_the_sheet_is_finished_first(
    box: Sandbox, store: ps.Store, open_form: FormOpener, tmp_path: Path
) -> None:
    """A plan whose sheet has an incomplete run shows a button that completes this run, with its id
    and the number of changes left. Afterwards a new plan shows the rest.
    """
    sheet = tmp_path / "pets.csv"
    sheet.write_text("name,status\nNew 1,sold\nNew 2,sold\n", "utf-8")
    assert not shown(open_form(store.plan(sheet)).finish)
    run_id = stopped_elsewhere(box, tmp_path, sheet)
    form = open_form(store.plan(sheet))
    assert shown(form.finish)
    assert form.finish.description == f"Finish run {run_id} (2 changes left)"
    assert "“Finish run”" in form.overview.value
    assert "petsync resume" not in form.overview.value
    reports: list[Report] = []
    form.on_report(reports.append)
    form.finish.click()
    report = finish(form)
    assert [each.run_id for each in reports] == [report.run_id] == [run_id]
    assert report.counts["applied"] == 2
    assert not shown(form.finish)
    assert "Compare the sheet again (“Open a sheet”" in form.notice.hint
    assert sorted(pet.name or "" for pet in box.pets()[len(SHOP) :]) == ["New 1", "New 2"]
    again = open_form(store.plan(sheet))
    assert not shown(again.finish)
    assert again.plan.in_sync


@pytest.mark.parametrize("how", ["closed", "stopped"])
def test_a_run_that_is_being_finished_can_be_left(
    box: Sandbox, store: ps.Store, open_form: FormOpener, tmp_path: Path, how: str
) -> None:
    """Stop, or closing the form, stops a run that is being completed between two changes; it can be
    completed later.
    """
    sheet = tmp_path / "pets.csv"
    sheet.write_text("id,name\n" + "".join(f"{n},New {n}\n" for n in range(1, 61)), "utf-8")
    limits = Guard(max_update=Limit(1.0))
    stopped_elsewhere(box, tmp_path, sheet)
    refused = box.requests["updatePetWithForm"]
    slow(box, 0.1)
    form = open_form(store.plan(sheet, guard=limits))
    form.finish.click()
    assert form.is_running
    until(lambda: form.meter.done >= 2)
    if how == "closed":
        form.close()
    else:
        form.stop.click()
    assert form.work.wait()
    slow(box, 0)
    later = open_form(store.plan(sheet, guard=limits))
    assert shown(later.finish)
    later.finish.click()
    assert finish(later).counts["applied"] == 60
    assert box.requests["updatePetWithForm"] == 60 + refused


def test_taking_a_run_back(store: ps.Store, open_form: FormOpener) -> None:
    """Undo shows its plan in the same form, and sends it only after a confirmation."""
    form = open_form(store.plan(renaming(1, 2)))
    send(form)
    finish(form)
    assert shown(form.undo)
    store.api.update_pet(replace(SHOP[1], name="Theirs"))
    form.undo.click()
    assert form.work.wait()
    assert form.report is None
    assert form.heading.text == "Review the undo of a run"
    assert names(store)[1] == "New 1"
    (change,) = form.changes.rows
    assert change["cells"]["what"] == [{"name": "Name", "values": ["New 1", "Pet 1"]}]
    (kept,) = form.held.rows
    assert kept["cells"]["id"] == "2"
    send(form)
    finish(form)
    assert [names(store)[n] for n in (1, 2)] == ["Pet 1", "Theirs"]


def test_a_plan_that_was_used_is_not_sent_again(store: ps.Store, open_form: FormOpener) -> None:
    """A plan that was applied shows its report and cannot be sent again."""
    plan = store.plan(renaming(1))
    report = store.apply(plan, progress=False)
    form = open_form(plan)
    assert "already applied" in form.notice.text
    assert form.report is not None
    assert form.report.run_id == report.run_id
    assert not shown(form.apply)
    assert shown(form.undo)


def test_a_plan_that_is_used_meanwhile_is_not_sent(store: ps.Store, open_form: FormOpener) -> None:
    """If another user applies the same part of the plan while the form is open, nothing is sent
    twice and the form shows the report.
    """
    form = open_form(store.plan(renaming(1, 2)))
    untick(form, "1")
    form.apply.click()
    assert form.work.wait()
    assert form.ready is not None
    store.apply(form.ready, progress=False)
    form.send.click()
    report = finish(form)
    assert "already applied" in form.notice.text
    assert report.counts["applied"] == 1
    assert len(store.runs()) == 1


def test_a_plan_that_is_at_work_elsewhere_is_waited_for(
    store: ps.Store, box: Sandbox, open_form: FormOpener
) -> None:
    """While another form sends the same plan, the second form waits and sends nothing; at the end
    it shows the report of the whole run.
    """
    plan = store.plan(renaming(*range(1, 16)))
    first, second = open_form(plan), open_form(plan)
    for form in (first, second):
        form.apply.click()
        assert form.work.wait()
        assert form.ready is not None
    slow(box, 1.0)
    first.send.click()
    until(lambda: bool(store.runs().shape[0]))
    second.send.click()
    until(lambda: "Another form" in second.notice.text)
    assert second.report is None
    assert "This form sent nothing" in second.notice.hint
    slow(box, 0)
    assert finish(first).counts["applied"] == 15
    assert finish(second).counts["applied"] == 15
    assert "has ended" in second.notice.text
    assert len(store.runs()) == 1


def test_a_plan_for_another_store_can_be_looked_at(store: ps.Store, open_form: FormOpener) -> None:
    """A plan for another store is shown with an error and cannot be sent."""
    plan = replace(store.plan(renaming(1)), store="http://127.0.0.1:9/v2")
    form = open_form(plan)
    assert "the plan is for http://127.0.0.1:9/v2" in form.notice.text
    assert not shown(form.apply)
    assert len(form.changes.rows) == 1


def test_a_store_that_is_locked(box: Sandbox, store: ps.Store, open_form: FormOpener) -> None:
    """While another run is active nothing is sent; the form reports this, and the user can try
    again.
    """
    form = open_form(store.plan(renaming(1)))
    other = store.plan(renaming(*range(2, 20)))
    slow(box, 0.3)
    form.apply.click()
    assert form.work.wait()
    seen = threading.Event()
    run = threading.Thread(
        target=store.apply, args=(other,), kwargs={"on_progress": lambda _: seen.set()}
    )
    run.start()
    assert seen.wait(60)
    form.send.click()
    assert form.work.wait()
    assert "is working on" in form.notice.text
    assert form.report is None
    assert shown(form.apply)
    run.join()
    slow(box, 0)
    send(form)
    assert finish(form).counts["applied"] == 1


def test_problems_come_by_cause_with_a_cure(store: ps.Store, open_form: FormOpener) -> None:
    """Results with a problem are grouped by cause, each with a fix for this form."""
    plan = store.plan(renaming(1, 2, 3, 4))
    store.api.update_pet(replace(SHOP[0], name="Theirs"))
    store.api.update_pet(replace(SHOP[1], name="Theirs"))
    store.api.delete_pet(3)
    form = open_form(plan)
    send(form)
    report = finish(form)
    assert report.counts["conflict"] == 3
    for phrase in (
        "Needs your attention: 3 conflicts",
        "2 in conflict: changed in the store since the plan",
        "1 in conflict: no longer in the store",
        "Compare the sheet again (“Open a sheet”, then “Compare with the store”): the new plan",
        "then compare the sheet again (“Open a sheet”",
        "Pet 3",
    ):
        assert phrase in form.problems.value
    assert form.problems.value.count("<details open>") == 2
    assert form.notice.tone == "problem"
    assert len(form.results.rows) == 4
    form.outcome.value = 0
    assert [row["cells"]["id"] for row in form.results.rows] == ["1", "2"]
    assert {row["tone"] for row in form.results.rows} == {"conflict"}


def test_a_report_says_first_what_changed(store: ps.Store, open_form: FormOpener) -> None:
    """After a run the form says first what changed: the number of pets, and the first twenty with
    their values; the details of the run are at the end.
    """
    rows = [{"id": n, "name": f"New {n}"} for n in range(1, 25)]
    sheet = sheet_saying(*rows, {"id": 60, "action": "delete"}, {"name": "Luna", "status": "sold"})
    form = open_form(store.plan(sheet, max_update=60))
    send(form)
    report = finish(form)
    assert "1 pet was added, 24 were changed, 1 was deleted." in form.changed.value
    assert "Luna" in form.changed.value
    new_id = next(r.assigned_id for r in report.results if r.kind == "add")
    assert f"<bdi>{new_id}</bdi>" in form.changed.value
    assert form.changed.value.count("<tr") == 21
    assert "... and 6 more" in form.changed.value
    assert form.problems.value == ""
    panel = form._panel
    assert panel is not None
    order = (panel.changed, panel.problems, panel.files, panel.results, panel.facts)
    assert [each for each in panel.done.children if each in order] == [*order]
    assert report.run_id in form.facts.value


def test_a_run_that_changes_nothing_says_so(store: ps.Store, open_form: FormOpener) -> None:
    """If no change was made, the form says so first."""
    plan = store.plan(renaming(1))
    store.api.delete_pet(1)
    form = open_form(plan)
    send(form)
    finish(form)
    assert "Nothing was changed in the store." in form.changed.value


def test_a_service_that_goes_away_can_be_gone_on_with(
    box: Sandbox, store: ps.Store, open_form: FormOpener
) -> None:
    """Changes that fail because of a service fault are reported, and Continue sends them later."""
    form = open_form(store.plan(renaming(1, 2)))
    box.set_faults("drop_before=1,only=updatePetWithForm")
    form.apply.click()
    assert form.work.wait()
    form.send.click()
    report = finish(form)
    assert report.counts["applied"] < 2
    assert shown(form.resume)
    assert "petsync resume" not in form.problems.value + form.notice.text + form.notice.hint
    box.set_faults(None)
    form.resume.click()
    assert finish(form).counts["applied"] == 2


def test_closing_the_form_stops_its_run(
    box: Sandbox, store: ps.Store, open_form: FormOpener
) -> None:
    """Closing a form stops its run between two changes; a new form of the same plan shows the
    applied changes and continues the run.
    """
    plan = store.plan(renaming(*range(1, 61)), guard=Guard(max_update=Limit(1.0)))
    form = open_form(plan)
    slow(box, 0.3)
    send(form)
    until(lambda: form.meter.done >= 2)
    form.close()
    assert form.work.wait()
    slow(box, 0)
    again = open_form(plan)
    assert again.report is not None
    assert 0 < again.report.counts["applied"] < 60
    again.resume.click()
    assert finish(again).counts["applied"] == 60


def test_stop_before_anything_was_sent(
    box: Sandbox, store: ps.Store, open_form: FormOpener
) -> None:
    """A run that is stopped at once sends nothing, and the plan with its ticks can be sent
    again.
    """
    form = open_form(store.plan(renaming(1, 2), guard=Guard(sentinels=(9,))))
    untick(form, "1")
    slow(box, 1)
    send(form)
    form.stop.click()
    assert form.work.wait()
    assert form.report is None
    assert form.notice.text == "Stopped before anything was sent."
    slow(box, 0)
    assert names(store)[1] == "Pet 1"
    assert shown(form.apply)
    assert form.changes.ticked == ["0"]
    send(form)
    assert finish(form).counts["applied"] == 1


def test_an_interrupt_of_the_kernel_stops_no_run(
    box: Sandbox, store: ps.Store, open_form: FormOpener
) -> None:
    """Ctrl-C in a waiting cell ends the cell, not the form's run."""
    form = open_form(store.plan(renaming(*range(1, 19))))
    slow(box, 0.05)
    send(form)
    until(lambda: form.meter.done >= 1)
    interrupt_in("test_an_interrupt_of_the_kernel_stops_no_run")
    with pytest.raises(KeyboardInterrupt):
        threading.Event().wait()
    assert finish(form).counts["applied"] == 18


def test_nothing_to_do(store: ps.Store, open_form: FormOpener) -> None:
    """A plan in sync has nothing to send."""
    form = open_form(store.plan(sheet_saying({"id": 1, "name": "Pet 1"})))
    assert "There is nothing to send" in counted(form)
    assert form.apply.disabled
    assert "In sync" in form.overview.value


def test_without_a_kernel_it_is_html_and_text(store: ps.Store) -> None:
    """Without a live kernel the form shows the plan to send as text and HTML, and creates no
    widget.
    """
    form = review(store.plan(renaming(1, 2)), store)
    text, html = form.text(), form.html()
    assert form._widget is None
    assert "0 to add, 2 to change, 0 to delete" in text
    assert max(map(len, text.splitlines())) <= 80
    for content in (text, html):
        assert "All 2 changes will be sent." in content
    form.draft.tick([0], on=False)
    assert "1 of 2 changes will be sent; 1 is left out." in form.text()
    form.close()


def test_an_undo_has_its_heading_from_the_start(store: ps.Store, open_form: FormOpener) -> None:
    """A form that opens with the plan of an undo says so in its heading, HTML and text."""
    report = store.apply(store.plan(renaming(1)), progress=False)
    form = open_form(store.undo(report.run_id))
    for content in (form.heading.text, form.html(), form.text()):
        assert "Review the undo of a run" in content


def test_notes_name_the_form_in_whole_sentences() -> None:
    """A note that refers to commands refers to the form, in a separate sentence."""
    note = (
        "2 cells were read with a warning. `petsync check` (in Python sheet.findings) lists them."
    )
    shown = "2 cells were read with a warning. The form of the sheet lists them."
    assert as_button_text(note) == shown


def test_a_conflict_about_another_worksheet_names_the_forms_own_choice(
    store: ps.Store, open_form: FormOpener, tmp_path: Path
) -> None:
    """The advice of a conflict that offers no choice of values names no option."""
    path = tmp_path / "two.xlsx"
    ps.write_sheet(store.snapshot(), path)
    book = load_workbook(path)
    sheet = book.worksheets[0]
    head, row = ([cell.value for cell in cells] for cells in (sheet[1], sheet[2]))
    sheet.delete_rows(2)
    more = book.create_sheet("More")
    more.append(head)
    more.append(row)
    book.save(path)
    form = open_form(store.plan(path, delete_missing=True))
    shown = repr(form.held.rows)
    assert "If that is the worksheet to read, choose it as the sheet's “Worksheet”." in shown
    assert "--" not in shown


def test_hostile_words_are_shown_as_text(store: ps.Store, open_form: FormOpener) -> None:
    """Hostile names of pets are text in all HTML of the form."""
    store.api.update_pet(replace(SHOP[0], name=HOSTILE))
    sheet = sheet_saying({"id": 1, "action": "delete"}, {"id": 2, "name": HOSTILE})
    form = open_form(store.plan(sheet))
    form.apply.click()
    assert form.work.wait()
    form.sure.value = True
    contents: Sequence[str] = [form.html(), form.question.value, form.overview.value]
    form.send.click()
    finish(form)
    for html in (*contents, form.html(), form.problems.value, form.changed.value):
        assert "<img" not in html
        assert "\u202e" not in html
    assert "&lt;img" in contents[1]


def test_what_is_no_plan_is_refused(store: ps.Store) -> None:
    """An argument that is not a plan is an error that names its type."""
    with pytest.raises(PlanError, match="a str is not a plan"):
        review("plan.json", store)  # type: ignore[arg-type]
